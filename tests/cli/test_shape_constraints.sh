#!/usr/bin/env bash
# Shape constraints on sizes known only at call time (ir/sizes/shape_constraint_list.h): every op that compares sizes, with sizes
# that do and sizes that do not, on each backend: status 3, op and sizes, and nothing is read that is
# not there. The same from the cache and from a package.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"

graph() { # inputs, node, its results
    printf 'stir 1\nsym N in [0, 1000000]\nsym M in [0, 1000000]\nsym K in [0, 1000000]\n'
    printf 'graph @m(%s) {\n  %s = %s\n  return z: %%z\n}\n' "$1" "${3-%z}" "$2"
}
dims() { # "N=3 M=4" as options
    local d
    for d in $1; do printf -- '--dim %s ' "$d"; done
}
call() { # backend, sizes
    # shellcheck disable=SC2046 # options are words
    "$STATOR" run case.stir --backend "$1" $(dims "$2") --random 1 "${plugins[@]}" >out 2>&1
}
n_cases=0
# sizes that do, sizes that do not, words of the refusal, inputs, node, its results
case_() {
    local status b
    graph "$4" "$5" "${6-%z}" >case.stir
    n_cases=$((n_cases + 1))
    for b in $backends; do
        status=0
        call "$b" "$1" || status=$?
        [ $status = 0 ] || fail "$5 with $1 on $b: status $status: $(cat out)"
        status=0
        call "$b" "$2" || status=$?
        [ $status = 3 ] || fail "$5 with $2 on $b: status $status: $(cat out)"
        grep -qF -- "$3" out || fail "no '$3' of $5 with $2 on $b: $(cat out)"
    done
}

conv='strides=[1,1],pads=[0,0,0,0],dilations=[1,1]'
case_ M=8 M=3 'conv: the number of filters: 3 is no multiple of 4' \
    '%x: f32[1,64,5,5], %w: f32[M,16,3,3]' "conv(%x, %w) {$conv,groups=4}"
case_ 'N=4 M=4 K=2' 'N=4 M=3 K=2' 'conv: the number of filters: 3 is no multiple of 2' \
    '%x: f32[1,N,5,5], %w: f32[M,K,3,3]' "conv(%x, %w) {$conv,groups=2}"
case_ 'N=4 M=4 K=2' 'N=6 M=4 K=2' 'conv: channels of x and of w times groups: sizes 6 and 4 differ' \
    '%x: f32[1,N,5,5], %w: f32[M,K,3,3]' "conv(%x, %w) {$conv,groups=2}"
case_ 'N=60 M=60' 'N=60 M=2' 'conv: bias and filters: sizes 2 and 60 differ' \
    '%x: f32[1,1,1,1], %w: f32[N,1,1,1], %b: f32[M]' "conv(%x, %w, %b) {$conv,groups=1}"
case_ 'N=5 M=3' 'N=2 M=3' 'conv: what a window reaches over and the padded size' \
    '%x: f32[1,1,N,5], %w: f32[1,1,M,3]' "conv(%x, %w) {$conv,groups=1}"
case_ 'N=4' 'N=3' 'conv_transpose: the number of channels: 3 is no multiple of 4' \
    '%x: f32[1,N,5,5], %w: f32[N,2,3,3]' "conv_transpose(%x, %w) {$conv,groups=4}"
case_ 'N=4 M=4' 'N=6 M=4' 'conv_transpose: channels of x and of w: sizes 6 and 4 differ' \
    '%x: f32[1,N,5,5], %w: f32[M,2,3,3]' "conv_transpose(%x, %w) {$conv,groups=2}"
case_ 'N=4 M=4' 'N=4 M=3' 'conv_weight_grad: the number of filters: 3 is no multiple of 2' \
    '%x: f32[1,N,5,5], %g: f32[1,M,3,3]' "conv_weight_grad(%x, %g) {$conv,groups=2,kernel=[3,3]}"
case_ 'N=4 M=4' 'N=3 M=4' 'conv_weight_grad: the number of channels: 3 is no multiple of 2' \
    '%x: f32[1,N,5,5], %g: f32[1,M,3,3]' "conv_weight_grad(%x, %g) {$conv,groups=2,kernel=[3,3]}"
case_ 'N=4 M=4' 'N=4 M=1' 'deform_conv: bias and filters: sizes 1 and 4 differ' \
    '%x: f32[1,2,5,5], %w: f32[N,2,3,3], %o: f32[1,18,3,3], %b: f32[M]' "deform_conv(%x, %w, %o, %b) {$conv,groups=1,offset_groups=1}"

case_ 'N=20 M=20' 'N=20 M=3' 'nll_loss: logp and target: sizes 20 and 3 differ' \
    '%x: f32[N,5], %t: i64[M]' 'nll_loss(%x, %t) {reduction="none",ignore_index=0}'
case_ 'N=5 M=5' 'N=5 M=1' 'nll_loss: w and classes: sizes 1 and 5 differ' \
    '%x: f32[2,N], %t: i64[2], %w: f32[M]' 'nll_loss(%x, %t, %w) {reduction="none",ignore_index=0}'
case_ 'N=4 M=4' 'N=8 M=3' 'einsum: axis 0 of 1: sizes 8 and 3 do not broadcast' \
    '%x: f32[N,M]' 'einsum(%x) {equation="ii->i"}'
case_ 'N=4 M=4' 'N=4 M=3' 'einsum: axis 0 of 1: sizes 4 and 3 do not broadcast' \
    '%x: f32[2,N], %y: f32[M,5]' 'einsum(%x, %y) {equation="ij,jk->ik"}'
case_ 'N=0' 'N=3' 'matmul: last axis of x and second last of y: sizes 0 and 3 differ' \
    '%x: f32[N,0], %y: f32[N,0]' 'matmul(%x, %y)'
case_ 'N=3 M=3 K=2' 'N=3 M=3 K=4' 'matmul: axis 0 of 1: sizes 2 and 4 do not broadcast' \
    '%x: f32[2,3,N], %y: f32[K,M,5]' 'matmul(%x, %y)'
case_ 'N=3 M=3' 'N=3 M=4' 'dot_general: contract_x: sizes 3 and 4 differ' \
    '%x: f32[2,N], %y: f32[M,5]' 'dot_general(%x, %y) {batch_x=[],batch_y=[],contract_x=[1],contract_y=[0]}'
case_ 'N=1 M=5' 'N=5 M=1' 'layer_norm: axis 0 of w is 5, it must be 1 or 3' \
    '%x: f32[3,5], %w: f32[N,M]' 'layer_norm(%x, %w) {axis=-1}'
case_ 'M=5' 'M=4' 'rms_norm: axis 0 of w is 4, it must be 1 or 5' \
    '%x: f32[3,5], %w: f32[M]' 'rms_norm(%x, %w) {axis=-1}'
case_ 'N=4' 'N=3' 'group_norm: channels by groups: 3 is no multiple of 2' \
    '%x: f32[2,N,5]' 'group_norm(%x) {groups=2}'
case_ 'N=4 M=4' 'N=4 M=3' 'batch_norm: b: sizes 3 and 4 differ' \
    '%x: f32[2,N,5], %w: f32[N], %b: f32[M]' 'batch_norm(%x, %w, %b, %w, %w)'
case_ 'N=4 M=2' 'N=3 M=2' 'sdpa: query heads by key heads: 3 is no multiple of 2' \
    '%q: f32[1,N,3,8], %k: f32[1,M,5,8], %v: f32[1,M,5,8]' 'sdpa(%q, %k, %v)'
case_ 'N=5 M=5' 'N=5 M=4' 'sdpa: axis 1 of mask is 4, it must be 1 or 5' \
    '%q: f32[1,2,3,8], %k: f32[1,2,N,8], %v: f32[1,2,N,8], %m: f32[3,M]' 'sdpa(%q, %k, %v, %m)'
case_ 'N=2 M=3' 'N=1 M=3' 'rnn: w: sizes 1 and 2 differ' \
    '%x: f32[4,2,3], %w: f32[1,N,M], %r: f32[1,N,2]' 'rnn(%x, %w, %r) {hidden=2}' '%z, %h'

case_ 'N=3 M=3' 'N=3 M=4' 'add: axis 0 of 1: sizes 3 and 4 do not broadcast' \
    '%x: f32[N], %y: f32[M]' 'add(%x, %y)'
case_ 'N=4 M=2' 'N=4 M=3' 'reshape: elements of x and of the new shape: sizes 12 and 18 differ' \
    '%x: f32[N,3], %y: f32[M]' 'reshape(%x) {shape=[M,6]}'
case_ 'N=1 M=5' 'N=3 M=5' 'expand: axis 0 of x is 3, it must be 1 or 5' \
    '%x: f32[N], %y: f32[M]' 'expand(%x) {shape=[M]}'
case_ 'N=4 M=4' 'N=4 M=5' 'slice: axis 0: 5 elements from 0 by 1 leave its size 4' \
    '%x: f32[N], %y: f32[M]' 'slice(%x) {starts=[0],sizes=[M],steps=[1]}'
case_ 'N=4 M=4' 'N=4 M=5' 'concat: axes beside the joined one: sizes 4 and 5 differ' \
    '%x: f32[N,2], %y: f32[M,3]' 'concat(%x, %y) {axis=1}'
case_ 'N=1' 'N=0' 'pad: an empty axis, which only mode constant can pad' \
    '%x: f32[N]' 'pad(%x) {low=[1],high=[0],mode="edge"}'
case_ 'N=2' 'N=0' 'argmax: the axis is empty' '%x: f32[3,N]' 'argmax(%x) {axis=1}'
case_ 'N=2 M=2' 'N=2 M=3' 'gather_elements: index and x beside the axis' \
    '%x: f32[N,3], %i: i64[M,1]' 'gather_elements(%x, %i) {axis=1}'
case_ 'N=2 M=2' 'N=2 M=3' 'scatter_elements: index and updates: sizes 2 and 3 differ' \
    '%x: f32[5,N], %i: i64[1,N], %u: f32[1,M]' 'scatter_elements(%x, %i, %u) {axis=0,reduction="add"}'
case_ 'N=3 M=3' 'N=3 M=4' 'det: last two axes: sizes 3 and 4 differ' '%x: f32[N,M]' 'det(%x)'
case_ 'N=4 M=9' 'N=3 M=9' 'col2im: axis 1 of x by the block: 3 is no multiple of 4' \
    '%x: f32[1,N,M]' 'col2im(%x) {image=[4,4],block=[2,2],strides=[1,1],dilations=[1,1],pads=[0,0,0,0]}'
case_ 'N=4 M=9' 'N=4 M=8' 'col2im: axis 2 of x and blocks of the image: sizes 8 and 9 differ' \
    '%x: f32[1,N,M]' 'col2im(%x) {image=[4,4],block=[2,2],strides=[1,1],dilations=[1,1],pads=[0,0,0,0]}'
case_ 'N=2 M=2' 'N=2 M=3' 'grid_sample: batches of x and grid: sizes 2 and 3 differ' \
    '%x: f32[N,1,4,4], %g: f32[M,2,2,2]' 'grid_sample(%x, %g)'
case_ 'N=3' 'N=2' 'reduce_window: what a window reaches over and the padded size' \
    '%x: f32[N]' 'reduce_window(%x) {kind="max",window=[3],strides=[1],pads=[0,0],dilations=[1]}'
case_ 'N=3 M=3' 'N=3 M=2' 'max_unpool: x and indices: sizes 3 and 2 differ' \
    '%x: f32[1,1,N], %i: i64[1,1,M]' 'max_unpool(%x, %i) {shape=[1,1,2000]}'
echo "$n_cases cases on $backends"
case $backends in *inductor-cpu) ;; *) exit 0 ;; esac

# ---- from the cache ----

graph '%x: f32[1,N,5,5], %w: f32[M,4,3,3]' "conv(%x, %w) {$conv,groups=4}" >g.stir
cp g.stir case.stir
export STATOR_CACHE=1 STATOR_CACHE_DIR=$work/cache STATOR_LOGS=cache
call inductor-cpu 'N=16 M=8' || fail "$(cat out)"
grep -q 'kept ' out || fail "not kept: $(cat out)"
status=0
call inductor-cpu 'N=16 M=6' || status=$?
grep -q 'hit ' out || fail "not from the cache: $(cat out)"
[ $status = 3 ] && grep -qF 'conv: the number of filters: 6 is no multiple of 4' out || fail "$(cat out)"
export STATOR_CACHE=0

# ---- from a package ----

"$STATOR" build g.stir -o libg.so --header g.h >/dev/null
cat >call.c <<'END'
#include "g.h"
#include <stdio.h>
static float x[400] __attribute__((aligned(64))), w[288] __attribute__((aligned(64)));
static float z[72] __attribute__((aligned(64)));
static int call(int m)
{
    g_inputs in = {{0}};
    g_outputs out = {{0}};
    in.x.data = x, in.x.shape[0] = 1, in.x.shape[1] = 16, in.x.shape[2] = in.x.shape[3] = 5;
    in.w.data = w, in.w.shape[0] = m, in.w.shape[1] = 4, in.w.shape[2] = in.w.shape[3] = 3;
    const int status = g_sizes(&in, &out, NULL);
    if (status != G_STATUS_OK) {
        out.z.bytes = sizeof z;
    }
    out.z.data = z;
    const int ran = g_run(&in, &out, NULL, 0);
    return ran == status ? ran : -1;
}
int main(void)
{
    const int sizes[] = {3, 6, 7, 1};
    int bad = call(8) != G_STATUS_OK || call(4) != G_STATUS_OK;
    for (int i = 0; i < 4; i++) {
        bad |= call(sizes[i]) != G_STATUS_BAD_SHAPE;
    }
    printf("%s %s\n", g_status_text(call(8)), g_status_text(call(6)));
    return bad;
}
END
cc -std=gnu11 call.c ./libg.so -Wl,-rpath,"$work" -o call || fail "the package's header"
./call || fail "the package"

# What the backend's own tests of sizes would let pass.
graph '%x: f32[N,5], %t: i64[M]' 'nll_loss(%x, %t) {reduction="none"}' >l.stir
"$STATOR" build l.stir -o libl.so --header l.h >/dev/null
cat >loss.c <<'END'
#include "l.h"
static int sizes(int n, int m)
{
    static float x[4] __attribute__((aligned(64)));
    l_inputs in = {{0}};
    l_outputs out = {{0}};
    in.x.data = x, in.x.shape[0] = n, in.x.shape[1] = 5;
    in.t.data = (void *)x, in.t.shape[0] = m;
    return l_sizes(&in, &out, 0);
}
int main(void)
{
    return sizes(20, 20) != L_STATUS_OK || sizes(20, 3) != L_STATUS_BAD_SHAPE;
}
END
cc -std=gnu11 loss.c ./libl.so -Wl,-rpath,"$work" -o loss || fail "the header of the loss"
./loss || fail "the package of the loss"
