#!/usr/bin/env bash
# The pass split changes no answers. The inputs of its golden files give the same on eager, which runs
# them as they are written, and on backends whose pipelines have it. Where arithmetic is exact so are
# results: ties, NaN, infinities, -0, rows of one value, sizes that no number of parts divides. One
# thread and two give the same bits.
set -eu
plugins="$STATOR_BUILD/tests/plugins"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "BAD $1"; exit 1; }
export STATOR_CACHE=0
backends=
[ -e "$plugins/loops.so" ] && backends="$backends loops"
"$STATOR" backends --probe | grep -q '^inductor-cpu *AVAILABLE' && backends="$backends inductor-cpu"
[ -n "$backends" ] || { echo "no backend that has the pass"; exit 77; }

agree() { # MODEL MORE...: all backends, or ONLY one
    for backend in ${ONLY:-$backends}; do
        "$STATOR" compare "$1" --backends "eager,$backend" --plugin-dir "$plugins" "${@:2}" >out 2>&1 ||
            fail "$1 on $backend ${*:2}: $(cat out)"
    done
}

for name in long_folds padded_last_part argmax_position shared_producers softmax_and_variance; do
    sed '/^\/\/ expected/,$d' "$STATOR_SOURCE/tests/golden/split/$name.stir" >"$name.stir"
    agree "$name.stir" --random 5
done

# ---- exact answers ----

# Whole numbers whose sums f32 holds, in any order; 1000003 is prime.
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$STATOR_SOURCE/tests/cli" python3 - <<'PY'
import array
import math

import npy

N = 1000003
inf = math.inf
base = array.array("f", ((i * 7919 % 13) - 6 for i in range(N)))


def save(name, changes, values=base):
    x = array.array("f", values)
    for at, value in changes.items():
        x[at] = value
    npy.write(f"{name}.npy", "<f4", (N,), x.tobytes())


save("plain", {})
save("masked", {i: -inf for i in (*range(40000), *range(600000, N))})
low = array.array("f", (v - 150 for v in base))  # e^150 is past f32
save("low_masked", {i: -inf for i in (*range(40000), *range(600000, N))}, low)
# Equal extremes in three parts, at a part's first and last place, and at the end.
save("ties", {16393: 9, 16394: 9, 900000: 9, 5: -9, 32788: -9, N - 1: -9})
save("at_end", {N - 1: 99, 0: -99})
save("nan", {400000: math.nan, 700001: math.nan, 3: inf})
save("nan_at_end", {N - 1: math.nan})
save("infinite", {77: inf, 500000: -inf, 500001: inf})
for name, value in (("all_low", -inf), ("all_high", inf), ("negative_zero", -0.0)):
    save(name, {}, array.array("f", [value]) * N)
PY
cat >exact.stir <<'END'
stir 1
graph @m(%x: f32[1000003]) {
  %sum = reduce_sum(%x) {axes = [0]}
  %min = reduce_min(%x) {axes = [0], keepdims = 1}
  %max = reduce_max(%x) {axes = [0]}
  %low = argmin(%x) {axis = 0}
  %low_last = argmin(%x) {axis = 0, select_last = 1}
  %high = argmax(%x) {axis = 0, keepdims = 1}
  %high_last = argmax(%x) {axis = 0, select_last = 1}
  %six = constant {value = f32[] {6}}
  %is_six = eq(%x, %six)
  %any = reduce_max(%is_six) {axes = [0]}
  %all = reduce_min(%is_six) {axes = [0]}
  %one = constant {value = f32[] {1}}
  %p = select(%is_six, %one, %one)
  %q = neg(%p)
  %product = reduce_prod(%q) {axes = [0]}
  %h = cast(%is_six) {dtype = f16}
  %halves = reduce_sum(%h) {axes = [0]}
  %b = cast(%is_six) {dtype = i8}
  %bytes = reduce_sum(%b) {axes = [0]}
  return %sum, %min, %max, %low, %low_last, %high, %high_last, %any, %all, %product, %halves, %bytes
}
END
for x in plain ties at_end nan nan_at_end infinite all_low all_high negative_zero; do
    case $x in
    ties) ONLY= ;;
    *) ONLY=${backends##* } ;; # the interpreter takes seconds
    esac
    agree exact.stir --input "x=$x.npy" --rtol 0 --atol 0
done
ONLY=

# ---- two folds of one row ----

# Parts of -inf alone count nothing, a row of them is NaN, and so is what has a NaN.
cat >soft.stir <<'END'
stir 1
graph @m(%x: f32[1000003]) {
  %soft = softmax(%x) {axis = 0}
  %lse = reduce_log_sum_exp(%x) {axes = [0]}
  %log = log_softmax(%x) {axis = 0}
  %d = cast(%x) {dtype = f64}
  %wide = softmax(%d) {axis = 0}
  return soft: %soft, lse: %lse, log: %log, wide: %wide
}
END
for x in plain masked low_masked nan infinite all_low; do
    ONLY=${backends##* } agree soft.stir --input "x=$x.npy" --rtol 1e-5 --atol 1e-12
done

# ---- threads ----

case "$backends" in
*inductor-cpu*) ;;
*) echo "agree:$backends"; exit 0 ;;
esac
cat >long.stir <<'END'
stir 1
graph @m(%x: f32[1200000], %c: f32[400000, 3], %m: bf16[700, 3001], %y: f32[1000003]) {
  %soft = softmax(%x) {axis = 0}
  %mean = reduce_mean(%c) {axes = [0]}
  %norm = layer_norm(%x) {axis = 0}
  %f = reduce_sum(%m) {axes = [0, 1]}
  %e = exp(%y)
  %g = reduce_sum(%e) {axes = [0]}
  %place = argmax(%e) {axis = 0}
  %lse = reduce_log_sum_exp(%y) {axes = [0]}
  return soft: %soft, mean: %mean, norm: %norm, f: %f, g: %g, place: %place, lse: %lse
}
END
agree long.stir --random 7
for threads in 1 2 3; do
    STATOR_LOGS=output_code "$STATOR" run long.stir --backend inductor-cpu --random 7 \
        --threads $threads --save "$threads.npz" >/dev/null 2>"code$threads"
done
python3 - <<'PY'
import zipfile

first, *others = ({n: z.read(n) for n in z.namelist()} for z in map(zipfile.ZipFile, ("1.npz", "2.npz", "3.npz")))
for other in others:
    assert first.keys() == other.keys() and len(first) == 7
    for name, data in first.items():
        assert data == other[name], f"{name} depends on the number of threads"
PY
# Nothing that is longer than the parts are many is folded by one thread.
grep -qE '^  loop i0 < [0-9]{5,} .*reduce' code2 && fail "a fold of one thread: $(grep -E '^  loop i0 < [0-9]{5,} .*reduce' code2)"
grep -qE '^  loop i0 < [0-9]+ parallel$' code2 || fail "no parts: $(cat code2)"
echo "agree:$backends"
