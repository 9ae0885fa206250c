#!/usr/bin/env bash
# stator train --save OUT.onnx: the trained values in a copy of the file, whatever field or file they
# lay in; what is not trained stays byte for byte; ONNX Runtime, where it is there, gets the same
# accuracy. What cannot be written is said before the first step.
. "$STATOR_SOURCE/tests/cli/train_kit.sh"

# ---- a model with data in every place ----

mkdir sub
cat >models.py <<'END'
import os, struct, sys
sys.path.insert(0, os.environ["STATOR_SOURCE"] + "/tests/tools")
from bad_models import (FLOAT, FLOAT16, attr_int, attr_tensor, data, external, floats, model, node, number, tensor,
                        value, varint)

w1 = tensor("w1", [2, 3], FLOAT, b"".join(varint(4 << 3 | 5) + floats(v) for v in (1, -1, .5, .25, 2, 0)))
w2 = external("w2", [3, 4], FLOAT, "sub/w2.bin", 8, 48)
w3 = tensor("w3", [4, 1], FLOAT16, data(5, b"".join(varint(v) for v in (0x3c00, 0x3800, 0xb800, 0))))
w3 += data(12, "kept as it is") + data(999, b"an unknown field")
b = tensor("b", [1], FLOAT, data(4, floats(.5)))
frozen = external("frozen", [4], FLOAT, "frozen.bin")
still = tensor("still", [4], FLOAT, data(9, floats(1, 1, 1, 2)))
constant = node("Constant", [], ["k"], attrs=attr_tensor("value", external("k", [4], FLOAT, "sub/w2.bin", 56, 16)))
nodes = [constant, node("MatMul", ["x", "w1"], ["h1"]), node("MatMul", ["h1", "w2"], ["h2"]),
         node("Add", ["h2", "frozen"], ["h3"]), node("Mul", ["h3", "k"], ["h4"]), node("Mul", ["h4", "still"], ["h5"]),
         node("Cast", ["w3"], ["w4"], attrs=attr_int("to", FLOAT)), node("MatMul", ["h5", "w4"], ["h6"]),
         node("Add", ["h6", "b"], ["y"])]
bytes_ = model(nodes, [value("x", ["N", 2])], [value("y", ["N", 1])], [w1, w2, w3, b, frozen, still])
open("all.onnx", "wb").write(bytes_ + data(14, data(1, "who") + data(2, "wrote it")))
open("sub/w2.bin", "wb").write(b"12345678" + floats(*(v / 8 for v in range(12)), 1, 1, -1, 1))
open("frozen.bin", "wb").write(floats(0, 1, 0, -1))
END
python3 models.py || fail "the model was not made"
all=(train all.onnx --loss mse --optimizer sgd --data line.npz --batch 8 --lr 0.01 --freeze 'frozen,still' --backend eager)

says 0 '3 steps' "${all[@]}" --save trained.npz
says 0 '3 steps' "${all[@]}" --save trained.onnx
cp all.onnx over.onnx
says 0 '3 steps' "${all[@]/all.onnx/over.onnx}" --save over.onnx
data=$(ls trained.onnx.*.data)
mkdir elsewhere && cp trained.onnx "$data" elsewhere
parameters() { # model, archive: its parameters, unchanged by a step of rate 0
    says 0 '1 step' train "$1" --loss mse --optimizer sgd --data line.npz --batch 20 --lr 0 --freeze '' --backend eager --save "$2"
}
parameters elsewhere/trained.onnx read.npz
parameters over.onnx over.npz
parameters all.onnx first.npz
python3 - "$data" <<'END' || fail "the copy holds other values"
import os, sys, zipfile

arrays = [{n: z.read(n) for n in z.namelist() if n != "step.npy"}
          for z in map(zipfile.ZipFile, ("trained.npz", "read.npz", "over.npz", "first.npz"))]
trained, read, over, first = arrays
assert sorted(trained) == ["b.npy", "w1.npy", "w2.npy", "w3.npy"], sorted(trained)
assert read == over and all(read[n] == trained[n] and read[n] != first[n] for n in trained)
assert all(read[n] == first[n] for n in ("frozen.npy", "still.npy"))
copy = open("trained.onnx", "rb").read()
for kept in (b"kept as it is", b"an unknown field", b"wrote it"):
    assert kept in copy, kept
assert b"sub/w2.bin" not in copy and b"frozen.bin" not in copy and sys.argv[1].encode() in copy
assert os.path.getsize(sys.argv[1]) == 144  # k at 0, w2 at 64, frozen at 128
END
"$STATOR" print all.onnx >all.txt
"$STATOR" print elsewhere/trained.onnx >trained.txt
strip() { sed -E 's/(= )?(\{[^}]*\}|file\([^)]*\)|blob.*)//g; s/(all|trained)\.onnx//g' "$1"; }
cmp <(strip all.txt) <(strip trained.txt) || fail "the copy is another graph: $(diff <(strip all.txt) <(strip trained.txt))"
[ "$(ls | grep -c part)" = 0 ] || fail "parts are left: $(ls)"

# ---- digits ----

backend=$([[ $backends = *inductor-cpu* ]] && echo inductor-cpu || echo eager)
says 0 '"accuracy":	' train "$digits/digits.onnx" --loss cross_entropy --output /0/0.13/Gemm_output_0 --data "$digits/train.npz" \
    --val "$digits/test.npz" --init random --seed 1 --epochs 2 --lr 0.003 --backend "$backend" --save digits.onnx --json
cp out digits.json
[ "$(stat -c %s digits.onnx)" = "$(stat -c %s "$digits/digits.onnx")" ] || fail "the copy has another size"
python=$STATOR_SOURCE/build/venv-models/bin/python
if [ -x "$python" ] && "$python" -c 'import onnxruntime, numpy' 2>/dev/null; then
    PYTHONPATH= "$python" - "$digits/test.npz" <<'END' || fail "ONNX Runtime has another accuracy"
import json, sys
import numpy as np, onnxruntime as ort
data = np.load(sys.argv[1])
session = ort.InferenceSession("digits.onnx", providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
scores = session.run(None, {name: data[name].astype(np.float32)})[0]
right = int((scores.argmax(1) == data["target"]).sum())
text = open("digits.json").read()
ours = json.loads(text[text.index("{"):])["val"]["accuracy"]
assert right == round(ours * len(data["target"])), (right, ours)
print(f"ONNX Runtime has {right} of {len(data['target'])} right, as we have")
END
else
    echo "no ONNX Runtime: the copy is read by Stator alone"
fi
says 0 '"steps":	17' train digits.onnx --loss cross_entropy --output /0/0.13/Gemm_output_0 --data "$digits/test.npz" --val "$digits/test.npz" \
    --lr 0 --optimizer sgd --backend "$backend" --json
val() { tr -d "\n\t" <"$1" | grep -o "\"val\":{[^}]*}"; }
[ "$(val digits.json)" = "$(val out)" ] || fail "the copy has another accuracy: $(val digits.json) $(val out)"

# ---- what cannot be saved ----

says 3 "the frontend 'text', which read " "${fit[@]}" --save out.stir
grep -q 'epoch' out && fail "it was said behind the training"
says 3 "state.onnx" "${fit[@]}" --save nowhere/state.onnx
(ulimit -f 1 && exec "$STATOR" train digits.onnx --loss cross_entropy --output /0/0.13/Gemm_output_0 --data "$digits/test.npz" \
    --batch 540 --save digits.onnx --backend eager) >out 2>&1 && fail "a full disk is no failure"
grep -q "^stator: cannot write 'digits.onnx': File too large" out || fail "no word of the disk: $(cat out)"
says 0 '1 step' train digits.onnx --loss cross_entropy --output /0/0.13/Gemm_output_0 --data "$digits/test.npz" --batch 540
[ "$(ls | grep -c part)" = 0 ] || fail "parts are left: $(ls)"

# ---- a frontend that is wrong (tests/plugins/border) ----

mkdir -m 755 border && install -m 644 "$STATOR_BUILD/tests/border/border_frontend.so" border/
chmod 755 "$work"
cp line.stir line.border
wrong=("${fit[@]/line.stir/line.border}" --backend eager --plugin-dir border --save out.border)
says 0 '3 steps' "${wrong[@]}"
cmp -s line.border out.border || fail "the copy is another text"
rm out.border
while read -r fault words; do
    STATOR_BORDER=rewrite=$fault says 3 "$words" "${wrong[@]}"
    [ ! -e out.border ] || fail "a frontend that failed ($fault) left a file"
done <<'END'
status=13 border_frontend
file a copy has two files, and no file 7
END
STATOR_BORDER=rewrite=nothing says 3 "the frontend 'border_frontend' wrote nothing" "${wrong[@]}"
