/* Reads back the text that gf_write makes, so that a kept case needs nothing but its file. */
#include "gf.h"

#include "core/base/check.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    const char *at;
    gf_program *p;
    int ok;
    char *names;               /* of ops, in a block of their own */
    int64_t folded[GF_VALUES]; /* by the node that makes the value; 0: the text does not say */
} reader;

/* Blanks before the text count nothing. */
static int accept(reader *r, const char *text)
{
    text += strspn(text, " ");
    const size_t n = strlen(text);
    r->at += strspn(r->at, " \t");
    if (strncmp(r->at, text, n) != 0) {
        return 0;
    }
    r->at += n;
    return 1;
}

static void expect(reader *r, const char *text)
{
    r->ok = r->ok && accept(r, text);
}

static int64_t number(reader *r)
{
    char *end = NULL;
    const int64_t n = strtoll(r->at, &end, 10);
    r->ok = r->ok && end != r->at;
    r->at = end;
    return n;
}

/* "2*A + -1*B - 3" */
static gf_dim size(reader *r)
{
    gf_dim d = {0, 0, 0};
    int64_t sign = 1;
    do {
        r->at += strspn(r->at, " ");
        sign *= *r->at == '-' ? -1 : 1;
        r->at += *r->at == '-';
        const int64_t n = sign * (*r->at == 'A' || *r->at == 'B' ? 1 : number(r));
        (void)accept(r, "*");
        if (accept(r, "A")) {
            d.a = n;
        } else if (accept(r, "B")) {
            d.b = n;
        } else {
            d.c = n;
        }
        sign = accept(r, "+") ? 1 : accept(r, "-") ? -1 : 0;
    } while (r->ok && sign);
    return d;
}

static void type(reader *r, gf_value *v)
{
    r->at += strspn(r->at, " ");
    const size_t n = strcspn(r->at, "[");
    v->dtype = (uint8_t)st_dtype_parse(r->at, n);
    r->at += n;
    expect(r, "[");
    while (r->ok && v->dtype && v->rank < GF_RANK && *r->at != ']') {
        v->dims[v->rank++] = size(r);
        (void)accept(r, ",");
    }
    expect(r, "]");
    r->ok = r->ok && v->dtype != 0;
}

/* "%v12"; its number. */
static int value_name(reader *r)
{
    expect(r, "%");
    r->ok = r->ok && (*r->at == 'v' || *r->at == 'x');
    r->at += r->ok;
    const int64_t n = number(r);
    r->ok = r->ok && n >= 0 && n < GF_VALUES;
    if (r->ok && n >= r->p->n_values) {
        r->p->n_values = (int)n + 1;
    }
    return r->ok ? (int)n : 0;
}

static void header(reader *r)
{
    expect(r, "// graph seed=");
    r->p->seed = r->ok ? strtoull(r->at, (char **)(uintptr_t)&r->at, 10) : 0;
    expect(r, " specials=");
    r->p->specials = (int)number(r);
    expect(r, " A=");
    r->p->sizes[0] = number(r);
    expect(r, " B=");
    r->p->sizes[1] = number(r);
    while (r->ok && (accept(r, "\n// index v"))) {
        const int64_t v = number(r);
        r->ok = r->ok && v >= 0 && v < GF_VALUES;
        expect(r, " below ");
        if (r->ok) {
            r->p->values[v].is_index = 1;
            r->p->values[v].below = size(r);
        }
    }
    while (r->ok && (accept(r, "\n// folded v"))) {
        const int64_t v = number(r);
        r->ok = r->ok && v >= 0 && v < GF_VALUES;
        expect(r, ":");
        if (r->ok) {
            r->folded[v] = number(r);
        }
    }
    expect(r, "\nstir 1\nsym A in [");
    r->p->lowest[0] = number(r);
    expect(r, ", inf]\nsym B in [");
    r->p->lowest[1] = number(r);
    expect(r, ", inf]\ngraph @main(");
}

static void inputs(reader *r)
{
    while (r->ok && !accept(r, ") {\n")) {
        if (strncmp(r->at, "%s", 2) == 0) { /* the witness of a symbol: made again when needed */
            r->at += strcspn(r->at, "]") + 1u;
        } else {
            gf_value *v = &r->p->values[value_name(r)];
            expect(r, ": ");
            v->node = -1;
            v->is_input = 1;
            type(r, v);
        }
        (void)accept(r, ", ");
    }
}

static int is_in(const char *name, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(name, list[i]) == 0) {
            return 1;
        }
    }
    return 0;
}

/* How results of the op may be rounded otherwise. */
static int noise_of(const char *op)
{
    static const char *const exact[] = {
        "neg",        "abs",        "sign",    "ceil",    "floor",     "round",
        "trunc",      "relu",       "add",     "sub",     "mul",       "div",
        "min",        "max",        "mod",     "rem",     "select",    "cast",
        "reshape",    "slice",      "expand",  "concat",  "transpose", "pad",
        "gather",     "iota",       "sort",    "topk",    "constant",  "gather_elements",
        "scatter_nd", "reduce_max", "bit_not", "bitcast", "clamp",     "scatter_elements",
        "max_pool",   "reduce_min", "one_hot", "trilu",   "gather_nd", "thresholded_relu",
        "dims",       "tile",       "eq",      "ne",      "lt",        "le",
        "gt",         "ge",         "is_nan",  "is_inf",  "is_finite", "bit_and",
        "bit_or",     "bit_xor",    "argmax",  "argmin"};
    static const char *const functions[] = {"exp",   "exp2",  "expm1", "log",    "log2", "log1p",
                                            "sqrt",  "rsqrt", "sin",   "cos",    "tan",  "asin",
                                            "acos",  "atan",  "sinh",  "cosh",   "tanh", "asinh",
                                            "acosh", "atanh", "erf",   "lgamma", "pow",  "atan2"};
    static const char *const folds[] = {"reduce", "cum", "matmul", "conv", "einsum", "dot_general"};
    if (is_in(op, exact, sizeof exact / sizeof exact[0])) {
        return GF_EXACT;
    }
    if (is_in(op, functions, sizeof functions / sizeof functions[0])) {
        return GF_FUNCTION;
    }
    if (strncmp(op, "reduce_log", 10) == 0) {
        return GF_COMPOSITE;
    }
    for (size_t i = 0; i < sizeof folds / sizeof folds[0]; i++) {
        if (strncmp(op, folds[i], strlen(folds[i])) == 0) {
            return GF_FOLD;
        }
    }
    return GF_COMPOSITE;
}

/* Regions, as they are written. */
static void body(reader *r, gf_node *n)
{
    static const char end[] = "\n    }\n";
    size_t len = 0;
    while (r->ok && strncmp(r->at, "    region", 10) == 0) {
        const char *last = strstr(r->at, end);
        const size_t length = last ? (size_t)(last - r->at) + sizeof end - 1u : 0;
        r->ok = last != NULL && len + length < GF_BODY;
        memcpy(n->body + len, r->at, r->ok ? length : 0);
        len += r->ok ? length : 0;
        r->at += r->ok ? length : 0;
    }
}

static void node(reader *r)
{
    gf_node *n = &r->p->nodes[r->p->n_nodes];
    *n = (gf_node){.folded = GF_FOLDED};
    do {
        const int v = value_name(r);
        n->first = n->n_results++ == 0 ? v : n->first;
    } while (r->ok && accept(r, ","));
    n->folded = r->folded[n->first] ? r->folded[n->first] : n->folded;
    expect(r, " = ");
    const size_t len = strcspn(r->at, "( {:\n");
    memcpy(r->names, r->at, len);
    r->names[len] = '\0';
    n->op = r->names;
    r->names += len + 1u;
    r->at += len;
    if (accept(r, "(")) {
        while (r->ok && n->n_args < GF_ARGS && *r->at != ')') {
            n->args[n->n_args++] = accept(r, "_") ? GF_ABSENT : value_name(r);
            (void)accept(r, ",");
        }
        expect(r, ")");
    }
    if (accept(r, "{")) {
        const char *end = strstr(r->at, "} : ");
        const size_t length = end ? (size_t)(end - r->at) : 0;
        r->ok = r->ok && end && length < GF_LONG;
        memcpy(n->attrs, r->at, r->ok ? length : 0);
        r->at = r->ok ? end + 1 : r->at;
    }
    expect(r, " : ");
    for (int i = 0; r->ok && i < n->n_results; i++) {
        gf_value *v = &r->p->values[n->first + i];
        gf_value made = {.node = r->p->n_nodes};
        type(r, &made);
        if (!v->is_input) { /* else a node that was cut makes it no more */
            *v = made;
        }
        (void)accept(r, ",");
    }
    expect(r, "\n");
    body(r, n);
    n->noise = noise_of(n->op);
    r->p->n_nodes++;
}

int gf_read(const char *text, gf_program *out)
{
    static char names[GF_TEXT];
    reader r = {.at = text, .p = out, .ok = 1, .names = names};
    memset(out, 0, sizeof *out);
    header(&r);
    inputs(&r);
    while (r.ok && !accept(&r, "return ")) {
        r.ok = out->n_nodes < GF_NODES && strlen(text) < GF_TEXT;
        if (r.ok) {
            node(&r);
        }
    }
    while (r.ok && out->n_outputs < GF_OUTPUTS && accept(&r, "o")) {
        (void)number(&r);
        expect(&r, ": ");
        out->outputs[out->n_outputs++] = value_name(&r);
        (void)accept(&r, ", ");
    }
    return r.ok && out->n_outputs > 0;
}
