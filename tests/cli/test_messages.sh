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

# Another shape or name than expected: both shapes, and the outputs that there are.
constant probabilities '1, 9' nine_classes.npz
constant probabilites '1, 10' misspelt.npz
expect 1 'WRONG in shape: f32[1, 10], expected f32[1, 9]' run "$digits" --backend eager --expect nine_classes.npz
! grep -q 'max error' out || fail "an error of values that are not compared: $(cat out)"
expect 3 "the model has no output 'probabilites'; its outputs are probabilities" \
    run "$digits" --backend eager --expect misspelt.npz

# A folder of the cache that cannot be used is said once, and what to do.
expect 0 'compiled programs are not kept on disk: there is no folder /proc/none/programs' \
    env -u STATOR_CACHE STATOR_CACHE_DIR=/proc/none "$STATOR" bench "$digits" --backends "${backends// /,}" "${plugins[@]}"
[ "$(grep -c 'not kept on disk' out)" = 1 ] || fail "not once: $(cat out)"

# Files of others' formats, by name or by their first bytes.
for row in 'pt torch.onnx.export' 'pt2 torch.export.load' 'safetensors weights without a graph' \
    'gguf llama.cpp' 'tflite tf2onnx' 'ort ONNX Runtime'; do
    printf 'PK\3\4' >"model.${row%% *}"
    expect 3 "${row#* }" run "model.${row%% *}"
    grep -q '^hint: ' out || fail "no hint: $(cat out)"
done
printf '\34\0\0\0TFL3' >model.bin
expect 3 'a file of TensorFlow Lite' run model.bin

# Models from a pipe.
for name in - /dev/stdin; do
    "$STATOR" run "$name" --backend eager <"$digits" >out 2>&1 || fail "$name of a file: $(cat out)"
    # shellcheck disable=SC2002
    cat "$digits" | "$STATOR" run "$name" --backend eager >out 2>&1 || fail "$name of a pipe: $(cat out)"
    grep -q 'probabilities: f32\[1,10\]' out || fail "$name: $(cat out)"
done
(sleep 0.3; cat constant.stir) | "$STATOR" print - >printed.stir || fail 'a slow pipe'
"$STATOR" print printed.stir | expect 0 'probabilites: f32[1,10]' run - --backend eager
"$STATOR" print constant.stir | expect 3 'write the model to a file first' "$STATOR" bisect - --bad eager
head -c 5000 "$digits" | expect 3 "stdin: 'model' is not a whole ONNX file" run -
expect 3 "'/dev/null' is a device, a pipe or a socket, expected a regular file" run - </dev/null

# Sizes that no memory holds.
expect 3 'there is no tensor of f32[4611686018427387904, 1, 8, 8]: its sizes must be 0 or more, and 2^62 bytes are the most' \
    run "$digits" --dim N=4611686018427387904

echo ok
