/* The rewrite engine: compiling patterns, matching, applying (see rewrite.h). */
#include "ir/passes/rewrite.h"
#include "core/base/check.h"
#include "ir/expr/expr.h"
#include <ctype.h>
#include <string.h>

#define ARGS_MAX 4u
#define ANY_ARGS UINT32_MAX
#define DEPTH_MAX 8u

enum st_pattern_kind {
    PATTERN_VAR = 1,
    PATTERN_CONSTANT = 2,
    PATTERN_NUMBER = 3,
    PATTERN_OP = 4,
    PATTERN_ANY_NODE = 5
};

/* ---- compiling ---- */

typedef struct compiler {
    st_ruleset *set;
    st_rule *rule;
    const st_optable *ops;
    const char *p;
    const char *why;
} compiler;

static void skip_space(compiler *c)
{
    while (*c->p == ' ') {
        c->p++;
    }
}

static bool read_name(compiler *c, const char **out_name)
{
    const char *begin = c->p;
    while (isalnum((unsigned char)*c->p) || *c->p == '_') {
        c->p++;
    }
    *out_name = st_arena_strndup(&c->set->arena, begin, (uint64_t)(c->p - begin));
    return *out_name != NULL && c->p != begin;
}

static bool var_of(compiler *c, const char *name, uint32_t *out)
{
    st_rule *rule = c->rule;
    for (*out = 0; *out < rule->n_vars; (*out)++) {
        if (strcmp(rule->names[*out], name) == 0) {
            return true;
        }
    }
    if (rule->n_vars == ST_RULE_VARS) {
        c->why = "too many names";
        return false;
    }
    rule->names[rule->n_vars++] = name;
    if (strcmp(name, "x") == 0) {
        rule->var_x = *out;
    }
    return true;
}

static bool compile_pattern(compiler *c, uint32_t depth, st_pattern *out);

/* Children are read into a local list first, so that they are contiguous. */
static bool compile_args(compiler *c, uint32_t depth, st_pattern *out)
{
    st_pattern args[ARGS_MAX];
    out->count = 0;
    if (strncmp(c->p, "(*)", 3) == 0) {
        c->p += 3;
        out->count = ANY_ARGS;
        return true;
    }
    do {
        c->p++; /* '(' or ',' */
        if (out->count == ARGS_MAX || !compile_pattern(c, depth + 1u, &args[out->count])) {
            return false;
        }
        out->count++;
        skip_space(c);
    } while (*c->p == ',');
    if (*c->p != ')') {
        c->why = "expected ')'";
        return false;
    }
    c->p++;
    out->first = c->set->n_patterns;
    if (c->set->n_patterns + out->count > c->set->pattern_capacity) {
        c->why = "too many patterns";
        return false;
    }
    memcpy(c->set->patterns + out->first, args, out->count * sizeof args[0]);
    c->set->n_patterns += out->count;
    return true;
}

static bool compile_pattern(compiler *c, uint32_t depth, st_pattern *out)
{
    const char *name = NULL;
    *out = (st_pattern){.kind = PATTERN_NUMBER};
    skip_space(c);
    if (depth > DEPTH_MAX) {
        c->why = "nested too deep";
        return false;
    }
    if (isdigit((unsigned char)*c->p) || *c->p == '-') {
        const char *end = c->p;
        const bool ok = st_parse_number(c->p, &out->literal, &end);
        c->p = end;
        return ok;
    }
    if (!read_name(c, &name)) {
        c->why = "expected a name, a number or an op";
        return false;
    }
    skip_space(c);
    if (*c->p != '(') {
        out->kind = isupper((unsigned char)*name) ? PATTERN_CONSTANT : PATTERN_VAR;
        return var_of(c, name, &out->var);
    }
    out->kind = PATTERN_OP;
    out->op = st_optable_find(c->ops, name);
    if (out->op == 0) {
        c->why = "unknown op";
        return false;
    }
    return compile_args(c, depth, out);
}

static bool compile_rule(compiler *c)
{
    st_ruleset *set = c->set;
    st_pattern root = {.kind = PATTERN_ANY_NODE};
    c->rule->var_x = ST_RULE_VARS;
    if (strcmp(c->rule->def->match, "*") != 0 &&
        (!compile_pattern(c, 0, &root) || root.kind != PATTERN_OP || *c->p != '\0')) {
        return false;
    }
    if (set->n_patterns == set->pattern_capacity) {
        return false;
    }
    c->rule->root = set->n_patterns;
    set->patterns[set->n_patterns++] = root;
    return true;
}

/* Appends the rule to the list of its root op, so that rows are tried in the table's order. */
static void link_rule(st_ruleset *set, uint32_t id)
{
    const st_pattern *root = &set->patterns[set->rules[id].root];
    uint32_t *link = root->kind == PATTERN_ANY_NODE ? &set->any : &set->by_op[root->op];
    while (*link != 0) {
        link = &set->rules[*link].next;
    }
    *link = id;
}

stator_status st_ruleset_init(st_ruleset *set, st_mem *mem, const st_optable *ops,
                              const st_rule_def *defs, uint32_t n, stator_diag **err)
{
    *set = (st_ruleset){.pattern_capacity = n * 8u + 8u};
    st_arena_init(&set->arena, mem);
    set->patterns = st_arena_zalloc(&set->arena, set->pattern_capacity, sizeof *set->patterns);
    set->rules = st_arena_zalloc(&set->arena, n + 1u, sizeof *set->rules);
    set->by_op = st_arena_zalloc(&set->arena, st_optable_count(ops) + 1u, sizeof *set->by_op);
    if (set->patterns == NULL || set->rules == NULL || set->by_op == NULL) {
        st_ruleset_deinit(set);
        return st_fail_oom(err);
    }
    for (uint32_t i = 0; i < n; i++) {
        st_rule *rule = &set->rules[i + 1u];
        rule->def = &defs[i];
        compiler c = {.set = set, .rule = rule, .ops = ops, .p = defs[i].match, .why = "syntax"};
        if (!compile_rule(&c)) {
            st_ruleset_deinit(set);
            return st_fail(err, STATOR_INVALID_ARGUMENT,
                           "rule %s: cannot read the pattern '%s' at '%s': %s", defs[i].name,
                           defs[i].match, c.p, c.why);
        }
        link_rule(set, i + 1u);
    }
    set->n_rules = n;
    return STATOR_OK;
}

void st_ruleset_deinit(st_ruleset *set)
{
    st_arena_deinit(&set->arena);
}

/* ---- matching ---- */

static bool match_value(const st_ruleset *set, st_match *m, const st_pattern *p, stator_ref value);

static bool match_number(const st_match *m, const st_pattern *p, stator_ref value)
{
    double x = 0;
    return st_value_is_splat(m->b->graph, value, &x) && memcmp(&x, &p->literal, sizeof x) == 0;
}

static bool match_var(st_match *m, const st_pattern *p, stator_ref value)
{
    if (p->kind == PATTERN_CONSTANT && !st_value_is_constant(m->b->graph, value)) {
        return false;
    }
    if (m->vars[p->var] == 0) {
        m->vars[p->var] = value;
    }
    return m->vars[p->var] == value;
}

static bool match_args(const st_ruleset *set, st_match *m, const st_pattern *p,
                       const stator_ref *operands, uint32_t n)
{
    if (p->count == ANY_ARGS) {
        return true;
    }
    if (p->count != n) {
        return false;
    }
    for (uint32_t k = 0; k < n; k++) {
        if (!match_value(set, m, &set->patterns[p->first + k], operands[k])) {
            return false;
        }
    }
    return true;
}

static bool match_op(const st_ruleset *set, st_match *m, const st_pattern *p, stator_ref value)
{
    const stator_value_row *row = stator_value_at(m->v, value);
    if (row->node == 0 || row->index != 0) {
        return false;
    }
    const stator_node_row *node = stator_node_at(m->v, row->node);
    stator_ref operands[ARGS_MAX];
    if (node->op != p->op || (node->operand_count != p->count && p->count != ANY_ARGS)) {
        return false;
    }
    for (uint32_t k = 0; k < p->count && p->count <= ARGS_MAX; k++) {
        operands[k] = stator_operand(m->v, node, k);
    }
    return match_args(set, m, p, operands, p->count);
}

static bool match_value(const st_ruleset *set, st_match *m, const st_pattern *p, stator_ref value)
{
    if (value == 0) {
        return false;
    }
    switch (p->kind) {
    case PATTERN_NUMBER:
        return match_number(m, p, value);
    case PATTERN_OP:
        return match_op(set, m, p, value);
    default:
        return match_var(m, p, value);
    }
}

static bool match_root(const st_ruleset *set, st_match *m, const st_rule *rule)
{
    const st_pattern *p = &set->patterns[rule->root];
    memset(m->vars, 0, sizeof m->vars);
    if ((m->op->flags & rule->def->op_flags) != rule->def->op_flags) {
        return false;
    }
    if (p->kind == PATTERN_ANY_NODE) {
        return true;
    }
    if (!match_args(set, m, p, m->operands, m->row->operand_count)) {
        return false;
    }
    if (rule->def->when == ST_WHEN_ANY || rule->var_x == ST_RULE_VARS) {
        return true;
    }
    const uint32_t dtype = stator_value_type(m->v, m->vars[rule->var_x])->dtype;
    return (rule->def->when >> st_dtype_class(dtype) & 1u) != 0;
}

/* ---- applying ---- */

static const stator_type_row *type_of(const st_match *m, stator_ref type)
{
    return stator_type_at(m->v, type);
}

/* The replacement may have a smaller shape that broadcasts to the result's. */
static bool fit_shape(st_match *m, uint32_t k)
{
    const stator_ref wanted = stator_value_at(m->copy->v, m->row->result_begin + k)->type;
    const stator_ref given = stator_value_at(st_graph_view(m->b->graph), m->out[k])->type;
    const stator_type_row *to = type_of(m, wanted);
    if (given == wanted || type_of(m, given)->dtype != to->dtype ||
        (m->op->flags & STATOR_OP_POINTWISE) == 0) {
        return given == wanted;
    }
    stator_ref dims[STATOR_RANK_MAX];
    for (uint32_t i = 0; i < to->rank; i++) {
        dims[i] = stator_dim_at(m->v, to, i);
    }
    st_copy_bind_sizes(m->copy, m->row->result_begin + k, m->out[k]);
    m->out[k] = stator_emit_expand(m->e, m->out[k], to->rank, dims);
    return true;
}

static bool replace(st_match *m, const st_rule *rule)
{
    for (uint32_t i = 0; i < rule->n_vars; i++) {
        if (strcmp(rule->names[i], rule->def->replace) == 0) {
            m->out[0] = m->vars[i];
            return true;
        }
    }
    m->e->status = st_build_expr(m->b, rule->def->replace, rule->n_vars, rule->names, m->vars, 0,
                                 NULL, 1, m->out, m->e->err);
    return true;
}

/* Builds the replacement; false when the rule does not fit after all. */
static bool build(st_match *m, const st_rule *rule)
{
    bool fits = rule->def->apply != NULL ? rule->def->apply(m) : replace(m, rule);
    for (uint32_t k = 0; fits && st_copy_is_ok(m->copy) && k < m->row->result_count; k++) {
        fits = fit_shape(m, k);
    }
    return fits && st_copy_is_ok(m->copy);
}

static bool try_rule(const st_ruleset *set, st_match *m, const st_rule *rule)
{
    const st_build_mark before = st_build_here(m->b);
    if (!match_root(set, m, rule)) {
        return false;
    }
    if (!build(m, rule) ||
        !st_pass_may(m->copy->ctx, STATOR_FUEL_REWRITE, rule->def->name, m->node)) {
        st_build_rollback(m->b, before);
        return false;
    }
    for (uint32_t k = 0; k < m->row->result_count; k++) {
        st_copy_replace(m->copy, m->row->result_begin + k, m->out[k]);
    }
    return true;
}

static bool try_list(const st_ruleset *set, st_match *m, uint32_t first)
{
    bool is_applied = false;
    for (uint32_t id = first; id != 0 && !is_applied && st_copy_is_ok(m->copy);
         id = set->rules[id].next) {
        is_applied = try_rule(set, m, &set->rules[id]);
    }
    return is_applied;
}

bool st_ruleset_apply(const st_ruleset *set, st_copy *copy, stator_ref node)
{
    const stator_node_row *row = stator_node_at(copy->v, node);
    stator_ref local[16];
    stator_ref *operands = local;
    if (row->operand_count > 16) {
        operands = st_copy_zalloc(copy, row->operand_count, sizeof *operands);
    }
    if (row->result_count > ST_RULE_RESULTS || operands == NULL) {
        return false;
    }
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(copy->v, row, k);
        operands[k] = value != 0 ? copy->map[value] : 0;
    }
    st_match m = {.copy = copy,
                  .e = &copy->e,
                  .b = copy->out,
                  .v = st_graph_view(copy->out->graph),
                  .node = node,
                  .row = row,
                  .op = stator_op_at(copy->v, row->op),
                  .operands = operands};
    st_build_set_origin_ref(copy->out, row->origin);
    return try_list(set, &m, set->by_op[row->op]) || try_list(set, &m, set->any);
}
