#!/usr/bin/env bash
# Fifty steps of the networks of tests/conformance/gen_train.py beside PyTorch's losses, which are made
# where they are not there yet.
# usage: run_train_cases.sh PYTHON DIR BACKEND NAME...
# Status 77 (skipped) when PYTHON has no PyTorch.
set -eu
python=$1
cases=$2
backend=$3
shift 3
if ! "$python" -c "import onnx, torch, transformers" 2>/dev/null; then
    echo "$python has not PyTorch, transformers and onnx: ./bootstrap test --all makes it"
    exit 77
fi
for name in "$@"; do
    { grep -q '"steps": 50' "$cases/$name/case.json" && grep -q losses_f32_plain "$cases/$name/case.json"; } 2>/dev/null ||
        "$python" "$STATOR_SOURCE/tests/conformance/gen_train.py" "$cases" "$name"
done
"$python" "$STATOR_SOURCE/tests/conformance/train_cases.py" "$cases" "$@" --backend "$backend" --stator "$STATOR"
