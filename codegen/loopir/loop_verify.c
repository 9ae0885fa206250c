/* The invariants of the loop IR, checked by one walk over the instructions in the order in which
 * they run.
 *
 * An instruction is "live" from where it stands to the end of its block; only live instructions
 * may be used. Nothing of the kernel is trusted: refs, chains, blocks and syms are checked
 * before they are followed, so a verified kernel can be run and compiled without further tests.
 * The symbol table is trusted. */
#include "codegen/loopir/loop.h"

#include "core/base/check.h"
#include "core/base/diag.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

enum inst_state { UNSEEN = 0, LIVE = 1, ENDED = 2 };

#define COMPUTED (ST_LOOP_BOOLS | ST_LOOP_INTS | ST_LOOP_UINTS | ST_LOOP_FLOATS)
#define NUMBERS (ST_LOOP_INTS | ST_LOOP_UINTS | ST_LOOP_FLOATS)

typedef struct checker {
    const st_kernel *kernel;
    stator_diag **err;
    uint8_t *insts;                      /* inst_state */
    uint8_t *axes;                       /* inst_state */
    st_loop_ref open[ST_LOOP_DEPTH_MAX]; /* LOOP and RARE instructions around the current block */
    uint32_t depth;
    st_loop_ref inst;     /* the current one */
    st_loop_ref parallel; /* the parallel loop, once met */
    st_loop_ref effect;   /* the first store outside a parallel loop */
} checker;

static const st_loop_inst *at(const checker *c, st_loop_ref ref)
{
    return &c->kernel->insts.data[ref];
}

static stator_status broken(const checker *c, const char *format, ...) STATOR_PRINTF(2, 3);
static stator_status broken(const checker *c, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const st_loop_op_desc *desc = c->inst ? st_loop_desc(at(c, c->inst)->code) : NULL;
    ST_FAIL_IF(c->inst == 0, c->err, STATOR_INTERNAL, "kernel %s: %s", c->kernel->name, text);
    ST_FAIL_IF(desc != NULL, c->err, STATOR_INTERNAL, "kernel %s, instruction %" PRIu32 " (%s): %s",
               c->kernel->name, c->inst, desc->name, text);
    return st_fail(c->err, STATOR_INTERNAL, "kernel %s, instruction %" PRIu32 " (code %u): %s",
                   c->kernel->name, c->inst, (unsigned)at(c, c->inst)->code, text);
}

/* Returns broken(c, format, ...) where the condition holds. */
#define BROKEN_IF(condition, ...)                                                                  \
    do {                                                                                           \
        if (condition) {                                                                           \
            return broken(__VA_ARGS__);                                                            \
        }                                                                                          \
    } while (0)

/* ---- symbols ---- */

typedef struct sym_check {
    const checker *c;
    uint32_t allowed; /* mask of 1 << st_loop_symbol_kind */
    const char *fault;
} sym_check;

static void check_symbol(void *self, uint32_t index)
{
    sym_check *s = self;
    const st_kernel *kernel = s->c->kernel;
    if (index >= kernel->syms->symbols.count) {
        s->fault = "a symbol that is not in the table";
        return;
    }
    const st_loop_symbol *symbol = &kernel->syms->symbols.data[index];
    if (symbol->kind > 31u || !(s->allowed & (1u << symbol->kind))) {
        s->fault = "a kind of symbol that it may not have";
    } else if (symbol->kind == ST_SYMBOL_SIZE) {
        return;
    } else if (symbol->owner != kernel->number) {
        s->fault = "a symbol of another kernel";
    } else if (symbol->kind == ST_SYMBOL_AXIS &&
               (symbol->id >= kernel->axes.count || s->c->axes[symbol->id] != LIVE)) {
        s->fault = "an axis whose loop is not around it";
    } else if (symbol->kind == ST_SYMBOL_VALUE &&
               (symbol->id >= kernel->insts.count || s->c->insts[symbol->id] != LIVE ||
                at(s->c, symbol->id)->code != ST_LOOP_BIND)) {
        s->fault = "a value that is not bound here";
    }
}

#define SIZES (1u << ST_SYMBOL_SIZE)
#define VALUES (1u << ST_SYMBOL_VALUE)
#define AXES (1u << ST_SYMBOL_AXIS)

static stator_status check_sym(const checker *c, const char *what, uint32_t sym, uint32_t allowed)
{
    sym_check s = {c, allowed, NULL};
    BROKEN_IF(sym == 0 || sym >= c->kernel->syms->tab.syms.count, c,
              "its %s is sym %" PRIu32 ", which does not exist", what, sym);
    st_loop_each_symbol(c->kernel->syms, sym, check_symbol, &s);
    return s.fault ? broken(c, "its %s holds %s", what, s.fault) : STATOR_OK;
}

/* ---- operands ---- */

/* Operand k exists, is live and has a value. */
static stator_status check_value(const checker *c, st_loop_ref ref, const char *what)
{
    BROKEN_IF(ref == 0 || ref >= c->kernel->insts.count, c,
              "its %s is instruction %" PRIu32 ", which does not exist", what, ref);
    BROKEN_IF(c->insts[ref] != LIVE, c, "its %s, instruction %" PRIu32 ", is not in scope", what,
              ref);
    BROKEN_IF(at(c, ref)->dtype == 0 || at(c, ref)->code == ST_LOOP_ACC, c,
              "its %s, instruction %" PRIu32 ", has no value", what, ref);
    return STATOR_OK;
}

static stator_status check_typed(const checker *c, st_loop_ref ref, const char *what,
                                 uint32_t dtype)
{
    ST_TRY(check_value(c, ref, what));
    BROKEN_IF(at(c, ref)->dtype != dtype, c, "its %s is %s, expected %s", what,
              st_dtype_name(at(c, ref)->dtype), st_dtype_name(dtype));
    return STATOR_OK;
}

static stator_status check_mask(const checker *c, st_loop_ref mask)
{
    return mask ? check_typed(c, mask, "mask", STATOR_BOOL) : STATOR_OK;
}

/* The instruction's dtype is `dtype`, and operands from `first` on are not there. */
static stator_status check_form(const checker *c, uint32_t dtype, uint32_t first)
{
    const st_loop_inst *inst = at(c, c->inst);
    BROKEN_IF(inst->dtype != dtype, c, "its dtype is %s, expected %s", st_dtype_name(inst->dtype),
              dtype ? st_dtype_name(dtype) : "none");
    for (uint32_t k = first; k < 3; k++) {
        BROKEN_IF(inst->args[k], c, "it has an operand %" PRIu32 " too many", k);
    }
    return STATOR_OK;
}

static stator_status check_class(const checker *c, uint32_t dtype, uint32_t allowed)
{
    const uint32_t class_ = st_loop_class_of(dtype);
    BROKEN_IF(class_ == 0 || !(class_ & allowed), c, "it is not defined for %s",
              st_dtype_name(dtype));
    return STATOR_OK;
}

/* ---- scalar instructions ---- */

static stator_status check_conversion(const checker *c, const st_loop_inst *inst,
                                      const st_loop_op_desc *desc)
{
    const bool is_cast = inst->code == ST_LOOP_cast;
    const uint32_t allowed = desc->on | ST_LOOP_STORAGE;
    ST_TRY(check_value(c, inst->args[0], "operand x"));
    ST_TRY(check_class(c, at(c, inst->args[0])->dtype, allowed));
    ST_TRY(check_class(c, inst->dtype, allowed));
    BROKEN_IF(!is_cast && st_dtype_bits(inst->dtype) != st_dtype_bits(at(c, inst->args[0])->dtype),
              c, "%s and %s have different widths", st_dtype_name(inst->dtype),
              st_dtype_name(at(c, inst->args[0])->dtype));
    return STATOR_OK;
}

static stator_status check_scalar(const checker *c, const st_loop_inst *inst)
{
    static const char *const names[] = {"operand x", "operand y", "operand z"};
    const st_loop_op_desc *desc = st_loop_desc(inst->code);
    BROKEN_IF(desc == NULL, c, "no such code");
    ST_TRY(check_form(c, inst->dtype, desc->arity));
    if (desc->result == ST_LOOP_ANY) {
        return check_conversion(c, inst, desc);
    }
    uint32_t first = 0;
    if (inst->code == ST_LOOP_select) {
        ST_TRY(check_typed(c, inst->args[0], names[0], STATOR_BOOL));
        first = 1;
    }
    ST_TRY(check_value(c, inst->args[first], names[first]));
    const uint32_t dtype = at(c, inst->args[first])->dtype;
    for (uint32_t k = first + 1u; k < desc->arity; k++) {
        ST_TRY(check_typed(c, inst->args[k], names[k], dtype));
    }
    ST_TRY(check_class(c, dtype, desc->on));
    BROKEN_IF(inst->code == ST_LOOP_lookup && (inst->imm.i < 0 || inst->imm.i >= ST_MATH_TABLES), c,
              "there is no table %" PRId64, inst->imm.i);
    return check_form(c, desc->result == ST_LOOP_BOOL ? (uint32_t)STATOR_BOOL : dtype, desc->arity);
}

/* ---- memory ---- */

static stator_status check_access(const checker *c, const st_loop_inst *inst, uint32_t flag)
{
    BROKEN_IF(inst->ref >= c->kernel->buffers.count, c, "buffer %" PRIu32 " does not exist",
              inst->ref);
    const st_loop_buffer *buffer = &c->kernel->buffers.data[inst->ref];
    BROKEN_IF(!(buffer->flags & (flag | ST_BUFFER_LOCAL)), c, "buffer %s is not one that is %s",
              buffer->name, flag == ST_BUFFER_READ ? "read" : "written");
    return check_sym(c, "index", inst->sym, SIZES | VALUES | AXES);
}

static stator_status check_load(const checker *c, const st_loop_inst *inst)
{
    ST_TRY(check_access(c, inst, ST_BUFFER_READ));
    ST_TRY(check_form(c, st_loop_loaded(c->kernel->buffers.data[inst->ref].dtype), 2));
    ST_TRY(check_mask(c, inst->args[0]));
    BROKEN_IF(inst->args[1] && !inst->args[0], c, "it has a value for a false mask and no mask");
    return inst->args[1] ? check_typed(c, inst->args[1], "other value", inst->dtype) : STATOR_OK;
}

static bool is_inside_parallel(const checker *c)
{
    return c->depth && at(c, c->open[0])->code == ST_LOOP_LOOP && c->open[0] == c->parallel;
}

static stator_status check_store(checker *c, const st_loop_inst *inst)
{
    ST_TRY(check_access(c, inst, ST_BUFFER_WRITTEN));
    ST_TRY(check_form(c, 0, 2));
    ST_TRY(check_typed(c, inst->args[0], "value", c->kernel->buffers.data[inst->ref].dtype));
    if (c->effect == 0 && !is_inside_parallel(c)) {
        c->effect = c->inst;
    }
    return check_mask(c, inst->args[1]);
}

/* ---- accumulators ---- */

static stator_status check_kind(const checker *c, int64_t kind, uint32_t dtype)
{
    switch (kind) {
    case ST_ACC_SUM:
    case ST_ACC_PROD:
        return check_class(c, dtype, NUMBERS);
    case ST_ACC_ANY:
    case ST_ACC_ALL:
        return check_class(c, dtype, ST_LOOP_BOOLS);
    case ST_ACC_MIN:
    case ST_ACC_MAX:
    case ST_ACC_ARGMIN:
    case ST_ACC_ARGMAX:
    case ST_ACC_LAST:
        return check_class(c, dtype, COMPUTED);
    default:
        return broken(c, "%" PRId64 " is no kind of accumulator", kind);
    }
}

static bool has_index(int64_t kind)
{
    return kind == ST_ACC_ARGMIN || kind == ST_ACC_ARGMAX;
}

static stator_status check_acc(const checker *c, const st_loop_inst *inst)
{
    ST_TRY(check_kind(c, inst->imm.i, inst->dtype));
    ST_TRY(check_form(c, inst->dtype, 1));
    BROKEN_IF(inst->args[0] && has_index(inst->imm.i), c, "a first value has no index");
    return inst->args[0] ? check_typed(c, inst->args[0], "first value", inst->dtype) : STATOR_OK;
}

/* The ACC instruction that `ref` names. */
static stator_status check_acc_ref(const checker *c, const st_loop_inst *inst)
{
    BROKEN_IF(inst->ref == 0 || inst->ref >= c->kernel->insts.count ||
                  c->insts[inst->ref] != LIVE || at(c, inst->ref)->code != ST_LOOP_ACC,
              c, "instruction %" PRIu32 " is no accumulator in scope", inst->ref);
    return STATOR_OK;
}

static const st_loop_axis *open_axis(const checker *c, uint32_t depth)
{
    const st_loop_inst *inst = at(c, c->open[depth]);
    return inst->code == ST_LOOP_LOOP ? &c->kernel->axes.data[inst->ref] : NULL;
}

static stator_status check_update(const checker *c, const st_loop_inst *inst)
{
    ST_TRY(check_form(c, 0, 3));
    ST_TRY(check_acc_ref(c, inst));
    const st_loop_inst *acc = at(c, inst->ref);
    ST_TRY(check_typed(c, inst->args[0], "value", acc->dtype));
    ST_TRY(check_mask(c, inst->args[2]));
    if (has_index(acc->imm.i)) {
        ST_TRY(check_typed(c, inst->args[1], "index", STATOR_I64));
    } else if (inst->args[1]) {
        return broken(c, "%s keeps no index", st_loop_acc_name((uint32_t)acc->imm.i));
    }
    for (uint32_t d = c->kernel->blocks.data[acc->block].depth; d < c->depth; d++) {
        const st_loop_axis *axis = open_axis(c, d);
        const uint32_t flags = axis ? axis->flags : 0;
        const uint32_t allowed =
            acc->imm.i == ST_ACC_LAST ? ST_AXIS_SERIAL : ST_AXIS_SERIAL | ST_AXIS_REDUCE;
        BROKEN_IF(!(flags & allowed), c,
                  "instruction %" PRIu32 ", a loop around it and not around its accumulator, is "
                  "not %s",
                  c->open[d], acc->imm.i == ST_ACC_LAST ? "serial" : "a reduction or serial");
    }
    return STATOR_OK;
}

/* Does the instruction's loop hold an update of the accumulator? */
static bool updates(const checker *c, st_loop_ref loop, st_loop_ref acc)
{
    const st_kernel *kernel = c->kernel;
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *inst = at(c, ref);
        if (inst->code != ST_LOOP_UPDATE || inst->ref != acc) {
            continue;
        }
        uint32_t block = inst->block;
        for (uint32_t d = 0; d <= ST_LOOP_DEPTH_MAX && block && block < kernel->blocks.count; d++) {
            const st_loop_ref around = kernel->blocks.data[block].loop;
            if (around == loop) {
                return true;
            }
            block = around < kernel->insts.count ? at(c, around)->block : 0;
        }
    }
    return false;
}

static stator_status check_read(const checker *c, const st_loop_inst *inst)
{
    ST_TRY(check_acc_ref(c, inst));
    const st_loop_inst *acc = at(c, inst->ref);
    const bool is_index = has_index(acc->imm.i) && inst->dtype == STATOR_I64;
    ST_TRY(check_form(c, is_index ? (uint32_t)STATOR_I64 : acc->dtype, 0));
    for (uint32_t d = c->kernel->blocks.data[acc->block].depth; d < c->depth; d++) {
        const st_loop_axis *axis = open_axis(c, d);
        BROKEN_IF(axis && !(axis->flags & ST_AXIS_SERIAL) && updates(c, c->open[d], inst->ref), c,
                  "it reads an accumulator inside instruction %" PRIu32 ", a loop that updates "
                  "it and is not serial",
                  c->open[d]);
    }
    return STATOR_OK;
}

/* ---- structure ---- */

static stator_status check_bind(const checker *c, const st_loop_inst *inst)
{
    ST_TRY(check_form(c, 0, 1));
    ST_TRY(check_typed(c, inst->args[0], "value", STATOR_I64));
    const st_loop_syms *syms = c->kernel->syms;
    for (uint32_t i = 0; i < syms->symbols.count; i++) {
        const st_loop_symbol *symbol = &syms->symbols.data[i];
        if (symbol->sym == inst->sym && inst->sym) {
            return symbol->kind == ST_SYMBOL_VALUE && symbol->owner == c->kernel->number &&
                           symbol->id == c->inst
                       ? STATOR_OK
                       : broken(c, "it binds the symbol %s, which is not its own", symbol->name);
        }
    }
    return broken(c, "sym %" PRIu32 " is no symbol", inst->sym);
}

static stator_status check_body(checker *c, st_loop_ref ref);

/* The loops of a tile stand right inside each other. */
static stator_status check_tile(const checker *c, uint32_t mapping)
{
    const st_loop_axis *around = c->depth ? open_axis(c, c->depth - 1u) : NULL;
    const uint32_t outside = around ? around->mapping : 0;
    BROKEN_IF(mapping == ST_MAPPING_TILE_ROWS && outside != ST_MAPPING_BLOCKS, c,
              "the rows of a tile outside blocks");
    BROKEN_IF(mapping == ST_MAPPING_TILE_COLUMNS && outside != ST_MAPPING_TILE_ROWS, c,
              "the columns of a tile outside its rows");
    const bool is_sum = mapping == ST_MAPPING_TILE_STEPS || mapping == ST_MAPPING_TILE_SHARES ||
                        mapping >= ST_MAPPING_MATRIX_STEPS;
    BROKEN_IF(is_sum && outside != ST_MAPPING_TILE_COLUMNS, c,
              "the steps of a tile outside its columns");
    return STATOR_OK;
}

/* Threads of a warp share an iteration, and need no more than its lanes to meet. */
static stator_status check_rows(const checker *c, const st_loop_axis *axis)
{
    const uint32_t threads = c->kernel->threads;
    const uint32_t each = axis->lanes ? threads / axis->lanes : 0;
    BROKEN_IF(each < 2u || each > ST_ROW_THREADS_MAX || (each & (each - 1u)) ||
                  each * axis->lanes != threads,
              c, "%" PRIu32 " rows of %" PRIu32 " threads", axis->lanes, threads);
    for (uint32_t i = 0; i < c->kernel->buffers.count; i++) {
        const st_loop_buffer *buffer = &c->kernel->buffers.data[i];
        BROKEN_IF((buffer->flags & ST_BUFFER_LOCAL) && !(buffer->flags & ST_BUFFER_THREAD), c,
                  "rows of threads share %s", buffer->name);
    }
    return STATOR_OK;
}

static stator_status check_mapping(const checker *c, const st_loop_axis *axis)
{
    const st_loop_axis *outermost = c->depth ? open_axis(c, 0) : NULL;
    const bool is_of_grid = axis->mapping == ST_MAPPING_GRID ||
                            axis->mapping == ST_MAPPING_BLOCKS ||
                            axis->mapping == ST_MAPPING_COLUMNS || axis->mapping == ST_MAPPING_ROWS;
    const bool is_of_block = axis->mapping == ST_MAPPING_THREADS;
    BROKEN_IF(axis->mapping > ST_MAPPING_LAST, c, "%" PRIu32 " is no mapping", axis->mapping);
    BROKEN_IF(axis->mapping && c->kernel->threads == 0, c,
              "it is mapped, and the kernel has no threads of a block");
    BROKEN_IF(is_of_grid && !(axis->flags & ST_AXIS_PARALLEL), c,
              "a loop over the grid that is not parallel");
    BROKEN_IF(is_of_block && (axis->flags & ST_AXIS_SERIAL), c,
              "a serial loop over the threads of a block");
    for (uint32_t d = 0; d < c->depth && is_of_block; d++) {
        const st_loop_axis *around = open_axis(c, d);
        const uint32_t mapping = around ? around->mapping : 0;
        BROKEN_IF(mapping == ST_MAPPING_GRID || mapping == ST_MAPPING_THREADS, c,
                  "a loop over the threads of a block inside one over %s",
                  mapping == ST_MAPPING_GRID ? "the grid" : "them");
    }
    if (outermost && outermost->mapping == ST_MAPPING_ROWS) {
        ST_TRY(check_sym(c, "extent", axis->extent, SIZES));
    }
    if (axis->mapping == ST_MAPPING_ROWS) {
        ST_TRY(check_rows(c, axis));
    }
    return check_tile(c, axis->mapping);
}

static stator_status check_loop_inst(checker *c, const st_loop_inst *inst)
{
    ST_TRY(check_form(c, 0, 0));
    BROKEN_IF(inst->ref >= c->kernel->axes.count, c, "axis %" PRIu32 " does not exist", inst->ref);
    const st_loop_axis *axis = &c->kernel->axes.data[inst->ref];
    BROKEN_IF(c->axes[inst->ref] != UNSEEN, c, "another loop runs over its axis");
    BROKEN_IF(axis->block != inst->body, c, "its axis names block %" PRIu32 " as the body",
              axis->block);
    if (axis->flags & ST_AXIS_PARALLEL) {
        BROKEN_IF(c->depth || c->parallel, c, "a parallel loop that is not the outermost one");
        c->parallel = c->inst;
    }
    for (uint32_t d = 0; d < c->depth && (axis->flags & ST_AXIS_VECTOR); d++) {
        const st_loop_axis *around = open_axis(c, d);
        BROKEN_IF(around && (around->flags & ST_AXIS_VECTOR), c, "a vector loop inside another");
    }
    ST_TRY(check_mapping(c, axis));
    return check_sym(c, "extent", axis->extent,
                     axis->flags & ST_AXIS_PARALLEL ? SIZES : SIZES | VALUES);
}

static stator_status check_loop(checker *c, const st_loop_inst *inst)
{
    ST_TRY(check_loop_inst(c, inst));
    c->axes[inst->ref] = LIVE;
    ST_TRY(check_body(c, c->inst));
    c->axes[inst->ref] = ENDED;
    return STATOR_OK;
}

static stator_status check_rare(checker *c, const st_loop_inst *inst)
{
    ST_TRY(check_class(c, inst->dtype, COMPUTED));
    ST_TRY(check_typed(c, inst->args[0], "condition", STATOR_BOOL));
    ST_TRY(check_typed(c, inst->args[1], "usual value", inst->dtype));
    return check_body(c, c->inst); /* checks the body's value, too */
}

/* A dispatch switch: one case a structural code. */
static stator_status check_inst(checker *c, const st_loop_inst *inst)
{
    switch (inst->code) {
    case ST_LOOP_CONST:
        ST_TRY(check_form(c, inst->dtype, 0));
        return check_class(c, inst->dtype, COMPUTED);
    case ST_LOOP_INDEX:
        ST_TRY(check_form(c, STATOR_I64, 0));
        return check_sym(c, "value", inst->sym, SIZES | VALUES | AXES);
    case ST_LOOP_LOAD:
        return check_load(c, inst);
    case ST_LOOP_STORE:
        return check_store(c, inst);
    case ST_LOOP_CHECK:
        ST_TRY(check_form(c, 0, 2));
        ST_TRY(check_typed(c, inst->args[0], "condition", STATOR_BOOL));
        return check_mask(c, inst->args[1]);
    case ST_LOOP_LOOP:
        return check_loop(c, inst);
    case ST_LOOP_BIND:
        return check_bind(c, inst);
    case ST_LOOP_ACC:
        return check_acc(c, inst);
    case ST_LOOP_UPDATE:
        return check_update(c, inst);
    case ST_LOOP_READ:
        return check_read(c, inst);
    case ST_LOOP_RARE:
        return check_rare(c, inst);
    default:
        return check_scalar(c, inst);
    }
}

/* ---- blocks ---- */

static bool is_inside_rare(const checker *c)
{
    return c->depth && at(c, c->open[c->depth - 1u])->code == ST_LOOP_RARE;
}

static stator_status check_chain(checker *c, uint32_t block)
{
    const st_loop_block *b = &c->kernel->blocks.data[block];
    st_loop_ref last = 0;
    for (st_loop_ref ref = b->first; ref; ref = at(c, ref)->next) {
        BROKEN_IF(ref >= c->kernel->insts.count || c->insts[ref] != UNSEEN, c,
                  "block %" PRIu32 " goes on at instruction %" PRIu32 ", which %s", block, ref,
                  ref < c->kernel->insts.count ? "stands elsewhere" : "does not exist");
        const st_loop_inst *inst = at(c, ref);
        c->inst = ref;
        BROKEN_IF(inst->block != block, c, "it stands in block %" PRIu32 " and says block %" PRIu32,
                  block, inst->block);
        BROKEN_IF(is_inside_rare(c) && inst->code != ST_LOOP_CONST && inst->code != ST_LOOP_RARE &&
                      st_loop_desc(inst->code) == NULL,
                  c, "it may not stand in the body of a rare instruction");
        ST_TRY(check_inst(c, inst));
        c->insts[ref] = LIVE;
        last = ref;
    }
    return b->last == last
               ? STATOR_OK
               : broken(c, "block %" PRIu32 " does not end with its last instruction", block);
}

/* Checks the value of a RARE body, and that the block's last instruction ends it. */
static stator_status check_end(checker *c, uint32_t block, const st_loop_inst *owner)
{
    if (owner->code == ST_LOOP_RARE) {
        ST_TRY(check_typed(c, owner->args[2], "rare value", owner->dtype));
    }
    for (st_loop_ref ref = c->kernel->blocks.data[block].first; ref; ref = at(c, ref)->next) {
        c->insts[ref] = ENDED;
    }
    return STATOR_OK;
}

static stator_status check_body(checker *c, st_loop_ref ref)
{
    const st_kernel *kernel = c->kernel;
    const uint32_t block = at(c, ref)->body;
    BROKEN_IF(block == 0 || block >= kernel->blocks.count ||
                  kernel->blocks.data[block].loop != ref ||
                  kernel->blocks.data[block].depth != c->depth + 1u,
              c, "block %" PRIu32 " is not its body", block);
    BROKEN_IF(c->depth == ST_LOOP_DEPTH_MAX, c, "more than %u blocks within blocks",
              ST_LOOP_DEPTH_MAX);
    c->insts[ref] = ENDED; /* nothing inside may name it or stand there again */
    c->open[c->depth++] = ref;
    ST_TRY(check_chain(c, block));
    c->inst = ref;
    ST_TRY(check_end(c, block, at(c, ref)));
    c->depth--;
    return STATOR_OK;
}

/* ---- buffers and axes ---- */

static stator_status check_buffers(const checker *c)
{
    uint64_t local_bytes = 0;
    for (uint32_t i = 0; i < c->kernel->buffers.count; i++) {
        const st_loop_buffer *buffer = &c->kernel->buffers.data[i];
        const bool is_local = (buffer->flags & ST_BUFFER_LOCAL) != 0;
        int64_t numel = 0;
        uint64_t bytes = 0;
        BROKEN_IF(buffer->name == NULL || st_loop_class_of(st_loop_loaded(buffer->dtype)) == 0 ||
                      (st_loop_loaded(buffer->dtype) != buffer->dtype &&
                       (buffer->flags & (ST_BUFFER_WRITTEN | ST_BUFFER_LOCAL))),
                  c, "buffer %" PRIu32 " has no name or no dtype of the loop IR", i);
        ST_TRY(check_sym(c, buffer->name, buffer->numel, SIZES));
        if (!is_local) {
            continue;
        }
        BROKEN_IF(!st_sym_const(&c->kernel->syms->tab, buffer->numel, &numel) || numel < 0 ||
                      !st_dtype_bytes(buffer->dtype, (uint64_t)numel, &bytes) ||
                      !st_add_u64(local_bytes, bytes, &local_bytes) ||
                      local_bytes > ST_LOCAL_BYTES_MAX,
                  c, "local buffer %s is not of a constant size below %u bytes together",
                  buffer->name, ST_LOCAL_BYTES_MAX);
    }
    return STATOR_OK;
}

static stator_status check_axes(const checker *c)
{
    for (uint32_t i = 0; i < c->kernel->axes.count; i++) {
        const st_loop_axis *axis = &c->kernel->axes.data[i];
        const st_loop_syms *syms = c->kernel->syms;
        const uint32_t others = ST_AXIS_PARALLEL | ST_AXIS_VECTOR | ST_AXIS_REDUCE;
        BROKEN_IF(axis->symbol >= syms->symbols.count ||
                      syms->symbols.data[axis->symbol].kind != ST_SYMBOL_AXIS ||
                      syms->symbols.data[axis->symbol].owner != c->kernel->number ||
                      syms->symbols.data[axis->symbol].id != i ||
                      syms->symbols.data[axis->symbol].sym != axis->sym,
                  c, "the symbol of axis %" PRIu32 " is not its own", i);
        BROKEN_IF(((axis->flags & ST_AXIS_SERIAL) && (axis->flags & others)) ||
                      ((axis->flags & ST_AXIS_PARALLEL) && (axis->flags & ST_AXIS_REDUCE)),
                  c, "the flags of axis %" PRIu32 " contradict each other", i);
        BROKEN_IF(axis->lanes == 0 || axis->lanes > ST_LOOP_LANES_MAX || axis->unroll == 0 ||
                      (axis->lanes > 1 && !(axis->flags & ST_AXIS_VECTOR) && !axis->mapping),
                  c, "axis %" PRIu32 " has %" PRIu32 " lanes, unrolled %" PRIu32 " times", i,
                  axis->lanes, axis->unroll);
    }
    return STATOR_OK;
}

static stator_status check_kernel(checker *c)
{
    BROKEN_IF(c->kernel->blocks.data[0].loop || c->kernel->blocks.data[0].depth, c,
              "block 0 is not the root");
    ST_TRY(check_buffers(c));
    ST_TRY(check_axes(c));
    ST_TRY(check_chain(c, 0));
    if (c->parallel && c->effect) {
        c->inst = c->effect;
        return broken(c, "it stores outside the parallel loop, each part of which would do it");
    }
    return STATOR_OK;
}

stator_status st_kernel_verify(const st_kernel *kernel, stator_diag **err)
{
    ST_FAIL_IF(kernel->failed, err, STATOR_INTERNAL,
               "kernel %s: building it failed with status %" PRIu32, kernel->name, kernel->failed);
    checker c = {.kernel = kernel, .err = err};
    BROKEN_IF(kernel->insts.count == 0 || kernel->blocks.count == 0, &c, "it has no root block");
    c.insts = st_calloc(kernel->mem, kernel->insts.count, 1);
    c.axes = st_calloc(kernel->mem, kernel->axes.count + 1u, 1);
    const stator_status status = c.insts && c.axes ? check_kernel(&c) : st_fail_oom(err);
    st_free(kernel->mem, c.insts);
    st_free(kernel->mem, c.axes);
    return status;
}
