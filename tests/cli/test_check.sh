#!/usr/bin/env bash
# One op on one backend: a right one is status 0 and says its error, a planted wrong kernel is status 1,
# the printed command repeats it, sizes may be symbolic, and cases that cannot be read say what is wrong.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }

expect() { # status, words, command...
    local want=$1 words=$2 status=0
    shift 2
    "$@" >"$work/out" 2>&1 || status=$?
    [ "$status" = "$want" ] || fail "status $status, not $want, of $*: $(cat "$work/out")"
    grep -qF -- "$words" "$work/out" || fail "no '$words' from $*: $(cat "$work/out")"
}

expect 0 'y: f32[4,16] ok, max error ' "$STATOR" check softmax 'f32 4x16 axis=1' --backend aot_eager
expect 0 'repeat: stator check softmax ' "$STATOR" check softmax 'f32 4x16 axis=1' --backend aot_eager
expect 0 'y: f32[1,4,4,4] ok' "$STATOR" check conv \
    'f32 1x3x8x8; f32 4x3x3x3; _ strides=2,2 pads=[1, 1, 1, 1] dilations=1,1' --backend aot_eager
expect 0 'indices: i64[5,3] ok' "$STATOR" check topk 'f32 5x7 k=3 largest=0' --backend aot_eager
expect 0 'y: f64[5,16] ok' "$STATOR" check softmax 'f64 Nx16 axis=1' --dim N=5 --backend aot_eager
expect 0 'z: f32[] ok' "$STATOR" check add 'f32; f32' --backend aot_eager
expect 0 'y: f16[2,3] ok' "$STATOR" check cast 'f32 2x3 dtype=f16' --backend aot_eager
expect 0 '"ok":	true' "$STATOR" check add 'i32 3; i32 3' --backend aot_eager --json

expect 1 'y: f32[4,4] WRONG, max error ' "$STATOR" check tanh 'f32 4x4' --backend wrong_tanh \
    --random 3 --plugin-dir "$STATOR_BUILD/tests/planted/wrong_tanh"
cp "$work/out" "$work/first"
again=$(sed -n 's/^repeat: stator //p' "$work/first")
status=0
eval "\"\$STATOR\" $again" >"$work/second" || status=$?
[ "$status" = 1 ] || fail "repeated, status $status"
cmp "$work/first" "$work/second" || fail "the repeated command says something else"
expect 0 'y: f32[4,4] ok' "$STATOR" check sin 'f32 4x4' --backend wrong_tanh \
    --plugin-dir "$STATOR_BUILD/tests/planted/wrong_tanh"

# Without --backend the best one beside eager; eager itself against the op's decomposition, and where
# there is none nothing is claimed.
expect 0 ' against eager, seed 0' "$STATOR" check softmax 'f32 4x16 axis=1'
! grep -q '^softmax on eager' "$work/out" || fail "eager is compared with itself: $(cat "$work/out")"
expect 0 'softmax on eager against aot_eager, seed 0' "$STATOR" check softmax 'f32 4x16 axis=1' --backend eager
expect 0 "its kernel against the op's decomposition" "$STATOR" check softmax 'f32 4x16 axis=1' --backend eager
expect 0 'nothing was compared: eager is the reference, and neg has no' "$STATOR" check neg 'f32 4' \
    --backend eager
expect 0 '"ok":	null' "$STATOR" check neg 'f32 4' --backend eager --json
expect 0 '"against":	null' "$STATOR" check neg 'f32 4' --backend eager --json
expect 0 '"against":	"aot_eager"' "$STATOR" check softmax 'f32 4x16 axis=1' --backend eager --json
expect 0 '"against":	"eager"' "$STATOR" check neg 'f32 4' --json
# clean leaves results of unknown size to eager.
left=(check nonzero 'f32 3x4' --backend clean --plugin-dir "$STATOR_BUILD/tests/planted/clean")
expect 0 'nothing was compared: nonzero ran on eager, the reference, not on clean' "$STATOR" "${left[@]}"
expect 3 'left to eager' "$STATOR" "${left[@]}" --strict

expect 3 "did you mean 'softmax'" "$STATOR" check softmx 'f32 4'
expect 3 "has no attribute 'axes', did you mean 'axis'" "$STATOR" check softmax 'f32 4 axes=0'
expect 3 'axis 9 is outside' "$STATOR" check softmax 'f32 4x16 axis=9'
expect 3 'expected equal dtypes' "$STATOR" check add 'f32 4; f16 4'
expect 3 "separate operands by ';'" "$STATOR" check add 'f32 4 f32 4'
expect 3 "'4xx' is no shape" "$STATOR" check neg 'f32 4xx'
expect 3 "is in no operand's shape" "$STATOR" check pad 'f32 4x4 low=1,1 high=N,0'
expect 3 'has regions' "$STATOR" check cond 'f32'
expect 3 "there is no backend 'eagr'" "$STATOR" check neg 'f32 4' --backend eagr
expect 2 'OP CASE is missing' "$STATOR" check neg
echo ok
