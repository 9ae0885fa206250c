#!/usr/bin/env bash
# Compares the plugin and application ABI with what was published.
# usage: check_abi.sh SOURCE BUILD [--bless]
# The frozen-slot files must compile: an appended field passes, a moved or retyped one fails. The
# baseline in tests/abi must be of the present ABI: a symbol, a function or a type that it lacks is
# BAD, as is one that went, so that a change of the ABI is a change of these files in its commit.
# --bless writes frozen slots and baseline anew.
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
        echo "abi: $(basename "$frozen"): $(grep -v '^#' "$frozen" | grep -oE '(FROZEN|SAME)\(' | wc -l) promises kept"
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
python3 "$source/tests/tools/gen_abi_frozen.py" "$source" --anchor >"$work/abi_anchor.c" || bad=1
# file of the baseline, what it is of
same() {
    diff -u "$source/tests/abi/$1" "$work/$1" >"$work/$1.diff" && return
    echo "BAD tests/abi/$1 is not of the present ABI; check_abi.sh SOURCE BUILD --bless writes $2 anew:"
    grep '^[-+] *[_a-z]' "$work/$1.diff" | head -n 40
    bad=1
}
same libstator.symbols "the symbols"
same abi_anchor.c "the functions and types"
if command -v abidiff >/dev/null; then
    if abidiff "$source/tests/abi/abi_anchor.abi" "$work/anchor.so" >"$work/report.txt"; then
        echo "abi: abidiff finds no difference"
    else
        echo "BAD tests/abi/abi_anchor.abi is not of the present ABI, says abidiff ($work/report.txt):"
        head -n 40 "$work/report.txt"
        bad=1
    fi
else
    echo "abi report: abidiff is not here (package abigail-tools); nothing was compared with it"
fi
exit $bad
