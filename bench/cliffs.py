#!/usr/bin/env python3
"""The small models of tests/conformance/gen_cliffs.py beside ONNX Runtime (and OpenVINO): where speed falls off a cliff.

    bench/cliffs.py                                    every case, 2 threads
    bench/cliffs.py --threads 1 --only topk_vocab int4_decode --peers ort,openvino
    bench/cliffs.py --option vector_bits=256           generated code as on a processor without AVX-512

The ratio is the median of the peer's time / ours within a round; no case is to be below 0.8. At the end the twins, cases
that differ in constants alone, are timed beside each other: the slowest over the fastest is to be at most 1.1. The
environment is that of bench/peers.py."""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers  # noqa: E402
import versus  # noqa: E402

DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "int64": "i64", "int32": "i32", "int8": "i8",
          "uint8": "u8", "bool": "bool"}


def make_cases(args):
    folder = args.cases or os.path.join(args.work, "cases")
    if not glob.glob(os.path.join(folder, "*", "model.onnx")):
        program = os.path.join(peers.ROOT, "tests", "conformance", "gen_cliffs.py")
        subprocess.run([sys.executable, program, folder], check=True)
    return folder


def tensors(case, kind, folder):
    """Writes the tensors of one kind as plain bytes and describes them."""
    from onnx import TensorProto, numpy_helper
    found = []
    for k, path in enumerate(sorted(glob.glob(os.path.join(case, "test_data_set_0", f"{kind}_*.pb")))):
        t = TensorProto()
        with open(path, "rb") as f:
            t.ParseFromString(f.read())
        a = numpy_helper.to_array(t)
        a.tofile(os.path.join(folder, f"{kind}_{k}.bin"))
        found.append(dict(name=t.name, dtype=DTYPES[str(a.dtype)], shape=list(a.shape), file=f"{kind}_{k}.bin"))
    return found


def prepare(args, cases, name):
    """The folder of bench/versus.py for a case in ONNX's test layout."""
    case, folder = os.path.join(cases, name), os.path.join(args.work, name)
    os.makedirs(folder, exist_ok=True)
    inputs = tensors(case, "input", folder)
    spec = dict(name=name, onnx=os.path.relpath(os.path.join(case, "model.onnx"), folder), inputs=inputs,
                onnx_inputs=[e["name"] for e in inputs], outputs=tensors(case, "output", folder))
    with open(os.path.join(folder, "spec.json"), "w") as f:
        json.dump(spec, f, indent=1)
    return folder


def twins(rows):
    """Stem of a name to the cases that have it, where there are several."""
    groups = {}
    for row in rows:
        stem, _, last = row["name"].rpartition("_")
        if last in ("rand", "zero", "half") and "ms" in row:
            groups.setdefault(stem, []).append(row["name"])
    return {stem: names for stem, names in groups.items() if len(names) > 1}


def time_twins(args, names):
    """Our times of some cases in turns: the slowest over the fastest of the medians of rounds, each relative to the
    first case within its round."""
    folders = [os.path.join(args.work, name) for name in names]
    workers = [versus.launch(args, f, versus.read_spec(f), versus.OURS) for f in folders]
    try:
        for w in workers:
            w.ask("start", versus.START_LIMIT_S)
        spent = versus.time_in_turns(args, workers)
        to_first = [statistics.median(t / first for first, t in zip(spent[0], times)) for times in spent]
        return max(to_first) / min(to_first)
    finally:
        for w in workers:
            w.close()


def main():
    p = argparse.ArgumentParser(prog="cliffs.py", description=__doc__.split("\n")[0])
    versus.add_arguments(p, "bench-cliffs")
    p.add_argument("--cases", default="", metavar="DIR", help="cases made before; default: made below --work")
    args = p.parse_args()
    versus.settle_arguments(args)
    cases = make_cases(args)
    names = sorted(os.path.basename(os.path.dirname(f)) for f in glob.glob(os.path.join(cases, "*", "model.onnx")))
    unknown = [n for n in args.only if n not in names]
    if unknown:
        sys.exit(f"cliffs.py: unknown {', '.join(unknown)}; there are {', '.join(names)}")
    rows = versus.run_all(args, args.only or names, lambda name: prepare(args, cases, name))
    for stem, twin_names in twins(rows).items():
        print(f"{stem}: slowest over fastest twin {time_twins(args, twin_names):.2f}")
    return versus.status(rows)


if __name__ == "__main__":
    sys.exit(main())
