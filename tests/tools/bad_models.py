"""Model files that something is wrong with, written with the standard library alone: the wire format of
ONNX (onnx.proto) by hand, and the small files that models and inputs refer to. See check_errors.py."""
import os
import struct
import sys

FLOAT, INT64, FLOAT16 = 1, 7, 10


# ---- the wire format ----

def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def floats(*values):
    return struct.pack("<%df" % len(values), *values)


# ---- ONNX ----

def tensor(name, dims, dtype, rest=b""):
    return b"".join(number(1, d) for d in dims) + number(2, dtype) + data(8, name) + rest


def external(name, dims, dtype, location, offset=None, length=None):
    entries = [("location", location), ("offset", offset), ("length", length)]
    return tensor(name, dims, dtype, b"".join(
        data(13, data(1, key) + data(2, str(value))) for key, value in entries
        if value is not None) + number(14, 1))


def attr_ints(name, values):
    return data(5, data(1, name) + b"".join(number(8, v) for v in values) + number(20, 7))


def attr_int(name, value):
    return data(5, data(1, name) + number(3, value) + number(20, 2))


def attr_string(name, value):
    return data(5, data(1, name) + data(4, value) + number(20, 3))


def attr_tensor(name, value):
    return data(5, data(1, name) + data(5, value) + number(20, 4))


def node(op, inputs, outputs, name="", attrs=b"", domain=""):
    return (b"".join(data(1, i) for i in inputs) + b"".join(data(2, o) for o in outputs) +
            data(3, name or op.lower()) + data(4, op) + attrs + (data(7, domain) if domain else b""))


def value(name, dims, dtype=FLOAT):
    shape = b"".join(data(1, data(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return data(1, name) + data(2, data(1, number(1, dtype) + data(2, shape)))


def model(nodes, inputs, outputs, initializers=(), opset=17, domain=""):
    graph = (b"".join(data(1, n) for n in nodes) + data(2, "g") +
             b"".join(data(5, t) for t in initializers) + b"".join(data(11, i) for i in inputs) +
             b"".join(data(12, o) for o in outputs))
    opsets = data(8, data(1, "") + number(2, opset)) if opset else b""
    if domain:
        opsets += data(8, data(1, domain) + number(2, 1))
    return number(1, 8) + data(2, "bad") + data(7, graph) + opsets


X, Y = value("x", [2, 3]), value("y", [2, 3])
RELU = node("Relu", ["x"], ["y"], "only")
GOOD = model([RELU], [X], [Y])


def onnx_files():
    """name -> bytes of models that cannot be loaded."""
    w = tensor("w", [2, 3], FLOAT, data(9, floats(1, 2, 3, 4, 5, 6)))
    return {
        "empty": b"",
        "text": b"this is no model\n" * 20,
        "cycle": model([node("Add", ["x", "b"], ["a"], "first"), node("Relu", ["a"], ["b"], "second")],
                       [X], [value("b", [2, 3])]),
        "self_cycle": model([node("Add", ["x", "y"], ["y"], "loop")], [X], [Y]),
        "undefined": model([node("Add", ["x", "nowhere"], ["y"], "reads")], [X], [Y]),
        "no_output": model([RELU], [X], [value("z", [2, 3])]),
        "twice": model([RELU, node("Abs", ["x"], ["y"], "again")], [X], [Y]),
        "matmul": model([node("MatMul", ["x", "w"], ["y"], "product")], [X], [Y], [w]),
        "broadcast": model([node("Add", ["x", "w"], ["y"], "sum")], [value("x", [4, 3])], [Y], [w]),
        "reshape": model([node("Reshape", ["x", "s"], ["y"], "shaper")], [X], [Y],
                         [tensor("s", [2], INT64, data(9, struct.pack("<2q", 4, 5)))]),
        "conv": model([node("Conv", ["x", "w"], ["y"], "window")], [value("x", [1, 3, 8, 8])], [Y],
                      [tensor("w", [4, 5, 3, 3], FLOAT, data(9, b"\0" * (4 * 5 * 9 * 4)))]),
        "transpose": model([node("Transpose", ["x"], ["y"], "turn", attr_ints("perm", [0, 0]))], [X],
                           [Y]),
        "dtypes": model([node("Add", ["x", "w"], ["y"], "mixed")], [X], [Y],
                        [tensor("w", [2, 3], INT64, data(9, b"\0" * 48))]),
        "short_data": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                            [tensor("w", [2, 3], FLOAT, data(9, floats(1, 2)))]),
        "huge_weight": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                             [tensor("w", [1 << 40, 1 << 40], FLOAT, data(9, floats(1)))]),
        "large_weight": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                              [tensor("w", [1 << 38], FLOAT, data(9, floats(1)))]),
        "negative_weight": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                                 [tensor("w", [-1], FLOAT, data(9, floats(1)))]),
        "huge_input": model([RELU], [value("x", [1 << 62, 1 << 62])], [Y]),
        "rank": model([RELU], [value("x", [1] * 17)], [Y]),
        "unknown_ops": model([node("Foo", ["x"], ["a"], "f1"), node("Foo", ["a"], ["b"], "f2"),
                              node("Relu", ["b"], ["c"]), node("Frobnicate", ["c"], ["d"], "f3"),
                              node("Magic", ["d"], ["y"], "f4", domain="acme")], [X], [Y],
                             domain="acme"),
        "no_opset": model([RELU], [X], [Y], opset=0),
        "future_opset": model([RELU], [X], [Y], opset=9999),
        "too_many": model([node("Relu", ["x", "x"], ["y"], "two")], [X], [Y]),
        "too_few": model([node("Add", ["x"], ["y"], "one")], [X], [Y]),
        "attribute": model([node("Softmax", ["x"], ["y"], "soft", attr_int("axis", 7))], [X], [Y]),
        "attribute_type": model([node("Softmax", ["x"], ["y"], "soft",
                                      attr_string("axis", "last"))], [X], [Y]),
        "no_branch": model([node("If", ["x"], ["y"], "branch")], [value("x", [], 9)], [Y]),
        "external_missing": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                                  [external("w", [2, 3], FLOAT, "absent.bin")]),
        "external_short": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                                [external("w", [2, 3], FLOAT, "short.bin")]),
        "external_past": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                               [external("w", [2, 3], FLOAT, "short.bin", 1 << 60)]),
        "external_up": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                             [external("w", [2, 3], FLOAT, "../outside.bin")]),
        "external_absolute": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                                   [external("w", [2, 3], FLOAT, "/etc/hostname")]),
        "external_link": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                               [external("w", [2, 3], FLOAT, "link.bin")]),
        "external_nowhere": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                                  [tensor("w", [2, 3], FLOAT, number(14, 1))]),
    }


def run_files():
    """name -> bytes of models that load, and fail when they are called."""
    size = attr_tensor("value", tensor("", [1], FLOAT, data(9, floats(1))))
    return {
        "good": GOOD,
        "fills": model([node("ConstantOfShape", ["x"], ["y"], "filler", size)],
                       [value("x", [2], INT64)], [value("y", ["A", "B"])]),
        "gathers": model([node("Gather", ["w", "x"], ["y"], "picker")], [value("x", [2], INT64)],
                         [value("y", [2])], [tensor("w", [3], FLOAT, data(9, floats(1, 2, 3)))]),
        "images": model([node("Add", ["x", "w"], ["y"], "sum")], [value("x", [1, 3, 4, 4])],
                        [value("y", [1, 3, 4, 4])],
                        [tensor("w", [4, 4], FLOAT, data(9, floats(*range(16))))]),
        "fixed": model([node("Add", ["x", "w"], ["y"], "sum")], [X], [Y],
                       [tensor("w", [2, 3], FLOAT, data(9, floats(1, 2, 3, 4, 5, 6)))]),
        "symbolic": model([RELU], [value("x", ["N", 3])], [value("y", ["N", 3])]),
        "two": model([node("Add", ["x", "z"], ["y"], "sum")], [X, value("z", [2, 3])], [Y]),
    }


def write_all(folder):
    os.makedirs(os.path.join(folder, "models"), exist_ok=True)
    for name, content in {**onnx_files(), **run_files()}.items():
        with open(os.path.join(folder, "models", name + ".onnx"), "wb") as file:
            file.write(content)
    with open(os.path.join(folder, "models", "short.bin"), "wb") as file:
        file.write(floats(1, 2))
    with open(os.path.join(folder, "outside.bin"), "wb") as file:
        file.write(floats(1, 2, 3, 4, 5, 6))
    link = os.path.join(folder, "models", "link.bin")
    if not os.path.lexists(link):
        os.symlink(os.path.join(folder, "outside.bin"), link)


if __name__ == "__main__":
    write_all(sys.argv[1])
