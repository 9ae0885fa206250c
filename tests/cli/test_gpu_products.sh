#!/usr/bin/env bash
# Matrix products on the software device: by its cuBLASLt, which refuses what the descriptors do not
# say rightly, and by loops. Each graph gives what eager gives, is a call of the library or is not,
# and runs from the compile cache too.
# shellcheck source=tests/cli/gpu_kit.sh
. "$STATOR_SOURCE/tests/cli/gpu_kit.sh"
export STATOR_CACHE_DIR=$work/kept

needs lib/stator/plugins-1/cuda.so cuda
soft_device libcublasLt.so.13

# products <name> <calls of the library> [<option of the command>...]: the graph comes from stdin.
products() {
    local name=$1 wanted=$2 found option
    shift 2
    { echo "stir 1"; cat; } >"$work/$name.stir"
    for option in cublaslt loops; do
        export STATOR_OPT_CUDA_SOFT_CONTRACTIONS=$option
        "$STATOR" compare "$work/$name.stir" --backends eager,cuda_soft --strict "$@" >"$work/out" 2>&1 ||
            fail "$name, $option: $(cat "$work/out")"
        "$STATOR" run "$work/$name.stir" --random 0 --backend cuda_soft --strict "$@" >"$work/out" 2>&1 ||
            fail "$name, $option: $(cat "$work/out")"
        grep -vE '^compile' "$work/out" >"$work/first"
        "$STATOR" run "$work/$name.stir" --random 0 --backend cuda_soft --strict "$@" >"$work/out" 2>&1 ||
            fail "$name, $option, from the cache: $(cat "$work/out")"
        grep -vE '^compile' "$work/out" | diff "$work/first" - >"$work/diff" ||
            fail "$name, $option, from the cache: $(cat "$work/diff")"
        "$STATOR" explain "$work/$name.stir" --backend cuda_soft "$@" >"$work/out" 2>&1 || fail "explain $name"
        found=$(grep -c 'library  call gemm' "$work/out") || true
        [ "$option" = cublaslt ] || [ "$found" = 0 ] || fail "$name: loops were not used"
        [ "$option" = loops ] || [ "$found" = "$wanted" ] || fail "$name has $found calls: $(cat "$work/out")"
    done
}

products plain 1 <<'END'
graph @main(%x: f32[27, 70], %y: f32[70, 33]) {
  %z = matmul(%x, %y) : f32[27, 33]
  return z: %z
}
END
products turned 1 <<'END'
graph @main(%x: f32[70, 27], %y: f32[33, 70]) {
  %a = transpose(%x) {perm = [1, 0]} : f32[27, 70]
  %b = transpose(%y) {perm = [1, 0]} : f32[70, 33]
  %z = matmul(%a, %b) : f32[27, 33]
  return z: %z
}
END
products result_by_columns 1 <<'END'
graph @main(%x: f32[27, 70], %y: f32[33, 70]) {
  %b = transpose(%y) {perm = [1, 0]} : f32[70, 33]
  %z = matmul(%x, %b) : f32[27, 33]
  %t = transpose(%z) {perm = [1, 0]} : f32[33, 27]
  return t: %t
}
END
products bias 1 <<'END'
graph @main(%x: f32[27, 70], %y: f32[70, 33], %b: f32[33]) {
  %z = matmul(%x, %y) : f32[27, 33]
  %r = add(%z, %b) : f32[27, 33]
  return r: %r
}
END
products bias_of_rows 1 <<'END' # no epilogue of the library: a kernel of its own
graph @main(%x: f32[27, 70], %y: f32[70, 33], %b: f32[27, 1]) {
  %z = matmul(%x, %y) : f32[27, 33]
  %r = add(%z, %b) : f32[27, 33]
  return r: %r
}
END
products heads 1 <<'END' # two batch axes that are no one axis
graph @main(%q: bf16[2, 9, 3, 16], %k: bf16[2, 11, 3, 16]) {
  %a = transpose(%q) {perm = [0, 2, 1, 3]} : bf16[2, 3, 9, 16]
  %b = transpose(%k) {perm = [0, 2, 3, 1]} : bf16[2, 3, 16, 11]
  %z = matmul(%a, %b) : bf16[2, 3, 9, 11]
  return z: %z
}
END
products narrow 2 <<'END'
graph @main(%x: f16[5, 300], %y: f16[300, 7], %u: bf16[5, 80], %v: bf16[80, 3]) {
  %z = matmul(%x, %y) : f16[5, 7]
  %w = matmul(%u, %v) : bf16[5, 3]
  return z: %z, w: %w
}
END
products vectors 1 <<'END' # the first is of f32 and skinny
graph @main(%x: f32[1, 300], %y: f32[300, 5], %u: f64[4, 6], %v: f64[6, 1]) {
  %z = matmul(%x, %y) : f32[1, 5]
  %w = matmul(%u, %v) : f64[4, 1]
  return z: %z, w: %w
}
END
products broadcast 1 <<'END'
graph @main(%x: f32[29, 16], %y: f32[5, 3, 16, 27]) {
  %z = matmul(%x, %y) : f32[5, 3, 29, 27]
  return z: %z
}
END
products part 1 <<'END' # operands begin within their buffers
graph @main(%x: f32[29, 21], %y: f32[30, 27]) {
  %a = slice(%x) {starts = [1, 3], sizes = [27, 16], steps = [1, 1]} : f32[27, 16]
  %b = slice(%y) {starts = [5, 0], sizes = [16, 27], steps = [1, 1]} : f32[16, 27]
  %z = matmul(%a, %b) : f32[27, 27]
  return z: %z
}
END
products sizes 1 --dim B=3 --dim K=20 <<'END'
sym B in [0, inf]
sym K in [0, inf]
graph @main(%x: f32[B, 9, K], %y: f32[B, K, 7]) {
  %z = matmul(%x, %y) : f32[B, 9, 7]
  return z: %z
}
END
products skinny 0 <<'END' # generated kernels are faster
graph @main(%x: f32[5, 300], %y: f32[300, 70], %u: f32[300, 90], %v: f32[90, 3], %w: f32[2, 64], %q: f32[64, 50], %k: f32[64, 50], %e: f32[64, 50]) {
  %a = matmul(%x, %y) : f32[5, 70]
  %b = matmul(%u, %v) : f32[300, 3]
  %c = matmul(%w, %q) : f32[2, 50]
  %d = matmul(%w, %k) : f32[2, 50]
  %f = matmul(%w, %e) : f32[2, 50]
  return a: %a, b: %b, c: %c, d: %d, f: %f
}
END
products integers 0 <<'END'
graph @main(%x: i32[4, 5], %y: i32[5, 6]) {
  %z = matmul(%x, %y) : i32[4, 6]
  return z: %z
}
END

# A library that nobody named and that is not there is a hint, and loops do the work. An empty option
# looks for the vendor's own, which a machine without a GPU seldom has.
cat >"$work/large.stir" <<'END'
stir 1
graph @main(%x: f32[128, 128], %y: f32[128, 128]) {
  %z = matmul(%x, %y) : f32[128, 128]
  return z: %z
}
END
export STATOR_OPT_CUDA_SOFT_CONTRACTIONS=cublaslt
if ldconfig -p | grep -q 'libcublasLt\.so\.1[23]' || ls -d /usr/local/cuda*/ >/dev/null 2>&1; then
    echo "ok, but a missing cuBLASLt: this machine may have one"
    exit 0
fi
env -u VIRTUAL_ENV -u CONDA_PREFIX -u CUDA_HOME -u CUDA_PATH -u LD_LIBRARY_PATH \
    STATOR_CACHE=0 STATOR_LOGS=perf_hints STATOR_OPT_CUDA_SOFT_CUBLASLT= \
    "$STATOR" run "$work/large.stir" --random 0 --backend cuda_soft >"$work/out" 2>&1 || fail "without cuBLASLt: $(cat "$work/out")"
has "$work/out" 'runs as generated loops: cuBLASLt, .* is not there: no libcublasLt\.so\.13'
echo ok
