#!/usr/bin/env bash
# stator train --train-mode: normalisations and dropouts of a model exported for inference train, what
# they learn is saved, and validations compute as inference does; models exported for training, too.
. "$STATOR_SOURCE/tests/cli/train_kit.sh"

python3 - "$STATOR_SOURCE/tests/tools" <<'END' || fail "the models were not made"
import sys
sys.path.insert(0, sys.argv[1])
import bad_models as b
from npy import archive, floats

BOOL = 9  # TensorProto.DataType
xs = [(i * 7 % 11 - 5) / 3 for i in range(24)]
x = ("<f4", (12, 2), floats(*xs))
t = ("<f4", (12, 1), floats(*(xs[2 * i] - xs[2 * i + 1] for i in range(12))))
archive("modes.npz", x=x, target=t)


def weight(name, dims, *values):
    return b.tensor(name, dims, b.FLOAT, b.data(9, b.floats(*values)))


def write(path, ratio, trains):
    mode = b.attr_int("training_mode", 1) if trains else b""
    norm = b.node("BatchNormalization", ["x", "scale", "shift", "mean", "var"], ["n"] + ["m", "v"] * trains, attrs=mode)
    train = b.tensor("train", [], BOOL, b.data(9, bytes([trains])))
    nodes = [norm, b.node("Dropout", ["n", "ratio", "train"], ["d"]), b.node("MatMul", ["d", "w"], ["y"])]
    weights = [weight("scale", [2], 1, 1), weight("shift", [2], 0, 0), weight("mean", [2], 0.5, -0.5),
               weight("var", [2], 2, 3), weight("ratio", [], ratio), weight("w", [2, 1], 1, 1), train]
    open(path, "wb").write(b.model(nodes, [b.value("x", ["N", 2])], [b.value("y", ["N", 1])], weights))


write("inference.onnx", 0, False)
write("training.onnx", 0, True)
write("drops.onnx", 0.5, False)


def dropout(path, opset, ratio, ratio_is_input=False):
    """y = Dropout(x) w, in training mode; d is the Dropout's result, i the same behind an Identity."""
    flags = [b.tensor("train", [], BOOL, b.data(9, bytes([1])))] if opset >= 12 else []
    weights = [weight("w", [2, 1], 1, 1)] + flags
    inputs = [b.value("x", ["N", 2])]
    if opset >= 12:
        drop = b.node("Dropout", ["x", "ratio", "train"], ["d"])
        if ratio_is_input:
            inputs.append(b.value("ratio", []))
        else:
            weights.append(weight("ratio", [], ratio))
    else:
        drop = b.node("Dropout", ["x"], ["d"], attrs=b.data(5, b.data(1, "ratio") + b"\x15" + b.floats(ratio) + b.number(20, 1)))
    nodes = [drop, b.node("Identity", ["d"], ["i"]), b.node("MatMul", ["i", "w"], ["y"])]
    open(path, "wb").write(b.model(nodes, inputs, [b.value("y", ["N", 1])], weights, opset=opset))


dropout("all.onnx", 15, 1)
dropout("all10.onnx", 10, 1)
dropout("given.onnx", 15, None, True)
dropout("half.onnx", 15, 0.5)
dropout("none.onnx", 15, 0)
nodes = [b.node("MatMul", ["x", "w"], ["h"]), b.node("Dropout", ["h", "ratio", "train"], ["d"]),
         b.node("Identity", ["d"], ["i"]), b.node("Abs", ["i"], ["y"])]
open("named.onnx", "wb").write(b.model(nodes, [b.value("x", ["N", 2])], [b.value("y", ["N", 1])],
                                       [weight("w", [2, 1], 1, 1), weight("ratio", [], 0.5),
                                        b.tensor("train", [], BOOL, b.data(9, bytes([1])))]))
END
fit=(--loss mse --optimizer sgd --lr 0 --data modes.npz --val modes.npz --batch 6 --shuffle off)

# Without a rate the statistics alone change, as those of the model for training do.
says 0 '2 steps: loss' train inference.onnx "${fit[@]}" --train-mode --log on.jsonl --save on.npz
on=$(grep -o 'validation.*' out)
says 0 '2 steps: loss' train training.onnx "${fit[@]}" --log own.jsonl --save own.npz
[ "$on" = "$(grep -o 'validation.*' out)" ] || fail "validations differ: $on and $(cat out)"
says 0 '2 steps: loss' train inference.onnx "${fit[@]}" --log off.jsonl --save off.npz
python3 - <<'END' || fail "statistics or losses are wrong"
import json, struct, zipfile


def losses(name):
    return [json.loads(line)["loss"] for line in open(name)]


def array(file, name):
    raw = zipfile.ZipFile(file).read(name + ".npy")
    return struct.unpack("<2f", raw[-8:])


assert losses("on.jsonl") == losses("own.jsonl") != losses("off.jsonl")
xs = [(i * 7 % 11 - 5) / 3 for i in range(24)]
mean, var = [0.5, -0.5], [2.0, 3.0]
for first in (0, 6):
    for c in (0, 1):
        column = [xs[2 * (first + i) + c] for i in range(6)]
        m = sum(column) / 6
        mean[c] = 0.9 * mean[c] + 0.1 * m
        var[c] = 0.9 * var[c] + 0.1 * sum((v - m) ** 2 for v in column) / 6
for file in ("on.npz", "own.npz"):
    assert all(abs(a - b) < 1e-5 for a, b in zip(array(file, "mean") + array(file, "var"), mean + var)), file
assert "mean.npy" not in zipfile.ZipFile("off.npz").namelist() or array("off.npz", "mean") == (0.5, -0.5)
END

# The saved model has them, and is still one for inference: its validation is the one above.
says 0 '2 steps: loss' train inference.onnx "${fit[@]}" --train-mode --save saved.onnx
says 0 "$on" train saved.onnx "${fit[@]}"

# What is dropped follows the seed, in steps and not in validations.
for seed in 1 2; do
    says 0 '2 steps: loss' train drops.onnx "${fit[@]}" --train-mode --seed $seed --log drops$seed.jsonl
    grep -o 'validation.*' out >validation$seed
done
cmp -s validation1 validation2 || fail "validations drop: $(cat validation1 validation2)"
python3 - <<'END' || fail "nothing is dropped"
import json
one, two = ([json.loads(line)["loss"] for line in open("drops%d.jsonl" % k)] for k in (1, 2))
assert one != two
END

# A ratio of 1 drops everything: results and gradients are 0, at second order too, wherever it is known.
python3 - <<'END' || fail "the values were not made"
from npy import archive, floats
rows, column = ("<f4", (3, 2), floats(1, -2, 3, 4, -5, 6)), ("<f4", (3, 1), floats(1, -2, 3))
one = ("<f4", (), floats(1))
for model, more in ("all", {}), ("given", {"ratio": one}):
    archive(model + ".first.npz", x=rows, tangent_y=column, **more)
    archive(model + ".second.npz", x=rows, tangent_y=column, tangent_y_=column, tangent_grad_x=rows, **more)
END
for backend in aot_eager $backends; do
    for model in all given; do
        "$STATOR" grad $model.onnx --wrt x -o first.stirb >out 2>&1 || fail "$model: $(cat out)"
        "$STATOR" grad first.stirb --wrt tangent_y -o second.stirb >out 2>&1 || fail "$model: $(cat out)"
        for graph in first second; do
            run $graph.stirb --backend $backend --inputs $model.$graph.npz >out 2>&1 || fail "$model $graph: $(cat out)"
            ! grep -E '^[a-z_]*: f32' out | grep -qi 'nan\|inf' || fail "$graph graph of $model on $backend: $(cat out)"
            grep -qE '^grad_[a-z_]*: f32\[3,[12]\] (0 ?)+$' out || fail "a gradient of $model is not 0: $(cat out)"
        done
    done
    says 0 '2 steps: loss' train all10.onnx "${fit[@]}" --train-mode --lr 0.1 --backend $backend --save all.npz
    says 0 '2 steps: loss' train all.onnx "${fit[@]}" --lr 0.1 --backend $backend --save all.npz
    python3 -c 'import struct, zipfile; assert struct.unpack("<2f", zipfile.ZipFile("all.npz").read("w.npy")[-8:]) == (1, 1)' ||
        fail "weights behind a ratio of 1 are trained on $backend"
done

# A name that has no value of its own for inference is that of the value which stands for it.
says 0 '2 steps: loss' train named.onnx "${fit[@]}" --output h
want=$(grep -o 'validation.*' out)
for name in d i; do
    says 0 "$want" train named.onnx "${fit[@]}" --output $name
done

# A model from a pipe is read once for both modes.
mkfifo pipe.onnx
cat inference.onnx >pipe.onnx &
says 0 "$on" train pipe.onnx "${fit[@]}" --train-mode
wait $!

# A .stir graph has its normalisations by running statistics in validations.
cat >norm.stir <<'END'
stir 1
sym N in [1, 1000]
graph @m(%x: f32[N, 2], param %scale "scale": f32[2] = {1, 1}, param %shift "shift": f32[2] = {0, 0},
         param %mean "mean": f32[2] = {0.5, -0.5}, param %var "var": f32[2] = {2, 3}, param %w "w": f32[2, 1] = {1, 1}) {
  %n, %m, %v = batch_norm_train(%x, %scale, %shift, %mean, %var)
  %y = matmul(%n, %w)
  return y: %y
}
END
says 0 "$on" train norm.stir "${fit[@]}"

# ---- what it refuses ----

says 3 'none.onnx computes otherwise in training' train none.onnx "${fit[@]}" --train-mode
says 3 'digits.onnx computes otherwise in training' train "$digits/digits.onnx" "${fit[@]}" --train-mode
says 3 "'text' has no option 'training'" train line.stir --loss mse --data line.npz --train-mode
says 0 'steps: loss' train inference.onnx "${fit[@]}" --train-mode --checkpoint kept
says 3 'train_mode is "on" there and "model" here' train inference.onnx "${fit[@]}" --checkpoint kept --resume
echo ok
