#!/usr/bin/env bash
# The files of stator train: a model is saved over itself whole or not at all, with the data that lie
# beside it; links, modes, pipes; a model that is cut while it is trained; what cannot be written is
# said before the first step.
. "$STATOR_SOURCE/tests/cli/train_kit.sh"

# ---- a model with data of its own: w in w.bin, f, which stays, in f.bin ----

cat >models.py <<'END'
import os, sys
sys.path.insert(0, os.environ["STATOR_SOURCE"] + "/tests/tools")
from bad_models import FLOAT, external, floats, model, node, value

io = [value("x", ["N", 2])], [value("y", ["N", 1])]
f = external("f", [1], FLOAT, "f.bin", 0, 4)
for file, w in ("first", "w"), ("long", "w" * 300), ("odd", "w\x01"):
    nodes = [node("MatMul", ["x", w], ["h"]), node("Add", ["h", "f"], ["y"])]
    open(file + ".onnx", "wb").write(model(nodes, *io, [external(w, [2, 1], FLOAT, "w.bin", 0, 8), f]))
open("w.bin", "wb").write(floats(.25, .5))
open("f.bin", "wb").write(floats(2))
import zipfile
open("rows.npy", "wb").write(zipfile.ZipFile("line.npz").read("x.npy"))
END
python3 models.py || fail "the models were not made"
options=(--loss mse --optimizer sgd --data line.npz --batch 8 --lr 0.1 --freeze f --shuffle off --backend eager)
learn() { # status, words, model, options...
    local want=$1 words=$2 model=$3
    shift 3
    says "$want" "$words" train "$model" "${options[@]}" "$@"
}
values() { # model: what it computes of the data, which tells w and f
    "$STATOR" run "$1" --backend eager --input x=rows.npy --save values.npz >values.txt 2>&1 || fail "$1: $(cat values.txt)"
    python3 -c 'import zipfile; print(zipfile.ZipFile("values.npz").read("y.npy")[-16:].hex())'
}
no_parts() { ! ls -A "$@" | grep '\.part$' || fail "parts are left"; }
data_of() { ls "$1".*.data 2>/dev/null || true; }

# ---- over what the model reads ----

for option in --log --plot --save; do
    learn 3 "$option 'w.bin' would be written over data of the model" first.onnx $option w.bin
done
learn 3 "--log 'f.bin' would be written over data of the model" first.onnx --log f.bin
learn 3 "--log './w.bin' would be written over data of the teacher" "$PWD/line.stir" --teacher first.onnx --log ./w.bin
learn 3 "--log and the constants of --write-step write to one place, 'w.blob'" line.stir --write-step w.stir --log w.blob
"$STATOR" opt --pass canonicalize "$digits/digits.onnx" -o digits.stir "${plugins[@]}" >out 2>&1 || fail "$(cat out)"
mv digits.blob other.blob && sed -i 's/digits\.blob/other.blob/' digits.stir
says 3 "--log 'other.blob' would be written over data of the model" train digits.stir --loss cross_entropy \
    --data "$digits/train.npz" --log other.blob
[ "$(wc -c <w.bin)" = 8 ] && [ "$(wc -c <f.bin)" = 4 ] || fail "data of the model were written over"

# ---- over itself: each copy has data of its own name ----

cp first.onnx m.onnx
first=$(values m.onnx)
learn 0 '3 steps' m.onnx --save m.onnx
one=$(data_of m.onnx) second=$(values m.onnx)
[[ $one =~ ^m\.onnx\.[0-9a-f]{16}\.data$ ]] || fail "the data are $one"
[ "$second" != "$first" ] && [ -e w.bin ] && [ -e f.bin ] || fail "the copy is the model before, or files of others are gone"
# The data of the copy before stay, and it is said where: a model of whatever folder may name them.
learn 0 "'$one', the data of the model that 'm.onnx' was, stay" m.onnx --save m.onnx
[ "$(data_of m.onnx | wc -l)" = 2 ] || fail "the data are $(data_of m.onnx)"
two=$(data_of m.onnx | grep -v "$one") third=$(values m.onnx)
[ "$third" != "$second" ] || fail "nothing was trained"
mkdir below && cp m.onnx "$two" below/
python3 - "below/$two" <<'END' || fail "the model above was not made"
import os, sys
sys.path.insert(0, os.environ["STATOR_SOURCE"] + "/tests/tools")
from bad_models import FLOAT, external, model, node, value
io = [value("x", ["N", 2])], [value("y", ["N", 1])]
open("above.onnx", "wb").write(model([node("MatMul", ["x", "w"], ["y"])], *io, [external("w", [2, 1], FLOAT, sys.argv[1], 0, 8)]))
END
above=$(values above.onnx)
learn 0 'the data of the model that' below/m.onnx --save below/m.onnx
[ "$(values above.onnx)" = "$above" ] || fail "the data of a model in the folder above are gone"
rm "$one" # "$two" is named by nothing from here on
echo stays | tee m.onnx.data >m.onnx.0123456789abcdef.data
learn 0 '3 steps' m.onnx --save m.onnx
[ "$(cat m.onnx.data m.onnx.0123456789abcdef.data)" = "$(printf 'stays\nstays')" ] || fail "files of others were touched"
rm m.onnx.data m.onnx.0123456789abcdef.data "$two"

# A name is cut at the end of a character.
long=$(printf 'x%.0s' $(seq 199))é.onnx
cp first.onnx "$long"
learn 0 '3 steps' "$long" --save "$long"
ls | grep -qE '^x{199}\.[0-9a-f]{16}\.data$' || fail "a character was cut: $(ls x*)"
[ "$(values "$long")" = "$second" ] || fail "the copy with the long name is another model"
rm "$long" x*.data

# ---- killed, and failed, between the files ----

if command -v cc >/dev/null && cc -shared -fPIC -o fault.so "$STATOR_SOURCE/tests/cli/file_fault.c"; then
    faulty() { # fault, status, words
        local status=0
        ASAN_OPTIONS="${ASAN_OPTIONS:-}:verify_asan_link_order=0" LD_PRELOAD=$PWD/fault.so STATOR_TEST_FAULT=$1 \
            "$STATOR" train m.onnx "${options[@]}" --save m.onnx >out 2>&1 || status=$?
        [ "$status" = "$2" ] && grep -q "$3" out || fail "status $status at $1: $(cat out)"
    }
    before=$(values m.onnx) data=$(data_of m.onnx)
    faulty 'rename fail' 3 "^stator: cannot write 'm.onnx': Input/output error"
    [ "$(values m.onnx)" = "$before" ] && [ "$(data_of m.onnx)" = "$data" ] || fail "a failed save left $(ls m.onnx*)"
    no_parts
    faulty 'rename exit' 9 epoch
    [ "$(values m.onnx)" = "$before" ] || fail "a save that was killed left another model"
    rm -f m.onnx.*.part
else
    echo "no C compiler: nothing was killed between the files"
fi

# ---- links and modes ----

mkdir there && cp first.onnx w.bin f.bin there/ && chmod 640 there/first.onnx
ln -s there/first.onnx link.onnx
learn 0 '3 steps' link.onnx --save link.onnx
[ -L link.onnx ] && [ "$(stat -c %a there/first.onnx)" = 640 ] || fail "a link or a mode was not kept"
[ "$(stat -c %a there/first.onnx.*.data)" = 640 ] || fail "the data may be read by others"
[ "$(values link.onnx)" = "$second" ] || fail "the model behind the link is another"
ln -s nowhere/else.npz dangling.npz
learn 3 "cannot write 'dangling.npz': No such file or directory" first.onnx --save dangling.npz
mkdir nowhere
learn 0 '3 steps' first.onnx --save dangling.npz
[ -L dangling.npz ] && [ -f nowhere/else.npz ] || fail "a link was replaced"
touch mine.npz && chmod 600 mine.npz && ln -s mine.npz to.npz
learn 0 '3 steps' first.onnx --save mine.npz
says 0 '' run first.onnx --backend eager --save to.npz
[ -L to.npz ] && [ "$(stat -c %a mine.npz)" = 600 ] || fail "an archive's link or mode was not kept"
for file in link.stirb link.svg link.jsonl; do
    echo old >"there/$file" && chmod 604 "there/$file" && ln -s "there/$file" "$file"
done
"$STATOR" "${fit[@]}" --write-step link.stirb
says 0 '3 steps' "${fit[@]}" --plot link.svg --log link.jsonl
for file in link.stirb link.svg link.jsonl; do
    [ -L "$file" ] && [ "$(stat -c %a "there/$file")" = 604 ] || fail "the link or the mode of $file was not kept"
    [ "$(head -c 3 "there/$file")" != old ] || fail "$file was not written"
done
no_parts . there

# ---- pipes and descriptors ----

cp "$digits/digits.onnx" d.onnx
digit=(train d.onnx --loss cross_entropy --output /0/0.13/Gemm_output_0 --data "$digits/test.npz" --batch 540 --backend eager)
says 0 '1 step' "${digit[@]}" --save d1.onnx
mkfifo pipe
cat pipe >piped &
says 0 '1 step' "${digit[@]}" --save pipe
wait $!
cmp d1.onnx piped && [ -p pipe ] || fail "a pipe got another copy"
"$STATOR" "${digit[@]}" --save /dev/fd/3 3>third >out 2>&1 || fail "$(cat out)"
cmp d1.onnx third || fail "a descriptor got another copy"
says 3 "cannot write '/dev/full': No space left on device" "${digit[@]}" --save /dev/full
learn 3 "cannot write 'pipe': the model has data in a file of their own" first.onnx --save pipe
grep -q epoch out && fail "it was said behind the training"

# ---- each file has a place of its own ----

cp line.npz same.npz && ln -s ../first.onnx there/back.onnx && ln line.npz hard.npz
while IFS='|' read -r words more; do
    # shellcheck disable=SC2086
    learn 3 "$words" first.onnx $more
    ! grep -q 'epoch' out || fail "it was said behind the training: $more"
done <<END
--save and --log write to one place, 'both'|--save both --log both
--save and --log write to one place, './both.npz'|--save ./both.npz --log there/../both.npz
--log and --plot write to one place, '/dev/fd/3'|--log /dev/fd/3 --plot /dev/fd/3
--save and --checkpoint write to one place, 'ckp/checkpoint.npz'|--checkpoint ckp --save ckp/checkpoint.npz
--save 'same.npz' would be written over --val|--save same.npz --val same.npz
--log 'hard.npz' would be written over --data|--log hard.npz
--plot 'there/back.onnx' would be written over the model|--plot there/back.onnx
--save '/dev/stdout' is stdout, which has the report|--save /dev/stdout
--log '/dev/fd/1' is stdout, which has the report|--log /dev/fd/1
--log 'out' is stdout, which has the report|--log out
END
[ "$(tail -c 80 line.npz | cksum)" = "$(tail -c 80 same.npz | cksum)" ] && [ ! -e both ] || fail "something was written"
learn 0 '3 steps' first.onnx --log /dev/null --plot /dev/null

# ---- a model that is cut while it is trained ----

mkdir cut && cp first.onnx w.bin f.bin cut && mkfifo cut/log
"$STATOR" train cut/first.onnx "${options[@]}" --epochs 50 --log cut/log --checkpoint cut/ck --save cut/saved.onnx >cut.txt 2>&1 &
pid=$!
exec 4<cut/log # it has read the model, and goes on when somebody reads
: >cut/first.onnx
cat <&4 >log.txt
exec 4<&-
wait $pid || fail "a model that was cut: $(tail -3 cut.txt)"
[ "$(wc -l <log.txt)" = 150 ] || fail "the log has $(wc -l <log.txt) lines"
learn 0 '150 steps' first.onnx --epochs 50 --save whole.onnx
[ "$(values cut/saved.onnx)" = "$(values whole.onnx)" ] || fail "the copy of a model that was cut is another"

# ---- said before the first step ----

mkdir -p folder ckd/checkpoint.npz
ln -s /dev/null null.npz
long=$(printf 'x%.0s' $(seq 300))
while IFS='|' read -r words option path more; do
    # shellcheck disable=SC2086
    learn 3 "$words" first.onnx "$option" "$path" $more
    ! grep -q 'epoch' out || fail "it was said behind the training: $option $path"
done <<END
cannot write '': No such file or directory|--save|
cannot write '': No such file or directory|--log|
cannot write '': No such file or directory|--plot|
cannot make the folder ''|--checkpoint|
cannot write 'folder': Is a directory|--save|folder
cannot write 'folder/': Is a directory|--save|folder/
cannot write 'folder': Is a directory|--log|folder
cannot write 'new/': No such file or directory|--save|new/
cannot write 'first.onnx/x': Not a directory|--save|first.onnx/x
cannot write '$long.npz': File name too long|--save|$long.npz
cannot write 'null.npz': an archive is no stream, and that is no regular file|--save|null.npz
--save 'out.stir': a copy is of the kind of the model's file, which is no .stir|--save|out.stir
--save 'out.stirb': a copy is of the kind of the model's file, which is no .stir|--save|out.stirb
cannot write 'ckd/checkpoint.npz': Is a directory|--checkpoint|ckd
--every is 0, expected 1 to 2147483647|--checkpoint|ck0|--every 0
--every is 0, expected 1 to 2147483647|--every|0
--batch is 0, expected 1 to 2147483647|--batch|0
--accumulate is 4294967296, expected 1 to 2147483647|--accumulate|4294967296
END

# A name that no archive holds; one of 300 bytes is held, and found again.
learn 3 'it has control characters, or is no UTF-8' odd.onnx --save state.npz
grep -q 'epoch' out && fail "it was said behind the training"
learn 3 'it has control characters, or is no UTF-8' odd.onnx --checkpoint odd
learn 0 '3 steps' long.onnx --checkpoint long --save long.npz
learn 0 'goes on behind step 3 (epoch 1)' long.onnx --checkpoint long --resume --epochs 2
python3 - <<'END' || fail "a long name was cut"
import zipfile
assert "w" * 300 + ".npy" in zipfile.ZipFile("long.npz").namelist()
assert "state/" + "w" * 300 + ".npy" in zipfile.ZipFile("long/checkpoint.npz").namelist()
END
no_parts . long
