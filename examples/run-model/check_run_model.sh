#!/usr/bin/env bash
# Runs the program from BUILD on the digits net in DIGITS, and on a file that is not there.
# Status 0 when the first works and the second says why not.
set -eu
out=$("$BUILD/run_model" "$DIGITS/digits.onnx" eager)
grep -q '^probabilities: shape 1 10, first element 0\.' <<<"$out" || { echo "$out"; exit 1; }
if out=$("$BUILD/run_model" "$DIGITS/none.onnx" 2>&1); then
    echo "a missing file was loaded"
    exit 1
fi
grep -q 'NOT_FOUND: .*none.onnx' <<<"$out" || { echo "$out"; exit 1; }
echo "run_model: loads, compiles, calls, reports"
