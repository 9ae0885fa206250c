#!/usr/bin/env bash
# Runs ops.stir with the library from BUILD on both backends and compares with numbers worked out by
# hand: 30*tanh(1) = 22.8478247. Status 0 when they agree.
set -eu
here=$(dirname "$0")
for backend in eager aot_eager; do
    out=$("$STATOR" run "$here/ops.stir" --backend "$backend" --plugin-dir "$BUILD")
    grep -q '^capped: f32\[4\] 0 22\.8478 -22\.8478 30$' <<<"$out" || { echo "$out"; exit 1; }
    grep -q '^rotated: f32\[2,4\] -3 -4 1 2 -7 -8 5 6$' <<<"$out" || { echo "$out"; exit 1; }
done
# Without the library the op is unknown, and says so.
if out=$("$STATOR" run "$here/ops.stir" --backend eager 2>&1); then
    echo "the op should be unknown: $out"
    exit 1
fi
grep -q "llm_softcap" <<<"$out" || { echo "$out"; exit 1; }
echo "llm_ops: eager and aot_eager agree with the formulas"
