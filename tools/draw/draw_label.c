/* What stands in the boxes of a picture: op, imported name, and in small letters the operands that
 * are parameters or constants and the attributes that tell something. See draw.h. */
#include "tools/draw/draw.h"

#include "core/base/check.h"
#include "core/base/convert.h"

#include <inttypes.h>
#include <string.h>

#define NAME_CHARS 44u
#define TEXT_CHARS 60u
#define LIST_SHOWN 6u
#define CONSTANT_SHOWN 4u

/* ---- kinds ---- */

static const struct {
    const char *name;
    const char *colour; /* pale, so that black letters read well */
} kinds[DRAW_KIND_COUNT] = {[DRAW_CONTRACT] = {"matmul, convolution", "#a9cdf0"},
                            [DRAW_POINTWISE] = {"pointwise", "#c3e3b2"},
                            [DRAW_REDUCE] = {"reduction", "#fbd5a5"},
                            [DRAW_VIEW] = {"view", "#e4e4e4"},
                            [DRAW_COMPOSITE] = {"composite", "#dcc6ec"},
                            [DRAW_CONTROL] = {"control flow", "#ffe58a"},
                            [DRAW_RANDOM] = {"random or effect", "#f4b6b6"},
                            [DRAW_SOURCE] = {"source", "#f7f0dc"},
                            [DRAW_OTHER] = {"movement, order, other", "#bfe3e0"}};

uint32_t draw_kind_of(const stator_op_desc *op)
{
    static const struct {
        uint64_t flags;
        uint32_t kind;
    } rows[] = {{STATOR_OP_REGIONS, DRAW_CONTROL},
                {STATOR_OP_RANDOM | STATOR_OP_EFFECT | STATOR_OP_WRITES, DRAW_RANDOM},
                {STATOR_OP_CONTRACTS, DRAW_CONTRACT},
                {STATOR_OP_POINTWISE, DRAW_POINTWISE},
                {STATOR_OP_REDUCES, DRAW_REDUCE},
                {STATOR_OP_VIEW, DRAW_VIEW},
                {STATOR_OP_COMPOSITE, DRAW_COMPOSITE}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if ((op->flags & rows[i].flags) != 0) {
            return rows[i].kind;
        }
    }
    return op->operand_max == 0 ? DRAW_SOURCE : DRAW_OTHER;
}

const char *draw_colour(uint32_t kind)
{
    return kinds[kind].colour;
}

const char *draw_kind_name(uint32_t kind)
{
    return kinds[kind].name;
}

/* ---- text ---- */

void draw_escape(st_str *out, const char *text, uint32_t max_chars)
{
    const size_t len = strlen(text);
    if (len > max_chars) {
        st_str_add(out, "...");
        text += len - max_chars + 3u;
        while (((unsigned char)*text & 0xc0u) == 0x80u) {
            text++; /* not in the middle of a UTF-8 character */
        }
    }
    for (; *text != '\0'; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c == '<' || c == '>' || c == '&' || c == '"' || c == '\\') {
            st_str_addf(out, "&#%u;", c);
        } else {
            st_str_addn(out, c < ' ' ? " " : text, 1);
        }
    }
}

/* ---- sizes and types ---- */

static void add_sym(st_str *out, const stator_graph_view *v, stator_ref sym);

static void add_atom(st_str *out, const stator_graph_view *v, uint32_t atom)
{
    static const char *const functions[] = {[STATOR_ATOM_FLOORDIV] = "floordiv",
                                            [STATOR_ATOM_MOD] = "mod",
                                            [STATOR_ATOM_MIN] = "min",
                                            [STATOR_ATOM_MAX] = "max"};
    const stator_atom_row *row = stator_atom_at(v, atom);
    if (row->kind == STATOR_ATOM_SYMBOL && row->name != 0) {
        draw_escape(out, stator_string_at(v, row->name), NAME_CHARS);
    } else if (row->kind == STATOR_ATOM_SYMBOL) {
        st_str_addf(out, "?%u", row->index); /* known only while the program runs */
    } else if (row->kind == STATOR_ATOM_PRODUCT) {
        st_str_add(out, "(");
        add_sym(out, v, row->a);
        st_str_add(out, ")*(");
        add_sym(out, v, row->b);
        st_str_add(out, ")");
    } else {
        st_str_addf(out, "%s(", functions[row->kind]);
        add_sym(out, v, row->a);
        st_str_add(out, ", ");
        add_sym(out, v, row->b);
        st_str_add(out, ")");
    }
}

static void add_sym(st_str *out, const stator_graph_view *v, stator_ref sym)
{
    const stator_sym_row *row = stator_sym_at(v, sym);
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *term = stator_term_at(v, row, i);
        if (i > 0) {
            st_str_add(out, " + ");
        }
        if (term->coef == -1) {
            st_str_add(out, "-");
        } else if (term->coef != 1) {
            st_str_addf(out, "%" PRId64 "*", term->coef);
        }
        add_atom(out, v, term->atom);
    }
    if (row->term_count == 0) {
        st_str_addf(out, "%" PRId64, row->constant);
    } else if (row->constant != 0) {
        st_str_addf(out, " %c %" PRIu64, row->constant < 0 ? '-' : '+',
                    row->constant < 0 ? 0u - (uint64_t)row->constant : (uint64_t)row->constant);
    }
}

void draw_type(st_str *out, const stator_graph_view *view, stator_ref type)
{
    const stator_type_row *row = stator_type_at(view, type);
    st_str_addf(out, "%s[", st_dtype_name(row->dtype));
    for (uint32_t axis = 0; axis < row->rank; axis++) {
        if (axis > 0) {
            st_str_add(out, ", ");
        }
        add_sym(out, view, stator_dim_at(view, row, axis));
    }
    st_str_add(out, "]");
}

/* ---- small lines ---- */

static void begin_line(st_str *out)
{
    st_str_add(out, "<BR/><FONT POINT-SIZE=\"8\" COLOR=\"#4d4d4d\">");
}

static void end_line(st_str *out)
{
    st_str_add(out, "</FONT>");
}

static const stator_node_row *constant_node(const draw_context *d, stator_ref value)
{
    const stator_value_row *row = stator_value_at(d->view, value);
    const stator_node_row *node = row->node != 0 ? stator_node_at(d->view, row->node) : NULL;
    const bool is_constant =
        node != NULL && (stator_op_at(d->view, node->op)->flags & STATOR_OP_CONSTANT) != 0;
    return is_constant ? node : NULL;
}

bool draw_is_folded(const draw_context *d, stator_ref value)
{
    return (stator_value_at(d->view, value)->flags & STATOR_VALUE_PARAM) != 0 ||
           constant_node(d, value) != NULL;
}

/* The elements of a small constant; its type when it is large or cannot be read. */
static void add_constant(st_str *out, const draw_context *d, stator_ref value)
{
    const stator_type_row *type = stator_value_type(d->view, value);
    stator_blob *blob = d->host->cst->of_value(d->graph, value);
    stator_blob_info info = {.struct_size = sizeof info};
    stator_diag *diag = NULL;
    int64_t count = 1;
    for (uint32_t axis = 0; axis < type->rank; axis++) {
        int64_t size = 0;
        (void)stator_sym_is_const(d->view, stator_dim_at(d->view, type, axis), &size);
        count = size >= 0 && size <= CONSTANT_SHOWN ? count * size : CONSTANT_SHOWN + 1;
    }
    if (blob == NULL || count > CONSTANT_SHOWN ||
        st_dtype_class(type->dtype) == STATOR_CLASS_COMPLEX ||
        d->host->cst->get(blob, &info, &diag) != STATOR_OK) {
        d->host->diag->release(diag);
        draw_type(out, d->view, stator_value_at(d->view, value)->type);
        return;
    }
    st_str_add(out, type->rank > 0 ? "{" : "");
    for (int64_t i = 0; i < count; i++) {
        st_str_addf(out, "%s%.6g", i > 0 ? ", " : "", st_load_f64(type->dtype, info.data, i));
    }
    st_str_add(out, type->rank > 0 ? "}" : "");
}

/* Name of operand k by the op's row ("x, w, b?"); the last one names all that follow. */
static void add_operand_name(st_str *out, const stator_op_desc *op, uint32_t k)
{
    const char *at = op->operands;
    for (uint32_t i = 0; i < k && strchr(at, ',') != NULL; i++) {
        at = strchr(at, ',') + 1;
    }
    at += strspn(at, " ");
    st_str_addn(out, at, strcspn(at, ",?*"));
}

static void add_folded_operands(st_str *out, const draw_context *d, const stator_node_row *node)
{
    const stator_op_desc *op = stator_op_at(d->view, node->op);
    for (uint32_t k = 0; k < node->operand_count; k++) {
        const stator_ref value = stator_operand(d->view, node, k);
        if (value == 0 || !draw_is_folded(d, value)) {
            continue;
        }
        begin_line(out);
        add_operand_name(out, op, k);
        st_str_add(out, ": ");
        if (constant_node(d, value) != NULL) {
            add_constant(out, d, value);
        } else {
            draw_type(out, d->view, stator_value_at(d->view, value)->type);
        }
        end_line(out);
    }
}

/* ---- attributes ---- */

static int64_t list_element(const draw_context *d, const stator_attr_row *attr, uint32_t i,
                            bool *out_is_const)
{
    int64_t value = 0;
    *out_is_const = true;
    if (attr->kind == STATOR_ATTR_INTS) {
        return stator_attr_int_at(d->view, attr, i);
    }
    *out_is_const = stator_sym_is_const(d->view, stator_ref_at(d->view, attr->begin + i), &value);
    return value;
}

/* Lists of at least two that are all 0 or all 1 (pads, strides, dilations) tell nothing. */
static bool is_dull_list(const draw_context *d, const stator_attr_row *attr, bool *out_all_equal)
{
    bool is_const = true;
    const int64_t first = attr->count > 0 ? list_element(d, attr, 0, &is_const) : 0;
    *out_all_equal = is_const && attr->count > 1;
    for (uint32_t i = 1; i < attr->count; i++) {
        *out_all_equal &= list_element(d, attr, i, &is_const) == first && is_const;
    }
    return attr->count == 0 || (*out_all_equal && (first == 0 || first == 1));
}

/* A list of sizes that the result's type repeats. */
static bool is_result_shape(const draw_context *d, const stator_node_row *node,
                            const stator_attr_row *attr)
{
    const stator_type_row *type = stator_value_type(d->view, node->result_begin);
    if (attr->kind != STATOR_ATTR_DIMS || node->result_count == 0 || attr->count != type->rank) {
        return false;
    }
    for (uint32_t i = 0; i < attr->count; i++) {
        if (stator_ref_at(d->view, attr->begin + i) != stator_dim_at(d->view, type, i)) {
            return false;
        }
    }
    return true;
}

static void add_list(st_str *out, const draw_context *d, const stator_attr_row *attr,
                     bool all_equal)
{
    const uint32_t shown = all_equal ? 1 : attr->count < LIST_SHOWN ? attr->count : LIST_SHOWN;
    for (uint32_t i = 0; i < shown; i++) {
        st_str_add(out, i > 0 ? ", " : " ");
        if (attr->kind == STATOR_ATTR_DIMS) {
            add_sym(out, d->view, stator_ref_at(d->view, attr->begin + i));
        } else {
            st_str_addf(out, "%" PRId64, stator_attr_int_at(d->view, attr, i));
        }
    }
    st_str_add(out, shown < attr->count && !all_equal ? ", ..." : "");
}

/* Writes an attribute unless it is at its default or says nothing; 1 when it wrote. */
static bool add_attr(st_str *out, const draw_context *d, const stator_node_row *node, uint32_t k)
{
    const stator_attr_row *attr = stator_attr_at(d->view, node, k);
    const stator_attr_desc *desc = &stator_op_at(d->view, node->op)->attrs[k];
    bool all_equal = false;
    switch (attr->kind) {
    case STATOR_ATTR_INT:
        if (!desc->is_required && attr->i == desc->i) {
            return false;
        }
        begin_line(out);
        st_str_addf(out, "%s %" PRId64, desc->name, attr->i);
        break;
    case STATOR_ATTR_FLOAT:
        if (!desc->is_required && attr->f == desc->f) {
            return false;
        }
        begin_line(out);
        st_str_addf(out, "%s %g", desc->name, attr->f);
        break;
    case STATOR_ATTR_STRING:
        if (desc->s != NULL && strcmp(stator_string_at(d->view, attr->begin), desc->s) == 0) {
            return false;
        }
        begin_line(out);
        st_str_addf(out, "%s ", desc->name);
        draw_escape(out, stator_string_at(d->view, attr->begin), TEXT_CHARS);
        break;
    case STATOR_ATTR_DTYPE:
        begin_line(out);
        st_str_addf(out, "%s %s", desc->name, st_dtype_name((uint32_t)attr->i));
        break;
    case STATOR_ATTR_INTS:
    case STATOR_ATTR_DIMS:
        if (is_dull_list(d, attr, &all_equal) || is_result_shape(d, node, attr)) {
            return false;
        }
        begin_line(out);
        st_str_add(out, desc->name);
        add_list(out, d, attr, all_equal);
        break;
    default:
        return false;
    }
    end_line(out);
    return true;
}

void draw_node_label(st_str *out, const draw_context *d, stator_ref node)
{
    const stator_node_row *row = stator_node_at(d->view, node);
    const stator_op_desc *op = stator_op_at(d->view, row->op);
    const stator_origin_row *origin = stator_origin_at(d->view, row->origin);
    const char *name = origin != NULL ? stator_string_at(d->view, origin->name) : "";
    st_str_add(out, "<<B>");
    draw_escape(out, op->name, NAME_CHARS);
    st_str_add(out, "</B>");
    if (name[0] != '\0') {
        st_str_add(out, "<BR/><FONT POINT-SIZE=\"9\">");
        draw_escape(out, name, NAME_CHARS);
        st_str_add(out, "</FONT>");
    }
    add_folded_operands(out, d, row);
    for (uint32_t k = 0; k < row->attr_count && k < op->attr_count; k++) {
        (void)add_attr(out, d, row, k);
    }
    st_str_add(out, ">");
}
