"""Stator's C API for Python by ctypes, as much of it as the programs of this folder call.

In: an installed or built libstator.so (its path is given), NumPy arrays. Out: models, their joint
models, functions; results as NumPy arrays. A status other than 0 is a StatorError with the context's
text. One thread. Structs are those of include/stator/stator.h and train.h.
"""
import ctypes as c

import numpy as np

# Ids of include/stator/dtype.def by the names of element types in the text form.
DTYPES = {"bool": (1, np.bool_), "i8": (4, np.int8), "i16": (5, np.int16), "i32": (6, np.int32), "i64": (7, np.int64),
          "u8": (8, np.uint8), "f32": (16, np.float32), "f64": (17, np.float64), "c64": (18, np.complex64),
          "c128": (19, np.complex128)}
DTYPE_OF_BITS = {(6, 8): np.bool_, (0, 8): np.int8, (0, 16): np.int16, (0, 32): np.int32, (0, 64): np.int64,
                 (1, 8): np.uint8, (2, 32): np.float32, (2, 64): np.float64, (5, 64): np.complex64,
                 (5, 128): np.complex128}  # (DLPack's type code, bits)
NAME_OF = {np.dtype(dtype): name for name, (_, dtype) in DTYPES.items()}


class StatorError(Exception):
    pass


class Sized(c.Structure):
    """A struct that begins with its size."""

    def __init__(self, **members):
        super().__init__(struct_size=c.sizeof(type(self)), **members)


class ContextOptions(Sized):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("threads", c.c_int32)]


class LoadOptions(Sized):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("frontend", c.c_char_p)]


class CompileOptions(Sized):
    _fields_ = [("struct_size", c.c_uint32), ("flags", c.c_uint32), ("backend", c.c_char_p)]


class DifferentiateOptions(Sized):
    _fields_ = [("struct_size", c.c_uint32), ("wrt", c.c_uint32), ("loss", c.c_char_p),
                ("names", c.POINTER(c.c_char_p)), ("name_count", c.c_uint32), ("reserved", c.c_uint32)]


class DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device_type", c.c_int32), ("device_id", c.c_int32), ("ndim", c.c_int32),
                ("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


class Stator:
    """A context, with its own memory and backends."""

    def __init__(self, library, threads=1):
        self.lib = c.CDLL(library)
        self.lib.stator_ctx_error_text.restype = c.c_char_p
        self.lib.stator_ctx_error_text.argtypes = [c.c_void_p]
        self.lib.stator_tensor_view.restype = c.POINTER(DLTensor)
        self.lib.stator_tensor_data.restype = c.c_void_p
        self.context = c.c_void_p()
        self.check(self.lib.stator_ctx_create(c.byref(ContextOptions(threads=threads)), c.byref(self.context)))

    def check(self, status):
        if status != 0:
            text = self.lib.stator_ctx_error_text(self.context) if self.context else None
            raise StatorError(text.decode() if text else f"status {status}")

    def load(self, text, name="program.stir"):
        """A model of a program in the text form, or of the bytes of a file of that name."""
        model, data = c.c_void_p(), text if isinstance(text, bytes) else text.encode()
        self.check(self.lib.stator_model_load_bytes(self.context, data, c.c_uint64(len(data)), name.encode(),
                                                    c.byref(LoadOptions(flags=1)), c.byref(model)))
        return model

    def differentiate(self, model, names):
        """The joint model with gradients for the inputs that are named."""
        joint = c.c_void_p()
        array = (c.c_char_p * len(names))(*(name.encode() for name in names))
        options = DifferentiateOptions(names=array, name_count=len(names))
        self.check(self.lib.stator_model_differentiate(model, c.byref(options), c.byref(joint)))
        return joint

    def compile(self, model, backend):
        function = c.c_void_p()
        options = CompileOptions(backend=backend.encode())
        self.check(self.lib.stator_compile(model, c.byref(options), c.byref(function)))
        return function

    def call(self, function, arrays, output_count):
        """The results of a call on NumPy arrays."""
        inputs = (c.c_void_p * max(len(arrays), 1))()
        outputs = (c.c_void_p * output_count)()
        try:
            for i, array in enumerate(arrays):
                inputs[i] = self.tensor(array)
            self.check(self.lib.stator_call_tensors(function, c.c_uint32(len(arrays)), inputs, c.c_uint32(output_count),
                                                    outputs))
            return [self.array(c.c_void_p(output)) for output in outputs]
        finally:
            for tensor in [*inputs, *outputs]:
                if tensor:
                    self.lib.stator_tensor_release(c.c_void_p(tensor))

    def tensor(self, array):
        array, tensor = np.ascontiguousarray(array).reshape(array.shape), c.c_void_p()
        dtype = DTYPES[NAME_OF[array.dtype]][0]
        shape = (c.c_int64 * max(array.ndim, 1))(*array.shape)
        self.check(self.lib.stator_tensor_create(self.context, c.c_uint32(dtype), c.c_uint32(array.ndim), shape,
                                                 c.byref(tensor)))
        if array.nbytes:
            c.memmove(self.lib.stator_tensor_data(tensor), array.ctypes.data, array.nbytes)
        return tensor.value

    def array(self, tensor):
        view = self.lib.stator_tensor_view(tensor).contents
        array = np.empty([view.shape[i] for i in range(view.ndim)], DTYPE_OF_BITS[(view.code, view.bits)])
        if array.nbytes:
            c.memmove(array.ctypes.data, self.lib.stator_tensor_data(tensor), array.nbytes)
        return array

    def destroy_model(self, model):
        self.lib.stator_model_destroy(model)

    def destroy_function(self, function):
        self.lib.stator_function_destroy(function)
