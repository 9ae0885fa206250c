#!/usr/bin/env bash
# Runs one libFuzzer program for STATOR_FUZZ_SECONDS (600) from the committed corpus; what it finds
# stays in WORK.
# usage: run_fuzz.sh PROGRAM CORPUS WORK      status 0 when nothing was found
set -u
program=$1
corpus=$2
work=$3
mkdir -p "$work/corpus" "$work/found"
seeds=()
[ -d "$corpus" ] && seeds=("$corpus")
cd "$work" || exit 1
"$program" -max_total_time="${STATOR_FUZZ_SECONDS:-600}" -timeout=20 -rss_limit_mb=2048 \
    -print_final_stats=1 -artifact_prefix="$work/found/" "$work/corpus" \
    ${seeds[@]+"${seeds[@]}"} >"$work/log.txt" 2>&1
status=$?
tail -n 12 "$work/log.txt"
exit $status
