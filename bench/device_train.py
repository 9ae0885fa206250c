"""Training steps of the networks of tests/conformance/gen_train.py on a GPU:

    device_train.py OUT.json [CASES] [--backend cuda] [--beside eager] [--steps 6] [--stator bin/stator] [NAME...]

CASES (the bundle's train.tar.xz, or a folder) is what bench/train_pack.py wrote. Weights, rows and targets are drawn
here from seeds. Each network makes the same steps of AdamW on the backend, its state on the device, and on another
one; the losses are to lie within 1e-3 of each other. Said of each: nodes on each backend, copies and waits of a call,
milliseconds of a step, and those of a step of PyTorch on the same device (the traced network, eager, AdamW fused, TF32 off).
Status 1: a network fails. Needs numpy; torch for the last figure.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy

import device_models

HERE = os.path.dirname(os.path.abspath(__file__))
RTOL = 1e-3
RATE = "1e-4"


def draw(name, number, shape, dtype, bound):
    if bound:
        return numpy.random.default_rng([number, bound]).integers(0, bound, shape).astype(dtype)
    return device_models.normal(name, 20000 + number, int(numpy.prod(shape)), 0.0, 1.0).reshape(shape)


def write_rows(folder, name, made, steps):
    rows = {}
    for number, (key, (shape, dtype, bound)) in enumerate(sorted(made["data"].items())):
        rows[key] = draw(name, number, [made["batch"] * steps, *shape], dtype, bound)
    numpy.savez(os.path.join(folder, "train.npz"), **rows)


def train(options, folder, made, backend, device):
    log = os.path.join(folder, backend + ".jsonl")
    command = ["train", os.path.join(folder, "model.onnx"), "--loss", "cross_entropy", "--lr", RATE, "--data",
               os.path.join(folder, "train.npz"), "--batch", str(made["batch"]), "--shuffle", "off", "--backend", backend,
               "--log", log, "--json"]
    done = device_models.stator(options, *command, *(["--device", device] if device else []))
    facts = json.loads(done.stdout[done.stdout.index("{"):])
    with open(log, encoding="utf-8") as file:
        steps = [json.loads(line) for line in file]
    return facts, [step["loss"] for step in steps], statistics.median(step["ms"] for step in steps[2:])


def constants_to(network, device):
    """A trace holds the device it was made on: tensors that it made and devices that it names go to this one."""
    import torch
    torch._C._jit_pass_inline(network.graph)
    for node in network.graph.findAllNodes("prim::Constant", True):
        kind = node.kindOf("value") if node.hasAttribute("value") else ""
        if kind == "t":
            node.t_("value", node.t("value").to(device))
        elif kind == "s" and str(node.output().type()) == "Device":
            node.s_("value", device)


def torch_step_ms(folder, made):
    """A step of the traced network, milliseconds; None: PyTorch or the trace is not there, or does not run there."""
    try:
        import torch
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        network = torch.jit.load(os.path.join(folder, "torch.pt"), map_location="cuda").train()
        constants_to(network, "cuda:0")
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_(0, 0.02)
        with numpy.load(os.path.join(folder, "train.npz")) as rows:
            arrays = {key: torch.from_numpy(rows[key][:made["batch"]]).cuda() for key in rows.files}
        target = arrays.pop("target")
        (x,) = arrays.values()
        optimizer = torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)
        times = []
        for _ in range(24):
            torch.cuda.synchronize()
            start = time.perf_counter()
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(network(x), target).backward()
            optimizer.step()
            torch.cuda.synchronize()
            times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times[8:])
    except Exception as error:  # one figure less, and why
        print("torch: " + " ".join(str(error).split())[-200:], file=sys.stderr)
        return None


def run_case(options, root, name):
    result = {"name": name, "ok": False}
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        try:
            folder, made = device_models.copy_and_make(root, name, scratch)
            write_rows(folder, name, made, options.steps)
            facts, losses, ms = train(options, folder, made, options.backend, options.backend + ":0")
            _, beside, _ = train(options, folder, made, options.beside, None)
            apart = max(abs(a - b) / abs(b) for a, b in zip(losses, beside))
            torch_ms = torch_step_ms(folder, made)
            result.update(ok=apart <= RTOL, apart=apart, step_ms=ms, torch_ms=torch_ms, losses=losses, beside=beside,
                          coverage=facts["coverage"])
        except Exception as error:  # a network that fails is said, and the others run
            result["error"] = " ".join(str(error).split())[:600]
    if "error" in result:
        print("%-10s FAILED  %s" % (name, result["error"]), flush=True)
        return result
    print("%-10s %s  losses within %.1e of %s, %.2f ms a step%s, %s" % (
        name, "ok" if result["ok"] else "FAILED", apart, options.beside, ms,
        ", torch %.2f, ratio %.2f" % (torch_ms, torch_ms / ms) if torch_ms else "", json.dumps(result["coverage"])), flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("cases", nargs="?", default=os.path.join(HERE, "..", "train.tar.xz"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--beside", default="eager")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--stator", default=os.path.join(HERE, "..", "bin", "stator"))
    parser.add_argument("--scratch", help="where the weights are written")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        root = device_models.unpack(options.cases, scratch)
        rows = [run_case(options, root, name) for name in options.names or sorted(os.listdir(root))]
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump({"rows": rows}, file, indent=1)
    print("%d of %d networks" % (sum(row["ok"] for row in rows), len(rows)))
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
