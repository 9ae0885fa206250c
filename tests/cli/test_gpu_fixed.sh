#!/usr/bin/env bash
# Fixed kernels on the software device, beside eager: prefix sums, orders and scatters of many sizes, types and
# strides, NaN and both zeros among them; the same bits whatever order blocks and threads take, and
# from the compile cache; their programs as C11 and as C++11.
# shellcheck source=tests/cli/gpu_kit.sh
. "$STATOR_SOURCE/tests/cli/gpu_kit.sh"
soft_device libcuda.so.1
needs lib/stator/plugins-soft/cuda_soft.so cuda_soft
export STATOR_SOFT_ORDER=random:3 STATOR_CACHE_DIR=$work/cache

n=0
agrees() { # GRAPH ARGS..: cuda_soft gives what eager gives, wholly by itself
    "$STATOR" compare "$@" --backends eager,cuda_soft --strict >"$work/out" 2>&1 || fail "$*: $(cat "$1" "$work/out")"
    n=$((n + 1))
}
graph() { # NAME TYPE NODE..: a graph of one operand %x; nodes, the last one gives %y
    local name=$1 type=$2
    shift 2
    { echo "stir 1"; echo "sym n in [0, 1000000]"; echo "graph @main(%x: $type) {"; printf '  %s\n' "$@"; echo "}"; } >"$work/$name.stir"
}

# Rows side by side, rows apart, parts of both, views, each with the options of the op.
rows() { # NODE OUTPUTS: in f32[n, 3], with n of several sizes, along both axes and through views
    local node=$1 returns=$2 size
    graph rows "f32[n, 3]" "${node//AXIS/0}" "$returns"
    for size in 0 1 2 130 4100; do agrees "$work/rows.stir" --dim n=$size; done
    graph columns "f32[5, n, 2]" "%t = transpose(%x) {perm = [2, 0, 1]}" "${node//AXIS/2}" "$returns"
    sed -i 's/(%x)\( {axis\| {k\)/(%t)\1/' "$work/columns.stir"
    for size in 1 127 2500; do agrees "$work/columns.stir" --dim n=$size; done
}
for options in "" ", exclusive = 1" ", reverse = 1" ", exclusive = 1, reverse = 1"; do
    rows "%y = cumsum(%x) {axis = AXIS$options}" "return y: %y"
done
graph small "f32[7, 33]" "%y = cumprod(%x) {axis = 1}" "return y: %y"
agrees "$work/small.stir"
for type in i32 i64 u8 f64; do
    graph typed "$type[3, 5000]" "%y = cumsum(%x) {axis = 1}" "%z = cumsum(%x) {axis = 0}" "return y: %y, z: %z"
    agrees "$work/typed.stir"
done

for options in "" ", descending = 1"; do
    rows "%v, %i = sort(%x) {axis = AXIS$options}" "return v: %v, i: %i"
done
for largest in 0 1; do # few, half a tile, more
    for k in 1 50 1250 1251; do
        graph top "f32[2, 5000]" "%v, %i = topk(%x) {k = [$k], axis = 1, largest = $largest}" "return v: %v, i: %i"
        agrees "$work/top.stir"
    done
done
for type in i8 u16 i64 f16 bf16 f64; do
    graph typed "$type[3000]" "%v, %i = sort(%x) {axis = 0}" "%w, %j = topk(%x) {k = [9]}" "return v: %v, i: %i, w: %w, j: %j"
    agrees "$work/typed.stir"
done
# NaN, infinities, both zeros, many equal elements; the indices say which of equal ones came first.
graph odd "f32[4, 3000]" "%a = round(%x)" "%k = constant {value = f32[1] {0.0}}" "%b = mul(%a, %k)" "%c = log(%x)" \
    "%d = concat(%a, %b, %c) {axis = 1}" "%v, %i = sort(%d) {axis = 1}" \
    "%w, %j = sort(%d) {axis = 1, descending = 1}" "return i: %i, j: %j, v: %v, w: %w"
agrees "$work/odd.stir"
# Few of them, chosen tile by tile, and of those again.
graph few "f32[2, 12000]" "%a = round(%x)" "%c = log(%x)" "%d = concat(%a, %c) {axis = 1}" \
    "%v, %i = topk(%d) {k = [1000], axis = 1}" "%w, %j = topk(%d) {k = [600], axis = 1, largest = 0}" \
    "return i: %i, j: %j, v: %v, w: %w"
agrees "$work/few.stir"

# Scatters: updates that meet, in each order; elements, slices, rows off the axis.
scatters() { # NAME TYPE NODE: of operands %x, %i made of %r, %u
    cat >"$work/$1.stir" <<END_STIR
stir 1
sym n in [0, 100000]
graph @main(%x: $2, %r: $3, %u: $4) {
  %k = constant {value = f32[1] {$5}}
  %s = sin(%r)
  %a = mul(%s, %k)
  %i = cast(%a) {dtype = $6}
  %y = $7
  return y: %y
}
END_STIR
}
for reduction in none add mul min max; do
    for type in f32 i32 u8; do
        scatters elements "$type[500]" "f32[n]" "$type[n]" 249.0 i64 \
            "scatter_elements(%x, %i, %u) {axis = 0, reduction = \"$reduction\"}"
        scatters slices "$type[6, 7, 5]" "f32[n, 2]" "$type[n, 5]" 2.9 i32 \
            "scatter_nd(%x, %i, %u) {reduction = \"$reduction\"}"
        for size in 0 700; do
            agrees "$work/elements.stir" --dim n=$size
            agrees "$work/slices.stir" --dim n=$size
        done
    done
    agrees "$work/elements.stir" --dim n=4500
done
scatters inner "f16[4, 90, 3]" "f32[3, n, 2]" "f16[3, n, 2]" 29.0 i64 "scatter_elements(%x, %i, %u) {axis = 1}"
agrees "$work/inner.stir" --dim n=100
# Sums of long integers; last updates of so many places that they are sorted.
scatters sums "i64[500]" "f32[n]" "i64[n]" 249.0 i32 "scatter_elements(%x, %i, %u) {axis = 0, reduction = \"add\"}"
agrees "$work/sums.stir" --dim n=4500
scatters places "u8[1100000]" "f32[n]" "u8[n]" 40.0 i64 "scatter_elements(%x, %i, %u) {axis = 0}"
agrees "$work/places.stir" --dim n=3000
sed 's/249.0/1e6/' "$work/elements.stir" >"$work/outside.stir"
"$STATOR" run "$work/outside.stir" --random 0 --backend cuda_soft --strict --dim n=100 >"$work/out" 2>&1 && fail "no error"
has "$work/out" 'scatter_elements: an index is outside its axis \(in call 1 of the device\)'

# The step is the fixed kernel's; one that loops do better is not.
"$STATOR" explain "$work/odd.stir" --backend cuda_soft >"$work/out" 2>&1 || fail explain
has "$work/out" 'library  call order of'
graph few "f32[100, 20]" "%v, %i = sort(%x) {axis = 1}" "return v: %v, i: %i"
"$STATOR" explain "$work/few.stir" --backend cuda_soft >"$work/out" 2>&1 || fail explain
has "$work/out" 'kernel'

# The same bits in other orders of blocks and threads, the second time with images from the cache.
graph both "f32[3, 9000]" "%y = cumsum(%x) {axis = 1}" "%v, %i = sort(%y) {axis = 1}" "return y: %y, v: %v, i: %i"
STATOR_SOFT_ORDER=ascending "$STATOR" run "$work/both.stir" --random 3 --backend cuda_soft --save "$work/one.npz" >/dev/null
for order in descending random:7; do
    STATOR_SOFT_ORDER=$order "$STATOR" run "$work/both.stir" --random 3 --backend cuda_soft \
        --expect "$work/one.npz" --rtol 0 --atol 0 >"$work/out" 2>&1 || fail "other bits in order $order: $(cat "$work/out")"
done

# The programs are of the dialect.
for name in both typed top elements slices; do
    sizes=()
    [ $name != elements ] && [ $name != slices ] || sizes=(--dim n=90)
    STATOR_CACHE=0 STATOR_DUMP=$work/dump "$STATOR" run "$work/$name.stir" --random 0 "${sizes[@]}" --backend cuda_soft \
        >/dev/null
done
programs=$(find "$work/dump" -name 'st_s*.gpu.c')
[ "$(wc -w <<<"$programs")" -ge 7 ] || fail "few programs: $programs"
for program in $programs; do
    for how in "gcc c c11" "g++ c++ c++11"; do
        read -r compiler language standard <<<"$how"
        command -v "$compiler" >/dev/null || continue
        "$compiler" -x "$language" -std="$standard" -fsyntax-only -Wall -Wextra -Werror -Wno-unused-variable \
            -I"$STATOR_SOURCE/tests/golden/gpu" "$program" || fail "$program is not $standard"
    done
done
echo "$n graphs"
