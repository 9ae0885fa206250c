#!/usr/bin/env bash
# Runs the digits net in DIGITS on the backend from BUILD with the command STATOR: results agree with
# the expected ones, kernels are shown as C, a compiler that is missing is named. Status 0 when all hold.
set -eu
run() {
    "$STATOR" run "$DIGITS/digits.onnx" --backend cc --plugin-dir "$BUILD" \
        --input image="$DIGITS/test_images.npy" --expect "$DIGITS/test_probabilities.npz" "$@" 2>&1
}
"$STATOR" backends --plugin-dir "$BUILD" | grep -q '^cc  *AVAILABLE'
out=$(run)
grep -q '^probabilities: f32\[540,10\] ok' <<<"$out" || { echo "$out"; exit 1; }
out=$(STATOR_LOGS=output_code run --backend-option flags=-O1)
grep -q 'for (int64_t i0 = begin; i0 < end; i0++) {' <<<"$out" || { echo "$out"; exit 1; }
grep -q '^probabilities: f32\[540,10\] ok' <<<"$out" || { echo "$out"; exit 1; }
out=$(run --strict --backend-option cc=no-such-compiler) && { echo "$out"; exit 1; }
grep -q "cannot run 'no-such-compiler'" <<<"$out" || { echo "$out"; exit 1; }
echo "cc: fused kernels through the C compiler, same answer as eager"
