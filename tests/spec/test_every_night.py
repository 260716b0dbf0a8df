"""docs/guide/every-night.md: its lines, run as cron and systemd run them, with a mail program of the test's."""

import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from harness.harness import Skip, eq, main, test  # noqa: E402

GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs/guide/every-night.md"
MAIL = '#!/bin/sh\n{ echo "args: $*"; cat; } > "$MAILBOX.new" && mv "$MAILBOX.new" "$MAILBOX"\n'


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text(), re.MULTILINE | re.DOTALL)


def arrange(ws, command):
    """A workspace with the job, and programs `mail` and `sendmail` that write what they get to the mailbox. The environment."""
    (ws.path / ".aiflow/flows").mkdir(exist_ok=True)
    (ws.path / ".aiflow/flows/nightly.yaml").write_text(f"tasks: {{a: {shlex.quote(command)}}}\n")
    bin = ws.path / "bin"
    bin.mkdir(exist_ok=True)
    for name in ("mail", "sendmail"):
        (bin / name).write_text(MAIL)
        (bin / name).chmod(0o755)
    if not (bin / "tasuki").exists():
        (bin / "tasuki").symlink_to(ws.binary)
    (ws.path / "mailbox").unlink(missing_ok=True)
    return {"PATH": f"{bin}:/usr/bin:/bin", "HOME": str(ws.path), "MAILBOX": str(ws.path / "mailbox"), "LOGNAME": "you"}


def mailbox(ws):
    path = ws.path / "mailbox"
    return path.read_text() if path.exists() else None


def crontab():
    """(settings, command) of the guide's lines."""
    lines = [line for line in blocks("crontab")[0].splitlines() if line.strip()]
    eq(len(lines), 3, "lines in the crontab")
    settings = dict(line.split("=", 1) for line in lines if re.match(r"\w+=", line))
    return settings, re.match(r"(?:\S+\s+){5}(.*)", lines[-1])[1]


def cron(ws, env):
    """As cron: a shell, and a mail if something was printed."""
    settings, command = crontab()
    done = subprocess.run(["/bin/sh", "-c", command.replace("/srv/project", shlex.quote(str(ws.path)))], cwd="/", env=env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.stdout:
        subprocess.run(["sendmail", "-i", settings["MAILTO"]], env=env, input=done.stdout, check=True)
    return done.returncode


def service(ws, env):
    """As systemd: the words of ExecStart in the working directory."""
    text = next(one for one in blocks("ini") if "[Service]" in one).replace("/srv/project", str(ws.path))
    directory = re.search(r"^WorkingDirectory=(.*)$", text, re.MULTILINE)[1]
    words = shlex.split(re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1])
    eq("$" in " ".join(words), False, "systemd would replace a $")
    return subprocess.run(words, cwd=directory, env=env, stdin=subprocess.DEVNULL).returncode


for _name, _start in (("crontab", cron), ("systemd service", service)):
    @test(f"the {_name} of the guide mails the error of a night, with its last lines, and nothing of a good one")
    def _(ws, start=_start):
        eq((start(ws, arrange(ws, "echo fine")), mailbox(ws)), (0, None), "a good night")
        eq(start(ws, arrange(ws, "echo the disk is on fire; exit 3")) != 0, True, "a bad one fails")
        mail = mailbox(ws)
        eq(("you@example.com" in mail, "the disk is on fire" in mail, "exit code 3" in mail, "tasuki resume RUN-" in mail), (True,) * 4, mail)


@test("a night that is not over at the next one is refused, and that is in the mail")
def _(ws):
    env = arrange(ws, "echo $$ > up; while ! test -e go; do sleep 0.01; done")
    first = ws.spawn("run", "nightly", "--quiet")
    ws.until_file("up")
    eq((cron(ws, env) != 0, "RUN-" in mailbox(ws)), (True, True), mailbox(ws))
    (ws.path / "go").touch()
    eq(first.wait(), 0, "the first one")


@test("the units of the guide are what systemd reads")
def _(ws):
    if not shutil.which("systemd-analyze"):
        raise Skip("no systemd-analyze")
    folder = ws.path / "units"
    folder.mkdir()
    for block in blocks("ini"):
        name = re.match(r"# .*/(\S+)$", block.splitlines()[0])[1]
        (folder / name).write_text(block.replace("/srv/project", str(ws.path)))
    done = subprocess.run(["systemd-analyze", "--user", "verify", *sorted(map(str, folder.iterdir()))], capture_output=True, text=True,
                          env={**os.environ, "XDG_RUNTIME_DIR": str(ws.path), "HOME": str(ws.path)})
    wrong = [line for line in done.stderr.splitlines() if str(folder) in line or "nightly." in line]
    eq(wrong, [], "what systemd-analyze says")


main(__name__)
