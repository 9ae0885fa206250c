/* Numbers to oneDNN's descriptors.
 *
 * oneDNN recognises an order of axes by comparing every stride with those of a dense tensor, those
 * of axes of one element too, which here may be anything; so such strides are set to what makes the
 * tensor look dense. An implementation counts by its name: "brg..." and "jit..." are fast, "gemm"
 * is usable, "ref" never is. */
#include "plugins/cpu-llvm/onednn/dn_library.h"

#include <string.h>

/* ---- one tensor ---- */

typedef struct tensor {
    uint32_t n;
    dnnl_dims_t dims;
    dnnl_dims_t strides;
} tensor;

static void add_axis(tensor *t, int64_t extent, int64_t stride)
{
    t->dims[t->n] = extent;
    t->strides[t->n] = stride;
    t->n++;
}

/* Strides of the dense tensor whose axes lie in this order, outermost first; 1: ours are the same
 * but for axes of one element, and become these. */
static bool take_order(tensor *t, const uint32_t *order)
{
    dnnl_dims_t dense;
    int64_t stride = 1;
    for (uint32_t i = t->n; i-- > 0;) {
        const uint32_t axis = order[i];
        dense[axis] = stride;
        stride *= t->dims[axis];
        if (t->dims[axis] != 1 && t->strides[axis] != dense[axis]) {
            return false;
        }
    }
    memcpy(t->strides, dense, t->n * sizeof dense[0]);
    return true;
}

/* Axes of one element get the stride that continues the axis inside of them. */
static void normalize_unit_strides(tensor *t)
{
    int64_t inner = 1;
    for (uint32_t i = t->n; i-- > 0;) {
        if (t->dims[i] == 1) {
            t->strides[i] = inner;
        } else {
            const int64_t span = t->strides[i] * t->dims[i];
            inner = span > inner ? span : inner;
        }
    }
}

static void channels_last_order(uint32_t n, uint32_t *order)
{
    order[0] = 0;
    for (uint32_t i = 2; i < n; i++) {
        order[i - 1u] = i;
    }
    order[n - 1u] = 1;
}

static void normalize_strides(tensor *t, uint32_t is_image)
{
    uint32_t order[DNNL_MAX_NDIMS];
    if (is_image) {
        channels_last_order(t->n, order);
        if (take_order(t, order)) {
            return;
        }
    }
    for (uint32_t i = 0; i < t->n; i++) {
        order[i] = i;
    }
    if (!take_order(t, order)) {
        normalize_unit_strides(t);
    }
}

/* A descriptor as the strides say. oneDNN refuses tensors that overlap themselves. */
static bool exact(const tensor *t, uint32_t dtype, dnnl_memory_desc_t *out)
{
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->strides[i] <= 0) {
            return false;
        }
    }
    return dn_strided((int)t->n, t->dims, dn_type_of(dtype), t->strides, out);
}

static bool any_order(const tensor *t, uint32_t dtype, uint32_t channels_last,
                      dnnl_memory_desc_t *out)
{
    if (!channels_last) {
        return dnnl_memory_desc_init_by_tag(out, (int)t->n, t->dims, dn_type_of(dtype),
                                            dnnl_format_tag_any) == dnnl_success;
    }
    tensor dense = *t;
    uint32_t order[DNNL_MAX_NDIMS];
    channels_last_order(t->n, order);
    int64_t stride = 1;
    for (uint32_t i = t->n; i-- > 0;) {
        dense.strides[order[i]] = stride;
        stride *= t->dims[order[i]];
    }
    return exact(&dense, dtype, out);
}

/* ---- the tensors of a contraction ---- */

static void gemm_tensors(const dn_sizes *s, tensor t[3])
{
    const dn_operand *const all[3] = {&s->x, &s->y, &s->out};
    const int64_t extents[3][2] = {{s->m, s->k}, {s->k, s->n}, {s->m, s->n}};
    for (uint32_t o = 0; o < 3; o++) {
        t[o].n = 0;
        for (int64_t i = 0; i < s->n_batch; i++) {
            const bool is_repeated = all[o]->batch[i] == 0 && o < 2;
            add_axis(&t[o], is_repeated ? 1 : s->batch[i], all[o]->batch[i]);
        }
        add_axis(&t[o], extents[o][0], all[o]->stride[0]);
        add_axis(&t[o], extents[o][1], all[o]->stride[1]);
        normalize_strides(&t[o], 0);
    }
}

static void conv_tensors(const st_contraction *contraction, const dn_sizes *s, tensor t[3])
{
    const dn_operand *const all[3] = {&s->x, &s->y, &s->out};
    const uint32_t weight = dn_forward_role(contraction, DN_Y);
    const uint32_t out = dn_forward_role(contraction, DN_OUT);
    const int64_t *w = all[weight]->dims;
    memset(t, 0, 3 * sizeof t[0]);
    add_axis(&t[0], s->images, s->x.dims[0]);
    add_axis(&t[0], s->channels, s->x.dims[1]);
    add_axis(&t[out], s->images, all[out]->dims[0]);
    add_axis(&t[out], s->features, all[out]->dims[1]);
    if (contraction->groups > 1) {
        const int64_t per_group = s->features / contraction->groups;
        add_axis(&t[weight], contraction->groups,
                 contraction->is_transposed ? w[1] * (s->channels / contraction->groups)
                                            : w[0] * per_group);
        add_axis(&t[weight], per_group, w[0]);
    } else {
        add_axis(&t[weight], s->features, w[0]);
    }
    add_axis(&t[weight], s->channels / contraction->groups, w[1]);
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        add_axis(&t[0], s->in[i], s->x.dims[2 + i]);
        add_axis(&t[weight], s->kernel[i], w[2 + i]);
        add_axis(&t[out], s->out_size[i], all[out]->dims[2 + i]);
    }
    normalize_strides(&t[0], 1);
    normalize_strides(&t[weight], 0);
    normalize_strides(&t[out], 1);
}

/* ---- operation descriptors ---- */

typedef union operation {
    dnnl_matmul_desc_t matmul;
    dnnl_convolution_desc_t conv;
    dnnl_deconvolution_desc_t deconv;
} operation;

static bool conv_operation(const st_contraction *contraction, const dn_sizes *s,
                           const dn_candidate *how, const dnnl_memory_desc_t md[3],
                           const dnnl_memory_desc_t *bias, operation *out)
{
    dnnl_dims_t strides = {0};
    dnnl_dims_t dilates = {0};
    dnnl_dims_t low = {0};
    dnnl_dims_t high = {0};
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        strides[i] = contraction->stride[i];
        dilates[i] = contraction->dilation[i] - 1;
        low[i] = s->pad_low[i];
        high[i] = s->pad_high[i];
    }
    if (contraction->is_transposed) {
        return dnnl_dilated_deconvolution_forward_desc_init(
                   &out->deconv, dnnl_forward_inference, dnnl_deconvolution_direct, &md[0], &md[1],
                   bias, &md[2], strides, dilates, low, high) == dnnl_success;
    }
    if (contraction->is_weight_grad) {
        return dnnl_dilated_convolution_backward_weights_desc_init(
                   &out->conv, dnnl_convolution_direct, &md[DN_X], &md[DN_OUT], NULL, &md[DN_Y],
                   strides, dilates, low, high) == dnnl_success;
    }
    return dnnl_dilated_convolution_forward_desc_init(
               &out->conv, dnnl_forward_inference,
               how->is_winograd ? dnnl_convolution_winograd : dnnl_convolution_direct, &md[0],
               &md[1], bias, &md[2], strides, dilates, low, high) == dnnl_success;
}

static bool bias_of(const dn_op *op, const dn_sizes *s, uint32_t n_dims, dnnl_memory_desc_t *out)
{
    tensor t = {.n = 0};
    if (s->is_bare || op->contraction.n_epilogue == 0 ||
        op->contraction.epilogue[0].kind != ST_EPILOGUE_BIAS ||
        (op->contraction.acc_dtype != STATOR_F32 &&
         op->contraction.epilogue[0].dtype != STATOR_I32)) {
        return false;
    }
    if (op->contraction.kind == ST_CONTRACTION_CONV) {
        add_axis(&t, s->features, 1);
    } else {
        for (uint32_t i = 0; i + 1 < n_dims; i++) {
            add_axis(&t, 1, s->n);
        }
        add_axis(&t, s->n, 1);
    }
    return exact(&t, op->contraction.epilogue[0].dtype, out);
}

/* ---- a primitive descriptor ---- */

static uint32_t class_of(const char *name)
{
    if (strstr(name, "ref") != NULL || strstr(name, "simple") != NULL) {
        return DN_NO;
    }
    if (strstr(name, "gemm") != NULL) {
        return DN_GEMM;
    }
    return strstr(name, "brg") || strstr(name, "brdgmm") || strstr(name, "jit") ? DN_GOOD : DN_NO;
}

/* Products of bf16 are summed by pairs. "gemm" completes an odd number of them with the last
 * element times 0, which is no number when that is infinite. */
static bool is_completed(const dn_op *op, const dn_sizes *s, const char *name)
{
    return op->contraction.x.dtype == STATOR_BF16 && s->k % 2 == 1 && strncmp(name, "gemm", 4) == 0;
}

/* With groups and channels last, as the primitive has them, "gemm" of oneDNN 2.6 takes a group's
 * first channel for that of the whole where it reads the tensor of a binary post-op. */
static bool is_misread(const dn_op *op, const dn_desc *desc)
{
    const dnnl_memory_desc_t *out = &desc->md[DN_OUT2];
    uint32_t n_binary = 0;
    for (uint32_t i = 0; i < op->contraction.n_epilogue; i++) {
        const uint32_t role = DN_POST + i;
        n_binary += (desc->used >> role & 1u) && desc->arg[role] != DNNL_ARG_BIAS;
    }
    return op->contraction.groups > 1 && n_binary > 0 && strstr(desc->name, "gemm") != NULL &&
           out->format_desc.blocking.strides[1] == 1;
}

/* Convolutions that store integers make f32 of the sums on the way, all but "brgconv:" of u8 that
 * has no zero point to make up for. */
static bool is_exact_enough(const dn_op *op, const dn_sizes *s, const dn_desc *desc)
{
    const st_contraction *contraction = &op->contraction;
    const char *name = desc->name;
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        return !is_completed(op, s, name);
    }
    if (is_misread(op, desc)) {
        return false;
    }
    const bool is_bare = contraction->x.dtype == STATOR_U8 && !dn_has_zero(&contraction->x_zero) &&
                         !dn_has_zero(&contraction->y_zero) && strncmp(name, "brgconv:", 8) == 0;
    return contraction->out.dtype != STATOR_I32 || is_bare || !dn_are_sums_long(contraction, s);
}

/* "jit_int8" of oneDNN 2.6 cannot generate code for some convolutions with groups that it
 * describes (4 channels more than whole eights, with a zero point): one way to know is to try. A
 * primitive that is made stays in oneDNN's cache. */
static bool is_made(const dn_op *op, const dn_desc *desc)
{
    dnnl_primitive_t primitive = NULL;
    if (op->contraction.groups <= 1 || strncmp(desc->name, "jit_int8:", 9) != 0) {
        return true;
    }
    if (dnnl_primitive_create(&primitive, desc->primitive) != dnnl_success) {
        return false;
    }
    (void)dnnl_primitive_destroy(primitive);
    return true;
}

/* A gradient to weights with a group for each channel, other than by what oneDNN has for these (of
 * windows that are 3 wide): products of one row, or groups filled up to 16 channels, both of which
 * took 10 to 20 times as long as loops for windows of 5x5. */
static bool is_channel_wasted(const dn_op *op, const dn_sizes *s, const dn_desc *desc)
{
    const st_contraction *contraction = &op->contraction;
    return contraction->is_weight_grad && contraction->groups > 1 &&
           contraction->groups == s->channels && strstr(desc->name, "dw") == NULL;
}

static void use(dn_desc *desc, uint32_t role, int arg)
{
    desc->used |= 1u << role;
    desc->arg[role] = arg;
}

static void query_orders(const st_contraction *contraction, dn_desc *desc)
{
    static const dnnl_query_t what[2][3] = {
        {dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md},
        {dnnl_query_src_md, dnnl_query_diff_dst_md, dnnl_query_diff_weights_md}};
    static const int args[2][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                   {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}};
    const uint32_t of = contraction->is_weight_grad;
    for (uint32_t i = 0; i < 3; i++) {
        desc->md[DN_X2 + i] = *dnnl_primitive_desc_query_md(desc->primitive, what[of][i], 0);
        use(desc, DN_X2 + i, args[of][i]);
    }
    const dnnl_memory_desc_t *scratch =
        dnnl_primitive_desc_query_md(desc->primitive, dnnl_query_scratchpad_md, 0);
    if (scratch && dnnl_memory_desc_get_size(scratch) > 0) {
        desc->md[DN_SCRATCH] = *scratch;
        use(desc, DN_SCRATCH, DNNL_ARG_SCRATCHPAD);
    }
}

/* Describes the operation and its memory for the candidate in `desc`. 0: oneDNN cannot have it. */
static bool describe_operation(const dn_op *op, const dn_sizes *s, const tensor t[3],
                               const uint32_t dtypes[3], dn_desc *desc, operation *out)
{
    const dn_candidate *how = &desc->how;
    dnnl_memory_desc_t md[3];
    dnnl_memory_desc_t bias;
    const uint32_t moves[3] = {how->move_x, how->move_y, how->move_out};
    const uint32_t weight = dn_forward_role(&op->contraction, DN_Y);
    for (uint32_t i = 0; i < 3; i++) {
        const bool is_there =
            exact(&t[i], dtypes[i], &desc->md[DN_X + i]) &&
            (moves[i] ? any_order(&t[i], dtypes[i], i != weight && how->channels_last, &md[i]) : 1);
        if (!is_there) {
            return false;
        }
        if (!moves[i]) {
            md[i] = desc->md[DN_X + i];
        }
    }
    const bool has_bias = bias_of(op, s, t[2].n, &bias);
    if (has_bias) {
        desc->md[DN_POST] = bias;
        use(desc, DN_POST, DNNL_ARG_BIAS);
    }
    if (op->contraction.kind == ST_CONTRACTION_CONV) {
        return conv_operation(&op->contraction, s, how, md, has_bias ? &bias : NULL, out);
    }
    return dnnl_matmul_desc_init(&out->matmul, &md[0], &md[1], has_bias ? &bias : NULL, &md[2]) ==
           dnnl_success;
}

static bool attributes_of(const dn_op *op, const dn_sizes *s, const dn_candidate *how,
                          uint32_t n_dims, dnnl_primitive_attr_t attr, dn_desc *desc)
{
    const uint32_t feature = op->contraction.kind == ST_CONTRACTION_CONV ? 1u : n_dims - 1u;
    return dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) ==
               dnnl_success &&
           dnnl_primitive_attr_set_fpmath_mode(attr, dnnl_fpmath_mode_strict) == dnnl_success &&
           dn_zero_points(op, attr, desc) &&
           (s->is_bare || dn_post_ops(op, how, feature, &desc->md[DN_OUT], attr, desc));
}

uint32_t dn_describe(const dn_op *op, const dn_sizes *s, const dn_candidate *how, dn_desc *out)
{
    tensor t[3] = {{.n = 0}};
    operation what;
    dnnl_primitive_attr_t attr = NULL;
    const uint32_t dtypes[3] = {op->contraction.x.dtype, op->contraction.y.dtype,
                                s->is_bare ? STATOR_F32 : op->contraction.out.dtype};
    memset(out, 0, sizeof *out);
    out->how = *how;
    const bool are_bytes = op->contraction.acc_dtype == STATOR_I32;
    if (op->contraction.y.dtype == STATOR_U8 || op->contraction.x_zero.is_each ||
        op->contraction.y_zero.is_each ||
        (are_bytes && (op->contraction.is_transposed || !dn_are_onednn_bytes_exact()))) {
        return DN_NO; /* oneDNN has no unsigned weights, nor zero points by feature */
    }
    if (op->contraction.kind == ST_CONTRACTION_CONV) {
        conv_tensors(&op->contraction, s, t);
    } else {
        gemm_tensors(s, t);
    }
    if (!describe_operation(op, s, t, dtypes, out, &what) ||
        dnnl_primitive_attr_create(&attr) != dnnl_success) {
        return DN_NO;
    }
    const dn_team team = dn_team_begin((int)s->threads);
    if (attributes_of(op, s, how, t[2].n, attr, out) &&
        dnnl_primitive_desc_create(&out->primitive, &what, attr, op->lib->engine, NULL) ==
            dnnl_success) {
        (void)dnnl_primitive_desc_query(out->primitive, dnnl_query_impl_info_str, 0, &out->name);
        query_orders(&op->contraction, out);
        const bool is_usable =
            is_exact_enough(op, s, out) && is_made(op, out) && !is_channel_wasted(op, s, out);
        out->class_ = is_usable ? class_of(out->name) : (uint32_t)DN_NO;
    }
    dn_team_end(&team);
    (void)dnnl_primitive_attr_destroy(attr);
    if (out->class_ == DN_NO) {
        dn_desc_deinit(out);
    }
    return out->class_;
}

void dn_desc_deinit(dn_desc *desc)
{
    if (desc->primitive) {
        (void)dnnl_primitive_desc_destroy(desc->primitive);
        desc->primitive = NULL;
    }
}

uint64_t dn_desc_moved(const dn_desc *desc)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < 3; i++) {
        const dnnl_memory_desc_t *own = &desc->md[DN_X2 + i];
        if (!dnnl_memory_desc_equal(&desc->md[DN_X + i], own)) {
            bytes += 2u * dnnl_memory_desc_get_size(own);
        }
    }
    return bytes;
}
