#!/bin/sh
# A literal U2 client: another tool that keeps `.sprint-running` exactly as the steps of seed 002 say.
# Nothing of tasuki is used.
#
#   u2.sh acquire ROOT SESSION EPIC [yes|force]   prints the status; `yes` answers a zombie's question with y,
#                                                 `force` overwrites a living one too
#   u2.sh release ROOT [SESSION]
#   u2.sh check ROOT
#   u2.sh storm ROOT SESSION EPIC HOLD DIR ROLE   takes it, runs `HOLD DIR sprint ROLE ms`, releases it, until killed
#
# U2_PID: the pid to record, default this shell's. U2_STOP=before-tmp|before-mv|before-rm: SIGSTOP itself there.
set -u
mode=$1
root=$2
lock=$root/.sprint-running
tmp=$root/.sprint-running.tmp

stop_at() {
    [ "${U2_STOP:-}" != "$1" ] || kill -STOP $$
}

field() {
    sed -n "s/^$1: *\"\{0,1\}\([^\"]*\)\"\{0,1\}\$/\1/p" "$2" 2>/dev/null | head -n 1
}

# Step 1 and 2. Sets state to none, zombie or active.
detect() {
    if [ ! -e "$lock" ]; then
        state=none
        return
    fi
    pid=$(field pid "$lock")
    started_at=$(field started_at "$lock")
    case $pid in
    '' | *[!0-9]*)
        state=zombie # invalid format
        return
        ;;
    esac
    if ! kill -0 "$pid" 2>/dev/null; then
        state=zombie
        return
    fi
    started=$(date -d "$started_at" +%s 2>/dev/null) || started=
    if [ -z "$started" ] || [ $((($(date +%s) - started) / 3600)) -ge 24 ]; then
        state=zombie
        return
    fi
    state=active
}

# Step 4.
write_lock() {
    mine=${U2_PID:-$$}
    stop_at before-tmp
    {
        printf 'pid: %s\nsession_id: "%s"\nstarted_at: "%s"\nepic_spec: "%s"\nlock_version: 1\n' \
            "$mine" "$1" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$2" >"$tmp"
    } 2>/dev/null || {
        status=failure
        return
    }
    if [ "$(field pid "$tmp")" != "$mine" ]; then
        rm -f "$tmp" 2>/dev/null
        status=failure
        return
    fi
    stop_at before-mv
    if ! mv "$tmp" "$lock" 2>/dev/null; then
        rm -f "$tmp" 2>/dev/null
        status=failure
        return
    fi
    if [ "$(field pid "$lock")" = "$mine" ] && [ "$(field session_id "$lock")" = "$1" ]; then
        status=acquired
    else
        status=failure
    fi
}

# Step 1 to 4: session, epic, answer.
acquire() {
    detect
    case $state:$3 in
    none:* | zombie:yes | zombie:force | active:force) write_lock "$1" "$2" ;;
    *) status=blocked ;;
    esac
}

# Step 5.
release() {
    status=released
    [ -e "$lock" ] || return
    stop_at before-rm
    rm "$lock" 2>/dev/null || status=failure
    rm -f "$tmp" 2>/dev/null
    return 0
}

check() {
    detect
    case $state in
    none) status=clean ;;
    zombie) status=zombie-detected ;;
    active) status=blocked ;;
    esac
}

storm() {
    while :; do
        acquire "$1" "$2" yes
        if [ "$status" = acquired ]; then
            "$3" "$4" sprint "$5" $(($(date +%N | sed 's/^0*//') % 10))
            release
        else
            sleep 0.02
        fi
    done
}

status=failure
case $mode in
acquire) acquire "$3" "$4" "${5:-no}" ;;
release) release ;;
check) check ;;
storm) storm "$3" "$4" "$5" "$6" "$7" ;;
*)
    echo "Invalid mode" >&2
    exit 2
    ;;
esac
echo "$status"
case $status in
acquired | released | clean) exit 0 ;;
blocked) exit 4 ;;
zombie-detected) exit 6 ;;
*) exit 3 ;;
esac
