#!/usr/bin/env bash
# Digits through the command: every PNG gets its own class first, and the probabilities of all
# held-out images agree with what PyTorch computed in float64.
# usage: check_digits.sh SOURCE BACKEND      status 0 when all hold
set -u
digits=$1/examples/digits
backend=$2
bad=0
for d in 0 1 2 3 4 5 6 7 8 9; do
    want=$(sed -n "$((d + 1))p" "$digits/labels.txt")
    got=$("$STATOR" run "$digits/digits.onnx" --backend "$backend" --json \
          --image "image=$digits/png/digit-$d.png" --labels "$digits/labels.txt" --top 1) || bad=1
    label=$(echo "$got" | python3 -c 'import json,sys; print(json.load(sys.stdin)["top"][0][0]["label"])')
    echo "digit-$d.png: $label"
    if [ -z "$want" ] || [ "$label" != "$want" ]; then
        echo "BAD digit-$d.png: expected '$want'"
        bad=1
    fi
done
"$STATOR" run "$digits/digits.onnx" --backend "$backend" \
    --input "image=$digits/test_images.npy" --expect "$digits/test_probabilities.npz" || bad=1
exit $bad
