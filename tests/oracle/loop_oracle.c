/* The oracle: one walk over the blocks, a cell for each instruction.
 *
 * In: a kernel that verification accepts and memory of the sizes it states. Nothing else is
 * trusted: each index that is used is computed and compared with the buffer's size. A symbolic
 * integer that overflows, as one over a bound value may where a check has failed, is 0 as a value
 * and out of range as an index. */
#include "tests/oracle/loop_oracle.h"

#include "core/base/check.h"
#include "core/base/diag.h"
#include "tests/oracle/scalar_oracle.h"
#include <inttypes.h>
#include <string.h>

#define UNSET INT64_MIN /* in env, as st_sym_eval has it */
#define POISON 0xff     /* scratch before its first store: NaN in every float */

typedef struct machine {
    const st_kernel *kernel;
    const st_kernel_args *args;
    stator_diag **err;
    st_sym_cols cols;
    st_loop_cell *cells; /* by instruction; ACC: the value so far */
    int64_t *indices;    /* by instruction; ACC: the index so far */
    int64_t *env;        /* by symbol */
    void **buffers;
    int64_t *numel; /* by buffer */
    uint8_t *owned; /* by buffer: allocated here */
    int64_t begin, end;
} machine;

static stator_status run_block(machine *m, uint32_t block);

/* ---- memory ---- */

static stator_status out_of_range(const machine *m, const st_loop_inst *inst, int64_t index)
{
    const st_loop_buffer *buffer = &m->kernel->buffers.data[inst->ref];
    return st_fail(m->err, STATOR_OUT_OF_RANGE,
                   "kernel %s, instruction %" PRIu32 ": index %" PRId64 " of %s, which has %" PRId64
                   " elements",
                   m->kernel->name, (uint32_t)(inst - m->kernel->insts.data), index, buffer->name,
                   m->numel[inst->ref]);
}

static stator_status index_of(const machine *m, const st_loop_inst *inst, int64_t *out_index)
{
    if (!st_sym_eval(&m->cols, inst->sym, m->env, out_index)) {
        *out_index = -1;
    }
    return *out_index >= 0 && *out_index < m->numel[inst->ref] ? STATOR_OK
                                                               : out_of_range(m, inst, *out_index);
}

static int is_masked_off(const machine *m, st_loop_ref mask)
{
    return mask && !m->cells[mask].i;
}

static stator_status run_load(machine *m, const st_loop_inst *inst, st_loop_cell *out)
{
    int64_t index = 0;
    if (is_masked_off(m, inst->args[0])) {
        *out = inst->args[1] ? m->cells[inst->args[1]] : (st_loop_cell){.i = 0};
        return STATOR_OK;
    }
    ST_TRY(index_of(m, inst, &index));
    *out =
        st_loop_cell_load(m->kernel->buffers.data[inst->ref].dtype, m->buffers[inst->ref], index);
    return STATOR_OK;
}

static stator_status run_store(machine *m, const st_loop_inst *inst)
{
    const uint32_t dtype = m->kernel->buffers.data[inst->ref].dtype;
    int64_t index = 0;
    if (is_masked_off(m, inst->args[1])) {
        return STATOR_OK;
    }
    ST_TRY(index_of(m, inst, &index));
    st_loop_cell_store(dtype, m->buffers[inst->ref], index, m->cells[inst->args[0]]);
    return STATOR_OK;
}

/* ---- accumulators ---- */

static bool has_index(const st_loop_inst *acc)
{
    return acc->imm.i == ST_ACC_ARGMIN || acc->imm.i == ST_ACC_ARGMAX;
}

static void run_update(machine *m, const st_loop_inst *inst)
{
    const st_loop_inst *acc = st_loop_at(m->kernel, inst->ref);
    const uint32_t kind = (uint32_t)acc->imm.i;
    const st_loop_cell x = m->cells[inst->args[0]];
    st_loop_cell *so_far = &m->cells[inst->ref];
    if (is_masked_off(m, inst->args[2])) {
        return;
    }
    if (!has_index(acc)) {
        *so_far = st_loop_combine(kind, acc->dtype, *so_far, x);
        return;
    }
    const int64_t index = m->cells[inst->args[1]].i;
    if (st_loop_is_better(kind, acc->dtype, x, index, *so_far, m->indices[inst->ref])) {
        *so_far = x;
        m->indices[inst->ref] = index;
    }
}

static st_loop_cell run_read(const machine *m, const st_loop_inst *inst)
{
    if (has_index(st_loop_at(m->kernel, inst->ref)) && inst->dtype == STATOR_I64) {
        return (st_loop_cell){.i = m->indices[inst->ref]};
    }
    return m->cells[inst->ref];
}

/* ---- structure ---- */

/* What an iteration of the parallel loop finds in its scratch is nothing to rely on. */
static void poison_scratch(machine *m)
{
    for (uint32_t i = 0; i < m->kernel->buffers.count; i++) {
        uint64_t bytes = 0;
        if (m->owned[i] &&
            st_dtype_bytes(m->kernel->buffers.data[i].dtype, (uint64_t)m->numel[i], &bytes)) {
            memset(m->buffers[i], POISON, (size_t)bytes);
        }
    }
}

static stator_status run_loop(machine *m, const st_loop_inst *inst)
{
    const st_loop_axis *axis = &m->kernel->axes.data[inst->ref];
    const int is_parallel = (axis->flags & ST_AXIS_PARALLEL) != 0;
    int64_t extent = 0;
    if (!st_sym_eval(&m->cols, axis->extent, m->env, &extent)) {
        return st_fail(m->err, STATOR_OUT_OF_RANGE,
                       "kernel %s: the extent of axis %" PRIu32 " has no value", m->kernel->name,
                       inst->ref);
    }
    const int64_t begin = is_parallel ? m->begin : 0;
    const int64_t end = is_parallel ? m->end : extent;
    if (begin < 0 || end > (extent > 0 ? extent : 0)) {
        return st_fail(m->err, STATOR_INVALID_ARGUMENT,
                       "kernel %s: asked for iterations %" PRId64 " to %" PRId64 " of %" PRId64,
                       m->kernel->name, begin, end, extent);
    }
    for (int64_t i = begin; i < end; i++) {
        m->env[axis->symbol] = i;
        if (is_parallel) {
            poison_scratch(m);
        }
        ST_TRY(run_block(m, inst->body));
    }
    return STATOR_OK;
}

static stator_status run_rare(machine *m, const st_loop_inst *inst, st_loop_cell *out)
{
    if (!m->cells[inst->args[0]].i) {
        *out = m->cells[inst->args[1]];
        return STATOR_OK;
    }
    ST_TRY(run_block(m, inst->body));
    *out = m->cells[inst->args[2]];
    return STATOR_OK;
}

static void run_check(const machine *m, const st_loop_inst *inst)
{
    if (!is_masked_off(m, inst->args[1]) && !m->cells[inst->args[0]].i && m->args->status) {
        __atomic_store_n(m->args->status, st_loop_check_status(inst), __ATOMIC_RELAXED);
    }
}

static void run_bind(machine *m, const st_loop_inst *inst)
{
    const st_loop_syms *syms = m->kernel->syms;
    const stator_sym_row *row = st_seg_at(&syms->tab.syms, inst->sym);
    const stator_term_row *term = st_seg_at(&syms->tab.terms, row->term_begin);
    const stator_atom_row *atom = st_seg_at(&syms->tab.atoms, term->atom);
    m->env[atom->index] = m->cells[inst->args[0]].i;
}

static void run_scalar(machine *m, const st_loop_inst *inst, st_loop_cell *out)
{
    const st_loop_op_desc *desc = st_loop_desc(inst->code);
    st_loop_cell x[3] = {{.i = 0}, {.i = 0}, {.i = 0}};
    for (uint32_t k = 0; k < desc->arity; k++) {
        x[k] = m->cells[inst->args[k]];
    }
    *out = st_loop_scalar(inst, st_loop_at(m->kernel, inst->args[desc->arity - 1u])->dtype, x);
}

/* A dispatch switch: one case a structural code. */
static stator_status run_inst(machine *m, st_loop_ref ref)
{
    const st_loop_inst *inst = st_loop_at(m->kernel, ref);
    st_loop_cell *out = &m->cells[ref];
    switch (inst->code) {
    case ST_LOOP_CONST:
        *out = st_loop_cell_imm(inst->dtype, inst->imm);
        return STATOR_OK;
    case ST_LOOP_INDEX:
        if (!st_sym_eval(&m->cols, inst->sym, m->env, &out->i)) {
            out->i = 0;
        }
        return STATOR_OK;
    case ST_LOOP_LOAD:
        return run_load(m, inst, out);
    case ST_LOOP_STORE:
        return run_store(m, inst);
    case ST_LOOP_CHECK:
        run_check(m, inst);
        return STATOR_OK;
    case ST_LOOP_LOOP:
        return run_loop(m, inst);
    case ST_LOOP_BIND:
        run_bind(m, inst);
        return STATOR_OK;
    case ST_LOOP_ACC:
        *out = inst->args[0] ? m->cells[inst->args[0]]
                             : st_loop_identity((uint32_t)inst->imm.i, inst->dtype);
        m->indices[ref] = INT64_MAX; /* any index is smaller */
        return STATOR_OK;
    case ST_LOOP_UPDATE:
        run_update(m, inst);
        return STATOR_OK;
    case ST_LOOP_READ:
        *out = run_read(m, inst);
        return STATOR_OK;
    case ST_LOOP_RARE:
        return run_rare(m, inst, out);
    default:
        run_scalar(m, inst, out);
        return STATOR_OK;
    }
}

static stator_status run_block(machine *m, uint32_t block)
{
    for (st_loop_ref ref = m->kernel->blocks.data[block].first; ref;
         ref = st_loop_at(m->kernel, ref)->next) {
        ST_TRY(run_inst(m, ref));
    }
    return STATOR_OK;
}

/* ---- the call ---- */

static stator_status open_buffer(machine *m, uint32_t i)
{
    const st_loop_buffer *buffer = &m->kernel->buffers.data[i];
    uint64_t bytes = 0;
    m->buffers[i] = m->args->buffers[i];
    if (!st_sym_eval(&m->cols, buffer->numel, m->env, &m->numel[i]) || m->numel[i] < 0) {
        return st_fail(m->err, STATOR_INVALID_ARGUMENT,
                       "kernel %s: the size of buffer %s has no value", m->kernel->name,
                       buffer->name);
    }
    if (m->buffers[i] != NULL || m->numel[i] == 0) {
        return STATOR_OK;
    }
    if (!(buffer->flags & ST_BUFFER_LOCAL)) {
        return st_fail(m->err, STATOR_INVALID_ARGUMENT, "kernel %s: no memory given for buffer %s",
                       m->kernel->name, buffer->name);
    }
    if (!st_dtype_bytes(buffer->dtype, (uint64_t)m->numel[i], &bytes) ||
        (m->buffers[i] = st_alloc(m->kernel->mem, bytes, 64)) == NULL) {
        return st_fail_oom(m->err);
    }
    m->owned[i] = 1;
    memset(m->buffers[i], POISON, (size_t)bytes);
    return STATOR_OK;
}

static stator_status open_machine(machine *m)
{
    const st_loop_syms *syms = m->kernel->syms;
    st_mem *mem = m->kernel->mem;
    const uint32_t n_buffers = m->kernel->buffers.count;
    m->cells = st_calloc(mem, m->kernel->insts.count, sizeof *m->cells);
    m->indices = st_calloc(mem, m->kernel->insts.count, sizeof *m->indices);
    m->env = st_calloc(mem, syms->symbols.count + 1u, sizeof *m->env);
    m->buffers = st_calloc(mem, n_buffers + 1u, sizeof *m->buffers);
    m->numel = st_calloc(mem, n_buffers + 1u, sizeof *m->numel);
    m->owned = st_calloc(mem, n_buffers + 1u, 1);
    if (!m->cells || !m->indices || !m->env || !m->buffers || !m->numel || !m->owned) {
        return st_fail_oom(m->err);
    }
    m->cols = st_sym_columns(&syms->tab);
    for (uint32_t i = 0; i < syms->symbols.count; i++) {
        const st_loop_symbol *symbol = &syms->symbols.data[i];
        m->env[i] = symbol->kind == ST_SYMBOL_SIZE ? m->args->syms[symbol->id] : UNSET;
    }
    for (uint32_t i = 0; i < n_buffers; i++) {
        ST_TRY(open_buffer(m, i));
    }
    return STATOR_OK;
}

static void close_machine(machine *m)
{
    st_mem *mem = m->kernel->mem;
    for (uint32_t i = 0; m->owned && m->buffers && i < m->kernel->buffers.count; i++) {
        if (m->owned[i]) {
            st_free(mem, m->buffers[i]);
        }
    }
    st_free(mem, m->cells);
    st_free(mem, m->indices);
    st_free(mem, m->env);
    st_free(mem, m->buffers);
    st_free(mem, m->numel);
    st_free(mem, m->owned);
}

stator_status loop_oracle_run(const st_kernel *kernel, const st_kernel_args *args, int64_t begin,
                              int64_t end, stator_diag **err)
{
    machine m = {.kernel = kernel, .args = args, .err = err, .begin = begin, .end = end};
    stator_status status = open_machine(&m);
    if (status == STATOR_OK) {
        status = run_block(&m, 0);
    }
    close_machine(&m);
    return status;
}
