#!/usr/bin/env bash
# Large windows are folded axis by axis, and along one axis in two steps: the same minima, maxima and
# sums of integers to the bit, as eager has them, which runs the graph as it is; padding that is longer
# than a step's window, strides, dilation and symbolic sizes included.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cat >"$work/m.stir" <<'S'
stir 1
sym L in [2, 5000]
graph @main(%p: f32[1, 2, 200], %q: i32[1, 2, 700], %s: f32[1, 2, L], %x: f32[1, 2, 90, 70]) {
  %f = reduce_window(%p) {kind = "max", window = [401], strides = [1], pads = [200, 200], dilations = [1]}
  %g = reduce_window(%q) {kind = "sum", window = [1, 99], strides = [1, 3], pads = [0, 49, 0, 49], dilations = [1, 2]}
  %h = reduce_window(%q) {kind = "min", window = [97], strides = [2], pads = [96, 3], dilations = [3]}
  %i = reduce_window(%s) {kind = "min", window = [101], strides = [1], pads = [50, 50], dilations = [1]}
  %j = reduce_window(%x) {kind = "max", window = [81, 67], strides = [1, 1], pads = [40, 30, 40, 30], dilations = [1, 1]}
  %k = reduce_window(%p) {kind = "sum", window = [100], strides = [1], pads = [50, 50], dilations = [1]}
  return f: %f, g: %g, h: %h, i: %i, j: %j, k: %k
}
S
"$STATOR" opt --pass canonicalize "$work/m.stir" >"$work/out"
[ "$(grep -c 'reduce_window(' "$work/out")" -ge 11 ] || { echo "BAD $(cat "$work/out")"; exit 1; }
for size in 3 64 501; do
    "$STATOR" run "$work/m.stir" --backend eager --random 1 --dim L=$size --save "$work/right.npz" >/dev/null
    for backend in aot_eager inductor-cpu; do
        "$STATOR" backends --probe | grep -q "^$backend  *AVAILABLE" || continue
        "$STATOR" run "$work/m.stir" --backend $backend --random 1 --dim L=$size --expect "$work/right.npz" \
            --rtol 1e-6 --atol 1e-5 >"$work/out" 2>&1 || { echo "BAD $backend $size: $(cat "$work/out")"; exit 1; }
    done
done
echo ok
