"""Celery beside the others: `celery_app.py N DEPTH PORT` adds N tasks that do nothing and waits for the last. Prints seconds."""
import json
import os
import subprocess
import sys
import time

from celery import Celery

PORT = os.environ.get("BENCH_PORT", "6379")
app = Celery("celery_app", broker=f"redis://127.0.0.1:{PORT}/1", backend=None)
app.conf.update(task_ignore_result=True, task_acks_late=True)
SPEC = "s" * 300


@app.task(name="bench.nothing")
def nothing(spec):
    pass


@app.task(name="bench.last")
def last(path):
    open(path, "w").close()


def main():
    total, depth, port = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    flag = os.path.abspath(f"celery-{os.getpid()}")
    worker = subprocess.Popen([sys.executable, "-m", "celery", "-A", "celery_app", "worker", "-c", str(min(int(depth), 8)), "-l", "ERROR",
                               "--without-gossip", "--without-mingle", "--without-heartbeat"],
                              env={**os.environ, "BENCH_PORT": port}, cwd=os.path.dirname(os.path.abspath(__file__)),
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait(send(last, flag + ".up"), flag + ".up")
        began = time.perf_counter()
        for _ in range(total):
            send(nothing, SPEC)
        wait(send(last, flag), flag)
        print(json.dumps({"seconds": time.perf_counter() - began, "attempts": total}))
    finally:
        worker.terminate()
        worker.wait(60)


def send(task, word):
    return task.apply_async((word,))


def wait(_, path):
    until = time.monotonic() + 120
    while not os.path.exists(path):
        if time.monotonic() > until:
            raise SystemExit("celery did not answer in time")
        time.sleep(0.002)
    os.unlink(path)


if __name__ == "__main__":
    main()
