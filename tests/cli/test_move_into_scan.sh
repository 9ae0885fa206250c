#!/usr/bin/env bash
# fold_embedding_product and move_into_scan change no answers: the inputs of their golden files give the same on eager, which
# runs them as they are written, and on backends whose pipelines have both. A look-up outside of the
# table is an error inside of a body too.
set -eu

plugins="$STATOR_BUILD/tests/plugins"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

backends=
[ -e "$plugins/loops.so" ] && backends="$backends loops"
"$STATOR" backends --probe | grep -q '^inductor-cpu *AVAILABLE' && backends="$backends inductor-cpu"
[ -n "$backends" ] || { echo "no backend that has the passes"; exit 77; }

count=0
for file in "$STATOR_SOURCE"/tests/golden/move_into_scan/*.stir "$STATOR_SOURCE"/tests/golden/fold_embedding_product/*.stir; do
    sed '/^\/\/ expected/,$d' "$file" > "$work/model.stir"
    dims=$(sed -n 's/^sym \([T]\) .*/--dim \1=7/p' "$file" | sort -u)
    for backend in $backends; do
        # shellcheck disable=SC2086 # several words
        if ! "$STATOR" compare "$work/model.stir" --backends "eager,$backend" \
                --plugin-dir "$plugins" $dims > "$work/out" 2>&1; then
            echo "$file:"
            cat "$work/out"
            exit 1
        fi
    done
    count=$((count + 1))
done
[ "$count" -ge 4 ] || { echo "only $count files"; exit 1; }

# A wrong index.
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$STATOR_SOURCE/tests/cli" python3 - "$work" <<'PY'
import struct
import sys

import npy

npy.write(f"{sys.argv[1]}/ids.npy", "<i8", (2, 3), struct.pack("<6q", 0, 1, 0, 1, 9, 0))
npy.write(f"{sys.argv[1]}/h.npy", "<f4", (3, 4), bytes(48))
PY
sed '/^\/\/ expected/,$d' "$STATOR_SOURCE/tests/golden/move_into_scan/gather.stir" > "$work/model.stir"
last=${backends##* }
if "$STATOR" run "$work/model.stir" --backend "$last" --plugin-dir "$plugins" \
        --input "ids=$work/ids.npy" --input "h=$work/h.npy" > "$work/out" 2>&1; then
    echo "an index of 9 in a table of 2 passed on $last"
    exit 1
fi
grep -q 'outside its axis' "$work/out" || { cat "$work/out"; exit 1; }
grep -q 'hint: the backend eager names the index' "$work/out" || { cat "$work/out"; exit 1; }
echo "$count files agree on eager$backends"
