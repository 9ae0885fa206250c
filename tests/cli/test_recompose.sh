#!/usr/bin/env bash
# recompose changes no answers: every input of tests/golden/recompose gives the same on eager, which
# runs it as it is written, and on keeper, which finds the composites and keeps them.
set -eu

plugins="$STATOR_BUILD/tests/plugins"
[ -e "$plugins/keeper.so" ] || { echo "no keeper plugin"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

count=0
for file in "$STATOR_SOURCE"/tests/golden/recompose/*.stir; do
    sed '/^\/\/ expected/,$d' "$file" > "$work/model.stir"
    dims=$(sed -n 's/^sym \([NST]\) .*/--dim \1=3/p' "$file" | sort -u)
    # shellcheck disable=SC2086 # several words
    if ! "$STATOR" compare "$work/model.stir" --backends eager,keeper --plugin-dir "$plugins" \
            $dims > "$work/out" 2>&1; then
        echo "$file:"
        cat "$work/out"
        exit 1
    fi
    count=$((count + 1))
done
[ "$count" -gt 40 ] || { echo "only $count files"; exit 1; }

# The pipeline shows the pass, and without it nothing is whole.
"$STATOR" passes --backend keeper --plugin-dir "$plugins" | grep -q '^recompose '
sed '/^\/\/ expected/,$d' "$STATOR_SOURCE/tests/golden/recompose/gelu.stir" > "$work/model.stir"
"$STATOR" print "$work/model.stir" --backend keeper --plugin-dir "$plugins" --after recompose |
    grep -q '= gelu('
if "$STATOR" print "$work/model.stir" --backend aot_eager --after dce | grep -q '= gelu('; then
    echo "aot_eager keeps nothing, and has a gelu"
    exit 1
fi
echo "$count files agree"
