/* Recursive descent over an expansion program; the grammar is in the header. */
#include "codegen/loopir/loop_expand_parse.h"

#include "core/base/check.h"
#include "core/base/diag.h"
#include <math.h>
#include <string.h>

#define DEPTH_MAX 64u
#define NODES_MAX 4096u

typedef struct parser {
    st_expansion *program;
    const char *text;
    const char *at;
    uint32_t scope; /* the LET declared last, 0 none; `next` of its `code` is an older one */
    uint32_t depth;
    stator_diag **err;
    stator_status status;
} parser;

/* LETs in scope are a chain through `code`, the youngest first. */

static uint32_t fail(parser *p, const char *what)
{
    if (p->status == STATOR_OK) {
        p->status = st_fail(p->err, STATOR_INTERNAL, "expansion '%.40s...', byte %u: %s", p->text,
                            (unsigned)(p->at - p->text), what);
    }
    return 0;
}

static uint32_t node(parser *p, const st_expr *expr)
{
    if (p->status != STATOR_OK) {
        return 0;
    }
    ST_FAIL_BY_IF(fail, p->program->nodes.count >= NODES_MAX, p, "more than 4096 nodes");
    st_expr *to = st_vec_push(p->program->mem, &p->program->nodes);
    if (to == NULL) {
        p->status = st_fail_oom(p->err);
        return 0;
    }
    *to = *expr;
    return p->program->nodes.count - 1u;
}

static st_expr *expr_at(const parser *p, uint32_t at)
{
    return &p->program->nodes.data[at];
}

/* ---- characters ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static void skip_space(parser *p)
{
    while (*p->at == ' ' || *p->at == '\n') {
        p->at++;
    }
}

/* Takes the symbol when it comes next; a longer operator that begins with it is another one. */
static bool take(parser *p, const char *symbol)
{
    const size_t n = strlen(symbol);
    skip_space(p);
    if (strncmp(p->at, symbol, n) != 0 || (n == 1 && strchr("<>=!", *symbol) && p->at[1] == '=')) {
        return false;
    }
    p->at += n;
    return true;
}

static void expect(parser *p, const char *symbol, const char *what)
{
    if (!take(p, symbol)) {
        (void)fail(p, what);
    }
}

/* ---- numbers: no locale has a say ---- */

static int32_t exponent(parser *p)
{
    const bool minus = *p->at == '-';
    int32_t value = 0;
    p->at += *p->at == '-' || *p->at == '+';
    for (; is_digit(*p->at) && value < 10000; p->at++) {
        value = 10 * value + (*p->at - '0');
    }
    return minus ? -value : value;
}

/* Digits of the base with at most one point: the integer they make and the digits after the point.
 */
static uint64_t digits(parser *p, uint32_t base, uint32_t *out_after, bool *out_point)
{
    uint64_t value = 0;
    *out_after = 0;
    *out_point = false;
    for (;; p->at++) {
        const int digit = base == 16u ? st_hex_digit(*p->at) : is_digit(*p->at) ? *p->at - '0' : -1;
        if (*p->at == '.' && !*out_point) {
            *out_point = true;
            continue;
        }
        if (digit < 0) {
            return value;
        }
        if (value > (UINT64_MAX - (uint64_t)digit) / base) {
            (void)fail(p, "a number of too many digits");
            return 0;
        }
        value = value * base + (uint64_t)digit;
        *out_after += (uint32_t)*out_point;
    }
}

static uint32_t number(parser *p)
{
    const bool is_hex = p->at[0] == '0' && p->at[1] == 'x';
    uint32_t after = 0;
    bool has_point = false;
    p->at += is_hex ? 2 : 0;
    const uint64_t value = digits(p, is_hex ? 16u : 10u, &after, &has_point);
    st_expr expr = {.kind = ST_EXPR_NUMBER, .is_int = 1, .i = (int64_t)value};
    expr.number = (double)value;
    if (has_point || *p->at == 'p') {
        expr.is_int = 0;
        int32_t scale = 0;
        if (*p->at == 'p') {
            p->at++;
            scale = exponent(p);
        }
        ST_FAIL_BY_IF(fail, !is_hex && value >= (UINT64_C(1) << 53), p,
                      "a decimal fraction of too many digits");
        /* 10^after is exact up to 22, so the quotient is rounded once. */
        expr.number = is_hex ? ldexp((double)value, scale - 4 * (int32_t)after)
                             : (double)value / pow(10, (double)after);
        expr.is_int = expr.number < 0x1p53 && expr.number == floor(expr.number);
        expr.i = expr.is_int ? (int64_t)expr.number : 0;
    }
    return node(p, &expr);
}

/* ---- expressions ---- */

static uint32_t choice(parser *p);
static uint32_t block(parser *p);

static uint32_t op_node(parser *p, uint32_t code, uint32_t x, uint32_t y, uint32_t z)
{
    const st_expr expr = {.kind = ST_EXPR_OP, .code = code, .args = {x, y, z}};
    return node(p, &expr);
}

static bool word_is(const char *word, uint32_t n, const char *name)
{
    return strlen(name) == n && memcmp(word, name, n) == 0;
}

/* x, y, z, a name that was given, inf or nan. */
static uint32_t name(parser *p, const char *word, uint32_t n)
{
    const char *const operands = "xyz";
    if (n == 1 && strchr(operands, *word)) {
        const st_expr expr = {.kind = ST_EXPR_OPERAND, .i = strchr(operands, *word) - operands};
        return node(p, &expr);
    }
    if (word_is(word, n, "inf") || word_is(word, n, "nan")) {
        const st_expr expr = {.kind = ST_EXPR_NUMBER,
                              .number = *word == 'i' ? (double)INFINITY : (double)NAN};
        return node(p, &expr);
    }
    for (uint32_t let = p->scope; let; let = expr_at(p, let)->code) {
        if (expr_at(p, let)->name_len == n && memcmp(expr_at(p, let)->name, word, n) == 0) {
            const st_expr expr = {.kind = ST_EXPR_USE, .args = {let}};
            return node(p, &expr);
        }
    }
    p->at = word;
    return fail(p, "a name that nothing was given to");
}

/* Kind, code and number of operands of a named function. */
static uint32_t function_of(const char *word, uint32_t n, st_expr *out)
{
    static const struct {
        const char *name;
        uint16_t kind;
        uint16_t arity;
    } own[] = {{"as_int", ST_EXPR_AS_INT, 1},
               {"as_float", ST_EXPR_AS_FLOAT, 1},
               {"bits", ST_EXPR_BITS, 1},
               {"lookup", ST_EXPR_LOOKUP, 2},
               {"rare", ST_EXPR_RARE, 3}};
    char text[24] = {0};
    for (size_t i = 0; i < sizeof own / sizeof own[0]; i++) {
        if (word_is(word, n, own[i].name)) {
            out->kind = own[i].kind;
            return own[i].arity;
        }
    }
    const uint32_t dtype = st_dtype_parse(word, n);
    if (st_loop_class_of(dtype)) {
        *out = (st_expr){.kind = ST_EXPR_CAST, .code = dtype};
        return 1;
    }
    if (n >= sizeof text) {
        return 0;
    }
    memcpy(text, word, n);
    *out = (st_expr){.kind = ST_EXPR_OP, .code = st_loop_find(text)};
    const st_loop_op_desc *desc = st_loop_desc(out->code);
    return desc && desc->result != ST_LOOP_ANY ? desc->arity : 0;
}

static uint32_t call(parser *p, const char *word, uint32_t n)
{
    st_expr expr = {.kind = 0};
    const uint32_t arity = function_of(word, n, &expr);
    if (arity == 0) {
        p->at = word;
        return fail(p, "no such function");
    }
    for (uint32_t k = 0; k < arity; k++) {
        if (k) {
            expect(p, ",", "',' expected");
        }
        expr.args[k] = choice(p);
    }
    expect(p, ")", "')' expected");
    if (expr.kind == ST_EXPR_LOOKUP && expr.args[1] && !expr_at(p, expr.args[1])->is_int) {
        return fail(p, "the number of a table expected");
    }
    return node(p, &expr);
}

static uint32_t primary(parser *p)
{
    skip_space(p);
    const char *word = p->at;
    if (is_digit(*word)) {
        return number(p);
    }
    if (take(p, "(")) {
        const uint32_t inner = choice(p);
        expect(p, ")", "')' expected");
        return inner;
    }
    if (take(p, "{")) {
        const uint32_t scope = p->scope;
        const uint32_t inner = block(p);
        expect(p, "}", "'}' expected");
        p->scope = scope;
        return inner;
    }
    while (is_letter(*p->at) || is_digit(*p->at)) {
        p->at++;
    }
    ST_FAIL_BY_IF(fail, p->at == word, p, "an operand expected");
    const uint32_t n = (uint32_t)(p->at - word);
    return take(p, "(") ? call(p, word, n) : name(p, word, n);
}

static uint32_t unary(parser *p)
{
    if (++p->depth > DEPTH_MAX) {
        return fail(p, "nested too deeply");
    }
    uint32_t result = 0;
    if (take(p, "!")) {
        result = op_node(p, ST_LOOP_bit_not, unary(p), 0, 0);
    } else if (take(p, "-")) {
        const uint32_t x = unary(p);
        if (x && expr_at(p, x)->kind == ST_EXPR_NUMBER) {
            expr_at(p, x)->i = (int64_t)(0 - (uint64_t)expr_at(p, x)->i);
            expr_at(p, x)->number = -expr_at(p, x)->number;
            result = x;
        } else {
            result = op_node(p, ST_LOOP_neg, x, 0, 0);
        }
    } else {
        result = primary(p);
    }
    p->depth--;
    return result;
}

typedef struct binary {
    const char *symbol;
    uint32_t code;
} binary;

/* Operators by level, loosest first; the levels of comparison take one operator. */
#define LEVELS 6
static const binary levels[LEVELS][5] = {
    {{"||", ST_LOOP_bit_or}},
    {{"&&", ST_LOOP_bit_and}},
    {{"==", ST_LOOP_eq}, {"!=", ST_LOOP_ne}},
    {{"<=", ST_LOOP_le}, {">=", ST_LOOP_ge}, {"<", ST_LOOP_lt}, {">", ST_LOOP_gt}},
    {{"+", ST_LOOP_add}, {"-", ST_LOOP_sub}},
    {{"*", ST_LOOP_mul}, {"/", ST_LOOP_div}},
};

static uint32_t level(parser *p, uint32_t which)
{
    if (which == LEVELS) {
        return unary(p);
    }
    uint32_t left = level(p, which + 1u);
    for (uint32_t k = 0; levels[which][k].symbol && p->status == STATOR_OK;) {
        if (!take(p, levels[which][k].symbol)) {
            k++;
            continue;
        }
        left = op_node(p, levels[which][k].code, left, level(p, which + 1u), 0);
        k = 0;
    }
    return left;
}

static uint32_t choice(parser *p)
{
    if (++p->depth > DEPTH_MAX) {
        return fail(p, "nested too deeply");
    }
    const uint32_t result = level(p, 0);
    p->depth--;
    return result;
}

/* Does "name =" come next? */
static uint32_t assigned_name(parser *p)
{
    skip_space(p);
    const char *end = p->at;
    while (is_letter(*end) || (end != p->at && is_digit(*end))) {
        end++;
    }
    const uint32_t n = (uint32_t)(end - p->at);
    end += strspn(end, " \n");
    return end[0] == '=' && end[1] != '=' ? n : 0;
}

static uint32_t block(parser *p)
{
    st_expr result = {.kind = ST_EXPR_BLOCK};
    uint32_t last = 0;
    for (;;) {
        const uint32_t n = assigned_name(p);
        if (n == 0 || p->status != STATOR_OK) {
            break;
        }
        st_expr let = {.kind = ST_EXPR_LET, .name = p->at, .name_len = n};
        ST_FAIL_BY_IF(fail, n == 1 && strchr("xyz", *p->at), p, "an operand is given a value");
        p->at += n;
        expect(p, "=", "'=' expected");
        let.args[0] = choice(p);
        let.code = p->scope;
        expect(p, ";", "';' expected");
        const uint32_t made = node(p, &let);
        if (last) {
            expr_at(p, last)->next = made;
        } else {
            result.args[0] = made;
        }
        last = p->scope = made;
    }
    result.args[1] = choice(p);
    return node(p, &result);
}

stator_status st_expansion_parse(st_expansion *program, st_mem *mem, const char *text,
                                 stator_diag **err)
{
    *program = (st_expansion){.mem = mem};
    parser p = {.program = program, .text = text, .at = text, .err = err};
    ST_TRY_MEM(st_vec_resize(mem, &program->nodes, 1), err);
    program->root = block(&p);
    skip_space(&p);
    if (*p.at != '\0') {
        (void)fail(&p, "the end expected");
    }
    return p.status;
}

void st_expansion_deinit(st_expansion *program)
{
    if (program->mem) {
        st_vec_free(program->mem, &program->nodes);
    }
}
