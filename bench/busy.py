#!/usr/bin/env python3
"""Starts beside one busy process: how long the first call takes and where the steady state ends up.

usage: busy.py MODEL.onnx [MODEL.onnx ...] [--starts 50] [--calls 60] [--threads T] [--stator BIN] [--cold] [--neighbours 1]
               [--option K=V ...] [--json FILE]

Each start is a process of its own, `stator run MODEL --random 0 --repeat CALLS --json`. Starts come in pairs, one on
the machine as it is and one beside a process that spins at the same priority, so that what the host does to both is
the same. Programs are in a compile cache that one start fills first; with --cold each start compiles anew. Printed
are, quiet and busy, least, median and largest of the first call and of the median of the calls behind it; then how many busy
starts had a first call of at most 3 times the quiet median and a steady state of at most 2.5 times the quiet one,
which is what docs/inductor-cpu.md (Busy machines) tells. Status 1 where fewer than 48 of 50 do, or a steady state does not."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

FIRST_MAX, FIRST_SHARE, STEADY_MAX = 3.0, 48 / 50, 2.5
SPIN = "while True: pass"


def start(args, model, env):
    """One process: (first call, median of the others), ms."""
    command = [args.stator, "run", model, "--random", "0", "--repeat", str(args.calls), "--json"]
    command += ["--threads", str(args.threads)] if args.threads else []
    command += ["--backend", "inductor-cpu"] if args.option else []
    for option in args.option:
        command += ["--backend-option", option]
    said = subprocess.run(command, env=env, capture_output=True, text=True)
    if said.returncode:
        sys.exit(f"busy.py: {' '.join(command)}: status {said.returncode}: {said.stderr.strip()[-400:]}")
    row = json.loads(said.stdout)
    return row["first_ms"], row["median_ms"]


def beside(args, model, env):
    """The same while neighbours spin."""
    spinning = [subprocess.Popen([sys.executable, "-c", SPIN]) for _ in range(args.neighbours)]
    try:
        return start(args, model, env)
    finally:
        for one in spinning:
            one.kill()
            one.wait()


def spread(values):
    low = sorted(values)
    return f"{low[0]:9.2f} {statistics.median(low):9.2f} {low[int(len(low) * 0.9)]:9.2f} {low[-1]:9.2f}"


def judge(quiet, busy):
    """Prints the distributions; the row of facts."""
    row = {"first_quiet": [q[0] for q in quiet], "first_busy": [b[0] for b in busy],
           "steady_quiet": [q[1] for q in quiet], "steady_busy": [b[1] for b in busy]}
    print(f"{'ms':14} {'least':>9} {'median':>9} {'90 %':>9} {'largest':>9}")
    for name, values in row.items():
        print(f"{name.replace('_', ', '):14} {spread(values)}")
    first, steady = (statistics.median(row[f"{what}_quiet"]) for what in ("first", "steady"))
    row["first_in"] = sum(b <= FIRST_MAX * first for b in row["first_busy"])
    row["steady_in"] = sum(b <= STEADY_MAX * steady for b in row["steady_busy"])
    row["ok"] = row["first_in"] >= FIRST_SHARE * len(busy) and row["steady_in"] == len(busy)
    print(f"first call at most {FIRST_MAX:g} times: {row['first_in']} of {len(busy)}; "
          f"steady state at most {STEADY_MAX:g} times: {row['steady_in']} of {len(busy)}", flush=True)
    return row


def run(args, model):
    quiet, busy = [], []
    with tempfile.TemporaryDirectory(prefix="stator-busy-") as folder:
        env = {**os.environ, "STATOR_CACHE_DIR": folder, "STATOR_CACHE": "0" if args.cold else "1"}
        start(args, model, env)
        for i in range(args.starts):
            for job in (start, beside) if i % 2 else (beside, start):
                (busy if job is beside else quiet).append(job(args, model, env))
    print(model)
    return judge(quiet, busy)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", metavar="MODEL")
    p.add_argument("--starts", type=int, default=50, help="pairs of starts a model")
    p.add_argument("--calls", type=int, default=60, help="calls behind the first")
    p.add_argument("--threads", type=int, default=0, help="of Stator; 0: all cores")
    p.add_argument("--neighbours", type=int, default=1, help="processes that spin")
    p.add_argument("--stator", default=shutil.which("stator") or "build/release/bin/stator")
    p.add_argument("--option", action="append", default=[], metavar="K=V", help="of the backend")
    p.add_argument("--cold", action="store_true", help="no compile cache")
    p.add_argument("--json", metavar="FILE", help="all times and the counts")
    args = p.parse_args()
    rows = {model: run(args, model) for model in args.models}
    if args.json:
        with open(args.json, "w") as out:
            json.dump(rows, out, indent=1)
    return 0 if all(row["ok"] for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
