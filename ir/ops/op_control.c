/* Infer rules of ops with regions: cond, while, scan, call, gradient. In: operands and finished
 * regions whose inputs are the loop's own values and the captures, in order. Out: result types.
 *
 * A region input must agree with its operand in dtype and rank; a size that may change from one
 * iteration to the next is a symbol of the region input's own, which the loop binds anew each time.
 * Result sizes: what is provably the same in every iteration (or in both branches) stays; sizes
 * that only exist inside a region become unbacked symbols of the node. */
#include "core/base/check.h"
#include "ir/ops/rules.h"
#include <stator/ops.h>

#define BOUND_MAX 256u
#define NO_AXIS UINT32_MAX

typedef struct region_reader {
    st_infer *in;
    const stator_graph_view *v; /* view of the region */
    const char *what;           /* "then branch", "body" */
    uint32_t bound[BOUND_MAX];  /* atoms that region inputs bind */
    uint32_t n_bound;
} region_reader;

static void open_region(region_reader *r, st_infer *in, uint32_t k, const char *what)
{
    r->in = in;
    r->v = st_graph_view(in->regions[k]);
    r->what = what;
    r->n_bound = 0;
}

static stator_status counts_are(const region_reader *r, uint32_t inputs, uint32_t outputs)
{
    ST_IN_FAIL_IF(r->v->n_inputs != inputs, r->in, "the %s has %u inputs, expected %u", r->what,
                  r->v->n_inputs, inputs);
    ST_IN_FAIL_IF(r->v->n_outputs != outputs, r->in, "the %s has %u outputs, expected %u", r->what,
                  r->v->n_outputs, outputs);
    return STATOR_OK;
}

static const stator_type_row *input_type(const region_reader *r, uint32_t i)
{
    return stator_value_type(r->v, 1u + i);
}

static const stator_type_row *output_type(const region_reader *r, uint32_t i)
{
    return stator_value_type(r->v, stator_output_at(r->v, i));
}

static stator_status scalar_is(const region_reader *r, const stator_type_row *type,
                               stator_dtype dtype, const char *name)
{
    if (type->dtype == dtype && type->rank == 0) {
        return STATOR_OK;
    }
    return st_in_fail(r->in, "the %s's %s is %s of rank %u, expected a %s scalar", r->what, name,
                      st_dtype_name(type->dtype), type->rank, st_dtype_name(dtype));
}

/* Region input i receives operand k (without axis `skip`, when scanned). Notes the symbols that the
 * input binds. */
static stator_status match_input(region_reader *r, uint32_t i, uint32_t k, uint32_t skip)
{
    const stator_type_row *type = input_type(r, i);
    const uint32_t rank = st_in_rank(r->in, k) - (skip != NO_AXIS);
    char a_text[96], b_text[96];
    ST_IN_FAIL_IF(type->dtype != st_in_dtype(r->in, k) || type->rank != rank, r->in,
                  "operand %u is %s of rank %u, input %u of the %s is %s of rank %u", k,
                  st_dtype_name(st_in_dtype(r->in, k)), rank, i, r->what,
                  st_dtype_name(type->dtype), type->rank);
    for (uint32_t d = 0; d < rank; d++) {
        const stator_ref inner = stator_dim_at(r->v, type, d);
        const stator_ref outer = st_in_dim(r->in, k, d + (skip != NO_AXIS && d >= skip));
        const uint32_t atom = st_sym_as_symbol(&r->in->m->symtab, inner);
        ST_IN_FAIL_IF(st_sym_eq(&r->in->m->symtab, inner, outer) == 0, r->in,
                      "axis %u of operand %u has size %s, input %u of the %s "
                      "expects %s",
                      d, k, st_in_sym_text(r->in, outer, a_text), i, r->what,
                      st_in_sym_text(r->in, inner, b_text));
        if (inner != outer && atom != 0 && r->n_bound < BOUND_MAX) {
            r->bound[r->n_bound++] = atom;
        }
    }
    return STATOR_OK;
}

static bool operands_use(const st_infer *in, uint32_t atom)
{
    const st_sym_cols cols = st_sym_columns(&in->m->symtab);
    for (uint32_t k = 0; k < in->n_operands; k++) {
        for (uint32_t d = 0; d < st_in_rank(in, k); d++) {
            if (st_sym_uses(&cols, st_in_dim(in, k, d), atom)) {
                return true;
            }
        }
    }
    return false;
}

static bool is_inner_symbol(const void *self, const stator_atom_row *row, uint32_t atom)
{
    const region_reader *r = self;
    for (uint32_t i = 0; i < r->n_bound; i++) {
        if (r->bound[i] == atom) {
            return true;
        }
    }
    return row->kind == STATOR_ATOM_SYMBOL && (row->flags & STATOR_ATOM_UNBACKED) != 0 &&
           !operands_use(r->in, atom);
}

/* Is the size meaningless outside of the region: bound by its inputs, or made by one of its nodes?
 */
static bool is_inner(const region_reader *r, stator_ref sym)
{
    return st_sym_find_atom(&r->in->m->symtab, sym, is_inner_symbol, r) != 0;
}

static int64_t upper_bound(const st_infer *in, stator_ref sym)
{
    int64_t lo, hi;
    st_in_range(in, sym, &lo, &hi);
    return hi < 0 ? 0 : hi;
}

/* A region size as seen from outside, for axis d of result k. */
static stator_ref outer_size(const region_reader *r, stator_ref sym, uint32_t k, uint32_t d)
{
    return is_inner(r, sym) ? st_in_unbacked(r->in, k, d, upper_bound(r->in, sym)) : sym;
}

/* n_results must be what the caller asked for, if he did. */
static stator_status results_are(st_infer *in, uint32_t n)
{
    if (in->n_results == 0) {
        in->given_types = NULL;
    } else if (in->n_results != n) {
        return st_in_fail(in, "%u results asked for, the regions give %u", in->n_results, n);
    }
    ST_IN_FAIL_IF(n > 256u, in, "%u results, at most 256 are possible", n);
    in->n_results = n;
    return STATOR_OK;
}

/* A count attribute in [0, limit]. */
static stator_status count_attr(const st_infer *in, uint32_t a, uint32_t limit, uint32_t *out)
{
    const int64_t value = st_in_int(in, a);
    *out = (uint32_t)value;
    ST_IN_FAIL_IF(value < 0 || value > (int64_t)limit, in, "%s is %lld, expected 0 to %u",
                  in->op->desc.attrs[a].name, (long long)value, limit);
    return STATOR_OK;
}

/* ---- call and cond ---- */

/* Result k: output k of the region. */
static stator_status output_result(st_infer *in, const region_reader *r, uint32_t k)
{
    stator_ref dims[STATOR_RANK_MAX];
    const stator_type_row *type = output_type(r, k);
    for (uint32_t d = 0; d < type->rank; d++) {
        dims[d] = outer_size(r, stator_dim_at(r->v, type, d), k, d);
    }
    return st_in_set(in, k, type->dtype, type->rank, dims);
}

stator_status st_infer_call(st_infer *in)
{
    region_reader r;
    open_region(&r, in, 0, "region");
    ST_TRY(counts_are(&r, in->n_operands, r.v->n_outputs));
    ST_TRY(results_are(in, r.v->n_outputs));
    for (uint32_t k = 0; k < in->n_operands; k++) {
        ST_TRY(match_input(&r, k, k, NO_AXIS));
    }
    for (uint32_t k = 0; k < r.v->n_outputs; k++) {
        ST_TRY(output_result(in, &r, k));
    }
    return STATOR_OK;
}

/* ---- gradient ---- */

/* The region is written into the graph around it, so its inputs are the operands themselves. */
static stator_status same_input(region_reader *r, uint32_t k)
{
    const stator_ref type = stator_value_at(r->v, 1u + k)->type;
    ST_TRY(match_input(r, k, k, NO_AXIS));
    return type == stator_value_at(r->in->v, r->in->operands[k])->type
               ? STATOR_OK
               : st_in_fail(r->in,
                            "input %u of the region has other sizes than operand %u, "
                            "expected the same type",
                            k, k);
}

/* Place i of wrt names a value of a float dtype. */
static stator_status wrt_is_float(const st_infer *in, const int64_t *wrt, uint32_t i)
{
    ST_IN_FAIL_IF(wrt[i] < 0 || wrt[i] >= (int64_t)in->n_operands, in,
                  "wrt names value %lld, expected 0 to %u", (long long)wrt[i], in->n_operands - 1u);
    return st_in_class_is(in, (uint32_t)wrt[i], 1u << STATOR_CLASS_FLOAT, "a float dtype");
}

stator_status st_infer_gradient(st_infer *in)
{
    region_reader r;
    int64_t wrt[256] = {0};
    const uint32_t n = in->attrs[STATOR_gradient_wrt]->count;
    open_region(&r, in, 0, "region");
    ST_TRY(counts_are(&r, in->n_operands, r.v->n_outputs));
    ST_IN_FAIL_IF(r.v->n_outputs == 0, in, "the region has no result to differentiate");
    ST_IN_FAIL_IF(st_dtype_class(output_type(&r, 0)->dtype) != STATOR_CLASS_FLOAT, in,
                  "the region's first result is %s, expected a float dtype",
                  st_dtype_name(output_type(&r, 0)->dtype));
    ST_IN_FAIL_IF(n == 0 || n > 256u, in, "wrt has %u places, expected 1 to 256", n);
    for (uint32_t k = 0; k < in->n_operands; k++) {
        ST_TRY(same_input(&r, k));
    }
    st_in_list(in, STATOR_gradient_wrt, wrt, 256);
    for (uint32_t i = 0; i < n; i++) {
        ST_TRY(wrt_is_float(in, wrt, i));
    }
    ST_TRY(results_are(in, r.v->n_outputs + n));
    for (uint32_t k = 0; k < r.v->n_outputs; k++) {
        ST_TRY(output_result(in, &r, k));
    }
    for (uint32_t i = 0; i < n; i++) {
        ST_TRY(st_in_like(in, r.v->n_outputs + i, (uint32_t)wrt[i], 0));
    }
    return STATOR_OK;
}

/* Result k of cond: sizes that both branches share stay, others become unbacked. */
static stator_status join_branches(st_infer *in, const region_reader *then_branch,
                                   const region_reader *else_branch, uint32_t k)
{
    stator_ref dims[STATOR_RANK_MAX];
    const stator_type_row *a = output_type(then_branch, k), *b = output_type(else_branch, k);
    ST_IN_FAIL_IF(a->dtype != b->dtype || a->rank != b->rank, in,
                  "result %u is %s of rank %u in the then branch and %s of rank %u in the "
                  "else branch, expected equal ones",
                  k, st_dtype_name(a->dtype), a->rank, st_dtype_name(b->dtype), b->rank);
    for (uint32_t d = 0; d < a->rank; d++) {
        const stator_ref x = stator_dim_at(then_branch->v, a, d);
        const stator_ref y = stator_dim_at(else_branch->v, b, d);
        if (st_sym_eq(&in->m->symtab, x, y) == 1 && !is_inner(then_branch, x)) {
            dims[d] = x;
            continue;
        }
        const int64_t x_hi = upper_bound(in, x), y_hi = upper_bound(in, y);
        dims[d] = st_in_unbacked(in, k, d, x_hi > y_hi ? x_hi : y_hi);
    }
    return st_in_set(in, k, a->dtype, a->rank, dims);
}

stator_status st_infer_cond(st_infer *in)
{
    region_reader branch[2];
    ST_TRY(st_in_dtype_is(in, 0, STATOR_BOOL));
    ST_TRY(st_in_scalar(in, 0, false));
    for (uint32_t i = 0; i < 2; i++) {
        open_region(&branch[i], in, i, i == 0 ? "then branch" : "else branch");
        ST_TRY(counts_are(&branch[i], in->n_operands - 1u, branch[0].v->n_outputs));
        for (uint32_t k = 1; k < in->n_operands; k++) {
            ST_TRY(match_input(&branch[i], k - 1u, k, NO_AXIS));
        }
    }
    ST_TRY(results_are(in, branch[0].v->n_outputs));
    for (uint32_t k = 0; k < in->n_results; k++) {
        ST_TRY(join_branches(in, &branch[0], &branch[1], k));
    }
    return STATOR_OK;
}

/* ---- loops ---- */

/* The type of a loop-carried value after the loop: operand k, region input i and output o. */
static stator_status carried_result(st_infer *in, region_reader *r, const uint32_t at[3],
                                    uint32_t result)
{
    stator_ref dims[STATOR_RANK_MAX];
    char a_text[96], b_text[96];
    st_symtab *tab = &in->m->symtab;
    const stator_type_row *before = input_type(r, at[1]), *after = output_type(r, at[2]);
    ST_IN_FAIL_IF(before->dtype != after->dtype || before->rank != after->rank, in,
                  "carried value %u enters the %s as %s of rank %u and leaves it as %s of "
                  "rank %u, expected equal ones",
                  result, r->what, st_dtype_name(before->dtype), before->rank,
                  st_dtype_name(after->dtype), after->rank);
    for (uint32_t d = 0; d < before->rank; d++) {
        const stator_ref first = st_in_dim(in, at[0], d);
        const stator_ref x = stator_dim_at(r->v, before, d), y = stator_dim_at(r->v, after, d);
        const int same = st_sym_eq(tab, x, y);
        ST_IN_FAIL_IF(same == 0 && x == first, in,
                      "axis %u of carried value %u has size %s in one iteration and %s in "
                      "the next; give the %s's input a symbol for it",
                      d, result, st_in_sym_text(in, x, a_text), st_in_sym_text(in, y, b_text),
                      r->what);
        const bool stable = same == 1 || st_sym_eq(tab, y, first) == 1;
        dims[d] = stable ? first : st_in_unbacked(in, result, d, upper_bound(in, y));
    }
    return st_in_set(in, result, before->dtype, before->rank, dims);
}

/* Result k: the region's output o of every iteration, joined along a new axis. */
static stator_status stacked_result(st_infer *in, const region_reader *r, uint32_t o, uint32_t k,
                                    uint32_t axis, stator_ref count)
{
    stator_ref dims[STATOR_RANK_MAX + 1];
    const stator_type_row *type = output_type(r, o);
    for (uint32_t d = 0; d <= type->rank; d++) {
        dims[d] =
            d == axis ? count : outer_size(r, stator_dim_at(r->v, type, d - (d > axis)), k, d);
    }
    return st_in_set(in, k, type->dtype, type->rank + 1u, dims);
}

/* The number of iterations of a while: the trips when it cannot stop earlier, else unbacked. */
static stator_ref trip_count(st_infer *in, const region_reader *r, uint32_t first_stacked)
{
    stator_ref trips = 0;
    double pred = 0, again = 0;
    const int is_known = st_build_known_ints(in->b, in->operands[0], 1, &trips);
    const stator_ref count = is_known ? st_in_op_int(in, STATOR_SYM_MAX, trips, 0) : 0;
    if (count != 0 && st_value_is_splat(in->b->graph, in->operands[1], &pred) && pred != 0 &&
        st_value_is_splat(in->regions[0], stator_output_at(r->v, 0), &again) && again != 0) {
        return count;
    }
    return st_in_unbacked(in, first_stacked, 0, count ? upper_bound(in, count) : INT64_MAX);
}

stator_status st_infer_while(st_infer *in)
{
    region_reader r;
    uint32_t carried = 0, stacked = 0;
    const uint32_t n_values = in->n_operands - 2u;
    ST_TRY(st_in_dtype_is(in, 0, STATOR_I64));
    ST_TRY(st_in_scalar(in, 0, false));
    ST_TRY(st_in_dtype_is(in, 1, STATOR_BOOL));
    ST_TRY(st_in_scalar(in, 1, false));
    ST_TRY(count_attr(in, STATOR_while_carried, n_values, &carried));
    ST_TRY(count_attr(in, STATOR_while_stacked, 256, &stacked));
    open_region(&r, in, 0, "body");
    ST_TRY(counts_are(&r, 1u + n_values, 1u + carried + stacked));
    ST_TRY(results_are(in, carried + stacked));
    ST_TRY(scalar_is(&r, input_type(&r, 0), STATOR_I64, "iteration input"));
    ST_TRY(scalar_is(&r, output_type(&r, 0), STATOR_BOOL, "first output"));
    for (uint32_t i = 0; i < n_values; i++) {
        ST_TRY(match_input(&r, 1u + i, 2u + i, NO_AXIS));
    }
    for (uint32_t i = 0; i < carried; i++) {
        ST_TRY(carried_result(in, &r, (const uint32_t[3]){2u + i, 1u + i, 1u + i}, i));
    }
    const stator_ref count = stacked ? trip_count(in, &r, carried) : 0;
    for (uint32_t i = 0; i < stacked; i++) {
        ST_TRY(stacked_result(in, &r, 1u + carried + i, carried + i, 0, count));
    }
    return STATOR_OK;
}

/* Entry i of an optional axis list, in [0, rank); 0 when the list is empty. */
static stator_status scan_axis(const st_infer *in, uint32_t a, uint32_t i, uint32_t rank,
                               uint32_t *out)
{
    int64_t axes[256] = {0};
    st_in_list(in, a, axes, 256);
    return st_in_axis(in, axes[i], rank, out);
}

static stator_status scan_lists(const st_infer *in, uint32_t scanned, uint32_t stacked)
{
    const uint32_t places[4] = {STATOR_scan_axes, STATOR_scan_reverse, STATOR_scan_out_axes,
                                STATOR_scan_out_reverse};
    for (uint32_t i = 0; i < 4; i++) {
        if (in->attrs[places[i]]->count != 0) {
            ST_TRY(st_in_list_count(in, places[i], i < 2 ? scanned : stacked));
        }
    }
    return STATOR_OK;
}

/* Region inputs from the operands; *out_length: the common size of the scanned axes. */
static stator_status scan_inputs(const st_infer *in, region_reader *r, uint32_t carried,
                                 uint32_t scanned, stator_ref *out_length)
{
    *out_length = 0;
    for (uint32_t k = 0; k < in->n_operands; k++) {
        uint32_t axis = NO_AXIS;
        if (k >= carried && k < carried + scanned) {
            int64_t value;
            ST_TRY(scan_axis(in, STATOR_scan_axes, k - carried, st_in_rank(in, k), &axis));
            const stator_ref length = st_in_dim(in, k, axis);
            ST_TRY(st_in_same_dim(in, *out_length, length, "scanned axes"));
            if (*out_length == 0 || st_in_const(in, length, &value)) {
                *out_length = length;
            }
        }
        ST_TRY(match_input(r, k, k, axis));
    }
    return STATOR_OK;
}

stator_status st_infer_scan(st_infer *in)
{
    region_reader r;
    uint32_t carried = 0, scanned = 0, stacked = 0, axis = 0;
    stator_ref length = 0;
    ST_TRY(count_attr(in, STATOR_scan_carried, in->n_operands, &carried));
    ST_TRY(count_attr(in, STATOR_scan_scanned, in->n_operands - carried, &scanned));
    ST_TRY(count_attr(in, STATOR_scan_stacked, 256, &stacked));
    ST_IN_FAIL_IF(scanned == 0 || scanned > 256, in, "scans %u operands, expected 1 to 256",
                  scanned);
    ST_TRY(scan_lists(in, scanned, stacked));
    open_region(&r, in, 0, "body");
    ST_TRY(counts_are(&r, in->n_operands, carried + stacked));
    ST_TRY(results_are(in, carried + stacked));
    ST_TRY(scan_inputs(in, &r, carried, scanned, &length));
    for (uint32_t i = 0; i < carried; i++) {
        ST_TRY(carried_result(in, &r, (const uint32_t[3]){i, i, i}, i));
    }
    for (uint32_t i = 0; i < stacked; i++) {
        const uint32_t rank = output_type(&r, carried + i)->rank + 1u;
        ST_TRY(scan_axis(in, STATOR_scan_out_axes, i, rank, &axis));
        ST_TRY(stacked_result(in, &r, carried + i, carried + i, axis, length));
    }
    return STATOR_OK;
}
