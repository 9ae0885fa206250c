#!/usr/bin/env bash
# Sizes that cost an operand no memory, as it is expanded, and that a kernel would need scratch for.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export STATOR_CACHE=0
"$STATOR" backends --probe | grep -q '^inductor-cpu *AVAILABLE' || { echo "no inductor-cpu"; exit 77; }

# 2^56 elements a key: the bytes of the scratch are 0 in 64 bits.
cat >deep.stir <<'END'
stir 1
graph @main(%q: f32[1, 1, 1, 1], %k: f32[1, 1, 2, 1], %v: f32[1, 1, 2, 4]) {
  %a = expand(%q) {shape = [1, 1, 1, 72057594037927936]}
  %b = expand(%k) {shape = [1, 1, 2, 72057594037927936]}
  %y = sdpa(%a, %b, %v) {scale = 1}
  return y: %y
}
END
for backend in inductor-cpu eager; do
    status=0
    "$STATOR" run deep.stir --backend $backend --random 1 >out 2>&1 || status=$?
    [ $status -eq 3 ] || { echo "BAD $backend: status $status: $(cat out)"; exit 1; }
done
sed 's/72057594037927936/1048576/' deep.stir >fits.stir
"$STATOR" compare fits.stir --backends eager,inductor-cpu --random 1 --rtol 1e-4

# A window that reaches 2^62 pixels, over constant weights: an image of 64 numbers all the same.
weights=$(awk 'BEGIN { for (i = 0; i < 4096; i++) printf "%s%.2f", i ? ", " : "", i % 7 / 4 }')
for size in 4611686018427387903 68719476735 65535; do
    cat >wide.stir <<END
stir 1
graph @main(%x: f32[1, 64, 1]) {
  %w = constant {value = f32[64, 64, 1] {$weights}}
  %y = conv(%x, %w) {strides = [$size], pads = [$size, 0], dilations = [1]}
  return out: %y
}
END
    "$STATOR" compare wide.stir --backends eager,inductor-cpu --random 1 --rtol 1e-4
done
