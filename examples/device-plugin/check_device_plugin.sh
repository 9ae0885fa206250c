#!/usr/bin/env bash
# Runs the digits net in DIGITS on the backend from BUILD with the command STATOR: elementwise nodes
# run on the simulated device and the others on eager, with copies between that are counted, and
# results agree with the expected ones. Status 0 when all hold.
set -eu
run() {
    "$STATOR" run "$DIGITS/digits.onnx" --plugin-dir "$BUILD" \
        --input image="$DIGITS/test_images.npy" --expect "$DIGITS/test_probabilities.npz" "$@" 2>&1
}
"$STATOR" backends --plugin-dir "$BUILD" | grep -q '^sim  *AVAILABLE'
out=$(run --device sim:1)
grep -q '^probabilities: f32\[540,10\] ok' <<<"$out" || { echo "$out"; exit 1; }
grep -Eq 'sim: [0-9]+ nodes? .*; copies [1-9][0-9]*, [1-9][0-9]* bytes, [1-9][0-9]* waits a call' \
    <<<"$out" || { echo "$out"; exit 1; }
if out=$(run --device sim:1 --strict-copies); then echo "$out"; exit 1; fi
grep -q 'with strict copies the parts must work in one memory' <<<"$out" || { echo "$out"; exit 1; }
echo "sim: same answer as eager, copies counted"
