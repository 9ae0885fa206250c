#!/usr/bin/env bash
# A warning reaches stderr without any STATOR_LOGS, once a command: also when several contexts
# (bench) or child processes (conform, bisect) come upon the same thing. Lines of a channel need it.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "BAD $1"; exit 1; }
digits=$STATOR_SOURCE/examples/digits/digits.onnx

mkdir "$work/plugins"
chmod 755 "$work" "$work/plugins"
install -m 644 "$STATOR_BUILD/tests/mutants/needs_soname.so" "$work/plugins/"

once() { # command...: status 0, one warning, and nothing of it on stdout
    "$STATOR" "$@" --plugin-dir "$work/plugins" --fallback eager >"$work/out" 2>"$work/err" ||
        fail "status $? of $*: $(cat "$work/err")"
    n=$(grep -c "^stator: warning: backend 'needs_soname' replaced by 'eager': .*MISSING_DEPENDENCY" \
        "$work/err") || true
    [ "$n" = 1 ] || fail "$n warnings of $*: $(cat "$work/err")"
    ! grep -q 'warning' "$work/out" || fail "a warning on stdout of $*"
}
once run "$digits" --backend needs_soname
once run "$digits" --backend needs_soname --json
once bench "$digits" --backends needs_soname,needs_soname --rounds 2
once compare "$digits" --backends eager,needs_soname
once bisect "$digits" --bad needs_soname
once check neg 'f32 4' --backend needs_soname

"$STATOR" run "$digits" --backend aot_eager >/dev/null 2>"$work/err"
[ ! -s "$work/err" ] || fail "said without need: $(cat "$work/err")"
STATOR_LOGS=passes "$STATOR" run "$digits" --backend aot_eager >/dev/null 2>"$work/err"
grep -q '^\[passes\] canonicalize: ' "$work/err" || fail "no line of the channel: $(cat "$work/err")"

# Words of STATOR_LOGS that say nothing are told, each once, also where a command makes two contexts.
said() { # STATOR_LOGS TEXT: once
    STATOR_LOGS=$1 "$STATOR" compare "$digits" --backends eager,aot_eager >/dev/null 2>"$work/err" ||
        fail "status $? with STATOR_LOGS=$1"
    [ "$(grep -cF "stator: warning: STATOR_LOGS: $2" "$work/err")" = 1 ] || fail "$1: $(cat "$work/err")"
}
said fusoin "there is no channel 'fusoin'"
said passes,nosuch:debug,cache "there is no channel 'nosuch'"
said passes:loud "'loud' is no level of 'passes'"
said :debug "there is no channel ''"
said "$(printf 'a%.0s' {1..3000})" "there is no channel 'aaaaaaaa"
STATOR_LOGS=all:debug,output_code,,passes:info "$STATOR" print "$digits" 2>&1 | grep -q 'STATOR_LOGS' &&
    fail "a warning of words that are right"
echo ok
