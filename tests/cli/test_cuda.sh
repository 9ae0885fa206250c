#!/usr/bin/env bash
# The backend cuda on any machine: it is listed with a state and what would help, and the listing
# loads nothing. Over the software device the same objects are the backend cuda_soft: its states
# where a library lacks something, a pointwise graph and a softmax as eager computes them.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
has() { grep -qE -- "$2" "$1" || fail "no '$2' in: $(cat "$1")"; }
export STATOR_CACHE_DIR=$work/kept
fake=$STATOR_BUILD/tests/fake_cuda

[ -e "$STATOR_BUILD/lib/stator/plugins-1/cuda.so" ] || { echo "this build is without cuda"; exit 0; }
"$STATOR" backends --all >"$work/all"
has "$work/all" '^cuda +(AVAILABLE|NO_DEVICE|MISSING_DEPENDENCY) '
if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
    has "$work/all" '^cuda +NO_DEVICE '
    has "$work/all" '^    there is no /dev/nvidiactl or /dev/dxg$'
    has "$work/all" '^    hint: install or load the device.s driver, or choose another backend$'
fi
! grep -q '^cuda_soft' "$work/all" || fail "the software device is listed though nobody asked"
LD_DEBUG=files "$STATOR" backends --all 2>&1 | grep -qE 'file=.*(plugins-1|libcuda|nvrtc)' && fail "listing opens a plugin"

export STATOR_SOFT_DEVICE=1
[ -e "$STATOR_BUILD/tests/softgpu/libcuda.so.1" ] || { echo "this build is without the software device"; exit 0; }
probe() { "$STATOR" backends --all --probe >"$work/probed" || fail "probe"; }
probe
has "$work/probed" '^cuda_soft +AVAILABLE '
has "$work/probed" '^    cuda_soft:0 Stator software device.*, [0-9]+ GB, compute 9\.0$'

# A plain listing has the devices that a probe has found, and opens nothing for that; where other
# devices are chosen it waits for the next probe.
device='^    cuda_soft:0 Stator software device.*, [0-9]+ GB, compute 9\.0$'
"$STATOR" backends --all >"$work/all"
has "$work/all" "$device"
LD_DEBUG=files "$STATOR" backends --all 2>&1 | grep -qE 'file=.*(plugins-1|libcuda|nvrtc)' && fail "listing opens a plugin"
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

cat >"$work/pointwise.stir" <<'END'
stir 1
graph @main(%x: f32[3, 257], %y: f32[257]) {
  %a = mul(%x, %y) : f32[3, 257]
  %b = exp(%a) : f32[3, 257]
  %c = sub(%b, %x) : f32[3, 257]
  return z: %c
}
END
cat >"$work/softmax.stir" <<'END'
stir 1
graph @main(%x: f32[5, 300]) {
  %y = softmax(%x) {axis = 1} : f32[5, 300]
  return y: %y
}
END
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
echo ok
