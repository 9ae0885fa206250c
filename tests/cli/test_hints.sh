#!/usr/bin/env bash
# STATOR_LOGS=perf_hints: each thing that makes a program slow is one line that says what to do, a
# program with nothing to say is silent, and one from the cache says why it is.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "BAD $1"; exit 1; }
unset STATOR_DUMP XDG_CACHE_HOME
export STATOR_CACHE=0 STATOR_LOGS=perf_hints
digits=$STATOR_SOURCE/examples/digits/digits.onnx
"$STATOR" backends --probe | grep -qE '^inductor-cpu +AVAILABLE' || {
    echo "inductor-cpu is not available here"
    exit 0
}

model() { # NAME, the text of a graph on stdin
    { echo "stir 1"; cat; } >"$1.stir"
}
hints() { # NAME MORE...: the lines of the channel, on two threads
    "$STATOR" run "$1" --random 3 --threads 2 "${@:2}" 2>err >out || fail "$1: $(cat err)"
    ! grep -q 'no channel' err || fail "the channel is not known"
    sed -n 's/^\[perf_hints\] //p' err
}
says() { # LINE MODEL MORE...: this one line and no other
    hints "${@:2}" >got
    [ "$(cat got)" = "$1" ] || fail "$2 says: $(cat got)
     not: $1"
}

# ---- nothing to say ----

model plain <<'END'
graph @m(%x: f32[64, 300], %w: f32[300, 64]) {
  %t = tanh(%x)
  %y = matmul(%t, %w)
  %s = softmax(%y) {axis = -1}
  %r = reduce_sum(%s) {axes = [0, 1]}
  return s: %s, r: %r
}
END
says '' plain.stir
says '' "$digits"
says '' plain.stir --backend eager

# ---- nodes that the backend does not take ----

model left <<'END'
sym K unbacked in [0, 64]
sym L unbacked in [0, 64]
graph @m(%x: f32[64], %y: f32[64]) {
  %e = exp(%x)
  %k = nonzero(%e) : i64[1, K] @"where":NonZero
  %n = neg(%k)
  %l = nonzero(%y) : i64[1, L]
  return k: %n, l: %l
}
END
says "2 of 4 nodes run on eager, and values are handed over 2 times a call: 2 nonzero 'where' and others (no lowering to loops for this op); with ops that inductor-cpu runs in their place the program would be one piece" left.stir
model steps <<'END'
sym K unbacked in [0, 16]
graph @m(%h: f32[4], %s: f32[50, 4]) {
  %g = scan(%h, %s) {carried = 1, scanned = 1, stacked = 0}
   region (%a: f32[4], %b: f32[4]) {
    %k = nonzero(%b) : i64[1, K]
    %n = reduce_sum(%k) {axes = [0, 1]}
    %f = cast(%n) {dtype = f32}
    %d = add(%a, %f)
    return %d
   }
  return g: %g
}
END
hints steps.stir >got
grep -qx 'scan is stepped by the host, a call of each part of its body a step: a node of its bodies does not run there; a scan that inductor-cpu runs whole is one call' got || fail "steps: $(cat got)"
grep -q '^1 of 5 nodes run on eager, .* nonzero (no lowering to loops for this op); with ops that inductor-cpu runs in their place nothing would be handed over$' got || fail "steps: $(cat got)"

# What is declined while it is compiled is divided again: parts that had been compiled say nothing of
# the first time, and what is the same of each part is said once.
model twice <<'END'
graph @m(%x: f32[64]) {
  %a = add(%x, %x)
  %b = exp(%a)
  %c = mul(%b, %x)
  %d = exp(%c)
  %e = sin(%d)
  return e: %e
}
END
divided=(--plugin-dir "$STATOR_BUILD/tests/plugins" --backend divided --backend-option ops=add,mul,sin)
hints twice.stir "${divided[@]}" --backend-option declines=sin >got
[ "$(grep -c '^divided: compiles a part$' got)" = 1 ] || fail "declined: $(cat got)"
grep -q '^3 of 5 nodes run on eager, .*; with ops that divided runs in their place the program would be one piece$' got || fail "declined: $(cat got)"
[ "$(wc -l <got)" = 2 ] || fail "declined: $(cat got)"

# ---- one thread ----

# Folds of known sizes from 2^18 elements on are done in parts (the pass `split`).
model sum <<'END'
sym N in [1024, inf]
graph @m(%x: f32[N, 1024]) {
  %a = reduce_sum(%x) {axes = [0, 1]} @"total":ReduceSum
  return a: %a
}
END
says "reduce_sum 'total' runs on one thread and touches 4.0 MiB (kernel k0_reduce_sum): it folds everything at once; fold in two steps, the first over the last axes alone (of a view [64, n / 64] where there is but one)" sum.stir --dim N=1024
says '' sum.stir --dim N=1024 --threads 1
sed '/^sym/d; s/N, 1024/1024, 1024/' sum.stir >known.stir
says '' known.stir
# A fold that the model does not have is its composite's, a line for all; with a name or without.
folds='it folds everything at once'
model softmax <<'END'
graph @m(%x: f64[200000]) {
  %a = softmax(%x) {axis = 0} @"weights":Softmax
  return a: %a
}
END
says "part of Softmax 'weights' runs on one thread and touches 1.5 MiB (kernel k0_reduce_max): $folds" softmax.stir
sed 's/ @"weights":Softmax//' softmax.stir >nobody.stir
says "part of softmax runs on one thread and touches 1.5 MiB (kernel k0_reduce_max): $folds" nobody.stir
model norm <<'END'
graph @m(%x: f64[1, 200000], %w: f64[200000], %b: f64[200000]) {
  %a = layer_norm(%x, %w, %b) {axis = 1} @"":LayerNormalization
  %s = reduce_sum(%a) {axes = [0, 1]} @"":ReduceSum
  return a: %a, s: %s
}
END
hints norm.stir >got
[ "$(grep -c "^part of LayerNormalization runs on one thread .*: $folds$" got)" = 1 ] &&
    [ "$(grep -c "^reduce_sum runs on one thread .*: $folds; fold in two steps" got)" = 1 ] &&
    [ "$(wc -l <got)" = 2 ] || fail "norm: $(cat got)"
model two_steps <<'END'
graph @m(%x: f32[1024, 1024]) {
  %r = reduce_sum(%x) {axes = [1]}
  %a = reduce_sum(%r) {axes = [0]}
  return a: %a
}
END
says '' two_steps.stir
order='its steps go in order; an axis beside them, whose rows need nothing of each other, would be shared among threads'
model scan <<'END'
graph @m(%x: f32[1000000]) {
  %a = cumsum(%x) {axis = 0}
  return a: %a
}
END
says "cumsum runs on one thread and touches 7.6 MiB (kernel k0_cumsum): $order" scan.stir
model scatter <<'END'
graph @m(%x: f32[400000], %i: i64[100000], %u: f32[100000]) {
  %z = scatter_elements(%x, %i, %u) {axis = 0, reduction = "add"}
  return z: %z
}
END
says "scatter_elements runs on one thread and touches 4.2 MiB (kernel k0_scatter_elements): $order" scatter.stir
# A size known only at call time counts as in the call that the program is compiled for; few elements of a large buffer are few.
sed 's/^sym N in .*/sym N in [1, inf]/' sum.stir >open.stir
says "reduce_sum 'total' runs on one thread and touches 4.0 MiB (kernel k0_reduce_sum): it folds everything at once; fold in two steps, the first over the last axes alone (of a view [64, n / 64] where there is but one)" open.stir --dim N=1024
says '' open.stir --dim N=2
model few <<'END'
graph @m(%x: f32[1000000], %i: i64[3]) {
  %g = gather(%x, %i) {axis = 0}
  %a = reduce_sum(%g) {axes = [0]}
  return a: %a
}
END
says '' few.stir

# ---- functions without a vector form ----

model tan <<'END'
graph @m(%x: f32[4096]) {
  %a = tan(%x)
  %b = atan(%a)
  return b: %b
}
END
mkdir none
cp "$STATOR_BUILD/lib/stator/plugins-1/text.so" none/libsleef.so.3
sleef='computed one element after the other, as SLEEF is not installed (package libsleef3)'
LD_LIBRARY_PATH=$work/none hints tan.stir >got
case $(cat got) in
"tan, atan: these are $sleef" | "atan, tan: these are $sleef") ;;
*) fail "without SLEEF: $(cat got)" ;;
esac
[ ! -e /usr/lib/x86_64-linux-gnu/libsleef.so.3 ] || says '' tan.stir

# ---- contractions ----

model wide <<'END'
graph @m(%x: f64[256, 128], %y: f64[128, 192]) {
  %a = matmul(%x, %y) @"product":MatMul
  %b = tanh(%a)
  return b: %b
}
END
sed 's/f64/f32/g' wide.stir >narrow.stir
sed 's/256/16/; s/192/16/' wide.stir >small.stir
mkdir -p bare/lib/stator
cp -r "$STATOR_BUILD/bin" bare/
cp -d "$STATOR_BUILD"/lib/libstator.so* bare/lib/
cp -r "$STATOR_BUILD"/lib/stator/* bare/lib/stator/
rm -f bare/lib/stator/jit/cpu_llvm_dnnl.so
STATOR=$work/bare/bin/stator hints narrow.stir >got
grep -qE "^dot_general 'product' of f32\[256, 128\] and f32\[128, 192\], 12.6 Mflop, runs as generated loops: this build is without oneDNN .*libdnnl-dev" got ||
    fail "without oneDNN: $(cat got)"
[ "$(wc -l <got)" = 1 ] || fail "without oneDNN: $(cat got)"
says '' small.stir
says '' wide.stir --backend-option contractions=loops
if hints narrow.stir | grep -q 'generated loops'; then
    echo "oneDNN cannot be used here"
else
    says '' narrow.stir
    says "dot_general 'product' of f64[256, 128] and f64[128, 192], 12.6 Mflop, runs as generated loops: the library of contractions has no product of f64 and f64 with sums in f64; it has one of f32: cast to it where its precision will do" wide.stir
    # Few products for each value that is read, and a batch known only at call time.
    model planes <<'END'
sym N in [0, inf]
graph @m(%x: f64[N, 64, 48, 48], %w: f64[64, 1, 3, 3]) {
  %y = conv(%x, %w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], groups = 64}
  return y: %y
}
END
    says "conv of f64[N, 64, 48, 48] and f64[64, 1, 3, 3], 5.3 Mflop, runs as generated loops: the library of contractions has no product of f64 and f64 with sums in f64; it has one of f32: cast to it where its precision will do" planes.stir --dim N=2
    sed '1a sym N in [2, inf]' wide.stir | sed 's/256/N/' >long_folds.stir
    says "dot_general 'product' of f64[N, 128] and f64[128, 192], 12.6 Mflop, runs as generated loops: the library of contractions has no product of f64 and f64 with sums in f64; it has one of f32: cast to it where its precision will do" long_folds.stir --dim N=256
    says '' long_folds.stir --dim N=16
    model conv <<'END'
graph @m(%x: f32[1, 256, 28, 28], %w: f32[256, 256, 3, 3]) {
  %y = conv(%x, %w) {strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1]}
  return y: %y
}
END
    says "conv: each call puts 2.2 MiB of input 'w' into another order: a weight that is a constant of the model is put in order once" conv.stir --backend-option measure=false
fi

# ---- constants that each call makes anew ----

{
    echo "graph @m(%x: f32[200, 300]) {"
    echo "  %w = constant {value = i8[300, 400] {$(seq 1 120000 | awk '{printf "%s%d", (NR > 1 ? ", " : ""), $1 * 7 % 251 - 125}')}}"
    echo '  %s = constant {value = f32[100, 1, 400] {'"$(seq 1 40000 | awk '{printf "%s%d", (NR > 1 ? ", " : ""), $1 % 5 + 1}')"'}}'
    cat <<'END'
  %e = expand(%s) {shape = [100, 3, 400]}
  %r = reshape(%e) {shape = [300, 400]}
  %f = cast(%w) {dtype = f32}
  %d = mul(%f, %r) @"widen":DequantizeLinear
  %y = matmul(%x, %d)
  return y: %y
}
END
} | model blocks
says "mul 'widen': each call makes 0.5 MiB of constants alone, as 'w' (kernel k0_mul); kept in the model as it is made here, it would only be read" blocks.stir

# ---- how it is run ----

says 'debug_bounds is on: each load and store checks its index; leave the option out when no error is looked for' plain.stir --backend-option debug_bounds=true
if [ "$(getconf _NPROCESSORS_ONLN)" -gt 1 ] && taskset -c 0 true 2>/dev/null; then
    taskset -c 0 "$STATOR" run plain.stir --random 3 2>&1 >/dev/null |
        grep -qE '^\[perf_hints\] 1 thread on a machine of [0-9]+ processors: ' || fail "one processor"
    taskset -c 0 "$STATOR" run plain.stir --random 3 --threads 1 2>&1 | grep -q perf_hints && fail "1 thread, asked for"
fi
unset STATOR_CACHE
touch file
STATOR_CACHE_DIR=$work/file says "each process compiles anew, as the cache cannot be used: there is no folder $work/file/programs: Not a directory; STATOR_CACHE_DIR names another folder" plain.stir

# ---- cache and dump ----

export STATOR_CACHE_DIR=$work/cache
says '' plain.stir
hints plain.stir >got
[ "$(wc -l <got)" = 1 ] && grep -qE '^the program came from the cache \([0-9a-f]+\), .*STATOR_CACHE=0 compiles it anew$' got ||
    fail "a hit: $(cat got)"
STATOR_DUMP=$work/d says "$(sed -n 's/^\[perf_hints\] //p' <(STATOR_CACHE=0 "$STATOR" run sum.stir --dim N=1024 --threads 2 2>&1))" sum.stir --dim N=1024
unset STATOR_LOGS
STATOR_DUMP=$work/e "$STATOR" run sum.stir --dim N=1024 --threads 2 >/dev/null
grep -q "^reduce_sum 'total' runs on one thread" e/001-m-inductor-cpu/perf_hints.log || fail "perf_hints.log"
STATOR_DUMP=$work/e "$STATOR" run plain.stir --threads 2 >/dev/null
[ ! -e e/002-m-inductor-cpu/perf_hints.log ] || fail "a log with nothing in it"
"$STATOR" run sum.stir --dim N=1024 --threads 2 2>&1 | grep -q 'one thread' && fail "said without STATOR_LOGS"
echo ok
