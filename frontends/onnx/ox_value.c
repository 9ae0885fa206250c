/* What the import knows about a value: sizes as symbolic integers, plain integers and floats; and
 * what it does when it must know and does not: it asks for the graph inputs behind the value. */
#include "frontends/onnx/ox_fold.h"

/* Number of elements when static and small enough to look at. */
static bool small_count(ox_node *n, stator_ref v, uint32_t *out_count)
{
    stator_ref dims[STATOR_RANK_MAX];
    uint64_t count = 1;
    const uint32_t rank = ox_dims(n, v, dims);
    *out_count = 0;
    for (uint32_t i = 0; i < rank; i++) {
        int64_t size;
        ST_NEED(ox_sym_const(n, dims[i], &size) && size <= OX_FOLD_MAX);
        count *= (uint64_t)size;
        ST_NEED(count <= OX_FOLD_MAX);
    }
    *out_count = (uint32_t)count;
    return ox_ok(n);
}

static bool is_integral(ox_node *n, stator_ref v)
{
    const uint32_t class_ = st_dtype_class(ox_dtype(n, v));
    return class_ == STATOR_CLASS_INT || class_ == STATOR_CLASS_UINT || class_ == STATOR_CLASS_BOOL;
}

const stator_ref *ox_known(ox_node *n, stator_ref v, uint32_t *out_count)
{
    ox_folded folded;
    if (!small_count(n, v, out_count) || !is_integral(n, v)) {
        return NULL;
    }
    const uint32_t count = *out_count;
    stator_ref *syms = ox_alloc(n, count + 1u, sizeof *syms);
    if (syms == NULL) {
        return NULL;
    }
    if (ox_fold(n->im, n->scope->region, v, &folded) && folded.count == count) {
        for (uint32_t i = 0; i < count; i++) {
            syms[i] = ox_sym(n, ox_fold_int(folded.x[i]));
        }
        return ox_ok(n) ? syms : NULL;
    }
    return n->e.build->known_ints(n->e.b, v, count, syms) ? syms : NULL;
}

bool ox_known_ints(ox_node *n, stator_ref v, uint32_t *out_count, const int64_t **out)
{
    const stator_ref *syms = ox_known(n, v, out_count);
    int64_t *list = syms != NULL ? ox_alloc(n, *out_count + 1u, sizeof *list) : NULL;
    for (uint32_t i = 0; list != NULL && i < *out_count; i++) {
        if (!ox_sym_const(n, syms[i], &list[i])) {
            return false;
        }
    }
    *out = list;
    return list != NULL;
}

/* ---- asking for values of graph inputs ---- */

typedef struct asker {
    ox_node *n;
    uint32_t asked;
    uint32_t steps;
} asker;

static void ask_input(asker *a, const stator_graph_view *view, stator_ref v)
{
    const stator_value_row *row = stator_value_at(view, v);
    const stator_source *source = a->n->im->source;
    if ((row->flags & STATOR_VALUE_PARAM) != 0 || row->name == 0 || source->need_value == NULL) {
        return;
    }
    const char *name = stator_string_at(view, row->name);
    if (source->input_value == NULL || source->input_value(source, name) == NULL) {
        source->need_value(source, name);
        a->asked++;
    }
}

static void ask_behind(asker *a, const ox_region *r, stator_ref v, uint32_t depth)
{
    if (v == 0 || ++a->steps > 4000 || depth > 500) {
        return;
    }
    const stator_graph_view *view = a->n->im->host->build->view(r->b);
    const stator_value_row *row = stator_value_at(view, v);
    if (row->node == 0) {
        const stator_ref k = v - r->first_captured;
        if (r->parent == NULL) {
            ask_input(a, view, v);
        } else if (r->captured_count != 0 && v >= r->first_captured && k < r->captured_count) {
            ask_behind(a, r->parent, r->captured[k], depth + 1u);
        }
        return;
    }
    const stator_node_row *node = stator_node_at(view, row->node);
    for (uint32_t k = 0; k < node->operand_count; k++) {
        ask_behind(a, r, stator_operand(view, node, k), depth + 1u);
    }
}

/* The last resort: every small integer input of the model. */
static void ask_all(asker *a)
{
    const ox_region *root = &a->n->im->root;
    const stator_graph_view *view = a->n->im->host->build->view(root->b);
    for (stator_ref v = 1; v <= view->n_inputs; v++) {
        const stator_type_row *t = stator_value_type(view, v);
        if (t->rank <= 1 && st_dtype_class(t->dtype) != STATOR_CLASS_FLOAT) {
            ask_input(a, view, v);
        }
    }
}

void ox_ask(ox_node *n, stator_ref v, const char *what)
{
    if (!ox_ok(n)) {
        return;
    }
    asker a = {n, 0, 0};
    ask_behind(&a, n->scope->region, v, 0);
    if (a.asked == 0) {
        ask_all(&a);
    }
    if (a.asked != 0) {
        ox_fail(n, STATOR_NEED_VALUE, "the value of %s must be known to translate it", what);
    } else {
        ox_fail(n, STATOR_UNIMPLEMENTED,
                "%s must be known when the model is loaded, but it is computed while it runs",
                what);
    }
}

const int64_t *ox_need_ints(ox_node *n, stator_ref v, uint32_t *out_count, const char *what)
{
    const int64_t *list = NULL;
    if (!ox_ok(n)) {
        *out_count = 0;
        return NULL;
    }
    if (!ox_known_ints(n, v, out_count, &list)) {
        ox_ask(n, v, what);
        *out_count = 0;
        return NULL;
    }
    return list;
}

int64_t ox_need_int(ox_node *n, stator_ref v, const char *what)
{
    uint32_t count;
    const int64_t *list = ox_need_ints(n, v, &count, what);
    ox_expect(n, list == NULL || count == 1, "%s has %u elements, expected one", what, count);
    return list != NULL && count == 1 ? list[0] : 0;
}

const double *ox_known_floats(ox_node *n, stator_ref v, uint32_t *out_count)
{
    ox_folded folded;
    *out_count = 0;
    if (!ox_ok(n) || v == 0 || !ox_fold(n->im, n->scope->region, v, &folded)) {
        return NULL;
    }
    double *list = ox_alloc(n, folded.count + 1u, sizeof *list);
    for (uint32_t i = 0; list != NULL && i < folded.count; i++) {
        list[i] = (double)folded.x[i];
    }
    *out_count = list != NULL ? folded.count : 0;
    return list;
}

const double *ox_need_floats(ox_node *n, stator_ref v, uint32_t *out_count, const char *what)
{
    const double *list = ox_known_floats(n, v, out_count);
    if (list == NULL && v != 0) {
        ox_ask(n, v, what);
    }
    return list;
}

const stator_ref *ox_sizes(ox_node *n, stator_ref v, uint32_t *out_count, const char *what)
{
    const stator_ref *known = ox_known(n, v, out_count);
    if (known != NULL || !ox_ok(n)) {
        return known;
    }
    if (!small_count(n, v, out_count)) {
        ox_ask(n, v, what);
        return NULL;
    }
    v = ox_cast(n, v, STATOR_I64);
    stator_ref *syms = ox_alloc(n, *out_count + 1u, sizeof *syms);
    return syms != NULL && stator_emit_check(
                               &n->e, n->e.build->as_dims(n->e.b, v, *out_count, syms, n->e.err))
               ? syms
               : NULL;
}

stator_ref ox_size_of(ox_node *n, stator_ref v, const char *what)
{
    uint32_t count;
    const stator_ref *syms = ox_sizes(n, v, &count, what);
    const bool is_one = ox_expect(n, count == 1, "%s has %u elements, expected one", what, count);
    return is_one ? syms[0] : 0;
}
