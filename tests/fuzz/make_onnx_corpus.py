#!/usr/bin/env python3
"""Writes the seeds of fuzz_onnx: small models that reach each part of the onnx frontend.

usage: make_onnx_corpus.py DIR      (needs the onnx package; run again when a family is added)
"""
import os, sys
import numpy as np
from onnx import SparseTensorProto, TensorProto, helper as h, numpy_helper as nh

F, I, B = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
OUT = sys.argv[1]


def vi(name, dims, t=F):
    return h.make_tensor_value_info(name, t, dims)


def save(name, nodes, inputs, outputs=("y",), inits=(), opset=18, functions=(), sparse=(), raw=False):
    g = h.make_graph(nodes, name, list(inputs), [h.make_empty_tensor_value_info(o) for o in outputs],
                     [nh.from_array(np.array(v), k) if raw else h.make_tensor(
                         k, h.np_dtype_to_tensor_dtype(np.array(v).dtype), np.array(v).shape,
                         np.array(v).ravel()) for k, v in inits], sparse_initializer=list(sparse))
    sets = [h.make_opsetid("", opset)] + ([h.make_opsetid("my", 1)] if functions else [])
    m = h.make_model(g, opset_imports=sets, functions=list(functions), ir_version=9)
    with open(os.path.join(OUT, name + ".onnx"), "wb") as f:
        f.write(m.SerializeToString(deterministic=True))


def one(name, op, dims, opset=18, inits=(), extra=(), outputs=("y",), **attrs):
    ins = ["x"] + [v.name for v in extra] + [k for k, _ in inits]
    save(name, [h.make_node(op, ins, list(outputs), **attrs)], [vi("x", dims)] + list(extra), outputs,
         inits, opset, raw=True)


def i64(*v):
    return np.array(v, np.int64)


def main():
    os.makedirs(OUT, exist_ok=True)
    w = np.arange(36, dtype=np.float32).reshape(4, 1, 3, 3)
    one("conv", "Conv", ["N", 1, "H", 8], inits=[("w", w)], auto_pad="SAME_UPPER", strides=[2, 2])
    one("conv_transpose", "ConvTranspose", [1, 4, 3, 3], inits=[("w", w)], output_shape=[7, 7])
    one("pool", "MaxPool", [1, 1, "H", "W"], outputs=("y", "i"), kernel_shape=[3, 3], strides=[2, 2],
        ceil_mode=1)
    one("average", "AveragePool", [1, 1, 9, 9], opset=19, kernel_shape=[2, 2], pads=[1, 0, 1, 0],
        count_include_pad=1)
    one("reshape", "Reshape", ["N", 4, 3], inits=[("s", i64(0, -1, 2))])
    one("reshape_run", "Reshape", [4, 3], extra=[vi("s", [2], I)])
    one("slice", "Slice", ["N", 9], inits=[("a", i64(1, -3)), ("b", i64(-1, 2 ** 62)),
                                           ("c", i64(0, 1)), ("d", i64(1, 2))])
    one("slice_run", "Slice", ["N"], extra=[vi("a", [1], I), vi("b", [1], I)])
    one("pad", "Pad", [3, "M"], inits=[("p", i64(1, 0, 0, 2))], mode="edge")
    one("split", "Split", [7], outputs=("y", "z"), num_outputs=2)
    one("reduce_old", "ReduceMean", [2, 3], opset=13, axes=[-1], keepdims=0)
    one("softmax_old", "Softmax", [2, 3, 4], opset=11, axis=1)
    one("add_old", "Add", [2, 3, 4], opset=6, extra=[vi("b", [3])], broadcast=1, axis=1)
    one("batch_norm", "BatchNormalization", [1, 2, 3], inits=[(k, np.ones(2, np.float32)) for k in "abcd"])
    one("layer_norm", "LayerNormalization", ["N", 4], inits=[("s", np.ones(4, np.float32))])
    one("resize", "Resize", [1, 1, "H", 4], inits=[("r", np.zeros(0, np.float32)),
                                                  ("s", np.array([1, 1, 2, 1.5], np.float32))],
        mode="linear")
    one("quantize", "QuantizeLinear", [4, "M"], opset=21, inits=[("s", np.float32(0.5)), ("z", np.uint8(3))])
    one("lstm", "LSTM", ["T", 1, 2], inits=[("w", np.ones((1, 12, 2), np.float32)),
                                           ("r", np.ones((1, 12, 3), np.float32))], hidden_size=3)
    one("attention", "Attention", ["B", 2, "T", 4], opset=23, extra=[vi("k", ["B", 2, "S", 4]),
                                                                   vi("v", ["B", 2, "S", 4])], is_causal=1)
    one("linear_attention", "LinearAttention", [1, "T", 4], opset=27,
        extra=[vi("k", [1, "T", 4]), vi("v", [1, "T", 4])], q_num_heads=2, kv_num_heads=2,
        update_rule="linear")
    one("einsum", "Einsum", [2, 3], extra=[vi("b", [3, 4])], equation="ij,jk->ik")
    one("topk", "TopK", [5], inits=[("k", i64(2))], outputs=("y", "i"))
    one("unique", "Unique", [5], outputs=("y", "i", "j", "c"))
    one("dft", "DFT", [1, 8, 1], opset=20, onesided=1)
    one("scatter", "ScatterND", [4], inits=[("i", i64(1).reshape(1, 1)), ("u", np.ones(1, np.float32))])
    one("one_hot", "OneHot", [3], inits=[("d", i64(4)), ("v", np.array([0, 1], np.float32))])
    one("nll", "NegativeLogLikelihoodLoss", [2, 3], inits=[("t", i64(0, 2))])
    body = h.make_graph(
        [h.make_node("Add", ["a", "b"], ["c"]), h.make_node("Identity", ["c"], ["d"])], "body",
        [vi("a", [2]), vi("b", [2])], [vi("c", [2]), vi("d", [2])])
    save("scan", [h.make_node("Scan", ["x", "s"], ["y", "z"], body=body, num_scan_inputs=1)],
         [vi("x", [2]), vi("s", ["T", 2])], ("y", "z"))
    body = h.make_graph(
        [h.make_node("Identity", ["c"], ["d"]), h.make_node("Concat", ["v", "x"], ["u"], axis=0)], "body",
        [vi("i", [], I), vi("c", [], B), vi("v", ["K"])], [vi("d", [], B), vi("u", ["K2"])])
    save("loop", [h.make_node("Loop", ["n", "", "x"], ["y"], body=body)], [vi("n", [], I), vi("x", ["N"])])
    t = h.make_graph([h.make_node("Neg", ["x"], ["t"])], "t", [], [vi("t", ["N"])])
    e = h.make_graph([h.make_node("Abs", ["x"], ["e"])], "e", [], [vi("e", ["N"])])
    save("if", [h.make_node("If", ["c"], ["y"], then_branch=t, else_branch=e)], [vi("c", [], B), vi("x", ["N"])])
    ref = h.make_node("Softmax", ["p"], ["q"])
    a = h.make_attribute("axis", 1)
    a.ClearField("i")
    a.ref_attr_name = "which"
    ref.attribute.append(a)
    f = h.make_function("my", "Soft", ["p"], ["q"], [ref], [h.make_opsetid("", 18)], ["which"])
    save("function", [h.make_node("Soft", ["x"], ["y"], domain="my", which=0)], [vi("x", [2, 2])], functions=[f])
    sparse = SparseTensorProto()
    sparse.values.CopyFrom(nh.from_array(np.array([3.0], np.float32), "w"))
    sparse.indices.CopyFrom(nh.from_array(i64(2), "w_i"))
    sparse.dims.append(4)
    save("sparse", [h.make_node("Add", ["x", "w"], ["y"])], [vi("x", [4])], sparse=[sparse])
    save("typed", [h.make_node("Add", ["x", "w"], ["y"])], [vi("x", [2])], inits=[("w", np.float32([1, 2])),
         ("h", np.float16([1])), ("b", np.array([True])), ("u", np.uint32([7])), ("k", i64(3))])
    save("shape", [h.make_node("Shape", ["x"], ["s"]), h.make_node("Gather", ["s", "k"], ["g"]),
                   h.make_node("Range", ["zero", "g", "one"], ["y"])], [vi("x", ["N", 3])],
         inits=[("k", np.int64(0)), ("zero", np.int64(0)), ("one", np.int64(1))])


main()
