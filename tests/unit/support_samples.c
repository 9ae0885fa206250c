#include "support_samples.h"

#include <stdio.h>
#include <string.h>

#define U "sym u unbacked in [0, 6]\n"
#define NHW "sym N in [1, 64]\nsym H in [8, 512]\nsym W in [8, 512]\n"

/* clang-format off */
static const op_sample good[] = {
    /* pointwise */
    {"f32[2, 3]", "neg(%a) : f32[2, 3]", 0, 0},
    {"c64[2]", "abs(%a) : f32[2]", 0, 0},
    {"i8[2]", "abs(%a) : i8[2]", 0, 0},
    {"f32[4]", "sign(%a) : f32[4]", 0, 0}, {"f32[4]", "ceil(%a) : f32[4]", 0, 0},
    {"f32[4]", "floor(%a) : f32[4]", 0, 0}, {"f32[4]", "round(%a) : f32[4]", 0, 0},
    {"i32[4]", "trunc(%a) : i32[4]", 0, 0}, {"f16[4]", "exp(%a) : f16[4]", 0, 0},
    {"f32[4]", "exp2(%a) : f32[4]", 0, 0}, {"f32[4]", "expm1(%a) : f32[4]", 0, 0},
    {"f32[4]", "log(%a) : f32[4]", 0, 0}, {"f32[4]", "log2(%a) : f32[4]", 0, 0},
    {"f32[4]", "log1p(%a) : f32[4]", 0, 0}, {"f32[4]", "sqrt(%a) : f32[4]", 0, 0},
    {"f32[4]", "rsqrt(%a) : f32[4]", 0, 0}, {"f32[4]", "sin(%a) : f32[4]", 0, 0},
    {"f32[4]", "cos(%a) : f32[4]", 0, 0}, {"f32[4]", "tan(%a) : f32[4]", 0, 0},
    {"f32[4]", "asin(%a) : f32[4]", 0, 0}, {"f32[4]", "acos(%a) : f32[4]", 0, 0},
    {"f32[4]", "atan(%a) : f32[4]", 0, 0}, {"f32[4]", "sinh(%a) : f32[4]", 0, 0},
    {"f32[4]", "cosh(%a) : f32[4]", 0, 0}, {"f32[4]", "tanh(%a) : f32[4]", 0, 0},
    {"f32[4]", "asinh(%a) : f32[4]", 0, 0}, {"f32[4]", "acosh(%a) : f32[4]", 0, 0},
    {"f32[4]", "atanh(%a) : f32[4]", 0, 0}, {"f32[4]", "erf(%a) : f32[4]", 0, 0},
    {"f32[4]", "lgamma(%a) : f32[4]", 0, 0},
    {"u8[4]", "bit_not(%a) : u8[4]", 0, 0}, {"f32[4]", "is_nan(%a) : bool[4]", 0, 0},
    {"f32[4]", "is_inf(%a) : bool[4]", 0, 0}, {"f32[4]", "is_finite(%a) : bool[4]", 0, 0},
    {"f32[4]", "cast(%a) {dtype = i8} : i8[4]", 0, 0},
    {"f32[4]", "bitcast(%a) {dtype = u32} : u32[4]", 0, 0},
    {"f32[4, 1]; f32[3]", "add(%a, %b) : f32[4, 3]", 0, 0},
    {"f32[N, 1]; f32[1, 7]", "sub(%a, %b) : f32[N, 7]", NHW, 0},
    {"f32[N]; f32[N]", "mul(%a, %b) : f32[N]", NHW, 0},
    {"f32[N]; f32[H]", "div(%a, %b) : f32[H]", NHW, 0},
    {"f32[N]; f32[M]", "pow(%a, %b) : f32[max(N, M)]", "sym N in [1, 9]\nsym M in [1, 9]\n", 0},
    {"f32[N]; f32[M]", "mod(%a, %b) : f32[max(N, M)*min(1, min(N, M))]", "sym N in [0, 9]\nsym M in [0, 9]\n", 0},
    {"f32[N]; f32[min(N, 512)]", "add(%a, %b) : f32[N]", "sym N in [0, 9999]\n", 0},
    {"f32[max(N, 1)]; f32[N]", "add(%a, %b) : f32[N]", "sym N in [0, 9]\n", 0},
    {"i32[]; i32[5]", "rem(%a, %b) : i32[5]", 0, 0},
    {"f32[0]; f32[1]", "min(%a, %b) : f32[0]", 0, 0}, {"i64[2]; i64[1]", "max(%a, %b) : i64[2]", 0, 0},
    {"f64[2]; f64[2]", "atan2(%a, %b) : f64[2]", 0, 0},
    {"bool[2]; bool[2]", "bit_and(%a, %b) : bool[2]", 0, 0},
    {"u8[2]; u8[2]", "bit_or(%a, %b) : u8[2]", 0, 0}, {"u8[2]; u8[2]", "bit_xor(%a, %b) : u8[2]", 0, 0},
    {"u32[2]; u32[]", "shl(%a, %b) : u32[2]", 0, 0}, {"u32[2]; u32[]", "shr(%a, %b) : u32[2]", 0, 0},
    {"f32[2]; f32[]", "eq(%a, %b) : bool[2]", 0, 0}, {"f32[2]; f32[]", "ne(%a, %b) : bool[2]", 0, 0},
    {"f32[2]; f32[]", "lt(%a, %b) : bool[2]", 0, 0}, {"f32[2]; f32[]", "le(%a, %b) : bool[2]", 0, 0},
    {"f32[2]; f32[]", "gt(%a, %b) : bool[2]", 0, 0}, {"f32[2]; f32[]", "ge(%a, %b) : bool[2]", 0, 0},
    {"bool[2, 1]; f32[3]; f32[]", "select(%a, %b, %c) : f32[2, 3]", 0, 0},
    /* sources */
    {"f32[]", "constant {value = f32[2] {1, 2}} : f32[2]", 0, 0},
    {"f32[]", "iota {shape = [2, 3], axis = 1} : i64[2, 3]", 0, 0},
    {"f32[]", "iota {shape = [N], axis = -1, dtype = f32} : f32[N]", NHW, 0},
    {"f32[N]", "dims {values = [N, 4]} : i64[2]", NHW, 0},
    {"f32[N]", "dims {values = [N], scalar = 1} : i64[]", NHW, 0},
    {"i64[2]", "sym_bind(%a) {syms = [u, v]} : i64[2]", "sym u unbacked in [0, 9]\nsym v unbacked in [0, 9]\n", 0},
    {"i64[]; i64[]", "rng_bits(%a, %b) {shape = [3, N]} : u32[3, N]", NHW, 0},
    /* movement */
    {"f32[2, 3]", "reshape(%a) {shape = [6]} : f32[6]", 0, 0},
    {"f32[N, 4]", "reshape(%a) {shape = [4*N]} : f32[4*N]", NHW, 0},
    {"f32[2, 3, 4]", "transpose(%a) {perm = [2, 0, 1]} : f32[4, 2, 3]", 0, 0},
    {"f32[3, 1]", "expand(%a) {shape = [2, 3, 4]} : f32[2, 3, 4]", 0, 0},
    {"f32[5, 6]", "slice(%a) {starts = [4, 0], sizes = [3, 2], steps = [-2, 5]} : f32[3, 2]", 0, 0},
    {"f32[N]", "slice(%a) {starts = [0], sizes = [N - 1], steps = [1]} : f32[N - 1]", NHW, 0},
    {"f32[2, 3]; f32[2, N]", "concat(%a, %b) {axis = 1} : f32[2, N + 3]", NHW, 0},
    {"f32[2, 3]; f32[]", "pad(%a, %b) {low = [1, 0], high = [-1, 2]} : f32[2, 5]", 0, 0},
    {"f32[4]", "pad(%a) {low = [3], high = [3], mode = \"reflect\"} : f32[10]", 0, 0},
    {"f32[2, 3]; i64[4, 5]", "gather(%a, %b) {axis = 1} : f32[2, 4, 5]", 0, 0},
    {"f32[2, 3]; i32[2, 7]", "gather_elements(%a, %b) {axis = 1} : f32[2, 7]", 0, 0},
    {"f32[2, 3, 4]; i64[2, 5, 1]", "gather_nd(%a, %b) {batch_dims = 1} : f32[2, 5, 4]", 0, 0},
    {"f32[4]; i64[2]; f32[2]", "scatter_elements(%a, %b, %c) {reduction = \"add\"} : f32[4]", 0, 0},
    {"f32[4, 5]; i64[3, 1]; f32[3, 5]", "scatter_nd(%a, %b, %c) : f32[4, 5]", 0, 0},
    /* reductions, order */
    {"f32[2, 3, 4]", "reduce_sum(%a) {axes = [0, -1]} : f32[3]", 0, 0},
    {"f32[2, 3]", "reduce_prod(%a) {axes = [1], keepdims = 1} : f32[2, 1]", 0, 0},
    {"f32[2, 3]", "reduce_min(%a) {axes = []} : f32[2, 3]", 0, 0},
    {"bool[2, 3]", "reduce_max(%a) {axes = [0, 1]} : bool[]", 0, 0},
    {"f32[2, 3]", "argmax(%a) {axis = 1} : i64[2]", 0, 0},
    {"f32[2, 3]", "argmin(%a) {axis = 0, keepdims = 1} : i64[1, 3]", 0, 0},
    {"f32[2, 3]", "cumsum(%a) {axis = 1, exclusive = 1} : f32[2, 3]", 0, 0},
    {"f32[2, 3]", "cumprod(%a) {axis = 1} : f32[2, 3]", 0, 0},
    {"f32[2, 3]", "sort(%a) : f32[2, 3], i64[2, 3]", 0, 0},
    {"f32[2, 9]", "topk(%a) {k = [4]} : f32[2, 4], i64[2, 4]", 0, 0},
    {"f32[2, 3]", "nonzero(%a) : i64[2, u]", U, 0},
    {"f32[2, 3]", "unique(%a) : f32[u], i64[u], i64[6], i64[u]", U, 0},
    {"f32[6, 3]", "unique(%a) {axis = 0} : f32[u, 3], i64[u]", U, 0},
    /* contractions */
    {"f32[8, 2, 3]; f32[8, 3, 4]", "dot_general(%a, %b) {batch_x = [0], batch_y = [0], contract_x = [2], contract_y = [1]} : f32[8, 2, 4]", 0, 0},
    {"f32[1, 3, H, W]; f32[8, 3, 3, 3]; f32[8]", "conv(%a, %b, %c) {strides = [2, 2], pads = [1, 1, 1, 1], dilations = [1, 1]} : f32[1, 8, floordiv(H - 1, 2) + 1, floordiv(W - 1, 2) + 1]", NHW, 0},
    {"f32[1, 4, 9]; f32[6, 2, 3]", "conv(%a, %b) {strides = [1], pads = [0, 0], dilations = [2], groups = 2} : f32[1, 6, 5]", 0, 0},
    {"f32[1, 4, 5]; f32[4, 3, 3]", "conv_transpose(%a, %b) {strides = [2], pads = [1, 1], dilations = [1], output_padding = [1]} : f32[1, 3, 10]", 0, 0},
    {"f32[2, 4, 9]; f32[2, 6, 7]", "conv_weight_grad(%a, %b) {kernel = [3], strides = [1], pads = [0, 0], dilations = [1]} : f32[6, 4, 3]", 0, 0},
    {"f32[2, 3, 8]", "reduce_window(%a) {kind = \"max\", window = [2], strides = [2], pads = [0, 0], dilations = [1]} : f32[2, 3, 4]", 0, 0},
    {"f32[1, 1, 4, 4]; f32[1, 1, 2, 2]; f32[1, 8, 3, 3]", "deform_conv(%a, %b, %c) {strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1]} : f32[1, 1, 3, 3]", 0, 0},
    {"f32[2, 8, 1]", "dft(%a) {axis = 1, length = [8], onesided = 1} : f32[2, 5, 2]", 0, 0},
    {"f32[2, 5, 2]", "dft(%a) {axis = 1, length = [8], onesided = 1, inverse = 1} : f32[2, 8, 1]", 0, 0},
    {"f32[7, 3, 3]", "det(%a) : f32[7]", 0, 0},
    {"f32[1, 3, 4]; f32[1, 2, 3]; i64[]", "nms(%a, %b, %c) : i64[u, 3]", U, 0},
    /* control */
    {"bool[]; f32[N]", "cond(%a, %b) : f32[N], f32[u]\n region (%x: f32[N]) { %y = slice(%x) {starts = [0], sizes = [2], steps = [1]} return %x, %y }\n region (%x: f32[N]) { return %x, %x }\n", "sym N in [3, 6]\nsym u unbacked in [0, 6]\n", 0},
    {"i64[]; bool[]; f32[4]; f32[]", "while(%a, %b, %c, %d) {carried = 1, stacked = 1} : f32[4], f32[u, 4]\n region (%i: i64[], %x: f32[4], %y: f32[]) { %t = constant {value = bool[] {true}} %z = add(%x, %y) return %t, %z, %z }\n", "sym u unbacked in [0, inf]\n", 0},
    {"i64[]; bool[]; f32[0]; f32[1]", "while(%a, %b, %c, %d) {carried = 1} : f32[u]\n region (%i: i64[], %x: f32[s], %y: f32[1]) { %t = constant {value = bool[] {true}} %z = concat(%x, %y) {axis = 0} return %t, %z }\n", "sym u unbacked in [0, inf]\nsym s in [0, 99]\n", 0},
    {"f32[3]; f32[5, 3]; f32[]", "scan(%a, %b, %c) {carried = 1, scanned = 1, stacked = 1} : f32[3], f32[5, 3]\n region (%h: f32[3], %x: f32[3], %w: f32[]) { %y = add(%h, %x) %z = mul(%y, %w) return %z, %y }\n", 0, 0},
    {"f32[N]; f32[]", "call(%a, %b) : f32[N]\n region (%x: f32[N], %y: f32[]) { %z = add(%x, %y) return %z }\n", NHW, 0},
    {"f32[N]; i32[]; f32[2]", "gradient(%a, %b, %c) {wrt = [2, 0]} : f32[N], i32[], f32[2], f32[N]\n region (%x: f32[N], %y: i32[], %z: f32[2]) { %w = exp(%x) return %w, %y }\n", NHW, 0},
    {"bool[2]", "check(%a) {message = \"must hold\"} : bool[2]", 0, 0},
    {"f32[2]; f32[2]", "assign(%a, %b) : f32[2]", 0, 0},
    /* pointwise composites */
    {"f32[4]", "reciprocal(%a) : f32[4]", 0, 0}, {"i32[4]", "square(%a) : i32[4]", 0, 0},
    {"f16[4]", "relu(%a) : f16[4]", 0, 0}, {"f32[4]", "sigmoid(%a) : f32[4]", 0, 0},
    {"f32[4]", "digamma(%a) : f32[4]", 0, 0},
    {"bf16[N, 4]", "silu(%a) {alpha = 1.5} : bf16[N, 4]", NHW, 0},
    {"f32[4]", "gelu(%a) : f32[4]", 0, 0}, {"f16[4]", "gelu(%a) {approximate = \"tanh\"} : f16[4]", 0, 0},
    {"f32[4]", "leaky_relu(%a) : f32[4]", 0, 0}, {"f32[4]; f32[1]", "prelu(%a, %b) : f32[4]", 0, 0},
    {"f32[4]", "elu(%a) : f32[4]", 0, 0}, {"f32[4]", "selu(%a) : f32[4]", 0, 0},
    {"f32[4]", "celu(%a) : f32[4]", 0, 0}, {"f32[4]", "hard_sigmoid(%a) : f32[4]", 0, 0},
    {"f32[4]", "hard_swish(%a) : f32[4]", 0, 0}, {"f32[4]", "mish(%a) : f32[4]", 0, 0},
    {"f32[4]", "softplus(%a) : f32[4]", 0, 0}, {"f32[4]", "softsign(%a) : f32[4]", 0, 0},
    {"f32[4]", "thresholded_relu(%a) : f32[4]", 0, 0}, {"f32[4]", "shrink(%a) : f32[4]", 0, 0},
    {"f32[4]; f32[]", "clamp(%a, _, %b) : f32[4]", 0, 0}, {"i32[4]; i32[]; i32[]", "clamp(%a, %b, %c) : i32[4]", 0, 0},
    {"f32[4]; f32[4]; f32[]", "lerp(%a, %b, %c) : f32[4]", 0, 0},
    /* reducing composites, norms */
    {"f32[2, N, 4]", "reduce_mean(%a) {axes = [1, 2]} : f32[2]", NHW, 0},
    {"f16[2, 3]", "reduce_mean(%a) {axes = [1], keepdims = 1} : f16[2, 1]", 0, 0},
    {"f32[2, 3]", "reduce_l1(%a) {axes = [1]} : f32[2]", 0, 0}, {"f32[2, 3]", "reduce_l2(%a) {axes = [1]} : f32[2]", 0, 0},
    {"i32[2, 3]", "reduce_sum_square(%a) {axes = [0]} : i32[3]", 0, 0},
    {"f32[2, 3]", "reduce_log_sum(%a) {axes = [0]} : f32[3]", 0, 0},
    {"f32[2, 3]", "reduce_log_sum_exp(%a) {axes = [0]} : f32[3]", 0, 0},
    {"f32[2, 3]", "reduce_log_sum_exp(%a) {axes = [0, 1], keepdims = 1} : f32[1, 1]", 0, 0},
    {"bf16[N, 3]", "softmax(%a) : bf16[N, 3]", NHW, 0}, {"f32[2, 3]", "log_softmax(%a) {axis = 0} : f32[2, 3]", 0, 0},
    {"f16[2, 3, 4]; f16[3, 4]; f32[3, 4]", "layer_norm(%a, %b, %c) {axis = 1} : f16[2, 3, 4], f32[2, 1, 1], f32[2, 1, 1]", 0, 0},
    {"f32[N, 8]", "layer_norm(%a) : f32[N, 8]", NHW, 0},
    {"f32[2, 8]; f32[8]", "rms_norm(%a, %b) : f32[2, 8]", 0, 0},
    {"f16[2, 3, H, W]; f32[3]; f32[3]; f32[3]; f32[3]", "batch_norm(%a, %b, %c, %d, %e) : f16[2, 3, H, W]", NHW, 0},
    {"f32[2, 3, 4]; f32[3]; f32[3]; f32[3]; f32[3]", "batch_norm_train(%a, %b, %c, %d, %e) : f32[2, 3, 4], f32[3], f32[3]", 0, 0},
    {"f32[2, 4, 5]; f32[4]; f32[4]", "group_norm(%a, %b, %c) {groups = 2} : f32[2, 4, 5]", 0, 0},
    {"f32[2, 4, 5, 5]", "lrn(%a) {size = 3} : f32[2, 4, 5, 5]", 0, 0},
    {"f32[2, 4]", "lp_norm(%a) {p = 1} : f32[2, 4]", 0, 0},
    {"f32[2, 4]; i64[2]; f32[4]", "nll_loss(%a, %b, %c) {ignore_index = -1} : f32[]", 0, 0},
    {"f32[2, 4, 5]; i32[2, 5]", "nll_loss(%a, %b) {reduction = \"none\"} : f32[2, 5]", 0, 0},
    {"f16[2, 4]; i64[2]", "nll_loss(%a, %b) {reduction = \"sum\"} : f16[]", 0, 0},
    {"f32[N, 4]; f32[N, 4]", "mse_loss(%a, %b) : f32[]", NHW, 0},
    {"f32[2, 4]; f32[2, 4]", "l1_loss(%a, %b) {reduction = \"none\"} : f32[2, 4]", 0, 0},
    {"f16[2, 4]; f16[2, 4]", "huber_loss(%a, %b) {delta = 0.5} : f16[]", 0, 0},
    {"f32[2, 4]; f32[2, 4]; f32[2, 1]; f32[4]", "bce_with_logits(%a, %b, %c, %d) : f32[]", 0, 0},
    {"f32[N, 4]; f32[N, 4]", "kl_div(%a, %b) {reduction = \"batchmean\", temperature = 2.0} : f32[]", NHW, 0},
    {"f32[N, 4, H]; i64[N, H]; f32[4]", "cross_entropy(%a, %b, %c) {reduction = \"none\", label_smoothing = 0.1} : f32[N, H]", NHW, 0},
    {"f32[N, 4]; f32[N, 4]", "cross_entropy(%a, %b) : f32[]", NHW, 0},
    /* contractions, attention */
    {"f32[5, 1, 2, 3]; f32[4, 3, 6]", "matmul(%a, %b) : f32[5, 4, 2, 6]", 0, 0},
    {"f32[3]; f32[3]", "matmul(%a, %b) : f32[]", 0, 0}, {"f32[2, 3]; f32[3]", "matmul(%a, %b) : f32[2]", 0, 0},
    {"f32[3]; f32[7, 3, 2]", "matmul(%a, %b) : f32[7, 2]", 0, 0},
    {"i32[N, 2, 3]; i32[N, 3, 2]", "matmul(%a, %b) : i32[N, 2, 2]", NHW, 0},
    {"f32[2, 3, 4]; f32[2, 4, 5]", "einsum(%a, %b) {equation = \"bij,bjk->bki\"} : f32[2, 5, 3]", 0, 0},
    {"f32[3, 3]", "einsum(%a) {equation = \"ii->i\"} : f32[3]", 0, 0}, {"f32[3, 3]", "einsum(%a) {equation = \"ii\"} : f32[]", 0, 0},
    {"f32[2, 3]; f32[3]; f32[2, 4]", "einsum(%a, %b, %c) {equation = \"ij,j,ik\"} : f32[4]", 0, 0},
    {"f16[2, 5, 3]; f16[1, 3, 4]", "einsum(%a, %b) {equation = \"...ij,...jk->...ik\"} : f16[2, 5, 4]", 0, 0},
    {"f32[2, 4, N, 8]; f32[2, 2, 5, 8]; f32[2, 2, 5, 6]; bool[N, 5]", "sdpa(%a, %b, %c, %d) : f32[2, 4, N, 6]", NHW, 0},
    {"f16[1, 2, 3, 8]; f16[1, 2, 3, 8]; f16[1, 2, 3, 8]", "sdpa(%a, %b, %c) {scale = 0.5, is_causal = 1} : f16[1, 2, 3, 8]", 0, 0},
    {"f32[2, 4, N, 8]; f32[2, 2, 5, 8]; f32[2, 2, 5, 6]; f32[2, 4, N, 6]; bool[N, 5]", "sdpa_gradient(%a, %b, %c, %d, %e) : f32[2, 4, N, 8], f32[2, 2, 5, 8], f32[2, 2, 5, 6]", NHW, 0},
    {"f16[1, 2, 3, 8]; f16[1, 2, 3, 8]; f16[1, 2, 3, 8]; f16[1, 2, 3, 8]", "sdpa_gradient(%a, %b, %c, %d) {scale = 0.5, is_causal = 1, finite = 1} : f16[1, 2, 3, 8], f16[1, 2, 3, 8], f16[1, 2, 3, 8]", 0, 0},
    /* pools, movement composites */
    {"f32[1, 2, H, W]", "max_pool(%a) {window = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1], dilations = [1, 1]} : f32[1, 2, floordiv(H - 1, 2) + 1, floordiv(W - 1, 2) + 1]", NHW, 0},
    {"f32[2, 2, 5, 6]", "max_pool(%a) {window = [2, 3], strides = [1, 2], pads = [1, 0, 1, 1], dilations = [1, 2]} : f32[2, 2, 6, 2], i64[2, 2, 6, 2]", 0, 0},
    {"u8[1, 1, 5]", "max_pool(%a) {window = [2], strides = [1], pads = [0, 0], dilations = [1], column_major = 1} : u8[1, 1, 4], i64[1, 1, 4]", 0, 0},
    {"f32[1, 2, 7]", "avg_pool(%a) {window = [2], strides = [2], pads = [0, 0], dilations = [1], ceil_extra = [1]} : f32[1, 2, 4]", 0, 0},
    {"f16[1, 2, H, W]", "avg_pool(%a) {window = [3, 3], strides = [1, 1], pads = [1, 1, 1, 1], dilations = [1, 1], include_pad = 1} : f16[1, 2, H, W]", NHW, 0},
    {"f32[1, 2, 7]", "lp_pool(%a) {window = [2], strides = [2], pads = [0, 0], dilations = [1], p = 3} : f32[1, 2, 3]", 0, 0},
    {"f32[1, 1, 2, 2]; i64[1, 1, 2, 2]", "max_unpool(%a, %b) {shape = [1, 1, 4, 4]} : f32[1, 1, 4, 4]", 0, 0},
    {"i32[2, N]", "tile(%a) {repeats = [3, 2]} : i32[6, 2*N]", NHW, 0},
    {"i32[2, 3]; f32[]; f32[]", "one_hot(%a, %b, %c) {depth = [5], axis = 1} : f32[2, 5, 3]", 0, 0},
    {"u8[2]; i64[]; i64[]", "one_hot(%a, %b, %c) {depth = [5]} : i64[2, 5]", 0, 0},
    {"f32[2, 3, N]", "trilu(%a) {k = [-1], upper = 0} : f32[2, 3, N]", NHW, 0}, {"bool[3, 3]", "trilu(%a) : bool[3, 3]", 0, 0},
    {"f32[1, 1, 4, 4]", "resize(%a) {sizes = [1, 1, 7, 9]} : f32[1, 1, 7, 9]", 0, 0},
    {"f16[1, 1, H, W]", "resize(%a) {sizes = [1, 1, 2*H, 2*W], scales = [1, 1, 2, 2], mode = \"linear\"} : f16[1, 1, 2*H, 2*W]", NHW, 0},
    {"u8[1, 1, 4, 4]", "resize(%a) {sizes = [1, 1, 3, 3], mode = \"cubic\", antialias = 1, coordinates = \"align_corners\"} : u8[1, 1, 3, 3]", 0, 0},
    {"f32[1, 1, 4, 4]; f32[8]", "resize(%a, %b) {sizes = [1, 1, 3, 3], mode = \"linear\", coordinates = \"tf_crop_and_resize\", extrapolation = 10} : f32[1, 1, 3, 3]", 0, 0},
    {"f32[1, 1, H, 4]", "resize(%a) {sizes = [1, 1, u, v], mode = \"linear\", antialias = 1} : f32[1, 1, u, v]", "sym H in [1, 99]\nsym u unbacked in [-inf, inf]\nsym v unbacked in [-inf, inf]\n", 0},
    {"f32[2, 3, 4, 5]; f32[2, 6, 7, 2]", "grid_sample(%a, %b) : f32[2, 3, 6, 7]", 0, 0},
    {"f32[1, 1, 4, 4, 4]; f32[1, 2, 2, 2, 3]", "grid_sample(%a, %b) {mode = \"nearest\", padding = \"border\"} : f32[1, 1, 2, 2, 2]", 0, 0},
    {"f16[1, 1, H, W]; f16[1, 2, 2, 2]", "grid_sample(%a, %b) {mode = \"cubic\", padding = \"reflection\", align_corners = 1} : f16[1, 1, 2, 2]", NHW, 0},
    {"f32[1, 2, 8, 8]; f32[3, 4]; i64[3]", "roi_align(%a, %b, %c) {height = 2, width = 3} : f32[3, 2, 2, 3]", 0, 0},
    {"f32[1, 8, 9]", "col2im(%a) {image = [4, 4], block = [2, 2], strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1]} : f32[1, 2, 4, 4]", 0, 0},
    /* recurrent */
    {"f32[5, N, 4]; f32[1, 3, 4]; f32[1, 3, 3]; f32[1, 6]", "rnn(%a, %b, %c, %d) {hidden = 3} : f32[5, 1, N, 3], f32[1, N, 3]", NHW, 0},
    {"f32[5, 2, 4]; f32[2, 9, 4]; f32[2, 9, 3]; f32[2, 18]; i32[2]; f32[2, 2, 3]", "gru(%a, %b, %c, %d, %e, %f) {hidden = 3, direction = \"bidirectional\", linear_before_reset = 1} : f32[5, 2, 2, 3], f32[2, 2, 3]", 0, 0},
    {"f32[5, 2, 4]; f32[1, 9, 4]; f32[1, 9, 3]", "gru(%a, %b, %c) {hidden = 3, direction = \"reverse\", activations = \"HardSigmoid,Affine\", alpha = [0.3, 2], clip = 3} : f32[5, 1, 2, 3], f32[1, 2, 3]", 0, 0},
    {"f16[5, 2, 4]; f16[1, 12, 4]; f16[1, 12, 3]; f16[1, 24]; i32[2]; f16[1, 2, 3]; f16[1, 2, 3]; f16[1, 9]", "lstm(%a, %b, %c, %d, %e, %f, %g, %h) {hidden = 3} : f16[5, 1, 2, 3], f16[1, 2, 3], f16[1, 2, 3]", 0, 0},
    {"f32[5, 2, 4]; f32[1, 12, 4]; f32[1, 12, 3]", "lstm(%a, %b, %c) {hidden = 3, input_forget = 1} : f32[5, 1, 2, 3], f32[1, 2, 3], f32[1, 2, 3]", 0, 0},
    /* random */
    {"i64[]; i64[]", "rng_uniform(%a, %b) {shape = [3, N]} : f32[3, N]", NHW, 0},
    {"i64[]; i64[]", "rng_normal(%a, %b) {shape = [3, 5], dtype = bf16} : bf16[3, 5]", 0, 0},
};

static const op_sample bad[] = {
    {"f32[4, 2]; f32[3]", "add(%a, %b)", 0, "sizes 2 and 3 of axis 1 (of 2) do not broadcast"},
    {"f32[N]; f32[N + 1]", "add(%a, %b)", "sym N in [2, 9]\n", "do not broadcast"},
    {"f32[4]; f64[4]", "mul(%a, %b)", 0, "x is f32 and y is f64, expected equal dtypes"},
    {"i32[4]", "exp(%a)", 0, "x is i32, expected a float dtype"},
    {"f32[4]", "bit_not(%a)", 0, "expected bool or an integer"},
    {"f32[4]", "cast(%a) {dtype = f32, round = \"down\"}", 0, "round is 'down', expected one of even,up"},
    {"f32[4]", "bitcast(%a) {dtype = f16}", 0, "expected equal widths"},
    {"f32[4]; f32[4]", "shl(%a, %b)", 0, "expected an integer dtype"},
    {"i32[4]; i32[4]", "atan2(%a, %b)", 0, "expected a float dtype"},
    {"c64[4]; c64[4]", "lt(%a, %b)", 0, "expected a dtype with an order"},
    {"f32[4]; f32[4]; f32[4]", "select(%a, %b, %c)", 0, "c is f32, expected bool"},
    {"bool[4]; f32[4]; i32[4]", "select(%a, %b, %c)", 0, "x is f32 and y is i32"},
    {"f32[]", "iota {shape = [2], axis = 1}", 0, "axis 1 is outside [-1, 1)"},
    {"f32[]", "iota {shape = [2], axis = 0, dtype = bool}", 0, "expected an integer or float"},
    {"f32[]", "iota {shape = [-2], axis = 0}", 0, "size -2"},
    {"f32[]", "dims {values = [1, 2], scalar = 1}", 0, "values has 2 entries, expected 1"},
    {"i64[2]", "sym_bind(%a) {syms = [u]}", U, "sizes 2 and 1 differ"},
    {"i64[1]", "sym_bind(%a) {syms = [u + 1]}", U, "expected one symbol"},
    {"i32[]; i64[]", "rng_bits(%a, %b) {shape = [2]}", 0, "seed is i32, expected i64"},
    {"f32[2, 3]", "reshape(%a) {shape = [7]}", 0, "x has 6 elements, the new shape has 7"},
    {"f32[2, 3]", "transpose(%a) {perm = [0, 0]}", 0, "perm names axis 0 twice"},
    {"f32[2, 3]", "transpose(%a) {perm = [0]}", 0, "perm has 1 entries, expected 2"},
    {"f32[3]", "expand(%a) {shape = [4]}", 0, "has size 3, which cannot become 4"},
    {"f32[2, 3]", "expand(%a) {shape = [3]}", 0, "x has rank 2, the shape only 1 sizes"},
    {"f32[5]", "slice(%a) {starts = [3], sizes = [3], steps = [1]}", 0, "axis 0: index 5 is outside a size of 5"},
    {"f32[5]", "slice(%a) {starts = [3], sizes = [1], steps = [0]}", 0, "the step of axis 0 is 0"},
    {"f32[2, 3]; f32[4, 3]", "concat(%a, %b) {axis = 1}", 0, "sizes 2 and 4 differ"},
    {"f32[2, 3]; f32[3]", "concat(%a, %b) {axis = 0}", 0, "has rank 1, expected 2"},
    {"f32[3]", "pad(%a) {low = [-2], high = [-2]}", 0, "axis 0 of the result would have size -1"},
    {"f32[3]", "pad(%a) {low = [1], high = [1], mode = \"mirror\"}", 0, "mode is 'mirror'"},
    {"f32[0]", "pad(%a) {low = [1], high = [1], mode = \"edge\"}", 0, "needs elements to repeat"},
    {"f32[3]; f32[2]", "gather(%a, %b)", 0, "index is f32, expected i32 or i64"},
    {"f32[3]; i64[2]", "gather(%a, %b) {axis = 1}", 0, "axis 1 is outside"},
    {"f32[2, 3]; i64[3, 1]", "gather_elements(%a, %b) {axis = 1}", 0, "axis 0: index has size 3, x only 2"},
    {"f32[2, 3]; i64[1, 3]", "gather_nd(%a, %b)", 0, "index tuples have 3 entries, x has rank 2"},
    {"f32[2, 3]; i64[1, 2]", "gather_nd(%a, %b) {batch_dims = 1}", 0, "batch_dims 1 with index of rank 2"},
    {"f32[4]; i64[2]; f32[3]", "scatter_elements(%a, %b, %c)", 0, "index and updates: sizes 2 and 3 differ"},
    {"f32[4]; i64[2]; f32[2]", "scatter_elements(%a, %b, %c) {reduction = \"sum\"}", 0, "reduction is 'sum'"},
    {"f32[4, 5]; i64[3, 1]; f32[3, 4]", "scatter_nd(%a, %b, %c)", 0, "updates: sizes 4 and 5 differ"},
    {"f32[2, 3]", "reduce_sum(%a) {axes = [1, -1]}", 0, "axes names axis 1 twice"},
    {"f32[2, 3]", "reduce_sum(%a) {axes = [2]}", 0, "axis 2 is outside [-2, 2)"},
    {"f32[0]", "argmax(%a) {axis = 0}", 0, "is empty"},
    {"f32[]", "cumsum(%a) {axis = 0}", 0, "axis 0 is outside"},
    {"f32[2]", "sort(%a) {axis = 3} : f32[2], i64[2]", 0, "axis 3 is outside"},
    {"f32[2]", "topk(%a) {k = [3]} : f32[3], i64[3]", 0, "k is 3, axis 0 of x has only 2 elements"},
    {"f32[2]", "unique(%a) {axis = 1}", 0, "axis 1 is outside"},
    {"f32[2, 3]; f32[4, 2]", "dot_general(%a, %b) {contract_x = [1], contract_y = [0]}", 0, "contract_x: sizes 3 and 4 differ"},
    {"f32[2, 3]; f32[3, 2]", "dot_general(%a, %b) {contract_x = [1], contract_y = []}", 0, "expected equally many"},
    {"f32[2, 2]; f32[2, 2]", "dot_general(%a, %b) {batch_x = [0], batch_y = [0], contract_x = [0], contract_y = [1]}", 0, "names axis 0 a second time"},
    {"f32[1, 3, 8]; f32[8, 4, 3]", "conv(%a, %b) {strides = [1], pads = [0, 0], dilations = [1]}", 0, "channels of x and of w times groups: sizes 3 and 4 differ"},
    {"f32[1, 3, 2]; f32[8, 3, 3]", "conv(%a, %b) {strides = [1], pads = [0, 0], dilations = [1]}", 0, "the window reaches over 3 elements, the padded size is 2"},
    {"f32[1, 3, 8]; f32[8, 3, 3]", "conv(%a, %b) {strides = [0], pads = [0, 0], dilations = [1]}", 0, "must be at least 1"},
    {"f32[1, 3, 8]; f32[8, 3, 3]; f32[7]", "conv(%a, %b, %c) {strides = [1], pads = [0, 0], dilations = [1]}", 0, "bias and filters: sizes 7 and 8 differ"},
    {"f32[1, 4, 8]; f32[3, 2, 3]", "conv(%a, %b) {strides = [1], pads = [0, 0], dilations = [1], groups = 2}", 0, "the number of filters is 3, no multiple of groups = 2"},
    {"f32[1, 4, 5]; f32[3, 3, 3]", "conv_transpose(%a, %b) {strides = [2], pads = [1, 1], dilations = [1]}", 0, "channels of x and of w"},
    {"f32[2, 4, 9]; f32[2, 6, 8]", "conv_weight_grad(%a, %b) {kernel = [3], strides = [1], pads = [0, 0], dilations = [1]}", 0, "sizes 7 and 8 differ"},
    {"f32[2, 3, 8]", "reduce_window(%a) {kind = \"mean\", window = [2], strides = [2], pads = [0, 0], dilations = [1]}", 0, "kind is 'mean'"},
    {"f32[2, 3]", "reduce_window(%a) {kind = \"max\", window = [1, 1, 2], strides = [2, 2, 2], pads = [0, 0], dilations = [1]}", 0, "window has 3 entries, x has rank 2"},
    {"f32[1, 1, 4, 4]; f32[1, 1, 2, 2]; f32[1, 7, 3, 3]", "deform_conv(%a, %b, %c) {strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1]}", 0, "channels of offset or mask"},
    {"f32[8, 3]", "dft(%a) {axis = 0, length = [8]}", 0, "has size 3, expected 1 (real) or 2"},
    {"f32[8, 2]", "dft(%a) {axis = 1, length = [8]}", 0, "is the last one"},
    {"f32[3, 4]", "det(%a)", 0, "last two axes: sizes 3 and 4 differ"},
    {"f32[1, 3, 5]; f32[1, 2, 3]", "nms(%a, %b)", 0, "boxes, axis 2"},
    {"f32[]; f32[4]", "cond(%a, %b)\n region (%x: f32[4]) { return %x }\n region (%x: f32[4]) { return %x }\n", 0, "pred is f32, expected bool"},
    {"bool[]; f32[4]", "cond(%a, %b)\n region (%x: f32[4]) { return %x }\n region (%x: f32[4]) { return %x, %x }\n", 0, "the else branch has 2 outputs, expected 1"},
    {"bool[]; f32[4]", "cond(%a, %b)\n region (%x: f32[4]) { return %x }\n region (%x: f32[4]) { %y = is_nan(%x) return %y }\n", 0, "in the then branch and bool"},
    {"bool[]; f32[4]", "cond(%a, %b)\n region (%x: f32[5]) { return %x }\n region (%x: f32[4]) { return %x }\n", 0, "axis 0 of operand 1 has size 4, input 0 of the then branch expects 5"},
    {"i64[]; bool[]; f32[4]", "while(%a, %b, %c) {carried = 1}\n region (%i: i64[], %x: f32[4]) { %t = constant {value = bool[] {true}} %z = concat(%x, %x) {axis = 0} return %t, %z }\n", 0, "has size 4 in one iteration and 8 in the next"},
    {"i64[]; bool[]; f32[4]", "while(%a, %b, %c) {carried = 2}\n region (%i: i64[], %x: f32[4]) { return %x, %x }\n", 0, "carried is 2, expected 0 to 1"},
    {"i64[]; bool[]; f32[4]", "while(%a, %b, %c) {carried = 1}\n region (%i: i64[], %x: f32[4]) { return %x, %x }\n", 0, "expected a bool scalar"},
    {"f32[3]; f32[5, 3]; f32[4, 3]", "scan(%a, %b, %c) {carried = 1, scanned = 2, stacked = 0}\n region (%h: f32[3], %x: f32[3], %y: f32[3]) { return %h }\n", 0, "scanned axes: sizes 5 and 4 differ"},
    {"f32[3]; f32[5, 3]", "scan(%a, %b) {carried = 1, scanned = 1, stacked = 0, reverse = [1, 1]}\n region (%h: f32[3], %x: f32[3]) { return %h }\n", 0, "reverse has 2 entries, expected 1"},
    {"f32[3]", "call(%a)\n region (%x: f32[3], %y: f32[3]) { return %x }\n", 0, "the region has 2 inputs, expected 1"},
    {"f32[3]", "gradient(%a) {wrt = [0]}\n region (%x: f32[3]) { %y = is_nan(%x) return %y }\n", 0, "the region's first result is bool, expected a float dtype"},
    {"f32[3]", "gradient(%a) {wrt = [1]}\n region (%x: f32[3]) { return %x }\n", 0, "wrt names value 1, expected 0 to 0"},
    {"f32[3]", "gradient(%a) {wrt = []}\n region (%x: f32[3]) { return %x }\n", 0, "wrt has 0 places, expected 1 to 256"},
    {"f32[3]; i64[3]", "gradient(%a, %b) {wrt = [1]}\n region (%x: f32[3], %i: i64[3]) { return %x }\n", 0, "expected a float dtype"},
    {"f32[3]", "gradient(%a) {wrt = [0]}\n region (%x: f32[s]) { return %x }\n", "sym s in [0, 9]\n", "input 0 of the region has other sizes than operand 0"},
    {"f32[2]", "check(%a) {message = \"m\"}", 0, "ok is f32, expected bool"},
    {"f32[2]; f32[3]", "assign(%a, %b)", 0, "target and value: sizes 2 and 3 differ"},
    {"i32[4]", "gelu(%a)", 0, "expected a float dtype"},
    {"f32[4]; f64[]", "clamp(%a, %b)", 0, "expected equal dtypes"},
    {"i32[2, 3]", "softmax(%a)", 0, "expected a float dtype"},
    {"f32[2, 3]; f32[4]", "layer_norm(%a, %b)", 0, "axis 0 of w has size 4, which does not broadcast to 3"},
    {"f32[2, 3]; f32[2, 2, 3]", "rms_norm(%a, %b)", 0, "w has rank 3, more than x (2)"},
    {"f32[2, 3]; f32[4]; f32[3]; f32[3]; f32[3]", "batch_norm(%a, %b, %c, %d, %e)", 0, "w: sizes 4 and 3 differ"},
    {"f32[2, 3]; f32[3]; f32[3]; f32[3]; f32[3, 1]", "batch_norm_train(%a, %b, %c, %d, %e) : f32[2, 3], f32[3], f32[3]", 0, "var has rank 2, expected 1"},
    {"f32[2, 4, 5]", "group_norm(%a) {groups = 3}", 0, "expected a divisor of the channels"},
    {"f32[2, 4, 5]", "lrn(%a) {size = 0}", 0, "size is 0"},
    {"f32[2, 4]", "lp_norm(%a) {p = 3}", 0, "p is 3, expected 1 or 2"},
    {"f32[2, 4]; i64[3]", "nll_loss(%a, %b)", 0, "logp and target: sizes 2 and 3 differ"},
    {"f32[2, 4]; f32[2, 3]", "mse_loss(%a, %b)", 0, "x and target: sizes 4 and 3 differ"},
    {"f32[2, 4]; f64[2, 4]", "l1_loss(%a, %b)", 0, "expected equal dtypes"},
    {"f32[2, 4]; f32[4]", "huber_loss(%a, %b)", 0, "target has rank 1, expected 2"},
    {"f32[2, 4]; f32[2, 4]; f32[3]", "bce_with_logits(%a, %b, %c)", 0, "axis 0 of w has size 3, which does not broadcast to 4"},
    {"f32[2, 4]; f32[2, 4]", "kl_div(%a, %b) {reduction = \"max\"}", 0, "reduction"},
    {"f32[2, 4]; i64[2, 4]", "cross_entropy(%a, %b)", 0, "target has rank 2, expected 1"},
    {"f32[2, 4]; i64[2]; f32[3]", "cross_entropy(%a, %b, %c)", 0, "w and classes: sizes 3 and 4 differ"},
    {"f32[2, 3]; f32[2, 3]", "matmul(%a, %b)", 0, "last axis of x and second last of y: sizes 3 and 2 differ"},
    {"f32[]; f32[2, 3]", "matmul(%a, %b)", 0, "x has rank 0, expected at least 1"},
    {"f32[2, 3]", "einsum(%a) {equation = \"ijk\"}", 0, "more labels than the operand has axes"},
    {"f32[2, 3]", "einsum(%a) {equation = \"ij->ik\"}", 0, "names a label that no operand has"},
    {"f32[2, 3]", "einsum(%a) {equation = \"i1\"}", 0, "expected a letter"},
    {"f32[2, 3]", "einsum(%a) {equation = \"ij,jk\"}", 0, "more terms than operands"},
    {"f32[2, 3, 4, 8]; f32[2, 2, 4, 8]; f32[2, 2, 4, 8]", "sdpa(%a, %b, %c)", 0, "3 query heads are no multiple of 2 key heads"},
    {"f32[2, 2, 4, 8]; f32[2, 2, 4, 8]; f32[2, 2, 4, 8]; f32[3, 4]", "sdpa(%a, %b, %c, %d)", 0, "axis 0 of mask has size 3"},
    {"f32[2, 2, 4, 8]; f32[2, 2, 4, 8]; f32[2, 2, 4, 6]; f32[2, 2, 4, 8]", "sdpa_gradient(%a, %b, %c, %d) : f32[2, 2, 4, 8], f32[2, 2, 4, 8], f32[2, 2, 4, 6]", 0, "width of v and dy"},
    {"f32[1, 2, 3, 8]; f32[1, 2, 3, 8]; f32[1, 2, 3, 8]", "sdpa(%a, %b, %c) {is_causal = 2}", 0, "is_causal is 2, expected 0 or 1"},
    {"f32[1, 2, 3, 8]; f32[1, 2, 3, 8]; f32[1, 2, 3, 8]", "sdpa(%a, %b, %c) {finite = -1}", 0, "finite is -1, expected 0 or 1"},
    {"f32[1, 2, 3, 8]; f32[1, 2, 3, 8]; f32[1, 2, 3, 8]; f32[1, 2, 3, 8]", "sdpa_gradient(%a, %b, %c, %d) {is_causal = -1} : f32[1, 2, 3, 8], f32[1, 2, 3, 8], f32[1, 2, 3, 8]", 0, "is_causal is -1, expected 0 or 1"},
    {"f32[1, 2, 3, 8]; f32[1, 2, 3, 8]; f32[1, 2, 3, 8]; f32[1, 2, 3, 8]", "sdpa_gradient(%a, %b, %c, %d) {finite = 2} : f32[1, 2, 3, 8], f32[1, 2, 3, 8], f32[1, 2, 3, 8]", 0, "finite is 2, expected 0 or 1"},
    {"f32[2, 5]", "max_pool(%a) {window = [2], strides = [1], pads = [0, 0], dilations = [1]}", 0, "x has rank 2, expected at least 3"},
    {"i32[1, 1, 5]", "avg_pool(%a) {window = [2], strides = [1], pads = [0, 0], dilations = [1]}", 0, "expected a float dtype"},
    {"f32[1, 1, 5]", "lp_pool(%a) {window = [2], strides = [1], pads = [0, 0], dilations = [1], p = 0}", 0, "p is 0"},
    {"f32[1, 1, 2]; i64[1, 1, 3]", "max_unpool(%a, %b) {shape = [1, 1, 4]}", 0, "x and indices: sizes 2 and 3 differ"},
    {"f32[2]", "tile(%a) {repeats = [-1]}", 0, "axis 0 is repeated -1 times"},
    {"f32[2]; f32[]; f32[]", "one_hot(%a, %b, %c) {depth = [5]}", 0, "index is f32, expected an integer dtype"},
    {"f32[2]", "trilu(%a)", 0, "expected at least 2"},
    {"f32[1, 4]", "resize(%a) {sizes = [4]}", 0, "sizes has 1 entries, expected 2"},
    {"f32[1, 4]", "resize(%a) {sizes = [1, 8], coordinates = \"tf_crop_and_resize\"}", 0, "needs the operand roi"},
    {"f32[2, 3, 4, 5]; f32[2, 6, 7, 3]", "grid_sample(%a, %b)", 0, "sizes 3 and 2 differ"},
    {"f32[1, 2, 8, 8]; f32[3, 5]; i64[3]", "roi_align(%a, %b, %c)", 0, "rois, axis 1"},
    {"f32[1, 7, 9]", "col2im(%a) {image = [4, 4], block = [2, 2], strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1]}", 0, "no multiple of the block's 4 elements"},
    {"f32[1, 8, 9]", "col2im(%a) {image = [4, 4], block = [2, 2], strides = [1, 0], pads = [0, 0, 0, 0], dilations = [1, 1]}", 0, "stride 0 and dilation 1 of axis 1"},
    {"f32[1, 8, 9]", "col2im(%a) {image = [4, 4], block = [2, 2], strides = [1, 1], pads = [0, 0, 0, 0], dilations = [-1, 1]}", 0, "stride 1 and dilation -1 of axis 0"},
    {"f32[1, 8, 0]", "col2im(%a) {image = [4, 4], block = [2, 2], strides = [1, 1], pads = [0, 0, 0, 0], dilations = [9223372036854775807, 1]}", 0, "window and padding pass 64 bits"},
    {"f32[1, 8, 0]", "col2im(%a) {image = [4, 4], block = [2, 2], strides = [1, 1], pads = [9223372036854775807, 0, 9223372036854775807, 0], dilations = [1, 1]}", 0, "window and padding pass 64 bits"},
    {"f32[1, 8, 8]", "col2im(%a) {image = [4, 4], block = [2, 2], strides = [1, 1], pads = [0, 0, 0, 0], dilations = [1, 1]}", 0, "axis 2 of x is 8, image and block give 9"},
    {"f32[1, 8, 9]", "col2im(%a) {image = [4, 4], block = [2, 2], strides = [1, 1], pads = [0, 0, 0, 0], dilations = [9, 9]}", 0, "axis 2 of x is 9, image and block give 0"},
    {"f32[5, 2, 4]; f32[1, 3, 4]; f32[1, 3, 4]", "rnn(%a, %b, %c) {hidden = 3} : f32[5, 1, 2, 3], f32[1, 2, 3]", 0, "r: sizes 4 and 3 differ"},
    {"f32[5, 2, 4]; f32[1, 3, 4]; f32[1, 3, 3]", "gru(%a, %b, %c) {hidden = 3} : f32[5, 1, 2, 3], f32[1, 2, 3]", 0, "w: sizes 3 and 9 differ"},
    {"f32[5, 2, 4]; f32[2, 12, 4]; f32[2, 12, 3]", "lstm(%a, %b, %c) {hidden = 3, direction = \"both\"} : f32[5, 2, 2, 3], f32[2, 2, 3], f32[2, 2, 3]", 0, "direction is 'both'"},
    {"i64[]; i64[]", "rng_uniform(%a, %b) {shape = [2], dtype = i32}", 0, "dtype is i32, expected a float dtype"},
};
/* clang-format on */

const op_sample *op_samples(uint32_t *out_count)
{
    *out_count = (uint32_t)(sizeof good / sizeof good[0]);
    return good;
}

const op_sample *op_bad_samples(uint32_t *out_count)
{
    *out_count = (uint32_t)(sizeof bad / sizeof bad[0]);
    return bad;
}

const char *op_sample_name(const op_sample *s, char buf[64])
{
    (void)snprintf(buf, 64, "%.*s", (int)strcspn(s->node, " ({"), s->node);
    return buf;
}

/* How many results the node has: commas outside of brackets in the types, or 1. */
static uint32_t result_count(const op_sample *s)
{
    const char *p = strstr(s->node, " : ");
    uint32_t n = 1;
    int depth = 0;
    for (; p != NULL && *p != '\0' && *p != '\n'; p++) {
        depth += *p == '[' || *p == '(' ? 1 : *p == ']' || *p == ')' ? -1 : 0;
        n += *p == ',' && depth == 0;
    }
    return n;
}

static void add_inputs(st_str *text, const char *inputs)
{
    char name = 'a';
    for (const char *p = inputs; *p != '\0'; name++) {
        const size_t len = strcspn(p, ";");
        st_str_addf(text, "%s%%%c: %.*s", name == 'a' ? "" : ", ", name, (int)len, p);
        p += len + (p[len] == ';');
    }
}

stator_status op_sample_read(text_world *w, const op_sample *s, text_graph *out, stator_diag **err)
{
    st_str text;
    const uint32_t n = result_count(s);
    st_str_init(&text, &w->mem);
    st_str_addf(&text, "stir 1\n%sgraph @g(", s->syms ? s->syms : "");
    add_inputs(&text, s->inputs);
    st_str_add(&text, ") {\n  ");
    for (uint32_t i = 0; i < n; i++) {
        st_str_addf(&text, "%s%%%u", i ? ", " : "", 100u + i);
    }
    st_str_addf(&text, " = %s\n  return ", s->node);
    for (uint32_t i = 0; i < n; i++) {
        st_str_addf(&text, "%sr%u: %%%u", i ? ", " : "", i, 100u + i);
    }
    st_str_add(&text, "\n}\n");
    const stator_status status = st_str_ok(&text)
                                     ? text_read(w, text.data, text.len, NULL, NULL, out, err)
                                     : st_fail_oom(err);
    st_str_deinit(&text);
    return status;
}
