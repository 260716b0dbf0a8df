"""Spec 8, HTTP: what the server says of itself: the API's document beyond its shapes, the numbers, and the paths that are no operation."""

import json
import re

from common import sleeper
from harness.harness import eq, main, test
from http_common import Server


def ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


def content(schema):
    return {"application/json": {"schema": schema}}


@test("OpenAPI: each operation has one id, its noun as its tag, its statuses with their codes, and the way the command line takes a parameter")
def _(ws):
    server = Server(ws)
    document = server.get("/api/openapi.json").expect(200).json
    server.stop()
    paths, schemas = document["paths"], document["components"]["schemas"]
    operations = {(method, path): one for path, item in paths.items() for method, one in item.items()}
    ids = [one["operationId"] for one in operations.values()]
    eq(len(set(ids)), len(ids), "ids")
    for method, path, id, tags in (("post", "/api/locks/{kind}/{id}", "lock.acquire", ["lock"]), ("post", "/api/locks/{kind}/{id}/force", "lock.acquire.2", ["lock"]),
                                   ("get", "/api/runs/{run}", "runs.show", ["runs"]), ("get", "/api/runs/{run}/stage", "runs.show.2", ["runs"]),
                                   ("get", "/api/runs/{run}/stream", "runs.show.3", ["runs"]), ("get", "/api/status", "status", None),
                                   ("get", "/api/doctor", "doctor.2", None), ("post", "/api/sprint", "sprint.acquire", ["sprint"]), ("post", "/mcp", "mcp", None)):
        one = operations[method, path]
        eq((one["operationId"], one.get("tags")), (id, tags), path)
    eq((document["security"], document["components"]["securitySchemes"]), ([{"token": []}], {"token": {"type": "http", "scheme": "bearer"}}), "the token")
    eq([path for path, item in paths.items() for one in item.values() if one.get("security") == []], ["/healthz"], "what needs none")
    rows = {key: one for key, one in operations.items() if key[1].startswith("/api/") and key[1] != "/api/openapi.json"}
    for (method, path), one in rows.items():
        answers = one["responses"]
        eq(("requestBody" in one, answers["200"]["description"]), (method != "get", "Done."), path)
        eq(answers["default"], {"description": "An error.", "content": content(ref("Error"))}, path)
        for status, code in (("400", "INVALID_INPUT"), ("401", "UNAUTHORIZED"), ("403", "FORBIDDEN_ORIGIN"), ("413", "PAYLOAD_TOO_LARGE"), ("503", "ENVIRONMENT")):
            words = answers[status]["description"].split(", ")
            assert code in words and len(words) == len(set(words)), (path, status, words)
        assert not [status for status in answers if status not in ("default", "200", "202") and int(status) < 400], path
    said = rows["post", "/api/locks/{kind}/{id}"]["responses"]
    eq(said["409"], {"description": "LOCK_HELD, RUN_IN_PROGRESS, QUEUE_IN_PROGRESS, SPRINT_BLOCKED, NEEDS_CONFIRMATION", "content": content(ref("Error"))}, "a refusal")
    said = rows["get", "/api/sprint"]["responses"]
    eq(said["409"], {"description": "SPRINT_BLOCKED, ZOMBIE_DETECTED", "content": content({"anyOf": [ref("sprint.check"), ref("Error")]})}, "a result that is no success")
    said = rows["post", "/api/flows/run"]["responses"]["202"]
    eq(said, {"description": "It has begun and continues by itself.", "content": content(ref("run"))}, "what goes on")
    assert "202" not in rows["post", "/api/sprint"]["responses"], "what does not"
    stream = {"text/event-stream": {"schema": {"type": "string"}}}
    eq(rows["get", "/api/processes/{id}/logs/stream"]["responses"]["200"]["content"], stream, "only a stream")
    eq(rows["get", "/api/events"]["responses"]["200"]["content"], {**content(ref("events")), **stream}, "a list or a stream")
    eq(rows["get", "/api/events/counts"]["responses"]["200"]["content"].keys() >= {"application/json"}, True, "counts")
    eq(rows["get", "/api/locks"]["responses"]["200"]["content"], content(ref("lock.list")), "a list")
    eq(schemas["lock.check"]["properties"]["id"], {"type": ["string", "null"]}, "what may be null")
    eq(schemas["lock.check"]["properties"]["state"], {"type": "string", "description": "free, held, stale or zombie"}, "what means something")


@test("OpenAPI: where a parameter is, what it means, who may name the caller there, and what shares a path")
def _(ws):
    server = Server(ws)
    document = server.get("/api/openapi.json").expect(200).json
    server.stop()
    paths = document["paths"]

    def parameters(method, path):
        return {one["name"]: one for one in paths[path][method]["parameters"] if "name" in one}

    def body(method, path):
        return paths[path][method]["requestBody"]["content"]["application/json"]["schema"]
    force = parameters("post", "/api/locks/{kind}/{id}/force")
    eq([(name, one["in"], one["required"], one["x-cli"]) for name, one in force.items()], [("kind", "path", True, "position"), ("id", "path", True, "position")], "in a path")
    eq(force["id"]["description"], "The request's id or the name; a queue has none.", "its meaning")
    assert "force" not in body("post", "/api/locks/{kind}/{id}/force")["properties"], "the path says it"
    assert "force" in body("post", "/api/locks/{kind}/{id}")["properties"], "the body says it"
    create = body("post", "/api/processes")
    eq((create["required"], create["additionalProperties"]), (["id", "command"], False), "a body")
    eq([create["properties"][name].get("x-cli") for name in ("args", "id", "env", "start")], ["behind", "position", None, None], "on the command line")
    logs, stream = parameters("get", "/api/processes/{id}/logs"), parameters("get", "/api/processes/{id}/logs/stream")
    eq((logs["lines"]["in"], "required" in logs["lines"], logs["stream"].get("x-cli")), ("query", False, "none"), "in a query")
    assert not {"follow", "confirm"} & (set(logs) | set(stream)), "what a client cannot say"
    eq([{"instance", "secret"} & set(one) for one in (logs, stream, parameters("get", "/api/locks"), parameters("get", "/api/processes/logs/stream"))],
       [set(), {"instance", "secret"}, set(), {"instance", "secret"}], "who listens")
    eq(stream["instance"]["description"], "Who listens, and lives as long as it does.", "why")
    assert "id" not in parameters("get", "/api/processes/logs/stream") or parameters("get", "/api/processes/logs/stream")["id"]["in"] == "query", "all of them"
    lock = body("post", "/api/locks/{kind}/{id}")["properties"]
    eq((lock["pid"]["description"], parameters("get", "/api/status")["label"]["description"]),
       ("A process that holds it instead of you.", "A name for people, with register."), "what says more of a caller than its id")
    assert lock["instance"]["description"].startswith("Who calls: ") and lock["secret"]["description"].startswith("The secret "), lock
    eq([one["properties"]["mode"] for one in body("post", "/api/sprint")["oneOf"]], [{"const": "acquire"}, {"const": "release"}], "rows that share a path")
    eq([one["required"] for one in body("post", "/api/sprint")["oneOf"]], [["mode", "session", "epic"], ["mode"]], "what each must have")
    eq(paths["/api/sprint"]["post"]["summary"].count(" / "), 1, "their summary")
    for method, path, asks in (("post", "/api/locks/{kind}/{id}", True), ("delete", "/api/processes/{id}", True), ("post", "/api/processes", False)):
        eq("confirm" in body(method, path)["properties"], asks, f"{method} {path}: a question")
    eq(body("delete", "/api/instances/{instance}")["properties"].keys(), {"secret"}, "whose end it is says the path")
    assert "description" in paths["/api/locks/{kind}/{id}"]["post"] and "description" not in paths["/api/locks"]["get"], "more for the manual"


@test("/metrics: every number has its help and its type, and a histogram counts each answer once")
def _(ws):
    server = Server(ws)
    holder = sleeper(ws)
    for name in ("a", "b"):
        server.post(f"/api/locks/name/{name}", {"pid": holder.pid}).expect(200)
    server.post("/api/locks/request/RQ-1", {"pid": holder.pid}).expect(200)
    for _ in range(3):
        server.get("/healthz").expect(200)
    server.get("/api/nothing").expect(404)
    server.get("/api/status", token=False).expect(401)
    lines = server.get("/metrics").expect(200).body.decode().splitlines()
    numbers = {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines if not line.startswith("#")}
    for name, value in {'tasuki_locks{kind="name"}': 2, 'tasuki_locks{kind="request"}': 1, 'tasuki_http_requests_total{operation="",status="200"}': 3,
                        'tasuki_http_requests_total{operation="",status="404"}': 1, 'tasuki_http_requests_total{operation="",status="401"}': 1,
                        'tasuki_http_requests_total{operation="lock.acquire",status="200"}': 3, "tasuki_http_request_seconds_count": 8,
                        'tasuki_http_request_seconds_bucket{le="+Inf"}': 8, "tasuki_http_streams": 0}.items():
        eq(numbers.get(name), value, name)
    classes = [(float(re.search('le="(.*)"', name)[1]), value) for name, value in numbers.items() if "_bucket" in name]
    eq([end for end, _ in classes], [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 10, float("inf")], "the classes")
    eq([value for _, value in classes], sorted(value for _, value in classes), "each has those before it")
    average = numbers["tasuki_http_request_seconds_sum"] / 8
    assert any(end >= average for end, value in classes if value), (average, classes)
    of, kinds = {re.match(r"\w+", name)[0] for name in numbers}, {}
    for line in lines:
        if line.startswith("# TYPE "):
            kinds[line.split()[2]] = line.split()[3]
            assert any(other.startswith(f"# HELP {line.split()[2]} ") and other.endswith(".") for other in lines), line
    eq(of - {re.match(r"\w+", name)[0] for name in numbers if "_request_seconds_" in name} - set(kinds), set(), "numbers without a type")
    eq({name: kind for name, kind in kinds.items() if kind != "gauge"}, {"tasuki_http_requests_total": "counter", "tasuki_events_total": "counter",
                                                                        "tasuki_http_request_seconds": "histogram"}, "types")
    server.stop()


@test("serve says where everything is; each --host is allowed, and names that only begin like one are not")
def _(ws):
    server = Server(ws, "--host", "a.example", "--host", "B.example")
    state = ws.path / ".aiflow"
    eq(server.said, {"status": "serving", "url": server.url, "page": f"{server.url}/#token={server.token}", "socket": str(state / "server.sock"),
                     "token_file": str(state / "server.token"), "pid": server.proc.pid, "root": str(ws.path)}, "said")
    eq(server.url, f"http://127.0.0.1:{server.port}", "its address")
    for host, status in (("a.example", 200), ("A.EXAMPLE:1", 200), ("b.example", 200), ("localhost", 200), ("127.255.0.1", 200), ("[::1]:5", 200), ("a.example.", 403),
                         ("xa.example", 403), ("a.exampl", 403), ("c.example", 403), ("128.0.0.1", 403), ("a.example:1x", 403), ("1" * 80, 403)):
        server.get("/api/status", headers={"Host": host}).expect(status)
    for origin, status in (("http://a.example:7", 200), ("HTTPS://a.example:7", 200), ("http://a.example", 403), ("http://a.example:8", 403), ("ftp://a.example:7", 403),
                           ("http://c.example:7", 403), ("a.example:7", 403), ("http://localhost:7", 200)):
        server.get("/api/status", headers={"Host": "a.example:7", "Origin": origin}).expect(status)
    for value, status in ((f"bearer {server.token}", 200), (f"BEARER {server.token}", 200), (f"Bearer  {server.token[:-1]}", 401),
                          (f"Bearer {server.token[:-1]}{'0' if server.token[-1] != '0' else '1'}", 401), (f"Bearer {'0' if server.token[0] != '0' else '1'}{server.token[1:]}", 401)):
        server.get("/api/status", headers={"Authorization": value}, token=False).expect(status)
    server.ask("POST", "/healthz", b"{}", token=False).expect(401)
    server.ask("GET", "/healthz", b"{}", token=False).expect(401)
    server.ask("HEAD", "/healthz", token=False).expect(200)
    server.stop()


def stream_lines(server, path, more=""):
    """The head of a stream, without its date, and its lines."""
    sock = server.connect()
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\nAccept: text/event-stream\r\n{more}\r\n".encode())
    lines, head = sock.makefile("rb"), []
    while (line := lines.readline().rstrip(b"\r\n")):
        head += [] if line.startswith(b"Date: ") else [line.decode()]
    return head, lines


@test("a stream of events, byte by byte: when to come again, where it begins, then each event with its id")
def _(ws):
    server = Server(ws)
    holder = sleeper(ws)
    lock = server.post("/api/locks/name/a", {"pid": holder.pid}).expect(200).json
    listed = server.get("/api/events?limit=1").json
    last, now = listed["events"][-1]["id"], listed["next"] - 1  # between two events each id stands for the same place
    head = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "X-Content-Type-Options: nosniff", "Cache-Control: no-store", "X-Accel-Buffering: no", "Connection: close"]
    for path, more, begin in (("/api/events", "", now), (f"/api/events?after={last - 1}", "", last - 1), ("/api/events", f"Last-Event-ID: {last - 1}\r\n", last - 1),
                              (f"/api/events?after={last + 1000}", "", now), ("/api/events?type=lock.*", "", now), ("/api/events", "Last-Event-ID: x1\r\n", now)):
        got, lines = stream_lines(server, path, more)
        eq(got, head, "the head")
        eq([lines.readline() for _ in range(3)], [b"retry: 1000\n", f"id: {begin}\n".encode(), b"\n"], f"the begin of {path} {more}")
        if begin < last:
            id, data, end = (lines.readline() for _ in range(3))
            eq((id, end), (f"id: {last}\n".encode(), b"\n"), "an event")
            eq(data, b"data: " + json.dumps(json.loads(data[6:]), separators=(",", ":"), ensure_ascii=False).encode() + b"\n", "one line")
            eq((json.loads(data[6:])["id"], json.loads(data[6:])["type"]), (last, "lock.acquired"), "the event")
    got, lines = stream_lines(server, "/api/events?beat=true")
    first = [lines.readline().decode() for _ in range(6)]
    eq((first[3], first[5]), ("event: beat\n", "\n"), "a beat")
    eq(list(json.loads(first[4].removeprefix("data: "))), ["time"], "its time")
    _, lines = stream_lines(server, "/api/events?type=lock.released")
    server.ask("DELETE", "/api/locks/name/a", {"token": lock["token"]}).expect(200)
    released = [lines.readline().decode() for _ in range(6)]
    eq((released[5], json.loads(released[4].removeprefix("data: "))["type"]), ("\n", "lock.released"), "a filtered one")
    eq(released[3], f"id: {json.loads(released[4].removeprefix('data: '))['id']}\n", "its id")
    server.stop()


@test("a stream of output, byte by byte: each line with the cursor behind it, and its end")
def _(ws):
    server = Server(ws)
    server.post("/api/processes", {"id": "p", "command": "sh", "args": ["-c", "echo one; echo two"]}).expect(200)
    server.post("/api/processes/p/start").expect(200)
    server.get("/api/wait?kind=process&id=p&for=exit&timeout=45s").expect(200)
    head, lines = stream_lines(server, "/api/processes/p/logs/stream")
    eq(head[:2], ["HTTP/1.1 200 OK", "Content-Type: text/event-stream"], "the head")
    blocks = [block.decode().split("\n") for block in lines.read().rstrip(b"\n").split(b"\n\n")]
    eq(blocks[-1], ["event: end", "data: {}"], "its end")
    said = [(block, json.loads(line.removeprefix("data: "))) for block in blocks[:-1] for line in block if line.startswith("data: ")]
    texts = [line["text"] for _, one in said for line in one.get("lines", [one]) if "text" in line]
    eq(texts, ["one", "two"], "the lines")
    ids = [line.removeprefix("id: ") for block, _ in said for line in block if line.startswith("id: ")]
    eq(len(set(ids)), len(said), "a cursor each")
    _, lines = stream_lines(server, "/api/processes/p/logs/stream", f"Last-Event-ID: {ids[-1]}\r\n")
    eq(b"one" in lines.read(), False, "behind the last one")
    server.get("/api/processes/absent/logs/stream", headers={"Accept": "text/event-stream"}).expect(404, "ProcessNotFound")
    server.stop()


@test("an answer is one line of JSON that ends with a newline, and so is a refusal")
def _(ws):
    server = Server(ws)
    for path, status in (("/api/status", 200), ("/api/locks", 200), ("/api/nothing", 404), ("/api/status?x=1", 400), ("/api/processes/absent", 404)):
        answer = server.get(path).expect(status)
        eq((answer.body.count(b"\n"), answer.body[-1:], answer.headers["Content-Type"]), (1, b"\n", "application/json"), path)
        eq(answer.body.decode(), json.dumps(answer.json, separators=(",", ":"), ensure_ascii=False) + "\n", path)
    server.stop()


@test("paths that are no operation take GET and HEAD; the page's files keep what has a hash in its name, and no page may embed them")
def _(ws):
    server = Server(ws)
    for path in ("/healthz", "/metrics", "/api/openapi.json", "/"):
        for method, status in (("GET", 200), ("HEAD", 200), ("POST", 405), ("DELETE", 405)):
            answer = server.ask(method, path)
            eq((answer.status, answer.headers["Allow"]), (status, "GET" if status == 405 else None), f"{method} {path}")
            eq(bool(answer.body), method != "HEAD", f"{method} {path}")
    page = server.get("/").expect(200)
    eq((page.headers["Cache-Control"], page.headers["Content-Encoding"]), ("no-cache", None), "the first file")
    for name, value in (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"), ("Cross-Origin-Opener-Policy", "same-origin"),
                        ("Cross-Origin-Resource-Policy", "same-origin")):
        eq(page.headers[name], value, name)
    for rule in ("default-src 'none'", "frame-ancestors 'none'", "script-src 'self'"):
        assert rule in page.headers["Content-Security-Policy"], rule
    file = server.get(re.search(r'(?:src|href)="(/[^"]+\.js)"', page.body.decode())[1])
    eq((file.status, file.headers["Cache-Control"], file.headers["Content-Encoding"]), (200, "public, max-age=31536000, immutable", "gzip"), "a file of the page")
    tag = page.headers["ETag"]
    for given, status in ((tag, 304), (f'"x", {tag}', 304), ('"x"', 200), (None, 200)):
        eq(server.get("/", headers={"If-None-Match": given} if given else {}).status, status, given)
    eq(server.get("/healthz").headers["Cache-Control"], "no-store", "no file")
    server.stop()


main(__name__)
