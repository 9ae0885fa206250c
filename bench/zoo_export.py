"""Writes one model of bench/zoo_models.py as ONNX files, one a form: zoo_export.py NAME FOLDER FORM...

FOLDER/<form>/model.onnx, and for each call FOLDER/<form>/<sizes>/{in_I.bin, want_I.bin, spec.json} as bench/versus.py
reads them; FOLDER/<form>/skip holds the reason where a form does not apply. Forms:

    static           sizes are numbers, no weight is constant along itself, as after training
    untrained        the same with the weights that PyTorch begins with: biases of 0, statistics of 0 and 1
    script           static, by the exporter of TorchScript
    symbolic         every axis that the module takes in other sizes is a symbol; several calls
    symbolic_script  the same by the exporter of TorchScript
    qdq, dynamic     quantised by ONNX Runtime: statically with a scale a channel, or matrix products of bytes
    int4             weights of matrix products in blocks of 32 values of 4 bits (DequantizeLinear)

PyTorch computes what is expected, of the quantised forms ONNX Runtime without optimisations."""
import inspect
import json
import os
import sys
import warnings

import peers_cases
import zoo_models

warnings.filterwarnings("ignore")
DTYPES = {"float32": "f32", "int64": "i64"}
FORMS = ("static", "untrained", "script", "symbolic", "symbolic_script", "qdq", "dynamic", "int4")
OPSET, INT4_OPSET = 20, 21


class Skip(Exception):
    """A form that this model has not."""


def seed(text):
    import torch
    import zlib
    torch.manual_seed(zlib.crc32(text.encode()))


def as_trained(module):
    """Parameters and statistics that are not all one number: what is 0 or 1 at the start is moved a little."""
    import torch
    for m in module.modules():
        if isinstance(m, torch.nn.modules.batchnorm._BatchNorm):
            m.running_mean.normal_(0, 0.1)
            m.running_var.uniform_(0.7, 1.3)
    with torch.no_grad():
        for p in module.parameters():
            if p.numel() > 1 and bool((p == p.flatten()[0]).all()):
                p.add_(torch.randn_like(p) * 0.05)
    return module


def feeds(model, at):
    seed(str(sorted(at.items())))
    return tuple(zoo_models.values(p, at) for p in model.ports)


def run(module, inputs):
    import torch
    with torch.inference_mode():
        return [t.numpy() for t in (module(*inputs),)]


# ---- symbols ----

def takes(module, model, at):
    try:
        run(module, feeds(model, at))
        return True
    except Exception:       # whatever a module raises for a size that it does not take
        return False


def free_axes(module, model):
    """The named axes that the module takes in another size, by trying."""
    free = [a for a in model.at if a == "B" and takes(module, model, {**model.at, "B": 3})]
    for sizes in model.other:
        if takes(module, model, {**model.at, **sizes}):
            free += [a for a in sizes if a not in free and model.at[a] != sizes[a]]
    return free


def example_sizes(model, free):
    """Sizes to export with: none of the free ones is 1, as exporters take a 1 for a number."""
    at = dict(model.at)
    for sizes in model.other:
        if all(a in free for a in sizes):
            at.update(sizes)
            break
    return {a: max(n, 2) if a in free else n for a, n in at.items()}


# ---- exporters ----

def write_onnx(module, model, at, free, path, script=False, opset=OPSET):
    import torch
    names = [p.name for p in model.ports]
    common = dict(input_names=names, output_names=["out"], opset_version=opset, external_data=False, verbose=False)
    axes = [{k: s for k, s in enumerate(p.sizes) if s in free} for p in model.ports]
    if script:
        common.pop("external_data")
        dynamic = {name: a for name, a in zip(names, axes) if a}
        torch.onnx.export(module, feeds(model, at), path, dynamo=False,
                          dynamic_axes=dict(dynamic, out={0: "B_out"}) if dynamic else None,
                          **dict(common, opset_version=17))
        return
    auto = tuple({k: torch.export.Dim.AUTO for k in a} for a in axes)
    if any(p.kind is p.VAR_POSITIONAL for p in inspect.signature(module.forward).parameters.values()):
        auto = (auto,)      # forward(*tensors) has one argument, a tuple
    torch.onnx.export(module, feeds(model, at), path, dynamo=True, dynamic_shapes=(auto if free else None), **common)


def quantised(form, path, feed):
    """Replaces the file by its quantised form."""
    from onnxruntime.quantization import CalibrationDataReader, QuantType, quantize_dynamic, quantize_static
    from onnxruntime.quantization.shape_inference import quant_pre_process
    plain = path + ".float"
    quant_pre_process(path, plain, skip_symbolic_shape=True)
    if form == "dynamic":
        quantize_dynamic(plain, path, weight_type=QuantType.QInt8)
    else:
        class Once(CalibrationDataReader):
            def __init__(self):
                self.left = [feed]

            def get_next(self):
                return self.left.pop() if self.left else None
        quantize_static(plain, path, Once(), per_channel=True, weight_type=QuantType.QInt8,
                        activation_type=QuantType.QUInt8)
    os.remove(plain)


def int4_weights(path):
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import (DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer,
                                                                 QuantFormat)
    config = DefaultWeightOnlyQuantConfig(block_size=32, is_symmetric=True, quant_format=QuantFormat.QDQ)
    quantizer = MatMulNBitsQuantizer(onnx.load(path), algo_config=config)
    quantizer.process()
    model = quantizer.model.model
    if not any(t.data_type == onnx.TensorProto.INT4 for t in model.graph.initializer):
        raise Skip("no matrix product with a constant weight")
    onnx.save(model, path)


def ort_result(path, feed):
    import onnxruntime as ort
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, feed)


def refuse_own_operators(path):
    """A quantised model of ONNX Runtime's own operators is no model of ONNX."""
    import onnx
    own = sorted({n.op_type for n in onnx.load(path, load_external_data=False).graph.node
                  if n.domain == "com.microsoft"})
    if own:
        raise Skip("ONNX Runtime quantises into operators of its own: " + ", ".join(own))


def refuse_baked_in_sizes(model, path, calls):
    """The exporter of TorchScript writes sizes that the module computes with as numbers: no runtime takes others."""
    for at in calls:
        feed = {p.name: t.numpy() for p, t in zip(model.ports, feeds(model, at))}
        try:
            ort_result(path, feed)
        except Exception as error:      # ONNX Runtime has a class for each of its statuses
            raise Skip(f"ONNX Runtime refuses {label(at)} as well: {' '.join(str(error).split())[:200]}")


# ---- the folders ----

def label(at):
    return "_".join(f"{a}{n}" for a, n in at.items())


def write_call(folder, model, at, inputs, want):
    call = os.path.join(folder, label(at))
    os.makedirs(call, exist_ok=True)
    ports = []
    for i, (port, value) in enumerate(zip(model.ports, inputs)):
        value.numpy().tofile(os.path.join(call, f"in_{i}.bin"))
        ports.append(dict(name=port.name, dtype=DTYPES[str(value.numpy().dtype)], shape=list(value.shape),
                          file=f"in_{i}.bin"))
    outputs = []
    for k, value in enumerate(want):
        value.tofile(os.path.join(call, f"want_{k}.bin"))
        outputs.append(dict(dtype=DTYPES[str(value.dtype)], shape=list(value.shape), file=f"want_{k}.bin"))
    spec = dict(name=model.name, onnx="../model.onnx", onnx_inputs=[p.name for p in model.ports], inputs=ports,
                outputs=outputs)
    with open(os.path.join(call, "spec.json"), "w") as f:
        json.dump(spec, f, indent=1)


def write_form(module, model, form, folder):
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    calls = [dict(model.at)]
    if form.startswith("symbolic"):
        free = free_axes(module, model)
        if not free:
            raise Skip("the module takes one size alone")
        write_onnx(module, model, example_sizes(model, free), free, path, script=form.endswith("script"))
        calls = [at for at in model.calls() if all(n == model.at[a] or a in free for a, n in at.items())]
        if form.endswith("script"):
            refuse_baked_in_sizes(model, path, calls)
    else:
        opset = INT4_OPSET if form == "int4" else OPSET
        write_onnx(module, model, model.at, [], path, script=form == "script", opset=opset)
    by_ort = form in ("qdq", "dynamic", "int4")
    if form == "int4":
        int4_weights(path)
    for at in calls:
        inputs = feeds(model, at)
        feed = {p.name: t.numpy() for p, t in zip(model.ports, inputs)}
        if form in ("qdq", "dynamic"):
            quantised(form, path, feed)
            refuse_own_operators(path)
        write_call(folder, model, at, inputs, ort_result(path, feed) if by_ort else run(module, inputs))


def export(name, root, forms):
    model = zoo_models.MODELS[name]
    model.name = name
    kept = peers_cases.import_vision()  # noqa: F841
    modules = {}
    for form in forms:
        folder = os.path.join(root, form)
        if os.path.exists(os.path.join(folder, "complete")):
            continue
        fresh = form == "untrained"
        if fresh not in modules:
            seed(name)
            module = model.make()
            modules[fresh] = module if fresh else as_trained(module)
        try:
            write_form(modules[fresh], model, form, folder)
        except Skip as why:
            with open(os.path.join(folder, "skip"), "w") as f:
                f.write(str(why))
        except Exception as error:      # an exporter's, of any kind: the form is skipped with its first line
            with open(os.path.join(folder, "skip"), "w") as f:
                f.write(f"{type(error).__name__}: {' '.join(str(error).split())[:200]}")
        open(os.path.join(folder, "complete"), "w").close()


def main():
    unknown = [f for f in sys.argv[3:] if f not in FORMS]
    if unknown:
        sys.exit(f"zoo_export.py: there is no form {', '.join(unknown)}; there are {', '.join(FORMS)}")
    export(sys.argv[1], sys.argv[2], sys.argv[3:])


if __name__ == "__main__":
    main()
