"""One ONNX model in Stator and in its peers, timed in turns: what bench/zoo.py and bench/cliffs.py share.

A model is a folder with spec.json: `onnx`, a path from the folder; `onnx_inputs`, names in the file's order; `inputs`
and `outputs`, each with dtype, shape and the file of its bytes. Every candidate is a process that waits on a pipe. A
round times each once while the others sleep, in an order that changes from round to round; a ratio is the median over
rounds of peer / Stator within the round, so above 1 Stator is faster."""
import json
import os
import statistics
import sys

import peers

OURS = "stator"
START_LIMIT_S = 600


def add_arguments(parser, work):
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--target", type=float, default=0.15, help="seconds of calls in one timing")
    parser.add_argument("--peers", default="ort", help="comma list of ort, openvino; the first decides the order")
    parser.add_argument("--backend", default="inductor-cpu")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="backend option of Stator")
    parser.add_argument("--json", default="", metavar="F", help="the rows; those that F already has are not run again")
    parser.add_argument("--build", default=os.path.join(peers.ROOT, "build", "release"))
    parser.add_argument("--work", default=os.path.join(peers.ROOT, "build", work))
    parser.add_argument("--venv", default=os.path.join(peers.ROOT, "build", "venv-bench"))


def settle_arguments(args):
    """Continues in the environment's Python and makes paths absolute."""
    peers.enter_venv(os.path.abspath(args.venv))
    args.work, args.build = os.path.abspath(args.work), os.path.abspath(args.build)
    args.peers = [p for p in args.peers.split(",") if p]


def read_spec(folder):
    with open(os.path.join(folder, "spec.json")) as f:
        return json.load(f)


def launch(args, folder, spec, who):
    env = peers.base_env(args.threads)
    env["XDG_CACHE_HOME"] = os.path.join(folder, "cache")
    log = os.path.join(folder, f"{who}.log")
    if who != OURS:
        worker = os.path.join(peers.HERE, "peers_worker.py")
        return peers.Worker([sys.executable, worker, who, folder, str(args.threads), "flush"], env, log)
    command = [os.path.join(args.build, "bench", "peer_worker"), os.path.join(folder, spec["onnx"]), "--threads",
               str(args.threads), "--backend", args.backend]
    for option in args.option:
        command += ["--option", option]
    for e in spec["inputs"]:
        command += ["--input", e["dtype"], ",".join(map(str, e["shape"])), os.path.join(folder, e["file"])]
    return peers.Worker(command, env, log)


def difference(folder, spec, said):
    """The largest difference of an output to the expected one, relative to the largest expected element."""
    import numpy as np
    worst = 0.0
    for k, (got, want) in enumerate(zip(said["outputs"], spec["outputs"], strict=True)):
        if got["shape"] != want["shape"]:
            return float("inf")
        a = peers.read_values(os.path.join(folder, f"out_{k}.bin"), got["dtype"])
        b = peers.read_values(os.path.join(folder, want["file"]), want["dtype"])
        finite = np.isfinite(b)
        if not np.array_equal(np.isfinite(a), finite):
            return float("inf")
        scale = max(float(np.max(np.abs(b[finite]), initial=0.0)), 1e-30)
        worst = max(worst, float(np.max(np.abs(a[finite] - b[finite]), initial=0.0)) / scale)
    return worst


def time_in_turns(args, workers):
    """Milliseconds a call: for each candidate a list with one entry a round."""
    calls = [peers.calls_for(w, args.target) for w in workers]
    spent = [[] for _ in workers]
    for r in range(args.rounds):
        for k in [(r + i) % len(workers) for i in range(len(workers))]:
            for i, w in enumerate(workers):
                if i != k:
                    w.settle()
            spent[k].append(workers[k].ask(f"run {calls[k]}")["seconds"] / calls[k] * 1e3)
    return spent


def begin(folder, who, worker):
    """Starts a candidate and runs it once; None where a peer cannot run the model at all."""
    try:
        facts = worker.ask("start", START_LIMIT_S)
        return facts, worker.ask(f"dump {folder}")
    except peers.Failed as error:
        if who == OURS:
            raise
        return dict(error=str(error)), None


def measure(args, folder):
    """The row of one model: times and ratios by candidate, how far off the result is, compile time."""
    spec = read_spec(folder)
    names = [OURS, *args.peers]
    workers = {who: launch(args, folder, spec, who) for who in names}
    try:
        row = dict(threads=args.threads, ms={}, ratio={}, failed={})
        for who in reversed(names):     # ours last: its outputs are the ones that are compared
            facts, said = begin(folder, who, workers[who])
            if said is None:
                row["failed"][who] = facts["error"]
        row["off"], row["compile_s"] = difference(folder, spec, said), facts["compile_s"]
        alive = [who for who in names if who not in row["failed"]]
        spent = dict(zip(alive, time_in_turns(args, [workers[who] for who in alive])))
        row["ms"] = {who: statistics.median(spent[who]) for who in alive}
        row["ratio"] = {who: statistics.median(b / a for a, b in zip(spent[OURS], spent[who])) for who in alive[1:]}
        return row
    finally:
        for w in workers.values():
            w.close()


# ---- many models ----

def finished(args):
    """The rows of --json, by name: a run that was cut short goes on where it stopped."""
    if not args.json or not os.path.exists(args.json):
        return {}
    with open(args.json) as f:
        return {row["name"]: row for row in json.load(f)}


def line(row):
    if "error" in row:
        return f"{row['name']:30} failed: {row['error']}"
    ratios = "  ".join(f"{who} {value:6.3f}" for who, value in row["ratio"].items())
    lacks = "".join(f"  ({who} cannot run it)" for who in row["failed"])
    return (f"{row['name']:30} {row['ms'][OURS]:9.3f} ms  {ratios}  off {row['off']:.1e}  "
            f"compile {row['compile_s']:.2f} s{lacks}")


def summary(args, rows):
    """One line a peer: the geometric mean, and the rows below 0.8."""
    out = []
    for who in args.peers:
        known = [r for r in rows if who in r.get("ratio", {})]
        if known:
            low = [r["name"] for r in known if r["ratio"][who] < 0.8]
            mean = statistics.geometric_mean(r["ratio"][who] for r in known)
            out.append(f"{who}: {len(known)} rows, geometric mean {mean:.2f}, below 0.8: {', '.join(low) or 'none'}")
    return "\n".join(out)


def run_all(args, names, prepare):
    """The rows of all names, measured where --json has none yet; prepare(name) gives the folder."""
    kept, rows = finished(args), []
    for name in names:
        row = kept.get(name)
        if row is None or "error" in row:
            try:
                row = dict(name=name, **measure(args, prepare(name)))
            except peers.Failed as error:
                row = dict(name=name, error=str(error))
        kept[name] = row
        rows.append(row)
        print(line(row), flush=True)
        if args.json:
            peers.save(args.json, list(kept.values()))
    print(summary(args, rows))
    return rows


def status(rows):
    """1 when a row failed, else 0."""
    return 1 if any("error" in r for r in rows) else 0
