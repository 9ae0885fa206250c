#!/usr/bin/env bash
# Running statistics in stator train: of another dtype than the other operands, shared by two
# normalisations, and in branches and bodies. Expected values are computed here from their formula.
. "$STATOR_SOURCE/tests/cli/train_kit.sh"

python3 - "$STATOR_SOURCE/tests/tools" <<'END' || fail "the models were not made"
import struct
import sys
sys.path.insert(0, sys.argv[1])
import bad_models as b
from npy import archive, floats

DOUBLE = 11  # TensorProto.DataType
xs = [(i * 7 % 11 - 5) / 3 for i in range(24)]
archive("rows.npz", x=("<f4", (12, 2), floats(*xs)),
        target=("<f4", (12, 1), floats(*(xs[2 * i] - xs[2 * i + 1] for i in range(12)))))


def weight(name, dims, *values, dtype=b.FLOAT, code="f"):
    return b.tensor(name, dims, dtype, b.data(9, struct.pack("<%d%s" % (len(values), code), *values)))


norm = b.node("BatchNormalization", ["x", "scale", "shift", "mean", "var"], ["n", "m", "v"], attrs=b.attr_int("training_mode", 1))
others = [weight("scale", [2], 1, 1), weight("shift", [2], 0, 0), weight("w", [2, 1], 1, 1)]
for dtype, code in ((DOUBLE, "d"), (b.FLOAT16, "e")):
    statistics = [weight("mean", [2], 0.5, -0.5, dtype=dtype, code=code), weight("var", [2], 2, 3, dtype=dtype, code=code)]
    open("stats_%s.onnx" % code, "wb").write(b.model([norm, b.node("MatMul", ["n", "w"], ["y"])], [b.value("x", ["N", 2])],
                                                     [b.value("y", ["N", 1])], others + statistics))
END
fit=(--loss mse --optimizer sgd --data rows.npz --batch 6 --shuffle off)
cat >check.py <<'END'
"""check.py FILE.npz TOLERANCE FACTOR...: mean and var are those of two batches of six rows, each times the factors in turn."""
import struct
import sys
import zipfile

KINDS = {"<f8": "d", "<f4": "f", "<f2": "e"}
file, tolerance, factors = sys.argv[1], float(sys.argv[2]), [float(f) for f in sys.argv[3:]]
xs = [(i * 7 % 11 - 5) / 3 for i in range(24)]
want = {"mean": [0.5, -0.5], "var": [2.0, 3.0]}
for first in (0, 6):
    for factor in factors:
        for c in (0, 1):
            column = [factor * xs[2 * (first + i) + c] for i in range(6)]
            m = sum(column) / 6
            want["mean"][c] = 0.9 * want["mean"][c] + 0.1 * m
            want["var"][c] = 0.9 * want["var"][c] + 0.1 * sum((v - m) ** 2 for v in column) / 6
for name in want:
    raw = zipfile.ZipFile(file).read(name + ".npy")
    code = KINDS[raw[raw.index(b"'<f") + 1:][:3].decode()]
    have = struct.unpack("<2" + code, raw[-2 * struct.calcsize(code):])
    assert all(abs(a - b) < tolerance for a, b in zip(have, want[name])), (name, have, want[name])
END

# ---- another dtype: written back in the parameter's own ----

for backend in $backends; do
    for case in "d 1e-6" "e 2e-3"; do
        read -r code tolerance <<<"$case"
        says 0 '2 steps: loss' train "stats_$code.onnx" "${fit[@]}" --lr 0 --backend "$backend" --save "stats_$code.npz"
        python3 check.py "stats_$code.npz" "$tolerance" 1 || fail "statistics of dtype $code on $backend"
    done
done
says 0 '2 steps: loss' train stats_d.onnx "${fit[@]}" --lr 0 --save saved.onnx
says 0 '2 steps: loss' train saved.onnx "${fit[@]}" --lr 0 --freeze 'mean,var' --save kept.onnx
cmp saved.onnx kept.onnx || fail "statistics that are frozen were written"
# A scale and a variance behind a cast begin with 1 as others do.
says 0 '2 steps: loss' train stats_d.onnx "${fit[@]}" --init random --lr 0 --save random.npz
python3 - <<'END' || fail "scale or variance do not begin with 1"
import struct, zipfile
z = zipfile.ZipFile("random.npz")
assert struct.unpack("<2f", z.read("scale.npy")[-8:]) == (1, 1)
assert all(v > 0.8 for v in struct.unpack("<2d", z.read("var.npy")[-16:]))
END

# ---- two normalisations of the same statistics: one update behind the other ----

head='stir 1
sym N in [1, 1000]
graph @m(%x: f32[N, 2], param %scale "scale": f32[2] = {1, 1}, param %shift "shift": f32[2] = {0, 0},
         param %mean "mean": f32[2] = {0.5, -0.5}, param %var "var": f32[2] = {2, 3}, param %w "w": f32[2, 1] = {1, 1}) {'
tail='  %y = matmul(%n, %w)
  return y: %y
}'
cat >shared.stir <<END
$head
  %wide = cast(%mean) {dtype = f64}
  %a, %m1, %v1 = batch_norm_train(%x, %scale, %shift, %mean, %var) @"/first":BatchNormalization
  %x2 = add(%x, %x)
  %x3 = add(%x2, %x)
  %b, %m2, %v2 = batch_norm_train(%x3, %scale, %shift, %wide, %var) @"/second":BatchNormalization
  %n = add(%a, %b)
$tail
END
for backend in $backends; do
    says 0 '2 steps: loss' train shared.stir "${fit[@]}" --lr 0 --backend "$backend" --save shared.npz
    python3 check.py shared.npz 2e-5 1 3 || fail "shared statistics on $backend"
done

# ---- in a branch or a body ----

region() { # file, op and its results
    cat >"$1" <<END
$head
  %sum = reduce_sum(%x) {axes = [0, 1]}
  %most = constant {value = f32[] {1000}}
  %p = lt(%sum, %most)
  %n = cond(%p, %x, %scale, %shift, %mean, %var) @"/if":If
    region @yes(%x: f32[N, 2], %s: f32[2], %h: f32[2], %m: f32[2], %v: f32[2]) {
      $2 = $3(%x, %s, %h, %m, %v) @"/if/norm":BatchNormalization
      return %n
    }
    region @no(%x: f32[N, 2], %s: f32[2], %h: f32[2], %m: f32[2], %v: f32[2]) {
      %n = mul(%x, %s)
      return %n
    }
$tail
END
}
region trains.stir '%n, %m2, %v2' batch_norm_train
region infers.stir '%n' batch_norm
says 3 "node '/if/norm' stands in a branch or a body, from which a step cannot write its new running statistics back to 'mean'" \
    train trains.stir "${fit[@]}" --lr 0.1
says 0 '2 steps: loss' train trains.stir "${fit[@]}" --lr 0.1 --freeze 'mean,var' --save trains.npz
says 0 '2 steps: loss' train infers.stir "${fit[@]}" --lr 0.1 --save infers.npz
python3 - <<'END' || fail "statistics in a branch are trained"
import struct, zipfile
assert not {"mean.npy", "var.npy"} & set(zipfile.ZipFile("trains.npz").namelist())
z = zipfile.ZipFile("infers.npz")
assert struct.unpack("<2f", z.read("mean.npy")[-8:]) == (0.5, -0.5)
assert struct.unpack("<2f", z.read("var.npy")[-8:]) == (2, 3)
assert struct.unpack("<2f", z.read("w.npy")[-8:]) != (1, 1)
END

# ---- shown by ops that lose nothing: written back through them; by others: refused unless frozen ----

shown() { # file, shape of the parameter mean, its elements, nodes
    cat >"$1" <<END
$(sed "s/%mean \"mean\": f32\[2\] = {0.5, -0.5}/%mean \"mean\": f32[$2] = {$3}/" <<<"$head")
$4
$tail
END
}
trains='  %n, %m2, %v2 = batch_norm_train(%x, %scale, %shift, %ms, %vs) @"/norm":BatchNormalization'
infers='  %n = batch_norm(%x, %scale, %shift, %ms, %var) @"/norm":BatchNormalization'
way='  %m4 = transpose(%mean) {perm = [1, 2, 0]}
  %m5 = cast(%m4) {dtype = f64}
  %ms = reshape(%m5) {shape = [2]}
  %v3 = cast(%var) {dtype = f64}
  %v4 = reshape(%v3) {shape = [1, 2]}
  %vs = reshape(%v4) {shape = [2]}'
shown views.stir '2, 1, 1' '0.5, -0.5' "$way
$trains"
shown twoviews.stir '2, 1, 1' '0.5, -0.5' "$way
  %a, %m1, %v1 = batch_norm_train(%x, %scale, %shift, %ms, %vs)
  %x2 = add(%x, %x)
  %x3 = add(%x2, %x)
  %b, %m2, %v2 = batch_norm_train(%x3, %scale, %shift, %ms, %vs)
  %n = add(%a, %b)"
for backend in $backends; do
    says 0 '2 steps: loss' train views.stir "${fit[@]}" --lr 0 --backend "$backend" --save views.npz
    python3 check.py views.npz 1e-6 1 || fail "statistics behind views on $backend"
    says 0 '2 steps: loss' train twoviews.stir "${fit[@]}" --lr 0 --backend "$backend" --save views.npz
    python3 check.py views.npz 2e-5 1 3 || fail "shared statistics behind views on $backend"
done
row='%ms = slice(%mean) {starts = [2], sizes = [2], steps = [1]}'
half="%h = constant {value = f32[] {0.5}}
  %m3 = reshape(%mean) {shape = [2, 2]}
  %m4 = mul(%m3, %h)
  %ms = reduce_sum(%m4) {axes = [0]}"
picked='%i = constant {value = i64[2] {3, 1}}
  %ms = gather(%mean, %i)'
for op in slice mul gather; do
    case $op in slice) made=$row ;; mul) made=$half ;; *) made=$picked ;; esac
    why="node '/norm' has running statistics that the op $op makes of the parameter 'mean', so that a step can neither train it nor write it back"
    for norm in "$infers" "${trains/vs)/var)}"; do
        shown made.stir 4 '1, 1, 0.5, -0.5' "  $made
$norm"
        says 3 "$why" train made.stir "${fit[@]}" --lr 0.1
        says 0 '2 steps: loss' train made.stir "${fit[@]}" --lr 0.1 --freeze 'mean,var'
    done
done
# Whole numbers between two floats lose fractions.
for norm in "$infers" "${trains/vs)/var)}"; do
    shown made.stir 2 '0.5, -0.5' "  %i = cast(%mean) {dtype = i32}
  %ms = cast(%i) {dtype = f32}
$norm"
    says 3 "running statistics that the op cast makes of the parameter 'mean'" train made.stir "${fit[@]}" --lr 0.1
    says 0 '2 steps: loss' train made.stir "${fit[@]}" --lr 0.1 --freeze 'mean,var'
done
# Nothing that stands between is whole numbers alone: sums of them, comparisons, bits.
sums='%i = cast(%mean) {dtype = i32}
  %j = add(%i, %i)
  %ms = cast(%j) {dtype = f32}'
signs='%z = constant {value = f32[] {0}}
  %g = gt(%mean, %z)
  %ms = cast(%g) {dtype = f32}'
bits='%i = bitcast(%mean) {dtype = i32}
  %o = constant {value = i32[] {1}}
  %j = bit_xor(%i, %o)
  %ms = bitcast(%j) {dtype = f32}'
for op in cast gt bitcast; do
    case $op in cast) made=$sums ;; gt) made=$signs ;; *) made=$bits ;; esac
    for norm in "$infers" "${trains/vs)/var)}"; do
        shown made.stir 2 '1, -1' "  $made
$norm"
        says 3 "running statistics that the op $op makes of the parameter 'mean'" train made.stir "${fit[@]}" --lr 0.1
        says 0 '2 steps: loss' train made.stir "${fit[@]}" --lr 0.1 --freeze 'mean,var'
    done
done
# Whole numbers and bools beside floats choose: nothing of what they are computed from is refused.
shown chosen.stir 4 '1, 1, 0.5, -0.5' "  %a = matmul(%x, %w)
  %s = reduce_sum(%a) {axes = [0, 1]}
  %z = constant {value = f32[] {0}}
  %g = gt(%s, %z)
  %l = cast(%g) {dtype = i64}
  %o = constant {value = i64[2] {1, 3}}
  %i = sub(%o, %l)
  %p = gather(%mean, %i)
  %q = neg(%p)
  %ms = select(%g, %p, %q)
${trains/vs)/var)}"
says 0 '2 steps: loss' train chosen.stir "${fit[@]}" --lr 0.1 --freeze 'mean,var'
# A call is its region, whatever the loss reads, unless it is a checkpoint.
for attrs in '' ' {checkpoint = 1}'; do
    shown called.stir 2 '0.5, -0.5' "  %ms = call(%mean)$attrs
    region @same(%m: f32[2]) {
      %r = reshape(%m) {shape = [2]}
      return %r
    }
${trains/vs)/var)}"
    sed 's/^  return y: %y/  %z = neg(%y)\n  return z: %z/' called.stir >inside.stir
    for run in called.stir 'inside.stir --output y'; do
        read -ra args <<<"$run"
        if [ -n "$attrs" ]; then
            says 3 "running statistics that the op call makes of the parameter 'mean'" train "${args[@]}" "${fit[@]}" --lr 0
        else
            says 0 '2 steps: loss' train "${args[@]}" "${fit[@]}" --lr 0 --save called.npz
            python3 check.py called.npz 1e-6 1 || fail "statistics behind a call: $run"
        fi
    done
done
# Statistics of data are none that run: what they are computed from is trained.
shown data.stir 2 '0.5, -0.5' "  %c = mul(%x, %mean)
  %ms = reduce_mean(%c) {axes = [0]}
$infers"
says 0 '2 steps: loss' train data.stir "${fit[@]}" --lr 0.1 --save data.npz
python3 - <<'END' || fail "what statistics of data are computed from is not trained"
import struct, zipfile
assert struct.unpack("<2f", zipfile.ZipFile("data.npz").read("mean.npy")[-8:]) != (0.5, -0.5)
END

# ---- of several axes that a transpose exchanges, and at their first values ----

cat >axes.stir <<'END'
stir 1
sym N in [1, 1000]
graph @m(%x: f32[N, 2], param %scale "scale": f32[4] = {1, 1, 1, 1}, param %shift "shift": f32[4] = {0, 0, 0, 0},
         param %mean "mean": f32[2, 1, 2] = {0.5, -0.5, 1, -1}, param %var "var": f64[1, 4] = {2, 3, 4, 5},
         param %w "w": f32[4, 1] = {1, 1, 1, 1}) {
  %x2 = add(%x, %x)
  %x4 = concat(%x, %x2) {axis = 1}
  %m1 = transpose(%mean) {perm = [2, 0, 1]}
  %m2 = reshape(%m1) {shape = [4]}
  %v1 = reshape(%var) {shape = [4]}
  %v2 = cast(%v1) {dtype = f32}
  %n, %m3, %v3 = batch_norm_train(%x4, %scale, %shift, %m2, %v2)
  %y = matmul(%n, %w)
  return y: %y
}
END
cat >check_axes.py <<'END'
"""check_axes.py FILE.npz MEAN VAR: what these of four channels become, in the places where the parameters have them."""
import json
import struct
import sys
import zipfile

xs = [(i * 7 % 11 - 5) / 3 for i in range(24)]
mean, var = json.loads(sys.argv[2]), json.loads(sys.argv[3])  # channel 2 i + j lies in [j, 0, i] of mean
for first in (0, 6):
    for c in range(4):
        column = [(1 + c // 2) * xs[2 * (first + i) + c % 2] for i in range(6)]
        m = sum(column) / 6
        mean[c] = 0.9 * mean[c] + 0.1 * m
        var[c] = 0.9 * var[c] + 0.1 * sum((v - m) ** 2 for v in column) / 6
z = zipfile.ZipFile(sys.argv[1])
for name, want, code in (("mean", [mean[0], mean[2], mean[1], mean[3]], "f"), ("var", var, "d")):
    have = struct.unpack("<4" + code, z.read(name + ".npy")[-4 * struct.calcsize(code):])
    # four roundings of f32 of numbers up to 8
    assert all(abs(a - b) < 2e-6 for a, b in zip(have, want)), (name, have, want)
END
for backend in $backends; do
    says 0 '2 steps: loss' train axes.stir "${fit[@]}" --lr 0.1 --backend "$backend" --save axes.npz
    python3 check_axes.py axes.npz '[0.5, 1, -0.5, -1]' '[2, 3, 4, 5]' || fail "statistics behind a transpose on $backend"
done
says 0 '2 steps: loss' train axes.stir "${fit[@]}" --lr 0 --init random --save axes.npz
python3 check_axes.py axes.npz '[0, 0, 0, 0]' '[1, 1, 1, 1]' || fail "statistics begin with random numbers"

# ---- one parameter for two of a node's statistics ----

sed 's/(%x, %scale, %shift, %mean, %var)/(%x, %scale, %shift, %var, %var)/; /%x2\|%wide/d; s/add(%a, %b)/relu(%a)/' \
    shared.stir >twice.stir
says 3 "node '/first' has 'var' as two of its running statistics" train twice.stir "${fit[@]}" --lr 0.1
echo ok
