#!/usr/bin/env bash
# Contractions by matrix instructions on the software device, which sums as an H100 does: each graph runs
# in kernels that have them and gives what eager gives, within what the option matmul allows.
# shellcheck source=tests/cli/gpu_kit.sh
. "$STATOR_SOURCE/tests/cli/gpu_kit.sh"
export STATOR_CACHE=0
needs lib/stator/plugins-1/cuda.so cuda
soft_backend cuda_soft

# matrices NAME INSTRUCTION [OPTION]...: the graph comes from stdin; options are those of compare.
sizes=()
matrices() {
    local name=$1 instruction=$2
    shift 2
    { echo "stir 1"; cat; } >"$work/$name.stir"
    "$STATOR" compare "$work/$name.stir" --backends eager,cuda_soft --strict "${sizes[@]}" "$@" \
        >"$work/out" 2>&1 ||
        fail "$name: $(cat "$work/out")"
    rm -rf "$work/dump"
    STATOR_DUMP=$work/dump "$STATOR" run "$work/$name.stir" --random 0 --backend cuda_soft "${sizes[@]}" \
        >"$work/out" 2>&1 || fail "$name: $(cat "$work/out")"
    grep -rqF "$instruction(" "$work/dump" || fail "$name has no $instruction"
}

# halves ELEMENT: graphs of elements of 16 bits.
halves() {
    local element=$1
    matrices "odd_$element" "st_mma_$element" <<END
graph @g(%a: $element[67, 45], %b: $element[45, 83]) {
  %y = matmul(%a, %b)
  return y: %y
}
END
    matrices "rows_turned_$element" "st_mma_$element" <<END
graph @g(%a: $element[64, 96], %b: $element[64, 136]) {
  %t = transpose(%a) {perm = [1, 0]}
  %y = matmul(%t, %b)
  return y: %y
}
END
    matrices "columns_turned_$element" "st_mma_$element" <<END
graph @g(%a: $element[96, 64], %b: $element[136, 64]) {
  %t = transpose(%b) {perm = [1, 0]}
  %y = matmul(%a, %t)
  return y: %y
}
END
    matrices "batch_$element" "st_mma_$element" <<END
graph @g(%a: $element[3, 40, 72], %b: $element[3, 72, 56]) {
  %y = matmul(%a, %b)
  return y: %y
}
END
    matrices "wide_$element" "st_mma_$element" <<END
graph @g(%a: $element[30, 64], %b: $element[64, 200]) {
  %y = matmul(%a, %b)
  return y: %y
}
END
    matrices "high_$element" "st_mma_$element" <<END
graph @g(%a: $element[200, 64], %b: $element[64, 30]) {
  %y = matmul(%a, %b)
  return y: %y
}
END
    matrices "around_$element" "st_mma_$element" <<END
graph @g(%a: $element[70, 48], %b: $element[48, 96], %c: $element[96], %r: $element[70, 96]) {
  %s = relu(%a)
  %y = matmul(%s, %b)
  %z = add(%y, %c)
  %g = gelu(%z)
  %q = add(%g, %r)
  return y: %q
}
END
    matrices "conv_$element" "st_mma_$element" <<END
graph @g(%x: $element[2, 8, 14, 14], %w: $element[40, 8, 3, 3], %b: $element[40]) {
  %y = conv(%x, %w, %b) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], groups = 1}
  %r = relu(%y)
  return y: %r
}
END
    sizes=(--dim N=50 --dim K=40)
    matrices "sizes_$element" "st_mma_$element" <<END
graph @g(%a: $element[N, K], %b: $element[K, 72]) {
  %y = matmul(%a, %b)
  return y: %y
}
END
    sizes=()
}

export STATOR_OPT_CUDA_SOFT_CONTRACTIONS=loops
halves bf16
halves f16

# Tiles of 128x128 and of 128x256 keep the chip's 132 multiprocessors busy here.
matrices large st_mma_bf16 <<'END'
graph @g(%a: bf16[1664, 40], %b: bf16[40, 1400]) {
  %y = matmul(%a, %b)
  return y: %y
}
END
matrices largest st_mma_bf16 <<'END'
graph @g(%a: bf16[1408, 200], %b: bf16[200, 3080]) {
  %y = matmul(%a, %b)
  return y: %y
}
END

# f32: 10, about 16 and about 24 bits of fraction.
floats() {
    local instruction=$1
    shift
    matrices odd "$instruction" "$@" <<'END'
graph @g(%a: f32[67, 45], %b: f32[45, 83]) {
  %y = matmul(%a, %b)
  return y: %y
}
END
    matrices rows_turned "$instruction" "$@" <<'END'
graph @g(%a: f32[64, 96], %b: f32[64, 136]) {
  %t = transpose(%a) {perm = [1, 0]}
  %y = matmul(%t, %b)
  return y: %y
}
END
    matrices columns_turned "$instruction" "$@" <<'END'
graph @g(%a: f32[96, 64], %b: f32[136, 64]) {
  %t = transpose(%b) {perm = [1, 0]}
  %y = matmul(%a, %t)
  return y: %y
}
END
    matrices conv "$instruction" "$@" <<'END'
graph @g(%x: f32[2, 8, 14, 14], %w: f32[40, 8, 3, 3], %b: f32[40]) {
  %y = conv(%x, %w, %b) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], groups = 1}
  %r = relu(%y)
  return y: %r
}
END
}
STATOR_OPT_CUDA_SOFT_MATMUL=tf32 floats st_mma_tf32 --rtol 2e-3 --atol 2e-2
STATOR_OPT_CUDA_SOFT_MATMUL=bf16x3 floats st_mma_bf16 --rtol 1e-4 --atol 4e-4
STATOR_OPT_CUDA_SOFT_MATMUL=bf16x6 floats st_mma_bf16 --rtol 1e-5 --atol 5e-5

# strict has no matrix instructions for f32, and neither has a chip older than sm_80 for anything.
rm -rf "$work/dump"
STATOR_DUMP=$work/dump "$STATOR" run "$work/odd.stir" --random 0 --backend cuda_soft >"$work/out" 2>&1 || fail strict
! grep -rqE "st_mma_" "$work/dump" || fail "strict rounds factors"
rm -rf "$work/dump"
STATOR_SOFT_CHIP=small STATOR_DUMP=$work/dump STATOR_OPT_CUDA_SOFT_MATMUL=tf32 STATOR_LOGS=perf_hints \
    "$STATOR" compare "$work/odd.stir" --backends eager,cuda_soft >"$work/out" 2>&1 || fail "small: $(cat "$work/out")"
has "$work/out" "code for sm_75 has no matrix instructions, so that matmul=tf32 is strict"
STATOR_SOFT_CHIP=small STATOR_DUMP=$work/dump "$STATOR" compare "$work/odd_bf16.stir" --backends eager,cuda_soft \
    >"$work/out" 2>&1 || fail "small: $(cat "$work/out")"
! grep -rqE "st_mma_" "$work/dump" || fail "sm_75 has matrix instructions"

# The library is told of tf32, and leaves what is taken apart to loops.
export STATOR_OPT_CUDA_SOFT_CONTRACTIONS=cublaslt
for matmul in strict:1 tf32:1 bf16x3:0 bf16x6:0; do
    STATOR_OPT_CUDA_SOFT_MATMUL=${matmul%:*} "$STATOR" explain "$work/odd.stir" --backend cuda_soft >"$work/out" 2>&1 ||
        fail "explain"
    found=$(grep -c 'library  call gemm' "$work/out") || true
    [ "$found" = "${matmul#*:}" ] || fail "matmul=${matmul%:*} has $found calls of the library: $(cat "$work/out")"
done
STATOR_OPT_CUDA_SOFT_MATMUL=tf32 "$STATOR" run "$work/odd.stir" --random 0 --backend cuda_soft >"$work/tf32" 2>&1 || fail tf32
STATOR_OPT_CUDA_SOFT_MATMUL=strict "$STATOR" run "$work/odd.stir" --random 0 --backend cuda_soft >"$work/strict" 2>&1 || fail strict
! diff <(grep '^y' "$work/tf32") <(grep '^y' "$work/strict") >/dev/null || fail "the library does not round to tf32"
STATOR_OPT_CUDA_SOFT_MATMUL=tf23 "$STATOR" run "$work/odd.stir" --random 0 --backend cuda_soft >"$work/out" 2>&1 &&
    fail "matmul=tf23 is taken"
has "$work/out" "tf32"
