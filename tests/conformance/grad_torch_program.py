"""Programs in the text form (docs/stir.md), written value by value.

A Program collects inputs and nodes; a Value is one of its values with shape and dtype, and has
Python's operators: `x * y` is a node `mul`, a number beside a value is a constant of its dtype.
Shapes are those that the writer expects; the reader compares those of the results with what the
ops' rules infer.
"""
import math

import numpy as np

KIND = {"bool": np.bool_, "u8": np.uint8, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
        "f32": np.float32, "f64": np.float64}


def literal(number, dtype):
    if dtype == "bool":
        return "true" if number else "false"
    if dtype[0] in "iu":
        return str(int(number))
    number = float(number)
    if math.isnan(number):
        return "nan"
    if math.isinf(number):
        return "inf" if number > 0 else "-inf"
    return repr(number)


def attribute(value):
    if isinstance(value, str):
        return f'"{value}"' if not value.startswith("!") else value[1:]
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(attribute(v) for v in value) + "]"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return literal(value, "f64")
    return str(int(value))


class Value:
    def __init__(self, program, label, shape, dtype):
        self.program, self.label, self.shape, self.dtype = program, label, tuple(shape), dtype
        self.is_complex = False  # the last axis is [real, imaginary]
        self.tensor = None  # what the sample has in its place, where PyTorch showed it

    @property
    def rank(self):
        return len(self.shape)

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def is_float(self):
        return self.dtype[0] == "f"

    def pair(self, name, other, swap=False, dtype=None):
        other = self.program.scalar(other, self.dtype)
        operands = (other, self) if swap else (self, other)
        return self.program.op(name, *operands, dtype=dtype)

    def __add__(self, other): return self.pair("add", other)
    def __radd__(self, other): return self.pair("add", other, True)
    def __sub__(self, other): return self.pair("sub", other)
    def __rsub__(self, other): return self.pair("sub", other, True)
    def __mul__(self, other): return self.pair("mul", other)
    def __rmul__(self, other): return self.pair("mul", other, True)
    def __truediv__(self, other): return self.pair("div", other)
    def __rtruediv__(self, other): return self.pair("div", other, True)
    def __and__(self, other): return self.pair("bit_and", other)
    def __or__(self, other): return self.pair("bit_or", other)
    def __lt__(self, other): return self.pair("lt", other, dtype="bool")
    def __le__(self, other): return self.pair("le", other, dtype="bool")
    def __gt__(self, other): return self.pair("gt", other, dtype="bool")
    def __ge__(self, other): return self.pair("ge", other, dtype="bool")
    def equals(self, other): return self.pair("eq", other, dtype="bool")
    def __neg__(self): return self.program.op("neg", self)
    def __invert__(self): return self.program.op("bit_not", self)


class Program:
    def __init__(self):
        self.inputs, self.arrays, self.lines, self.count = [], [], [], 0

    # ---- values ----

    def input(self, name, array, dtype):
        self.inputs.append(f"%{name}: {dtype}[{', '.join(map(str, array.shape))}]")
        self.arrays.append(array)
        return Value(self, name, array.shape, dtype)

    def constant(self, array, dtype):
        """A constant: written out where it is small, else an input."""
        array = np.asarray(array, KIND[dtype])
        if array.size > 64:
            self.count += 1
            return self.input(f"constant{self.count}", array, dtype)
        elements = ", ".join(literal(number, dtype) for number in array.reshape(-1))
        data = f"!{dtype}[{', '.join(map(str, array.shape))}] {{{elements}}}"
        return self.op("constant", value=data, shape=array.shape, dtype=dtype)

    def scalar(self, number, dtype):
        return number if isinstance(number, Value) else self.constant(number, dtype)

    def full(self, shape, number, dtype):
        return self.expand(self.constant(number, dtype), shape)

    def op(self, name, *operands, shape=None, dtype=None, **attributes):
        """A node with one result. Without a shape it is what the operands broadcast to."""
        given = [v for v in operands if v is not None]
        if shape is None:
            shape = np.broadcast_shapes(*(v.shape for v in given))
        return self.node(name, operands, [(shape, dtype or given[0].dtype)], attributes)[0]

    def node(self, name, operands, results, attributes):
        """A node with these results, each a shape and a dtype."""
        made = []
        for shape, dtype in results:
            self.count += 1
            made.append(Value(self, str(self.count), shape, dtype))
        text = ", ".join("%v" + v.label if v.label.isdigit() else "%" + v.label for v in made) + " = " + name
        labels = ["_" if v is None else ("%v" + v.label if v.label.isdigit() else "%" + v.label) for v in operands]
        while labels and labels[-1] == "_":
            labels.pop()
        if operands:
            text += "(" + ", ".join(labels) + ")"
        attributes = [f"{key} = {attribute(value)}" for key, value in attributes.items() if value is not None]
        if attributes:
            text += " {" + ", ".join(attributes) + "}"
        types = ", ".join(f"{v.dtype}[{', '.join(map(str, v.shape))}]" for v in made)
        self.lines.append(f"{text} : {types}")
        return made

    def text(self, outputs):
        body = "\n".join("  " + line for line in self.lines)
        names = ", ".join(f"y{k}: " + ("%v" + v.label if v.label.isdigit() else "%" + v.label)
                          for k, v in enumerate(outputs))
        return f"stir 1\ngraph @main({', '.join(self.inputs)}) {{\n{body}\n  return {names}\n}}\n"

    # ---- pointwise and movement ----

    def cast(self, x, dtype):
        if not isinstance(x, Value):
            return self.constant(x, dtype)
        if x.dtype == dtype:
            return x
        return self.node("cast", (x,), [(x.shape, dtype)], {"dtype": "!" + dtype})[0]

    def select(self, condition, x, y):
        dtype = x.dtype if isinstance(x, Value) else y.dtype
        return self.op("select", condition, self.scalar(x, dtype), self.scalar(y, dtype), dtype=dtype)

    def reshape(self, x, shape):
        return x if tuple(shape) == x.shape else self.node("reshape", (x,), [(shape, x.dtype)], {"shape": shape})[0]

    def expand(self, x, shape):
        return x if tuple(shape) == x.shape else self.node("expand", (x,), [(shape, x.dtype)], {"shape": shape})[0]

    def transpose(self, x, perm):
        perm = list(perm)
        if perm == sorted(perm):
            return x
        return self.op("transpose", x, perm=perm, shape=[x.shape[k] for k in perm])

    def unsqueeze(self, x, axis):
        axis = axis % (x.rank + 1)
        return self.reshape(x, x.shape[:axis] + (1,) + x.shape[axis:])

    def slice(self, x, axis, start, size, step=1):
        starts, sizes, steps = [0] * x.rank, list(x.shape), [1] * x.rank
        starts[axis], sizes[axis], steps[axis] = start, size, step
        return self.op("slice", x, starts=starts, sizes=sizes, steps=steps, shape=sizes)

    def flip(self, x, axes):
        starts, steps = [0] * x.rank, [1] * x.rank
        for axis in axes:
            if x.shape[axis]:
                starts[axis], steps[axis] = x.shape[axis] - 1, -1
        return self.op("slice", x, starts=starts, sizes=list(x.shape), steps=steps, shape=x.shape)

    def concat(self, values, axis):
        if len(values) == 1:
            return values[0]
        shape = list(values[0].shape)
        shape[axis] = sum(v.shape[axis] for v in values)
        return self.op("concat", *values, axis=axis, shape=shape)

    def pad(self, x, low, high, value=None, mode=None):
        shape = [a + b + n for a, b, n in zip(low, high, x.shape)]
        return self.op("pad", x, None if value is None else self.scalar(value, x.dtype), low=low, high=high, mode=mode,
                       shape=shape)

    def gather(self, x, index, axis):
        shape = x.shape[:axis] + index.shape + x.shape[axis + 1:]
        return self.op("gather", x, index, axis=axis, shape=shape)

    def gather_elements(self, x, index, axis):
        return self.op("gather_elements", x, index, axis=axis, shape=index.shape)

    def scatter_elements(self, x, index, updates, axis, reduction=None):
        return self.op("scatter_elements", x, index, updates, axis=axis, reduction=reduction, shape=x.shape)

    # ---- reductions and contractions ----

    def reduce(self, name, x, axes, keepdims=False):
        axes = sorted(a % x.rank for a in axes)
        shape = [1 if k in axes else n for k, n in enumerate(x.shape) if keepdims or k not in axes]
        return self.op(name, x, axes=axes, keepdims=int(keepdims), shape=shape) if axes or name != "reduce_sum" else x

    def dot(self, x, y, batch=0, contract=None):
        """The product of x[batch.., m.., k] and y[batch.., k, n..] over the last axis of x."""
        shape = x.shape[:-1] + y.shape[batch + 1:]
        return self.op("dot_general", x, y, batch_x=list(range(batch)), batch_y=list(range(batch)),
                       contract_x=[x.rank - 1], contract_y=[batch], shape=shape)
