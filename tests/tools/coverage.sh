#!/usr/bin/env bash
# How much of the ONNX cases a backend runs itself: the number of cases without a node on another
# backend, then what it left to others, by op and reason, and the cases concerned.
# usage: coverage.sh STATOR BACKEND DIR [stator flags, e.g. --plugin-dir FOLDER]
# Status 1 when fewer than LEAST percent (default 90) of the cases run whole on the backend.
set -u
stator=$1
backend=$2
cases=$3
shift 3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
STATOR_LOGS=dispatch "$stator" conform "$backend" --cases "$cases" --json "$@" \
    >"$work/rows" 2>"$work/log"
grep '^\[dispatch\]' "$work/log" | sed "s/^\[dispatch\] //; s/ '[^']*':/:/" | sort | uniq -c | sort -rn
python3 - "$work/rows" "${LEAST:-90}" <<'PY'
import json
import sys

with open(sys.argv[1], encoding="utf-8") as f:
    root = json.load(f)
for row in root["cases"]:
    if row["elsewhere"]:
        print(f"elsewhere {row['elsewhere']} of {row['nodes']}: {row['name']}")
whole, compiled = root["whole"], root["compiled"]
print(f"{root['passed']} passed, {root['failed']} failed, {root['skipped']} skipped")
print(f"{whole} of {compiled} cases ({100 * whole / max(compiled, 1):.1f} %) run whole")
sys.exit(whole * 100 < int(sys.argv[2]) * compiled or root["failed"] > 0)
PY
