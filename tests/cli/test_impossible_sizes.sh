#!/usr/bin/env bash
# Sizes that cannot be: symbols that no input binds, sizes that pass 64 bits or divide by 0 in values
# that only kernels see, values larger than memory. Every backend says so, from the cache and from a
# package as well; sizes print as whole numbers however large.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"

graph() { # name, lines of symbols, inputs, body
    printf 'stir 1\n%b\ngraph @main(%s) {\n%b\n}\n' "$2" "$3" "$4" >"$1.stir"
}
two='sym N in [0, 1000]\nsym M in [0, 1000]'
graph unbound "$two" '%x: f32[N, 3]' '  %z = reshape(%x) {shape = [M, 60]}\n  %e = relu(%z)\n  return e: %e'
graph only 'sym N in [0, 10]' '%x: f32[2*N + 1, 4]' '  %a = relu(%x)\n  return a: %a'
graph beside 'sym N in [0, 10]' '%x: f32[2*N + 1, 4], %n: f32[N]' '  %a = relu(%x)\n  return a: %a, n: %n'
graph wrap 'sym N in [0, inf]' '%x: f32[N, 0]' \
    '  %i = iota() {shape = [N*N], dtype = i64}\n  %r = reduce_max(%i) {axes = [0]}\n  return r: %r'
graph two 'sym N in [0, inf]\nsym M in [0, inf]' '%x: f32[N, M, 0]' \
    '  %i = iota() {shape = [N, M], dtype = i64, axis = 1}\n  %r = reduce_max(%i) {axes = [0, 1]}\n  return r: %r'
for op in floordiv ceildiv; do
    graph $op "$two" '%x: f32[N], %y: f32[M]' \
        "  %i = iota() {shape = [$op(N, M)], dtype = i64}\n  %r = reduce_max(%i) {axes = [0]}\n  return r: %r, x: %x, y: %y"
done
graph dims "$two" '%x: f32[N], %y: f32[M]' \
    '  %d = dims() {values = [floordiv(N, M), N*N*N*N*N*N*N*N]}\n  return d: %d, x: %x, y: %y'
graph pad "$two" '%x: f32[N], %y: f32[M], %z: f32[3]' \
    '  %p = pad(%z) {low = [floordiv(N, M)], high = [-floordiv(N, M)]}\n  return p: %p, x: %x, y: %y'
graph empty '' '%x: f32[4294967296, 4294967296, 0]' '  %a = relu(%x)\n  return a: %a'
graph made '' '%x: f32[1, 1, 0]' \
    '  %a = expand(%x) {shape = [4294967296, 4294967296, 0]}\n  %b = relu(%a)\n  return b: %b'
graph tile 'sym N in [0, inf]' '%x: f32[N, 4]' \
    '  %a = tile(%x) {repeats = [4611686018427387904, 2]}\n  return a: %a'
graph large '' '%x: f32[9223372036854775807, 0]' '  %a = relu(%x)\n  return a: %a'
graph expand '' '%x: f32[1, 1]' \
    '  %a = expand(%x) {shape = [1099511627776, 1048576]}\n  %r = reduce_sum(%a) {axes = [0, 1]}\n  return r: %r'

for b in $backends; do
    expect 3 "attribute 'shape' reads the size 'M'" run unbound.stir --backend "$b" --dim N=7
    expect 3 "no input has 'N' itself as a size" run only.stir --backend "$b" --dim N=3
    expect 3 "input 'x' is f32[1, 4], expected f32[2*N + 1, 4]" run beside.stir --backend "$b" --dim N=3
    expect 0 'r: i64[] 3599' run wrap.stir --backend "$b" --dim N=60
    expect 3 'a size' run wrap.stir --backend "$b" --dim N=6074001000
    expect 0 'r: i64[] 4' run two.stir --backend "$b" --dim N=6 --dim M=5
    expect 3 'or larger than memory' run two.stir --backend "$b" --dim N=4294967296 --dim M=4294967297
    for op in floordiv ceildiv; do
        expect 0 'r: i64[] 2' run $op.stir --backend "$b" --dim N=6 --dim M=2
        expect 3 'a size' run $op.stir --backend "$b" --dim N=4 --dim M=0
        grep -q 'cannot be computed' out || fail "$op by 0 on $b: $(cat out)"
    done
    expect 0 'd: i64[2] 2 256' run dims.stir --backend "$b" --dim N=2 --dim M=1
    expect 3 'a size' run dims.stir --backend "$b" --dim N=2 --dim M=0
    expect 3 'cannot be computed' run dims.stir --backend "$b" --dim N=1000 --dim M=1
    expect 0 'p: f32[3] 0' run pad.stir --backend "$b" --dim N=1 --dim M=1
    expect 3 'cannot be computed' run pad.stir --backend "$b" --dim N=1 --dim M=0
    expect 0 'a: f32[4294967296,4294967296,0]' run empty.stir --backend "$b"
    expect 0 'b: f32[4294967296,4294967296,0]' run made.stir --backend "$b"
    expect 0 'a: f32[0,8]' run tile.stir --backend "$b" --dim N=0
    expect 3 ' ' run tile.stir --backend "$b" --dim N=7
    ! grep -q 'sym 0' out || fail "tile on $b: $(cat out)"
    expect 0 'a: f32[9223372036854775807,0]' run large.stir --backend "$b"
    expect 0 '[9223372036854775807, 0]' run large.stir --backend "$b" --json
done
expect 3 'no memory for a workspace of 4611686018427' run expand.stir --backend eager
case $backends in *inductor-cpu) ;; *) exit 0 ;; esac

# ---- from the cache ----

export STATOR_CACHE=1 STATOR_CACHE_DIR=$work/cache STATOR_LOGS=cache
for p in wrap:60:6074001000 two:6:9223372036854775807; do
    IFS=: read -r name good bad <<<"$p"
    expect 0 'kept ' run $name.stir --backend inductor-cpu --dim N=$good
    expect 0 'hit ' run $name.stir --backend inductor-cpu --dim N=$good
    expect 3 'the result' run $name.stir --backend inductor-cpu --dim N=$bad # of another class
    expect 3 'the result' run $name.stir --backend inductor-cpu --dim N=$bad
    grep -q 'hit ' out || fail "not from the cache: $(cat out)"
done
export STATOR_CACHE=0

# ---- from a package ----

"$STATOR" build wrap.stir -o libwrap.so --header wrap.h >/dev/null
"$STATOR" build floordiv.stir -o libfloordiv.so --header floordiv.h >/dev/null
cat >call.c <<'END'
#include "floordiv.h"
#include "wrap.h"
#include <stdio.h>
static int64_t r;
static float data[3][16] __attribute__((aligned(64)));
static int square(int64_t n)
{
    wrap_inputs in = {{0}};
    wrap_outputs out = {{0}};
    in.x.data = data[0], in.x.shape[0] = n, in.x.shape[1] = 0;
    int status = wrap_sizes(&in, &out, NULL);
    out.r.data = &r;
    return status ? status : wrap_run(&in, &out, NULL, 0);
}
static int divide(int64_t n, int64_t m)
{
    floordiv_inputs in = {{0}};
    floordiv_outputs out = {{0}};
    in.x.data = data[0], in.x.shape[0] = n;
    in.y.data = data[1], in.y.shape[0] = m;
    int status = floordiv_sizes(&in, &out, NULL);
    static float x[16] __attribute__((aligned(64))), y[16] __attribute__((aligned(64)));
    out.r.data = &r, out.x.data = x, out.y.data = y;
    return status ? status : floordiv_run(&in, &out, NULL, 0);
}
int main(void)
{
    int ok = square(60) == WRAP_STATUS_OK && r == 3599;
    ok = ok && square(6074001000) == WRAP_STATUS_BAD_SHAPE;
    ok = ok && divide(6, 2) == FLOORDIV_STATUS_OK && r == 2;
    ok = ok && divide(4, 0) == FLOORDIV_STATUS_BAD_SHAPE;
    printf("%d %d %d %d\n", square(60), square(6074001000), divide(6, 2), divide(4, 0));
    return !ok;
}
END
cc -std=gnu11 call.c ./libwrap.so ./libfloordiv.so -Wl,-rpath,"$work" -o call || fail "the package's header"
./call || fail "the package"
