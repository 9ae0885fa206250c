# shellcheck shell=bash
# What the tests of training share: to be sourced. A line as data (line.npz) and the model that it is
# learned with (line.stir), whose first step on any backend takes milliseconds.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"

says() { # status, words, arguments...
    local want=$1 words=$2
    shift 2
    expect "$want" "$words" "$STATOR" "$@" "${plugins[@]}"
}
export PYTHONPATH=$STATOR_SOURCE/tests/cli PYTHONDONTWRITEBYTECODE=1
digits=$STATOR_SOURCE/examples/digits
soft=$STATOR_BUILD/lib/stator/plugins-soft

# ---- y = 2 x1 - x2 + 0.5 ----

cat >line_data.py <<'END'
from npy import archive, floats

xs = [(i % 5 - 2) / 2 for i in range(20)]
ys = [(i % 7 - 3) / 3 for i in range(20)]
x = ("<f4", (20, 2), floats(*(v for pair in zip(xs, ys) for v in pair)))
t = ("<f4", (20, 1), floats(*(2 * a - b + 0.5 for a, b in zip(xs, ys))))
archive("line.npz", x=x, target=t)
END
python3 line_data.py || fail "the data were not made"
cat >line.stir <<'END'
stir 1
sym N in [1, 1000]
graph @line(%x: f32[N, 2], param %w "w": f32[2, 1] = {0, 0}, param %b "b": f32[1] = {0}) {
  %p = matmul(%x, %w)
  %y = add(%p, %b)
  return y: %y
}
END
fit=(train line.stir --loss mse --optimizer sgd --lr 0.3 --data line.npz --batch 8)
