"""Training steps of the networks of tests/conformance/gen_train.py on a GPU, or on a CPU of more kinds than that of the build:

    device_train.py OUT.json [CASES [NAME...]] [--backend cuda] [--beside eager] [--steps 6] [--stator bin/stator]
    device_train.py OUT.json CASES [NAME...] --backend inductor-cpu --beside inductor-cpu [--amp bf16] --threads 2 --rounds 3

CASES (the bundle's train.tar.xz, or a folder) is what bench/train_pack.py wrote. Weights, rows and targets are drawn
here from seeds. Each network makes the same steps of AdamW on the backend, its state on the device, and on another
one, in f32; the losses are to lie within 1e-3 of each other, with --amp bf16 or f16 within 5e-2 or 1e-2. Said of each:
nodes on each backend, copies and waits of a call, milliseconds of a step, and those of a step of PyTorch on the same
device (the traced network, eager, AdamW fused, TF32 off, torch.autocast for --amp; with f16 without a GradScaler,
while our step scales its loss). With several rounds both train in turn; the ratio is the median of the rounds'. Names
stand before the options. Status 1: a network fails. Needs numpy; torch for the last figure.
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
RTOL = {None: 1e-3, "bf16": 5e-2, "f16": 1e-2}
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


def train(options, folder, made, backend, device=None, extra=()):
    """A training's report, the loss of each step, and milliseconds of a median step."""
    log = os.path.join(folder, backend + ".jsonl")
    command = ["train", os.path.join(folder, "model.onnx"), "--loss", "cross_entropy", "--lr", RATE, "--data",
               os.path.join(folder, "train.npz"), "--batch", str(made["batch"]), "--shuffle", "off", "--backend", backend,
               "--log", log, "--json", *(["--device", device] if device else []), *extra]
    done = device_models.stator(options, *command)
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


class TorchSteps:
    """Steps of the traced network in PyTorch. A figure less, and why, where PyTorch or the trace is not there, or does not
    run there."""

    def __init__(self, options, folder, made):
        self.step = None
        try:
            self.step = self.make(options, folder, made)
        except Exception as error:
            self.give_up(error)

    def give_up(self, error):
        self.step = None
        print("torch: " + " ".join(str(error).split())[-200:], file=sys.stderr)

    @staticmethod
    def make(options, folder, made):
        import torch
        kind = "cpu" if options.backend == "inductor-cpu" else "cuda"
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
        if options.threads:
            torch.set_num_threads(options.threads)
        network = torch.jit.load(os.path.join(folder, "torch.pt"), map_location=kind).train()
        if kind == "cuda":
            constants_to(network, "cuda:0")
        with torch.no_grad():
            for parameter in network.parameters():
                parameter.normal_(0, 0.02)
        with numpy.load(os.path.join(folder, "train.npz")) as rows:
            arrays = {key: torch.from_numpy(rows[key][:made["batch"]]).to(kind) for key in rows.files}
        target = arrays.pop("target")
        (x,) = arrays.values()
        optimizer = torch.optim.AdamW(network.parameters(), lr=float(RATE), fused=True)
        dtype = {"bf16": torch.bfloat16, "f16": torch.float16}.get(options.amp)

        def step():
            optimizer.zero_grad()
            with torch.autocast(kind, dtype=dtype, enabled=dtype is not None):
                loss = torch.nn.functional.cross_entropy(network(x), target)
            loss.backward()
            optimizer.step()
            if kind == "cuda":
                torch.cuda.synchronize()
        return step

    def ms(self, steps, warmup):
        """Milliseconds of a median step, or None."""
        if self.step is None:
            return None
        try:
            times = []
            for _ in range(warmup + steps):
                start = time.perf_counter()
                self.step()
                times.append(1e3 * (time.perf_counter() - start))
            return statistics.median(times[warmup:])
        except Exception as error:
            self.give_up(error)
            return None


def run_case(options, root, name):
    result = {"name": name, "ok": False}
    on_gpu = options.backend != "inductor-cpu"
    threads = ["--threads", str(options.threads)] if options.threads else []
    amp = ["--amp", options.amp] if options.amp else []
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        try:
            folder, made = device_models.copy_and_make(root, name, scratch)
            write_rows(folder, name, made, options.steps)
            device = options.backend + ":0" if on_gpu else None
            _, beside, _ = train(options, folder, made, options.beside, extra=threads)
            peer = TorchSteps(options, folder, made)
            ours, theirs = [], []
            for number in range(options.rounds):
                facts, losses, ms = train(options, folder, made, options.backend, device, threads + amp)
                ours.append(ms)
                theirs.append(peer.ms(16 if on_gpu else options.steps, 8 if on_gpu and number == 0 else 2))
            apart = max(abs(a - b) / abs(b) for a, b in zip(losses, beside))
            result.update(ok=apart <= RTOL[options.amp], apart=apart, step_ms=ours, torch_ms=theirs, losses=losses, beside=beside,
                          coverage=facts["coverage"])
        except Exception as error:  # a network that fails is said, and the others run
            result["error"] = " ".join(str(error).split())[:600]
    if "error" in result:
        print("%-10s FAILED  %s" % (name, result["error"]), flush=True)
        return result
    ratio = ""
    if None not in theirs:
        result["ratio"] = statistics.median(b / a for a, b in zip(ours, theirs))
        ratio = ", torch %.2f, ratio %.2f" % (statistics.median(theirs), result["ratio"])
    print("%-10s %s  losses within %.1e of %s, %.2f ms a step%s, %s" % (
        name, "ok" if result["ok"] else "FAILED", apart, options.beside, statistics.median(ours), ratio,
        json.dumps(result["coverage"])), flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("cases", nargs="?", default=os.path.join(HERE, "..", "train.tar.xz"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--beside", default="eager")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--threads", type=int, default=0, help="of a backend on the CPU; 0: all cores")
    parser.add_argument("--amp", choices=["bf16", "f16"])
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
