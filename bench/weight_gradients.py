#!/usr/bin/env python3
"""Gradients of convolutions to their weights beside the direct forward of the same layer, which has as many flops.

    bench/weight_gradients.py                                  ResNet-18 of 16 images, MobileNetV3 of 8: channels last, one thread
    bench/weight_gradients.py --only 5x5 --rounds 5            layers whose names have this in them
    bench/weight_gradients.py --build ../old/build/release     another build

A time is the shortest call by the clock in a process, whose calls take --target seconds; of a layer the shortest of the
rounds, in which one follows the other, stands beside the median. A ratio is forward / gradient of the shortest ones: what
neighbours on a shared machine take shows in the medians. Below a layer's goal it is marked."""
import argparse
import json
import os
import random
import statistics
import struct
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Images, channels, features, groups, pixels of a line of the image, places of a line of the window, stride.
RESNET = [(16, 3, 64, 1, 224, 7, 2)]
RESNET += [(16, c, c, 1, 3584 // c, 3, 1) for c in (64, 128, 256, 512)]
RESNET += [(16, c, 2 * c, 1, 3584 // c, k, 2) for k in (3, 1) for c in (64, 128, 256)]
MOBILENET = [(8, c, c, c, size, k, stride) for c, size, k, stride in (
    (16, 112, 3, 1), (64, 112, 3, 2), (72, 56, 3, 1), (72, 56, 5, 2), (120, 28, 5, 1), (240, 28, 3, 2), (480, 14, 3, 1),
    (672, 14, 3, 1), (672, 14, 5, 2), (960, 7, 5, 1), (16, 112, 3, 2), (88, 28, 3, 1), (96, 28, 5, 2), (240, 14, 5, 1),
    (288, 14, 5, 2), (576, 7, 5, 1))]
GOALS = {False: 0.8, True: 0.5}  # with a group for each channel


def name_of(layer):
    _, channels, features, groups, size, window, stride = layer
    kind = "depthwise" if groups > 1 else f"{channels}->{features}" if channels != features else f"{channels}"
    return f"{window}x{window} stride {stride}, {kind}{f' {channels}' if groups > 1 else ''} @{size}"


def write(layer, folder):
    """The forward and the gradient of a layer, whose images come with channels last: the paths of both."""
    images, channels, features, groups, size, window, stride = layer
    pad = window // 2
    out = (size + 2 * pad - window) // stride + 1
    attributes = (f"strides = [{stride}, {stride}], pads = [{pad}, {pad}, {pad}, {pad}], dilations = [1, 1], "
                  f"groups = {groups}")
    x, w = f"f32[{images}, {size}, {size}, {channels}]", f"[{features}, {channels // groups}, {window}, {window}]"
    n = features * channels // groups * window * window
    draw = random.Random(1)
    with open(os.path.join(folder, "w.bin"), "wb") as f:
        f.write(struct.pack(f"<{n}f", *(draw.uniform(-0.1, 0.1) for _ in range(n))))
    first = "  %c = transpose(%x) {perm = [0, 3, 1, 2]}\n"
    texts = {"forward": f"stir 1\ngraph @forward(%x: {x}, param %w: f32{w} = file(\"w.bin\", 0, {4 * n})) {{\n{first}"
                        f"  %y = conv(%c, %w, _) {{{attributes}}}\n  %l = transpose(%y) {{perm = [0, 2, 3, 1]}}\n"
                        "  return y: %l\n}\n",
             "gradient": f"stir 1\ngraph @gradient(%x: {x}, %g: f32[{images}, {out}, {out}, {features}]) {{\n{first}"
                         "  %h = transpose(%g) {perm = [0, 3, 1, 2]}\n"
                         f"  %w = conv_weight_grad(%c, %h) {{kernel = [{window}, {window}], {attributes}}}\n"
                         "  return w: %w\n}\n"}
    for name, text in texts.items():
        with open(os.path.join(folder, name + ".stir"), "w") as f:
            f.write(text)
    return [os.path.join(folder, name + ".stir") for name in texts]


def shortest(args, path, calls):
    """Seconds of the shortest of so many calls of a process."""
    command = [os.path.join(args.build, "bin", "stator"), "run", path, "--backend", "inductor-cpu", "--threads", "1",
               "--backend-option", "winograd=no", "--random", "0", "--repeat", str(calls), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"weight_gradients.py: {' '.join(command)}: {done.stderr.strip()}")
    return json.loads(done.stdout)["min_ms"] / 1e3


def calls_for(args, path):
    shortest(args, path, 1)  # compiles, and measures the ways
    return max(4, int(args.target / shortest(args, path, 10)))


def measure(args, layer):
    """The times of the forward, and those of the gradient, in seconds: one a round."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["STATOR_CACHE_DIR"] = os.path.join(folder, "cache")
        paths = write(layer, folder)
        calls = [calls_for(args, path) for path in paths]
        rounds = [[shortest(args, path, n) for path, n in zip(paths, calls)] for _ in range(args.rounds)]
    return list(zip(*rounds))


def in_ms(times):
    return f"{1e3 * min(times):8.3f} ({1e3 * statistics.median(times):8.3f}) ms"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    parser.add_argument("--only", default="", metavar="TEXT", help="layers whose names have this in them")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--target", type=float, default=0.3, help="seconds of calls in one process")
    args = parser.parse_args()
    for layer in RESNET + MOBILENET:
        if args.only in name_of(layer):
            forward, gradient = measure(args, layer)
            ratio = min(forward) / min(gradient)
            goal = GOALS[layer[3] > 1]
            print(f"{name_of(layer):36} forward {in_ms(forward)}  gradient {in_ms(gradient)}  {ratio:5.2f}"
                  f"{f'  below {goal}' if ratio < goal else ''}", flush=True)


if __name__ == "__main__":
    main()
