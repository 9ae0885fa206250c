#!/usr/bin/env bash
# stator train --amp: digits in bf16 and in f16 (scaled), two runs of equal bits; what it refuses.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"

says() { # status, words, arguments...
    local want=$1 words=$2
    shift 2
    expect "$want" "$words" "$STATOR" "$@" "${plugins[@]}"
}
digits=$STATOR_SOURCE/examples/digits
fit=(train "$digits/digits.onnx" --loss cross_entropy --output /0/0.13/Gemm_output_0 --data "$digits/train.npz"
    --val "$digits/test.npz" --init random --seed 1 --lr 0.003 --epochs 1)

# Two threads on a busy machine, too, give equal bits.
for backend in ${backends/loops/aot_eager}; do
    for amp in bf16 f16; do
        for k in 1 2; do
            says 0 '"steps":	40' "${fit[@]}" --backend "$backend" --amp "$amp" --threads 2 --save "state$k.npz" --json
        done
        python3 - "$amp" <<'END' || fail "$amp on $backend: two runs end differently, or steps are wrong"
import re, struct, sys, zipfile
one, two = (zipfile.ZipFile(f"state{k}.npz") for k in (1, 2))
assert all(one.read(name) == two.read(name) for name in one.namelist())
steps = struct.unpack("<q", one.read("step.npy")[-8:])[0]
if sys.argv[1] == "bf16":
    assert steps == 40 and "loss_scale.npy" not in one.namelist()
else:  # each step that was skipped has halved the scale
    scale = struct.unpack("<f", one.read("loss_scale.npy")[-4:])[0]
    assert scale == 65536 * 0.5 ** (40 - steps), (scale, steps)
    assert struct.unpack("<q", one.read("growth_tracker.npy")[-8:])[0] <= steps
accuracy = re.search(r'"accuracy":\s*([0-9.]+)', open("out").read())
assert float(accuracy.group(1)) > 0.7
END
    done
done

# ---- with several batches a step; with checkpoints ----

says 0 '"steps":	20' "${fit[@]}" --accumulate 2 --amp f16 --backend eager --save sums.npz --json
python3 - <<'END' || fail "steps of two batches are wrong"
import struct, zipfile
z = zipfile.ZipFile("sums.npz")
steps = struct.unpack("<q", z.read("step.npy")[-8:])[0]
scale = struct.unpack("<f", z.read("loss_scale.npy")[-4:])[0]
assert 15 <= steps <= 20 and scale == 65536 * 0.5 ** (20 - steps), (steps, scale)
sums = [name for name in z.namelist() if name.startswith("sum_")]
assert sums and all(not any(z.read(name)[-4:]) for name in sums)
END
says 0 'steps: loss' "${fit[@]}" --amp bf16 --backend eager --checkpoint kept
says 3 'amp is "bf16" there and "f16" here' "${fit[@]}" --amp f16 --backend eager --checkpoint kept --resume

# ---- bad input ----

says 3 "--amp is 'half', expected bf16 or f16" "${fit[@]}" --amp half
says 3 "there is no option 'init_scal'; did you mean 'init_scale'?" "${fit[@]}" --amp f16 --opt init_scal=1
says 3 "option growth_interval is '0', expected a whole number in [1, inf)" "${fit[@]}" --amp f16 --opt growth_interval=0
says 3 "there is no option 'init_scale' in this step: a step with amp f16 has it" "${fit[@]}" --amp bf16 --opt init_scale=8
says 0 'autocast-low' ops matmul
says 0 'autocast-f32' ops cross_entropy --json
echo "trained on: $backends"
