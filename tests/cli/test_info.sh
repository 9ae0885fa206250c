#!/usr/bin/env bash
# stator info: what a file says of itself, ports with their symbols, parameters, operators by count and
# where nodes would run; also of a model that cannot be compiled, and of one without a file's facts.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"
digits="$STATOR_SOURCE/examples/digits/digits.onnx"

expect 0 'opset ai.onnx 17, by pytorch' "$STATOR" info "$digits" --backend eager
for words in 'inputs      image: f32\[N, 1, 8, 8\]' 'outputs     probabilities: f32\[N, 10\]' \
    'parameters  22986 in 8 tensors, 91944 bytes' 'operators   Conv 3, Relu 3, MaxPool 2, ' \
    'runs        eager: 13 nodes in 1 partition'; do
    grep -q "^$words" out || fail "no '$words': $(cat out)"
done
expect 0 'inputs      image' "$STATOR" info "$digits" --no-compile
grep -q '^runs' out && fail "compiled: $(cat out)"
expect 3 'no backend' "$STATOR" info "$digits" --backend none

# What is left to another backend, and why.
expect 0 'left to another backend: ' "$STATOR" info "$digits" --backend divided "${plugins[@]}"

# Bodies count; a file of text says nothing of itself.
cat >loop.stir <<'E'
stir 1
graph (%n: i64[], %p: bool[], %x: f32[3]) {
  %w, %s = while(%n, %p, %x) {carried = 1, stacked = 1}
    region @body(%it: i64[], %c: f32[3]) {
      %2 = exp(%c)
      %3 = constant {value = bool[] {true}}
      return %3, %2, %c
    }
  return %w, %s
}
E
expect 0 'nodes       while 1, exp 1, constant 1' "$STATOR" info loop.stir --backend eager
grep -q '^file' out && fail "a text has an operator set: $(cat out)"

# A model that needs values of inputs is described without them; a file's own metadata too.
python3 - "$STATOR_SOURCE/tests/tools" <<'E'
import sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])
import bad_models as b
name = b.value("y", [2])
open("odd.onnx", "wb").write(b.model([b.node("Tanh", ["x"], ["y"])], [b.value("x\x1b[2J", [2]), b.value("x", [2])], [name]))
E
expect 0 'inputs      x\x1b[2J: f32[2]' "$STATOR" info odd.onnx --backend eager

# Metadata is capped on the screen, and whole with --metadata and in JSON. ModelProto's field 14 has it.
for n in 13 14 1000; do
    python3 - "$n" <<'E'
import sys
def field(number, data):
    head, n = [number << 3 | 2], len(data)
    while n > 127:
        head.append(n & 127 | 128)
        n >>= 7
    return bytes(head + [n]) + data
more = b"".join(field(14, field(1, b"key%d" % i) + field(2, b"value%d" % i)) for i in range(int(sys.argv[1])))
open("more%s.onnx" % sys.argv[1], "wb").write(open("odd.onnx", "rb").read() + more)
E
    expect 0 'key0: value0' "$STATOR" info "more$n.onnx" --no-compile
    grep -c 'key[0-9]*: value' out >count || :
    case $n in 13) want=13 ;; *) want=12 ;; esac
    [ "$(cat count)" = $want ] || fail "$(cat count) of $n entries: $(cat out)"
    [ $n = 13 ] || grep -q "and $((n - 12)) more entries of metadata (--metadata prints all)" out || fail "$(cat out)"
    expect 0 "key$((n - 1)): value" "$STATOR" info "more$n.onnx" --no-compile --metadata
    expect 0 "\"key$((n - 1))\"" "$STATOR" info "more$n.onnx" --no-compile --json
done
echo ok
