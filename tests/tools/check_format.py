#!/usr/bin/env python3
"""Checks that the code is formatted and that lines of prose are not too wide.

usage: check_format.py [--fix] [ROOT]
C files are as clang-format 14 writes them with the tree's .clang-format, and lines of their comments
have at most 100 columns. Lines of *.md have at most 160; tables, code and generated pages are
excepted. Lines of *.case have at most 120, as tests/ops/case_writer.py writes them. --fix rewrites
what is not so: of comments the paragraphs of prose, no drawings. Status 0 when all holds, 77 when
there is no clang-format 14 (all else is checked all the same).
"""
import os
import re
import shutil
import subprocess
import sys
import textwrap

WIDTH = 160
COMMENT_WIDTH = 100
CASE_WIDTH = 120
COMMENT = re.compile(r"^([ \t]*)/\*(.*?)\*/[ \t]*$", re.S | re.M)  # one that has its lines for itself
SKIP = {".git", "build"}
LIST_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
MARKUP = re.compile(r"[#>|]|(?:[-*+]|\d+\.)\s")  # what would begin a block at the start of a line


def tree(root, endings):
    for base, dirs, files in os.walk(root):
        dirs[:] = sorted(d for d in dirs if d not in SKIP and not d.startswith(("build-", ".")))
        yield from (os.path.join(base, name) for name in sorted(files) if name.endswith(endings))


def formatter():
    """The command of clang-format 14, or None: other versions break lines elsewhere."""
    for name in ("clang-format-14", "clang-format"):
        if shutil.which(name):
            version = subprocess.run([name, "--version"], capture_output=True, text=True).stdout
            if re.search(r"version 14\.", version):
                return name
    return None


def check_code(root, command, is_fixed):
    files = list(tree(root, (".c", ".h")))
    if is_fixed:
        subprocess.run([command, "-i", *files], check=True)
        return []
    out = subprocess.run([command, "--dry-run", *files], capture_output=True, text=True).stderr
    places = re.findall(r"^(.*?:\d+):\d+: warning: ", out, re.M)
    return [f"{os.path.relpath(place, root)}: clang-format 14 writes this otherwise; "
            "tests/tools/check_format.py --fix does it" for place in places]


def rewrapped(match):
    """The comment with its paragraphs of prose wrapped where they have a line that is too wide."""
    if all(len(line) <= COMMENT_WIDTH for line in match.group(0).split("\n")):
        return match.group(0)
    indent, lines = match.group(1), match.group(2).rstrip().split("\n")
    lines = [lines[0].strip()] + [re.sub(r"^\s*\*? ?", "", line).rstrip() for line in lines[1:]]
    room, out, at = COMMENT_WIDTH - len(indent) - len(" *  */"), [], 0
    while at < len(lines):
        end = at
        while end < len(lines) and re.match(r"[^\s|-](?!.*\S  +\S)", lines[end]):
            end += 1
        end = max(end, at + 1)
        own = lines[at:end]
        is_wide = any(len(line) > COMMENT_WIDTH - len(indent) - 3 for line in own[:-1]) or \
            len(own[-1]) > room
        out += textwrap.wrap(" ".join(own), room + 3 if end < len(lines) else room,
                             break_long_words=False, break_on_hyphens=False) if is_wide else own
        at = end
    return indent + "/* " + f"\n{indent} * ".join(out).replace(" \n", "\n") + " */"


def check_comments(root, is_fixed):
    bad = []
    for path in tree(root, (".c", ".h")):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        changed = COMMENT.sub(rewrapped, text)
        if is_fixed and changed != text:
            with open(path, "w", encoding="utf-8") as file:
                file.write(changed)
        for at, line in enumerate((changed if is_fixed else text).split("\n")):
            if len(line) > COMMENT_WIDTH and re.match(r"\s*(?:/\*| \*)", line):
                bad.append(f"{os.path.relpath(path, root)}:{at + 1}: a comment of {len(line)} columns, "
                           f"the limit is {COMMENT_WIDTH}")
    return bad


def wrapped(paragraph):
    """The paragraph in lines of at most WIDTH columns, none of which begins a block of its own."""
    item = LIST_ITEM.match(paragraph)
    indent = " " * len(item.group(0) if item else re.match(r"\s*", paragraph).group(0))
    for width in range(WIDTH, WIDTH // 2, -1):
        lines = textwrap.wrap(paragraph, width, subsequent_indent=indent, break_long_words=False,
                              break_on_hyphens=False)
        if not any(MARKUP.match(rest.lstrip()) for rest in lines[1:]):
            return lines
    return [paragraph]


def paragraphs(lines):
    """Yields (first, end) of each run of lines that is one paragraph or item of a list: no code, no
    table, no heading."""
    is_code, first = False, None
    for at, line in enumerate(lines + [""]):
        text = line.lstrip()
        is_fence = text.startswith("```")
        is_prose = bool(text) and not is_code and not is_fence and text[0] not in "|#"
        if first is not None and (not is_prose or LIST_ITEM.match(line)):
            yield first, at
            first = None
        if is_prose and first is None:
            first = at
        is_code ^= is_fence


def check_prose(root, is_fixed):
    bad = []
    for path in tree(root, ".md"):
        with open(path, encoding="utf-8") as file:
            lines = file.read().split("\n")
        if any(line.startswith("Generated from") for line in lines[:5]):
            continue
        wide = [(first, end) for first, end in paragraphs(lines)
                if any(len(line) > WIDTH for line in lines[first:end])]
        if is_fixed and wide:
            for first, end in reversed(wide):
                own = [lines[first].rstrip()] + [line.strip() for line in lines[first + 1:end]]
                lines[first:end] = wrapped(" ".join(own))
            with open(path, "w", encoding="utf-8") as file:
                file.write("\n".join(lines))
        elif wide:
            bad += [f"{os.path.relpath(path, root)}:{first + 1}: the paragraph has lines of more than "
                    f"{WIDTH} columns" for first, _ in wide]
    return bad


def check_cases(root):
    for path in tree(root, ".case"):
        with open(path, encoding="utf-8") as file:
            for at, line in enumerate(file):
                if len(line.rstrip("\n")) > CASE_WIDTH:
                    yield (f"{os.path.relpath(path, root)}:{at + 1}: a line of {len(line) - 1} columns, the "
                           f"limit is {CASE_WIDTH}; the tests/ops/gen_*.py that made the file writes it anew")


def main():
    arguments = [a for a in sys.argv[1:] if a != "--fix"]
    is_fixed = "--fix" in sys.argv[1:]
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.abspath(arguments[0] if arguments else os.path.join(here, "..", ".."))
    bad = check_prose(root, is_fixed) + check_comments(root, is_fixed)
    bad += check_cases(root)
    command = formatter()
    if command:
        bad += check_code(root, command, is_fixed)
    for line in bad:
        print("BAD", line)
    if bad:
        return 1
    if not command:
        print("no clang-format 14 here (Debian: clang-format-14): the code was not looked at")
        return 77
    return 0


if __name__ == "__main__":
    sys.exit(main())
