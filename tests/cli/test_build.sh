#!/usr/bin/env bash
# Packages: a model becomes a library and a header that run in a folder without Stator, with the
# answers of `stator run`; every malformed call is a status; what a model says cannot get into the
# generated C; what cannot be packaged is refused with the node's name.
set -eu
digits=$STATOR_SOURCE/examples/digits
here=$STATOR_SOURCE/tests/cli
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { echo "BAD $1"; exit 1; }
has() { grep -qF -- "$2" "$1" || fail "no '$2' in $1: $(cat "$1")"; }
expect() { # status, words, command...
    local want=$1 words=$2 status=0
    shift 2
    "$@" >out 2>&1 || status=$?
    [ "$status" = "$want" ] || fail "status $status of $*: $(cat out)"
    has out "$words"
}
rpath='-Wl,-rpath,$ORIGIN'
flags="-std=c11 -pedantic -Wall -Wextra -Werror -D_POSIX_C_SOURCE=200809L"

if ! "$STATOR" backends --probe | grep -q '^inductor-cpu  *AVAILABLE'; then
    expect 3 'inductor-cpu' "$STATOR" build "$digits/digits.onnx" -o d.so
    echo "no code generator in this build: the rest is not run"
    exit 0
fi

# ---- digits, away from Stator ----

expect 0 'digits_run, 1 input, 1 output' "$STATOR" build "$digits/digits.onnx" -o libdigits.so --header digits.h
[ "$(ls | sort | tr '\n' ' ')" = "digits.h libdigits.so out " ] || fail "left behind: $(ls)"
ldd libdigits.so | sed 's/ (0x.*//; s/ =>.*//; s/^[ \t]*//' | grep -vE '^(linux-vdso\.so\.1|lib(c|m|gomp)\.so\.[0-9]+|/lib.*/ld-linux.*)$' &&
    fail "it needs more than libc, libm and libgomp"
nm -D --defined-only libdigits.so | awk '{print $3}' | grep -v '^digits_' && fail "it exports more"
readelf -d libdigits.so | grep -q 'soname: \[libdigits.so\]' || fail "no soname"
mkdir away
cp libdigits.so digits.h "$digits/test_images.npy" "$here/../../examples/aot/classify.c" away
(cd away && cc $flags -I. classify.c libdigits.so "$rpath" -o classify && rm libdigits.so digits.h)
cp libdigits.so away
"$STATOR" run "$digits/digits.onnx" --backend eager --input "image=$digits/test_images.npy" --save want.npz >/dev/null
(cd away && env -i ./classify test_images.npy) >got
python3 - <<'END' || fail "digits differ from those of stator run"
import io, struct, sys, zipfile
raw = zipfile.ZipFile("want.npz").read("probabilities.npy")
begin = 10 + struct.unpack("<H", raw[8:10])[0]
p = struct.unpack("<%df" % ((len(raw) - begin) // 4), raw[begin:])
want = "".join(str(max(range(10), key=lambda c: p[10 * i + c])) for i in range(len(p) // 10))
sys.exit(open("got").read().strip() != want or len(want) != 540)
END
printf '#include "digits.h"\nint main() { return digits_input_count() == 1 ? 0 : 1; }\n' >d.cpp
if command -v c++ >/dev/null; then
    c++ -std=c++11 -pedantic -Wall -Wextra -Werror d.cpp ./libdigits.so "$rpath" -o dcpp && ./dcpp || fail "C++"
fi
printf '#include "digits.h"\nint main(void) { return 0; }\n' >d99.c
cc -std=c99 -pedantic -Wall -Wextra -Werror d99.c -o d99 || fail "C99"

# ---- every status ----

cat >f.stir <<'END'
stir 1
sym N in [0, inf]
graph @main(%x: f32[N, 4], %at: i64[3]) {
  %t = tanh(%x) : f32[N, 4]
  %last = constant {value = f32[1, 4] {7, 7, 7, 7}} : f32[1, 4]
  %y = concat(%t, %last) {axis = 0} : f32[N + 1, 4]
  %table = constant {value = f32[5, 4] {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}} : f32[5, 4]
  %z = gather(%table, %at) {axis = 0} : f32[3, 4]
  return y: %y, z: %z
}
END
"$STATOR" build f.stir -o f.so --sources src >/dev/null
# Two packages in one process: the names inside stay inside.
cc $flags "$here/build_driver.c" -I. -Wl,--no-as-needed ./libdigits.so ./f.so "$rpath" -lm -lpthread -o driver
./driver || fail "the driver"
OMP_NUM_THREADS=1 ./driver || fail "the driver on one thread"
# The kept sources are the whole package; with a processor that has nothing it refuses to run.
sed -i 's/return __get_cpuid_count/return 0 \&\& __get_cpuid_count/' src/cpu.c
(cd src && cc -std=gnu11 -O1 -Wall -Wextra -Werror -fPIC -fopenmp -shared -Wl,--version-script=exports.map \
    -Wl,-soname,f.so -o ../f.so *.c *.o *.s -lm)
./driver cpu || fail "the processor check"

# Code for a set level holds no registers beyond it.
expect 0 'x86-64-v2' "$STATOR" build "$digits/digits.onnx" -o v2.so --cpu x86-64-v2
objdump -d v2.so | grep -q '%[yz]mm' && fail "v2 uses wide registers"
expect 0 'digits2_run' "$STATOR" build "$digits/digits.onnx" -o v4.so --cpu x86-64-v4 --name digits2

# A folder of the user's: what is in it stays, and what a build made may be made anew.
mkdir own
printf 'mine\n' | tee own/cc.log own/library.so own/readme.c.txt >/dev/null
"$STATOR" build f.stir -o own.so --sources own >/dev/null
[ "$(cat own/cc.log own/library.so own/readme.c.txt | sort -u)" = mine ] || fail "files of the user's"
[ -e own/plan.c ] && [ -e own/stator-build.list ] || fail "no sources: $(ls own)"
ls own >before
touch own/former.c
echo former.c >>own/stator-build.list
"$STATOR" build f.stir -o own.so --sources own >/dev/null
ls own | diff before - || fail "a second build into the folder"
[ "$(cat own/cc.log)" = mine ] || fail "files of the user's, a second time"
mkdir other
echo '/* mine */' >other/plan.c
expect 3 "has a file 'plan.c' that no build has made" "$STATOR" build f.stir -o other.so --sources other
[ "$(cat other/plan.c)" = '/* mine */' ] || fail "a source of the user's was written over"
[ ! -e other.so ] || fail "a library of a refused build"
[ "$(ls -d own.so.* other.so.* 2>/dev/null)" = "" ] || fail "folders are left"

# The example of the header sets every axis of every input.
sed -n '/_inputs in/,/_sizes(/p' f.h >example
for line in 'in.x.shape[0] = N;' 'in.x.shape[1] = 4;' 'in.at.data = ...;' 'in.at.shape[0] = 3;'; do
    has example "$line"
done

# A fixed size; the name is an identifier whatever the file is called.
expect 0 'x_9_int_run' "$STATOR" build f.stir -o '9 int.so' --dim N=8
grep -q 'f32\[8, 4\]' '9 int.h' || fail "no fixed size"
"$STATOR" build f.stir -o f.so --json >out
python3 -c 'import json; v = json.load(open("out")); assert v["inputs"][0]["shape"] == [-1, 4], v'

# What broadcasts depends on a size being 1 or more than 8: then sizes are from 2 to 8, and --dim gives
# the others.
python3 - "$STATOR_SOURCE/tests/tools" <<'END'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import bad_models as b
table = b.tensor("table", [8, 3], b.FLOAT, b.data(9, b.floats(*range(24))))
zero = b.tensor("zero", [1], b.INT64, b.data(9, bytes(8)))
two = b.tensor("two", [1], b.INT64, b.data(9, (2).to_bytes(8, "little")))
nodes = [b.node("Shape", ["x"], ["s"], attrs=b.attr_int("start", 0) + b.attr_int("end", 1)),
         b.node("Slice", ["table", "two", "s", "zero"], ["u"]),
         b.node("Add", ["x", "u"], ["a"]), b.node("Add", ["a", "x"], ["z"])]
open("b.onnx", "wb").write(b.model(nodes, [b.value("x", ["S", 3])], [b.value("z", ["S", 3])],
                                   [table, zero, two]))
nodes = [b.node("Reshape", ["x", "shape"], ["y"])]
open("v.onnx", "wb").write(b.model(nodes, [b.value("x", [6]), b.value("shape", [2], b.INT64)],
                                   [b.value("y", ["A", "B"])]))
nodes = [b.node("ReduceSum", ["x", "axes"], ["y"])]
open("w.onnx", "wb").write(b.model(nodes, [b.value("x", [6, 2]), b.value("axes", [1], b.INT64)],
                                   [b.value("y", ["A", "B"])]))
END
expect 0 'b_run' "$STATOR" build b.onnx -o b.so
has b.h 'Sizes: S from 2 to 8.'
expect 0 'b_run' "$STATOR" build b.onnx -o b.so --dim S=1
has b.h 'f32[1, 3]; in the model'
expect 3 "output 'y' has a size that is read from data" "$STATOR" build v.onnx -o v.so
expect 3 'values of inputs decide' "$STATOR" build w.onnx -o w.so

# ---- steps ----

# Scans run in the package, with the bits of `stator run`: both directions concurrently, steps and
# rows of any number, scans inside scans, sizes that a body computes.
python3 - "$STATOR_SOURCE/tests/tools" "$here" <<'END'
import random, struct, sys
sys.dont_write_bytecode = True
sys.path[:0] = sys.argv[1:]
import bad_models as b
import npy
random.seed(7)
print("seed 7")
def some(n):
    return b.floats(*[random.uniform(-0.5, 0.5) for _ in range(n)])
def weights(name, *dims):
    return b.tensor(name, dims, b.FLOAT, b.data(9, some(dims[0] * dims[1] * (dims + (1,))[2])))
def steps(path, op, gates, rows, directions, t, n):
    attrs = b.attr_int("hidden_size", rows)
    attrs += b.attr_string("direction", "bidirectional" if directions == 2 else "reverse")
    lists = [weights("w", directions, gates * rows, 5), weights("r", directions, gates * rows, rows),
             weights("b", directions, 2 * gates * rows)]
    nodes = [b.node(op, ["x", "w", "r", "b"], ["y", "h"], "the steps", attrs)]
    open(path, "wb").write(b.model(nodes, [b.value("x", [t, n, 5])],
                                   [b.value("y", [t, directions, n, rows]),
                                    b.value("h", [directions, n, rows])], lists))
steps("lstm.onnx", "LSTM", 4, 24, 2, 9, 3)
steps("lstm_any.onnx", "LSTM", 4, 24, 2, "T", "N")
steps("gru.onnx", "GRU", 3, 16, 1, "T", 3)
steps("rnn.onnx", "RNN", 1, 17, 2, 9, "N")
for t, n in ((9, 3), (1, 3), (0, 3)):
    npy.write("x%d.npy" % t, "<f4", (t, n, 5), some(t * n * 5))
END
cat >nested.stir <<'END'
stir 1
sym T in [0, inf]
sym N in [0, inf]
graph @main(%x: f32[T, N, 5]) {
  %zero = constant {value = f32[5] {0.25, 0, 0, 0, 0}} : f32[5]
  %w = constant {value = f32[5] {0.5, -0.25, 0.75, 1, 0.125}} : f32[5]
  %h, %y = scan(%zero, %x, %w) {carried = 1, scanned = 1, stacked = 1, reverse = [1], out_reverse = [1]}
    region @outer(%a: f32[5], %row: f32[N, 5], %w: f32[5]) {
      %b, %z = scan(%a, %row, %w) {carried = 1, scanned = 1, stacked = 1}
        region @inner(%c: f32[5], %s: f32[5], %w: f32[5]) {
          %1 = mul(%c, %w)
          %2 = add(%1, %s)
          %3 = tanh(%2)
          return %3, %2
        }
      %4 = reduce_sum(%z) {axes = [0]}
      %5 = add(%b, %4)
      return %5, %4
    }
  return y: %y, h: %h
}
END
cat >across.stir <<'END'
stir 1
graph @main(%x: f32[9, 3, 5]) {
  %zero = constant {value = f32[] {0.25}}
  %start = expand(%zero) {shape = [9, 5]}
  %h, %y = scan(%start, %x) {carried = 1, scanned = 1, stacked = 1, axes = [1], out_axes = [1]}
    region @body(%a: f32[9, 5], %s: f32[9, 5]) {
      %1 = add(%a, %s)
      %2 = tanh(%1)
      return %1, %2
    }
  return y: %y, h: %h
}
END
same_bits() { # model, steps
    "$STATOR" run "$1" --backend inductor-cpu --backend-option target=self_contained \
        --input "x=x$2.npy" --save want.npz >/dev/null
    for threads in 1 3; do
        OMP_NUM_THREADS=$threads "./${1%.*}_main" "x$2.raw" "$2" 3 5 got.raw || fail "$1, $2 steps: status $?"
        python3 - <<'END' || fail "$1, $2 steps, OMP_NUM_THREADS=$threads: other bits than stator run"
import struct, sys, zipfile
want = b""
for name in ("y.npy", "h.npy"):
    raw = zipfile.ZipFile("want.npz").read(name)
    want += raw[10 + struct.unpack("<H", raw[8:10])[0]:]
sys.exit(open("got.raw", "rb").read() != want)
END
    done
}
for t in 9 1 0; do
    python3 -c 'import struct, sys
raw = sys.stdin.buffer.read()
sys.stdout.buffer.write(raw[10 + struct.unpack("<H", raw[8:10])[0]:])' <"x$t.npy" >"x$t.raw"
done
for model in lstm.onnx lstm_any.onnx gru.onnx rnn.onnx nested.stir across.stir; do
    name=${model%.*}
    "$STATOR" build "$model" -o "$name.so" --sources "src_$name" >/dev/null
    for f in "src_$name"/plan*.c; do
        cc -std=gnu11 -Wall -Wextra -Werror -fopenmp -c "$f" -o e.o || fail "$f"
    done
    cc $flags -DP="$name" -include "$name.h" "$here/build_steps.c" "./$name.so" "$rpath" -o "${name}_main"
    same_bits "$model" 9
done
[ -e src_lstm/plan2.c ] && [ -e src_nested/plan2.c ] || fail "no sources of bodies: $(ls src_lstm)"
for model in lstm_any.onnx gru.onnx nested.stir; do
    same_bits "$model" 1
    same_bits "$model" 0
done

# An index outside its axis in one step of many.
cat >index.stir <<'END'
stir 1
graph @main(%x: f32[9, 3, 5]) {
  %zero = constant {value = f32[5] {0, 0, 0, 0, 0}} : f32[5]
  %table = constant {value = f32[4] {3, 5, 7, 11}} : f32[4]
  %six = constant {value = f32[] {6}} : f32[]
  %h, %y = scan(%zero, %x, %table, %six) {carried = 1, scanned = 1, stacked = 1}
    region @body(%a: f32[5], %s: f32[3, 5], %t: f32[4], %n: f32[]) {
      %1 = abs(%s)
      %2 = mul(%1, %n)
      %3 = cast(%2) {dtype = i64}
      %4 = gather(%t, %3)
      %5 = reduce_sum(%4) {axes = [0]}
      %6 = add(%a, %5)
      return %6, %4
    }
  return y: %y, h: %h
}
END
"$STATOR" build index.stir -o index.so >/dev/null
cc $flags -DP=index -include index.h "$here/build_steps.c" ./index.so "$rpath" -o index_main
same_bits index.stir 9
python3 -c 'import struct, sys
raw = bytearray(open("x9.raw", "rb").read())
raw[400:404] = struct.pack("<f", 7)
open("far.raw", "wb").write(raw)'
status=0
./index_main far.raw 9 3 5 got.raw || status=$?
[ "$status" = 8 ] || fail "status $status for an index outside its axis"

# A size that a step reads from data: a line with the node's name.
cat >told.stir <<'END'
stir 1
sym U unbacked in [0, 8]
graph @main(%h: f32[], %x: i64[4], %t: f32[8]) {
  %f, %y = scan(%h, %x, %t) {carried = 1, scanned = 1, stacked = 1}
    region @body(%a: f32[], %n: i64[], %t: f32[8]) {
      %u = sym_bind(%n) {syms = [U]} @"told":Slice
      %1 = slice(%t) {starts = [0], sizes = [U], steps = [1]}
      %2 = reduce_sum(%1) {axes = [0]}
      %3 = add(%a, %2)
      return %3, %2
    }
  return y: %y, h: %f
}
END
expect 3 "sym_bind 'told'" "$STATOR" build told.stir -o told.so
[ "$(wc -l <out)" -le 2 ] || fail "a refusal of $(wc -l <out) lines"

# ---- hostile texts ----

python3 - "$STATOR_SOURCE/tests/tools" <<'END'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import bad_models as b
evil = '*/ int evil(void) { return 1; } /* ??/\n#error "\\" %s $x\x01\u00e9'
names = [evil, "int", "a b", "a_b", "a-b", "", "__x", "errno", "9"]
names[5] = "x" * 300
nodes = [b.node("Neg", [n], ["o%d" % i]) for i, n in enumerate(names)]
nodes.append(b.node("Abs", [evil], [evil + "!"]))
m = b.model(nodes, [b.value(n, [evil, 3] if i == 0 else [2]) for i, n in enumerate(names)],
            [b.value("o%d" % i, [evil, 3] if i == 0 else [2]) for i in range(len(names))] +
            [b.value(evil + "!", [evil, 3])])
open('evil$(touch pwned)*` " -D .onnx', "wb").write(m)
END
expect 0 'e_run, 9 inputs, 10 outputs' "$STATOR" build 'evil$(touch pwned)*` " -D .onnx' -o e.so --sources esrc
[ ! -e pwned ] && [ ! -e esrc/pwned ] || fail "a name was run"
printf '#include "e.h"\n#include <string.h>\nint main(void) { return strlen(e_input(0)->name) > 40 && evil() ? 0 : 1; }\n' >e.c
expect 1 'evil' cc -std=c99 -Werror=implicit-function-declaration e.c ./e.so "$rpath" -o e
sed -i 's/ && evil()//' e.c
cc $flags e.c ./e.so "$rpath" -o e && ./e || fail "hostile names"
for f in esrc/package.c esrc/plan.c; do
    cc -std=gnu11 -Wall -Wextra -Werror -trigraphs -Wcomment -fopenmp -c "$f" -o e.o || fail "$f"
done
LC_ALL=C grep -q '[^ -~[:space:]]' e.h esrc/*.c && fail "bytes of the model in the source"

# ---- what is refused ----

cat >c.stir <<'END'
stir 1
graph @main(%p: bool[], %x: f32[4]) {
  %r = cond(%p, %x) : f32[4] @"the branch":If
    region @then(%a: f32[4]) {
      %b = neg(%a) : f32[4]
      return %b
    }
    region @else(%a: f32[4]) {
      return %a
    }
  return out: %r
}
END
model=$digits/digits.onnx
expect 3 "cond 'the branch'" "$STATOR" build c.stir -o c.so
expect 3 "no C compiler 'no-such-cc'" "$STATOR" build "$model" -o c.so --cc no-such-cc
has out 'build-essential'
expect 3 "'false' cannot compile" "$STATOR" build "$model" -o c.so --cc false
expect 3 "'eager' cannot build" "$STATOR" build "$model" -o c.so --backend eager
expect 2 'leave --backend-option target out' "$STATOR" build "$model" -o c.so --backend-option target=host
expect 2 'write --cpu LEVEL' "$STATOR" build "$model" -o c.so --backend-option cpu=native
expect 3 'x86-64-v9' "$STATOR" build "$model" -o c.so --cpu x86-64-v9
expect 3 "cannot write in the folder 'none'" "$STATOR" build "$model" -o none/c.so
expect 3 "cannot write in the folder 'none'" "$STATOR" build "$model" -o c.so --sources none/src
expect 3 'none.onnx' "$STATOR" build none.onnx -o c.so
expect 3 "no symbolic size 'M'" "$STATOR" build "$model" -o c.so --dim M=2
expect 2 '-o LIB.so is missing' "$STATOR" build "$model"
expect 2 'three files' "$STATOR" build "$model" -o x.h --header x.h
expect 2 'three files' "$STATOR" build "$model" -o "$model"
[ ! -e c.so ] && [ ! -e c.h ] || fail "a library in spite of a failure"
ls | grep -q 'c\.so\.' && fail "a folder was left behind"
mkdir isdir.so
expect 3 'no regular file' "$STATOR" build "$model" -o isdir.so
mkfifo pipe.so # stands for a device: renaming onto one would take it away
expect 3 "'pipe.so' is there and no regular file" "$STATOR" build "$model" -o pipe.so
expect 3 "'pipe.so' is there and no regular file" "$STATOR" build "$model" -o c.so --header pipe.so
ln -s pipe.so link.so
expect 3 "'link.so' is there and no regular file" "$STATOR" build "$model" -o link.so
[ -p pipe.so ] && [ -h link.so ] && [ ! -e c.so ] || fail "something was replaced"
ls | grep -q 'part' && fail "a part was left behind"

# Interrupted while the compiler runs: its folder goes, and so does what the compiler has started.
cat >slow-cc <<'END'
#!/bin/sh
sleep 1000 &
echo $! >"$STARTED"
wait
END
chmod +x slow-cc
mkdir stopped
for row in 'INT 130' 'TERM 143' 'HUP 129'; do
    signal=${row% *}
    rm -f started
    # a shell's background job ignores SIGINT, and what is ignored stays so
    STARTED=$PWD/started env --default-signal=INT "$STATOR" build "$model" -o stopped/c.so --cc "$PWD/slow-cc" 2>/dev/null &
    build=$!
    for i in $(seq 300); do
        [ -s started ] && break
        sleep 0.1
    done
    [ -s started ] && [ -n "$(ls stopped)" ] || fail "the compiler did not begin within 30 s ($i)"
    kill -"$signal" "$build"
    status=0
    wait "$build" 2>/dev/null || status=$?
    [ "$status" = "${row#* }" ] || fail "status $status after SIG$signal"
    [ -z "$(ls -A stopped)" ] || fail "SIG$signal leaves $(ls -A stopped)"
    ! kill -0 "$(cat started)" 2>/dev/null || fail "SIG$signal leaves what the compiler has started"
done
echo ok
