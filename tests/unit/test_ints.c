/* Symbolic contents of small tensors: shape computations as importers write them, arithmetic, and
 * what happens when something is not known. Expected sizes are written as text. */
#include "ir/graph.h"
#include <criterion/criterion.h>
#include <string.h>

typedef struct world {
    st_mem mem;
    st_optable ops;
    st_module *m;
    stator_builder *b;
    stator_ref n, c, h; /* sizes N in [1, inf], 3, H in [1, inf] */
    stator_ref x;       /* f32[N, 3, H] */
    stator_diag *err;
} world;

static stator_ref symbol(world *w, const char *name, int64_t lo)
{
    return st_types_api.sym_symbol(w->b, name, lo, INT64_MAX, 1);
}

static void begin(world *w)
{
    *w = (world){.err = NULL};
    st_mem_init(&w->mem, NULL, NULL, NULL, 0);
    cr_assert_eq(st_optable_init(&w->ops, &w->mem, &w->err), STATOR_OK, "%s", st_diag_text(w->err));
    cr_assert_eq(st_module_create(&w->mem, NULL, &w->ops, &w->m, &w->err), STATOR_OK);
    cr_assert_eq(st_builder_create(w->m, "g", &w->b, &w->err), STATOR_OK);
    w->n = symbol(w, "N", 1);
    w->c = st_types_api.sym_int(w->b, 3);
    w->h = symbol(w, "H", 1);
    const stator_ref dims[] = {w->n, w->c, w->h};
    cr_assert_eq(
        st_build_input(w->b, "x", st_module_type(w->m, STATOR_F32, 3, dims), &w->x, &w->err),
        STATOR_OK);
}

static void end(world *w)
{
    st_builder_abort(w->b);
    st_module_destroy(w->m);
    st_optable_deinit(&w->ops);
    cr_assert_eq(w->mem.live_blocks, 0);
}

static stator_ref op(world *w, const char *name, uint32_t n, const stator_ref *operands,
                     uint32_t n_attrs, const stator_attr *attrs)
{
    stator_ref out[2] = {0};
    cr_assert_eq(st_build_op(w->b, name, n, operands, n_attrs, attrs, 0, out, &w->err), STATOR_OK,
                 "%s: %s", name, st_diag_text(w->err));
    return out[0];
}

static stator_ref op2(world *w, const char *name, stator_ref a, stator_ref b)
{
    const stator_ref operands[] = {a, b};
    return op(w, name, 2, operands, 0, NULL);
}

static stator_ref op1(world *w, const char *name, stator_ref a)
{
    return op(w, name, 1, &a, 0, NULL);
}

static stator_ref cast(world *w, stator_ref a, stator_dtype dtype)
{
    const stator_attr attr = {.name = "dtype", .kind = STATOR_ATTR_DTYPE, .i = dtype};
    return op(w, "cast", 1, &a, 1, &attr);
}

static stator_ref ints(world *w, uint32_t n, const int64_t *values)
{
    const stator_ref dim = st_types_api.sym_int(w->b, n);
    stator_ref out = 0;
    cr_assert_eq(st_build_constant(w->b, st_module_type(w->m, STATOR_I64, 1, &dim), values,
                                   n * sizeof *values, &out, &w->err),
                 STATOR_OK);
    return out;
}

static stator_ref float_scalar(world *w, float value)
{
    stator_ref out = 0;
    cr_assert_eq(st_build_constant(w->b, st_module_type(w->m, STATOR_F32, 0, NULL), &value,
                                   sizeof value, &out, &w->err),
                 STATOR_OK);
    return out;
}

static stator_ref shape(world *w)
{
    const stator_ref dims[] = {w->n, w->c, w->h};
    stator_ref out = 0;
    cr_assert_eq(st_build_from_dims(w->b, dims, 3, &out, &w->err), STATOR_OK);
    return out;
}

static stator_ref element(world *w, stator_ref list, int64_t i)
{
    const stator_ref operands[] = {list, ints(w, 1, &i)};
    return op(w, "gather", 2, operands, 0, NULL);
}

static stator_ref list_attr(world *w, const char *name, stator_ref x, const char *attr, uint32_t n,
                            const int64_t *values)
{
    const stator_attr a = {.name = attr, .kind = STATOR_ATTR_INTS, .count = n, .list = values};
    return op(w, name, 1, &x, 1, &a);
}

static stator_ref concat(world *w, uint32_t n, const stator_ref *xs)
{
    const stator_attr axis = {.name = "axis", .kind = STATOR_ATTR_INT, .i = 0};
    return op(w, "concat", n, xs, 1, &axis);
}

static const char *name_of(void *self, uint32_t name)
{
    return st_module_str(self, name);
}

/* Compares with "a; b; c"; "?" as the whole text: not known. */
static void expect(world *w, stator_ref value, const char *expected)
{
    stator_ref syms[ST_SYM_TERMS_MAX * 4];
    const stator_graph_view *v = st_graph_view(w->b->graph);
    const stator_type_row *type = stator_value_type(v, value);
    int64_t n = 1;
    for (uint32_t i = 0; i < type->rank; i++) {
        int64_t size = 0;
        cr_assert(stator_sym_is_const(v, stator_dim_at(v, type, i), &size));
        n *= size;
    }
    st_str text;
    st_str_init(&text, &w->mem);
    if (!st_build_known_ints(w->b, value, (uint32_t)n, syms)) {
        st_str_add(&text, "?");
        n = 0;
    }
    for (int64_t i = 0; i < n; i++) {
        st_str_add(&text, i != 0 ? "; " : "");
        st_sym_print(&w->m->symtab, syms[i], name_of, w->m, &text);
    }
    cr_assert_str_eq(text.data != NULL ? text.data : "", expected);
    st_str_deinit(&text);
}

/* Shape -> Gather -> Unsqueeze -> Concat -> Reshape, fully symbolic. */
Test(ints, onnx_shape_chain)
{
    world w;
    begin(&w);
    const stator_ref s = shape(&w);
    expect(&w, s, "N; 3; H");
    const stator_ref batch = element(&w, s, 0);
    const stator_ref height = element(&w, s, -1);
    const int64_t minus_one = -1;
    const stator_ref parts[] = {batch, op2(&w, "mul", height, element(&w, s, 1))};
    const stator_ref target = concat(&w, 2, parts);
    expect(&w, target, "N; 3*H");
    const stator_ref with_rest[] = {batch, ints(&w, 1, &minus_one)};
    expect(&w, concat(&w, 2, with_rest), "N; -1");
    stator_ref dims[2];
    cr_assert_eq(st_build_as_dims(w.b, target, 2, dims, &w.err), STATOR_OK);
    const stator_attr attr = {.name = "shape", .kind = STATOR_ATTR_DIMS, .count = 2, .list = dims};
    const stator_ref y = op(&w, "reshape", 1, &w.x, 1, &attr);
    st_str text;
    st_str_init(&text, &w.mem);
    st_module_print_type(w.m, stator_value_at(st_graph_view(w.b->graph), y)->type, &text);
    cr_assert_str_eq(text.data, "f32[N, 3*H]");
    st_str_deinit(&text);
    end(&w);
}

Test(ints, arithmetic)
{
    world w;
    begin(&w);
    const int64_t k[] = {2, 3, 4};
    const int64_t seven[] = {7, -7, 7};
    const stator_ref s = shape(&w);
    const stator_ref c = ints(&w, 3, k);
    expect(&w, op2(&w, "add", s, c), "N + 2; 6; H + 4");
    expect(&w, op2(&w, "sub", s, s), "0; 0; 0");
    expect(&w, op2(&w, "mul", s, c), "2*N; 9; 4*H");
    expect(&w, op2(&w, "div", op2(&w, "mul", s, c), c), "N; 3; H");
    expect(&w, op2(&w, "div", ints(&w, 3, seven), c), "3; -2; 1");
    const int64_t twos[] = {2, 2, 2};
    const int64_t fours[] = {4, 4, 4};
    /* N >= 1: (N - 2) / 2 is above -1, (N - 4) / 2 need not be. */
    const stator_ref less = op2(&w, "sub", s, ints(&w, 3, twos));
    expect(&w, op2(&w, "div", less, ints(&w, 3, twos)),
           "max(floordiv(N, 2), 1) - 1; 0; max(floordiv(H, 2), 1) - 1");
    expect(&w, op2(&w, "div", op2(&w, "sub", s, ints(&w, 3, fours)), ints(&w, 3, twos)), "?");
    expect(&w, op2(&w, "mod", ints(&w, 3, seven), c), "1; 2; 3");
    expect(&w, op2(&w, "rem", ints(&w, 3, seven), c), "1; -1; 3");
    expect(&w, op2(&w, "pow", c, c), "4; 27; 256");
    expect(&w, op1(&w, "neg", s), "-N; -3; -H");
    expect(&w, op1(&w, "abs", op1(&w, "neg", s)), "N; 3; H");
    const int64_t one = 1;
    expect(&w, op2(&w, "max", s, ints(&w, 1, &one)), "N; 3; H");
    expect(&w, op2(&w, "ge", s, ints(&w, 1, &one)), "1; 1; 1");
    expect(&w, op2(&w, "gt", s, ints(&w, 1, &one)), "?");
    const stator_ref picks[] = {op2(&w, "eq", c, element(&w, c, 1)), s, c};
    expect(&w, op(&w, "select", 3, picks, 0, NULL), "2; 3; 4");
    end(&w);
}

Test(ints, data_movement_and_reductions)
{
    world w;
    begin(&w);
    const stator_ref s = shape(&w);
    const int64_t all[] = {0};
    const int64_t column[] = {3, 1};
    const int64_t row[] = {1, 3};
    const int64_t swap[] = {1, 0};
    expect(&w, list_attr(&w, "reduce_prod", s, "axes", 1, all), "3*N*H");
    expect(&w, list_attr(&w, "reduce_sum", s, "axes", 1, all), "N + H + 3");
    expect(&w, list_attr(&w, "reduce_max", element(&w, s, 0), "axes", 1, all), "N");
    const stator_ref tall = list_attr(&w, "reshape", s, "shape", 2, column);
    expect(&w, list_attr(&w, "transpose", tall, "perm", 2, swap), "N; 3; H");
    const int64_t wide[] = {3, 2};
    expect(&w, list_attr(&w, "expand", tall, "shape", 2, wide), "N; N; 3; 3; H; H");
    const stator_ref flat = list_attr(&w, "reshape", tall, "shape", 2, row);
    const stator_ref twice[] = {flat, flat};
    expect(&w, concat(&w, 2, twice), "N; 3; H; N; 3; H");
    const int64_t start = 2;
    const int64_t size = 2;
    const int64_t step = -2;
    const stator_attr slice[] = {
        {.name = "starts", .kind = STATOR_ATTR_INTS, .count = 1, .list = &start},
        {.name = "sizes", .kind = STATOR_ATTR_INTS, .count = 1, .list = &size},
        {.name = "steps", .kind = STATOR_ATTR_INTS, .count = 1, .list = &step}};
    expect(&w, op(&w, "slice", 1, &s, 3, slice), "H; N");
    const int64_t index[] = {2, -3};
    const stator_ref pair[] = {s, ints(&w, 2, index)};
    expect(&w, op(&w, "gather", 2, pair, 0, NULL), "H; N");
    expect(&w, op(&w, "gather_elements", 2, pair, 0, NULL), "H; N");
    const stator_attr iota = {.name = "shape", .kind = STATOR_ATTR_INTS, .count = 2, .list = wide};
    expect(&w, op(&w, "iota", 0, NULL, 1, &iota), "0; 0; 1; 1; 2; 2");
    end(&w);
}

/* Upsampling exports: sizes go through floats and back. */
Test(ints, rationals_through_floats)
{
    world w;
    begin(&w);
    const stator_ref h = cast(&w, element(&w, shape(&w), 2), STATOR_F32);
    expect(&w, cast(&w, op1(&w, "floor", op2(&w, "mul", h, float_scalar(&w, 2))), STATOR_I64),
           "2*H");
    expect(&w, cast(&w, op1(&w, "floor", op2(&w, "mul", h, float_scalar(&w, 0.5f))), STATOR_I64),
           "floordiv(H, 2)");
    expect(&w, cast(&w, op1(&w, "ceil", op2(&w, "div", h, float_scalar(&w, 32))), STATOR_I64),
           "floordiv(H + 31, 32)");
    const stator_ref back =
        op2(&w, "mul", op2(&w, "mul", h, float_scalar(&w, 0.25f)), float_scalar(&w, 4));
    expect(&w, cast(&w, back, STATOR_I32), "H");
    expect(&w, cast(&w, op2(&w, "mul", h, float_scalar(&w, 0.1f)), STATOR_I64), "?");
    end(&w);
}

Test(ints, narrow_types_do_not_wrap_unseen)
{
    world w;
    begin(&w);
    const int64_t big[] = {300, -1, 5};
    const stator_ref c = ints(&w, 3, big);
    expect(&w, cast(&w, c, STATOR_U8), "?");
    expect(&w, cast(&w, c, STATOR_I16), "300; -1; 5");
    expect(&w, cast(&w, element(&w, c, 2), STATOR_U8), "5");
    expect(&w, cast(&w, shape(&w), STATOR_I8), "?");
    expect(&w, cast(&w, shape(&w), STATOR_I32), "N; 3; H");
    end(&w);
}

/* What nobody knows becomes symbols that a sym_bind node defines, once. */
Test(ints, unknown_elements_are_bound_once)
{
    world w;
    begin(&w);
    stator_graph *g = w.b->graph;
    const stator_ref two = st_types_api.sym_int(w.b, 2);
    stator_ref v = 0;
    cr_assert_eq(
        st_build_input(w.b, "target", st_module_type(w.m, STATOR_I32, 1, &two), &v, &w.err),
        STATOR_OK);
    expect(&w, v, "?");
    const stator_ref mixed[] = {element(&w, shape(&w), 0), cast(&w, v, STATOR_I64)};
    const stator_ref list = concat(&w, 2, mixed);
    expect(&w, list, "?");
    stator_ref a[3];
    stator_ref b[3];
    cr_assert_eq(st_build_as_dims(w.b, list, 3, a, &w.err), STATOR_OK, "%s", st_diag_text(w.err));
    const uint32_t n_nodes = g->nodes.count;
    cr_assert_eq(st_build_as_dims(w.b, list, 3, b, &w.err), STATOR_OK);
    cr_assert_eq(g->nodes.count, n_nodes, "bound twice");
    cr_assert_eq(memcmp(a, b, sizeof a), 0);
    cr_assert_eq(a[0], w.n, "a known element keeps its size");
    for (uint32_t i = 1; i < 3; i++) {
        const uint32_t atom = st_sym_as_symbol(&w.m->symtab, a[i]);
        cr_assert_neq(atom, 0);
        const stator_atom_row *row = st_seg_at(&w.m->symtab.atoms, atom);
        cr_assert_eq(row->flags & STATOR_ATOM_UNBACKED, STATOR_ATOM_UNBACKED);
    }
    cr_assert(st_build_known_ints(w.b, list, 3, b));
    cr_assert_eq(st_build_as_dims(w.b, w.x, 3, b, &w.err), STATOR_INVALID_ARGUMENT);
    st_diag_release(w.err);
    end(&w);
}

Test(ints, from_dims_prefers_constants)
{
    world w;
    begin(&w);
    const stator_ref plain[] = {w.c, w.c};
    stator_ref v = 0;
    cr_assert_eq(st_build_from_dims(w.b, plain, 2, &v, &w.err), STATOR_OK);
    cr_assert(st_value_is_constant(w.b->graph, v));
    expect(&w, v, "3; 3");
    cr_assert_eq(st_build_from_dims(w.b, &w.n, UINT32_MAX, &v, &w.err), STATOR_OK);
    cr_assert_not(st_value_is_constant(w.b->graph, v));
    cr_assert_eq(stator_value_type(st_graph_view(w.b->graph), v)->rank, 0);
    expect(&w, v, "N");
    end(&w);
}

/* A rollback gives value refs again; what was known of the old ones must not stick. */
Test(ints, rollback_forgets_values_of_reused_refs)
{
    world w;
    begin(&w);
    const st_build_mark mark = st_build_here(w.b);
    const int64_t one = 1;
    const int64_t two = 2;
    const stator_ref a = ints(&w, 1, &one);
    expect(&w, op1(&w, "neg", a), "-1");
    st_build_rollback(w.b, mark);
    const stator_ref b = ints(&w, 1, &two);
    cr_assert_eq(a, b);
    expect(&w, op1(&w, "neg", b), "-2");
    end(&w);
}

/* Long chains neither overflow the stack nor take exponential time. */
Test(ints, long_chains)
{
    world w;
    begin(&w);
    stator_ref v = shape(&w);
    for (uint32_t i = 0; i < 20000; i++) {
        v = op2(&w, "add", v, v);
        if (i == 3) {
            expect(&w, v, "16*N; 48; 16*H");
        }
    }
    expect(&w, v, "?");
    end(&w);
}
