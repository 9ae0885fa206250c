#!/usr/bin/env bash
# Bad plugins (tests/plugins/border): whatever one slot of a plugin does, the command ends with the
# right answer and a warning that names the plugin, with a failure that names it, or by a signal
# behind a line that says in which plugin and slot. Never with a wrong answer or a silent 0.
#
# A row is OUTCOME PLUGIN SLOT=FAULT ARGUMENTS of `stator run`, OUTCOME one of
#   right    0, the right answer; the fault harms nobody, or the plugin is not asked at all
#   warned   0, the right answer, and a warning that names the plugin
#   refused  3 (1 with --verify), and stderr names the plugin
#   killed   a signal, behind the line "in plugin X, slot SLOT"
#   hung     stopped by us with SIGTERM, which gives that line too: somebody named the plugin, and
#            nobody can tell a hang from work
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export STATOR_CACHE_DIR=$work/cache # of each row alone: what a probe found is remembered there
unset STATOR_LOGS STATOR_CACHE
ulimit -c 0
chmod 755 "$work"
cd "$work"

for kind in backend pass frontend oplib; do
    mkdir -m 755 $kind
    install -m 644 "$STATOR_BUILD/tests/border/border_$kind.so" $kind/
done
# Subnormals and roundings: a flushed or rounded answer is another one.
cat >model.stir <<'END'
stir 1
graph @main(%x: f32[4]) {
  %h = constant {value = f32[4] {0.5, 0.33333334, 0.1, 0.7}}
  %y = mul(%x, %h)
  %r = reshape(%y) {shape = [2, 2]}
  %z = neg(%r)
  return y: %y, z: %z
}
END
cp model.stir model.border
cp model.stir model
sed 's/neg(/border_neg(/; s/\[2, 2\]/[4]/' model.stir >op.stir
PYTHONPATH=$STATOR_SOURCE/tests/cli python3 -c "
import npy, struct
npy.write('x.npy', '<f4', '(4,)', struct.pack('<4f', 1.0, 3e-39, 0.3, -1e-40))"

"$STATOR" run model.stir --input x=x.npy --backend eager | grep -E '^[yz]: ' >right.answer
sed 's/\[2,2\]/[4]/' right.answer >right.op
grep -q '^z: f32\[2,2\] -0.5 -1e-39 ' right.answer || { cat right.answer; exit 1; }

rows=0
bad=0
fail() { # REASON
    echo "BAD $row: $1"
    sed 's/^/    /' out err
    bad=$((bad + 1))
}
is_right() {
    grep -E '^[yz]: ' out | cmp -s - "$([ "$model" = op.stir ] && echo right.op || echo right.answer)"
}
row() { # OUTCOME KIND SLOT=FAULT ARGUMENTS
    local outcome=$1 kind=$2 fault=$3 status=0 limit=60
    shift 3
    row="$outcome $kind $fault $*"
    model=$1
    rows=$((rows + 1))
    [ -n "${keep:-}" ] || rm -rf cache
    [ "$outcome" != hung ] || limit=1
    { # the shell's own word of a signal goes to err too
        STATOR_BORDER=$fault timeout -s TERM -k 60 $limit "$STATOR" run "$@" --input x=x.npy \
            --plugin-dir $kind >out || status=$?
    } 2>err
    local line="in plugin border_$kind, slot ${fault%%=*}\$"
    case $outcome in
    right | warned)
        [ $status = 0 ] || fail "status $status"
        is_right || fail "a wrong answer"
        if [ "$outcome" = right ]; then
            [ ! -s err ] || fail "something is said"
        else
            grep -q "^stator: warning: .*border_$kind" err || fail "no warning names it"
        fi
        ;;
    refused)
        [ $status = 3 ] || { [ $status = 1 ] && [[ $* == *--verify* ]]; } || fail "status $status"
        grep -q "border_$kind" err || fail "it is not named"
        ! grep -q 'unknown error' err || fail "unknown error"
        ;;
    killed)
        [ $status -gt 128 ] || fail "status $status"
        grep -q "^stator: SIG[A-Z]* $line" err || fail "no culprit"
        ;;
    hung)
        [ $status = 124 ] || fail "status $status"
        grep -q "^stator: SIGTERM $line" err || fail "no culprit"
        ;;
    esac
}

each() { # OUTCOME KIND 'ARGUMENTS' SLOT=FAULT... : a row for each fault
    local outcome=$1 kind=$2 fault
    local -a run
    read -ra run <<<"$3"
    shift 3
    for fault in "$@"; do
        row "$outcome" "$kind" "$fault" "${run[@]}"
    done
}
named="model.stir --backend border_backend"
passes="model.stir --backend aot_eager"
reads="model.border --backend eager"

# ---- as it should be ----
for kind in backend pass frontend; do
    row right $kind none= model.stir
done
each right backend "$named" none=
each right frontend "$reads" import=none
each right oplib "op.stir --backend eager" none=
each right oplib "op.stir --backend aot_eager" none=

# ---- what nobody named is tried in a child first ----
each warned backend "model.stir" dlopen=segv query=abort init=exit probe=throw init=fp probe=hang \
    init=status=13 probe=status=14 probe=status=12345 query=null query=item_size query=slot
each warned pass "model.stir --backend aot_eager" dlopen=segv init=exit init=hang init=status=13 \
    init=pthread_exit query=fp query=slot query=null_name
each warned oplib "model.stir --backend eager" dlopen=fp init=abort init=status=-1 query=items \
    query=slot
row warned frontend init=segv model --backend eager
row warned frontend query=null_items model --backend eager

# ---- a backend that is named ----
each killed backend "$named" dlopen=segv query=segv init=segv probe=segv create=segv \
    pipeline=segv capability=segv compile=segv exe_info=segv exe_run=segv exe_destroy=segv \
    destroy=segv shutdown=segv compat_key=segv exe_serialize=segv exe_run=abort compile=throw \
    compile=overflow exe_run=overflow query=wild_item
each refused backend "$named" dlopen=exit query=exit init=exit probe=exit create=exit \
    pipeline=exit capability=exit compile=exit exe_info=exit exe_run=exit exe_destroy=exit \
    destroy=exit shutdown=exit compile=pthread_exit exe_run=pthread_exit
each warned backend "$named" dlopen=fp query=fp init=fp probe=fp create=fp pipeline=fp \
    capability=fp compile=fp exe_info=fp exe_run=fp exe_destroy=fp destroy=fp exe_run=fp_range
each refused backend "$named" init=status=13 probe=status=14 create=status=13 \
    pipeline=status=12345 capability=status=-1 compile=status=13 compile=status=12345 \
    exe_info=status=5 exe_run=status=13 exe_run=status=-7 exe_run=status=12345
each refused backend "$named" compile=null exe_run=elsewhere exe_run=nowhere exe_info=huge \
    pipeline=unknown_stage pipeline=null_stage
each right backend "$named" capability=silent capability=strangers capability=no_text \
    compat_key=null exe_serialize=null exe_serialize=status=13
each refused backend "$named" query=null query=plugin_size query=item_size query=zero_size \
    query=items query=twice query=null_item query=null_items query=kind query=name \
    query=null_name query=options query=slot query=version
each hung backend "$named" compile=hang
each refused backend "model.stir --backend border_backend --verify 1" exe_run={unwritten,half}
each right backend "$named" exe_deserialize=
keep=1
each right backend "$named" exe_deserialize=null exe_deserialize=status=12345
each killed backend "$named" exe_deserialize=segv
each refused backend "$named" exe_deserialize=exit
keep=

# ---- passes ----
each killed pass "$passes" run={segv,abort,throw,overflow}
each refused pass "$passes" run={exit,pthread_exit,status=13,status=12345,rename_input,add_input} \
    run={rename_output,add_output,drop_output,swap_outputs,retype_output,bad_ref,nothing}
each warned pass "$passes" run=fp
each right pass "$passes" run=result
each hung pass "$passes" run=hang

# ---- frontends: asked only where no extension decides ----
each killed frontend "$reads" import={segv,throw}
each refused frontend "$reads" import={exit,status=13,status=12345} \
    import={nothing,bad_type,no_output,stranger}
each warned frontend "$reads" import=fp
each right frontend "model.stir --backend eager" sniff={segv,exit,hang}
row killed frontend sniff=segv model --backend eager
row refused frontend sniff=exit model --backend eager
row warned frontend sniff=fp model --backend eager
row hung frontend sniff=hang model --backend eager

# ---- op libraries ----
each killed oplib "op.stir --backend eager" infer=segv kernel=segv kernel=abort
each refused oplib "op.stir --backend eager" infer=exit infer=status=13 infer=no_type \
    infer=bad_type kernel=exit kernel=status=12345 kernel=pthread_exit
each warned oplib "op.stir --backend eager" infer=fp kernel=fp
each killed oplib "op.stir --backend aot_eager" decompose=segv decompose=throw
each refused oplib "op.stir --backend aot_eager" decompose=exit decompose=status=13 \
    decompose=nothing decompose=bad_ref
each warned oplib "op.stir --backend aot_eager" decompose=fp

[ $bad = 0 ] || { echo "$bad of $rows"; exit 1; }
echo "$rows bad plugins"
