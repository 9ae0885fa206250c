#!/usr/bin/env bash
# What a backend may not take apart, claim or compile goes to eager, which has no kernel for some
# composites: these are decomposed for it at every limit of fuel, also inside control flow.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"

says() { # status, words, arguments...
    local want=$1 words=$2
    shift 2
    expect "$want" "$words" "$STATOR" "$@" "${plugins[@]}"
}
ok() { "$STATOR" "$@" "${plugins[@]}" >out 2>&1 || fail "$*: $(cat out)"; }
planted=$STATOR_BUILD/tests/planted

cat >losses.stir <<'END'
stir 1
sym N in [1, 1000]
graph @losses(%x: f32[N, 4], %t: f32[N, 4], %w: f32[4], %h: f16[N, 4], %n: f64[N, 4]) {
  %p = softmax(%t) {axis = 1}
  %z = mul(%t, %x)
  %k = argmax(%z) {axis = 1, keepdims = 0}
  %l1 = mse_loss(%x, %t) @"/mse":Loss
  %l2 = l1_loss(%h, %h)
  %l3 = huber_loss(%x, %t) {delta = 0.25, reduction = "sum"}
  %l4 = bce_with_logits(%x, %p, %w)
  %l5 = kl_div(%x, %t) {temperature = 2.0, reduction = "batchmean"}
  %l6 = cross_entropy(%x, %k, %w) {label_smoothing = 0.125}
  %l7 = cross_entropy(%n, %n) {reduction = "none"}
  %zero = constant {value = f32[] {0}}
  %more = gt(%l1, %zero)
  %l8 = cond(%more, %x, %t) @"/if":If
    region @yes(%x: f32[N, 4], %t: f32[N, 4]) {
      %s = tanh(%x) @"/if/tanh":Tanh
      %l = mse_loss(%s, %t)
      return %l
    }
    region @no(%x: f32[N, 4], %t: f32[N, 4]) {
      %l = huber_loss(%x, %t)
      return %l
    }
  return l1: %l1, l2: %l2, l3: %l3, l4: %l4, l5: %l5, l6: %l6, l7: %l7, l8: %l8
}
END
cat >net.stir <<'END'
stir 1
graph @net(%q: f32[2, 4, 3, 8], %k: f32[2, 2, 5, 8], %v: f32[2, 2, 5, 8]) {
  %y = sdpa(%q, %k, %v) @"/attention":Attention
  %z = tanh(%y) @"/tanh":Tanh
  return z: %z
}
END
ok grad net.stir --wrt q,k,v -o joint.stir
grep -q 'sdpa_gradient(' joint.stir || fail "no gradient of attention: $(cat joint.stir)"
for model in "losses.stir --dim N=6" joint.stir; do
    read -ra args <<<"$model"
    for backend in aot_eager $backends; do
        for fuel in 0 1 3 6; do
            STATOR_FUEL=$fuel ok run "${args[@]}" --random 3 --backend "$backend"
        done
        [ "$backend" = eager ] || STATOR_FUEL=0 says 0 agrees compare "${args[@]}" --backends "eager,$backend"
    done
    # The mistake is found behind what eager has no kernel for.
    says 0 '"rung"' bisect "${args[@]}" --bad wrong_tanh --plugin-dir "$planted/wrong_tanh" --json
    grep -q '"kind":	"kernel"' out || fail "bisect of $model: $(cat out)"
    grep -q '"node":	"/\(if/\)\?\(tanh\|if\)"' out || fail "bisect of $model names another node: $(cat out)"
done

# Strict: there is no fallback, and what the backend refuses is taken apart for it likewise.
STATOR_FUEL=0 ok run losses.stir --dim N=6 --random 3 --backend aot_eager --strict
