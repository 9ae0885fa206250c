/* The builder of kernels: placement, reuse, sticky errors.
 *
 * A pure instruction goes into the outermost open block in which its operands and the symbols of
 * its index are known. Instructions that a closed loop holds are out of scope, so the memo is
 * asked for instructions of open blocks alone. A loop joins its parent's chain when it is
 * closed: instructions hoisted out of it meanwhile stand before it. */
#include "codegen/loopir/loop_build.h"

#include "core/base/diag.h"

#include <stdio.h>
#include <string.h>

#define NO_DEPTH UINT32_MAX

void st_loop_builder_init(st_loop_builder *b, st_kernel *kernel)
{
    memset(b, 0, sizeof *b);
    b->kernel = kernel;
    st_hashset_init(&b->memo, kernel->mem);
    uint32_t *root = st_vec_push(kernel->mem, &b->open);
    if (root == NULL) {
        kernel->failed = STATOR_RESOURCE_EXHAUSTED;
        return;
    }
    *root = 0;
}

void st_loop_builder_deinit(st_loop_builder *b)
{
    st_hashset_deinit(&b->memo);
    st_vec_free(b->kernel->mem, &b->open);
}

static uint32_t fail(st_loop_builder *b, stator_status status)
{
    if (!b->kernel->failed) {
        b->kernel->failed = (uint32_t)status;
    }
    return 0;
}

static uint32_t out_of_memory(st_loop_builder *b)
{
    return fail(b, STATOR_RESOURCE_EXHAUSTED);
}

static st_loop_inst *inst_at(st_loop_builder *b, st_loop_ref ref)
{
    return &b->kernel->insts.data[ref];
}

/* ---- placement ---- */

bool st_loop_is_open(const st_loop_builder *b, uint32_t block)
{
    const uint32_t depth = b->kernel->blocks.data[block].depth;
    return depth < b->open.count && b->open.data[depth] == block;
}

static uint32_t depth_of_block(const st_loop_builder *b, uint32_t block)
{
    return st_loop_is_open(b, block) ? b->kernel->blocks.data[block].depth : NO_DEPTH;
}

static uint32_t deeper(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

typedef struct depth_walk {
    const st_loop_builder *b;
    uint32_t depth;
} depth_walk;

static void symbol_depth(void *self, uint32_t index)
{
    depth_walk *walk = self;
    const st_kernel *kernel = walk->b->kernel;
    const st_loop_symbol *symbol = &kernel->syms->symbols.data[index];
    if (symbol->kind == ST_SYMBOL_SIZE) {
        return;
    }
    if (symbol->owner != kernel->number) {
        walk->depth = NO_DEPTH;
        return;
    }
    const uint32_t block = symbol->kind == ST_SYMBOL_AXIS ? kernel->axes.data[symbol->id].block
                                                          : st_loop_at(kernel, symbol->id)->block;
    walk->depth = deeper(walk->depth, symbol->kind == ST_SYMBOL_AXIS && block == 0
                                          ? NO_DEPTH
                                          : depth_of_block(walk->b, block));
}

/* The shallowest depth at which the instruction can stand; NO_DEPTH: something it needs is out
 * of scope. */
static uint32_t depth_of_inst(const st_loop_builder *b, const st_loop_inst *inst)
{
    depth_walk walk = {b, 0};
    for (uint32_t k = 0; k < 3; k++) {
        if (inst->args[k]) {
            const uint32_t block = st_loop_at(b->kernel, inst->args[k])->block;
            walk.depth = deeper(walk.depth, depth_of_block(b, block));
        }
    }
    if (inst->sym && inst->code != ST_LOOP_BIND) {
        st_loop_each_symbol(b->kernel->syms, inst->sym, symbol_depth, &walk);
    }
    return walk.depth;
}

/* Appends the instruction to the block of this depth. */
static st_loop_ref append(st_loop_builder *b, const st_loop_inst *inst, uint32_t depth)
{
    st_kernel *kernel = b->kernel;
    if (kernel->failed) {
        return 0;
    }
    ST_FAIL_BY_IF(fail, depth >= b->open.count, b, STATOR_INTERNAL);
    const st_loop_ref ref = kernel->insts.count;
    st_loop_inst *at = st_vec_push(kernel->mem, &kernel->insts);
    ST_FAIL_BY_IF(out_of_memory, at == NULL, b);
    *at = *inst;
    at->origin = b->origin;
    st_loop_chain(kernel, b->open.data[depth], ref);
    return ref;
}

static st_loop_ref append_here(st_loop_builder *b, const st_loop_inst *inst)
{
    return append(b, inst, b->open.count - 1u);
}

/* ---- reuse ---- */

typedef struct sought {
    const st_loop_builder *b;
    const st_loop_inst *inst;
} sought;

static bool same_inst(void *self, uint32_t id)
{
    const sought *s = self;
    const st_loop_inst *a = st_loop_at(s->b->kernel, id);
    const st_loop_inst *c = s->inst;
    return a->code == c->code && a->dtype == c->dtype && a->args[0] == c->args[0] &&
           a->args[1] == c->args[1] && a->args[2] == c->args[2] && a->ref == c->ref &&
           a->sym == c->sym && memcmp(&a->imm, &c->imm, sizeof a->imm) == 0 &&
           st_loop_is_open(s->b, a->block);
}

static uint64_t hash_inst(const st_loop_inst *inst)
{
    const uint64_t key[5] = {
        ((uint64_t)inst->code << 32) | inst->dtype, ((uint64_t)inst->args[0] << 32) | inst->args[1],
        ((uint64_t)inst->args[2] << 32) | inst->ref, inst->sym, (uint64_t)inst->imm.i};
    return st_hash64(key, sizeof key, 0);
}

/* An instruction without effects: an equal one in scope, or a new one at this depth (NO_DEPTH: as
 * far out as it can stand). */
static st_loop_ref pure_at(st_loop_builder *b, const st_loop_inst *inst, uint32_t depth)
{
    const uint64_t hash = hash_inst(inst);
    sought s = {b, inst};
    const st_loop_ref found = st_hashset_find(&b->memo, hash, same_inst, &s);
    if (found) {
        return found;
    }
    const st_loop_ref ref = append(b, inst, depth == NO_DEPTH ? depth_of_inst(b, inst) : depth);
    return ref && !st_hashset_add(&b->memo, hash, ref) ? out_of_memory(b) : ref;
}

static st_loop_ref pure(st_loop_builder *b, const st_loop_inst *inst)
{
    return b->kernel->failed ? 0 : pure_at(b, inst, NO_DEPTH);
}

/* ---- buffers, axes, loops ---- */

uint32_t st_loop_buffer_add(st_loop_builder *b, const char *name, uint32_t dtype, uint32_t numel,
                            uint32_t flags, uint32_t id)
{
    st_kernel *kernel = b->kernel;
    const uint32_t index = kernel->buffers.count;
    const char *copy = st_arena_strndup(&kernel->syms->names, name, strlen(name));
    st_loop_buffer *at = copy ? st_vec_push(kernel->mem, &kernel->buffers) : NULL;
    ST_FAIL_BY_IF(out_of_memory, at == NULL, b);
    *at = (st_loop_buffer){
        .name = copy, .dtype = dtype, .flags = flags, .numel = numel, .id = id, .align = 16};
    return index;
}

uint32_t st_loop_axis_add(st_loop_builder *b, uint32_t extent, uint32_t flags)
{
    st_kernel *kernel = b->kernel;
    const uint32_t index = kernel->axes.count;
    st_loop_axis *at = kernel->failed ? NULL : st_vec_push(kernel->mem, &kernel->axes);
    ST_FAIL_BY_IF(out_of_memory, at == NULL, b);
    char name[16];
    int64_t lo = 0;
    int64_t hi = 0;
    (void)snprintf(name, sizeof name, "i%u", index);
    st_sym_range(&kernel->syms->tab, extent, &lo, &hi);
    const uint32_t symbol = kernel->syms->symbols.count;
    const int64_t last = hi == INT64_MAX ? hi : hi > 0 ? hi - 1 : 0;
    *at =
        (st_loop_axis){.symbol = symbol, .extent = extent, .flags = flags, .lanes = 1, .unroll = 1};
    const st_loop_symbol what = {
        .kind = ST_SYMBOL_AXIS, .id = index, .owner = kernel->number, .name = name};
    at->sym = st_loop_symbol_add(kernel->syms, &what, 0, last, 1);
    return at->sym ? index : out_of_memory(b);
}

void st_loop_open(st_loop_builder *b, uint32_t axis)
{
    st_kernel *kernel = b->kernel;
    if (kernel->failed) {
        return;
    }
    const uint32_t block = kernel->blocks.count;
    uint32_t *open = st_vec_push(kernel->mem, &b->open);
    st_loop_block *at = open ? st_vec_push(kernel->mem, &kernel->blocks) : NULL;
    if (at == NULL) {
        (void)out_of_memory(b);
        return;
    }
    *at = (st_loop_block){.depth = b->open.count - 1u};
    *open = block;
    /* The loop's instruction is made at close; until then the block knows its axis through the
     * axis. */
    kernel->axes.data[axis].block = block;
}

void st_loop_close(st_loop_builder *b)
{
    st_kernel *kernel = b->kernel;
    if (kernel->failed || b->open.count < 2u) {
        (void)fail(b, STATOR_INTERNAL);
        return;
    }
    const uint32_t block = b->open.data[--b->open.count];
    st_loop_inst inst = {.code = ST_LOOP_LOOP, .body = block};
    while (inst.ref < kernel->axes.count && kernel->axes.data[inst.ref].block != block) {
        inst.ref++;
    }
    kernel->blocks.data[block].loop = append_here(b, &inst);
}

/* ---- values ---- */

st_loop_ref st_loop_int(st_loop_builder *b, uint32_t dtype, int64_t value)
{
    const st_loop_inst inst = {.code = ST_LOOP_CONST, .dtype = (uint8_t)dtype, .imm.i = value};
    return pure(b, &inst);
}

st_loop_ref st_loop_float(st_loop_builder *b, uint32_t dtype, double value)
{
    const st_loop_inst inst = {.code = ST_LOOP_CONST, .dtype = (uint8_t)dtype, .imm.f = value};
    return pure(b, &inst);
}

st_loop_ref st_loop_number(st_loop_builder *b, uint32_t dtype, double value)
{
    return st_loop_class_of(dtype) == ST_LOOP_FLOATS ? st_loop_float(b, dtype, value)
                                                     : st_loop_int(b, dtype, (int64_t)value);
}

st_loop_ref st_loop_index(st_loop_builder *b, uint32_t sym)
{
    int64_t value = 0;
    ST_FAIL_BY_IF(fail, sym == 0, b, STATOR_UNSUPPORTED);
    if (st_sym_const(&b->kernel->syms->tab, sym, &value)) {
        return st_loop_int(b, STATOR_I64, value);
    }
    const st_loop_inst inst = {.code = ST_LOOP_INDEX, .dtype = STATOR_I64, .sym = sym};
    return pure(b, &inst);
}

st_loop_ref st_loop_apply(st_loop_builder *b, uint32_t code, uint32_t dtype, st_loop_ref x,
                          st_loop_ref y, st_loop_ref z)
{
    const st_loop_op_desc *desc = st_loop_desc(code);
    const st_loop_ref args[3] = {x, y, z};
    if (b->kernel->failed) {
        return 0;
    }
    ST_FAIL_BY_IF(fail, desc == NULL || args[desc->arity - 1u] == 0, b, STATOR_INTERNAL);
    if (desc->result == ST_LOOP_BOOL) {
        dtype = STATOR_BOOL;
    } else if (dtype == 0) {
        dtype = inst_at(b, args[desc->arity - 1u])->dtype;
    }
    const st_loop_inst inst = {.code = (uint16_t)code, .dtype = (uint8_t)dtype, .args = {x, y, z}};
    return pure(b, &inst);
}

st_loop_ref st_loop_cast(st_loop_builder *b, uint32_t dtype, st_loop_ref x)
{
    if (x == 0 || inst_at(b, x)->dtype == dtype) {
        return x;
    }
    return st_loop_apply(b, ST_LOOP_cast, dtype, x, 0, 0);
}

st_loop_ref st_loop_both(st_loop_builder *b, st_loop_ref a, st_loop_ref c)
{
    if (a == 0 || c == 0 || a == c) {
        return a ? a : c;
    }
    return st_loop_apply(b, ST_LOOP_bit_and, STATOR_BOOL, a, c, 0);
}

/* ---- memory ---- */

st_loop_ref st_loop_load(st_loop_builder *b, uint32_t buffer, uint32_t index, st_loop_ref mask,
                         st_loop_ref other)
{
    if (b->kernel->failed) {
        return 0; /* the buffer may not exist */
    }
    ST_FAIL_BY_IF(fail, index == 0, b, STATOR_UNSUPPORTED);
    const st_loop_buffer *from = &b->kernel->buffers.data[buffer];
    const st_loop_inst inst = {.code = ST_LOOP_LOAD,
                               .dtype = (uint8_t)st_loop_loaded(from->dtype),
                               .args = {mask, other},
                               .ref = buffer,
                               .sym = index};
    /* Loads from buffers that the kernel writes stay in order with the stores. */
    return from->flags & ST_BUFFER_WRITTEN ? append_here(b, &inst) : pure(b, &inst);
}

void st_loop_store(st_loop_builder *b, uint32_t buffer, uint32_t index, st_loop_ref value,
                   st_loop_ref mask)
{
    const st_loop_inst inst = {
        .code = ST_LOOP_STORE, .args = {value, mask}, .ref = buffer, .sym = index};
    if (index == 0) {
        (void)fail(b, STATOR_UNSUPPORTED);
        return;
    }
    (void)append_here(b, &inst);
}

void st_loop_check(st_loop_builder *b, st_loop_ref ok, st_loop_ref mask)
{
    const st_loop_inst inst = {.code = ST_LOOP_CHECK, .args = {ok, mask}};
    (void)pure(b, &inst); /* the check stands as far out as it can, once */
}

uint32_t st_loop_bind(st_loop_builder *b, st_loop_ref value, int64_t lo, int64_t hi)
{
    st_kernel *kernel = b->kernel;
    if (kernel->failed) {
        return 0;
    }
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (inst->code == ST_LOOP_BIND && inst->args[0] == value &&
            st_loop_is_open(b, inst->block)) {
            return inst->sym;
        }
    }
    const st_loop_inst inst = {.code = ST_LOOP_BIND, .args = {value}};
    const st_loop_ref ref = append(b, &inst, depth_of_inst(b, &inst));
    if (ref == 0) {
        return 0;
    }
    const st_loop_symbol what = {.kind = ST_SYMBOL_VALUE, .id = ref, .owner = kernel->number};
    const uint32_t sym = st_loop_symbol_add(kernel->syms, &what, lo, hi, 1);
    inst_at(b, ref)->sym = sym;
    return sym ? sym : out_of_memory(b);
}

/* ---- accumulators ---- */

st_loop_ref st_loop_acc(st_loop_builder *b, uint32_t kind, uint32_t dtype, st_loop_ref first)
{
    const st_loop_inst inst = {
        .code = ST_LOOP_ACC, .dtype = (uint8_t)dtype, .args = {first}, .imm.i = kind};
    return append_here(b, &inst);
}

void st_loop_update(st_loop_builder *b, st_loop_ref acc, st_loop_ref value, st_loop_ref index,
                    st_loop_ref mask)
{
    const st_loop_inst inst = {.code = ST_LOOP_UPDATE, .args = {value, index, mask}, .ref = acc};
    (void)append_here(b, &inst);
}

/* Is the accumulator updated by a loop that is still open? */
static bool is_running(st_loop_builder *b, st_loop_ref acc)
{
    const st_kernel *kernel = b->kernel;
    for (st_loop_ref ref = acc + 1u; ref < kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (inst->code == ST_LOOP_UPDATE && inst->ref == acc) {
            return st_loop_is_open(b, inst->block) && inst->block != inst_at(b, acc)->block;
        }
    }
    return true;
}

st_loop_ref st_loop_read(st_loop_builder *b, st_loop_ref acc, uint32_t dtype)
{
    st_loop_inst inst = {.code = ST_LOOP_READ, .dtype = (uint8_t)dtype, .ref = acc};
    ST_FAIL_BY_IF(fail, b->kernel->failed || acc == 0, b, STATOR_INTERNAL);
    if (is_running(b, acc)) {
        return append_here(b, &inst);
    }
    /* Once for all who need it: right behind the loop, in the block of the declaration. */
    return pure_at(b, &inst, b->kernel->blocks.data[inst_at(b, acc)->block].depth);
}
