#!/usr/bin/env python3
"""Small ONNX models on which a compiler falls off a cliff: what a stranger's first model has and a tuned benchmark has not.

    gen_cliffs.py OUTDIR [--list]     OUTDIR/<name>/model.onnx, case.json, test_data_set_0/{input,output}_K.pb

Expected values come from ONNX Runtime without optimisations. `stator conform BACKEND --cases OUTDIR` checks a backend;
bench/cliffs.py times each case beside ONNX Runtime. Cases whose names differ in the last word alone (conv_3x3_rand,
conv_3x3_zero, conv_3x3_half) are twins: the same work with other constants."""
import argparse
import json
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

RANDOM = np.random.RandomState(0)
SYMBOL_SIZE = 2     # of a named axis, where a case does not say otherwise
CASES = {}


class Case:
    """A graph under construction. `inputs` maps a name to (dtype, sizes or symbols); `feeds` holds their values."""

    def __init__(self, name, inputs, outputs, feeds, constants, nodes=(), opset=21):
        self.name, self.inputs, self.outputs, self.feeds = name, inputs, outputs, feeds
        self.constants, self.nodes, self.opset = constants, list(nodes), opset
        CASES[name] = self

    def add(self, op, operands, results, **attributes):
        self.nodes.append(helper.make_node(op, operands, results, **attributes))

    def model(self):
        initialisers = []
        for name, value in self.constants.items():
            t = value if isinstance(value, onnx.TensorProto) else numpy_helper.from_array(value, name)
            initialisers.append(t)
        inputs = [helper.make_tensor_value_info(n, dtype, sizes) for n, (dtype, sizes) in self.inputs.items()]
        outputs = [onnx.ValueInfoProto(name=n) for n in self.outputs]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, initialisers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)
        return onnx.shape_inference.infer_shapes(model)


def normal(*sizes):
    return RANDOM.standard_normal(sizes).astype(np.float32)


def of_sizes(sizes):
    return normal(*(d if isinstance(d, int) else SYMBOL_SIZE for d in sizes))


def floats(sizes):
    return TensorProto.FLOAT, sizes


# ---- convolutions and products ----

def bias_twins(n):
    return ("rand", normal(n)), ("zero", np.zeros(n, np.float32)), ("half", np.full(n, 0.5, np.float32))


def convolution(tag, sizes, weight, activation="Identity", **attributes):
    for twin, bias in bias_twins(weight.shape[0]):
        c = Case(f"conv_{tag}_{twin}", {"x": floats(sizes)}, ["y"], {"x": of_sizes(sizes)}, {"w": weight, "b": bias})
        c.add("Conv", ["x", "w", "b"], ["c"], **attributes)
        c.add(activation, ["c"], ["y"])


def convolutions():
    convolution("3x3", [1, 64, 56, 56], normal(64, 64, 3, 3), "Relu", pads=[1] * 4)
    convolution("3x3_batch", ["B", 64, 56, 56], normal(64, 64, 3, 3), "Relu", pads=[1] * 4)
    convolution("1x1", [1, 128, 28, 28], normal(256, 128, 1, 1))
    convolution("depthwise", [1, 64, 112, 112], normal(64, 1, 3, 3), pads=[1] * 4, group=64)


def transposed_and_gemm():
    for twin, bias in bias_twins(64):
        weight = normal(64, 64, 2, 2)
        c = Case(f"conv_transpose_{twin}", {"x": floats([1, 64, 28, 28])}, ["y"], {"x": normal(1, 64, 28, 28)},
                 {"w": weight, "b": bias})
        c.add("ConvTranspose", ["x", "w", "b"], ["y"], strides=[2, 2])
        c = Case(f"gemm_{twin}", {"x": floats([128, 512])}, ["y"], {"x": normal(128, 512)},
                 {"w": normal(512, 512), "b": np.resize(bias, 512)})
        c.add("Gemm", ["x", "w", "b"], ["y"], transB=1)


def chain(tag, sizes, n, kernel, stride, x):
    """n strided convolutions of 64 channels, one behind the other."""
    axes, channels = len(sizes) - 2, 64
    c = Case(f"chain_{tag}", {"x": floats(sizes)}, ["y"], {"x": x}, {})
    value, width = "x", sizes[1]
    for i in range(n):
        weight = normal(channels, width, *[kernel] * axes) / np.float32(np.sqrt(width * kernel))
        c.constants.update({f"w{i}": weight, f"b{i}": normal(channels)})
        c.add("Conv", [value, f"w{i}", f"b{i}"], [f"c{i}"], strides=[stride] * axes)
        c.add("Relu", [f"c{i}"], [f"a{i}"])
        value, width = f"a{i}", channels
    c.add("Identity", [value], ["y"])


def chains():
    chain("1d_time", ["B", 64, "T"], 7, 3, 2, normal(1, 64, 8000))
    chain("1d_narrow", ["B", 64, "T"], 7, 2, 2, normal(2, 64, 4000))
    chain("2d_size", ["B", 3, "H", "W"], 6, 3, 2, normal(1, 3, 512, 384))


# ---- attention ----

def attention(tag, sizes, via_convolution):
    """[B, 256, H, W] as tokens, four heads of 64."""
    width, heads = 256, 4
    c = Case(f"attention_{tag}", {"x": floats(sizes)}, ["y"], {"x": normal(1, 256, 24, 32)}, {
        "wq": normal(width, width) / 16, "wk": normal(width, width) / 16, "wv": normal(width, width) / 16,
        "to_tokens": np.array([0, width, -1]), "to_heads": np.array([0, -1, heads, width // heads]),
        "from_heads": np.array([0, -1, width]), "scale": np.array(0.125, np.float32)})
    if via_convolution:
        c.constants.update(cw=normal(width, width, 1, 1) / 16, cb=normal(width))
        c.add("Conv", ["x", "cw", "cb"], ["xc"])
    c.add("Reshape", ["xc" if via_convolution else "x", "to_tokens"], ["t0"])
    c.add("Transpose", ["t0"], ["t"], perm=[0, 2, 1])
    for a in "qkv":
        c.add("MatMul", ["t", "w" + a], [a + "0"])
        c.add("Reshape", [a + "0", "to_heads"], [a + "1"])
        c.add("Transpose", [a + "1"], [a], perm=[0, 2, 3, 1] if a == "k" else [0, 2, 1, 3])
    c.add("MatMul", ["q", "k"], ["s"])
    c.add("Mul", ["s", "scale"], ["scaled"])
    c.add("Softmax", ["scaled"], ["p"], axis=-1)
    c.add("MatMul", ["p", "v"], ["o"])
    c.add("Transpose", ["o"], ["o1"], perm=[0, 2, 1, 3])
    c.add("Reshape", ["o1", "from_heads"], ["y"])


def masked_attention():
    """A causal mask of -1e9, as exporters write it."""
    c = Case("attention_masked", {"q": floats([2, 4, 64, 32]), "k": floats([2, 4, 32, 64]),
                                  "v": floats([2, 4, 64, 32])}, ["y"],
             {"q": normal(2, 4, 64, 32), "k": normal(2, 4, 32, 64), "v": normal(2, 4, 64, 32)},
             {"m": np.where(np.tril(np.ones((64, 64))) > 0, 0, -1e9).astype(np.float32)})
    c.add("MatMul", ["q", "k"], ["s"])
    c.add("Add", ["s", "m"], ["sm"])
    c.add("Softmax", ["sm"], ["p"], axis=-1)
    c.add("MatMul", ["p", "v"], ["y"])


def attentions():
    attention("static", [1, 256, 24, 32], False)
    attention("size", ["B", 256, "H", "W"], False)
    attention("size_conv", ["B", 256, "H", "W"], True)
    masked_attention()


# ---- selection, gathers, scatters ----

def top_k(tag, sizes, k, axis=-1, x=None):
    if x is None:
        x = RANDOM.permutation(int(np.prod(sizes))).astype(np.float32).reshape(sizes)
    c = Case(f"topk_{tag}", {"x": floats(sizes)}, ["v", "i"], {"x": x}, {"k": np.array([k])})
    c.add("TopK", ["x", "k"], ["v", "i"], axis=axis)


def boxes(n, scale):
    return np.sort(RANDOM.rand(n, 2, 2).astype(np.float32) * np.float32(scale), 1).reshape(n, 4)


def selections():
    top_k("long", [672000], 300)
    top_k("vocab", [4, 50257], 50)
    top_k("experts", [4096, 64], 2)
    top_k("mid", [64, 4096], 10)
    c = Case("gather_rows", {"i": (TensorProto.INT64, ["N"])}, ["y"], {"i": RANDOM.randint(0, 50000, 20000)},
             {"w": normal(50000, 64)})
    c.add("Gather", ["w", "i"], ["y"])
    c = Case("scatter_nd", {"x": floats([4096, 64]), "i": (TensorProto.INT64, [2048, 1]), "u": floats([2048, 64])},
             ["y"], {"x": normal(4096, 64), "i": RANDOM.permutation(4096)[:2048].reshape(2048, 1),
                     "u": normal(2048, 64)}, {})
    c.add("ScatterND", ["x", "i", "u"], ["y"])


def detections():
    corners = np.sort(RANDOM.rand(1, 2000, 2, 2).astype(np.float32), 2).reshape(1, 2000, 4)
    c = Case("nms", {"b": floats([1, 2000, 4]), "s": floats([1, 8, 2000])}, ["y"],
             {"b": corners, "s": RANDOM.rand(1, 8, 2000).astype(np.float32)},
             {"most": np.array([100]), "overlap": np.array([0.5], np.float32), "score": np.array([0.6], np.float32)})
    c.add("NonMaxSuppression", ["b", "s", "most", "overlap", "score"], ["y"])
    c = Case("roi_align", {"x": floats([1, 256, 50, 68]), "r": floats([200, 4]), "i": (TensorProto.INT64, [200])},
             ["y"], {"x": normal(1, 256, 50, 68), "r": boxes(200, 200), "i": np.zeros(200, np.int64)}, {})
    c.add("RoiAlign", ["x", "r", "i"], ["y"], output_height=7, output_width=7, sampling_ratio=2, spatial_scale=0.25)


# ---- weights of four bits, windows, the rest ----

def int4(tag, m):
    """[m, 512] times a weight of 4 bits with a scale for 32 values."""
    k = n = 512
    values = RANDOM.randint(-8, 8, (k, n)).flatten().tolist()
    scales = (RANDOM.rand(k // 32, n) * 0.02 + 0.01).astype(np.float32)
    c = Case(f"int4_{tag}", {"x": floats([m, k])}, ["y"], {"x": normal(m, k)},
             {"w": helper.make_tensor("w", TensorProto.INT4, [k, n], values), "s": scales})
    c.add("DequantizeLinear", ["w", "s"], ["d"], axis=0, block_size=32)
    c.add("MatMul", ["x", "d"], ["y"])


def wide_pool(op, **attributes):
    """A window that reaches further into the padding than the image is large."""
    c = Case(f"wide_{op.lower()}", {"x": floats([1, 16, 40, 40])}, ["y"], {"x": normal(1, 16, 40, 40)}, {})
    c.add(op, ["x"], ["y"], kernel_shape=[101, 101], pads=[50] * 4, **attributes)


def the_rest():
    int4("decode", 1)
    int4("prefill", 64)
    wide_pool("MaxPool")
    wide_pool("AveragePool", count_include_pad=1)
    c = Case("cumsum", {"x": floats([256, 4096])}, ["y"], {"x": normal(256, 4096)}, {"a": np.array(1)})
    c.add("CumSum", ["x", "a"], ["y"])
    c = Case("resize_cubic", {"x": floats([1, 64, 56, 56])}, ["y"], {"x": normal(1, 64, 56, 56)},
             {"s": np.array([1, 1, 2, 2], np.float32)})
    c.add("Resize", ["x", "", "s"], ["y"], mode="cubic")


# ---- more of selections and detections ----

def more_selections():
    top_k("symbols", ["B", "N"], 50, x=normal(4, 50257))
    top_k("columns", [4096, 64], 10, 0)
    top_k("whole", [64, 4096], 4096)
    top_k("rising", [16, 20000], 40, x=np.tile(np.arange(20000, dtype=np.float32), (16, 1)))
    c = Case("nonzero", {"x": floats([64, 4096])}, ["y"], {"x": np.maximum(normal(64, 4096), 0)}, {})
    c.add("NonZero", ["x"], ["y"])
    c = Case("cumsum_integers", {"x": (TensorProto.INT64, [64, 4096])}, ["y"],
             {"x": RANDOM.randint(0, 9, (64, 4096))}, {"a": np.array(1)})
    c.add("CumSum", ["x", "a"], ["y"])
    places = np.stack([RANDOM.permutation(4096)[:1000] for _ in range(256)])
    c = Case("scatter_elements", {"x": floats([256, 4096]), "i": (TensorProto.INT64, [256, 1000]),
                                  "u": floats([256, 1000])}, ["y"],
             {"x": normal(256, 4096), "i": places, "u": normal(256, 1000)}, {})
    c.add("ScatterElements", ["x", "i", "u"], ["y"], axis=1)
    c = Case("scatter_nd_long", {"x": floats([64, 4096]), "i": (TensorProto.INT64, [32, 1]), "u": floats([32, 4096])},
             ["y"], {"x": normal(64, 4096), "i": RANDOM.permutation(64)[:32].reshape(32, 1), "u": normal(32, 4096)},
             {})
    c.add("ScatterND", ["x", "i", "u"], ["y"])


def more_detections():
    n, classes = 8400, 20
    corners = np.sort(RANDOM.rand(1, n, 2, 2).astype(np.float32), 2).reshape(1, n, 4)
    c = Case("nms_classes", {"b": floats([1, n, 4]), "s": floats([1, classes, n])}, ["y"],
             {"b": corners, "s": RANDOM.rand(1, classes, n).astype(np.float32)},
             {"most": np.array([50]), "overlap": np.array([0.5], np.float32), "score": np.array([0.05], np.float32)})
    c.add("NonMaxSuppression", ["b", "s", "most", "overlap", "score"], ["y"])
    c = Case("roi_align_adaptive", {"x": floats([2, 64, 50, 68]), "r": floats([100, 4]),
                                    "i": (TensorProto.INT64, [100])}, ["y"],
             {"x": normal(2, 64, 50, 68), "r": boxes(100, 200), "i": RANDOM.randint(0, 2, 100)}, {})
    c.add("RoiAlign", ["x", "r", "i"], ["y"], output_height=14, output_width=14, spatial_scale=0.25)


def point_cloud():
    """An edge convolution over the 16 nearest of 200 points, and the maximum over all points."""
    c = Case("point_cloud", {"x": floats(["B", "N", 3])}, ["y"], {"x": normal(2, 200, 3)},
             {"k": np.array([16]), "two": np.array(-2, np.float32), "a1": np.array([1]), "a2": np.array([2]),
              "a3": np.array([3]), "w": normal(6, 64) / 2, "b": normal(64)})
    c.add("Mul", ["x", "x"], ["xx"])
    c.add("ReduceSum", ["xx", "a2"], ["s"], keepdims=1)
    c.add("Transpose", ["x"], ["xt"], perm=[0, 2, 1])
    c.add("Transpose", ["s"], ["st"], perm=[0, 2, 1])
    c.add("MatMul", ["x", "xt"], ["g"])
    c.add("Mul", ["g", "two"], ["g2"])
    c.add("Add", ["g2", "s"], ["d0"])
    c.add("Add", ["d0", "st"], ["d"])
    c.add("TopK", ["d", "k"], ["dv", "di"], axis=2, largest=0)
    c.add("Unsqueeze", ["di", "a3"], ["du"])
    c.add("GatherND", ["x", "du"], ["near"], batch_dims=1)
    c.add("Unsqueeze", ["x", "a2"], ["centre"])
    c.add("Sub", ["near", "centre"], ["edges"])
    c.add("Shape", ["near"], ["sizes"])
    c.add("Expand", ["centre", "sizes"], ["centres"])
    c.add("Concat", ["centres", "edges"], ["f"], axis=3)
    c.add("MatMul", ["f", "w"], ["m"])
    c.add("Add", ["m", "b"], ["mb"])
    c.add("Relu", ["mb"], ["r"])
    c.add("ReduceMax", ["r", "a2"], ["o"], keepdims=0)
    c.add("ReduceMax", ["o", "a1"], ["y"], keepdims=0)


# ---- more of convolutions ----

def one_convolution(tag, sizes, weight, op="Conv", **attributes):
    features = weight.shape[0] if op == "Conv" else weight.shape[1] * attributes.get("group", 1)
    c = Case(f"conv_{tag}", {"x": floats(sizes)}, ["y"], {"x": of_sizes(sizes)}, {"w": weight, "b": normal(features)})
    c.add(op, ["x", "w", "b"], ["y"], **attributes)


def more_convolutions():
    one_convolution("3x3_stride_3", [1, 64, 84, 84], normal(64, 64, 3, 3), strides=[3, 3])
    one_convolution("groups_of_8", [1, 64, 56, 56], normal(64, 8, 3, 3), group=8, pads=[1] * 4)
    one_convolution("depthwise_14", [1, 576, 14, 14], normal(576, 1, 3, 3), group=576, pads=[1] * 4)
    one_convolution("depthwise_7", [1, 960, 7, 7], normal(960, 1, 5, 5), group=960, pads=[2] * 4)
    one_convolution("transpose_3d", [1, 32, 8, 14, 14], normal(32, 32, 2, 2, 2), "ConvTranspose", strides=[2] * 3)
    one_convolution("transpose_depthwise", [1, 64, 28, 28], normal(64, 1, 4, 4), "ConvTranspose", group=64,
                    strides=[2, 2], pads=[1] * 4)
    one_convolution("transpose_few", [1, 64, 56, 56], normal(64, 3, 4, 4), "ConvTranspose", strides=[2, 2],
                    pads=[1] * 4)
    one_convolution("transpose_48", [1, 48, 28, 28], normal(48, 48, 3, 3), "ConvTranspose", strides=[2, 2],
                    pads=[1] * 4, output_padding=[1, 1])


def dense_block():
    """Behind a pool that divides by a plane of counts: what is there and what a convolution adds are one image."""
    c = Case("dense_block", {"x": floats([1, 64, 56, 56])}, ["y"], {"x": normal(1, 64, 56, 56)},
             {"w0": normal(128, 64, 1, 1) / 8, "scale": normal(160), "shift": normal(160), "mean": normal(160),
              "variance": np.abs(normal(160)) + 1, "w1": normal(32, 128, 3, 3) / 34, "w2": normal(128, 160, 1, 1) / 13})
    c.add("Conv", ["x", "w0"], ["c0"])
    c.add("AveragePool", ["c0"], ["p"], kernel_shape=[2, 2], strides=[2, 2], count_include_pad=1)
    c.add("Conv", ["p", "w1"], ["c1"], pads=[1] * 4)
    c.add("Concat", ["p", "c1"], ["both"], axis=1)
    c.add("BatchNormalization", ["both", "scale", "shift", "mean", "variance"], ["n"])
    c.add("Relu", ["n"], ["r"])
    c.add("Conv", ["r", "w2"], ["y"])


def samples():
    c = Case("grid_sample", {"x": floats([1, 32, 64, 64]), "g": floats([1, 64, 64, 2])}, ["y"],
             {"x": normal(1, 32, 64, 64), "g": RANDOM.uniform(-1, 1, (1, 64, 64, 2)).astype(np.float32)}, {})
    c.add("GridSample", ["x", "g"], ["y"], padding_mode="zeros")


FAMILIES = (convolutions, transposed_and_gemm, chains, attentions, selections, detections, the_rest,
            more_selections, more_detections, point_cloud, more_convolutions, dense_block, samples)


# ---- the folders ----

def expected(path, case):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run(None, case.feeds)


def write_tensors(folder, kind, names, values):
    for k, (name, value) in enumerate(zip(names, values)):
        with open(os.path.join(folder, f"{kind}_{k}.pb"), "wb") as f:
            f.write(numpy_helper.from_array(np.asarray(value), name).SerializeToString())


def write_case(root, case):
    folder = os.path.join(root, case.name)
    data = os.path.join(folder, "test_data_set_0")
    os.makedirs(data, exist_ok=True)
    path = os.path.join(folder, "model.onnx")
    onnx.save(case.model(), path)
    want = expected(path, case)
    write_tensors(data, "input", case.feeds, case.feeds.values())
    write_tensors(data, "output", case.outputs, want)
    largest = max(float(np.abs(np.asarray(v, np.float64)).max(initial=0)) for v in want)
    with open(os.path.join(folder, "case.json"), "w") as f:
        json.dump({"name": case.name, "atol": 2e-5 * (largest + 1), "rtol": 1e-3}, f)


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("outdir")
    p.add_argument("--list", action="store_true", help="name the cases, write nothing")
    args = p.parse_args()
    for family in FAMILIES:
        family()
    if args.list:
        print("\n".join(CASES))
        return 0
    for case in CASES.values():
        write_case(args.outdir, case)
    print(len(CASES), "cases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
