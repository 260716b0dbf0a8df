"""An MCP client for the tests: it starts `tasuki mcp` and speaks with it, in either era, one frame at a time."""

import json
import os
import queue
import subprocess
import threading
import time

MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"
TASKS = META + "tasks"
FORMS = {"elicitation": {}}


class Agent:
    """One connection. The server's requests are answered by `on_request(method, params)`, which returns the result."""

    def __init__(self, ws, *args, capabilities=None, initialize=True, env=None, on_request=None, command=None, name="test",
                 **options):
        self.ws = ws
        self.capabilities = capabilities or {}
        self.on_request = on_request
        self.notifications = []
        self._count = 0
        self._answers = {}
        self._changed = threading.Condition()
        self.is_over = False
        argv = command or [ws.binary, "mcp", *args]
        self.proc = ws.spawn_command(argv, env=env, stdin=subprocess.PIPE, text=False, encoding=None, errors=None,
                                     **options)
        threading.Thread(target=self._read, daemon=True).start()
        if initialize:
            self.hello = self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": self.capabilities,
                                                     "clientInfo": {"name": name, "version": "1"}})["result"]
            self.notify("notifications/initialized")

    # -- frames -------------------------------------------------------------------------------------------

    def _read(self):
        for line in self.proc.stdout:
            self._take(json.loads(line))
        with self._changed:
            self.is_over = True
            self._changed.notify_all()

    def _take(self, frame):
        if "method" in frame and "id" in frame:
            result = self.on_request(frame["method"], frame.get("params")) if self.on_request else None
            if result is not None:
                self.send({"jsonrpc": "2.0", "id": frame["id"], "result": result})
        with self._changed:
            if "method" in frame:
                self.notifications.append(frame)
            else:
                self._answers.setdefault(frame.get("id"), []).append(frame)
            self._changed.notify_all()

    def send_raw(self, data):
        os.write(self.proc.stdin.fileno(), data)

    def send(self, message):
        self.send_raw(json.dumps(message).encode() + b"\n")

    def notify(self, method, params=None):
        self.send({"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})})

    def begin(self, method, params=None, modern=False, capabilities=None):
        """Sends a request and returns its id."""
        self._count += 1
        params = dict(params or {})
        if modern:
            declared = self.capabilities if capabilities is None else capabilities
            params["_meta"] = {META + "protocolVersion": MODERN, META + "clientCapabilities": declared,
                               **params.get("_meta", {})}
        self.send({"jsonrpc": "2.0", "id": self._count, "method": method, "params": params})
        return self._count

    def answer(self, number, timeout=60):
        """The response to that id."""
        def arrived():
            return number in self._answers or self.is_over
        with self._changed:
            assert self._changed.wait_for(arrived, timeout), f"no answer to request {number} within {timeout} s"
            assert number in self._answers, f"the server ended without an answer to request {number}: {self._last_words()}"
            return self._answers[number][0]

    def _last_words(self):
        return self.proc.stderr.read()[-4000:].decode(errors="replace") if self.proc.stderr else ""

    def has_answer(self, number):
        with self._changed:
            return number in self._answers

    def answers(self):
        """All responses so far."""
        with self._changed:
            return [frame for frames in self._answers.values() for frame in frames]

    def until(self, condition, what, timeout=60):
        """Waits until a notification or request came for which condition(frame) is true; returns it."""
        def found():
            return next((n for n in self.notifications if condition(n)), None)
        with self._changed:
            assert self._changed.wait_for(lambda: found() or self.is_over, timeout) and found(), f"in vain: {what}"
            return found()

    def request(self, method, params=None, modern=False, capabilities=None, timeout=60):
        return self.answer(self.begin(method, params, modern, capabilities), timeout)

    # -- tools --------------------------------------------------------------------------------------------

    def begin_call(self, tool, modern=False, capabilities=None, more=None, **arguments):
        return self.begin("tools/call", {"name": tool, "arguments": arguments, **(more or {})}, modern, capabilities)

    def call(self, tool, modern=False, capabilities=None, more=None, **arguments):
        """The result of a tool; a JSON-RPC error is a failure of the test."""
        answer = self.answer(self.begin_call(tool, modern, capabilities, more, **arguments))
        assert "result" in answer, f"{tool} was answered with {answer}"
        return answer["result"]

    def ok(self, tool, **arguments):
        """The structured result of a tool that succeeds."""
        result = self.call(tool, **arguments)
        assert not result.get("isError"), f"{tool} failed: {result['content'][0]['text']}"
        return result["structuredContent"]

    def refused(self, tool, **arguments):
        """(text, error object) of a tool that is refused."""
        result = self.call(tool, **arguments)
        assert result.get("isError"), f"{tool} succeeded: {result}"
        return result["content"][0]["text"], result["structuredContent"].get("error")

    # -- the end ------------------------------------------------------------------------------------------

    def close(self, timeout=60):
        """Ends the input; returns the exit code."""
        self.proc.stdin.close()
        return self.proc.wait(timeout)

    def kill(self):
        self.proc.kill()
        self.proc.wait()
