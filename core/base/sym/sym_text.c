/* Text of syms: "2*N + floordiv(H, 2) - 1". Names that are no identifiers, or are function
 * names, are quoted, with \" and \\ as escapes; "$7" is the unnamed symbol of index 7. The
 * grammar stands in tests/unit/support_sym_parse.c, which reads what is printed here. */
#include "core/base/sym/sym_lin.h"

#include <inttypes.h>
#include <string.h>

typedef struct function {
    const char *name;
    uint32_t kind; /* stator_atom_kind; 0: ceildiv, which is no atom */
} function;

static const function functions[] = {
    {"floordiv", STATOR_ATOM_FLOORDIV}, {"mod", STATOR_ATOM_MOD}, {"min", STATOR_ATOM_MIN},
    {"max", STATOR_ATOM_MAX},           {"ceildiv", 0},
};
#define FUNCTION_COUNT (sizeof functions / sizeof functions[0])

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool is_name_start(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_name_char(char c)
{
    return is_name_start(c) || is_digit(c) || c == '.';
}

static bool is_function_name(const char *name)
{
    size_t i = 0;
    while (i < FUNCTION_COUNT && strcmp(functions[i].name, name) != 0) {
        i++;
    }
    return i < FUNCTION_COUNT;
}

/* ---- printing ---- */

typedef struct printer {
    const st_symtab *tab;
    const char *(*name_of)(void *self, uint32_t name);
    void *self;
    st_str *out;
} printer;

static bool is_plain(const char *name)
{
    uint64_t n = 0;
    if (!is_name_start(name[0])) {
        return false;
    }
    while (is_name_char(name[n])) {
        n++;
    }
    return name[n] == '\0' && !is_function_name(name);
}

/* A symbol that was parsed from "$7" may keep that text as its name. */
static bool is_dollar(const char *name)
{
    return name[0] == '$' && name[1] != '\0' && strspn(name + 1, "0123456789") == strlen(name + 1);
}

static void print_name(const printer *p, const stator_atom_row *row)
{
    const char *name = row->name != 0 ? p->name_of(p->self, row->name) : "";
    if (row->name == 0) {
        st_str_addf(p->out, "$%" PRIu32, row->index);
    } else if (is_plain(name) || is_dollar(name)) {
        st_str_add(p->out, name);
    } else {
        st_str_add(p->out, "\"");
        for (const char *c = name; *c != '\0'; c++) {
            if (*c == '"' || *c == '\\') {
                st_str_add(p->out, "\\");
            }
            st_str_addn(p->out, c, 1);
        }
        st_str_add(p->out, "\"");
    }
}

static void print_sum(const printer *p, uint32_t sym);

static void print_atom(const printer *p, uint32_t atom)
{
    const stator_atom_row *row = st_atom_at(p->tab, atom);
    if (row->kind == STATOR_ATOM_SYMBOL) {
        print_name(p, row);
        return;
    }
    if (row->kind == STATOR_ATOM_PRODUCT) { /* factors are single atoms */
        print_sum(p, row->a);
        st_str_add(p->out, "*");
        print_sum(p, row->b);
        return;
    }
    for (size_t i = 0; i < FUNCTION_COUNT; i++) {
        if (functions[i].kind == row->kind) {
            st_str_add(p->out, functions[i].name);
        }
    }
    st_str_add(p->out, "(");
    print_sum(p, row->a);
    st_str_add(p->out, ", ");
    print_sum(p, row->b);
    st_str_add(p->out, ")");
}

static void print_sum(const printer *p, uint32_t sym)
{
    const stator_sym_row *row = st_sym_row_at(p->tab, sym);
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *t = st_sym_term(p->tab, row, i);
        const uint64_t k = st_abs_u64(t->coef);
        st_str_add(p->out, i == 0 ? (t->coef < 0 ? "-" : "") : t->coef < 0 ? " - " : " + ");
        if (k != 1) {
            st_str_addf(p->out, "%" PRIu64 "*", k);
        }
        print_atom(p, t->atom);
    }
    if (row->term_count == 0) {
        st_str_addf(p->out, "%" PRId64, row->constant);
    } else if (row->constant != 0) {
        st_str_addf(p->out, " %c %" PRIu64, row->constant < 0 ? '-' : '+',
                    st_abs_u64(row->constant));
    }
}

void st_sym_print(const st_symtab *tab, uint32_t sym,
                  const char *(*name_of)(void *self, uint32_t name), void *self, st_str *out)
{
    const printer p = {tab, name_of, self, out};
    if (sym == 0) {
        st_str_add(out, "?");
    } else {
        print_sum(&p, sym);
    }
}
