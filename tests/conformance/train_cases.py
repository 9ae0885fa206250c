#!/usr/bin/env python3
"""Trains the networks that gen_train.py wrote, and compares the loss of each step with PyTorch's in f64.

usage: train_cases.py CASES [NAME ...] [--backend eager ...] [--stator build/release/bin/stator]

A loss is right when it is at most four times as far from the f64 loss as PyTorch's f32 losses, with oneDNN and without it, are up to
that step, plus 1e-5 of it. Up to that step: roundings grow with each update, and PyTorch's own loss comes within 1e-6 of the f64 loss
now and then by chance, at steps where the losses around it are 1e-4 off. Said too is at how many steps PyTorch's loss of that very
step would be too near.
Status 1: a loss is not."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

TIMES, RELATIVE = 4, 1e-5


def losses_of(options, folder, case, backend):
    more = ["--teacher", os.path.join(folder, case["teacher"])] if "teacher" in case else []
    for key, value in case.get("options", {}).items():
        more += ["--opt", f"{key}={value}"]
    with tempfile.TemporaryDirectory() as scratch:
        log = os.path.join(scratch, "log.jsonl")
        done = subprocess.run([options.stator, "train", os.path.join(folder, "model.onnx"), "--loss", case["loss"], "--optimizer",
                               case["optimizer"], "--lr", str(case["lr"]), "--data", os.path.join(folder, "train.npz"), "--batch",
                               str(case["batch"]), "--shuffle", "off", "--backend", backend, "--log", log, *more],
                              capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(" ".join(done.stderr.split())[-400:])
        with open(log, encoding="utf-8") as file:
            return [json.loads(line)["loss"] for line in file]


def compare(options, name, backend):
    folder = os.path.join(options.cases, name)
    with open(os.path.join(folder, "case.json"), encoding="utf-8") as file:
        case = json.load(file)
    try:
        losses = losses_of(options, folder, case, backend)
    except RuntimeError as error:
        print(f"{name} on {backend}: FAILED: {error}", flush=True)
        return False
    worst = theirs = 0.0
    off, chance = [], []
    for step, (ours, single, plain, double) in enumerate(zip(losses, case["losses_f32"], case["losses_f32_plain"], case["losses_f64"]), 1):
        own, apart, other = (abs(loss - double) / abs(double) for loss in (single, ours, plain))
        worst, theirs = max(worst, apart), max(theirs, own, other)
        if not apart <= TIMES * theirs + RELATIVE:
            off.append(step)
        elif apart > TIMES * own + RELATIVE:
            chance.append(step)
    is_right = not off and len(losses) == case["steps"]
    print(f"{name} on {backend}: {'ok' if is_right else 'FAILED'}, {len(losses)} of {case['steps']} steps, within {worst:.1e} of f64, "
          f"PyTorch's f32 {theirs:.1e}{', off at steps ' + str(off) if off else ''}"
          f"{f', at {len(chance)} steps PyTorch is nearer than that' if chance else ''}", flush=True)
    return is_right


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("cases")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--backend", action="append", help="eager, aot_eager and inductor-cpu where none is named")
    parser.add_argument("--stator", default="build/release/bin/stator")
    options = parser.parse_args()
    names = options.names or sorted(name for name in os.listdir(options.cases)
                                    if os.path.exists(os.path.join(options.cases, name, "case.json")))
    right = [compare(options, name, backend) for name in names for backend in options.backend or ("eager", "aot_eager", "inductor-cpu")]
    print(f"{sum(right)} of {len(right)} trainings")
    return 0 if all(right) else 1


if __name__ == "__main__":
    sys.exit(main())
