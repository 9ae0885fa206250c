#!/usr/bin/env bash
# The loop IR that the code generator makes of small programs, exactly: tests/golden/codegen/NAME.stir
# and NAME.loops beside it. STATOR_BLESS=1 writes the expected files anew; read that diff.
# The first line of a program may say how to run it: "// run: --dim N=3".
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$STATOR_SOURCE/tests/golden/codegen
bad=0
n=0
for program in "$folder"/*.stir; do
    expected=${program%.stir}.loops
    flags=$(sed -n '1,2s|^// run: ||p' "$program")
    # shellcheck disable=SC2086
    STATOR_LOGS=output_code "$STATOR" run "$program" --backend loops --random 0 $flags \
        --plugin-dir "$STATOR_BUILD/tests/plugins" >"$work/out" 2>"$work/log" || {
        cat "$work/log"
        bad=1
    }
    sed 's/^\[output_code\] //' "$work/log" >"$work/loops"
    if [ -n "${STATOR_BLESS:-}" ]; then
        cp "$work/loops" "$expected"
    elif ! diff -u "$expected" "$work/loops"; then
        echo "BAD $program; to repeat: STATOR_LOGS=output_code stator run $program --backend loops $flags"
        bad=1
    fi
    n=$((n + 1))
done
[ "$n" -ge 14 ] || { echo "only $n programs found"; bad=1; }
echo "$n programs"
exit $bad
