"""Spec 6, "More than one machine": signed specifications, dead letters, passwords in files."""

import os
import pathlib
import struct

from flows import last_document, only_run, write_flow
from harness.harness import eq, main, test
from harness.redis import Redis
from harness.sources import ROOT

FLOW = "lease: 30s\ntasks: {t: {run: 'touch ran'}}\n"


def key_file(ws, name, text="0123456789abcdef0123456789abcdef\n", mode=0o600):
    path = ws.path.parent / name
    path.write_text(text)
    path.chmod(mode)
    return {"TASUKI_REDIS_KEY_FILE": str(path)}


def run(ws, redis, more, code, flow=FLOW):
    return last_document(ws.tasuki("run", write_flow(ws, flow), "--json", env=redis.env(more)).expect(code))


def letters(redis):
    return [line.split("\t")[4] for line in redis.call("LRANGE", "tasuki:{pool default}:dead", 0, -1)]


@test("with the same key file tasks run; without one or with another they do not, and the task fails with the reason")
def _(ws):
    redis = Redis(ws)
    good = key_file(ws, "key")
    redis.worker("-j", "1", env=good)
    eq(run(ws, redis, good, 0)["status"], "DONE", "status with the same key")
    (ws.path / "ran").unlink()
    for more, words, letter in (({}, "found no signature", "unsigned"), (key_file(ws, "other", "x" * 32), "another key", "signature")):
        stage = run(ws, redis, more, 7)
        eq(words in stage["failures"][0]["reason"], True, f"the reason, {stage['failures'][0]['reason']}")
        eq(letters(redis)[0], letter, "the last dead letter")
    eq((ws.path / "ran").exists(), False, "whether it ran")
    eq(redis.keys_without_ttl(), [], "keys without a TTL")


def queued(ws, redis, count):
    """The key of the specifications, once so many attempts wait for a worker."""
    ws.until(lambda: sum(redis.call("LLEN", key) for key in redis.call("KEYS", "tasuki:*:queue:*")) == count, "the attempts")
    return redis.call("KEYS", "tasuki:*:specs:*")[0]


def piece(data):
    return struct.pack("<I", len(data)) + data + b"\0"


@test("an item that somebody else has put there, changed, or moved from another attempt is never executed", slow=True)
def _(ws):
    redis = Redis(ws)
    good = key_file(ws, "key")
    runner = ws.spawn("run", write_flow(ws, "lease: 30s\ntasks: {t: {run: 'touch ran'}, u: {run: 'touch ran'}, v: {run: 'touch ran'}}\n"), "-j", "3", "--json",
                      env=redis.env(good))
    specs = queued(ws, redis, 3)
    one, two, three = sorted(redis.call("HKEYS", specs))
    raw = {}
    for id in (one, two):  # as bytes: the answer of HGET is text here
        redis.connection.write(b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in (b"HGET", specs.encode(), id.encode())))
        redis.connection.flush()
        raw[id] = redis.connection.read(int(redis.connection.readline()[1:]) + 2)[:-2]
    redis.call("HSET", specs, one, raw[two])
    redis.call("HSET", specs, two, raw[two].replace(b"ran", b"RAN"))
    redis.call("HSET", specs, three, b"garbage")
    redis.worker("-j", "1", env=good)
    stage = last_document(ws.finish(runner).expect(7))
    eq(len(stage["failures"]), 3, "failures")
    eq(sorted(letters(redis)), ["signature", "signature", "unsigned"], "dead letters")
    eq([name for name in ("ran", "RAN") if (ws.path / name).exists()], [], "what ran")


@test("an item that cannot be read is refused by a worker without a key as well, at once", slow=True)
def _(ws):
    redis = Redis(ws)
    runner = ws.spawn("run", write_flow(ws, FLOW), "--json", env=redis.env())
    specs = queued(ws, redis, 1)
    redis.call("HSET", specs, redis.call("HKEYS", specs)[0], piece(piece(b"x")) + piece(b""))
    redis.worker("-j", "1")
    stage = last_document(ws.finish(runner).expect(7))
    eq("could not read the task" in stage["failures"][0]["reason"], True, f"the reason, {stage['failures'][0]['reason']}")
    eq((letters(redis), ws.events("task.lost")), (["unreadable"], []), "dead letters, and losses")


@test("a key file that others can read, or that is too short, is refused before anything starts, with the command that helps")
def _(ws):
    redis = Redis(ws)
    for more, words in ((key_file(ws, "open", mode=0o644), "other users can read"), (key_file(ws, "short", "abc"), "16 bytes"),
                        ({"TASUKI_REDIS_KEY_FILE": "/nowhere/key"}, "/nowhere/key")):
        result = ws.tasuki("run", write_flow(ws, FLOW), env=redis.env(more))
        eq((result.code not in (0, 7), words in result.err), (True, True), f"refusal: {result.err}")
    eq(ws.tasuki("run", write_flow(ws, FLOW), env=redis.env(key_file(ws, "open", mode=0o644))).code not in (0, 7), True, "refusal")


@test("a user with the documented line and a password file can do all that runs and workers need")
def _(ws):
    redis = Redis(ws)
    line = [line for line in (ROOT / "docs/guide/scale.md").read_text().splitlines() if line.startswith("ACL SETUSER")][0]
    redis.call(*line.replace(">PASSWORD", ">s3cret").split())
    password = ws.path.parent / "password"
    password.write_text("s3cret\n")
    password.chmod(0o600)
    more = {"TASUKI_REDIS_USER": "tasuki", "TASUKI_REDIS_PASSWORD_FILE": str(password)}
    (ws.path / "word").write_text("w")
    redis.worker("-j", "2", env=more)
    stage = run(ws, redis, more, 0, "files: [word]\nflow: a >> b\ntasks: {a: {run: 'tasuki channel set k 1'}, b: {run: 'cat word'}}\n")
    eq((stage["status"], stage["channel"]), ("DONE", {"k": 1}), "status and values")
    ws.tasuki("workers", "list", env=redis.env(more)).expect(0)
    eq([e for e in redis.call("ACL", "LOG") if "tasuki" in str(e)], [], "what the server refused")
    only_run(ws)


@test("what says how to reach the server is not in the environment of a task, here or on a worker")
def _(ws):
    redis = Redis(ws)
    env = {"TASUKI_REDIS_PREFIX": "tasuki", "TASUKI_REDIS_POOL": "default", "TASUKI_REDIS_USER": "default"}
    redis.worker("-j", "1", env=env)
    for more in ({"TASUKI_REDIS": redis.url, **env}, {"TASUKI_REDIS": None, **env}):
        flow = write_flow(ws, "tasks: {t: {run: 'env > seen'}}\n")
        ws.tasuki("run", flow, env=redis.env(more)).expect(0)
        seen = (ws.path / "seen").read_text().splitlines()
        eq([line for line in seen if line.startswith("TASUKI_REDIS")], [], "what a task sees")
        eq([line for line in seen if line.startswith("TASUKI_RUN_ID=")] != [], True, "whether it is a task's environment")


def those_with(word, paths):
    for path in paths:
        try:
            if path.is_file() and word in path.read_bytes():
                yield str(path)
        except OSError:  # it is gone
            pass


def leaks(ws, redis, word):
    """Command lines and files that have the word."""
    lines = [pathlib.Path(f"/proc/{pid}/cmdline") for pid in os.listdir("/proc") if pid.isdigit()]
    files = [pathlib.Path(folder) / name for top in (ws.path, redis.dir) for folder, _, names in os.walk(top) for name in names]
    return list(those_with(word, lines + files))


@test("a password is in no command line, file, log or event of a run, detached or not, whose server is away for a while", slow=True)
def _(ws):
    redis, word = Redis(ws), b"open-sesame"
    word += b"-%d" % redis.port  # nobody else's
    redis.call("ACL", "SETUSER", "tasuki", "on", f">{word.decode()}", "~tasuki:*", "resetchannels", "+@all", "-@admin")
    url = redis.url.replace("//", f"//tasuki:{word.decode()}@")
    redis.worker("-j", "2", "--name", "one", env={"TASUKI_REDIS": url})
    flow = write_flow(ws, "lease: 1h\ntasks: {t: {run: 'echo x >> up; until test -e go; do sleep 0.05; done'}}\n")
    runner = ws.spawn("run", flow, "--json", "--concurrent", env=redis.env({"TASUKI_REDIS": url}))
    ws.tasuki("run", flow, "--detach", "--concurrent", "--redis", url, env={"PATH": redis.env()["PATH"]}).expect(0)
    ws.until(lambda: (ws.path / "up").exists() and (ws.path / "up").read_text() == "x\nx\n", "two tasks")
    found = leaks(ws, redis, word)
    redis.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    redis.call("ACL", "SETUSER", "tasuki", "off")
    ws.until(lambda: "Redis" in redis.workers[0].log.read_text(), "the worker's word")
    redis.call("ACL", "SETUSER", "tasuki", "on")
    (ws.path / "go").touch()
    result = ws.finish(runner).expect(0)
    ws.until(lambda: len(ws.events("run.ended")) == 2, "the end of both")
    asked = ws.tasuki("doctor", "--json", env=redis.env({"TASUKI_REDIS": url}))
    told = [asked.out, asked.err, result.out, result.err]
    eq([text for text in told if word.decode() in text], [], "what was told")
    eq(found + leaks(ws, redis, word), [], "command lines and files that have it")


main(__name__)
