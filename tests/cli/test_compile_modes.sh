#!/usr/bin/env bash
# Modes of compiling: each gives the same answer on every backend; a backend with an option `mode`
# is told, an option that was given by name wins, and a mode that there is not is an error.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }

cat >"$work/mlp.stir" <<'END'
stir 1
graph @mlp(%x: f32[16, 64]) {
  %1 = iota() {shape = [64, 48], dtype = f32, axis = 0}
  %2 = constant {value = f32[] {0.01}}
  %3 = mul(%1, %2)
  %4 = matmul(%x, %3)
  %5 = relu(%4)
  %6 = softmax(%5) {axis = -1}
  return y: %6
}
END
run() { "$STATOR" run "$work/mlp.stir" --random 1 "$@"; }

run --backend eager --save "$work/want.npz" >/dev/null
for backend in eager aot_eager inductor-cpu; do
    for mode in default reduce-overhead max-autotune max-autotune-no-cudagraphs; do
        run --backend "$backend" --mode "$mode" --repeat 3 --expect "$work/want.npz" \
            >"$work/out" 2>&1 || fail "$backend, $mode: $(cat "$work/out")"
    done
done
# What a backend was told is in the key of what the cache kept.
told() { # mode=..., arguments...
    local want=$1
    shift
    rm -rf "$work/cache"
    STATOR_CACHE=1 STATOR_CACHE_DIR="$work/cache" run --backend inductor-cpu "$@" >/dev/null
    STATOR_CACHE=1 STATOR_CACHE_DIR="$work/cache" "$STATOR" cache list --keys >"$work/out"
    grep -q "$want " "$work/out" || fail "no '$want' of $*: $(cat "$work/out")"
}
told mode=max-autotune --mode max-autotune
told mode=default
told mode=default --mode max-autotune --backend-option mode=default
status=0
run --backend inductor-cpu --backend-option mode=fastest >"$work/out" 2>&1 || status=$?
[ "$status" = 3 ] || fail "status $status of an unknown mode as an option"
grep -q max-autotune "$work/out" || fail "the modes are not named: $(cat "$work/out")"

# An option that would do nothing, and one that another backend has, are errors that say what does work.
status=0
run --backend inductor-cpu --backend-option cpu=x86-64-v3 >"$work/out" 2>&1 || status=$?
[ "$status" = 3 ] || fail "status $status of cpu= without target="
grep -q 'cpu=x86-64-v3 is for target=self_contained' "$work/out" || fail "cpu=: $(cat "$work/out")"
run --backend inductor-cpu --backend-option cpu=native >"$work/out" 2>&1 || fail "cpu=native: $(cat "$work/out")"
run --backend eager --backend-option tier=fast >"$work/out" 2>&1 && fail "eager has a tier"
grep -q 'BACKEND.tier, as in inductor-cpu.tier=fast' "$work/out" || fail "no spelling: $(cat "$work/out")"
"$STATOR" compare "$work/mlp.stir" --backends eager,inductor-cpu --backend-option inductor-cpu.tier=fast >"$work/out" 2>&1 ||
    fail "with its name: $(cat "$work/out")"
