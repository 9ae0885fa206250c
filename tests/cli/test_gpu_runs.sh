#!/usr/bin/env bash
# What codegen/gpu does in a call, on the software device: a scan, a size that data states, a check
# that fails in a kernel, the same bits whatever order blocks, threads and streams take, and a
# sentence for each fault of the driver.
# shellcheck source=tests/cli/gpu_kit.sh
. "$STATOR_SOURCE/tests/cli/gpu_kit.sh"
soft_device libcuda.so.1
needs lib/stator/plugins-soft/cuda_soft.so cuda_soft

cat >"$work/scan.stir" <<'END_STIR'
stir 1
sym n in [0, 64]
graph @main(%s: f32[4, 8], %x: f32[n, 4, 8], %c: f32[8]) {
  %a, %b = scan(%s, %x, %c) {carried = 1, scanned = 1, stacked = 1, axes = [0], reverse = [0],
      out_axes = [0], out_reverse = [1]}
    region @body(%s: f32[4, 8], %x: f32[4, 8], %c: f32[8]) {
      %1 = mul(%s, %c)
      %2 = add(%1, %x)
      %3 = softmax(%2) {axis = 1}
      %4 = sub(%x, %s)
      return %3, %4
    }
  return a: %a, b: %b
}
END_STIR
cat >"$work/rows.stir" <<'END_STIR'
stir 1
graph @main(%x: f32[33, 1000], %w: f32[1000], %k: f32[1000, 12]) {
  %1 = softmax(%x) {axis = 1}
  %2 = mul(%1, %w)
  %3 = matmul(%2, %k)
  %4 = reduce_sum(%x) {axes = [0]}
  return rows: %2, product: %3, columns: %4
}
END_STIR
cat >"$work/size.stir" <<'END_STIR'
stir 1
sym a unbacked in [0, 64]
graph @main(%x: f32[64]) {
  %k = constant {value = i64[1] {5}}
  %0 = cast(%x) {dtype = i64}
  %1 = reduce_max(%0) {axes = [0], keepdims = 1}
  %2 = mul(%1, %1)
  %3 = min(%2, %k)
  %4 = sym_bind(%3) {syms = [a]}
  %5 = exp(%x)
  %6 = slice(%5) {starts = [0], sizes = [a], steps = [1]}
  return y: %6
}
END_STIR
failing_graph "$work/gather.stir"

for n in 0 1 7; do
    "$STATOR" compare "$work/scan.stir" --backends eager,cuda_soft --strict --dim n=$n >"$work/out" 2>&1 ||
        fail "scan of $n: $(cat "$work/out")"
done
for graph in rows size; do
    "$STATOR" compare "$work/$graph.stir" --backends eager,cuda_soft --strict >"$work/out" 2>&1 ||
        fail "$graph: $(cat "$work/out")"
done

# A check in a kernel is told when the call's outputs are waited for.
"$STATOR" run "$work/gather.stir" --random 0 --backend cuda_soft --strict >"$work/out" 2>&1 && fail "no error"
has "$work/out" 'gather: an index is outside its axis \(in call 1 of the device\)'

# Blocks, threads and streams in another order: the same bits.
for graph in rows scan; do
    sizes=()
    [ $graph = rows ] || sizes=(--dim n=5)
    STATOR_SOFT_ORDER=ascending "$STATOR" run "$work/$graph.stir" --random 3 "${sizes[@]}" --backend cuda_soft \
        --save "$work/one.npz" >/dev/null
    for order in descending random:7 random:8; do
        STATOR_SOFT_ORDER=$order "$STATOR" run "$work/$graph.stir" --random 3 "${sizes[@]}" --backend cuda_soft \
            --expect "$work/one.npz" --rtol 0 --atol 0 >"$work/out" 2>&1 ||
            fail "$graph: other bits in order $order: $(cat "$work/out")"
    done
done

# Results that calls leave on the device are the same, and no call copies them.
pointwise_graph "$work/pointwise.stir"
for outputs in host device; do
    "$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft --outputs $outputs --repeat 3 \
        --save "$work/$outputs.npz" >"$work/out.$outputs" 2>&1 || fail "--outputs $outputs: $(cat "$work/out.$outputs")"
done
has "$work/out.host" 'copies 3, 7196 bytes'
has "$work/out.device" 'copies 2, 4112 bytes'
"$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft --outputs device --expect "$work/host.npz" \
    --rtol 0 --atol 0 >"$work/out" 2>&1 || fail "other results on the device: $(cat "$work/out")"
# Calls with results on the device are verified too: right ones, and those of a device whose fma is
# wrong, which the compiler below makes of it.
"$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft --outputs device --verify 3 --repeat 2 \
    >"$work/out" 2>&1 || fail "verified: $(cat "$work/out")"
cat >"$work/cc" <<END
#!/bin/sh
exec cc "\$@" -Dst_fma_f32=__builtin_fmaf -D__builtin_fmaf\(x,y,z\)=\(\(x\)*\(y\)*1.001f+\(z\)\)
END
chmod +x "$work/cc"
mkdir "$work/wrong"
status=0
STATOR_CACHE=0 STATOR_SOFT_CC=$work/cc STATOR_SOFT_CACHE=$work/wrong "$STATOR" run "$work/pointwise.stir" --random 0 \
    --backend cuda_soft --outputs device --verify 1 >"$work/out" 2>&1 || status=$?
[ $status = 1 ] || fail "a wrong result on the device ends with $status: $(cat "$work/out")"
has "$work/out" "output 'z' of cuda_soft differs from eager's in values"
"$STATOR" run "$work/pointwise.stir" --random 0 --backend eager --outputs device >"$work/out" 2>&1 &&
    fail "eager has a device"
has "$work/out" "results are wanted on a device, and the backend 'eager' computes in host memory"
"$STATOR" run "$work/pointwise.stir" --random 0 --outputs there >"$work/out" 2>&1 && fail "--outputs there"
has "$work/out" '--outputs is host or device'

# The driver fails at its n-th call of a kind: a sentence and a status, or the call is right.
for what in alloc pinned launch copy module lost; do
    for n in 1 2 3 4; do
        status=0
        STATOR_SOFT_FAIL=$what:$n "$STATOR" run "$work/rows.stir" --random 0 --backend cuda_soft \
            --strict >"$work/out" 2>&1 || status=$?
        case $status in
        0) ;;
        3) has "$work/out" '^stator: .+' ;;
        *) fail "$what:$n ends with status $status: $(cat "$work/out")" ;;
        esac
        ! grep -q 'not freed' "$work/out" || fail "$what:$n leaves something: $(cat "$work/out")"
    done
done
echo ok
