"""What the suites of `tasuki up` share: files that name servers, and what runs."""

PROCFILE = """# three servers
web: echo web on $PORT; exec sleep 1000
db: echo db >&2; exec sleep 1000
"""
SERVERS = """version: 1
processes:
  db:
    command: sh
    args: [-c, 'echo listening; exec sleep 1000']
    ready: {log: listening}
  web:
    command: sh
    args: [-c, 'echo serving; exec sleep 1000']
    ready: {log: serving}
    depends_on: {db: ready}
  api:
    command: sh
    args: [-c, 'echo "OSError: Address already in use" >&2; exit 1']
    restart: on-failure
    backoff_ms: 100000
    backoff_max_ms: 100000
    depends_on: {web: ready}
"""


def write(ws, name, text):
    path = ws.path / name
    path.write_text(text)
    return path


def up(ws, *words, **options):
    """`tasuki up` in a pipe, in the background."""
    return ws.spawn("up", *words, **options)


def states(p):
    return {id: one["state_name"] for id, one in p.list().items()}


def until_state(p, id, state, phase=None):
    """The same as Processes.until_state, of one that may not be registered yet."""
    p.ws.until(lambda: id in p.list(), f"{id} is registered")
    return p.until_state(id, state, phase)


def lines_of(text, id):
    return [line for line in text.splitlines() if line.startswith(f"{id} ")]
