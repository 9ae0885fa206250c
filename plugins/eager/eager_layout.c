/* Where each value of a plan lies, how long, and the size of the workspace.
 *
 * In: a plan with values, steps and outputs. Out: storage and index or offset of every value, the
 * pooled values that each step gives back, the frame's parts. Lifetimes are step numbers; a value
 * behind an alias lives as long as the alias. Blocks of known size are packed by
 * core/base/interval.h, so that what lives at the same time does not overlap. */
#include "core/base/interval.h"
#include "plugins/eager/eager_execution_plan.h"

typedef struct layout {
    eager_exe *exe;
    eager_execution_plan *plan;
    uint32_t *first; /* by value: step that makes it */
    uint32_t *last;  /* last step that reads it */
    bool is_root;
    stator_diag **err;
} layout;

static uint32_t root_of(const eager_execution_plan *plan, uint32_t v)
{
    while (v && plan->values[v].storage == EAGER_ALIAS) {
        v = plan->values[v].index;
    }
    return v;
}

static void extend(layout *l, uint32_t v, uint32_t step)
{
    v = root_of(l->plan, v);
    if (v && l->last[v] < step) {
        l->last[v] = step;
    }
}

/* First choice by who makes the value. */
static void choose_result(layout *l, const eager_step *step, uint32_t number, uint32_t r)
{
    eager_value *value = &l->plan->values[step->out + r];
    l->first[step->out + r] = l->last[step->out + r] = number;
    switch (step->kind) {
    case EAGER_STEP_CONSTANT:
        break;
    case EAGER_STEP_ALIAS:
    case EAGER_STEP_SYM_BIND:
    case EAGER_STEP_ASSIGN:
        value->storage = EAGER_ALIAS;
        value->index = step->in[0];
        break;
    case EAGER_STEP_KERNEL:
        value->storage = value->is_static ? EAGER_FIXED : EAGER_POOLED;
        break;
    default: /* a region's results come in blocks of the pool */
        value->storage = EAGER_POOLED;
        break;
    }
}

static void choose(layout *l)
{
    eager_execution_plan *plan = l->plan;
    for (uint32_t i = 0; i < plan->n_inputs; i++) {
        plan->values[i + 1u].storage = EAGER_INPUT;
        plan->values[i + 1u].index = i;
    }
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        const eager_step *step = &plan->steps[s];
        for (uint32_t r = 0; r < step->n_out; r++) {
            choose_result(l, step, s, r);
        }
        for (uint32_t k = 0; k < step->n_in; k++) {
            extend(l, step->in[k], s);
        }
    }
}

/* A value that a kernel makes for an output is made in the caller's buffer. When it is reshaped on
 * the way, its own sizes and the output's must be known before. */
static void place_outputs(layout *l)
{
    eager_execution_plan *plan = l->plan;
    for (uint32_t k = 0; k < plan->n_outputs; k++) {
        const uint32_t out = plan->outputs[k];
        eager_value *value = &plan->values[root_of(plan, out)];
        const bool is_own = value == &plan->values[out];
        const bool made_here = value->storage == EAGER_FIXED || value->storage == EAGER_POOLED;
        if (l->is_root && made_here &&
            (is_own || (plan->values[out].is_early && value->is_early))) {
            value->storage = EAGER_OUTPUT;
            value->index = k;
            plan->output_in_place[k] = 1;
        }
        extend(l, out, plan->n_steps);
    }
    for (uint32_t k = 0; k < plan->n_write_backs; k++) {
        extend(l, plan->write_back_values[k], plan->n_steps);
    }
}

/* ---- outputs where an input lies ---- */

/* Cannot fail once it has begun: it takes no memory and computes no size. */
static bool is_sure(const eager_step *step)
{
    return step->kind == EAGER_STEP_CONSTANT ||
           (step->kind == EAGER_STEP_KERNEL && step->is_static && step->is_pointwise) ||
           (step->kind == EAGER_STEP_ALIAS && step->is_static);
}

/* The first step from which on none can fail; past the end: a size of an output is not known. */
static uint32_t find_sure_end(const eager_execution_plan *plan)
{
    uint32_t first = plan->n_steps;
    while (first > 0 && is_sure(&plan->steps[first - 1u])) {
        first--;
    }
    for (uint32_t k = 0; k < plan->n_outputs; k++) {
        first = plan->values[plan->outputs[k]].is_static ? first : plan->n_steps;
    }
    return plan->n_write_backs != 0 ? plan->n_steps : first;
}

/* Does the step read the input, under whatever names, element by element where it writes? */
static bool is_same_index(const eager_execution_plan *plan, const eager_step *step, uint32_t input)
{
    const ek_tensor *to = &plan->tensors[step->out];
    for (uint32_t k = 0; k < step->n_in; k++) {
        const ek_tensor *from = &plan->tensors[step->in[k]];
        if (step->in[k] != 0 && root_of(plan, step->in[k]) == input &&
            (from->numel != to->numel || ek_bytes(from->dtype, 1) != ek_bytes(to->dtype, 1))) {
            return false;
        }
    }
    return true;
}

static bool may_alias(const layout *l, uint32_t k, uint32_t sure_end)
{
    const eager_execution_plan *plan = l->plan;
    const uint32_t out = plan->outputs[k];
    const uint32_t input = plan->wanted_alias[k]; /* inputs are the first values, from 1 */
    if (input == 0 || plan->values[out].storage != EAGER_OUTPUT || plan->values[out].index != k) {
        return false;
    }
    const uint32_t step = l->first[out];
    for (uint32_t other = 0; other < k; other++) {
        if (plan->may_alias[other] == input) {
            return false;
        }
    }
    return step >= sure_end && plan->steps[step].kind == EAGER_STEP_KERNEL &&
           (l->last[input] < step ||
            (l->last[input] == step && is_same_index(plan, &plan->steps[step], input)));
}

static stator_status alias_outputs(const layout *l)
{
    eager_execution_plan *plan = l->plan;
    bool is_any = false;
    for (uint32_t k = 0; l->is_root && k < plan->n_outputs; k++) {
        is_any |= plan->wanted_alias[k] != 0;
    }
    if (!is_any) {
        return STATOR_OK;
    }
    const uint32_t sure_end = find_sure_end(plan);
    plan->may_alias = st_arena_zalloc(&l->exe->arena, plan->n_outputs, sizeof *plan->may_alias);
    EAGER_TRY_MEM(plan->may_alias, l->exe->self, l->err);
    for (uint32_t k = 0; k < plan->n_outputs; k++) {
        plan->may_alias[k] = may_alias(l, k, sure_end) ? plan->wanted_alias[k] : 0;
    }
    return STATOR_OK;
}

/* ---- memory ---- */

static stator_status list_releases(layout *l)
{
    eager_execution_plan *plan = l->plan;
    uint32_t *counts = st_arena_zalloc(&l->exe->arena, plan->n_steps + 1u, sizeof *counts);
    EAGER_TRY_MEM(counts, l->exe->self, l->err);
    for (uint32_t v = 1; v <= plan->n_values; v++) {
        if (plan->values[v].storage == EAGER_POOLED) {
            plan->has_pooled = 1;
            counts[l->last[v]]++;
        }
    }
    for (uint32_t s = 0; s < plan->n_steps; s++) {
        uint32_t *list =
            counts[s] ? st_arena_zalloc(&l->exe->arena, counts[s], sizeof *list) : NULL;
        EAGER_TRY_MEM(list || !counts[s], l->exe->self, l->err);
        plan->steps[s].release = list;
    }
    for (uint32_t v = 1; v <= plan->n_values; v++) {
        if (plan->values[v].storage == EAGER_POOLED && l->last[v] < plan->n_steps) {
            eager_step *step = &plan->steps[l->last[v]];
            ((uint32_t *)(uintptr_t)step->release)[step->n_release++] = v;
        }
    }
    return STATOR_OK;
}

static uint64_t region_bytes(const eager_step *step)
{
    uint64_t most = 0;
    for (uint32_t k = 0; k < step->n_regions; k++) {
        most = step->regions[k]->frame_bytes > most ? step->regions[k]->frame_bytes : most;
    }
    return most;
}

/* Packs FIXED values and the frames of regions; gives the size of the data part. */
static stator_status pack(layout *l, uint64_t *out_bytes)
{
    eager_execution_plan *plan = l->plan;
    st_vec(st_interval) blocks = ST_VEC_INIT;
    st_mem *mem = &l->exe->self->mem;
    bool ok = true;
    for (uint32_t v = 1; v <= plan->n_values && ok; v++) {
        if (plan->values[v].storage == EAGER_FIXED) {
            st_interval *block = st_vec_push(mem, &blocks);
            ok = block != NULL;
            if (ok) {
                *block = (st_interval){ek_bytes(plan->tensors[v].dtype, plan->tensors[v].numel),
                                       l->first[v], l->last[v], 0};
            }
        }
    }
    for (uint32_t s = 0; s < plan->n_steps && ok; s++) {
        if (plan->steps[s].n_regions) {
            st_interval *block = st_vec_push(mem, &blocks);
            ok = block != NULL;
            if (ok) {
                *block = (st_interval){region_bytes(&plan->steps[s]), s, s, 0};
            }
        }
    }
    *out_bytes = 0;
    ok = ok && (blocks.count == 0 ||
                st_interval_pack(mem, blocks.data, blocks.count, EAGER_ALIGN, out_bytes));
    uint32_t b = 0;
    for (uint32_t v = 1; v <= plan->n_values && ok; v++) {
        if (plan->values[v].storage == EAGER_FIXED) {
            plan->values[v].offset = blocks.data[b++].offset_bytes;
        }
    }
    for (uint32_t s = 0; s < plan->n_steps && ok; s++) {
        if (plan->steps[s].n_regions) {
            plan->steps[s].region_offset = blocks.data[b++].offset_bytes;
        }
    }
    st_vec_free(mem, &blocks);
    EAGER_TRY_MEM(ok, l->exe->self, l->err);
    return STATOR_OK;
}

static uint64_t part(uint64_t *at, uint64_t count, uint64_t size)
{
    const uint64_t begin = *at;
    *at += (count * size + EAGER_ALIGN - 1u) & ~(uint64_t)(EAGER_ALIGN - 1u);
    return begin;
}

stator_status eager_layout(eager_exe *exe, eager_execution_plan *plan, bool is_root,
                           stator_diag **err)
{
    layout l = {.exe = exe, .plan = plan, .is_root = is_root, .err = err};
    l.first = st_arena_zalloc(&exe->arena, plan->n_values + 1u, sizeof *l.first);
    l.last = st_arena_zalloc(&exe->arena, plan->n_values + 1u, sizeof *l.last);
    EAGER_TRY_MEM(l.first && l.last, l.exe->self, l.err);
    choose(&l);
    place_outputs(&l);
    ST_TRY(alias_outputs(&l));
    ST_TRY(list_releases(&l));
    uint64_t data_bytes;
    ST_TRY(pack(&l, &data_bytes));
    uint64_t at = 0;
    (void)part(&at, 1, sizeof(eager_frame));
    plan->at_values = part(&at, plan->n_values + 1u, sizeof(ek_tensor));
    plan->at_dims = part(&at, plan->is_static ? 0 : plan->n_dims, sizeof(int64_t));
    plan->at_blocks = part(&at, plan->has_pooled ? plan->n_values + 1u : 0, sizeof(void *));
    plan->at_args = part(&at, plan->max_args, sizeof(ek_tensor));
    plan->at_attrs = part(&at, plan->max_attrs, sizeof(ek_attr));
    plan->at_attr_ints = part(&at, plan->max_attr_ints, sizeof(int64_t));
    plan->at_syms = part(&at, exe->n_syms, sizeof(int64_t));
    plan->at_data = at;
    EAGER_TRY_MEM(st_add_u64(at, (data_bytes + EAGER_ALIGN - 1u) & ~(uint64_t)(EAGER_ALIGN - 1u),
                             &plan->frame_bytes),
                  l.exe->self, l.err);
    return STATOR_OK;
}
