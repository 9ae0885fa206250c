#!/usr/bin/env bash
# Runs the digits net in DIGITS on the backend from BUILD with the command STATOR: it is listed, one
# line a node appears with shapes and a time, results agree with the expected ones, and the option
# `op` filters. Status 0 when all hold.
set -eu
run() {
    "$STATOR" run "$DIGITS/digits.onnx" --backend inspect --plugin-dir "$BUILD" \
        --input image="$DIGITS/test_images.npy" --expect "$DIGITS/test_probabilities.npz" "$@" 2>&1
}
"$STATOR" backends --all --plugin-dir "$BUILD" | grep -q '^inspect  *AVAILABLE'
out=$(run --strict)
grep -q '^probabilities: f32\[540,10\] ok' <<<"$out" || { echo "$out"; exit 1; }
grep -Eq 'inspect: +[0-9.]+ ms  conv .* f32\[540,1,8,8\] f32\[24,1,3,3\] f32\[24\] -> f32\[540,24,8,8\]' \
    <<<"$out" || { echo "$out"; exit 1; }
[ "$(grep -c '^inspect:.* ms  [a-z]' <<<"$out")" -ge 10 ] || { echo "$out"; exit 1; }
out=$(run --backend-option op=softmax --backend-option elements=3)
[ "$(grep -c '^inspect:.* ->' <<<"$out")" = 1 ] || { echo "$out"; exit 1; }
grep -Eq 'softmax .*\{[0-9.e-]+, [0-9.e-]+, [0-9.e-]+, \.\.\.\}' <<<"$out" || { echo "$out"; exit 1; }
echo "inspect: one line a node, same answer as eager"
