#!/usr/bin/env bash
# Joint, forward and backward graphs of the models of tests/conformance/gen_models.py.
# usage: run_grad_models.sh PYTHON MODELS [NAME...]
# Status 77 (skipped) when PYTHON has no onnx and NumPy, or the models are not there.
set -eu
python=$1
models=$2
shift 2
if ! "$python" -c "import numpy, onnx" 2>/dev/null; then
    echo "$python has not onnx and numpy: ./bootstrap test makes it"
    exit 77
fi
if [ ! -e "$models/.complete" ]; then
    echo "$models has no models: ./bootstrap test --all makes them"
    exit 77
fi
exec "$python" "$STATOR_SOURCE/tests/conformance/grad_models.py" "$models" "$@" --stator "$STATOR"
