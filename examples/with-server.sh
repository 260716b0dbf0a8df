#!/bin/sh
# with-server.sh - run a command against a server: start the server, wait until it is ready, run the command, stop the
# server in any case. It works in the workspace that contains the working directory (`tasuki init` makes one) and
# expects `tasuki` in PATH.
#
#     examples/with-server.sh PROBE 'SERVER COMMAND' TEST COMMAND…
#     examples/with-server.sh http://127.0.0.1:3000/ 'npm run dev' npm test
#     examples/with-server.sh 'log:Serving HTTP' 'python3 -u -m http.server 0' true
set -eu
if [ $# -lt 3 ]; then
    echo "usage: $0 PROBE 'SERVER COMMAND' TEST COMMAND…" >&2
    exit 2
fi
probe=$1 server=$2
shift 2
id=under-test-$$

# `remove` stops the server with every process that it started, and deletes its output.
trap 'tasuki --quiet proc remove "$id" --force' EXIT
trap 'exit 130' INT TERM

# The server's command is one string, so a shell runs it. `--start` returns when the server is ready, and fails at once if it ends
# before; then its output says why.
tasuki --quiet proc create "$id" --ready "$probe" --ready-timeout 30s --start -- sh -c "$server" || {
    tasuki proc logs "$id" --both >&2
    exit 1
}
"$@"
