"""Fifty steps of the networks of tests/conformance/gen_train.py beside PyTorch's, where neither their weights nor what makes them is:

    device_losses.py [CASES] [NAME...] [--backend eager ...] [--steps 50] [--stator bin/stator]

CASES (the bundle's train.tar.xz, or a folder) is what bench/train_pack.py wrote. Weights, rows and targets are drawn here from seeds and
put into the traced networks by the names of the parameters; PyTorch trains these on the processor in f32, without oneDNN too, and in
f64. Then tests/conformance/train_cases.py trains the models and compares. Status 1: a loss is off. Needs numpy and torch.
"""
import argparse
import json
import os
import sys
import tempfile

import numpy
import torch

import device_models
import device_train

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[1:1] = [HERE, os.path.join(HERE, "..", "tests", "conformance")]
import train_cases  # noqa: E402

LR = float(device_train.RATE)


def load(folder, made, double):
    """The traced network with the weights of the model beside it; small ones it has."""
    network = torch.jit.load(os.path.join(folder, "torch_f64.pt" if double else "torch.pt")).train()
    parameters = dict(network.named_parameters())
    with open(os.path.join(folder, "weights.bin"), "rb") as file, torch.no_grad():
        for name, (offset, count, *_) in zip(made["names"], made["weights"]):
            file.seek(offset)
            array = numpy.fromfile(file, numpy.float32, count)
            parameters[name].copy_(torch.from_numpy(array).reshape(parameters[name].shape))
    return network


def losses(folder, made, steps, double):
    """The loss of each step of AdamW, before its update."""
    network = load(folder, made, double)
    with numpy.load(os.path.join(folder, "train.npz")) as rows:
        arrays = {key: torch.from_numpy(rows[key]) for key in rows.files}
    target = arrays.pop("target")
    (x,) = arrays.values()
    x = x.double() if double and x.is_floating_point() else x
    optimizer = torch.optim.AdamW(network.parameters(), lr=LR)
    told = []
    for step in range(steps):
        part = slice(step * made["batch"], (step + 1) * made["batch"])
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(x[part]), target[part])
        loss.backward()
        optimizer.step()
        told.append(float(loss.detach()))
    return told


def run_case(options, root, name):
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        folder, made = device_models.copy_and_make(root, name, scratch)
        device_train.write_rows(folder, name, made, options.steps)
        case = {"batch": made["batch"], "lr": LR, "steps": options.steps, "loss": "cross_entropy", "optimizer": "adamw",
                "losses_f32": losses(folder, made, options.steps, False), "losses_f64": losses(folder, made, options.steps, True)}
        with torch.backends.mkldnn.flags(enabled=False):
            case["losses_f32_plain"] = losses(folder, made, options.steps, False)
        with open(os.path.join(folder, "case.json"), "w", encoding="utf-8") as file:
            json.dump(case, file)
        options.cases = scratch
        return [train_cases.compare(options, name, backend) for backend in options.backend or ("eager", "aot_eager", "inductor-cpu")]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("packed", nargs="?", default=os.path.join(HERE, "..", "train.tar.xz"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--backend", action="append", help="eager, aot_eager and inductor-cpu where none is named")
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--stator", default=os.path.join(HERE, "..", "bin", "stator"))
    parser.add_argument("--scratch", help="where the weights are written")
    options = parser.parse_args()
    right = []
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        root = device_models.unpack(options.packed, scratch)
        for name in options.names or sorted(os.listdir(root)):
            right += run_case(options, root, name)
    print(f"{sum(right)} of {len(right)} trainings")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
