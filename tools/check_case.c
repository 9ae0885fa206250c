/* Reading a CASE and writing the graph; see check_case.h. */
#include "tools/check_case.h"

#include "core/base/check.h"

#include <string.h>

#define OPERANDS_MAX 64u
#define SYMBOLS_MAX 32u

typedef struct word {
    const char *at;
    size_t len;
} word;

typedef struct reader {
    const stator_op_desc *op;
    const char *at;
    stator_diag **err;
    st_str inputs;   /* "%a0: f32[4, 16], " */
    st_str operands; /* "%a0, _" */
    st_str attrs;
    word symbols[SYMBOLS_MAX];
    bool in_shape[SYMBOLS_MAX]; /* the symbol is a size of some operand */
    uint32_t n_symbols;
    uint32_t n_operands;
    bool is_open; /* an operand was begun: its dtype is read */
    bool has_dims;
    bool was_operand; /* the previous word belongs to an operand, so that ";" may follow */
} reader;

static bool is_name(word w)
{
    bool ok = w.len > 0 && (w.at[0] == '_' || (w.at[0] >= 'A' && w.at[0] <= 'Z') ||
                            (w.at[0] >= 'a' && w.at[0] <= 'z'));
    for (size_t i = 0; i < w.len; i++) {
        const char c = w.at[i];
        ok = ok && (c == '_' || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                    (c >= '0' && c <= '9'));
    }
    return ok;
}

static bool is_number(word w)
{
    return w.len > 0 && w.len < 19 && strspn(w.at, "0123456789") >= w.len;
}

/* ---- operands ---- */

static stator_status add_symbol(reader *r, word name, bool in_shape)
{
    for (uint32_t i = 0; i < r->n_symbols; i++) {
        if (r->symbols[i].len == name.len && memcmp(r->symbols[i].at, name.at, name.len) == 0) {
            r->in_shape[i] |= in_shape;
            return STATOR_OK;
        }
    }
    ST_FAIL_IF(r->n_symbols == SYMBOLS_MAX, r->err, STATOR_INVALID_ARGUMENT,
               "the case has more than %u symbolic sizes", SYMBOLS_MAX);
    r->in_shape[r->n_symbols] = in_shape;
    r->symbols[r->n_symbols++] = name;
    return STATOR_OK;
}

/* "4x16": sizes between 'x'; a name may not hold an x, then. */
static stator_status add_dims(reader *r, word w)
{
    const char *end = w.at + w.len;
    for (const char *at = w.at; at <= end;) {
        const char *next = memchr(at, 'x', (size_t)(end - at));
        const word size = {at, (size_t)((next != NULL ? next : end) - at)};
        ST_FAIL_IF(!is_number(size) && !is_name(size), r->err, STATOR_INVALID_ARGUMENT,
                   "'%.*s' is no shape: write sizes as 4x16, or none for a scalar", (int)w.len,
                   w.at);
        if (!is_number(size)) {
            ST_TRY(add_symbol(r, size, true));
        }
        st_str_add(&r->inputs, at == w.at ? "" : ", ");
        st_str_addn(&r->inputs, size.at, size.len);
        at += size.len + 1;
    }
    return STATOR_OK;
}

static void close_operand(reader *r)
{
    if (r->is_open) {
        st_str_add(&r->inputs, "]");
    }
    r->is_open = false;
    r->has_dims = false;
}

static stator_status open_operand(reader *r, word w)
{
    const uint32_t dtype = st_dtype_parse(w.at, w.len);
    const bool is_absent = w.len == 1 && *w.at == '_';
    ST_FAIL_IF(dtype == 0 && !is_absent, r->err, STATOR_INVALID_ARGUMENT,
               "'%.*s' is neither a dtype nor KEY=VALUE: an operand is written 'f32 4x16', "
               "the next one after ';'",
               (int)w.len, w.at);
    ST_FAIL_IF(r->n_operands == OPERANDS_MAX, r->err, STATOR_INVALID_ARGUMENT,
               "the case has more than %u operands", OPERANDS_MAX);
    st_str_add(&r->operands, r->n_operands > 0 ? ", " : "");
    if (is_absent) {
        st_str_add(&r->operands, "_");
    } else {
        st_str_addf(&r->operands, "%%a%u", r->n_operands);
        st_str_addf(&r->inputs, "%s%%a%u: %s[", r->inputs.len > 0 ? ", " : "", r->n_operands,
                    st_dtype_name(dtype));
        r->is_open = true;
    }
    r->n_operands++;
    return STATOR_OK;
}

/* ---- attributes ---- */

static const stator_attr_desc *find_attr(const stator_op_desc *op, word key)
{
    for (uint32_t i = 0; i < op->attr_count; i++) {
        if (strlen(op->attrs[i].name) == key.len &&
            memcmp(op->attrs[i].name, key.at, key.len) == 0) {
            return &op->attrs[i];
        }
    }
    return NULL;
}

static stator_status unknown_attr(const reader *r, word key)
{
    const char *names[64];
    char list[512] = "";
    char text[64];
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->op->attr_count && n < 64; i++) {
        names[n++] = r->op->attrs[i].name;
        (void)strncat(list, i > 0 ? ", " : "", sizeof list - strlen(list) - 1);
        (void)strncat(list, r->op->attrs[i].name, sizeof list - strlen(list) - 1);
    }
    const size_t len = key.len < sizeof text - 1 ? key.len : sizeof text - 1;
    memcpy(text, key.at, len);
    text[len] = '\0';
    const char *near = st_nearest(text, names, n);
    return st_fail(r->err, STATOR_INVALID_ARGUMENT, "%s has no attribute '%s'%s%s%s (it has: %s)",
                   r->op->name, text, near != NULL ? ", did you mean '" : "",
                   near != NULL ? near : "", near != NULL ? "'?" : "", n > 0 ? list : "none");
}

/* Symbolic sizes in a list of sizes are declared too. */
static stator_status declare_sizes(reader *r, word value)
{
    for (size_t i = 0; i < value.len;) {
        const size_t n =
            strspn(value.at + i, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
                                 "0123456789");
        const word name = {value.at + i, n < value.len - i ? n : value.len - i};
        if (is_name(name)) {
            ST_TRY(add_symbol(r, name, false));
        }
        i += name.len > 0 ? name.len : 1;
    }
    return STATOR_OK;
}

static stator_status add_attr(reader *r, word key, word value)
{
    const stator_attr_desc *desc = find_attr(r->op, key);
    if (desc == NULL) {
        return unknown_attr(r, key);
    }
    const bool is_list = desc->kind == STATOR_ATTR_INTS || desc->kind == STATOR_ATTR_FLOATS ||
                         desc->kind == STATOR_ATTR_DIMS;
    const bool has_brackets = value.len > 0 && value.at[0] == '[';
    ST_FAIL_IF(desc->kind == STATOR_ATTR_BLOB, r->err, STATOR_UNSUPPORTED,
               "attribute '%s' of %s holds data; write a .stir "
               "file and use stator compare",
               desc->name, r->op->name);
    if (desc->kind == STATOR_ATTR_DIMS) {
        ST_TRY(declare_sizes(r, value));
    }
    st_str_addf(&r->attrs, "%s%s = ", r->attrs.len > 0 ? ", " : "", desc->name);
    st_str_add(&r->attrs, is_list && !has_brackets           ? "["
                          : desc->kind == STATOR_ATTR_STRING ? "\""
                                                             : "");
    st_str_addn(&r->attrs, value.at, value.len);
    st_str_add(&r->attrs, is_list && !has_brackets           ? "]"
                          : desc->kind == STATOR_ATTR_STRING ? "\""
                                                             : "");
    return STATOR_OK;
}

/* ---- words ---- */

/* The next word: up to a blank or ';' outside brackets. */
static word next_word(reader *r)
{
    r->at += strspn(r->at, " \t\n");
    const char *begin = r->at;
    int depth = 0;
    while (*r->at != '\0' && (depth > 0 || strchr(" \t\n;", *r->at) == NULL)) {
        depth += *r->at == '[' ? 1 : *r->at == ']' ? -1 : 0;
        r->at++;
    }
    return (word){begin, (size_t)(r->at - begin)};
}

static stator_status take_word(reader *r, word w)
{
    const char *equals = memchr(w.at, '=', w.len);
    if (equals != NULL) {
        const word key = {w.at, (size_t)(equals - w.at)};
        close_operand(r);
        return add_attr(r, key, (word){equals + 1, w.len - key.len - 1});
    }
    if (r->is_open && !r->has_dims) {
        r->has_dims = true;
        return add_dims(r, w);
    }
    ST_FAIL_IF(r->was_operand, r->err, STATOR_INVALID_ARGUMENT,
               "'%.*s' follows an operand; separate operands by ';'", (int)w.len, w.at);
    r->was_operand = true;
    return open_operand(r, w);
}

static stator_status read_case(reader *r)
{
    for (;;) {
        const word w = next_word(r);
        if (w.len > 0) {
            ST_TRY(take_word(r, w));
        } else if (*r->at == ';') {
            close_operand(r);
            r->was_operand = false;
            r->at++;
        } else {
            close_operand(r);
            return STATOR_OK;
        }
    }
}

/* A size that stands in attributes alone has no value when the op runs. */
static stator_status check_symbols(const reader *r)
{
    for (uint32_t i = 0; i < r->n_symbols; i++) {
        ST_FAIL_IF(!r->in_shape[i], r->err, STATOR_INVALID_ARGUMENT,
                   "size '%.*s' is in no operand's shape; write a number", (int)r->symbols[i].len,
                   r->symbols[i].at);
    }
    return STATOR_OK;
}

/* ---- the graph ---- */

/* "%r0, %r1" for "values, indices?"; with names "values: %r0, indices: %r1". */
static void add_results(st_str *out, const stator_op_desc *op, bool with_names)
{
    const char *at = op->results;
    for (uint32_t i = 0; *at != '\0'; i++) {
        const size_t len = strcspn(at, ",?");
        st_str_add(out, i > 0 ? ", " : "");
        if (with_names) {
            st_str_addf(out, "%.*s: ", (int)len, at);
        }
        st_str_addf(out, "%%r%u", i);
        at += strcspn(at, ",");
        at += strspn(at, ", ");
    }
}

static void write_graph(const reader *r, st_str *out)
{
    st_str_add(out, "stir 1\n");
    for (uint32_t i = 0; i < r->n_symbols; i++) {
        st_str_addf(out, "sym %.*s in [0, inf]\n", (int)r->symbols[i].len, r->symbols[i].at);
    }
    st_str_addf(out, "graph @main(%s) {\n  ", r->inputs.len > 0 ? r->inputs.data : "");
    add_results(out, r->op, false);
    st_str_addf(out, " = %s(%s)", r->op->name, r->operands.len > 0 ? r->operands.data : "");
    if (r->attrs.len > 0) {
        st_str_addf(out, " {%s}", r->attrs.data);
    }
    st_str_add(out, "\n  return ");
    add_results(out, r->op, true);
    st_str_add(out, "\n}\n");
}

stator_status check_case_text(const stator_op_desc *op, const char *text, st_str *out,
                              stator_diag **err)
{
    reader r = {.op = op, .at = text, .err = err};
    ST_FAIL_IF(op->region_count > 0 || strchr(op->results, '*') != NULL, err, STATOR_UNSUPPORTED,
               "%s has regions; write a .stir file and use stator compare", op->name);
    st_str_init(&r.inputs, out->mem);
    st_str_init(&r.operands, out->mem);
    st_str_init(&r.attrs, out->mem);
    stator_status status = read_case(&r);
    if (status == STATOR_OK) {
        status = check_symbols(&r);
    }
    if (status == STATOR_OK) {
        write_graph(&r, out);
        const bool ok =
            st_str_ok(&r.inputs) && st_str_ok(&r.operands) && st_str_ok(&r.attrs) && st_str_ok(out);
        status = ok ? STATOR_OK : st_fail_oom(err);
    }
    st_str_deinit(&r.inputs);
    st_str_deinit(&r.operands);
    st_str_deinit(&r.attrs);
    return status;
}
