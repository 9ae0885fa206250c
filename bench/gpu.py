"""A GPU backend beside PyTorch on the same device, in one run: gpu.py OUT.json [--backend cuda] [NAME...]

A row is a graph of bench/gpu, or a model of models.tar.xz with weights made from seeds, and the same
in torch: eager and torch.compile. They take turns, a round
of each, so that a device that gets slower gets slower for all; a round is as many calls as fill its
time and a wait for the last; medians of the rounds. A torch that is not there leaves its columns out.
Besides the times: bytes a second as a fraction of the row `copy`, FLOP/s of products, and torch's
best time by Stator's. A row that is named brings `copy` with it. --small shrinks every graph and takes
a small model, for the software device; its times say nothing.
"""
import argparse
import functools
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import device_models

try:
    import torch
    HAVE_TORCH = torch.cuda.is_available()
except ImportError:
    HAVE_TORCH = False

HERE = os.path.dirname(os.path.abspath(__file__))
ROUNDS = 7
ROUND_S = 0.12
CALLS_MAX = 20000
KEPT = ("device", "compile_ms", "bytes_in", "bytes_out", "copies", "waits", "bits", "parts")  # of gpu_bench


def rand(*shape, dtype="float32"):
    return torch.rand(*shape, device="cuda", dtype=torch.float32).mul_(2).sub_(1).to(getattr(torch, dtype))


def gelu_layer_norm(x, w):
    return torch.nn.functional.layer_norm(torch.nn.functional.gelu(x), (x.shape[-1],), w, w)


def layer_norm(x, w):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, w)


LOOPS = ("--option", "contractions=loops")  # generated kernels in place of a library
TF32 = (*LOOPS, "--option", "matmul=tf32")


def in_tf32(fn):
    """The function with products of f32 by TF32."""
    def run(*arguments):
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return fn(*arguments)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = False
    return run


def places(r, n):
    """Indices of n elements, from numbers."""
    index = (torch.sin(r) * (n // 2 - 1)).long()
    return torch.where(index < 0, index + n, index)


# name: graph, what torch computes, its arguments, modes of torch.compile, floating-point operations and
# options of gpu_bench, where it has any
ROWS = {
    "copy": ("copy_f32", lambda x: -x, lambda: (rand(1 << 28),), ("default",), 0),
    "sin2cos2_2e28": ("sin2cos2", lambda x: torch.sin(x)**2 + torch.cos(x)**2, lambda: (rand(1 << 28),),
                      ("default",), 0),
    "softmax_bf16": ("softmax_bf16", lambda x: torch.softmax(x, -1),
                     lambda: (rand(16384, 8192, dtype="bfloat16"),), ("default",), 0),
    "gelu_layer_norm_bf16": ("gelu_layer_norm_bf16", gelu_layer_norm,
                             lambda: (rand(16384, 8192, dtype="bfloat16"), rand(8192, dtype="bfloat16")),
                             ("default",), 0),
    "sum_columns": ("sum_columns", lambda x: x.sum(0), lambda: (rand(16384, 8192),), ("default",), 0),
    "sum_whole": ("sum_whole", lambda x: x.sum(), lambda: (rand(1 << 28),), ("default",), 0),
    "sum_tall": ("sum_tall", lambda x: x.sum(0), lambda: (rand(1 << 22, 16),), ("default",), 0),
    "sum_few_rows": ("sum_few_rows", lambda x: x.sum(1), lambda: (rand(16, 1 << 24),), ("default",), 0),
    "max_middle": ("max_middle", lambda x: x.amax(1), lambda: (rand(256, 4096, 64),), ("default",), 0),
    "softmax_32": ("softmax_32", lambda x: torch.softmax(x, -1), lambda: (rand(1 << 20, 32),), ("default",), 0),
    "softmax_100": ("softmax_100", lambda x: torch.softmax(x, -1), lambda: (rand(1 << 19, 100),), ("default",), 0),
    "layer_norm_32": ("layer_norm_32", layer_norm, lambda: (rand(1 << 20, 32), rand(32)), ("default",), 0),
    "layer_norm_768": ("layer_norm_768", layer_norm, lambda: (rand(1 << 16, 768), rand(768)), ("default",), 0),
    "permute_8192": ("permute_8192", lambda x: x.t().contiguous(), lambda: (rand(8192, 8192),), ("default",), 0),
    "permute_8192_bf16": ("permute_8192_bf16", lambda x: x.t().contiguous(),
                          lambda: (rand(8192, 8192, dtype="bfloat16"),), ("default",), 0),
    "sin_scalar": ("sin_scalar", lambda x: torch.sin(x) + torch.cos(x), lambda: (rand(1)[0],),
                   ("default", "reduce-overhead"), 0),
    "cumsum_rows": ("cumsum_rows", lambda x: x.cumsum(1), lambda: (rand(4096, 4096),), ("default",), 0),
    "cumsum_columns": ("cumsum_columns", lambda x: x.cumsum(0), lambda: (rand(4096, 4096),), ("default",), 0),
    "cumsum_long": ("cumsum_long", lambda x: x.cumsum(0), lambda: (rand(1 << 24),), ("default",), 0),
    "sort_1m": ("sort_1m", lambda x: torch.sort(x, stable=True), lambda: (rand(1 << 20),), (), 0),
    "topk_logits": ("topk_logits", lambda x: torch.topk(x, 50), lambda: (rand(32, 50257),), (), 0),
    "nonzero": ("nonzero", lambda x: torch.round(x * 0.6).nonzero(), lambda: (rand(1 << 24),), (), 0),
    "unique": ("unique", lambda x: torch.unique(torch.round(x * 1000), return_inverse=True, return_counts=True),
               lambda: (rand(1 << 20),), (), 0),
    "scatter_add": ("scatter_add", lambda x, r, u: x.index_add(0, places(r, 1 << 20), u),
                    lambda: (rand(1 << 20), rand(1 << 20), rand(1 << 20)), ("default",), 0),
    "scatter_last": ("scatter_last", lambda x, r, u: x.scatter(0, places(r, 1 << 20), u),
                     lambda: (rand(1 << 20), rand(1 << 20), rand(1 << 20)), ("default",), 0),
    # Both write a row of each head into the cache where it lies.
    "cache_row": ("cache_row", lambda c, r, u: (c.index_copy_(2, (torch.sin(r)**2 * 63).long().view(1), u), -u)[1],
                  lambda: (rand(8, 32, 4096, 128), rand(1, 1, 1, 1), rand(8, 32, 1, 128)), ("default",), 0),
    "gemm_f32": ("gemm_f32", lambda a, b: a @ b, lambda: (rand(4096, 4096), rand(4096, 4096)), (), 2 * 4096**3),
    "gemm_bf16": ("gemm_bf16", lambda a, b: a @ b,
                  lambda: (rand(4096, 4096, dtype="bfloat16"), rand(4096, 4096, dtype="bfloat16")), (),
                  2 * 4096**3),
    "gemm_f32_loops": ("gemm_f32", lambda a, b: a @ b, lambda: (rand(4096, 4096), rand(4096, 4096)), (),
                       2 * 4096**3, LOOPS),
    "gemm_bf16_loops": ("gemm_bf16", lambda a, b: a @ b,
                        lambda: (rand(4096, 4096, dtype="bfloat16"), rand(4096, 4096, dtype="bfloat16")), (),
                        2 * 4096**3, LOOPS),
    "gemm_bf16_8192_loops": ("gemm_bf16_8192", lambda a, b: a @ b,
                             lambda: (rand(8192, 768, dtype="bfloat16"), rand(768, 3072, dtype="bfloat16")), (),
                             2 * 8192 * 3072 * 768, LOOPS),
    "gemm_f32_tf32_loops": ("gemm_f32", in_tf32(lambda a, b: a @ b), lambda: (rand(4096, 4096), rand(4096, 4096)), (),
                            2 * 4096**3, TF32),
    "conv_tf32_loops": ("conv_f32", in_tf32(lambda x, w: torch.nn.functional.conv2d(x, w, padding=1)),
                        lambda: (rand(16, 64, 56, 56), rand(64, 64, 3, 3)), (), 2 * 16 * 56**2 * 64**2 * 9, TF32),
}


def matmul_row(graph, a, b, dtype="float32", options=()):
    """A product; b is what torch gets."""
    return (graph, lambda a, b: a @ b, lambda: (rand(*a, dtype=dtype), rand(*b[:2], dtype=dtype).t() if b[2:] else
                                                rand(*b, dtype=dtype)),
            (), 2 * a[0] * a[1] * (b[0] if b[2:] else b[1]), options)


def conv_row(graph, x, w, stride, pad, groups=1):
    size = [(n + 2 * pad - k) // stride + 1 for n, k in zip(x[2:], w[2:])]
    return (graph, lambda x, w: torch.nn.functional.conv2d(x, w, None, stride, pad, 1, groups),
            lambda: (rand(*x), rand(*w)), (), 2 * x[0] * w[0] * size[0] * size[1] * w[1] * w[2] * w[3])


# Products of few rows or columns, and convolutions: generated kernels beside cuBLAS and cuDNN (TF32).
SKINNY = {
    "skinny_8": ((8, 768), (768, 3072)), "skinny_1": ((1, 4096), (4096, 4096)),
    "skinny_8_bf16": ((8, 4096), (4096, 4096), "bfloat16"), "skinny_16_nt": ((16, 4096), (4096, 4096, "t")),
    "skinny_columns_8": ((65536, 768), (768, 8)),
}
for name, arguments in SKINNY.items():
    ROWS[name] = matmul_row(name, *arguments)
    ROWS[name + "_loops"] = matmul_row(name, *arguments, options=LOOPS)
ROWS.update({
    "conv_3x3": conv_row("conv_3x3", (16, 64, 56, 56), (64, 64, 3, 3), 1, 1),
    "conv_7x7": conv_row("conv_7x7", (16, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    "conv_1x1": conv_row("conv_1x1", (16, 256, 14, 14), (1024, 256, 1, 1), 1, 0),
    "conv_small": conv_row("conv_small", (16, 512, 7, 7), (512, 512, 3, 3), 1, 1),
    "conv_depthwise": conv_row("conv_depthwise", (16, 256, 28, 28), (256, 1, 3, 3), 1, 1, 256),
    "conv_depthwise_7": conv_row("conv_depthwise_7", (16, 96, 56, 56), (96, 1, 7, 7), 1, 3, 96),
    "conv_depthwise_stride": conv_row("conv_depthwise_stride", (16, 192, 56, 56), (192, 1, 5, 5), 2, 2, 192),
    "max_pool": ("max_pool", lambda x: torch.nn.functional.max_pool2d(x, 3, 2, 1), lambda: (rand(16, 64, 112, 112),),
                 ("default",), 0),
    "conv_grouped": conv_row("conv_grouped", (16, 128, 28, 28), (128, 4, 3, 3), 1, 1, 32),
})


def mlp():
    linear, relu = torch.nn.Linear, torch.nn.ReLU
    layers = torch.nn.Sequential(linear(1024, 1024), relu(), linear(1024, 1024), relu(), linear(1024, 10))
    return layers.cuda().eval(), (rand(1024, 1024),)


def resnet18(batch):
    import torchvision
    return torchvision.models.resnet18().cuda().eval(), (rand(batch, 3, 224, 224),)


def vit_b16():
    import timm
    return timm.create_model("vit_base_patch16_224", pretrained=False).cuda().eval(), (rand(1, 3, 224, 224),)


def bert(batch, length):
    import transformers
    model = transformers.BertModel(transformers.BertConfig()).cuda().eval()
    ids = torch.randint(0, 30000, (batch, length), device="cuda")
    return lambda ids, mask: model(input_ids=ids, attention_mask=mask)[0], (ids, torch.ones_like(ids))


# name: model of models.tar.xz, what makes torch's model and its arguments, modes of torch.compile.
# All in f32 without TF32, which is torch's default.
MODELS = {
    "mlp_fp32": ("mlp_bs1024", mlp, ("default", "reduce-overhead", "max-autotune")),
    "resnet18_fp32": ("resnet18_bs16", lambda: resnet18(16), ("default", "reduce-overhead")),
    "resnet18_1_fp32": ("resnet18_bs1", lambda: resnet18(1), ("default", "reduce-overhead")),
    "bert_1x8_fp32": ("bert_base_seq8", lambda: bert(1, 8), ("default", "reduce-overhead")),
    "bert_1x128_fp32": ("bert_base_seq128", lambda: bert(1, 128), ("default", "reduce-overhead")),
    "vit_1_fp32": ("vit_b16", vit_b16, ("default", "reduce-overhead")),
}
SMALL_MODEL = "lstm_char_state"


class Stator:
    """gpu_bench as a subject: rounds as they are asked for."""

    def __init__(self, command, graph, options):
        self.process = subprocess.Popen([command, graph, "--ask", *options], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        first = self.process.stdout.readline().split()
        if not first:
            raise RuntimeError(self.process.stderr.read().strip()[-400:])
        self.first_ms = float(first[1])

    def round(self, calls):
        self.process.stdin.write("%d\n" % calls)
        self.process.stdin.flush()
        return float(self.process.stdout.readline())

    def end(self):
        answer, _ = self.process.communicate()
        return json.loads(answer.splitlines()[-1])


class Torch:
    def __init__(self, function, arguments, mode):
        torch._dynamo.reset()
        self.function = function if mode == "eager" else torch.compile(function, mode=mode)
        self.arguments = arguments
        start = time.perf_counter()
        with torch.no_grad():
            self.function(*arguments)
            torch.cuda.synchronize()
            self.first_ms = (time.perf_counter() - start) * 1e3
            for _ in range(3):
                self.function(*arguments)
        torch.cuda.synchronize()

    def round(self, calls):
        torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.no_grad():
            for _ in range(calls):
                self.function(*self.arguments)
        torch.cuda.synchronize()
        return (time.perf_counter() - start) * 1e3 / calls

    def end(self):
        return {}


def shrink(path, folder):
    """The graph with every size from 4,096 on as 64."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    small = os.path.join(folder, os.path.basename(path))
    with open(small, "w", encoding="utf-8") as file:
        file.write(re.sub(r"\b\d{4,}\b", "64", text))
    return small


def make_model(model, options, folder):
    """The path of a model whose weights are there."""
    source = device_models.unpack(options.models, os.path.join(folder, "packed"))
    target = os.path.join(folder, model)
    if not os.path.exists(target):
        shutil.copytree(os.path.join(source, model), target)
        with open(os.path.join(target, "made.json"), encoding="utf-8") as file:
            device_models.make(target, model, json.load(file))
    return os.path.join(target, "model.onnx")


def make_stator(name, options, folder):
    extra = ["--backend", options.backend]
    if name in MODELS:
        path = make_model(SMALL_MODEL if options.small else MODELS[name][0], options, folder)
        return Stator(options.command, path, [*extra, "--integers", "2"])
    path = os.path.join(HERE, "gpu", ROWS[name][0] + ".stir")
    options_of_row = ROWS[name][5] if len(ROWS[name]) > 5 else ()
    return Stator(options.command, shrink(path, folder) if options.small else path, [*extra, *options_of_row])


def make_subjects(name, options, folder):
    """By name a subject, or the sentence of its failure."""
    makers = {"stator": lambda: make_stator(name, options, folder)}
    if HAVE_TORCH:
        made = functools.cache(MODELS[name][1] if name in MODELS else lambda: (ROWS[name][1], ROWS[name][2]()))
        for mode in ("eager", *(MODELS[name][2] if name in MODELS else ROWS[name][3])):
            makers["torch " + mode] = lambda mode=mode: Torch(*made(), mode)
    subjects, errors = {}, {}
    for subject, maker in makers.items():
        try:
            subjects[subject] = maker()
        except Exception as error:  # one subject that fails is said in its row
            errors[subject] = str(error)[:400]
    return subjects, errors


def take_turns(subjects, errors):
    """Milliseconds of a call in each round, by subject."""
    calls, times = {}, {name: [] for name in subjects}
    for round_ in range(-1, ROUNDS):
        for name in list(subjects):
            try:
                ms = subjects[name].round(calls.get(name, 3))
            except Exception as error:
                errors[name] = str(error)[:400]
                del subjects[name]
                continue
            if round_ < 0:
                calls[name] = max(1, min(CALLS_MAX, int(ROUND_S * 1e3 / max(ms, 1e-6))))
            else:
                times[name].append(ms)
    return times


def measure(name, options, folder):
    subjects, errors = make_subjects(name, options, folder)
    times = take_turns(subjects, errors)
    row = {"name": name, "ms": {}, "min_ms": {}, "first_ms": {}, "errors": errors}
    for subject, object_ in subjects.items():
        row["ms"][subject] = statistics.median(times[subject])
        row["min_ms"][subject] = min(times[subject])
        row["first_ms"][subject] = object_.first_ms
        facts = object_.end()
        row.update({key: facts[key] for key in KEPT if key in facts})
    return row


def judge(row, copy_rate):
    """Ratios, and the row as a line of text."""
    stator = row["ms"].get("stator")
    peers = {name: ms for name, ms in row["ms"].items() if name != "stator"}
    words = ["%-22s" % row["name"]] + ["%s %.4f ms" % item for item in row["ms"].items()]
    if stator and row["name"] in ROWS:
        row["bytes_per_s"] = (row["bytes_in"] + row["bytes_out"]) / stator * 1e3
        words.append("%.3f TB/s" % (row["bytes_per_s"] * 1e-12))
        if copy_rate:
            row["of_copy"] = row["bytes_per_s"] / copy_rate
            words.append("%.2f of copy" % row["of_copy"])
        flops = ROWS[row["name"]][4]
        if flops:
            row["flops_per_s"] = flops / stator * 1e3
            words.append("%.1f TFLOP/s" % (row["flops_per_s"] * 1e-12))
    if stator and peers:
        row["torch_by_stator"] = min(peers.values()) / stator
        words.append("torch's best / Stator %.2f" % row["torch_by_stator"])
    words += ["%s: %s" % item for item in row["errors"].items()]
    row["text"] = "  ".join(words)


def read_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out")
    parser.add_argument("names", nargs="*", help=", ".join([*ROWS, *MODELS]) + "; streaming, models")
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--command", default=os.path.join(HERE, "..", "bin", "gpu_bench"))
    parser.add_argument("--models", default=os.path.join(HERE, "..", "models.tar.xz"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    sets = {"streaming": list(ROWS), "models": list(MODELS)}
    options.names = [name for named in options.names or sets for name in sets.get(named, [named])]
    unknown = [name for name in options.names if name not in ROWS and name not in MODELS]
    if unknown:
        parser.error("no row '%s'; rows: %s" % (unknown[0], ", ".join([*ROWS, *MODELS])))
    if "copy" not in options.names and any(name in ROWS for name in options.names):
        options.names.insert(0, "copy")
    if not os.path.exists(options.models):
        options.names = [name for name in options.names if name in ROWS]
    return options


def main():
    options = read_arguments()
    result = {"rows": [], "torch": torch.__version__ if HAVE_TORCH else None,
              "gpu": torch.cuda.get_device_name(0) if HAVE_TORCH else None}
    copy_rate = None
    with tempfile.TemporaryDirectory() as folder:
        for name in options.names:
            row = measure(name, options, folder)
            judge(row, copy_rate)
            if name == "copy":
                copy_rate = row.get("bytes_per_s")
            result["rows"].append(row)
            print(row["text"], flush=True)
            with open(options.out, "w", encoding="utf-8") as file:
                json.dump(result, file, indent=1)
            if HAVE_TORCH:
                torch.cuda.empty_cache()
    return 1 if any("stator" in row["errors"] for row in result["rows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
