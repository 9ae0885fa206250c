"""What the rows of grad_torch_aten.py share: the reasons why an operator is not compared, dtypes and axes."""
import torch

from grad_torch_program import Value

REASONS = {
    "no counterpart": "the op table has no op that computes it, nor a short composition of ops",
    "complex": "it computes with complex numbers",
    "not differentiable": "PyTorch has no gradient of it, or of no result that is a float",
    "random": "its results depend on a generator or on memory that was not written",
    "ambiguous": "its results are unique up to sign or order only",
    "not strided": "its tensors are sparse",
    "backward alone": "its gradient is not that of its value",
    "in place": "it writes an operand, or through a view of one",
    "not exported": "torch.onnx.export has no ONNX form of it",
    "error": "PyTorch itself ends with an error",
    "no f32": "it does not take f32, or not on a CPU",
}
# Operators whose gradient in PyTorch is not that of their value, by differences.
WRONG = {"as_strided_scatter": "of the operand where it was replaced, 0 elsewhere"}
DTYPE = {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64", torch.int32: "i32", torch.bool: "bool",
         torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16"}


class Unmapped(Exception):
    def __init__(self, reason, detail=""):
        assert reason in REASONS, reason
        super().__init__(f"{reason}{': ' if detail else ''}{detail}")
        self.reason, self.detail = reason, detail


def dtype_name(dtype):
    if dtype.is_complex:
        raise Unmapped("complex")
    if dtype not in DTYPE:
        raise Unmapped("no f32", str(dtype))
    return DTYPE[dtype]


def common(p, out, *values):
    """The values, tensors and numbers as values of the result's dtype."""
    dtype = dtype_name(out.dtype)
    return [value if value is None else p.cast(value, dtype) for value in values]


def promoted(p, *values):
    """Values and numbers, of the dtype that PyTorch compares them in."""
    dtypes = [v.dtype for v in values if isinstance(v, Value)]
    is_float = any(d[0] == "f" for d in dtypes) or any(isinstance(v, float) for v in values)
    dtype = next((d for d in dtypes if d == "f64" or (d == "f32" and "f64" not in dtypes)), "f32" if is_float else None)
    dtype = dtype or max(dtypes, key=lambda d: int(d[1:]) if d != "bool" else 0)
    return [p.cast(v, dtype) for v in values]


def axes_of(x, dim):
    if dim is None or (isinstance(dim, (list, tuple)) and len(dim) == 0):
        return list(range(x.rank))
    return sorted({d % max(x.rank, 1) for d in ([dim] if isinstance(dim, int) else dim)} if x.rank else set())


def spatial(value, n):
    value = [value] if isinstance(value, int) else list(value)
    return value * n if len(value) == 1 else value
