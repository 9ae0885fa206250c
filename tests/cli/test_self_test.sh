#!/usr/bin/env bash
# The self test of GPU backends over the software device: it passes in any order of threads, runs once
# before the first compile on a device, and finds a prelude that is wrong in one place: each fault
# below is planted by a compiler that changes the prelude, and the device is then left unused with a
# sentence that names it.
# shellcheck source=tests/cli/gpu_kit.sh
. "$STATOR_SOURCE/tests/cli/gpu_kit.sh"
soft_backend cuda_soft
export STATOR_CACHE_DIR=$work/kept STATOR_SOFT_CACHE=$work/kernels STATOR_LOGS=dispatch
mkdir "$work/kernels"
pointwise_graph "$work/pointwise.stir"

# run_graph STATUS ARGUMENT...: output and log in $work/out.
run_graph() {
    local wanted=$1 status=0
    shift
    "$STATOR" run "$work/pointwise.stir" --random 0 --backend cuda_soft "$@" >"$work/out" 2>&1 || status=$?
    [ "$status" = "$wanted" ] || fail "status $status in place of $wanted: $(cat "$work/out")"
}

# On the software device it runs when it is asked for, once, and is remembered.
run_graph 0
[ ! -e "$work/kept/self_tests" ] || fail "the software device tested itself though nobody asked"
export STATOR_OPT_CUDA_SOFT_SELF_TEST=true
run_graph 0
has "$work/out" "the backend 'cuda_soft' has tested itself on cuda_soft:0"
run_graph 0
grep -q 'has tested itself' "$work/out" && fail "it was tested again"
[ "$(wc -l <"$work/kept/self_tests")" = 1 ] || fail "lines: $(cat "$work/kept/self_tests")"

# Asked for by the command it runs always; each device of a chip is one.
"$STATOR" backends cuda_soft --self-test >"$work/out" 2>&1 || fail "$(cat "$work/out")"
has "$work/out" '^cuda_soft:0: self test passed in [0-9]+ ms$'
STATOR_SOFT_DEVICES=2 STATOR_SOFT_ORDER=descending "$STATOR" backends cuda_soft --self-test --json >"$work/out" 2>&1 ||
    fail "$(cat "$work/out")"
has "$work/out" '"device":[[:space:]]*1'
"$STATOR" backends eager --self-test >"$work/out" 2>&1 && fail "eager has a self test"
has "$work/out" "the backend 'eager' has no self test"
"$STATOR" backends --self-test >"$work/out" 2>&1 && fail "a self test of all backends"
has "$work/out" 'name one, as in: stator backends cuda --self-test'
if [ -e "$STATOR_BUILD/lib/stator/plugins-soft/hip_soft.so" ]; then
    for chip in sm_90 wave64; do
        STATOR_SOFT_CHIP=$chip "$STATOR" backends hip_soft --self-test >"$work/out" 2>&1 || fail "$(cat "$work/out")"
        has "$work/out" '^hip_soft:0: self test passed'
    done
fi

# planted NAME OLD NEW: with NEW in place of OLD in the prelude the self test says that NAME is wrong.
planted() {
    export STATOR_SOFT_CACHE=$work/planted_$1 STATOR_SOFT_CC=$work/cc_$1
    mkdir "$STATOR_SOFT_CACHE"
    cat >"$STATOR_SOFT_CC" <<END
#!/bin/sh
for argument; do
    case \$argument in
    -I*/prelude-*)
        mkdir "$STATOR_SOFT_CACHE/\$\$"
        sed 's/$2/$3/' "\${argument#-I}/gpu_prelude.h" >"$STATOR_SOFT_CACHE/\$\$/gpu_prelude.h" ;;
    esac
done
exec cc -I"$STATOR_SOFT_CACHE/\$\$" "\$@"
END
    chmod +x "$STATOR_SOFT_CC"
    rm -f "$work/kept/self_tests"
    run_graph 3
    has "$work/out" "cuda_soft:0 cannot be used: self test of Stator software device.*: $1 is wrong: "
    has "$work/out" 'self_test=false uses the device all the same'
    [ ! -e "$work/kept/self_tests" ] || fail "a failure was remembered"
}
planted st_rint_f32 '__builtin_rintf' '__builtin_floorf'
run_graph 0 --fallback eager
has "$work/out" "backend 'cuda_soft' replaced by 'eager': .*st_rint_f32 is wrong"
run_graph 0 --backend-option self_test=false
planted st_minimum_f32 'st_bits_of_f32(x) | st_bits_of_f32(y)' 'st_bits_of_f32(y)'
planted st_f16_of_f32 '(low >> 13 & 1u)' '1u'
planted st_log2_f64 '1\.4426950408889634' '1.442695040888963'
planted ST_LANE '(ST_THREAD % ST_WARP)' '(ST_THREAD % 16)'
planted st_shuffle_xor_u64 'st_soft_meet(ST_SOFT_SHUFFLE_U64, __LINE__, (st_u64)(x), (mask))' '(st_u32)st_soft_meet(ST_SOFT_SHUFFLE_U64, __LINE__, (st_u64)(x), (mask))'
planted st_atomic_max_u32 'while (old < x' 'while (old > x'
planted st_mma_f16 '{5, 10, 1}' '{5, 9, 1}'
planted st_tf32_of_f32 '(bits + 0x1000u)' '(bits + 0xfffu)'
planted st_load_matrices_across 'from\[is_across ? slow : fast + e\]' 'from[is_across ? fast : fast + e]'
planted st_copy_async_16 'st_soft_aligned(from, 16), 16)' 'st_soft_aligned(from, 16), 12)'
echo ok
