#!/usr/bin/env bash
# What the machine lacks is named: a plugin whose library is missing and one whose device is, with its
# state; a machine without backends is status 3. The JSON has a row a check.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
has() { grep -qE -- "$2" "$1" || fail "no '$2' in: $(cat "$1")"; }

"$STATOR" doctor >"$work/plain" || fail "status $?"
has "$work/plain" '^(ok|limited) +OpenBLAS '
has "$work/plain" '^ok +plugins +[0-9]+ found'
has "$work/plain" '^(ok|limited) +python3 '
has "$work/plain" '^(ok|limited) +NVIDIA GPU +(/dev|no /dev/nvidiactl and no /dev/dxg)'
has "$work/plain" '^(ok|limited) +CUDA driver .*libcuda.so.1'
has "$work/plain" '^(ok|limited) +NVRTC .*libnvrtc.so.1[23]'
has "$work/plain" '^(ok|limited) +AMD GPU +(/dev|no /dev/kfd and no /dev/dxg)'
has "$work/plain" '^(ok|limited) +HIP +.*libamdhip64.so.[567]'
has "$work/plain" '^(ok|limited) +hiprtc +.*(libhiprtc|libamdhip64).so.[567]'
for row in 'HIP' 'hiprtc' 'NVRTC'; do
    has "$work/plain" "^(ok +$row +/|limited +$row .* where the dynamic linker looks, nor in .*/lib(64)?; docs/)"
done
if [ ! -e /dev/kfd ] && [ ! -e /dev/dxg ]; then
    has "$work/plain" '^limited +backend hip +NO_DEVICE: there is no /dev/kfd or /dev/dxg; '
fi
has "$work/plain" '^ok +C compiler +/'

# A library of ROCm where its variable says that ROCm is.
if [ -e "$STATOR_BUILD/tests/softgpu/libamdhip64.so.6" ] && grep -qE '^limited +HIP ' "$work/plain"; then
    mkdir -p "$work/rocm"
    ln -s "$STATOR_BUILD/tests/softgpu" "$work/rocm/lib"
    ROCM_PATH=$work/rocm "$STATOR" doctor >"$work/rocm.txt" || fail "status $? with ROCM_PATH"
    has "$work/rocm.txt" "^ok +HIP +$work/rocm/lib/libamdhip64.so.6"
    has "$work/rocm.txt" "^ok +hiprtc +$work/rocm/lib/libhiprtc.so.6"
fi
has "$work/plain" '^(ok|limited) +huge pages '
PATH=/nowhere "$STATOR" doctor >"$work/bare" || fail "status $? without a path"
has "$work/bare" '^missing +C compiler .*stator build'
has "$work/bare" 'package: build-essential'

mkdir "$work/plugins"
chmod 755 "$work" "$work/plugins"
for mutant in needs_soname needs_device; do
    install -m 644 "$STATOR_BUILD/tests/mutants/$mutant.so" "$work/plugins/"
done
"$STATOR" doctor --plugin-dir "$work/plugins" >"$work/lacking" || fail "status $?"
has "$work/lacking" '^missing +backend needs_soname MISSING_DEPENDENCY: the library libstator_test_absent'
has "$work/lacking" '^limited +backend needs_device NO_DEVICE: '

"$STATOR" doctor --json --plugin-dir "$work/plugins" >"$work/json" || fail "status $?"
has "$work/json" '"checks":'
has "$work/json" '"packages":'
has "$work/json" '"name":.*"backend needs_soname"'
echo ok
