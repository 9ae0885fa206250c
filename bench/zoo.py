#!/usr/bin/env python3
"""Many models of different make beside ONNX Runtime: where Stator is slow, or wrong, that nobody looked at.

    bench/zoo.py --json r.json                   24 models: static, untrained, symbolic axes; a cut run goes on there
    bench/zoo.py --only swin_tiny gpt2 --forms static,qdq --threads 1 --peers ort,openvino
    bench/zoo.py --check                         every model in every form: one call of each is right, nothing is timed

bench/zoo_models.py has the models, bench/zoo_export.py the forms; each is exported once into --work. A row is
model/form/sizes, its ratio the median of the peer's time / ours within a round. `off` is the largest difference to
PyTorch's result (of a quantised model: ONNX Runtime's without optimisations), relative to the largest element. The
virtual environment is that of bench/peers.py."""
import argparse
import glob
import os
import statistics
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import peers  # noqa: E402
import versus  # noqa: E402
import zoo_export  # noqa: E402
import zoo_models  # noqa: E402

TIMED_FORMS = "static,untrained,symbolic"
# `off` of a right answer: sums in another order, and of quantised models values that round to the next step.
RIGHT = {"qdq": 0.05, "dynamic": 0.05}
RIGHT_FLOAT = 1e-3


def export(args, names):
    """Writes what is missing. A model that cannot be made at all is named and left out."""
    made = []
    for name in names:
        root = os.path.join(args.work, name)
        if not all(os.path.exists(os.path.join(root, f, "complete")) for f in args.forms):
            program = os.path.join(peers.HERE, "zoo_export.py")
            done = subprocess.run([sys.executable, program, name, root, *args.forms], capture_output=True, text=True,
                                  env=dict(peers.base_env(os.cpu_count() or 1)))
            if done.returncode != 0:
                print(f"{name:30} could not be exported: {done.stderr.strip().splitlines()[-1:]}", flush=True)
                continue
        made.append(name)
    return made


def rows_of(args, names):
    """The rows to run, in the order of names, forms and calls; forms that a model has not are named."""
    rows = []
    for name in names:
        for form in args.forms:
            folder = os.path.join(args.work, name, form)
            if os.path.exists(os.path.join(folder, "skip")):
                with open(os.path.join(folder, "skip")) as f:
                    print(f"{name}/{form:20} left out: {f.read()}", flush=True)
                continue
            calls = [os.path.dirname(p) for p in glob.glob(os.path.join(folder, "*", "spec.json"))]
            rows += sorted(os.path.relpath(c, args.work) for c in calls)
    return rows


def check_call(args, row, who=versus.OURS):
    """Runs one call of Stator, or of a peer, and compares it; the difference, or the text of a failure."""
    folder = os.path.join(args.work, row)
    spec = versus.read_spec(folder)
    worker = versus.launch(args, folder, spec, who)
    try:
        worker.ask("start", versus.START_LIMIT_S)
        return versus.difference(folder, spec, worker.ask(f"dump {folder}"))
    except peers.Failed as error:
        return str(error)
    finally:
        worker.close()


def is_right(args, row, off):
    """Steps of a rounding add up in deep quantised models: there ONNX Runtime with optimisations is off as well."""
    form = row.split("/")[1]
    if isinstance(off, str) or off <= RIGHT.get(form, RIGHT_FLOAT):
        return not isinstance(off, str)
    allowed = check_call(args, row, "ort") if form in RIGHT else 0
    return not isinstance(allowed, str) and off <= allowed


def check(args, rows):
    """One call of every row is right: prints those that are not. Returns 1 when there is one, else 0."""
    found, wrong = {}, 0
    for row in rows:
        form = row.split("/")[1]
        off = check_call(args, row)
        good = is_right(args, row, off)
        found.setdefault(form, []).append(good)
        if not good:
            wrong += 1
            print(f"{row:50} {off if isinstance(off, str) else f'off by {off:.1e}'}", flush=True)
    for form, all_good in found.items():
        print(f"{form:18} {sum(all_good)} of {len(all_good)} calls are right")
    return 1 if wrong else 0


def untrained_beside_trained(rows):
    """Our time untrained / trained by model, where both were timed."""
    times = {tuple(r["name"].split("/")[:2]): r["ms"][versus.OURS] for r in rows if "ms" in r}
    return {name: times[name, "untrained"] / t for (name, form), t in times.items()
            if form == "static" and (name, "untrained") in times}


def by_form(args, rows):
    for form in args.forms:
        some = [r for r in rows if r["name"].split("/")[1] == form]
        if some:
            print(f"\n{form}\n{versus.summary(args, some)}")
    twins = untrained_beside_trained(rows)
    if twins:
        slow = ", ".join(f"{n} {v:.2f}" for n, v in twins.items() if v > 1.1) or "none"
        print(f"\nuntrained / trained: median {statistics.median(twins.values()):.2f}; above 1.1: {slow}")


def parse():
    p = argparse.ArgumentParser(prog="zoo.py", description=__doc__.split("\n")[0])
    versus.add_arguments(p, "bench-zoo")
    p.add_argument("--forms", default="", metavar="LIST", help="of " + ", ".join(zoo_export.FORMS))
    p.add_argument("--check", action="store_true", help="every model and form by default: is one call of each right")
    args = p.parse_args()
    versus.settle_arguments(args)
    args.forms = (args.forms or (",".join(zoo_export.FORMS) if args.check else TIMED_FORMS)).split(",")
    args.only = args.only or list(zoo_models.MODELS if args.check else zoo_models.TIMED)
    unknown = [n for n in args.only if n not in zoo_models.MODELS]
    unknown += [f for f in args.forms if f not in zoo_export.FORMS]
    if unknown:
        sys.exit(f"zoo.py: unknown {', '.join(unknown)}; there are {', '.join(zoo_models.MODELS)}")
    return args


def main():
    args = parse()
    rows = rows_of(args, export(args, args.only))
    if args.check:
        return check(args, rows)
    measured = versus.run_all(args, rows, lambda row: os.path.join(args.work, row))
    by_form(args, measured)
    return versus.status(measured)


if __name__ == "__main__":
    sys.exit(main())
