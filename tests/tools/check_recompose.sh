#!/usr/bin/env bash
# check_recompose.sh BUILD MODELS: how many composites recompose gives back to the open models, after
# dce. The models are tests/conformance/gen_models.py's; without them the status is 77 (skipped).
set -u
build=$1 models=$2
plugins="$build/tests/plugins"
[ -e "$plugins/keeper.so" ] && [ -d "$models" ] || { echo "no models in $models"; exit 77; }
status=0 seen=0

# expect MODEL OP=COUNT...
expect() {
    local model=$1 text op wanted found
    shift
    if [ ! -e "$models/$model/model.onnx" ]; then
        echo "$model: not there"
        return
    fi
    if ! text=$("$build/bin/stator" print "$models/$model/model.onnx" --backend keeper \
            --plugin-dir "$plugins" --after dce 2>&1); then
        echo "$text" | head -n 3
        status=1
        return
    fi
    seen=$((seen + 1))
    printf '%-20s' "$model"
    for wanted in "$@"; do
        op=${wanted%%=*}
        found=$(echo "$text" | grep -c "= $op(")
        printf ' %s %s' "$found" "$op"
        if [ "$found" != "${wanted#*=}" ]; then
            printf ' (expected %s)' "${wanted#*=}"
            status=1
        fi
    done
    echo
}

expect bert_base_seq128 sdpa=12 gelu=12 layer_norm=25 softmax=0 erf=0
expect bert_base_seq8 sdpa=12 gelu=12 layer_norm=25 softmax=0 erf=0
expect bert_tiny_dyn sdpa=2 gelu=2 layer_norm=5 softmax=0 erf=0
expect minilm_real sdpa=6 gelu=6 layer_norm=13 softmax=0 erf=0
expect vit_b16 sdpa=12 gelu=12 layer_norm=25 softmax=0 erf=0
expect vit_b16_ts sdpa=12 gelu=12 layer_norm=25 softmax=0 erf=0
expect llama2l_prefill sdpa=2 rms_norm=5 silu=2 softmax=0 sqrt=0 tile=0
expect llama2l_decode_dyn sdpa=2 rms_norm=5 silu=2 softmax=0 sqrt=0 tile=0
expect unet_small silu=7 sigmoid=0
[ "$seen$status" = 00 ] && exit 77
exit $status
