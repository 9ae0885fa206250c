#!/usr/bin/env python3
"""Checks that what the docs name in code style exists: paths and files of the tree, commands and
their options, tests, slots and members of the public structs, options, ops, passes, backends, log
channels, environment variables, and everything else that looks like a name of the code.

usage: check_doc_names.py SOURCE BUILD
A name is looked up in the tree, the public headers, `stator COMMAND --help`, and what `stator` prints
as JSON. Pages about the border (STRICT) may give only names of public headers and of the command's
own vocabulary, other pages those of all code. Links between pages are followed, and the files
that answer a newcomer's questions (tests/docs/questions.json) are looked for. First the checker itself
is tried on names that are not there (SELF_TEST). Status 0 when all names exist.
"""
import fnmatch
import functools
import json
import os
import re
import subprocess
import sys

STRICT = {"docs/abi.md", "docs/design.md", "docs/plugins.md"}
# Generated from ir/ops.def, and records of what was.
SKIPPED = {"docs/ops.md", "CHANGELOG.md"}
# Sections that speak of what is to come, or of words that went.
SKIPPED_SECTIONS = {"docs/roadmap.md": {"Later"}}
# Names that a reader's own files, or files that a command makes, have in examples.
ALLOWED = {
    "main.c": "a reader's program", "my_backend.c": "a reader's plugin", "my_backend": "the same",
    "digits.h": "made by stator build", "repeat.sh": "made by stator minify",
    "include/stator/sdk": "made by installing", "include/stator/sdk/codegen": "the same",
}
# Names of DLPack, of C, of instructions of x86, single letters, and what begins with a placeholder.
FOREIGN = re.compile(r"DL[A-Z]\w+|u?int\d+_t|long|bool|exit|v(?:perm|pmadd|scale)\w+|m(?:ax|in)ps|"
                     r"NAME_\w+|\w|0x\w+")
CODE = (".c", ".h", ".def", ".inc", ".py", ".sh", ".txt", ".cmake", ".in", ".json", ".md", ".skip")
NAMED = re.compile(r"(?<![\w.*+<>{},/-])[\w.*+<>{}/][\w.*+<>{},/-]*\.(?:c|h|def|inc|py|sh|md|skip)\b(?!\.)")
PREFIXED = re.compile(r"\b(?:STATOR|stator|st|ST|cg|CG|dn|jit|cpu|ox|cli|cmd)_[A-Za-z]\w*|\bSTATOR_\b")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*|(?<![\w-])-[a-z](?![\w-])")
COMMAND = re.compile(r"(?:[A-Z_]+=\S+\s+)*(?:build/release/bin/)?stator\s+([a-z]+)\b(.*)", re.S)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


class Tree:
    """The files of the source tree, and the words of their text."""

    def __init__(self, root):
        self.root, self.files, self.folders = root, set(), set()
        for base, dirs, files in os.walk(root):
            dirs[:] = [d for d in dirs if d not in ("build", ".git", "shared") and d[:6] != "build-"]
            here = os.path.relpath(base, root)
            self.folders.add(here)
            self.files |= {os.path.normpath(os.path.join(here, name)) for name in files}
        self.names = {os.path.basename(path) for path in self.files | self.folders}
        self.tops = {path.split("/")[0] for path in self.folders} - {".", ".."}

    def words(self, below, is_literal=False):
        """Words of the code in these folders; is_literal: whole string literals alone."""
        found = set()
        for path in self.files:
            if path.startswith(below) and (path.endswith(CODE[:8]) or "." not in path):
                if path == "tests/tools/check_doc_names.py":
                    continue
                text = read(os.path.join(self.root, path))
                if is_literal:
                    found |= set(re.findall(r'"([\w.+-]+)"', text))
                    continue
                if path.endswith((".c", ".h", ".def", ".inc")):
                    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
                found |= set(re.findall(r"[A-Za-z_]\w*", text))
        return found

    def has(self, pattern, page=""):
        """Is there a file or folder of this path? Braces, `*` and `<name>` stand for several."""
        braces = re.match(r"(.*)\{([^}]*)\}(.*)", pattern)
        if braces:
            return all(self.has(braces[1] + word + braces[3], page) for word in braces[2].split(","))
        pattern = re.sub(r"<[^>]*>|\bNAME\b|\bNNN\b|\.\.\.", "*", pattern.rstrip("/")) or "."
        for base in ("", os.path.dirname(page), "include"):
            path = os.path.normpath(os.path.join(base, pattern))
            if path in self.files or path in self.folders:
                return True
            if "*" in path and fnmatch.filter(self.files | self.folders, path):
                return True
        return "/" not in pattern and bool(fnmatch.filter(self.names, pattern))


class Command:
    """What the built command says of itself."""

    def __init__(self, build):
        self.program = os.path.join(build, "bin", "stator")
        text = self.run("help")
        self.commands = set(re.findall(r"^  ([a-z]+) ", text, re.M)) | {"help"}
        self.options = {name: set(OPTION.findall(self.run(name, "--help"))) | {"-o", "-h"}
                        for name in self.commands - {"help"}}
        self.options["help"] = set()
        self.all_options = set().union(*self.options.values())
        warning = subprocess.run([self.program, "ops", "neg"], text=True, stderr=subprocess.PIPE,
                                 stdout=subprocess.DEVNULL,
                                 env={**os.environ, "STATOR_LOGS": "no_channel"}).stderr
        self.channels = set(re.findall(r"\w+", warning[warning.index("there are ") + 10:])) - {"and"}
        self.values = {}  # of options that have a list of them
        self.vocabulary = self.commands | self.channels
        for row in self.facts("ops"):
            self.vocabulary |= {row["name"], *row["flags"], *(attr["name"] for attr in row["attrs"])}
            self.vocabulary |= set(re.findall(r"\w+", f"{row['operands']} {row['results']}"))
        self.vocabulary |= {row["name"] for row in self.facts("passes")}
        for row in self.facts("plugins", "--all"):
            self.vocabulary |= {row["name"], *row["tags"]}
        for row in self.facts("backends", "--all"):
            self.vocabulary |= {row["name"], *row.keys()}
            for option in self.facts("backends", row["name"]).get("options", []):
                self.vocabulary.add(option["key"])
                if option["type"] == "one of":
                    self.values.setdefault(option["key"], set()).update(option["range"].split(","))
        self.vocabulary |= set().union(*self.values.values())

    def run(self, *words):
        return subprocess.run([self.program, *words], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL,
                              env={**os.environ, "STATOR_SOFT_DEVICE": "1"}).stdout

    def facts(self, *words):
        return json.loads(self.run(*words, "--json"))


class Border:
    """The public headers: their identifiers, and the members of each struct."""

    def __init__(self, tree, build):
        headers = [os.path.join(tree.root, path) for path in sorted(tree.files)
                   if path.startswith("include/stator/")]
        headers.append(os.path.join(build, "include/stator/ops.h"))
        text = "\n".join(read(path) for path in headers if os.path.exists(path))
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        self.words = set(re.findall(r"[A-Za-z_]\w*", text))
        for word in list(self.words):  # NEED_FALLBACK, RANDOM: what stands behind STATOR_ and the like
            parts = word.split("_")
            if word.startswith("STATOR_"):
                self.words |= {"_".join(parts[at:]) for at in range(1, len(parts))}
        self.members = {}
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\n\} (\w+);", text, re.S):
            own = set(re.findall(r"\(\*(\w+)\)\(|(\w+)(?:\[\d*\])?[;,]", body))
            self.members[name] = {word for pair in own for word in pair if word}
        for table, name in re.findall(r"const (stator_\w+_api) \*(\w+);", text):
            self.members[name] = self.members[table]
        for name in ("call", "host", "backend"):
            self.members[name] = self.members["stator_" + name]
        self.members["exe_info"] = self.members["stator_exe_info"]


class Checker:
    def __init__(self, root, build):
        self.tree, self.command = Tree(root), Command(build)
        self.border = Border(self.tree, build)
        self.build = build
        product = ("core", "ir", "codegen", "frontends", "plugins", "tools", "include")
        own = ("core/", "tools/", "frontends/", "plugins/")
        self.strict_words = self.border.words | self.command.vocabulary | \
            self.tree.words(own, is_literal=True)
        self.code = self.tree.words(("",))
        self.backends = {row["name"] for row in self.command.facts("backends", "--all")} | \
            {"my_backend", "mybackend"} | self.tree.words(("tests/plugins/",), is_literal=True)
        self.words = self.code | self.strict_words | self.tree.words(product, is_literal=True)

    @functools.cached_property
    def tests(self):
        """(name, labels) of every test of the build."""
        out = subprocess.run(["ctest", "--test-dir", self.build, "--show-only=json-v1"], text=True,
                             stdout=subprocess.PIPE).stdout
        return [(test["name"], [label for pair in test.get("properties", [])
                                if pair["name"] == "LABELS" for label in pair["value"]])
                for test in json.loads(out)["tests"]]

    def in_command(self, name, rest):
        """What is wrong with the rest of a command line of `stator NAME`."""
        if name not in self.command.commands:
            return [f"there is no command '{name}'"]
        rest = re.split(r"\s#|[|;>]", rest)[0]
        if name == "help":
            return [f"there is no command '{word}'" for word in re.findall(r"^\s+([a-z]+)", rest)
                    if word not in self.command.commands]
        return [f"'stator {name}' has no option {word}" for word in OPTION.findall(rest)
                if word not in self.command.options[name]] + self.in_values(rest) + self.in_backends(rest)

    def in_backends(self, rest):
        """What is wrong with the backends that a command line names; a and MODEL are placeholders."""
        given = re.findall(r"--(?:backends?|good|bad|fallback|node-fallbacks)[ =]([\w,-]+)", rest)
        return [f"there is no backend '{word}'" for words in given for word in words.split(",")
                if word not in self.backends and not re.fullmatch(r"[A-Z]+|[a-z]", word)]

    def in_values(self, text):
        """What is wrong with `key=value` of a backend's option that has a list of values."""
        return [f"option {key} has no value '{value}'"
                for key, value in re.findall(r"(?<![\w.:-])(\w+)=([\w-]+)", text)
                if key in self.command.values and value not in self.command.values[key] |
                {"false", "true", "K", "V", "VALUE"}]

    def in_script(self, path, rest):
        text = read(os.path.join(self.tree.root, path))
        word = re.match(r"[a-z-]+", rest) if path == "bootstrap" else None
        if word and not re.search(rf"^    {word[0]}\)", text, re.M):
            return [f"./bootstrap has no '{word[0]}'"]
        return [f"{path} has no option {word}" for word in OPTION.findall(rest)
                if f'"{word}"' not in text and not re.search(rf"(^|\s){word}\b", text)]

    def in_tests(self, rest):
        """What is wrong with the options of ctest: each -R and -L must choose something."""
        wrong = []
        for option, quoted, plain in re.findall(r"-([RL])\s+(?:'([^']*)'|(\S+))", rest):
            pattern = re.compile((quoted or plain).replace("\\|", "|"))
            if not any(pattern.search(name) if option == "R" else any(map(pattern.search, labels))
                       for name, labels in self.tests):
                wrong.append(f"no test has {pattern.pattern} (-{option})")
        return wrong

    def in_presets(self, text):
        known = read(os.path.join(self.tree.root, "CMakePresets.json"))
        return [f"there is no preset {name}" for name in re.findall(r"--preset[ =](\w+)", text)
                if f'"{name}"' not in known]

    def in_line(self, text):
        """What is wrong with a command line, or None where the text is none."""
        text = re.sub(r"^\$ ", "", text.strip())
        match = COMMAND.fullmatch(text)
        if match:
            return self.in_command(match[1], match[2])
        if text.startswith("cmake ") or " --preset " in text:
            return self.in_presets(text)
        first, _, rest = text.partition(" ")
        first = re.sub(r"^(?:\./|python3 )", "", first)
        if first == "ctest" or first.endswith("/ctest"):
            return self.in_tests(rest)
        if first in self.tree.files and (first.endswith((".py", ".sh")) or "." not in first):
            return self.in_script(first, rest)
        first, _, rest = text.partition(" ")
        if first in self.command.commands and OPTION.search(rest):
            return self.in_command(first, rest)
        return None

    def in_paths(self, text, page):
        wrong, rest = [], re.sub(r"https?://\S+", " ", text)
        for path in re.findall(r"(?<![\w/.$~-])[\w.*+<>{},-]+(?:/[\w.*+<>{},-]*)+", rest):
            top = path.split("/")[0]
            path = path.rstrip(".,/")
            if top in self.tree.tops and not self.tree.has(path, page) and path not in ALLOWED and \
                    not self.tree.has(path + ".*", page):
                wrong.append(f"there is no {path}")
        for name in NAMED.findall(rest):
            base = name.rsplit("/", 1)[-1]
            if base not in ALLOWED and "/" not in name and not self.tree.has(name, page):
                wrong.append(f"there is no file {name}")
        return wrong

    def in_names(self, text, is_strict):
        wrong = []
        for name in PREFIXED.findall(text):
            is_public = name.startswith(("STATOR_", "stator_"))
            words = self.code if not is_public else self.border.words | \
                {word for word in self.code if word.startswith(("STATOR_", "stator_"))}
            if is_strict and name.startswith("stator_"):
                words = self.border.words | self.strict_words | self.tree.names
            if name in ALLOWED or name in words:
                continue
            if name.endswith("_") or re.search(re.escape(name) + r"(?:\*|\.\.\.|<|x\b)", text) or \
                    re.search(r"_[xX]$", name):
                stem = re.sub(r"[xX]$", "", name)
                if any(word.startswith(stem) for word in words):
                    continue
            if not self.tree.has(name + ".*"):
                wrong.append(f"there is no {name}")
        for struct, member, inner, inners in re.findall(r"(?<![\w.-])(\w+)(?=(?:->|\.)([a-z_]+)\b(?!\.))|(?<=->)(\w+)(?=->(\w+))", text):
            struct, member = struct or inner, member or inners
            members = self.border.members.get(struct)
            if members and member not in members and not self.tree.has(f"{struct}.{member}"):
                wrong.append(f"{struct} has no {member}")
        return wrong

    def in_channels(self, text):
        wrong = []
        for names in re.findall(r"(?:STATOR_LOGS=|--logs )([\w,:]+)", text):
            wrong += [f"there is no log channel '{word}'" for word in names.split(",")
                      if word and word.split(":")[0] not in self.command.channels | {"name", "NAMES"}]
        return wrong

    def in_span(self, text, page):
        """What is wrong with one text in code style."""
        text = " ".join(text.split())
        is_strict = page in STRICT
        wrong = self.in_paths(text, page) + self.in_names(text, is_strict) + self.in_channels(text)
        line = self.in_line(text)
        if line is not None:
            return wrong + line
        if re.fullmatch(r"--?[a-z-]+(?:[ =]\S+)*", text):
            known = self.command.all_options | {"--all", "--offline"}
            if not is_strict:
                known |= {word for word in OPTION.findall(text) if self.is_scripts(word)}
            wrong += [f"no command has {word}" for word in OPTION.findall(text)[:1] if word not in known]
        wrong += self.in_values(text)
        name = re.fullmatch(r"\*{0,2}([A-Za-z_]\w*)(?:\(.*\))?", text)
        words = self.strict_words if is_strict else self.words
        if name and not PREFIXED.fullmatch(name[1]) and not FOREIGN.fullmatch(name[1]):
            is_suffix = name[1][0] == "_" and any(word.endswith(name[1]) for word in words)
            if not is_suffix and name[1] not in words and name[1] not in ALLOWED and not self.tree.has(name[1]):
                wrong.append(f"there is no {name[1]}")
        return wrong

    @functools.cache
    def is_scripts(self, option):
        return any(option in read(os.path.join(self.tree.root, path)) for path in self.tree.files
                   if path.endswith((".py", ".sh")) or path == "bootstrap")

    def in_block(self, line, page):
        """What is wrong with a line of a block of code: its paths, prefixed names and commands."""
        wrong = self.in_names(line, False) + self.in_channels(line) + self.in_paths(line, page)
        found = self.in_line(re.split(r"\s+# ", line)[0])
        return wrong + (found or []) + self.in_picture(line)

    def in_picture(self, line):
        """In a picture a function stands beside the file that has it."""
        path = re.compile(r"[\w-]+(?:/[\w.-]+)+\.c\b")
        files = [name for name in path.findall(line) if name in self.tree.files]
        texts = [read(os.path.join(self.tree.root, name)) for name in files]
        names = re.findall(r"\b(?:st|stator|cg)_\w+", path.sub(" ", line))
        return [f"{name} is not in {files[0]}" for name in names
                if files and not any(name in text for text in texts)]


def pieces(text, page):
    """Yields (line, is_block, text) of each text in code style, and (line, None, target) of links."""
    lines, is_fence, first, skipped = text.split("\n"), False, 0, SKIPPED_SECTIONS.get(page, set())
    paragraph, section = [], ""
    for at, line in enumerate(lines + [""]):
        if re.match(r"#+ ", line):
            section = line.lstrip("# ")
        is_fence ^= line.lstrip().startswith("```")
        is_code = is_fence or re.match(r"    (?![-*|])", line) and not paragraph
        if section in skipped:
            line = ""
        if is_code:
            yield at + 1, True, line
        ends = not line.strip() or line.startswith(("|", "#")) or is_code
        if ends and paragraph:
            yield from spans("\n".join(paragraph), first)
            paragraph = []
        if not ends or line.startswith(("|", "#")):
            if not paragraph:
                first = at + 1
            paragraph.append(line)
            if ends:
                yield from spans(line, first)
                paragraph = []


def spans(text, first):
    plain = text
    for match in re.finditer(r"(`+)(.+?)\1(?!`)", text, re.S):
        yield first + text.count("\n", 0, match.start()), False, match[2].replace("\\|", "|")
        plain = plain.replace(match[0], " " * len(match[0]))
    for match in re.finditer(r"\]\(([^)\s]+)\)", text):
        yield first + text.count("\n", 0, match.start()), None, match[1]


def anchors(path):
    heads = re.findall(r"^#+ (.*)$", read(path), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def in_link(tree, target, page):
    if re.match(r"https?:", target):
        return []
    path, _, anchor = target.partition("#")
    where = os.path.normpath(os.path.join(tree.root, os.path.dirname(page), path)) if path else \
        os.path.join(tree.root, page)
    if not os.path.exists(where):
        return [f"the link leads to {path}, which is not there"]
    return [f"{path} has no heading '{anchor}'"] if anchor and anchor not in anchors(where) else []


# What must be found, and what must not: (page, text in code style, is it wrong?).
SELF_TEST = [
    ("docs/abi.md", "exe_run", False), ("docs/abi.md", "exe_sleep", True),
    ("docs/abi.md", "trace_begin", True), ("docs/abi.md", "stator_stream", True),
    ("docs/abi.md", "cst.pack", False), ("docs/abi.md", "cst.unpack", True),
    ("docs/abi.md", "host->nested->open", False), ("docs/abi.md", "host->nested->peel", True),
    ("docs/abi.md", "stator_call.syms", False), ("docs/abi.md", "stator_call.events", True),
    ("docs/abi.md", "NEED_FALLBACK", False), ("docs/abi.md", "DONATED", True),
    ("docs/abi.md", "STATOR_HAS(host->ir, slot)", False), ("docs/abi.md", "STATOR_TARGET_ABI", True),
    ("docs/abi.md", "stator backends --probe", False), ("docs/abi.md", "stator plugin run", True),
    ("docs/abi.md", "stator conform --isolate", True), ("docs/abi.md", "stator help backend", True),
    ("docs/design.md", "stator run MODEL --backend eager", False),
    ("docs/design.md", "stator run MODEL --backend metal", True), ("docs/design.md", "--node-fallbacks", False), ("docs/design.md", "--isolate", True),
    ("docs/design.md", "ir/ops.def", False), ("docs/design.md", "ir/oops.def", True),
    ("docs/design.md", "codegen/npu", True), ("docs/design.md", "cse", False),
    ("docs/design.md", "plugins/{eager,onnx}", True), ("docs/design.md", "hipify", True),
    ("docs/command.md", "STATOR_LOGS=passes,dispatch:debug", False),
    ("docs/command.md", "STATOR_LOGS=guardrails", True), ("docs/command.md", "numerics=fused", False),
    ("docs/command.md", "numerics=loose", True), ("docs/command.md", "STATOR_NO_SUCH", True),
    ("docs/command.md", "bench/peers.py --threads 2", False),
    ("docs/command.md", "bench/peers.py --thorough", True), ("docs/command.md", "ctest -R golden", False),
    ("docs/command.md", "./bootstrap test --all", False), ("docs/command.md", "./bootstrap dance", True),
    ("docs/command.md", "cmake --preset asan", False), ("docs/command.md", "cmake --preset wasm", True),
    ("docs/command.md", "ctest -R gilded", True), ("docs/command.md", "no_such_file.c", True),
]


def in_questions(tree):
    """What is wrong with the questions of a newcomer: each names the files that answer it."""
    path = "tests/docs/questions.json"
    questions = json.loads(read(os.path.join(tree.root, path)))
    return [f"{path}: there is no {name}" for row in questions for name in row["files"]
            if name not in tree.files] + \
        ([] if len(questions) == 25 else [f"{path}: {len(questions)} questions, not 25"])


def main():
    if len(sys.argv) != 3:
        print(__doc__)
        return 2
    root, build = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    checker, bad, count = Checker(root, build), 0, 0
    for page, text, is_wrong in SELF_TEST:
        found = checker.in_span(text, page)
        if bool(found) != is_wrong:
            print(f"BAD self-test: `{text}` in {page}: {found or 'nothing was found wrong'}")
            bad += 1
    for reason in in_questions(checker.tree):
        print("BAD", reason)
        bad += 1
    for page in sorted(path for path in checker.tree.files if path.endswith(".md")):
        if page in SKIPPED or page.startswith("docs/decisions/"):
            continue
        for line, is_block, text in pieces(read(os.path.join(root, page)), page):
            wrong = in_link(checker.tree, text, page) if is_block is None else \
                checker.in_block(text, page) if is_block else checker.in_span(text, page)
            count += 1
            for reason in wrong:
                print(f"BAD {page}:{line}: `{' '.join(text.split())[:70]}`: {reason}")
                bad += 1
    print(f"doc names: {count} texts in code style and links, {bad} findings")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
