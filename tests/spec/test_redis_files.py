"""Spec 6, "More than one machine": files that travel with a run, and workers with another commit."""

import os
import struct
import subprocess

from flows import last_document, only_run, write_flow
from harness.harness import eq, main, test
from harness.redis import Redis


def far_worker(ws, redis, *args):
    """A worker whose directory has nothing of the workspace."""
    far = ws.path.parent / "far"
    far.mkdir(exist_ok=True)
    return redis.worker("-j", "2", "--name", "far", "--dir", str(far), *args), far


def run(ws, redis, text, *args, code=0):
    return last_document(ws.tasuki("run", write_flow(ws, text), "--json", *args, env=redis.env()).expect(code))


def packs(redis):
    return [key for key in redis.call("KEYS", "tasuki:{files *") if key.endswith(":pack")]


@test("a task runs among the files that travelled with the run, in a directory of its own; they are stored once, with a TTL")
def _(ws):
    redis = Redis(ws)
    _, far = far_worker(ws, redis)
    for name, text in (("scripts/say.sh", "#!/bin/sh\ncat ../data/deep/word; test -x ../data/deep/word || echo plain\n"), ("data/deep/word", "hello\n"), ("data/.git/x", "no")):
        path = ws.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (ws.path / "scripts/say.sh").chmod(0o755)
    (ws.path / "data/link").symlink_to("deep/word")
    flow = """files: [scripts, data]
flow: a >> b
tasks:
  a: {run: ./say.sh, cwd: scripts}
  b: {run: 'ls -A . data; cat data/link; pwd; touch data/mine'}
"""
    eq(run(ws, redis, flow)["status"], "DONE", "status")
    logs = ws.tasuki("runs", "logs", "@1").expect(0).out
    eq(("hello\nplain" in logs, ".git" in logs, str(far) in logs), (True, False, False), f"what the tasks saw, {logs}")
    eq(len(packs(redis)), 1, "packs in Redis")
    eq(0 < redis.call("TTL", packs(redis)[0]) <= 604800, True, "its TTL")
    eq(run(ws, redis, flow)["status"], "DONE", "status of a second run")
    eq(len(packs(redis)), 1, "packs in Redis after the second run")
    eq(os.listdir(far), [], "what is left in the worker's directory")
    eq([name for name in os.listdir(redis.dir) if "files" in name], [], "what is left of the tasks' directories")
    eq(redis.keys_without_ttl(), [], "keys without a TTL")


@test("what cannot travel is refused before anything starts: too large, outside, a link that leaves, no file")
def _(ws):
    redis = Redis(ws)
    (ws.path / "big").mkdir()
    (ws.path / "big/small").write_bytes(b"x" * 1000)
    with open(ws.path / "big/huge", "wb") as huge:
        huge.truncate(40 << 20)
    (ws.path / "out").symlink_to("/etc")
    (ws.path / "sub").mkdir()
    (ws.path / "sub/up").symlink_to("../../secret")
    (ws.path / "sub/turn").symlink_to("up/../x")
    os.mkfifo(ws.path / "pipe")
    for files, words in (("[big]", ["41944", "big/huge", "33554432"]), ("[../x]", ["../x"]), ("[/etc/passwd]", ["/etc/passwd"]), ("[a//b]", ["a//b"]),
                         ("[out]", ["out", "/etc"]), ("[out/passwd]", ["out/passwd"]), ("[sub]", ["sub/turn"]), ("[sub/up]", ["sub/up"]),
                         ("[pipe]", ["pipe"]), ("[missing]", ["missing"])):
        result = ws.tasuki("run", write_flow(ws, f"files: {files}\ntasks: {{t: {{run: 'touch ran'}}}}\n"), env=redis.env())
        eq((result.code != 0, [word for word in words if word not in result.err]), (True, []), f"refusal of {files}: {result.err}")
    runs = ws.path / ".aiflow/runs"
    eq([name for name in os.listdir(runs) if name.startswith("RUN")] if runs.exists() else [], [], "runs")
    eq(packs(redis), [], "packs in Redis")


@test("files with another content than the run's are refused by the worker, and the task fails with the reason", slow=True)
def _(ws):
    redis = Redis(ws)
    (ws.path / "word").write_text("right")
    flow = "files: [word]\ntasks: {t: {run: 'touch ran; cat word'}}\n"
    redis.worker("-j", "1", "--name", "first")
    eq(run(ws, redis, flow)["status"], "DONE", "status")
    redis.end_worker(redis.workers[0])
    key = packs(redis)[0]
    redis.call("SETRANGE", key, redis.call("STRLEN", key) - 4, "ong")
    (ws.path / "ran").unlink(missing_ok=True)
    redis.worker("-j", "1", "--name", "second")
    stage = run(ws, redis, flow, code=7)
    eq("other files" in stage["failures"][0]["reason"], True, f"the reason, {stage['failures'][0]['reason']}")
    eq((ws.path / "ran").exists(), False, "whether it ran")


def piece(data):
    data = data if isinstance(data, bytes) else data.encode()
    return struct.pack("<I", len(data)) + data + b"\0"


@test("a pack that was made to escape is refused, and nothing outside is written", slow=True)
def _(ws):
    redis = Redis(ws)
    far_worker(ws, redis)
    (ws.path / "word").write_text("right")
    outside = ws.path.parent / "outside"
    run(ws, redis, "files: [word]\ntasks: {t: {run: 'exit 1'}}\n", code=7)
    pack = ws.path / ".aiflow/runs" / only_run(ws) / "files.pack"
    for entries in ([("f", "../outside", "x")], [("f", str(outside), "x")], [("l", "a", "..")], [("l", "a", "/tmp")], [("l", "a", "x/../..")],
                    [("d", "a", ""), ("l", "a/b", "../.."), ("f", "a/c", "x")], [("q", "a", "")]):
        pack.write_bytes(piece("tasuki-files 1") + b"".join(piece(part) for entry in entries for part in entry))
        stage = last_document(ws.tasuki("resume", only_run(ws), "--json", env=redis.env()).expect(7))
        eq("other files" in stage["failures"][-1]["reason"], True, f"the reason for {entries}, {stage['failures'][-1]['reason']}")
    pack.write_bytes(piece("tasuki-files 1") + b"".join(piece(part) for part in ("l", "a", "..x", "f", "a/outside", "x")))
    ws.tasuki("resume", only_run(ws), "--json", env=redis.env()).expect(7)
    eq((outside.exists(), (ws.path.parent / "..x").exists()), (False, False), "whether something was written outside")


def git(path, *args):
    subprocess.run(["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-C", str(path), *args], check=True, capture_output=True)


@test("a worker with another commit than the runner's: one event, and a column")
def _(ws):
    redis = Redis(ws)
    _, far = far_worker(ws, redis)
    for path, text in ((ws.path, "one"), (far, "two")):
        git(path, "init", "-q")
        git(path, "commit", "-q", "--allow-empty", "-m", text)
    redis.end_worker(redis.workers[0])
    far_worker(ws, redis)
    head = subprocess.run(["git", "-C", str(far), "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    stage = run(ws, redis, "flow: a >> b\ntasks: {a: {run: 'true'}, b: {run: 'true'}}\n")
    eq([t.get("commit") for t in stage["tasks"]], [head, head], "commits of the tasks")
    eq([(e["data"]["worker"], e["data"]["commit"]) for e in ws.events("run.other_commit")], [("far", head)], "events")
    show = ws.tasuki("runs", "show", only_run(ws)).expect(0).out.splitlines()
    eq((show[-3].split()[-1], show[-1].split()[-1]), ("COMMIT", head[:10]), f"the column of {show}")
    git(far, "pack-refs", "--all")
    table = ws.tasuki("workers", "list", "--redis", redis.url).expect(0).out.splitlines()
    eq((table[0].split()[-1], table[1].split()[-1]), ("COMMIT", head[:10]), f"the column of {table}")


main(__name__)
