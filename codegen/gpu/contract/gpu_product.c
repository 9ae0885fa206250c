/* What the files that print a product have in common: lines, types, loops and what stands in
 * them. */
#include "codegen/gpu/contract/gpu_contract_text.h"

#include <inttypes.h>
#include <stdarg.h>

#define put st_loop_text_put
#define line gpu_line
#define PAD 4u /* of a row of shared memory, against conflicts of banks */

void gpu_line(const gpu_product *t, const char *format, ...)
{
    va_list args;
    st_loop_text_indent(&t->g->t);
    va_start(args, format);
    st_str_vaddf(t->g->t.out, format, args);
    va_end(args);
    st_str_add(t->g->t.out, "\n");
}

void gpu_open_block(const gpu_product *t)
{
    t->g->t.depth++;
}

void gpu_close_block(const gpu_product *t)
{
    t->g->t.depth--;
    line(t, "}");
}

uint32_t gpu_pitch_of(const gpu_operand *o)
{
    return o->side + PAD;
}

uint32_t gpu_elements_of(const gpu_product *t, const gpu_operand *o)
{
    const uint32_t elements = o->side * t->shape->steps;
    return t->is_shared ? elements : elements / t->members;
}

const char *gpu_type_of(const gpu_product *t)
{
    return t->g->t.spelling->types[st_loop_at(t->g->kernel, t->acc)->dtype];
}

const char *gpu_index_type(const gpu_product *t)
{
    return t->g->t.spelling->index_type;
}

bool gpu_sums_f32(const gpu_product *t)
{
    return st_loop_at(t->g->kernel, t->acc)->dtype == STATOR_F32;
}

const st_loop_axis *gpu_loop_axis(const gpu_product *t, const st_loop_inst *loop)
{
    return &t->g->kernel->axes.data[loop->ref];
}

void gpu_put_share(const gpu_product *t, uint32_t n)
{
    if (t->shape->shares > 1u) {
        put(&t->g->t, "share * %" PRIu32 " + ", n);
    }
}

const st_loop_inst *gpu_loop_in(const gpu_text *g, uint32_t block)
{
    for (st_loop_ref ref = g->kernel->blocks.data[block].first; ref;
         ref = st_loop_at(g->kernel, ref)->next) {
        if (st_loop_at(g->kernel, ref)->code == ST_LOOP_LOOP) {
            return st_loop_at(g->kernel, ref);
        }
    }
    return NULL;
}

bool gpu_walks(const gpu_product *t, uint32_t bit, const st_loop_inst *loop)
{
    const uint32_t symbol = gpu_loop_axis(t, loop)->symbol;
    for (st_loop_ref ref = 1; ref < t->g->kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(t->g->kernel, ref);
        if ((t->g->needed[ref] & bit) && inst->sym && inst->code != ST_LOOP_BIND &&
            st_loop_mentions(t->g->kernel->syms, inst->sym, symbol)) {
            return true;
        }
    }
    return false;
}

uint32_t gpu_put_rest(const gpu_product *t, uint32_t block, bool is_counted)
{
    uint32_t n = 0;
    for (st_loop_ref ref = t->g->kernel->blocks.data[block].first; ref;
         ref = st_loop_at(t->g->kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(t->g->kernel, ref);
        if (inst->code == ST_LOOP_LOOP || inst->code == ST_LOOP_ACC) {
            continue;
        }
        n++;
        if (!is_counted) {
            st_loop_text_indent(&t->g->t);
            st_loop_text_inst(&t->g->t, ref);
        }
    }
    return n;
}

void gpu_put_multiply(const gpu_product *t, const char *c, const char *p, const char *q)
{
    if (st_loop_class_of(st_loop_at(t->g->kernel, t->acc)->dtype) == ST_LOOP_FLOATS) {
        line(t, "    %s = st_fma%s(%s, %s, %s);", c,
             t->g->t.spelling->suffix[gpu_sums_f32(t) ? ST_LOOP_F32 : ST_LOOP_F64], p, q, c);
    } else {
        line(t, "    %s = (st_i32)((st_u32)%s + (st_u32)%s * (st_u32)%s);", c, c, p, q);
    }
}
