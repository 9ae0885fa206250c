#!/usr/bin/env bash
# Runs ops.stir with the library from BUILD on both backends and compares with numbers worked out by
# hand: 30*tanh(1) = 22.8478247. eager calls the library's kernel, aot_eager runs its decomposition.
# Status 0 when they agree.
set -eu
here=$(dirname "$0")
for backend in eager aot_eager; do
    out=$("$STATOR" run "$here/ops.stir" --backend "$backend" --plugin-dir "$BUILD")
    grep -q '^capped: f32\[4\] 0 22\.8478 -22\.8478 30$' <<<"$out" || { echo "$out"; exit 1; }
    grep -q '^rotated: f32\[2,4\] -3 -4 1 2 -7 -8 5 6$' <<<"$out" || { echo "$out"; exit 1; }
done
kernel="llm_softcap: the library's kernel, 4 elements"
STATOR_LOGS=dispatch "$STATOR" run "$here/ops.stir" --backend eager --plugin-dir "$BUILD" 2>&1 |
    grep -qF "$kernel" || { echo "eager did not call the kernel"; exit 1; }
if STATOR_LOGS=dispatch "$STATOR" run "$here/ops.stir" --backend aot_eager --plugin-dir "$BUILD" 2>&1 |
    grep -F "$kernel"; then
    echo "aot_eager called the kernel"
    exit 1
fi
"$STATOR" compare "$here/ops.stir" --backends eager,aot_eager --plugin-dir "$BUILD" ||
    { echo "kernel and decomposition differ"; exit 1; }
# Without the library the op is unknown, and says so.
if out=$("$STATOR" run "$here/ops.stir" --backend eager 2>&1); then
    echo "the op should be unknown: $out"
    exit 1
fi
grep -q "llm_softcap" <<<"$out" || { echo "$out"; exit 1; }
echo "llm_ops: kernel and decomposition agree with the formulas"
