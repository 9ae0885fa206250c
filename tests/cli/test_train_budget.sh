#!/usr/bin/env bash
# stator train --budget: forward values are computed again, fewer are kept, and losses have the same
# bits on eager; what it refuses.
. "$STATOR_SOURCE/tests/cli/train_kit.sh"

# A chain whose values are much larger than its weights.
python3 - <<'END' || fail "the data were not made"
from npy import archive, floats

xs = [((i * 37) % 101 - 50) / 50 for i in range(6144 * 32)]
ts = [((i * 53) % 97 - 48) / 48 for i in range(6144 * 32)]
archive("chain.npz", x=("<f4", (6144, 32), floats(*xs)), target=("<f4", (6144, 32), floats(*ts)))
layers = range(12)
zeros = "{" + ", ".join(["0"] * 1024) + "}"
weights = ", ".join(f'param %w{k} "w{k}": f32[32, 32] = {zeros}' for k in layers)
with open("chain.stir", "w") as f:
    f.write(f"stir 1\nsym N in [1, 10000]\ngraph @chain(%h0 \"x\": f32[N, 32], {weights}) {{\n")
    for k in layers:
        f.write(f"  %p{k} = matmul(%h{k}, %w{k})\n  %g{k} = gelu(%p{k})\n  %h{k + 1} = tanh(%g{k})\n")
    f.write("  return y: %h12\n}\n")
END
fit=(train chain.stir --loss mse --data chain.npz --init random --seed 1 --lr 0.003 --epochs 2 --batch 3072)

steps_of() { # F.jsonl: its lines without times
    sed 's/,"ms":.*//' "$1"
}

# peak <name> <arguments...>: peak bytes of a training, whose losses go to name.jsonl
peak() {
    local name=$1
    shift
    "$STATOR" "${fit[@]}" "${plugins[@]}" --log "$name.jsonl" --json "$@" >"$name.json" || fail "$name: status $?"
    sed -n 's/.*"peak_bytes":[^0-9]*\([0-9]*\).*/\1/p' "$name.json"
}

ran=eager
[ "${backends/inductor-cpu/}" = "$backends" ] || ran="eager inductor-cpu"
for backend in $ran; do
    all=$(peak all --backend "$backend")
    less=$(peak less --backend "$backend" --budget 1)
    least=$(peak least --backend "$backend" --budget 0.25)
    echo "$backend: $all bytes at most, $less with a budget of 1, $least with one of 0.25"
    [ "$least" -lt $((all * 3 / 4)) ] && [ "$least" -lt "$less" ] || fail "$backend: a budget saves too little"
    if [ "$backend" = eager ]; then
        cmp <(steps_of all.jsonl) <(steps_of less.jsonl) || fail "budget 1 has other losses"
        cmp <(steps_of all.jsonl) <(steps_of least.jsonl) || fail "budget 0.25 has other losses"
    fi
done

# ---- in the step ----

"$STATOR" "${fit[@]}" "${plugins[@]}" --budget 0.25 --write-step step.stir || fail "no step with a budget"
grep -q 'recomputed matmul' step.stir || fail "the step computes nothing again"
"$STATOR" "${fit[@]}" "${plugins[@]}" --write-step step.stir || fail "no step"
! grep -q 'recomputed matmul' step.stir || fail "a step without a budget computes something again"

# ---- with checkpoints; bad input ----

says 0 'steps: loss' "${fit[@]}" --budget 0.5 --backend eager --checkpoint kept
says 0 'steps: loss' "${fit[@]}" --budget 0.50 --backend eager --checkpoint kept --resume
says 3 'budget is 0.5 there and "none" here' "${fit[@]}" --backend eager --checkpoint kept --resume
says 3 "--budget 'x' is no number from 0 to 1" "${fit[@]}" --budget x
says 3 'the budget 2 is not from 0 to 1' "${fit[@]}" --budget 2
says 3 'the budget nan is not from 0 to 1' "${fit[@]}" --budget nan
echo "trained on: $ran"
