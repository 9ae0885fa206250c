/* Patterns of recompose: bodies of composites as small graphs.
 *
 *     silu    ->    mul(x, sigmoid(mul(hole0, x)))    div(x, add(exp(neg(mul(hole0, x))), 1))
 *
 * In: the rows of recompose.def. Out: for each row one pattern a level of decomposition, written in
 * f32, and again in bf16 where the body widens narrow floats (the casts are part of the pattern).
 * The patterns stand in a module of their own and are brought to canonicalize's normal form, as is
 * the graph that they are compared with. x has two axes; what is reduced is the last one, of
 * ST_RC_SIZE elements, so that a literal count of elements is known for what it is. */
#include "ir/infer.h"
#include "ir/passes/recompose.h"
#include <stator/ops.h>
#include <string.h>

#define LEVELS_MAX 3u
#define ATTRS_MAX 8u

static const st_rc_def recompose_defs[] = {
#define STATOR_RECOMPOSE(name_, ...) {.name = #name_, __VA_ARGS__},
#include "ir/passes/recompose.def"
#undef STATOR_RECOMPOSE
};

const st_rc_def *st_rc_defs(uint32_t *out_count)
{
    *out_count = (uint32_t)(sizeof recompose_defs / sizeof recompose_defs[0]);
    return recompose_defs;
}

/* Numbers that no formula has, exact in f32. */
double st_rc_hole(uint32_t k)
{
    return 0x1.2f3a1cp-2 + 0x1.1p-6 * k;
}

/* ---- which rows ---- */

/* Is one of the ops in the graph? */
static bool has_anchor(const stator_graph *graph, const uint32_t anchors[3])
{
    const stator_graph_view *v = st_graph_view(graph);
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const uint32_t op = stator_node_at(v, node)->op;
        if (op == anchors[0] || op == anchors[1] || op == anchors[2]) {
            return true;
        }
    }
    return false;
}

/* ---- one pattern ---- */

typedef struct writer {
    st_rc_patterns *set;
    const st_rc_def *def;
    const st_op *op;
    stator_dtype dtype;
} writer;

/* The attributes that the program sees: axis is the last one, FLOATs are holes. */
static uint32_t list_attrs(const writer *w, stator_attr out[ATTRS_MAX])
{
    uint32_t n = 0, hole = 0;
    for (uint32_t k = 0; k < w->op->desc.attr_count && n < ATTRS_MAX; k++) {
        const stator_attr_desc *d = &w->op->desc.attrs[k];
        stator_attr a = {.name = d->name, .kind = d->kind, .i = d->i, .f = d->f, .s = d->s};
        if (d->kind == STATOR_ATTR_FLOAT) {
            a.f = st_rc_hole(hole++);
        } else if (d->kind == STATOR_ATTR_STRING && w->def->set != NULL &&
                   strcmp(d->name, w->def->set) == 0) {
            a.s = w->def->to;
        } else if (d->kind == STATOR_ATTR_INT && strcmp(d->name, "axis") == 0) {
            a.i = -1;
        }
        out[n++] = a;
    }
    return n;
}

/* Inputs named as the op's operands: x of two axes, the others of one. */
static stator_status add_inputs(const writer *w, stator_builder *b, stator_ref *operands,
                                stator_diag **err)
{
    st_module *m = w->set->module;
    const stator_ref dims[2] = {st_sym_int(&m->symtab, 7), st_sym_int(&m->symtab, ST_RC_SIZE)};
    for (uint32_t k = 0; k < w->def->operands; k++) {
        const stator_ref type =
            st_module_type(m, w->dtype, k == 0 ? 2 : 1, k == 0 ? dims : &dims[1]);
        ST_TRY_MEM(type, err);
        ST_TRY(st_build_input(b, NULL, type, &operands[k], err));
    }
    return STATOR_OK;
}

/* Only the first result of a program that gives more is the pattern. */
static stator_status write_program(const writer *w, stator_builder *b, const stator_ref *operands,
                                   stator_ref *out, stator_diag **err)
{
    stator_attr attrs[ATTRS_MAX];
    const uint32_t n = list_attrs(w, attrs);
    if (w->def->program != NULL) {
        static const char *const names[] = {"x", "y", "z"};
        return st_build_expr(b, w->def->program, w->def->operands, names, operands, n, attrs, 1,
                             out, err);
    }
    const st_decompose_node node = {.op = w->op,
                                    .operands = operands,
                                    .n_operands = w->def->operands,
                                    .n_attrs = n,
                                    .attrs = attrs,
                                    .n_results = 1};
    return st_decompose(b, &node, out, err);
}

static stator_status write_pattern(const writer *w, stator_graph **out, stator_diag **err)
{
    stator_builder *b = NULL;
    stator_ref operands[ST_RC_VARS] = {0};
    stator_ref result[1] = {0};
    ST_TRY(st_builder_create(w->set->module, w->def->name, &b, err));
    stator_status status = add_inputs(w, b, operands, err);
    ST_THEN(status, write_program(w, b, operands, result, err));
    ST_THEN(status, st_build_output(b, "y", result[0], err));
    if (status != STATOR_OK) {
        st_builder_abort(b);
        return status;
    }
    return st_builder_finish(b, out, err);
}

static stator_status add_pattern(const writer *w, const stator_graph *g, stator_diag **err)
{
    st_rc_patterns *set = w->set;
    const stator_graph_view *v = st_graph_view(g);
    const stator_ref root = stator_output_at(v, 0);
    const stator_node_row *row = st_rc_producer(v, root);
    st_rc_pattern *grown = st_arena_zalloc(&set->arena, set->n + 1u, sizeof *grown);
    ST_TRY_MEM(grown, err);
    if (row == NULL) {
        return STATOR_OK; /* nothing is left of it */
    }
    if (set->n != 0) {
        memcpy(grown, set->list, set->n * sizeof *grown);
    }
    grown[set->n++] = (st_rc_pattern){
        .def = w->def, .graph = g, .root = root, .kind = st_rc_term_kind(g, root), .op = row->op};
    set->list = grown;
    return STATOR_OK;
}

/* The program in normal form, then with its composites decomposed, level by level. */
static stator_status add_levels(const writer *w, stator_diag **err)
{
    const st_pass_ctx ctx = {.mem = w->set->module->mem};
    const st_pass_def *canonicalize = st_pass_find("canonicalize");
    st_pass_def decompose = *st_pass_find("decompose");
    stator_graph *g = NULL;
    decompose.max_rounds = 1;
    ST_TRY(write_pattern(w, &g, err));
    for (uint32_t level = 0; level < LEVELS_MAX; level++) {
        stator_graph *lower = NULL;
        ST_TRY(st_pass_run(canonicalize, &ctx, g, &g, err));
        ST_TRY(add_pattern(w, g, err));
        ST_TRY(st_pass_run(&decompose, &ctx, g, &lower, err));
        if (lower == g) {
            break;
        }
        g = lower;
    }
    return STATOR_OK;
}

static bool has_narrow(const stator_graph *graph)
{
    const stator_graph_view *v = st_graph_view(graph);
    for (stator_ref value = 1; value <= v->n_values; value++) {
        const uint32_t dtype = stator_value_type(v, value)->dtype;
        if (st_dtype_class(dtype) == STATOR_CLASS_FLOAT && st_dtype_bits(dtype) < 32u) {
            return true;
        }
    }
    return false;
}

static stator_status add_rows(st_rc_patterns *set, const stator_graph *graph, stator_diag **err)
{
    const st_optable *ops = graph->module->ops;
    const bool is_narrow = has_narrow(graph);
    for (uint32_t i = 0; i < sizeof recompose_defs / sizeof recompose_defs[0]; i++) {
        const st_rc_def *def = &recompose_defs[i];
        if (!has_anchor(graph, def->anchors)) {
            continue;
        }
        if (set->module == NULL) {
            ST_TRY(st_module_create(set->arena.mem, NULL, ops, &set->module, err));
        }
        writer w = {set, def, st_optable_at(ops, def->op), STATOR_F32};
        ST_TRY(add_levels(&w, err));
        w.dtype = STATOR_BF16;
        if (is_narrow) {
            ST_TRY(add_levels(&w, err));
        }
    }
    return STATOR_OK;
}

stator_status st_rc_patterns_init(st_rc_patterns *set, st_mem *mem, const stator_graph *graph,
                                  stator_diag **err)
{
    *set = (st_rc_patterns){.n = 0};
    st_arena_init(&set->arena, mem);
    const stator_status status = add_rows(set, graph, err);
    if (status != STATOR_OK) {
        st_rc_patterns_deinit(set);
    }
    return status;
}

void st_rc_patterns_deinit(st_rc_patterns *set)
{
    if (set->module != NULL) {
        st_module_destroy(set->module);
        set->module = NULL;
    }
    st_arena_deinit(&set->arena);
}
