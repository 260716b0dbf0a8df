"""Spec 3, judging: alive, dead or unknown, under reused pids, reboots, clock jumps and stopped holders."""

import datetime
import os
import signal
import subprocess

from common import (DAY_MS, acquire_from_a_script, boot_time, check_error, check_u2, dead_pid, edit_lock, foreign_lock,
                    need_namespace, now, parse_time, run_as_nobody, run_held, sleeper, unshare)
from harness.harness import eq, main, test

ACQUIRE = ("lock", "acquire", "name", "a", "--json")


def hold_by_process(ws, *more):
    """A lock of ours that outlives its command, held by a living process. Returns that process."""
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid, *more).expect(0)
    return holder


# -- time namespaces ----------------------------------------------------------------------------------------

@test("a living holder is alive in another time namespace, seen from inside and from outside; a dead one is dead")
def _(ws):
    for shift in ("100000", "-1000" if boot_time() < now().timestamp() - 2000 else "500"):
        options = ["-T", "--boottime", shift, "-f"]
        need_namespace(ws, *options)
        holder = hold_by_process(ws)
        result = unshare(ws, options, '"$T" lock acquire name a --pid $$ --json; exit $?')
        eq(check_error(result, 4, "LOCK_HELD")["context"]["holder"]["alive"], True, f"from inside, shifted by {shift} s")
        holder.kill()
        holder.wait()
        unshare(ws, options, '"$T" lock acquire name a --pid $$ --json').expect(0)
        ws.tasuki("lock", "release", "name", "a").expect(0)
        inside = ws.spawn_command(["unshare", *options, "sh", "-c", f'"{ws.binary}" lock acquire name a --pid $$ && echo > "{ws.base}/in"; exec sleep 1000'])
        ws.until_file(ws.base / "in")
        eq(check_error(ws.tasuki(*ACQUIRE), 4, "LOCK_HELD")["context"]["holder"]["alive"], True, "from outside")
        (ws.base / "in").unlink()
        ws.tasuki(*ACQUIRE, "--force", "--yes", "--kill").expect(0)
        inside.wait()
        ws.tasuki("lock", "release", "name", "a").expect(0)


# -- pid reuse ----------------------------------------------------------------------------------------------

@test("pid reuse, our lock: a process with other start ticks is not the holder")
def _(ws):
    holder = hold_by_process(ws)
    ws.tasuki(*ACQUIRE).expect(4)
    edit_lock(ws, "name", "a", pid_start=ws.read_lock("name", "a")["pid_start"] - 1)
    value = ws.tasuki(*ACQUIRE).expect(0).json
    assert value["recovered"], value
    assert holder.poll() is None


@test("pid reuse, another tool's lock: a process that started more than 2 s after created_at is not the holder")
def _(ws):
    foreign_lock(ws, "name", "a", sleeper(ws).pid, created=-30, expires=-10)
    assert ws.tasuki(*ACQUIRE).expect(0).json["recovered"]


@test("pid reuse, another tool's lock: not dead when the process started at the recorded time")
def _(ws):
    foreign_lock(ws, "name", "a", sleeper(ws).pid, created=0, expires=-1)
    error = check_error(ws.tasuki(*ACQUIRE), 4, "LOCK_HELD")
    eq(error["context"]["holder"]["alive"], True, "alive")


# -- reboot -------------------------------------------------------------------------------------------------

@test("reboot, our lock: another boot id means dead")
def _(ws):
    hold_by_process(ws)
    edit_lock(ws, "name", "a", boot_id="01234567-89ab-cdef-0123-456789abcdef")
    assert ws.tasuki(*ACQUIRE).expect(0).json["recovered"]


@test("reboot, a guessed holder: another boot id means dead and expired")
def _(ws):
    acquire_from_a_script(ws, *ACQUIRE).expect(0)
    ws.tasuki(*ACQUIRE).expect(4)
    edit_lock(ws, "name", "a", boot_id="01234567-89ab-cdef-0123-456789abcdef")
    ws.tasuki(*ACQUIRE).expect(0)


@test("a holder whose life byte is locked lives, whatever pid, start ticks and boot id say")
def _(ws):
    run_held(ws, "a")
    edit_lock(ws, "name", "a", boot_id="01234567-89ab-cdef-0123-456789abcdef", pid_start=1, pid=dead_pid())
    ws.tasuki(*ACQUIRE).expect(4, "LOCK_HELD")


@test("reboot, another tool's lock: created more than 60 s before this boot means dead")
def _(ws):
    created = boot_time() - 120 - now().timestamp()
    foreign_lock(ws, "name", "a", 1, created=created, expires=-1)
    assert ws.tasuki(*ACQUIRE).expect(0).json["recovered"]


@test("a fence is never repeated and grows with every acquisition, of every kind of ending")
def _(ws):
    fences = []
    for _ in range(3):
        fences.append(ws.tasuki(*ACQUIRE).expect(0).json["fence"])
        ws.tasuki("lock", "release", "name", "a").expect(0)
    hold_by_process(ws).kill()
    fences.append(ws.read_lock("name", "a")["fence"])
    ws.until(lambda: ws.tasuki(*ACQUIRE).code == 0, "the dead holder's lock is taken over")
    fences.append(ws.read_lock("name", "a")["fence"])
    eq(fences, sorted(set(fences)), "the fences")


# -- doubt --------------------------------------------------------------------------------------------------

@test("a process that may not be asked (EPERM) is alive")
def _(ws):
    foreign_lock(ws, "name", "a", 1, created=0, expires=-1).chmod(0o644)
    ws.path.chmod(0o777)
    for path in [ws.path / ".aiflow", *(ws.path / ".aiflow").rglob("*")]:
        path.chmod(0o777 if path.is_dir() else 0o666)
    error = check_error(run_as_nobody(ws, [ws.binary, *ACQUIRE]), 4, "LOCK_HELD")
    assert error["context"]["holder"]["alive"] is not False, error


@test("another pid namespace: a held life lock is seen as held from outside")
def _(ws):
    need_namespace(ws, "-pf", "--mount-proc")
    mark = ws.base / "mark"
    proc = ws.spawn_command(["unshare", "-pf", "--mount-proc", "--kill-child", ws.binary, "lock", "run", "a", "--",
                             "sh", "-c", f"echo up > {mark}; exec sleep 1000"])
    ws.until_file(mark)
    error = check_error(ws.tasuki(*ACQUIRE), 4, "LOCK_HELD")
    eq(error["context"]["holder"]["alive"], True, "alive")
    proc.kill()
    ws.until(lambda: ws.tasuki(*ACQUIRE).code == 0, "the lock is free when the namespace is gone")


@test("another pid namespace: a held life lock is seen as held from inside")
def _(ws):
    need_namespace(ws, "-pf", "--mount-proc")
    run_held(ws, "a")
    for args in (("lock", "check", "name", "a"), ("lock", "run", "a", "--", "true")):
        ws.run(["unshare", "-pf", "--mount-proc", ws.binary, *args]).expect(4)


@test("another pid namespace: a recorded process there is unknown, which counts as alive")
def _(ws):
    need_namespace(ws, "-pf", "--mount-proc")
    unshare(ws, ["-pf", "--mount-proc"], '"$T" lock acquire name a --pid $$; true').expect(0)
    error = check_error(ws.tasuki(*ACQUIRE), 4, "LOCK_HELD")
    assert error["context"]["holder"]["alive"] is not False, error


@test("a guessed holder that is gone still excludes others")
def _(ws):
    value = acquire_from_a_script(ws, *ACQUIRE).expect(0).json
    eq(ws.read_lock("name", "a")["hold"], "guess", "hold")
    error = check_error(ws.tasuki(*ACQUIRE), 4, "LOCK_HELD")
    eq(error["context"]["holder"]["alive"], False, "alive")
    ws.tasuki("lock", "renew", "name", "a", "--token", value["token"]).expect(0)


@test("a guessed holder that is gone gives way when the TTL is over, with an event", slow=True)
def _(ws):
    acquire_from_a_script(ws, *ACQUIRE, "--ttl", "1s").expect(0)
    ws.until(lambda: ws.tasuki(*ACQUIRE).code == 0, "the lock is taken over after its TTL")
    eq(len(ws.events("LOCK_STALE_RECOVERED")), 1, "number of events")


# -- clocks -------------------------------------------------------------------------------------------------

@test("wall clock +1 day: a living holder of ours is not expired")
def _(ws):
    hold_by_process(ws)
    ws.fault(*ACQUIRE, wall_ms=DAY_MS).expect(4, "LOCK_HELD")
    ws.fault(*ACQUIRE, wall_ms=-DAY_MS).expect(4, "LOCK_HELD")


@test("wall clock +1 day: a guessed holder that is gone keeps its TTL")
def _(ws):
    acquire_from_a_script(ws, *ACQUIRE).expect(0)
    ws.fault(*ACQUIRE, wall_ms=DAY_MS).expect(4, "LOCK_HELD")


@test("wall clock -1 day: a guessed holder's TTL ends none the less", slow=True)
def _(ws):
    acquire_from_a_script(ws, *ACQUIRE, "--ttl", "1s").expect(0)
    ws.until(lambda: ws.fault(*ACQUIRE, wall_ms=-DAY_MS).code == 0, "the lock is taken over after its TTL")


@test("wall clock ±1 day: a dead holder of ours is recognised as dead")
def _(ws):
    for jump in (DAY_MS, -DAY_MS):
        holder = hold_by_process(ws)
        holder.kill()
        holder.wait()
        ws.fault(*ACQUIRE, wall_ms=jump).expect(0)
        ws.tasuki("lock", "release", "name", "a").expect(0)


@test("wall clock ±1 day: another tool's lock with a living process stays held")
def _(ws):
    foreign_lock(ws, "name", "a", sleeper(ws).pid, created=0)
    ws.tasuki(*ACQUIRE).expect(4, "LOCK_HELD")  # the jump comes after the workspace was used with the right clock
    ws.fault(*ACQUIRE, wall_ms=DAY_MS).expect(4, "LOCK_HELD")
    ws.fault(*ACQUIRE, wall_ms=-DAY_MS).expect(4, "LOCK_HELD")


for verb in ("check", "release", "renew"):
    @test(f"wall clock ±1 day: {verb} of another tool's lock is a use that later steps of the clock are measured by")
    def _(ws, verb=verb):
        foreign_lock(ws, "name", "a", sleeper(ws).pid, created=0)
        ws.tasuki("lock", verb, "name", "a").expect(4)
        ws.fault(*ACQUIRE, wall_ms=DAY_MS).expect(4, "LOCK_HELD")
        ws.fault(*ACQUIRE, wall_ms=-DAY_MS).expect(4, "LOCK_HELD")


@test("wall clock -1 day: another tool's dead lock that would be expired by the true time stays held")
def _(ws):
    foreign_lock(ws, "name", "a", dead_pid(), created=-3600, expires=-60)
    ws.fault(*ACQUIRE, wall_ms=-DAY_MS).expect(4, "LOCK_HELD")
    ws.tasuki(*ACQUIRE).expect(0)


@test("wall clock +2 days: a living sprint of ours does not become a zombie")
def _(ws):
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e").expect(0)
    check_u2(ws.fault("sprint", "check", "--json", wall_ms=2 * DAY_MS), "blocked", 4, "check")


@test("a lock taken under a wrong wall clock is still held when the clock was put right")
def _(ws):
    holder = sleeper(ws)
    for jump in (DAY_MS, -DAY_MS):
        ws.fault("lock", "acquire", "name", "a", "--pid", holder.pid, wall_ms=jump).expect(0)
        ws.tasuki(*ACQUIRE).expect(4, "LOCK_HELD")
        ws.tasuki("lock", "release", "name", "a", "--token", ws.read_lock("name", "a")["token"]).expect(0)


# -- stopped holders ----------------------------------------------------------------------------------------

@test("SIGSTOP past the TTL: a stopped process is a living holder", slow=True)
def _(ws):
    holder = hold_by_process(ws, "--ttl", "1s")
    holder.send_signal(signal.SIGSTOP)
    expires = parse_time(ws.read_lock("name", "a")["expires_at"])
    ws.until(lambda: now() > expires + datetime.timedelta(milliseconds=10), "the TTL is over")
    ws.tasuki(*ACQUIRE).expect(4, "LOCK_HELD")


@test("SIGSTOP past the TTL: a stopped `lock run` is a living holder")
def _(ws):
    proc = run_held(ws, "a")
    os.killpg(proc.pid, signal.SIGSTOP)
    past = (now() - datetime.timedelta(hours=1)).replace(microsecond=0).isoformat()
    edit_lock(ws, "name", "a", expires_at=past, expires_boot_ms=1)
    ws.tasuki(*ACQUIRE).expect(4, "LOCK_HELD")


@test("several holders judged at once: only the dead one's lock is listed as dead")
def _(ws):
    run_held(ws, "living")
    holder = sleeper(ws)
    ws.tasuki("lock", "acquire", "name", "dead", "--pid", holder.pid).expect(0)
    holder.kill()
    holder.wait()
    eq(ws.tasuki("lock", "check", "name", "living").code, 4, "check of the living")
    eq(ws.tasuki("lock", "check", "name", "dead").code, 6, "check of the dead")
    eq(ws.tasuki("lock", "check", "name", "free").code, 0, "check of the free")


@test("a zombie process (ended, not yet waited for) is a dead holder")
def _(ws):
    holder = subprocess.Popen(["sleep", "1000"])
    ws.tasuki("lock", "acquire", "name", "a", "--pid", holder.pid).expect(0)
    holder.kill()
    try:
        ws.until(lambda: ws.tasuki(*ACQUIRE).code == 0, "the lock of a process that nobody waits for is free")
    finally:
        holder.wait()


main(__name__)
