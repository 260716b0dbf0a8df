"""One project, one set of locks: whatever makes an .aiflow directory must not split it."""
from harness.harness import test, main, eq


def git(ws, *args, cwd=None):
    return ws.run(["git", "-c", "user.name=t", "-c", "user.email=t@t", *args], cwd=cwd).expect(0)


@test("a sprint lock in a folder below does not make a second workspace of it")
def _(ws):
    sleeper = ws.spawn_command(["sleep", "600"])
    below = ws.path / "proj"
    below.mkdir()
    ws.tasuki("lock", "acquire", "name", "deploy", "--pid", str(sleeper.pid), cwd=below).expect(0)
    ws.tasuki("sprint", "acquire", "--session", "a", "--epic", "b", "--pid", str(sleeper.pid), "--project-root", ".",
              cwd=below).expect(0)
    ws.tasuki("--json", "lock", "acquire", "name", "deploy", "--pid", str(sleeper.pid), cwd=below).expect(4, "LOCK_HELD")
    eq(ws.tasuki("--json", "status", cwd=below).json["root"], str(ws.path.resolve()))


@test("a bare repository has one workspace, made inside it or in a worktree", init=False)
def _(ws):
    main_tree, bare, tree = ws.path / "main", ws.path / "bare.git", ws.path / "tree"
    git(ws, "init", "-q", str(main_tree))
    git(ws, "commit", "-q", "--allow-empty", "-m", "x", cwd=main_tree)
    git(ws, "clone", "-q", "--bare", str(main_tree), str(bare))
    git(ws, "worktree", "add", "-q", "--detach", str(tree), cwd=bare)
    inside = ws.tasuki("--json", "init", cwd=bare).expect(0).json
    eq(inside["state"], str((bare / "tasuki").resolve()))
    eq(ws.tasuki("--json", "init", cwd=tree).expect(0).json["state"], inside["state"])
    eq(ws.tasuki("--json", "--root", str(bare), "init").expect(0).json["state"], inside["state"])
    assert not (bare / ".aiflow").exists()


@test("in a linked worktree `sprint` and `lock … sprint` are the same lock, the worktree's own")
def _(ws):
    sleeper = ws.spawn_command(["sleep", "600"])
    git(ws, "init", "-q", cwd=ws.path)
    git(ws, "commit", "-q", "--allow-empty", "-m", "x", cwd=ws.path)
    tree = ws.base / "tree"
    git(ws, "worktree", "add", "-q", "--detach", str(tree), cwd=ws.path)
    ws.tasuki("sprint", "acquire", "--session", "s", "--epic", "e", "--pid", str(sleeper.pid), cwd=tree).expect(0)
    assert (tree / ".sprint-running").exists()
    ws.tasuki("lock", "check", "sprint", cwd=tree).expect(4)
    ws.tasuki("lock", "check", "sprint").expect(0)
    eq([lock["kind"] for lock in ws.tasuki("--json", "lock", "list", cwd=tree).json["locks"]], ["sprint"])


@test("a folder that may not be searched is not taken for one without a workspace", init=False)
def _(ws):
    inner = ws.path / "shut" / "in"
    inner.mkdir(parents=True)
    (ws.path / "shut").chmod(0)
    try:
        result = ws.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", ws.binary, "--json", "--root",
                         str(inner), "status"], cwd="/")
    finally:
        (ws.path / "shut").chmod(0o700)
    assert result.code in (3, 5) and "init" not in str(result.error.get("next")), result


main(__name__)
