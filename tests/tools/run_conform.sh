#!/usr/bin/env bash
# Runs `stator conform BACKEND --cases DIR` and checks the count line: no failure, and at least
# 99 % of the cases passed.
# usage: run_conform.sh BACKEND DIR LOG
# Status 77 (skipped) when DIR does not exist, unless STATOR_NEED_CASES is set.
set -u
backend=$1
cases=$2
log=$3
if [ ! -d "$cases" ]; then
    echo "no cases in $cases: ./bootstrap test makes them (Python's pip and the network are needed)"
    [ -n "${STATOR_NEED_CASES:-}" ] && exit 1
    exit 77
fi
mkdir -p "$(dirname "$log")"
"$STATOR" conform "$backend" --cases "$cases" >"$log" 2>"$log.err"
status=$?
grep -E '^(FAIL|SKIP)' "$log"
tail -n 20 "$log.err"
line=$(tail -n 1 "$log")
echo "$line"
read -r passed _ failed _ skipped _ <<<"$(echo "$line" | tr -d ,)"
case "$passed$failed$skipped" in
    *[!0-9]* | "") echo "no count line; status $status"; exit 1 ;;
esac
total=$((passed + failed + skipped))
if [ $((passed * 100)) -lt $((total * 99)) ]; then
    echo "$passed of $total passed, expected at least 99 %"
    exit 1
fi
echo "repeat: $STATOR conform $backend --cases $cases"
exit $status
