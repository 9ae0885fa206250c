#!/usr/bin/env bash
# What the command says of what does not fit: sizes that the model declares otherwise, wrong shapes
# and names, files of other formats. Each message names what is wrong and what to do.
. "$STATOR_SOURCE/tests/cli/sizes_kit.sh"
digits="$STATOR_SOURCE/examples/digits/digits.onnx"

# A constant of that shape, as the file of the inputs or outputs of that name.
constant() { # name, shape, file
    printf 'stir 1\ngraph @main() {\n  %%x = iota() {shape = [%s], dtype = f32}\n  return %s: %%x\n}\n' \
        "$2" "$1" >constant.stir
    "$STATOR" run constant.stir --backend eager --save "$3" >/dev/null
}

# Other sizes than declared: compiled with a symbol and said once, or refused.
constant image '1, 1, 9, 8' nine.npz
for b in $backends; do
    expect 0 "axis 2 of input 'image' has size 9, the model declares 8: compiled for image_2" \
        run "$digits" --inputs nine.npz --backend "$b" --repeat 3
    [ "$(grep -c 'axis 2 of input' out)" = 1 ] || fail "not once: $(cat out)"
    expect 3 "axis 2 of input 'image' has size 9, the model declares 8" \
        run "$digits" --inputs nine.npz --backend "$b" --strict-sizes
    expect 0 'probabilities' run "$digits" --dim N=2 --backend "$b" --strict-sizes
done
echo ok
