#!/usr/bin/env python3
"""Bad input gets a clear error: each case below is run with and without --json and must end with its
status, name its code in the JSON, and say its words. Files are made here (bad_models.py) with the
standard library alone.

usage: check_errors.py SOURCE BUILD      status 0 when every case is as stated; prints what is not"""
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
import bad_models

LIMIT_S = 60


def npy(descr, shape, data):
    text = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    text += " " * (-(len(text) + 11) % 64) + "\n"
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text.encode() + data


STIR = """stir 1
graph @main(%p: bool[], %x: f32[4]) {
  %r = cond(%p, %x) : f32[4] @"the branch":If
    region @then(%a: f32[4]) {
      %b = neg(%a) : f32[4]
      return %b
    }
    region @else(%a: f32[4]) {
      return %a
    }
  %s = tanh(%r) : f32[4]
  return out: %s
}
"""


class World:
    """The folder of bad files, the command, and what was found wrong."""

    def __init__(self, source, build):
        self.source, self.build = source, build
        self.stator = os.path.join(build, "bin", "stator")
        self.digits = os.path.join(source, "examples", "digits")
        self.work = tempfile.mkdtemp(prefix="stator-errors-")
        self.models = os.path.join(self.work, "models")
        self.count, self.wrong = 0, []
        bad_models.write_all(self.work)

    def path(self, name):
        return os.path.join(self.models, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def run(self, args):
        try:
            done = subprocess.run([self.stator] + args, cwd=self.models, capture_output=True,
                                  timeout=LIMIT_S, stdin=subprocess.DEVNULL)
        except subprocess.TimeoutExpired:
            return None, "", "no answer within %d s" % LIMIT_S
        return (done.returncode, done.stdout.decode(errors="replace"),
                done.stderr.decode(errors="replace"))

    def bad(self, args, what, output):
        self.wrong.append("stator %s\n    %s\n    %s" % (" ".join(args), what, output.strip()[:600]))

    def expect_json(self, args, code, words):
        status, out, err = self.run(args + ["--json"])
        try:
            error = json.loads(out)["error"]
            text = "%s %s" % (error["message"], error["hint"])
            ok = status == 3 and error["code"] == code and all(w in text for w in words)
            if not ok:
                self.bad(args + ["--json"], "expected 3 %s %s, got %s" % (code, words, status), out)
        except (ValueError, KeyError, TypeError):
            self.bad(args + ["--json"], "no error object, status %s" % status, out + err)

    def expect(self, code, words, *args):
        """Status 3, this code, and each of these words in the text or the hint."""
        args, words = list(args), [words] if isinstance(words, str) else words
        self.count += 1
        status, out, err = self.run(args)
        missing = [w for w in words if w not in err]
        if status != 3 or missing:
            self.bad(args, "expected 3 %s, got %s" % (missing, status), out + err)
        self.expect_json(args, code, words)

    def expect_status(self, want, words, *args):
        """This status and each of these words on stderr; no JSON."""
        words = [words] if isinstance(words, str) else words
        self.count += 1
        status, out, err = self.run(list(args))
        missing = [w for w in words if w not in err]
        if status != want or missing:
            self.bad(list(args), "expected %d %s, got %s" % (want, missing, status), out + err)


# ---- models ----

def models(w):
    rows = [
        ("empty", "INVALID_ARGUMENT", "no graph"),
        ("text", "DATA_LOSS", "not a whole ONNX file"),
        ("cycle", "INVALID_ARGUMENT", ["cycle", "'first'", "'second'"]),
        ("self_cycle", "INVALID_ARGUMENT", ["cycle", "'loop'"]),
        ("undefined", "INVALID_ARGUMENT", ["'reads' (Add)", "'nowhere'"]),
        ("no_output", "INVALID_ARGUMENT", "'z'"),
        ("twice", "INVALID_ARGUMENT", ["'again' (Abs)", "'y' is already defined"]),
        ("matmul", "INVALID_ARGUMENT", ["'product' (MatMul)", "sizes 3 and 2 differ"]),
        ("broadcast", "INVALID_ARGUMENT", ["'sum' (Add)", "sizes 4 and 2", "do not broadcast"]),
        ("reshape", "INVALID_ARGUMENT", ["'shaper' (Reshape)", "6 elements", "20"]),
        ("conv", "INVALID_ARGUMENT", ["'window' (Conv)", "sizes 3 and 5 differ"]),
        ("transpose", "INVALID_ARGUMENT", ["'turn' (Transpose)", "axis 0 twice"]),
        ("dtypes", "INVALID_ARGUMENT", ["'mixed' (Add)", "f32", "i64"]),
        ("short_data", "DATA_LOSS", ["'w'", "8 bytes", "24"]),
        ("huge_weight", "INVALID_ARGUMENT", ["'w'", "too many elements"]),
        ("large_weight", "DATA_LOSS", ["'w'", "1099511627776"]),
        ("negative_weight", "INVALID_ARGUMENT", ["'w'", "negative"]),
                ("rank", "INVALID_ARGUMENT", ["'x'", "rank 17", "16"]),
        ("unknown_ops", "UNIMPLEMENTED", ["3 operators", "Foo (2 nodes)", "Frobnicate (1 node)",
                                          "acme.Magic (1 node)"]),
        ("future_opset", "UNIMPLEMENTED", "9999"),
        ("too_many", "INVALID_ARGUMENT", ["'two' (Relu)", "2 inputs", "expected 1"]),
        ("too_few", "INVALID_ARGUMENT", ["'one' (Add)", "input 1"]),
        ("attribute", "INVALID_ARGUMENT", ["'soft' (Softmax)", "axis 7", "rank 2"]),
        ("attribute_type", "INVALID_ARGUMENT", ["'soft' (Softmax)", "'axis'", "integer"]),
        ("no_branch", "INVALID_ARGUMENT", ["'branch' (If)", "then_branch"]),
        ("external_missing", "NOT_FOUND", ["'w'", "'absent.bin'", "not there"]),
        ("external_short", "DATA_LOSS", ["'w'", "24 bytes", "'short.bin'", "has 8"]),
        ("external_past", "DATA_LOSS", ["'w'", "offset 1152921504606846976", "has 8"]),
        ("external_up", "PERMISSION_DENIED", ["'w'", "../outside.bin", "relative"]),
        ("external_absolute", "PERMISSION_DENIED", ["'w'", "/etc/hostname", "relative"]),
        ("external_link", "PERMISSION_DENIED", ["'w'", "'link.bin'", "link"]),
        ("external_nowhere", "INVALID_ARGUMENT", ["'w'", "no location"]),
    ]
    for name, code, words in rows:
        words = [words] if isinstance(words, str) else words
        w.expect(code, words + [name + ".onnx"], "run", name + ".onnx", "--backend", "eager")
    w.expect("INVALID_ARGUMENT", "2^62", "run", "huge_input.onnx")
    w.expect("INVALID_ARGUMENT", "cycle", "print", "cycle.onnx")
    w.expect("INVALID_ARGUMENT", "cycle", "draw", "cycle.onnx", "-o", "never.svg")


def cut_files(w):
    with open(os.path.join(w.digits, "digits.onnx"), "rb") as file:
        onnx = file.read()
    for k in range(1, 17):
        name = "cut%d.onnx" % k
        w.write(name, onnx[:len(onnx) * k // 17])
        w.expect("DATA_LOSS", [name, "not a whole ONNX file"], "print", name)
    w.write("cond.stir", STIR)
    for k in range(1, 9):
        w.write("cut%d.stir" % k, STIR[:len(STIR) * k // 9])
        w.expect("INVALID_ARGUMENT", "cut%d.stir:" % k, "run", "cut%d.stir" % k)
    status, _, err = w.run(["print", os.path.join(w.digits, "digits.onnx"), "-o", "whole.stirb"])
    if status != 0:
        w.bad(["print -o whole.stirb"], "status %s" % status, err)
        return
    with open(w.path("whole.stirb"), "rb") as file:
        binary = file.read()
    for k in range(1, 9):
        w.write("cut%d.stirb" % k, binary[:len(binary) * k // 9])
        w.expect("DATA_LOSS", "cut%d.stirb" % k, "print", "cut%d.stirb" % k)
    w.write("version.stirb", binary[:8] + b"\xff\xff\xff\x7f" + binary[12:])
    w.expect("INVALID_ARGUMENT", "version.stirb", "print", "version.stirb")


def text_files(w):
    """Graphs in the text form: one statement that makes %y from %x: f32[2, 3]."""
    rows = [
        ("order", "INVALID_ARGUMENT", ":3:", "no value of this graph is called %z",
         "%y = add(%x, %z) : f32[2, 3]"),
        ("self", "INVALID_ARGUMENT", ":3:", "called %y", "%y = add(%x, %y) : f32[2, 3]"),
        ("op", "INVALID_ARGUMENT", "no op named 'rellu'", "did you mean 'relu'",
         "%y = rellu(%x) : f32[2, 3]"),
        ("type", "INVALID_ARGUMENT", "f32[2, 3] by its operands", "f32[3, 2] is written",
         "%y = relu(%x) : f32[3, 2]"),
        ("attribute", "INVALID_ARGUMENT", "no attribute named 'axes'", "did you mean 'axis'",
         "%y = softmax(%x) {axes = 1} : f32[2, 3]"),
        ("operands", "INVALID_ARGUMENT", "2 operands given", "at most 1",
         "%y = relu(%x, %x) : f32[2, 3]"),
        ("huge", "RESOURCE_EXHAUSTED", "result of expand", "2^62",
         "%y = expand(%x) {shape = [4611686018427387904, 2, 3]} : f32[4611686018427387904, 2, 3]"),
        ("large", "RESOURCE_EXHAUSTED", "26388279066624 bytes", "no memory",
         "%y = expand(%x) {shape = [1099511627776, 2, 3]} : f32[1099511627776, 2, 3]"),
        ("whole", "RESOURCE_EXHAUSTED", "memory", "memory",  # 2^61 bytes that are no result
         "%t = expand(%x) {shape = [384307168202282325, 2, 3]}\n"
         "%y = slice(%t) {starts = [0, 0, 0], sizes = [1, 2, 3], steps = [1, 1, 1]}"),
        ("round", "RESOURCE_EXHAUSTED", "memory", "memory",  # 2^64 bits exactly
         "%s = slice(%x) {starts = [0, 0], sizes = [1, 1], steps = [1, 1]}\n"
         "%t = expand(%s) {shape = [1099511627776, 524288]}\n"
         "%y = slice(%t) {starts = [0, 0], sizes = [2, 3], steps = [1, 1]}"),
        ("start", "INVALID_ARGUMENT", "index -9223372036854775808", "outside a size of 2",
         "%y = slice(%x) {starts = [-9223372036854775808, 0], sizes = [1, 3], steps = [1, 1]}"),
        ("few", "INVALID_ARGUMENT", "2 elements are given", "has 6",
         "%z = constant {value = f32[2, 3] {1, 2}} : f32[2, 3]\n%y = add(%x, %z) : f32[2, 3]"),
        ("up", "INVALID_ARGUMENT", "../x", "..",
         "%z = constant {value = f32[2, 3] file(\"../x\", 0, 24)} : f32[2, 3]\n%y = add(%x, %z)"),
        ("gone", "INVALID_ARGUMENT", "x.blob", "does not exist",
         "%z = constant {value = f32[2, 3] file(\"x.blob\", 0, 24)} : f32[2, 3]\n%y = add(%x, %z)"),
        ("hash", "FAILED_PRECONDITION", "known by its hash only", "24 bytes",
         "%z = constant {value = f32[2, 3] hash(\"cdea2afc3231c010a70ca0201f5bff34\", 24)} "
         ": f32[2, 3]\n%y = add(%x, %z) : f32[2, 3]"),
    ]
    for name, code, word, another, statement in rows:
        w.write(name + ".stir", "stir 1\ngraph @main(%%x: f32[2, 3]) {\n%s\nreturn y: %%y\n}\n"
                % statement)
        w.expect(code, [word, another], "run", name + ".stir", "--backend", "eager")


def not_files(w):
    os.mkfifo(w.path("pipe.onnx"))
    w.write("none.onnx", b"")
    w.write("odd.xyz", b"\0\1\2\3")
    w.expect("NOT_FOUND", ["absent.onnx", "No such file"], "run", "absent.onnx")
    w.expect("INVALID_ARGUMENT", "folder", "run", ".")
    w.expect("INVALID_ARGUMENT", "no graph", "run", "pipe.onnx")  # nobody writes to it
    w.expect("INVALID_ARGUMENT", ["pipe", "several times"], "bisect", "pipe.onnx", "--bad", "eager")
    w.expect("INVALID_ARGUMENT", "regular file", "run", "/dev/zero")
    w.expect("INVALID_ARGUMENT", "no graph", "run", "none.onnx")
    w.expect("INVALID_ARGUMENT", "no frontend recognises", "run", "odd.xyz")


# ---- inputs ----

def inputs(w):
    w.write("f32.npy", npy("<f4", "(2, 3)", b"\0" * 24))
    w.write("i64.npy", npy("<i8", "(2, 3)", b"\0" * 48))
    w.write("shape.npy", npy("<f4", "(3, 3)", b"\0" * 36))
    w.write("rank.npy", npy("<f4", "(6,)", b"\0" * 24))
    w.write("cut.npy", npy("<f4", "(2, 3)", b"\0" * 20))
    w.write("text.npy", b"1 2 3\n")
    run = ("run", "good.onnx", "--backend", "eager")
    w.expect("INVALID_ARGUMENT", ["'x'", "i64[2, 3]", "expected f32[2, 3]"], *run, "--input", "i64.npy")
    w.expect("INVALID_ARGUMENT", ["f32[3, 3]", "expected f32[2, 3]", "'sum' (Add)", "3 and 2"], "run",
             "fixed.onnx", "--backend", "eager", "--input", "shape.npy")
    w.expect("INVALID_ARGUMENT", ["f32[6]", "expected f32[2, 3]"], *run, "--input", "rank.npy")
    w.expect("INVALID_ARGUMENT", ["cut.npy", "cut off"], *run, "--input", "x=cut.npy")
    w.expect("INVALID_ARGUMENT", ["text.npy", "magic"], *run, "--input", "x=text.npy")
    w.expect("INVALID_ARGUMENT", ["absent.npy", "No such file"], *run, "--input", "x=absent.npy")
    w.expect("NOT_FOUND", ["no input 'z'", "it has: x"], *run, "--input", "z=f32.npy")
    w.expect("INVALID_ARGUMENT", "'z' is missing", "run", "two.onnx", "--input", "x=f32.npy")
    w.expect("INVALID_ARGUMENT", "NAME=FILE", "run", "two.onnx", "--input", "f32.npy")
    w.expect("INVALID_ARGUMENT", "absent", *run, "--inputs", "absent")
    w.expect("INVALID_ARGUMENT", "'x' is missing", *run, "--inputs", ".")
    w.expect("INVALID_ARGUMENT", "absent", *run, "--expect", "absent.npz")
    w.expect("INVALID_ARGUMENT", "holds no output", *run, "--expect", ".")
    w.expect("NOT_FOUND", "absent.txt", *run, "--labels", "absent.txt")
    w.expect("INVALID_ARGUMENT", "is no regular file", *run, "--labels", "/dev/zero")
    w.expect("INVALID_ARGUMENT", "NAME=FILE", *run, "--input", "x=")
    w.expect("INVALID_ARGUMENT", "pipe.onnx: is not a regular file", *run, "--input", "x=pipe.onnx")
    w.expect("INVALID_ARGUMENT", "given twice", "run", "symbolic.onnx", "--dim", "N=2", "--dim", "N=3")
    probabilities = os.path.join(w.digits, "test_probabilities.npz")
    w.expect("NOT_FOUND", "no output 'probabilities'", *run, "--expect", probabilities)
    w.expect_status(0, "warning: 'two.txt' has 2 labels, the output 3 classes", *run, "--labels",
                    w.write("two.txt", "a\n%s" % ("b" * 5000)) and "two.txt")
    w.expect("INVALID_ARGUMENT", "'good.onnx' does not end in .npz", *run, "--save", "good.onnx")
    w.expect("UNAVAILABLE", "/nowhere/x.npz", *run, "--save", "/nowhere/x.npz")
    w.expect_status(2, "--dim wants N=8", "run", "symbolic.onnx", "--dim", "N=-3")
    w.expect("INVALID_ARGUMENT", "no input has", "run", "symbolic.onnx", "--dim", "M=3")
    w.expect("INVALID_ARGUMENT", "2^62", "run", "symbolic.onnx", "--dim", "N=4611686018427387904")
    w.expect("RESOURCE_EXHAUSTED", "1199999999988 bytes", "run", "symbolic.onnx", "--dim",
             "N=99999999999")


def packed_inputs(w):
    corpus = os.path.join(w.source, "tests", "fuzz", "corpus")
    run = ("run", "good.onnx", "--backend", "eager")
    for name, words in (("cut.npz", "cut.npz"), ("wrong_sum.npz", "cannot be unpacked"),
                        ("lying_size.npz", "impossible size"), ("no_npy.npz", "magic")):
        w.expect("INVALID_ARGUMENT", words, *run, "--inputs", os.path.join(corpus, "npz", name))
    w.expect("INVALID_ARGUMENT", "'x' is missing", *run, "--inputs",
             os.path.join(corpus, "npz", "no_members.npz"))
    for name, words in (("cut", "TensorProto"), ("short_raw", "20 bytes"), ("huge", "too large"),
                        ("wrong_type", "data type 99"), ("i64_data", "i64[3], expected f32[2, 3]")):
        folder = w.path("set_" + name)
        os.mkdir(folder)
        shutil.copy(os.path.join(corpus, "pb", name + ".pb"), os.path.join(folder, "input_0.pb"))
        w.expect("INVALID_ARGUMENT", words, *run, "--inputs", folder)
    png = os.path.join(corpus, "png")
    image = ("run", "images.onnx", "--backend", "eager", "--image")
    w.expect("INVALID_ARGUMENT", ["f32[1, 3, 2, 2]", "expected f32[1, 3, 4, 4]"], *image,
             os.path.join(png, "gray.png"))
    w.expect("INVALID_ARGUMENT", "PNG", *image, os.path.join(png, "cut.png"))
    w.expect("INVALID_ARGUMENT", "too short", *image, os.path.join(png, "large_claim.png"))
    w.expect("INVALID_ARGUMENT", "absent.png", *image, "x=absent.png")
    w.expect("INVALID_ARGUMENT", "rank 2", *run, "--image", os.path.join(png, "gray.png"))
    w.expect_status(2, "--mean wants", *image, os.path.join(png, "gray.png"), "--mean", "0.5,x")
    w.expect("INVALID_ARGUMENT", "3 channels", *image, os.path.join(png, "gray.png"), "--mean", "1,2")
    w.expect("INVALID_ARGUMENT", "--std", *image, os.path.join(png, "gray.png"), "--std", "1,0,1")


def values(w):
    """Sizes and indices known only at call time."""
    for name, numbers in (("huge", (1 << 40, 1 << 40)), ("large", (1 << 20, 1 << 20)),
                          ("below", (-5, 3)), ("index", (0, 17))):
        w.write(name + ".npy", npy("<i8", "(2,)", struct.pack("<2q", *numbers)))
    fills = ("run", "fills.onnx", "--backend", "eager", "--input")
    w.expect("RESOURCE_EXHAUSTED", ["'filler' (ConstantOfShape)", "1099511627776"], *fills, "huge.npy")
    w.expect("RESOURCE_EXHAUSTED", "4398046511104 bytes", *fills, "large.npy")
    w.expect("RESOURCE_EXHAUSTED", ["'filler' (ConstantOfShape)", "-5"], *fills, "below.npy")
    w.expect("OUT_OF_RANGE", ["'picker' (Gather)", "index 17", "size 3"], "run", "gathers.onnx",
             "--backend", "eager", "--input", "index.npy")


# ---- backends ----

def backends(w):
    plugins = w.path("plugins")
    os.mkdir(plugins, 0o755)
    for name in ("needs_soname", "needs_device", "init_fails", "probe_no_device", "abi_1_0"):
        shutil.copy(os.path.join(w.build, "tests", "mutants", name + ".so"), plugins)
        os.chmod(os.path.join(plugins, name + ".so"), 0o644)
    for command in (["run", "good.onnx", "--backend", "eagr"], ["passes", "--backend", "eagr"],
                    ["bench", "good.onnx", "--backends", "eager,eagr"], ["check", "neg", "f32 4",
                     "--backend", "eagr"], ["conform", "eagr", "--cases", w.models],
                    ["compare", "good.onnx", "--backends", "eager,eagr"],
                    ["bisect", "good.onnx", "--bad", "eagr"]):
        w.expect("NOT_FOUND", ["no backend 'eagr'", "did you mean 'eager'", "found: ", "aot_eager"],
                 *command)
    run = ("run", "good.onnx", "--plugin-dir", plugins, "--backend")
    for name, words in (("needs_soname", ["MISSING_DEPENDENCY", "libstator_test_absent.so.9"]),
                        ("needs_device", ["NO_DEVICE", "/dev/stator_test_absent"]),
                        ("init_fails", ["INIT_FAILED", "licence server"]),
                        ("probe_no_device", ["NO_DEVICE", "switched off", "switch it on"]),
                        ("abi_1_0", ["ABI_TOO_NEW", "0.9", "newer Stator"])):
        w.expect("UNAVAILABLE", ["'%s'" % name] + words, *run, name)
    w.expect_status(0, ["'needs_soname' replaced by 'eager'", "MISSING_DEPENDENCY"], *run,
                    "needs_soname", "--fallback=eager")
    w.expect_status(0, "replaced by 'eager'", *run, "needs_soname", "--fallback=eager", "--json")
    w.expect_status(3, ["replaced by 'needs_device'", "NO_DEVICE"], *run, "needs_soname",
                    "--fallback=needs_device")
    w.expect("NOT_FOUND", ["no backend 'eagr'", "did you mean 'eager'"], *run, "eagr", "--fallback",
             "eager")
    w.expect("NOT_FOUND", ["no backend 'eagr'", "did you mean 'eager'"], *run, "eager", "--fallback",
             "eagr")
    clean = ("run", "cond.stir", "--backend", "clean", "--plugin-dir",
             os.path.join(w.build, "tests", "planted", "clean"))
    w.expect_status(0, "", *clean)
    w.expect("UNSUPPORTED", ["'clean'", "1 of 1 nodes", "nonzero", "left to eager"], "check", "nonzero",
             "f32 3x4", "--strict", *clean[2:])


def options(w):
    run = ("run", "good.onnx", "--backend", "eager")
    w.expect("INVALID_ARGUMENT", ["mode 'fast'", "max-autotune"], *run, "--mode", "fast")
    w.expect("INVALID_ARGUMENT", ["option 'spede'"], *run, "--backend-option", "spede=1")
    w.expect_status(2, "--backend-option wants K=V", *run, "--backend-option", "spede")
    w.expect("NOT_FOUND", ["no pass 'cannonicalize'", "did you mean 'canonicalize'"], "opt",
             "good.onnx", "--pass", "cannonicalize")
    w.expect("NOT_FOUND", ["no stage 'nothing'", "import, functionalize"], "print", "good.onnx",
             "--after", "nothing", "--backend", "eager")
    w.expect("NOT_FOUND", "no backend 'eagr'", "print", "good.onnx", "--backend", "eagr")
    w.expect("INVALID_ARGUMENT", ".stirb", "print", "good.onnx", "-o", "x.txt")
    w.expect("UNAVAILABLE", "/nowhere/", "print", "good.onnx", "-o", "/nowhere/x.stir")
    w.expect("NOT_FOUND", "no test case", "conform", "eager", "--cases", "/nowhere")
    w.expect("NOT_FOUND", ["no op 'softmx'", "did you mean 'softmax'"], "ops", "softmx")
    w.expect_status(2, ["'--bakend'", "did you mean '--backend'"], *run, "--bakend", "eager")
    w.expect_status(2, ["'rn'", "did you mean 'run'"], "rn", "good.onnx")
    w.expect_status(2, "MODEL is missing", "run")
    w.expect_status(2, "--repeat wants N", *run, "--repeat", "-4")
    w.expect_status(2, "--random wants SEED", *run, "--random", "abc")
    w.expect_status(2, "one argument too many", *run, "another.onnx")


def main():
    w = World(os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]))
    try:
        for group in (models, cut_files, text_files, not_files, inputs, packed_inputs, values, backends, options):
            group(w)
    finally:
        shutil.rmtree(w.work)
    for line in w.wrong:
        print("BAD " + line)
    print("%d cases, %d findings" % (w.count, len(w.wrong)))
    return 1 if w.wrong else 0


sys.exit(main())
