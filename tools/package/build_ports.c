/* The outside of a graph that becomes a package: names, element types, sizes. See build.h. */
#include "tools/package/build.h"

#include "core/base/check.h"
#include "core/base/sym/sym.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- sizes ---- */

static const stator_atom_row *term_at(const stator_graph_view *v, const stator_sym_row *row,
                                      uint32_t i, int64_t *out_coef)
{
    const stator_term_row *term = stator_term_at(v, row, i);
    *out_coef = term->coef;
    return stator_atom_at(v, term->atom);
}

static bool is_unknown(const void *self, const stator_atom_row *row, uint32_t atom)
{
    const build_ports *ports = self;
    (void)atom;
    return row->kind == STATOR_ATOM_SYMBOL && ports->symbols[row->index] == NULL;
}

/* The first symbol that no input binds; NULL: there is none. */
static const stator_atom_row *unknown_symbol(const build_ports *ports, stator_ref sym)
{
    const st_sym_cols cols = st_sym_view_columns(ports->v);
    const uint32_t atom = st_sym_find_in(&cols, sym, is_unknown, ports);
    return atom != 0 ? stator_atom_at(ports->v, atom) : NULL;
}

/* One of name(a, b) with what two syms are written by. */
static void put_pair(const stator_graph_view *v, const stator_atom_row *atom, const char *name,
                     void (*put)(const stator_graph_view *v, stator_ref sym, st_str *out),
                     st_str *out)
{
    st_str_addf(out, "%s(", name);
    put(v, atom->a, out);
    st_str_add(out, ", ");
    put(v, atom->b, out);
    st_str_add(out, ")");
}

static const char *atom_name(uint32_t kind)
{
    switch (kind) {
    case STATOR_ATOM_FLOORDIV:
        return "floordiv";
    case STATOR_ATOM_MOD:
        return "mod";
    case STATOR_ATOM_MIN:
        return "min";
    case STATOR_ATOM_MAX:
        return "max";
    default:
        return "mul";
    }
}

void build_sym_text(const stator_graph_view *v, stator_ref sym, st_str *out)
{
    const stator_sym_row *row = stator_sym_at(v, sym);
    for (uint32_t i = 0; i < row->term_count; i++) {
        int64_t coef = 0;
        const stator_atom_row *atom = term_at(v, row, i, &coef);
        st_str_add(out, i > 0 ? " + " : "");
        if (coef != 1) {
            st_str_addf(out, "%" PRId64 "*", coef);
        }
        if (atom->kind == STATOR_ATOM_SYMBOL) {
            st_str_add(out, stator_string_at(v, atom->name));
        } else {
            put_pair(v, atom, atom_name(atom->kind), build_sym_text, out);
        }
    }
    if (row->constant != 0 || row->term_count == 0) {
        st_str_addf(out, "%s%" PRId64, row->term_count > 0 ? " + " : "", row->constant);
    }
}

/* INT64_MIN has no literal. */
static void put_number(int64_t value, st_str *out)
{
    if (value == INT64_MIN) {
        st_str_add(out, "INT64_MIN");
    } else {
        st_str_addf(out, "%" PRId64, value);
    }
}

static void put_atom(const stator_graph_view *v, const stator_atom_row *atom, st_str *out)
{
    static const char *const functions[] = {[STATOR_ATOM_FLOORDIV] = "size_floordiv",
                                            [STATOR_ATOM_MOD] = "size_mod",
                                            [STATOR_ATOM_PRODUCT] = "size_mul",
                                            [STATOR_ATOM_MIN] = "size_min",
                                            [STATOR_ATOM_MAX] = "size_max"};
    if (atom->kind == STATOR_ATOM_SYMBOL) {
        st_str_addf(out, "s[%u]", atom->index);
        return;
    }
    st_str_addf(out, "%s(&ok, ", functions[atom->kind]);
    build_sym_code(v, atom->a, out);
    st_str_add(out, ", ");
    build_sym_code(v, atom->b, out);
    st_str_add(out, ")");
}

void build_sym_code(const stator_graph_view *v, stator_ref sym, st_str *out)
{
    const stator_sym_row *row = stator_sym_at(v, sym);
    const bool has_constant = row->constant != 0 || row->term_count == 0;
    const uint32_t n = row->term_count + (has_constant ? 1u : 0u);
    for (uint32_t i = 1; i < n; i++) {
        st_str_add(out, "size_add(&ok, ");
    }
    for (uint32_t i = 0; i < row->term_count; i++) {
        int64_t coef = 0;
        const stator_atom_row *atom = term_at(v, row, i, &coef);
        st_str_add(out, i > 0 ? ", " : "");
        st_str_add(out, coef != 1 ? "size_mul(&ok, " : "");
        put_atom(v, atom, out);
        if (coef != 1) {
            st_str_add(out, ", ");
            put_number(coef, out);
            st_str_add(out, ")");
        }
        st_str_add(out, i > 0 ? ")" : "");
    }
    if (has_constant) {
        st_str_add(out, row->term_count > 0 ? ", " : "");
        put_number(row->constant, out);
        st_str_add(out, row->term_count > 0 ? ")" : "");
    }
}

/* ---- ports ---- */

static const char *c_type_of(uint32_t dtype)
{
    switch (dtype) {
    case STATOR_I8:
        return "int8_t";
    case STATOR_I16:
        return "int16_t";
    case STATOR_I32:
        return "int32_t";
    case STATOR_I64:
        return "int64_t";
    case STATOR_U32:
        return "uint32_t";
    case STATOR_U64:
        return "uint64_t";
    case STATOR_F32:
        return "float";
    case STATOR_F64:
        return "double";
    case STATOR_U16:
    case STATOR_BF16:
    case STATOR_F16:
        return "uint16_t";
    case STATOR_BOOL:
    case STATOR_U8:
    case STATOR_F8E4M3FN:
    case STATOR_F8E5M2:
        return "uint8_t";
    default:
        return NULL; /* no backend that makes packages has them */
    }
}

static bool fill_port(const build_ports *ports, stator_ref value, const char *name,
                      const char *what, build_port *out, int json)
{
    const stator_type_row *type = stator_value_type(ports->v, value);
    out->name = name;
    out->dtype = st_dtype_name(type->dtype);
    out->c_type = c_type_of(type->dtype);
    out->bytes = st_element_bytes(type->dtype);
    out->rank = type->rank;
    if (out->c_type == NULL) {
        return cli_fail(json, "UNSUPPORTED", NULL,
                        "%s '%s' has the element type %s, which C has no "
                        "type for",
                        what, name, out->dtype) == CLI_OK;
    }
    for (uint32_t a = 0; a < type->rank; a++) {
        out->dims[a] = stator_dim_at(ports->v, type, a);
    }
    return true;
}

static void name_ports(build_port *list, uint32_t n, const char *what, build_name *ids)
{
    for (uint32_t i = 0; i < n; i++) {
        char number[32];
        (void)snprintf(number, sizeof number, "%s%u", what, i);
        build_unique(list[i].name[0] != '\0' ? list[i].name : number, (const build_name *)ids, i,
                     ids[i]);
        memcpy(list[i].id, ids[i], sizeof list[i].id);
    }
}

/* Every symbol must be bound by an input's size: a size that stands alone. */
static bool check_symbols(build_ports *ports, int json)
{
    const stator_graph_view *v = ports->v;
    const stator_atom_row *unknown = NULL;
    for (uint32_t i = 0; i < ports->n_in; i++) {
        for (uint32_t a = 0; a < ports->in[i].rank; a++) {
            const stator_atom_row *lone = stator_sym_as_symbol(v, ports->in[i].dims[a]);
            if (lone != NULL) {
                ports->symbols[lone->index] = lone;
            }
        }
    }
    for (uint32_t i = 0; i < ports->n_in + ports->n_out; i++) {
        const build_port *port = i < ports->n_in ? &ports->in[i] : &ports->out[i - ports->n_in];
        for (uint32_t a = 0; unknown == NULL && a < port->rank; a++) {
            unknown = unknown_symbol(ports, port->dims[a]);
        }
        if (unknown != NULL) {
            const char *what = i < ports->n_in ? "input" : "output";
            if ((unknown->flags & STATOR_ATOM_UNBACKED) != 0) {
                (void)cli_fail(json, "UNSUPPORTED", NULL,
                               "%s '%s' has a size that is read from data, and a package's callers "
                               "must know sizes before",
                               what, port->name);
            } else {
                (void)cli_fail(json, "UNSUPPORTED", "state its size with --dim",
                               "%s '%s' has a size with the symbol '%s', which no input binds",
                               what, port->name, stator_string_at(v, unknown->name));
            }
            return false;
        }
    }
    return true;
}

static bool fill_ports(build_ports *ports, int json)
{
    const stator_graph_view *v = ports->v;
    for (uint32_t i = 0; i < v->n_inputs; i++) {
        const char *name = stator_string_at(v, stator_value_at(v, i + 1u)->name);
        ST_NEED(fill_port(ports, i + 1u, name, "input", &ports->in[i], json));
        ports->n_in = i + 1u;
    }
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        const char *name = stator_string_at(v, stator_ref_at(v, v->output_name_begin + k));
        ST_NEED(fill_port(ports, stator_output_at(v, k), name, "output", &ports->out[k], json));
        ports->n_out = k + 1u;
    }
    return true;
}

bool build_ports_init(build_ports *ports, const stator_host *host, const stator_graph *graph,
                      int json)
{
    const stator_graph_view *v = host->ir->view(graph);
    const uint32_t n = v->n_inputs > v->n_outputs ? v->n_inputs : v->n_outputs;
    *ports = (build_ports){.v = v};
    ports->in = calloc(v->n_inputs + 1u, sizeof *ports->in);
    ports->out = calloc(v->n_outputs + 1u, sizeof *ports->out);
    ports->symbols = calloc(v->n_symbols + 1u, sizeof *ports->symbols);
    build_name *ids = calloc(n + 1u, sizeof *ids);
    if (ports->in == NULL || ports->out == NULL || ports->symbols == NULL || ids == NULL) {
        free(ids);
        return cli_fail(json, "RESOURCE_EXHAUSTED", NULL, "out of memory") == CLI_OK;
    }
    const bool is_filled = fill_ports(ports, json);
    if (is_filled) {
        name_ports(ports->in, ports->n_in, "input", ids);
        name_ports(ports->out, ports->n_out, "output", ids);
    }
    free(ids);
    return is_filled && check_symbols(ports, json);
}

void build_ports_deinit(build_ports *ports)
{
    free(ports->in);
    free(ports->out);
    free(ports->symbols);
    *ports = (build_ports){.v = NULL};
}
