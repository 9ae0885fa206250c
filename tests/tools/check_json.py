#!/usr/bin/env python3
"""The JSON of the command is an interface. Every subcommand's facts have exactly the keys and types
stated here (keys may be added, with a row below; never renamed), and every subcommand that fails
under --json has status 3 and {"error": {code, message, hint}} on stdout, nothing else there.

usage: check_json.py SOURCE BUILD      status 0 when all is as stated; prints what is not"""
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile

LIMIT_S = 120

# ---- shapes: a type, a set of values, [shape of each], {key: shape}, or a tuple of alternatives ----

NUMBER = (int, float)
TEXT_OR_NULL = (str, None)
ERROR_VALUE = (int, float, {"nan", "inf"})
STATES = {"AVAILABLE", "NO_DEVICE", "MISSING_DEPENDENCY", "ABI_TOO_OLD", "ABI_TOO_NEW", "BAD_FILE",
          "UNTRUSTED_PATH", "WRONG_ARCH", "INIT_FAILED", "INVALID", "CRASHED_IN_PROBE", "DISABLED",
          "NAME_CLASH"}
ORIGINS = {"api", "files-env", "path-env", "plugin-dir", "user", "libdir", "usr-local"}

DEVICE = {"id": int, "name": TEXT_OR_NULL, "arch": TEXT_OR_NULL, "memory_bytes": NUMBER}
BACKEND = {"name": str, "kind": {"backend", "unknown"}, "state": STATES, "reason": TEXT_OR_NULL,
           "hint": TEXT_OR_NULL, "version": TEXT_OR_NULL, "path": TEXT_OR_NULL, "origin": ORIGINS,
           "devices": [DEVICE], "tags": [str],
           # beyond the ten above
           "abi": TEXT_OR_NULL, "description": TEXT_OR_NULL, "shadowed_by": TEXT_OR_NULL,
           "build_id": TEXT_OR_NULL, "priority": int, "option_count": int, "probed": bool}
PLUGIN = dict(BACKEND, kind={"backend", "frontend", "pass", "oplib", "unknown"})
COVERAGE = {"total": int, "by_backend": {str: int}}
TIMES = {"backend": str, "compile_ms": NUMBER, "first_ms": NUMBER, "median_ms": NUMBER,
         "min_ms": NUMBER, "peak_bytes": int, "coverage": COVERAGE}
ONCE = dict(TIMES, median_ms=None, min_ms=None)  # without --repeat
HELD = dict.fromkeys(["workspace_bytes", "scratch_bytes", "constant_bytes", "packed_bytes", "winograd_bytes"],
                     int)
MEMORY = dict(HELD, output_bytes=int)
STEP = {"kind": {"kernel", "library", "node", "loop"}, "depth": int, "name": str, "open": bool,
        "only": {None, "not in place", "on failure"}, "read_bytes": int, "written_bytes": int, "flops": int, "nodes": [str]}
EXPLAINED = {"compile_ms": NUMBER, "coverage": COVERAGE,
             "copies": [{"value": str, "from": str, "to": str, "backend": str, "node": str, "op": str}],
             "memory": MEMORY,
             "fallback_nodes": [{"op": str, "nodes": int, "first": TEXT_OR_NULL, "reason": str}],
             "guards": [{"kind": {"input", "size", "need"}, "name": TEXT_OR_NULL, "text": str}],
             "parts": [dict(HELD, name=str, backend=str, result_bytes=int, steps=[STEP])]}
COUNTS = {str: int}
DESCRIBED = {"opsets": COUNTS, "operators": COUNTS, "metadata": {str: str}, "format": TEXT_OR_NULL,
             "producer": TEXT_OR_NULL, "inputs": [{"name": str, "dtype": str, "shape": [(int, str)]}],
             "outputs": [{"name": str, "dtype": str, "shape": [(int, str)]}], "nodes": COUNTS,
             "parameters": {"tensors": int, "elements": int, "bytes": int, "by_dtype": COUNTS},
             "coverage": (COVERAGE, None), "fallback_nodes": EXPLAINED["fallback_nodes"], "error": TEXT_OR_NULL}
PORT = {"name": str, "dtype": str, "shape": [int]}
UNCHECKED = dict(PORT, max_abs_err=None, max_rel_err=None, ok=None)
RIGHT = dict(PORT, max_abs_err=ERROR_VALUE, max_rel_err=ERROR_VALUE, ok={True})
WRONG = dict(PORT, max_abs_err=ERROR_VALUE, max_rel_err=ERROR_VALUE, ok={False},
             reason={"name", "values"})
OTHER = dict(WRONG, reason={"dtype", "shape"}, detail=str)  # "f32[9], expected f32[10]"
TOP = [[{"index": int, "label": str, "score": ERROR_VALUE}]]
CASES = {"passed": int, "failed": int, "skipped": int, "compiled": int, "whole": int,
         "cases": [{"name": str, "status": {"PASS", "FAIL", "SKIP"}, "nodes": int, "elsewhere": int,
                    "bits": TEXT_OR_NULL, "reason": TEXT_OR_NULL}]}
SERIAL = {"scope": int, "n": int}
BISECT = {"found": bool, "rung": TEXT_OR_NULL,
          "kind": ({"pass", "rewrite", "decomposition", "kernel", "crash"}, None),
          "backend": TEXT_OR_NULL, "pass": TEXT_OR_NULL, "rule": TEXT_OR_NULL,
          "serial": (SERIAL, None), "node": TEXT_OR_NULL, "value": TEXT_OR_NULL,
          "origin": TEXT_OR_NULL, "max_abs_err": ERROR_VALUE + (None,),
          # beyond the eleven
          "message": TEXT_OR_NULL, "vanishes_when_observed": bool}
MINIFY = {"found": {True}, "failure": {"differs", "fails", "crashes"}, "code": TEXT_OR_NULL,
          "message": TEXT_OR_NULL, "max_abs_err": ERROR_VALUE + (None,),
          "nodes": {"before": int, "after": int}, "ops": [str], "inputs": {"random", "kept", "none"},
          "trials": int, "is_smallest": bool, "note": TEXT_OR_NULL, "folder": str, "files": [str],
          "repeat": str}
AGREES = dict(dict.fromkeys(MINIFY), found={False}, trials=int, is_smallest={False})
COMPARED = {"name": str, "max_abs_err": ERROR_VALUE, "max_rel_err": ERROR_VALUE, "ok": {True}}
PARTED = dict(COMPARED, ok={False}, reason={"values"})
FIRST = {"node": str, "value": str, "origin": TEXT_OR_NULL, "max_abs_err": ERROR_VALUE}
COMPARE = {"ok": bool, "outputs": [(COMPARED, PARTED)], "first": (FIRST, None), "note": TEXT_OR_NULL,
           "rounding": ({"values": int, "node": str, "value": str}, None)}
CHECK = {"op": str, "case": str, "backend": str, "against": TEXT_OR_NULL, "seed": int,
         "ok": (bool, None), "note": TEXT_OR_NULL, "outputs": [(UNCHECKED, RIGHT, WRONG)],
         "repeat": str}
ATTR = {"name": str, "kind": str, "required": bool}
OP = {"name": str, "version": int, "operands": str, "results": str, "attrs": [ATTR], "flags": [str],
      "body": TEXT_OR_NULL, "doc": str}
DOCTOR = {"checks": [{"name": str, "state": {"ok", "limited", "missing"}, "detail": TEXT_OR_NULL,
                      "package": TEXT_OR_NULL, "needed_for": TEXT_OR_NULL}], "packages": [str]}
OFF = {"node": str, "operand": str, "got": ERROR_VALUE, "want": ERROR_VALUE}
FAILURE = {"error": {"code": str, "message": str, "hint": TEXT_OR_NULL}}


def differs(value, shape, at):
    """None when the value has the shape, else where and how it has not."""
    if isinstance(shape, tuple):
        found = [differs(value, s, at) for s in shape]
        return None if None in found else found[0]
    if shape is None or isinstance(shape, (bool, set)):
        ok = value is None if shape is None else not isinstance(value, (dict, list)) and value in shape
    elif isinstance(shape, type):
        ok = isinstance(value, shape) and (shape is bool or not isinstance(value, bool))
    elif isinstance(shape, list):
        if not isinstance(value, list):
            return "%s is %r, not a list" % (at, value)
        found = [differs(v, shape[0], "%s[%d]" % (at, i)) for i, v in enumerate(value)]
        return next((f for f in found if f), None)
    else:
        return differs_object(value, shape, at)
    return None if ok else "%s is %r, expected %s" % (at, value, shape)


def differs_object(value, shape, at):
    if not isinstance(value, dict):
        return "%s is %r, not an object" % (at, value)
    if str in shape:
        shape = {key: shape[str] for key in value}
    if set(value) != set(shape):
        return "%s has keys %s, expected %s" % (at, sorted(set(value) - set(shape)) or "missing " +
                                                str(sorted(set(shape) - set(value))), sorted(shape))
    found = [differs(value[key], shape[key], "%s.%s" % (at, key)) for key in shape]
    return next((f for f in found if f), None)


class World:
    def __init__(self, source, build):
        self.source, self.build = source, build
        self.digits = os.path.join(source, "examples", "digits")
        self.work = tempfile.mkdtemp(prefix="stator-json-")
        self.count, self.wrong = 0, []

    def run(self, args, env=None):
        done = subprocess.run([os.path.join(self.build, "bin", "stator")] + args, cwd=self.digits,
                              capture_output=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL,
                              env=dict(os.environ, **(env or {})))
        return done.returncode, done.stdout.decode(), done.stderr.decode()

    def bad(self, args, what):
        self.wrong.append("stator %s\n    %s" % (" ".join(args), what[:1500]))

    def facts(self, shape, want, *args, env=None):
        """The command's JSON, checked for shape and status; None when it is wrong."""
        args = list(args) + ["--json"]
        self.count += 1
        status, out, err = self.run(args, env)
        try:
            value = json.loads(out)
        except ValueError:
            self.bad(args, "no JSON, status %d: %s%s" % (status, out, err))
            return None
        problem = differs(value, shape, "$")
        if status != want or problem:
            self.bad(args, "status %d; %s" % (status, problem or json.dumps(value)))
            return None
        return value

    def fails(self, code, *args, env=None):
        value = self.facts(FAILURE, 3, *args, env=env)
        if value is not None and value["error"]["code"] != code:
            self.bad(list(args), "code %s, expected %s" % (value["error"]["code"], code))
        if value is not None and not value["error"]["message"]:
            self.bad(list(args), "no message")

    def expect(self, ok, args, what):
        if not ok:
            self.bad(args, what)


def plugins(w):
    folder = os.path.join(w.work, "plugins")
    os.mkdir(folder, 0o755)
    for name in ("needs_soname", "needs_device", "abi_1_0", "several"):
        shutil.copy(os.path.join(w.build, "tests", "mutants", name + ".so"), folder)
    with open(os.path.join(folder, "garbage.so"), "wb") as file:
        file.write(b"no ELF file")
    for name in os.listdir(folder):
        os.chmod(os.path.join(folder, name), 0o644)
    rows = w.facts([BACKEND], 0, "backends", "--all", "--plugin-dir", folder) or []
    by_name = {row["name"]: row for row in rows}
    for row in rows:
        clear = row["state"] == "AVAILABLE"
        w.expect(clear == (row["reason"] is None) and clear == (row["hint"] is None), ["backends"],
                 "reason and hint of %s" % row)
    w.expect({"eager", "aot_eager", "garbage", "needs_soname"} <= set(by_name), ["backends"],
             "names %s" % sorted(by_name))
    garbage = by_name.get("garbage", {})
    w.expect(garbage.get("kind") == "unknown" and garbage.get("version") is None, ["backends"],
             "the unreadable file is %s" % garbage)
    w.expect(garbage.get("origin") == "plugin-dir", ["backends"], "origin of %s" % garbage)
    rows = w.facts([PLUGIN], 0, "plugins", "--plugin-dir", folder) or []
    w.expect({"garbage", "onnx", "text", "eager"} <= {r["name"] for r in rows}, ["plugins"], "names")
    rows = w.facts([BACKEND], 0, "backends", "--probe") or []
    w.expect(any(r["probed"] and r["devices"] for r in rows), ["backends", "--probe"], "no devices")


def npy(path, shape, data):
    text = "{'descr': '<f4', 'fortran_order': False, 'shape': %s, }" % (shape,)
    text += " " * (-(len(text) + 11) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + data)


def runs(w):
    run = ("run", "digits.onnx", "--backend", "eager")
    w.facts(EXPLAINED, 0, "explain", "digits.onnx", "--backend", "eager")
    w.facts(DESCRIBED, 0, "info", "digits.onnx")
    w.facts(DESCRIBED, 0, "info", "digits.onnx", "--no-compile")
    w.facts({"file": str}, 0, "report", "digits.onnx", "--backend", "eager", "-o", os.path.join(w.work, "x.html"))
    got = w.facts(dict(TIMES, memory=MEMORY, outputs=[UNCHECKED]), 0, *run, "--repeat", "3")
    if got:
        w.expect(got["coverage"]["total"] == sum(got["coverage"]["by_backend"].values()), run, "sum")
        w.expect(got["min_ms"] <= got["median_ms"], run, "times %s" % got)
        w.expect(got["outputs"][0]["dtype"] == "f32" and got["outputs"][0]["shape"] == [1, 10], run,
                 "outputs %s" % got["outputs"])
    all_images = run + ("--input", "image=test_images.npy")
    w.facts(dict(ONCE, memory=MEMORY, outputs=[RIGHT]), 0, *all_images, "--expect", "test_probabilities.npz")
    w.facts(dict(ONCE, memory=MEMORY, outputs=[OTHER]), 1, *run, "--expect", "test_probabilities.npz")
    saved = os.path.join(w.work, "saved.npz")
    w.facts(dict(ONCE, memory=MEMORY, outputs=[UNCHECKED]), 0, *run, "--save", saved)
    w.facts(dict(ONCE, memory=MEMORY, outputs=[WRONG]), 1, *run, "--random", "1", "--expect", saved)
    seven = run + ("--image", "image=png/digit-7.png", "--labels", "labels.txt", "--top", "3")
    got = w.facts(dict(ONCE, memory=MEMORY, outputs=[UNCHECKED], top=TOP), 0, *seven)
    w.expect(got and len(got["top"]) == 1 and len(got["top"][0]) == 3 and
             got["top"][0][0]["index"] == 7, seven, "top %s" % (got and got["top"]))
    w.expect(got and got["top"][0][0]["score"] >= got["top"][0][1]["score"], seven, "not descending")
    image = os.path.join(w.work, "nan.npy")
    npy(image, (1, 1, 8, 8), struct.pack("<64f", *[float("nan")] * 64))
    got = w.facts(dict(ONCE, memory=MEMORY, outputs=[WRONG]), 1, *run, "--input", "image=" + image, "--expect", saved)
    w.expect(got and got["outputs"][0]["max_abs_err"] == "nan", run, "NaN is %s" % got)


def comparisons(w):
    planted = os.path.join(w.build, "tests", "planted", "wrong_tanh")
    wrong = ("--plugin-dir", planted)
    model = os.path.join(w.work, "tanh.stir")
    with open(model, "w") as file:
        file.write("stir 1\ngraph @main(%x: f32[8]) {\n  %y = tanh(%x) : f32[8]\n  return y: %y\n}\n")
    w.facts(COMPARE, 0, "compare", "digits.onnx", "--backends", "eager,aot_eager")
    got = w.facts(COMPARE, 1, "compare", model, "--backends", "eager,wrong_tanh", *wrong)
    w.expect(got and got["first"] and not got["outputs"][0]["ok"], ["compare"], "first %s" % got)
    got = w.facts(BISECT, 0, "bisect", "digits.onnx", "--bad", "aot_eager")
    w.expect(got and not got["found"] and all(got[k] is None for k in got if k not in
             ("found", "vanishes_when_observed")), ["bisect"], "not found: %s" % got)
    got = w.facts(BISECT, 0, "bisect", model, "--bad", "wrong_tanh", *wrong)
    w.expect(got and got["found"] and got["kind"] == "kernel" and got["backend"] == "wrong_tanh",
             ["bisect"], "found: %s" % got)
    repro = os.path.join(w.work, "repro")
    w.facts(AGREES, 0, "minify", "digits.onnx", "--bad", "aot_eager", "-o", repro)
    w.expect(not os.path.exists(repro), ["minify"], "a folder for nothing")
    got = w.facts(MINIFY, 0, "minify", model, "--bad", "wrong_tanh", *wrong, "-o", repro)
    w.expect(got and got["failure"] == "differs" and got["code"] is None and got["ops"] == ["tanh"] and
             got["nodes"] == {"before": 1, "after": 1} and sorted(os.listdir(repro)) == sorted(got["files"]),
             ["minify"], "found: %s" % got)
    crash = ("--plugin-dir", os.path.join(w.build, "tests", "planted", "crash_create"))
    got = w.facts(MINIFY, 0, "minify", model, "--bad", "crash_create", *crash, "-o", repro + "2")
    w.expect(got and got["failure"] == "crashes" and got["code"] == "CRASH" and got["max_abs_err"] is None,
             ["minify"], "crash: %s" % got)
    w.facts(CHECK, 0, "check", "softmax", "f32 4x16 axis=1")
    w.facts(CHECK, 0, "check", "neg", "f32 4", "--backend", "eager")
    w.facts(CHECK, 1, "check", "tanh", "f32 4", "--backend", "wrong_tanh", *wrong)
    w.facts([TIMES], 0, "bench", "digits.onnx", "--backends", "eager,aot_eager", "--rounds", "2")


def tensor_file(path, values):
    """f32[2, 3] as a TensorProto: dims, data_type and raw_data."""
    with open(path, "wb") as file:
        file.write(b"\x08\x02\x08\x03\x10\x01\x4a\x18" + struct.pack("<6f", *values))


def conforms(w):
    cases = os.path.join(w.work, "cases")
    for name, last in (("right", 6.0), ("wrong", 7.0)):
        folder = os.path.join(cases, name, "test_data_set_0")
        os.makedirs(folder)
        shutil.copy(os.path.join(w.work, "models", "good.onnx"), os.path.join(cases, name, "model.onnx"))
        tensor_file(os.path.join(folder, "input_0.pb"), (1, 2, 3, 4, 5, 6))
        tensor_file(os.path.join(folder, "output_0.pb"), (1, 2, 3, 4, 5, last))
    got = w.facts(CASES, 1, "conform", "eager", "--cases", cases)
    w.expect(got and (got["passed"], got["failed"], got["skipped"]) == (1, 1, 0) and
             [(c["name"], c["status"], c["reason"] is None) for c in got["cases"]] ==
             [("right", "PASS", True), ("wrong", "FAIL", False)], ["conform"], "counts %s" % got)
    w.facts(CASES, 0, "conform", "eager", "--cases", os.path.join(cases, "right"))


def lists(w):
    w.facts([{"name": str, "doc": str}], 0, "passes")
    w.facts([{"name": str, "doc": str}], 0, "passes", "--backend", "aot_eager")
    got = w.facts([OP], 0, "ops")
    w.expect(got and len(got) > 100, ["ops"], "only %s ops" % (got and len(got)))
    w.facts([OP], 0, "ops", "softmax")
    w.facts(DOCTOR, 0, "doctor")
    text = {"text": str, "assumed": TEXT_OR_NULL}
    w.facts(text, 0, "print", "digits.onnx")
    w.facts(text, 0, "opt", "digits.onnx", "--pass", "canonicalize")
    output = os.path.join(w.work, "x")
    w.facts({"file": str, "assumed": TEXT_OR_NULL}, 0, "print", "digits.onnx", "-o", output + ".stirb")
    w.facts({"file": str, "format": {"dot"}, "assumed": TEXT_OR_NULL}, 0, "draw", "digits.onnx", "-o",
            output + ".dot")
    graph = {"joint": {"nodes": int, "forward": int, "backward": int}, "recomputed": int, "capped": bool, "wrong": [OFF],
             "undecided": [OFF], "saved": [{"name": str, "bytes": (int, None)}], "assumed": TEXT_OR_NULL}
    w.facts(dict(graph, text=str, checked=None, unchecked=None), 0, "grad", "digits.onnx")
    w.facts(dict(graph, checked=int, unchecked=int), 0, "grad", "digits.onnx", "--check")
    w.facts(dict(graph, file=str, checked=None, unchecked=None), 0, "grad", "digits.onnx", "-o", output + ".stirb")
    item = {"name": str, "doc": str, "state": str,
            "options": [{"name": str, "kind": str, "default": TEXT_OR_NULL, "range": TEXT_OR_NULL}]}
    w.facts(dict.fromkeys(["optimizers", "losses", "schedules", "step"], [item]), 0, "optimizers")
    trained = {"steps": int, "first_loss": NUMBER, "last_loss": NUMBER, "median_ms": NUMBER, "compile_ms": NUMBER,
               "peak_bytes": int, "dropped_rows": int, "resumed_at": None, "stopped_at": None,
               "coverage": dict(COVERAGE, **dict.fromkeys(["write_backs", "write_back_copies", "write_back_bytes"], int)),
               "val": {"loss": NUMBER, "accuracy": (NUMBER, None)}}
    w.facts(trained, 0, "train", "digits.onnx", "--loss", "cross_entropy", "--data", "test.npz", "--val", "test.npz",
            "--batch", "540")
    entry = {"name": str, "kind": {"code", "data", "sums"}, "size_bytes": NUMBER, "used_s": NUMBER,
             "key": str, "damaged": bool}
    w.facts({"folder": TEXT_OR_NULL, "reason": TEXT_OR_NULL, "size_bytes": NUMBER, "entries": [entry]}, 0,
            "cache", "list")
    w.facts({"hit": bool, "entry": TEXT_OR_NULL, "reason": TEXT_OR_NULL}, 0, "cache", "why", "digits.onnx")
    w.facts({"removed": int, "size_bytes": NUMBER}, 0, "cache", "clear",
            env={"STATOR_CACHE": "1", "STATOR_CACHE_DIR": os.path.join(w.work, "kept")})
    if any(r["name"] == "inductor-cpu" and r["state"] == "AVAILABLE"
           for r in w.facts([BACKEND], 0, "backends", "--probe") or []):
        w.facts({"library": str, "header": str, "name": str, "cpu": str, "inputs": [PORT],
                 "outputs": [PORT]}, 0, "build", "digits.onnx", "-o", output + ".so")


# ---- failing ----

def failures(w):
    with open(os.path.join(w.source, "tools", "commands.def")) as file:
        commands = re.findall(r'CLI_COMMAND\("(\w+)"', file.read())
    dot = os.path.join(w.work, "x.dot")
    library = os.path.join(w.work, "y.so")
    repro = os.path.join(w.work, "new")
    page = os.path.join(w.work, "x.html")
    files = {  # what follows the command; {} is the model
        "run": "{}", "bench": "{} --backends eager", "compare": "{} --backends eager,aot_eager", "explain": "{}", "info": "{}",
        "bisect": "{} --bad aot_eager", "minify": "{} --bad aot_eager -o " + repro, "print": "{}",
        "draw": "{} -o " + dot, "grad": "{}", "opt": "{} --pass dce", "report": "{} -o " + page,
        "train": "{} --loss mse --data test.npz",
        "build": "{} -o " + library, "cache": "why {}"}
    backends = {
        "run": "digits.onnx --backend {}", "info": "digits.onnx --backend {}", "explain": "digits.onnx --backend {}", "bench": "digits.onnx --backends {}",
        "compare": "digits.onnx --backends eager,{}", "bisect": "digits.onnx --bad {}",
        "minify": "digits.onnx --bad {} -o " + repro, "report": "digits.onnx -o " + page + " --backend {}",
        "check": "neg f32 --backend {}", "conform": "{} --cases png", "passes": "--backend {}",
        "print": "digits.onnx --after cse --backend {}",
        "draw": "digits.onnx -o " + dot + " --after cse --backend {}",
        "build": "digits.onnx -o " + library + " --backend {}", "cache": "why digits.onnx --backend {}"}
    names = {"check": "softmx f32", "ops": "softmx", "opt": "digits.onnx --pass csee",
             "print": "digits.onnx --after csee", "conform": "eager --cases /nowhere"}
    whole = {"run": "digits.onnx", "info": "digits.onnx", "explain": "digits.onnx", "bench": "digits.onnx --backends eager", "check": "neg f32",
             "compare": "digits.onnx --backends eager,aot_eager", "bisect": "digits.onnx --bad eager",
             "minify": "digits.onnx --bad eager -o " + repro, "report": "digits.onnx -o " + page,
             "print": "digits.onnx", "draw": "digits.onnx -o " + dot, "opt": "digits.onnx", "grad": "digits.onnx",
             "train": "digits.onnx --loss mse --data test.npz", "conform": "eager --cases png", "build": "digits.onnx -o " + library}
    garbage = os.path.join(w.work, "garbage.onnx")
    with open(garbage, "wb") as file:
        file.write(b"\x0anot a model")
    for command in commands:
        if command in files:
            w.fails("NOT_FOUND", command, *files[command].format("/nowhere/m.onnx").split())
            w.fails("DATA_LOSS", command, *files[command].format(garbage).split())
        if command in backends:
            w.fails("NOT_FOUND", command, *backends[command].format("eagr").split())
        if command in names:
            w.fails("NOT_FOUND", command, *names[command].split())
        rest = whole.get(command, "").split()
        w.fails("NOT_FOUND", command, *rest, "--plugin-dir", "/nowhere")
    nothing = {"STATOR_PLUGIN_PATH": "", "STATOR_PLUGIN_FILES": ""}
    w.fails("INVALID_ARGUMENT", "run", "digits.onnx", "--backend-option", "spede=1", env=nothing)


def main():
    w = World(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    sys.dont_write_bytecode = True
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import bad_models
    try:
        bad_models.write_all(w.work)
        for group in (plugins, runs, comparisons, conforms, lists, failures):
            group(w)
    finally:
        shutil.rmtree(w.work)
    for line in w.wrong:
        print("BAD " + line)
    print("%d commands, %d findings" % (w.count, len(w.wrong)))
    return 1 if w.wrong else 0


sys.exit(main())
