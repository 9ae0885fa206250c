#!/usr/bin/env python3
"""Writes the frozen-slot file of the present ABI: a static assertion for the place and the type of
every field of every struct of the public headers and for the value of every enumerator, and the anchor
that abidiff compares.

usage: gen_abi_frozen.py [SOURCE] [--anchor]
Out:   tests/abi/abi_frozen_<major>_<minor>.c and tests/abi/abi_anchor.c below SOURCE; with --anchor the
       latter alone, on stdout
The frozen file is made when an ABI is published (or, below 1.0, changed on purpose) and never edited:
an appended field passes, one that moved or changed its type does not compile.
"""
import os
import re
import subprocess
import sys
import tempfile

HEADERS = ("base", "dlpack", "ir", "source", "plugin", "stator", "inspect", "train")
PRELUDE = "#include <stator/inspect.h>\n#include <stator/stator.h>\n#include <stator/train.h>\n"


def bare(path):
    text = re.sub(r"/\*.*?\*/", " ", open(path, encoding="utf-8").read(), flags=re.S)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", "", text, flags=re.M | re.S)


def fields(body):
    """Yields (name, type) of each field of a struct's body."""
    for part in body.split(";"):
        part = re.sub(r"\s+", " ", part).strip()
        part = re.sub(r"STATOR_(MUST_USE|PRINTF\([^)]*\))", "", part).strip()
        if not part:
            continue
        pointer = re.match(r"(.*?)\(\*\s*(\w+)\)\s*(\(.*\))$", part)
        if pointer:
            yield pointer.group(2), f"{pointer.group(1).strip()} (*){pointer.group(3)}"
            continue
        base = re.match(r"((?:const |struct |unsigned )*\w+(?: const\b)?)\s*(.*)$", part)
        for declarator in base.group(2).split(","):
            found = re.match(r"\s*((?:\*\s*(?:const\s*)?)*)(\w+)((?:\[[^\]]*\])*)\s*$", declarator)
            stars = found.group(1).strip()
            yield found.group(2), f"{base.group(1)} {stars}{found.group(3)}".strip()


def structs(source):
    for header in HEADERS:
        text = bare(os.path.join(source, "include", "stator", header + ".h"))
        for body, name in re.findall(r"typedef struct(?: \w+)? \{(.*?)\n\} (\w+);", text, re.S):
            yield name, list(fields(body))


def enumerators(source):
    """Names of the enumerators of the public headers and of the two tables."""
    for header in HEADERS:
        text = bare(os.path.join(source, "include", "stator", header + ".h"))
        for body in re.findall(r"enum(?: \w+)? \{(.*?)\n?\};?", text, re.S):
            yield from re.findall(r"(?:^|,)\s*(\w+)\s*(?==|,|$)", body)
    for table in ("status", "dtype"):
        text = bare(os.path.join(source, "include", "stator", table + ".def"))
        yield from ("STATOR_" + name for name in re.findall(r"STATOR_\w+\((\w+),", text))


def ask(expressions, include):
    """The integer value of each expression, asked of the compiler."""
    lines = [f'printf("%lld\\n", (long long)({text}));' for text in expressions]
    program = PRELUDE + "#include <stdio.h>\nint main(void) {\n" + "\n".join(lines) + "\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "offsets")
        open(path + ".c", "w", encoding="utf-8").write(program)
        subprocess.run(["cc", "-std=c11", *include, path + ".c", "-o", path], check=True)
        out = subprocess.run([path], check=True, capture_output=True, text=True).stdout
    return [int(line) for line in out.split()]


def frozen(found, place, values, version):
    text = [f"/* Every field of ABI {version}, its place and its type, and every enumerator's value. Made by\n"
            " * tests/tools/gen_abi_frozen.py when that ABI was published; never edited.",
            " * Compiling it is the test. */",
            PRELUDE,
            "/* clang-format off */",
            "#define FROZEN(type_, field_, offset_, ...)                                        \\\n"
            "    _Static_assert(offsetof(type_, field_) == (offset_) &&                         \\\n"
            "                       __builtin_types_compatible_p(                               \\\n"
            "                           __typeof__(((type_ *)0)->field_), __VA_ARGS__),         \\\n"
            '                   #type_ "." #field_ " moved or changed its type")\n'
            '#define SAME(name_, value_) _Static_assert((name_) == (value_), #name_ " changed")\n']
    for name, members in found:
        for field, kind in members:
            head, tail = f"FROZEN({name}, {field}, {place[(name, field)]},", f" {kind});"
            text.append(head + tail if len(head + tail) <= 100 else head + "\n      " + tail)
    row = ""
    for name, value in values:
        item = f"SAME({name}, {value});"
        if len(row) + len(item) + 1 > 100:
            text.append(row)
            row = ""
        row += (" " if row else "") + item
    text.append(row)
    return "\n".join(text + ["/* clang-format on */"]) + "\n"


def anchor(source, found):
    text = "".join(bare(os.path.join(source, "include/stator", h + ".h")) for h in HEADERS)
    calls = re.findall(r"STATOR_EXPORT[^;{]*?\b(stator_\w+)\s*\(", text)
    rows = "\n".join([f"    const {name} *p_{name};" for name, _ in found] +
                     [f"    __typeof__({name}) *call_{name};" for name in calls])
    return ("/* One exported, typed variable that reaches every public struct and function type, so that\n"
            " * abidiff sees them all. Made by tests/tools/gen_abi_frozen.py. */\n" + PRELUDE +
            f"\nstruct stator_abi_anchor {{\n{rows}\n}};\n\n"
            "extern struct stator_abi_anchor stator_abi_anchor;\n"
            "STATOR_EXPORT struct stator_abi_anchor stator_abi_anchor;\n")


def check_headers(source):
    """Each header that exports something is one of HEADERS."""
    folder = os.path.join(source, "include", "stator")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".h") and name[:-2] not in HEADERS and re.search(r"^STATOR_EXPORT", bare(os.path.join(folder, name)), re.M):
            sys.exit(f"{name} exports functions, and gen_abi_frozen.py does not read it")


def main():
    words = [word for word in sys.argv[1:] if word != "--anchor"]
    source = words[0] if words else "."
    include = ["-I" + os.path.join(source, "include")]
    check_headers(source)
    found = list(structs(source))
    if "--anchor" in sys.argv:
        sys.stdout.write(anchor(source, found))
        return
    slots = [(s, f) for s, members in found for f, _ in members]
    place = dict(zip(slots, ask([f"offsetof({s}, {f})" for s, f in slots], include)))
    # Counts grow with their tables and are not part of the promise.
    names = [name for name in enumerators(source) if not name.endswith("_COUNT")]
    values = list(zip(names, ask(names, include)))
    base = open(os.path.join(source, "include/stator/base.h"), encoding="utf-8").read()
    numbers = re.findall(r"#define STATOR_ABI_M(?:AJ|IN)OR (\d+)", base)
    folder = os.path.join(source, "tests", "abi")
    name = f"abi_frozen_{numbers[0]}_{numbers[1]}.c"
    open(os.path.join(folder, name), "w", encoding="utf-8").write(
        frozen(found, place, values, ".".join(numbers)))
    open(os.path.join(folder, "abi_anchor.c"), "w", encoding="utf-8").write(
        anchor(source, found))
    print(f"{name}: {len(found)} structs, {len(place)} fields, {len(values)} enumerators")


if __name__ == "__main__":
    main()
