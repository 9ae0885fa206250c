/* A value seen through its views: elements of a buffer that lie some strides apart.
 *
 * The value is written on trial, one loop an axis, and the addresses of its loads are taken apart.
 */
#include "codegen/lower/unit.h"

/* A kernel on trial and its nest, to be dropped whatever comes of it. */
static bool begin_trial(cg_nest *nest, cg_unit *unit, const char *name, st_kernel *trial)
{
    const bool is_made = cg_nest_init(nest, unit, CG_NO_GROUP, name, trial);
    unit->is_oom |= !is_made;
    return is_made;
}

static void end_trial(cg_nest *nest)
{
    nest->unit->is_oom |= nest->kernel->failed == STATOR_RESOURCE_EXHAUSTED;
    cg_nest_deinit(nest);
    st_kernel_deinit(nest->kernel);
}

/* Opens a loop an axis; 0: the kernel has failed. */
static bool open_axes(cg_nest *nest, const cg_value *v, uint32_t *out_index, uint32_t *out_symbols)
{
    for (uint32_t a = 0; a < v->rank; a++) {
        const uint32_t axis = st_loop_axis_add(&nest->b, v->dims[a], 0);
        if (nest->kernel->failed) {
            return false;
        }
        out_index[a] = nest->kernel->axes.data[axis].sym;
        out_symbols[a] = nest->kernel->axes.data[axis].symbol;
        st_loop_open(&nest->b, axis);
    }
    return true;
}

/* Writes the loops and asks for the element; 0: it is more than a load. */
static st_loop_ref load_of(cg_nest *nest, stator_ref value, uint32_t *out_symbols)
{
    uint32_t index[CG_RANK_MAX];
    if (!open_axes(nest, cg_value_of(nest->unit, value), index, out_symbols)) {
        return 0;
    }
    const st_loop_ref inst = cg_at(nest, value, index);
    const bool is_load = inst && nest->refusal == NULL && !nest->kernel->failed &&
                         st_loop_at(nest->kernel, inst)->code == ST_LOOP_LOAD &&
                         st_loop_at(nest->kernel, inst)->args[0] == 0;
    return is_load ? inst : 0;
}

static bool take_apart(cg_nest *nest, st_loop_ref inst, uint32_t rank, const uint32_t *symbols,
                       cg_strided *out)
{
    const st_loop_inst *load = st_loop_at(nest->kernel, inst);
    uint32_t rest = load->sym;
    for (uint32_t a = 0; a < rank; a++) {
        if (!st_loop_linear(nest->unit->syms, rest, symbols[a], &out->stride[a], &rest)) {
            return false;
        }
    }
    /* A symbol that the load binds would be left in the offset. */
    for (uint32_t i = 0; i < nest->kernel->insts.count; i++) {
        if (st_loop_at(nest->kernel, i)->code == ST_LOOP_BIND) {
            return false;
        }
    }
    out->offset = rest;
    out->buffer = nest->kernel->buffers.data[load->ref].id;
    return true;
}

bool cg_strided_of(cg_unit *unit, stator_ref value, cg_strided *out)
{
    uint32_t symbols[CG_RANK_MAX];
    st_kernel trial;
    cg_nest nest;
    if (!begin_trial(&nest, unit, "view", &trial)) {
        return false;
    }
    const st_loop_ref inst = load_of(&nest, value, symbols);
    const bool is_strided =
        inst && take_apart(&nest, inst, cg_value_of(unit, value)->rank, symbols, out);
    end_trial(&nest);
    return is_strided;
}

/* ---- rows of channels ---- */

/* The load's step along an axis; 0: none, or it is not known. */
static int64_t step_of(const cg_nest *nest, const st_loop_inst *load, uint32_t symbol,
                       uint32_t *out_rest)
{
    uint32_t coef = 0;
    int64_t step = 0;
    if (!st_loop_linear(nest->unit->syms, load->sym, symbol, &coef, out_rest) ||
        !st_sym_const(&nest->unit->syms->tab, coef, &step)) {
        return 0;
    }
    return step;
}

/* Does the load walk the last axis element by element, in rows that something other than the axes
 * chooses (the rows of a table that a gather reads)? A plane that all channels share is none: its
 * rows are lines of the image. */
static bool walks_rows(const cg_nest *nest, const st_loop_inst *load, const uint32_t *symbols,
                       uint32_t rank)
{
    uint32_t rest = load->sym;
    uint32_t unused = 0;
    int64_t number = 0;
    if (step_of(nest, load, symbols[rank - 1u], &rest) != 1) {
        return false;
    }
    for (uint32_t a = 0; a + 1u < rank; a++) {
        if (!st_loop_linear(nest->unit->syms, rest, symbols[a], &unused, &rest)) {
            return true;
        }
    }
    return !st_sym_const(&nest->unit->syms->tab, rest, &number);
}

/* Do all loads that walk more than axis 1 walk it, and not the last one, element by element? */
static bool all_walk(const cg_nest *nest, const uint32_t *symbols, uint32_t rank)
{
    const uint32_t symbol = symbols[1];
    const uint32_t last = symbols[rank - 1u];
    uint32_t n = 0;
    for (st_loop_ref ref = 1; ref < nest->kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(nest->kernel, ref);
        uint32_t rest = inst->sym;
        uint32_t unused = 0;
        int64_t number = 0;
        if (inst->code != ST_LOOP_LOAD) {
            continue;
        }
        if (!st_loop_mentions(nest->unit->syms, inst->sym, symbol)) {
            if (walks_rows(nest, inst, symbols, rank)) {
                return false;
            }
            continue;
        }
        const int64_t step = step_of(nest, inst, symbol, &rest);
        if (st_sym_const(&nest->unit->syms->tab, rest, &number)) {
            continue; /* a number a channel */
        }
        if (step != 1 || step_of(nest, inst, last, &unused) == 1) {
            return false;
        }
        n++;
    }
    return n > 0;
}

bool cg_reads_channels(cg_unit *unit, const cg_root *root)
{
    const cg_value *v = &unit->values[root->value];
    if (v->rank < 3 || cg_is_one(unit, v->dims[v->rank - 1u])) {
        return false; /* a number for each row of a sequence is none for each channel */
    }
    const int64_t lanes =
        (int64_t)(unit->config->emitter->target.vector_bytes / st_element_bytes(v->dtype));
    uint32_t symbols[CG_RANK_MAX];
    uint32_t index[CG_RANK_MAX];
    st_kernel trial;
    cg_nest nest;
    if (root->is_fold || root->lowering == NULL || root->lowering->point == NULL ||
        st_loop_known_or(&unit->syms->tab, v->dims[1], lanes) < lanes ||
        !begin_trial(&nest, unit, "look", &trial)) {
        return false;
    }
    const cg_node node = cg_node_of(unit, root->node);
    const bool is_so =
        open_axes(&nest, v, index, symbols) &&
        root->lowering->point(&nest, &node, root->value - node.row->result_begin, index) != 0 &&
        nest.refusal == NULL && !trial.failed && all_walk(&nest, symbols, v->rank);
    end_trial(&nest);
    return is_so;
}
