"""The vendors' run-time compilers, NVRTC and hiprtc, by ctypes; no GPU is needed.

A library is looked for in the environment variable of its name below, in the Python environments of
the build folder, and where the dynamic linker looks. Options are those of plugins/cuda and
plugins/hip. Not for several threads: use processes.
"""
import ctypes
import ctypes.util
import glob
import os

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PRELUDE = os.path.join(ROOT, "codegen", "gpu", "prelude", "gpu_prelude_%s.h")


class Compiler:
    """One of the two: their functions differ in a prefix and in the spelling of some names."""

    def __init__(self, name, library):
        vendor, self.prefix, self.image = {"nvrtc": ("cuda", "nvrtc", "CUBIN"), "hiprtc": ("hip", "hiprtc", "Code")}[name]
        self.name, self.library = name, library
        self.api = ctypes.CDLL(library)
        self.prelude = b""
        for part in (vendor, "device", "polynomials", "math"):
            with open(PRELUDE % part, "rb") as file:
                self.prelude += file.read()

    def call(self, function, *arguments):
        return getattr(self.api, self.prefix + function)(*arguments)

    def version(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.call("Version", ctypes.byref(major), ctypes.byref(minor))
        return "%s %d.%d" % ({"nvrtc": "NVRTC", "hiprtc": "hiprtc"}[self.name], major.value, minor.value)

    def options(self, arch, extra):
        if self.name == "nvrtc":
            return ["--gpu-architecture=" + arch, "--std=c++17", "--fmad=false", "-minimal", *extra]
        width = 64 if arch.startswith("gfx9") else 32
        return ["--offload-arch=" + arch, "-DST_WARP=%d" % width, "-O3", "-std=c++17", "-ffp-contract=off", *extra]

    def text_of(self, program, what):
        size = ctypes.c_size_t()
        if self.call("Get%sSize" % what, program, ctypes.byref(size)) != 0:
            return b""
        text = ctypes.create_string_buffer(size.value + 1)
        self.call("Get" + what, program, text)
        return text.raw[:size.value]

    def compile(self, text, arch, extra=()):
        """Whether it is compiled to an image, and the log."""
        program = ctypes.c_void_p()
        headers, names = (ctypes.c_char_p * 1)(self.prelude), (ctypes.c_char_p * 1)(b"gpu_prelude.h")
        self.call("CreateProgram", ctypes.byref(program), text.encode(), b"kernel.cu", 1, headers, names)
        options = [option.encode() for option in self.options(arch, extra)]
        result = self.call("CompileProgram", program, len(options), (ctypes.c_char_p * len(options))(*options))
        log = self.text_of(program, "ProgramLog").decode(errors="replace").rstrip("\0\n")
        is_compiled = result == 0 and len(self.text_of(program, self.image)) > 0
        self.call("DestroyProgram", ctypes.byref(program))
        return is_compiled, log


def candidates(name, build):
    named = os.environ.get("STATOR_" + name.upper())
    if named:
        return [named]
    if name == "hiprtc":
        return ["libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5", "libamdhip64.so.5",
                *glob.glob("/opt/rocm*/lib/libhiprtc.so")]
    places = [os.path.join(folder, "lib", "python*", "site-packages", "nvidia", "*", "lib", "libnvrtc.so.[0-9]*")
              for folder in glob.glob(os.path.join(build, "venv*"))]
    wheels = [path for place in places for path in sorted(glob.glob(place)) if "builtins" not in path]
    return [*wheels, "libnvrtc.so.13", "libnvrtc.so.12"]


def find(name, build=os.path.join(ROOT, "build")):
    """The compiler, or None where no library of that name can be opened."""
    for library in candidates(name, build):
        try:
            compiler = Compiler(name, library)
            compiler.version()
            return compiler
        except (OSError, AttributeError):
            continue
    return None
