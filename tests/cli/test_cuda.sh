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
STATOR_OPT_CUDA_SOFT_CUBLASLT=/etc/passwd probe
has "$work/probed" '^cuda_soft +MISSING_DEPENDENCY '
has "$work/probed" 'the file of the option cublaslt cannot be opened: /etc/passwd'
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
refuses cuda_soft 'there is no device cuda_soft:77: the driver sees' --backend-option device=77
refuses cuda_soft 'there is no device cuda_soft:99999999999999999999: numbers' --device cuda_soft:99999999999999999999
refuses cuda_soft "'cuda_soft:-1' has '-1' behind the colon; expected its number" --device cuda_soft:-1

# An architecture that the device does not run, and PTX, which it does.
says='cuda_soft:0 is sm_90, and the option arch is'
refuses cuda_soft "$says 'H100', which is no architecture; expected a name such as sm_90" --backend-option arch=H100
refuses cuda_soft "$says 'sm_10', whose machine code does not run" --backend-option arch=sm_10
refuses cuda_soft "$says 'sm_999', which is newer than the device" --backend-option arch=sm_999
refuses cuda_soft "$says 'compute_100', which is newer" --backend-option arch=compute_100
refuses cuda_soft 'or the option arch, is compute_50: install an older NVRTC' --backend-option arch=compute_50
"$STATOR" compare "$work/pointwise.stir" --backends eager,cuda_soft --strict --backend-option cuda_soft.arch=compute_80 \
    >"$work/out" 2>&1 || fail "PTX of sm_80: $(cat "$work/out")"

# Files of options that are no libraries, whether or not the program needs them.
for option in driver nvrtc cublaslt; do
    refuses cuda_soft "the file of the option $option cannot be opened: /etc/passwd" --backend-option "$option=/etc/passwd"
    has "$work/out" "^hint: correct the option $option"
    refuses cuda_soft 'is too old or is not one: ' --backend-option "$option=$STATOR_BUILD/tests/softgpu/libhiprtc.so.6"
    has "$work/out" "^hint: install .*, or name its file with the option $option"
done
refuses cuda_soft 'the file of the option cublaslt cannot be opened' --backend-option contractions=loops \
    --backend-option cublaslt=/nowhere
refuses cuda_soft 'is of version 99.1, which is not known here' --backend-option "cublaslt=$fake/cublaslt_new.so"
refuses_environment cuda_soft

# Modes: one that would do nothing is refused, with what it waits for; by option as by flag.
"$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft --mode default >"$work/out" 2>&1 || fail "no mode default"
"$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft --mode reduce-overhead >"$work/out" 2>&1 &&
    fail "mode reduce-overhead was taken"
has "$work/out" 'cuda_soft has no mode=reduce-overhead yet: it does not record'
"$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft --backend-option mode=max-autotune >"$work/out" 2>&1 &&
    fail "mode max-autotune was taken"
has "$work/out" 'cuda_soft has no mode=max-autotune yet: it does not measure'
echo ok
