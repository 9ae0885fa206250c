#!/usr/bin/env python3
"""Every name of the prelude of GPUs is in the devices' prelude, in that of the software device and in the
self test (codegen/gpu/self_test/gpu_self_test.def), and these have no other.

usage: check_prelude_names.py SOURCE      status 0 when they agree; prints what does not"""
import os
import re
import sys

INNER = re.compile(r"^(ST_PRELUDE_|ST_MATH_|ST_SOFT_|st_math_|st_poly_|st_soft_|st_prelude_)")
OTHER = {"st_arguments"}
# What a macro of a prelude makes of its first argument: both widths, f32 alone, or products of matrices.
BOTH = ("st_%s_f32", "st_%s_f64")
MAKERS = {"ST_PRELUDE_FUNCTION": BOTH, "ST_PRELUDE_LIBM": BOTH, "ST_PRELUDE_LIBM_2": BOTH, "ST_MATH_F32": ("st_%s_f32",),
          "ST_MATH_F32_2": ("st_%s_f32",), "ST_PRELUDE_MMA": ("st_mma_%s",)}
PATTERNS = [r"^#define (st_\w+|ST_\w+)", r"^\s*ST_DEVICE(?:_CALL)? [\w ]+?[ *](st_\w+)\(", r"^static inline [\w ]+?[ *](st_\w+)\(",
            r"^static __device__ __forceinline__ [\w ]+?[ *](st_\w+)\(",
            r"^typedef [^;{]*?(st_\w+);", r"^\} (st_\w+);"]


def defined(folder, names):
    found = set()
    for name in names:
        with open(os.path.join(folder, name)) as file:
            text = file.read()
        for pattern in PATTERNS:
            found |= set(re.findall(pattern, text, re.M))
        for maker, function in re.findall(r"^(ST_\w+)\((\w+)", text, re.M):
            found |= {name % function for name in MAKERS.get(maker, ())}
    return {name for name in found if not INNER.match(name)} - OTHER


def tested(source):
    with open(os.path.join(source, "codegen/gpu/self_test/gpu_self_test.def")) as file:
        names = set(re.findall(r"^ST_SELF_TEST(?:_BLOCK|_MATRICES|_USED)?\((\w+)", file.read(), re.M))
    return {name for name in names if not name.startswith("operator_")}


def main():
    source = sys.argv[1]
    prelude = os.path.join(source, "codegen", "gpu", "prelude")
    shared = ["gpu_prelude_math.h", "gpu_prelude_polynomials.h"]
    device = defined(prelude, ["gpu_prelude_device.h", "gpu_prelude_cuda.h"] + shared)
    soft = defined(os.path.join(source, "tests", "softgpu"), ["gpu_prelude_soft.h"]) | defined(prelude, shared)
    wrong = ["%s is no name of the software device's prelude" % name for name in sorted(device - soft)]
    wrong += ["%s is no name of the devices' prelude" % name for name in sorted(soft - device)]
    wrong += ["%s has no row in the self test" % name for name in sorted(device - tested(source))]
    wrong += ["%s of the self test is no name of the prelude" % name for name in sorted(tested(source) - device)]
    for line in wrong:
        print("BAD", line)
    print("%d names, %d findings" % (len(device), len(wrong)))
    return bool(wrong)


sys.exit(main())
