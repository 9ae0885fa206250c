#!/usr/bin/env bash
# stator grad: the joint graph of a model is the same on every backend, its nodes are named after those
# of the model, --check names the node and the operand whose gradient is off, and what cannot be
# differentiated is one sentence.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"

says() { # status, words, arguments...
    local want=$1 words=$2
    shift 2
    expect "$want" "$words" "$STATOR" "$@" "${plugins[@]}"
}
ok() { "$STATOR" "$@" "${plugins[@]}" >out 2>&1 || fail "$*: $(cat out)"; }
soft=$STATOR_BUILD/lib/stator/plugins-soft
all_agree() { # MODEL MORE...
    for backend in aot_eager ${backends#eager }; do
        says 0 agrees compare "$1" --backends "eager,$backend" "${@:2}"
    done
    [ ! -d "$soft" ] ||
        STATOR_SOFT_DEVICE=1 says 0 agrees compare "$1" --backends eager,cuda_soft --plugin-dir "$soft" "${@:2}"
}

# ---- sin^2 + cos^2: its gradient is 0 ----

cat >sincos.stir <<'END'
stir 1
sym N in [1, 1024]
graph @sincos(%x: f64[N]) {
  %s = sin(%x) @"/sin":Sin in "sincos.onnx"
  %c = cos(%x) @"/cos":Cos in "sincos.onnx"
  %a = square(%s) @"/a":Mul
  %b = square(%c) @"/b":Mul
  %y = add(%a, %b) @"/add":Add
  return y: %y
}
END
says 0 '%tangent_y: f64[N]' grad sincos.stir
says 0 'return y: %y, grad_x: %grad_x' grad sincos.stir
says 0 '@"backward of /cos":Cos' grad sincos.stir
says 0 '5 nodes checked, 0 gradients are off' grad sincos.stir --check --dim N=5
says 0 '"forward":	5' grad sincos.stir --loss y --dim N=6 -o joint.stir --json
says 0 'grad_x: f64[6] 0 0 0 0 0 0' run joint.stir --backend eager --random 3
ok grad sincos.stir -o symbolic.stirb
ok draw symbolic.stirb -o joint.dot
grep -q 'backward of /sin' joint.dot || fail "the picture names no backward part: $(head -c 2000 joint.dot)"
all_agree symbolic.stirb --dim N=33 --random 4
all_agree joint.stir --random 5
says 0 'backward of /cos' explain joint.stir --backend eager
ok run joint.stir --backend eager --profile trace.json
grep -q 'backward of /sin' trace.json || fail "the profile names no backward part: $(head -c 2000 trace.json)"

says 0 'return y: %y, saved_s: %s, saved_c: %c' grad sincos.stir --graph forward
says 0 'return grad_x: %grad_x' grad sincos.stir --graph backward --partition default
ok grad sincos.stir --graph backward --dim N=5 -o backward.stir
all_agree backward.stir --random 8
says 0 'return y: %y' grad sincos.stir --graph forward --partition min-cut
says 0 '@"recomputed /cos":Cos in "sincos.onnx"' grad sincos.stir --graph backward --partition min-cut --budget 0.5

# ---- a network with parameters, integers and a loss of its own ----

cat >mlp.stir <<'END'
stir 1
graph @mlp(
  param %w1 "w1": f32[3, 4] = {1, 2, -1, 0.5, 0.25, -2, 1, 1, -0.5, 0.75, 2, -1},
  param %b1 "b1": f32[4] = {0.1, -0.2, 0.3, 0},
  param %w2 "w2": f32[4, 3] = {1, -1, 0.5, 2, 0.25, -0.75, 1, 1, -2, 0.5, 0.125, 1},
  %x: f32[2, 3],
  %t: i64[2]
) {
  %h = matmul(%x, %w1) @"/layer1/mm":MatMul
  %g = add(%h, %b1) @"/layer1/add":Add
  %r = gelu(%g) @"/act":Gelu
  %o = matmul(%r, %w2) @"/layer2/mm":MatMul
  %p = log_softmax(%o) @"/soft":LogSoftmax
  %loss = nll_loss(%p, %t) @"/nll":NLL
  return loss: %loss, o: %o
}
END
says 0 'grad_w1: %grad_w1, grad_b1: %grad_b1, grad_w2: %grad_w2' grad mlp.stir --loss loss
says 0 'grad_x: %grad_x' grad mlp.stir --loss loss --wrt x,b1
says 0 '6 nodes checked, 0 gradients are off' grad mlp.stir --loss loss --check --random 1
says 0 '"wrong":	[]' grad mlp.stir --check --json --wrt params,inputs --random 2
ok grad mlp.stir --loss loss -o mlp.joint.stir
all_agree mlp.joint.stir --random 6
# Fewer bytes are saved, the gradients are the same bits, and the single graph keeps apart what it computes twice.
saved() { sed -n '/"saved"/,/\]/s/.*"bytes":[[:space:]]*//p' out | awk '{n += $1} END {print n + 0}'; }
before=1000000 bits=0
for plan in default "min-cut --budget 1" "min-cut --budget 0.5" "min-cut --budget 0"; do
    ok grad mlp.stir --loss loss --partition $plan -o planned.stir --json
    [ "$(saved)" -lt "$before" ] || [ "$plan" = "min-cut --budget 0" ] || fail "$plan saves $(saved) bytes, $before before"
    before=$(saved)
    [ "$plan" = default ] || grep -q '"capped":[[:space:]]*false' out || fail "$(cat out)"
    n=$(sed -n 's/.*"recomputed":[[:space:]]*\([0-9]*\),/\1/p' out)
    [ "$n" = "$(grep -c '@"recomputed ' planned.stir)" ] || fail "$n nodes are computed again: $(cat planned.stir)"
    all_agree planned.stir --random 6
    ok run planned.stir --backend eager --random 6
    grep '^[a-z_0-9]*: f32' out >"bits.$bits"
    bits=$((bits + 1))
done
for k in 1 2 3; do
    cmp -s bits.0 bits.$k || fail "plan $k: $(diff bits.0 bits.$k)"
done
grep -q 'tangent' mlp.joint.stir && fail "a loss has a tangent: $(cat mlp.joint.stir)"
# A weight that is not asked for has no backward node of its own.
ok grad mlp.stir --loss loss --wrt w2 -o frozen.stir
grep -q 'backward of /layer1' frozen.stir && fail "the first layer is differentiated: $(cat frozen.stir)"

# ---- control flow and windows ----

cat >control.stir <<'END'
stir 1
graph @ctl(%x: f64[2, 3], %z: f64[3]) {
  %c = constant {value = bool[] {false}}
  %n = constant {value = i64[] {3}}
  %t = constant {value = bool[] {true}}
  %y = cond(%c, %x, %z)
   region @t(%x: f64[2, 3], %z: f64[3]) { %a = mul(%x, %z) return %a }
   region @e(%x: f64[2, 3], %z: f64[3]) { %a = exp(%x) %k = call(%a, %z)
     region @f(%x: f64[2, 3], %z: f64[3]) { %b = add(%x, %z) return %b }
    return %k }
  %w = while(%n, %t, %y, %z) {carried = 1}
   region @b(%i: i64[], %s: f64[2, 3], %w: f64[3]) { %a = mul(%s, %w) %c = tanh(%a) %t = constant {value = bool[] {true}} return %t, %c }
  %v = reduce_window(%w) {kind = "max", window = [2], strides = [1], pads = [0, 0], dilations = [1]}
  return v: %v
}
END
says 0 '3 nodes checked, 0 gradients are off' grad control.stir --check --random 5
ok grad control.stir -o control.joint.stir
all_agree control.joint.stir --random 9
says 0 '0 gradients are off' grad "$STATOR_SOURCE/examples/digits/digits.onnx" --check
ok grad "$STATOR_SOURCE/examples/digits/digits.onnx" -o digits.stirb
all_agree digits.stirb --random 2

# Trips that constants or sizes tell are told in the backward graph too: what it writes is read again.
for sizes in '3 constant{value=i64[1]{3}}' 'N dims{values=[N]}'; do
    read -r n maker <<<"$sizes"
    cat >trips.stir <<END
stir 1
sym N in [1, 64]
graph @trips(%x: f64[N]) {
  %s = ${maker/\{/() {}
  %n = reshape(%s) {shape = []}
  %t = constant {value = bool[] {true}}
  %y = while(%n, %t, %x) {carried = 0, stacked = 1} @"/loop":Loop
    region @b(%i: i64[], %x: f64[N]) {
      %f = cast(%i) {dtype = f64}
      %a = mul(%x, %f)
      %b = tanh(%a)
      %t = constant {value = bool[] {true}}
      return %t, %b
    }
  return y: %y
}
END
    sed -i 's/constant()/constant/' trips.stir
    ok grad trips.stir --wrt x --graph backward -o trips.stirb
    says 0 "tangent_y: f64[$n, N]" info trips.stirb --no-compile
    says 0 '"saved":	[]' grad trips.stir --wrt x --json
    all_agree trips.stirb --dim N=3 --random 7
done

# ---- second derivatives ----

cat >second.stir <<'END'
stir 1
graph @second(%x: f64[4]) {
  %y, %d = gradient(%x) {wrt = [0]}
    region @f(%x: f64[4]) { %y = tanh(%x) @"/tanh":Tanh return %y }
  return d: %d
}
END
says 0 'backward of backward of /tanh' grad second.stir
says 0 '0 gradients are off' grad second.stir --check --random 3

# ---- planted mistakes ----

mkdir bin
ln -s "$STATOR" bin/stator
# alone MODEL: the node that is off as a program: it alone, and off alike.
alone() {
    local said
    said=$(grep '^the gradient of node' out)
    rm -rf left
    says 1 '  repeat: sh left/repeat.sh' grad "$1" --check --random 7 --repro left
    [ "$(grep -c ' = off_' left/repro.stir)" = 1 ] && [ "$(grep -c ' = ' left/repro.stir)" = 1 ] ||
        fail "$1: more than a node is left: $(cat left/repro.stir)"
    if PATH="$PWD/bin:$PATH" sh left/repeat.sh "${plugins[@]}" >out 2>&1; then
        fail "$1: repeat.sh finds nothing"
    fi
    grep -q '^1 nodes checked, 1 gradients are off' out || fail "$1: repeat.sh says $(cat out)"
    [ "$(grep '^the gradient of node' out)" = "$said" ] || fail "$1: not off alike: $said; $(cat out)"
}
planted=0
for mistake in none sign factor axis operand mask recompute lost tangent place thousandth second; do
    cat >"$mistake.stir" <<END
stir 1
graph @planted(%x: f32[5, 5], %y: f32[5]) {
  %a = exp(%x) @"/before":Exp
  %b = neg(%x) @"/neg":Neg
  %c = off_gradient(%b, %y) {mistake = "$mistake"} @"/planted":Off
  %z = mul(%a, %c) @"/behind":Mul
  return z: %z
}
END
    case $mistake in
    none | second) says 0 '4 nodes checked, 0 gradients are off' grad $mistake.stir --check --random 7 ;;
    axis | lost | place | thousandth) says 1 'of node /planted to its operand y is' grad $mistake.stir --check --random 7 ;;
    *) says 1 'of node /planted to its operand x is' grad $mistake.stir --check --random 7 ;;
    esac
    [ "$mistake" = none ] || [ "$mistake" = second ] || {
        grep -q '^4 nodes checked, 1 gradients are off' out || fail "more than one mistake: $(cat out)"
        alone "$mistake.stir"
        planted=$((planted + 1))
    }
done
[ "$planted" = 10 ] || fail "$planted mistakes were planted"
cat >twice.stir <<'END'
stir 1
graph @twice(%x: f64[5, 5], %y: f64[5]) {
  %z, %d = gradient(%x, %y) {wrt = [0]}
    region @f(%x: f64[5, 5], %y: f64[5]) {
      %z = off_gradient(%x, %y) {mistake = "second"} @"/planted":Off
      return %z
    }
  return d: %d
}
END
says 1 'of node backward of /planted to its operand x is' grad twice.stir --check --random 7
alone twice.stir
says 3 "the folder 'left' cannot be made" grad sign.stir --check --random 7 --repro left
says 3 '--repro writes what --check finds' grad sign.stir --repro other

# ---- the stages of aot_eager ----

cat >asks.stir <<'END'
stir 1
graph @asks(param %w "w": f32[4, 4] = {1, 2, -1, 0.5, 0.25, -2, 1, 1, -0.5, 0.75, 2, -1, 0, 1, 2, 3}, %x: f32[4, 4]) {
  %y, %d = gradient(%w, %x) {wrt = [0]}
    region @f(%w: f32[4, 4], %x: f32[4, 4]) {
      %p = matmul(%x, %w) @"/mm":MatMul
      %a = sin(%p) @"/sin":Sin
      %y = square(%a) @"/square":Mul
      return %y
    }
  return y: %y, d: %d
}
END
ok run asks.stir --backend aot_eager --random 3
grep '^[yd]: f32' out >bits.0
for stage in functionalize freeze decompose canonicalize fold cse rematerialise dce; do
    STATOR_LOGS=passes ok run asks.stir --backend aot_eager --random 3
    grep -q "^.passes. $stage:" out || fail "no stage $stage: $(cat out)"
    STATOR_LOGS=passes ok run asks.stir --backend aot_eager --random 3 --backend-option $stage=false
    grep -q "^.passes. $stage:" out && fail "$stage=false leaves the stage: $(cat out)"
    grep '^[yd]: f32' out | cmp -s bits.0 - || fail "$stage=false: $(cat out)"
done
says 3 'no backend runs it' run asks.stir --backend aot_eager --random 3 --backend-option autodiff=false
says 0 'rematerialise' passes --backend aot_eager
after() { ok print asks.stir --backend aot_eager --after dce; }
after && grep -q '"recomputed /sin"' out || fail "nothing is computed again: $(cat out)"
grep -q '"recomputed /mm"' out && fail "the product is computed again: $(cat out)"
STATOR_OPT_AOT_EAGER_REMATERIALISE=false after && grep -q recomputed out && fail "not switched off: $(cat out)"
STATOR_OPT_AOT_EAGER_MEMORY_BUDGET=0 after && grep -q '"recomputed /mm"' out || fail "budget 0 keeps the product: $(cat out)"
says 3 'memory_budget' run asks.stir --backend aot_eager --random 3 --backend-option memory_budget=2

# ---- the exponent less 1 is a constant, of which the rules make products ----

cat >cube.stir <<'END'
stir 1
graph @cube(%x: f32[40, 8]) {
  %three = constant {value = f32[] {3}} : f32[]
  %c = pow(%x, %three) : f32[40, 8]
  %y = reduce_sum(%c) {axes = [0, 1]} : f32[]
  return y: %y
}
END
ok grad cube.stir --wrt inputs -o joint.stir
case " $backends " in
*" inductor-cpu "*)
    ok print joint.stir --backend inductor-cpu --after dce
    [ "$(grep -c '= pow(' out)" = 1 ] || fail "a power in the backward part: $(cat out)"
    grep -q 'mul(%x, %x)' out || fail "no square in the backward part: $(cat out)"
    ;;
esac

# ---- attention that is written out is found before it is differentiated ----

cat >attention.stir <<'END'
stir 1
graph @main(%q: f32[2, 4, 3, 8], %k: f32[2, 4, 5, 8], %v: f32[2, 4, 5, 8], %m: f32[2, 1, 1, 5]) {
  %c = constant {value = f32[] {0.35355338}}
  %t = transpose(%k) {perm = [0, 1, 3, 2]}
  %s = matmul(%q, %t) @"scores":MatMul
  %z = mul(%s, %c)
  %a = add(%z, %m)
  %p = softmax(%a) {axis = 3} @"softmax":Softmax
  %y = matmul(%p, %v) @"out":MatMul
  return y: %y
}
END
ok grad attention.stir --wrt q,k,v -o attended.stir
grep -q '= sdpa(%q, %k, %v, %m)' attended.stir || fail "no attention: $(cat attended.stir)"
grep -q '= sdpa_gradient(%q, %k, %v, %tangent_y, %m)' attended.stir || fail "no gradient of attention: $(cat attended.stir)"
grep -q 'softmax(\|f32\[2, 4, 3, 5\]' attended.stir && fail "scores are kept: $(cat attended.stir)"
all_agree attended.stir
for threads in 1 2; do
    ok run attended.stir --random 6 --backend eager --threads $threads --save $threads.npz
done
cmp 1.npz 2.npz || fail "the gradient of attention has other bits on two threads"
ok grad attention.stir --wrt k -o keys.stir # what nobody reads takes the kernel from no library
case " $backends " in
*" inductor-cpu "*)
    if ! "$STATOR" doctor 2>/dev/null | grep -qi 'libdnnl.*missing'; then
        says 0 'call sdpa_gradient -, ' explain keys.stir --backend inductor-cpu
    fi
    says 0 agrees compare keys.stir --backends eager,inductor-cpu
    ;;
esac
ok grad attention.stir --wrt q,m # a mask's gradient needs the scores
grep -q 'sdpa_gradient' out && fail "a mask has no gradient by sdpa_gradient: $(cat out)"
says 0 ' nodes checked, 0 gradients are off' grad attention.stir --wrt q,k,v,m --check

# ---- values that are not finite blame no rule ----

cat >nan.stir <<'END'
stir 1
graph @main(%x: f32[2, 3]) {
  %c = constant {value = f32[3, 2] {1, nan, 2, 1, 3, 1}}
  %y = matmul(%x, %c) @"/product":MatMul
  %z = tanh(%y) @"/tanh":Tanh
  return z: %z
}
END
says 0 'node /product has operands or results that are not finite: its gradient to its operand x was not compared' grad nan.stir --check
says 0 '2 nodes checked, 0 gradients are off; 1 gradients were not compared, for values are not finite' grad nan.stir --check
says 0 '"operand":	"x"' grad nan.stir --check --json
grep -q '"wrong":	\[\]' out || fail "a rule is wrong where values are not finite: $(cat out)"

# ---- scans with more values than a node has results ----

# scans <scans> <carried> <stacked> <captures> <sines>: a file.stir; each scan carries the same.
scans() {
    python3 - "$@" <<'END' >many.stir
import sys
scans, carried, stacked, captures, sines = map(int, sys.argv[1:])
each = lambda text, n: [text.format(i) for i in range(n)]
print("stir 1\ngraph @main(param %h: f32[2, 2] = {1, 2, 3, 4}, %x: f32[3, 2, 2], param %w: f32[2, 2] = {0.1, 0.2, 0.3, 0.4}) {")
for k in range(scans):
    results = each(f"%c{k}_{{}}", carried) + each(f"%s{k}_{{}}", stacked)
    print(f"  {', '.join(results)} = scan({', '.join(['%h'] * carried)}, %x{', %w' * (captures + 1)}) "
          f"{{carried = {carried}, scanned = 1, stacked = {stacked}}}")
    inputs = each("%h{}: f32[2, 2]", carried) + ["%x: f32[2, 2]"] + each("%w{}: f32[2, 2]", captures + 1)
    print(f"    region @b({', '.join(inputs)}) {{\n      %d = dot_general(%h0, %w0) {{contract_x = [1], contract_y = [0]}}")
    print("      %e0 = add(%d, %x)\n" + "".join(f"      %e{i + 1} = mul(%e{i}, %w{i + 1})\n" for i in range(captures)), end="")
    print(f"      %a0 = tanh(%e{captures})\n" + "".join(f"      %a{i + 1} = sin(%a{i})\n" for i in range(sines)), end="")
    print("".join(f"      %t{i} = mul(%h{i}, %a{sines})\n" for i in range(carried)), end="")
    print("".join(f"      %u{i} = {'cos' if k else 'exp'}({'%u' + str(i - 1) if i else '%t0'})\n" for i in range(stacked)), end="")
    print(f"      return {', '.join(each('%t{}', carried) + each('%u{}', stacked))}\n    }}")
print("  %l = reduce_sum(%s0_0) {axes = [0, 1, 2]}\n  return loss: %l" + (", other: %s1_0\n}" if scans > 1 else "\n}"))
END
}
for sizes in "1 1 1 0 250" "1 1 1 0 260" "1 1 1 60 190" "1 6 2 0 240" "1 20 60 20 100"; do
    scans $sizes
    ok grad many.stir --loss loss -o joint.stir
    says 0 agrees compare joint.stir --backends eager,aot_eager
done
for sizes in "1 70 1 0 0:72 operands and 1" "1 2 65 0 0:4 operands and 65" "1 2 1 70 0:74 operands and 1"; do
    scans ${sizes%:*}
    sed -i 's/} *$/}/; s/\(stacked = [0-9]*}\)$/\1 @"layer 7":Loop/' many.stir
    says 3 "scan %c0_0 has ${sizes#*:} stacked results, and a gradient is made of at most 64 of either" grad many.stir --loss loss
    grep -q 'at layer 7' out || fail "the node is not named: $(cat out)"
done
scans 2 60 100 0 0
says 0 'scan' opt --pass merge_scans many.stir
[ "$(grep -c ' = scan(' out)" = 2 ] || fail "two scans of 160 results are one"
scans 2 2 3 0 0
says 0 'scan' opt --pass merge_scans many.stir
[ "$(grep -c ' = scan(' out)" = 1 ] || fail "two scans that carry the same are not one"

# ---- what is refused ----

says 3 "the model has no output 'los', did you mean 'loss'?" grad mlp.stir --loss los
says 3 "the model has no parameter or input 'w3', did you mean 'w" grad mlp.stir --wrt w3
says 3 "input 't' is i64, and only values of a float dtype have a gradient" grad mlp.stir --wrt t
says 3 "the model has no parameter of a float dtype" grad sincos.stir --wrt params
says 3 "the budget 1.5 is not from 0 to 1" grad sincos.stir --partition min-cut --budget 1.5
says 3 "--budget 'half' is no number from 0 to 1" grad sincos.stir --partition min-cut --budget half
says 3 "a budget is one of the plan 'min-cut'" grad sincos.stir --budget 0.5
says 3 "the plan 'max' is none of default and min-cut" grad sincos.stir --partition max
says 3 "is none of joint, forward and backward, did you mean 'joint'?" grad sincos.stir --graph joined
cat >none.stir <<'END'
stir 1
graph @none(%x: f32[4]) {
  %i = argmax(%x) {axis = 0} @"/arg":ArgMax
  %b = bitcast(%x) {dtype = i32} @"/bits":Bits
  %f = bitcast(%b) {dtype = f32}
  return i: %i, f: %f
}
END
says 3 "output 'i' is i64" grad none.stir --loss i
says 0 'expand' grad none.stir --loss f
echo "10 mistakes found on: aot_eager $backends"
