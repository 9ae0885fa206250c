#!/usr/bin/env python3
"""Renames a word through the tree.

usage: rename.py SPEC...        the tree is the one this program lies in; nothing is committed
A SPEC is a text, kept in docs/decisions/renames/, of lines in this order of effect:

  # a comment
  file OLD NEW              git mv; the old path, and what an #include says of it, become the new
  word PATTERN => TEXT [in GLOB,...]      a Python pattern in whole files; \\1 is the first group
  name PATTERN => TEXT [in GLOB,...]      the same, for whole identifiers of the code alone: neither
                                          comments nor literals are changed
  local TYPE NAME => NEW [in GLOB,...]    the identifier NAME in those functions alone that declare it
                                          with a type that the pattern TYPE matches

GLOBs are paths from the root (`*` crosses folders); without them all text files of the tree are
meant but CHANGELOG.md, docs/decisions/ and golden outputs of other programs. Afterwards the code is
formatted (check_format.py --fix). The numbers of places changed are printed; a line that changes
nothing is an error, so that a spec says what happened.
"""
import fnmatch
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
ENDINGS = (".c", ".h", ".def", ".inc", ".py", ".sh", ".cmake", ".md", ".txt", ".case", ".stir", ".map", ".in")
KEPT = ("CHANGELOG.md", "docs/decisions/*", "build/*")
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|\b[A-Za-z_]\w*\b',
                   re.S)
LINE = re.compile(r"(word|name|local) (.*) => (.*?)(?: in (\S+))?$")
FUNCTION = re.compile(r"^[A-Za-z_][^\n;]*(?:\n[^\n{};]+)*\n\{\n.*?^\}", re.S | re.M)


def tracked():
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [path for path in names.stdout.split("\n")
            if path.endswith(ENDINGS) and not any(fnmatch.fnmatch(path, k) for k in KEPT)]


def replace_names(text, pattern, new):
    """The text with whole identifiers replaced, and how many."""
    count = 0

    def one(match):
        nonlocal count
        token = match.group(0)
        if not (token[0].isalpha() or token[0] == "_") or not pattern.fullmatch(token):
            return token
        count += 1
        return pattern.sub(new, token)
    return TOKEN.sub(one, text), count


def replace_locals(text, pattern, new):
    """The text with a variable renamed in the functions that declare it with a type, and how many."""
    kind, name = pattern.pattern.rsplit(" ", 1)
    declared, total = re.compile(rf"\b(?:{kind})[\s*]+(?:const )?{name}\b"), 0

    def one(match):
        nonlocal total
        if not declared.search(match.group(0)):
            return match.group(0)
        changed, count = replace_names(match.group(0), re.compile(name), new)
        total += count
        return changed
    return FUNCTION.sub(one, text), total


def substitute(kind, pattern, new, globs):
    compiled, total = re.compile(pattern), 0
    for path in tracked():
        if globs and not any(fnmatch.fnmatch(path, glob) for glob in globs):
            continue
        if kind != "word" and not path.endswith((".c", ".h", ".def")):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            text = file.read()
        replace = {"name": replace_names, "local": replace_locals}.get(kind)
        changed, count = replace(text, compiled, new) if replace else compiled.subn(new, text)
        if count:
            total += count
            with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
                file.write(changed)
    return total


def move(old, new):
    os.makedirs(os.path.dirname(os.path.join(ROOT, new)), exist_ok=True)
    subprocess.run(["git", "mv", old, new], cwd=ROOT, check=True)
    count = substitute("word", r"(?<![\w/])" + re.escape(old) + r"\b", new, None)
    if os.path.basename(old) != os.path.basename(new):
        count += substitute("word", r"(?<![\w/.])" + re.escape(os.path.basename(old)) + r"\b",
                            os.path.basename(new), None)
    return count


def apply(line):
    if line.startswith("file "):
        _, old, new = line.split()
        return move(old, new), False
    match = LINE.match(line)
    if not match:
        sys.exit(f"rename.py: not a line of a spec: {line}")
    kind, pattern, new, globs = match.groups()
    return substitute(kind, pattern, new, globs.split(",") if globs else None), True


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    unused = []
    for spec in sys.argv[1:]:
        with open(spec, encoding="utf-8") as file:
            lines = [line.strip() for line in file]
        for line in (line for line in lines if line and not line.startswith("#")):
            count, is_needed = apply(line)
            print(f"{count:6} {line}")
            if is_needed and count == 0:
                unused.append(line)
    subprocess.run([sys.executable, os.path.join(ROOT, "tests/tools/check_format.py"), "--fix"],
                   check=False)
    for line in unused:
        print("BAD changes nothing:", line)
    return 1 if unused else 0


if __name__ == "__main__":
    sys.exit(main())
