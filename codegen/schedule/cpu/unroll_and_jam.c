/* Unroll and jam: an outer axis is run several steps at a time inside the loops below it.
 *
 *   before  loop i0 < 197 parallel              after  loop i0 < 33 parallel
 *             loop i1 < 3072 vector 64                   loop i1 < 3072 vector 64
 *               a = acc sum                                a0, ..., a5 = acc sum
 *               loop i2 < 768 reduce                       loop i2 < 768 reduce
 *                 update a, x[i0, i2] * w[i2, i1]            w' = w[i2, i1], for r = 0 to 5:
 *               store out[i0, i1], a                           update ar, x[i0.r, i2] * w'
 *                                                          store out[i0.r, i1], ar
 *
 * What does not change with the axis is loaded once for all copies, and the sums of one do not wait
 * for those of another. i0.r is min(6*i0 + r, 196): past the end it is the last step once more,
 * which writes the same values to the same elements.
 *
 * The axis is the one around the vector axis that most vector loads of the sums do not change with.
 * It is taken when its iterations are independent (no scratch, no serial loop below), its extent is
 * known, and the sums of two copies or more fit into the registers. */
#include "codegen/schedule/cpu/cpu_schedule.h"

#define FACTOR_MAX 8
#define TIMES 2              /* axes at most: rows and columns */
#define CODE_INSTS_MAX 3000u /* instructions of the kernel afterwards, about */
#define TILES_MIN 4          /* tiles that a parallel axis keeps at least */
#define REGISTERS_WIDE 24u   /* registers for sums: of 32, with vectors of 64 bytes */
#define REGISTERS 12u        /* registers for sums: of 16, with narrower vectors */

typedef struct unroll_and_jam {
    const st_kernel *from;
    st_loop_builder to;
    st_loop_ref loop; /* over the axis whose steps are interleaved */
    uint32_t factor;
    st_loop_ref *at; /* factor * from->insts.count: what an instruction became */
    uint32_t *syms;  /* factor * n_syms: by symbol index, what an axis became */
    uint32_t n_syms;
} unroll_and_jam;

/* ---- which axis ---- */

/* Vector loads of sums below a vector axis that do not change with the axis looked at. */
typedef struct uses {
    uint32_t symbol; /* symbol of the axis looked at */
    uint32_t vector; /* symbol of the vector axis around, UINT32_MAX outside */
    uint32_t n_shared;
    uint32_t n_registers; /* registers that accumulators take */
    uint32_t n_insts;
    uint32_t is_bad;
} uses;

static void note_inst(const st_kernel *k, const st_loop_inst *inst, bool is_in_sum, uses *u)
{
    const bool is_load = inst->code == ST_LOOP_LOAD;
    u->n_insts++;
    if (is_load || inst->code == ST_LOOP_STORE) {
        u->is_bad |= (k->buffers.data[inst->ref].flags & ST_BUFFER_LOCAL) != 0 ||
                     (is_load && (k->buffers.data[inst->ref].flags & ST_BUFFER_WRITTEN));
    }
    if (is_load && is_in_sum && u->vector != UINT32_MAX &&
        st_loop_mentions(k->syms, inst->sym, u->vector)) {
        u->n_shared += !st_loop_mentions(k->syms, inst->sym, u->symbol);
    }
}

/* Does the loop sum up? One that only stores may walk the axis of a sum before it. */
static bool has_update(const st_kernel *k, uint32_t block)
{
    for (st_loop_ref ref = k->blocks.data[block].first; ref; ref = st_loop_at(k, ref)->next) {
        const st_loop_inst *inst = st_loop_at(k, ref);
        if (inst->code == ST_LOOP_UPDATE ||
            (inst->code == ST_LOOP_LOOP && has_update(k, inst->body))) {
            return true;
        }
    }
    return false;
}

static void note_block(const st_kernel *k, uint32_t block, bool is_in_sum, uses *u)
{
    for (st_loop_ref ref = k->blocks.data[block].first; ref; ref = st_loop_at(k, ref)->next) {
        const st_loop_inst *inst = st_loop_at(k, ref);
        u->n_registers += inst->code == ST_LOOP_ACC;
        if (inst->code != ST_LOOP_LOOP) {
            note_inst(k, inst, is_in_sum, u);
            continue;
        }
        const st_loop_axis *axis = &k->axes.data[inst->ref];
        const uint32_t outer = u->vector;
        const bool is_sum = (axis->flags & ST_AXIS_REDUCE) && has_update(k, inst->body);
        u->is_bad |= (axis->flags & ST_AXIS_SERIAL) != 0 ||
                     st_loop_mentions(k->syms, axis->extent, u->symbol);
        u->vector = axis->flags & ST_AXIS_VECTOR ? axis->symbol : outer;
        note_block(k, inst->body, is_in_sum || is_sum, u);
        u->vector = outer;
    }
}

/* Registers of one sum: the vector axis' lanes. */
static uint32_t registers_of(const st_target *target, const st_kernel *k)
{
    const uint32_t width = target->vector_bytes;
    uint32_t lanes = 1;
    uint32_t bytes = 4;
    for (uint32_t i = 0; i < k->axes.count; i++) {
        lanes = k->axes.data[i].lanes > lanes ? k->axes.data[i].lanes : lanes;
    }
    for (uint32_t ref = 1; ref < k->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(k, ref);
        const bool is_wide = inst->dtype == STATOR_F64 || inst->dtype == STATOR_I64;
        bytes = inst->code == ST_LOOP_ACC && is_wide ? 8 : bytes;
    }
    return width && lanes * bytes > width ? lanes * bytes / width : 1;
}

/* The unroll factor of the loop's axis, all of whose uses are noted; 1: it stays. */
static uint32_t factor_of(const st_target *target, const st_kernel *k, st_loop_ref loop,
                          const uses *u)
{
    const st_loop_axis *axis = &k->axes.data[st_loop_at(k, loop)->ref];
    const uint32_t width = target->vector_bytes;
    const uint32_t registers = width >= 64 ? REGISTERS_WIDE : REGISTERS;
    int64_t extent = 0;
    if (u->is_bad || u->n_shared == 0 || u->n_registers == 0 ||
        !st_sym_const(&k->syms->tab, axis->extent, &extent) || extent < 2) {
        return 1;
    }
    int64_t factor = registers / (u->n_registers * registers_of(target, k));
    const int64_t by_code = CODE_INSTS_MAX / (u->n_insts + 1u);
    factor = factor < by_code ? factor : by_code;
    factor = factor < FACTOR_MAX ? factor : FACTOR_MAX;
    if (axis->flags & ST_AXIS_PARALLEL) {
        factor = factor < extent / TILES_MIN ? factor : extent / TILES_MIN;
    }
    factor = factor < extent ? factor : extent;
    if (factor < 2) {
        return 1;
    }
    const int64_t tiles = (extent + factor - 1) / factor; /* as even as they can be */
    return (uint32_t)((extent + tiles - 1) / tiles);
}

static void look(const st_target *target, const st_kernel *k, uint32_t block, unroll_and_jam *best,
                 uint32_t *best_shared)
{
    for (st_loop_ref ref = k->blocks.data[block].first; ref; ref = st_loop_at(k, ref)->next) {
        const st_loop_inst *inst = st_loop_at(k, ref);
        const st_loop_axis *axis = inst->code == ST_LOOP_LOOP ? &k->axes.data[inst->ref] : NULL;
        const uint32_t others = ST_AXIS_VECTOR | ST_AXIS_REDUCE | ST_AXIS_SERIAL;
        if (axis == NULL || (axis->flags & others)) {
            continue;
        }
        uses u = {.symbol = axis->symbol, .vector = UINT32_MAX};
        note_block(k, inst->body, false, &u);
        const uint32_t factor = factor_of(target, k, ref, &u);
        if (factor > 1 && u.n_shared > *best_shared) {
            best->loop = ref;
            best->factor = factor;
            *best_shared = u.n_shared;
        }
        look(target, k, inst->body, best, best_shared);
    }
}

/* Can the instruction not be cloned here? That is so for indices from data, checks, and scalar
 * instructions with an immediate (the rounding of a cast, the table of a look-up). */
static bool is_other(const st_loop_inst *inst)
{
    switch (inst->code) {
    case ST_LOOP_BIND:
    case ST_LOOP_RARE:
    case ST_LOOP_CHECK:
        return true;
    default:
        return inst->code >= ST_LOOP_FIRST_SCALAR && inst->imm.i != 0;
    }
}

static bool has_others(const st_kernel *k)
{
    for (st_loop_ref ref = 1; ref < k->insts.count; ref++) {
        if (is_other(st_loop_at(k, ref))) {
            return true;
        }
    }
    return false;
}

/* ---- the kernel anew ---- */

static st_loop_ref became(const unroll_and_jam *j, uint32_t copy, st_loop_ref ref)
{
    return ref ? j->at[copy * j->from->insts.count + ref] : 0;
}

/* 0 beyond the limits of sym.h: then the kernel stays as it was. */
static uint32_t checked(unroll_and_jam *j, uint32_t sym)
{
    if (sym == 0 && j->to.kernel->failed == STATOR_OK) {
        j->to.kernel->failed = STATOR_UNSUPPORTED;
    }
    return sym;
}

static uint32_t sym_of(unroll_and_jam *j, uint32_t copy, uint32_t sym)
{
    return checked(j, st_loop_subst(j->from->syms, sym, j->syms + copy * j->n_syms, j->n_syms));
}

static st_loop_ref scalar(unroll_and_jam *j, uint32_t copy, const st_loop_inst *inst)
{
    const uint32_t result = st_loop_desc(inst->code)->result;
    return st_loop_apply(&j->to, inst->code, result == ST_LOOP_ANY ? inst->dtype : 0,
                         became(j, copy, inst->args[0]), became(j, copy, inst->args[1]),
                         became(j, copy, inst->args[2]));
}

static st_loop_ref clone(unroll_and_jam *j, uint32_t copy, const st_loop_inst *inst)
{
    st_loop_builder *b = &j->to;
    st_loop_ref args[3];
    for (uint32_t i = 0; i < 3; i++) {
        args[i] = became(j, copy, inst->args[i]);
    }
    b->origin = inst->origin;
    switch (inst->code) {
    case ST_LOOP_CONST:
        return st_loop_class_of(inst->dtype) == ST_LOOP_FLOATS
                   ? st_loop_float(b, inst->dtype, inst->imm.f)
                   : st_loop_int(b, inst->dtype, inst->imm.i);
    case ST_LOOP_INDEX:
        return st_loop_index(b, sym_of(j, copy, inst->sym));
    case ST_LOOP_LOAD:
        return st_loop_load(b, inst->ref, sym_of(j, copy, inst->sym), args[0], args[1]);
    case ST_LOOP_STORE:
        st_loop_store(b, inst->ref, sym_of(j, copy, inst->sym), args[0], args[1]);
        return 0;
    case ST_LOOP_ACC:
        return st_loop_acc(b, (uint32_t)inst->imm.i, inst->dtype, args[0]);
    case ST_LOOP_UPDATE:
        st_loop_update(b, became(j, copy, inst->ref), args[0], args[1], args[2]);
        return 0;
    case ST_LOOP_READ:
        return st_loop_read(b, became(j, copy, inst->ref), inst->dtype);
    default:
        return scalar(j, copy, inst);
    }
}

static uint32_t add_axis(unroll_and_jam *j, const st_loop_axis *axis, uint32_t extent)
{
    const uint32_t index = st_loop_axis_add(&j->to, extent, axis->flags);
    if (j->to.kernel->failed == STATOR_OK) {
        /* Copies are in flight together: a sum needs no, or fewer, further bodies. */
        const uint32_t unroll = axis->unroll > j->factor ? axis->unroll / j->factor : 1;
        j->to.kernel->axes.data[index].lanes = axis->lanes;
        j->to.kernel->axes.data[index].unroll =
            axis->flags & ST_AXIS_REDUCE ? unroll : axis->unroll;
    }
    return index;
}

static void clone_block(unroll_and_jam *j, uint32_t block, uint32_t copies);

/* The loop once, its body for each of the copies. */
static void clone_loop(unroll_and_jam *j, const st_loop_inst *inst, uint32_t copies)
{
    const st_loop_axis *axis = &j->from->axes.data[inst->ref];
    const uint32_t index = add_axis(j, axis, sym_of(j, 0, axis->extent));
    if (j->to.kernel->failed) {
        return;
    }
    for (uint32_t c = 0; c < j->factor; c++) {
        j->syms[c * j->n_syms + axis->symbol] = j->to.kernel->axes.data[index].sym;
    }
    st_loop_open(&j->to, index);
    clone_block(j, inst->body, copies);
    st_loop_close(&j->to);
}

/* All steps of the loop are interleaved: it is none any more. */
static void clone_all(unroll_and_jam *j, uint32_t body, uint32_t symbol)
{
    for (uint32_t c = 0; c < j->factor; c++) {
        j->syms[c * j->n_syms + symbol] = checked(j, st_sym_int(&j->from->syms->tab, c));
    }
    clone_block(j, body, j->factor);
}

/* The loop whose steps are interleaved. */
static void clone_unrolled(unroll_and_jam *j, const st_loop_inst *inst)
{
    st_symtab *tab = &j->from->syms->tab;
    const st_loop_axis *axis = &j->from->axes.data[inst->ref];
    int64_t extent = 0;
    (void)st_sym_const(tab, axis->extent, &extent);
    const int64_t tiles = (extent + j->factor - 1) / j->factor;
    if (tiles == 1) {
        clone_all(j, inst->body, axis->symbol);
        return;
    }
    const uint32_t index = add_axis(j, axis, st_sym_int(tab, tiles));
    if (j->to.kernel->failed) {
        return;
    }
    const uint32_t first =
        st_sym_mul(tab, j->to.kernel->axes.data[index].sym, st_sym_int(tab, j->factor));
    for (uint32_t c = 0; c < j->factor; c++) {
        uint32_t at = first ? st_sym_add(tab, first, st_sym_int(tab, c)) : 0;
        if (at && tiles * j->factor != extent) {
            at = st_sym_min(tab, at, st_sym_int(tab, extent - 1));
        }
        j->syms[c * j->n_syms + axis->symbol] = checked(j, at);
    }
    st_loop_open(&j->to, index);
    clone_block(j, inst->body, j->factor);
    st_loop_close(&j->to);
}

static void clone_block(unroll_and_jam *j, uint32_t block, uint32_t copies)
{
    const uint32_t n = j->from->insts.count;
    for (st_loop_ref ref = j->from->blocks.data[block].first; ref && !j->to.kernel->failed;
         ref = st_loop_at(j->from, ref)->next) {
        const st_loop_inst *inst = st_loop_at(j->from, ref);
        if (ref == j->loop) {
            clone_unrolled(j, inst);
        } else if (inst->code == ST_LOOP_LOOP) {
            clone_loop(j, inst, copies);
        } else {
            for (uint32_t c = 0; c < copies; c++) {
                j->at[c * n + ref] = clone(j, c, inst);
            }
            for (uint32_t c = copies; c < j->factor; c++) { /* copies share it */
                j->at[c * n + ref] = j->at[ref];
            }
        }
    }
}

static bool copy_buffers(unroll_and_jam *j)
{
    for (uint32_t i = 0; i < j->from->buffers.count; i++) {
        const st_loop_buffer *buffer = &j->from->buffers.data[i];
        (void)st_loop_buffer_add(&j->to, buffer->name, buffer->dtype, buffer->numel, buffer->flags,
                                 buffer->id);
        if (j->to.kernel->failed) {
            return false;
        }
        j->to.kernel->buffers.data[i].align = buffer->align;
    }
    return true;
}

/* *out_done: the kernel is the new one. Beyond a limit it stays as it was. */
static stator_status rebuild(unroll_and_jam *j, st_kernel *kernel, bool *out_done,
                             stator_diag **err)
{
    st_kernel made;
    ST_TRY_MEM(st_kernel_init(&made, kernel->mem, kernel->syms, kernel->name), err);
    st_loop_builder_init(&j->to, &made);
    if (copy_buffers(j)) {
        clone_block(j, 0, 1);
    }
    st_loop_builder_deinit(&j->to);
    if (made.failed == STATOR_OK) {
        st_kernel_deinit(kernel);
        *kernel = made;
        *out_done = true;
        return STATOR_OK;
    }
    const bool is_capped = made.failed == STATOR_UNSUPPORTED;
    st_kernel_deinit(&made);
    return is_capped ? STATOR_OK : st_fail_oom(err);
}

static stator_status unroll_and_jam_once(const st_target *target, st_kernel *kernel, bool *out_done,
                                         stator_diag **err)
{
    unroll_and_jam j = {.from = kernel, .factor = 1, .n_syms = kernel->syms->symbols.count};
    uint32_t shared = 0;
    if (!has_others(kernel)) {
        look(target, kernel, 0, &j, &shared);
    }
    *out_done = false;
    if (j.factor == 1) {
        return STATOR_OK;
    }
    st_mem *mem = kernel->mem;
    j.at = st_calloc(mem, (uint64_t)j.factor * kernel->insts.count, sizeof *j.at);
    j.syms = st_calloc(mem, (uint64_t)j.factor * j.n_syms, sizeof *j.syms);
    const stator_status status =
        j.at && j.syms ? rebuild(&j, kernel, out_done, err) : st_fail_oom(err);
    st_free(mem, j.at);
    st_free(mem, j.syms);
    return status;
}

stator_status cg_unroll_and_jam(const st_target *target, st_kernel *kernel, stator_diag **err)
{
    bool is_done = true;
    for (uint32_t i = 0; i < TIMES && is_done; i++) {
        ST_TRY(unroll_and_jam_once(target, kernel, &is_done, err));
    }
    return STATOR_OK;
}
