"""Commands that begin at the same instant."""

import os


def start_behind_gate(ws, argv, gate, out):
    """Forks a process that becomes `argv` when the gate's other end is closed."""
    pid = os.fork()
    if pid:
        return pid
    try:
        reader, writer = gate
        os.close(writer)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.read(reader, 1)
        os.execve(argv[0], argv, ws.env())
    finally:
        os._exit(98)


def race(ws, commands):
    """Runs all the commands at the same time. Returns [(exit code, output)]."""
    gate = os.pipe()
    outs = [os.memfd_create("out") for _ in commands]
    pids = [start_behind_gate(ws, [str(a) for a in argv], gate, out) for argv, out in zip(commands, outs)]
    for fd in gate:
        os.close(fd)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    answers = []
    for code, out in zip(codes, outs):
        os.lseek(out, 0, os.SEEK_SET)
        answers.append((code, os.read(out, 1 << 16).decode()))
        os.close(out)
    return answers
