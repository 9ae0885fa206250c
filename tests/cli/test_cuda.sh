#!/usr/bin/env bash
# The backend cuda on any machine: it is listed with a state and what would help, and the listing
# loads nothing. Over the software device the same objects are the backend cuda_soft: its states
# where a library lacks something, a pointwise graph and a softmax as eager computes them.
# shellcheck source=tests/cli/gpu_kit.sh
. "$STATOR_SOURCE/tests/cli/gpu_kit.sh"
export STATOR_CACHE_DIR=$work/kept
fake=$STATOR_BUILD/tests/fake_cuda

needs lib/stator/plugins-1/cuda.so cuda
"$STATOR" backends --all >"$work/all"
has "$work/all" '^cuda +(AVAILABLE|NO_DEVICE|MISSING_DEPENDENCY) '
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
    has "$work/all" '^cuda +NO_DEVICE '
    has "$work/all" '^    there is no /dev/nvidiactl or /dev/dxg$'
    has "$work/all" '^    hint: install or load the device.s driver, or choose another backend$'
fi
! grep -q '^cuda_soft' "$work/all" || fail "the software device is listed though nobody asked"
opens_nothing 'libcuda|nvrtc'

soft_device libcuda.so.1
probe
has "$work/probed" '^cuda_soft +AVAILABLE '
has "$work/probed" '^    cuda_soft:0 Stator software device.*, [0-9]+ GB, compute 9\.0$'

# A plain listing has the devices that a probe has found, and opens nothing for that; where other
# devices are chosen it waits for the next probe.
device='^    cuda_soft:0 Stator software device.*, [0-9]+ GB, compute 9\.0$'
"$STATOR" backends --all >"$work/all"
has "$work/all" "$device"
opens_nothing 'libcuda|nvrtc'
CUDA_VISIBLE_DEVICES=1 "$STATOR" backends --all >"$work/all"
grep -qE "$device" "$work/all" && fail "a device is listed that another choice of devices showed"
STATOR_SOFT_DEVICES=2 CUDA_VISIBLE_DEVICES=0,1 "$STATOR" backends --probe cuda_soft >"$work/one"
has "$work/one" '^    cuda_soft:1 Stator software device'
CUDA_VISIBLE_DEVICES=0,1 "$STATOR" backends --all >"$work/all"
has "$work/all" '^    cuda_soft:1 Stator software device'
probe

# What a library lacks is a state of its own.
STATOR_OPT_CUDA_SOFT_DRIVER=$fake/cuda_no_device.so probe
has "$work/probed" '^cuda_soft +NO_DEVICE '
has "$work/probed" 'sees no device'
STATOR_OPT_CUDA_SOFT_DRIVER=$fake/cuda_lacks.so probe
has "$work/probed" '^cuda_soft +MISSING_DEPENDENCY '
has "$work/probed" 'has no function cuMemHostAlloc'
STATOR_OPT_CUDA_SOFT_NVRTC=/nowhere/libnvrtc.so.13 probe
has "$work/probed" '^cuda_soft +MISSING_DEPENDENCY '
has "$work/probed" 'the file of the option nvrtc cannot be opened: /nowhere'
probe
has "$work/probed" '^cuda_soft +AVAILABLE ' # what was remembered is forgotten

pointwise_graph "$work/pointwise.stir"
softmax_graph "$work/softmax.stir"
for graph in pointwise softmax; do
    "$STATOR" compare "$work/$graph.stir" --backends eager,cuda_soft --strict >"$work/out" 2>&1 ||
        fail "$graph: $(cat "$work/out")"
    "$STATOR" run "$work/$graph.stir" --random 0 --backend cuda_soft --strict >"$work/out" 2>&1 ||
        fail "$graph: $(cat "$work/out")"
done

# Options: a device that is not there, and two that disagree with what is open.
"$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft --backend-option device=77 >"$work/out" 2>&1 &&
    fail "device 77 ran"
has "$work/out" 'there is no device cuda_soft:77: the driver sees'
"$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft --backend-option arch=H100 >"$work/out" 2>&1 &&
    fail "an architecture of no GPU was taken"
has "$work/out" "'H100' is no architecture"
# Modes: one that would do nothing is refused, with what it waits for; by option as by flag.
"$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft --mode default >"$work/out" 2>&1 || fail "no mode default"
"$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft --mode reduce-overhead >"$work/out" 2>&1 &&
    fail "mode reduce-overhead was taken"
has "$work/out" 'cuda_soft has no mode=reduce-overhead yet: it does not record'
"$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft --backend-option mode=max-autotune >"$work/out" 2>&1 &&
    fail "mode max-autotune was taken"
has "$work/out" 'cuda_soft has no mode=max-autotune yet: it does not measure'
echo ok
