#!/usr/bin/env bash
# Runs the pass from BUILD with the command STATOR: it adds a guard to each float op, or to those
# that its option names, and a program that makes NaN stops at the op that does. Status 0 when all of
# that is so.
set -eu
here=$(dirname "$0")
opt=$("$STATOR" opt --pass nan_guard --verify-each "$here/nan.stir" --plugin-dir "$BUILD")
[ "$(grep -c 'check(.*nan_guard: NaN in result 0' <<<"$opt")" = 4 ] || { echo "$opt"; exit 1; }
only=$("$STATOR" opt --pass nan_guard --pass-option nan_guard:only=log,exp "$here/nan.stir" --plugin-dir "$BUILD")
[ "$(grep -c 'check(.*nan_guard: NaN in result 0' <<<"$only")" = 2 ] || { echo "$only"; exit 1; }

if out=$("$STATOR" run "$here/nan.stir" --backend aot_eager --plugin-dir "$BUILD" 2>&1); then
    echo "the run should have failed: $out"
    exit 1
fi
grep -q 'nan_guard: NaN in result 0 of log (bad_log)' <<<"$out" || { echo "$out"; exit 1; }
echo "nan_guard: stops at the first NaN"
