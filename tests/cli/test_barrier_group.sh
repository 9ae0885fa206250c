#!/usr/bin/env bash
# A scan whose steps a barrier group divides gives the bits that one thread gives, from the cache too, and a
# step that fails ends the call and not the group.
set -eu

"$STATOR" backends --probe | grep -q '^inductor-cpu *AVAILABLE' || { echo "no inductor-cpu"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export STATOR_CACHE="$work/cache"

cat > "$work/model.stir" <<'STIR'
stir 1
graph @main(%ids: i64[40, 7], %h: f32[7, 64]) {
  %i = iota {shape = [64, 256], axis = 0, dtype = f32}
  %j = iota {shape = [64, 256], axis = 1, dtype = f32}
  %p = constant {value = f32[] {0.37}}
  %q = constant {value = f32[] {0.011}}
  %tenth = constant {value = f32[] {0.1}}
  %a = mul(%i, %p)
  %b = mul(%j, %q)
  %c = mul(%a, %j)
  %d = add(%c, %b)
  %s = sin(%d)
  %w = mul(%s, %tenth)
  %table = slice(%w) {starts = [0, 0], sizes = [5, 256], steps = [1, 1]}
  %f, %y = scan(%h, %ids, %w, %table) {carried = 1, scanned = 1, stacked = 1}
    region @cell(%1: f32[7, 64], %2: i64[7], %3: f32[64, 256], %4: f32[5, 256]) {
      %5 = dot_general(%1, %3) {contract_x = [1], contract_y = [0]}
      %6 = gather(%4, %2)
      %7 = add(%5, %6)
      %8 = slice(%7) {starts = [0, 0], sizes = [7, 64], steps = [1, 1]}
      %9 = slice(%7) {starts = [0, 64], sizes = [7, 64], steps = [1, 1]}
      %10 = tanh(%8)
      %11 = mul(%10, %9)
      %12 = add(%11, %1)
      %13 = tanh(%12)
      %14 = reduce_max(%7) {axes = [1]}
      return %13, %14
    }
  return %f, %y
}
STIR
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH="$STATOR_SOURCE/tests/cli" python3 - "$work" <<'PY'
import random
import struct
import sys

import npy

random.seed(1)
ids = [random.randrange(5) for _ in range(280)]
npy.write(f"{sys.argv[1]}/ids.npy", "<i8", (40, 7), struct.pack("<280q", *ids))
ids[100] = 7
npy.write(f"{sys.argv[1]}/bad.npy", "<i8", (40, 7), struct.pack("<280q", *ids))
npy.write(f"{sys.argv[1]}/h.npy", "<f4", (7, 64), struct.pack("<448f", *[random.uniform(-1, 1) for _ in range(448)]))
PY

run() {
    timeout 60 "$STATOR" run "$work/model.stir" --backend inductor-cpu --input "h=$work/h.npy" "$@"
}

STATOR_CACHE=0 STATOR_LOGS=output_code run --threads 2 --input "ids=$work/ids.npy" 2>&1 |
    grep -q 'a barrier group of 2' || { echo "no barrier group was made"; exit 1; }
run --threads 1 --input "ids=$work/ids.npy" --save "$work/one.npz" > /dev/null
for threads in 2 4; do
    for again in cold warm; do
        run --threads $threads --input "ids=$work/ids.npy" --expect "$work/one.npz" --rtol 0 \
            --atol 0 --repeat 50 > "$work/out" || { echo "$threads, $again:"; cat "$work/out"; exit 1; }
    done
    if run --threads $threads --input "ids=$work/bad.npy" > "$work/out" 2>&1; then
        echo "an index of 7 in a table of 5 passed with $threads threads"
        exit 1
    fi
    grep -q 'outside its axis' "$work/out" || { cat "$work/out"; exit 1; }
done
"$STATOR" compare "$work/model.stir" --backends eager,inductor-cpu > "$work/out" 2>&1 ||
    { cat "$work/out"; exit 1; }
plugins="$STATOR_BUILD/tests/plugins"
if [ -e "$plugins/loops.so" ]; then
    "$STATOR" compare "$work/model.stir" --backends eager,loops --plugin-dir "$plugins" \
        > "$work/out" 2>&1 || { cat "$work/out"; exit 1; }
fi
echo "barrier groups of 2 and 4 agree with one thread"
