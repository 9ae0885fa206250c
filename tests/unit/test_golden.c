/* Golden files: tests/golden/<pass>/<name>.stir holds an input graph and, behind the line
 * "// expected", the exact text that the pass gives for it. STATOR_BLESS=1 writes that part anew
 * (read the diff before you commit it). Lines of the input's head that begin with "//" set the pass
 * context:
 *
 *     // freeze            parameters become constants
 *     // keep: softmax     composites that the backend keeps, by name, separated by commas
 *     // fuel: 1           only so many rewrites are allowed
 *     // budget: 0.5       of rematerialise
 *
 * Of canonicalize and recompose, each rule has a file that bears its name and in which it fires
 * last (of recompose: or none does, when the head says "Nothing fires"). The text after each pass
 * is verified, and parses to itself. */
#define _DEFAULT_SOURCE /* scandir */
#include "core/base/blob.h"
#include "core/base/convert.h"
#include "ir/passes/recompose.h"
#include "ir/passes/rewrite.h"
#include "ir/verify.h"
#include "support_text.h"
#include <criterion/criterion.h>
#include <dirent.h>
#include <stator/ops.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "// expected\n"

typedef struct golden {
    text_world w;
    char path[512];
    char name[128];
    char *text;     /* the file */
    char *expected; /* behind the mark, or NULL */
    uint32_t allowed;
    uint32_t asked;
    const char *last_rule;
    const char *keep;
    int is_folding_products;
} golden;

static int32_t may_apply(void *self, uint32_t kind, const char *rule, stator_ref node)
{
    golden *g = self;
    (void)node;
    if (kind == STATOR_FUEL_PASS) {
        return 1;
    }
    if (g->asked++ >= g->allowed) {
        return 0;
    }
    g->last_rule = rule;
    return 1;
}

static int32_t keep(void *self, const stator_graph *graph, stator_ref node)
{
    const golden *g = self;
    const stator_graph_view *v = st_graph_view(graph);
    return st_list_has(g->keep, stator_op_at(v, stator_node_at(v, node)->op)->name);
}

/* A view, or x[m, k] times y along the axis of y that the node names, for
 * fold_embedding_product. */
static stator_status evaluate_table(golden *g, const stator_graph *graph,
                                    const stator_node_row *row, stator_blob **out,
                                    stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    const stator_ref x_value = stator_operand(v, row, 0);
    const stator_ref y_value = row->operand_count > 1 ? stator_operand(v, row, 1) : x_value;
    const void *x = NULL;
    const void *y = NULL;
    void *z = NULL;
    uint64_t n = 0;
    uint64_t bytes = 0;
    int64_t k_end = 1;
    int64_t columns = 1;
    cr_assert(st_type_static_size(graph->module, stator_value_at(v, row->result_begin)->type, &n,
                                  &bytes));
    cr_assert_eq(st_blob_get(st_graph_value_blob(graph, x_value), &x, err), STATOR_OK);
    cr_assert_eq(st_blob_get(st_graph_value_blob(graph, y_value), &y, err), STATOR_OK);
    *out = st_blob_alloc(&g->w.mem, bytes, &z);
    cr_assert_not_null(*out);
    if (row->operand_count == 1) {
        memcpy(z, x, bytes);
        return STATOR_OK;
    }
    const stator_attr_row *axes = stator_attr_at(v, row, STATOR_dot_general_contract_y);
    const int64_t axis = stator_attr_int_at(v, axes, 0);
    const stator_type_row *y_type = stator_value_type(v, y_value);
    cr_assert(stator_sym_is_const(v, stator_dim_at(v, y_type, (uint32_t)axis), &k_end));
    cr_assert(stator_sym_is_const(v, stator_dim_at(v, y_type, (uint32_t)(1 - axis)), &columns));
    for (int64_t i = 0; i < (int64_t)n; i++) {
        double sum = 0;
        for (int64_t k = 0; k < k_end; k++) {
            const int64_t at = axis == 0 ? k * columns + i % columns : i % columns * k_end + k;
            sum += st_load_f64(STATOR_F32, x, i / columns * k_end + k) *
                   st_load_f64(STATOR_F32, y, at);
        }
        st_store_f64(STATOR_F32, z, i, sum);
    }
    return STATOR_OK;
}

/* A small evaluator of add, mul, neg and cast on tensors of equal shape, for fold, or of one
 * element with them, for lut. */
static stator_status evaluate(void *self, const stator_graph *graph, stator_ref node,
                              stator_blob **out_blobs, stator_diag **err)
{
    golden *g = self;
    const stator_graph_view *v = st_graph_view(graph);
    const stator_node_row *row = stator_node_at(v, node);
    const char *op = stator_op_at(v, row->op)->name;
    const stator_ref type = stator_value_at(v, row->result_begin)->type;
    const uint32_t dtype = stator_type_at(v, type)->dtype;
    const int is_cast = strcmp(op, "cast") == 0;
    uint32_t from = dtype;
    const void *x[2] = {NULL, NULL};
    int64_t step[2] = {1, 1};
    uint64_t n = 0;
    uint64_t bytes = 0;
    void *y = NULL;
    cr_assert(st_type_static_size(graph->module, type, &n, &bytes));
    if (strcmp(op, "dot_general") == 0 || (strcmp(op, "reshape") == 0 && g->is_folding_products)) {
        return evaluate_table(g, graph, row, out_blobs, err);
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(v, row, k);
        step[k % 2u] = stator_value_type(v, value)->rank != 0;
        if (k >= 2 || (stator_value_at(v, value)->type != type && !is_cast && step[k])) {
            return st_fail(err, STATOR_UNIMPLEMENTED, "not here");
        }
        from = stator_value_type(v, value)->dtype;
        cr_assert_eq(st_blob_get(st_graph_value_blob(graph, value), &x[k], err), STATOR_OK);
    }
    const int is_add = strcmp(op, "add") == 0;
    const int is_mul = strcmp(op, "mul") == 0;
    const int is_neg = strcmp(op, "neg") == 0;
    if (!is_add && !is_mul && !is_neg && !is_cast) {
        return st_fail(err, STATOR_UNIMPLEMENTED, "no kernel for %s", op);
    }
    out_blobs[0] = st_blob_alloc(&g->w.mem, bytes, &y);
    cr_assert_not_null(out_blobs[0]);
    for (uint64_t i = 0; i < n; i++) {
        const double a = st_load_f64(from, x[0], (int64_t)i * step[0]);
        const double b = x[1] != NULL ? st_load_f64(dtype, x[1], (int64_t)i * step[1]) : 0;
        st_store_f64(dtype, y, (int64_t)i, is_add ? a + b : is_mul ? a * b : is_neg ? -a : a);
    }
    return STATOR_OK;
}

/* ---- files ---- */

static void read_file(golden *g)
{
    FILE *f = fopen(g->path, "rb");
    cr_assert_not_null(f, "%s cannot be opened", g->path);
    g->text = st_calloc(&g->w.mem, 1 << 16, 1);
    const size_t n = fread(g->text, 1, (1 << 16) - 1, f);
    fclose(f);
    cr_assert_lt(n, (1 << 16) - 1, "%s is too long", g->path);
    g->expected = strstr(g->text, MARK);
    if (g->expected != NULL) {
        *g->expected = '\0';
        g->expected += strlen(MARK);
    }
}

static void bless(const golden *g, const char *printed)
{
    FILE *f = fopen(g->path, "wb");
    cr_assert_not_null(f, "%s cannot be written", g->path);
    fprintf(f, "%s%s%s", g->text, MARK, printed);
    cr_assert_eq(fclose(f), 0);
}

/* The value behind "// key:" in the head, as a string of its own; NULL when there is none. */
static const char *head_of(golden *g, const char *key, char out[64])
{
    const char *at = strstr(g->text, key);
    if (at == NULL || sscanf(at + strlen(key), " %63[^\n]", out) != 1) {
        return NULL;
    }
    return out;
}

/* ---- one file ---- */

static char *run(golden *g, const st_pass_def *def, const st_pass_ctx *ctx)
{
    text_graph input;
    stator_diag *err = NULL;
    cr_assert_eq(text_read(&g->w, g->text, strlen(g->text), NULL, NULL, &input, &err), STATOR_OK,
                 "%s: %s", g->path, st_diag_text(err));
    stator_graph *graph = input.graph;
    cr_assert_eq(st_pass_run(def, ctx, graph, &graph, &err), STATOR_OK, "%s: %s", g->path,
                 st_diag_text(err));
    cr_assert_eq(st_verify(graph, &err), STATOR_OK, "%s: %s", g->path, st_diag_text(err));
    char *printed = text_print(&g->w, graph, NULL, &err);
    cr_assert_not_null(printed, "%s: %s", g->path, st_diag_text(err));
    text_graph_free(&input);
    return printed;
}

/* Without fuel the pass gives the graph back as it was read, if it asks. */
static void check_refused(golden *g, const st_pass_def *def, st_pass_ctx ctx)
{
    text_graph input;
    stator_diag *err = NULL;
    const uint32_t allowed = g->allowed;
    g->allowed = 0;
    cr_assert_eq(text_read(&g->w, g->text, strlen(g->text), NULL, NULL, &input, &err), STATOR_OK);
    stator_graph *graph = input.graph;
    cr_assert_eq(st_pass_run(def, &ctx, graph, &graph, &err), STATOR_OK);
    cr_assert_eq(graph, input.graph, "%s: changed although every rewrite was refused", g->path);
    text_graph_free(&input);
    g->allowed = allowed;
}

static void check_fired(const golden *g, const st_pass_def *def)
{
    const int has_rules =
        strcmp(def->name, "canonicalize") == 0 || strcmp(def->name, "recompose") == 0;
    if (strstr(g->text, "// Nothing fires") != NULL) {
        cr_assert_null(g->last_rule, "%s: %s fired", g->path, g->last_rule);
    } else if (has_rules) {
        cr_assert(g->last_rule != NULL && strcmp(g->last_rule, g->name) == 0, "%s: %s fired",
                  g->path, g->last_rule != NULL ? g->last_rule : "nothing");
    }
}

static void check_file(const st_pass_def *def, const char *path, const char *file)
{
    golden g = {.allowed = UINT32_MAX};
    char keep_list[64];
    char fuel[64];
    char budget[64];
    text_world_init(&g.w);
    snprintf(g.path, sizeof g.path, "%s/%s", path, file);
    snprintf(g.name, sizeof g.name, "%.*s", (int)strcspn(file, "."), file);
    read_file(&g);
    g.keep = head_of(&g, "// keep:", keep_list);
    g.is_folding_products = strcmp(def->name, "fold_embedding_product") == 0;
    g.allowed = head_of(&g, "// fuel:", fuel) != NULL ? (uint32_t)atoi(fuel) : UINT32_MAX;
    const st_keep_limits limits = {
        .budget = head_of(&g, "// budget:", budget) != NULL ? atof(budget) : 1};
    const st_pass_ctx ctx = {.mem = &g.w.mem,
                             .keep_limits = &limits,
                             .may_apply = may_apply,
                             .fuel_self = &g,
                             .keep = keep,
                             .keep_self = &g,
                             .evaluate = evaluate,
                             .evaluate_self = &g,
                             .freeze = strstr(g.text, "// freeze\n") != NULL};
    char *printed = run(&g, def, &ctx);
    check_fired(&g, def);
    if (getenv("STATOR_BLESS") != NULL) {
        bless(&g, printed);
    } else {
        cr_assert(g.expected != NULL && strcmp(printed, g.expected) == 0,
                  "%s gives\n%s\nexpected\n%s", g.path, printed,
                  g.expected != NULL ? g.expected : "(nothing yet: STATOR_BLESS=1 writes it)");
    }
    if (!def->is_required) {
        check_refused(&g, def, ctx);
    }
    st_free(&g.w.mem, printed);
    st_free(&g.w.mem, g.text);
    text_world_deinit(&g.w);
}

static int is_stir(const struct dirent *entry)
{
    const char *dot = strrchr(entry->d_name, '.');
    return dot != NULL && strcmp(dot, ".stir") == 0;
}

/* Runs every file of tests/golden/<pass> and returns how many there are. */
static int check_folder(const char *pass)
{
    char path[256];
    struct dirent **entries = NULL;
    const st_pass_def *def = st_pass_find(pass);
    cr_assert_not_null(def, "tests/golden has files of '%s', which is no pass", pass);
    snprintf(path, sizeof path, "%s/tests/golden/%s", ST_TEST_SOURCE, pass);
    const int n = scandir(path, &entries, is_stir, alphasort);
    for (int i = 0; i < n; i++) {
        check_file(def, path, entries[i]->d_name);
        free(entries[i]);
    }
    free(entries);
    return n;
}

Test(golden, every_pass_has_files)
{
    uint32_t n = 0;
    const st_pass_def *defs = st_pass_defs(&n);
    for (uint32_t i = 0; i < n; i++) {
        cr_assert_gt(check_folder(defs[i].name), 0, "tests/golden/%s has no file", defs[i].name);
    }
}

static void check_rule_file(const char *pass, const char *rule)
{
    char path[256];
    snprintf(path, sizeof path, "%s/tests/golden/%s/%s.stir", ST_TEST_SOURCE, pass, rule);
    FILE *f = fopen(path, "rb");
    cr_assert_not_null(f, "%s is missing", path);
    fclose(f);
}

Test(golden, every_rule_has_a_file)
{
    uint32_t n = 0;
    const st_rule_def *defs = st_rule_defs(&n);
    for (uint32_t i = 0; i < n; i++) {
        check_rule_file("canonicalize", defs[i].name);
    }
    const st_rc_def *composites = st_rc_defs(&n);
    for (uint32_t i = 0; i < n; i++) {
        check_rule_file("recompose", composites[i].name);
    }
    check_rule_file("recompose", st_rc_sdpa_name);
}
