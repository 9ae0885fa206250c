#!/usr/bin/env python3
"""Checks every #include of the tree against tests/layers.txt, and that no circle joins the folders.

usage: check_layers.py [ROOT]
Prints each include that points sideways or up, the edges between the folders, and a last line with
counts. Status 0 when clean, 1 otherwise.
"""
import collections
import os
import re
import sys

SOURCE = (".c", ".h", ".def")
SKIP = {".git", "build"}
GENERATED = ("stator/ops.h", ".pb-c.h")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def read_layers(path):
    """folder -> (level, set of folders it may include or None, whether its parts are strangers)."""
    layers = {}
    for line in open(path, encoding="utf-8"):
        line = line.split("#")[0].strip()
        if not line:
            continue
        head, _, only = line.partition("only:")
        words = head.split()
        layers[words[1]] = (float(words[0]), set(only.split()) or None, "each" in words[2:])
    return layers


def folder_of(path, layers):
    fits = [f for f in layers if path == f or path.startswith(f + "/")]
    return max(fits, key=len) if fits else None


def unit_of(path, folder, layers):
    """The part of a folder a file belongs to: the subfolder where parts are strangers."""
    if layers[folder][2]:
        return "/".join(path.split("/")[: folder.count("/") + 2])
    return folder


def sources(root):
    for base, dirs, files in os.walk(root):
        dirs[:] = sorted(d for d in dirs if d not in SKIP and not d.startswith("build-"))
        for name in sorted(files):
            if name.endswith(SOURCE):
                yield os.path.relpath(os.path.join(base, name), root)


def resolve(root, source, kind, name):
    """The path in the tree an include names, None for the system's and third parties' headers."""
    places = [] if kind == "<" else [os.path.dirname(source), ""]
    for place in places + ["include"]:
        path = os.path.normpath(os.path.join(place, name))
        if os.path.isfile(os.path.join(root, path)):
            return path
    return None


def allowed(source, target, layers):
    """None when the include may stand, else why not."""
    a, b = folder_of(source, layers), folder_of(target, layers)
    if a is None or b is None:
        return f"no line of layers.txt fits {source if a is None else target}"
    if unit_of(source, a, layers) == unit_of(target, b, layers) or b == "include":
        return None
    level, only, _ = layers[a]
    if only is not None and b not in only:
        return f"{a} may include only {', '.join(sorted(only))}"
    if layers[b][0] >= level:
        return f"{a} is level {level:g}, {b} is level {layers[b][0]:g}"
    return None


def find_circle(edges):
    """A list of folders that lead back to the first, or None."""
    state = {}

    def visit(node, trail):
        state[node] = 1
        for other in sorted(edges[node]):
            if state.get(other) == 1:
                return trail[trail.index(other):] + [other] if other in trail else [node, other]
            if other not in state:
                found = visit(other, trail + [other])
                if found:
                    return found
        state[node] = 2
        return None

    for node in sorted(edges):
        if node not in state:
            found = visit(node, [node])
            if found:
                return found
    return None


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", ".."))
    layers = read_layers(os.path.join(root, "tests", "layers.txt"))
    bad, count, files = [], 0, 0
    edges, file_edges = collections.defaultdict(set), collections.defaultdict(set)
    for source in sources(root):
        files += 1
        text = open(os.path.join(root, source), encoding="utf-8").read()
        for kind, name in INCLUDE.findall(text):
            target = resolve(root, source, kind, name)
            if target is None:
                if kind == '"' and not name.endswith(GENERATED):
                    bad.append(f'{source}: #include "{name}": no such file in the tree')
                continue
            count += 1
            why = allowed(source, target, layers)
            if why:
                bad.append(f"{source}: #include of {target}: {why}")
            file_edges[source].add(target)
            a, b = folder_of(source, layers), folder_of(target, layers)
            if a and b and unit_of(source, a, layers) != unit_of(target, b, layers):
                edges[unit_of(source, a, layers)].add(unit_of(target, b, layers))
    for name, graph in (("folders", edges), ("files", file_edges)):
        circle = find_circle(collections.defaultdict(set, graph))
        if circle:
            bad.append(f"circle of {name}: {' -> '.join(circle)}")
    for node in sorted(edges):
        print(f"{node} -> {', '.join(sorted(edges[node]))}")
    for line in bad:
        print("BAD", line)
    print(f"layers: {files} files, {count} includes, {len(bad)} violations"
          f"{'' if bad else ', no circle'}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
