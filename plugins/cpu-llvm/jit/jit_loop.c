/* Loops: which run in lanes, how many bodies are in flight, and the code around the bodies.
 *
 *     unroll > 1:  for (; i + unroll * lanes <= n; i += unroll * lanes)  unroll bodies
 *     then:        for (; i + lanes <= n; i += lanes)                    one body
 *     lanes > 1:   if (i < n)                                            one body, masked
 *
 * Parts that the extent proves empty are left out; with unroll and a ragged extent the second and
 * third are one masked loop. Each is written as a guarded do-while, which needs no rotation. The
 * vector axis is at a multiple of the lanes in every body (ranges begin at multiples of them). */
#include "jit_emit.h"

/* The part of a row that is written: all of it, or one of the parts of pipelined rows. */
enum stage { STAGE_WHOLE = 0, STAGE_FIRST, STAGE_NEXT, STAGE_LAST };

typedef struct loop {
    const st_loop_axis *axis;
    st_loop_ref ref;
    jit_loop_plan plan;
    uint32_t body;
    uint32_t stage;
    LLVMValueRef lo, hi;
} loop;

/* One of the parts above. */
typedef struct part {
    LLVMValueRef from, to;
    uint32_t step;
    uint32_t copies;
    uint32_t is_masked;
    uint32_t is_single; /* at most one iteration */
} part;

/* ---- one part of a loop ---- */

static bool is_constant(LLVMValueRef v, int64_t *out)
{
    if (!LLVMIsAConstantInt(v)) {
        return false;
    }
    *out = LLVMConstIntGetSExtValue(v);
    return true;
}

/* Active lanes of the masked body at i. */
static void set_mask(jit_fn *f, const part *p, LLVMValueRef i)
{
    const LLVMBuilderRef ir = f->u->ir;
    const LLVMTypeRef i32 = f->u->types[JIT_I32];
    LLVMValueRef count = LLVMBuildSub(ir, p->to, i, "");
    int64_t n = 0;
    if (is_constant(count, &n)) { /* keeps the mask constant for store_run */
        count = jit_i64(f, n < (int64_t)f->lanes ? n : (int64_t)f->lanes);
    } else if (!p->is_single) {
        count = jit_intrinsic2(f, "llvm.smin", count, jit_i64(f, f->lanes));
    }
    f->last = LLVMBuildSub(ir, count, jit_i64(f, 1), "");
    f->mask = LLVMBuildICmp(ir, LLVMIntULT, jit_iota(i32, f->lanes, 1),
                            jit_splat(f, LLVMBuildTrunc(ir, count, i32, "")), "");
}

/* ---- rows one behind the other ---- */

/* The values that the last loop of the row takes from it: out of the slots, or into them. */
static void load_kept(jit_fn *f, jit_pipeline *p)
{
    for (uint32_t k = 0; k < p->n_kept; k++) {
        const LLVMTypeRef type = jit_type_of(f, st_loop_at(f->kernel, p->kept[k])->dtype);
        p->values[k] = LLVMBuildLoad2(f->u->ir, type, p->slots[k], "");
    }
}

static void store_kept(jit_fn *f, const jit_pipeline *p)
{
    for (uint32_t k = 0; k < p->n_kept; k++) {
        LLVMBuildStore(f->u->ir, jit_inst(f, p->kept[k], 1), p->slots[k]);
    }
}

static void swap_kept(jit_fn *f, jit_pipeline *p)
{
    for (uint32_t k = 0; k < p->n_kept; k++) {
        const LLVMValueRef v = f->values[p->kept[k]];
        f->values[p->kept[k]] = p->values[k];
        p->values[k] = v;
    }
}

/* The body of the last loop of the row before, at element i. */
static void emit_previous(jit_fn *f, LLVMValueRef i)
{
    jit_pipeline *p = f->pipeline;
    const st_loop_inst *last = st_loop_at(f->kernel, p->last);
    const uint32_t symbol = f->kernel->axes.data[last->ref].symbol;
    const uint32_t vec_symbol = f->vec_symbol;
    const jit_symbol row = f->symbols[p->row_symbol];
    jit_memo_drop(f, p->level);
    swap_kept(f, p);
    f->symbols[p->row_symbol].value = p->previous;
    f->symbols[symbol] = (jit_symbol){i, f->depth, 0};
    f->vec_symbol = symbol;
    p->is_in_last = 1;
    jit_emit_block(f, last->body);
    p->is_in_last = 0;
    f->vec_symbol = vec_symbol;
    f->symbols[symbol].value = NULL;
    f->symbols[p->row_symbol] = row;
    swap_kept(f, p);
    jit_memo_drop(f, p->level);
}

static void emit_loop(jit_fn *f, st_loop_ref ref);

/* One row, or the part of it that the stage says. */
static void emit_stage(jit_fn *f, const loop *l, LLVMValueRef i)
{
    jit_pipeline *p = f->pipeline;
    if (l->stage == STAGE_WHOLE) {
        jit_emit_block(f, l->body);
        return;
    }
    p->level = f->depth;
    p->previous = l->stage == STAGE_NEXT ? LLVMBuildSub(f->u->ir, i, jit_i64(f, 1), "") : NULL;
    if (l->stage != STAGE_FIRST) {
        load_kept(f, p);
    }
    if (l->stage == STAGE_LAST) {
        const st_loop_ref last = p->last;
        p->last = 0;
        swap_kept(f, p);
        emit_loop(f, last);
        swap_kept(f, p);
        p->last = last;
    } else {
        jit_emit_block(f, l->body);
        store_kept(f, p);
    }
}

static void emit_bodies(jit_fn *f, const loop *l, const part *p, LLVMValueRef i)
{
    const uint32_t outer_copy = f->copy;
    jit_symbol *symbol = &f->symbols[l->axis->symbol];
    for (uint32_t c = 0; c < p->copies; c++) {
        symbol->value =
            c ? LLVMBuildAdd(f->u->ir, i, jit_i64(f, (int64_t)c * l->plan.lanes), "") : i;
        symbol->level = f->depth;
        f->copy = p->copies > 1 ? c : outer_copy;
        if (p->is_masked) {
            set_mask(f, p, symbol->value);
        }
        const bool has_previous =
            f->pipeline && f->pipeline->previous && l->ref == f->pipeline->with;
        if (has_previous) {
            emit_previous(f, symbol->value);
        }
        emit_stage(f, l, symbol->value);
        if (has_previous) {
            jit_pipeline_flush_stores(f);
        }
        jit_memo_drop(f, f->depth);
    }
    f->copy = outer_copy;
    if (p->is_masked) {
        f->mask = NULL;
        f->last = NULL;
    }
    symbol->value = NULL;
}

/* The block behind the part becomes the current one. */
static void emit_part(jit_fn *f, const loop *l, const part *p)
{
    const LLVMBuilderRef ir = f->u->ir;
    int64_t from = 0;
    int64_t to = 0;
    const bool is_known = is_constant(p->from, &from) && is_constant(p->to, &to);
    if (is_known && from >= to) {
        return;
    }
    const bool is_once = p->is_single || (is_known && to - from <= (int64_t)p->step);
    const LLVMBasicBlockRef before = f->block;
    const LLVMBasicBlockRef body = jit_block(f);
    const LLVMBasicBlockRef after = jit_block(f);
    if (is_known) {
        f->hoist[f->depth] = LLVMBuildBr(ir, body);
    } else {
        const LLVMValueRef runs = LLVMBuildICmp(ir, LLVMIntSLT, p->from, p->to, "");
        f->hoist[f->depth] = LLVMBuildCondBr(ir, runs, body, after);
    }
    f->depth++;
    jit_go(f, body);
    const LLVMValueRef phi = is_once ? NULL : LLVMBuildPhi(ir, f->u->types[JIT_I64], "");
    emit_bodies(f, l, p, phi ? phi : p->from);
    f->depth--;
    if (is_once) {
        LLVMBuildBr(ir, after);
    } else {
        LLVMValueRef next[2] = {p->from, LLVMBuildNSWAdd(ir, phi, jit_i64(f, p->step), "")};
        LLVMBasicBlockRef blocks[2] = {before, f->block};
        LLVMBuildCondBr(ir, LLVMBuildICmp(ir, LLVMIntSLT, next[1], p->to, ""), body, after);
        LLVMAddIncoming(phi, next, blocks, 2);
    }
    jit_go(f, after);
}

/* ---- a whole loop ---- */

/* lo plus the largest multiple of step that fits. */
static LLVMValueRef whole_steps(jit_fn *f, const loop *l, uint32_t step)
{
    const LLVMBuilderRef ir = f->u->ir;
    if (step == 1) {
        return l->hi;
    }
    LLVMValueRef n = LLVMBuildSub(ir, l->hi, l->lo, "");
    n = jit_is_power_of_two(step)
            ? LLVMBuildAnd(ir, n, jit_i64(f, -(int64_t)step), "")
            : LLVMBuildSub(ir, n, LLVMBuildSRem(ir, n, jit_i64(f, step), ""), "");
    return LLVMBuildAdd(ir, l->lo, n, "");
}

static void emit_parts(jit_fn *f, const loop *l)
{
    const uint32_t lanes = l->plan.lanes;
    const uint32_t unroll = l->plan.unroll;
    const int64_t divisor = jit_sym_divisor(f, l->axis->extent);
    const bool is_even = divisor % (int64_t)lanes == 0;
    LLVMValueRef at = l->lo;
    f->lanes = lanes > 1 ? lanes : f->lanes; /* from here on syms are of the vector loop */
    if (unroll > 1) {
        const part main = {at, whole_steps(f, l, lanes * unroll), lanes * unroll, unroll, 0, 0};
        emit_part(f, l, &main);
        at = main.to;
        if (divisor % ((int64_t)lanes * unroll) == 0) {
            return;
        }
    }
    if (unroll == 1 || is_even) {
        const part single = {at, is_even ? l->hi : whole_steps(f, l, lanes), lanes, 1, 0, 0};
        emit_part(f, l, &single);
        at = single.to;
    }
    if (!is_even) {
        const part rest = {at, l->hi, lanes, 1, lanes > 1, unroll == 1};
        emit_part(f, l, &rest);
    }
}

/* Row lo without its last loop; each next row with the last loop of the one before; the last loop
 * of row hi - 1. */
static void emit_pipelined(jit_fn *f, loop *l, jit_pipeline *pipeline)
{
    const LLVMValueRef second = LLVMBuildAdd(f->u->ir, l->lo, jit_i64(f, 1), "");
    const LLVMValueRef end = LLVMBuildSub(f->u->ir, l->hi, jit_i64(f, 1), "");
    const part parts[] = {{.from = l->lo, .to = l->hi, .step = 1, .copies = 1, .is_single = 1},
                          {.from = second, .to = l->hi, .step = 1, .copies = 1},
                          {.from = jit_intrinsic2(f, "llvm.smax", l->lo, end),
                           .to = l->hi,
                           .step = 1,
                           .copies = 1,
                           .is_single = 1}};
    pipeline->row_symbol = l->axis->symbol;
    for (uint32_t k = 0; k < pipeline->n_kept; k++) {
        const uint32_t dtype = st_loop_at(f->kernel, pipeline->kept[k])->dtype;
        pipeline->slots[k] = jit_slot(f, jit_type_of(f, dtype), 0);
    }
    f->pipeline = pipeline;
    for (uint32_t k = 0; k < 3; k++) {
        l->stage = STAGE_FIRST + k;
        emit_part(f, l, &parts[k]);
    }
    f->pipeline = NULL;
}

static void emit_loop(jit_fn *f, st_loop_ref ref)
{
    const st_loop_inst *inst = st_loop_at(f->kernel, ref);
    const bool is_parallel = ref == st_kernel_parallel_loop(f->kernel);
    jit_pipeline pipeline;
    loop l = {.axis = &f->kernel->axes.data[inst->ref],
              .ref = ref,
              .plan = f->loop_plans[inst->ref],
              .body = inst->body};
    if (f->pipeline && ref == f->pipeline->last) {
        return; /* a row later */
    }
    if (f->depth >= ST_LOOP_DEPTH_MAX) {
        (void)jit_fail(f->u, STATOR_UNSUPPORTED, "kernel '%s' has more than %u nested loops",
                       f->kernel->name, ST_LOOP_DEPTH_MAX);
        return;
    }
    l.lo = is_parallel ? f->begin : jit_i64(f, 0);
    l.hi = is_parallel ? f->end : jit_sym(f, l.axis->extent);
    if (is_parallel && jit_pipeline_find(f, ref, &pipeline)) {
        emit_pipelined(f, &l, &pipeline);
        return;
    }
    if (l.plan.lanes == 1) {
        emit_parts(f, &l);
        return;
    }
    f->vec_symbol = l.axis->symbol;
    emit_parts(f, &l);
    f->lanes = 1;
    f->vec_symbol = UINT32_MAX;
}

/* ---- values that are seldom computed ---- */

static bool is_wide(jit_fn *f, st_loop_ref ref)
{
    return ref && f->values[ref] != NULL && jit_lanes_of(f->values[ref]) > 1;
}

/* Does the body use a value from outside that has lanes? */
static bool body_is_wide(jit_fn *f, uint32_t body)
{
    for (st_loop_ref ref = f->kernel->blocks.data[body].first; ref;
         ref = st_loop_at(f->kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(f->kernel, ref);
        for (uint32_t k = 0; k < 3; k++) {
            if (inst->args[k] && st_loop_at(f->kernel, inst->args[k])->block != body &&
                is_wide(f, inst->args[k])) {
                return true;
            }
        }
        if (inst->code == ST_LOOP_RARE && body_is_wide(f, inst->body)) {
            return true;
        }
    }
    return false;
}

static void emit_rare(jit_fn *f, st_loop_ref ref)
{
    const st_loop_inst *inst = st_loop_at(f->kernel, ref);
    const uint32_t lanes =
        is_wide(f, inst->args[0]) || is_wide(f, inst->args[1]) || body_is_wide(f, inst->body)
            ? f->lanes
            : 1;
    const LLVMValueRef usual = jit_inst(f, inst->args[1], lanes);
    const LLVMValueRef is_rare = jit_inst(f, inst->args[0], lanes);
    const LLVMValueRef some = jit_any(f, jit_active(f, inst->args[0], lanes));
    const jit_if rare = jit_begin_if(f, some, true);
    f->hoist[f->depth++] = rare.branch;
    jit_emit_block(f, inst->body);
    const LLVMValueRef v = jit_select(f, is_rare, jit_inst(f, inst->args[2], lanes), usual);
    jit_memo_drop(f, f->depth);
    f->depth--;
    f->values[ref] = jit_end_if(f, &rare, v, usual);
}

/* ---- instructions ---- */

static void emit_constant(jit_fn *f, st_loop_ref ref)
{
    const st_loop_inst *inst = st_loop_at(f->kernel, ref);
    const LLVMTypeRef type = jit_type_of(f, inst->dtype);
    f->values[ref] =
        jit_is_float(inst->dtype) ? jit_real(type, inst->imm.f) : jit_int(type, inst->imm.i);
}

static void emit_index(jit_fn *f, st_loop_ref ref)
{
    int64_t coef = 0;
    const uint32_t sym = st_loop_at(f->kernel, ref)->sym;
    f->values[ref] =
        jit_sym_shape(f, sym, &coef) == JIT_UNIFORM ? jit_sym(f, sym) : jit_vsym(f, sym, false);
}

static void bind(jit_fn *f, st_loop_ref ref)
{
    const st_loop_inst *inst = st_loop_at(f->kernel, ref);
    const uint32_t atom = st_sym_as_symbol(&f->syms->tab, inst->sym);
    const stator_atom_row *symbol = atom ? st_atom_at(&f->syms->tab, atom) : NULL;
    const LLVMValueRef v = jit_inst(f, inst->args[0], 1);
    if (symbol == NULL) {
        (void)jit_fail(f->u, STATOR_INTERNAL, "kernel '%s': instruction %%%u binds no symbol",
                       f->kernel->name, ref);
        return;
    }
    f->symbols[symbol->index] =
        (jit_symbol){v, f->kernel->blocks.data[inst->block].depth, jit_lanes_of(v) > 1};
}

void jit_emit_block(jit_fn *f, uint32_t block)
{
    static void (*const emit[ST_LOOP_CODE_COUNT])(jit_fn * f, st_loop_ref ref) = {
        [ST_LOOP_CONST] = emit_constant,
        [ST_LOOP_INDEX] = emit_index,
        [ST_LOOP_LOAD] = jit_load,
        [ST_LOOP_STORE] = jit_store,
        [ST_LOOP_CHECK] = jit_check,
        [ST_LOOP_LOOP] = emit_loop,
        [ST_LOOP_BIND] = bind,
        [ST_LOOP_ACC] = jit_acc_declare,
        [ST_LOOP_UPDATE] = jit_acc_update,
        [ST_LOOP_READ] = jit_acc_read,
        [ST_LOOP_RARE] = emit_rare};
    for (st_loop_ref ref = f->kernel->blocks.data[block].first; ref && !jit_failed(f);
         ref = st_loop_at(f->kernel, ref)->next) {
        const uint32_t code = st_loop_at(f->kernel, ref)->code;
        (code < ST_LOOP_CODE_COUNT && emit[code] ? emit[code] : jit_scalar)(f, ref);
    }
}
