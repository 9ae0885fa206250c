#!/usr/bin/env bash
# bench/device.sh over the software device: the bits of a product by kernels and by the library, a
# model with inputs from a seed on cuda and on hip, and where the ONNX cases are there a few of them
# on hip, as the summary and device.json tell them.
set -eu
[ -e "$STATOR_BUILD/tests/softgpu/libamdhip64.so.6" ] && [ -x "$STATOR_BUILD/bench/gpu_bench" ] ||
    { echo "this build is without the software device or gpu_bench"; exit 0; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
has() { grep -qE -- "$2" "$1" || fail "no '$2' in: $(cat "$1")"; }
export STATOR_CACHE_DIR=$work/kept STATOR_SOFT_DEVICE=1 STATOR_GPU_BACKEND=cuda_soft

mkdir -p "$work/bundle/bin" "$work/bundle/bench/gpu/anchors" "$work/cases"
ln -s "$STATOR" "$STATOR_BUILD/bench/gpu_bench" "$work/bundle/bin/"
for file in device.sh device_report.py device_models.py; do
    cp "$STATOR_SOURCE/bench/$file" "$work/bundle/bench/"
done
cat >"$work/bundle/bench/gpu/anchors/matmul_small.stir" <<'END'
stir 1
graph @main(%x: f32[3, 5], %y: f32[5, 7]) {
  %z = matmul(%x, %y) : f32[3, 7]
  return z: %z
}
END
cat >"$work/bundle/bench/gpu/anchors/casts.stir" <<'END'
stir 1
graph @main(%x: f16[3, 5], %y: bf16[3, 5], %n: i32[5]) {
  %a = cast(%x) {dtype = f32}
  %b = cast(%y) {dtype = f32}
  %c = cast(%n) {dtype = f32}
  %d = add(%a, %b)
  %z = mul(%d, %c)
  return z: %z
}
END
STATOR_CASES=$work/cases bash "$work/bundle/bench/device.sh" "$work/out" bits products >"$work/said"
has "$work/said" '^bits 0 '
has "$work/said" '^products 0 '
has "$work/said" '^matmul_small +nothing to compare with$'
has "$work/said" '^casts +nothing to compare with$'
grep -q 'casts .*"bits": ' "$work/out/bits.txt" || fail "the graph with 16-bit inputs has no bits"

if python3 -c 'import numpy' 2>/dev/null; then
    mkdir -p "$work/packed/digits/test_data_set_0"
    cp "$STATOR_SOURCE/examples/digits/digits.onnx" "$work/packed/digits/model.onnx"
    cat >"$work/packed/digits/made.json" <<'END'
{"atol": 1e-6, "rms": 0.3, "size": 0, "weights": [],
 "inputs": {"test_data_set_0/input_0.pb": ["image", [4, 1, 8, 8], 0.5, 0.25]}}
END
    tar -C "$work" -cJf "$work/bundle/models.tar.xz" packed
    bash "$work/bundle/bench/device.sh" "$work/out" models hip_models >"$work/said"
    has "$work/said" '^models 0 '
    has "$work/said" '^hip_models 0 '
    for backend in cuda_soft hip_soft; do
        has "$work/said" "^digits +ok  $backend [0-9]+, error"
    done
    grep -q '"hip_models": {' "$work/out/device.json" || fail "device.json tells nothing of the models on hip"
else
    echo "no numpy for the models"
fi

cases=$STATOR_SOURCE/build/cases/node
[ -d "$cases/test_softmax_axis_1" ] || { echo "no ONNX cases here: ./bootstrap test makes them"; exit 0; }
cp -r "$cases/test_softmax_axis_1" "$cases/test_add" "$work/cases/"
STATOR_CASES=$work/cases bash "$work/bundle/bench/device.sh" "$work/out" hip >"$work/said"
has "$work/said" '^hip 0 '
has "$work/said" '^ONNX cases \(hip\): 2 passed, 0 failed, 0 skipped; 2 of 2 with every node on the device'
grep -q '"hip": {' "$work/out/device.json" || fail "device.json tells nothing of hip"
echo ok
