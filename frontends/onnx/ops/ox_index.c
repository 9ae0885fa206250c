/* Gather, scatter and selection by value. */
#include "frontends/onnx/onnx.h"

#include <string.h>

/* Indices as i64 unless they are i32 or i64 already. */
static stator_ref index_in(ox_node *n, stator_ref v)
{
    return ox_dtype(n, v) == STATOR_I32 ? v : ox_cast(n, v, STATOR_I64);
}

static stator_ref flatten_all(ox_node *n, stator_ref x)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, x, dims);
    const stator_ref total = ox_sym_prod(n, rank, dims);
    return ox_reshape(n, x, 1, &total);
}

void ox_compress(ox_node *n)
{
    stator_ref x = ox_need(n, 0);
    const stator_ref condition = ox_need(n, 1);
    uint32_t axis = 0;
    ox_check_rank(n, condition, 1, 1, "the condition");
    if (ox_has_attr(n, "axis")) {
        axis = ox_axis(n, ox_attr_int(n, "axis", 0), ox_rank(n, x));
    } else {
        x = flatten_all(n, x);
    }
    const stator_ref where = ox_un(n, "nonzero", condition);
    const stator_ref index = ox_squeeze(n, where, 0);
    ox_out(n, 0, ox_gather(n, x, index, axis));
}

void ox_gather_op(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", 0), ox_rank(n, x));
    ox_out(n, 0, ox_gather(n, x, index_in(n, ox_need(n, 1)), axis));
}

void ox_gather_elements(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", 0), ox_rank(n, x));
    ox_out(n, 0,
           ox_op(n, "gather_elements", STATOR_IN(x, index_in(n, ox_need(n, 1))),
                 STATOR_AT(STATOR_A_INT("axis", axis))));
}

/* Index tuples: how many axes they address must be known. */
static stator_ref tuples_in(ox_node *n, stator_ref v)
{
    (void)ox_dim_need(n, v, -1, "the length of the index tuples");
    return index_in(n, v);
}

void ox_gather_nd(ox_node *n)
{
    ox_out(n, 0,
           ox_op(n, "gather_nd", STATOR_IN(ox_need(n, 0), tuples_in(n, ox_need(n, 1))),
                 STATOR_AT(STATOR_A_INT("batch_dims", ox_attr_int(n, "batch_dims", 0)))));
}

void ox_non_max_suppression(ox_node *n)
{
    const stator_ref in[5] = {ox_need(n, 0), ox_need(n, 1), ox_in(n, 2), ox_in(n, 3), ox_in(n, 4)};
    ox_out(n, 0,
           ox_op(n, "nms", 5, in,
                 STATOR_AT(STATOR_A_INT("center_point", ox_attr_int(n, "center_point_box", 0)))));
}

void ox_non_zero(ox_node *n)
{
    ox_out(n, 0, ox_un(n, "nonzero", ox_need(n, 0)));
}

void ox_one_hot(ox_node *n)
{
    const stator_ref index = ox_cast(n, ox_need(n, 0), STATOR_I64);
    const stator_ref values = ox_need(n, 2);
    const uint32_t rank = ox_rank(n, index);
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", -1), rank + 1u);
    const stator_ref depth = ox_size_of(n, ox_cast(n, ox_need(n, 1), STATOR_I64), "the depth");
    const stator_ref off = ox_reshape(n, ox_slice_const(n, values, 0, 0, 1), 0, NULL);
    const stator_ref on = ox_reshape(n, ox_slice_const(n, values, 0, 1, 1), 0, NULL);
    ox_out(n, 0,
           ox_op(n, "one_hot", STATOR_IN(index, off, on),
                 STATOR_AT(STATOR_A_DIMS("depth", 1, &depth), STATOR_A_INT("axis", axis))));
}

static const char *reduction_of(ox_node *n)
{
    const char *name = ox_attr_str(n, "reduction", "none");
    static const char *const known[] = {"none", "add", "mul", "min", "max"};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i], name) == 0) {
            return name;
        }
    }
    ox_fail(n, STATOR_INVALID_ARGUMENT, "attribute 'reduction' is '%s'", name);
    return "none";
}

void ox_scatter_elements(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", 0), ox_rank(n, x));
    ox_out(
        n, 0,
        ox_op(n, "scatter_elements", STATOR_IN(x, index_in(n, ox_need(n, 1)), ox_need(n, 2)),
              STATOR_AT(STATOR_A_INT("axis", axis), STATOR_A_STR("reduction", reduction_of(n)))));
}

void ox_scatter_nd(ox_node *n)
{
    ox_out(n, 0,
           ox_op(n, "scatter_nd",
                 STATOR_IN(ox_need(n, 0), tuples_in(n, ox_need(n, 1)), ox_need(n, 2)),
                 STATOR_AT(STATOR_A_STR("reduction", reduction_of(n)))));
}

void ox_tensor_scatter(ox_node *n)
{
    const stator_ref cache = ox_need(n, 0);
    const stator_ref update = ox_need(n, 1);
    const uint32_t rank = ox_rank(n, cache);
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", -2), rank);
    const char *mode = ox_attr_str(n, "mode", "linear");
    stator_ref dims[STATOR_RANK_MAX];
    stator_ref batch[STATOR_RANK_MAX];
    OX_NEED(n, ox_dims(n, update, dims) == rank && ox_ok(n), "cache and update differ in rank");
    stator_ref index = ox_iota(n, STATOR_I64, rank, dims, axis);
    if (ox_in(n, 2) != 0) {
        for (uint32_t i = 0; i < rank; i++) {
            batch[i] = i == 0 ? dims[0] : ox_sym(n, 1);
        }
        const stator_ref first = ox_cast(n, ox_in(n, 2), STATOR_I64);
        index = ox_add(n, index, ox_reshape(n, first, rank, batch));
    }
    if (strcmp(mode, "circular") == 0) {
        index = ox_bin(n, "mod", index, ox_from_dim(n, ox_dim(n, cache, axis)));
    } else if (strcmp(mode, "linear") != 0) {
        ox_fail(n, STATOR_INVALID_ARGUMENT, "attribute 'mode' is '%s'", mode);
    }
    ox_out(n, 0,
           ox_op(n, "scatter_elements", STATOR_IN(cache, index, update),
                 STATOR_AT(STATOR_A_INT("axis", axis))));
}

void ox_topk(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const stator_ref k =
        n->version < 10 ? ox_sym(n, ox_attr_int_need(n, "k")) : ox_size_of(n, ox_need(n, 1), "K");
    stator_ref out[2];
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", -1), ox_rank(n, x));
    stator_emit_node(&n->e, "topk", STATOR_IN(x),
                     STATOR_AT(STATOR_A_DIMS("k", 1, &k), STATOR_A_INT("axis", axis),
                               STATOR_A_INT("largest", ox_attr_int(n, "largest", 1) != 0),
                               STATOR_A_INT("sorted", ox_attr_int(n, "sorted", 1) != 0)),
                     0, NULL, 2, out);
    ox_out(n, 0, out[0]);
    ox_out(n, 1, out[1]);
}

void ox_unique(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    stator_ref out[4];
    stator_attr attrs[2] = {STATOR_A_INT("sorted", ox_attr_int(n, "sorted", 1) != 0)};
    uint32_t count = 1;
    if (ox_has_attr(n, "axis")) {
        const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", 0), ox_rank(n, x));
        attrs[count++] = STATOR_A_INT("axis", axis);
    }
    stator_emit_node(&n->e, "unique", STATOR_IN(x), count, attrs, 0, NULL, 4, out);
    for (uint32_t i = 0; i < 4; i++) {
        ox_out(n, i, out[i]);
    }
}
