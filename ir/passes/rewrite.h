/* The rewrite engine: rules as rows of ir/passes/rules.def, matched against a node that is about to
 * be copied, over operands that already stand in the graph being written.
 *
 * A pattern is op(arg, ...) with arguments that are patterns again, names or numbers. A name in
 * lower case binds any value, one in upper case a constant only; the same name twice must be the
 * same value. A number matches a constant whose every element equals it, bit for bit (so 0 and -0
 * differ). op(*) matches whatever the operands are. "*" as the whole pattern matches every node
 * with the row's op_flags. The replacement is one name of the pattern, or an expression program
 * (docs/expr.md) over its names, or a C function that looks further and builds what it likes.
 *
 * A rule must not change a value: NaN, infinities and -0 included; it shrinks or normalises in one
 * direction. `when` holds for the dtype of the value bound to `x`. */
#ifndef STATOR_PASSES_REWRITE_H
#define STATOR_PASSES_REWRITE_H

#include "core/base/arena.h"
#include "ir/passes/pass_copy.h"

#define ST_RULE_VARS 8u
#define ST_RULE_RESULTS 64u

enum st_rule_when {
    ST_WHEN_BOOL = 1u << STATOR_CLASS_BOOL,
    ST_WHEN_INT = (1u << STATOR_CLASS_INT) | (1u << STATOR_CLASS_UINT) | (1u << STATOR_CLASS_BOOL),
    ST_WHEN_FLOAT = 1u << STATOR_CLASS_FLOAT,
    ST_WHEN_ANY = 0
};

/* A node at which a rule is tried. */
typedef struct st_match {
    st_copy *copy;
    stator_emitter *e;          /* = &copy->e */
    stator_builder *b;          /* = copy->out */
    const stator_graph_view *v; /* view of the graph being written */
    stator_ref node;            /* in-node */
    const stator_node_row *row; /* the in-node's; attributes and types are the module's */
    const stator_op_desc *op;
    const stator_ref *operands;      /* out-values, 0 absent */
    stator_ref vars[ST_RULE_VARS];   /* out-values bound by the pattern, in order of their names */
    stator_ref out[ST_RULE_RESULTS]; /* replacements of the results */
} st_match;

/* Looks further and sets m->out. It may build nodes: they are dropped when it returns false, or
 * when the match's emitter failed. */
typedef bool (*st_rule_fn)(st_match *m);

typedef struct st_rule_def { /* one row */
    const char *name;
    const char *match;
    const char *replace;
    st_rule_fn apply;
    uint32_t when;
    uint64_t op_flags; /* flags of the root's op; all of them must be set */
} st_rule_def;

typedef struct st_pattern { /* compiled; operands are consecutive children */
    uint32_t kind;          /* st_pattern_kind */
    uint32_t op;
    uint32_t first, count; /* children in the rule set's pattern array */
    uint32_t var;
    double literal;
} st_pattern;

typedef struct st_rule {
    const st_rule_def *def;
    uint32_t root;  /* pattern */
    uint32_t next;  /* rule with the same root op, 0 at the end */
    uint32_t var_x; /* variable that is x, ST_RULE_VARS: none */
    uint32_t n_vars;
    const char *names[ST_RULE_VARS];
} st_rule;

typedef struct st_ruleset {
    st_arena arena;
    st_pattern *patterns;
    uint32_t n_patterns;
    uint32_t pattern_capacity;
    st_rule *rules; /* from 1 */
    uint32_t n_rules;
    uint32_t *by_op; /* op id -> its first rule */
    uint32_t any;    /* first rule with pattern "*" */
} st_ruleset;

/* The rows of rules.def. */
const st_rule_def *st_rule_defs(uint32_t *out_count);

/* Compiles rows; INVALID_ARGUMENT names the row that cannot be read. */
stator_status st_ruleset_init(st_ruleset *set, st_mem *mem, const st_optable *ops,
                              const st_rule_def *defs, uint32_t n, stator_diag **err);
void st_ruleset_deinit(st_ruleset *set);
/* Tries the rules on copy's in-node `node`, whose operands are mapped. True when its results are
 * mapped now. Each application is asked for (fuel kind REWRITE, the rule's name). */
bool st_ruleset_apply(const st_ruleset *set, st_copy *copy, stator_ref node);

#endif
