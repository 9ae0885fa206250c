/* Epilogues to post-ops: they are done on the accumulated f32 values, in order, before the one
 * rounding to the output's dtype.
 *
 * Of two eltwise post-ops of one algorithm oneDNN 2.6 does both with the numbers of the first
 * ("brg..." implementations). So a second factor is read from memory, and two clips are not taken.
 */
#include "plugins/cpu-llvm/onednn/dn_library.h"

/* The eltwise algorithm, 0: it is none. Value and value2 are alpha and beta. */
static dnnl_alg_kind_t eltwise_of(const st_epilogue *e, float *alpha, float *beta)
{
    *alpha = 0;
    *beta = 0;
    switch (e->kind) {
    case ST_EPILOGUE_RELU:
        return dnnl_eltwise_relu;
    case ST_EPILOGUE_SCALE:
        *alpha = (float)e->value;
        return dnnl_eltwise_linear;
    case ST_EPILOGUE_ROUND:
        return dnnl_eltwise_round;
    case ST_EPILOGUE_CLIP:
        *alpha = (float)e->value;
        *beta = (float)e->value2;
        return dnnl_eltwise_clip;
    case ST_EPILOGUE_GELU_ERF:
        return dnnl_eltwise_gelu_erf;
    case ST_EPILOGUE_GELU_TANH:
        return dnnl_eltwise_gelu_tanh;
    case ST_EPILOGUE_SIGMOID:
        return dnnl_eltwise_logistic;
    case ST_EPILOGUE_TANH:
        return dnnl_eltwise_tanh;
    case ST_EPILOGUE_SILU:
        *alpha = 1;
        return dnnl_eltwise_swish;
    default:
        return dnnl_alg_kind_undef;
    }
}

/* A vector along the output's axis `feature`. */
static bool vector_of(uint32_t n_dims, uint32_t feature, int64_t extent, uint32_t dtype,
                      dnnl_memory_desc_t *out)
{
    dnnl_dims_t dims;
    dnnl_dims_t strides;
    for (uint32_t i = 0; i < n_dims; i++) {
        dims[i] = i == feature ? extent : 1;
        strides[i] = i < feature ? extent : 1;
    }
    return dn_strided((int)n_dims, dims, dn_type_of(dtype), strides, out);
}

static bool has_before(const dn_op *op, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++) {
        if (op->contraction.epilogue[k].kind == op->contraction.epilogue[i].kind) {
            return true;
        }
    }
    return false;
}

bool dn_is_number_read(const dn_op *op, uint32_t i)
{
    const uint32_t kind = op->contraction.epilogue[i].kind;
    return kind == ST_EPILOGUE_DIVIDE || kind == ST_EPILOGUE_OFFSET ||
           (kind == ST_EPILOGUE_SCALE && has_before(op, i));
}

/* How oneDNN does it with the tensor behind its role. */
static dnnl_alg_kind_t binary_of(uint32_t kind)
{
    switch (kind) {
    case ST_EPILOGUE_DIVIDE:
        return dnnl_binary_div;
    case ST_EPILOGUE_ADD:
    case ST_EPILOGUE_BIAS:
    case ST_EPILOGUE_OFFSET:
        return dnnl_binary_add;
    default:
        return dnnl_binary_mul;
    }
}

/* Are the axes of a batch of matrices in memory in another order than here? With such an output
 * oneDNN 2.6 reads the tensor of a binary post-op at an address of its own making. */
static bool is_permuted(const dnnl_memory_desc_t *out)
{
    for (int i = 1; i < out->ndims; i++) {
        if (out->format_desc.blocking.strides[i] > out->format_desc.blocking.strides[i - 1]) {
            return true;
        }
    }
    return false;
}

/* Post-ops on their way into a primitive. */
typedef struct appending {
    const dn_op *op;
    const dn_candidate *how;
    const dnnl_memory_desc_t *out;
    uint32_t feature; /* the axis of out that a vector goes along */
    uint32_t number;  /* post-ops so far */
    dnnl_post_ops_t ops;
    dn_desc *desc;
} appending;

/* Place `i` of the epilogue, which brings a tensor, a vector or a number. A sum into what is there
 * is oneDNN's own. */
static bool append_binary(const appending *a, uint32_t i)
{
    const dn_op *op = a->op;
    const dnnl_memory_desc_t *out = a->out;
    dn_desc *desc = a->desc;
    dnnl_memory_desc_t *md = &desc->md[DN_POST + i];
    const uint32_t kind = op->contraction.epilogue[i].kind;
    const bool is_number = dn_is_number_read(op, i);
    const uint32_t dtype = is_number ? (uint32_t)STATOR_F32 : op->contraction.epilogue[i].dtype;
    desc->used |= 1u << (DN_POST + i);
    if (kind != ST_EPILOGUE_ADD) {
        const int64_t extent =
            is_number || kind == ST_EPILOGUE_TIMES_ONE ? 1 : out->dims[a->feature];
        if (!vector_of((uint32_t)out->ndims, a->feature, extent, dtype, md)) {
            return false;
        }
    } else {
        *md = *out;
        md->data_type = dn_type_of(dtype);
        if (a->how->is_sum && desc->sum == 0) {
            desc->sum = i + 1u;
            return out->data_type == md->data_type &&
                   dnnl_post_ops_append_sum(a->ops, 1.0f) == dnnl_success;
        }
        if (a->how->move_out) {
            return false; /* the buffer would have to be moved as well */
        }
    }
    if (op->contraction.kind == ST_CONTRACTION_GEMM && out->ndims > 2 && is_permuted(out)) {
        return false;
    }
    desc->arg[DN_POST + i] = DNNL_ARG_ATTR_MULTIPLE_POST_OP((int)a->number) | DNNL_ARG_SRC_1;
    return dnnl_post_ops_append_binary(a->ops, binary_of(kind), md) == dnnl_success;
}

/* Rounding at the end is the store's as well. */
static bool is_of_store(const dn_op *op, uint32_t i)
{
    return op->contraction.epilogue[i].kind == ST_EPILOGUE_ROUND &&
           i + 1u == op->contraction.n_epilogue &&
           st_element_bytes(op->contraction.out.dtype) == 1u;
}

static bool append_all(appending *a)
{
    const dn_op *op = a->op;
    for (uint32_t i = 0; i < op->contraction.n_epilogue; i++) {
        const st_epilogue *e = &op->contraction.epilogue[i];
        float alpha = 0;
        float beta = 0;
        if (a->desc->arg[DN_POST + i] == DNNL_ARG_BIAS || is_of_store(op, i)) {
            continue;
        }
        if (e->kind == ST_EPILOGUE_NARROW || (e->kind == ST_EPILOGUE_CLIP && has_before(op, i))) {
            return false;
        }
        const dnnl_alg_kind_t alg =
            dn_is_number_read(op, i) ? dnnl_alg_kind_undef : eltwise_of(e, &alpha, &beta);
        const bool is_done =
            alg != dnnl_alg_kind_undef
                ? dnnl_post_ops_append_eltwise(a->ops, 1.0f, alg, alpha, beta) == dnnl_success
                : append_binary(a, i);
        if (!is_done) {
            return false;
        }
        a->number++;
    }
    return !a->how->is_sum || a->desc->sum;
}

/* The zero point of an operand, known with each call. */
static bool add_zero(const st_contraction_zero *zero, uint32_t k, dnnl_primitive_attr_t attr,
                     dn_desc *desc)
{
    static const int args[2] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS};
    static const dnnl_dims_t dims = {1};
    static const dnnl_dims_t strides = {1};
    const int32_t unknown = DNNL_RUNTIME_S32_VAL;
    if (!dn_has_zero(zero)) {
        return true;
    }
    desc->used |= 1u << (DN_ZERO + k);
    desc->arg[DN_ZERO + k] = DNNL_ARG_ATTR_ZERO_POINTS | args[k];
    return dn_strided(1, dims, dnnl_s32, strides, &desc->md[DN_ZERO + k]) &&
           dnnl_primitive_attr_set_zero_points(attr, args[k], 1, 0, &unknown) == dnnl_success;
}

bool dn_zero_points(const dn_op *op, dnnl_primitive_attr_t attr, dn_desc *desc)
{
    return add_zero(&op->contraction.x_zero, 0, attr, desc) &&
           add_zero(&op->contraction.y_zero, 1, attr, desc);
}

bool dn_post_ops(const dn_op *op, const dn_candidate *how, uint32_t feature,
                 const dnnl_memory_desc_t *out, dnnl_primitive_attr_t attr, dn_desc *desc)
{
    dnnl_post_ops_t ops = NULL;
    if (dnnl_post_ops_create(&ops) != dnnl_success) {
        return false;
    }
    appending all = {
        .op = op, .how = how, .out = out, .feature = feature, .ops = ops, .desc = desc};
    const bool is_done =
        append_all(&all) && dnnl_primitive_attr_set_post_ops(attr, ops) == dnnl_success;
    (void)dnnl_post_ops_destroy(ops);
    return is_done;
}
