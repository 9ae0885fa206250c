/* Sizes as text. Two modules that hold the same graph may have met its compound sizes in another
 * order, so terms are not printed in table order: symbols come first by number, then compound atoms
 * by their text, and products, minima and maxima sort their operands the same way. With that,
 * parsing printed text and printing again gives the same bytes. */
#include "ir/text/text_sym.h"

#include "core/base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define DEPTH_MAX 64u   /* parentheses of a size */
#define TEXT_MAX 65536u /* bytes of a size; shared parts could make it grow without bound */
#define PARTS_MAX 32u   /* terms of a sum, factors of a product; the engine's limits are lower */

/* ---- printing ---- */

/* One term or factor on its way out. */
typedef struct part {
    int64_t coef;
    uint32_t rank; /* number of a symbol; UINT32_MAX for anything else */
    char *text;
} part;

typedef struct parts {
    part list[PARTS_MAX];
    uint32_t count;
} parts;

void st_sym_printer_init(st_sym_printer *p, const st_module *m)
{
    *p = (st_sym_printer){.m = m};
    st_map_init(&p->used, m->mem);
}

void st_sym_printer_deinit(st_sym_printer *p)
{
    st_map_deinit(&p->used);
}

/* Is there a symbol with this name? Only asked about symbols that have none. */
static bool name_is_taken(const st_sym_printer *p, const char *name)
{
    for (uint32_t i = 1; i < p->m->symtab.atoms.count; i++) {
        const stator_atom_row *row = st_atom_at(&p->m->symtab, i);
        if (row->kind == STATOR_ATOM_SYMBOL && row->name != 0 &&
            strcmp(st_module_str(p->m, row->name), name) == 0) {
            return true;
        }
    }
    return false;
}

void st_text_symbol_name(const st_sym_printer *p, const stator_atom_row *row, char out[24])
{
    (void)snprintf(out, 24, "$%u", row->index);
    while (strlen(out) < 23 && name_is_taken(p, out)) {
        strcat(out, "_");
    }
}

static void print_symbol_name(const st_sym_printer *p, const stator_atom_row *row, st_str *out)
{
    char name[24];
    if (row->name != 0) {
        st_print_name(out, st_module_str(p->m, row->name));
        return;
    }
    st_text_symbol_name(p, row, name);
    st_str_add(out, name);
}

/* Takes a finished text into the list. */
static void add_part(st_sym_printer *p, parts *to, int64_t coef, uint32_t rank, st_str *text)
{
    const bool is_long = text->len > TEXT_MAX;
    char *taken = st_str_take(text, NULL);
    if (taken == NULL || is_long || to->count == PARTS_MAX) {
        st_free(p->m->mem, taken);
        p->failed = 1;
        return;
    }
    to->list[to->count++] = (part){.coef = coef, .rank = rank, .text = taken};
}

static bool comes_before(const part *a, const part *b)
{
    return a->rank != b->rank ? a->rank < b->rank : strcmp(a->text, b->text) < 0;
}

static void sort_parts(parts *list)
{
    for (uint32_t i = 1; i < list->count; i++) {
        const part moved = list->list[i];
        uint32_t at = i;
        for (; at > 0 && comes_before(&moved, &list->list[at - 1]); at--) {
            list->list[at] = list->list[at - 1];
        }
        list->list[at] = moved;
    }
}

static void free_parts(st_sym_printer *p, parts *list)
{
    for (uint32_t i = 0; i < list->count; i++) {
        st_free(p->m->mem, list->list[i].text);
    }
}

static void print_atom(st_sym_printer *p, uint32_t atom, st_str *out);

/* Number of the atom when it is a symbol. */
static uint32_t rank_of(const st_sym_printer *p, uint32_t atom)
{
    const stator_atom_row *row = st_atom_at(&p->m->symtab, atom);
    return row->kind == STATOR_ATOM_SYMBOL ? row->index : UINT32_MAX;
}

/* The atom when the size is that atom alone, else 0. */
static uint32_t lone_atom(const st_sym_printer *p, uint32_t sym)
{
    const stator_sym_row *row = st_sym_row_at(&p->m->symtab, sym);
    return row->constant == 0 && row->term_count == 1 &&
                   st_sym_term(&p->m->symtab, row, 0)->coef == 1
               ? st_sym_term(&p->m->symtab, row, 0)->atom
               : 0;
}

/* Adds a product's operand, flattened when it is a product itself. */
static void add_factors(st_sym_printer *p, uint32_t sym, parts *to)
{
    const uint32_t atom = lone_atom(p, sym);
    st_str text;
    if (atom != 0 && st_atom_at(&p->m->symtab, atom)->kind == STATOR_ATOM_PRODUCT) {
        add_factors(p, st_atom_at(&p->m->symtab, atom)->a, to);
        add_factors(p, st_atom_at(&p->m->symtab, atom)->b, to);
        return;
    }
    st_str_init(&text, p->m->mem);
    if (atom != 0) {
        print_atom(p, atom, &text);
    } else {
        st_str_add(&text, "(");
        st_text_print_sym(p, sym, &text);
        st_str_add(&text, ")");
    }
    add_part(p, to, 1, atom != 0 ? rank_of(p, atom) : UINT32_MAX, &text);
}

static void print_product(st_sym_printer *p, const stator_atom_row *row, st_str *out)
{
    parts factors = {.count = 0};
    add_factors(p, row->a, &factors);
    add_factors(p, row->b, &factors);
    sort_parts(&factors);
    for (uint32_t i = 0; i < factors.count; i++) {
        st_str_add(out, i ? "*" : "");
        st_str_add(out, factors.list[i].text);
    }
    free_parts(p, &factors);
}

/* floordiv and mod keep the order of their operands, min and max sort them. */
static void print_function(st_sym_printer *p, const stator_atom_row *row, const char *name,
                           st_str *out)
{
    const bool is_symmetric = row->kind == STATOR_ATOM_MIN || row->kind == STATOR_ATOM_MAX;
    const uint32_t syms[2] = {row->a, row->b};
    parts operands = {.count = 0};
    for (uint32_t i = 0; i < 2; i++) {
        st_str text;
        st_str_init(&text, p->m->mem);
        st_text_print_sym(p, syms[i], &text);
        const uint32_t atom = lone_atom(p, syms[i]);
        add_part(p, &operands, 1, atom != 0 ? rank_of(p, atom) : UINT32_MAX, &text);
    }
    if (is_symmetric) {
        sort_parts(&operands);
    }
    if (operands.count == 2) {
        st_str_addf(out, "%s(", name);
        st_str_add(out, operands.list[0].text);
        st_str_add(out, ", ");
        st_str_add(out, operands.list[1].text);
        st_str_add(out, ")");
    }
    free_parts(p, &operands);
}

static void print_atom(st_sym_printer *p, uint32_t atom, st_str *out)
{
    static const char *const names[] = {[STATOR_ATOM_FLOORDIV] = "floordiv",
                                        [STATOR_ATOM_MOD] = "mod",
                                        [STATOR_ATOM_MIN] = "min",
                                        [STATOR_ATOM_MAX] = "max"};
    const stator_atom_row *row = st_atom_at(&p->m->symtab, atom);
    if (row->kind == STATOR_ATOM_SYMBOL) {
        p->failed |= !st_map_put(&p->used, (uint64_t)row->index + 1u, atom);
        print_symbol_name(p, row, out);
    } else if (row->kind == STATOR_ATOM_PRODUCT) {
        print_product(p, row, out);
    } else {
        print_function(p, row, names[row->kind], out);
    }
}

/* Appends " + text", " - 3*text" and the like; text NULL for the constant. */
static void print_term(int64_t coef, const char *text, bool is_first, st_str *out)
{
    const bool is_negative = coef < 0 && coef != INT64_MIN;
    const int64_t shown = is_negative && !is_first ? -coef : coef;
    st_str_add(out, is_first ? "" : is_negative ? " - " : " + ");
    if (text == NULL) {
        st_str_addf(out, "%" PRId64, shown);
    } else if (shown == 1 || shown == -1) {
        st_str_add(out, shown < 0 ? "-" : "");
        st_str_add(out, text);
    } else {
        st_str_addf(out, "%" PRId64 "*", shown);
        st_str_add(out, text);
    }
}

void st_text_print_sym(st_sym_printer *p, uint32_t sym, st_str *out)
{
    const stator_sym_row *row = st_sym_row_at(&p->m->symtab, sym);
    parts terms = {.count = 0};
    for (uint32_t k = 0; k < row->term_count && !p->failed; k++) {
        const stator_term_row *term = st_sym_term(&p->m->symtab, row, k);
        st_str text;
        st_str_init(&text, p->m->mem);
        print_atom(p, term->atom, &text);
        add_part(p, &terms, term->coef, rank_of(p, term->atom), &text);
    }
    sort_parts(&terms);
    for (uint32_t i = 0; i < terms.count; i++) {
        print_term(terms.list[i].coef, terms.list[i].text, i == 0, out);
    }
    if (row->constant != 0 || row->term_count == 0) {
        print_term(row->constant, NULL, row->term_count == 0, out);
    }
    free_parts(p, &terms);
    out->failed |= p->failed;
}

void st_text_print_type(st_sym_printer *p, uint32_t type, st_str *out)
{
    const stator_type_row *row = st_seg_at(&p->m->types, type);
    st_str_add(out, st_dtype_name(row->dtype));
    st_str_add(out, "[");
    for (uint32_t i = 0; i < row->rank; i++) {
        st_str_add(out, i ? ", " : "");
        st_text_print_sym(p, *(const uint32_t *)st_seg_at(&p->m->refs, row->dims_begin + i), out);
    }
    st_str_add(out, "]");
}

static void print_bound(int64_t bound, st_str *out)
{
    if (bound == INT64_MIN || bound == INT64_MAX) {
        st_str_add(out, bound < 0 ? "-inf" : "inf");
    } else {
        st_str_addf(out, "%" PRId64, bound);
    }
}

void st_text_print_symbols(const st_sym_printer *p, st_str *out)
{
    for (uint32_t i = 0; i < p->m->symtab.n_symbols; i++) {
        const uint32_t atom = st_map_get(&p->used, (uint64_t)i + 1u);
        if (atom == 0) {
            continue;
        }
        const stator_atom_row *row = st_atom_at(&p->m->symtab, atom);
        st_str_add(out, "sym ");
        print_symbol_name(p, row, out);
        st_str_add(out, row->flags & STATOR_ATOM_UNBACKED ? " unbacked in [" : " in [");
        print_bound(row->lo, out);
        st_str_add(out, ", ");
        print_bound(row->hi, out);
        st_str_add(out, "]");
        if (row->divisor > 1) {
            st_str_addf(out, " multiple of %" PRId64, row->divisor);
        }
        if (row->hint != INT64_MIN) {
            st_str_addf(out, " hint %" PRId64, row->hint);
        }
        st_str_add(out, "\n");
    }
}

/* ---- reading ---- */

static stator_status parse_bound(st_lexer *lex, int64_t *out)
{
    const st_lexer before = *lex;
    bool is_negative;
    ST_TRY(st_lex_accept(lex, '-', &is_negative));
    if (st_lex_is_word(lex, "inf")) {
        *out = is_negative ? INT64_MIN : INT64_MAX;
        return st_lex_next(lex);
    }
    *lex = before;
    return st_lex_i64(lex, "a bound: an integer, inf or -inf", out);
}

/* The id of the name at the current token. */
static stator_status parse_name(st_lexer *lex, st_module *m, uint32_t *out)
{
    st_str name;
    st_str_init(&name, m->mem);
    stator_status status = st_lex_string(lex, "the name of a size", true, &name);
    if (status == STATOR_OK) {
        *out = st_module_string(m, name.data, name.len);
        status = *out != 0  ? STATOR_OK
                 : name.len ? st_fail_oom(lex->err)
                            : st_lex_fail(lex, "the name of a size cannot be empty");
    }
    st_str_deinit(&name);
    return status;
}

typedef struct symbol_line {
    uint32_t name;
    bool is_unbacked;
    int64_t lo, hi, divisor, hint;
} symbol_line;

static stator_status parse_line(st_lexer *lex, st_module *m, symbol_line *out)
{
    bool found;
    *out = (symbol_line){.divisor = 1, .hint = INT64_MIN};
    ST_TRY(parse_name(lex, m, &out->name));
    ST_TRY(st_lex_accept_word(lex, "unbacked", &out->is_unbacked));
    ST_TRY(st_lex_expect_word(lex, "in"));
    ST_TRY(st_lex_expect(lex, '['));
    ST_TRY(parse_bound(lex, &out->lo));
    ST_TRY(st_lex_expect(lex, ','));
    ST_TRY(parse_bound(lex, &out->hi));
    ST_TRY(st_lex_expect(lex, ']'));
    ST_TRY(st_lex_accept_word(lex, "multiple", &found));
    if (found) {
        ST_TRY(st_lex_expect_word(lex, "of"));
        ST_TRY(st_lex_i64(lex, "a divisor", &out->divisor));
    }
    ST_TRY(st_lex_accept_word(lex, "hint", &found));
    return found ? st_lex_i64(lex, "a likely value", &out->hint) : STATOR_OK;
}

stator_status st_text_parse_symbol(st_lexer *lex, st_module *m)
{
    const uint64_t begin = lex->token.offset;
    const uint32_t before = m->symtab.n_symbols;
    symbol_line line;
    ST_TRY(parse_line(lex, m, &line));
    ST_LEX_FAIL_AT_IF(line.lo > line.hi || line.divisor < 1, lex, begin,
                      "the range of '%s' is empty or its divisor is below 1",
                      st_module_str(m, line.name));
    const uint32_t sym = st_sym_symbol(&m->symtab, line.name, line.lo, line.hi, line.divisor,
                                       line.is_unbacked ? 1u : 0u);
    ST_TRY_MEM(sym, lex->err);
    ST_LEX_FAIL_AT_IF(m->symtab.n_symbols == before, lex, begin, "the size '%s' is declared twice",
                      st_module_str(m, line.name));
    stator_atom_row *row = st_seg_at(&m->symtab.atoms, st_sym_as_symbol(&m->symtab, sym));
    row->hint = line.hint;
    return STATOR_OK;
}

typedef struct sym_parser {
    st_lexer *lex;
    st_module *m;
    uint32_t depth;
} sym_parser;

static stator_status parse_sum(sym_parser *p, uint32_t *out);

/* The engine says 0 for its limits and for no memory alike; one request tells them apart. */
static stator_status check_sym(const sym_parser *p, uint64_t at, uint32_t sym)
{
    if (sym != 0) {
        return STATOR_OK;
    }
    void *probe = st_alloc(p->m->mem, 1024, 1);
    ST_TRY_MEM(probe, p->lex->err);
    st_free(p->m->mem, probe);
    return st_lex_fail_at(p->lex, at,
                          "this size has more than %u terms, is nested deeper than %u, divides by "
                          "what may be 0, or leaves 64 bits",
                          ST_SYM_TERMS_MAX, ST_SYM_DEPTH_MAX);
}

typedef uint32_t (*sym_function)(st_symtab *tab, uint32_t a, uint32_t b);

static sym_function function_at(const st_lexer *lex)
{
    static const struct {
        const char *name;
        sym_function fn;
    } functions[] = {{"floordiv", st_sym_floordiv},
                     {"ceildiv", st_sym_ceildiv},
                     {"mod", st_sym_mod},
                     {"min", st_sym_min},
                     {"max", st_sym_max}};
    const uint64_t end = lex->pos;
    for (uint32_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (st_lex_is_word(lex, functions[i].name) && end < lex->len && lex->text[end] == '(') {
            return functions[i].fn;
        }
    }
    return NULL;
}

static stator_status parse_call(sym_parser *p, sym_function fn, uint32_t *out)
{
    const uint64_t at = p->lex->token.offset;
    uint32_t a = 0, b = 0;
    ST_TRY(st_lex_next(p->lex));
    ST_TRY(st_lex_expect(p->lex, '('));
    ST_TRY(parse_sum(p, &a));
    ST_TRY(st_lex_expect(p->lex, ','));
    ST_TRY(parse_sum(p, &b));
    ST_TRY(st_lex_expect(p->lex, ')'));
    *out = fn(&p->m->symtab, a, b);
    return check_sym(p, at, *out);
}

static stator_status parse_symbol_use(sym_parser *p, uint32_t *out)
{
    uint32_t name = 0;
    ST_TRY(parse_name(p->lex, p->m, &name));
    *out = st_sym_symbol(&p->m->symtab, name, 0, INT64_MAX, 1, 0);
    return *out != 0 ? STATOR_OK : st_fail_oom(p->lex->err);
}

static stator_status parse_number(sym_parser *p, bool is_negative, uint32_t *out)
{
    uint64_t magnitude = 0;
    ST_TRY(st_lex_u64(p->lex, "a size", (uint64_t)INT64_MAX + (uint64_t)is_negative, &magnitude));
    *out = st_sym_int(&p->m->symtab, is_negative ? (int64_t)(0u - magnitude) : (int64_t)magnitude);
    return *out != 0 ? STATOR_OK : st_fail_oom(p->lex->err);
}

static stator_status parse_factor(sym_parser *p, uint32_t *out)
{
    const uint64_t at = p->lex->token.offset;
    bool is_negative = false, found;
    ST_TRY(st_lex_accept(p->lex, '-', &is_negative));
    if (p->lex->token.kind == ST_TEXT_INT) {
        return parse_number(p, is_negative, out);
    }
    const sym_function fn = function_at(p->lex);
    ST_TRY(st_lex_accept(p->lex, '(', &found));
    if (found) {
        ST_TRY(parse_sum(p, out));
        ST_TRY(st_lex_expect(p->lex, ')'));
    } else {
        ST_TRY(fn ? parse_call(p, fn, out) : parse_symbol_use(p, out));
    }
    if (is_negative) {
        *out = st_sym_mul(&p->m->symtab, *out, st_sym_int(&p->m->symtab, -1));
    }
    return check_sym(p, at, *out);
}

static stator_status parse_term(sym_parser *p, uint32_t *out)
{
    const uint64_t at = p->lex->token.offset;
    ST_TRY(parse_factor(p, out));
    for (;;) {
        bool found;
        uint32_t factor = 0;
        ST_TRY(st_lex_accept(p->lex, '*', &found));
        if (!found) {
            return STATOR_OK;
        }
        ST_TRY(parse_factor(p, &factor));
        *out = st_sym_mul(&p->m->symtab, *out, factor);
        ST_TRY(check_sym(p, at, *out));
    }
}

static stator_status parse_sum(sym_parser *p, uint32_t *out)
{
    const uint64_t at = p->lex->token.offset;
    ST_LEX_FAIL_IF(++p->depth > DEPTH_MAX, p->lex, "a size nested deeper than %u", DEPTH_MAX);
    ST_TRY(parse_term(p, out));
    while (st_lex_is(p->lex, '+') || st_lex_is(p->lex, '-')) {
        const bool is_minus = st_lex_is(p->lex, '-');
        uint32_t term = 0;
        ST_TRY(st_lex_next(p->lex));
        ST_TRY(parse_term(p, &term));
        *out = is_minus ? st_sym_sub(&p->m->symtab, *out, term)
                        : st_sym_add(&p->m->symtab, *out, term);
        ST_TRY(check_sym(p, at, *out));
    }
    p->depth--;
    return STATOR_OK;
}

stator_status st_text_parse_sym(st_lexer *lex, st_module *m, uint32_t *out)
{
    sym_parser p = {.lex = lex, .m = m};
    return parse_sum(&p, out);
}

stator_status st_text_parse_type(st_lexer *lex, st_module *m, uint32_t *out)
{
    uint32_t dims[STATOR_RANK_MAX];
    uint32_t rank = 0;
    const uint32_t dtype =
        lex->token.kind == ST_TEXT_IDENT ? st_dtype_parse(lex->token.text, lex->token.len) : 0;
    ST_FAIL_BY_IF(st_lex_expected, dtype == 0, lex, "a type such as f32[2, N]");
    ST_TRY(st_lex_next(lex));
    ST_TRY(st_lex_expect(lex, '['));
    while (!st_lex_is(lex, ']')) {
        int64_t lo, hi;
        ST_LEX_FAIL_IF(rank == STATOR_RANK_MAX, lex, "a type has at most %d axes", STATOR_RANK_MAX);
        if (rank > 0) {
            ST_TRY(st_lex_expect(lex, ','));
        }
        const uint64_t at = lex->token.offset;
        ST_TRY(st_text_parse_sym(lex, m, &dims[rank]));
        st_sym_range(&m->symtab, dims[rank], &lo, &hi);
        ST_LEX_FAIL_AT_IF(hi < 0, lex, at, "the size of axis %u is negative", rank);
        rank++;
    }
    ST_TRY(st_lex_next(lex));
    *out = st_module_type(m, dtype, rank, dims);
    return *out != 0 ? STATOR_OK : st_fail_oom(lex->err);
}
