#!/bin/sh
# lock.sh - a script that must not run twice at the same time, in two ways. It works in the workspace that contains the
# working directory (`tasuki init` makes one) and expects `tasuki` in PATH.
#
#     examples/lock.sh short     # the lock is held around one command
#     examples/lock.sh long      # the lock is held by this script, over several commands
set -eu
wait=${WAIT:-10s}

short() {
    # Waits in arrival order. The exit code is the command's; 4: somebody else has had it all the time.
    # shellcheck disable=SC2016 # the inner shell has the variable
    tasuki lock run report --wait "$wait" -- sh -c 'echo "making the report (fence $TASUKI_LOCK_FENCE)"'
}

long() {
    # `--pid $$`: this script is the holder. If it dies, whatever the reason, the lock can be taken at once.
    tasuki lock acquire name report --pid $$ --wait "$wait" --ttl 1h >/dev/null || exit
    echo "collecting"
    # Still ours? Somebody may have forced it away in the meantime; then stop here.
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
