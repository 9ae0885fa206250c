"""Networks to train without their weights, for a machine that makes some from seeds: train_pack.py CASES DIR

CASES is what tests/conformance/gen_train.py wrote. In DIR each case becomes what bench/models_pack.py
makes of a model, with names of weights and the sizes of a batch in made.json, and torch.pt and
torch_f64.pt, the traced network with weights of 0 as PyTorch's side of the comparison. bench/device_train.py
and bench/device_losses.py train them. Needs torch and onnx.
"""
import json
import os
import sys

import numpy
import onnx
import torch

import models_pack

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "conformance"))
import gen_train  # noqa: E402


def trace(name, target, dtype, file):
    build, rows, batch, _ = gen_train.CASES[name]
    network = build().train().to(dtype)
    x, _ = rows(batch, name)
    traced = torch.jit.trace(network, x.to(dtype) if x.is_floating_point() else x, check_trace=False)
    with torch.no_grad():
        for parameter in traced.parameters():
            if 4 * parameter.numel() > models_pack.LARGE:  # the model keeps the others
                parameter.zero_()
    traced.save(os.path.join(target, file))


def pack(source, target, name):
    model = onnx.load(os.path.join(source, "model.onnx"))
    os.makedirs(target)
    weights, size = models_pack.strip_weights(model)
    names = [tensor.name for tensor in model.graph.initializer if tensor.data_location == onnx.TensorProto.EXTERNAL]
    onnx.save(model, os.path.join(target, "model.onnx"))
    with open(os.path.join(source, "case.json"), encoding="utf-8") as file:
        batch = json.load(file)["batch"]
    data = {}
    with numpy.load(os.path.join(source, "train.npz")) as arrays:
        for key in arrays.files:
            rows = arrays[key]
            data[key] = [list(rows.shape[1:]), str(rows.dtype), int(rows.max()) + 1 if rows.dtype.kind == "i" else 0]
    with open(os.path.join(target, "made.json"), "w", encoding="utf-8") as file:
        json.dump({"size": size, "weights": weights, "names": names, "inputs": {}, "batch": batch, "data": data}, file)
    try:
        trace(name, target, torch.float32, "torch.pt")
        trace(name, target, torch.float64, "torch_f64.pt")
    except Exception as error:  # the comparison lacks its other side
        print("%s: PyTorch does not trace it: %s" % (name, str(error)[:200]), file=sys.stderr)


def main():
    source, target = sys.argv[1:3]
    for name in gen_train.CASES:  # a step of a packed network has no teacher
        if name not in gen_train.TEACHERS and os.path.exists(os.path.join(source, name, "case.json")):
            pack(os.path.join(source, name), os.path.join(target, name), name)


if __name__ == "__main__":
    main()
