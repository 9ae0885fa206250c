/* A value seen through its views: elements of a buffer that lie some strides apart.
 *
 * A load of the value is written on trial, one loop an axis, and its address taken apart. */
#include "codegen/cg_unit.h"

/* Writes the loops and asks for the element; 0: it is more than a load. */
static st_loop_ref load_of(cg_nest *nest, stator_ref value, uint32_t *out_symbols)
{
    const cg_value *v = cg_value_of(nest->unit, value);
    uint32_t index[CG_RANK_MAX];
    for (uint32_t a = 0; a < v->rank; a++) {
        const uint32_t axis = st_loop_axis_add(&nest->b, v->dims[a], 0);
        if (nest->kernel->failed) {
            return 0;
        }
        index[a] = nest->kernel->axes.data[axis].sym;
        out_symbols[a] = nest->kernel->axes.data[axis].symbol;
        st_loop_open(&nest->b, axis);
    }
    const st_loop_ref row = cg_at(nest, value, index);
    const int is_load = row && nest->refusal == NULL && !nest->kernel->failed &&
                        st_loop_at(nest->kernel, row)->code == ST_LOOP_LOAD &&
                        st_loop_at(nest->kernel, row)->args[0] == 0;
    return is_load ? row : 0;
}

static int take_apart(cg_nest *nest, st_loop_ref row, uint32_t rank, const uint32_t *symbols,
                      cg_strided *out)
{
    const st_loop_op *load = st_loop_at(nest->kernel, row);
    uint32_t rest = load->sym;
    for (uint32_t a = 0; a < rank; a++) {
        if (!st_loop_linear(nest->unit->syms, rest, symbols[a], &out->stride[a], &rest)) {
            return 0;
        }
    }
    /* A symbol that the load binds would be left in the offset. */
    for (uint32_t i = 0; i < nest->kernel->ops.count; i++) {
        if (st_loop_at(nest->kernel, i)->code == ST_LOOP_BIND) {
            return 0;
        }
    }
    out->offset = rest;
    out->buffer = nest->kernel->buffers.data[load->ref].id;
    return 1;
}

int cg_strided_of(cg_unit *unit, stator_ref value, cg_strided *out)
{
    uint32_t symbols[CG_RANK_MAX];
    st_kernel trial;
    cg_nest nest;
    if (!cg_nest_init(&nest, unit, CG_NO_PLAN, "view", &trial)) {
        return 0;
    }
    const st_loop_ref row = load_of(&nest, value, symbols);
    const int is_strided =
        row && take_apart(&nest, row, cg_value_of(unit, value)->rank, symbols, out);
    cg_nest_deinit(&nest);
    st_kernel_deinit(&trial);
    return is_strided;
}
