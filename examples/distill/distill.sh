#!/usr/bin/env bash
# distill.sh DIGITS OUTDIR: trains student.stir with 100 labelled pictures of examples/digits, without
# a teacher and with the network of that folder, which says what it sees in all of them. Needs the
# command stator (or STATOR) and python3.
set -eu
stator=${STATOR:-stator}
digits=${1:?usage: distill.sh DIGITS OUTDIR}
out=${2:?usage: distill.sh DIGITS OUTDIR}
here=$(dirname "$0")
mkdir -p "$out"
cp "$here/student.stir" "$out"
head -c 3072 /dev/zero >"$out/zeros.blob"
python3 "$here/few_labels.py" "$digits/train.npz" 100 "$out/few.npz"

learn() { # words, options...
    local words=$1
    shift
    printf '%s ' "$words"
    "$stator" train "$out/student.stir" --loss cross_entropy --data "$out/few.npz" --val "$digits/test.npz" --batch 160 \
        --init random --seed 1 --epochs 100 --lr 0.01 "$@" 2>&1 | grep 'epoch 100 of 100' | grep -o '[0-9.]* % right'
}
teach=(--teacher "$digits/digits.onnx" --teacher-output /0/0.13/Gemm_output_0 --opt temperature=2 --opt teacher_weight=0.9)
learn 'without a teacher:' --save "$out/alone.npz"
learn 'with a teacher:   ' "${teach[@]}" --save "$out/taught.npz"

# The step itself: the teacher's nodes are named "teacher: ..", and none of them has a gradient.
"$stator" train "$out/student.stir" --loss cross_entropy "${teach[@]}" --write-step "$out/step.stir"
echo "nodes of the teacher: $(grep -c '@"teacher: ' "$out/step.stir"), gradients of them: $(grep -c '@"backward of teacher' "$out/step.stir" || true)"
