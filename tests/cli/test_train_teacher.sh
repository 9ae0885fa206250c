#!/usr/bin/env bash
# stator train --teacher: a model learns from another one, with targets of its own and without, on
# every backend; a teacher in training mode is taken as it is used; a checkpoint of another teacher and
# teachers that do not fit are one sentence each.
. "$STATOR_SOURCE/tests/cli/train_kit.sh"

# The teacher knows the line: y = 2 x1 - x2 + 0.5, under other names.
sed 's/%x/%point/g; s/N/B/g; s/{0, 0}/{2, -1}/; s/f32\[1\] = {0}/f32[1] = {0.5}/; s/y: %y/line: %y/' line.stir >teacher.stir
python3 - <<'END' || fail "the data were not made"
from line_data import archive, t, x
archive("points.npz", x=x)
archive("wrong.npz", x=x, target=(t[0], t[1], bytes(len(t[2]))))
END
alone=(train line.stir --teacher teacher.stir --teacher-loss mse --optimizer sgd --lr 0.3 --batch 8 --shuffle off)
both=("${alone[@]}" --loss mse)

# What the teacher says is the target of line.npz, so that the losses are those of a training with it.
for backend in aot_eager $backends; do
    says 0 '60 steps: loss' "${fit[@]}" --shuffle off --epochs 20 --backend "$backend" --log own.jsonl
    says 0 '60 steps: loss' "${alone[@]}" --data points.npz --epochs 20 --backend "$backend" --log taught.jsonl
    says 0 '60 steps: loss' "${both[@]}" --data wrong.npz --opt teacher_weight=1 --epochs 20 --backend "$backend" --log both.jsonl
    python3 - <<'END' || fail "the losses on $backend are others: $(cat own.jsonl taught.jsonl both.jsonl)"
import json
own, *others = [[json.loads(line)["loss"] for line in open(f"{n}.jsonl")] for n in ("own", "taught", "both")]
assert len(own) == 60 and own[-1] < 1e-6
# roots of them are residuals of numbers up to 3.5, in which 2e-6 is eight roundings of f32
assert all(abs(a ** 0.5 - b ** 0.5) <= 2e-6 for other in others for a, b in zip(own, other))
END
done
if [ -d "$soft" ]; then
    for device in "" "--device cuda_soft:0"; do
        STATOR_SOFT_DEVICE=1 says 0 '60 steps: loss' "${alone[@]}" --data points.npz --epochs 20 --backend cuda_soft $device \
            --plugin-dir "$soft" --log soft.jsonl
        python3 -c 'import json; assert [json.loads(r)["loss"] for r in open("soft.jsonl")][-1] < 1e-6' || fail "cuda_soft did not learn"
    done
fi

# Validation, batches that are added up, mixed precision, --nan-check and --write-step know the teacher.
says 0 'validation' "${both[@]}" --data line.npz --val line.npz --epochs 20
says 0 '"accuracy":	null' "${alone[@]}" --data points.npz --val points.npz --json
says 0 '2 steps: loss' "${both[@]}" --data line.npz --accumulate 2
says 0 '3 steps: loss' "${alone[@]}" --data points.npz --amp bf16
says 0 '3 steps: loss' "${alone[@]}" --data points.npz --nan-check
says 0 '3 steps: loss' "${alone[@]}" --data points.npz --budget 0.25
"$STATOR" "${alone[@]}" "${plugins[@]}" --write-step step.stir || fail "no step was written"
grep -q 'param %teacher_w' step.stir && grep -q '@"teacher: ' step.stir || fail "the step has no teacher: $(cat step.stir)"
grep -q 'backward of teacher' step.stir && fail "the teacher has a backward part: $(cat step.stir)"
says 0 "return loss: %loss" print step.stir
sed 's/{2, -1}/{1e38, 1e38}/' teacher.stir >huge.stir
says 1 'the first value that is not finite' "${alone[@]}" --teacher huge.stir --data points.npz --nan-check

# A teacher that was exported for training is taken as it is used.
python3 - "$STATOR_SOURCE/tests/tools" <<'END' || fail "the teacher was not made"
import sys
sys.path.insert(0, sys.argv[1])
import bad_models as b


def weight(name, dims, *values):
    return b.tensor(name, dims, b.FLOAT, b.data(9, b.floats(*values)))


nodes = [b.node("BatchNormalization", ["x", "scale", "shift", "mean", "var"], ["n", "m", "v"], attrs=b.attr_int("training_mode", 1)),
         b.node("MatMul", ["n", "w"], ["y"])]
weights = [weight("scale", [2], 1, 1), weight("shift", [2], 0.25, 0), weight("mean", [2], 0, 0), weight("var", [2], 1, 1),
           weight("w", [2, 1], 2, -1)]
open("norm.onnx", "wb").write(b.model(nodes, [b.value("x", ["M", 2])], [b.value("y", ["M", 1])], weights))
nodes = [b.node("MatMul", ["x", "w"], ["h"]), b.node("Dropout", ["h"], ["d"]), b.node("Relu", ["d"], ["y"])]
open("drop.onnx", "wb").write(b.model(nodes, [b.value("x", ["M", 2])], [b.value("y", ["M", 1])], weights[-1:]))
END
says 0 '60 steps: loss' "${alone[@]}" --teacher norm.onnx --data points.npz --val points.npz --epochs 20
says 0 '3 steps: loss' "${alone[@]}" --teacher drop.onnx --teacher-output d --data points.npz # for inference that is h

# One that is a graph, too: its normalisation, also in a branch, goes by the running statistics.
for op in '%n, %m, %v = batch_norm_train' '%n = batch_norm'; do
    file=${op##* }.stir
    cat >"$file" <<END
stir 1
sym B in [1, 1000]
graph @t(%x: f32[B, 2], param %s "s": f32[2] = {1, 1}, param %h "h": f32[2] = {0.25, 0}, param %mean "mean": f32[2] = {0.5, 0},
         param %var "var": f32[2] = {1, 2}, param %w "w": f32[2, 1] = {2, -1}) {
  ${op//%/%a_}(%x, %s, %h, %mean, %var)
  %p = constant {value = bool[] {true}}
  %c = cond(%p, %a_n, %s, %h, %mean, %var)
    region @yes(%x: f32[B, 2], %s: f32[2], %h: f32[2], %mean: f32[2], %var: f32[2]) {
      $op(%x, %s, %h, %mean, %var)
      return %n
    }
    region @no(%x: f32[B, 2], %s: f32[2], %h: f32[2], %mean: f32[2], %var: f32[2]) {
      %n = mul(%x, %s)
      return %n
    }
  %y = matmul(%c, %w)
  return y: %y
}
END
    says 0 '30 steps: loss' "${alone[@]}" --teacher "$file" --data points.npz --epochs 10 --log "$file.jsonl"
done
cmp <(sed 's/,"ms":.*//' batch_norm_train.stir.jsonl) <(sed 's/,"ms":.*//' batch_norm.stir.jsonl) ||
    fail "a teacher normalises by the batch"

# Names of any length are whole: two that differ at their ends are two.
long=$(printf 'w%.0s' {1..300})
for model in teacher line; do
    sed "s/\"w\": /\"${long}_a\": /; s/\"b\": /\"${long}_b\": /" $model.stir >long_$model.stir
done
says 0 '3 steps: loss' train long_line.stir --teacher long_teacher.stir --teacher-loss mse --data points.npz --batch 8 --optimizer adamw
"$STATOR" train long_line.stir --teacher long_teacher.stir --teacher-loss mse --data points.npz --batch 8 --optimizer adamw \
    --write-step long.stir || fail "no step with long names"
for name in teacher_"$long"_{a,b} exp_avg_"$long"_{a,b}; do
    grep -q "%$name: " long.stir || fail "the step has no input $name"
done

# ---- checkpoints ----

go=("${both[@]}" --data line.npz --checkpoint ck)
says 0 '3 steps' "${go[@]}"
says 0 '6 steps' "${go[@]}" --epochs 2 --resume
sed 's/{2, -1}/{2, -2}/' teacher.stir >other.stir
sed 's/add(%p, %b)/sub(%p, %b)/' teacher.stir >minus.stir
for other in other minus; do
    says 3 'of another training: teacher is "' "${go[@]/teacher.stir/$other.stir}" --epochs 3 --resume
done
says 3 'of another training: teacher is "' "${fit[@]}" --shuffle off --checkpoint ck --epochs 3 --resume
says 3 'teacher_loss is "mse" there and "l1" here' "${go[@]}" --teacher-loss l1 --epochs 3 --resume
says 3 'option teacher_weight is 0.5 there and 0.25 here' "${go[@]}" --opt teacher_weight=0.25 --epochs 3 --resume
soft=("${alone[@]}" --teacher norm.onnx --teacher-loss kl_div --data points.npz --checkpoint soft)
says 0 '3 steps' "${soft[@]}" --opt temperature=1 # what it is unless given
says 0 '6 steps' "${soft[@]}" --epochs 2 --resume
says 3 'option temperature is 1 there and 2 here' "${soft[@]}" --opt temperature=2 --epochs 3 --resume
# A checkpoint of a build that wrote "none" where a temperature was not given.
python3 - <<'END' || fail "the checkpoint was not changed"
import json
import zipfile
from npy import write

arrays = {i.filename: zipfile.ZipFile("soft/checkpoint.npz").read(i) for i in zipfile.ZipFile("soft/checkpoint.npz").infolist()}
word = arrays["run/identity.npy"]
said = json.loads(word[word.index(b"\n") + 1:])
assert said["options"]["temperature"] == 1, said
said["options"]["temperature"] = "none"
text = json.dumps(said).encode()
write("identity.npy", "|u1", (len(text),), text)
arrays["run/identity.npy"] = open("identity.npy", "rb").read()
with zipfile.ZipFile("soft/checkpoint.npz", "w") as z:
    for key, value in arrays.items():
        z.writestr(key, value)
END
says 3 'option temperature is 1 there and 2 here' "${soft[@]}" --opt temperature=2 --epochs 3 --resume
says 0 '9 steps' "${soft[@]}" --epochs 3 --resume
says 3 'teacher_output is "" there and "line" here' "${go[@]}" --teacher-output line --epochs 3 --resume

# ---- refused ----

says 3 '--teacher-output and --teacher-loss need --teacher' "${fit[@]}" --teacher-loss mse
says 3 '--loss is missing' train line.stir --data line.npz
says 3 'no/such.onnx' "${alone[@]}" --teacher no/such.onnx --data points.npz
says 3 "no loss 'mss'; did you mean 'mse'?" "${alone[@]}" --teacher-loss mss --data points.npz
says 3 "option temperature is '0', expected a number in [1e-18, 1e18]" "${alone[@]}" --teacher-loss kl_div --opt temperature=0 --data points.npz
says 3 'the loss has rank 2, and a step needs a scalar' "${alone[@]}" --teacher-loss kl_div --opt reduction=none --data points.npz
cp norm.onnx kept.onnx
for option in --log --plot; do
    says 3 "$option 'norm.onnx' would be written over --teacher" "${alone[@]}" --teacher norm.onnx --data points.npz "$option" norm.onnx
done
cmp norm.onnx kept.onnx || fail "the teacher was written over"
says 3 'the loss nll compares with class indices' "${alone[@]}" --teacher-loss nll --data points.npz
says 3 "the teacher: the model has no output or value 'lime', did you mean 'line'?" "${alone[@]}" --teacher-output lime --data points.npz
says 3 "option teacher_weight is '2', expected a number in [0, 1]" "${both[@]}" --opt teacher_weight=2 --data line.npz
says 3 "that it weighs" "${alone[@]}" --opt teacher_weight=0.5 --data points.npz
says 3 "no option 'teacher_weight' in this step: a step with a teacher has it" "${fit[@]}" --opt teacher_weight=0.5
says 3 "no input has the name of array 'target'" "${alone[@]}" --data line.npz
grep -q "a loss of the table compares with 'target', and --loss names none" out || fail "no way out: $(cat out)"
sed 's/\[2, 1\] = {2, -1}/[2, 3] = {2, -1, 0, 0, 0, 0}/' teacher.stir >classes.stir
says 3 "what the loss compares, 'y', is f32[N, 1], and of the teacher it is 'line', f32[B, 3]" "${alone[@]}" --teacher classes.stir --data points.npz
sed 's/B, 2/B, 3/; s/\[2, 1\] = {2, -1}/[3, 1] = {2, -1, 0}/' teacher.stir >wide.stir
says 3 "an input of the model, 'x', is f32[N, 2], and of the teacher it is 'point', f32[B, 3]" "${alone[@]}" --teacher wide.stir --data points.npz
sed 's/point: f32\[B, 2\]/point: f32[B, 2], %more: f32[B, 2]/' teacher.stir >more.stir
says 3 'the model has 1 input and the teacher 2, and no name is of both' "${alone[@]}" --teacher more.stir --data points.npz
