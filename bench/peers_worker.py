"""A peer's side of bench/peers.py: one workload in one process, timed on demand.

    peers_worker.py KIND FOLDER THREADS DENORMALS        KIND: eager, compile, autotune, ort, openvino

Speaks like peer_worker.c: a command a line on stdin (start, run N, dump DIR, stats, quit), a line of JSON back. Weights
come from FOLDER/tensors.pt or the ONNX file, inputs from FOLDER/in_<i>.bin. Calls return new outputs. Only what the
kind needs is imported; memory after the imports is reported apart from the peak."""
import json
import os
import sys
import time
import warnings

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
NUMPY = {"f32": "float32", "f64": "float64", "f16": "float16", "i64": "int64", "i32": "int32", "i8": "int8",
         "u8": "uint8", "bool": "bool", "bf16": "uint16"}


def status_bytes(field):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return 0


class Torch:
    """Eager, or torch.compile in its default or max-autotune mode."""

    def __init__(self, kind, folder, spec, threads, flush):
        import torch
        self.torch, self.kind, self.folder, self.spec = torch, kind, folder, spec
        torch.set_flush_denormal(flush)     # before any thread: they inherit it
        import peers_cases
        self.row = peers_cases.find(spec["name"])
        self.case = peers_cases.skeleton(self.row)
        torch.set_num_threads(threads)      # after the import of gen_models, which sets its own
        self.result = None

    def tensor(self, entry):
        torch = self.torch
        kinds = dict(f32=torch.float32, f64=torch.float64, f16=torch.float16, bf16=torch.bfloat16, i64=torch.int64,
                     i32=torch.int32, i8=torch.int8, u8=torch.uint8, bool=torch.bool)
        with open(os.path.join(self.folder, entry["file"]), "rb") as f:
            data = bytearray(f.read())
        if not data:    # an empty cache, say
            return torch.empty(entry["shape"], dtype=kinds[entry["dtype"]])
        return torch.frombuffer(data, dtype=kinds[entry["dtype"]]).reshape(entry["shape"])

    def load(self):
        inputs = [self.tensor(e) for e in self.spec["inputs"]]
        self.model = self.case.model
        if isinstance(self.model, self.torch.nn.Module):
            self.fill(self.model.train(self.row.is_step), "tensors.pt", self.row.is_step)
            if self.case.teacher:
                self.fill(self.case.teacher, "teacher.pt", False)
        else:
            inputs = [x.numpy() for x in inputs]    # a NumPy program
        self.inputs = inputs

    def fill(self, module, file, is_trained):
        """Puts the values of a file into a module that has none, without a second copy of them."""
        torch = self.torch
        values = torch.load(os.path.join(self.folder, file), weights_only=True)
        parameters = {}     # by memory: what is shared stays so
        for name, value in values.items():
            path, _, leaf = name.rpartition(".")
            owner = module.get_submodule(path)
            if leaf in owner._parameters:
                made = torch.nn.Parameter(value, requires_grad=is_trained)
                owner._parameters[leaf] = parameters.setdefault(value.data_ptr(), made)
            else:
                owner._buffers[leaf] = value
        for name, t in list(module.named_parameters()) + list(module.named_buffers()):
            if t.is_meta:
                raise RuntimeError(f"'{name}' has no value in {file}")
        for m in module.modules():
            if isinstance(m, torch.nn.RNNBase):
                m._init_flat_weights()      # it keeps a list of its weights beside the parameters

    def compile(self):
        if self.row.is_step:
            self.make_step()
        if self.kind != "eager":
            mode = "max-autotune" if self.kind == "autotune" else "default"
            self.model = self.torch.compile(self.model, mode=mode)

    def make_step(self):
        """The model becomes its loss; AdamW has PyTorch's own values, fused where PyTorch has that."""
        import gen_train
        network, teacher = self.model, self.case.teacher
        low = {"bf16": self.torch.bfloat16, "f16": self.torch.float16}.get(self.row.amp)
        self.optimizer = self.torch.optim.AdamW(network.parameters(), lr=1e-4, fused=True)

        def loss_of(x, target):
            with self.torch.no_grad():
                said = teacher(x) if teacher else None
            with self.torch.autocast("cpu", dtype=low, enabled=low is not None):
                return gen_train.loss_of(network(x), target, said)
        self.model = loss_of

    def run_steps(self, n):
        start = time.perf_counter()
        for _ in range(n):
            self.optimizer.zero_grad()
            self.result = self.model(*self.inputs)
            self.result.backward()
            self.optimizer.step()
        return time.perf_counter() - start

    def run(self, n):
        if self.row.is_step:
            return self.run_steps(n)
        model, inputs = self.model, self.inputs
        guard = self.torch.inference_mode() if self.kind == "eager" else self.torch.no_grad()
        with guard:
            start = time.perf_counter()
            for _ in range(n):
                result = model(*inputs)
            seconds = time.perf_counter() - start
        self.result = result
        return seconds

    def choose(self):
        """There is one way of calling."""

    def outputs(self):
        torch = self.torch
        found = list(self.result) if isinstance(self.result, (tuple, list)) else [self.result]
        found = [(t if isinstance(t, torch.Tensor) else torch.from_numpy(t)).detach().contiguous() for t in found]
        names = {torch.float32: "f32", torch.float64: "f64", torch.bfloat16: "bf16", torch.float16: "f16",
                 torch.int64: "i64"}
        return [(names[t.dtype], list(t.shape), (t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy())
                for t in found]


class Ort:
    def __init__(self, kind, folder, spec, threads, flush):
        import numpy
        import onnxruntime
        self.numpy, self.ort, self.folder, self.spec = numpy, onnxruntime, folder, spec
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        if flush:
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        self.options = options
        self.result = None
        self.call = None

    def load(self):
        self.path = os.path.join(self.folder, self.spec["onnx"])
        self.values = {}
        for entry in self.spec["inputs"]:
            if entry["name"] in self.spec["onnx_inputs"]:
                if entry["dtype"] == "bf16":
                    raise RuntimeError("no bf16 inputs through NumPy")
                a = self.numpy.fromfile(os.path.join(self.folder, entry["file"]), NUMPY[entry["dtype"]])
                self.values[entry["name"]] = self.ort.OrtValue.ortvalue_from_numpy(a.reshape(entry["shape"]))

    def compile(self):
        self.session = self.ort.InferenceSession(self.path, self.options, providers=["CPUExecutionProvider"])
        kept = {i.name for i in self.session.get_inputs()}
        self.values = {k: v for k, v in self.values.items() if k in kept}
        self.names = [o.name for o in self.session.get_outputs()]
        self.feed = self.values
        self.call = self.session.run_with_ort_values

    def choose(self):
        """Takes the faster of the two ways of calling: ORT's own values, or NumPy arrays."""
        arrays = {k: v.numpy() for k, v in self.values.items()}
        ways = [(self.session.run_with_ort_values, self.values), (self.session.run, arrays)]
        spent = []
        for self.call, self.feed in ways:
            self.run(2)
            spent.append(min(self.run(3) for _ in range(3)))
        self.call, self.feed = ways[spent.index(min(spent))]

    def run(self, n):
        call, names, feed = self.call, self.names, self.feed
        start = time.perf_counter()
        for _ in range(n):
            result = call(names, feed)
        seconds = time.perf_counter() - start
        self.result = result
        return seconds

    def outputs(self):
        back = {v: k for k, v in NUMPY.items() if k != "bf16"}
        arrays = [r if isinstance(r, self.numpy.ndarray) else r.numpy() for r in self.result]
        return [(back[str(a.dtype)], list(a.shape), self.numpy.ascontiguousarray(a)) for a in arrays]


class OpenVino:
    """OpenVINO's CPU plugin, in f32 as the file says, for the latency of one request."""

    def __init__(self, kind, folder, spec, threads, flush):
        import numpy
        import openvino
        self.numpy, self.openvino, self.folder, self.spec = numpy, openvino, folder, spec
        self.config = {"INFERENCE_NUM_THREADS": str(threads), "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": "1",
                       "INFERENCE_PRECISION_HINT": "f32"}
        if flush:
            self.config["CPU_DENORMALS_OPTIMIZATION"] = "YES"
        self.result = None

    def load(self):
        self.values = {}
        for entry in self.spec["inputs"]:
            if entry["name"] in self.spec["onnx_inputs"]:
                if entry["dtype"] == "bf16":
                    raise RuntimeError("no bf16 inputs through NumPy")
                a = self.numpy.fromfile(os.path.join(self.folder, entry["file"]), NUMPY[entry["dtype"]])
                self.values[entry["name"]] = a.reshape(entry["shape"])

    def compile(self):
        core = self.openvino.Core()
        model = core.compile_model(os.path.join(self.folder, self.spec["onnx"]), "CPU", self.config)
        kept = {name for port in model.inputs for name in port.get_names()}
        self.feed = {k: v for k, v in self.values.items() if k in kept}
        self.ports = model.outputs
        self.request = model.create_infer_request()

    def choose(self):
        """There is one way of calling."""

    def run(self, n):
        request, feed = self.request, self.feed
        start = time.perf_counter()
        for _ in range(n):
            result = request.infer(feed, share_inputs=True, share_outputs=True)
        seconds = time.perf_counter() - start
        self.result = result
        return seconds

    def outputs(self):
        back = {v: k for k, v in NUMPY.items() if k != "bf16"}
        arrays = [self.numpy.ascontiguousarray(self.result[port]) for port in self.ports]
        return [(back[str(a.dtype)], list(a.shape), a) for a in arrays]


KINDS = {"eager": Torch, "compile": Torch, "autotune": Torch, "ort": Ort, "openvino": OpenVino}


def start(peer):
    t0 = time.perf_counter()
    peer.load()
    t1 = time.perf_counter()
    peer.compile()
    t2 = time.perf_counter()
    peer.run(1)
    t3 = time.perf_counter()
    return dict(load_s=t1 - t0, compile_s=t2 - t1, first_call_s=t3 - t2)


def dump(peer, folder):
    rows = []
    for k, (dtype, shape, array) in enumerate(peer.outputs()):
        array.tofile(os.path.join(folder, f"out_{k}.bin"))
        rows.append(dict(dtype=dtype, shape=shape))
    return dict(outputs=rows)


def answer(peer, line, imports):
    word, _, rest = line.partition(" ")
    if word == "start":
        return start(peer)
    if word == "run":
        return dict(seconds=peer.run(int(rest)))
    if word == "dump":
        said = dump(peer, rest)
        peer.choose()
        return said
    if word == "stats":
        return dict(peak_rss=status_bytes("VmHWM:"), rss=status_bytes("VmRSS:"), rss_imports=imports)
    return dict(error="unknown command")


def main():
    kind, folder, threads, flush = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4] == "flush"
    pipe = os.fdopen(os.dup(1), "w", buffering=1)   # what libraries print goes to stderr
    os.dup2(2, 1)
    with open(os.path.join(folder, "spec.json")) as f:
        spec = json.load(f)
    peer = KINDS[kind](kind, folder, spec, threads, flush)
    imports = status_bytes("VmRSS:")
    for line in sys.stdin:
        line = line.strip()
        if line == "quit":
            break
        try:
            said = answer(peer, line, imports)
        except Exception as error:
            said = dict(error=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
        pipe.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
