/* Helpers of ops with loops of their own: opening loops over a shape, reading and writing results.
 *
 * Such a node is alone in its kernel: its results are buffers, and it reads its operands at any
 * index that its loops compute. */
#include "codegen/lower/lower.h"
#include "core/base/check.h"

uint32_t cg_axis(const cg_node *node, uint32_t attr, uint32_t rank)
{
    const int64_t axis = cg_attr(node, attr)->i;
    return (uint32_t)st_normalize_axis(axis, rank);
}

/* ---- loops ---- */

uint32_t cg_open(cg_nest *nest, uint32_t extent, uint32_t flags)
{
    const bool is_first = nest->b.open.count == 1u && nest->kernel->axes.count == 0;
    const uint32_t may_split = is_first && flags == 0 ? ST_AXIS_PARALLEL : 0;
    const uint32_t axis = st_loop_axis_add(&nest->b, extent, flags | may_split);
    if (nest->kernel->failed) {
        return 0;
    }
    const uint32_t sym = nest->kernel->axes.data[axis].sym;
    st_loop_open(&nest->b, axis);
    return sym;
}

void cg_close(cg_nest *nest, uint32_t n)
{
    for (uint32_t k = 0; k < n && !nest->kernel->failed; k++) {
        st_loop_close(&nest->b);
    }
}

uint32_t cg_open_all(cg_nest *nest, uint32_t rank, const uint32_t *dims, uint32_t skip,
                     uint32_t flags, uint32_t *index)
{
    uint32_t n = 0;
    for (uint32_t a = 0; a < rank; a++) {
        if (a == skip) {
            continue;
        }
        index[a] = cg_int(nest, 0);
        if (!cg_is_one(nest->unit, dims[a])) {
            index[a] = cg_open(nest, dims[a], flags);
            n++;
        }
    }
    return n;
}

/* ---- results ---- */

bool cg_is_wanted(const cg_unit *unit, const cg_node *node, uint32_t k)
{
    const cg_value *v = cg_value_of(unit, node->row->result_begin + k);
    return k < node->row->result_count && v->buffer != CG_NO_BUFFER &&
           (v->uses > 0 || unit->buffers.data[v->buffer].kind == CG_BUFFER_OUTPUT);
}

static uint32_t result_buffer(cg_nest *nest, const cg_node *node, uint32_t k, uint32_t flags)
{
    const cg_value *v = cg_value_of(nest->unit, node->row->result_begin + k);
    return cg_kernel_buffer(nest, v->buffer, ST_BUFFER_WRITTEN | ST_BUFFER_UNIQUE | flags);
}

st_loop_ref cg_written(cg_nest *nest, const cg_node *node, uint32_t k, const uint32_t *index,
                       st_loop_ref mask)
{
    return st_loop_load(&nest->b, result_buffer(nest, node, k, ST_BUFFER_READ),
                        cg_address(nest, node->row->result_begin + k, index), mask, 0);
}

void cg_put(cg_nest *nest, const cg_node *node, uint32_t k, const uint32_t *index,
            st_loop_ref value, st_loop_ref mask)
{
    if (value && cg_is_wanted(nest->unit, node, k)) {
        st_loop_store(&nest->b, result_buffer(nest, node, k, 0),
                      cg_address(nest, node->row->result_begin + k, index), value, mask);
    }
}
