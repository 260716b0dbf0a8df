#!/usr/bin/env python3
"""A literal D39 client: another tool that keeps request, queue and name locks exactly as seed 000 says.

Acquire is an exclusive create (3.1). A lock whose `expires_at` is past and whose pid is dead or unknown is deleted,
then created anew (5.1, 5.2); deleting late is the known hole of that protocol. The heartbeat writes `expires_at`
anew (3.3). Release deletes the file. Nothing of tasuki is used.

    d39.py once PATH TYPE ID [--ttl S] [--stop-before-delete]
        tries once, prints `acquired` or `held`; holds until stdin ends, then releases and prints `released`
    d39.py storm PATH TYPE ID --dir DIR --role ROLE --seed N [--ttl S]
        takes and releases it until it is killed, under the eyes of the witness (tests/storm/witness.py)
"""

import argparse
import datetime
import json
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from storm.witness import Witness  # noqa: E402


def now():
    return datetime.datetime.now(datetime.timezone.utc).astimezone()


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


class Lock:
    def __init__(self, path, lock_type, request_id, ttl_s):
        self.path = path
        self.lock_type = lock_type
        self.request_id = request_id
        self.ttl = datetime.timedelta(seconds=ttl_s)

    def acquire(self):
        created = now()
        content = {
            "version": "1.0", "lock_type": self.lock_type, "request_id": self.request_id,
            "run_id": f"RUN-D39-{os.getpid()}", "pid": os.getpid(), "host": "127.0.0.1",
            "created_at": created.isoformat(timespec="milliseconds"),
            "expires_at": (created + self.ttl).isoformat(timespec="milliseconds")}
        try:
            with open(self.path, "x") as file:
                file.write(json.dumps(content, indent=2))
        except FileExistsError:
            return False
        self.content = content
        return True

    def is_stale(self):
        """5.1; a file that is gone or cannot be read as one of ours is not."""
        try:
            content = json.loads(self.path.read_text())
            expires = datetime.datetime.fromisoformat(content["expires_at"])
        except (OSError, ValueError, KeyError, TypeError):
            return False
        if expires >= now():
            return False
        pid = content.get("pid")
        return not isinstance(pid, int) or not is_alive(pid)

    def delete(self):
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            pass

    def heartbeat(self):
        self.content["expires_at"] = (now() + self.ttl).isoformat(timespec="milliseconds")
        self.path.write_text(json.dumps(self.content, indent=2))


def once(options, lock):
    if not lock.acquire():
        if lock.is_stale():
            if options.stop_before_delete:
                os.kill(os.getpid(), signal.SIGSTOP)
            lock.delete()
        if not lock.acquire():
            print("held", flush=True)
            return 4
    print("acquired", flush=True)
    sys.stdin.read()
    lock.delete()
    print("released", flush=True)
    return 0


def storm(options, lock):
    draw = random.Random(options.seed)
    witness = Witness(options.dir, options.type, options.role)
    while True:
        time.sleep(draw.uniform(0.001, 0.02))
        witness.log("want")
        if not lock.acquire():
            if not lock.is_stale():
                continue
            witness.log("delete-begin")
            time.sleep(draw.choice([0, 0, 0.002, 0.02]))  # a busy machine, an event loop: the hole is wide enough to see
            lock.delete()
            witness.log("delete-end")
            if not lock.acquire():
                continue
        witness.log("hold", fence="-")
        entered = witness.enter()
        time.sleep(draw.uniform(0, 0.01))
        if draw.random() < 0.1:
            lock.heartbeat()
        if entered:
            witness.leave()
        lock.delete()
        witness.log("end", status="ok")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=("once", "storm"))
    parser.add_argument("path", type=pathlib.Path)
    parser.add_argument("type", choices=("request", "queue", "name"))
    parser.add_argument("id")
    parser.add_argument("--ttl", type=float, default=30 * 60)
    parser.add_argument("--stop-before-delete", action="store_true")
    parser.add_argument("--dir")
    parser.add_argument("--role", default="d39")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    lock = Lock(options.path, options.type, options.id, options.ttl)
    return {"once": once, "storm": storm}[options.mode](options, lock)


if __name__ == "__main__":
    sys.exit(main())
