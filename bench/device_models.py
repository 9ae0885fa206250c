"""The models of tests/conformance/gen_models.py on a GPU, with weights made here from seeds:

    device_models.py OUT.json [MODELS] [--backend cuda] [--stator bin/stator] [--jobs 2] [NAME...]

MODELS (the bundle's models.tar.xz, or a folder) is what bench/models_pack.py wrote: each model's
graph, and for each large weight and input its size, mean and standard deviation. They are made
normally distributed by a generator with the model's name and their number as the seed. `eager`
computes what is expected on this machine; results are to lie within rtol 1e-3 and three times the
model's own atol, as both sides are rounded; more where other weights make larger numbers. Said of each: how many nodes the backend had, which it
left, the largest error, milliseconds of the compile. Status 1: a model fails. Needs numpy.
"""
import argparse
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zlib

try:
    import numpy
except ImportError:  # bench/gpu.py leaves its models out
    numpy = None

HERE = os.path.dirname(os.path.abspath(__file__))
RTOL = 1e-3
ATOL_TIMES = 3
LIMIT_S = 240


def normal(name, number, n, mean, deviation):
    generator = numpy.random.default_rng([zlib.crc32(name.encode()), number])
    return generator.standard_normal(n, dtype=numpy.float32) * numpy.float32(deviation) + numpy.float32(mean)


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def tensor_proto(name, shape, array):
    """ONNX's TensorProto of f32: dims = 1, data_type = 2, name = 8, raw_data = 9."""
    raw = array.tobytes()
    return b"".join([*(b"\x08" + varint(size) for size in shape), b"\x10\x01", b"\x42", varint(len(name)),
                     name.encode(), b"\x4a", varint(len(raw)), raw])


def make(folder, name, made):
    """Writes the weights and large inputs of a model."""
    with open(os.path.join(folder, "weights.bin"), "wb") as file:
        for number, (offset, n, mean, deviation) in enumerate(made["weights"]):
            file.seek(offset)
            file.write(normal(name, number, n, mean, deviation).data)
        file.truncate(made["size"])
    for number, (path, (input_, shape, mean, deviation)) in enumerate(sorted(made["inputs"].items())):
        array = normal(name, 10000 + number, int(numpy.prod(shape)), mean, deviation)
        with open(os.path.join(folder, path), "wb") as file:
            file.write(tensor_proto(input_, shape, array))


def stator(options, *arguments):
    """What the command prints; a sentence instead of it is raised."""
    done = subprocess.run([options.stator, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    if done.returncode not in (0, 1):
        raise RuntimeError((done.stderr.strip() or done.stdout.strip() or "status %d" % done.returncode)[:600])
    return done


def nodes_left(options, model, inputs):
    done = subprocess.run([options.stator, "run", model, "--inputs", inputs, "--backend", options.backend, "--strict"],
                          capture_output=True, text=True, timeout=LIMIT_S, check=False)
    return done.stderr.strip()[:400]


def atol_for(made, expected):
    """The model's atol belongs to results with an rms of made["rms"]."""
    with numpy.load(expected) as arrays:
        rms = max(float(numpy.sqrt(numpy.mean(numpy.square(array, dtype=numpy.float64)))) if array.size else 0.0
                  for array in arrays.values())
    return ATOL_TIMES * made["atol"] * max(1.0, rms / made["rms"])


def run_set(options, folder, set_, made):
    model, inputs = os.path.join(folder, "model.onnx"), os.path.join(folder, set_)
    expected = os.path.join(folder, "expected.npz")
    stator(options, "run", model, "--inputs", inputs, "--backend", "eager", "--save", expected)
    atol = atol_for(made, expected)
    done = stator(options, "run", model, "--inputs", inputs, "--backend", options.backend, "--expect", expected,
                  "--rtol", str(RTOL), "--atol", str(atol), "--json")
    facts = json.loads(done.stdout[done.stdout.index("{"):])
    nodes = facts["coverage"]["by_backend"]
    row = {"set": set_, "ok": done.returncode == 0 and all(out["ok"] for out in facts["outputs"]),
           "nodes": nodes, "compile_ms": facts["compile_ms"], "first_ms": facts["first_ms"],
           "max_abs_err": max(out["max_abs_err"] for out in facts["outputs"]), "atol": atol}
    if set(nodes) != {options.backend}:
        row["left"] = nodes_left(options, model, inputs)
    return row


def copy_and_make(root, name, scratch):
    """A packed model in a folder of its own, with its weights: the folder, what made.json says."""
    folder = os.path.join(scratch, name)
    shutil.copytree(os.path.join(root, name), folder)
    with open(os.path.join(folder, "made.json"), encoding="utf-8") as file:
        made = json.load(file)
    make(folder, name, made)
    return folder, made


def run_model(options, root, name):
    result = {"name": name, "ok": False, "sets": []}
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch:
        try:
            folder, made = copy_and_make(root, name, scratch)
            for set_ in sorted(entry for entry in os.listdir(folder) if entry.startswith("test_data_set_")):
                result["sets"].append(run_set(options, folder, set_, made))
            result["ok"] = all(row["ok"] for row in result["sets"])
        except Exception as error:  # a model that fails is said, and the others run
            result["error"] = str(error)[:600]
    words = ["%-20s %s" % (name, "ok" if result["ok"] else "FAILED")]
    for row in result["sets"]:
        words.append("%s, error %.2g of %.2g, compile %.0f ms" % (
            " ".join("%s %d" % item for item in row["nodes"].items()), row["max_abs_err"], row["atol"],
            row["compile_ms"]))
        words += ["left: " + row["left"]] if "left" in row else []
    result["text"] = "  ".join(words + ([result["error"]] if "error" in result else []))
    print(result["text"], flush=True)
    return result


def unpack(path, scratch):
    if os.path.isdir(path):
        return path
    with tarfile.open(path) as archive:
        archive.extractall(scratch)
    return os.path.join(scratch, os.listdir(scratch)[0])


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("models", nargs="?", default=os.path.join(HERE, "..", "models.tar.xz"))
    parser.add_argument("names", nargs="*")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--stator", default=os.path.join(HERE, "..", "bin", "stator"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--scratch", help="where the weights are written")
    return parser.parse_args()


def main():
    options = read_arguments()
    with tempfile.TemporaryDirectory(dir=options.scratch) as scratch, \
            concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        root = unpack(options.models, scratch)
        rows = list(pool.map(lambda name: run_model(options, root, name), options.names or sorted(os.listdir(root))))
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump({"rows": rows, "passed": sum(row["ok"] for row in rows), "models": len(rows)}, file, indent=1)
    print("%d of %d models" % (sum(row["ok"] for row in rows), len(rows)))
    return 0 if all(row["ok"] for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
