/* Which accesses to memory a thread makes at once for several iterations of a loop. Those whose
 * elements lie side by side are, where nothing decides which of them happen: up to 16 bytes, which
 * is the most that one instruction moves. */
#include "codegen/gpu/gpu_schedule.h"

#define VECTOR_BYTES 16u /* at most, of one access */
#define WORD_BYTES 4u    /* at least */
#define LANES_MAX 8u
#define COST_MAX 480u /* of the lanes' bodies, in instructions, beyond which they lack registers */
#define COST_OF_CAST 4u      /* about, of those from and to 16 bits */
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
    const bool fits = bytes >= WORD_BYTES && bytes <= VECTOR_BYTES;
    return fits && st_loop_loaded(dtype) == dtype && !is_mixed(kernel, loop->body, inst) &&
                   is_adjacent(kernel, loop, inst->sym)
               ? bytes
               : 0;
}

/* About how many instructions one is. */
static uint32_t cost_of(const st_loop_inst *inst)
{
    const st_loop_op_desc *desc = st_loop_desc(inst->code);
    if (inst->code == ST_LOOP_cast) {
        return COST_OF_CAST;
    }
    const bool is_function = desc && !(desc->native & st_loop_class_of(inst->dtype)) &&
                             (desc->expand || desc->expand_f32 || desc->libm);
    return is_function ? COST_OF_FUNCTION : 1u;
}

/* The most lanes with which each access that can be made at once fits; 1: there is none. */
static uint32_t lanes_of_accesses(const st_kernel *kernel, const st_loop_inst *loop)
{
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

uint32_t gpu_lanes_for(const st_kernel *kernel, st_loop_ref loop)
{
    const st_loop_inst *at = st_loop_at(kernel, loop);
    uint32_t cost = 0;
    for (st_loop_ref ref = kernel->blocks.data[at->body].first; ref;
         ref = st_loop_at(kernel, ref)->next) {
        if (st_loop_at(kernel, ref)->code == ST_LOOP_LOOP) {
            return 1;
        }
        cost += cost_of(st_loop_at(kernel, ref));
    }
    uint32_t lanes = lanes_of_accesses(kernel, at);
    while (lanes > 1u && lanes * cost > COST_MAX) {
        lanes /= 2u;
    }
    return lanes;
}
