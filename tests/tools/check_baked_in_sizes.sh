#!/usr/bin/env bash
# check_baked_in_sizes.sh BUILD MODELS: exports of one size called with another. The same network is
# there twice, exported for two sizes; each file must give what PyTorch gave for the other's inputs.
# The models are tests/conformance/gen_models.py's; without them the status is 77 (skipped).
set -u
build=$1 models=$2
status=0 seen=0

# expect MODEL OTHER: MODEL with OTHER's inputs gives OTHER's outputs, on both backends.
expect() {
    local model=$models/$1/model.onnx set=$models/$2/test_data_set_0 backend
    [ -e "$model" ] && [ -d "$set" ] || return
    seen=$((seen + 1))
    for backend in eager inductor-cpu; do
        if "$build/bin/stator" run "$model" --backend "$backend" --inputs "$set" --expect "$set" \
                >/dev/null 2>"$build/baked_in_sizes.err"; then
            echo "$1 with the inputs of $2 on $backend: ok"
        else
            echo "$1 with the inputs of $2 on $backend: status $?"
            head -n 3 "$build/baked_in_sizes.err"
            status=1
        fi
    done
}

expect bert_base_seq8 bert_base_seq128
expect bert_base_seq128 bert_base_seq8
expect resnet18_bs1 resnet18_bs16
expect resnet18_bs16 resnet18_bs1
[ "$seen" != 0 ] || { echo "no models in $models"; exit 77; }
exit $status
