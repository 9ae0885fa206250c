/* A look over the whole model before anything is built: which operators have no translation (all of
 * them are named at once, with counts), and whether operator sets and nesting are within bounds.
 * Functions are looked at once, and only those that are called. */
#include "frontends/onnx/ox_import.h"

#include <string.h>

#define ONNX_DIRECT(name_, since_, text_)                                                          \
    {.name = #name_, .since = (since_), .kind = OX_ROW_DIRECT, .text = (text_)},
#define ONNX_EXPR(name_, since_, attrs_, text_)                                                    \
    {.name = #name_, .since = (since_), .kind = OX_ROW_EXPR, .text = (text_), .attrs = (attrs_)},
#define ONNX_FN(name_, since_, fn_)                                                                \
    {.name = #name_, .since = (since_), .kind = OX_ROW_FN, .fn = (fn_)},
#define ONNX_SEQUENCE(name_, since_, fn_)                                                          \
    {.name = #name_, .since = (since_), .kind = OX_ROW_SEQUENCE, .fn = (fn_)},
static const ox_row ROWS[] = {
#include "frontends/onnx/map.def"
};
#undef ONNX_DIRECT
#undef ONNX_EXPR
#undef ONNX_FN
#undef ONNX_SEQUENCE

const ox_row *ox_row_find(const char *op_type)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        if (strcmp(ROWS[i].name, op_type) == 0) {
            return &ROWS[i];
        }
    }
    return NULL;
}

static bool same_domain(const char *a, const char *b)
{
    return ox_is_default_domain(a) ? ox_is_default_domain(b) : strcmp(ox_text(a), ox_text(b)) == 0;
}

const Onnx__FunctionProto *ox_function_find(const ox_import *im, const Onnx__NodeProto *node)
{
    for (size_t i = 0; i < im->model->n_functions; i++) {
        const Onnx__FunctionProto *f = im->model->functions[i];
        if (strcmp(ox_text(f->name), ox_text(node->op_type)) == 0 &&
            strcmp(ox_text(f->overload), ox_text(node->overload)) == 0 &&
            same_domain(f->domain, node->domain)) {
            return f;
        }
    }
    return NULL;
}

bool ox_node_each_graph(const Onnx__NodeProto *node, ox_graph_fn fn, void *self)
{
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *a = node->attribute[i];
        if (a->g != NULL && !fn(self, a->g)) {
            return false;
        }
        for (size_t k = 0; k < a->n_graphs; k++) {
            ST_NEED(fn(self, a->graphs[k]));
        }
    }
    return true;
}

typedef struct missing {
    const char *domain;
    const char *op_type;
    int64_t version;
    uint32_t since; /* 0: no row */
    uint32_t count;
} missing;

typedef struct survey {
    ox_import *im;
    const ox_frame *frame;
    uint32_t depth;
    st_vec(missing) missing;
    uint8_t *visited; /* by function */
} survey;

static bool out_of_memory(survey *s)
{
    ox_import_fail(s->im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    return false;
}

static bool note_missing(survey *s, const Onnx__NodeProto *node, int64_t version, uint32_t since)
{
    const char *op_type = ox_text(node->op_type);
    for (uint32_t i = 0; i < s->missing.count; i++) {
        missing *m = &s->missing.data[i];
        if (strcmp(m->op_type, op_type) == 0 && same_domain(m->domain, node->domain)) {
            m->count++;
            return true;
        }
    }
    missing *m = st_vec_push(&s->im->mem, &s->missing);
    ST_FAIL_BY_IF(out_of_memory, m == NULL, s);
    *m = (missing){ox_text(node->domain), op_type, version, since, 1};
    return true;
}

static bool survey_nodes(survey *s, size_t n, Onnx__NodeProto *const *nodes);

static bool survey_graph(void *self, const Onnx__GraphProto *graph)
{
    survey *s = self;
    if (++s->depth > OX_NESTING_MAX) {
        ox_import_fail(s->im, STATOR_RESOURCE_EXHAUSTED,
                       "graphs and functions are nested more than %u deep", OX_NESTING_MAX);
        return false;
    }
    const bool is_ok = survey_nodes(s, graph->n_node, graph->node);
    s->depth--;
    return is_ok;
}

/* The body of a function, once. Recursion ends here too; the call itself finds it (ox_graph.c). */
static bool survey_function(survey *s, const Onnx__FunctionProto *f)
{
    size_t index = 0;
    while (s->im->model->functions[index] != f) {
        index++;
    }
    if (s->visited[index]) {
        return true;
    }
    s->visited[index] = 1;
    const ox_frame *outer = s->frame;
    const uint32_t depth = s->depth;
    ox_frame frame = {.caller = outer, .function = f};
    s->frame = &frame;
    s->depth = depth + 1u;
    bool is_ok = false;
    if (s->depth > OX_NESTING_MAX) {
        ox_import_fail(s->im, STATOR_RESOURCE_EXHAUSTED,
                       "graphs and functions are nested more than %u deep", OX_NESTING_MAX);
    } else {
        is_ok = survey_nodes(s, f->n_node, f->node);
    }
    s->frame = outer;
    s->depth = depth;
    return is_ok;
}

static bool survey_node(survey *s, const Onnx__NodeProto *node)
{
    const Onnx__FunctionProto *f = ox_function_find(s->im, node);
    if (f != NULL) {
        ST_NEED(survey_function(s, f));
    } else {
        const int64_t version = ox_opset(s->im, s->frame, node->domain);
        const ox_row *row =
            ox_is_default_domain(node->domain) ? ox_row_find(ox_text(node->op_type)) : NULL;
        if (row == NULL || version < (int64_t)row->since) {
            ST_NEED(note_missing(s, node, version, row != NULL ? row->since : 0));
        }
    }
    return ox_node_each_graph(node, survey_graph, s);
}

static bool survey_nodes(survey *s, size_t n, Onnx__NodeProto *const *nodes)
{
    for (size_t i = 0; i < n; i++) {
        ST_NEED(survey_node(s, nodes[i]));
    }
    return true;
}

static void print_missing(const missing *m, st_str *out)
{
    const bool is_default = ox_is_default_domain(m->domain);
    st_str_addf(out, "%s%s%s (%u node%s", is_default ? "" : m->domain, is_default ? "" : ".",
                m->op_type, m->count, m->count == 1 ? "" : "s");
    if (m->since != 0) {
        st_str_addf(out, ", since operator set %u, the model has %lld", m->since,
                    (long long)m->version);
    }
    st_str_add(out, ")");
}

/* ONNX Runtime's optimizer and its quantizer write operators of a domain of their own. */
static void hint_at_runtime(survey *s)
{
    static const char domain[] = "com.microsoft";
    for (uint32_t i = 0; i < s->missing.count; i++) {
        if (strncmp(s->missing.data[i].domain, domain, sizeof domain - 1u) == 0 &&
            s->im->diag != NULL) {
            s->im->host->diag->set_hint(
                s->im->diag, "com.microsoft is ONNX Runtime's own: take the model from before its "
                             "optimizer (or at level 'basic'), quantised as QDQ");
            return;
        }
    }
}

static stator_status report(survey *s)
{
    if (s->missing.count == 0) {
        return s->im->status;
    }
    st_str text;
    st_str_init(&text, &s->im->mem);
    for (uint32_t i = 0; i < s->missing.count; i++) {
        st_str_add(&text, i == 0 ? "" : ", ");
        print_missing(&s->missing.data[i], &text);
    }
    if (st_str_ok(&text)) {
        ox_import_fail(s->im, STATOR_UNIMPLEMENTED,
                       "%u operator%s of the model %s not supported: %s", s->missing.count,
                       s->missing.count == 1 ? "" : "s", s->missing.count == 1 ? "is" : "are",
                       text.data);
        hint_at_runtime(s);
    } else {
        out_of_memory(s);
    }
    st_str_deinit(&text);
    return s->im->status;
}

static stator_status check_opset(ox_import *im, int64_t version, const char *where)
{
    OX_FAIL_IF(version < OX_OPSET_MIN || version > OX_OPSET_MAX, im, STATOR_UNIMPLEMENTED,
               "%s uses operator set %lld of ai.onnx; %u to %u are supported", where,
               (long long)version, OX_OPSET_MIN, OX_OPSET_MAX);
    return STATOR_OK;
}

static stator_status check_function_opsets(ox_import *im)
{
    for (size_t i = 0; i < im->model->n_functions; i++) {
        const Onnx__FunctionProto *f = im->model->functions[i];
        for (size_t k = 0; k < f->n_opset_import; k++) {
            if (ox_is_default_domain(f->opset_import[k]->domain)) {
                ST_TRY(check_opset(im, f->opset_import[k]->version, ox_text(f->name)));
            }
        }
    }
    return STATOR_OK;
}

stator_status ox_survey(ox_import *im)
{
    survey s = {.im = im};
    im->version = ox_opset(im, NULL, "");
    if (im->version != 0 || im->model->n_functions == 0) {
        ST_TRY(check_opset(im, im->version, "the model"));
    }
    ST_TRY(check_function_opsets(im));
    s.visited = st_arena_zalloc(&im->arena, im->model->n_functions + 1u, 1);
    OX_FAIL_IF(s.visited == NULL, im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    survey_nodes(&s, im->graph->n_node, im->graph->node);
    if (im->status == STATOR_OK) {
        report(&s);
    }
    st_vec_free(&im->mem, &s.missing);
    return im->status;
}
