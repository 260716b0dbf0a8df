"""No hint of a refusal leads past a living holder, owner or runner: on the command line, over HTTP and over MCP."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "mcp"))
from agent import Agent  # noqa: E402
from common import instance_of, sleeper  # noqa: E402
from harness.harness import eq, main, test  # noqa: E402
from http_common import Server, register  # noqa: E402
from requests_common import GATE, add, begin, go, spawn  # noqa: E402

PAST = ("--yes", "force-claim", "kill", "cancel", "release", "stop --now", "queue stop", "replace", "--force", "--new")
FORCE_LAST = {"LOCK_HELD": "--force", "SPRINT_BLOCKED": "--force", "workflow_owned_by_other": "force-claim"}


def check(error, codes, where):
    """Wait and look; only the refusals of a lock, a sprint and a workflow end with force, which asks."""
    code, commands = error["reason_code"], error.get("next", [])
    assert code in codes, f"{where}: {error}"
    for number, command in enumerate(commands):
        past = [word for word in PAST if word in command]
        is_force = past == [FORCE_LAST.get(code)] and 0 < number == len(commands) - 1
        assert not past or is_force, f"{where}: {code} proposes {commands}"


def walk(ws, cli, http, tool, codes, is_mine=False):
    """One refusal on every skin that has it. Each of them changes nothing, so that the next one finds the same holder."""
    check(ws.tasuki("--json", *cli).error, codes, f"tasuki {' '.join(map(str, cli))}")
    if http:
        method, path, body = http
        answer = walk.server.ask(method, path, body if body is None else {**body, **(walk.me if is_mine else {})})
        assert answer.status == 409, f"{method} {path}: {answer.status} {answer.body}"
        check(answer.error, codes, f"{method} {path}")
    if tool:
        _, error = walk.agent.refused(tool[0], **tool[1])
        check(error, codes, tool[0])


def skins(ws):
    walk.server = Server(ws)
    walk.me = register(walk.server)
    walk.agent = Agent(ws, "--tools", "all")


@test("a held lock: wait, look, and force last; a refused force proposes no yes")
def _(ws):
    ws.tasuki("lock", "acquire", "name", "a", "--pid", sleeper(ws).pid).expect(0)
    skins(ws)
    held, forced = ("LOCK_HELD",), ("NEEDS_CONFIRMATION",)
    walk(ws, ("lock", "acquire", "name", "a"), ("POST", "/api/locks/name/a", {}),
         ("lock_acquire", {"kind": "name", "id": "a"}), held, True)
    walk(ws, ("lock", "run", "a", "--", "true"), None, None, held)
    walk(ws, ("lock", "acquire", "name", "a", "--force"), ("POST", "/api/locks/name/a/force", {}),
         ("lock_acquire", {"kind": "name", "id": "a", "force": True}), forced, True)


@test("a living sprint: the same; its release by somebody else proposes no yes")
def _(ws):
    who = ("--session", "mine", "--epic", "e2")
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e", "--pid", sleeper(ws).pid).expect(0)
    skins(ws)
    blocked, forced = ("SPRINT_BLOCKED",), ("NEEDS_CONFIRMATION",)
    for more, codes in (((), blocked), (("--force",), forced)):
        check(ws.tasuki("lock", "acquire", "sprint", *more, *who, "--json").error, codes, "lock acquire sprint")
    body = {"session": "mine", "epic": "e2", **walk.me}
    for more in ({}, {"force": True}):
        for answer in (walk.server.post("/api/sprint", {**body, **more}).body.decode(),
                       walk.agent.refused("sprint_acquire", session="mine", epic="e2", **more)[0]):
            assert "force-claim" not in answer and "kill" not in answer, answer
            assert "acquire --force --yes" not in answer and "acquire --yes" not in answer, answer
    text, _ = walk.agent.refused("sprint_release")
    assert "release --yes" not in text and "--force" not in text, text
    for more in ((), ("--session", "s")):  # the session id stands in every refusal: it is no proof
        assert "sprint acquire" not in text, text
        eq(ws.tasuki("lock", "release", "sprint", *more, "--json").expect(6).error["next"], ["tasuki sprint check"], "what to do next")
        shown = ws.tasuki("sprint", "release", *more).expect(6).err
        assert "tasuki sprint check" in shown and "acquire" not in shown and "--yes" not in shown, shown
        text = walk.agent.refused("sprint_release", **dict([(more[0][2:], more[1])] if more else []))[0]


@test("a workflow of a living owner: look, wait, and force last; a refused force proposes no yes")
def _(ws):
    ws.tasuki("own", "claim", "W", "--instance", instance_of(sleeper(ws).pid)).expect(0)
    skins(ws)
    owned, forced = ("workflow_owned_by_other",), ("NEEDS_CONFIRMATION",)
    walk(ws, ("own", "claim", "W"), ("POST", "/api/workflows/W/claim", {}),
         ("ul_workflow_claim", {"ulTaskId": "W"}), owned, True)
    walk(ws, ("own", "release", "W"), ("POST", "/api/workflows/W/release", {}),
         ("ul_workflow_release", {"ulTaskId": "W"}), owned, True)
    walk(ws, ("own", "force-claim", "W"), ("POST", "/api/workflows/W/force-claim", {}),
         ("ul_workflow_force_claim", {"ulTaskId": "W"}), forced, True)


@test("a run in progress: look, follow it, wait; no command cancels or replaces it")
def _(ws):
    runner, run = begin(ws, "RQ-1")
    skins(ws)
    busy, forced = ("RUN_IN_PROGRESS",), ("NEEDS_CONFIRMATION",)
    walk(ws, ("request", "run", "RQ-1"), ("POST", "/api/requests/RQ-1/run", {}),
         ("request_run", {"request": "RQ-1"}), busy)
    walk(ws, ("request", "run", "RQ-1", "--on-conflict", "replace"), None, None, forced)
    walk(ws, ("request", "rm", "RQ-1"), ("DELETE", "/api/requests/RQ-1", None), None, busy)
    walk(ws, ("runs", "rm", run), ("DELETE", f"/api/runs/{run}", None), None, busy)
    walk(ws, ("resume", run), ("POST", f"/api/runs/{run}/resume", {}), ("run_resume", {"run": run}), busy)
    go(ws)
    runner.wait(60)


@test("a queue in progress: look, wait; no command stops it")
def _(ws):
    add(ws, "RQ-1", GATE)
    runner = spawn(ws, "queue", "run")
    ws.until_file("up")
    skins(ws)
    walk(ws, ("queue", "run"), ("POST", "/api/queue/start", {}), ("queue_run", {}), ("QUEUE_IN_PROGRESS",))
    go(ws)
    runner.wait(60)


@test("the removal of a running process: look, stop it in good order; no command removes it by force")
def _(ws):
    ws.tasuki("proc", "create", "web", "--", "sleep", "1000").expect(0)
    ws.tasuki("proc", "start", "web").expect(0)
    skins(ws)
    walk(ws, ("proc", "remove", "web"), ("DELETE", "/api/processes/web", None),
         ("remove_process", {"id": "web"}), ("NEEDS_CONFIRMATION",))
    ws.tasuki("proc", "stop", "web").expect(0)


main(__name__)
