#!/usr/bin/env python3
"""Stator beside its peers, PyTorch eager, torch.compile (default, max-autotune), ONNX Runtime and OpenVINO, in one run.

    bench/peers.py                        every workload, 2 threads and 1, about two hours
    bench/peers.py --quick                four workloads, no max-autotune, a few minutes
    bench/peers.py --only resnet18_b1 bert_1x8 --threads 2 --rounds 7 --json r.json --svg r.svg
    bench/peers.py --markdown r.json      docs/performance.md from a result (--into: another page), nothing is run

Every candidate is a process of its own, for one workload, that waits on a pipe: Stator's is bench/peer_worker.c, the
peers' bench/peers_worker.py. A round times each candidate once, in an order that turns from round to round, while the
others sleep; a ratio is the median over rounds of peer / Stator within the round. Before a candidate is timed its
outputs are compared with PyTorch eager's; a wrong result has no time. Peers run twice: as they come, and with a malloc
that keeps its pages (MALLOC_* below); Stator always as it comes. The machine's limit that binds a workload is measured
in the same rounds by bench/limits. docs/performance.md says what the columns mean.

The peers live in a virtual environment, build/venv-bench, made at the first run from bench/requirements.txt (PyTorch's
CPU build also from STATOR_TORCH_INDEX, https://download.pytorch.org/whl/cpu). Stator's programs come from --build."""
import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
sys.path.insert(0, HERE)
import peers_cases as cases  # noqa: E402
import peers_report as report  # noqa: E402

TUNED_MALLOC = {"MALLOC_MMAP_THRESHOLD_": "4000000000", "MALLOC_TRIM_THRESHOLD_": "8000000000",
                "MALLOC_TOP_PAD_": "500000000"}
START_LIMIT_S = 1800    # max-autotune of a large model on two cores
STARTS = 5              # of Stator, empty caches and filled ones each; the medians are told


# ---- the environment ----

def pinned():
    """The packages of requirements.txt as (name, version)."""
    with open(os.path.join(HERE, "requirements.txt")) as f:
        return [tuple(line.strip().split("==")) for line in f if "==" in line]


def venv_python(folder):
    return os.path.join(folder, "bin", "python")


def make_venv(folder):
    """Installs what is pinned once; a folder whose installation was cut short is made again."""
    half = folder + ".half"
    if os.path.exists(venv_python(folder)) and not os.path.exists(half):
        return
    print(f"making {folder}: {', '.join(map(' '.join, pinned()))}", flush=True)
    index = os.environ.get("STATOR_TORCH_INDEX", "https://download.pytorch.org/whl/cpu")
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    open(half, "w").close()
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    done = subprocess.run([venv_python(folder), "-m", "pip", "install", "-q", "--disable-pip-version-check",
                           "--retries", "1", "--timeout", "20", "-r", os.path.join(HERE, "requirements.txt"),
                           "--extra-index-url", index])
    if done.returncode != 0:
        sys.exit("peers.py: pip could not install the peers (the lines above say why)")
    os.remove(half)


def enter_venv(folder):
    """Continues in the environment's own Python."""
    make_venv(folder)
    if os.path.realpath(sys.prefix) != os.path.realpath(folder):
        os.execv(venv_python(folder), [venv_python(folder), *sys.argv])


def versions():
    from importlib.metadata import version
    found = {name: version(name) for name, _ in pinned()}
    other = [f"{n} {found[n]}" for n, want in pinned() if found[n].partition("+")[0] != want]
    if other:
        print(f"note: not the pinned versions: {', '.join(other)}", flush=True)
    return found


def first_line(path):
    try:
        with open(path) as f:
            return f.readline().strip()
    except OSError:
        return ""


def git(*args):
    done = subprocess.run(["git", "-C", ROOT, *args], capture_output=True, text=True)
    return done.stdout.strip() if done.returncode == 0 else ""


def machine():
    about = {}
    with open("/proc/cpuinfo") as f:
        for line in f:
            name, _, value = line.partition(":")
            about.setdefault(name.strip(), value.strip())
    cpu = about.get("model name", platform.machine())
    if "cpu family" in about:
        cpu += f" (family {about['cpu family']}, model {about['model']})"
    with open("/proc/meminfo") as f:
        memory = int(f.readline().split()[1]) // 1024
    return dict(cpu=cpu, cores=os.cpu_count(), memory_mb=memory, kernel=platform.release(),
                huge_pages=first_line("/sys/kernel/mm/transparent_hugepage/enabled"),
                stator=git("describe", "--always", "--dirty"))


# ---- processes ----

class Failed(Exception):
    pass


class Worker:
    """A candidate's process, or bench/limits --serve: one line out, one line back."""

    def __init__(self, command, env, log):
        self.log = open(log, "ab")
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        env=env)
        self.buffer = b""

    def ask(self, line, limit_s=600.0):
        import select
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Failed(f"the process ended ({self.process.wait()})") from error
        deadline = time.monotonic() + limit_s
        while b"\n" not in self.buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise Failed(f"no answer within {limit_s:.0f} s")
            got = os.read(self.process.stdout.fileno(), 1 << 16)
            if not got:
                raise Failed(f"the process ended ({self.process.wait()}), see {self.log.name}")
            self.buffer += got
        text, self.buffer = self.buffer.split(b"\n", 1)
        said = json.loads(text)
        if isinstance(said, dict) and "error" in said:
            raise Failed(said["error"])
        return said

    def settle(self):
        """Waits until its threads sleep: pools spin for some time after a call."""
        deadline = time.monotonic() + 1.0
        tasks = f"/proc/{self.process.pid}/task"
        while time.monotonic() < deadline and os.path.isdir(tasks):
            states = [first_line(f"{tasks}/{t}/stat").rpartition(") ")[2][:1] for t in os.listdir(tasks)]
            if "R" not in states:
                return
            time.sleep(0.002)

    def ticks(self):
        fields = first_line(f"/proc/{self.process.pid}/stat").rpartition(") ")[2].split()
        return int(fields[11]) + int(fields[12]) if len(fields) > 12 else 0

    def close(self):
        try:
            self.process.stdin.write(b"quit\n")
            self.process.stdin.close()
            self.process.wait(20)
        except (OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.log.close()


class Candidate:
    """Who runs a workload: `who` is a backend of Stator or a peer, `malloc` is default or tuned."""

    def __init__(self, who, ours, malloc):
        self.who, self.ours, self.malloc = who, ours, malloc
        self.key = who if ours else f"{who}/{malloc}"
        self.facts = {}
        self.worker = None
        self.times = []
        self.calls = 1


def base_env(threads):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MALLOC_", "OMP_", "GOMP_", "KMP_"))}
    env.update(OMP_NUM_THREADS=str(threads), MKL_NUM_THREADS=str(threads), CONF_THREADS=str(threads),
               CUDA_VISIBLE_DEVICES="", HF_HUB_OFFLINE="1", TORCH_CPP_LOG_LEVEL="ERROR", PYTHONWARNINGS="ignore")
    return env


def cache_home(run, threads, backend):
    """The folder that Stator's cache lies in."""
    return os.path.join(run.folder, f"cache-{threads}", "stator-" + backend)


def launch(c, run, threads):
    """The candidate's command and environment, started."""
    env = base_env(threads)
    log = os.path.join(run.folder, f"{c.key.replace('/', '-')}.log")
    if c.ours:
        env["XDG_CACHE_HOME"] = cache_home(run, threads, c.who)
        command = [os.path.join(run.args.build, "bench", "peer_worker"),
                   os.path.join(run.folder, run.spec["model"]), "--backend", c.who, "--threads", str(threads),
                   "--call", run.args.call]
        command += ["--mode", run.args.mode] if run.args.mode else []
        command += ["--train", "1e-4"] if run.row.is_step else []
        command += ["--amp", run.row.amp] if run.row.amp else []
        command += ["--teacher", os.path.join(run.folder, run.spec["teacher"])] if "teacher" in run.spec else []
        for key, value in run.spec.get("train_options", {}).items():
            command += ["--train-option", f"{key}={value}"]
        command += ["--keep-denormals"] if run.args.denormals == "keep" else []
        for option in (*run.row.options, *run.args.option):
            command += ["--option", option]
        kept = None if run.row.stir else run.spec.get("onnx_inputs")
        for e in run.spec["inputs"]:
            if kept is None or e["name"] in kept or run.row.is_step:
                command += ["--input", e["dtype"], ",".join(map(str, e["shape"])),
                            os.path.join(run.folder, e["file"])]
    else:
        env.update(TUNED_MALLOC if c.malloc == "tuned" else {})
        env["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(run.folder, f"cache-{threads}", c.who)
        command = [sys.executable, os.path.join(HERE, "peers_worker.py"), c.who, run.folder, str(threads),
                   run.args.denormals]
    return Worker(command, env, log)


# ---- right or wrong ----

def read_values(path, dtype):
    import numpy as np
    if dtype == "bf16":
        return (np.fromfile(path, np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    names = dict(f32=np.float32, f64=np.float64, f16=np.float16, i64=np.int64, i32=np.int32, i8=np.int8, u8=np.uint8,
                 bool=np.bool_)
    return np.fromfile(path, names[dtype]).astype(np.float64)


def compare(run, said):
    """The largest error over what is allowed; raises when an output is no right answer."""
    import numpy as np
    want = run.spec["outputs"]
    got = said["outputs"]
    if len(got) != len(want):
        raise Failed(f"wrong result: {len(got)} outputs, expected {len(want)}")
    worst = 0.0
    for k, (g, w) in enumerate(zip(got, want)):
        if g["shape"] != w["shape"] or g["dtype"] != w["dtype"]:
            raise Failed(f"wrong result: output {k} is {g['dtype']}{g['shape']}, expected {w['dtype']}{w['shape']}")
        a = read_values(os.path.join(run.scratch, f"out_{k}.bin"), g["dtype"])
        b = read_values(os.path.join(run.folder, w["file"]), w["dtype"])
        if a.size == 0:
            continue
        if not np.array_equal(np.isfinite(a), np.isfinite(b)):
            raise Failed(f"wrong result: output {k} is not finite where it should be")
        keep = np.isfinite(b)
        a, b = a[keep], b[keep]
        allowed = run.row.rtol * np.abs(b) + run.row.atol * max(float(np.sqrt(np.mean(b * b))), 1e-30)
        worst = max(worst, float(np.max(np.abs(a - b) / allowed, initial=0.0)))
    if worst > 1:
        raise Failed(f"wrong result: {worst:.3g} times the tolerance")
    return worst


# ---- one workload ----

class Run:
    def __init__(self, args, row, spec):
        self.args, self.row, self.spec = args, row, spec
        self.folder = os.path.join(args.work, row.name)
        self.scratch = os.path.join(self.folder, "out")
        os.makedirs(self.scratch, exist_ok=True)


def prepare(args, row):
    """Makes the workload's folder in a child process and reads what it says."""
    command = [sys.executable, os.path.join(HERE, "peers_prepare.py"), row.name, args.work]
    env = dict(base_env(os.cpu_count() or 1))
    done = subprocess.run(command + ([args.models] if args.models else []), capture_output=True, text=True, env=env)
    if done.returncode != 0:
        raise Failed(f"could not be prepared: {done.stderr.strip().splitlines()[-1:]}")
    with open(os.path.join(args.work, row.name, "spec.json")) as f:
        return json.load(f)


def candidates_of(args, row):
    found = [Candidate(b, True, "default") for b in args.backends]
    for malloc in args.malloc:
        found += [Candidate(p, False, malloc) for p in args.peers if p not in row.without]
    return found


def begin(c, run, threads):
    """Starts, loads, compiles, calls, compares. What it took goes to the candidate's facts."""
    c.worker = launch(c, run, threads)
    c.facts.update(c.worker.ask("start", START_LIMIT_S))
    c.facts["error_share"] = compare(run, c.worker.ask(f"dump {run.scratch}"))
    c.facts.update(c.worker.ask("stats"))


def calls_for(worker, target_s):
    """Calls a timing: enough for target_s, measured after the first calls."""
    calls = 1
    spent = worker.ask("run 1")["seconds"]
    while spent < target_s / 4 and calls < 1000000:
        calls *= 4
        spent = worker.ask(f"run {calls}")["seconds"]
    return max(1, min(1000000, int(target_s * calls / max(spent, 1e-9))))


def time_once(c):
    """Seconds a call, after a call that is not counted."""
    c.worker.ask("run 1")
    seconds = c.worker.ask(f"run {c.calls}")["seconds"] / c.calls
    c.worker.settle()
    c.times.append(seconds)


def fresh_cache(run, threads, backend):
    """Empties Stator's compile cache; what it remembers of plugins is no part of compiling and is put back."""
    home = cache_home(run, threads, backend)
    shutil.rmtree(home, ignore_errors=True)
    env = dict(base_env(threads), XDG_CACHE_HOME=home)
    subprocess.run([os.path.join(run.args.build, "bin", "stator"), "backends"], capture_output=True, env=env)


def start_times(c, run, threads):
    """Another process of Stator, for what making the program takes alone."""
    again = Candidate(c.who, True, "default")
    try:
        begin(again, run, threads)
        return {k: again.facts[k] for k in ("load_s", "compile_s", "first_call_s")}
    finally:
        if again.worker:
            again.worker.close()


def begin_again(c, run, threads):
    """More starts of Stator: on the caches that were filled, and, as one start tells as much of the disk, on empty ones."""
    c.facts["warm"] = [start_times(c, run, threads) for _ in range(STARTS)]
    c.facts["cold"] = [{k: c.facts[k] for k in ("load_s", "compile_s", "first_call_s")}]
    for _ in range(STARTS - 1):
        fresh_cache(run, threads, c.who)
        c.facts["cold"].append(start_times(c, run, threads))


def read_through(folder):
    """Puts the workload's files into the page cache: a compile reads weights where a peer has read them before."""
    for entry in os.scandir(folder):
        if entry.is_file():
            with open(entry.path, "rb", buffering=0) as f:
                while f.read(1 << 24):
                    pass


def start_all(run, threads, log):
    everyone = candidates_of(run.args, run.row)
    shutil.rmtree(os.path.join(run.folder, f"cache-{threads}"), ignore_errors=True)
    for backend in run.args.backends:
        fresh_cache(run, threads, backend)
    for c in everyone:
        try:
            read_through(run.folder)
            begin(c, run, threads)
            c.worker.settle()
            if c.ours:
                begin_again(c, run, threads)
            c.calls = calls_for(c.worker, run.args.target)
            c.worker.settle()
        except Failed as error:
            c.facts["error"] = str(error)
            log(f"    {c.key}: {error}")
            c.worker.close()
    return everyone


def bound_seconds(run, name, rate):
    """The least time of a call that this limit allows."""
    spec = run.spec
    if rate is None or rate <= 0:
        return 0.0
    work = spec["flops"] if name in ("fma_f32", "dot_bf16", "dot_i8") else spec["weight_bytes"] + spec["io_bytes"]
    return work / (rate * 1e9)


def limit_name(run, limits, threads):
    if run.row.group == "apart" or run.row.limit == "none":
        return None
    if run.row.limit:
        return run.row.limit
    names = (run.row.flops_of, "read_prefetch")
    return max(names, key=lambda n: bound_seconds(run, n, limits.ask(f"{n} {threads}")))


def cpu_ticks():
    """Busy ticks of the machine, what the hypervisor took included."""
    fields = [int(x) for x in first_line("/proc/stat").split()[1:]]
    return sum(fields[:3]) + sum(fields[5:8])


def our_ticks(workers):
    t = os.times()
    return sum(w.ticks() for w in workers) + (t.user + t.system) * os.sysconf("SC_CLK_TCK")


def rounds(run, threads, limits, log):
    everyone = start_all(run, threads, log)
    alive = [c for c in everyone if "error" not in c.facts]
    binding = limit_name(run, limits, threads)
    rates = []
    workers = [c.worker for c in alive] + [limits]
    busy, ours, start = cpu_ticks(), our_ticks(workers), time.monotonic()
    for turn in range(run.args.rounds):
        for k in range(len(alive)):
            c = alive[(turn + k) % len(alive)]
            if "error" not in c.facts:
                try:
                    time_once(c)
                except Failed as error:
                    c.facts["error"] = str(error)
        if binding:
            rates.append(limits.ask(f"{binding} {threads}"))
            limits.settle()
    wall = (time.monotonic() - start) * os.sysconf("SC_CLK_TCK") * (os.cpu_count() or 1)
    foreign = max(0.0, (cpu_ticks() - busy) - (our_ticks(workers) - ours)) / max(wall, 1)
    for c in alive:
        if "error" not in c.facts:
            c.facts.update(c.worker.ask("stats"))
        c.worker.close()
    return everyone, binding, rates, foreign


def summary(run, threads, everyone, binding, rates, foreign):
    """The row as it goes to the JSON file."""
    row, spec = run.row, run.spec
    out = dict(name=row.name, threads=threads, group=row.group, goal=list(row.goal), limit_goal=row.limit_goal,
               flops=spec["flops"], bytes=spec["weight_bytes"] + spec["io_bytes"], weight_bytes=spec["weight_bytes"],
               live_peak_bytes=spec["live_peak_bytes"], foreign_cpu=round(foreign, 4), candidates={})
    for c in everyone:
        facts = dict(c.facts, ours=c.ours, who=c.who, malloc=c.malloc)
        if "error" not in facts:
            facts.update(median_s=report.median(c.times), times_s=c.times, calls=c.calls)
        out["candidates"][c.key] = facts
    if binding and rates:
        out["limit"] = dict(name=binding, rates=rates,
                            bounds_s=[bound_seconds(run, binding, r) for r in rates])
    return out


def measure(args, row, threads, limits, log):
    try:
        spec = prepare(args, row)
    except Failed as error:
        return dict(name=row.name, threads=threads, group=row.group, error=str(error), candidates={})
    run = Run(args, row, spec)
    return summary(run, threads, *rounds(run, threads, limits, log))


# ---- the whole run ----

def best_backend(args):
    """What Stator takes when none is named: the available backend of the highest priority."""
    tool = os.path.join(args.build, "bin", "stator")
    done = subprocess.run([tool, "backends", "--json"], capture_output=True, text=True)
    usable = [b for b in json.loads(done.stdout or "[]") if b["state"] == "AVAILABLE"]
    if not usable:
        sys.exit(f"peers.py: '{tool} backends' names no usable backend:\n{done.stdout}{done.stderr}")
    return max(usable, key=lambda b: b["priority"])["name"]


def parse():
    p = argparse.ArgumentParser(prog="peers.py", description=__doc__.split("\n")[0])
    p.add_argument("--quick", action="store_true", help=f"{', '.join(cases.QUICK)}; 2 threads, no max-autotune")
    p.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these workloads")
    p.add_argument("--list", action="store_true", help="name the workloads")
    p.add_argument("--rounds", type=int, default=0, help="default 7, with --quick 5")
    p.add_argument("--threads", default="", help="comma list, default 2,1")
    p.add_argument("--backend", default="", help="comma list; the first is the one in the ratios")
    p.add_argument("--mode", default="", help="compile mode of Stator")
    p.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="backend option of Stator")
    p.add_argument("--call", choices=("new", "bound"), default="new", help="Stator's calls: new outputs, or bound")
    p.add_argument("--peers", default="", help="comma list of " + ",".join(cases.ALL) + "; or none")
    p.add_argument("--malloc", default="default,tuned", help="allocators of the peers")
    p.add_argument("--denormals", choices=("flush", "keep"), default="flush")
    p.add_argument("--target", type=float, default=0.0, help="seconds of calls in one timing")
    p.add_argument("--json", default="", metavar="F")
    p.add_argument("--svg", default="", metavar="F")
    p.add_argument("--markdown", default="", metavar="F", help="writes the tables of result F into a page")
    p.add_argument("--into", default=os.path.join(ROOT, "docs", "performance.md"), metavar="PAGE",
                   help="the page, with marks where they go; default docs/performance.md")
    p.add_argument("--build", default=os.path.join(ROOT, "build", "release"))
    p.add_argument("--work", default=os.path.join(ROOT, "build", "bench-work"))
    p.add_argument("--models", default="", help="folder made by gen_models.py, in place of own exports")
    p.add_argument("--venv", default=os.path.join(ROOT, "build", "venv-bench"))
    return p.parse_args()


def settle_arguments(args):
    args.threads = [int(t) for t in (args.threads or ("2" if args.quick else "2,1")).split(",")]
    args.rounds = args.rounds or (5 if args.quick else 7)
    args.target = args.target or (0.05 if args.quick else 0.3)
    args.peers = (args.peers or ("eager,compile,ort" if args.quick else ",".join(cases.ALL))).split(",")
    args.peers = [] if args.peers == ["none"] else args.peers
    args.malloc = args.malloc.split(",")
    args.work, args.build = os.path.abspath(args.work), os.path.abspath(args.build)
    args.backends = args.backend.split(",") if args.backend else [best_backend(args)]
    names = args.only or (cases.QUICK if args.quick else [r.name for r in cases.CASES])
    try:
        args.rows = [cases.find(n) for n in names]
    except KeyError as error:
        sys.exit(f"peers.py: {error.args[0]}")
    unknown = [x for x in args.peers if x not in cases.ALL] + [m for m in args.malloc if m not in ("default", "tuned")]
    if unknown:
        sys.exit(f"peers.py: unknown {', '.join(unknown)}")
    if args.rounds < 5:
        print("note: fewer than 5 rounds are no measurement", flush=True)


def save(path, result):
    with open(path + ".part", "w") as f:
        json.dump(result, f, indent=1)
    os.replace(path + ".part", path)


def main():
    args = parse()
    if args.list:
        print("\n".join(f"{r.name:22} {r.group}" for r in cases.CASES))
        return 0
    if args.markdown:
        return report.write_markdown(args.markdown, args.into)
    enter_venv(os.path.abspath(args.venv))
    settle_arguments(args)
    os.makedirs(args.work, exist_ok=True)
    result = dict(machine=machine(), versions=versions(), began=time.strftime("%Y-%m-%d %H:%M:%S"), rows=[],
                  settings=dict(rounds=args.rounds, threads=args.threads, backends=args.backends, mode=args.mode,
                                options=args.option, call=args.call, denormals=args.denormals, peers=args.peers,
                                malloc=args.malloc, target_s=args.target), twins=[list(t) for t in cases.TWINS])
    print(f"{result['machine']['cpu']}, {result['machine']['cores']} cores, stator {result['machine']['stator']}, "
          f"load {os.getloadavg()[0]:.1f}", flush=True)
    limits_program = os.path.join(args.build, "bench", "limits")
    done = subprocess.run([limits_program, "--quick", "--threads", ",".join(map(str, args.threads))],
                          capture_output=True, text=True, check=True)
    result["limits"] = json.loads(done.stdout)
    for threads in args.threads:
        limits = Worker([limits_program, "--serve"], base_env(threads), os.path.join(args.work, "limits.log"))
        for row in args.rows:
            got = measure(args, row, threads, limits, lambda text: print(text, flush=True))
            result["rows"].append(got)
            print(report.line(got), flush=True)
            if args.json:
                save(args.json, result)
        limits.close()
    print("\n" + report.text(result))
    if args.svg:
        with open(args.svg, "w") as f:
            f.write(report.svg(result))
    return 0 if all(report.ours(r) for r in result["rows"]) else 1


if __name__ == "__main__":
    sys.exit(main())
