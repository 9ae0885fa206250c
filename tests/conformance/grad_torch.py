#!/usr/bin/env python3
"""Gradients of Stator's ops beside PyTorch's, over PyTorch's own sample inputs.

usage: grad_torch.py [--library libstator.so] [--backends eager,inductor-cpu] [--ops NAME,..] [--max-samples N]
                     [--onnx] [--jobs N] [--timeout S] [--json OUT] [--list OUT] [--keep DIR] [-v]

For each operator of opinfo_open.txt and each of its f32 samples in op_db (torch.testing._internal) the calls that
PyTorch makes of it are written as a program in the text form (grad_torch_aten.py has a row an operator), whose joint
model (stator/train.h) takes the sample and tangents. Its results and gradients have to agree with those of
torch.autograd.grad for the same tangents: within rtol 1e-4 and atol 1e-5, or no further from what PyTorch gives in
f64 than 4 times PyTorch's own distance in f32 plus 1e-5. Values that no gradient passes through are the sample's.
With --onnx the program is what torch.onnx.export makes of the sample; samples that it cannot export are counted.

opinfo_open.txt has a line an operator: its name and, after a tab, why it is not compared (REASONS of
grad_torch_rules.py); "part: " stands in front where that is so of some samples. An operator that is not compared and
has no reason there, or that is compared whole in spite of one, is an error. --list writes that file anew, --keep the
programs. Each operator runs in a process of its own. Without PyTorch the Python of build/venv-models runs this
program. Status 0 when all holds, 77 where there is no PyTorch.
"""
import argparse
import collections
import contextlib
import importlib.util
import io
import json
import logging
import os
import select
import signal
import sys
import time
import traceback
import types
import unittest
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
if __name__ == "__main__" and importlib.util.find_spec("torch") is None:
    python = os.path.join(ROOT, "build", "venv-models", "bin", "python")
    if os.path.exists(python) and not os.path.samefile(sys.prefix, os.path.dirname(os.path.dirname(python))):
        os.execv(python, [python, *sys.argv])
    print("skipped: there is no PyTorch (./bootstrap test --all makes build/venv-models, which has it)")
    sys.exit(77)

warnings.filterwarnings("ignore")
try:
    import expecttest  # noqa: F401
except ImportError:  # torch.testing._internal needs it for a base class alone
    module = types.ModuleType("expecttest")
    module.TestCase, module.assert_expected_inline = unittest.TestCase, None
    sys.modules["expecttest"] = module
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

import grad_torch_aten as aten
import grad_torch_complex
from grad_torch_program import Program
from grad_torch_rules import WRONG, Unmapped, dtype_name
from stator_capi import Stator, StatorError

RANDOM = set("""bernoulli multinomial normal rand_like randn randn_like randint randint_like uniform exponential
geometric cauchy log_normal nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d svd_lowrank
pca_lowrank empty empty_like empty_permuted empty_strided new_empty new_empty_strided""".split())
AMBIGUOUS = set("""linalg.eig linalg.eigh linalg.svd svd linalg.qr qr geqrf ormqr linalg.householder_product""".split())
IGNORED = {"layout", "device", "pin_memory", "non_blocking", "memory_format", "generator"}


def full_name(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def leaves(value):
    return pytree.tree_leaves(value)


def as_real(tensor):
    """A complex tensor as [.., (real, imaginary)]; others as they are."""
    tensor = tensor.detach()
    return torch.view_as_real(tensor.resolve_conj()).contiguous() if tensor.is_complex() else tensor


class Recorder(TorchDispatchMode):
    """Writes a program of the calls that lie between the tensors given as inputs and the results."""

    def __init__(self, program):
        super().__init__()
        self.program, self.clock = program, 0
        self.known = {}  # id: tensor, value, whether a gradient passes through it, when it was made
        self.written = {}  # storage: when it was last written; values made before are no longer its own

    def bind(self, tensor, value, is_active=True):
        value.tensor = tensor
        self.clock += 1
        self.known[id(tensor)] = (tensor, value, is_active, self.clock)

    def writes(self, tensor):
        self.clock += 1
        self.written[self.storage(tensor)] = self.clock

    def is_active(self, tensor):
        return id(tensor) in self.known and self.known[id(tensor)][2] or self.storage(tensor) in self.written

    @staticmethod
    def storage(tensor):
        return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else None

    def value(self, tensor):
        """The program's value of a tensor: its own, or a constant."""
        if tensor.layout != torch.strided:
            raise Unmapped("not strided")
        _, value, _, time = self.known.get(id(tensor), (None, None, None, 0))
        if self.written.get(self.storage(tensor), 0) > time:
            raise Unmapped("in place")
        if value is None:
            array = as_real(tensor)
            value = self.program.constant(array.numpy(), dtype_name(array.dtype))
            value.is_complex = tensor.is_complex()
            self.bind(tensor, value, False)
        return value

    def taken(self, argument):
        return self.value(argument) if isinstance(argument, torch.Tensor) else argument

    def __torch_dispatch__(self, func, kinds, args=(), kwargs=None):
        kwargs = {key: value for key, value in (kwargs or {}).items() if value is not None}
        name = func._overloadpacket.__name__
        tensors = [t for t in leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
        is_active = torch.is_grad_enabled() and name != "detach" and any(self.is_active(t) for t in tensors)
        is_mutable = func._schema.is_mutable
        operands = pytree.tree_map(self.taken, args) if is_active and is_mutable else None
        out = func(*args, **kwargs)
        if is_active:
            with torch._C._DisableTorchDispatch():
                self.emit(func, name, args, operands, kwargs, out)
        return out

    def emit(self, func, name, args, operands, kwargs, out):
        """The nodes of a call of which an operand is active; operands are values where it writes one."""
        results = [t for t in leaves(out) if isinstance(t, torch.Tensor)]
        is_complex = any(isinstance(t, torch.Tensor) and t.is_complex() for t in leaves((args, kwargs, results)))
        if func._schema.is_mutable:
            name = name.rstrip("_")
        if name in aten.CONSTANT:
            if func._schema.is_mutable:
                self.writes(args[0])
                self.bind(args[0], self.program.constant(args[0].numpy(), dtype_name(args[0].dtype)), False)
            return
        is_smooth = any(t.is_floating_point() or t.is_complex() for t in results)
        if not is_smooth and (name not in aten.TABLE or name == "where"):
            return  # no gradient passes: the sample's own values
        if name not in aten.TABLE and not is_complex:
            raise Unmapped("no counterpart", name)
        operands = pytree.tree_map(self.taken, args) if operands is None else operands
        keywords = pytree.tree_map(self.taken, {k: v for k, v in kwargs.items() if k not in IGNORED})
        if is_complex:
            made = grad_torch_complex.write(self.program, aten.TABLE, name, out, operands, keywords)
        else:
            made = aten.TABLE[name](self.program, out, *operands, **keywords)
        for argument, tensor in zip(func._schema.arguments, args):
            if argument.alias_info is not None and argument.alias_info.is_write and tensor is not None:
                self.writes(tensor)
        made = made if isinstance(made, (list, tuple)) else [made]
        for tensor, value in zip(leaves(out), made):
            if value is not None:
                shape = tuple(tensor.shape) + ((2,) if tensor.is_complex() else ())
                assert value.shape == shape, f"{name}: {value.shape}, not {shape}"
                assert value.is_complex == tensor.is_complex(), name
                value = value if value.is_complex else self.program.cast(value, dtype_name(tensor.dtype))
                self.bind(tensor, value)


def write(op, call, flat, spec, wanted, has_row):
    """The program of a sample, and its outputs: `wanted` are the places of those in PyTorch's."""
    program = Program()
    recorder = Recorder(program)
    copies = []
    for k, leaf in enumerate(flat):
        if isinstance(leaf, torch.Tensor):
            if leaf.layout != torch.strided:
                raise Unmapped("not strided")
            copy = leaf.detach().clone()
            if copy.is_complex():
                raise Unmapped("complex", "an input")
            recorder.bind(copy, program.input(f"x{k}", copy.numpy().copy(), dtype_name(copy.dtype)), leaf.requires_grad)
            leaf = copy
        copies.append(leaf)
    args, kwargs = pytree.tree_unflatten(copies, spec)
    torch.manual_seed(1)
    if has_row:
        out = call(*args, **kwargs)
        args, kwargs = pytree.tree_unflatten([recorder.taken(leaf) for leaf in copies], spec)
        kwargs = {key: value for key, value in kwargs.items() if value is not None}
        return program, [aten.OPERATORS[full_name(op)](program, out, *args, **kwargs)]
    with recorder:
        out = call(*args, **kwargs)
    out = leaves(out)
    return program, [recorder.value(out[k]) for k in wanted]


def close(got, want, exact):
    """Whether a tensor agrees with PyTorch's in f32, or with its own in f64 about as well as that."""
    if got.shape != want.shape:
        return f"shape {tuple(got.shape)}, not {tuple(want.shape)}"
    try:
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, equal_nan=True)
        return None
    except AssertionError as error:
        text = " ".join(str(error).split())
    if exact is None or exact.shape != got.shape or not torch.equal(torch.isfinite(got), torch.isfinite(want)):
        return text
    finite = torch.isfinite(exact) & torch.isfinite(want)
    ours, theirs = ((t.double() - exact).abs()[finite] for t in (got, want))
    ours, theirs = (t.max().item() if t.numel() else 0.0 for t in (ours, theirs))
    return None if ours <= 4 * theirs + 1e-5 else text


def reference(call, flat, spec, dtype):
    """PyTorch's results that have a gradient, their places, tangents and the gradients of the inputs."""
    def copy(t):
        if not isinstance(t, torch.Tensor) or t.layout != torch.strided:
            return t
        u = t.detach().clone()
        u = u.to(dtype) if u.dtype == torch.float32 else u
        return u.requires_grad_(t.requires_grad)
    copies = [copy(t) for t in flat]
    inputs = [t for t in copies if isinstance(t, torch.Tensor) and t.requires_grad]
    args, kwargs = pytree.tree_unflatten(copies, spec)
    torch.manual_seed(1)
    out = leaves(call(*args, **kwargs))
    places = [k for k, t in enumerate(out) if isinstance(t, torch.Tensor) and t.requires_grad]
    if not inputs or not places:
        raise Unmapped("not differentiable")
    if any(out[k].layout != torch.strided for k in places):
        raise Unmapped("not strided")
    generator = torch.Generator().manual_seed(7)
    tangents = [torch.randn(out[k].shape, generator=generator, dtype=torch.complex128 if out[k].is_complex() else
                            torch.float64).to(out[k].dtype) for k in places]
    made = torch.autograd.grad([out[k] for k in places], inputs, tangents, allow_unused=True)
    made = [torch.zeros_like(t) if g is None else g.to_dense() for g, t in zip(made, inputs)]
    return [as_real(out[k]) for k in places], places, [as_real(t) for t in tangents], made


def export(call, flat, spec, places):
    """The sample as an ONNX model: its bytes, the names of its inputs and their arrays."""
    tensors = {f"x{k}": leaf.detach() for k, leaf in enumerate(flat) if isinstance(leaf, torch.Tensor)}
    if any(t.is_complex() or t.layout != torch.strided or not t.numel() for t in tensors.values()):
        raise Unmapped("not exported", "complex, sparse or empty")  # the exporter divides by sizes

    class Sample(torch.nn.Module):
        def forward(self, *given):
            rest = iter(given)
            args, kwargs = pytree.tree_unflatten([next(rest) if isinstance(t, torch.Tensor) else t for t in flat], spec)
            out = leaves(call(*args, **kwargs))
            return tuple(out[k] for k in places)
    file = io.BytesIO()
    torch.manual_seed(1)
    try:
        with contextlib.redirect_stdout(io.StringIO()):  # where the exporter prints what it refuses
            torch.onnx.export(Sample(), tuple(tensors.values()), file, dynamo=False, opset_version=18,
                              input_names=list(tensors), output_names=[f"y{k}" for k in range(len(places))],
                              do_constant_folding=False, training=torch.onnx.TrainingMode.PRESERVE)
    except Exception as error:
        raise Unmapped("not exported", " ".join(str(error).split())[:200]) from error
    import onnx  # with --onnx alone
    names = [value.name for value in onnx.load_from_string(file.getvalue()).graph.input]
    return file.getvalue(), names, [tensors[name].numpy() for name in names]


def is_exported(data, inputs, values):
    """Whether ONNX Runtime computes PyTorch's values with an exported model."""
    import onnxruntime  # with --onnx alone
    try:
        session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
        results = session.run(None, inputs)
    except Exception:
        return False
    return all(close(torch.from_numpy(a), b, None) is None for a, b in zip(results, values))


class Judge:
    """Compares the samples of one operator; counts are of samples."""

    def __init__(self, op, options):
        self.op, self.options = op, options
        self.counts, self.reasons, self.first = collections.Counter(), collections.Counter(), {}
        self.stator = Stator(options.library)

    def run(self):
        name = full_name(self.op)
        if torch.float32 not in self.op.supported_dtypes("cpu"):
            dtypes = self.op.supported_dtypes("cpu")
            reason = "complex" if any(d.is_complex for d in dtypes) else "no f32"
            is_smooth = any(d.is_floating_point or d.is_complex for d in dtypes) or not dtypes
            return self.refuse(Unmapped(reason if is_smooth else "not differentiable"))
        if not self.op.supports_autograd or torch.float32 not in self.op.supported_backward_dtypes("cpu"):
            return self.refuse(Unmapped("not differentiable"))
        if name in RANDOM:
            return self.refuse(Unmapped("random"))
        if name in WRONG:
            return self.refuse(Unmapped("backward alone", WRONG[name]))
        if name in AMBIGUOUS:
            return self.refuse(Unmapped("ambiguous"))
        torch.manual_seed(0)
        samples = list(self.op.sample_inputs("cpu", torch.float32, requires_grad=True))
        most = self.options.max_samples
        step = max(1, len(samples) // most) if most else 1
        for k, sample in enumerate(samples[::step][: most or None]):
            try:
                self.sample(k * step, sample)
            except Unmapped as unmapped:
                self.refuse(unmapped)

    def refuse(self, unmapped):
        self.counts["refused"] += 1
        self.reasons[unmapped.reason] += 1
        self.first.setdefault("refused", str(unmapped))

    def fail(self, kind, k, text):
        self.counts[kind] += 1
        self.first.setdefault("off", f"sample {k}: {kind}: {text}"[:600])
        if self.options.verbose:
            print(f"  {full_name(self.op)} sample {k}: {kind}: {text}"[:900])

    def sample(self, k, sample):
        call = lambda *args, **kwargs: self.op.op(*args, **kwargs)  # noqa: E731
        flat, spec = pytree.tree_flatten(((sample.input, *sample.args), dict(sample.kwargs)))
        try:
            values, places, tangents, gradients = reference(call, flat, spec, torch.float32)
        except (RuntimeError, ValueError, TypeError, NotImplementedError, IndexError) as error:
            if any(isinstance(t, torch.Tensor) and t.is_complex() for t in flat):
                raise Unmapped("complex") from error
            raise Unmapped("error", str(error)) from error
        try:
            exact = reference(call, flat, spec, torch.float64)
        except Exception:
            exact = None
        names = [f"x{j}" for j, t in enumerate(flat) if isinstance(t, torch.Tensor) and t.requires_grad]
        exact = exact and exact[0] + exact[3]
        if self.options.onnx:
            data, inputs, arrays = export(call, flat, spec, places)
            kept = [j for j, name in enumerate(names) if name in inputs]
            if not kept:
                raise Unmapped("not exported", "no input is left")
            places = list(range(len(values))) + [len(values) + j for j in kept]
            failed = self.compare(k, data, arrays, [names[j] for j in kept], tangents,
                                  [(values + gradients)[j] for j in places], exact and [exact[j] for j in places])
            if failed and not is_exported(data, dict(zip(inputs, arrays)), values):
                raise Unmapped("not exported", f"ONNX Runtime does not give PyTorch's values either; {failed[2]}")
            return failed and self.fail(*failed)
        try:
            program, outputs = self.written(call, flat, spec, places)
        except (AssertionError, AttributeError, TypeError, ValueError, IndexError, RuntimeError, KeyError) as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            return self.fail("unwritten", k, f"{type(error).__name__}: {error} ({where.filename}:{where.lineno})")
        failed = self.compare(k, program.text(outputs), program.arrays, names, tangents, values + gradients, exact)
        return failed and self.fail(*failed)

    def written(self, call, flat, spec, places):
        if full_name(self.op) in aten.OPERATORS and len(places) == 1:
            try:
                return write(self.op, call, flat, spec, places, True)
            except Unmapped:
                pass  # by its parts, then
        try:
            return write(self.op, call, flat, spec, places, False)
        except Unmapped as unmapped:
            if unmapped.reason != "in place":
                raise
        def functional(*args, **kwargs):
            inner, tree = pytree.tree_flatten((args, kwargs))
            tensors = [t for t in inner if isinstance(t, torch.Tensor)]
            def body(*given):
                rest = iter(given)
                a, b = pytree.tree_unflatten([next(rest) if isinstance(t, torch.Tensor) else t for t in inner], tree)
                return call(*a, **b)
            return torch.func.functionalize(body, remove="mutations")(*tensors)
        return write(self.op, functional, flat, spec, places, False)

    def compare(self, k, text, arrays, names, tangents, want, exact):
        """A program, its inputs and the inputs to be differentiated; results, then gradients in f32 and f64. What
        `fail` takes where they are others."""
        ending, count = ".onnx" if isinstance(text, bytes) else ".stir", len(tangents)
        if self.options.keep:
            with open(os.path.join(self.options.keep, f"{full_name(self.op)}-{k}{ending}"), "wb") as file:
                file.write(text if isinstance(text, bytes) else text.encode())
        arrays = arrays + [t.detach().numpy() for t in tangents]
        model = joint = None
        try:
            model = self.stator.load(text, "program" + ending)
            joint = self.stator.differentiate(model, names)
            for backend in self.options.backends.split(","):
                function = self.stator.compile(joint, backend)
                try:
                    got = self.stator.call(function, arrays, len(want))
                finally:
                    self.stator.destroy_function(function)
                for j, (a, b) in enumerate(zip(got, want)):
                    what = f"y{j}" if j < count else f"grad_{names[j - count]}"
                    why = close(torch.from_numpy(a), b, exact[j] if exact else None)
                    if why:
                        return ("value" if j < count else "gradient"), k, f"{backend}: {what}: {why}"
        except StatorError as error:
            return "error", k, str(error)
        finally:
            for handle in (model, joint):
                if handle:
                    self.stator.destroy_model(handle)
        self.counts["agreed"] += 1
        return None


def judge(op, options):
    """The facts of an operator, found by a process of its own."""
    read, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        judged = Judge(op, options)
        try:
            judged.run()
        except BaseException:
            judged.fail("error", -1, traceback.format_exc()[-700:])
        with os.fdopen(write_end, "w") as file:
            json.dump({"counts": judged.counts, "reasons": judged.reasons, "first": judged.first}, file)
        sys.stdout.flush()
        os._exit(0)
    os.close(write_end)
    return pid, os.fdopen(read), time.time()


def collect(child, options):
    pid, file, start = child
    text = file.read()
    _, status = os.waitpid(pid, 0)
    if text:
        facts = json.loads(text)
    else:
        how = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status}"
        facts = {"counts": {"error": 1}, "reasons": {}, "first": {"off": f"the process ended, {how}"}}
    facts["seconds"] = round(time.time() - start, 2)
    return facts


def read_table(path):
    rows = {}
    with open(path) as file:
        for line in file:
            name, _, reason = line.rstrip("\n").partition("\t")
            rows[name] = reason
    return rows


def why_not(facts):
    """The reason that opinfo_open.txt should have."""
    if not facts["reasons"]:
        return ""
    part = "" if not facts["counts"].get("agreed") else "part: "
    return part + ", ".join(sorted(facts["reasons"]))


def verdict(facts, expected, options):
    wrong = sum(facts["counts"].get(kind, 0) for kind in ("gradient", "value", "error", "unwritten"))
    if wrong or options.onnx:
        return "WRONG" if wrong else "ok"
    found = why_not(facts)
    if options.max_samples and set(facts["reasons"]) <= set(expected.removeprefix("part: ").split(", ")):
        return "ok"
    return "ok" if found == expected else f"UNEXPECTED (listed: {expected or 'compared'}; found: {found or 'compared'})"


def run_all(names, ops, options):
    """Facts by name; as many operators at a time as there are jobs."""
    running, facts = {}, {}
    todo = list(names)
    while todo or running:
        while todo and len(running) < options.jobs:
            name = todo.pop(0)
            running[name] = judge(ops[name], options)
        ended = None
        while ended is None:
            for name, (pid, file, start) in running.items():
                if select.select([file], [], [], 0.02)[0]:
                    ended = name
                    break
                if time.time() - start > options.timeout:
                    os.kill(pid, signal.SIGKILL)
        facts[ended] = collect(running.pop(ended), options)
        yield ended, facts[ended]


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].removeprefix("usage: "))
    build = os.environ.get("STATOR_BUILD", os.path.join(ROOT, "build", "release"))
    parser.add_argument("--library", default=os.path.join(build, "lib", "libstator.so"))
    parser.add_argument("--backends", default="eager")
    parser.add_argument("--ops")
    parser.add_argument("--onnx", action="store_true")
    parser.add_argument("--max-samples", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=int(os.environ.get("STATOR_JOBS", os.cpu_count() or 1)))
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("--json")
    parser.add_argument("--list")
    parser.add_argument("--keep")
    parser.add_argument("-v", "--verbose", action="store_true")
    return parser.parse_args()


def summary(rows):
    """One line: operators that were compared, and of the others how many have which reason; samples."""
    samples, reasons, others = (collections.Counter() for _ in range(3))
    whole = part = 0
    for facts in rows.values():
        samples.update(facts["counts"])
        reasons.update(facts["reasons"])
        if not facts["counts"].get("agreed"):
            others.update(sorted(facts["reasons"])[:1] or ["wrong"])
        elif facts["reasons"]:
            part += 1
        else:
            whole += 1
    def listed(counter):
        return ", ".join(f"{n} {name}" for name, n in counter.most_common())
    return (f"{len(rows)} operators: {whole} compared whole, {part} in part, {sum(others.values())} not "
            f"({listed(others)}); samples: {listed(samples)}; refused samples: {listed(reasons)}")


def main():
    options = parse()
    torch.set_num_threads(1)
    logging.disable(logging.CRITICAL)
    if options.onnx:  # loads the exporter once, in front of all processes
        torch.onnx.export(torch.nn.ReLU(), (torch.zeros(1),), io.BytesIO(), dynamo=False)
    ops = {full_name(op): op for op in op_db}
    table = read_table(os.path.join(HERE, "opinfo_open.txt"))
    names = options.ops.split(",") if options.ops else list(table)
    rows, bad = {}, 0
    for name, facts in run_all(names, ops, options):
        rows[name] = facts
        word = verdict(facts, table.get(name, ""), options)
        bad += word != "ok"
        counts = ", ".join(f"{n} {kind}" for kind, n in sorted(facts["counts"].items()))
        first = facts["first"].get("off") or facts["first"].get("refused", "")
        if word != "ok" or options.verbose:
            print(f"{name}: {counts} ({facts['seconds']} s) {word} {first}", flush=True)
    print(f"{summary(rows)}; {bad} operators not as listed")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=0)
    if options.list:
        with open(options.list, "w") as file:
            for name in names:
                reason = why_not(rows[name])
                file.write(name + ("\t" + reason if reason else "") + "\n")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
