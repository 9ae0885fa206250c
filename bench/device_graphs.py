"""Random graphs on a GPU and on the software device, bit by bit:

    device_graphs.py OUT.json [--backend cuda] [--soft cuda_soft] [--count 500] [--first 1] [--jobs 8]

Runs in a bundle, or with --build in a build tree. Kernels are generated ones alone (contractions =
loops), and each graph is called three times. Both sides run on this machine, so that what a graph
leaves to the host is computed by the same processor.

A function that has no program of its own (all of f64, and tan, pow and the like of f32: docs/gpu.md)
is the vendor's on a GPU and the C library's on the software device, and last bits may differ. Graphs
with other bits are looked at for them, and are counted apart when a kernel has one. Status 1: other
bits without such a function, another answer, or calls that differ.
"""
import argparse
import concurrent.futures
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CHUNK = 10
CALLS = 3
NAMES = ("exp|exp2|expm1|log|log2|log1p|sin|cos|tan|asin|acos|atan|sinh|cosh|tanh|asinh|acosh|atanh|"
         "erf|lgamma|fmod|pow|atan2")
FUNCTION = re.compile(r"\bst_(?:%s)_f(?:32|64)\(" % NAMES)


def environment(options, cache=None):
    root = os.path.abspath(options.build or os.path.join(HERE, ".."))
    plugins = [os.path.join(root, "lib", "stator", name) for name in ("plugins-soft", "plugins-1")]
    result = dict(os.environ, STATOR_PLUGIN_PATH=":".join(plugins), LD_LIBRARY_PATH=os.path.join(root, "lib"),
                  STATOR_CACHE="0", GF_KEY="contractions", GF_VALUE="loops", OMP_WAIT_POLICY="passive")
    if cache:
        result["STATOR_SOFT_CACHE"] = cache
    return result


def command(options):
    return os.path.join(options.build, "tests", "graph_fuzz") if options.build else \
        os.path.join(HERE, "..", "bin", "graph_fuzz")


def ask(options, backend, first, count, cache=None):
    """By seed what graph_fuzz says of it."""
    done = subprocess.run([command(options), backend, "bits", str(first), str(count), str(CALLS)],
                          env=environment(options, cache), capture_output=True, text=True, check=False)
    lines = (line.partition(" ") for line in done.stdout.splitlines())
    return {int(seed): text for seed, _, text in lines if seed.isdigit()}


def ask_all(options, pool, backend, cache):
    end = options.first + options.count
    chunks = [(first, min(CHUNK, end - first)) for first in range(options.first, end, CHUNK)]
    answers = {}
    for answer in pool.map(lambda chunk: ask(options, backend, *chunk, cache), chunks):
        answers.update(answer)
    return answers


def functions_of(options, seed):
    """The functions without a program of their own in the kernels of a graph."""
    with tempfile.TemporaryDirectory() as cache:
        ask(options, options.soft, seed, 1, cache)
        texts = []
        for path in glob.glob(os.path.join(cache, "*.c")):
            with open(path, encoding="utf-8") as file:
                texts.append(file.read())
    return sorted({name[:-1] for text in texts for name in FUNCTION.findall(text)})


def judge(options, pool, device, soft):
    seeds = range(options.first, options.first + options.count)
    is_error = {seed: device.get(seed, "error").startswith("error") for seed in seeds}
    result = {"graphs": options.count, "equal": 0, "refused": 0, "whole": 0, "functions": {}, "differ": {},
              "calls_differ": []}
    others = []
    for seed in seeds:
        mine, theirs = device.get(seed, "error: no answer"), soft.get(seed, "error: no answer")
        if is_error[seed]:
            same = theirs.startswith("error") and "crashed" not in mine and "no answer" not in mine
            result["refused"] += same
            if not same:
                result["differ"][seed] = "%s; soft: %s" % (mine, theirs)
            continue
        bits, changes, left = mine.split()
        result["whole"] += left == "0"
        if changes != "0":
            result["calls_differ"].append(seed)
        if theirs.split()[0] == bits:
            result["equal"] += 1
        else:
            others.append(seed)
    for seed, names in zip(others, pool.map(lambda seed: functions_of(options, seed), others)):
        result["functions" if names else "differ"][seed] = \
            " ".join(names) if names else "%s; soft: %s" % (device[seed], soft[seed])
    return result


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--soft", default="cuda_soft")
    parser.add_argument("--build", help="a build tree in place of the bundle")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=min(8, os.cpu_count() or 1))
    return parser.parse_args()


def main():
    options = read_arguments()
    with tempfile.TemporaryDirectory() as cache, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        device = ask_all(options, pool, options.backend, None)
        soft = ask_all(options, pool, options.soft, cache)
        result = judge(options, pool, device, soft)
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump(result, file, indent=1)
    print("%(graphs)d random graphs: %(equal)d the same bits, %(refused)d refused alike, %(whole)d wholly there; "
          % result + "%d other bits by a function of the vendor's; %d DIFFER; in %d calls differ"
          % (len(result["functions"]), len(result["differ"]), len(result["calls_differ"])))
    for seed, names in result["functions"].items():
        print("  seed %d: %s" % (seed, names))
    for seed, what in list(result["differ"].items())[:60]:
        print("  DIFFERS seed %d: %s" % (seed, what[:400]))
    return 1 if result["differ"] or result["calls_differ"] else 0


if __name__ == "__main__":
    sys.exit(main())
