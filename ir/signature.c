/* What a caller sees of a graph must outlive a pass; see verify.h.
 *
 * In: the graph before and after. Compared are, in order, the inputs that a call gives (parameters
 * may go: `freeze` makes constants of them), the outputs, and which inputs are written. A name and
 * a type must be the same; a size of an output may be told better (a symbol, then 4), not otherwise
 * (3, then 4). */
#include "ir/verify.h"

#include <string.h>

typedef struct port {
    const char *name;
    stator_ref value;
} port;

/* Goes through the ports of one kind: *at is 0 at first; 0: there are no more. */
typedef bool (*port_fn)(const stator_graph_view *v, uint32_t *at, port *out);

static bool next_input(const stator_graph_view *v, uint32_t *at, port *out)
{
    while (*at < v->n_inputs) {
        const stator_ref value = ++*at;
        const stator_value_row *row = stator_value_at(v, value);
        if ((row->flags & STATOR_VALUE_PARAM) == 0) {
            *out = (port){stator_string_at(v, row->name), value};
            return true;
        }
    }
    return false;
}

static bool next_output(const stator_graph_view *v, uint32_t *at, port *out)
{
    if (*at >= v->n_outputs) {
        return false;
    }
    const uint32_t k = (*at)++;
    *out = (port){stator_string_at(v, stator_ref_at(v, v->output_name_begin + k)),
                  stator_output_at(v, k)};
    return true;
}

/* Types are of one module, so the same type is the same ref. */
static bool is_same_type(const stator_graph_view *a, stator_ref in_a, const stator_graph_view *b,
                         stator_ref in_b, bool may_tell_more)
{
    const stator_type_row *x = stator_value_type(a, in_a);
    const stator_type_row *y = stator_value_type(b, in_b);
    bool is_same = x->dtype == y->dtype && x->rank == y->rank;
    for (uint32_t axis = 0; is_same && axis < x->rank; axis++) {
        const stator_ref p = stator_dim_at(a, x, axis);
        const stator_ref q = stator_dim_at(b, y, axis);
        int64_t n = 0;
        int64_t m = 0;
        const bool is_known = stator_sym_is_const(a, p, &n) && stator_sym_is_const(b, q, &m);
        is_same = p == q || (is_known ? n == m : may_tell_more);
    }
    return is_same;
}

static stator_status compare_ports(const stator_graph_view *a, const stator_graph_view *b,
                                   port_fn next, const char *what, stator_diag **err)
{
    uint32_t at_a = 0;
    uint32_t at_b = 0;
    for (;;) {
        port x = {0};
        port y = {0};
        const bool has_x = next(a, &at_a, &x);
        const bool has_y = next(b, &at_b, &y);
        if (!has_x && !has_y) {
            return STATOR_OK;
        }
        ST_FAIL_IF(has_x != has_y, err, STATOR_INTERNAL, "it %s the %s '%s'",
                   has_x ? "removes" : "adds", what, has_x ? x.name : y.name);
        ST_FAIL_IF(strcmp(x.name, y.name) != 0, err, STATOR_INTERNAL,
                   "it puts '%s' where the %s '%s' was", y.name, what, x.name);
        ST_FAIL_IF(!is_same_type(a, x.value, b, y.value, next == next_output), err, STATOR_INTERNAL,
                   "it changes the type of the %s '%s'", what, x.name);
    }
}

stator_status st_verify_signature(const stator_graph *before, const stator_graph *after,
                                  stator_diag **err)
{
    const stator_graph_view *a = st_graph_view(before);
    const stator_graph_view *b = st_graph_view(after);
    ST_TRY(compare_ports(a, b, next_input, "input", err));
    ST_TRY(compare_ports(a, b, next_output, "output", err));
    return a->n_write_backs == b->n_write_backs
               ? STATOR_OK
               : st_fail(err, STATOR_INTERNAL, "it writes into %u inputs and not into %u",
                         b->n_write_backs, a->n_write_backs);
}
