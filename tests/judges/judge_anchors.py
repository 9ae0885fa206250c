"""Registers and spills of anchor kernels: judge_anchors.py BUILD [--bless]

The anchors are the kernels of the graphs of bench/gpu, bench/gpu/anchors and tests/judges/anchors.
The backend over the software device prints them, NVRTC compiles them for sm_90 and its assembler
(ptxas) says registers and bytes of spills. A kernel may have a quarter and 8 registers more than
in anchors.txt, as versions of NVRTC differ, and no spills where it had none; one that is not in the
table is named, and 150 are to be in it. --bless writes the table anew. Status 77: NVRTC or the software device is not there.
"""
import glob
import os
import re
import subprocess
import sys
import tempfile

import compilers
import judge_texts

HERE = os.path.dirname(os.path.abspath(__file__))
TABLE = os.path.join(HERE, "anchors.txt")
GRAPHS = ("bench/gpu/*.stir", "bench/gpu/anchors/*.stir", "tests/judges/anchors/*.stir")
ARCH = "sm_90"
LEAST = 150
KERNEL = re.compile(r"Compiling entry function '(\w+)'.*?(\d+) bytes spill stores, (\d+) bytes spill loads"
                    r".*?Used (\d+) registers", re.DOTALL)


def texts_of(build, graph, folder):
    """The kernels of a graph, products by generated loops."""
    environment = dict(os.environ, STATOR_SOFT_DEVICE="1", STATOR_CACHE="0", STATOR_SOFT_TEXTS=folder,
                       STATOR_OPT_CUDA_SOFT_CONTRACTIONS="loops")
    done = subprocess.run([os.path.join(build, "bin", "stator"), "explain", graph, "--backend", "cuda_soft"],
                          env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit("%s: %s" % (graph, done.stderr.strip()))
    return judge_texts.read_texts([folder])


def measure(compiler, build):
    """By graph and kernel: registers, bytes of spills."""
    rows = {}
    for pattern in GRAPHS:
        for graph in sorted(glob.glob(os.path.join(compilers.ROOT, pattern))):
            name = os.path.relpath(graph, compilers.ROOT)
            with tempfile.TemporaryDirectory() as folder:
                texts = texts_of(build, graph, folder)
            for text in sorted(texts):
                is_compiled, log = compiler.compile(text, ARCH, ["--ptxas-options=-v"])
                kernels = KERNEL.findall(log)
                if not is_compiled or not kernels:
                    raise SystemExit("%s is refused:\n%s" % (name, log[:2000]))
                for kernel, stores, loads, registers in sorted(kernels):
                    key = name + " " + kernel
                    while key in rows:  # kernels of one graph that have the same operations
                        key += "'"
                    rows[key] = (int(registers), int(stores) + int(loads))
    return rows


def read_table():
    rows = {}
    with open(TABLE, encoding="utf-8") as file:
        for line in file:
            if not line.startswith("#"):
                graph, kernel, registers, spills = line.split()
                rows[graph + " " + kernel] = (int(registers), int(spills))
    return rows


def write_table(rows, version):
    with open(TABLE, "w", encoding="utf-8") as file:
        file.write("# Registers of a thread and bytes of spills of anchor kernels for %s by %s.\n"
                   "# Written by judge_anchors.py BUILD --bless\n" % (ARCH, version))
        for key, row in sorted(rows.items()):
            file.write("%-64s %4d %4d\n" % (key, *row))


def main():
    build = sys.argv[1]
    compiler = compilers.find("nvrtc")
    if compiler is None or not os.path.exists(os.path.join(build, "lib/stator/plugins-soft/cuda_soft.so")):
        print("not run: there is no %s" % ("NVRTC on this machine" if compiler is None else "software device"))
        return 77
    rows = measure(compiler, build)
    if "--bless" in sys.argv:
        write_table(rows, compiler.version())
    n_bad, n_known, table = 0, 0, read_table()
    for key in sorted(set(rows) | set(table)):
        if key not in rows or key not in table:
            print("%s %s" % (key, "is new" if key in rows else "is no more"))
            continue
        registers, spills = rows[key]
        n_known += 1
        if registers > table[key][0] * 1.25 + 8:
            bad = "has %d registers" % registers
        elif spills > table[key][1] * 1.25:
            bad = "spills %d bytes" % spills
        else:
            continue
        n_bad += 1
        print("BAD %s %s; the table has %d registers and %d bytes (judge_anchors.py BUILD --bless writes it anew)"
              % (key, bad, *table[key]))
    print("%d anchor kernels for %s by %s, %d of them in the table: %d not as there" % (
        len(rows), ARCH, compiler.version(), n_known, n_bad))
    return 1 if n_bad or n_known < LEAST else 0


if __name__ == "__main__":
    sys.exit(main())
