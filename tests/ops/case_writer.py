"""Writes tests/ops/<op>.case: one .stir graph an op whose outputs come in pairs, what the op gives and
what it must give. The expected numbers are computed here by NumPy in float64 (and by hand), never by
Stator. The second line states the tolerance: `// rtol R atol A`. After a line `// inputs` stands a
graph that makes the inputs: each before the call and after it. Lines have at most 120 columns, so that
a person can review them (tests/tools/check_format.py)."""
import math
import os
import textwrap

import ml_dtypes
import numpy as np

NAMES = {
    np.dtype(np.bool_): "bool", np.dtype(np.int8): "i8", np.dtype(np.int16): "i16",
    np.dtype(np.int32): "i32", np.dtype(np.int64): "i64", np.dtype(np.uint8): "u8",
    np.dtype(np.uint16): "u16", np.dtype(np.uint32): "u32", np.dtype(np.uint64): "u64",
    np.dtype(np.float16): "f16", np.dtype(np.float32): "f32", np.dtype(np.float64): "f64",
    np.dtype(ml_dtypes.bfloat16): "bf16", np.dtype(ml_dtypes.float8_e4m3fn): "f8e4m3fn",
    np.dtype(ml_dtypes.float8_e5m2): "f8e5m2", np.dtype(ml_dtypes.int4): "i4",
    np.dtype(ml_dtypes.uint4): "u4", np.dtype(np.complex64): "c64", np.dtype(np.complex128): "c128",
}
COLUMNS = 120
FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
INTS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]
BF16 = ml_dtypes.bfloat16


def real(x):
    x = float(x)
    if math.isnan(x):
        return "nan"
    if math.isinf(x):
        return "inf" if x > 0 else "-inf"
    return repr(x)


def element(x, name):
    if name == "bool":
        return "true" if x else "false"
    if name[0] in "iu":
        return str(int(x))
    if name[0] == "c":
        return f"({real(x.real)}, {real(x.imag)})"
    return real(x)


def wrapped(line):
    """The line in lines of at most COLUMNS, broken at blanks."""
    return "\n".join(textwrap.wrap(line, COLUMNS, subsequent_indent=" " * 6, break_long_words=False,
                                   break_on_hyphens=False))


def attr(value):
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, str):
        return value if value in NAMES.values() or value[:1] == "[" else f'"{value}"'
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(attr(v) for v in value) + "]"
    if isinstance(value, float):
        return real(value)
    return str(value)


class Case:
    def __init__(self, op, rtol=0.0, atol=0.0):
        self.op, self.lines, self.outputs, self.n = op, [], [], 0
        self.symbols, self.params, self.buffers = [], [], []
        self.tolerance = f"// rtol {rtol!r} atol {atol!r}"

    def const(self, array):
        array = np.asarray(array)
        name = NAMES[array.dtype]
        self.n += 1
        shape = ", ".join(str(d) for d in array.shape)
        data = ", ".join(element(x, name) for x in array.reshape(-1))
        self.lines.append(f"  %{self.n} = constant {{value = {name}[{shape}] {{{data}}}}}")
        return f"%{self.n}"

    def symbol(self, name, text):
        self.symbols.append(f"sym {name} {text}")

    def input(self, before, after):
        """An input of the graph, and what its buffer must hold after the call."""
        self.n += 1
        name = NAMES[before.dtype]
        self.params.append(f"%{self.n}: {name}[{', '.join(str(d) for d in before.shape)}]")
        self.buffers += [before, after]
        return f"%{self.n}"

    def region(self, name, inputs, lines, outputs):
        """A region of the node written last; the text of its body is given."""
        self.lines.append(f"    region @{name}({', '.join(inputs)}) {{")
        self.lines += [f"      {line}" for line in lines]
        self.lines.append(f"      return {', '.join(outputs)}\n    }}")

    def node(self, op, operands, attrs=None, results=1):
        first = self.n + 1
        self.n += results
        names = [f"%{first + k}" for k in range(results)]
        args = ", ".join("_" if x is None else x for x in operands)
        text = ", ".join(f"{k} = {attr(v)}" for k, v in (attrs or {}).items())
        self.lines.append(f"  {', '.join(names)} = {op}({args}) {{{text}}}" if text
                          else f"  {', '.join(names)} = {op}({args})")
        return names

    def check(self, inputs, wants, **attrs):
        """One node of the op on constant operands; wants: expected results, None unchecked."""
        wants = wants if isinstance(wants, list) else [wants]
        operands = [None if x is None else self.const(x) for x in inputs]
        got = self.node(self.op, operands, attrs, len(wants))
        for name, want in zip(got, wants):
            if want is not None:
                self.expect(name, want)

    def expect(self, value, want):
        self.outputs += [value, self.const(want)]

    def text(self):
        symbols = "".join(s + "\n" for s in self.symbols)
        lines = [f"graph @{self.op}({', '.join(self.params)}) {{", *"\n".join(self.lines).split("\n"),
                 f"  return {', '.join(self.outputs)}", "}"]
        return symbols + "".join(wrapped(line) + "\n" for line in lines)

    def write(self, folder):
        with open(os.path.join(folder, self.op + ".case"), "w") as f:
            f.write(f"stir 1\n{self.tolerance}\n{self.text()}")
            if self.buffers:
                inputs = Case("inputs")
                inputs.outputs = [inputs.const(x) for x in self.buffers]
                f.write(f"// inputs\nstir 1\n{inputs.text()}")
