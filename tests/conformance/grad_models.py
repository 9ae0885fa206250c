#!/usr/bin/env python3
"""Joint, forward and backward graph of whole models: what compiles where, and whether the two parts give the joint graph's bits.

usage: grad_models.py MODELS_DIR [NAME ...] [--stator build/release/bin/stator] [--backends eager,aot_eager,inductor-cpu] [--no-bits]

For each folder of ONNX's test layout below MODELS_DIR (gen_models.py makes them): `stator grad` writes the three graphs for the
inputs of its first data set. Each is compiled on each backend; a backend that runs the whole model alone has to run the whole graph.
On eager the forward and then the backward graph are called with the joint graph's inputs, and each result and each gradient has to
have the joint graph's bits. Tangents are normal numbers of a fixed seed. A row for each model; status 1 when one is not so.
Needs onnx and numpy."""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

import numpy
import onnx
from onnx import numpy_helper

GRAPHS = ("joint", "forward", "backward")
SEED = 7


class Failed(Exception):
    pass


class Model:
    def __init__(self, name, options, work):
        self.name = name
        self.options = options
        self.path = os.path.join(options.models, name, "model.onnx")
        self.work = work
        self.values = {}
        self.graphs = {}

    def call(self, *arguments):
        done = subprocess.run([self.options.stator, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            text = (done.stderr.strip() or done.stdout.strip()).splitlines()
            raise Failed("%s: status %d: %s" % (" ".join(arguments[:2]), done.returncode, " ".join(text[:3])[:400]))
        return done.stdout

    def file(self, name):
        return os.path.join(self.work, name)

    def port_names(self, path):
        return [port["name"] for port in json.loads(self.call("info", path, "--no-compile", "--json"))["inputs"]]

    def inputs_for(self, path):
        """An archive of the values that a graph takes."""
        names = self.port_names(path)
        missing = [name for name in names if name not in self.values]
        if missing:
            raise Failed("%s wants %s" % (os.path.basename(path), ", ".join(missing)))
        numpy.savez(self.file("inputs.npz"), **{name: self.values[name] for name in names})
        return ["--inputs", self.file("inputs.npz")] if names else []

    def run(self, path, backend):
        self.call("run", path, "--backend", backend, "--save", self.file("outputs.npz"), *self.inputs_for(path))
        with numpy.load(self.file("outputs.npz")) as archive:
            return dict(archive)

    def read_inputs(self):
        """Those of the first data set, and a tangent for each output."""
        graph = onnx.load(self.path, load_external_data=False).graph
        known = {t.name for t in graph.initializer}
        names = [port.name for port in graph.input if port.name not in known]
        for k, name in enumerate(names):
            tensor = onnx.TensorProto()
            with open(os.path.join(os.path.dirname(self.path), "test_data_set_0", "input_%d.pb" % k), "rb") as file:
                tensor.ParseFromString(file.read())
            self.values[name] = numpy_helper.to_array(tensor)

    def write_graphs(self):
        for graph in GRAPHS:
            path = self.file(graph + ".stirb")
            self.call("grad", self.path, "--graph", graph, "-o", path, *self.inputs_for(self.path))
            self.graphs[graph] = path

    def add_tangents(self, outputs):
        random = numpy.random.default_rng(SEED)
        for name in self.port_names(self.graphs["joint"]):
            output = name[len("tangent_"):]
            if name not in self.values and name.startswith("tangent_") and output in outputs:
                like = outputs[output]
                self.values[name] = random.standard_normal(like.shape).astype(like.dtype)

    def is_native(self, path, backend):
        """Does the backend run all of it? In control flow `host` calls what the backend runs."""
        facts = json.loads(self.call("explain", path, "--backend", backend, "--json", *self.inputs_for(path)))
        return not facts["fallback_nodes"]

    def compile_on(self, backend):
        """How many of the graphs compile, and how many nodes are the backend's alone where they have to be."""
        must = self.is_native(self.path, backend)
        words = []
        for graph in GRAPHS:
            if not self.is_native(self.graphs[graph], backend):
                if must:
                    raise Failed("%s runs the model alone, and not its %s graph" % (backend, graph))
                words.append(graph)
        return "native" if must and not words else "as the model (not native: %s)" % (", ".join(words) or "the model")

    def check_bits(self, forward):
        joint = self.run(self.graphs["joint"], "eager")
        backward = self.run(self.graphs["backward"], "eager")
        parts = {**forward, **backward}
        for name, value in joint.items():
            if name not in parts:
                raise Failed("no part gives '%s'" % name)
            if parts[name].tobytes() != value.tobytes():
                raise Failed("'%s' of the parts differs from the joint graph's in %d of %d elements" %
                             (name, int((parts[name].view("u1") != value.view("u1")).sum()), value.size))
        return "%d results, %d gradients" % (len(joint) - len(backward), len(backward))


def check(name, options):
    with tempfile.TemporaryDirectory(prefix="grad_models_") as work:
        model = Model(name, options, work)
        model.read_inputs()
        backends = options.backends.split(",")
        outputs = model.run(model.path, backends[-1])
        model.write_graphs()
        model.add_tangents(outputs)
        forward = model.run(model.graphs["forward"], "eager")
        model.values.update(forward)  # the backward graph takes what this one saves
        words = {}
        for backend in backends:
            words.setdefault(model.compile_on(backend), []).append(backend)
        row = "; ".join("%s: %s" % (", ".join(which), word) for word, which in words.items())
        return row + ("" if options.no_bits else "; bits equal: " + model.check_bits(forward))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--stator", default="build/release/bin/stator")
    parser.add_argument("--backends", default="eager,aot_eager,inductor-cpu")
    parser.add_argument("--no-bits", action="store_true")
    options = parser.parse_args()
    names = options.names or sorted(n for n in os.listdir(options.models) if os.path.exists(os.path.join(options.models, n, "model.onnx")))
    bad = 0
    for name in names:
        start = time.time()
        try:
            row = check(name, options)
        except Failed as failure:
            row = "BAD " + str(failure)
            bad += 1
        print("%-20s %6.1f s  %s" % (name, time.time() - start, row), flush=True)
    print("%d of %d models" % (len(names) - bad, len(names)))
    return 1 if bad or not names else 0


if __name__ == "__main__":
    sys.exit(main())
