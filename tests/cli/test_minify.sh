#!/usr/bin/env bash
# stator minify over planted mistakes: how many nodes are left and which, the failure that the written
# program shows in a process of its own, what is kept as data, sizes, writes and control flow; folders
# and command lines that it refuses.
set -eu
planted=$STATOR_BUILD/tests/planted
models=$STATOR_SOURCE/tests/plugins/planted/models
digits=$STATOR_SOURCE/examples/digits
[ -e "$planted/wrong_tanh/wrong_tanh.so" ] || { echo "no planted backends"; exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
mkdir bin
ln -s "$STATOR" bin/stator
export PATH="$work/bin:$PATH"
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:handle_segv=0:handle_abort=0" # a planted signal is what it is
fail() { echo "BAD $1"; exit 1; }
has() { grep -qF -- "$2" "$1" || fail "no '$2' in: $(cat "$1")"; }
expect() { # status, words on stderr, command...
    local want=$1 words=$2 status=0
    shift 2
    "$@" >out 2>err || status=$?
    [ "$status" = "$want" ] || fail "status $status, not $want, of $*: $(cat out err)"
    [ -z "$words" ] || grep -qF -- "$words" err || fail "no '$words' from $*: $(cat err)"
}
minify() { # plugin model words-of-the-answer status-of-the-repeat option...
    local plugin=$1 model=$2 words=$3 want=$4 status=0
    shift 4
    rm -rf left
    expect 0 '' "$STATOR" minify "$model" --plugin-dir "$planted/$plugin" -o left "$@"
    has out "$words"
    ! ls -d left.*.part 2>/dev/null || fail "a part is left over"
    sh left/repeat.sh >said 2>&1 || status=$?
    [ "$status" = "$want" ] || fail "$plugin: repeat.sh has status $status, not $want: $(cat said)"
    status=0
    line=$(sed -n 's/^  repeat: //p' out)
    (eval "$line") >said 2>&1 || status=$?
    [ "$status" = "$want" ] || fail "$plugin: '$line' has status $status, not $want: $(cat said)"
    "$STATOR" run left/repro.stir --backend eager $([ ! -e left/inputs.npz ] || echo --inputs left/inputs.npz) \
        --expect left/expected.npz --rtol 0 --atol 0 >same || fail "$plugin: expected.npz is not of eager: $(cat same)"
}

# A wrong kernel, fusion and group; an error; a signal in a call and in a compile; an exit; a hang.
mixed=$models/mixed.stir
minify wrong_tanh "$mixed" '1 of 16 nodes' 1 --bad wrong_tanh
cat >want.stir <<'END'
stir 1
graph @mixed(
  %diff: f32[4, 8]
) {
  %curve = tanh(%diff) : f32[4, 8] @"Tanh_1":Tanh
  return curve: %curve
}
END
cmp want.stir left/repro.stir || fail "the program is $(cat left/repro.stir)"
[ "$(ls left | tr '\n' ' ')" = 'expected.npz repeat.sh repro.stir ' ] || fail "files $(ls left)"
minify wrong_f64 "$models/kinds.stir" '1 of 12 nodes' 1 --bad wrong_f64
minify wrong_fusion "$mixed" '2 of 16 nodes' 1 --bad wrong_fusion
has out ': mul, add'
minify wrong_group "$mixed" '2 of 16 nodes' 1 --bad wrong_group
has out ': dot_general, tanh'
minify fails_run "$mixed" '1 of 16 nodes' 3 --bad fails_run
has out 'fails_run fails: INTERNAL: fails_run: the kernel gave up'
has said 'the kernel gave up'
minify crash_run "$mixed" '1 of 16 nodes' 139 --bad crash_run
has out 'ended by signal 11'
minify crash_compile "$mixed" '1 of 16 nodes' 134 --bad crash_compile
minify crash_exit "$mixed" '1 of 16 nodes' 7 --bad crash_exit
has out 'the process exited with status 7'
minify hangs "$mixed" '1 of 16 nodes' 124 --bad hangs --timeout 1
has out 'hangs crashes: TIMEOUT'

# Wrong passes; one that needs two nodes, far from each other among 240.
minify sub_swapped "$mixed" '1 of 16 nodes' 1 --bad aot_eager
minify wrong_type "$mixed" '2 of 16 nodes' 3 --bad aot_eager
has out ': transpose, dot_general'
has out "aot_eager fails: INVALID_ARGUMENT: pass wrong_type of plugin 'wrong_type': graph 'mixed', node 1 (dot_general)" # of what is left
awk 'BEGIN {
    split("sin abs neg sigmoid", ops, " "); last = "%x"
    print "stir 1\ngraph @long(%x: f32[4, 8]) {"
    for (i = 0; i < 240; i++) {
        print "  %v" i " = " (i == 50 || i == 200 ? "tanh" : ops[i % 4 + 1]) "(" last ")"; last = "%v" i
    }
    print "  return y: " last "\n}" }' >long.stir
minify crash_pass long.stir '2 of 240 nodes' 139 --bad aot_eager
has out ': tanh, tanh'
trials=$(sed -n 's/.* after \([0-9]*\) trials.*/\1/p' out)
[ "$trials" -lt 150 ] || fail "$trials trials for two of 240 nodes"

# Mistakes that add up: none of twenty neighbours among 240 nodes can go, and nothing between them stays.
awk 'BEGIN {
    print "stir 1\ngraph @sums(%x: f32[4, 8]) {\n  %s0 = sin(%x)"
    for (i = 0; i < 60; i++) {
        print "  %t" i " = tanh(%s" i ")\n  %n" i " = abs(%t" i ")\n  %u" i " = neg(%n" i ")\n  %s" i + 1 " = add(%s" i ", %t" i ")"
    }
    print "  return y: %s60, u: %u59\n}" }' >sums.stir
minify wrong_tanh sums.stir ' of 241 nodes' 1 --bad wrong_tanh --rtol 0 --atol 5
nodes=$(grep -c ' = \(tanh\|add\)(' left/repro.stir)
[ "$nodes" -ge 38 ] && [ "$nodes" -le 44 ] || fail "$nodes nodes of mistakes that add up"
has out "  $nodes of 241 nodes"

# Control flow is one node with its bodies; what is written into an input is a result like others.
minify wrong_tanh "$models/loop.stir" '1 of 2 nodes' 1 --bad wrong_tanh
has left/repro.stir 'Body_Tanh'
cat >writes.stir <<'END'
stir 1
graph @writes(%x: f32[4], %state: f32[4]) {
  %a = sin(%x)
  %t = tanh(%a)
  %s = add(%state, %t)
  %n = assign(%state, %s)
  %m = neg(%n)
  return a: %a, m: %m
}
END
minify wrong_tanh writes.stir ' nodes' 1 --bad wrong_tanh
has out ': tanh'
sed '/assign/d; s/neg(%n)/neg(%a)/; s/  return/  write %state = %s\n  return/' writes.stir >back.stir
minify wrong_last back.stir '1 of 4 nodes' 1 --bad wrong_last
has out ': add'

# Parameters and inputs become random ones where that will do (no .blob, no inputs.npz), and stay
# where it will not: only NaN shows this mistake.
minify wrong_conv "$digits/digits.onnx" '1 of 13 nodes' 1 --bad wrong_conv
[ ! -e left/repro.blob ] || fail "there is a blob"
[ ! -e left/inputs.npz ] || fail "there are inputs"
minify loses_nan "$models/kinds.stir" '1 of 12 nodes' 1 --bad loses_nan
[ -e left/inputs.npz ] || fail "NaN came from nowhere"

# Sizes are numbers, also those that only a node which is gone could tell, unless it fails with
# symbols alone.
cat >sizes.stir <<'END'
stir 1
sym N in [1, 64]
graph @sizes(%x: f32[N, 4]) {
  %a = exp(%x)
  %b = reshape(%a) {shape = [4*N]}
  %c = tanh(%b)
  %d = neg(%c)
  return d: %d
}
END
minify wrong_tanh sizes.stir '1 of 4 nodes' 1 --bad wrong_tanh --dim N=3
has left/repro.stir 'f32[12]'
minify wrong_symbolic sizes.stir 'it fails only with symbolic sizes' 1 --bad wrong_symbolic --dim N=3
has left/repro.stir 'sym N in [1, 64]'
has left/repro.stir '%b = reshape(%a)'
cat >count.stir <<'END'
stir 1
graph @count(%x: f32[6]) {
  %i = nonzero(%x)
  %g = cast(%i) {dtype = f32}
  %t = tanh(%g)
  %z = abs(%t)
  return z: %z
}
END
minify wrong_tanh count.stir '1 of 4 nodes' 1 --bad wrong_tanh
has left/repro.stir 'f32[1, 6]'

# With --strict, what a backend leaves to another is an error, and the smallest one is asked for.
minify clean count.stir '1 of 4 nodes' 3 --bad clean --strict
has out ': nonzero'

# Options of the run are those of the repeat, quoted; inputs come from files too.
rm -rf "it's"
expect 0 '' "$STATOR" minify "$mixed" --bad wrong_tanh --plugin-dir "$planted/wrong_tanh" -o "it's" --mode default \
    --rtol 0.01 --atol 0.001 --threads 1
has "it's/repeat.sh" '--expect "$here"/expected.npz --rtol 0.01 --atol 0.001 --mode default --threads 1'
status=0
(eval "$(sed -n 's/^  repeat: //p' out)") >said 2>&1 || status=$?
[ "$status" = 1 ] || fail "status $status of the quoted command: $(cat said)"
minify wrong_conv "$digits/digits.onnx" '1 of 13 nodes' 1 --bad wrong_conv --image "image=$digits/png/digit-7.png"

# Nothing fails: nothing is written.
rm -rf left
expect 0 '' "$STATOR" minify "$mixed" --bad clean --plugin-dir "$planted/clean" -o left
has out 'clean agrees with eager; nothing was written'
[ ! -e left ] || fail "a folder for nothing"

# What does not fail again when it is loaded is not what is left: without the file of its inputs, which a
# shim hides, the two operands have no NaN; those of the whole model have.
cat >hide.c <<'END'
#define _GNU_SOURCE
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
int access(const char *path, int mode)
{
    const char *end = strrchr(path, '/');
    return end != NULL && strcmp(end, "/inputs.npz") == 0 ? -1 : (int)syscall(SYS_access, path, mode);
}
END
"${CC:-cc}" -shared -fPIC -o hide.so hide.c
minify loses_nan "$models/kinds.stir" '1 of 12 nodes' 1 --bad loses_nan
cp left/repro.stir max.stir
cp left/inputs.npz kept.npz
rm -rf left
(
    export ASAN_OPTIONS="$ASAN_OPTIONS:verify_asan_link_order=0"
    expect 0 '' env LD_PRELOAD="$work/hide.so" "$STATOR" minify "$models/kinds.stir" --bad loses_nan \
        --plugin-dir "$planted/loses_nan" -o hidden
    has out 'the model is kept whole: cut out it failed only before it was written'
    has out '12 of 12 nodes'
    expect 3 'the program does not fail in the same way' env LD_PRELOAD="$work/hide.so" "$STATOR" minify max.stir \
        --bad loses_nan --plugin-dir "$planted/loses_nan" --inputs kept.npz -o lost
    ! ls -d lost* 2>/dev/null || fail "a folder in spite of a failure"
) || exit 1

# Folders: an empty one is taken, others are left alone; a place where there can be none is told first.
mkdir empty full
echo mine >full/file
expect 0 '' "$STATOR" minify "$mixed" --bad wrong_tanh --plugin-dir "$planted/wrong_tanh" -o empty/
[ -e empty/repro.stir ] || fail "the empty folder stayed empty"
mkdir here
(cd here && "$STATOR" minify "$mixed" --bad wrong_tanh --plugin-dir "$planted/wrong_tanh" -o . >../out) || fail "the folder itself"
[ "$(ls -A here | tr '\n' ' ')" = 'expected.npz repeat.sh repro.stir ' ] || fail "files $(ls -A here)"
tanh=("$STATOR" minify "$mixed" --bad wrong_tanh --plugin-dir "$planted/wrong_tanh")
expect 3 "'full' is there and is no empty folder" "${tanh[@]}" -o full
expect 3 "'full/file' is there and is no empty folder" "${tanh[@]}" -o full/file
[ "$(cat full/file)" = mine ] || fail "a file of the user is gone"
expect 3 "cannot make the folder '/nowhere/x'" "${tanh[@]}" -o /nowhere/x
deep=$work
for i in 1 2 3 4 5 6; do deep=$deep/$(printf 'd%.0s' {1..200}); done
mkdir -p "$deep"
expect 0 '' "${tanh[@]}" -o "$deep/left"
status=0
(eval "$(sed -n 's/^  repeat: //p' out)") >said 2>&1 || status=$?
[ "$status" = 1 ] || fail "status $status of a long command: $(cat said)"
ln -s nothing dangling
expect 3 "'dangling' is there and is no empty folder" "${tanh[@]}" -o dangling
# One that is there may be of another file system than its name is: nothing is moved across.
if [ -w /dev/shm ]; then
    far=$(mktemp -d /dev/shm/stator-minify.XXXXXX)
    trap 'rm -rf "$work" "$far"' EXIT
    ln -s "$far" far
    expect 0 '' "${tanh[@]}" -o far
    [ "$(ls -A far/ | tr '\n' ' ')" = 'expected.npz repeat.sh repro.stir ' ] || fail "files $(ls -A far/)"
fi

# Failures that are not the bad backend's.
expect 3 "the good backend 'crash_run' itself fails: ended by signal" "$STATOR" minify "$mixed" --bad eager \
    --good crash_run --plugin-dir "$planted/crash_run" -o left
expect 3 "did you mean 'wrong_tanh'" "$STATOR" minify "$mixed" --bad wrong_tan --plugin-dir "$planted/wrong_tanh" -o left
expect 3 'cannot open' "$STATOR" minify none.stir --bad eager -o left
expect 3 'no input has a symbolic size' "$STATOR" minify "$mixed" --bad eager -o left --dim N=3
expect 2 'write --bad BACKEND and -o DIR' "$STATOR" minify "$mixed" --bad eager
expect 2 'write --bad BACKEND and -o DIR' "$STATOR" minify "$mixed" -o left
expect 2 'write --bad BACKEND and -o DIR' "$STATOR" minify "$mixed" --bad eager -o ''
expect 2 '(and --timeout from 1)' "$STATOR" minify "$mixed" --bad eager -o left --timeout 0
[ ! -e left ] || fail "a folder for nothing"
echo ok
