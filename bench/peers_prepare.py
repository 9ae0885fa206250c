"""Makes the folder of one workload: peers_prepare.py NAME FOLDER [MODELS]. A child process of bench/peers.py.

FOLDER/<name>/ then holds inputs and expected outputs as plain bytes, tensors.pt (parameters and buffers), the ONNX
file (exported here, or taken from MODELS/<gen_models name>), the .stir twin with its weights, and spec.json: sizes,
flops, bytes, the peak of live activations. What the same versions made from the same files is kept."""
import hashlib
import json
import os
import shutil
import sys
import time
import warnings

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import peers_cases as cases  # noqa: E402


def key_of():
    """Changes when the workloads or the packages do."""
    import onnx
    import onnxruntime
    import torch
    h = hashlib.sha256()
    files = [os.path.join(HERE, f) for f in ("peers_cases.py", "peers_prepare.py")]
    files += [os.path.join(cases.ROOT, "tests", "conformance", f) for f in ("gen_models.py", "gen_train.py", "conf_models_lib.py")]
    files += sorted(os.path.join(HERE, "models", f) for f in os.listdir(os.path.join(HERE, "models")))
    for path in files:
        with open(path, "rb") as f:
            h.update(f.read())
    return f"{h.hexdigest()[:16]} torch {torch.__version__} onnx {onnx.__version__} ort {onnxruntime.__version__}"


def as_tensor(x):
    import torch
    return x if isinstance(x, torch.Tensor) else torch.from_numpy(x)


def dtype_name(t):
    import torch
    return {torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16",
            torch.int64: "i64", torch.int32: "i32", torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool"}[t.dtype]


def write_tensor(t, path):
    import torch
    t = as_tensor(t).detach().contiguous()
    raw = t.view(torch.int16) if t.dtype == torch.bfloat16 else t
    raw.numpy().tofile(path)
    return dict(dtype=dtype_name(t), shape=list(t.shape), file=os.path.basename(path))


def outputs_of(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


# ---- what a workload needs at least ----

def loss_of(module, inputs, teacher):
    """The first loss of a training step, and what the step computes of it."""
    import gen_train
    import torch
    x, target = inputs
    with torch.no_grad():
        said = teacher(x) if teacher else None
    loss = gen_train.loss_of(module(x), target, said)
    loss.backward()
    return loss


def count_flops(case, module, inputs, is_step):
    """Multiplies and adds of products and convolutions, nominal: padding counted, no fast algorithm."""
    import torch
    from torch.utils.flop_counter import FlopCounterMode
    with torch.set_grad_enabled(is_step), FlopCounterMode(display=False) as counter:
        loss_of(module, inputs, case.teacher) if is_step else module(*inputs)
    return float(counter.get_total_flops()) + case.flops


def weight_bytes(module):
    """Parameters that a call reads whole: of embedding tables it reads a few rows."""
    import torch
    tables = {id(p) for m in module.modules() if isinstance(m, (torch.nn.Embedding, torch.nn.EmbeddingBag))
              for p in m.parameters(recurse=False)}
    return sum(p.numel() * p.element_size() for p in module.parameters() if id(p) not in tables)


def live_peak(module, inputs):
    """Peak bytes of storages that ops made and that still lived: activations and outputs, no parameter, no input."""
    import weakref

    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    class Live(TorchDispatchMode):
        def __init__(self, known):
            super().__init__()
            self.now = self.peak = 0
            self.seen = {}
            for t in known:
                s = t.untyped_storage()
                self.seen[s._cdata] = None
            self.kept = [t.untyped_storage() for t in known]

        def drop(self, cdata, size):
            self.seen.pop(cdata, None)
            self.now -= size

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            for t in tree_leaves(out):
                if isinstance(t, torch.Tensor):
                    s = t.untyped_storage()
                    if s._cdata not in self.seen:
                        size = s.nbytes()
                        self.now += size
                        self.peak = max(self.peak, self.now)
                        self.seen[s._cdata] = weakref.finalize(s, self.drop, s._cdata, size)
            return out
    known = list(module.parameters()) + list(module.buffers()) + list(inputs)
    with torch.no_grad(), Live(known) as live:
        result = module(*inputs)
    del result
    return live.peak


# ---- files ----

def export(case, module, inputs, path, dynamo, is_step=False):
    import torch
    if is_step:
        import gen_train
        return gen_train.export(module, inputs[0], case.names[0], path)
    more = dict(external_data=False, verbose=False) if dynamo else dict(do_constant_folding=True)
    opset = max(case.opset, 18) if dynamo else case.opset
    with torch.no_grad():
        torch.onnx.export(module, tuple(inputs), path, opset_version=opset, dynamo=dynamo, input_names=case.names,
                          output_names=case.outputs, **more)
    if case.rewrite:
        plain = path + ".float"
        os.replace(path, plain)
        case.rewrite(plain, path)
        os.remove(plain)


def time_onnx(path, feed):
    """Seconds of a call in ONNX Runtime, to choose among exports."""
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.intra_op_num_threads = os.cpu_count() or 1
    options.log_severity_level = 3
    session = ort.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feed = {i.name: feed[i.name] for i in session.get_inputs()}
    best = float("inf")
    for _ in range(6):
        start = time.perf_counter()
        session.run(None, feed)
        best = min(best, time.perf_counter() - start)
    return best


def best_for_ort(row, case, folder, feed, inputs):
    """The file that ONNX Runtime runs: the fastest of the exports; Stator runs model.onnx whatever it is."""
    choices = {"model.onnx": time_onnx(os.path.join(folder, "model.onnx"), feed)} if row.alternatives else {}
    for i, name in enumerate(row.alternatives):
        path = os.path.join(folder, f"alternative{i}.onnx")
        try:
            module = case.variants[name]() if name in case.variants else case.model
            export(case, module, inputs, path, dynamo=False)
            choices[os.path.basename(path)] = time_onnx(path, feed)
        except Exception as error:  # one form less to choose from, and said so
            print(f"{row.name}: no export '{name}': {str(error)[:200]}", file=sys.stderr)
    return min(choices, key=choices.get) if choices else "model.onnx"


def twin_of(row):
    return row.twin or row.name


def write_twin(row, module, folder):
    """Copies the .stir file; its weights are the module's, in order, in <name>.bin."""
    import torch
    shutil.copy(os.path.join(HERE, "models", twin_of(row) + ".stir"), folder)
    tensors = [p.detach().contiguous() for p in module.parameters()]
    if tensors:
        with open(os.path.join(folder, twin_of(row) + ".bin"), "wb") as f:
            for t in tensors:
                f.write((t.view(torch.int16) if t.dtype == torch.bfloat16 else t).numpy().tobytes())


def reference(row, case, folder, feed):
    if row.is_step:
        import copy
        return [loss_of(copy.deepcopy(case.model), case.inputs, case.teacher)]
    if row.reference == "torch":
        import torch
        with torch.no_grad():
            return outputs_of(case.model(*case.inputs))
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = ort.InferenceSession(os.path.join(folder, "model.onnx"), options, providers=["CPUExecutionProvider"])
    return session.run(None, {i.name: feed[i.name] for i in session.get_inputs()})


def feed_of(case):
    import torch
    return {n: as_tensor(x).numpy() for n, x in zip(case.names, case.inputs)
            if as_tensor(x).dtype != torch.bfloat16}


def given_model(case_name, folder, given):
    """model.onnx from a folder of gen_models.py, when it has the workload's."""
    source = os.path.join(given or "", case_name, "model.onnx")
    if given and os.path.exists(source):
        shutil.copy(source, os.path.join(folder, "model.onnx"))
        return True
    return False


def input_names(path):
    """Inputs that the exported file kept, in its order: a dead one is dropped by the exporter."""
    import onnx
    graph = onnx.load(path, load_external_data=False).graph
    weights = {t.name for t in graph.initializer}
    return [i.name for i in graph.input if i.name not in weights]


def save_tensors(module, path):
    import torch
    named = dict(module.named_parameters(remove_duplicate=False))
    named.update(module.named_buffers(remove_duplicate=False))
    torch.save({k: v.detach() for k, v in named.items()}, path)


def prepare(row, folder, given):
    case = row.make()
    module = case.export or case.model
    inputs = [as_tensor(x) for x in case.inputs]
    for p in module.parameters():
        p.requires_grad_(row.is_step)
    spec = dict(name=row.name, key=key_of())
    spec["inputs"] = [dict(write_tensor(x, os.path.join(folder, f"in_{i}.bin")), name=n)
                      for i, (n, x) in enumerate(zip(case.names, inputs))]
    save_tensors(module, os.path.join(folder, "tensors.pt"))
    if case.teacher:
        import gen_train
        save_tensors(case.teacher, os.path.join(folder, "teacher.pt"))
        gen_train.export_teacher(case.teacher, inputs[0], os.path.join(folder, "teacher.onnx"))
        spec["teacher"], spec["train_options"] = "teacher.onnx", gen_train.TEACHER_OPTIONS
    try:
        if not given_model(getattr(row.make, "registry", ""), folder, given):
            export(case, module, inputs, os.path.join(folder, "model.onnx"), case.dynamo, row.is_step)
        spec["onnx"] = best_for_ort(row, case, folder, feed_of(case), inputs)
        spec["onnx_inputs"] = input_names(os.path.join(folder, "model.onnx"))
    except Exception as error:
        if not row.stir:
            raise
        spec["onnx_error"] = str(error)[:300]
    if row.stir:
        write_twin(row, module, folder)
    spec["model"] = twin_of(row) + ".stir" if row.stir else "model.onnx"
    spec["outputs"] = [write_tensor(y, os.path.join(folder, f"want_{k}.bin"))
                       for k, y in enumerate(reference(row, case, folder, feed_of(case)))]
    spec["flops"] = count_flops(case, module, inputs, row.is_step)
    spec["weight_bytes"] = weight_bytes(module)
    spec["io_bytes"] = sum(t.numel() * t.element_size() for t in inputs) + sum(
        os.path.getsize(os.path.join(folder, o["file"])) for o in spec["outputs"])
    spec["live_peak_bytes"] = 0 if row.is_step else live_peak(module, inputs)
    spec["model_bytes"] = os.path.getsize(os.path.join(folder, "tensors.pt"))
    return spec


def main():
    name, out = sys.argv[1], sys.argv[2]
    given = sys.argv[3] if len(sys.argv) > 3 else None
    folder = os.path.join(out, name)
    path = os.path.join(folder, "spec.json")
    if os.path.exists(path):
        with open(path) as f:
            if json.load(f).get("key") == key_of():
                return
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    spec = prepare(cases.find(name), folder, given)
    with open(path + ".part", "w") as f:
        json.dump(spec, f, indent=1)
    os.replace(path + ".part", path)


if __name__ == "__main__":
    main()
