"""How PyTorch's operators are written with Stator's ops: one table, a row an operator.

A row is a function of the Program, the result that PyTorch gave (a tensor or several, for shapes and
dtypes) and the operator's arguments, in which tensors that the gradient passes through, and inputs of
the sample, are Values and all else is what PyTorch has. It gives a Value, or a list of Values and
None. TABLE has the operators of `aten` by name without overload; OPERATORS those of op_db for which
the op table has an op of its own, where PyTorch would show its parts alone. What no row can write
raises Unmapped with one of REASONS.
"""
import math

import torch

from grad_torch_elements import (
    add, addcdiv, addcmul, as_strided, block_diag, cast, cat, clamp, clamp_max, compare, constant_pad, copy, copysign,
    diag_embed, diagonal, div, elu, embedding, entr, expand, flip, fmax, formula, gather, glu, hardtanh, hypot,
    index, index_fill, index_put, index_reduce, index_scatter, index_select, ldexp, lerp, logic, logit,
    masked_fill, masked_index, masked_scatter, masked_select, mirror_pad, mvlgamma, nan_to_num, permute,
    polygamma, power, prelu, put, repeat, roll, rot90, rounded, rrelu, rsub, same, scatter, scatter_view,
    select, shaped, shrink, slice_, softplus, split, stack, take, threshold, trace, transpose, trilu, unary,
    unbind, unfold, where, xlog1py)
from grad_torch_rules import Unmapped
from grad_torch_sums import (
    MODES, adaptive, addr, along_axis, aminmax, attention, avg_pool, batch_norm, batch_norm_legit, bce, bmm, cdist,
    convolution, cross, det, dropout_backward, embedding_bag, extreme, grid_sampler, group_norm, huber, im2col,
    layer_norm, log_sigmoid, logsumexp, loss, max_pool, max_pool_backward, max_unpool, median, mm, multi_margin,
    multilabel_margin, nansum, nll, norm, pdist, pixel_shuffle, pixel_unshuffle, plus_product, prod, reduction,
    renorm, resize, rms_norm, running, safe_softmax, scan, segment_reduce, slogdet, smooth_l1, soft_margin,
    softmax_backward, sort, topk, trilinear, variance, vector_norm)


# ---- operators of op_db with an op of their own ----

def cross_entropy(p, out, x, target, weight=None, reduction="mean", ignore_index=-100, label_smoothing=0.0):
    if x.rank == 1:
        x = p.unsqueeze(x, 0)
        target = p.reshape(target, [1] if not target.is_float else (1,) + target.shape)
    shape = x.shape[:1] + x.shape[2:] if reduction == "none" else ()
    y = p.op("cross_entropy", x, target, weight, reduction=reduction, ignore_index=ignore_index,
             label_smoothing=float(label_smoothing), shape=shape)
    return p.reshape(y, out.shape)


def bce_with_logits(p, out, x, target, weight=None, reduction="mean", pos_weight=None):
    return p.op("bce_with_logits", x, target, weight, pos_weight, reduction=reduction, shape=out.shape)


def kl_div(p, out, x, target, reduction="mean", log_target=False):
    shape = torch.broadcast_shapes(x.shape, target.shape)
    return p.op("kl_div", p.expand(x, shape), p.expand(target, shape), reduction=reduction, log_target=int(log_target),
                shape=out.shape)


def l1_loss(p, out, x, target, reduction="mean"):
    return loss("l1_loss")(p, out, x, target, MODES.index(reduction))


def matmul(p, out, x, y):
    return p.op("matmul", x, y, shape=out.shape)


def rmatmul(p, out, x, y):
    return p.op("matmul", y, x, shape=out.shape)


def einsum(p, out, values, equation):
    return p.op("einsum", *values, equation=equation, shape=out.shape)


def linear(p, out, x, w, b=None):
    y = p.op("matmul", x, transpose(p, out, w), shape=out.shape)
    return y if b is None else y + b


def local_response_norm(p, out, x, size, alpha=0.0001, beta=0.75, k=1.0):
    if size % 2 == 0:
        raise Unmapped("no counterpart", "the window of lrn begins one channel later")
    return p.op("lrn", x, size=size, alpha=float(alpha), beta=float(beta), bias=float(k), shape=x.shape)


def instance_norm(p, out, x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5):
    if not use_input_stats:
        return batch_norm(p, out, x, weight, bias, running_mean, running_var, False, momentum, eps)[0]
    return p.op("group_norm", x, weight, bias, groups=x.shape[1], eps=float(eps), shape=x.shape)


OPERATORS = {
    "nn.functional.cross_entropy": cross_entropy,
    "nn.functional.binary_cross_entropy_with_logits": bce_with_logits,
    "nn.functional.kl_div": kl_div,
    "nn.functional.l1_loss": l1_loss,
    "matmul": matmul,
    "__rmatmul__": rmatmul,
    "einsum": einsum,
    "nn.functional.linear": linear,
    "nn.functional.local_response_norm": local_response_norm,
    "nn.functional.instance_norm": instance_norm,
    "nn.functional.rms_norm": rms_norm,
}

NAMED = {name: unary(name) for name in (
    "abs exp exp2 expm1 log log2 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf "
    "lgamma sign ceil floor trunc neg reciprocal sigmoid relu digamma silu mish").split()}
SAME = "clone alias detach contiguous lift_fresh lift_fresh_copy positive resolve_neg resolve_conj".split()
SHAPED = ("view reshape _unsafe_view unsqueeze squeeze view_copy squeeze_copy unsqueeze_copy _reshape_alias "
          "_reshape_copy").split()
FORMULAS = {
    "mul": lambda p, x, y: x * y,
    "erfc": lambda p, x: 1 - p.op("erf", x),
    "log10": lambda p, x: p.op("log", x) * (1 / math.log(10)),
    "square": lambda p, x: p.op("square", x),
    "sgn": lambda p, x: p.op("sign", x),
    "frac": lambda p, x: x - p.op("trunc", x),
    "fmod": lambda p, x, y: p.op("rem", x, y),
    "remainder": lambda p, x, y: p.op("mod", x, y),
    "maximum": lambda p, x, y: p.op("max", x, y),
    "minimum": lambda p, x, y: p.op("min", x, y),
    "atan2": lambda p, x, y: p.op("atan2", x, y),
    "hypot": hypot,
    "rad2deg": lambda p, x: x * (180 / math.pi),
    "deg2rad": lambda p, x: x * (math.pi / 180),
    "hardswish": lambda p, x: p.op("hard_swish", x),
    "hardsigmoid": lambda p, x: p.op("hard_sigmoid", x, alpha=1 / 6, beta=0.5),
    "dot": lambda p, x, y: p.dot(x, y),
    "vdot": lambda p, x, y: p.dot(x, y),
    "mv": lambda p, x, y: p.dot(x, y),
    "xlogy": lambda p, x, y: p.select(x.equals(0), x * 0, x * p.op("log", y)),
    "special_ndtr": lambda p, x: 0.5 * (1 + p.op("erf", x * math.sqrt(0.5))),
}
TABLE = {
    **NAMED,
    **{name: same for name in SAME},
    **{name: shaped for name in SHAPED},
    **{name: formula(function) for name, function in FORMULAS.items()},
    **{name: split for name in "split split_with_sizes unsafe_split unsafe_split_with_sizes split_copy "
                               "split_with_sizes_copy".split()},
    **{name: unbind for name in ("unbind", "unbind_copy")},
    **{name: compare(name) for name in "eq ne lt le gt ge".split()},
    "logical_and": logic("bit_and"), "logical_or": logic("bit_or"), "logical_not": logic("bit_not"),
    "bitwise_and": logic("bit_and"), "bitwise_or": logic("bit_or"), "bitwise_not": logic("bit_not"),
    "add": add(1), "sub": add(-1), "rsub": rsub, "div": div, "true_divide": div, "pow": power, "float_power": power,
    "fmax": fmax("max"), "fmin": fmax("min"), "clamp": clamp, "clamp_min": clamp, "clamp_max": clamp_max,
    "elu": elu, "softplus": softplus, "softshrink": shrink(True), "hardshrink": shrink(False), "hardtanh": hardtanh,
    "threshold": threshold, "glu": glu, "_prelu_kernel": prelu, "rrelu_with_noise": rrelu, "where": where, "lerp": lerp,
    "leaky_relu": lambda p, out, x, slope=0.01: p.op("leaky_relu", x, alpha=float(slope)),
    "gelu": lambda p, out, x, approximate="none": p.op("gelu", x, approximate=approximate),
    "celu": lambda p, out, x, alpha=1.0: p.op("celu", x, alpha=float(alpha)),
    "addcmul": addcmul, "addcdiv": addcdiv, "copysign": copysign, "logit": logit, "nan_to_num": nan_to_num,
    "round": rounded, "_to_copy": cast, "copy": copy, "native_dropout_backward": dropout_backward,
    "_softmax_backward_data": softmax_backward, "max_pool2d_with_indices_backward": max_pool_backward,
    "cummax": running("max"), "cummin": running("min"), "multilabel_margin_loss_forward": multilabel_margin,
    "segment_reduce": segment_reduce, "_embedding_bag_forward_only": embedding_bag, "_embedding_bag": embedding_bag,
    "special_entr": entr, "polygamma": polygamma, "mvlgamma": mvlgamma,
    "special_xlog1py": xlog1py, "ldexp": ldexp, "log_sigmoid_forward": log_sigmoid,
    "expand": expand, "expand_copy": expand, "permute": permute, "permute_copy": permute, "transpose": transpose,
    "transpose_copy": transpose, "t": transpose, "t_copy": transpose, "select": select, "select_copy": select,
    "slice": slice_, "slice_copy": slice_, "narrow_copy": lambda p, out, x, dim, start, n: p.slice(
        x, dim % x.rank, start % max(x.shape[dim], 1) if start < 0 else start, n),
    "as_strided": as_strided, "as_strided_copy": as_strided, "diagonal": diagonal, "diagonal_copy": diagonal,
    "unfold": unfold, "unfold_copy": unfold, "cat": cat, "block_diag": block_diag, "stack": stack,
    "repeat": repeat, "flip": flip, "roll": roll,
    "rot90": rot90, "tril": trilu(0), "triu": trilu(1), "trace": trace, "diag_embed": diag_embed,
    "select_scatter": scatter_view(torch.select), "diagonal_scatter": scatter_view(torch.diagonal),
    "slice_scatter": scatter_view(lambda x, dim=0, start=None, end=None, step=1: torch.ops.aten.slice(
        x, dim, start, end, step)),
    "as_strided_scatter": scatter_view(torch.as_strided), "constant_pad_nd": constant_pad,
    **{f"reflection_pad{n}d": mirror_pad("reflect") for n in (1, 2, 3)},
    **{f"replication_pad{n}d": mirror_pad("edge") for n in (1, 2, 3)},
    "index_select": index_select, "gather": gather, "take": take, "index": index, "_unsafe_index": index,
    "_unsafe_masked_index": masked_index, "index_put": index_put, "index_add": index_scatter("add"),
    "index_copy": index_scatter(None), "index_fill": index_fill, "index_reduce": index_reduce, "scatter": scatter(None),
    "scatter_add": scatter("add"), "scatter_reduce": scatter("named"), "masked_fill": masked_fill,
    "masked_scatter": masked_scatter, "masked_select": masked_select, "put": put, "embedding": embedding,
    "sum": reduction("reduce_sum"), "mean": reduction("reduce_mean"), "prod": prod, "nansum": nansum,
    "amax": reduction("reduce_max"), "amin": reduction("reduce_min"), "max": extreme("max"), "min": extreme("min"),
    "aminmax": aminmax, "var": variance("var"), "std": variance("std"), "var_mean": variance("var mean"),
    "std_mean": variance("std mean"), "logsumexp": logsumexp, "linalg_vector_norm": vector_norm, "norm": norm,
    "cumsum": scan("cumsum"), "cumprod": scan("cumprod"), "sort": sort, "topk": topk, "median": median,
    "nanmedian": median,
    "_softmax": along_axis("softmax"), "_log_softmax": along_axis("log_softmax"), "_safe_softmax": safe_softmax,
    "native_layer_norm": layer_norm, "native_group_norm": group_norm, "native_batch_norm": batch_norm,
    "_native_batch_norm_legit": batch_norm_legit, "_native_batch_norm_legit_functional": batch_norm_legit,
    "cudnn_batch_norm": batch_norm, "renorm": renorm,
    "mm": mm, "bmm": bmm, "addmm": plus_product(0), "addmv": plus_product(0), "baddbmm": plus_product(1),
    "addbmm": plus_product(1, True), "addr": addr, "convolution": convolution, "linalg_cross": cross,
    "_trilinear": trilinear, "_linalg_det": det, "_linalg_slogdet": slogdet, "_cdist_forward": cdist,
    "_euclidean_dist": lambda p, out, x, y: cdist(p, out, x, y, 2, None), "_pdist_forward": pdist,
    **{f"max_pool{n}d_with_indices": max_pool(n) for n in (2, 3)},
    **{f"avg_pool{n}d": avg_pool(n) for n in (1, 2, 3)},
    **{f"_adaptive_avg_pool{n}d": adaptive("reduce_mean", n) for n in (2, 3)},
    **{f"adaptive_max_pool{n}d": adaptive("reduce_max", n) for n in (2, 3)},
    **{f"max_unpool{n}d": max_unpool(n) for n in (2, 3)},
    "im2col": im2col, "grid_sampler_2d": grid_sampler, "grid_sampler_3d": grid_sampler,
    "pixel_shuffle": pixel_shuffle, "pixel_unshuffle": pixel_unshuffle,
    **{f"upsample_nearest{n}d": resize("nearest") for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": resize("nearest", exact=True) for n in (1, 2, 3)},
    "upsample_linear1d": resize("linear"), "upsample_bilinear2d": resize("linear"),
    "upsample_trilinear3d": resize("linear"), "upsample_bicubic2d": resize("cubic"),
    "_scaled_dot_product_flash_attention_for_cpu": attention,
    "mse_loss": loss("mse_loss"), "huber_loss": huber, "smooth_l1_loss": smooth_l1, "binary_cross_entropy": bce,
    "nll_loss_forward": nll, "nll_loss2d_forward": nll, "soft_margin_loss": soft_margin,
    "multi_margin_loss": multi_margin,
}
# Operators whose results depend on no element of their operands.
CONSTANT = set("zeros_like ones_like full_like empty_like new_zeros new_ones new_full new_empty zero fill rand_like "
               "randn_like bernoulli".split())
