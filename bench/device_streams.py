#!/usr/bin/env python3
"""Stator beside PyTorch on one stream: tensors of torch go in, results come out, by DLPack.

usage: device_streams.py OUT.json [--backend cuda] [--calls 2000]
Out: OUT.json and a line for each figure. Counted: copies and waits of the calls (0 and 0 expected),
host time of a scalar call of sin + cos (microseconds, issued and not waited for), equality with
torch. Status 0 when all of it holds. The library is lib/libstator.so.0 beside bench/, or
STATOR_LIB.
"""
import argparse
import ctypes as c
import json
import os
import sys
import time

import torch

TEXT = b"""stir 1
graph @main(%x: f32[N]) {
  %s = sin(%x)
  %c = cos(%x)
  %y = add(%s, %c)
  return %y
}
"""
STATS = ["held_bytes", "used_bytes", "peak_bytes", "n_allocs", "n_copies", "copied_bytes", "n_waits"]


class Sized(c.Structure):
    """A struct that begins with its size."""

    def __init__(self, **members):
        super().__init__(struct_size=c.sizeof(type(self)), **members)


class LoadOptions(Sized):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("frontend", c.c_char_p)]


class CompileOptions(Sized):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("backend", c.c_char_p)]


class CallOptions(Sized):
    _fields_ = [("struct_size", c.c_uint32), ("outputs", c.c_uint32), ("stream", c.c_void_p)]


class DeviceStats(Sized):
    _fields_ = [("struct_size", c.c_uint32), ("reserved", c.c_uint32)] + [(n, c.c_uint64) for n in STATS]


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32),
                ("ndim", c.c_int32), ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16),
                ("shape", c.POINTER(c.c_int64)), ("strides", c.POINTER(c.c_int64)),
                ("byte_offset", c.c_uint64)]


class Managed(c.Structure):
    _fields_ = [("major", c.c_uint32), ("minor", c.c_uint32), ("manager", c.c_void_p),
                ("deleter", c.CFUNCTYPE(None, c.c_void_p)), ("flags", c.c_uint64), ("tensor", Tensor)]


class View:
    """Memory of a result as torch.as_tensor takes it, without copying."""

    def __init__(self, tensor):
        shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
        self.__cuda_array_interface__ = {"shape": shape, "typestr": "<f4", "version": 3, "strides": None,
                                         "data": (tensor.data, False), "stream": None}


class Stator:
    def __init__(self, backend):
        here = os.path.dirname(os.path.abspath(__file__))
        self.lib = c.CDLL(os.environ.get("STATOR_LIB", os.path.join(here, "..", "lib", "libstator.so.0")))
        self.lib.stator_ctx_error_text.restype = c.c_char_p
        self.lib.stator_tensor_view.restype = c.POINTER(Tensor)
        self.ctx = c.c_void_p()
        self.backend = backend
        self.check(self.lib.stator_ctx_create(None, c.byref(self.ctx)))

    def check(self, status):
        if status != 0:
            raise RuntimeError(self.lib.stator_ctx_error_text(self.ctx).decode() if self.ctx else status)

    def compile(self, n):
        model, function = c.c_void_p(), c.c_void_p()
        text = TEXT.replace(b"N", b"%d" % n)
        self.check(self.lib.stator_model_load_bytes(self.ctx, text, c.c_uint64(len(text)), b"wave.stir",
                                                    c.byref(LoadOptions(flags=1)), c.byref(model)))
        options = CompileOptions(backend=self.backend.encode())
        self.check(self.lib.stator_compile(model, c.byref(options), c.byref(function)))
        return function

    def take(self, x, stream):
        """A tensor over that of torch, which outlives it."""
        shape = (c.c_int64 * x.dim())(*x.shape)
        managed = Managed(major=1, tensor=Tensor(data=x.data_ptr(), device_type=2, device_id=x.device.index or 0,
                                                 ndim=x.dim(), code=2, bits=32, lanes=1, shape=shape))
        tensor = c.c_void_p()
        self.check(self.lib.stator_tensor_from_dlpack_on(self.ctx, c.byref(managed), stream, c.byref(tensor)))
        return tensor, managed, shape

    def call(self, function, x, options):
        out = c.c_void_p()
        self.check(self.lib.stator_call_with(function, 1, c.byref(x), 1, c.byref(out), c.byref(options)))
        return out

    def give(self, tensor, stream):
        managed = c.POINTER(Managed)()
        self.check(self.lib.stator_tensor_to_dlpack_on(tensor, stream, c.byref(managed)))
        return managed

    def stats(self):
        stats = DeviceStats()
        self.check(self.lib.stator_ctx_device_stats(self.ctx, (self.backend + ":0").encode(), c.byref(stats)))
        return {name: getattr(stats, name) for name in STATS}


def run_on(stator, stream, n, calls):
    """Torch writes, Stator calls, torch reads, all on the stream, `calls` times."""
    handle = c.c_void_p(stream.cuda_stream or 1)
    options = CallOptions(stream=handle)
    function = stator.compile(n)
    with torch.cuda.stream(stream):
        x = torch.zeros(n, device="cuda")
        tensor, *kept = stator.take(x, handle)
        for _ in range(10):  # the first call compiles
            stator.lib.stator_tensor_release(stator.call(function, tensor, options))
        stator.check(stator.lib.stator_function_wait(function))
        before, equal = stator.stats(), True
        for step in range(5):
            x.fill_(0.1 * step)
            managed = stator.give(out := stator.call(function, tensor, options), handle)
            y = torch.as_tensor(View(managed.contents.tensor), device="cuda").clone()
            managed.contents.deleter(c.cast(managed, c.c_void_p))
            stator.lib.stator_tensor_release(out)
            equal &= torch.allclose(y, torch.sin(x) + torch.cos(x), rtol=1e-6, atol=1e-6)
        best = float("inf")
        for _ in range(10):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(calls // 10):
                stator.lib.stator_tensor_release(stator.call(function, tensor, options))
            best = min(best, (time.perf_counter() - start) / (calls // 10))
        after = stator.stats()
        stator.check(stator.lib.stator_function_wait(function))
        stator.lib.stator_tensor_release(tensor)
    stator.lib.stator_function_destroy(function)
    return {"n": n, "equal": bool(equal), "call_us_with_ctypes": 1e6 * best,
            **{name: after[name] - before[name] for name in ("n_copies", "n_waits", "n_allocs")}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("out")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--calls", type=int, default=2000)
    options = parser.parse_args()
    stator, rows = Stator(options.backend), []
    for name, stream in (("default", torch.cuda.default_stream()), ("own", torch.cuda.Stream())):
        for n in (1, 1 << 20):
            rows.append({"stream": name, **run_on(stator, stream, n, options.calls)})
            print(json.dumps(rows[-1]))
    with open(options.out, "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__, "rows": rows}, file, indent=1)
    good = all(r["equal"] and not r["n_copies"] and not r["n_waits"] and not r["n_allocs"] for r in rows)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
