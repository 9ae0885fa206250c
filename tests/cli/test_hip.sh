#!/usr/bin/env bash
# The backend hip on any machine: it is listed with a state and what would help. Over the software
# device the same objects are the backend hip_soft: its states where a library is missing, a
# pointwise graph and a softmax as eager computes them with warps of 32 and of 64, a hiprtc that
# crashes.
# shellcheck source=tests/cli/gpu_kit.sh
. "$STATOR_SOURCE/tests/cli/gpu_kit.sh"
export STATOR_CACHE_DIR=$work/kept

needs lib/stator/plugins-1/hip.so hip
"$STATOR" backends --all >"$work/all"
has "$work/all" '^hip +(AVAILABLE|NO_DEVICE|MISSING_DEPENDENCY) '
if [ ! -e /dev/kfd ] && [ ! -e /dev/dxg ]; then
    has "$work/all" '^hip +NO_DEVICE '
    has "$work/all" '^    there is no /dev/kfd or /dev/dxg$'
fi
! grep -q '^hip_soft' "$work/all" || fail "the software device is listed though nobody asked"
opens_nothing 'libamdhip|hiprtc'

soft_device libamdhip64.so.6
probe
has "$work/probed" '^hip_soft +AVAILABLE '
has "$work/probed" '^    hip_soft:0 Stator software device.*, [0-9]+ GB, gfx1100$'
STATOR_SOFT_CHIP=wave64 probe
has "$work/probed" '^    hip_soft:0 Stator software device .wave64., [0-9]+ GB, gfx90a:sramecc\+:xnack-$'
STATOR_SOFT_DEVICES=0 probe
has "$work/probed" '^hip_soft +NO_DEVICE '
STATOR_OPT_HIP_SOFT_DRIVER=/nowhere/libamdhip64.so.6 probe
has "$work/probed" '^hip_soft +MISSING_DEPENDENCY '
has "$work/probed" 'the file of the option driver cannot be opened: /nowhere'
STATOR_OPT_HIP_SOFT_DRIVER=$STATOR_BUILD/tests/softgpu/libcuda.so.1 probe
has "$work/probed" '^hip_soft +MISSING_DEPENDENCY '
has "$work/probed" 'has no function hipInit'
STATOR_OPT_HIP_SOFT_HIPRTC=/nowhere/libhiprtc.so.6 probe
has "$work/probed" '^hip_soft +MISSING_DEPENDENCY '
has "$work/probed" 'the file of the option hiprtc cannot be opened: /nowhere'
probe
has "$work/probed" '^hip_soft +AVAILABLE ' # what was remembered is forgotten

pointwise_graph "$work/pointwise.stir"
softmax_graph "$work/softmax.stir"
for chip in sm_90 wave64; do
    for graph in pointwise softmax; do
        STATOR_SOFT_CHIP=$chip "$STATOR" compare "$work/$graph.stir" --backends eager,hip_soft --strict >"$work/out" 2>&1 ||
            fail "$graph on $chip: $(cat "$work/out")"
    done
done

# A crash of the compiler is an error of the compile, not of this process.
cat >"$work/crash.c" <<'END'
#include <stdlib.h>
int hiprtcVersion(int *major, int *minor) { *major = *minor = 6; return 0; }
int hiprtcCreateProgram(void) { return 0; }
int hiprtcCompileProgram(void) { abort(); }
int hiprtcDestroyProgram(void) { return 0; }
int hiprtcGetProgramLogSize(void) { return 1; }
int hiprtcGetProgramLog(void) { return 1; }
int hiprtcGetCodeSize(void) { return 1; }
int hiprtcGetCode(void) { return 1; }
END
if cc -shared -fPIC -o "$work/crash.so" "$work/crash.c" 2>/dev/null; then
    "$STATOR" run "$work/pointwise.stir" --random 0 --backend hip_soft --strict --backend-option hiprtc="$work/crash.so" \
        >"$work/out" 2>&1 && fail "a crash went unseen"
    has "$work/out" 'hiprtc ended its process with signal 6'
fi

# What the compiler says of a text that it refuses is shown, set in, with the text behind it.
cat >"$work/refuses.c" <<'END'
#include <string.h>
int hiprtcVersion(int *major, int *minor) { *major = *minor = 6; return 0; }
int hiprtcCreateProgram(void) { return 0; }
int hiprtcCompileProgram(void) { return 6; }
int hiprtcDestroyProgram(void) { return 0; }
int hiprtcGetProgramLogSize(void *program, unsigned long *bytes) { (void)program; *bytes = 7; return 0; }
int hiprtcGetProgramLog(void *program, char *text) { (void)program; strcpy(text, "no\nit\n"); return 0; }
int hiprtcGetCodeSize(void) { return 1; }
int hiprtcGetCode(void) { return 1; }
END
if cc -shared -fPIC -o "$work/refuses.so" "$work/refuses.c" 2>/dev/null; then
    "$STATOR" run "$work/pointwise.stir" --random 0 --backend hip_soft --strict --backend-option hiprtc="$work/refuses.so" \
        >"$work/out" 2>&1 && fail "a refusal went unseen"
    has "$work/out" 'hiprtc cannot compile the kernel .* for gfx1100'
    has "$work/out" '^ +no$'
    has "$work/out" '^ +1  #include "gpu_prelude.h"$'
fi
refuses hip_soft 'there is no device hip_soft:77: the driver sees' --backend-option device=77
says='hip_soft:0 is gfx1100, and the option arch is'
refuses hip_soft "$says 'sm_90', which is no architecture; expected a name such as gfx90a" --backend-option arch=sm_90
refuses hip_soft "$says 'gfx90a', whose code objects do not run" --backend-option arch=gfx90a
for option in driver hiprtc; do
    refuses hip_soft "the file of the option $option cannot be opened: /etc/passwd" --backend-option "$option=/etc/passwd"
    refuses hip_soft 'is too old or is not one: ' --backend-option "$option=$STATOR_BUILD/tests/softgpu/libcuda.so.1"
    has "$work/out" "^hint: install .*, or name its file with the option $option"
done
refuses_environment hip_soft

# Errors have HIP's names.
STATOR_SOFT_FAIL=copy:1 refuses hip_soft 'failed: hipError'
STATOR_SOFT_FAIL=launch:1-2 refuses hip_soft 'launching a kernel failed: hipErrorLaunchOutOfResources, 701,'
STATOR_SOFT_FAIL=lost:1 refuses hip_soft '(hipErrorLaunchFailure, 719, the device is lost'
STATOR_SOFT_DEVICES=0 refuses hip_soft 'sees no device: hipErrorNoDevice, 100, no ROCm-capable device is detected'
echo ok
