"""A real redis-server of the test's own, and workers on it."""

import os
import shutil
import signal
import socket
import subprocess
import time

from harness.workspace import Skip, free_port


class Redis:
    """`call` sends one command; its answer is: texts, numbers, lists, None."""

    def __init__(self, ws, *options):
        if not shutil.which("redis-server") or not (ws.build / "tasuki-worker").exists():
            raise Skip("redis-server is not installed, or tasuki-worker was not built")
        self.ws, self.options, self.port = ws, options, free_port(ws)
        self.dir = ws.path.parent / f"redis-{self.port}"
        self.dir.mkdir()
        self.process, self.connection, self.workers = None, None, []
        self.start()
        ws.at_close(self.close)

    def start(self):
        self.process = subprocess.Popen(
            ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.dir), *self.options],
            stdin=subprocess.DEVNULL, stdout=open(self.dir / "log", "ab"), stderr=subprocess.STDOUT)
        self.ws.until(self._answers, "an answer of redis-server")

    def _answers(self):
        try:
            return self.call("PING") == "PONG"
        except (OSError, RuntimeError):
            self._hang_up()
            return False

    def _hang_up(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def kill(self):
        self._hang_up()
        self.process.kill()
        self.process.wait()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def env(self, more=None):
        return {"TASUKI_REDIS": self.url, "PATH": f"{self.ws.build}:{os.environ['PATH']}", **(more or {})}

    def call(self, *words):
        if not self.connection:
            self.connection = socket.create_connection(("127.0.0.1", self.port), timeout=60).makefile("rwb")
        parts = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.connection.write(b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts))
        self.connection.flush()
        return self._answer()

    def _answer(self):
        line = self.connection.readline()
        if not line:
            raise OSError("the connection is closed")
        kind, rest = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise RuntimeError(rest)
        if kind == b"$":
            return None if rest == "-1" else self.connection.read(int(rest) + 2)[:-2].decode("utf-8", "surrogateescape")
        if kind == b"*":
            return None if rest == "-1" else [self._answer() for _ in range(int(rest))]
        return int(rest) if kind == b":" else rest

    def worker(self, *args, env=None):
        """Starts a worker in the workspace, waits until it is known; its process."""
        log = self.dir / f"worker-{len(self.workers)}"
        process = subprocess.Popen([str(self.ws.build / "tasuki-worker"), "worker", "--dir", str(self.ws.path), *args],
                                   env=self.ws.env(self.env({"TMPDIR": str(self.dir), **(env or {})})), cwd=self.dir,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(log, "ab"))
        process.log = log
        self.workers.append(process)
        pid = f".{process.pid}."
        self.ws.until(lambda: any(pid in one for one in self.call("ZRANGE", "tasuki:{pool default}:w", 0, -1)), "the worker")
        return process

    def keys_without_ttl(self):
        return [key for key in self.call("KEYS", "*") if self.call("TTL", key) == -1]

    def end_worker(self, process, timeout=60):
        """In good order; the second signal ends what still runs."""
        for _ in range(2):
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
                time.sleep(0.05)
        process.wait(timeout)

    def close(self):
        for process in self.workers:
            if process.poll() is None:
                try:
                    self.end_worker(process, 20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        self._hang_up()
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
