#!/bin/sh
# lock.sh - a script that must not run twice at the same time, in two ways. It works in the workspace that contains the
# working directory (`tasuki init` makes one) and expects `tasuki` in PATH.
#
#     examples/lock.sh short     # the lock is held around one command
#     examples/lock.sh long      # the lock is held by this script, over several commands
set -eu
wait=${WAIT:-10s}

short() {
    # Waits in arrival order. The exit code is the command's; 4 means that another process kept the lock all the time.
    # shellcheck disable=SC2016 # the inner shell has the variable
    tasuki lock run report --wait "$wait" -- sh -c 'echo "making the report (fence $TASUKI_LOCK_FENCE)"'
}

long() {
    # `--pid $$`: this script is the holder. When it ends, for any reason, another process can take the lock at once.
    tasuki lock acquire name report --pid $$ --wait "$wait" --ttl 1h >/dev/null || exit
    echo "collecting"
    # Another process may have forced the lock away in the meantime; then stop here.
    tasuki lock renew name report >/dev/null || exit
    echo "publishing"
    tasuki lock release name report >/dev/null
}

case ${1:-} in
short | long) "$1" ;;
*)
    echo "usage: $0 short|long" >&2
    exit 2
    ;;
esac
