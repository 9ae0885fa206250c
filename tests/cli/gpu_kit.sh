# shellcheck shell=bash
# What the tests of GPU backends share: to be sourced. A folder of their own, the listing and the
# probe of a backend, the software device, and graphs that several of them run.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
has() { grep -qE -- "$2" "$1" || fail "no '$2' in: $(cat "$1")"; }

# needs FILE WHAT: without a file of the build there is nothing to test.
needs() { [ -e "$STATOR_BUILD/$1" ] || { echo "this build is without $2"; exit 0; }; }

# soft_device LIBRARY: backends over the software device; the library is a vendor's face of it.
soft_device() {
    needs "tests/softgpu/$1" "the software device"
    export STATOR_SOFT_DEVICE=1
}

# soft_backend NAME: the backend cuda_soft or hip_soft, with its device.
soft_backend() {
    case $1 in
    cuda_soft) soft_device libcuda.so.1 ;;
    hip_soft) soft_device libamdhip64.so.6 ;;
    *) fail "'$1' is no backend over the software device" ;;
    esac
    needs "lib/stator/plugins-soft/$1.so" "$1"
}

# refuses BACKEND WORDS OPTION...: the run ends with status 3, and says the words.
refuses() {
    local backend=$1 words=$2 status=0
    shift 2
    "$STATOR" run "$work/pointwise.stir" --random 0 --backend "$backend" "$@" >"$work/out" 2>&1 </dev/null || status=$?
    [ "$status" = 3 ] || fail "status $status, not 3, of $backend $*: $(cat "$work/out")"
    grep -qF -- "$words" "$work/out" || fail "no '$words' of $backend $*: $(cat "$work/out")"
}

# refuses_environment BACKEND: a variable of the software device is named in the sentence, and the
# hint is about variables.
refuses_environment() {
    local set
    for set in CHIP=x THREADS=0 THREADS=3 DEVICES=-1 DEVICES=9 ORDER=up FAIL=alloc LEAKS=2 DEBUG=yes; do
        (export "STATOR_SOFT_$set" && refuses "$1" ", STATOR_SOFT_${set%=*} ") || exit 1
        has "$work/out" 'does not begin: (CUDA_ERROR_INVALID_VALUE|hipErrorInvalidValue), 1, STATOR_SOFT_'
        has "$work/out" '^hint: correct the variable of the environment'
    done
}

probe() { "$STATOR" backends --all --probe >"$work/probed" || fail "probe"; }

# opens_nothing PATTERN: a listing loads no plugin and no library of the vendor's.
opens_nothing() {
    ! LD_DEBUG=files "$STATOR" backends --all 2>&1 | grep -qE "file=.*(plugins-1|$1)" || fail "listing opens a plugin"
}

pointwise_graph() { # FILE
    cat >"$1" <<'END'
stir 1
graph @main(%x: f32[3, 257], %y: f32[257]) {
  %a = mul(%x, %y) : f32[3, 257]
  %b = exp(%a) : f32[3, 257]
  %c = sub(%b, %x) : f32[3, 257]
  return z: %c
}
END
}

softmax_graph() { # FILE
    cat >"$1" <<'END'
stir 1
graph @main(%x: f32[5, 300]) {
  %y = softmax(%x) {axis = 1} : f32[5, 300]
  return y: %y
}
END
}

# A check of the kernel's: the index 99 is outside its axis.
failing_graph() { # FILE
    cat >"$1" <<'END'
stir 1
graph @main(%x: f32[8, 16], %z: f32[4]) {
  %k = constant {value = f32[4] {99.0, 99.0, 99.0, 99.0}}
  %i = add(%z, %k)
  %j = cast(%i) {dtype = i64}
  %y = gather(%x, %j) {axis = 0}
  return y: %y
}
END
}
