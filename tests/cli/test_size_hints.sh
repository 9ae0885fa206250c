#!/usr/bin/env bash
# What is decided under symbols goes by the sizes of the call: chains of strided convolutions whose
# last ones have little to do, and convolutions of a symbolic batch, are calls of the library.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "BAD $1"; exit 1; }
unset STATOR_DUMP XDG_CACHE_HOME STATOR_LOGS
export STATOR_CACHE=0

convs() { # SIZES INPUT RANK WEIGHT N: N convolutions of stride 2, three taps along each axis
    printf 'stir 1\n'
    printf 'sym %s in [0, inf]\n' $1
    printf 'graph @m(%%x0: f32[%s], %%w: f32[%s]) {\n' "$2" "$4"
    ones=$(yes 1, | head -n "$3" | tr -d '\n') none=$(yes 0, | head -n $(($3 * 2)) | tr -d '\n')
    for i in $(seq "$5"); do
        printf '  %%c%d = conv(%%x%d, %%w) {strides = [%s], pads = [%s], dilations = [%s]}\n' \
            "$i" $((i - 1)) "$(echo "${ones%,}" | tr 1 2)" "${none%,}" "${ones%,}"
        printf '  %%x%d = relu(%%c%d)\n' "$i" "$i"
    done
    printf '  return y: %%x%d\n}\n' "$5"
}
convs 'B T' 'B, 64, T' 1 '64, 64, 3' 7 >time.stir
convs 'B H W' 'B, 64, H, W' 2 '64, 64, 3, 3' 6 >size.stir
convs 'B' 'B, 64, 33, 33' 2 '64, 64, 3, 3' 1 >batch.stir

# Rows of a table lie as the table has them, though their numbers lie one behind the other along S.
cat >long_folds.stir <<'END'
stir 1
sym B in [0, inf]
sym S in [0, inf]
graph @m(%i: i64[B, S], %t: f32[100, 64], %p: f32[50, 64], %w: f32[64, 64]) {
  %g = gather(%t, %i) {axis = 0}
  %j = gather(%p, %i) {axis = 0}
  %a = add(%g, %j)
  %n = layer_norm(%a)
  %r = reshape(%n) {shape = [B*S, 64]}
  %y = matmul(%r, %w)
  %b = reshape(%y) {shape = [B, S, 64]}
  %z = add(%b, %a)
  return z: %z
}
END

calls() { # MODEL N SIZES...: N calls of the library and no kernel of a convolution
    "$STATOR" explain "$1" --backend inductor-cpu "${@:3}" >got 2>err || fail "$1: $(cat err)"
    [ "$(grep -c 'call conv' got)" = "$2" ] || fail "$1 ${*:3}: $(cat got)"
}
"$STATOR" backends --probe | grep -qE '^inductor-cpu +AVAILABLE' || {
    echo "inductor-cpu is not available here"
    exit 0
}
"$STATOR" explain batch.stir --backend inductor-cpu --dim B=1 >got 2>&1
grep -q 'call conv' got || {
    echo "oneDNN cannot be used here"
    exit 0
}
calls time.stir 7 --dim B=1 --dim T=8000
calls time.stir 7 --dim B=2 --dim T=300
calls size.stir 6 --dim B=1 --dim H=512 --dim W=384
calls size.stir 6 --dim B=4 --dim H=256 --dim W=257
calls batch.stir 1 --dim B=2
"$STATOR" explain long_folds.stir --backend inductor-cpu --dim B=2 --dim S=64 >got 2>&1
grep -q 'call gemm' got || fail "long_folds.stir: $(cat got)"
echo ok
