#!/usr/bin/env bash
# Results whose size data tell, on the software device, beside eager: nonzero and unique of many sizes, types
# and options, of nothing, of zeros alone and of none, of NaN and both zeros, of what another one found.
# shellcheck source=tests/cli/gpu_kit.sh
. "$STATOR_SOURCE/tests/cli/gpu_kit.sh"
soft_device libcuda.so.1
needs lib/stator/plugins-soft/cuda_soft.so cuda_soft
export STATOR_SOFT_ORDER=random:5 STATOR_CACHE_DIR=$work/cache

n=0
agrees() { # SIZE..: the graph gives the same on both, wholly on the device, for each n; -: it has none
    local size
    for size in "$@"; do
        local flags=(--dim n="$size")
        [ "$size" != - ] || flags=()
        "$STATOR" compare "$work/graph.stir" "${flags[@]}" --backends eager,cuda_soft --strict >"$work/out" 2>&1 ||
            fail "n=$size: $(cat "$work/graph.stir" "$work/out")"
        n=$((n + 1))
    done
}
graph() { # TYPE OUTPUTS NODE..: of one operand %x
    local type=$1 outputs=$2
    shift 2
    { echo "stir 1"; echo "sym n in [0, 1000000]"; echo "graph @main(%x: $type) {"; printf '  %s\n' "$@"
      echo "  return $outputs"; echo "}"; } >"$work/graph.stir"
}
half="%h = constant {value = f32[1] {0.6}}"
zeros="%z = constant {value = f32[1] {0.0}}"
few=("$half" "%s = mul(%x, %h)" "%a = round(%s)") # most elements are 0
places="%y = nonzero(%a)"
distinct="%y, %i, %v, %c = unique(%a)"
all="%y, %i, %v, %c"

# nonzero: ranks, types, nothing, nothing but zeros (of either sign), no zero, NaN.
for type in "f32[n]" "f32[3, n]" "f32[2, n, 5]" "f32[n, 0]"; do
    graph "$type" %y "${few[@]}" "$places"
    agrees 0 1 130 2300
done
for type in bool i64 u8 f16 f64; do
    graph "f32[7, n]" %y "${few[@]}" "%b = cast(%a) {dtype = $type}" "%y = nonzero(%b)"
    agrees 0 40 900
done
graph "f32[n]" "%y, %w, %q" "$zeros" "%a = mul(%x, %z)" "$places" "%b = exp(%x)" "%w = nonzero(%b)" "%l = log(%x)" \
    "%q = nonzero(%l)"
agrees 0 1 5000
graph "f32[]" "%y, %w" "%y = nonzero(%x)" "%z = sub(%x, %x)" "%w = nonzero(%z)"
agrees -

# Orders of flags and of narrow integers: rows whose elements lie apart, the largest or the smallest first, all of
# a row or some, rows of several tiles; rows side by side; more flags than are set.
for type in bool u8 i8 u16 i16; do
    for first in 0 1; do
        graph "f32[3, n, 2]" "%v, %j, %p, %q" "%t = constant {value = f32[1] {40.0}}" "%s = mul(%x, %t)" \
            "%r = round(%s)" "%i = cast(%r) {dtype = i32}" "%a = cast(%i) {dtype = $type}" \
            "%v, %j = sort(%a) {axis = 1, descending = $first}" "%p, %q = topk(%a) {k = [100], axis = 1, largest = $first}"
        sed -i 's/n in \[0/n in [100/' "$work/graph.stir"
        agrees 100 5000
    done
done
graph "f32[2, 9001]" "%v, %j, %c" "%z = constant {value = f32[1] {1.5}}" "%a = gt(%x, %z)" \
    "%v, %j = topk(%a) {k = [4500], axis = 1}" "%w, %c = sort(%a) {axis = 1}"
agrees -

# unique of elements: types, both orders, NaN (one of all) and both zeros (equal).
for sorted in 0 1; do
    graph "f32[4, n]" "$all" "${few[@]}" "$distinct {sorted = $sorted}"
    agrees 0 1 33 1200
    for type in bool i64 u8 i8 f16 bf16 f64; do
        graph "f32[n]" "$all" "%l = log(%x)" "%j = concat(%x, %l) {axis = 0}" "%r = round(%j)" \
            "%a = cast(%r) {dtype = $type}" "$distinct {sorted = $sorted}"
        case $type in # a NaN is no integer
        *f*) ;;
        *) sed -i '/log\|concat/d; s/round(%j)/round(%x)/' "$work/graph.stir" ;;
        esac
        agrees 0 70 2100
    done
    graph "f32[n]" "$all" "$zeros" "%m = mul(%x, %z)" "%l = log(%m)" "%a = concat(%m, %l) {axis = 0}" \
        "$distinct {sorted = $sorted}"
    agrees 1 600
done

# unique of slices: one, two, an odd number of columns, none, along each axis.
for shape in "n, 1" "n, 2" "n, 3" "n, 0" "n, 2, 5"; do
    graph "f32[$shape]" "$all" "${few[@]}" "$distinct {axis = 0}"
    agrees 0 1 12 700
done
graph "f32[2, n, 3]" "$all" "%l = log(%x)" "%a = round(%l)" "$distinct {axis = 1, sorted = 0}"
agrees 0 5 300
graph "f32[5, 4, 7]" "%y" "%p = reduce_max(%x) {axes = [0], keepdims = 1}" "%e = expand(%p) {shape = [5, 4, 7]}" \
    "%a = concat(%e, %x) {axis = 0}" "$distinct {axis = -3}"
agrees -

# What one found, through another; elements that a condition chooses; scalars.
graph "f32[n]" "%y, %g, %c" "${few[@]}" "%w = nonzero(%a)" "%f = reshape(%w) {shape = [-1]}" \
    "%g = gather(%x, %f)" "%k = constant {value = i64[] {7}}" "%o = mod(%f, %k)" "%y, %i, %v, %c = unique(%o)"
sed -i 's/reshape(%w) {shape = \[-1\]}/reduce_max(%w) {axes = [0]}/' "$work/graph.stir"
agrees 0 1 800
graph "f32[]" "$all" "%a = round(%x)" "$distinct"
agrees -

# The count is one wait of a call; a size that differs from call to call compiles nothing.
graph "f32[64, 64]" %y "${few[@]}" "$places"
"$STATOR" run "$work/graph.stir" --random 0 --backend cuda_soft >"$work/out" 2>&1 || fail run
has "$work/out" '1 waits a call'
"$STATOR" bisect "$work/graph.stir" --bad cuda_soft --good eager >"$work/out" 2>&1
has "$work/out" 'agree'
echo "$n graphs"
