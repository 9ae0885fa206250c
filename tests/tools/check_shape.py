#!/usr/bin/env python3
"""Prints and checks the size and shape of the code.

usage: check_shape.py [ROOT]
Limits: no source file past 1,000 lines; 99 % of the C functions of at most 40 lines, none above 100;
at most 6 parameters outside the tests, where a list and its count are one and `stator_diag **err`
is none; source file names unique in the tree. A multi-line #define counts as a function of as many
lines. Of the product: no folder with more than FOLDER_LIMIT files of C, not more call circles than
CIRCLES_MAX over CIRCLE_FILES_MAX files, not more comparisons with an op's name outside frontends and
text than BY_NAME_MAX. A call circle is a set of .c files each of which calls each, maybe through
others; calls through pointers count as none, nor do names that two files define. check_layers.py
holds that no circle joins folders. No function of the product returns `int` but main, a comparison
for qsort, what a foreign library calls and names that end in `_count`.
Printed alone: the lines of the product's C.
Functions are found by a brace counter over the text without comments, strings and directives;
a function runs from the first line of its head to its closing brace. Status 0 when all hold.
"""
import collections
import os
import re
import sys

FILE_LIMIT, FUNCTION_AIM, FUNCTION_LIMIT, SHARE = 1000, 40, 100, 0.99
PARAMETER_LIMIT = 6
FOLDER_LIMIT = 45  # C files
CIRCLES_MAX, CIRCLE_FILES_MAX, BY_NAME_MAX = 22, 120, 0  # counts that may only sink
PRODUCT = ("core/", "ir/", "codegen/", "frontends/", "plugins/", "tools/", "include/")
INT_FUNCTION = re.compile(r"^(?:static )?(?:inline )?int (\w+)\(([^)]*)\)", re.M)
# main, a count, a comparison for qsort, what a foreign library calls
MAY_RETURN_INT = re.compile(r"main\(|\w*_count\(|\w+\(const void \*\w+, const void \*\w+$|"
                            r"\w+\(struct dl_phdr_info|be_quiet\(")
DEFINITION = re.compile(r"^(static )?[A-Za-z_][\w \t*]*?\b(\w+)\([^;{}]*\)\s*\{", re.M)
CALL = re.compile(r"(?<![\w.>])([A-Za-z_]\w*)\s*\(")
OP_NAME = re.compile(r'strcmp\([^()]*(?:\([^()]*\)[^()]*)*, "(\w+)"\)')
MORE_PARAMETERS = {  # what each is, where a struct would say no more
    "dn_attention_isa.h tile": "a kernel in registers, inlined",
}
CODE = (".c", ".h", ".def", ".py", ".sh", ".cmake")
SKIP = {".git", "build"}
SAME_NAME_OK = {"CMakeLists.txt", "plugin.cmake"}  # their names are given by CMake
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\[^\n]|\\\n)*", re.M)


def blank(match):
    """As many line ends as the match had, and a marker where a literal stood."""
    text = match.group(0)
    lines = "\n" * text.count("\n")
    return lines if text.startswith(("/*", "//", "#")) or text.lstrip().startswith("#") else "0"


def is_function_head(head):
    """Whether the text before a brace at file level is the head of a function."""
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.S).strip()
    return head.endswith(")") and "=" not in head.split("(")[0] and not head.startswith("typedef")


def name_of(head):
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.S)
    test = re.match(r"\s*(?:Test|ParameterizedTest|Theory)\s*\(([^)]*)\)", head)
    if test:
        return "Test(" + re.sub(r"\s+", " ", test.group(1)) + ")"
    found = re.search(r"(\w+)\s*\(", head)
    return found.group(1) if found else "?"


COUNT = re.compile(r"^(?:const\s+)?(?:u?int(?:32|64)_t|size_t|int)\s+\w*?"
                   r"(?:\bn_\w+|\bn|n_in|n_out|count|size|len|bytes|rank)$")


def split_parameters(head):
    """The texts between the commas of a function's outer parentheses."""
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", " ", head, flags=re.S).strip()
    depth, parts = 1, [""]
    for char in head[re.search(r"\w+\s*\(", head).end():]:
        depth += {"(": 1, ")": -1}.get(char, 0)
        if depth == 0:
            break
        if char == "," and depth == 1:
            parts.append("")
        else:
            parts[-1] += char
    return [" ".join(part.split()) for part in parts]


def parameters(head):
    """How many: a list and its count, side by side, are one; where an error goes is none."""
    parts = [p for p in split_parameters(head) if not p.endswith(("**err", "*errbuf"))]
    number = len(parts)
    at = 0
    while at + 1 < len(parts):
        here, there = parts[at], parts[at + 1]
        is_pair = ((COUNT.match(here) and ("*" in there or "[" in there)) or
                   (COUNT.match(there) and ("*" in here or "[" in here)))
        number -= bool(is_pair)
        at += 2 if is_pair else 1
    return number


def functions(text):
    """Yields (name, first line, line count, parameters) of each function and multi-line #define."""
    text = TOKEN.sub(blank, text)
    for match in DIRECTIVE.finditer(text):
        define = re.match(r"[ \t]*#\s*define\s+(\w+)", match.group(0))
        lines = match.group(0).count("\n") + 1
        if define and lines > 1:
            yield "#define " + define.group(1), text.count("\n", 0, match.start()) + 1, lines, 0
    text = DIRECTIVE.sub(blank, text)
    depth, begin, head_begin, inside, line, n_parameters = 0, 0, 0, None, 1, 0
    for at, char in enumerate(text):
        if char == "\n":
            line += 1
        elif char == "{":
            head = text[head_begin:at]
            if depth == 0 and head.strip().startswith("extern") and "(" not in head:
                head_begin = at + 1  # extern "C" {: what is in it is still file level
                continue
            if depth == 0:
                first = at - len(head.lstrip())
                begin = text.count("\n", 0, first) + 1
                inside = name_of(head) if is_function_head(head) else None
                n_parameters = parameters(head) if inside else 0
            depth += 1
        elif char == "}" and depth > 0:
            depth -= 1
            if depth == 0:
                if inside:
                    yield inside, begin, line - begin + 1, n_parameters
                head_begin = at + 1
        elif char in ";}" and depth == 0:
            head_begin = at + 1


def tree(root):
    for base, dirs, files in os.walk(root):
        dirs[:] = sorted(d for d in dirs if d not in SKIP and not d.startswith(("build-", ".")))
        for name in sorted(files):
            if name.endswith(CODE) or name in SAME_NAME_OK:
                yield os.path.relpath(os.path.join(base, name), root)


def call_graph(texts):
    """By .c file of the product: the files whose functions it calls."""
    plain = {path: DIRECTIVE.sub(blank, TOKEN.sub(blank, text)) for path, text in texts.items()
             if path.startswith(PRODUCT) and path.endswith(".c")}
    own, homes = {}, collections.defaultdict(set)
    for path, text in plain.items():
        found = DEFINITION.findall(text)
        own[path] = {name for _, name in found}
        for static, name in found:
            if not static:
                homes[name].add(path)
    home = {name: min(paths) for name, paths in homes.items() if len(paths) == 1}
    return {path: {home[name] for name in set(CALL.findall(text)) - own[path] if name in home}
            for path, text in plain.items()}


def call_circles(graph):
    """Lists of files that call each other in a circle, the largest first (Tarjan's components)."""
    number, lowest, stack, circles = {}, {}, [], []

    def visit(node):
        number[node] = lowest[node] = len(number)
        stack.append(node)
        for other in sorted(graph[node]):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == number[node]:
            at = stack.index(node)
            circles.append(sorted(stack[at:]))
            del stack[at:]

    for node in sorted(graph):
        if node not in number:
            visit(node)
    return sorted((c for c in circles if len(c) > 1), key=lambda c: (-len(c), c))


def check_circles(texts, bad):
    circles = call_circles(call_graph(texts))
    print(f"call circles: {len(circles)} over {sum(map(len, circles))} files")
    for circle in circles:
        print(f"  {len(circle):5} {os.path.commonpath(circle)}: "
              f"{', '.join(os.path.basename(path) for path in circle)}")
    if len(circles) > CIRCLES_MAX or sum(map(len, circles)) > CIRCLE_FILES_MAX:
        bad.append(f"more call circles than {CIRCLES_MAX} over {CIRCLE_FILES_MAX} files")


def op_names(root):
    path = os.path.join(root, "ir", "ops.def")
    text = open(path, encoding="utf-8").read() if os.path.exists(path) else ""
    return set(re.findall(r"^[A-Z_]+\((\w+),", text, re.M))


def check_counts(root, texts, bad):
    """The product's size, full folders, int functions, ops by name."""
    ops, folders = op_names(root), collections.Counter()
    lines = by_name = 0
    for path, text in texts.items():
        if not path.startswith(PRODUCT) or not path.endswith((".c", ".h", ".def")):
            continue
        lines += text.count("\n")
        folders[os.path.dirname(path)] += 1
        if path.endswith(".c"):
            if not path.startswith(("frontends/", "ir/text", "ir/expr")):
                by_name += sum(name in ops for name in OP_NAME.findall(text))
    bad += [f"{folder} has {count} files, the limit is {FOLDER_LIMIT}"
            for folder, count in sorted(folders.items()) if count > FOLDER_LIMIT]
    if by_name > BY_NAME_MAX:
        bad.append(f"{by_name} comparisons with an op's name, the limit is {BY_NAME_MAX}")
    print(f"product: {lines} lines of C; {by_name} comparisons with an op's "
          f"name; the fullest folder has {max(folders.values(), default=0)} files")


def int_functions(path, text):
    """Yields a line for each function of the product that returns an int it may not return."""
    if path.startswith(PRODUCT) and path.endswith((".c", ".h")):
        for found in INT_FUNCTION.finditer(text):
            if not MAY_RETURN_INT.match(f"{found.group(1)}({' '.join(found.group(2).split())}"):
                line = text.count("\n", 0, found.start()) + 1
                yield (f"{path}:{line}: {found.group(1)} returns int: bool, stator_status, an enum or "
                       "a type that says what the number is")


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", ".."))
    bad, found, lines_of, names, texts = [], [], {}, collections.defaultdict(list), {}
    for path in tree(root):
        text = open(os.path.join(root, path), encoding="utf-8").read()
        lines_of[path] = text.count("\n")
        texts[path] = text
        names[os.path.basename(path)].append(path)
        bad += int_functions(path, text)
        if path.endswith((".c", ".h", ".def")):
            for name, line, count, n in functions(text):
                found.append((count, path, line, name))
                place = os.path.basename(path) + " " + name
                if (n > PARAMETER_LIMIT and place not in MORE_PARAMETERS and
                        "tests" not in path.split(os.sep)):
                    bad.append(f"{path}:{line}: {name} has {n} parameters, the limit is {PARAMETER_LIMIT}")
    for path, lines in sorted(lines_of.items(), key=lambda item: -item[1]):
        if lines > FILE_LIMIT:
            bad.append(f"{path}: {lines} lines, the limit is {FILE_LIMIT}")
    for name, paths in sorted(names.items()):
        if len(paths) > 1 and name not in SAME_NAME_OK:
            bad.append(f"the name {name} stands for {', '.join(paths)}")
    found.sort(reverse=True)
    bad += [f"{path}:{line}: {name} has {count} lines, the limit is {FUNCTION_LIMIT}"
            for count, path, line, name in found if count > FUNCTION_LIMIT]
    below = sum(count <= FUNCTION_AIM for count, *_ in found)
    share = below / len(found) if found else 1.0
    if share < SHARE:
        bad.append(f"{100 * share:.2f} % of the functions have at most {FUNCTION_AIM} lines, "
                   f"expected {100 * SHARE:.0f} %")
    print("longest files:")
    for path, lines in sorted(lines_of.items(), key=lambda item: -item[1])[:5]:
        print(f"  {lines:5} {path}")
    print("longest functions:")
    for count, path, line, name in found[:10]:
        print(f"  {count:5} {name} ({path}:{line})")
    check_circles(texts, bad)
    check_counts(root, texts, bad)
    for line in bad:
        print("BAD", line)
    total = sum(lines for path, lines in lines_of.items() if path.endswith((".c", ".h", ".def")))
    middle = found[len(found) // 2][0] if found else 0
    print(f"shape: {len(lines_of)} files, {total} lines of C, {len(found)} functions, median {middle} "
          f"lines, {100 * share:.2f} % of at most {FUNCTION_AIM}, {len(bad)} violations")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
