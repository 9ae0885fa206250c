#!/usr/bin/env python3
"""Many models of different make beside ONNX Runtime: where Stator is slow, or wrong, that nobody looked at.

    bench/zoo.py                                 every float model, 2 threads
    bench/zoo.py --only swin_tiny gpt2 --threads 1 --rounds 9
    bench/zoo.py --form qdq --only mobilenetv2   quantised by ONNX Runtime's quantizer (qdq, dynamic)

bench/zoo_models.py has the models; each is exported once into --work. A round times both once, in turns; the ratio is
the median of ONNX Runtime's time / ours within the round. `off` is the largest difference to PyTorch's result (of a
quantised model: ONNX Runtime's), relative to the largest element. The virtual environment is that of bench/peers.py."""
import argparse
import json
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers  # noqa: E402
import zoo_models  # noqa: E402

START_LIMIT_S = 600


def prepare(args, name):
    folder = os.path.join(args.work, f"{name}-{args.form}")
    spec = os.path.join(folder, "spec.json")
    if not os.path.exists(spec):
        os.makedirs(folder, exist_ok=True)
        program = os.path.join(peers.HERE, "zoo_models.py")
        done = subprocess.run([sys.executable, program, name, args.form, folder], capture_output=True, text=True,
                              env=dict(peers.base_env(os.cpu_count() or 1)))
        if done.returncode != 0:
            raise peers.Failed(f"could not be exported: {done.stderr.strip().splitlines()[-1:]}")
    with open(spec) as f:
        return folder, json.load(f)


def launch(args, folder, spec, is_ours):
    env = peers.base_env(args.threads)
    env["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
    log = os.path.join(folder, "ours.log" if is_ours else "ort.log")
    if not is_ours:
        command = [sys.executable, os.path.join(peers.HERE, "peers_worker.py"), "ort", folder, str(args.threads), "flush"]
        return peers.Worker(command, env, log)
    command = [os.path.join(args.build, "bench", "peer_worker"), os.path.join(folder, spec["onnx"]), "--threads",
               str(args.threads), "--backend", args.backend]
    for e in spec["inputs"]:
        command += ["--input", e["dtype"], ",".join(map(str, e["shape"])), os.path.join(folder, e["file"])]
    return peers.Worker(command, env, log)


def difference(folder, spec):
    import numpy as np
    got = peers.read_values(os.path.join(folder, "out_0.bin"), "f32")
    want = peers.read_values(os.path.join(folder, spec["outputs"][0]["file"]), "f32")
    if got.size != want.size or not np.array_equal(np.isfinite(got), np.isfinite(want)):
        return float("inf")
    return float(np.max(np.abs(got - want)) / max(float(np.max(np.abs(want))), 1e-30))


def measure(args, name):
    folder, spec = prepare(args, name)
    workers = [launch(args, folder, spec, 1), launch(args, folder, spec, 0)]
    try:
        facts = [w.ask("start", START_LIMIT_S) for w in workers]
        workers[0].ask(f"dump {folder}")
        off = difference(folder, spec)
        calls = [peers.calls_for(w, args.target) for w in workers]
        spent = [[], []]
        for r in range(args.rounds):
            for k in ((0, 1), (1, 0))[r % 2]:
                workers[1 - k].settle()
                spent[k].append(workers[k].ask(f"run {calls[k]}")["seconds"] / calls[k] * 1e3)
        ratio = statistics.median(b / a for a, b in zip(*spent))
        return dict(name=name, form=args.form, threads=args.threads, ours_ms=statistics.median(spent[0]),
                    ort_ms=statistics.median(spent[1]), ratio=ratio, off=off, compile_s=facts[0]["compile_s"])
    finally:
        for w in workers:
            w.close()


def main():
    p = argparse.ArgumentParser(prog="zoo.py", description=__doc__.split("\n")[0])
    p.add_argument("--only", nargs="+", default=[], metavar="NAME")
    p.add_argument("--form", choices=("float", "qdq", "dynamic"), default="float")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--target", type=float, default=0.15, help="seconds of calls in one timing")
    p.add_argument("--backend", default="inductor-cpu")
    p.add_argument("--json", default="", metavar="F")
    p.add_argument("--build", default=os.path.join(peers.ROOT, "build", "release"))
    p.add_argument("--work", default=os.path.join(peers.ROOT, "build", "bench-zoo"))
    p.add_argument("--venv", default=os.path.join(peers.ROOT, "build", "venv-bench"))
    args = p.parse_args()
    peers.enter_venv(os.path.abspath(args.venv))
    names = list(zoo_models.models())
    unknown = [n for n in args.only if n not in names]
    if unknown:
        sys.exit(f"zoo.py: unknown {', '.join(unknown)}; there are {', '.join(names)}")
    args.work, args.build = os.path.abspath(args.work), os.path.abspath(args.build)
    rows, failed = [], 0
    for name in args.only or names:
        try:
            row = measure(args, name)
            rows.append(row)
            print(f"{name:18} {row['ours_ms']:9.2f} ms  ratio {row['ratio']:5.2f}  off {row['off']:.1e}  "
                  f"compile {row['compile_s']:.2f} s", flush=True)
        except peers.Failed as error:
            failed += 1
            print(f"{name:18} failed: {error}", flush=True)
        if args.json:
            peers.save(args.json, rows)
    if rows:
        print(f"{len(rows)} models, median ratio {statistics.median(r['ratio'] for r in rows):.2f}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
