#!/usr/bin/env bash
# What a model becomes: every part with its backend and its memory, control flow's among them; the
# sums are those of the parts, and what a call really takes is what was said.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export STATOR_CACHE=0
fail() { echo "BAD $1"; exit 1; }
has() { grep -qE -- "$2" "$1" || fail "no '$2' in: $(cat "$1")"; }
digits=$STATOR_SOURCE/examples/digits/digits.onnx

"$STATOR" explain "$digits" --backend eager --dim N=3 >"$work/out" || fail "status $?"
has "$work/out" '^eager: [0-9]+ nodes in 1 partition$'
has "$work/out" '^graph\.0 +eager +0 ' # a size known only at call time

cat >"$work/cond.stir" <<'END'
stir 1
graph @main(%p: bool[], %x: f32[4]) {
  %a = exp(%x)
  %o = cond(%p, %a) : f32[4]
   region (%u: f32[4]) { %v = sin(%u) return %v }
   region (%u: f32[4]) { %v = neg(%u) return %v }
  return o: %o
}
END
"$STATOR" explain "$work/cond.stir" --backend eager >"$work/out" || fail "cond: status $?"
has "$work/out" '^part +backend +results +workspace +scratch +constants +packed +of it Winograd$'
has "$work/out" '^graph\.0 +eager +16 '
has "$work/out" '^a call takes [0-9]+ bytes of workspace, 16 of outputs, '

status=0
"$STATOR" explain "$work/none.onnx" >"$work/out" 2>&1 || status=$?
[ "$status" = 3 ] || fail "status $status of a file that is not there"
status=0
"$STATOR" explain "$digits" --backend-option spede=1 >"$work/out" 2>&1 || status=$?
[ "$status" = 3 ] || fail "status $status of an option that is not there"

"$STATOR" backends --probe | grep -qE '^inductor-cpu +AVAILABLE' || exit 0
"$STATOR" explain "$work/cond.stir" --backend inductor-cpu >"$work/out" || fail "cond: status $?"
for part in 'graph\.0' 'body0\.0' 'body1\.0'; do
    has "$work/out" "^$part +inductor-cpu +16 "
done
has "$work/out" 'host: 1 node in 1 partition'

# What a call does, what it is for, what is left to another backend and why.
cat >"$work/steps.stir" <<'END'
stir 1
graph @main(%x: f32[N, 4]) {
  %a = exp(%x)
  %b = reduce_sum(%a) {axes = [1]}
  %i = nonzero(%b)
  return b: %b, i: %i
}
END
"$STATOR" explain "$work/steps.stir" --backend inductor-cpu --dim N=8 >"$work/out" || fail "steps: status $?"
has "$work/out" '^  1 nonzero: '
has "$work/out" '^  x is f32\[N, 4\]$'
has "$work/out" '^  N is 2 or more$'
has "$work/out" '^ +reads +writes  steps of graph\.0 on inductor-cpu$'
has "$work/out" '^ +0\+ +0\+ kernel +k0_reduce_sum$'
has "$work/out" '^ += a, b$'
has "$work/out" '^ +0\+ +0\+ in 1 step$'
cat >"$work/loop.stir" <<'END'
stir 1
graph @main(%x: f32[5, 8], %s: f32[8]) {
  %f, %y = scan(%s, %x) {carried = 1, scanned = 1, stacked = 1}
   region (%c: f32[8], %r: f32[8]) { %n = add(%c, %r) return %n, %n }
  return f: %f, y: %y
}
END
"$STATOR" explain "$work/loop.stir" --backend inductor-cpu >"$work/out" || fail "loop: status $?"
has "$work/out" '^ +0 +0  loop +scan 1 carried, steps 5$'
has "$work/out" '^ +64 +[0-9]+    kernel '

# The first product is dead when the output is written, so it lies there; the second is read then.
cat >"$work/chain.stir" <<'END'
stir 1
graph @main(%x: f32[64, 64], %w: f32[64, 64]) {
  %a = matmul(%x, %w)
  %b = matmul(%a, %w)
  %c = matmul(%b, %w)
  return c: %c
}
END
"$STATOR" explain "$work/chain.stir" --backend inductor-cpu >"$work/out" || fail "chain: status $?"
has "$work/out" '^graph\.0 +inductor-cpu +16384 +16384 '
"$STATOR" run "$work/chain.stir" --backend eager --random 5 --save "$work/chain.npz" >"$work/out" || fail "eager"
"$STATOR" run "$work/chain.stir" --backend inductor-cpu --random 5 --expect "$work/chain.npz" --atol 0.01 --repeat 3 \
    >"$work/out" || fail "chain: $(cat "$work/out")"

# Two compiles are compared: what is chosen by measuring may differ between them.
set -- "$digits" --backend inductor-cpu --backend-option measure=off --dim N=3 --json
"$STATOR" explain "$@" >"$work/out" || fail "inductor-cpu"
"$STATOR" run "$@" >"$work/run" || fail "run"
python3 - "$work/out" "$work/run" <<'END' || fail "$(cat "$work/out" "$work/run")"
import json, sys
told, run = (json.load(open(f)) for f in sys.argv[1:])
parts = told["parts"]
assert parts and all(p["backend"] == "inductor-cpu" for p in parts)
for key in "constant_bytes", "packed_bytes", "winograd_bytes":
    assert told["memory"][key] == sum(p[key] for p in parts), key
assert told["memory"] == run["memory"] and told["coverage"] == run["coverage"]
END
