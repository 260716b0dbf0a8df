"""What a runner does where the machine sets limits: few descriptors, a stopped runner, long waits."""

import os
import pathlib
import re
import signal
import subprocess
import time

from flows import only_run, processes_of, run_ids, spawn_flow, write_flow
from harness.harness import eq, main, test


@test("more tasks at a time than there are descriptors for: fewer run at a time, it is said, and none fails")
def _(ws):
    write_flow(ws, "tasks:\n" + "".join(f"  t{i}: 'echo x'\n" for i in range(150)))
    command = f"ulimit -n 100; exec {ws.build}/tasuki run flow.yaml -j 150 --quiet"
    done = subprocess.run(["sh", "-c", command], cwd=ws.path, capture_output=True, text=True, timeout=120)
    eq((done.returncode, done.stdout), (0, ""), done.stderr[-500:])
    found = re.search(r"(\d+) tasks at a time instead of 150", done.stderr)
    assert found and 1 <= int(found[1]) < 100, done.stderr
    started = ws.events("run.started")[-1]["data"]
    eq((started["parallel"], started["parallel_wanted"]), (int(found[1]), 150), "what the event says")


@test("fewer tasks at a time because of descriptors: the command below it is the limit that is enough")
def _(ws):
    write_flow(ws, "tasks:\n" + "".join(f"  t{i}: 'echo x'\n" for i in range(20)))
    begin = lambda limit: ws.run(["sh", "-c", f"ulimit -S -n {limit}; exec {ws.binary} run flow.yaml -j 150"]).expect(0).err
    said = begin(100)
    limit = re.search(r"next +ulimit -n (\d+)\n", said)
    assert limit and "the path that the message names" not in said, said
    assert "at a time" not in begin(limit[1]), limit[1]


@test("a parallelism that fits is left alone, and nothing is said")
def _(ws):
    write_flow(ws, "tasks: {a: 'true', b: 'true'}\n")
    done = ws.tasuki("run", "flow.yaml", "-j", "150").expect(0)
    eq(done.err, "", "stderr")


for words in ([], ["--now"]):
    @test(f"runs cancel {' '.join(words)}: a runner that is stopped goes on, and ends the run")
    def _(ws, words=words):
        proc = spawn_flow(ws, "tasks: {a: 'touch up; sleep 1000'}\n")
        ws.until(lambda: (ws.path / "up").exists() and run_ids(ws), "the task runs")
        run = only_run(ws)
        ws.until(lambda: (ws.path / ".aiflow/runs" / run / "stage.json").exists(), "the runner is known")
        proc.send_signal(signal.SIGSTOP)
        ws.tasuki("runs", "cancel", run, *words).expect(0)
        eq(proc.wait(timeout=60), 7, "the runner's exit code")
        eq((ws.tasuki("runs", "show", run, "--json").expect(0).json["status"], processes_of(run)), ("CANCELLED", []), "the end")


@test("a task that is stopped can clean up when the run is cancelled")
def _(ws):
    proc = spawn_flow(ws, "tasks: {a: \"trap 'touch cleaned; exit 3' TERM; echo $$ > pid; while :; do sleep 0.05; done\"}\n")
    ws.until(lambda: (ws.path / "pid").exists() and (ws.path / "pid").read_text().strip(), "the task runs")
    os.kill(int((ws.path / "pid").read_text()), signal.SIGSTOP)
    proc.send_signal(signal.SIGTERM)
    eq((proc.wait(timeout=60), (ws.path / "cleaned").exists()), (7, True), "exit code, and whether it cleaned up")


def effort(pid):
    """CPU ticks and voluntary context switches of a process so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    switches = re.search(r"^voluntary_ctxt_switches:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(fields[11]) + int(fields[12]), int(switches[1])


def rests(pid):
    ticks, switches = effort(pid)
    time.sleep(3)
    more_ticks, more_switches = effort(pid)
    return more_ticks - ticks <= 20 and more_switches - switches <= 150


for name, task, fact in [("a task", "'touch up; sleep 1000'", "up"),
                         ("a retry", "{run: 'touch up; exit 1', retries: 1, backoff: {initial: 1h, max: 1h}}", "up"),
                         ("a task that must end", "{run: \"trap '' TERM; touch up; while :; do sleep 1; done\", timeout: 1h}", "up")]:
    @test(f"a runner that waits for {name} does not spin", slow=True)
    def _(ws, task=task, fact=fact):
        proc = spawn_flow(ws, f"tasks: {{a: {task}}}\n")
        ws.until(lambda: (ws.path / fact).exists(), "the task runs")
        ws.until(lambda: rests(proc.pid), "three seconds in which it hardly runs")  # first the log gets its name, and the stage is written
        proc.send_signal(signal.SIGUSR1)
        proc.wait(timeout=60)


main(__name__)
