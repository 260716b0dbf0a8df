#!/bin/sh
# run_loop.sh TASUKI HOLD DIR ROLE - a contender that uses `tasuki lock run name storm`, again and again, until killed.
# An exit code that neither the command, nor a refusal, nor a signal explains is an error in the log. The storm kills
# children of this loop, so a number that it needs comes from no program.
tasuki=$1 hold=$2 dir=$3 role=$4 turn=$$
while :; do
    turn=$(((turn * 1103 + 12345) % 65536))
    "$tasuki" lock run storm --wait 5s -- "$hold" "$dir" name "$role" $((turn / 16 % 12)) \
        2>"$dir/$role.stderr"
    code=$?
    case $code in
    0 | 4 | 129 | 137 | 143) ;;
    *) echo "error lock=name role=$role pid=$$ call=run code=$code text=$(head -c 200 "$dir/$role.stderr" | tr '\n' ' ')" >>"$dir/log" ;;
    esac
done
