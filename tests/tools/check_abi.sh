#!/usr/bin/env bash
# Compares the plugin and application ABI with what was published.
# usage: check_abi.sh SOURCE BUILD [--bless]
# The frozen-slot files must compile: an appended field passes, a moved or retyped one fails. What
# abidiff and the list of symbols say against the baseline in tests/abi is a report while the ABI is
# below 1.0. --bless writes frozen slots and baseline anew.
set -u
source=$1
build=$2
work=$build/tests/abi
bad=0
mkdir -p "$work"
flags="-std=c11 -pedantic -Wall -Wextra -Werror -I$source/include"
symbols() { nm -D --defined-only "$build/lib/libstator.so.0" | awk '$2 != "A" {print $3}' | grep '^stator_' | sort; }

if [ "${3:-}" = --bless ]; then
    python3 "$source/tests/tools/gen_abi_frozen.py" "$source" || exit 1
fi
for frozen in "$source"/tests/abi/abi_frozen_*.c; do
    if cc $flags -fsyntax-only "$frozen"; then
        echo "abi: $(basename "$frozen"): $(grep -c -E '^(FROZEN|_Static)' "$frozen") promises kept"
    else
        echo "BAD $frozen: a published slot moved, changed or went"
        bad=1
    fi
done

# Named relative to the source, so that the baseline holds no path of a machine.
(cd "$source" && cc $flags -g -fdebug-prefix-map="$source=." -Iinclude -shared -fPIC \
    tests/abi/abi_anchor.c -o "$work/anchor.so") || exit 1
symbols >"$work/libstator.symbols"
if [ "${3:-}" = --bless ]; then
    abidw --no-corpus-path --no-comp-dir-path --no-show-locs "$work/anchor.so" \
        --out-file "$source/tests/abi/abi_anchor.abi" || exit 1
    cp "$work/libstator.symbols" "$source/tests/abi/libstator.symbols"
    exit 0
fi
if ! diff -u "$source/tests/abi/libstator.symbols" "$work/libstator.symbols" >"$work/symbols.diff"; then
    echo "abi report: symbols of libstator differ from the baseline:"
    grep '^[-+]stator' "$work/symbols.diff"
fi
if command -v abidiff >/dev/null; then
    abidiff "$source/tests/abi/abi_anchor.abi" "$work/anchor.so" >"$work/report.txt"
    echo "abi report: abidiff status $? (0: no difference), $work/report.txt"
    head -n 40 "$work/report.txt"
else
    echo "abi report: abidiff is not here (package abigail-tools); nothing was compared with it"
fi
exit $bad
