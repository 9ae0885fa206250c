#!/usr/bin/env bash
# stator train --checkpoint: a training that is killed at any of 20 moments and goes on ends with the
# same bits; a checkpoint of another training, a damaged one and a full disk are one sentence each.
. "$STATOR_SOURCE/tests/cli/train_kit.sh"

same_state() { # two archives of --save
    python3 - "$1" "$2" <<'END'
import sys, zipfile
one, two = (zipfile.ZipFile(path) for path in sys.argv[1:])
assert sorted(one.namelist()) == sorted(two.namelist())
assert all(one.read(name) == two.read(name) for name in one.namelist())
END
}
long=("${fit[@]}" --optimizer adamw --lr 0.01 --init random --seed 5 --epochs 400 --val line.npz)
kept=("${long[@]}" --backend eager --checkpoint ck --every 4 --resume "${plugins[@]}")
says 0 '1200 steps: loss' "${long[@]}" --backend eager --save whole.npz
grep -o 'epoch 400 of 400.*' out >whole.txt

# ---- killed ----

killed=0
for k in $(seq 20); do
    "$STATOR" "${kept[@]}" >killed.txt 2>&1 &
    pid=$!
    sleep "0.$(printf %03d $((25 + k * 37 % 60)))"
    kill -9 $pid 2>/dev/null && killed=$((killed + 1))
    wait $pid 2>/dev/null || true
done
[ "$killed" = 20 ] || echo "killed $killed times: the training had ended before"
[ "$killed" -ge 5 ] || fail "only $killed trainings were killed"
says 0 '1200 steps: loss' "${kept[@]}" --save parts.npz
grep -o 'epoch 400 of 400.*' out >parts.txt
cmp whole.txt parts.txt || fail "the last epoch is another one: $(cat whole.txt parts.txt)"
same_state whole.npz parts.npz || fail "a training that was killed ends with other bits"
[ "$(ls ck)" = checkpoint.npz ] || fail "the folder holds $(ls ck)"

# In the middle of an epoch, on each backend, and on a device.
half() { # backend, options...
    local backend=$1
    shift
    rm -rf half
    says 0 '9 steps: loss' "${fit[@]}" --optimizer adamw --epochs 3 --backend "$backend" "$@" --save one.npz
    says 0 '3 steps: loss' "${fit[@]}" --optimizer adamw --backend "$backend" "$@" --checkpoint half --every 2
    says 0 'goes on behind step 2 (epoch 1)' "${fit[@]}" --optimizer adamw --epochs 3 --backend "$backend" "$@" \
        --checkpoint half --resume --save two.npz
    same_state one.npz two.npz || fail "on $backend $* a resumed training ends with other bits"
}
for backend in aot_eager $backends; do
    half "$backend"
done
if [ -d "$soft" ]; then
    export STATOR_SOFT_DEVICE=1
    half cuda_soft --plugin-dir "$soft"
    half cuda_soft --plugin-dir "$soft" --device cuda_soft:0
fi
says 0 '"resumed_at":	9' "${fit[@]}" --optimizer adamw --epochs 3 --backend eager --checkpoint half --resume --json

# ---- refused ----

go=("${fit[@]}" --checkpoint mine)
says 0 '3 steps' "${go[@]}"
says 3 "'mine/checkpoint.npz' is there already" "${go[@]}"
says 3 'past --epochs 1' "${go[@]}" --resume --epochs 2 --checkpoint half --optimizer adamw --epochs 1
says 3 'lr is 0.3 there and 0.2 here' "${go[@]}" --resume --lr 0.2
says 3 'optimizer is "sgd" there and "adam" here' "${go[@]}" --resume --optimizer adam
says 3 'option momentum is 0 there and 0.5 here' "${go[@]}" --resume --opt momentum=0.5
says 3 'option clip_norm is 0 there and 1 here' "${go[@]}" --resume --clip-norm 1
says 3 'seed is 0 there and 1 here' "${go[@]}" --resume --seed 1
sed 's/add(%p, %b)/sub(%p, %b)/' line.stir >other.stir
says 3 'of another training: model is "' "${go[@]/line.stir/other.stir}" --resume
sed 's/{0}/{1}/' line.stir >frozen.stir
says 0 '3 steps' "${fit[@]}" --freeze b --checkpoint b
says 3 'of another training: frozen parameters is "' "${fit[@]/line.stir/frozen.stir}" --freeze b --checkpoint b --resume
python3 - <<'END' || fail "the other data were not made"
from line_data import archive, t, x
archive("other.npz", x=x, target=(t[0], t[1], t[2][::-1]))
END
says 3 'of another training: data is "' "${go[@]/line.npz/other.npz}" --resume
says 3 '--every and --resume need --checkpoint' "${fit[@]}" --resume
says 3 "cannot make the folder 'no/where'" "${fit[@]}" --checkpoint no/where
says 3 "cannot open the folder 'line.npz'" "${fit[@]}" --checkpoint line.npz
flock mine "$STATOR" "${go[@]}" --resume "${plugins[@]}" >out 2>&1 && fail "two trainings write to one folder"
grep -q "another training writes its checkpoints into 'mine'" out || fail "no word of the other training: $(cat out)"

# Values count, not how they are written: a number, a list, an option at its default, globs for the same.
same=("${fit[@]}" --optimizer adam --checkpoint values)
says 0 '3 steps' "${same[@]}" --opt betas=0.8,0.99 --opt eps=1e-7 --clip-norm 0.5 --lr 0.1 --freeze b
says 0 '6 steps' "${same[@]}" --opt betas=8e-1,0.990 --opt eps=0.0000001 --opt clip_norm=5e-1 --opt amsgrad=0 --lr 1e-1 \
    --schedule constant --shuffle on --freeze 'b*' --resume --epochs 2
says 3 'option betas is [0.8,0.99] there and [0.8,0.999] here' "${same[@]}" --opt betas=0.8,0.999 --opt eps=1e-7 --clip-norm 0.5 \
    --lr 0.1 --freeze b --resume --epochs 3

# More epochs: with a schedule that ends with the last step its end has to be said.
falls=("${fit[@]}" --schedule linear --checkpoint falls)
says 0 '6 steps' "${falls[@]}" --epochs 2
says 3 'option total_steps is 6 there and 9 here' "${falls[@]}" --epochs 3 --resume
grep -q 'hint: the schedule ends with the last step, which --epochs moves; --opt total_steps=6 keeps' out || fail "no way out: $(cat out)"
says 0 '9 steps' "${falls[@]}" --epochs 3 --resume --opt total_steps=6 --log rates.jsonl
[ "$(grep -c '"lr":0,' rates.jsonl)" = 3 ] || fail "the rates behind the end are others: $(cat rates.jsonl)"
says 0 '3 steps' "${fit[@]}" --schedule warmup --opt warmup=4 --checkpoint rises
says 0 '9 steps' "${fit[@]}" --schedule warmup --opt warmup=4 --checkpoint rises --resume --epochs 3

# ---- damaged ----

size=$(stat -c %s mine/checkpoint.npz)
cp mine/checkpoint.npz sound.npz
for cut in 0 1 $((size / 2)) $((size - 1)); do
    head -c "$cut" sound.npz >mine/checkpoint.npz
    says 3 'mine/checkpoint.npz is damaged, or is no checkpoint: ' "${go[@]}" --resume
done
python3 - <<'END' || fail "the damaged checkpoints were not made"
import json
import zipfile
from npy import write

sound = open("sound.npz", "rb").read()
info = zipfile.ZipFile("sound.npz").getinfo("state/w.npy")
at = sound.index(b"state/w.npy") + 80  # an element, behind the names
open("bits.npz", "wb").write(sound[:at] + bytes([sound[at] ^ 1]) + sound[at + 1:])
arrays = {i.filename: zipfile.ZipFile("sound.npz").read(i) for i in zipfile.ZipFile("sound.npz").infolist()}
def without(path, name, data=None):
    with zipfile.ZipFile(path, "w") as z:
        for key, value in arrays.items():
            if key != name or data is not None:
                z.writestr(key, value if key != name else data)
without("missing.npz", "state/w.npy")
without("who.npz", "run/identity.npy")
without("where.npz", "run/position.npy")
without("shape.npz", "state/w.npy", arrays["state/b.npy"])
row = arrays["run/position.npy"]
for name, at in ("row", (3, 0, 21)), ("none", (3, 0, 0)), ("within", (2, 0, 9)), ("steps", (4, 0, 20)), ("epoch", (3, 1, 20)), (
        "far", (3, 2**62, 20)), ("negative", (-3, -2, 20)):
    without(name + "_at.npz", "run/position.npy", row[:-24] + b"".join(v.to_bytes(8, "little", signed=True) for v in at))
step = arrays["state/step.npy"]
without("step.npz", "state/step.npy", step[:-8] + (2).to_bytes(8, "little"))
losses = arrays["run/losses.npy"]
word = arrays["run/identity.npy"]
new = json.loads(word[word.index(b"\n") + 1:])
old = {key: value for key, value in new.items() if key not in ("budget", "teacher", "teacher_output", "teacher_loss", "train_mode")}
assert len(old) == len(new) - 5
text = json.dumps(old).encode()
write("identity.npy", "|u1", (len(text),), text)
without("old.npz", "run/identity.npy", open("identity.npy", "rb").read())
without("nan.npz", "run/losses.npy", losses[:-8] + bytes([0, 0, 0, 0, 0, 0, 0xf8, 0x7f]))
END
while read -r file words; do
    cp "$file.npz" mine/checkpoint.npz
    says 3 "is damaged, or is no checkpoint: $words" "${go[@]}" --resume
done <<'END'
bits member 'state/w.npy'
missing an array of the state is missing
who it does not say of which training it is
where it does not say where the training stands
shape an array has another dtype or shape than its parameter
row_at it stands at a row that the data have not
none_at it stands at a row that the data have not
within_at it stands at a row within a step
steps_at its step, epoch and row contradict each other
epoch_at its step, epoch and row contradict each other
far_at its step, epoch and row contradict each other
negative_at its step, epoch and row contradict each other
step the step number of its state is another than that of its position
nan a loss in it is not finite
END
cp old.npz mine/checkpoint.npz # of a build that knew neither budgets nor teachers
says 3 'of another training: budget is not said there and 0.5 here' "${go[@]}" --resume --epochs 2 --budget 0.5
says 0 '6 steps' "${go[@]}" --resume --epochs 2
cp sound.npz mine/checkpoint.npz
says 0 '6 steps' "${go[@]}" --resume --epochs 2

# ---- a full disk ----

cp mine/checkpoint.npz before.npz
(ulimit -f 1 && exec "$STATOR" "${go[@]}" --resume --epochs 3 "${plugins[@]}") >out 2>&1 && fail "a full disk is no failure"
grep -q "^stator: cannot write 'mine/checkpoint.npz': .*File too large" out || fail "no word of the disk: $(cat out)"
grep -q 'the checkpoint before is still there' out || fail "no word of the checkpoint before: $(cat out)"
cmp -s before.npz mine/checkpoint.npz || fail "the checkpoint before is gone"
says 0 '9 steps' "${go[@]}" --resume --epochs 3
[ "$(ls mine)" = checkpoint.npz ] || fail "the folder holds $(ls mine)"
(ulimit -f 1 && exec "$STATOR" "${fit[@]}" --checkpoint none "${plugins[@]}") >out 2>&1 && fail "a full disk is no failure"
grep -q 'the checkpoint before' out && fail "there was no checkpoint before: $(cat out)"
[ -z "$(ls -A none)" ] || fail "the folder holds $(ls -A none)"
