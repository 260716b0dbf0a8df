"""A TCP proxy between a worker, or a runner, and its Redis."""

import os
import selectors
import socket
import threading
import time


class Proxy:
    """Between a worker and its server. `lose` = n: every n-th answer is lost, with its connection; `cut` = n: its second half is.
    `delay_s`: each piece comes this much later. `is_silent`: nothing gets through; `is_deaf`: no answer does, `is_mute`: no request.
    `lose_one` = text: the answer to the next request that has it is lost. `refuse` = (text, n): the next n requests that have it do not
    arrive, and their connections are closed. `swap` = (bytes, as many others): what is replaced in answers. `hang_up` closes all connections; new ones are accepted. `seen` has the requests."""

    def __init__(self, ws, port, lose=0, cut=0, delay_s=0):
        self.port_behind, self.lose, self.lose_one, self.doomed = port, lose, None, set()
        self.cut, self.delay_s, self.is_silent, self.is_deaf, self.is_mute = cut, delay_s, False, False, False
        self.answers, self.lost, self.accepted, self.refuse, self.seen = 0, 0, 0, (None, 0), []
        self.swap = (b"", b"")
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.selector, self.pairs = selectors.DefaultSelector(), {}
        self.waker, self.wakes = os.pipe()
        self.selector.register(self.listener, selectors.EVENT_READ)
        self.selector.register(self.waker, selectors.EVENT_READ)
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        ws.at_close(self.close)

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"

    def close(self):
        os.write(self.wakes, b"x")
        self.thread.join()
        for one in (*self.pairs, self.listener):
            one.close()
        self.selector.close()
        os.close(self.waker)
        os.close(self.wakes)

    def hang_up(self):
        os.write(self.wakes, b"h")

    def _run(self):
        while True:
            for key, _ in self.selector.select():
                if key.fileobj == self.waker and os.read(self.waker, 1) == b"x":
                    return
                if key.fileobj == self.waker:
                    self._drop_all()
                if key.fileobj is self.listener:
                    self._accept()
                elif key.fileobj in self.pairs:
                    self._move(key.fileobj)

    def _accept(self):
        client, _ = self.listener.accept()
        self.accepted += 1
        server = socket.create_connection(("127.0.0.1", self.port_behind))
        self.pairs[client], self.pairs[server] = (server, False), (client, True)
        for one in (client, server):
            self.selector.register(one, selectors.EVENT_READ)

    def _drop(self, one):
        for end in (one, self.pairs[one][0]):
            self.selector.unregister(end)
            self.pairs.pop(end)
            self.doomed.discard(end)
            end.close()

    def _drop_all(self):
        while self.pairs:
            self._drop(next(iter(self.pairs)))

    def _request(self, data):
        self.seen.append(data)
        text, left = self.refuse
        if left and text in data:
            self.refuse = (text, left - 1)
            self.lost += 1
            return b""
        return data

    def _move(self, one):
        other, is_answer = self.pairs[one]
        try:
            data = one.recv(65536)
            if self.is_silent or (self.is_deaf if is_answer else self.is_mute):
                return
            time.sleep(self.delay_s)
            self.answers += is_answer
            if data and is_answer and self.cut and self.answers % self.cut == 0:
                self.lost += 1
                other.sendall(data[:len(data) // 2])
                data = b""
            if not is_answer:
                data = self._request(data)
            if not is_answer and self.lose_one and self.lose_one in data:
                self.lose_one = None
                self.doomed.add(other)
            if data and is_answer and (one in self.doomed or self.lose and self.answers % self.lose == 0):
                self.lost += 1
                data = b""
            if data:
                other.sendall(data.replace(*self.swap) if is_answer and self.swap[0] else data)
        except OSError:
            data = b""
        if not data:
            self._drop(one)
