/* Prints a graph (docs/stir.md).
 *
 * In: a finished graph. Out: text that depends on the graph alone, not on the order in which its
 * module's pools were filled. The body is printed first, into a buffer of its own, because the
 * `sym` lines in front of it name exactly the symbols that the body uses. */
#include "ir/text/text.h"

#include "core/base/check.h"
#include "ir/text/text_data.h"
#include "ir/text/text_literal.h"
#include "ir/text/text_sym.h"

#include <inttypes.h>
#include <string.h>

#define INLINE_INPUTS 4u /* a region with more inputs has one a line */

typedef struct printer {
    const st_module *m;
    const st_print_options *options;
    st_sym_printer syms;
    st_str *out;
    stator_diag **err;
} printer;

/* One graph while it is printed. */
typedef struct scope {
    const stator_graph_view *v;
    st_map owners; /* name -> the first value that has it */
    uint32_t indent;
    bool is_root;
} scope;

static stator_status print_graph(printer *p, const stator_graph *graph, uint32_t indent);

static void new_line(printer *p, uint32_t indent)
{
    st_str_addf(p->out, "\n%*s", (int)(indent * 2u), "");
}

/* ---- values ---- */

static bool collect_names(const printer *p, scope *s)
{
    st_map_init(&s->owners, p->m->mem);
    for (uint32_t i = 1; i <= s->v->n_values; i++) {
        const uint32_t name = stator_value_at(s->v, i)->name;
        if (name != 0 && st_map_get(&s->owners, name) == 0 && !st_map_put(&s->owners, name, i)) {
            return false;
        }
    }
    return true;
}

static bool is_label(const scope *s, stator_ref value)
{
    const uint32_t name = stator_value_at(s->v, value)->name;
    return name != 0 && st_map_get(&s->owners, name) == value &&
           st_is_ident(stator_string_at(s->v, name));
}

static void print_value(printer *p, const scope *s, stator_ref value)
{
    if (value == 0) {
        st_str_add(p->out, "_");
    } else if (is_label(s, value)) {
        st_str_add(p->out, "%");
        st_str_add(p->out, stator_string_at(s->v, stator_value_at(s->v, value)->name));
    } else {
        st_str_addf(p->out, "%%%u", value);
    }
}

static void print_definition(printer *p, const scope *s, stator_ref value)
{
    const uint32_t name = stator_value_at(s->v, value)->name;
    print_value(p, s, value);
    if (name != 0 && !is_label(s, value)) {
        st_str_add(p->out, " ");
        st_print_quoted(p->out, stator_string_at(s->v, name));
    }
}

/* Type and witness. In the root graph a value is its own witness unless something else is written,
 * in a region it has none. */
static void print_value_type(printer *p, const scope *s, stator_ref value)
{
    const stator_value_row *row = stator_value_at(s->v, value);
    st_text_print_type(&p->syms, row->type, p->out);
    if (row->witness != (s->is_root ? value : 0)) {
        st_str_addf(p->out, " ^%u", row->witness);
    }
}

/* ---- attributes ---- */

static bool is_default_list(const scope *s, const stator_attr_desc *schema,
                            const stator_attr_row *row)
{
    double list[64];
    uint32_t n = 0;
    if (schema->s != NULL && !st_attr_default_list(schema, list, 64, &n)) {
        return false;
    }
    if (n != row->count) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        int64_t value = 0;
        double f = 0;
        if (row->kind == STATOR_ATTR_FLOATS) {
            f = *(const double *)stator_column_at(&s->v->f64s, row->begin + i);
            if (memcmp(&f, &list[i], sizeof f) != 0) {
                return false;
            }
            continue;
        }
        if (row->kind == STATOR_ATTR_INTS) {
            value = stator_attr_int_at(s->v, row, i);
        } else if (!stator_sym_is_const(s->v, stator_ref_at(s->v, row->begin + i), &value)) {
            return false;
        }
        if (value != (int64_t)list[i]) {
            return false;
        }
    }
    return true;
}

bool st_attr_is_default(const stator_graph_view *v, const stator_attr_desc *schema,
                        const stator_attr_row *row)
{
    const scope s = {.v = v};
    if (row->kind == STATOR_ATTR_NONE) {
        return true; /* absent */
    }
    if (schema->is_required || schema->kind == STATOR_ATTR_BLOB ||
        st_attr_default_is_absent(schema)) {
        return false;
    }
    switch (row->kind) {
    case STATOR_ATTR_INT:
    case STATOR_ATTR_DTYPE:
        return row->i == schema->i;
    case STATOR_ATTR_FLOAT:
        return memcmp(&row->f, &schema->f, sizeof row->f) == 0;
    case STATOR_ATTR_STRING:
        return strcmp(stator_string_at(v, row->begin), schema->s ? schema->s : "") == 0;
    default:
        return is_default_list(&s, schema, row);
    }
}

static void print_list(printer *p, const scope *s, const stator_attr_row *row)
{
    st_str_add(p->out, "[");
    for (uint32_t i = 0; i < row->count; i++) {
        const uint32_t at = row->begin + i;
        st_str_add(p->out, i ? ", " : "");
        if (row->kind == STATOR_ATTR_INTS) {
            st_str_addf(p->out, "%" PRId64, *(const int64_t *)stator_column_at(&s->v->i64s, at));
        } else if (row->kind == STATOR_ATTR_FLOATS) {
            st_literal_print_f64(p->out, *(const double *)stator_column_at(&s->v->f64s, at));
        } else {
            st_text_print_sym(&p->syms, stator_ref_at(s->v, at), p->out);
        }
    }
    st_str_add(p->out, "]");
}

static stator_status print_attr(printer *p, const scope *s, const stator_attr_row *row)
{
    switch (row->kind) {
    case STATOR_ATTR_INT:
        st_str_addf(p->out, "%" PRId64, row->i);
        return STATOR_OK;
    case STATOR_ATTR_FLOAT:
        st_literal_print_f64(p->out, row->f);
        return STATOR_OK;
    case STATOR_ATTR_STRING:
        st_print_quoted(p->out, stator_string_at(s->v, row->begin));
        return STATOR_OK;
    case STATOR_ATTR_DTYPE:
        st_str_add(p->out, st_dtype_name((uint32_t)row->i));
        return STATOR_OK;
    case STATOR_ATTR_BLOB:
        st_text_print_type(&p->syms, (stator_ref)row->i, p->out);
        st_str_add(p->out, " ");
        return st_text_print_data(p->m, p->options, (stator_ref)row->i,
                                  st_module_blob_at(p->m, row->begin), p->out, p->err);
    default:
        print_list(p, s, row);
        return STATOR_OK;
    }
}

static stator_status print_attrs(printer *p, const scope *s, const stator_node_row *node)
{
    const stator_op_desc *op = stator_op_at(s->v, node->op);
    uint32_t printed = 0;
    for (uint32_t k = 0; k < node->attr_count && k < op->attr_count; k++) {
        const stator_attr_row *row = stator_attr_at(s->v, node, k);
        if (st_attr_is_default(s->v, &op->attrs[k], row)) {
            continue;
        }
        st_str_add(p->out, printed++ ? ", " : " {");
        st_print_name(p->out, op->attrs[k].name);
        st_str_add(p->out, " = ");
        ST_TRY(print_attr(p, s, row));
    }
    st_str_add(p->out, printed ? "}" : "");
    return STATOR_OK;
}

/* ---- nodes ---- */

static void print_origins(printer *p, const scope *s, uint32_t origin)
{
    while (origin != 0) {
        const stator_origin_row *row = stator_origin_at(s->v, origin);
        st_str_add(p->out, " @");
        st_print_quoted(p->out, stator_string_at(s->v, row->name));
        if (row->kind != 0) {
            st_str_add(p->out, ":");
            st_print_name(p->out, stator_string_at(s->v, row->kind));
        }
        if (row->file != 0 || row->line != 0) {
            st_str_add(p->out, " in ");
            st_print_quoted(p->out, stator_string_at(s->v, row->file));
        }
        if (row->line != 0) {
            st_str_addf(p->out, ":%u", row->line);
        }
        origin = row->next;
    }
}

static void print_results(printer *p, const scope *s, const stator_node_row *node)
{
    for (uint32_t k = 0; k < node->result_count; k++) {
        st_str_add(p->out, k ? ", " : "");
        print_definition(p, s, node->result_begin + k);
    }
    st_str_add(p->out, node->result_count ? " = " : "");
}

static void print_operands(printer *p, const scope *s, const stator_node_row *node)
{
    for (uint32_t k = 0; k < node->operand_count; k++) {
        st_str_add(p->out, k ? ", " : "(");
        print_value(p, s, stator_operand(s->v, node, k));
    }
    st_str_add(p->out, node->operand_count ? ")" : "");
}

static stator_status print_node(printer *p, const scope *s, const stator_node_row *node)
{
    const stator_op_desc *op = stator_op_at(s->v, node->op);
    print_results(p, s, node);
    st_print_name(p->out, op->name);
    if (op->version > 1) {
        st_str_addf(p->out, "@%u", op->version);
    }
    print_operands(p, s, node);
    ST_TRY(print_attrs(p, s, node));
    for (uint32_t k = 0; k < node->result_count; k++) {
        st_str_add(p->out, k ? ", " : " : ");
        print_value_type(p, s, node->result_begin + k);
    }
    print_origins(p, s, node->origin);
    for (uint32_t k = 0; k < node->region_count; k++) {
        new_line(p, s->indent + 2u);
        st_str_add(p->out, "region ");
        ST_TRY(print_graph(p, stator_region_at(s->v, node, k), s->indent + 2u));
    }
    return STATOR_OK;
}

/* ---- graphs ---- */

static stator_status print_input(printer *p, const scope *s, stator_ref value)
{
    const stator_value_row *row = stator_value_at(s->v, value);
    st_str_add(p->out, row->flags & STATOR_VALUE_PARAM ? "param " : "");
    print_definition(p, s, value);
    st_str_add(p->out, ": ");
    print_value_type(p, s, value);
    if (row->blob == 0) {
        return STATOR_OK;
    }
    st_str_add(p->out, " = ");
    return st_text_print_data(p->m, p->options, row->type, st_module_blob_at(p->m, row->blob),
                              p->out, p->err);
}

static stator_status print_inputs(printer *p, const scope *s)
{
    const bool is_long = s->v->n_inputs > (s->is_root ? 0 : INLINE_INPUTS);
    st_str_add(p->out, "(");
    for (uint32_t i = 1; i <= s->v->n_inputs; i++) {
        if (is_long) {
            st_str_add(p->out, i > 1 ? "," : "");
            new_line(p, s->indent + 1u);
        } else {
            st_str_add(p->out, i > 1 ? ", " : "");
        }
        ST_TRY(print_input(p, s, i));
    }
    if (is_long) {
        new_line(p, s->indent);
    }
    st_str_add(p->out, ")");
    return STATOR_OK;
}

static void print_return(printer *p, const scope *s)
{
    for (uint32_t i = 0; i < s->v->n_write_backs; i++) {
        const stator_write_back_row *row = stator_write_back_at(s->v, i);
        new_line(p, s->indent + 1u);
        st_str_add(p->out, "write ");
        print_value(p, s, row->input);
        st_str_add(p->out, " = ");
        print_value(p, s, row->value);
    }
    new_line(p, s->indent + 1u);
    st_str_add(p->out, "return");
    for (uint32_t i = 0; i < s->v->n_outputs; i++) {
        const uint32_t name = stator_ref_at(s->v, s->v->output_name_begin + i);
        st_str_add(p->out, i ? ", " : " ");
        if (name != 0) {
            st_print_name(p->out, stator_string_at(s->v, name));
            st_str_add(p->out, ": ");
        }
        print_value(p, s, stator_output_at(s->v, i));
    }
}

static stator_status print_body(printer *p, const scope *s)
{
    if (s->v->name != 0) {
        st_str_add(p->out, "@");
        st_print_name(p->out, stator_string_at(s->v, s->v->name));
    }
    ST_TRY(print_inputs(p, s));
    st_str_add(p->out, " {");
    for (uint32_t i = 1; i <= s->v->n_nodes; i++) {
        new_line(p, s->indent + 1u);
        ST_TRY(print_node(p, s, stator_node_at(s->v, i)));
    }
    print_return(p, s);
    new_line(p, s->indent);
    st_str_add(p->out, "}");
    return STATOR_OK;
}

static stator_status print_graph(printer *p, const stator_graph *graph, uint32_t indent)
{
    scope s = {.v = st_graph_view(graph), .indent = indent, .is_root = indent == 0};
    const stator_status status = collect_names(p, &s) ? print_body(p, &s) : st_fail_oom(p->err);
    st_map_deinit(&s.owners);
    return status;
}

stator_status st_print_graph(const stator_graph *graph, const st_print_options *options,
                             st_str *out, stator_diag **err)
{
    const st_c_locale locale = st_c_locale_enter();
    st_str body;
    st_str_init(&body, graph->module->mem);
    printer p = {.m = graph->module, .options = options, .out = &body, .err = err};
    st_sym_printer_init(&p.syms, p.m);
    stator_status status = print_graph(&p, graph, 0);
    if (status == STATOR_OK) {
        st_str_add(out, "stir 1\n");
        st_text_print_symbols(&p.syms, out);
        st_str_add(out, "graph ");
        st_str_addn(out, body.data ? body.data : "", body.len);
        st_str_add(out, "\n");
        status = st_str_ok(&body) && st_str_ok(out) ? STATOR_OK : st_fail_oom(err);
    }
    st_sym_printer_deinit(&p.syms);
    st_str_deinit(&body);
    st_c_locale_leave(locale);
    return status;
}
