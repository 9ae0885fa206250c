#!/usr/bin/env bash
# A rounding that falls the other way is no wrong answer: compare, verify, bisect and minify say where it
# is and look on for the next real difference. The plugins spoil the last element of each `round` by 1.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"
quant="$STATOR_SOURCE/tests/plugins/planted/models/quant.stir"
alone=(--plugin-dir "$STATOR_BUILD/tests/planted/rounds_up")
too=(--plugin-dir "$STATOR_BUILD/tests/planted/rounds_up_too")

expect 0 'one step of a rounding: node Quant_3, value c, and 1 more' \
    "$STATOR" compare "$quant" --backends eager,rounds_up "${alone[@]}"
expect 0 "rounds_up agrees with eager; 2 values are off by one step of a rounding, first at node 'Quant_3'" \
    "$STATOR" bisect "$quant" --bad rounds_up "${alone[@]}"
expect 0 "output 'z' of rounds_up differs from eager's by one step of a rounding alone, at node 'Quant_3' and others" \
    "$STATOR" run "$quant" --backend rounds_up "${alone[@]}" --verify 1
expect 0 'off by one step of a rounding' "$STATOR" minify "$quant" --bad rounds_up "${alone[@]}" -o none
[ ! -e none ] || fail "minify wrote of a model without a mistake"

expect 1 'first difference: node Tanh_5, value t' "$STATOR" compare "$quant" --backends eager,rounds_up_too "${too[@]}"
grep -q 'one step of a rounding: node Quant_3, value c' out || fail "no step: $(cat out)"
expect 1 "the first value that differs is 't' of node 'Tanh_5'" \
    "$STATOR" run "$quant" --backend rounds_up_too "${too[@]}" --verify 1
expect 0 'node   Tanh_5' "$STATOR" bisect "$quant" --bad rounds_up_too "${too[@]}"
expect 0 '1 of 9 nodes' "$STATOR" minify "$quant" --bad rounds_up_too "${too[@]}" -o small
grep -q 'tanh' small/repro.stir || fail "not the tanh: $(cat small/repro.stir)"

# A kernel that rounds wrongly is off in more than one element of fifty: that is a difference.
sed 's/f32\[4, 25\]/f32[4, 5]/' "$quant" >small.stir
expect 1 'first difference: node Quant_3' "$STATOR" compare small.stir --backends eager,wrong_round \
    --plugin-dir "$STATOR_BUILD/tests/planted/wrong_round"
echo ok
