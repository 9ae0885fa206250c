#!/usr/bin/env python3
"""Checks that words which were retired do not come back.

usage: check_glossary.py [ROOT]
docs/decisions/retired-words.md has a table: a pattern (a Python one, in backquotes), what is said
instead, and the folders where the plain word stays allowed (separated by commas, or `-`).
Looked through are identifiers of the C code, messages (string literals) and names of files; a
pattern is searched in each. Status 0 when no retired word is found.
"""
import os
import re
import sys

FOLDERS = ("core", "ir", "codegen", "frontends", "plugins", "tools", "include", "bench", "examples",
           "tests")
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|("(?:\\.|[^"\\\n])*")|\'(?:\\.|[^\'\\\n])*\'|'
                   r"\b([A-Za-z_]\w*)\b", re.S)
ROW = re.compile(r"\|\s*`(.+?)`\s*\|(.*?)\|(.*?)\|\s*$")


def retired(root):
    """The rows (compiled pattern, what to say, folders where it is allowed) of the table."""
    with open(os.path.join(root, "docs/decisions/retired-words.md"), encoding="utf-8") as file:
        text = file.read()
    rows = []
    for line in text.split("\n"):
        match = ROW.match(line)
        if match:
            pattern = match.group(1).replace("\\|", "|")
            allowed = [word.strip() for word in match.group(3).split(",") if word.strip(" -")]
            rows.append((re.compile(pattern), match.group(2).strip(), tuple(allowed)))
    return rows


def tree(root):
    for folder in FOLDERS:
        for base, dirs, files in os.walk(os.path.join(root, folder)):
            dirs[:] = sorted(dirs)
            for name in sorted(files):
                yield os.path.relpath(os.path.join(base, name), root)


def pieces(root, path):
    """Yields (line, text): the file's name, and identifiers and literals of C code."""
    yield 0, os.path.basename(path)
    if not path.endswith((".c", ".h", ".def")):
        return
    with open(os.path.join(root, path), encoding="utf-8") as file:
        text = file.read()
    line, last = 1, 0
    for match in TOKEN.finditer(text):
        line += text.count("\n", last, match.start())
        last = match.start()
        if match.group(1) or match.group(2):
            yield line, match.group(0)


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", ".."))
    rows, bad = retired(root), 0
    for path in tree(root):
        own = [row for row in rows if not path.startswith(row[2])] if rows else []
        joined = re.compile("|".join(f"(?:{row[0].pattern})" for row in own)) if own else None
        for line, text in pieces(root, path) if joined else ():
            if joined.search(text):
                said = next(row[1] for row in own if row[0].search(text))
                print(f"BAD {path}:{line}: {text[:60]}: say {said}")
                bad += 1
    print(f"glossary: {len(rows)} retired words, {bad} uses")
    return 1 if bad or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
