#!/usr/bin/env bash
# Weights of four and eight bits with scales and zero points for blocks: they stay as small as they are and
# meet f32 in one call, no kernel widens them, and answers are those of NumPy's arithmetic, here in Python's
# doubles; with each width of vectors, cold and from the cache, packed and under a cap that allows nothing.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "BAD $1"; exit 1; }
"$STATOR" backends --probe | grep -q '^inductor-cpu  *AVAILABLE' || exit 0
export STATOR_CACHE=1 STATOR_CACHE_DIR=$work/cache STATOR_LOGS=output_code,cache,dispatch
export PYTHONPATH=$STATOR_SOURCE/tests/cli

# NAME M K N DTYPE BLOCK (a number, k: a scale a column, all: one scale) LAYOUT (kn, nk; t: x and y are transposed) ZERO SCALE
make() {
    python3 - "$@" <<'PY'
import random, struct, sys, zipfile
import npy
name, m, k, n, dtype, block, layout, zero, scale = sys.argv[1:]
m, k, n, zero = int(m), int(k), int(n), int(zero)
random.seed(name)
low = {"i4": -8, "u4": 0, "i8": -128, "u8": 0}[dtype]
high = low + (16 if dtype in ("i4", "u4") else 256) - 1
size = k if block in ("k", "all") else int(block)
blocks = -(-k // size)
number = lambda: random.randint(low, high)
# Quarters, so that f16 and bf16 have the scales; products with them need not be of f16.
scale_of = {"f32": lambda: random.uniform(.01, .03), "f16": lambda: random.randint(513, 1023) / 2**15,
            "bf16": lambda: random.randint(129, 255) / 2**13}[scale]
code = {"f32": "f", "f16": "e"}.get(scale)
def rounded(x):
    if code:
        return struct.unpack(code, struct.pack(code, x))[0]
    bits = struct.unpack("I", struct.pack("f", x))[0]
    return struct.unpack("f", struct.pack("I", (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000))[0]
one = block == "all"
w = [[number() for _ in range(n)] for _ in range(k)]
s = [[rounded(scale_of()) for _ in range(n)] for _ in range(blocks)]
z = [[number() for _ in range(n)] for _ in range(blocks)]
if one:
    s = [[s[0][0]] * n]
    z = [[z[0][0]] * n]
d = [[rounded((w[i][j] - (z[i // size][j] if zero else 0)) * s[i // size][j]) for j in range(n)] for i in range(k)]
x = [[rounded(random.gauss(0, 1)) if scale != "f32" else struct.unpack("f", struct.pack("f", random.gauss(0, 1)))[0]
      for _ in range(k)] for _ in range(m)]
y = [[sum(a * b for a, b in zip(row, column)) for column in zip(*d)] for row in x]
flat = lambda rows: [v for row in rows for v in row]
mixed = layout.endswith("t")
as_file = lambda rows: list(zip(*rows)) if mixed else rows
pair = lambda a, b: (b, a) if mixed else (a, b)
npy.write(name + ".x.npy", "<f4", pair(m, k), struct.pack("%df" % (m * k), *flat(as_file(x))))
npy.write("y.npy", "<f4", pair(m, n), struct.pack("%df" % (m * n), *flat(as_file(y))))
zipfile.ZipFile(name + ".npz", "w").write("y.npy")
transposed = layout.startswith("nk")
text = lambda rows: "{%s}" % ", ".join(repr(v) for v in flat(zip(*rows) if transposed else rows))
shape = lambda a, b: "[%d, %d]" % ((b, a) if transposed else (a, b))
out = ["stir 1", "graph @m(%%x: f32[%d, %d]) {" % pair(m, k)]
say = lambda line: out.append("  " + line)
say("%%w = constant {value = %s%s %s}" % (dtype, shape(k, n), text(w)))
def spread(name, dtype, rows):
    if one:
        say("%%%s = constant {value = %s[] {%r}}" % (name, dtype, rows[0][0]))
        return
    say("%%%s0 = constant {value = %s%s %s}" % (name, dtype, shape(blocks, n), text(rows)))
    if blocks == 1:
        say("%%%s = reshape(%%%s0) {shape = %s}" % (name, name, shape(1, n)))
        return
    between = "[%d, %d, 1]" % (n, blocks) if transposed else "[%d, 1, %d]" % (blocks, n)
    wide = "[%d, %d, %d]" % ((n, blocks, size) if transposed else (blocks, size, n))
    say("%%%s1 = reshape(%%%s0) {shape = %s}" % (name, name, between))
    say("%%%s2 = expand(%%%s1) {shape = %s}" % (name, name, wide))
    cut = blocks * size != k
    say("%%%s%s = reshape(%%%s2) {shape = %s}" % (name, 3 if cut else "", name, shape(blocks * size, n)))
    if cut:
        say("%%%s = slice(%%%s3) {starts = [0, 0], sizes = %s, steps = [1, 1]}" % (name, name, shape(k, n)))
spread("s", scale, s)
say("%wi = cast(%w) {dtype = i32}")
if zero:
    spread("z", dtype, z)
    say("%zi = cast(%z) {dtype = i32}")
    say("%di = sub(%wi, %zi)")
say("%%df = cast(%%%s) {dtype = %s}" % ("di" if zero else "wi", scale))
say("%d0 = mul(%df, %s)")
say("%d1 = cast(%d0) {dtype = f32}")
say("%%d = %s" % ("transpose(%d1) {perm = [1, 0]}" if transposed else "cast(%d1) {dtype = f32}"))
if mixed:
    say("%xt = transpose(%x) {perm = [1, 0]}")
    say("%yt = matmul(%xt, %d)")
    say("%y = transpose(%yt) {perm = [1, 0]}")
else:
    say("%y = matmul(%x, %d)")
say("return y: %y")
open(name + ".stir", "w").write("\n".join(out + ["}", ""]))
PY
}

# NAME MORE...: right, in one call of the library and nothing else
check() {
    "$STATOR" run "$1.stir" --backend inductor-cpu --input x="$1.x.npy" --expect "$1.npz" --rtol 1e-4 \
        --atol 1e-4 --strict "${@:2}" >out 2>log || fail "$*: $(cat out log)"
}
one_call() { # NAME MORE...
    check "$@"
    grep -q 'weights times' log || fail "$*: its weights are not read as they are: $(cat log)"
    ! grep -q 'kernel k' log || fail "$*: it has a kernel: $(cat log)"
}
has_library=1
"$STATOR" doctor 2>/dev/null | grep -qi 'libdnnl.*missing' && has_library=0
variants() { # NAME of a case
    if [ $has_library = 0 ]; then
        check "$1"
        return
    fi
    one_call "$1"
    STATOR_LOGS=cache check "$1" # what logs the code compiles it
    grep -q '\[cache\] hit ' log || fail "$1 is not from the cache: $(cat log)"
    one_call "$1" --backend-option vector_bits=256
    one_call "$1" --threads 1
    one_call "$1" --backend-option memory_cap=1
    check "$1" --backend-option memory_cap=1
    check "$1" --backend-option contractions=loops
    check "$1" --backend-option debug_bounds=true
}
i=0
while read -r m k n dtype block layout zero scale; do
    i=$((i + 1))
    make "c$i" "$m" "$k" "$n" "$dtype" "$block" "$layout" "$zero" "$scale"
    variants "c$i"
done <<'LIST'
1 128 96 i4 32 kn 0 f32
1 128 80 u4 16 nk 1 f32
3 192 72 i4 64 nk 0 f32
4 256 40 u4 128 kn 1 f32
8 160 70 i4 32 nk 1 f32
9 160 70 u4 k kn 0 f32
20 331 33 i4 32 kn 1 f32
5 331 33 u4 k nk 1 f32
2 128 77 i4 all kn 0 f32
1 128 80 i8 32 kn 1 f32
7 130 72 u8 k nk 0 f32
30 128 72 i8 all nk 0 f32
1 128 96 i4 32 nk 0 f16
17 128 96 u4 32 kn 1 f16
6 128 64 i8 64 kn 0 bf16
300 64 40 u4 32 kn 1 f32
40 128 72 i4 32 knt 0 f32
300 96 33 u4 32 nkt 1 f32
LIST

# What is no number of the weights: another zero point than theirs, and what an unsigned type makes of
# negative ones.
python3 - <<'PY'
import struct, zipfile
import npy
k, n = 256, 320 # more than folding makes wider
w = [[(i * 7 + j * 5) % 16 - 8 for j in range(n)] for i in range(k)]
x = [1 + i % 3 for i in range(k)]
flat = lambda rows: ", ".join(str(v) for r in rows for v in r)
def make(name, lines, f):
    open(name + ".stir", "w").write("""stir 1
graph @m(%%x: f32[1, %d]) {
  %%w = constant {value = i4[%d, %d] {%s}}
  %%s = constant {value = f32[1, %d] {%s}}
%s
  %%d = mul(%%f, %%s)
  %%y = matmul(%%x, %%d)
  return y: %%y
}
""" % (k, k, n, flat(w), n, ", ".join(str(1 + j % 4 / 4) for j in range(n)), lines))
    y = [sum(x[i] * f(w[i][j]) * (1 + j % 4 / 4) for i in range(k)) for j in range(n)]
    npy.write(name + ".x.npy", "<f4", (1, k), struct.pack("%df" % k, *x))
    npy.write("y.npy", "<f4", (1, n), struct.pack("%df" % n, *y))
    zipfile.ZipFile(name + ".npz", "w").write("y.npy")
make("half", """  %c = cast(%w) {dtype = f32}
  %z = constant {value = f32[] {0.375}}
  %f = sub(%c, %z)""", lambda v: v - 0.375)
make("far", """  %c = cast(%w) {dtype = f32}
  %z = constant {value = f32[] {40000}}
  %f = sub(%c, %z)""", lambda v: v - 40000)
make("wraps", """  %c = cast(%w) {dtype = u16}
  %f = cast(%c) {dtype = f32}""", lambda v: v % 65536)
make("wraps_under", """  %c = cast(%w) {dtype = u16}
  %z = constant {value = u16[] {9}}
  %b = sub(%c, %z)
  %f = cast(%b) {dtype = f32}""", lambda v: (v - 9) % 65536)
PY
for name in half far wraps wraps_under; do
    for more in "" "--backend-option vector_bits=256" "--backend-option contractions=loops"; do
        # shellcheck disable=SC2086
        check $name $more
    done
done

# Blocks that no panel has (of 4 numbers): widened by a kernel, and right.
make odd 4 64 48 i4 4 kn 1 f32
check odd
# Rows of a table of few bits.
python3 - <<'PY'
import struct, zipfile
import npy
rows, width, ids = 37, 24, [5, 0, 36, 7, 7]
w = [[(r * 5 + c * 3) % 16 for c in range(width)] for r in range(rows)]
s = [[1 + (r + b) % 5 / 4 for b in range(2)] for r in range(rows)]
open("long_folds.stir", "w").write("""stir 1
graph @m(%%i: i64[%d]) {
  %%w = constant {value = u4[%d, %d] {%s}}
  %%s = constant {value = f32[%d, 2] {%s}}
  %%a = gather(%%w, %%i) {axis = 0}
  %%b = gather(%%s, %%i) {axis = 0}
  %%c = reshape(%%b) {shape = [%d, 2, 1]}
  %%d = expand(%%c) {shape = [%d, 2, 12]}
  %%e = reshape(%%d) {shape = [%d, %d]}
  %%f = cast(%%a) {dtype = f32}
  %%y = mul(%%f, %%e)
  return y: %%y
}
""" % (len(ids), rows, width, ", ".join(str(v) for r in w for v in r), rows,
       ", ".join(str(v) for r in s for v in r), len(ids), len(ids), len(ids), width))
npy.write("rows.x.npy", "<i8", (len(ids),), struct.pack("%dq" % len(ids), *ids))
y = [w[i][c] * s[i][c // 12] for i in ids for c in range(width)]
npy.write("y.npy", "<f4", (len(ids), width), struct.pack("%df" % len(y), *y))
zipfile.ZipFile("rows.npz", "w").write("y.npy")
PY
for more in "" "--backend-option vector_bits=128" "--backend-option debug_bounds=true"; do
    # shellcheck disable=SC2086
    "$STATOR" run long_folds.stir --backend inductor-cpu --input i=rows.x.npy --expect rows.npz --strict $more \
        >out 2>log || fail "rows $more: $(cat out log)"
done
echo "$i forms of weights"
