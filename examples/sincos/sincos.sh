#!/usr/bin/env bash
# sincos.sh OUTDIR: joint, forward and backward graph of sin(x)^2 + cos(x)^2 as text and as pictures,
# and the largest gradient among 1000 random x on two backends. Needs the command stator (or STATOR).
set -eu
stator=${STATOR:-stator}
model=$(dirname "$0")/sincos.stir
out=${1:?usage: sincos.sh OUTDIR}
mkdir -p "$out"

for graph in joint forward backward; do
    "$stator" grad "$model" --loss y --wrt x --graph "$graph" -o "$out/$graph.stir"
    "$stator" draw "$out/$graph.stir" -o "$out/$graph.svg"
done
"$stator" draw "$model" -o "$out/sincos.svg"

# The result `largest` is one number: the largest magnitude of grad_x.
sed -e 's/return y: %y, grad_x: %grad_x/%m = abs(%grad_x)\n  %largest = reduce_max(%m) {axes = [0]}\n  return largest: %largest/' \
    "$out/joint.stir" >"$out/largest.stir"
largest() {
    "$stator" run "$out/largest.stir" --random 0 --dim N=1000 --backend "$1" | sed -n 's/^largest: f32\[\] //p'
}
echo "largest |gradient| of 1000 random x: $(largest eager) on eager, $(largest inductor-cpu) on inductor-cpu"
rm "$out/largest.stir"
