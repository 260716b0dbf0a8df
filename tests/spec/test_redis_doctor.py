"""Spec 6, "More than one machine": what doctor says of the server and of the workers."""

import signal

from flows import write_flow
from harness.harness import eq, main, test
from harness.redis import Redis
from harness.workspace import free_port


def examine(ws, redis, more=None):
    """The check `workers`: its status, and its lines."""
    report = ws.tasuki("doctor", "--json", env=redis.env(more)).json
    found = [check for check in report["checks"] if check["name"] == "workers"][0]
    return found["status"], " ".join([found["summary"], *map(str, found["evidence"])])


@test("a server that is well: version, persistence, eviction policy, workers and places in one line")
def _(ws):
    redis = Redis(ws)
    redis.worker("-j", "3")
    status, text = examine(ws, redis)
    eq(status, "PASS", f"status, {text}")
    for word in ("Redis 7", "no AOF", "noeviction", "1 workers with 3 places"):
        eq(word in text, True, f"{word} in {text}")
    eq(redis.keys_without_ttl(), [], "keys without a TTL")


@test("eviction, little memory, a replica, a missing permission: each is named")
def _(ws):
    redis = Redis(ws)
    redis.call("SETRANGE", "filler", 64 << 20, "x")
    used = int([line for line in redis.call("INFO", "memory").splitlines() if line.startswith("used_memory:")][0].split(":")[1])
    redis.call("CONFIG", "SET", "maxmemory", used + (8 << 20))
    redis.call("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    status, text = examine(ws, redis)
    eq((status, "allkeys-lru" in text, "% of maxmemory" in text), ("WARN", True, True), text)
    redis.call("CONFIG", "SET", "maxmemory", 0)
    redis.call(*"ACL SETUSER half on >s3cret ~tasuki:* +@connection +@read +info".split())
    status, text = examine(ws, redis, {"TASUKI_REDIS": redis.url.replace("//", "//half:s3cret@")})
    eq((status, "refuses" in text, "s3cret" in text), ("FAIL", True, False), text)
    redis.call("REPLICAOF", "127.0.0.1", free_port(ws))
    status, text = examine(ws, redis)
    eq((status, "replica" in text), ("FAIL", True), text)


@test("another prefix, another key, dead letters: doctor names them, and a run that finds nobody says where workers are", slow=True)
def _(ws):
    redis = Redis(ws)
    key = ws.path.parent / "key"
    key.write_text("k" * 32)
    key.chmod(0o600)
    redis.worker("-j", "1", "--name", "keyed", env={"TASUKI_REDIS_KEY_FILE": str(key)})
    status, text = examine(ws, redis)
    eq((status, "keyed and this workspace do not have the same key file" in text), ("WARN", True), text)
    ws.tasuki("run", write_flow(ws, "tasks: {t: {run: 'true'}}\n"), env=redis.env()).expect(7)
    status, text = examine(ws, redis)
    eq((status, "1 dead letter," in text, "unsigned" in text), ("WARN", True, True), text)
    other = {"TASUKI_REDIS_PREFIX": "other"}
    status, text = examine(ws, redis, other)
    eq((status, "tasuki/default" in text), ("WARN", True), text)
    said = ws.path.parent / "said"
    runner = ws.spawn("run", "flow.yaml", env=redis.env(other), stderr=open(said, "wb"))
    ws.until(lambda: "another prefix or pool: tasuki/default" in said.read_text(), "the word that workers are elsewhere")
    runner.send_signal(signal.SIGINT)
    ws.finish(runner)


main(__name__)
