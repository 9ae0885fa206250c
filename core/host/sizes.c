/* Choosing the sizes of a compile; see sizes.h.
 *
 * In: a call's inputs, what earlier calls brought. Out: a specialisation of the model. The
 * method is torch's: sizes 0 and 1 are constants, larger ones symbols from 2 on (broadcasting is
 * then decided by the types), a size that is baked in as a number becomes a symbol when it
 * changes, and axes that always changed alike share one. What a graph says beyond that (min(S,
 * 128)) bounds the range. */
#include "core/host/sizes.h"

#include "core/base/str.h"
#include "core/compile/compile.h"
#include "ir/sizes/reinfer.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One choice in the making. */
typedef struct choice {
    st_sizes *sizes;
    stator_model *model;
    st_mem *mem;
    uint32_t flags;
    uint32_t n_in;
    const DLTensor *in;
} choice;

void st_sizes_deinit(st_sizes *sizes, st_mem *mem)
{
    st_vec_free(mem, &sizes->changed);
}

/* ---- what changed ---- */

static st_guard_size *size_of(const st_guard *guard, uint32_t input, uint32_t axis)
{
    return &guard->sizes[guard->inputs[input].size_begin + axis];
}

/* Do the inputs fit the guard? syms (or NULL) receives the symbols. */
static stator_status check(const choice *c, const st_guard *guard, int64_t *syms, bool *out_fits,
                           stator_diag **err)
{
    int64_t *own = NULL;
    if (syms == NULL) {
        own = st_alloc(c->mem, (guard->n_symbols + UINT64_C(1)) * sizeof *own, 8);
        ST_TRY_MEM(own, err);
    }
    *out_fits = st_guard_check(guard, c->in, syms != NULL ? syms : own);
    st_free(c->mem, own);
    return STATOR_OK;
}

/* Baked-in sizes that the call gives otherwise are let through; their number. */
static uint32_t open_changed(const choice *c, st_guard *guard)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < guard->n_inputs; i++) {
        for (uint32_t axis = 0;
             (uint32_t)c->in[i].ndim == guard->inputs[i].rank && axis < guard->inputs[i].rank;
             axis++) {
            st_guard_size *size = size_of(guard, i, axis);
            if (size->kind == ST_SIZE_CONST && size->lo != c->in[i].shape[axis]) {
                size->kind = ST_SIZE_ANY;
                n++;
            }
        }
    }
    return n;
}

static st_changed_axis *find_changed(const st_sizes *sizes, uint32_t input, uint32_t axis)
{
    for (uint32_t i = 0; i < sizes->changed.count; i++) {
        if (sizes->changed.data[i].input == input && sizes->changed.data[i].axis == axis) {
            return &sizes->changed.data[i];
        }
    }
    return NULL;
}

static int64_t given(const choice *c, const st_changed_axis *at)
{
    return c->in[at->input].shape[at->axis];
}

/* Groups whose axes differ in this call are divided. A group's number is the place of its first
 * axis; `from` is the first axis that has none yet: of these, equal baked-in sizes and equal given
 * ones make a group. */
static void divide_groups(const choice *c, const st_guard *guard, uint32_t from)
{
    st_changed_axis *axes = c->sizes->changed.data;
    for (uint32_t i = c->sizes->changed.count; i-- > 0;) {
        uint32_t k = 0;
        for (; k < i; k++) {
            const bool are_new = i >= from && k >= from;
            const bool together = are_new ? size_of(guard, axes[i].input, axes[i].axis)->lo ==
                                                size_of(guard, axes[k].input, axes[k].axis)->lo
                                          : i < from && axes[i].group == axes[k].group;
            if (together && given(c, &axes[i]) == given(c, &axes[k])) {
                break;
            }
        }
        axes[i].group = k;
    }
}

/* Adds what this call changes; *out_before: how many axes were there. */
static stator_status note_changed(const choice *c, const st_guard *guard, uint32_t *out_before,
                                  stator_diag **err)
{
    st_sizes *sizes = c->sizes;
    const uint32_t before = sizes->changed.count;
    *out_before = before;
    for (uint32_t i = 0; i < guard->n_inputs; i++) {
        for (uint32_t axis = 0; axis < guard->inputs[i].rank; axis++) {
            if (size_of(guard, i, axis)->kind != ST_SIZE_ANY ||
                find_changed(sizes, i, axis) != NULL) {
                continue;
            }
            st_changed_axis *slot = st_vec_push(c->mem, &sizes->changed);
            ST_TRY_MEM(slot, err);
            *slot = (st_changed_axis){.input = i, .axis = axis};
        }
    }
    divide_groups(c, guard, before);
    return STATOR_OK;
}

/* After an import that could not have the axes from `before` on as symbols: with is_number they are
 * never tried again, else this call does not count. */
static void forget_changed(st_sizes *sizes, uint32_t before, bool is_number)
{
    for (uint32_t i = before; i < sizes->changed.count; i++) {
        sizes->changed.data[i].is_number = 1;
    }
    if (!is_number) {
        sizes->changed.count = before;
    }
}

/* ---- the import ---- */

static bool is_symbol_name(const st_module *m, const char *name)
{
    for (uint32_t atom = 1; atom < m->symtab.atoms.count; atom++) {
        const stator_atom_row *row = st_atom_at(&m->symtab, atom);
        if (row->kind == STATOR_ATOM_SYMBOL && row->name != 0 &&
            strcmp(st_module_str(m, row->name), name) == 0) {
            return true;
        }
    }
    return false;
}

/* "x_0", a name that the declared import does not use, of a group's first axis. */
static char *group_name(const choice *c, const st_guard *guard, const st_module *declared,
                        uint32_t group)
{
    const st_changed_axis *first = &c->sizes->changed.data[group];
    const char *input = guard->inputs[first->input].name;
    const size_t room = strlen(input) + 32u;
    char *name = st_alloc(c->mem, room, 1);
    if (name == NULL) {
        return NULL;
    }
    (void)snprintf(name, room, "%s_%u", *input != '\0' ? input : "input", first->axis);
    while (is_symbol_name(declared, name) && strlen(name) + 2u < room) {
        strcat(name, "_");
    }
    return name;
}

/* Sizes for the axes that changed, now or before. as_numbers: those of the call. */
static stator_status plan_axes(const choice *c, const st_guard *guard, const st_module *declared,
                               bool as_numbers, st_size_plan *size_plan, stator_diag **err)
{
    const int64_t lo = (c->flags & ST_SIZES_GENERIC) != 0 ? 0 : 2;
    for (uint32_t i = 0; i < c->sizes->changed.count; i++) {
        const st_changed_axis *at = &c->sizes->changed.data[i];
        const int64_t value = given(c, at);
        const bool is_number = as_numbers || at->is_number || value < lo;
        const st_plan_range range = {
            .name = group_name(c, guard, declared, at->group),
            .lo = is_number ? value : lo,
            .hi = is_number ? value : ST_PLAN_SIZE_MAX,
            .baked_in = size_of(guard, at->input, at->axis)->lo,
        };
        const bool is_baked_in = is_number && value == range.baked_in;
        const bool ok = range.name != NULL &&
                        (is_baked_in || st_size_plan_axis(size_plan, at->input, at->axis, &range));
        st_free(c->mem, range.name);
        ST_TRY_MEM(ok, err);
    }
    return STATOR_OK;
}

/* "input 'x' is f32[4, 3], expected f32[1, 3]", of the inputs with other sizes than the baked-in
 * ones. */
static void print_changed(const choice *c, const st_guard *guard, st_str *out)
{
    for (uint32_t i = 0; i < guard->n_inputs; i++) {
        bool is_changed = false;
        for (uint32_t axis = 0; axis < guard->inputs[i].rank; axis++) {
            is_changed |= size_of(guard, i, axis)->kind == ST_SIZE_ANY;
        }
        if (is_changed && out->len < 400) {
            st_str_add(out, out->len != 0 ? "; " : "");
            st_guard_print_input(guard, i, &c->in[i], out);
        }
    }
}

static void explain_sizes(const choice *c, const st_guard *guard, stator_diag *diag)
{
    st_str text;
    st_str_init(&text, c->mem);
    print_changed(c, guard, &text);
    if (st_str_ok(&text) && text.data != NULL) {
        st_diag_prefix(diag, "%s, and the model does not work with that", text.data);
    }
    st_str_deinit(&text);
}

/* "axis 2 of input 'image' has size 9, the model declares 8", of each such axis. */
static void print_axes(const choice *c, const st_guard *guard, st_str *out)
{
    for (uint32_t i = 0; i < guard->n_inputs; i++) {
        for (uint32_t axis = 0; axis < guard->inputs[i].rank && out->len < 400; axis++) {
            const st_guard_size *size = size_of(guard, i, axis);
            if (size->kind == ST_SIZE_ANY) {
                st_str_addf(out,
                            "%saxis %u of input '%s' has size %" PRId64
                            ", the model declares %" PRId64,
                            out->len != 0 ? "; " : "", axis, guard->inputs[i].name,
                            c->in[i].shape[axis], size->lo);
            }
        }
    }
}

static stator_status refuse_changed(const choice *c, const st_guard *guard, stator_diag **err)
{
    st_str text;
    st_str_init(&text, c->mem);
    print_axes(c, guard, &text);
    const stator_status status =
        st_fail(err, STATOR_INVALID_ARGUMENT, "%s", st_str_ok(&text) ? text.data : "bad input");
    if (err != NULL && *err != NULL) {
        st_diag_set_hint(*err,
                         "the compile was asked for strict sizes (STATOR_COMPILE_STRICT_SIZES, "
                         "--strict-sizes); without them the axis becomes a symbol");
    }
    st_str_deinit(&text);
    return status;
}

/* A warning the first time: the answer may not be what the model's author meant. */
static void tell_changed(const choice *c, const st_guard *guard, const st_size_plan *size_plan,
                         bool is_new)
{
    st_str text, sizes;
    st_str_init(&text, c->mem);
    st_str_init(&sizes, c->mem);
    print_axes(c, guard, &text);
    st_size_plan_print(size_plan, &sizes);
    st_log(c->model->ctx, "recompiles", is_new ? 1 : 2,
           "%s: compiled for %s; strict sizes would refuse the call",
           text.data != NULL ? text.data : "", sizes.data != NULL ? sizes.data : "");
    st_str_deinit(&text);
    st_str_deinit(&sizes);
}

/* The name of the symbol that a BIND row binds, NULL when it has none. */
static const char *symbol_name(const st_module *m, const st_guard_size *size)
{
    for (uint32_t atom = 1; size->kind == ST_SIZE_BIND && atom < m->symtab.atoms.count; atom++) {
        const stator_atom_row *row = st_atom_at(&m->symtab, atom);
        if (row->kind == STATOR_ATOM_SYMBOL && row->index == size->symbol && row->name != 0) {
            return st_module_str(m, row->name);
        }
    }
    return NULL;
}

/* Tries the sizes of the call on an import with symbols: what these left open is checked here, with
 * texts that name the node, and not when the program runs. */
static stator_status try_numbers(const choice *c, const st_specialisation *spec, stator_diag **err)
{
    st_guard guard;
    st_size_plan size_plan;
    st_module *numbers = NULL;
    bool fits = false;
    st_size_plan_init(&size_plan, c->mem);
    ST_TRY(st_graph_guard(c->mem, spec->module->root, &guard, err));
    int64_t *syms = st_alloc(c->mem, (guard.n_symbols + UINT64_C(1)) * sizeof *syms, 8);
    stator_status status = syms != NULL ? check(c, &guard, syms, &fits, err) : st_fail_oom(err);
    for (uint32_t i = 0; status == STATOR_OK && fits && i < guard.n_sizes; i++) {
        const char *name = symbol_name(spec->module, &guard.sizes[i]);
        const int64_t value = name != NULL ? syms[guard.sizes[i].symbol] : 0;
        if (name != NULL && !st_size_plan_range(&size_plan, name, value, value)) {
            status = st_fail_oom(err);
        }
    }
    ST_THEN(status, st_reinfer(spec->module, &size_plan, NULL, &numbers, err));
    st_module_destroy(numbers);
    st_free(c->mem, syms);
    st_size_plan_deinit(&size_plan);
    st_guard_deinit(&guard);
    return status;
}

static stator_status import_changed(const choice *c, const st_guard *guard,
                                    const st_specialisation *declared, bool as_numbers, bool is_new,
                                    st_specialisation **out_spec, stator_diag **err)
{
    st_size_plan size_plan;
    st_size_plan_init(&size_plan, c->mem);
    stator_status status = plan_axes(c, guard, declared->module, as_numbers, &size_plan, err);
    ST_THEN(status, st_model_specialise(c->model, c->n_in, c->in, &size_plan, out_spec, err));
    if (status == STATOR_OK && !as_numbers) {
        status = try_numbers(c, *out_spec, err);
    }
    if (status == STATOR_OK) {
        tell_changed(c, guard, &size_plan, is_new);
    }
    st_size_plan_deinit(&size_plan);
    return status;
}

/* The import for a call that changes what is baked into the declared one: with symbols; where
 * that is impossible, for this call's sizes alone. */
static stator_status changed_import(const choice *c, const st_guard *guard,
                                    const st_specialisation *declared, uint32_t before,
                                    st_specialisation **out_spec, stator_diag **err)
{
    const bool is_static = (c->flags & ST_SIZES_STATIC) != 0;
    stator_diag *why = NULL, *diag = NULL;
    const bool is_new = c->sizes->changed.count != before;
    stator_status status = STATOR_UNSUPPORTED;
    if (!is_static) {
        status = import_changed(c, guard, declared, false, is_new, out_spec, &why);
    }
    if (status == STATOR_RESOURCE_EXHAUSTED) {
        forget_changed(c->sizes, before, false);
        return st_diag_give(status, why, err);
    }
    if (status != STATOR_OK) {
        status = import_changed(c, guard, declared, true, is_new, out_spec, &diag);
        if (status != STATOR_OK || !is_static) {
            forget_changed(c->sizes, before, status == STATOR_OK);
        }
    }
    if (status == STATOR_OK && why != NULL) {
        st_log(c->model->ctx, "recompiles", 2, "the sizes stay numbers: %s", st_diag_text(why));
    }
    if (status != STATOR_OK && status != STATOR_RESOURCE_EXHAUSTED && why != NULL) {
        st_diag_release(diag); /* the reason why sizes stay numbers comes first */
        diag = why;
        why = NULL;
    }
    st_diag_release(why);
    if (status == STATOR_OK) {
        return status;
    }
    if (status != STATOR_RESOURCE_EXHAUSTED) {
        explain_sizes(c, guard, diag);
    }
    return st_diag_give(status, diag, err);
}

static stator_status fail_inputs(const choice *c, const st_guard *guard, stator_diag **err)
{
    st_str text;
    st_str_init(&text, c->mem);
    st_guard_explain(guard, c->in, &text);
    const stator_status status =
        st_fail(err, STATOR_INVALID_ARGUMENT, "%s", text.data != NULL ? text.data : "bad input");
    st_str_deinit(&text);
    return status;
}

static stator_status choose_import(const choice *c, const st_specialisation *declared,
                                   st_specialisation **out_spec, stator_diag **err)
{
    st_guard guard;
    bool fits = false;
    ST_TRY(st_graph_guard(c->mem, declared->module->root, &guard, err));
    const uint32_t n_changed = open_changed(c, &guard);
    stator_status status = check(c, &guard, NULL, &fits, err);
    if (status == STATOR_OK && !fits) {
        status = fail_inputs(c, &guard, err);
    }
    if (status == STATOR_OK && n_changed != 0 && (c->flags & ST_SIZES_STRICT) != 0) {
        status = refuse_changed(c, &guard, err);
    } else if (status == STATOR_OK && n_changed != 0) {
        uint32_t before = 0;
        status = note_changed(c, &guard, &before, err);
        ST_THEN(status, changed_import(c, &guard, declared, before, out_spec, err));
    }
    st_guard_deinit(&guard);
    return status;
}

/* ---- classes of symbols ---- */

/* A range for each symbol of the inputs, and the call's sizes by place. */
static stator_status plan_classes(const choice *c, const st_module *m, const st_guard *guard,
                                  const int64_t *syms, st_size_plan *size_plan, int64_t *at,
                                  stator_diag **err)
{
    for (uint32_t i = 0; i < guard->n_sizes; i++) {
        const st_guard_size *size = &guard->sizes[i];
        const char *name = symbol_name(m, size);
        if (name == NULL) {
            continue;
        }
        const int64_t value = syms[size->symbol];
        const bool is_number = value < 2 || (c->flags & ST_SIZES_STATIC) != 0;
        const int64_t lo = is_number ? value : size->lo < 2 ? 2 : size->lo;
        ST_TRY_MEM(st_size_plan_range(size_plan, name, lo, is_number ? value : size->hi), err);
        at[size_plan->ranges.count - 1u] = value;
    }
    return STATOR_OK;
}

/* Has a size of the module no formula in the sizes of the inputs? */
static bool has_unbacked(const st_module *m)
{
    for (uint32_t atom = 1; atom < m->symtab.atoms.count; atom++) {
        const stator_atom_row *row = st_atom_at(&m->symtab, atom);
        if (row->kind == STATOR_ATOM_SYMBOL && (row->flags & STATOR_ATOM_UNBACKED) != 0) {
            return true;
        }
    }
    return false;
}

/* Sizes that a frontend cannot compute for all that the model declares may have a formula in the
 * ranges of this call: where S may be 0, (S - 1) / 2 is no floor. Such a model is read again under
 * them; where that fails, what is there will do. */
static stator_status read_in_ranges(const choice *c, const st_size_plan *size_plan,
                                    st_specialisation **spec, stator_diag **err)
{
    st_specialisation *narrow = NULL;
    stator_diag *why = NULL;
    if (c->model->frontend == NULL || (*spec)->size_plan.ranges.count != 0 ||
        !has_unbacked((*spec)->module)) {
        return STATOR_OK;
    }
    stator_status status = st_model_specialise(c->model, c->n_in, c->in, size_plan, &narrow, &why);
    if (status == STATOR_OK) {
        *spec = narrow;
    } else if (status != STATOR_RESOURCE_EXHAUSTED) {
        st_log(c->model->ctx, "recompiles", 2, "sizes that are not known stay so: %s",
               st_diag_text(why));
        status = STATOR_OK;
    } else {
        status = st_fail_oom(err);
    }
    st_diag_release(why);
    return status;
}

static stator_status refine(const choice *c, const st_guard *guard, st_specialisation **spec,
                            stator_diag **err)
{
    const uint64_t n = guard->n_symbols + (uint64_t)guard->n_sizes + 2u;
    int64_t *syms = st_calloc(c->mem, n, sizeof *syms);
    int64_t *at = syms + guard->n_symbols + 1u;
    bool fits = false;
    st_size_plan size_plan;
    st_size_plan_init(&size_plan, c->mem);
    stator_status status = syms != NULL ? check(c, guard, syms, &fits, err) : st_fail_oom(err);
    if (status == STATOR_OK && fits) {
        status = plan_classes(c, (*spec)->module, guard, syms, &size_plan, at, err);
    }
    if (status == STATOR_OK && size_plan.ranges.count != 0) {
        status = read_in_ranges(c, &size_plan, spec, err);
    }
    if (status == STATOR_OK && size_plan.ranges.count != 0) {
        st_specialisation *refined = NULL;
        stator_diag *why = NULL;
        status = st_model_refine(c->model, *spec, &size_plan, at, &refined, &why);
        if (status == STATOR_OK) {
            *spec = refined;
        } else if (status != STATOR_RESOURCE_EXHAUSTED) {
            st_log(c->model->ctx, "recompiles", 2, "compiled for all sizes: %s", st_diag_text(why));
            status = STATOR_OK;
        } else {
            status = st_fail(err, status, "%s", st_diag_text(why));
        }
        st_diag_release(why);
    }
    st_size_plan_deinit(&size_plan);
    st_free(c->mem, syms);
    return status;
}

stator_status st_sizes_choose(st_sizes *sizes, stator_model *model, uint32_t flags, uint32_t n_in,
                              const DLTensor *in, st_specialisation **out_spec, stator_diag **err)
{
    const choice c = {.sizes = sizes,
                      .model = model,
                      .mem = &model->ctx->mem,
                      .flags = flags,
                      .n_in = n_in,
                      .in = in};
    st_specialisation *spec = NULL;
    *out_spec = NULL;
    ST_TRY(st_model_specialise(model, n_in, in, NULL, &spec, err));
    ST_TRY(choose_import(&c, spec, &spec, err));
    if ((flags & (ST_SIZES_REFINE | ST_SIZES_STATIC)) != 0 && (flags & ST_SIZES_GENERIC) == 0) {
        st_guard guard;
        ST_TRY(st_graph_guard(c.mem, spec->module->root, &guard, err));
        const stator_status status = refine(&c, &guard, &spec, err);
        st_guard_deinit(&guard);
        ST_TRY(status);
    }
    *out_spec = spec;
    return STATOR_OK;
}

stator_status st_sizes_hints(st_mem *mem, const st_specialisation *spec, const DLTensor *in,
                             int64_t **out, uint32_t *out_n, stator_diag **err)
{
    st_guard guard;
    *out = NULL;
    *out_n = 0;
    ST_TRY(st_graph_guard(mem, spec->module->root, &guard, err));
    int64_t *hints = st_alloc(mem, (guard.n_symbols + UINT64_C(1)) * sizeof *hints, 8);
    const uint32_t n = guard.n_symbols;
    if (hints != NULL) {
        *out_n = st_guard_check(&guard, in, hints) ? n : 0;
        *out = hints;
    }
    st_guard_deinit(&guard);
    return hints != NULL ? STATOR_OK : st_fail_oom(err);
}
