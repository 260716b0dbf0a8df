"""Spec 2 and 3: which workspace a command finds, and on which file systems it works."""

import os
import shutil

from common import NOBODY, check_error, need_namespace, need_root, run_as_nobody, run_held, unshare
from harness.harness import Skip, eq, main, test

ACQUIRE = ("lock", "acquire", "name", "a", "--json")
IDENTITY = {f"GIT_{who}_{what}": "test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(ws, *args, cwd=None):
    if not shutil.which("git"):
        raise Skip("git is not installed")
    return ws.run(["git", "-c", "init.defaultBranch=main", *args], cwd=cwd, env=IDENTITY).expect(0)


def repository(ws):
    """A repository with a configuration that git manages, and a linked worktree of it. Returns the worktree."""
    git(ws, "init", "-q")
    ws.tasuki("init").expect(0)
    (ws.path / ".aiflow/config.yaml").write_text("{}\n")
    git(ws, "add", ".")
    git(ws, "commit", "-q", "-m", "start")
    worktree = ws.base / "linked"
    git(ws, "worktree", "add", "-q", worktree)
    assert (worktree / ".aiflow/config.yaml").exists()
    return worktree


# -- finding it ---------------------------------------------------------------------------------------------

@test("the workspace is found upwards from here")
def _(ws):
    deep = ws.path / "a/b/c"
    deep.mkdir(parents=True)
    ws.tasuki(*ACQUIRE, cwd=deep).expect(0)
    assert ws.lock_path("name", "a").exists()


@test("of two workspaces above each other the nearest counts", init=False)
def _(ws):
    inner = ws.path / "a" / "b"
    (inner / "c").mkdir(parents=True)
    for root in (ws.path, inner):
        ws.tasuki("--root", ".", "init", cwd=root).expect(0)
    eq(ws.tasuki("status", "--json", cwd=inner / "c").expect(0).json["root"], str(inner.resolve()))
    eq(ws.tasuki("status", "--json", cwd=ws.path / "a").expect(0).json["root"], str(ws.path.resolve()))


@test("init below a workspace says where it is and makes no second one; --root does, a repository of its own gets its own")
def _(ws):
    sub, other = ws.path / "sub/deep", ws.path / "other"
    sub.mkdir(parents=True)
    other.mkdir()
    result = ws.tasuki("init", "--json", cwd=sub).expect(0).json
    eq((result["status"], result["root"]), ("exists", str(ws.path.resolve())))
    assert "tasuki --root . init" in ws.tasuki("init", cwd=sub).expect(0).out
    assert not (sub / ".aiflow").exists() and not (sub.parent / ".aiflow").exists()
    eq(ws.tasuki("--root", ".", "init", "--json", cwd=sub).expect(0).json["status"], "created")
    git(ws, "init", "-q", cwd=other)
    eq(ws.tasuki("init", "--json", cwd=other).expect(0).json["root"], str(other.resolve()))


@test("without a workspace: NOT_FOUND, exit 5, and `tasuki init` is the next command", init=False)
def _(ws):
    for args in (ACQUIRE, ("lock", "list", "--json"), ("status", "--json"), ("events", "--json")):
        error = check_error(ws.tasuki(*args), 5, "NOT_FOUND", "NOT_FOUND")
        assert any("tasuki init" in command for command in error["next"]), error
    assert not (ws.path / ".aiflow").exists()
    result = ws.tasuki("lock", "list").expect(5)
    assert "tasuki init" in result.err, result


@test("--root and TASUKI_ROOT name the workspace; --root wins", init=False)
def _(ws):
    for name in ("one", "two"):
        (ws.path / name).mkdir()
        ws.tasuki("init", cwd=ws.path / name).expect(0)
    ws.tasuki("--root", ws.path / "one", *ACQUIRE).expect(0)
    assert (ws.path / "one/.aiflow/locks/name.a.lock.json").exists()
    ws.tasuki(*ACQUIRE, env={"TASUKI_ROOT": ws.path / "two"}).expect(0)
    assert (ws.path / "two/.aiflow/locks/name.a.lock.json").exists()
    result = ws.tasuki("--root", "one", "lock", "release", "name", "a", env={"TASUKI_ROOT": ws.path / "two"})
    result.expect(0)
    assert (ws.path / "two/.aiflow/locks/name.a.lock.json").exists()
    assert not (ws.path / "one/.aiflow/locks/name.a.lock.json").exists()


@test("a --root without a workspace is NOT_FOUND, whatever is above it")
def _(ws):
    (ws.path / "empty").mkdir()
    check_error(ws.tasuki("--root", "empty", *ACQUIRE), 5, "NOT_FOUND")
    check_error(ws.tasuki("--root", "missing", *ACQUIRE), 5, "NOT_FOUND")


@test("a TASUKI_ROOT that leads nowhere is named by the command that takes it away")
def _(ws):
    (ws.path / "empty").mkdir()
    for name in ("empty", "missing"):
        error = check_error(ws.tasuki(*ACQUIRE, "--json", env={"TASUKI_ROOT": ws.path / name}), 5, "NOT_FOUND")
        eq(error["next"][-1], "unset TASUKI_ROOT", name)
        error = check_error(ws.tasuki("--root", name, *ACQUIRE, "--json"), 5, "NOT_FOUND")
        assert "unset TASUKI_ROOT" not in error.get("next", []), error


@test("a workspace whose path is 3,000 bytes long works", init=False)
def _(ws):
    deep = ws.path / "/".join(["d" * 200] * 15)
    deep.mkdir(parents=True)
    ws.tasuki("init", cwd=deep).expect(0)
    ws.tasuki(*ACQUIRE, cwd=deep).expect(0)
    ws.tasuki(*ACQUIRE, cwd=deep).expect(4)


# -- git ----------------------------------------------------------------------------------------------------

@test("a linked git worktree shares the main worktree's locks, though git checked out .aiflow there too", init=False)
def _(ws):
    worktree = repository(ws)
    run_held(ws, "a")
    ws.tasuki(*ACQUIRE, cwd=worktree).expect(4, "LOCK_HELD")
    ws.tasuki("lock", "acquire", "name", "b", cwd=worktree).expect(0)
    assert ws.lock_path("name", "b").exists()
    assert not (worktree / ".aiflow/locks").exists()
    ws.tasuki("lock", "acquire", "name", "b").expect(4)


@test("only --root and TASUKI_ROOT make a linked worktree its own workspace", init=False)
def _(ws):
    worktree = repository(ws)
    run_held(ws, "a")
    ws.tasuki("--root", worktree, *ACQUIRE, cwd=worktree).expect(0)
    assert (worktree / ".aiflow/locks/name.a.lock.json").exists()


@test("commands run in the worktree they were called from", init=False)
def _(ws):
    worktree = repository(ws)
    result = ws.tasuki("lock", "run", "a", "--", "pwd", cwd=worktree).expect(0)
    eq(result.out.strip(), str(worktree), "the directory of the command")


@test("a bare repository: the state is in <git common dir>/tasuki and its worktrees share it", init=False)
def _(ws):
    source, bare = ws.base / "source", ws.base / "bare.git"
    source.mkdir()
    git(ws, "init", "-q", cwd=source)
    (source / "file").write_text("x")
    git(ws, "add", ".", cwd=source)
    git(ws, "commit", "-q", "-m", "start", cwd=source)
    git(ws, "clone", "-q", "--bare", source, bare)
    trees = [ws.base / "t1", ws.base / "t2"]
    for tree in trees:
        git(ws, "worktree", "add", "-q", "-b", tree.name, tree, cwd=bare)
    ws.tasuki("init", cwd=trees[0]).expect(0)
    ws.tasuki(*ACQUIRE, cwd=trees[0]).expect(0)
    assert (bare / "tasuki/locks/name.a.lock.json").exists()
    ws.tasuki(*ACQUIRE, cwd=trees[1]).expect(4, "LOCK_HELD")


# -- mounts -------------------------------------------------------------------------------------------------

@test("a bind mount of the workspace shows the same locks")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    run_held(ws, "a")
    script = """
        mkdir "$B/bound"; mount --bind "$W" "$B/bound"; cd "$B/bound"
        "$T" lock acquire name a --json || echo "code $?"
        "$T" lock acquire name b --pid 1 >/dev/null && echo took
    """
    result = unshare(ws, ["-m"], script).expect(0)
    assert "code 4" in result.out and "took" in result.out, result
    eq(ws.tasuki("lock", "check", "name", "b").code, 4, "check from outside")


EXCLUSION = """
    cd "$1"; "$T" init >/dev/null
    "$T" lock run a -- sh -c '"$T" lock acquire name a --json || echo "held $?"'
    "$T" lock acquire name a --pid 1 >/dev/null && echo taken
    "$T" lock acquire name a --pid 1 >/dev/null || echo "again $?"
    "$T" lock acquire name a --pid 1 --force --yes >/dev/null && echo forced
    "$T" sprint acquire --session s --epic e >/dev/null && "$T" sprint release >/dev/null && echo sprinted
"""


def check_exclusion(ws, mount):
    """Acquire, refusal, takeover and release on the file system that `mount` puts at $B/place."""
    (ws.base / "exclusion.sh").write_text(EXCLUSION)
    script = f'mkdir "$B/place"; {mount}; export T; sh -eu "$B/exclusion.sh" "$B/place"'
    result = unshare(ws, ["-m"], script)
    if result.code == 99:
        raise Skip("this file system cannot be mounted here")
    for word in ("held 4", "taken", "again 4", "forced", "sprinted"):
        assert word in result.out, f"{word!r} is missing\n{result}"


@test("tmpfs: locks exclude, are taken over and released", init=False)
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    check_exclusion(ws, 'mount -t tmpfs tmpfs "$B/place" || exit 99')


@test("overlay: locks exclude, are taken over and released", init=False)
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    check_exclusion(ws, 'mkdir "$B/o"; mount -t tmpfs tmpfs "$B/o"; mkdir "$B/o/low" "$B/o/up" "$B/o/work"; '
                        'mount -t overlay overlay -o "lowerdir=$B/o/low,upperdir=$B/o/up,workdir=$B/o/work" "$B/place" '
                        '|| exit 99')


@test("overlay: a lock file that lies in the lower layer is judged and taken over like any other", init=False)
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    script = """
        mkdir "$B/o"; mount -t tmpfs tmpfs "$B/o"; mkdir "$B/o/low" "$B/o/up" "$B/o/work" "$B/o/m"
        cd "$B/o/low"; "$T" init >/dev/null; sleep 1000 & pid=$!
        "$T" lock acquire name a --pid $pid >/dev/null; kill -9 $pid; wait $pid || true
        mount -t overlay overlay -o "lowerdir=$B/o/low,upperdir=$B/o/up,workdir=$B/o/work" "$B/o/m" || exit 99
        cd "$B/o/m"; "$T" lock check name a >/dev/null || echo "check $?"
        "$T" lock acquire name a --pid 1 >/dev/null && echo taken
        "$T" lock acquire name a --pid 1 >/dev/null || echo "again $?"
    """
    result = unshare(ws, ["-m"], script)
    if result.code == 99:
        raise Skip("overlay cannot be mounted here")
    for word in ("check 6", "taken", "again 4"):
        assert word in result.out, f"{word!r} is missing\n{result}"


@test("network file systems are refused, and no mode is named that does not exist")
def _(ws):
    for fstype in ("nfs", "cifs"):
        error = check_error(ws.fault(*ACQUIRE, fstype=fstype), 3, "UNSUPPORTED_FS", "ENVIRONMENT")
        assert "local disk" in error["message"] and "Redis" not in str(error), error
        assert fstype in str(error), error
    assert not ws.lock_path("name", "a").exists()


@test("config.yaml with `locks:` gets no lock until the key means something; a lock that is held can be released")
def _(ws):
    config = ws.path / ".aiflow/config.yaml"
    ws.tasuki(*ACQUIRE, "--pid", os.getpid()).expect(0)
    config.write_text("max_runs: 2\nlocks: redis://127.0.0.1:6379\n")
    ws.tasuki("lock", "release", "name", "a").expect(0)
    for command in (ACQUIRE, ("lock", "run", "b", "--", "true"), ("sprint", "acquire", "--session", "s", "--epic", "e")):
        result = ws.tasuki("--json", *command)
        eq(result.code, 2, f"{command}: {result}")
        assert "`locks` is not supported" in result.out + result.err, result
        assert "config.yaml:2:1" in result.out + result.err, result
    found = ws.tasuki("doctor", "--json").expect(3).json
    config_check = next(c for c in found["checks"] if c["name"] == "config")
    assert config_check["status"] == "FAIL" and "`locks`" in config_check["summary"], config_check
    assert "redis" not in [c["name"] for c in found["checks"]], found
    config.write_text("max_runs: 2\n")
    ws.tasuki(*ACQUIRE, "--pid", os.getpid()).expect(0)
    config.write_text("locks: redis://127.0.0.1:6379\nagents: [\n")
    for command in (("lock", "acquire", "name", "b"), ("lock", "run", "b", "--", "true"), ("sprint", "acquire", "--session", "s", "--epic", "e")):
        result = ws.tasuki("--json", *command)
        eq(result.code, 2, f"a file that cannot be parsed may have the key: {result}")
        assert "config.yaml:3:1" in result.out, result
    ws.tasuki("lock", "release", "name", "a").expect(0)


@test("trust_fs does not open network file systems")
def _(ws):
    (ws.path / ".aiflow/config.yaml").write_text("trust_fs: true\n")
    check_error(ws.fault(*ACQUIRE, fstype="nfs"), 3, "UNSUPPORTED_FS")


@test("fuse and 9p are refused unless trust_fs: true is configured")
def _(ws):
    config = ws.path / ".aiflow/config.yaml"
    for fstype in ("fuse", "9p"):
        config.write_text("trust_fs: false\n")
        error = check_error(ws.fault(*ACQUIRE, fstype=fstype), 3, "UNSUPPORTED_FS")
        assert "trust_fs" in str(error), error
        config.write_text("trust_fs: true\n")
        ws.fault(*ACQUIRE, fstype=fstype).expect(0)
        ws.tasuki("lock", "release", "name", "a").expect(0)


@test("a real fuse mount (bindfs) is refused, and works with trust_fs: true")
def _(ws):
    need_root("a mount")
    need_namespace(ws, "-m")
    if not shutil.which("bindfs"):
        raise Skip("bindfs is not installed")
    script = """
        mkdir "$B/place"; bindfs "$W" "$B/place" || exit 99
        trap 'cd /; umount "$B/place"' EXIT
        cd "$B/place"
        "$T" lock acquire name a --json || echo "code $?"
        echo "trust_fs: true" > .aiflow/config.yaml
        "$T" lock run a -- sh -c '"$T" lock acquire name a --json || echo "held $?"'
    """
    result = unshare(ws, ["-m"], "export T; " + script)
    if result.code == 99:
        raise Skip("bindfs cannot be mounted here")
    assert "UNSUPPORTED_FS" in result.out and "code 3" in result.out and "held 4" in result.out, result


@test("init below a workspace that another user has put there makes one's own", init=False)
def _(ws):
    need_root("other users")
    stranger = ws.path / ".aiflow"
    ws.tasuki("init").expect(0)
    mine = ws.path / "mine"
    mine.mkdir()
    os.chown(mine, NOBODY, NOBODY)
    for owner, kept in ((NOBODY + 1, mine), (NOBODY, ws.path)):
        for path in (stranger, *stranger.rglob("*")):
            os.chown(path, owner, owner)
            path.chmod(0o777)
        made = run_as_nobody(ws, [ws.binary, "init", "--json"], cwd=mine).expect(0).json["root"]
        eq(made, str(kept.resolve()), f"where, with a workspace of {owner} above")
        shutil.rmtree(mine / ".aiflow", ignore_errors=True)


main(__name__)
