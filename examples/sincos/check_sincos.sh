#!/usr/bin/env bash
# Runs sincos.sh: three graphs as text and pictures, and a gradient that is 0 to rounding.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
out=$(bash "$(dirname "$0")/sincos.sh" "$work")
grep -qE ': (0|[0-9.]+e-0[789]) on eager, (0|[0-9.]+e-0[789]) on inductor-cpu$' <<<"$out" || { echo "$out"; exit 1; }
for graph in sincos joint forward backward; do
    grep -q '</svg>' "$work/$graph.svg" || { echo "$graph.svg is no picture"; exit 1; }
done
grep -q 'saved_s: %s, saved_c: %c' "$work/forward.stir" || { cat "$work/forward.stir"; exit 1; }
echo "sincos: the gradient of a constant is 0"
