"""One operation, broken at its n-th file-system call, for every n: the operations, and what must hold afterwards.

  I1  the lock file is absent or complete
  I2  somebody else gets the lock, or is refused because of a holder that lives; nobody has to clean up
  I3  fences grow, whatever happened before
  I4  after one more acquire and release nothing private is left over: no temporary file, no `.sprint-running.tmp`
  I5  the event trail can be read
"""

import os
import signal

from harness.harness import eq

D39_KEYS = {"version", "lock_type", "request_id", "run_id", "pid", "host", "created_at", "expires_at", "fence", "token"}
U2_KEYS = {"pid", "session_id", "started_at", "epic_spec", "lock_version", "fence", "token"}
STEPS_MAX = 400  # more file-system calls than this in one operation is a bug of its own


class Sleeper:
    """A process that is alive until the test ends it."""

    def __init__(self):
        reader, self.writer = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self.writer)
            os.read(reader, 1)
            os._exit(0)
        os.close(reader)

    def kill(self):
        if self.writer < 0:
            return
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.writer)
        self.writer = -1


class Bench:
    """A workspace in which one lock is broken again and again."""

    def __init__(self, ws, kind):
        self.ws = ws
        self.kind = kind
        self.id = {"request": "RQ-step", "name": "step"}.get(kind)
        self.words = [kind] + ([self.id] if self.id else [])
        self.last_fence = 0
        self.sleepers = []

    def sleeper(self):
        self.sleepers.append(Sleeper())
        return self.sleepers[-1]

    def close(self):
        for one in self.sleepers:
            one.kill()
        self.sleepers.clear()

    # -- commands -----------------------------------------------------------------------------------------

    def acquire_words(self, pid, *more):
        names = ["--session", f"s-{pid}", "--epic", "step", "--yes"] if self.kind == "sprint" else []
        return ["--json", "lock", "acquire", *self.words, *names, "--pid", str(pid), *more]

    def acquire(self, pid, *more):
        """With the unbroken program; it must succeed."""
        won = self.ws.tasuki(*self.acquire_words(pid, *more)).expect(0).json
        self.note_fence(won["fence"])
        return won

    def release(self, token):
        self.ws.tasuki("lock", "release", *self.words, "--token", token).expect(0)

    def note_fence(self, fence):
        assert fence > self.last_fence, f"I3: fence {fence} after {self.last_fence}"
        self.last_fence = fence

    # -- what is on the disk ------------------------------------------------------------------------------

    def lock_file(self):
        """None, or the content; fails if it is not complete (I1)."""
        path = self.ws.lock_path(self.kind, self.id)
        if not os.path.lexists(path):
            return None
        try:
            content = self.ws.read_lock(self.kind, self.id)
        except (ValueError, OSError) as error:
            raise AssertionError(f"I1: the lock file cannot be read ({error}): {path.read_bytes()!r}") from None
        missing = (U2_KEYS if self.kind == "sprint" else D39_KEYS) - content.keys()
        assert not missing, f"I1: the lock file lacks {missing}: {content}"
        return content

    def check_invariants(self):
        self.lock_file()
        other = self.sleeper()
        answer = self.ws.tasuki(*self.acquire_words(other.pid))
        if answer.code == 4:
            holder = answer.error["context"]["holder"]
            assert holder["alive"] is True and self.ws.alive(holder["pid"]), f"I2: refused because of {holder}"
            self.release(self.lock_file()["token"])
            answer = self.ws.tasuki(*self.acquire_words(other.pid))
        won = answer.expect(0).json
        self.note_fence(won["fence"])
        self.release(won["token"])
        eq(self.leftovers(), [], "I4: what is left over")

    def leftovers(self):
        left = [name for name in os.listdir(self.ws.path / ".aiflow/locks") if name != ".guard"]
        return left + [name for name in os.listdir(self.ws.path) if name not in (".aiflow", ".gitignore")]

    def check_trail(self):
        events = self.ws.tasuki("--json", "events").expect(0).json["events"]
        assert any(event["type"] == "lock.acquired" for event in events), "I5: no acquisition is in the trail"


# -- the operations. Each prepares, and returns the command and a judge of a command that came back -----------------
#
# judge(result) is called when the command was not killed; it checks that the answer and the disk agree.


def acquire_absent(bench):
    actor = bench.sleeper()
    return bench.acquire_words(actor.pid), lambda result: judge_acquire(bench, result, actor.pid, None)


def acquire_stale(bench):
    victim = bench.sleeper()
    stale = bench.acquire(victim.pid)
    victim.kill()
    actor = bench.sleeper()
    return bench.acquire_words(actor.pid), lambda result: judge_acquire(bench, result, actor.pid, stale["token"])


def acquire_force(bench):
    old = bench.sleeper()
    held = bench.acquire(old.pid)
    actor = bench.sleeper()
    return (bench.acquire_words(actor.pid, "--force", *yes(bench)),
            lambda result: judge_acquire(bench, result, actor.pid, held["token"]))


def acquire_force_kill(bench):
    old = bench.sleeper()
    held = bench.acquire(old.pid)
    actor = bench.sleeper()
    return (bench.acquire_words(actor.pid, "--force", "--kill", *yes(bench)),
            lambda result: judge_acquire(bench, result, actor.pid, held["token"]))


def yes(bench):
    return [] if bench.kind == "sprint" else ["--yes"]


def judge_acquire(bench, result, actor_pid, old_token):
    """Exit 0: it is on the disk, and ours. Otherwise it is not ours: what was there before is there, or nothing."""
    content = bench.lock_file()
    if result.code == 0:
        eq(content and (content["token"], content["pid"]), (result.json["token"], actor_pid), "the lock after exit 0")
        bench.note_fence(result.json["fence"])
        return
    token = content and content["token"]
    assert token in (None, old_token), f"a failed acquire left its lock: {content}\n{result}"


def acquire_held(bench):
    """A living holder: whatever fails, nobody may take it for a dead one."""
    holder = bench.sleeper()
    held = bench.acquire(holder.pid)

    def judge(result):
        content = bench.lock_file()
        eq(content and content["token"], held["token"], f"the holder after a refusal with exit {result.code}")

    return bench.acquire_words(bench.sleeper().pid), judge


def renew(bench):
    holder = bench.sleeper()
    held = bench.acquire(holder.pid)

    def judge(result):
        content = bench.lock_file()
        eq(content and content["token"], held["token"], f"the holder after a renewal with exit {result.code}")

    return ["--json", "lock", "renew", *bench.words, "--token", held["token"]], judge


def release(bench):
    holder = bench.sleeper()
    held = bench.acquire(holder.pid)

    def judge(result):
        content = bench.lock_file()
        if result.code == 0:
            eq(content, None, "the lock file after a release with exit 0")
        elif content:
            eq(content["token"], held["token"], "the holder after a failed release")

    return ["--json", "lock", "release", *bench.words, "--token", held["token"]], judge


def sprint_acquire(bench):
    return ["--json", "sprint", "acquire", "--session", "s", "--epic", "step"], lambda result: judge_sprint(bench, result)


def judge_sprint(bench, result):
    content = bench.lock_file()
    eq(result.json["status"], "acquired" if result.code == 0 else "failure", "the status")
    if result.code == 0:
        eq(content and content["session_id"], "s", "the session after exit 0")
        bench.note_fence(content["fence"])
    else:
        eq(content, None, "the lock file after a failed acquire")
        assert result.json["errors"], "a failure says why"


def sprint_release(bench):
    holder = bench.sleeper()
    bench.acquire(holder.pid)

    def judge(result):
        eq(result.json["status"], "released" if result.code == 0 else "failure", "the status")
        if result.code == 0:
            eq(bench.lock_file(), None, "the lock file after a release with exit 0")

    return ["--json", "sprint", "release", "--yes"], judge


def lock_run(bench):
    """When the release fails, the lock file stays, and is stale; the command's exit code is the answer all the same."""

    def judge(result):
        if bench.lock_file():
            bench.ws.tasuki("lock", "check", *bench.words).expect(6)

    return ["--json", "lock", "run", bench.id, "--", "true"], judge


def for_every_step(bench, operation, mode, judge_code):
    """Runs the operation with the fault at call 1, 2, … until it makes fewer calls than that. Returns how many. All
    steps are tried, also after one went wrong: a fault path that is missing is seldom alone."""
    problems = []
    for n in range(1, STEPS_MAX):
        command, judge = operation(bench)
        result = bench.ws.fault(*command, at=n, mode=mode)
        is_over = result.calls is not None and result.calls < n
        for check in (lambda: check_answer(result, is_over, mode, judge_code, judge), bench.check_invariants):
            try:
                check()
            except AssertionError as error:
                problems.append(f"{mode} at call {n}: {error}")
        bench.close()
        if is_over:
            bench.check_trail()
            break
        assert len(problems) < 40, "\n".join(problems)
    assert not problems, f"{len(problems)} steps went wrong\n" + "\n".join(problems)
    assert is_over, f"more than {STEPS_MAX} file-system calls"
    return n - 1


def check_answer(result, is_over, mode, judge_code, judge):
    if result.code == -signal.SIGKILL:
        assert mode.startswith("kill"), f"it was killed\n{result}"
        return
    judge_code(result, is_over)
    judge(result)
