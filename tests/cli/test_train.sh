#!/usr/bin/env bash
# stator train: digits from random weights, two runs of equal bits, the log, what a step is made of,
# and each bad input as one sentence.
. "$STATOR_SOURCE/tests/cli/train_kit.sh"

net=(--loss cross_entropy --output /0/0.13/Gemm_output_0 --data "$digits/train.npz")

python3 - <<'END' || fail "the data were not made"
import struct
from line_data import archive, floats, t, x

archive("wide.npz", x=("<f8", (20, 2), struct.pack("<40d", *range(40))), target=t)
archive("missing.npz", x=x)
archive("more.npz", x=x, target=t, weight=t)
archive("rows.npz", x=x, target=("<f4", (19, 1), floats(*range(19))))
archive("shape.npz", x=("<f4", (20, 3), floats(*range(60))), target=t)
archive("kind.npz", x=("<i8", (20, 2), struct.pack("<40q", *range(40))), target=t)
archive("huge.npz", x=("<f4", (20, 2), floats(*[1e38] * 40)), target=t)
archive("classes.npz", x=x, target=("<i8", (20,), struct.pack("<20q", *[0] * 19, 3)))
END
sed 's/f32\[2, 1\] = {0, 0}/f32[2, 3] = {0, 1, 0, 0, 0, 1}/' line.stir >three.stir
sed 's/N, 2/4, 2/; s/^sym.*//' line.stir >four.stir

says 0 '"steps":	120' "${fit[@]}" --epochs 40 --val line.npz --json
grep -q '"dropped_rows":	0' out || fail "rows were left out: $(cat out)"
says 0 'the last batch has 4 of 8 rows and is kept' "${fit[@]}"
says 0 'the last batch has 4 of 8 rows and is left out' "${fit[@]}" --last drop
says 0 '"dropped_rows":	4' "${fit[@]}" --last drop --json
says 0 'epoch 40 of 40: loss' "${fit[@]}" --epochs 40 --opt momentum=0.5 --log log.jsonl
[ "$(wc -l <log.jsonl)" = 120 ] || fail "the log has $(wc -l <log.jsonl) lines"
python3 - <<'END' || fail "the log is wrong: $(tail -1 log.jsonl)"
import json
rows = [json.loads(line) for line in open("log.jsonl")]
assert [r["step"] for r in rows] == list(range(1, 121)) and rows[-1]["epoch"] == 40
assert all(r["lr"] == 0.3 and r["ms"] > 0 for r in rows)
assert rows[0]["loss"] > 0.5 and rows[-1]["loss"] < 1e-6  # of a line nothing is left
END
says 0 'steps: loss' "${fit[@]}" --schedule linear --epochs 4 --log log.jsonl
python3 - <<'END' || fail "the rates are wrong: $(cat log.jsonl)"
import json
rates = [json.loads(line)["lr"] for line in open("log.jsonl")]
assert all(abs(r - 0.3 * (1 - k / 12)) < 1e-12 for k, r in enumerate(rates)), rates
END
says 0 'steps: loss' "${fit[@]}" --optimizer sgd --freeze 'b*' --clip-norm 1 --shuffle off
says 0 '1 step: loss' train line.stir --loss y --optimizer adam --data missing.npz
says 0 'steps: loss' train four.stir --loss mse --data line.npz --batch 4
says 0 'steps: loss' "${fit[@]}" --data wide.npz --lr 1e-4 # f64 becomes f32

# ---- equal bits ----

losses() { sed 's/,"ms".*//' "$1"; }
again=("${fit[@]}" --init random --seed 3 --epochs 3)
for backend in aot_eager $backends; do
    for k in 1 2; do
        says 0 'steps: loss' "${again[@]}" --backend "$backend" --threads "$([ "$backend" = eager ] && echo $k || echo 2)" \
            --log "log$k.jsonl" --save "state$k.npz"
    done
    python3 - <<'END' || fail "two runs on $backend end differently"
import zipfile
one, two = (zipfile.ZipFile(f"state{k}.npz") for k in (1, 2))
assert sorted(one.namelist()) == ["b.npy", "step.npy", "w.npy"]
assert all(one.read(name) == two.read(name) for name in one.namelist())
assert one.read("step.npy")[-8:] == (9).to_bytes(8, "little")
END
    losses log1.jsonl >one && losses log2.jsonl >two
    cmp -s one two || fail "two runs on $backend differ"
done
if [ -d "$soft" ]; then
    for device in "" "--device cuda_soft:0"; do
        STATOR_SOFT_DEVICE=1 says 0 '120 steps: loss' "${fit[@]}" --epochs 40 --backend cuda_soft $device \
            --plugin-dir "$soft" --log soft.jsonl
    done
    says 0 'steps: loss' "${fit[@]}" --epochs 40 --backend eager --log log.jsonl
    python3 - <<'END' || fail "cuda_soft is off: $(tail -1 soft.jsonl)"
import json
rows = [[json.loads(line)["loss"] for line in open(f)] for f in ("log.jsonl", "soft.jsonl")]
assert all(abs(a - b) <= 1e-6 * (1 + abs(a)) for a, b in zip(*rows))
END
fi

# ---- digits ----

if [ "${backends%inductor-cpu}" != "$backends" ]; then
    says 0 '"steps":	480' train "$digits/digits.onnx" "${net[@]}" --val "$digits/test.npz" --init random --seed 1 \
        --epochs 12 --lr 0.003 --schedule cosine --backend inductor-cpu --json
    accuracy=$(sed -n 's/.*"accuracy":	\([0-9.]*\).*/\1/p' out)
    awk "BEGIN { exit !(0$accuracy >= 0.97) }" || fail "of the test split $accuracy are right"
fi

# ---- bad input ----

says 3 "there is no loss 'mss'; did you mean 'mse'?" train line.stir --loss mss --data line.npz
says 3 "there is no optimizer 'sdg'; did you mean 'sgd'?" "${fit[@]}" --optimizer sdg
says 3 "there is no option 'momentun'; did you mean 'momentum'?" "${fit[@]}" --opt momentun=1
says 3 "option betas is '1', expected 2 numbers" "${fit[@]}" --optimizer adam --opt betas=1
says 3 "option betas is '0.9,1', expected 2 numbers in [0, 1) with commas between" "${fit[@]}" --optimizer adam --opt betas=0.9,1
says 3 "option clip_norm is '-1', expected a number in [0, inf)" "${fit[@]}" --clip-norm -1
says 3 "option clip_norm is '1e-300', and f32 cannot hold 1e-300: it would be 0" "${fit[@]}" --clip-norm 1e-300
says 3 '--lr is 1e+39, which f32 cannot hold: it would be inf' "${fit[@]}" --lr 1e39
says 3 "option warmup is '-2', expected a whole number in [0, inf)" "${fit[@]}" --schedule linear --opt warmup=-2
says 3 'option warmup is 4, more than total_steps, which is 3' "${fit[@]}" --schedule linear --opt warmup=4
says 0 '3 steps: loss' "${fit[@]}" --schedule linear --opt warmup=3
says 3 'option nesterov needs a momentum and no dampening, and momentum is 0' "${fit[@]}" --opt nesterov=1
says 3 "there is no option 'lr': the rate is an input of the step, and --lr of 'stator train' gives it" "${fit[@]}" --opt lr=1
says 3 "there is no option 'betas' in this step: the optimizers adam and adamw have it" "${fit[@]}" --opt betas=0.9,0.99
says 3 "there is no schedule 'cosin'; did you mean 'cosine'?" "${fit[@]}" --schedule cosin
says 3 'no parameter is left to train' "${fit[@]}" --freeze '*'
says 3 "--init is 'rnd', expected keep or random" "${fit[@]}" --init rnd
says 3 '--epochs is 0, expected 1 to 2147483647' "${fit[@]}" --epochs 0
says 3 '--loss is missing' train line.stir --data line.npz
says 3 '--data is missing' train line.stir --loss mse
says 3 "missing.npz has no array 'target'; it has x" "${fit[@]}" --data missing.npz
says 3 'nowhere.npz: cannot be opened' "${fit[@]}" --data nowhere.npz --schedule cosine
says 3 'a glob of the option freeze has 300 bytes, and at most 255 are read' "${fit[@]}" --data missing.npz \
    --freeze "$(printf '%300s' '' | tr ' ' '*')"
says 3 "no input has the name of array 'weight'" "${fit[@]}" --data more.npz
says 3 "array 'target' has 19 rows, 'x' has 20" "${fit[@]}" --data rows.npz
says 3 "array 'x' is [20, 3], and the input is [-1, 2]" "${fit[@]}" --data shape.npz
says 3 "array 'x' is i64, and the input is f32" "${fit[@]}" --data kind.npz
says 3 'nowhere.npz: ' "${fit[@]}" --data nowhere.npz
says 3 'has 20 rows, less than one batch of 21' "${fit[@]}" --last drop --batch 21
says 3 "--batch is 8, and input 'x' takes batches of 4" train four.stir --loss mse --data line.npz --batch 8
says 3 "element 19 of 'target' is 3, and the model has 3 classes" train three.stir --loss cross_entropy --data classes.npz
says 3 'log.jsonl' "${fit[@]}" --log nowhere/log.jsonl
says 3 'state.npz' "${fit[@]}" --save nowhere/state.npz
says 1 'the loss is inf at step 2 (epoch 1)' "${fit[@]}" --data huge.npz --lr 1
says 1 '"stopped_at":	' "${fit[@]}" --epochs 200 --lr 1e9 --json

# ---- gradients of several batches ----

for backend in aot_eager $backends; do
    for rows in 20 5 4; do
        says 0 "30 steps: loss" "${fit[@]}" --optimizer adamw --lr 0.1 --batch $rows --accumulate $((20 / rows)) --epochs 30 \
            --shuffle off --opt clip_norm=1 --backend "$backend" --log "rows$rows.jsonl" --save "rows$rows.npz"
    done
    python3 - <<'END' || fail "batches added up on $backend are another step than one of all rows"
import json, struct, zipfile
whole, *parts = [[json.loads(line)["loss"] for line in open(f"rows{n}.jsonl")] for n in (20, 5, 4)]
assert whole[-1] < whole[0] / 10
for part in parts:
    assert all(abs(a - b) <= 1e-5 * abs(a) for a, b in zip(whole, part)), (whole, part)
sums = zipfile.ZipFile("rows5.npz").read("sum_w.npy")
assert struct.unpack("<2f", sums[-8:]) == (0, 0)
END
done
says 0 '4 steps: loss' "${fit[@]}" --accumulate 2 --epochs 2 # 8 and 8 rows, then 4
says 0 '2 steps: loss' "${fit[@]}" --accumulate 2 --epochs 2 --last drop
says 0 '4 steps: loss' "${fit[@]}" --accumulate 2 --epochs 2 --schedule linear --log log.jsonl
python3 - <<'END' || fail "the rates are wrong: $(cat log.jsonl)"
import json
rates = [json.loads(line)["lr"] for line in open("log.jsonl")]
assert all(abs(r - 0.3 * (1 - k / 4)) < 1e-12 for k, r in enumerate(rates)), rates
END
# Names say nothing: parameters may be called as inputs of a step are.
cat >names.stir <<'END'
stir 1
sym N in [1, 1000]
graph @line(%x: f64[N, 2], param %w "lr": f64[2, 1] = {0, 0}, param %g "lr_gain": f64[] = {1}, param %s "batches": f64[] = {1}) {
  %p = matmul(%x, %w)
  %q = mul(%p, %g)
  %y = mul(%q, %s)
  return y: %y
}
END
for rows in 20 10; do
    says 0 '5 steps: loss' train names.stir --loss mse --optimizer sgd --lr 0.3 --data line.npz --batch $rows \
        --accumulate $((20 / rows)) --epochs 5 --shuffle off --log "names$rows.jsonl"
done
python3 - <<'END' || fail "a parameter was taken for an input of the step"
import json
one, two = ([json.loads(line)["loss"] for line in open(f"names{n}.jsonl")] for n in (20, 10))
assert all(abs(a - b) <= 1e-12 for a, b in zip(one, two)), (one, two)
END
says 3 '--nan-check looks at steps of one batch' "${fit[@]}" --accumulate 2 --nan-check

# ---- what the loss reads ----

cat >read.stir <<'END'
stir 1
sym N in [1, 1000]
graph @line(%x: f32[N, 2], param %w "inner": f32[2, 1] = {0, 0}, param %b "b": f32[1] = {0}) {
  %inner = matmul(%x, %w)
  %y = add(%inner, %b)
  %twice = concat(%inner, %y) {axis = 0}
  %sum = reduce_sum(%y) {axes = [0], keepdims = 1}
  %z = tanh(%y)
  return y: %z
}
END
sed 's/N, 2/4, 2/; s/^sym.*//' read.stir >read4.stir
reads=(--loss mse --optimizer sgd --lr 0.3 --data line.npz)
says 3 "the model has no output or value 'iner', did you mean 'inner'?" train read.stir "${reads[@]}" --output iner
says 3 "the model has no output or value 'nowhere'" train read.stir "${reads[@]}" --output nowhere
says 0 'steps: loss' train read.stir "${reads[@]}" --batch 8 --output inner # what the node makes, and not the parameter
says 0 'steps: loss' train read4.stir "${reads[@]}" --batch 4 --output inner
says 3 "output is given, which names what a loss of the table reads, and the loss 'y' is an output of the model itself" \
    train read.stir --loss y --optimizer sgd --data line.npz --output inner
says 3 "--output 'sum', which the loss mse reads, has size 1 along axis 0, and a batch has the 8 rows of --batch" \
    train read.stir "${reads[@]}" --batch 8 --output sum
says 3 "--output 'twice', which the loss mse reads, has size 8 along axis 0, and a batch has the 4 rows of input 'x'" \
    train read4.stir "${reads[@]}" --batch 4 --output twice
cat >two.stir <<'END'
stir 1
sym N in [1, 1000]
graph @two(%n: f32[N, 2], %x: f32[4, 2], %z: f32[2, 4], param %w "w": f32[2, 1] = {0, 0}) {
  %p = matmul(%z, %x)
  %q = matmul(%p, %w)
  return y: %q
}
END
python3 - <<'END' || fail "the data were not made"
from line_data import archive, floats, t, x
archive("two.npz", n=x, x=x, z=("<f4", (20, 4), floats(*range(80))), target=t)
END
says 3 "input 'z' takes batches of 2, and input 'x' of 4" train two.stir --loss l1 --data two.npz --batch 2

# ---- what the loss reads stays, and attention beside it is found ----

cat >attention.stir <<'END'
stir 1
sym N in [1, 1000]
graph @main(%x: f32[N, 2, 3, 4], param %w "w": f32[4] = {1, 2, 1, 2}) {
  %k = mul(%x, %w)
  %t = transpose(%k) {perm = [0, 1, 3, 2]}
  %s = matmul(%x, %t)
  %c = constant {value = f32[] {0.5}}
  %z = mul(%s, %c)
  %p = softmax(%z) {axis = 3}
  %y = matmul(%p, %x)
  %m = neg(%y)
  %kept = neg(%m)
  %out = tanh(%kept)
  return out: %out
}
END
python3 - <<'END' || fail "the data were not made"
from line_data import archive, floats

numbers = [(i * 7 % 11 - 5) / 5 for i in range(4 * 24)]
archive("rows.npz", x=("<f4", (4, 2, 3, 4), floats(*numbers)), target=("<f4", (4, 2, 3, 4), floats(*reversed(numbers))))
archive("square.npz", x=("<f4", (4, 2, 3, 4), floats(*numbers)), target=("<f4", (4, 2, 3, 3), floats(*numbers[:72])))
END
rows=(train attention.stir --loss mse --optimizer sgd --lr 0.1 --batch 2)
for output in out kept y; do # a rule would do away with the second
    "$STATOR" "${rows[@]}" --data rows.npz --output $output --write-step step.stir || fail "no step that reads $output"
    grep -q 'sdpa_gradient(' step.stir || fail "no attention beside what the loss reads, $output"
    says 0 '2 steps: loss' "${rows[@]}" --data rows.npz --output $output --log $output.jsonl
done
cmp <(losses kept.jsonl) <(losses y.jsonl) || fail "two names of one value have two losses"
"$STATOR" "${rows[@]}" --data square.npz --output p --write-step step.stir || fail "no step that reads p"
grep -q 'sdpa' step.stir && fail "the loss reads probabilities of attention that keeps none"
says 0 '2 steps: loss' "${rows[@]}" --data square.npz --output p

# ---- a checkpoint is computed again: the normal form leaves it whole ----

cat >checkpoint.stir <<'END'
stir 1
sym N in [1, 1000]
graph @main(%x: f32[N, 2], param %w "w": f32[2, 1] = {0.5, 1}, param %b "b": f32[1] = {0}) {
  %p = matmul(%x, %w)
  %c = call(%p) {checkpoint = 1} @"/block":Block
    region @block(%a: f32[N, 1]) {
      %1 = exp(%a) @"/block/exp":Exp
      %2 = tanh(%1) @"/block/tanh":Tanh
      return %2
    }
  %i = neg(%c)
  %h = neg(%i)
  %y = add(%h, %b)
  return y: %y
}
END
for output in '' '--output h' '--output c'; do
    "$STATOR" train checkpoint.stir --loss mse --optimizer sgd --data line.npz $output --write-step step.stir || fail "no step"
    grep -q '@"recomputed /block/exp"' step.stir || fail "a checkpoint was lost, $output: $(cat step.stir)"
done

# ---- a loss that no parameter has a part in ----

sed 's/^  return/  %z = neg(%x)\n  return z: %z,/' line.stir >apart.stir
apart="the loss reads no parameter that is trained: 'z', which mse reads, depends on none of the 2, such as 'w'"
says 3 "$apart" "${fit[@]/line.stir/apart.stir}"
says 3 "the loss reads no parameter that is trained: output 'z' depends on none of the 2, such as 'w'" \
    train apart.stir --loss z --data line.npz --batch 8
sed 's/z: %z/answer: %z/' apart.stir >answer.stir # the output's name, not that of the value behind it
says 3 "${apart/\'z\'/\'answer\'}" "${fit[@]/line.stir/answer.stir}"
says 3 "output 'answer' depends on none of the 2" train answer.stir --loss answer --data line.npz --batch 8
says 0 '3 steps: loss' "${fit[@]/line.stir/apart.stir}" --output y
sed 's/^  return/  %i = cast(%y) {dtype = i64}\n  %z = cast(%i) {dtype = f32}\n  return z: %z,/' line.stir >whole.stir
says 3 "$apart" "${fit[@]/line.stir/whole.stir}"
python3 - <<'END' || fail "the data were not made"
from line_data import archive, floats, t, x
archive("unknown.npz", x=x, target=("<f4", (20, 1), floats(*[-float("nan")] * 20)))
END
says 0 '1 step: loss ' "${fit[@]}" --batch 20
says 0 ', validation nan' "${fit[@]}" --batch 20 --val unknown.npz

# ---- a picture; the first node that is not finite ----

says 0 'steps: loss' "${fit[@]}" --epochs 40 --val line.npz --plot losses.svg
python3 - <<'END' || fail "the picture is wrong"
import xml.dom.minidom
picture = xml.dom.minidom.parse("losses.svg")
lines = [line.getAttribute("points").split() for line in picture.getElementsByTagName("polyline")]
assert [len(points) for points in lines] == [120, 40], [len(points) for points in lines]
ys = [float(point.split(",")[1]) for point in lines[0]]
assert ys[0] < ys[-1] and all(0 <= y <= 400 for y in ys)  # a loss that falls
END
says 3 'nowhere/losses.svg' "${fit[@]}" --plot nowhere/losses.svg
says 0 'steps: loss' "${fit[@]}" --epochs 2 --nan-check
sed 's/add(%p, %b)/add(%p, %q)/; s/^  return/  %z = neg(%y)\n  return/; s/^  %p = .*/&\n  %q = sqrt(%b)/' line.stir >root.stir
says 1 'a parameter or a state is not finite at step 1 (epoch 1)' "${fit[@]/line.stir/root.stir}" --nan-check
grep -q "the first value that is not finite is of .*backward of .*; its operands are in \[" out || fail "no word of the node: $(cat out)"
sed 's/b": f32\[1\] = {0}/b": f32[1] = {-1}/' root.stir >negative.stir
says 1 'the loss is nan at step 1 (epoch 1)' "${fit[@]/line.stir/negative.stir}" --nan-check
grep -q "op sqrt; its operands are in \[-1, -1\]" out || fail "no word of the root: $(cat out)"
python3 - <<'END' || fail "the data were not made"
from line_data import archive, floats, t
archive("nan.npz", x=("<f4", (20, 2), floats(*[0] * 39, float("nan"))), target=t)
END
says 1 "input 'x' of that step is not finite" "${fit[@]/line.npz/nan.npz}" --nan-check --batch 20

# ---- every parameter and moment is written where it lies ----

# The bias of the last layer is updated by a sum of the scores' gradient, which library calls read.
python3 - <<'END' || fail "the layers were not made"
import struct

from npy import archive, floats

archive("layers.npz", x=("<f4", (16, 256), floats(*[k % 13 / 13 for k in range(16 * 256)])),
        target=("<i8", (16,), struct.pack("<16q", *range(16))))
sizes = [(256, 256), (256, 256), (256, 500)]
parameters, body = [], []
for k, (n, m) in enumerate(sizes):
    for name, dims in (("w", f"{n}, {m}"), ("b", f"{m}")):
        zeros = ", ".join(["0"] * (n * m if name == "w" else m))
        parameters.append(f'param %{name}{k} "{name}{k}": f32[{dims}] = {{{zeros}}}')
    body.append(f"  %p{k} = matmul(%h{k}, %w{k})\n  %q{k} = add(%p{k}, %b{k})\n  %h{k + 1} = gelu(%q{k})\n")
with open("layers.stir", "w") as f:
    f.write(f'stir 1\ngraph @layers(%h0 "x": f32[8, 256], {", ".join(parameters)}) {{\n{"".join(body)}  return y: %q2\n}}\n')
END
"$STATOR" train layers.stir --loss cross_entropy --data layers.npz --init random --seed 1 --batch 8 --write-step layers.stirb ||
    fail "no step of the layers"
for backend in $backends; do
    case $backend in eager | loops | inductor-cpu) ;; *) continue ;; esac
    says 0 '19 of 19 inputs written in place, 0 bytes copied' run layers.stirb --random 0 --backend "$backend"
done
echo "trained on: aot_eager $backends"
