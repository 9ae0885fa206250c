#!/usr/bin/env bash
# The programs of tests/golden/codegen give on every backend of the code generator what they give on eager: the
# interpreter with and without a library, and inductor-cpu (also with a thread more) where it is there.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
backends="loops loops_library loops_gpu"
"$STATOR" backends 2>/dev/null | grep -q "^inductor-cpu" && backends="$backends inductor-cpu"
bad=0
n=0
for program in "$STATOR_SOURCE"/tests/golden/codegen/*.stir; do
    flags=$(sed -n '1,2s|^// run: ||p' "$program" | sed 's|--backend [a-z_-]*||')
    for backend in $backends; do
        for threads in 1 2; do
            # shellcheck disable=SC2086
            "$STATOR" compare "$program" --backends "eager,$backend" --threads "$threads" $flags \
                --plugin-dir "$STATOR_BUILD/tests/plugins" >"$work/out" 2>&1 || {
                echo "BAD $program on $backend, $threads threads"
                cat "$work/out"
                bad=1
            }
        done
    done
    n=$((n + 1))
done
[ "$n" -ge 24 ] || { echo "only $n programs found"; bad=1; }
echo "$n programs on $backends"
exit $bad
