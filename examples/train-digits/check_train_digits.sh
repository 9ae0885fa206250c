#!/usr/bin/env bash
# Trains the network in DIGITS with the program from BUILD, from random weights to 97 % of the test
# images, and asks the command how many the saved model has right.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for part in train test; do
    python3 -m zipfile -e "$DIGITS/$part.npz" "$work/$part"
done
scores=/0/0.13/Gemm_output_0
out=$("$BUILD/train_digits" "$DIGITS/digits.onnx" $scores "$work/train" "$work/test" "$work/out.onnx") ||
    { echo "$out"; exit 1; }
ours=$(sed -n 's/^epoch 12 .* \([0-9.]*\) % of 540 test images$/\1/p' <<<"$out")
theirs=$("$STATOR" train "$work/out.onnx" --loss cross_entropy --output $scores --optimizer sgd --lr 0 \
    --data "$DIGITS/test.npz" --val "$DIGITS/test.npz" 2>&1 | sed -n 's/.* \([0-9.]*\) % right$/\1/p')
# An image is 0.19 of 100, and neither prints all digits.
[ -n "$ours" ] && awk "BEGIN { off = $ours - 0$theirs; exit !(off < 0.09 && off > -0.09) }" || { echo "$ours is not $theirs: $out"; exit 1; }
if "$BUILD/train_digits" "$DIGITS/digits.onnx" no_such "$work/train" "$work/test" 2>"$work/err"; then
    echo "a value that is not there was read"
    exit 1
fi
grep -q 'NOT_FOUND: .*no_such' "$work/err" || { cat "$work/err"; exit 1; }
echo "train_digits: $ours % of the test images from random weights"
