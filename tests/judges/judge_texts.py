"""Kernels as the vendors' compilers see them: judge_texts.py nvrtc|hiprtc ARCH[,ARCH...] FOLDER...

FOLDER holds texts that the software device was given (STATOR_SOFT_TEXTS, docs/softgpu.md). Texts that
differ in numbers of kernels and in comments alone count as one. Each is compiled for each
architecture, some in one program, which saves the compiler's start; those of a program that is
refused are compiled again one by one. Status 77: the compiler or the texts are not there.
"""
import concurrent.futures
import glob
import os
import re
import sys
import time

import compilers

AT_ONCE = 12
COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
NUMBERED = re.compile(r"\bst_((?:s\d+_)*)k\d+_")
INCLUDE = '#include "gpu_prelude.h"\n'
KERNEL = re.compile(r"\bST_KERNEL\((\w+)")


def read_texts(folders):
    """By text, without what does not count, the file that has it."""
    texts = {}
    for folder in folders:
        for path in sorted(glob.glob(os.path.join(folder, "*.cu"))):
            with open(path, encoding="utf-8") as file:
                text = NUMBERED.sub("st_k_", COMMENT.sub("", file.read()))
            texts.setdefault(text, path)
    return texts


def joined(texts):
    """One program: a namespace for each text, whose kernels have names of their own."""
    parts = [INCLUDE]
    for number, text in enumerate(texts):
        for kernel in set(KERNEL.findall(text)):
            text = re.sub(r"\b%s\b" % kernel, "%s_%d" % (kernel, number), text)
        parts.append("namespace n%d {\n%s\n}\n" % (number, text.replace(INCLUDE, "")))
    return "".join(parts)


COMPILER = None


def open_compiler(name):
    global COMPILER
    COMPILER = compilers.find(name)


def judge(arch, texts):
    """The refused ones with the compiler's log."""
    if COMPILER.compile(joined(texts), arch)[0]:
        return []
    answers = ((text, COMPILER.compile(text, arch)) for text in texts)
    return [(text, log) for text, (is_compiled, log) in answers if not is_compiled]


def main():
    name, archs, folders = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
    compiler = compilers.find(name)
    texts = read_texts(folders)
    if compiler is None or not texts:
        print("not run: there is %s" % ("no %s on this machine" % name if compiler is None else
                                        "no text in " + " ".join(folders)))
        return 77
    order = sorted(texts, key=len)
    batches = [order[first:first + AT_ONCE] for first in range(0, len(order), AT_ONCE)]
    batches.reverse()  # the longest first
    n_refused = 0
    with concurrent.futures.ProcessPoolExecutor(os.cpu_count(), initializer=open_compiler, initargs=(name,)) as pool:
        for arch in archs:
            start = time.time()
            refused = [row for rows in pool.map(judge, [arch] * len(batches), batches) for row in rows]
            for text, log in refused[:10]:
                print("REFUSED for %s: %s\n%s" % (arch, texts[text], log[:2000]))
            n_refused += len(refused)
            print("%d distinct kernels for %s by %s: %d refused, %.0f s" % (
                len(texts), arch, compiler.version(), len(refused), time.time() - start), flush=True)
    return 1 if n_refused else 0


if __name__ == "__main__":
    sys.exit(main())
