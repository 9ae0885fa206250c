/* Makers of nodes that are made of others: blends, norms, pools, attention, and some movement. */
#include "gf_make.h"

#include <inttypes.h>
#include <string.h>

#define N(list) ((int64_t)(sizeof(list) / sizeof((list)[0])))

/* ---- pointwise ---- */

static int is_bits(uint8_t d)
{
    return gf_is_int(d) || gf_is_bool(d);
}

static int make_bits(gf_program *p)
{
    const int v = gf_pick(p, is_bits, 0);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    return gf_node_add(p, "bit_not", 1, &v, t.dtype, t.rank, t.dims) >= 0;
}

/* Of integers alone: the bits of a NaN are the business of whoever computed it, and small integers
 * are floats whose squares are 0. */
static int make_bitcast(gf_program *p)
{
    static const struct {
        uint8_t from, to;
        const char *name;
    } pairs[] = {{STATOR_I32, STATOR_U32, "u32"}, {STATOR_U32, STATOR_I32, "i32"},
                 {STATOR_I8, STATOR_U8, "u8"},    {STATOR_U8, STATOR_I8, "i8"},
                 {STATOR_I64, STATOR_U64, "u64"}, {STATOR_I16, STATOR_U16, "u16"}};
    const int v = gf_pick(p, gf_is_int, 0);
    const int first = (int)gf_below(p, N(pairs));
    for (int k = 0; v >= 0 && k < N(pairs); k++) {
        const int at = (first + k) % (int)N(pairs);
        const gf_value t = gf_type_of(p, v);
        if (t.dtype == pairs[at].from) {
            if (gf_node_add(p, "bitcast", 1, &v, pairs[at].to, t.rank, t.dims) < 0) {
                return 0;
            }
            gf_attrs(p, "dtype = %s", pairs[at].name);
            return 1;
        }
    }
    return 0;
}

static int make_shape_of_curve(gf_program *p)
{
    static const char *const ops[] = {"square", "thresholded_relu", "shrink", "lgamma"};
    static const int noises[] = {GF_COMPOSITE, GF_EXACT, GF_COMPOSITE, GF_FUNCTION};
    const int v = gf_pick(p, gf_is_float, 0);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    const int op = (int)gf_below(p, N(ops));
    if (gf_node_add(p, ops[op], 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_set_noise(p, noises[op], 1);
    return 1;
}

static int is_wide_float(uint8_t d)
{
    return d == STATOR_F32 || d == STATOR_F64;
}

/* lerp's difference cancels in its sum: one rounding more may be all that is left of a small dtype,
 * or of huge numbers. */
static int make_blend(gf_program *p)
{
    static const char *const ops[] = {"prelu", "clamp", "lerp"};
    const int op = (int)gf_below(p, N(ops));
    int args[3] = {gf_pick(p, op == 2 ? is_wide_float : gf_is_number, 0), -1, -1};
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    const int n = op == 0 ? 2 : 3;
    if (op == 2 && p->specials) {
        return 0;
    }
    for (int k = 1; k < n; k++) {
        args[k] = args[0] >= 0 ? gf_partner(p, args[0]) : -1;
        if (args[k] < 0) {
            return 0;
        }
    }
    /* Partners fit the first; whether they fit each other shows here. */
    const int rank = gf_broadcast(p, args, n, dims);
    for (int k = 0; k < n; k++) {
        const gf_value *v = &p->values[args[k]];
        for (int a = 0; a < v->rank; a++) {
            if (!gf_is_const(v->dims[a], 1) && !gf_same_dim(v->dims[a], dims[rank - v->rank + a])) {
                return 0;
            }
        }
    }
    if (gf_node_add(p, ops[op], n, args, p->values[args[0]].dtype, rank, dims) < 0) {
        return 0;
    }
    gf_set_noise(p, op == 1 ? GF_EXACT : GF_COMPOSITE, 1);
    return 1;
}

/* ---- norms ---- */

static int make_batch_norm(gf_program *p)
{
    int args[5] = {gf_modest_of(p, gf_pick(p, gf_is_float, 2)), -1, -1, -1, -1};
    if (args[0] < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, args[0]);
    for (int k = 1; k < 5; k++) {
        args[k] = gf_input(p, t.dtype, 1, &t.dims[1]);
    }
    if (gf_node_add(p, "batch_norm", 5, args, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_set_noise(p, GF_COMPOSITE, 1);
    return 1;
}

static int make_group_norm(gf_program *p)
{
    int args[3] = {gf_modest_of(p, gf_pick(p, gf_is_float, 2)), -1, -1};
    if (args[0] < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, args[0]);
    const gf_dim channels = t.dims[1];
    if (gf_has_symbol(channels) || channels.c == 0 || t.rank >= GF_RANK) {
        return 0;
    }
    const int64_t groups = channels.c % 2 == 0 && gf_chance(p, 50) ? 2
                           : gf_chance(p, 50)                      ? channels.c
                                                                   : 1;
    if (gf_numel(p, &t) == 2 * groups * gf_size(p, t.dims[0])) {
        return 0; /* as layer_norm of two */
    }
    const int is_affine = gf_chance(p, 50);
    for (int k = 1; is_affine && k < 3; k++) {
        args[k] = gf_input(p, t.dtype, 1, &channels);
    }
    if (gf_node_add(p, "group_norm", is_affine ? 3 : 1, args, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "groups = %" PRId64, groups);
    gf_set_noise(p, GF_COMPOSITE, gf_numel(p, &t) / channels.c);
    return 1;
}

static int make_lp_norm(gf_program *p)
{
    const int v = gf_modest_of(p, gf_pick(p, gf_is_float, 1));
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    const int axis = gf_pick_axis(p, &t);
    if (gf_node_add(p, "lp_norm", 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "axis = %d, p = %d", axis, 1 + gf_chance(p, 50));
    gf_set_noise(p, GF_COMPOSITE, gf_size(p, t.dims[axis]));
    return 1;
}

static int make_lrn(gf_program *p)
{
    const int v = gf_modest_of(p, gf_pick(p, gf_is_float, 2));
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    if (gf_node_add(p, "lrn", 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "size = %" PRId64, 1 + gf_below(p, 4));
    gf_set_noise(p, GF_COMPOSITE, 4);
    return 1;
}

/* ---- windows and contractions ---- */

typedef struct windows {
    int n;
    int64_t k[GF_RANK], strides[GF_RANK], pads[2 * GF_RANK], ones[GF_RANK];
    int64_t folded;
} windows;

/* Random windows over the axes from 2 on; t's sizes become those of the result. 0: none fit. */
static int choose_windows(gf_program *p, gf_value *t, windows *w)
{
    w->n = t->rank - 2;
    w->folded = 1;
    for (int a = 0; a < w->n; a++) {
        gf_dim *d = &t->dims[2 + a];
        w->k[a] = 1 + gf_below(p, 3);
        w->strides[a] = 1 + gf_below(p, 2);
        w->pads[a] = w->pads[w->n + a] = gf_below(p, (w->k[a] + 1) / 2);
        w->ones[a] = 1;
        w->folded *= w->k[a];
        if (gf_has_symbol(*d) || d->c + 2 * w->pads[a] < w->k[a]) {
            return 0;
        }
        *d = gf_const((d->c + 2 * w->pads[a] - w->k[a]) / w->strides[a] + 1);
    }
    return 1;
}

static int pool(gf_program *p, int is_max)
{
    const int v = gf_pick(p, gf_is_float, 3);
    windows w;
    if (v < 0) {
        return 0;
    }
    gf_value t = gf_type_of(p, v);
    if (!choose_windows(p, &t, &w) ||
        gf_node_add(p, is_max ? "max_pool" : "avg_pool", 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    char texts[4][GF_ATTRS];
    gf_attrs(p, "window = %s, strides = %s, pads = %s, dilations = %s%s",
             gf_ints(w.k, w.n, texts[0]), gf_ints(w.strides, w.n, texts[1]),
             gf_ints(w.pads, 2 * w.n, texts[2]), gf_ints(w.ones, w.n, texts[3]),
             is_max             ? ""
             : gf_chance(p, 50) ? ", include_pad = 1"
                                : ", include_pad = 0");
    gf_set_noise(p, is_max ? GF_EXACT : GF_COMPOSITE, w.folded);
    return !is_max || gf_chance(p, 50) || gf_result_add(p, STATOR_I64, t.rank, t.dims) >= 0;
}

int gf_make_conv_transpose(gf_program *p)
{
    int args[2] = {gf_pick(p, gf_is_float, 3), -1};
    windows w;
    if (args[0] < 0 || p->values[args[0]].rank > 4 ||
        (p->specials && p->values[args[0]].dtype <= STATOR_F16)) {
        return 0; /* as in conv */
    }
    const gf_value t = gf_type_of(p, args[0]);
    if (t.dtype <= STATOR_F16 && !p->values[args[0]].is_input) {
        args[0] = gf_finite_of(p, args[0]); /* as in conv */
    }
    gf_value sized = t;
    gf_dim weights[GF_RANK] = {t.dims[1], gf_const(1 + gf_below(p, 4))};
    gf_dim out[GF_RANK] = {t.dims[0], weights[1]};
    if (gf_has_symbol(t.dims[1]) || t.dims[1].c == 0 || !choose_windows(p, &sized, &w)) {
        return 0;
    }
    for (int a = 0; a < w.n; a++) {
        weights[2 + a] = gf_const(w.k[a]);
        out[2 + a] = gf_const((t.dims[2 + a].c - 1) * w.strides[a] + w.k[a] - 2 * w.pads[a]);
        if (t.dims[2 + a].c == 0 || out[2 + a].c < 0) {
            return 0;
        }
    }
    char texts[3][GF_ATTRS];
    args[1] = gf_weights(p, t.dtype, t.rank, weights);
    if (gf_node_add(p, "conv_transpose", 2, args, t.dtype, t.rank, out) < 0) {
        return 0;
    }
    gf_attrs(p, "strides = %s, pads = %s, dilations = %s", gf_ints(w.strides, w.n, texts[0]),
             gf_ints(w.pads, 2 * w.n, texts[1]), gf_ints(w.ones, w.n, texts[2]));
    gf_set_noise(p, GF_FOLD, w.folded * t.dims[1].c);
    return 1;
}

int gf_make_max_pool(gf_program *p)
{
    return pool(p, 1);
}

int gf_make_pool(gf_program *p)
{
    return pool(p, gf_chance(p, 50));
}

/* Letters of the operands and the result: i, j, k are the first's axes, m and n are new. */
int gf_make_einsum(gf_program *p)
{
    static const struct {
        int rank;
        const char *second, *result;
        const char *text;
    } forms[] = {{2, NULL, "ji", "ij->ji"},         {2, NULL, "j", "ij->j"},
                 {2, "jm", "im", "ij,jm->im"},      {2, "mj", "mi", "ij,mj->mi"},
                 {2, "ij", "i", "ij,ij->i"},        {2, "m", "ijm", "ij,m->ijm"},
                 {3, "imk", "ijm", "ijk,imk->ijm"}, {3, "km", "mij", "ijk,km->mij"},
                 {3, NULL, "kj", "ijk->kj"},        {3, "jkm", "im", "ijk,jkm->im"}};
    const int form = (int)gf_below(p, N(forms));
    int args[2] = {gf_pick(p, gf_is_float, forms[form].rank), -1};
    if (args[0] < 0 || p->values[args[0]].rank != forms[form].rank) {
        return 0;
    }
    const gf_value t = gf_type_of(p, args[0]);
    const gf_dim fresh = gf_const(1 + gf_below(p, 9));
    gf_dim dims[2][GF_RANK] = {{{0, 0, 0}}};
    const char *letters[2] = {forms[form].second ? forms[form].second : "", forms[form].result};
    for (int s = 0; s < 2; s++) {
        for (int a = 0; letters[s][a]; a++) {
            dims[s][a] = letters[s][a] == 'm' ? fresh : t.dims[letters[s][a] - 'i'];
        }
    }
    const int n = forms[form].second ? 2 : 1;
    args[1] = n == 2 ? gf_weights(p, t.dtype, (int)strlen(letters[0]), dims[0]) : -1;
    if (gf_node_add(p, "einsum", n, args, t.dtype, (int)strlen(letters[1]), dims[1]) < 0) {
        return 0;
    }
    gf_attrs(p, "equation = \"%s\"", forms[form].text);
    gf_set_noise(p, GF_FOLD, gf_numel(p, &t));
    return 1;
}

static int make_attention(gf_program *p)
{
    static const int64_t sizes[] = {1, 2, 5, 8, 17};
    int args[4] = {gf_pick(p, gf_is_float, 4), -1, -1, -1};
    if (args[0] < 0 || p->values[args[0]].rank != 4) {
        return 0;
    }
    gf_value t = gf_type_of(p, args[0]);
    if (gf_has_symbol(t.dims[3]) || t.dims[3].c == 0 || gf_size(p, t.dims[1]) == 0) {
        return 0;
    }
    const gf_dim heads = !gf_has_symbol(t.dims[1]) && gf_chance(p, 30) ? gf_const(1) : t.dims[1];
    const gf_dim keys = gf_chance(p, 30) ? t.dims[2] : gf_const(sizes[gf_below(p, N(sizes))]);
    const gf_dim k[4] = {t.dims[0], heads, keys, t.dims[3]};
    const gf_dim v[4] = {t.dims[0], heads, keys, gf_const(sizes[gf_below(p, N(sizes))])};
    const gf_dim mask[2] = {t.dims[2], keys};
    const int has_mask = gf_chance(p, 30);
    if (p->specials) { /* as in gf_generate's keys; inf becomes a number, NaN stays */
        const int low[2] = {args[0], gf_scalar(p, t.dtype, 100)};
        const int high[2] = {gf_node_add(p, "min", 2, low, t.dtype, 4, t.dims),
                             gf_scalar(p, t.dtype, -100)};
        args[0] = gf_node_add(p, "max", 2, high, t.dtype, 4, t.dims);
    }
    args[1] = gf_input(p, t.dtype, 4, k);
    args[2] = gf_input(p, t.dtype, 4, v);
    args[3] = has_mask ? gf_input(p, STATOR_BOOL, 2, mask) : -1;
    t.dims[3] = v[3];
    if (gf_node_add(p, "sdpa", 3 + has_mask, args, t.dtype, 4, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "is_causal = %d", gf_chance(p, 30));
    gf_set_noise(p, GF_COMPOSITE, 17);
    return 1;
}

/* ---- movement ---- */

static int make_tile(gf_program *p)
{
    const int v = gf_pick(p, gf_is_any, 1);
    if (v < 0) {
        return 0;
    }
    gf_value t = gf_type_of(p, v);
    int64_t repeats[GF_RANK];
    for (int a = 0; a < t.rank; a++) {
        repeats[a] = gf_chance(p, 50) ? 1 : gf_below(p, 4);
        t.dims[a] =
            (gf_dim){t.dims[a].c * repeats[a], t.dims[a].a * repeats[a], t.dims[a].b * repeats[a]};
    }
    char text[GF_ATTRS];
    if (gf_node_add(p, "tile", 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "repeats = %s", gf_ints(repeats, t.rank, text));
    return 1;
}

static int make_one_hot(gf_program *p)
{
    int args[3] = {gf_pick(p, gf_is_int, 0), -1, -1};
    if (args[0] < 0 || p->values[args[0]].rank >= GF_RANK) {
        return 0;
    }
    const gf_value t = gf_type_of(p, args[0]);
    const int64_t depth = 1 + gf_below(p, 6);
    const int axis = (int)gf_below(p, t.rank + 1);
    gf_dim dims[GF_RANK] = {{0, 0, 0}};
    for (int a = 0; a <= t.rank; a++) {
        dims[a] = a == axis ? gf_const(depth) : t.dims[a - (a > axis)];
    }
    args[1] = gf_scalar(p, STATOR_F32, 0.5);
    args[2] = gf_scalar(p, STATOR_F32, 3);
    if (gf_node_add(p, "one_hot", 3, args, STATOR_F32, t.rank + 1, dims) < 0) {
        return 0;
    }
    gf_attrs(p, "depth = [%" PRId64 "], axis = %d", depth, axis);
    return 1;
}

static int make_triangle(gf_program *p)
{
    const int v = gf_pick(p, gf_is_number, 2);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    if (gf_node_add(p, "trilu", 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "k = [%" PRId64 "], upper = %d", gf_below(p, 5) - 2, gf_chance(p, 50));
    return 1;
}

/* May numbers be so large that their squares are infinite? */
static int has_growth(const gf_program *p)
{
    static const char *const ops[] = {"exp",  "exp2", "expm1",   "sinh",
                                      "cosh", "pow",  "cumprod", "reduce_prod"};
    for (int k = 0; k < p->n_nodes; k++) {
        for (int i = 0; i < N(ops); i++) {
            if (strcmp(p->nodes[k].op, ops[i]) == 0) {
                return 1;
            }
        }
    }
    return p->specials;
}

int gf_modest_of(gf_program *p, int v)
{
    if (v < 0 || !has_growth(p) || p->values[v].is_input || p->values[v].dtype == STATOR_F16) {
        return v; /* inputs are no larger */
    }
    const gf_value t = gf_type_of(p, v);
    const int low[2] = {v, gf_scalar(p, t.dtype, 1e9)};
    const int high[2] = {gf_node_add(p, "min", 2, low, t.dtype, t.rank, t.dims),
                         gf_scalar(p, t.dtype, -1e9)};
    return gf_node_add(p, "max", 2, high, t.dtype, t.rank, t.dims);
}

int gf_finite_of(gf_program *p, int v)
{
    const gf_value t = gf_type_of(p, v);
    const int args[3] = {gf_node_add(p, "is_finite", 1, &v, STATOR_BOOL, t.rank, t.dims), v,
                         gf_scalar(p, t.dtype, 0)};
    return gf_node_add(p, "select", 3, args, t.dtype, t.rank, t.dims);
}

static int make_resize(gf_program *p)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const coordinates[] = {"half_pixel", "asymmetric", "align_corners"};
    int v = gf_pick(p, gf_is_float, 1);
    if (v < 0) {
        return 0;
    }
    gf_value t = gf_type_of(p, v);
    int64_t sizes[GF_RANK];
    for (int a = 0; a < t.rank; a++) {
        if (gf_has_symbol(t.dims[a]) || t.dims[a].c == 0) {
            return 0;
        }
        sizes[a] = gf_chance(p, 50) ? t.dims[a].c : 1 + gf_below(p, 2 * t.dims[a].c);
        t.dims[a] = gf_const(sizes[a]);
    }
    char text[GF_ATTRS];
    const int mode = (int)gf_below(p, N(modes));
    v = mode ? gf_finite_of(p, v) : v; /* 0 times an element may count or not */
    if (gf_node_add(p, "resize", 1, &v, t.dtype, t.rank, t.dims) < 0) {
        return 0;
    }
    gf_attrs(p, "sizes = %s, mode = \"%s\", coordinates = \"%s\"", gf_ints(sizes, t.rank, text),
             modes[mode], coordinates[gf_below(p, N(coordinates))]);
    gf_set_noise(p, mode ? GF_COMPOSITE : GF_EXACT, 4);
    return 1;
}

/* Tuples of one index, or of two into axes of one size. */
static int make_gather_nd(gf_program *p)
{
    int args[2] = {gf_pick(p, gf_is_any, 1), -1};
    if (args[0] < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, args[0]);
    const int depth = t.rank > 1 && gf_same_dim(t.dims[0], t.dims[1]) ? 2 : 1;
    const gf_dim index[2] = {gf_const(gf_below(p, 7)), gf_const(depth)};
    gf_dim dims[GF_RANK] = {index[0]};
    if (gf_size(p, t.dims[0]) == 0) {
        return 0;
    }
    for (int a = depth; a < t.rank; a++) {
        dims[1 + a - depth] = t.dims[a];
    }
    args[1] = gf_index_input(p, 2, index, t.dims[0]);
    return gf_node_add(p, "gather_nd", 2, args, t.dtype, 1 + t.rank - depth, dims) >= 0;
}

static int make_dims(gf_program *p)
{
    const int v = gf_pick(p, gf_is_any, 1);
    if (v < 0) {
        return 0;
    }
    const gf_value t = gf_type_of(p, v);
    const gf_dim count = gf_const(t.rank);
    char text[GF_ATTRS];
    if (gf_node_add(p, "dims", 0, NULL, STATOR_I64, 1, &count) < 0) {
        return 0;
    }
    gf_attrs(p, "values = %s", gf_list(t.dims, t.rank, text));
    return 1;
}

const gf_maker gf_composites[] = {
    make_bits,      make_bitcast,    make_shape_of_curve, make_blend,
    make_blend,     make_batch_norm, make_group_norm,     make_lp_norm,
    make_lrn,       gf_make_pool,    gf_make_pool,        gf_make_conv_transpose,
    gf_make_einsum, gf_make_einsum,  make_attention,      make_attention,
    make_tile,      make_one_hot,    make_triangle,       make_resize,
    make_gather_nd, make_dims};
const int64_t gf_composite_count = N(gf_composites);
