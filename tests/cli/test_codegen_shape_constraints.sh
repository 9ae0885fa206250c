#!/usr/bin/env bash
# Shape constraints of ops that are decided only at call time: what eager refuses, a backend that takes
# two sizes for one must refuse too, with node, sizes and status 3; from the cache and from a package as
# well, and behind a size that is read from data.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"

cat >add.stir <<'END'
stir 1
sym N in [2, inf]
sym M in [0, inf]
graph @main(%x: f32[N, 3], %y: f32[M, 3]) {
  %e = exp(%x)
  %z = add(%e, %y) : f32[N, 3]
  %s = slice(%z) {starts = [0, 0], sizes = [2, 3], steps = [1, 1]}
  return z: %z, s: %s
}
END
cat >staged.stir <<'END'
stir 1
sym N in [0, inf]
sym K unbacked in [0, 100]
graph @main(%x: f32[N, 3], %k: i64[1]) {
  %b = sym_bind(%k) {syms = [K]}
  %s = slice(%x) {starts = [0, 0], sizes = [K, 3], steps = [1, 1]}
  %e = exp(%s)
  return e: %e
}
END

grep -v '^sym' "$STATOR_SOURCE/tests/golden/codegen/reshape_halves.stir" >halves.stir

for mode in reflect edge wrap; do
    cat >$mode.stir <<END
stir 1
graph @main(%x: f32[N, 3]) {
  %y = pad(%x) {low = [2, 0], high = [1, 0], mode = "$mode"}
  %s = slice(%x) {starts = [0, 0], sizes = [N, 2], steps = [1, 1]}
  %z = pad(%s) {low = [0, 0], high = [0, 0], mode = "$mode"}
  return y: %y, z: %z
}
END
done

for op in argmax argmin; do
    printf 'stir 1\ngraph @main(%%x: f32[N, M]) {\n  %%y = %s(%%x) {axis = 1}\n  return y: %%y\n}\n' $op >$op.stir
done

for b in $backends; do
    expect 0 'y: f32[2,4,12,6]' run halves.stir --backend "$b" --dim B=2 --dim H=8 --dim W=6 --verify 1
    expect 0 'y: f32[0,4,12,6]' run halves.stir --backend "$b" --dim B=0 --dim H=8 --dim W=6
    expect 3 'elements of x and of the new shape' run halves.stir --backend "$b" --dim B=2 --dim H=7 --dim W=6
    expect 3 'elements of x and of the new shape' run halves.stir --backend "$b" --dim B=2 --dim H=8 --dim W=5
    expect 0 'z: f32[4,3]' run add.stir --backend "$b" --dim N=4 --dim M=4 --random 1
    expect 0 'z: f32[4,3]' run add.stir --backend "$b" --dim N=4 --dim M=1 --random 1
    expect 3 'do not broadcast' run add.stir --backend "$b" --dim N=4 --dim M=3 --random 1
    expect 3 'do not broadcast' run add.stir --backend "$b" --dim N=4 --dim M=0 --random 1
    for op in argmax argmin; do
        expect 0 'y: i64[2]' run $op.stir --backend "$b" --dim N=2 --dim M=1 --random 1
        expect 0 'y: i64[0]' run $op.stir --backend "$b" --dim N=0 --dim M=0 --random 1
        expect 3 'the axis is empty' run $op.stir --backend "$b" --dim N=2 --dim M=0 --random 1
    done
    for mode in reflect edge wrap; do
        expect 0 'y: f32[4,3]' run $mode.stir --backend "$b" --dim N=1 --random 1
        expect 3 'only mode constant can pad' run $mode.stir --backend "$b" --dim N=0 --random 1
    done
    for k in 0 4 5; do
        python3 - $k <<'END'
import struct, sys
def save(path, dtype, shape, data):
    head = ("{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (dtype, shape)).encode()
    head += b" " * (63 - (10 + len(head)) % 64) + b"\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + data)
save("k.npy", "<i8", (1,), struct.pack("<q", int(sys.argv[1])))
save("x.npy", "<f4", (4, 3), bytes(48))
END
        if [ $k = 5 ]; then
            expect 3 'axis 0: 5 elements from 0 by 1 leave its size 4' \
                run staged.stir --backend "$b" --input x=x.npy --input k=k.npy
        else
            expect 0 "e: f32[$k,3]" run staged.stir --backend "$b" --input x=x.npy --input k=k.npy
        fi
    done
done
case $backends in *inductor-cpu) ;; *) exit 0 ;; esac

# ---- from the cache ----

export STATOR_CACHE=1 STATOR_CACHE_DIR=$work/cache STATOR_LOGS=cache
expect 0 'kept ' "$STATOR" run add.stir --backend inductor-cpu --random 1 --dim N=4 --dim M=4
expect 0 'hit ' "$STATOR" run add.stir --backend inductor-cpu --random 1 --dim N=6 --dim M=6
expect 3 'add: axis 0 of 2: sizes 4 and 3 do not broadcast' "$STATOR" run add.stir --backend inductor-cpu --random 1 --dim N=4 --dim M=3
grep -q 'hit ' out || fail "not from the cache: $(cat out)"
export STATOR_CACHE=0

# ---- from a package ----

"$STATOR" build add.stir -o libadd.so --header add.h >/dev/null
cat >call.c <<'END'
#include "add.h"
#include <stdio.h>
static float x[12] __attribute__((aligned(64))), y[12] __attribute__((aligned(64)));
static float z[12] __attribute__((aligned(64))), s[6] __attribute__((aligned(64)));
static int call(int m)
{
    add_inputs in = {{0}};
    add_outputs out = {{0}};
    in.x.data = x, in.x.shape[0] = 4, in.x.shape[1] = 3;
    in.y.data = y, in.y.shape[0] = m, in.y.shape[1] = 3;
    int status = add_sizes(&in, &out, NULL);
    out.z.data = z;
    out.s.data = s;
    return status ? status : add_run(&in, &out, NULL, 0);
}
int main(void)
{
    const int ok = call(4) == ADD_STATUS_OK && call(3) == ADD_STATUS_BAD_SHAPE;
    printf("%s %s\n", add_status_text(call(4)), add_status_text(call(3)));
    return !ok;
}
END
cc -std=gnu11 call.c ./libadd.so -Wl,-rpath,"$work" -o call || fail "the package's header"
./call || fail "the package"
