#!/usr/bin/env bash
# Options of GPU backends over the software device that change what kernels do. checks: an index outside its axis
# fails the call, or with checks=false it reads 0, and what it writes is left out, in loops and in
# fixed kernels; guard pages around each allocation stand by. deterministic=false: sums of floats
# that are scattered are added by atomics.
# shellcheck source=tests/cli/gpu_kit.sh
. "$STATOR_SOURCE/tests/cli/gpu_kit.sh"
backend=cuda_soft
soft_backend $backend
export STATOR_CACHE_DIR=$work/cache

# graph NAME TYPE NODE..: the last node gives %y from %x.
graph() {
    local name=$1 type=$2
    shift 2
    { echo "stir 1"; echo "graph @main(%x: $type) {"; printf '  %s\n' "$@"; echo "  return y: %y"; echo "}"; } >"$work/$name.stir"
}

# all_zero NAME: the call fails, and without checks every element of y is 0.
all_zero() {
    "$STATOR" run "$work/$1.stir" --random 0 --backend $backend --strict >"$work/out" 2>&1 && fail "$1: no error"
    has "$work/out" 'an index is outside its axis'
    "$STATOR" run "$work/$1.stir" --random 0 --backend $backend --strict --backend-option checks=false \
        >"$work/out" 2>&1 || fail "$1: $(cat "$work/out")"
    has "$work/out" '^y: [^ ]+( 0)+( \.\.\.)?$'
}

far='%k = constant {value = i64[4] {8, -9, 1000000000000, -1000000000000}}'
graph gather "f32[8, 16]" "$far" "%y = gather(%x, %k) {axis = 0}"
graph elements "f32[8]" "$far" "%y = gather_elements(%x, %k) {axis = 0}"
graph scatter_few "f32[8]" "$far" "%u = slice(%x) {starts = [0], sizes = [4], steps = [1]}" \
    "%z = scatter_elements(%x, %k, %u) {axis = 0}" "%y = sub(%z, %x)"
graph scatter_many "f32[3000]" "%i = iota() {shape = [3000], dtype = i64, axis = 0}" "%n = constant {value = i64[] {3000}}" \
    "%k = add(%i, %n)" "%z = scatter_elements(%x, %k, %x) {axis = 0, reduction = \"add\"}" "%y = sub(%z, %x)"
for name in gather elements scatter_few scatter_many; do
    all_zero $name
done

# Whole numbers, so that every order of sums gives what eager has.
for type in f32 f64; do
    graph sums "$type[9000]" "%w = constant {value = $type[] {100.0}}" "%v = mul(%x, %w)" "%u = round(%v)" \
        "%i = iota() {shape = [9000], dtype = i64, axis = 0}" "%n = constant {value = i64[] {77}}" "%k = mod(%i, %n)" \
        "%y = scatter_elements(%u, %k, %u) {axis = 0, reduction = \"add\"}"
    for deterministic in true false; do
        rm -rf "$work/dump"
        STATOR_DUMP=$work/dump STATOR_CACHE=0 "$STATOR" compare "$work/sums.stir" --backends eager,$backend --strict \
            --backend-option $backend.deterministic=$deterministic >"$work/out" 2>&1 || fail "sums: $(cat "$work/out")"
        has "$work/out" '^y .*agrees  max abs error 0,'
        grep -rqs "ST_SUM st_atomic_add_$type" "$work/dump" && atomic=false || atomic=true
        [ $atomic = $deterministic ] || fail "$type, deterministic=$deterministic: $(ls -R "$work/dump")"
    done
done
echo ok
