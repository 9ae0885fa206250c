/* Sums of f32 that thousands of iterations add to one by one become sums of f64.
 *
 *   before  v1 = acc sum f32; loop i0 < 65536 reduce { update v1, v2 }; v3 = read f32 v1
 *   after   v1 = acc sum f64; loop i0 < 65536 reduce { update v1, cast f64 v2 }; v3 = cast f32 ...
 *
 * One by one they lose digits that a tree of sums would keep. Runs when it is known which axes
 * lanes or threads share. */
#include "codegen/schedule/cpu/cpu_schedule.h"

#define LONG_SUM 4096 /* f32 additions in a row that one accumulator may do */

static st_loop_inst *inst_at(const st_kernel *kernel, st_loop_ref ref)
{
    return &kernel->insts.data[ref];
}

static const st_loop_axis *axis_of(const st_kernel *kernel, st_loop_ref loop)
{
    return &kernel->axes.data[inst_at(kernel, loop)->ref];
}

/* Puts a copy of `inst` into its block right before `before`; 0: out of memory. */
static st_loop_ref insert_before(st_kernel *kernel, st_loop_ref before, const st_loop_inst *inst)
{
    const st_loop_ref ref = kernel->insts.count;
    st_loop_inst *at = st_vec_push(kernel->mem, &kernel->insts);
    if (at == NULL) {
        return 0;
    }
    *at = *inst;
    at->block = inst_at(kernel, before)->block;
    at->next = before;
    st_loop_block *block = &kernel->blocks.data[at->block];
    st_loop_ref previous = block->first;
    if (previous == before) {
        block->first = ref;
        return ref;
    }
    while (inst_at(kernel, previous)->next != before) {
        previous = inst_at(kernel, previous)->next;
    }
    inst_at(kernel, previous)->next = ref;
    return ref;
}

/* Threads of a block that share the iterations of a loop. */
static int64_t sharing_threads(st_kernel *kernel)
{
    const st_loop_ref loop = st_kernel_parallel_loop(kernel);
    const st_loop_axis *axis = loop ? axis_of(kernel, loop) : NULL;
    const bool is_part =
        axis && (axis->mapping == ST_MAPPING_COLUMNS || axis->mapping == ST_MAPPING_ROWS);
    return is_part ? kernel->threads / axis->lanes : kernel->threads;
}

/* Iterations between the accumulator and its update when all of them run one after the other in
 * each lane or thread; 0 when a vector axis shares them out. */
static int64_t serial_steps(st_kernel *kernel, st_loop_ref acc, st_loop_ref update)
{
    int64_t steps = 1;
    for (uint32_t block = inst_at(kernel, update)->block; block != inst_at(kernel, acc)->block;) {
        const st_loop_ref loop = kernel->blocks.data[block].loop;
        const st_loop_axis *axis = axis_of(kernel, loop);
        int64_t extent = st_loop_known_or(&kernel->syms->tab, axis->extent, LONG_SUM);
        if (axis->mapping == ST_MAPPING_THREADS) {
            const int64_t threads = sharing_threads(kernel);
            extent = (extent + threads - 1) / threads;
        }
        const bool is_serial = !(axis->flags & ST_AXIS_VECTOR) && extent > 0;
        steps = steps > LONG_SUM || !is_serial ? steps : steps * extent;
        block = inst_at(kernel, loop)->block;
    }
    return steps;
}

/* The accumulator becomes f64: its updates are widened, its reads rounded. */
static bool widen(st_kernel *kernel, st_loop_ref acc)
{
    const uint32_t n = kernel->insts.count;
    inst_at(kernel, acc)->dtype = STATOR_F64;
    for (st_loop_ref ref = acc + 1u; ref < n; ref++) {
        const st_loop_inst inst = *inst_at(kernel, ref);
        st_loop_inst wide = {.dtype = STATOR_F64, .origin = inst.origin};
        if (inst.ref != acc || (inst.code != ST_LOOP_UPDATE && inst.code != ST_LOOP_READ)) {
            continue;
        }
        const bool is_update = inst.code == ST_LOOP_UPDATE;
        wide.code = is_update ? ST_LOOP_cast : ST_LOOP_READ;
        wide.args[0] = is_update ? inst.args[0] : 0;
        wide.ref = is_update ? 0 : acc;
        const st_loop_ref made = insert_before(kernel, ref, &wide);
        if (made == 0) {
            return false;
        }
        st_loop_inst *old = inst_at(kernel, ref);
        old->args[0] = made;
        if (!is_update) {
            old->code = ST_LOOP_cast;
            old->ref = 0;
        }
    }
    return true;
}

bool cg_widen_long_sums(st_kernel *kernel)
{
    const uint32_t n = kernel->insts.count;
    for (st_loop_ref ref = 1; ref < n; ref++) {
        const st_loop_inst *inst = inst_at(kernel, ref);
        const st_loop_inst *acc = inst->code == ST_LOOP_UPDATE ? inst_at(kernel, inst->ref) : NULL;
        if (acc && acc->imm.i == ST_ACC_SUM && acc->dtype == STATOR_F32 && acc->args[0] == 0 &&
            serial_steps(kernel, inst->ref, ref) >= LONG_SUM && !widen(kernel, inst->ref)) {
            return false;
        }
    }
    return true;
}
