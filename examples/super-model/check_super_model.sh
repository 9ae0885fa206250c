#!/usr/bin/env bash
# Runs train.sh with the pictures in DIGITS: the loss falls below 0.1, that of pictures it has not
# seen below 0.25 (2.5 at first).
set -eu
[ -f "${DIGITS:-}/train.npz" ] || { echo "DIGITS names no folder with train.npz: examples/digits is one"; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$(bash "$(dirname "$0")/train.sh" "$DIGITS" "$work") || { echo "train.sh failed: $out"; exit 1; }
grep -qE '^epoch 20 of 20: loss 0\.0[0-9]+, validation 0\.[01][0-9]+$' <<<"$out" || { echo "$out"; exit 1; }
[ -s "$work/trained.npz" ] && grep -q 'backward of' "$work/joint.stir" || { echo "files are missing"; exit 1; }
echo "super-model: trained by its own output"
