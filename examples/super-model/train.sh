#!/usr/bin/env bash
# train.sh DIGITS OUTDIR: trains autoencoder.stir, whose output `loss` is what it is trained by, with
# the pictures of examples/digits, and draws its joint graph. Needs the command stator (or STATOR).
set -eu
stator=${STATOR:-stator}
command -v "$stator" >/dev/null || { echo "$stator is no command: put stator on the PATH, or name it in STATOR"; exit 1; }
digits=${1:?usage: train.sh DIGITS OUTDIR}
out=${2:?usage: train.sh DIGITS OUTDIR}
mkdir -p "$out"
cp "$(dirname "$0")/autoencoder.stir" "$out"
head -c 3072 /dev/zero >"$out/zeros.blob"

"$stator" train "$out/autoencoder.stir" --loss loss --data "$digits/train.npz" --val "$digits/test.npz" \
    --init random --seed 1 --epochs 20 --lr 0.01 --save "$out/trained.npz" >"$out/train.log" 2>&1 ||
    { cat "$out/train.log"; exit 1; }
grep 'epoch 20 of 20' "$out/train.log"
"$stator" grad "$out/autoencoder.stir" --loss loss -o "$out/joint.stir"
"$stator" draw "$out/joint.stir" -o "$out/joint.svg"
echo "trained: $out/trained.npz"
