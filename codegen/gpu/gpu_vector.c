/* Which accesses to memory a thread makes at once for several iterations of a loop. Those whose
 * elements lie side by side are, where nothing decides which of them happen: up to 16 bytes, which
 * is the most that one instruction moves. */
#include "codegen/gpu/gpu_schedule.h"

#define VECTOR_BYTES 16u /* at most, of one access */
#define WORD_BYTES 4u    /* at least */
#define LANES_MAX 8u
#define COST_MAX 480u /* of the lanes' bodies, in instructions, beyond which they lack registers */
#define COST_OF_CAST 4u      /* about, of those from and to 16 bits */
#define COST_OF_DIVISION 80u /* about, of an index by a size */
#define COST_OF_FUNCTION 24u /* about, of one like exp */

typedef struct symbol_test {
    const st_kernel *kernel;
    uint32_t body;
    bool is_inside; /* is one bound in the body? */
} symbol_test;

static void note_inside(void *self, uint32_t index)
{
    symbol_test *test = self;
    const st_loop_symbol *symbol = &test->kernel->syms->symbols.data[index];
    test->is_inside =
        test->is_inside || (symbol->kind == ST_SYMBOL_VALUE &&
                            st_loop_at(test->kernel, symbol->id)->block == test->body);
}

/* Does the index walk elements that lie side by side? */
static bool is_adjacent(const st_kernel *kernel, const st_loop_inst *loop, uint32_t sym)
{
    const st_loop_axis *axis = &kernel->axes.data[loop->ref];
    symbol_test test = {kernel, loop->body, false};
    uint32_t coef = 0;
    uint32_t rest = 0;
    st_loop_each_symbol(kernel->syms, sym, note_inside, &test);
    return !test.is_inside && st_loop_linear(kernel->syms, sym, axis->symbol, &coef, &rest) &&
           st_loop_known_or(&kernel->syms->tab, coef, 0) == 1;
}

/* Is the buffer also accessed in the other way in the loop's body? */
static bool is_mixed(const st_kernel *kernel, uint32_t body, const st_loop_inst *access)
{
    const uint16_t other = access->code == ST_LOOP_LOAD ? ST_LOOP_STORE : ST_LOOP_LOAD;
    for (st_loop_ref ref = kernel->blocks.data[body].first; ref;
         ref = st_loop_at(kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (inst->code == other && inst->ref == access->ref) {
            return true;
        }
    }
    return false;
}

bool gpu_is_multiple(const st_kernel *kernel, uint32_t sym, uint32_t n)
{
    const st_symtab *tab = &kernel->syms->tab;
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    bool is_multiple = row->constant % (int64_t)n == 0;
    for (uint32_t i = 0; i < row->term_count; i++) {
        is_multiple = is_multiple && st_sym_term(tab, row, i)->coef % (int64_t)n == 0;
    }
    return is_multiple;
}

uint32_t gpu_vector_bytes(const st_kernel *kernel, const st_loop_inst *loop, st_loop_ref access,
                          uint32_t lanes)
{
    const st_loop_inst *inst = st_loop_at(kernel, access);
    const bool is_load = inst->code == ST_LOOP_LOAD;
    if ((!is_load && inst->code != ST_LOOP_STORE) || inst->args[is_load ? 0 : 1]) {
        return 0;
    }
    const uint32_t dtype = kernel->buffers.data[inst->ref].dtype;
    const uint32_t bytes = lanes * (uint32_t)st_element_bytes(dtype);
    const bool is_own = (kernel->buffers.data[inst->ref].flags & ST_BUFFER_THREAD) != 0;
    const bool keeps_row = (kernel->axes.data[loop->ref].flags & ST_AXIS_HELD) != 0;
    const bool fits = bytes >= WORD_BYTES && bytes <= VECTOR_BYTES && !is_own;
    return fits && (lanes > 1u || keeps_row) && st_loop_loaded(dtype) == dtype &&
                   !is_mixed(kernel, loop->body, inst) && is_adjacent(kernel, loop, inst->sym)
               ? bytes
               : 0;
}

/* Divisions of 64 bits in the sym, by what is no constant. */
static uint32_t divisions_in(const st_symtab *tab, uint32_t sym)
{
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    uint32_t n = 0;
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_atom_row *atom = st_atom_at(tab, st_sym_term(tab, row, i)->atom);
        int64_t divisor = 0;
        if (atom->kind != STATOR_ATOM_SYMBOL) {
            n += divisions_in(tab, atom->a) + divisions_in(tab, atom->b);
            n += !st_sym_const(tab, atom->b, &divisor);
        }
    }
    return n;
}

/* About how many instructions one is. */
static uint32_t cost_of(const st_kernel *kernel, const st_loop_inst *inst)
{
    if (inst->code == ST_LOOP_INDEX) {
        return 1u + COST_OF_DIVISION * divisions_in(&kernel->syms->tab, inst->sym);
    }
    const st_loop_op_desc *desc = st_loop_desc(inst->code);
    if (inst->code == ST_LOOP_cast) {
        return COST_OF_CAST;
    }
    const bool is_function = desc && !(desc->native & st_loop_class_of(inst->dtype)) &&
                             (desc->expand || desc->expand_f32 || desc->libm);
    return is_function ? COST_OF_FUNCTION : 1u;
}

uint32_t gpu_widest_lanes(const st_kernel *kernel, st_loop_ref at)
{
    const st_loop_inst *loop = st_loop_at(kernel, at);
    uint32_t widest = 0;
    for (st_loop_ref ref = kernel->blocks.data[loop->body].first; ref;
         ref = st_loop_at(kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        for (uint32_t lanes = 2; lanes <= WORD_BYTES; lanes *= 2u) {
            if (gpu_vector_bytes(kernel, loop, ref, lanes)) {
                const uint32_t dtype = kernel->buffers.data[inst->ref].dtype;
                const uint32_t bytes = (uint32_t)st_element_bytes(dtype);
                widest = bytes > widest ? bytes : widest;
            }
        }
    }
    const uint32_t lanes = widest ? VECTOR_BYTES / widest : 1u;
    return lanes < LANES_MAX ? lanes : LANES_MAX;
}

uint32_t gpu_cost_of(const st_kernel *kernel, st_loop_ref loop)
{
    uint32_t cost = 0;
    for (st_loop_ref ref = kernel->blocks.data[st_loop_at(kernel, loop)->body].first; ref;
         ref = st_loop_at(kernel, ref)->next) {
        if (st_loop_at(kernel, ref)->code == ST_LOOP_LOOP) {
            return 0;
        }
        cost += cost_of(kernel, st_loop_at(kernel, ref));
    }
    return cost;
}

uint32_t gpu_lanes_for(const st_kernel *kernel, st_loop_ref loop)
{
    const uint32_t cost = gpu_cost_of(kernel, loop);
    uint32_t lanes = cost ? gpu_widest_lanes(kernel, loop) : 1u;
    while (lanes > 1u && lanes * cost > COST_MAX) {
        lanes /= 2u;
    }
    return lanes;
}
