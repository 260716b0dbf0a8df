#!/usr/bin/env python3
"""Streamable HTTP in front of `tasuki mcp`, for test tools that speak only HTTP.

    bridge.py COMMAND...        prints its URL on one line, serves until its standard input ends

A legacy session (Mcp-Session-Id) is one server process of its own; modern requests, which are stateless, share one. What
HTTP adds is done here: statuses, header checks, sessions, event streams. Everything else is the server's own answer."""

import base64
import binascii
import http.server
import json
import queue
import subprocess
import sys
import threading
import uuid

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
STATUS = {-32601: 404, -32602: 400, -32600: 400, -32700: 400, -32020: 400, -32021: 400, -32022: 400}
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId",
         "tasks/update": "taskId", "tasks/cancel": "taskId"}
HOSTS = ("localhost", "127.0.0.1", "[::1]")


class Server:
    """One server process. Ids and progress tokens are made unique, so that many clients can share it."""

    def __init__(self, command):
        self.proc = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.lock = threading.Lock()
        self.streams = {}  # our id -> (queue, the client's id, the client's progress token)
        self.count = 0
        threading.Thread(target=self._read, daemon=True).start()

    def close(self):
        with self.lock:
            if not self.proc.stdin.closed:
                self.proc.stdin.close()
        self.proc.wait(10)

    def send(self, message):
        with self.lock:
            self.proc.stdin.write(json.dumps(message).encode() + b"\n")
            self.proc.stdin.flush()

    def request(self, message):
        """Returns the id under which the answers come, and their queue."""
        frames = queue.Queue()
        with self.lock:
            self.count += 1
            number = self.count
        message = json.loads(json.dumps(message))
        token = message.get("params", {}).get("_meta", {}).get("progressToken")
        if token is not None:
            message["params"]["_meta"]["progressToken"] = number
        self.streams[number] = (frames, message["id"], token)
        message["id"] = number
        self.send(message)
        return number, frames

    def cancel(self, number):
        self.streams.pop(number, None)
        self.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": number}})

    def _read(self):
        for line in self.proc.stdout:
            self._route(json.loads(line))

    def _route(self, frame):
        params = frame.get("params", {})
        if "method" not in frame and frame.get("id") in self.streams:
            frames, frame["id"], _ = self.streams.pop(frame["id"])
            meta = frame.get("result", {}).get("_meta", {})
            if META + "subscriptionId" in meta:
                meta[META + "subscriptionId"] = frame["id"]
        elif "progressToken" in params and params["progressToken"] in self.streams:
            frames, _, params["progressToken"] = self.streams[params["progressToken"]]
        elif META + "subscriptionId" in params.get("_meta", {}):
            number = params["_meta"][META + "subscriptionId"]
            if number not in self.streams:
                return
            frames, params["_meta"][META + "subscriptionId"], _ = self.streams[number]
        elif self.streams:
            frames = self.streams[max(self.streams)][0]  # about the newest call
        else:
            return
        frames.put(frame)


class Bridge:
    def __init__(self, command):
        self.command = command
        self.modern = Server(command)
        self.sessions = {}
        self.headers = {}  # tool -> {argument: header}
        number, frames = self.modern.request({"jsonrpc": "2.0", "id": 0, "method": "tools/list", "params": {"_meta": {
            META + "protocolVersion": MODERN, META + "clientCapabilities": {}}}})
        for tool in frames.get(timeout=10)["result"]["tools"]:
            properties = tool["inputSchema"].get("properties", {})
            self.headers[tool["name"]] = {k: v["x-mcp-header"] for k, v in properties.items() if "x-mcp-header" in v}

    def close(self):
        for server in (self.modern, *self.sessions.values()):
            server.close()


def decoded(value):
    """A header's value; None when its Base64 is broken."""
    value = value.strip()
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    bridge = None

    def log_message(self, *_):
        pass

    # -- what HTTP adds -----------------------------------------------------------------------------------

    def is_local(self):
        def name(host):
            return host.rsplit(":", 1)[0] if not host.endswith("]") else host
        origin = self.headers.get("Origin")
        return name(self.headers.get("Host", "")) in HOSTS and (
            origin is None or name(origin.partition("://")[2]) in HOSTS)

    def answer(self, status, body=None, **headers):
        data = json.dumps(body).encode() if body is not None else b""
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key.replace("_", "-"), value)
        if data:
            self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def refuse(self, message, code, text):
        error = {"jsonrpc": "2.0", "error": {"code": code, "message": text}}
        if isinstance(message, dict) and message.get("id") is not None:
            error["id"] = message["id"]
        self.answer(STATUS.get(code, 400), error)

    def mismatch(self, message):
        """The header that disagrees with the body, or None."""
        params = message.get("params", {})
        version = params["_meta"][META + "protocolVersion"]
        if self.headers.get("MCP-Protocol-Version", "").strip() != version:
            return "MCP-Protocol-Version"
        if self.headers.get("Mcp-Method", "").strip() != message["method"]:
            return "Mcp-Method"
        key = NAMED.get(message["method"])
        if key and key in params and decoded(self.headers.get("Mcp-Name", "")) != params[key]:
            return "Mcp-Name"
        wanted = self.bridge.headers.get(params.get("name"), {}) if message["method"] == "tools/call" else {}
        for argument, header in wanted.items():
            given, value = self.headers.get(f"Mcp-Param-{header}"), params.get("arguments", {}).get(argument)
            if value is not None and (given is None or decoded(given) != str(value)):
                return f"Mcp-Param-{header}"
        return None

    # -- requests -----------------------------------------------------------------------------------------

    def do_GET(self):
        self.answer(405, Allow="POST, DELETE")

    def do_DELETE(self):
        server = self.bridge.sessions.pop(self.headers.get("Mcp-Session-Id"), None)
        if server:
            server.close()
        self.answer(200 if server else 404)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if not self.is_local():
            return self.answer(403)
        try:
            message = json.loads(body)
        except ValueError:
            return self.refuse(None, -32700, "Parse error")
        if not isinstance(message, dict):
            return self.refuse(None, -32600, "Not one message")
        meta = message.get("params", {}).get("_meta", {}) if isinstance(message.get("params"), dict) else {}
        if self.headers.get("MCP-Protocol-Version") == MODERN or META + "protocolVersion" in meta:
            return self.post_modern(message, meta)
        return self.post_legacy(message)

    def post_modern(self, message, meta):
        if "id" not in message:
            return self.answer(202)
        if META + "protocolVersion" in meta:
            wrong = self.mismatch(message)
            if wrong:
                return self.refuse(message, -32020, f"The header {wrong} does not match the body")
        self.relay(self.bridge.modern, message, is_modern=True)

    def post_legacy(self, message):
        session = self.headers.get("Mcp-Session-Id")
        if message.get("method") == "initialize":
            session = uuid.uuid4().hex
            self.bridge.sessions[session] = Server(self.bridge.command)
        server = self.bridge.sessions.get(session)
        if not server:
            return self.refuse(message, -32600, "No session") if session is None else self.answer(404)
        if "method" not in message or "id" not in message:
            server.send(message)
            return self.answer(202)
        return self.relay(server, message, is_modern=False, Mcp_Session_Id=session)

    def relay(self, server, message, is_modern, **headers):
        """One answer is a document; messages before it make it a stream."""
        number, frames = server.request(message)
        frame = frames.get(timeout=60)
        if "method" not in frame:
            status = STATUS.get(frame["error"]["code"], 200) if is_modern and "error" in frame else 200
            return self.answer(status, frame, **headers)
        self.send_response(200)
        for key, value in {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no", "Connection": "close",
                           **headers}.items():
            self.send_header(key.replace("_", "-"), value)
        self.end_headers()
        self.close_connection = True
        self.stream(server, number, frames, frame)

    def stream(self, server, number, frames, frame):
        try:
            while True:
                if frame is not None:
                    self.wfile.write(b"event: message\ndata: " + json.dumps(frame).encode() + b"\n\n")
                else:
                    self.wfile.write(b": alive\n\n")
                self.wfile.flush()
                if frame is not None and "method" not in frame:
                    return
                try:
                    frame = frames.get(timeout=1)
                except queue.Empty:
                    frame = None
        except OSError:  # a client that goes away cancels
            server.cancel(number)


def main():
    Handler.bridge = Bridge(sys.argv[1:])
    listener = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    listener.daemon_threads = True
    threading.Thread(target=listener.serve_forever, daemon=True).start()
    print(f"http://127.0.0.1:{listener.server_port}/mcp", flush=True)
    sys.stdin.read()
    listener.shutdown()
    Handler.bridge.close()


if __name__ == "__main__":
    main()
