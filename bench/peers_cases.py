"""The workloads of bench/peers.py: what each computes, its inputs, what it must reach, what bounds it.

A workload is a row of CASES. `make` gives its PyTorch side as a Case; everything else about it is data that
needs no PyTorch, so that the program that steers the run imports none. Models come from
tests/conformance/gen_models.py, with weights drawn from seeds; small kernels have their twin in
bench/models/<name>.stir, which is what Stator then runs."""
import os
import sys
from dataclasses import dataclass, field

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


@dataclass
class Row:
    """One workload. group: `main` rows count in the geometric mean, `apart` and `more` are reported beside it.
    goal: ratio against the best peer, (peers as they come, peers with a tuned allocator). limit: the figure of
    bench/limits that binds, with its goal as a fraction; without one the larger of flops and bytes binds; `none`:
    what binds is not measured."""
    name: str
    make: object
    group: str = "more"
    goal: tuple = (1.0, 1.0)
    limit: str = ""
    limit_goal: float = 0.0
    stir: bool = False
    flops_of: str = "fma_f32"
    rtol: float = 1e-4
    atol: float = 2e-4          # times the root mean square of the expected output
    reference: str = "torch"    # or "ort": no PyTorch program computes the same function
    without: tuple = ()         # peers that have nothing to run here
    alternatives: tuple = ()    # other exports; ONNX Runtime gets the one that is fastest for it
    options: tuple = ()         # of Stator's backend, KEY=VALUE
    twin: str = ""              # whose .stir it is, when not its own
    vision: bool = False        # timm or transformers builds it; both import torchvision
    is_step: bool = False       # a step of training: forward, backward, AdamW; its output is the loss
    amp: str = ""               # dtype of a step's products: mixed precision, PyTorch's by torch.autocast


@dataclass
class Case:
    """The PyTorch side: a module or function, its inputs, and how it is exported."""
    model: object
    inputs: list
    names: list
    outputs: list
    opset: int = 17
    dynamo: bool = False
    export: object = None       # a module to export when `model` is a plain function
    flops: float = 0.0          # where the counter does not know the ops
    variants: dict = field(default_factory=dict)
    rewrite: object = None      # turns the exported file into the one that is run
    teacher: object = None      # of a training step


def models():
    """gen_models, without the onnx package when the process only runs PyTorch (its memory is measured)."""
    path = os.path.join(ROOT, "tests", "conformance")
    if path not in sys.path:
        sys.path.insert(0, path)
    import gen_models
    return gen_models


def pretend(name, **attributes):
    """A package that is not imported for real: it only takes memory where memory is measured."""
    import importlib.machinery
    import types
    module = types.ModuleType(name)
    module.__spec__ = importlib.machinery.ModuleSpec(name, None)
    module.__dict__.update(attributes)
    sys.modules.setdefault(name, module)


def import_vision():
    """torchvision has no build for PyTorch without CUDA; its Python part works while the result is held, which brings
    two names."""
    import torch
    ops = torch.library.Library("torchvision", "DEF")
    for op in ("nms", "qnms"):
        ops.define(op + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    import torchvision  # noqa: F401
    return ops


def skeleton(row):
    """The Case of a row with a module that has no values, on the meta device: a worker reads parameters and inputs
    from files, and its memory is measured, so nothing else may take any. Changes this process for good."""
    import types

    import torch
    pretend("onnx", numpy_helper=None, TensorProto=None)
    if row.vision:
        row.kept = import_vision()
    else:
        pretend("torchvision")
    g = models()
    for made in (g, g.L):
        made.seeded_init = lambda model, *a, **k: model
        made.calibrate_bn = lambda model, *a, **k: model.eval()
        made.randn = lambda *shape, **k: torch.empty(shape)
        made.randint = lambda lo, hi, shape, key: torch.empty(shape, dtype=torch.int64)
    if row.name == "minilm_4":
        import safetensors.torch
        safetensors.torch.load_file = lambda *a, **k: {}
        nothing = types.SimpleNamespace(missing_keys=[], unexpected_keys=[])
        torch.nn.Module.load_state_dict = lambda *a, **k: nothing
    with torch.device("meta"):
        return row.make()


def of_registry(name, which=0, flops=0.0):
    def make():
        d = models().REG[name][0]()
        return Case(d["model"].eval(), list(d["sets"][which]), d["inputs"], d["outputs"], d["opset"],
                    bool(d.get("dynamo")), flops=flops)
    make.registry = name
    return make


def sin_cos(*shape):
    def make():
        import torch
        g = models()

        class SinCos(torch.nn.Module):
            def forward(self, x):
                return torch.sin(x) + torch.cos(x)

        class Squares(torch.nn.Module):
            def forward(self, x):
                return torch.sin(x) ** 2 + torch.cos(x) ** 2
        model = Squares() if shape else SinCos()
        return Case(model, [g.randn(*(shape or (1,)), key=("sincos", *shape)).reshape(shape)], ["x"], ["y"])
    return make


def softmax():
    import torch
    g = models()

    class Softmax(torch.nn.Module):
        def forward(self, x):
            return torch.softmax(x, -1)
    return Case(Softmax(), [g.randn(4096, 4096, key=("softmax",))], ["x"], ["y"])


def gelu_layernorm():
    import torch
    g = models()

    class GeluNorm(torch.nn.Module):
        def forward(self, x, w):
            return torch.nn.functional.layer_norm(torch.nn.functional.gelu(x), (4096,), w, w)
    return Case(GeluNorm(), [g.randn(4096, 4096, key=("gelu",)), g.randn(4096, key=("w",))], ["x", "w"], ["y"])


def mlp():
    g = models()
    model = g.seeded_init(g.SimpleModel(), "mlp", linear_gain=2 ** 0.5)
    return Case(model.eval(), [g.randn(1024, 1024, key=("mlp",))], ["x"], ["y"])


def mlp_int8():
    """Weights as signed bytes, activations quantised at each call: DynamicQuantizeLinear and MatMulInteger."""
    def rewrite(source, target):
        from onnxruntime.quantization import QuantType, quantize_dynamic
        quantize_dynamic(source, target, weight_type=QuantType.QInt8)
    case = mlp()
    case.rewrite = rewrite
    return case


def resnet_int8():
    """Convolutions on bytes: QuantizeLinear and DequantizeLinear around each op, scales from three random pictures."""
    def rewrite(source, target):
        from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
        g = models()

        class Pictures(CalibrationDataReader):
            def __init__(self):
                self.left = [{"x": g.randn(1, 3, 224, 224, key=("r18cal", i)).numpy()} for i in range(3)]

            def get_next(self):
                return self.left.pop() if self.left else None
        quantize_static(source, target, Pictures(), quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8,
                        weight_type=QuantType.QInt8)
    case = of_registry("resnet18_bs1")()
    case.rewrite = rewrite
    return case


def in_bf16(make):
    def made():
        case = make()
        case.model = case.model.bfloat16()
        case.inputs = [x.bfloat16() if x.is_floating_point() else x for x in case.inputs]
        return case
    return made


def resnet_b16():
    case = of_registry("resnet18_bs16")()
    case.dynamo, case.opset = False, 17
    return case


class _Weighted:
    """Modules of one weight, made when PyTorch is there."""
    @staticmethod
    def gemm():
        import torch
        g = models()

        class Gemm(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(g.randn(1024, 1024, key=("gemm", "w"), std=1 / 32), requires_grad=False)

            def forward(self, x):
                return x @ self.w
        return Case(Gemm(), [g.randn(1024, 1024, key=("gemm", "x"))], ["x"], ["y"])

    @staticmethod
    def conv():
        import torch
        g = models()

        class Conv(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(g.randn(64, 64, 3, 3, key=("conv", "w"), std=1 / 24), requires_grad=False)

            def forward(self, x):
                return torch.nn.functional.conv2d(x, self.w, padding=1)
        return Case(Conv(), [g.randn(16, 64, 56, 56, key=("conv", "x"))], ["x"], ["y"])


def numpy_columns(X, Y):
    """The NumPy program of the numpy_fn rows; PyTorch eager has no part in it, NumPy itself runs it."""
    import numpy as np
    X_mean, X_std, Y_mean, Y_std = X.mean(axis=0), X.std(axis=0), Y.mean(axis=0), Y.std(axis=0)
    X_std[X_std == 0] = 1
    Y_std[Y_std == 0] = 1
    Xn, Yn = (X - X_mean) / X_std, (Y - Y_mean) / Y_std
    r = np.exp(np.clip(np.sum(Xn[:, :, None] * Yn[:, None, :], axis=(-2, -1)), -1, 1))
    return r + 0.001 * np.sum(Xn ** 2 + Yn ** 2, axis=1)


def numpy_fn():
    import numpy as np
    import torch

    class Columns(torch.nn.Module):
        def forward(self, x, y):
            def unit(v):
                s = v.std(dim=0, correction=0)
                return (v - v.mean(dim=0)) / torch.where(s == 0, torch.ones_like(s), s)
            a, b = unit(x), unit(y)
            r = torch.exp(torch.clamp((a[:, :, None] * b[:, None, :]).sum((-2, -1)), -1, 1))
            return r + 0.001 * (a ** 2 + b ** 2).sum(1)
    draw = np.random.default_rng(7)
    inputs = [draw.standard_normal((1024, 640)) for _ in range(2)]
    return Case(numpy_columns, inputs, ["x", "y"], ["r"], export=Columns())


def bert(batch, seq):
    def make():
        import torch
        g = models()    # first: it makes torchvision importable
        from transformers import BertConfig, BertModel

        class Encoder(torch.nn.Module):
            def __init__(self, attention):
                super().__init__()
                self.m = BertModel(BertConfig(attn_implementation=attention), add_pooling_layer=False)

            def forward(self, ids, mask):
                return self.m(input_ids=ids, attention_mask=mask)[0]
        ids = g.randint(0, 30000, (batch, seq), ("bert", batch, seq))
        return Case(g.seeded_init(Encoder("sdpa"), "bert").eval(), [ids, torch.ones_like(ids)], ["ids", "mask"],
                    ["y"], variants={"eager attention": lambda: g.seeded_init(Encoder("eager"), "bert").eval()})
    return make


def llama_wide():
    """One token of a 90-million-weight decoder against 255 past ones: weights stream from memory."""
    import torch
    g = models()
    model = g.seeded_init(g.Llama(V=8000, d=1024, h=16, kv=4, f=2816, n=8), "llamawide")
    past, width = 255, 64
    inputs = [g.randint(0, 8000, (1, 1), ("lw",)), torch.tensor([[past]]), torch.zeros(1, 1, 1, past + 1)]
    inputs += [g.randn(1, 4, past, width, key=("lw", i)) for i in range(16)]
    names = ["ids", "pos", "mask"] + [f"p{kind}{i}" for i in range(8) for kind in "kv"]
    return Case(model.eval(), inputs, names, ["logits"] + [f"{kind}{i}" for i in range(8) for kind in "kv"])


def lstm_flops(seq, batch, sizes, hidden, both):
    """Multiply-adds of an LSTM's gates, twice."""
    return sum(2.0 * seq * batch * 4 * hidden * (size + hidden) * (2 if both else 1) for size in sizes)


def step(name):
    """A training step of a network of gen_train.py."""
    def make():
        models()
        import gen_train
        build, rows, batch, input_name = (gen_train.CASES | gen_train.WHOLE)[name]
        x, target = rows(batch, name)
        teacher = gen_train.TEACHERS[name]().eval() if name in gen_train.TEACHERS else None
        return Case(build().train(), [x, target], [input_name, "target"], ["loss"], teacher=teacher)
    return make


ALL = ("eager", "compile", "autotune", "ort", "openvino")
TORCH = ("eager", "compile", "autotune")
STEP = dict(group="train", is_step=True, without=("autotune", "ort", "openvino"), limit="fma_f32")
# The goal is for processors that multiply bf16.
AMP_STEP = STEP | dict(amp="bf16", goal=(1.1, 1.1), limit="dot_bf16", flops_of="dot_bf16", rtol=5e-2, atol=5e-2)
STREAM = dict(group="main", goal=(8.0, 1.8), limit="copy_nt", stir=True)

CASES = [
    Row("sin_scalar", sin_cos(), group="apart", stir=True),
    Row("sin2cos2_1000", sin_cos(1000), group="apart", stir=True),
    Row("sin2cos2_16777216", sin_cos(1 << 24), limit_goal=0.90, **STREAM),
    Row("softmax_4096", softmax, limit_goal=0.90, **STREAM),
    Row("gelu_layernorm_4096", gelu_layernorm, limit_goal=0.70, **STREAM),
    Row("gelu_layernorm_fused", gelu_layernorm, limit="copy_nt", limit_goal=0.85, stir=True,
        options=("inductor-cpu.numerics=fused",), twin="gelu_layernorm_4096"),
    Row("mlp_fp32", mlp, group="main", goal=(1.2, 1.2), limit="fma_f32", stir=True),
    Row("numpy_fn", numpy_fn, group="main", stir=True, rtol=1e-9, atol=1e-9, limit="none", without=("autotune",)),
    Row("resnet18_b1", of_registry("resnet18_bs1"), group="main", goal=(1.3, 1.3), limit="fma_f32"),
    Row("resnet18_b16", resnet_b16, group="main", goal=(1.35, 1.35), limit="fma_f32", limit_goal=1.25),
    Row("bert_1x8", bert(1, 8), group="main", goal=(1.5, 1.5), limit="read_prefetch", limit_goal=0.85,
        alternatives=("eager attention",), vision=True),
    Row("bert_1x128", bert(1, 128), group="main", goal=(1.3, 1.3), limit="fma_f32",
        alternatives=("eager attention",), vision=True),
    Row("bert_8x128", bert(8, 128), group="main", goal=(1.35, 1.35), limit="fma_f32", limit_goal=0.90,
        alternatives=("eager attention",), vision=True),
    Row("vit_b1", of_registry("vit_b16"), group="main", goal=(1.18, 1.18), limit="fma_f32", limit_goal=0.88,
        alternatives=("torchscript",), vision=True),
    Row("gemm_1024", _Weighted.gemm, stir=True, limit="fma_f32", limit_goal=0.94),
    Row("conv_64x56", _Weighted.conv, stir=True, limit="fma_f32"),
    Row("mobilenetv3_b1", of_registry("mobilenetv3_large"), vision=True),
    Row("unet_b1", of_registry("unet_small")),
    Row("minilm_4", of_registry("minilm_real"), vision=True),
    Row("lstm_bi2", of_registry("lstm_bi2", flops=lstm_flops(50, 4, (40, 192), 96, True))),
    Row("lstm_char", of_registry("lstm_char_state", flops=lstm_flops(24, 3, (64,), 128, False))),
    Row("llama_prefill_32", of_registry("llama2l_prefill")),
    Row("llama_decode", of_registry("llama2l_decode_dyn", which=1)),
    Row("llama_decode_wide", llama_wide, limit="read_prefetch"),
    Row("dlrm_256", of_registry("dlrm_gather")),
    Row("gemm_bf16_1024", in_bf16(_Weighted.gemm), stir=True, limit="dot_bf16", flops_of="dot_bf16",
        rtol=2e-2, atol=2e-2),
    Row("conv_bf16_64x56", in_bf16(_Weighted.conv), stir=True, limit="dot_bf16", flops_of="dot_bf16",
        rtol=2e-2, atol=2e-2),
    Row("resnet18_bf16_b16", in_bf16(resnet_b16), flops_of="dot_bf16", rtol=5e-2, atol=5e-2),
    Row("mlp_int8", mlp_int8, flops_of="dot_i8", rtol=0, atol=5e-2, reference="ort", without=TORCH),
    Row("resnet18_int8_b1", resnet_int8, flops_of="dot_i8", rtol=0, atol=2e-1, reference="ort", without=TORCH),
    Row("train_vit", step("vit"), goal=(1.6, 1.6), limit_goal=0.75, vision=True, **STEP),
    Row("train_bert", step("bert"), goal=(1.5, 1.5), vision=True, **STEP),
    Row("train_gpt2", step("gpt2"), goal=(1.5, 1.5), vision=True, **STEP),
    Row("train_resnet18", step("resnet18"), goal=(1.15, 1.15), **STEP),
    Row("train_unet", step("unet"), goal=(1.0, 1.0), **STEP),
    Row("train_lstm", step("lstm"), goal=(1.0, 1.0), **STEP),
    Row("train_vit_b16", step("vit_b16"), vision=True, **STEP),
    Row("train_bert_base", step("bert_base"), vision=True, **STEP),
    Row("train_distill", step("distill"), goal=(1.0, 1.0), **STEP),
    Row("train_vit_bf16", step("vit"), vision=True, **AMP_STEP),
    Row("train_bert_bf16", step("bert"), vision=True, **AMP_STEP),
    Row("train_gpt2_bf16", step("gpt2"), vision=True, **AMP_STEP),
    Row("train_resnet18_bf16", step("resnet18"), **AMP_STEP),
    Row("train_unet_bf16", step("unet"), **AMP_STEP),
    Row("train_lstm_bf16", step("lstm"), **AMP_STEP),
]

# Ours against ours: (name, its f32 twin, goal).
TWINS = [("gemm_bf16_1024", "gemm_1024", 1.9), ("conv_bf16_64x56", "conv_64x56", 1.9),
         ("resnet18_bf16_b16", "resnet18_b16", 1.25)]
QUICK = ("sin2cos2_1000", "softmax_4096", "mlp_fp32", "resnet18_b1")


def find(name):
    for row in CASES:
        if row.name == name:
            return row
    raise KeyError(f"no workload '{name}'; there are: {', '.join(r.name for r in CASES)}")
