#!/usr/bin/env bash
# Plugins that are wrong: what they do to a run that does not need them, and what is said of them.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
mutants=$STATOR_BUILD/tests/mutants
cat >"$work/m.stir" <<'S'
stir 1
graph @main(%x: f32[4]) {
  %y = neg(%x)
  return y: %y
}
S
chmod 755 "$work"

with() { # plugin...: alone in the folder
    rm -rf "$work/plugins"
    mkdir -m 755 "$work/plugins"
    for plugin in "$@"; do install -m 644 "$mutants/$plugin.so" "$work/plugins/"; done
}
expect() { # status, words on stderr ("": nothing is said), command...
    local want=$1 words=$2 status=0
    shift 2
    "$STATOR" "$@" --plugin-dir "$work/plugins" >"$work/out" 2>"$work/err" </dev/null || status=$?
    [ "$status" = "$want" ] || fail "status $status, not $want, of $*: $(cat "$work/out" "$work/err")"
    if [ -n "$words" ]; then
        [ "$(grep -cF -- "$words" "$work/err")" = 1 ] || fail "'$words' of $*: $(cat "$work/err")"
    else
        [ ! -s "$work/err" ] || fail "said without need: $(cat "$work/err")"
    fi
}

# A plugin that cannot be used is named once, and the run goes on without it.
run=(run "$work/m.stir" --backend aot_eager --random 0)
with pass_other_name
expect 0 "warning: pass 'pass_other_name' of $work/plugins/pass_other_name.so is left out (INVALID): " "${run[@]}"
with pass_init_fails
expect 0 "warning: pass 'pass_init_fails' of $work/plugins/pass_init_fails.so is left out (INIT_FAILED): " "${run[@]}"
with cse
expect 0 "is left out (NAME_CLASH): Stator has a pass 'cse' of its own" "${run[@]}"
with frontend_init_fails
printf nothing >"$work/file.unknown"
expect 3 "cannot be used: frontend_init_fails (INIT_FAILED: " run "$work/file.unknown"
with needs_soname # a backend that nobody asked for
expect 0 "" "${run[@]}"
STATOR_PLUGIN_DISABLE=pass_init_fails expect 0 "" "${run[@]}"

with frontend_proud
expect 0 "" "${run[@]}" # the extension decides, and nobody is asked
cp "$work/m.stir" "$work/m"
expect 0 "warning: frontend 'frontend_proud': its sniff answered 1000000 where 100 is the most" \
    run "$work/m" --backend aot_eager --random 0
with pass_before
expect 0 "warning: pass 'pass_before': it is to run before 'decompose', which is no plugin's pass" "${run[@]}"

# Values that a pass makes, its inputs among them, are none of the model's unless it says so.
with pass_adds
expect 0 "" opt --pass pass_adds "$work/m.stir"
[ "$(grep -c ' ^0' "$work/out")" = 3 ] || fail "witnesses: $(cat "$work/out")"

# Options of passes: each value is a program of its own in the cache, also beside an old pass.
with acme.pass pass_old
for limit in 1 2 1; do
    STATOR_CACHE=1 STATOR_CACHE_DIR="$work/cache" expect 0 "" run "$work/m.stir" --backend aot_eager --random 0 \
        --pass-option "acme.pass:limit=$limit" --save "$work/$limit.npz"
done
! cmp -s "$work/1.npz" "$work/2.npz" || fail "the value of the option changed nothing"
with acme.pass pass_old needs_soname # another backend in the place of the one that is named
expect 0 "replaced by 'aot_eager'" run "$work/m.stir" --backend needs_soname --fallback aot_eager --random 0 \
    --pass-option acme.pass:limit=1 --backend-option own=1 --save "$work/fallback.npz"
cmp "$work/1.npz" "$work/fallback.npz" || fail "the option of the pass is lost with the backend"
with acme.pass pass_old
expect 0 "" opt --pass acme.pass --pass-option acme.pass:limit=5 "$work/m.stir"
[ "$(grep -c 'neg(' "$work/out")" = 6 ] || fail "five negations: $(cat "$work/out")"
expect 0 "" opt --pass pass_old "$work/m.stir" --pass-option acme.pass:limit=5
[ "$(grep -c 'neg(' "$work/out")" = 3 ] || fail "two negations: $(cat "$work/out")"
expect 3 "option 'limit' of 'acme.pass' is 0, outside its range [1, 8]" "${run[@]}" --pass-option acme.pass:limit=0
expect 3 "'acme.pass' has no option 'lim' (did you mean 'limit'?)" opt --pass acme.pass "$work/m.stir" --pass-option acme.pass:lim=0
expect 2 "--pass-option wants PASS:K=V, not 'limit=1'" "${run[@]}" --pass-option limit=1
expect 3 "what a pass has PASS:limit" "${run[@]}" --backend-option limit=1
expect 0 "" passes acme.pass
grep -qF "  limit            how many negations are added (a whole number, 1 to 8; default 2)" "$work/out" || fail "$(cat "$work/out")"
grep -qF -- "--pass-option acme.pass:KEY=VALUE" "$work/out" || fail "$(cat "$work/out")"
expect 0 "" passes acme.pass --json
tr -d ' \t\n' <"$work/out" | grep -qF '"key":"limit","type":"awholenumber","default":"2","range":"1to8"' || fail "$(cat "$work/out")"
expect 0 "" passes cse
expect 3 "there is no pass 'acme.pas', did you mean 'acme.pass'?" passes acme.pas
expect 2 "leave it or the name out" passes cse --backend eager
with pass_no_receiver
expect 0 "warning: pass 'pass_no_receiver' of $work/plugins/pass_no_receiver.so is left out (INVALID): " "${run[@]}"

# A backend's pipeline.
with stage_null
expect 3 "the pipeline of 'stage_null' has a stage without a name" run "$work/m.stir" --backend stage_null --random 0
with stages_many
expect 3 "the pipeline of 'stages_many' has more than 1000 stages" run "$work/m.stir" --backend stages_many --random 0

# exe_serialize that answers OK without bytes: the program runs and is not kept.
with over_no_bytes
STATOR_CACHE=1 STATOR_CACHE_DIR="$work/cache" expect 0 "" run "$work/m.stir" --backend over_no_bytes --random 0
STATOR_CACHE=1 STATOR_CACHE_DIR="$work/cache" expect 0 "" cache
! grep -q 'code' "$work/out" || fail "kept: $(cat "$work/out")"

# One backend with its options; of one that cannot be used, why.
with good needs_soname
expect 0 "" backends good
grep -qF "  level            how hard it does nothing (a whole number, 0 to 3; default 1)" "$work/out" || fail "$(cat "$work/out")"
expect 0 "" backends good --json
tr -d ' \t\n' <"$work/out" | grep -qF '"key":"level","type":"awholenumber","default":"1","range":"0to3"' || fail "$(cat "$work/out")"
expect 0 "" backends needs_soname
grep -q MISSING_DEPENDENCY "$work/out" || fail "$(cat "$work/out")"
expect 3 "there is no backend 'god' (did you mean 'good'?)" backends god

# The name of the reference belongs to it.
with
install -m 644 "$STATOR_BUILD/lib/stator/plugins-1/eager.so" "$work/plugins/"
expect 0 "warning: backend 'eager' of $work/plugins/eager.so is left out (NAME_CLASH): " "${run[@]}"
# Names of others: no control character and no broken UTF-8 reaches the terminal, in whatever words.
raw() { LC_ALL=C grep -qaP '[\x00-\x08\x0b-\x1f\x7f\xff]' "$work/all"; }
evil=$(printf 'a\033[31m\007\377b')
printf 'stir 1\ngraph @main(%%x "n\\x1b[31m\\xff": f32[4]) {\n  %%y = neg(%%x) @"k\\x1b[2J\\xff\\n":Neg\n  return "o\\x07\\xff": %%y\n}\n' >"$work/evil.stir"
with
install -m 644 "$mutants/good.so" "$work/plugins/$evil.so"
echo junk >"$work/plugins/junk$evil.so"
while IFS='|' read -r want words; do
    status=0
    eval "set -- $words"
    "$STATOR" "$@" --plugin-dir "$work/plugins" >"$work/all" 2>&1 </dev/null || status=$?
    [ "$status" = "$want" ] || fail "status $status, not $want, of $words: $(cat -v "$work/all")"
    [ -s "$work/all" ] && ! raw || fail "of $words: $(cat -v "$work/all")"
done <<'C'
0|run "$work/evil.stir" --random 0 --backend eager
0|info "$work/evil.stir"
0|print "$work/evil.stir"
0|explain "$work/evil.stir" --random 0 --backend eager
0|compare "$work/evil.stir" --backends eager,aot_eager --random 0
0|bench "$work/evil.stir" --backends eager --random 0 --rounds 2
0|run "$work/evil.stir" --backend aot_eager
3|run "$work/$evil"
3|run "$work/evil.stir" --backend "$evil"
3|run "$work/evil.stir" --backend "junk$evil"
3|run "$work/evil.stir" --backend eager --backend-option "$evil=1" --random 0
2|run "$work/evil.stir" "--$evil"
2|"$evil"
0|backends --all
0|plugins
C
STATOR_LOGS="$evil,all:debug" "$STATOR" run "$work/evil.stir" --random 0 --backend eager >"$work/all" 2>&1
! raw || fail "in the log: $(cat -v "$work/all")"
echo ok
