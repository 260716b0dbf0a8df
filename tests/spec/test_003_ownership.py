#!/usr/bin/env python3
"""Seed 003: which instance may drive a workflow. Its six scenarios, its error objects key by key, its ids."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from harness.harness import eq, main, test  # noqa: E402
from harness.workspace import children_of  # noqa: E402
from mcp.agent import Agent  # noqa: E402
from spec.common import dead_pid, sleeper  # noqa: E402
from spec.who_common import WRAPPER  # noqa: E402

HOST = socket.gethostname()
WORKFLOW = "2026-02-25T18-44-58--edb94a81"
CHECK_KEYS = ["owned", "ulTaskId", "ownerInstanceId", "ownerPid", "ownerAlive", "fence", "who"]
DETAIL_KEYS = ["error", "ulTaskId", "ownerInstanceId", "ownerPid", "outcomeCode", "retryRecommended"]
DEAD = {"TASUKI_INSTANCE_ID": f"{HOST}-{2**22 + 1}-1708940400000"}  # no pid is that large


class Instance:
    """A program of its own that runs tasuki: `claim` in a shell that lives until close() or kill()."""

    def __init__(self, ws, *args):
        self.ws = ws
        script = ws.base / "instance.sh"
        script.write_text('"$@"\necho $?\nread -r line\n')
        self.proc = ws.spawn_command(["sh", script, ws.binary, *args, "--json"], stdin=subprocess.PIPE)
        self.lines = []
        while not re.fullmatch(r"\d+\n", self.lines[-1] if self.lines else ""):
            self.lines.append(self.proc.stdout.readline())
        self.code = int(self.lines[-1])

    def kill(self):
        self.proc.kill()
        self.proc.wait()


def check(ws, *args, env=None, code=0):
    answer = ws.tasuki("own", "check", WORKFLOW, "--json", *args, env=env).expect(code).json
    eq(list(answer), CHECK_KEYS, "the keys")
    return answer


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def named(id):
    return {"TASUKI_INSTANCE_ID": id}


def start_ms(pid):
    """When a process started, in ms since the epoch."""
    ticks = int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    btime = next(int(line.split()[1]) for line in pathlib.Path("/proc/stat").read_text().splitlines() if "btime" in line)
    return btime * 1000 + ticks * 1000 // os.sysconf("SC_CLK_TCK")


# -- the six scenarios ---------------------------------------------------------------------------------------

@test("seed 003 scenario 1: instance ids are {hostname}-{pid}-{start in ms}, and unique")
def _(ws):
    owners = [Instance(ws, "own", "claim", f"w{i}") for i in range(5)]
    listed = {w["ulTaskId"]: w for w in ws.tasuki("own", "list", "--json").json["workflows"]}
    ids = [listed[f"w{i}"]["ownerInstanceId"] for i in range(5)]
    eq(len(set(ids)), 5, "different ids")
    for owner, id in zip(owners, ids):
        eq(id.rsplit("-", 2)[:2], [HOST, str(owner.proc.pid)], "hostname and pid")
        assert abs(int(id.rsplit("-", 1)[1]) - start_ms(owner.proc.pid)) < 2000, id


@test("seed 003 scenario 2: the same instance goes on owning")
def _(ws):
    first = ws.tasuki("own", "claim", WORKFLOW, "--json").expect(0).json
    again = ws.tasuki("own", "claim", WORKFLOW, "--json").expect(0).json
    eq((first["claimed"], again["claimed"]), (True, False), "claimed")
    eq(again["fence"], first["fence"], "the fence")
    found = check(ws)
    eq((found["owned"], found["ownerPid"], found["ownerAlive"]), (True, os.getpid(), True), "check")
    nested = ws.run(["sh", "-c", f'{ws.binary} own check {WORKFLOW} --json'])
    eq(nested.expect(0).json["owned"], True, "a shell command of the same program")


@test("seed 003 scenario 3: another instance is refused while the owner lives")
def _(ws):
    owner = Instance(ws, "own", "claim", WORKFLOW)
    eq(owner.code, 0, "the first claim")
    found = check(ws, code=4)
    eq((found["owned"], found["ownerPid"], found["ownerAlive"]), (False, owner.proc.pid, True), "check")
    ws.tasuki("own", "claim", WORKFLOW, "--json").expect(4, "workflow_owned_by_other")
    ws.tasuki("own", "release", WORKFLOW, "--json").expect(4, "workflow_owned_by_other")
    eq(check(ws, code=4)["fence"], found["fence"], "the fence")


@test("seed 003 scenario 4: a dead owner's workflow moves to whoever asks, unless that is switched off")
def _(ws):
    owner = Instance(ws, "own", "claim", WORKFLOW)
    owner.kill()
    found = check(ws, "--no-auto-claim", code=4)
    eq((found["owned"], found["ownerPid"], found["ownerAlive"]), (False, owner.proc.pid, False), "without auto-claim")
    refused = ws.tasuki("own", "claim", WORKFLOW, "--no-auto-claim", "--json").expect(4, "workflow_owned_by_other")
    eq(refused.error["next"], [f"tasuki own claim {WORKFLOW}"], "next")
    found = check(ws)
    eq((found["owned"], found["ownerPid"], found["fence"]), (True, os.getpid(), 2), "with it")
    last = ws.events("workflow.claimed")[-1]["data"]
    eq((last["how"], last["fence"]), ("dead owner", 2), "the event")
    assert last["before"].startswith(f"{HOST}-{owner.proc.pid}-"), last


@test("seed 003 scenario 5: force-claim takes a workflow from anyone, from a living owner with a yes")
def _(ws):
    owner = Instance(ws, "own", "claim", WORKFLOW)
    refused = ws.tasuki("own", "force-claim", WORKFLOW, "--json").expect(6, "NEEDS_CONFIRMATION")
    eq(refused.error["next"][-1], f"tasuki own claim {WORKFLOW} --wait 10m", "next")
    eq(check(ws, code=4)["ownerPid"], owner.proc.pid, "nothing moved")
    said_no = ws.tty(["own", "force-claim", WORKFLOW], ["n"])
    eq(said_no.code, 4, "after a no")
    assert f"ps -p {owner.proc.pid}" in said_no.out, said_no
    taken = ws.tasuki("own", "force-claim", WORKFLOW, "--yes", "--json").expect(0).json
    eq((taken["owned"], taken["claimed"], taken["fence"]), (True, True, 2), "after a yes")
    former = named(taken["before"])
    ws.tasuki("own", "release", WORKFLOW, "--json", env=former).expect(4, "workflow_owned_by_other")
    ws.tasuki("own", "claim", WORKFLOW, "--json", env=former).expect(4, "workflow_owned_by_other")
    ws.tasuki("own", "claim", "other", env=DEAD).expect(0)
    ws.tasuki("own", "force-claim", "other").expect(0)  # from a dead owner nobody needs to be asked


@test("seed 003 scenario 6: the delegation tools respect who owns the workflow")
def _(ws):
    (ws.path / ".aiflow/config.yaml").write_text(
        'agents: {a: {run: [sh, -c, "echo x >> started", sh, "{task}"]}}\nteams: {t: {agents: [a]}}\n')
    owner = Instance(ws, "own", "claim", WORKFLOW)
    agent = Agent(ws)
    for tool, args in (("subagent_run", {"subagentId": "a", "task": "x"}),
                       ("subagent_run_parallel", {"subagentIds": ["a"], "task": "x"}),
                       ("subagent_run_dag", {"tasks": [{"id": "i", "subagentId": "a", "task": "x"}]}),
                       ("agent_team_run", {"teamId": "t", "task": "x"}),
                       ("agent_team_run_parallel", {"teamIds": ["t"], "task": "x"}),
                       ("loop_run", {"subagentId": "a", "task": "x", "maxIterations": 1})):
        result = agent.call(tool, ulTaskId=WORKFLOW, **args)
        details = result["structuredContent"]["details"]
        eq((list(details), details["error"], details["ownerPid"]), (DETAIL_KEYS, "ul_workflow_not_owned", owner.proc.pid), tool)
        begin = f"error: UL workflow {WORKFLOW} is owned by another instance ({details['ownerInstanceId']})."
        assert result["isError"] and result["content"][0]["text"].startswith(begin), result
    assert not (ws.path / "started").exists(), "something was started"
    owner.kill()
    agent.ok("subagent_run", subagentId="a", task="x", ulTaskId=WORKFLOW)
    eq(check(ws)["owned"], True, "a dead owner's workflow moved before the work began")


# -- the errors ----------------------------------------------------------------------------------------------

@test("workflow_owned_by_other has the seed's details beside the error, key by key")
def _(ws):
    owner = Instance(ws, "own", "claim", WORKFLOW)
    refused = ws.tasuki("own", "claim", WORKFLOW, "--json").expect(4).json
    eq(list(refused), ["error", "details"], "the document")
    id = refused["details"]["ownerInstanceId"]
    eq(list(refused["details"]), DETAIL_KEYS, "the keys")
    eq(refused["details"], {"error": "workflow_owned_by_other", "ulTaskId": WORKFLOW, "ownerInstanceId": id,
                            "ownerPid": owner.proc.pid, "outcomeCode": "NONRETRYABLE_FAILURE",
                            "retryRecommended": False}, "the details")
    eq(refused["error"]["category"], "OWNERSHIP", "category")
    assert refused["error"]["message"].startswith(f"UL workflow {WORKFLOW} is owned by another instance ({id})."), refused
    eq(refused["error"]["next"], [f"ps -p {owner.proc.pid}", f"tasuki own claim {WORKFLOW} --wait 10m", f"tasuki own force-claim {WORKFLOW}"], "next")
    words = [next(w for w in ("ps -p", "Wait", "force-claim") if w in action) for action in refused["error"]["actions"]]
    eq(words, ["ps -p", "Wait", "force-claim"], "actions: look, wait, force")


@test("over MCP the refusal begins with the seed's words in every language, and has the same details")
def _(ws):
    owner = Instance(ws, "own", "claim", WORKFLOW)
    for lang in ("en", "ja", "zh"):
        agent = Agent(ws, env={"TASUKI_LANG": lang})
        result = agent.call("ul_workflow_claim", ulTaskId=WORKFLOW)
        details = result["structuredContent"]["details"]
        begin = f"error: UL workflow {WORKFLOW} is owned by another instance ({details['ownerInstanceId']})."
        assert result["isError"] and result["content"][0]["text"].startswith(begin), result
        eq((list(details), details["ownerPid"]), (DETAIL_KEYS, owner.proc.pid), "details")
        eq(result["structuredContent"]["error"]["reason_code"], "workflow_owned_by_other", "reason code")
        agent.close()


@test("over MCP a check is an answer, not a refusal")
def _(ws):
    Instance(ws, "own", "claim", WORKFLOW)
    agent = Agent(ws)
    found = agent.ok("ul_workflow_check", ulTaskId=WORKFLOW)
    eq((list(found), found["owned"]), (CHECK_KEYS, False), "check")


# -- ids ------------------------------------------------------------------------------------------------------

@test("an id whose pid does not exist is dead, and one whose pid was reused")
def _(ws):
    living = sleeper(ws)
    started = start_ms(living.pid)
    for dead in (f"{HOST}-{dead_pid()}-{started}", f"{HOST}-{living.pid}-{started - 60000}"):
        ws.tasuki("own", "claim", WORKFLOW, env=named(dead)).expect(0)
        eq(check(ws, "--no-auto-claim", code=4)["ownerAlive"], False, dead)
        ws.tasuki("own", "claim", WORKFLOW).expect(0)
        ws.tasuki("own", "release", WORKFLOW).expect(0)


@test("an id of a living process is alive, whenever the program made it")
def _(ws):
    living = sleeper(ws)
    id = f"{HOST}-{living.pid}-{start_ms(living.pid) + 5000}"
    ws.tasuki("own", "claim", WORKFLOW, env=named(id)).expect(0)
    eq(check(ws, code=4)["ownerAlive"], True, "alive")
    living.kill()
    living.wait()
    eq(check(ws)["owned"], True, "after its end")


@test("ids with dashes in the hostname are split from the right; of other hosts and forms nothing is known")
def _(ws):
    for id, pid in ((f"my-{HOST}-host-12-4711-1708940400000", 4711), ("agent-7", None), ("worker", None)):
        ws.tasuki("own", "claim", id[:20], env=named(id)).expect(0)
        found = ws.tasuki("own", "check", id[:20], "--json").expect(4).json
        eq((found["ownerPid"], found["ownerAlive"]), (pid, None), id)
        refused = ws.tasuki("own", "claim", id[:20], "--json").expect(4, "workflow_owned_by_other")
        assert any("force-claim" in command for command in refused.error["next"]), refused
        ws.tasuki("own", "force-claim", id[:20], "--json").expect(6)
        ws.tasuki("own", "force-claim", id[:20], "--yes").expect(0)


@test("the caller is --instance, else TASUKI_INSTANCE_ID, else the process that calls")
def _(ws):
    ws.tasuki("own", "claim", "a", "--instance", "flag", env=named("variable")).expect(0)
    ws.tasuki("own", "claim", "b", env=named("variable")).expect(0)
    ws.tasuki("own", "claim", "c").expect(0)
    owners = {w["ulTaskId"]: w["ownerInstanceId"] for w in ws.tasuki("own", "list", "--json").json["workflows"]}
    eq((owners["a"], owners["b"]), ("flag", "variable"), "by name")
    assert owners["c"].startswith(f"{HOST}-{os.getpid()}-"), owners
    ws.tasuki("own", "claim", "d", "--instance", "x" * 300, "--json").expect(2, "INVALID_INPUT")
    ws.tasuki("own", "claim", "d", "--json", env=named("x" * 300)).expect(2, "INVALID_INPUT")
    ws.tasuki("own", "claim", "../d", "--json").expect(2, "INVALID_INPUT")


# -- the operations -------------------------------------------------------------------------------------------

@test("a released workflow belongs to nobody, keeps its fence, and a check leaves it free")
def _(ws):
    eq(check(ws), {"owned": False, "ulTaskId": WORKFLOW, "ownerInstanceId": None, "ownerPid": None, "ownerAlive": None,
                   "fence": 0, "who": None}, "before anybody came")
    ws.tasuki("own", "show", WORKFLOW, "--json").expect(5, "NOT_FOUND")
    ws.tasuki("own", "claim", WORKFLOW).expect(0)
    eq(ws.tasuki("own", "release", WORKFLOW, "--json").expect(0).json["existed"], True, "the first release")
    eq(ws.tasuki("own", "release", WORKFLOW, "--json").expect(0).json["existed"], False, "the second")
    found = check(ws)
    eq((found["owned"], found["ownerInstanceId"], found["fence"]), (False, None, 1), "check")
    eq(ws.tasuki("own", "list", "--json").json["workflows"], [], "list")
    eq(len(ws.tasuki("own", "list", "--all", "--json").json["workflows"]), 1, "list --all")
    eq(ws.tasuki("own", "claim", WORKFLOW, "--json").json["fence"], 2, "the next fence")
    eq([e["type"] for e in ws.events() if e["type"].startswith("workflow.")],
       ["workflow.claimed", "workflow.released", "workflow.claimed"], "events")


@test("own show and own list say who and how we know")
def _(ws):
    owner = Instance(ws, "own", "claim", WORKFLOW)
    shown = ws.tasuki("own", "show", WORKFLOW, "--json").expect(0).json
    eq((shown["ownerPid"], shown["how"]), (owner.proc.pid, "process exists"), "show")
    eq(ws.tasuki("own", "list", "--json").json["workflows"], [shown], "list")
    text = ws.tasuki("own", "list").expect(0).out
    assert WORKFLOW in text and "alive" in text and shown["ownerInstanceId"] in text, text


# -- an agent's tools and shell commands ----------------------------------------------------------------------

@test("an agent's tools and its shell commands are one instance")
def _(ws):
    agent = Agent(ws, "--tools", "core,ownership")
    claimed = agent.ok("ul_workflow_claim", ulTaskId=WORKFLOW)
    eq(claimed["ownerPid"], os.getpid(), "the agent is this program")
    eq(check(ws)["owned"], True, "from a shell command")
    status = agent.ok("get_status", register=True)
    eq((status["instance"], "secret" in status), (claimed["ownerInstanceId"], False), "who it is, without a secret")
    eq(agent.ok("ul_workflow_release", ulTaskId=WORKFLOW)["existed"], True, "release")


@test("what an agent claimed is free at the end of its grace period, unless it came back")
def _(ws):
    agent = Agent(ws, "--grace", "0s")
    id = agent.ok("ul_workflow_claim", ulTaskId=WORKFLOW)["ownerInstanceId"]
    agent.close()
    eq(ws.tasuki("own", "list", "--json").json["workflows"], [], "with no grace")
    agent = Agent(ws, "--grace", "1h")
    eq(agent.ok("ul_workflow_claim", ulTaskId=WORKFLOW)["ownerInstanceId"], id, "it is the same one again")
    agent.close()
    waiting = ws.until(lambda: [pid for pid in children_of(os.getpid()) if b"--let-go" in command_line(pid)],
                       "somebody waits for the end of the grace")
    eq(len(ws.tasuki("own", "list", "--json").json["workflows"]), 1, "in its grace")
    os.kill(waiting[0], signal.SIGKILL)
    agent = Agent(ws)
    agent.ok("ul_workflow_check", ulTaskId=WORKFLOW)  # it is back
    ws.tasuki("mcp", "--let-go", "--instance", id, "--grace", "0s").expect(0)
    eq(len(ws.tasuki("own", "list", "--json").json["workflows"]), 1, "after it came back")
    agent.kill()
    ws.tasuki("mcp", "--let-go", "--instance", id, "--grace", "0s").expect(0)
    eq(ws.tasuki("own", "list", "--json").json["workflows"], [], "after it has not")


@test("force-claim by an agent needs a person's yes for a living owner")
def _(ws):
    Instance(ws, "own", "claim", WORKFLOW)
    agent = Agent(ws, "--tools", "ownership")
    text, error = agent.refused("ul_workflow_force_claim", ulTaskId=WORKFLOW, confirm=True)
    eq(error["reason_code"], "NEEDS_CONFIRMATION", "its own yes is not enough")
    token = error["context"]["confirm_token"]
    ws.tasuki("confirm", token).expect(6)  # this test is the agent
    ws.run([sys.executable, "-c", WRAPPER, ws.binary, "confirm", token]).expect(0)
    taken = agent.ok("ul_workflow_force_claim", ulTaskId=WORKFLOW, confirm_token=token)
    eq((taken["owned"], taken["ownerPid"]), (True, os.getpid()), "after a person's yes")


main(__name__)
