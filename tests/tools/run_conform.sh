#!/usr/bin/env bash
# Runs `stator conform BACKEND --cases DIR` and checks the count line: no failure, and at least
# 99 % of the cases passed. COUNT: so many of them alone, spread evenly over their names.
# usage: run_conform.sh BACKEND DIR LOG [COUNT]
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
if [ -n "${4:-}" ]; then
    spread=$log.cases
    rm -rf "$spread"
    mkdir -p "$spread"
    trap 'rm -rf "$spread"' EXIT
    (cd "$cases" && find . -name model.onnx | sort) | awk -v count="$4" '
        { name[NR] = $0 }
        END { for (i = 0; i < count && i < NR; i++) print name[1 + int(i * NR / (count < NR ? count : NR))] }' |
        while read -r model; do
            folder=$(dirname "$model")
            mkdir -p "$spread/$(dirname "$folder")"
            cp -rl "$cases/$folder" "$spread/$folder" 2>/dev/null || cp -r "$cases/$folder" "$spread/$folder"
        done
    cases=$spread
fi
[ -z "${STATOR_SOFT_TEXTS:-}" ] || rm -rf "$STATOR_SOFT_TEXTS" # of cases as they are now
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
echo "repeat: $STATOR conform $backend --cases $2"
exit $status
