#!/usr/bin/env bash
# Nodes that a backend leaves go through a list of backends: each to the first that runs it, those of
# control flow too, with the same results; a node that none runs is an error that names it.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
cat >"$work/m.stir" <<'S'
stir 1
graph @main(%x: f32[8], %p: bool[]) {
  %a = exp(%x) @"Exp_0":Exp
  %b = neg(%a) @"Neg_1":Neg
  %c = cond(%p, %b) : f32[8]
   region (%u: f32[8]) { %v = sin(%u) return %v }
   region (%u: f32[8]) { %v = cos(%u) %w = neg(%v) return %w }
  %d = tanh(%c) @"Tanh_3":Tanh
  return d: %d
}
S
own=(--plugin-dir "$STATOR_BUILD/tests/plugins" --random 0)
run() { # status, words on stdout or stderr, option...
    local want=$1 words=$2 status=0
    shift 2
    "$STATOR" run "$work/m.stir" "${own[@]}" "$@" >"$work/out" 2>&1 </dev/null || status=$?
    [ "$status" = "$want" ] || fail "status $status, not $want, of $*: $(cat "$work/out")"
    grep -qF -- "$words" "$work/out" || fail "no '$words' of $*: $(cat "$work/out")"
}
result() { grep '^d: ' "$work/out"; }

run 0 'eager: ' --backend eager
want=$(result)
run 0 'eager: 4 nodes' --backend divided --backend-option ops=neg
run 0 'divided: 2 nodes' --backend divided --backend-option ops=neg --node-fallbacks loops,eager
grep -q 'loops: ' "$work/out" || fail "loops took nothing: $(cat "$work/out")"
! grep -q 'eager: ' "$work/out" || fail "eager took something: $(cat "$work/out")"
# A backend in the middle of the list that runs some of them, and the rest on the last one.
run 0 'opener: ' --backend opener --backend-option divided.ops=exp --node-fallbacks loops,eager
run 0 'loops: ' --backend divided --backend-option ops=neg --node-fallbacks divided,loops
run 3 "and none of the node fallbacks does: " --backend divided --backend-option ops=neg --node-fallbacks opener
grep -q "tanh 'Tanh_3'" "$work/out" || fail "the node is not named: $(cat "$work/out")"
grep -q 'hint: add eager to the node fallbacks' "$work/out" || fail "no hint: $(cat "$work/out")"
run 3 "does not run" --backend divided --backend-option ops=neg --node-fallbacks loops --strict
run 3 "there is no backend 'loop' (did you mean 'loops'?)" --backend divided --node-fallbacks loop
run 3 "are not names of backends with a comma between" --backend divided --node-fallbacks loops,,eager

# The same values, whoever computes them; eager's own bits where its kernels do.
run 0 '' --backend divided --backend-option ops=neg --node-fallbacks eager
[ "$(result)" = "$want" ] || fail "eager after divided gives $(result), not $want"
"$STATOR" compare "$work/m.stir" "${own[@]}" --backends eager,divided --node-fallbacks loops,eager \
    >"$work/out" 2>&1 || fail "compare: $(cat "$work/out")"

# A program with parts on two fallbacks comes from the cache as it went there.
export STATOR_CACHE=1 STATOR_CACHE_DIR="$work/cache"
if "$STATOR" backends | grep -q '^inductor-cpu *AVAILABLE'; then
    kept=(--backend inductor-cpu --node-fallbacks loops,eager)
    run 0 '' "${kept[@]}"
    first=$(result)
    run 0 '' "${kept[@]}"
    [ "$(result)" = "$first" ] || fail "from the cache: $(result), not $first"
fi
echo ok
