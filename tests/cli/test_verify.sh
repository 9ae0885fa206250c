#!/usr/bin/env bash
# run --verify N: the first N calls beside eager; a wrong one is status 1 and says where.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export STATOR_CACHE=0
fail() { echo "BAD $1"; exit 1; }
has() { grep -qE -- "$2" "$1" || fail "no '$2' in: $(cat "$1")"; }
digits=$STATOR_SOURCE/examples/digits/digits.onnx
planted=$STATOR_BUILD/tests/planted
try() { status=0; "$STATOR" run "$@" >"$work/out" 2>"$work/err" || status=$?; }

try "$digits" --backend wrong_conv --plugin-dir "$planted/wrong_conv" --verify 1
[ "$status" = 1 ] || fail "wrong_conv: status $status"
has "$work/err" "output 'probabilities' of wrong_conv differs from eager's in values"
has "$work/err" "the first value that differs is '[^']*' of node '/0/0.0/Conv'"
has "$work/err" 'stator bisect MODEL --bad wrong_conv'
try "$digits" --backend wrong_conv --plugin-dir "$planted/wrong_conv"
[ "$status" = 0 ] || fail "without --verify: status $status"
try "$digits" --backend wrong_conv --plugin-dir "$planted/wrong_conv" --verify 1 --json
[ "$status" = 1 ] && has "$work/out" '"DATA_LOSS"' || fail "json: status $status"
try "$digits" --backend clean --plugin-dir "$planted/clean" --verify 9000000000 --repeat 3
[ "$status" = 0 ] || fail "clean: status $status, $(cat "$work/err")"
has "$work/out" '^probabilities'
try "$digits" --backend eager --verify 2
[ "$status" = 0 ] || fail "eager: status $status"
try "$digits" --backend eager --verify -1
[ "$status" = 2 ] || fail "-1: status $status"
# An error of the backend is that error, not a difference.
cat >"$work/sub.stir" <<'END'
stir 1
graph @main(%x: f32[2, 2]) {
  %a = sub(%x, %x)
  return a: %a
}
END
try "$work/sub.stir" --backend fails_run --plugin-dir "$planted/fails_run" --verify 1
[ "$status" = 3 ] || fail "fails_run: status $status"

# Of many values the first that is wrong is named, with its own node, also where a long branch leads round it.
chain() {
    echo 'stir 1'
    echo 'graph @main(%v0: f32[2]) {'
    echo '  %s = tanh(%v0)'
    for i in $(seq 1100); do
        if [ "$i" = 900 ]; then echo '  %v900 = add(%v899, %s)'; else echo "  %v$i = neg(%v$((i - 1)))"; fi
    done
    echo '  return y: %v1100'
    echo '}'
}
chain >"$work/branch.stir"
sed -e '/%s = /d' -e 's/add(%v899, %s)/tanh(%v899)/' "$work/branch.stir" >"$work/chain.stir"
try "$work/branch.stir" --backend wrong_tanh --plugin-dir "$planted/wrong_tanh" --verify 1
[ "$status" = 1 ] || fail "branch: status $status"
has "$work/err" "the first value that differs is 's' of node 's'"
try "$work/chain.stir" --backend wrong_tanh --plugin-dir "$planted/wrong_tanh" --verify 1
[ "$status" = 1 ] || fail "chain: status $status"
has "$work/err" "the first value that differs is 'v900' of node 'v900'"

"$STATOR" backends --probe | grep -qE '^inductor-cpu +AVAILABLE' || exit 0
try "$digits" --backend inductor-cpu --dim N=5 --verify 2 --repeat 2 --mode reduce-overhead
[ "$status" = 0 ] || fail "inductor-cpu: status $status, $(cat "$work/err")"
