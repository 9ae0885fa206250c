#!/usr/bin/env bash
# The programs that kernels become for a GPU, exactly: tests/golden/gpu/NAME.stir and NAME.cu beside it.
# STATOR_BLESS=1 writes the expected files anew; read that diff. Each program is also judged as C11 and
# as C++11, with the prelude of that folder, and gives what eager gives when its loops are run by the
# oracle. The first lines of a program may say how to run it, "// run: --dim N=3", and how contractions of
# f32 are computed, "// f32 products: 1", a number of st_f32_products.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
folder=$STATOR_SOURCE/tests/golden/gpu
bad=0
n=0
compilers=$(command -v gcc >/dev/null && echo "gcc c c11"; command -v g++ >/dev/null && echo "g++ c++ c++11")

judge() { # FILE: each program in it, by every compiler
    csplit -s -z -f "$work/part" "$1" '/^#include/' '{*}'
    while read -r compiler language standard; do
        for part in "$work"/part*; do
            "$compiler" -x "$language" -std="$standard" -fsyntax-only -Wall -Wextra -Werror \
                -Wno-unused-variable -I"$folder" "$part" || return 1
        done
    done <<<"$compilers"
    rm -f "$work"/part*
}

for program in "$folder"/*.stir; do
    expected=${program%.stir}.cu
    flags=$(sed -n '1,3s|^// run: ||p' "$program")
    products=$(sed -n '1,3s|^// f32 products: ||p' "$program")
    rm -f "$work/texts"
    # shellcheck disable=SC2086
    STATOR_GPU_F32_PRODUCTS=${products:-0} STATOR_GPU_TEXTS=$work/texts STATOR_CACHE=0 "$STATOR" compare "$program" --backends eager,loops_gpu \
        $flags --plugin-dir "$STATOR_BUILD/tests/plugins" >"$work/out" 2>&1 || {
        echo "BAD $program: loops_gpu differs from eager"
        cat "$work/out"
        bad=1
    }
    if [ -n "${STATOR_BLESS:-}" ]; then
        cp "$work/texts" "$expected"
    elif ! diff -u "$expected" "$work/texts"; then
        echo "BAD $program; to repeat: STATOR_GPU_TEXTS=FILE stator run $program --backend loops_gpu $flags"
        bad=1
    fi
    judge "$work/texts" || {
        echo "BAD $program: its text is not C11 and C++11"
        bad=1
    }
    n=$((n + 1))
done
[ "$n" -ge 10 ] || { echo "only $n programs found"; bad=1; }
echo "$n programs"
exit $bad
