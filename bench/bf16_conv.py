#!/usr/bin/env python3
"""A convolution in bf16 beside the same layer in f32, direct and by Winograd's algorithm, in Stator alone.

    bench/bf16_conv.py [--build build/release] [--threads 2] [--rounds 7] [--repeat 20] [--prefix "chrt -f 10"]

The layer is that of bench/models/conv_64x56.stir and conv_bf16_64x56.stir with random weights. Each round runs every
kind once, one after the other; a ratio is the median over the rounds of f32 / bf16 within a round. A processor's dot
products of bf16 have twice the flops of its f32 FMA, so 2 is the limit of the ratio to the direct convolution."""
import argparse
import json
import os
import random
import shlex
import shutil
import statistics
import struct
import subprocess
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
KINDS = [("bf16", "conv_bf16_64x56", []), ("f32 direct", "conv_64x56", ["--backend-option", "winograd=false"]),
         ("f32", "conv_64x56", [])]
GOAL = 1.9


def write_weights(folder):
    """The same numbers twice: f32, and their upper halves."""
    draw = random.Random(1)
    numbers = [struct.pack("<f", draw.uniform(-0.1, 0.1)) for _ in range(64 * 64 * 9)]
    with open(os.path.join(folder, "conv_64x56.bin"), "wb") as f:
        f.write(b"".join(numbers))
    with open(os.path.join(folder, "conv_bf16_64x56.bin"), "wb") as f:
        f.write(b"".join(n[2:] for n in numbers))


def milliseconds(args, folder, model, options):
    command = [*shlex.split(args.prefix), os.path.join(args.build, "bin", "stator"), "run",
               os.path.join(folder, model + ".stir"), "--backend", "inductor-cpu", "--threads", str(args.threads),
               "--repeat", str(args.repeat), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bf16_conv.py: {' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)["median_ms"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--repeat", type=int, default=20)
    parser.add_argument("--prefix", default="", help="put before each command, as 'chrt -f 10'")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["STATOR_CACHE_DIR"] = os.path.join(folder, "cache")
        write_weights(folder)
        for model in {model for _, model, _ in KINDS}:
            shutil.copy(os.path.join(ROOT, "bench", "models", model + ".stir"), folder)
        rounds = [[milliseconds(args, folder, model, options) for _, model, options in KINDS]
                  for _ in range(args.rounds)]
    for k, (name, _, _) in enumerate(KINDS):
        ratio = statistics.median(r[k] / r[0] for r in rounds)
        goal = f"  goal {GOAL}: {'met' if ratio >= GOAL else 'not met'}" if name == "f32 direct" else ""
        print(f"{name:<12}{statistics.median(r[k] for r in rounds):8.2f} ms  {ratio:5.2f} x bf16{goal}")


if __name__ == "__main__":
    main()
