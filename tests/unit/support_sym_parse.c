/* A parser of the text that st_sym_print writes, as the tests need it.
 *
 *     sum     = ["-"] product { ("+" | "-") product }
 *     product = factor { "*" factor }
 *     factor  = integer | name | function "(" sum "," sum ")" | "(" sum ")" | "-" factor
 *     function = floordiv | ceildiv | mod | min | max
 *     name    = identifier | "$" digits | '"' characters '"'      (\" and \\ are escapes)
 *
 * "$7" is the unnamed symbol of index 7. Parsing what was printed gives the same ref in the same
 * table. Symbols that are not known are made with range [0, INT64_MAX]. */
#include "support_sym.h"

#include "core/base/check.h"
#include "core/base/sym/sym_lin.h"
#include <ctype.h>
#include <string.h>

#define PARSE_DEPTH_MAX 64u
#define NAME_BYTES_MAX 4096u

typedef struct function {
    const char *name;
    uint32_t op; /* of st_sym_op */
} function;

static const function functions[] = {
    {"floordiv", STATOR_SYM_FLOORDIV}, {"mod", STATOR_SYM_MOD},         {"min", STATOR_SYM_MIN},
    {"max", STATOR_SYM_MAX},           {"ceildiv", STATOR_SYM_CEILDIV},
};
#define FUNCTION_COUNT (sizeof functions / sizeof functions[0])

static int is_digit(char c)
{
    return isdigit((unsigned char)c);
}

/* In a name; the first one is neither a digit nor a dot. */
static int is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '.';
}

typedef struct parser {
    st_symtab *tab;
    const char *at;
    const char *end;
    uint32_t (*intern)(void *self, const char *s, uint64_t n);
    void *self;
    uint32_t depth;
} parser;

/* The next character that is no blank, without taking it; 0 at the end. */
static char peek(const parser *p)
{
    const char *at = p->at;
    while (at < p->end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) {
        at++;
    }
    return at < p->end ? *at : '\0';
}

static void skip_blanks(parser *p)
{
    while (p->at < p->end &&
           (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r')) {
        p->at++;
    }
}

static int take(parser *p, char c)
{
    if (peek(p) != c) {
        return 0;
    }
    skip_blanks(p);
    p->at++;
    return 1;
}

static uint32_t parse_sum(parser *p);

/* Digits with a sign given from outside, so that INT64_MIN can be read. */
static uint32_t parse_integer(parser *p, int is_negative)
{
    uint64_t v = 0;
    const uint64_t limit = (uint64_t)INT64_MAX + (is_negative ? 1u : 0u);
    while (p->at < p->end && is_digit(*p->at)) {
        if (!st_mul_u64(v, 10, &v) || !st_add_u64(v, (uint64_t)(*p->at - '0'), &v) || v > limit) {
            return 0;
        }
        p->at++;
    }
    return st_sym_int(p->tab, is_negative ? (int64_t)(0u - v) : (int64_t)v);
}

static uint32_t named_symbol(parser *p, const char *s, uint64_t n)
{
    const uint32_t name = n != 0 ? p->intern(p->self, s, n) : 0;
    return name != 0 ? st_sym_symbol(p->tab, name, 0, INT64_MAX, 1, 0) : 0;
}

/* $7: the unnamed symbol of that index when there is one, else a symbol of that name. */
static uint32_t parse_dollar(parser *p)
{
    const char *begin = p->at++;
    uint64_t index = 0;
    while (p->at < p->end && is_digit(*p->at)) {
        index = index > UINT32_MAX ? index : index * 10u + (uint64_t)(*p->at - '0');
        p->at++;
    }
    if (p->at == begin + 1) {
        return 0;
    }
    for (uint32_t atom = 1; atom < p->tab->atoms.count; atom++) {
        const stator_atom_row *row = st_atom_at(p->tab, atom);
        if (row->kind == STATOR_ATOM_SYMBOL && row->name == 0 && row->index == index) {
            return st_atom_sym(p->tab, atom);
        }
    }
    return named_symbol(p, begin, (uint64_t)(p->at - begin));
}

static uint32_t parse_quoted(parser *p)
{
    char name[NAME_BYTES_MAX];
    uint64_t n = 0;
    p->at++;
    while (p->at < p->end && *p->at != '"') {
        if (*p->at == '\\' && ++p->at == p->end) {
            return 0;
        }
        if (n == sizeof name) {
            return 0;
        }
        name[n++] = *p->at++;
    }
    if (p->at == p->end) {
        return 0;
    }
    p->at++;
    return named_symbol(p, name, n);
}

static uint32_t parse_call(parser *p, const function *f)
{
    const uint32_t a = take(p, '(') ? parse_sum(p) : 0;
    const uint32_t b = a != 0 && take(p, ',') ? parse_sum(p) : 0;
    return b != 0 && take(p, ')') ? st_sym_op(p->tab, f->op, a, b) : 0;
}

static uint32_t parse_name(parser *p)
{
    const char *begin = p->at;
    while (p->at < p->end && is_name_char(*p->at)) {
        p->at++;
    }
    const uint64_t n = (uint64_t)(p->at - begin);
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        if (strlen(functions[i].name) == n && memcmp(functions[i].name, begin, n) == 0) {
            return parse_call(p, &functions[i]);
        }
    }
    return named_symbol(p, begin, n);
}

/* A factor, negated when is_negative. */
static uint32_t parse_factor(parser *p, int is_negative)
{
    uint32_t v = 0;
    skip_blanks(p);
    const char c = p->at < p->end ? *p->at : '\0';
    if (is_digit(c)) {
        return parse_integer(p, is_negative);
    }
    if (c == '-') {
        if (++p->depth > PARSE_DEPTH_MAX) {
            return 0;
        }
        p->at++;
        v = parse_factor(p, !is_negative);
        p->depth--;
        return v;
    }
    if (c == '(') {
        p->at++;
        v = parse_sum(p);
        v = v != 0 && take(p, ')') ? v : 0;
    } else if (c == '"') {
        v = parse_quoted(p);
    } else if (c == '$') {
        v = parse_dollar(p);
    } else if (is_name_char(c) && c != '.') {
        v = parse_name(p);
    }
    return v != 0 && is_negative ? st_sym_mul(p->tab, v, st_sym_int(p->tab, -1)) : v;
}

static uint32_t parse_product(parser *p, int is_negative)
{
    uint32_t v = parse_factor(p, is_negative);
    while (v != 0 && take(p, '*')) {
        v = st_sym_mul(p->tab, v, parse_factor(p, 0));
    }
    return v;
}

static uint32_t parse_sum(parser *p)
{
    if (++p->depth > PARSE_DEPTH_MAX) {
        return 0;
    }
    uint32_t v = parse_product(p, take(p, '-'));
    while (v != 0) {
        const int is_negative = peek(p) == '-';
        if (!take(p, is_negative ? '-' : '+')) {
            break;
        }
        v = st_sym_add(p->tab, v, parse_product(p, is_negative));
    }
    p->depth--;
    return v;
}

uint32_t sym_parse(st_symtab *tab, const char *text, uint64_t len,
                   uint32_t (*intern)(void *self, const char *s, uint64_t n), void *self,
                   uint64_t *out_used)
{
    parser p = {tab, text, text + len, intern, self, 0};
    const uint32_t sym = parse_sum(&p);
    if (out_used != NULL) {
        *out_used = (uint64_t)(p.at - text);
    }
    return sym;
}
