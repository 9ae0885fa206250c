/* A long fold into few results is done in parts, then the parts are folded.
 *
 *     y = reduce_sum(x[N], axes=[0])
 *     ->  y = reduce_sum(reduce_sum(reshape(x, [P, N / P]), axes=[1]), axes=[0])
 *
 * In: any graph. Out: reductions, argmin and argmax over known sizes, whose results are too few to
 * give threads and vectors something to do each, have a first step with P times as many results.
 * Its rows are shared out; the second step is short. Where P and no number near it divides N, the
 * last part is filled up with what changes nothing (0, 1, the largest, the smallest).
 *
 * P follows from the sizes alone, so that results are the same bits on any number of threads.
 * Integers, minima, maxima and places are what they were; float sums and products are grouped anew,
 * and sums are nearer to the exact one, as each has fewer addends (Higham, Accuracy and
 * Stability, 4.2). Narrow floats are folded in f32 throughout.
 *
 * What is folded keeps its producers: where another reader needs them too, and they would have to
 * be stored for both, the fold gets producers of its own. No cse may follow. */
#include "ir/passes/split.h"
#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/vec.h"

#include <math.h>
#include <stator/ops.h>
#include <string.h>

#define LONG_BYTES ((int64_t)16 << 20) /* a row that no cache holds beside others */
#define REDONE_MAX 8u                  /* nodes that a fold gets of its own */

/* Threads of a CPU. Rows that a cache holds, one beside the other, are better left with what
 * follows on them, so a row has to be the longer the more of them there are. */
static const st_split_rule for_threads = {
    .fold_min = (int64_t)1 << 18, /* 10 us of one core in f32, 3 launches */
    .units_max = 32,
    .columns = 64,
    .part_log2_min = 14, /* 64 KiB of f32 */
    .parts_max = 1024,   /* at most 1 us for the second step */
    .pair_parts_max = 1024,
    .leaves_cached_rows = true,
};

/* Blocks of a GPU's threads, which has a hundred multiprocessors: a block reads about 1/60 of what
 * the device can. */
static const st_split_rule for_blocks = {
    .fold_min = (int64_t)1 << 16, /* 8 us of one block in f32, 3 launches */
    .units_max = 64,
    .columns = 32,
    .part_log2_min = 12,
    .parts_max = 1024, /* of all results together */
    .pair_parts_max = 4096,
    .divides_parts = true,
};

/* ---- which folds ---- */

static bool is_foldable(uint32_t dtype)
{
    const uint32_t class_ = st_dtype_class(dtype);
    return class_ != STATOR_CLASS_COMPLEX && st_dtype_bits(dtype) >= 8 &&
           dtype != STATOR_F8E4M3FN && dtype != STATOR_F8E5M2;
}

static bool note_axis(st_fold *f, int64_t axis)
{
    axis = st_normalize_axis(axis, f->rank);
    f->folded |= axis >= 0 && axis < (int64_t)f->rank ? 1u << axis : 0;
    return f->folded != 0;
}

static void note_axes(const st_copy *c, st_fold *f)
{
    const stator_attr_row *axes = stator_attr_at(c->v, f->row, STATOR_reduce_sum_axes);
    for (uint32_t i = 0; i < axes->count; i++) {
        (void)note_axis(f, stator_attr_int_at(c->v, axes, i));
    }
    f->keeps = stator_attr_at(c->v, f->row, STATOR_reduce_sum_keepdims)->i;
}

static void note_arg(const st_copy *c, st_fold *f)
{
    f->is_arg = 1;
    (void)note_axis(f, stator_attr_at(c->v, f->row, STATOR_argmax_axis)->i);
    f->keeps = stator_attr_at(c->v, f->row, STATOR_argmax_keepdims)->i;
    f->is_last = stator_attr_at(c->v, f->row, STATOR_argmax_select_last)->i != 0;
}

#define FOLD(op)                                                                                   \
    ST_FOLD_CUT "r = " op "(" op                                                                   \
                "(t, axes=first), axes=second); cast(keeps == 0 ? r : reshape(r, "                 \
                "shape=out), x)"
/* The best of each part and its place in it; then the place of the best part. What fills the last
 * part is the last of equals only where all are equal. */
#define ARG(arg, op)                                                                               \
    ST_FOLD_CUT "b = " op "(t, axes=[at + 1]); i = " arg "(t, axis=at + 1, select_last=last); "    \
                "k = " arg "(b, axis=at, keepdims=1, select_last=last); "                          \
                "r = k * length + gather_elements(i, k, axis=at); "                                \
                "m = rest == 0 ? r : min(r, scalar(n - 1, r)); keeps == 0 ? squeeze(m, [at]) : m"

/* The expression program that splits the fold; NULL: the node is no fold. */
static const char *program_of(const st_fold *f)
{
    switch (f->row->op) {
    case STATOR_OPCODE_reduce_sum:
        return FOLD("reduce_sum");
    case STATOR_OPCODE_reduce_prod:
        return FOLD("reduce_prod");
    case STATOR_OPCODE_reduce_min:
        return FOLD("reduce_min");
    case STATOR_OPCODE_reduce_max:
        return FOLD("reduce_max");
    case STATOR_OPCODE_argmin:
        return ARG("argmin", "reduce_min");
    case STATOR_OPCODE_argmax:
        return ARG("argmax", "reduce_max");
    default:
        return NULL;
    }
}

bool st_fold_read(const st_copy *c, stator_ref node, st_fold *f)
{
    *f = (st_fold){.row = stator_node_at(c->v, node), .parts = 1};
    if (program_of(f) == NULL) {
        return false;
    }
    const stator_type_row *x = stator_value_type(c->v, stator_operand(c->v, f->row, 0));
    f->rank = x->rank;
    f->dtype = x->dtype;
    if (x->rank > ST_FOLD_RANK_MAX || !is_foldable(x->dtype)) {
        return false;
    }
    for (uint32_t a = 0; a < x->rank; a++) {
        if (!stator_sym_is_const(c->v, stator_dim_at(c->v, x, a), &f->dims[a])) {
            return false;
        }
    }
    if (f->row->op == STATOR_OPCODE_argmin || f->row->op == STATOR_OPCODE_argmax) {
        note_arg(c, f);
    } else {
        note_axes(c, f);
    }
    return f->folded != 0;
}

/* ---- how ---- */

/* Elements of the operand, and how many threads (or blocks) its results would keep busy; 0: too few
 * elements. */
static int64_t count_units(const st_split_rule *rule, const st_fold *f, int64_t *out_numel)
{
    int64_t kept = 1;
    int64_t columns = 1; /* results that are contiguous in the operand */
    *out_numel = 1;
    for (uint32_t a = 0; a < f->rank; a++) {
        const int is_folded = f->folded >> a & 1u;
        if (f->dims[a] == 0 || __builtin_mul_overflow(*out_numel, f->dims[a], out_numel)) {
            return 0;
        }
        kept *= is_folded ? 1 : f->dims[a];
        columns = f->dims[a] == 1 ? columns : is_folded ? 1 : f->dims[a];
    }
    return *out_numel < rule->fold_min ? 0
                                       : kept / (columns < rule->columns ? columns : rule->columns);
}

/* Cuts an axis into at most `most` parts, as many as divide it if these are not far fewer. */
static void cut(st_fold *f, uint32_t axis, int64_t most)
{
    const int64_t n = f->dims[axis];
    f->at = axis;
    for (int64_t parts = most; parts > most / 4; parts--) {
        if (n % parts == 0) {
            f->parts = parts;
            f->length = n / parts;
            return;
        }
    }
    f->length = (n + most - 1) / most;
    f->parts = (n + f->length - 1) / f->length;
    f->rest = f->parts * f->length - n;
}

static int64_t size_of(const st_fold *f)
{
    return st_element_bytes(f->dtype);
}

/* Elements that are contiguous in memory are folded together. */
static bool is_row(const st_fold *f)
{
    uint32_t a = f->rank - 1u;
    while (a > 0 && f->dims[a] == 1) {
        a--;
    }
    return (f->folded >> a & 1u) != 0;
}

static int64_t parts_of(const st_split_rule *rule, int64_t numel, int64_t most)
{
    const int64_t parts = numel >> rule->part_log2_min;
    return parts < most ? parts : most;
}

/* A row is worth it when it is long and there are few of them. */
static bool is_worth(const st_split_rule *rule, const st_fold *f, bool is_pair, int64_t *out_most)
{
    int64_t numel = 0;
    const int64_t units = count_units(rule, f, &numel);
    if (is_pair && units > 0 && is_row(f) && numel / units * size_of(f) >= LONG_BYTES) {
        *out_most = parts_of(rule, numel / units, rule->pair_parts_max);
        return true;
    }
    if (units <= 0 || units >= rule->units_max) {
        return false;
    }
    *out_most = parts_of(rule, numel, rule->parts_max) / (rule->divides_parts ? units : 1);
    return numel / units >= rule->fold_min * (rule->leaves_cached_rows ? units * units : 1);
}

/* Leading axes are parts as they are; the first that makes too many of them is cut. */
bool st_fold_plan(const st_split_rule *rule, st_fold *f, bool is_pair)
{
    int64_t most = 0;
    int64_t parts = 1;
    if (!is_worth(rule, f, is_pair, &most)) {
        return false;
    }
    for (uint32_t a = 0; a < f->rank; a++) {
        if (!(f->folded >> a & 1u)) {
            continue;
        }
        if (f->is_arg || parts * f->dims[a] > 4 * most) {
            f->at = a;
            if (parts <= most / 4 || parts == 1) {
                cut(f, a, most / parts);
            }
            return parts > 1 || f->parts > 1;
        }
        parts *= f->dims[a];
    }
    return false;
}

/* ---- what is folded ---- */

static bool is_pointwise(const st_copy *c, stator_ref node)
{
    const uint64_t flags = st_copy_op(c, node)->flags;
    const uint64_t other = STATOR_OP_RANDOM | STATOR_OP_EFFECT | STATOR_OP_REGIONS;
    return (flags & STATOR_OP_POINTWISE) != 0 && (flags & other) == 0;
}

/* Made element by element, and read in n places? */
static bool has_readers(const st_splitter *s, stator_ref value, uint32_t n)
{
    const stator_ref node = value ? stator_value_at(s->copy->v, value)->node : 0;
    return node != 0 && is_pointwise(s->copy, node) && s->uses[value] == n;
}

bool st_fold_is_shaped_as(const stator_graph_view *v, stator_ref value, stator_ref other)
{
    const stator_type_row *a = stator_value_type(v, value);
    const stator_type_row *b = stator_value_type(v, other);
    for (uint32_t k = 0; a->rank == b->rank && k < a->rank; k++) {
        if (stator_dim_at(v, a, k) != stator_dim_at(v, b, k)) {
            return false;
        }
    }
    return a->rank == b->rank;
}

/* The nodes that make the value, the last first, as far as nothing else reads what they make. */
static uint32_t list_producers(const st_splitter *s, stator_ref value, stator_ref *out_nodes)
{
    const stator_graph_view *v = s->copy->v;
    uint32_t n = 0;
    out_nodes[n++] = stator_value_at(v, value)->node;
    for (uint32_t done = 0; done < n; done++) {
        const stator_node_row *row = stator_node_at(v, out_nodes[done]);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            const stator_ref operand = stator_operand(v, row, k);
            if (!has_readers(s, operand, 1) || !st_fold_is_shaped_as(v, operand, value)) {
                continue;
            }
            if (n == REDONE_MAX) {
                return 0; /* loading it is cheaper */
            }
            out_nodes[n++] = stator_value_at(v, operand)->node;
        }
    }
    return n;
}

/* A second node like that of the value, which it leaves its name and witness. */
static void redo(st_copy *c, stator_ref node)
{
    ST_THEN(c->e.status, st_build_clone_node(c->out, c->in, node, NULL, c->map, c->e.err));
    if (!st_copy_is_ok(c)) {
        return;
    }
    stator_value_row *row =
        st_seg_at(&c->out->graph->values, c->map[stator_node_at(c->v, node)->result_begin]);
    row->name = 0;
    row->witness = 0;
}

stator_ref st_fold_operand(st_splitter *s, stator_ref value)
{
    st_copy *c = s->copy;
    stator_ref nodes[REDONE_MAX];
    stator_ref old[REDONE_MAX];
    const uint32_t n = has_readers(s, value, 2) ? list_producers(s, value, nodes) : 0;
    for (uint32_t i = n; i-- > 0;) {
        old[i] = c->map[stator_node_at(c->v, nodes[i])->result_begin];
        redo(c, nodes[i]);
    }
    const stator_ref made = c->map[value];
    for (uint32_t i = 0; i < n; i++) {
        c->map[stator_node_at(c->v, nodes[i])->result_begin] = old[i];
    }
    return made;
}

/* ---- what fills the last part ---- */

/* An element that changes no result of the op. */
static void write_neutral(const st_fold *f, uint32_t dtype, uint8_t *out)
{
    const uint32_t class_ = st_dtype_class(dtype);
    const uint32_t bytes = st_element_bytes(dtype);
    const bool is_least =
        f->row->op == STATOR_OPCODE_reduce_max || f->row->op == STATOR_OPCODE_argmax;
    const bool is_most =
        f->row->op == STATOR_OPCODE_reduce_min || f->row->op == STATOR_OPCODE_argmin;
    memset(out, 0, bytes);
    if (!is_least && !is_most) {
        st_store_f64(dtype, out, 0, f->row->op == STATOR_OPCODE_reduce_prod);
    } else if (class_ == STATOR_CLASS_FLOAT) {
        st_store_f64(dtype, out, 0, is_least ? -INFINITY : INFINITY);
    } else if (class_ == STATOR_CLASS_BOOL) {
        out[0] = (uint8_t)is_most;
    } else {
        memset(out, is_most ? 0xff : 0, bytes);
        out[bytes - 1u] ^=
            class_ == STATOR_CLASS_INT ? 0x80u : 0; /* little endian, two's complement */
    }
}

stator_ref st_fold_filler(st_copy *c, const st_fold *f)
{
    const bool is_narrow = f->dtype == STATOR_BF16 || f->dtype == STATOR_F16;
    const stator_dtype dtype = is_narrow ? STATOR_F32 : (stator_dtype)f->dtype;
    uint8_t bytes[8];
    stator_ref made = 0;
    if (f->rest == 0) {
        return 0;
    }
    const stator_ref type = st_module_type(c->out->module, dtype, 0, NULL);
    write_neutral(f, dtype, bytes);
    ST_THEN(c->e.status,
            type ? st_build_constant(c->out, type, bytes, st_element_bytes(dtype), &made, c->e.err)
                 : st_fail_oom(c->e.err));
    return made;
}

/* ---- writing it ---- */

/* Lists of the program below. */
typedef struct lists {
    stator_ref shape[ST_FOLD_RANK_MAX + 1u], base[ST_FOLD_RANK_MAX + 1u];
    stator_ref low[ST_FOLD_RANK_MAX], high[ST_FOLD_RANK_MAX], out[ST_FOLD_RANK_MAX];
    int64_t first[ST_FOLD_RANK_MAX], second[ST_FOLD_RANK_MAX];
    uint32_t n_shape, n_base, n_first, n_second;
} lists;

static bool is_known(const stator_ref *syms, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        if (syms[i] == 0) {
            return false;
        }
    }
    return true;
}

/* Axes of the operand in parts; those of the second step are counted without those of the first. */
static bool make_lists(const st_copy *c, const st_fold *f, lists *l)
{
    st_symtab *tab = &c->out->module->symtab;
    *l = (lists){.n_shape = 0};
    for (uint32_t a = 0; a < f->rank; a++) {
        const int is_folded = f->folded >> a & 1u;
        const bool is_cut = a == f->at && f->parts > 1;
        l->low[a] = st_sym_int(tab, 0);
        l->high[a] = st_sym_int(tab, is_cut ? f->rest : 0);
        l->out[a] = st_sym_int(tab, is_folded ? 1 : f->dims[a]);
        if (is_cut) {
            l->base[l->n_base++] = st_sym_int(tab, 1);
            l->second[l->n_second++] = l->n_shape - l->n_first;
            l->shape[l->n_shape++] = st_sym_int(tab, f->parts);
        }
        if (is_folded && a >= f->at) {
            l->first[l->n_first++] = l->n_shape;
        } else {
            l->base[l->n_base++] = l->out[a];
        }
        if (is_folded && a < f->at) {
            l->second[l->n_second++] = l->n_shape - l->n_first;
        }
        l->shape[l->n_shape++] = st_sym_int(tab, is_cut ? f->length : f->dims[a]);
    }
    return is_known(l->low, f->rank) && is_known(l->high, f->rank) && is_known(l->out, f->rank) &&
           is_known(l->shape, l->n_shape) && is_known(l->base, l->n_base);
}

/* Elements that the first step folds into one. */
static int64_t folded_of(const st_fold *f)
{
    int64_t n = 1;
    for (uint32_t a = f->at; a < f->rank; a++) {
        if (f->folded >> a & 1u) {
            n *= a == f->at && f->parts > 1 ? f->length : f->dims[a];
        }
    }
    return n;
}

void st_fold_build(st_copy *c, const st_fold *f, const st_fold_program *program, stator_ref *out)
{
    lists l;
    st_build_set_origin_ref(c->out, f->row->origin);
    if (!make_lists(c, f, &l)) {
        stator_emit_check(&c->e, st_fail_oom(c->e.err));
    }
    const stator_attr attrs[] = {STATOR_A_INT("rest", f->rest),
                                 STATOR_A_INT("parts", f->parts),
                                 STATOR_A_INT("length", f->length),
                                 STATOR_A_INT("folded", folded_of(f)),
                                 STATOR_A_INT("keeps", f->keeps != 0),
                                 STATOR_A_INT("at", f->at),
                                 STATOR_A_INT("last", f->is_last),
                                 STATOR_A_INT("n", f->dims[f->at]),
                                 STATOR_A_DIMS("shape", l.n_shape, l.shape),
                                 STATOR_A_DIMS("base", l.n_base, l.base),
                                 STATOR_A_DIMS("low", f->rank, l.low),
                                 STATOR_A_DIMS("high", f->rank, l.high),
                                 STATOR_A_DIMS("out", f->rank, l.out),
                                 STATOR_A_INTS("first", l.n_first, l.first),
                                 STATOR_A_INTS("second", l.n_second, l.second)};
    ST_THEN(c->e.status,
            st_build_expr(c->out, program->text, program->n_values, program->names, program->values,
                          sizeof attrs / sizeof attrs[0], attrs, program->n_out, out, c->e.err));
}

static void write_fold(st_splitter *s, const st_fold *f)
{
    st_copy *c = s->copy;
    static const char *const names[2] = {"x", "e"};
    const stator_ref x = st_fold_operand(s, stator_operand(c->v, f->row, 0));
    const stator_ref values[2] = {x, st_fold_filler(c, f)};
    stator_ref result = 0;
    const st_fold_program program = {
        .text = program_of(f), .n_values = 2, .names = names, .values = values, .n_out = 1};
    st_fold_build(c, f, &program, &result);
    st_copy_replace(c, f->row->result_begin, result);
}

/* ---- the pass ---- */

static void visit(void *self, stator_ref node)
{
    st_splitter *s = self;
    st_fold f;
    if (st_fold_pair_visit(s, node)) {
        return;
    }
    if (st_fold_read(s->copy, node, &f) && st_fold_plan(s->rule, &f, false) &&
        st_pass_may(s->copy->ctx, STATOR_FUEL_REWRITE, "split", node)) {
        write_fold(s, &f);
    } else {
        st_copy_node(s->copy, node);
    }
}

static void split_by(st_copy *c, const st_split_rule *rule)
{
    /* A value that is stored anyway counts as read three times more. */
    st_splitter s = {.copy = c, .rule = rule, .uses = st_copy_count_uses(c, 3)};
    st_fold_pairs(&s);
    st_copy_nodes(c, visit, &s);
    st_vec_free(c->ctx->mem, &s.pairs);
}

void st_pass_split(st_copy *c)
{
    split_by(c, &for_threads);
}

void st_pass_split_for_blocks(st_copy *c)
{
    split_by(c, &for_blocks);
}
