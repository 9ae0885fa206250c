#!/usr/bin/env bash
# Command lines: help is status 0 in every form, flags that would do nothing are status 2 with a
# sentence, and a child that cannot be made ends conform.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
digits=$STATOR_SOURCE/examples/digits
fail() { echo "BAD $1"; exit 1; }
expect() { # status, words on stderr, command...
    local want=$1 words=$2 status=0
    shift 2
    "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
    [ "$status" = "$want" ] || fail "status $status, not $want, of $*: $(cat "$work/out" "$work/err")"
    [ -z "$words" ] || grep -qF -- "$words" "$work/err" || fail "no '$words' from $*: $(cat "$work/err")"
}

for form in -h --help help; do
    "$STATOR" $form >"$work/help" || fail "status $? of $form"
    grep -q '^usage: stator COMMAND' "$work/help" || fail "no usage from $form"
done
sed -n 's/^CLI_COMMAND("\([a-z]*\)".*/\1/p' "$STATOR_SOURCE/tools/commands.def" >"$work/commands"
[ "$(wc -l <"$work/commands")" -ge 14 ] || fail "commands.def was not read"
while read -r command; do
    grep -q "^  $command " "$work/help" || fail "$command is not in stator --help"
    "$STATOR" "$command" -h >"$work/short" || fail "status $? of $command -h"
    "$STATOR" "$command" --help >"$work/long" || fail "status $? of $command --help"
    cmp -s "$work/short" "$work/long" || fail "$command -h is not $command --help"
    "$STATOR" help "$command" >"$work/short" || fail "status $? of help $command"
    cmp -s "$work/short" "$work/long" || fail "help $command is not $command --help"
    for flag in --json --plugin-dir --help; do
        grep -q "^  $flag " "$work/long" || fail "$command --help does not name $flag"
    done
    case $command in
    backends | plugins | doctor | passes | ops | optimizers) # these compute nothing
        expect 2 "there is no option '--threads'" "$STATOR" "$command" --threads 1 ;;
    *) grep -q "^  --threads " "$work/long" || fail "$command --help does not name --threads" ;;
    esac
    expect 2 "there is no option '--jason', did you mean '--json'" "$STATOR" "$command" --jason
    expect 2 "there is no option '-x'" "$STATOR" "$command" -x
    expect 2 '--json wants no value' "$STATOR" "$command" --json=1
done <"$work/commands"

cd "$digits"
expect 2 '--top is of use only with --labels' "$STATOR" run digits.onnx --top 3
expect 2 '--top is 1 or more' "$STATOR" run digits.onnx --top 0 --labels labels.txt
expect 2 "--backend-option wants K=V, not 'tier'" "$STATOR" run digits.onnx --backend-option tier
expect 2 "--backend-option wants K=V, not '=1'" "$STATOR" run digits.onnx --backend-option =1
expect 2 "--dim wants N=8, not 'N='" "$STATOR" run digits.onnx --dim N=
expect 2 "--dim wants N=8, not '=8'" "$STATOR" print digits.onnx --dim =8
expect 2 "--mean wants M,.., not ''" "$STATOR" run digits.onnx --image png/none.png --mean ''
expect 2 "--std wants S,.., not '1,'" "$STATOR" run digits.onnx --image png/none.png --std 1,
expect 3 'give --mean and --std one number' "$STATOR" run digits.onnx --image png/none.png --mean 1,2,3
! grep -q 'number or 1' "$work/err" || fail "one number or 1: $(cat "$work/err")"
expect 3 "'/' is a folder" "$STATOR" run digits.onnx --labels /
# Without --repeat there is the first call alone: it makes ready, so it is no median.
expect 0 '' "$STATOR" run digits.onnx --backend eager
grep -qE '^compile [0-9.]+ ms, first call [0-9.]+ ms$' "$work/out" || fail "times: $(cat "$work/out")"
expect 0 '' "$STATOR" run digits.onnx --backend eager --repeat 2
grep -qE 'first call [0-9.]+ ms, median [0-9.]+ ms, min [0-9.]+ ms$' "$work/out" || fail "times: $(cat "$work/out")"
for command in 'run digits.onnx' 'bench digits.onnx --backends eager' 'print digits.onnx' \
    'compare digits.onnx --backends eager,aot_eager' 'bisect digits.onnx --bad aot_eager' \
    'minify digits.onnx --bad aot_eager -o left'; do
    expect 2 '--mean is of use only with --image' "$STATOR" $command --mean 0.5
    expect 2 '--std is of use only with --image' "$STATOR" $command --std 0.5
    expect 2 '--random fills every input' "$STATOR" $command --random 1 --input test_images.npy
done
expect 2 "'--backend', did you mean '--backends'" "$STATOR" bench digits.onnx --backend eager
expect 2 'write --backends A,B' "$STATOR" bench digits.onnx --backends eager,
expect 2 'write --backends A,B' "$STATOR" bench digits.onnx --backends a,b,c,d,e,f,g,h,i
expect 2 'write --backends A,B' "$STATOR" compare digits.onnx --backends eager
expect 2 'write --bad BACKEND' "$STATOR" bisect digits.onnx
expect 2 "--rtol wants R, not '-1'" "$STATOR" run digits.onnx --rtol -1
expect 2 "--rtol wants R, not 'nan'" "$STATOR" run digits.onnx --rtol nan
expect 2 "--repeat wants N, not '1e3'" "$STATOR" run digits.onnx --repeat 1e3
expect 2 '--mode wants MODE; see' "$STATOR" run digits.onnx --mode --json
expect 3 "there is no mode '--json'" "$STATOR" run digits.onnx --mode=--json
expect 2 "'digits.onnx' is one argument too many" "$STATOR" plugins digits.onnx
expect 2 "there is no command 'rnu', did you mean 'run'?" "$STATOR" help rnu
expect 2 '--threads is at most' "$STATOR" run digits.onnx --threads 3000000000
expect 2 '--timeout is from 1 second' "$STATOR" conform eager --cases png --timeout 0
expect 3 "cannot open '-x'" "$STATOR" run -- -x
expect 3 'axis 0 of input' "$STATOR" run digits.onnx --input test_images.npy --dim N=3
expect 0 '' "$STATOR" run digits.onnx --input test_images.npy --dim N=540

# No child can be made: a few tries, then the reason; not for ever.
mkdir -p "$work/case/test_data_set_0"
cp digits.onnx "$work/case/model.onnx"
cat >"$work/no_fork.c" <<'END'
#include <errno.h>
int fork(void);
int fork(void)
{
    errno = EAGAIN;
    return -1;
}
END
"${CC:-cc}" -shared -fPIC -o "$work/no_fork.so" "$work/no_fork.c"
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0"
expect 3 "cannot start a child process for case '.': Resource temporarily unavailable" \
    timeout 60 env LD_PRELOAD="$work/no_fork.so" "$STATOR" conform eager --cases "$work/case"
expect 3 '' timeout 60 env LD_PRELOAD="$work/no_fork.so" "$STATOR" conform eager --cases "$work/case" --json
grep -q '"code":.*"RESOURCE_EXHAUSTED"' "$work/out" || fail "no error object: $(cat "$work/out")"
expect 3 'cannot run a child process' \
    timeout 60 env LD_PRELOAD="$work/no_fork.so" "$STATOR" bisect digits.onnx --bad aot_eager
expect 3 'cannot run a child process' \
    timeout 60 env LD_PRELOAD="$work/no_fork.so" "$STATOR" minify digits.onnx --bad aot_eager -o "$work/left"
echo ok
