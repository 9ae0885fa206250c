#!/usr/bin/env python3
"""Two builds of Stator over the rows of bench/peers.py, in one run:

    bench/before_after.py BEFORE [NAME...]                   the main rows, 2 threads and 1, half an hour
    bench/before_after.py ../old/build/release resnet18_b1 --threads 1 --starts 4

BEFORE is another tree's build folder; the build of this tree (--build) is timed twice, as `after` and as `again`, so that
`after / again` says how far apart two processes of one build are. Each start has three fresh processes on empty caches,
which are timed in turn while the others sleep; a ratio is the median over all rounds of before / after within a round, the
one behind it that of the least times. PyTorch, for the models and inputs, comes from peers.py's environment."""
import argparse
import os
import statistics
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import peers  # noqa: E402
import peers_cases as cases  # noqa: E402


def begin(run, threads, build, key, target):
    """A process of that build, warm, with the calls of a timing."""
    run.args.build = build
    candidate = peers.Candidate(run.args.backend, True, "default")
    candidate.key = key
    peers.fresh_cache(run, threads, candidate.who)
    peers.read_through(run.folder)
    peers.begin(candidate, run, threads)
    candidate.worker.settle()
    candidate.calls = peers.calls_for(candidate.worker, target)
    candidate.worker.settle()
    return candidate


def time_start(run, threads, args):
    """Seconds a call of (before, after, again), a list of rounds."""
    builds = (("before", args.before), ("after", args.own), ("again", args.own))
    alive = []
    try:
        for key, build in builds:
            alive.append(begin(run, threads, build, key, args.target))
        for turn in range(args.rounds):
            for k in range(len(alive)):
                peers.time_once(alive[(turn + k) % len(alive)])
        return list(zip(*(c.times for c in alive)))
    finally:
        for candidate in alive:
            if candidate.worker:
                candidate.worker.close()


def measure(args, row, threads):
    run = peers.Run(args, row, peers.prepare(args, row))
    rounds = [times for _ in range(args.starts) for times in time_start(run, threads, args)]
    before, after, again = ([times[k] for times in rounds] for k in range(3))
    ratio = statistics.median([b / a for b, a, _ in rounds] + [b / a for b, _, a in rounds])
    least = min(before) / min(after + again)
    noise = statistics.median(a / b for _, a, b in rounds)
    print(f"{row.name:22} {threads} threads: before / after {ratio:.3f}, of the least {least:.3f}; after / again {noise:.3f}, "
          f"{min(after) / min(again):.3f}; {1e3 * min(after):.4f} ms", flush=True)
    return ratio


def parse():
    p = argparse.ArgumentParser(prog="before_after.py", description=__doc__.split("\n")[0])
    p.add_argument("before", metavar="BEFORE", help="the build folder of the other tree")
    p.add_argument("names", nargs="*", metavar="NAME", help="rows of peers.py; the main ones where none is named")
    p.add_argument("--threads", default="2,1", help="comma list")
    p.add_argument("--starts", type=int, default=3, help="times that the processes are started")
    p.add_argument("--rounds", type=int, default=5, help="of each start")
    p.add_argument("--target", type=float, default=0.25, help="seconds of calls in one timing")
    p.add_argument("--backend", default="inductor-cpu")
    p.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="backend option of both")
    p.add_argument("--build", dest="own", default=os.path.join(peers.ROOT, "build", "release"))
    p.add_argument("--work", default=os.path.join(peers.ROOT, "build", "bench-work"))
    p.add_argument("--models", default="")
    p.add_argument("--venv", default=os.path.join(peers.ROOT, "build", "venv-bench"))
    args = p.parse_args()
    args.before, args.own, args.work = map(os.path.abspath, (args.before, args.own, args.work))
    args.mode, args.call, args.denormals = None, "new", "flush"
    return args


def main():
    args = parse()
    peers.enter_venv(os.path.abspath(args.venv))
    os.makedirs(args.work, exist_ok=True)
    rows = [cases.find(n) for n in args.names] or [r for r in cases.CASES if r.group == "main"]
    print(f"{peers.machine()['cpu']}, load {os.getloadavg()[0]:.1f}", flush=True)
    for threads in map(int, args.threads.split(",")):
        ratios = []
        for row in rows:
            try:
                ratios.append(measure(args, row, threads))
            except peers.Failed as error:
                print(f"{row.name:22} {threads} threads: {error}", flush=True)
        if ratios:
            print(f"{threads} threads: geometric mean of before / after {statistics.geometric_mean(ratios):.3f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
