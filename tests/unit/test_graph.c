/* The builder: what it fills in, what it refuses and with which words, regions, clones, copies of
 * modules, and failing memory. */
#include "core/base/blob.h"
#include "ir/verify.h"
#include "support_text.h"
#include <criterion/criterion.h>
#include <stator/ops.h>
#include <string.h>

typedef struct world {
    text_world w;
    st_module *m;
    stator_builder *b;
    stator_ref f32x4, x;
    stator_diag *err;
} world;

static void begin(world *w)
{
    *w = (world){.err = NULL};
    text_world_init(&w->w);
    cr_assert_eq(st_module_create(&w->w.mem, NULL, &w->w.ops, &w->m, &w->err), STATOR_OK);
    cr_assert_eq(st_builder_create(w->m, "g", &w->b, &w->err), STATOR_OK);
    const stator_ref four = st_types_api.sym_int(w->b, 4);
    w->f32x4 = st_types_api.tensor(w->b, STATOR_F32, 1, &four);
    cr_assert_eq(st_build_input(w->b, "x", w->f32x4, &w->x, &w->err), STATOR_OK);
}

static void end(world *w)
{
    st_builder_abort(w->b);
    st_module_destroy(w->m);
    text_world_deinit(&w->w);
}

/* The last failure's text holds `part`; it is released. */
static void failed_with(world *w, stator_status status, stator_status expected, const char *part)
{
    cr_assert_eq(status, expected, "%d: %s", status, st_diag_text(w->err));
    cr_assert_not_null(strstr(st_diag_text(w->err), part), "'%s' is not in '%s'", part,
                       st_diag_text(w->err));
    st_diag_release(w->err);
    w->err = NULL;
}

static stator_status node(world *w, const char *op, uint32_t n, const stator_ref *operands,
                          uint32_t n_attrs, const stator_attr *attrs, stator_ref *out)
{
    return st_build_op(w->b, op, n, operands, n_attrs, attrs, 0, out, &w->err);
}

Test(builder, attributes_get_defaults_in_schema_order)
{
    world w;
    stator_ref y[3] = {0};
    begin(&w);
    const stator_attr k = {.name = "k", .kind = STATOR_ATTR_INT, .i = 2};
    cr_assert_eq(node(&w, "topk", 1, &w.x, 1, &k, y), STATOR_OK, "%s", st_diag_text(w.err));
    const stator_graph_view *v = st_graph_view(w.b->graph);
    const stator_node_row *row = stator_node_at(v, 1);
    cr_assert_eq(row->attr_count, STATOR_topk_attr_count);
    cr_assert_eq(row->result_count, 2);
    cr_assert_eq(stator_attr_at(v, row, STATOR_topk_k)->kind, STATOR_ATTR_DIMS);
    cr_assert_eq(stator_attr_at(v, row, STATOR_topk_k)->count, 1);
    cr_assert_eq(stator_attr_at(v, row, STATOR_topk_axis)->i, -1);
    cr_assert_eq(stator_attr_at(v, row, STATOR_topk_sorted)->i, 1);
    cr_assert_eq(st_graph_attr(w.b->graph, 1, "largest")->i, 1);
    cr_assert_null(st_graph_attr(w.b->graph, 1, "nope"));
    cr_assert_eq(y[1], y[0] + 1);
    cr_assert_eq(stator_value_type(v, y[1])->dtype, STATOR_I64);
    const stator_attr eps = {.name = "eps", .kind = STATOR_ATTR_INT, .i = 1};
    cr_assert_eq(node(&w, "layer_norm", 1, &w.x, 1, &eps, y), STATOR_OK);
    cr_assert_eq(stator_attr_at(v, stator_node_at(v, 2), STATOR_layer_norm_eps)->f, 1.0);
    const stator_attr mode = {.name = "approximate", .kind = STATOR_ATTR_STRING, .s = "tanh"};
    cr_assert_eq(node(&w, "gelu", 1, &w.x, 1, &mode, y), STATOR_OK);
    cr_assert_eq(node(&w, "unique", 1, &w.x, 0, NULL, y), STATOR_OK);
    cr_assert_eq(stator_attr_at(st_graph_view(w.b->graph), stator_node_at(v, 4), 0)->kind,
                 STATOR_ATTR_NONE);
    end(&w);
}

Test(builder, optional_results_and_trailing_operands)
{
    world w;
    stator_ref y[3] = {0};
    begin(&w);
    const stator_ref operands[] = {w.x, 0, 0};
    cr_assert_eq(st_build_op(w.b, "layer_norm", 3, operands, 0, NULL, 3, y, &w.err), STATOR_OK,
                 "%s", st_diag_text(w.err));
    const stator_node_row *row = stator_node_at(st_graph_view(w.b->graph), 1);
    cr_assert_eq(row->operand_count, 1);
    cr_assert_eq(row->result_count, 3);
    cr_assert_eq(y[2], y[0] + 2);
    failed_with(&w, st_build_op(w.b, "layer_norm", 1, operands, 0, NULL, 4, y, &w.err),
                STATOR_INVALID_ARGUMENT, "4 results");
    end(&w);
}

Test(builder, refusals_name_the_node_and_operand)
{
    world w;
    stator_ref y[2] = {0};
    begin(&w);
    const stator_ref two[] = {w.x, w.x};
    const stator_ref none[] = {w.x, 0};
    const stator_ref far[] = {w.x, 99};
    st_build_set_origin(w.b, "Conv_7", "Conv", "model.onnx", 12);
    failed_with(&w, node(&w, "no_such", 1, &w.x, 0, NULL, y), STATOR_NOT_FOUND, "no_such");
    failed_with(&w, node(&w, "exp", 2, two, 0, NULL, y), STATOR_INVALID_ARGUMENT, "at most 1");
    failed_with(&w, node(&w, "add", 1, two, 0, NULL, y), STATOR_INVALID_ARGUMENT, "'y'");
    failed_with(&w, node(&w, "add", 2, none, 0, NULL, y), STATOR_INVALID_ARGUMENT, "missing");
    failed_with(&w, node(&w, "add", 2, far, 0, NULL, y), STATOR_INVALID_ARGUMENT, "value 99");
    failed_with(&w, node(&w, "add", 1, two, 0, NULL, y), STATOR_INVALID_ARGUMENT, "Conv_7");
    const stator_attr typo = {.name = "axiss", .kind = STATOR_ATTR_INT};
    cr_assert_eq(node(&w, "softmax", 1, &w.x, 1, &typo, y), STATOR_INVALID_ARGUMENT);
    cr_assert_not_null(strstr(st_diag_hint(w.err), "axis"));
    failed_with(&w, STATOR_INVALID_ARGUMENT, STATOR_INVALID_ARGUMENT, "axiss");
    const stator_attr twice[] = {{.name = "axis", .kind = STATOR_ATTR_INT},
                                 {.name = "axis", .kind = STATOR_ATTR_INT}};
    failed_with(&w, node(&w, "softmax", 1, &w.x, 2, twice, y), STATOR_INVALID_ARGUMENT, "twice");
    const stator_attr text = {.name = "axis", .kind = STATOR_ATTR_STRING, .s = "0"};
    failed_with(&w, node(&w, "softmax", 1, &w.x, 1, &text, y), STATOR_INVALID_ARGUMENT,
                "is a string, expected an int");
    failed_with(&w, node(&w, "transpose", 1, &w.x, 0, NULL, y), STATOR_INVALID_ARGUMENT,
                "'perm' (a list of ints) is missing");
    const uint32_t bad = 7777;
    const stator_attr dims = {.name = "shape", .kind = STATOR_ATTR_DIMS, .count = 1, .list = &bad};
    failed_with(&w, node(&w, "reshape", 1, &w.x, 1, &dims, y), STATOR_INVALID_ARGUMENT, "7777");
    const int64_t five = 5;
    const stator_attr shape = {
        .name = "shape", .kind = STATOR_ATTR_INTS, .count = 1, .list = &five};
    failed_with(&w, node(&w, "reshape", 1, &w.x, 1, &shape, y), STATOR_INVALID_ARGUMENT, "reshape");
    cr_assert_eq(w.b->graph->nodes.count, 1, "a failed node leaves no trace");
    cr_assert_eq(w.b->graph->values.count, 2);
    end(&w);
}

/* Of one name there may be one value, however often it is listed. */
Test(builder, output_names)
{
    for (int same = 0; same < 2; same++) {
        world w;
        stator_ref y = 0;
        stator_graph *graph = NULL;
        begin(&w);
        cr_assert_eq(node(&w, "neg", 1, &w.x, 0, NULL, &y), STATOR_OK);
        cr_assert_eq(st_build_output(w.b, "y", y, &w.err), STATOR_OK);
        cr_assert_eq(st_build_output(w.b, "", w.x, &w.err), STATOR_OK);
        cr_assert_eq(st_build_output(w.b, "", y, &w.err), STATOR_OK);
        cr_assert_eq(st_build_output(w.b, "y", same ? y : w.x, &w.err), STATOR_OK);
        const stator_status status = st_builder_finish(w.b, &graph, &w.err);
        w.b = NULL;
        if (same) {
            cr_assert_eq(status, STATOR_OK);
        } else {
            failed_with(&w, status, STATOR_ALREADY_EXISTS, "two outputs are named 'y'");
        }
        end(&w);
    }
}

Test(builder, inputs_constants_outputs)
{
    world w;
    stator_ref y = 0;
    begin(&w);
    const float data[4] = {1, 2, 3, 4};
    failed_with(&w, st_build_input(w.b, "x", w.f32x4, &y, &w.err), STATOR_ALREADY_EXISTS, "'x'");
    failed_with(&w, st_build_input(w.b, "z", 0, &y, &w.err), STATOR_INVALID_ARGUMENT, "'z'");
    stator_blob *blob = st_blob_copy(&w.w.mem, data, sizeof data);
    cr_assert_eq(st_build_param(w.b, "w", w.f32x4, blob, &y, &w.err), STATOR_OK);
    cr_assert_eq(st_graph_value_blob(w.b->graph, y), blob);
    cr_assert_not(st_value_is_constant(w.b->graph, y));
    stator_blob *small = st_blob_copy(&w.w.mem, data, 8);
    failed_with(&w, st_build_param(w.b, "s", w.f32x4, small, &y, &w.err), STATOR_INVALID_ARGUMENT,
                "has 8 bytes of data, its type needs 16");
    st_blob_release(blob);
    st_blob_release(small);
    cr_assert_eq(st_build_constant(w.b, w.f32x4, data, sizeof data, &y, &w.err), STATOR_OK);
    cr_assert(st_value_is_constant(w.b->graph, y));
    stator_ref again = 0;
    cr_assert_eq(st_build_constant(w.b, w.f32x4, data, sizeof data, &again, &w.err), STATOR_OK);
    cr_assert_eq(st_graph_value_blob(w.b->graph, y), st_graph_value_blob(w.b->graph, again),
                 "equal small constants share their bytes");
    failed_with(&w, st_build_constant(w.b, w.f32x4, data, 12, &again, &w.err),
                STATOR_INVALID_ARGUMENT, "12 bytes");
    failed_with(&w, st_build_input(w.b, "late", w.f32x4, &again, &w.err),
                STATOR_FAILED_PRECONDITION, "first");
    failed_with(&w, st_build_output(w.b, "o", 99, &w.err), STATOR_INVALID_ARGUMENT, "value 99");
    failed_with(&w, st_build_write_back(w.b, y, y, &w.err), STATOR_INVALID_ARGUMENT,
                "no graph input");
    cr_assert_eq(st_build_write_back(w.b, w.x, y, &w.err), STATOR_OK);
    failed_with(&w, st_build_write_back(w.b, w.x, y, &w.err), STATOR_ALREADY_EXISTS, "twice");
    end(&w);
}

Test(builder, no_output_is_refused)
{
    world w;
    stator_graph *g = NULL;
    begin(&w);
    failed_with(&w, st_builder_finish(w.b, &g, &w.err), STATOR_INVALID_ARGUMENT, "no output");
    w.b = NULL;
    end(&w);
}

Test(builder, splats)
{
    world w;
    stator_ref c = 0;
    double x = 0;
    begin(&w);
    const float same[4] = {-0.0f, -0.0f, -0.0f, -0.0f};
    const float differ[4] = {0.0f, -0.0f, 0.0f, 0.0f};
    cr_assert_eq(st_build_constant(w.b, w.f32x4, same, sizeof same, &c, &w.err), STATOR_OK);
    cr_assert(st_value_is_splat(w.b->graph, c, &x));
    const double minus_zero = -0.0;
    cr_assert_eq(memcmp(&x, &minus_zero, sizeof x), 0);
    const int64_t shape[] = {3, 4};
    const stator_attr attr = {.name = "shape", .kind = STATOR_ATTR_INTS, .count = 2, .list = shape};
    stator_ref wide = 0;
    cr_assert_eq(node(&w, "expand", 1, &c, 1, &attr, &wide), STATOR_OK);
    cr_assert(st_value_is_splat(w.b->graph, wide, &x), "views are looked through");
    cr_assert_eq(st_build_constant(w.b, w.f32x4, differ, sizeof differ, &c, &w.err), STATOR_OK);
    cr_assert_not(st_value_is_splat(w.b->graph, c, &x), "0 and -0 differ");
    cr_assert_not(st_value_is_splat(w.b->graph, w.x, &x));
    end(&w);
}

/* ---- regions, clones, modules ---- */

static char *print(world *w, const stator_graph *g)
{
    char *text = text_print(&w->w, g, NULL, &w->err);
    cr_assert_not_null(text, "%s", st_diag_text(w->err));
    return text;
}

/* The `while` op's region has (iteration, carried.., captures..) as inputs. */
static text_graph read_loop(world *w)
{
    text_graph g;
    static const char source[] =
        "stir 1\n"
        "sym N in [1, 64] multiple of 2\n"
        "graph @main(%x: f32[N], param %w: f32[3] = {1, 2, 3}, %trips: i64[], %go: bool[]) {\n"
        "  %l = while(%trips, %go, %x, %x) {carried = 1} @\"loop\":Loop in \"m.onnx\":3\n"
        "    region @body(%i: i64[], %a: f32[N], %c: f32[N]) {\n"
        "      %s = add(%a, %c)\n"
        "      %t = constant {value = bool[] {true}}\n"
        "      return %t, %s\n"
        "    }\n"
        "  %n = nonzero(%l)\n"
        "  write %x = %l\n"
        "  return y: %l, i: %n\n"
        "}\n";
    cr_assert_eq(text_read(&w->w, source, strlen(source), NULL, NULL, &g, &w->err), STATOR_OK, "%s",
                 st_diag_text(w->err));
    return g;
}

Test(module, clone_is_equal_and_independent)
{
    world w;
    uint8_t a[16];
    uint8_t b[16];
    begin(&w);
    text_graph g = read_loop(&w);
    st_module *copy = NULL;
    cr_assert_eq(st_module_clone(g.module, &copy, &w.err), STATOR_OK);
    char *before = print(&w, g.graph);
    cr_assert(st_graph_hash(g.graph, a));
    text_graph_free(&g);
    char *after = print(&w, copy->root);
    cr_assert(st_graph_hash(copy->root, b));
    cr_assert_str_eq(before, after);
    cr_assert_eq(memcmp(a, b, sizeof a), 0);
    cr_assert_eq(st_verify(copy->root, &w.err), STATOR_OK, "%s", st_diag_text(w.err));
    /* Interning goes on where it was: the same names and types, not new ones. */
    const uint32_t n_types = copy->types.count;
    stator_builder *more = NULL;
    cr_assert_eq(st_builder_create(copy, "more", &more, &w.err), STATOR_OK);
    const stator_ref n = st_types_api.sym_symbol(more, "N", 0, 5, 1);
    cr_assert_neq(st_types_api.tensor(more, STATOR_F32, 1, &n), 0);
    cr_assert_eq(copy->types.count, n_types);
    st_builder_abort(more);
    st_free(&w.w.mem, before);
    st_free(&w.w.mem, after);
    st_module_destroy(copy);
    end(&w);
}

Test(module, clone_allocations_may_fail)
{
    world w;
    begin(&w);
    text_graph g = read_loop(&w);
    uint32_t failures = 0;
    for (uint64_t n = 1;; n++) {
        st_module *copy = NULL;
        w.w.mem.requests = 0;
        w.w.mem.fail_at = n;
        const stator_status status = st_module_clone(g.module, &copy, &w.err);
        w.w.mem.fail_at = 0;
        st_module_destroy(copy);
        if (status == STATOR_OK) {
            break;
        }
        cr_assert_eq(status, STATOR_RESOURCE_EXHAUSTED);
        st_diag_release(w.err);
        w.err = NULL;
        failures++;
    }
    cr_assert_gt(failures, 20);
    text_graph_free(&g);
    end(&w);
}

Test(module, hash_ignores_names)
{
    static const char *const same[] = {
        "stir 1\ngraph @a(%x: f32[4]) { %y = exp(%x) @\"one\" return out: %y }\n",
        "stir 1\ngraph @b(%in: f32[4]) { %q = exp(%in) @\"two\" return %q }\n"};
    static const char *const other[] = {
        "stir 1\ngraph @a(%x: f32[4]) { %y = exp2(%x) return out: %y }\n",
        "stir 1\ngraph @a(%x: f32[5]) { %y = exp(%x) return out: %y }\n",
        "stir 1\ngraph @a(%x: f64[4]) { %y = exp(%x) return out: %y }\n",
        "stir 1\ngraph @a(%x: f32[4]) { %y = exp(%x) return out: %y, again: %y }\n",
        "stir 1\ngraph @a(%x: f32[4]) { %y = exp(%x) return out: %x }\n",
        "stir 1\ngraph @a(%x: f32[4]) { %y = exp(%x) write %x = %y return out: %y }\n",
        "stir 1\ngraph @a(%x: f32[4]) { %y = softmax(%x) {axis = -1} return out: %y }\n",
        "stir 1\ngraph @a(%x: f32[4]) { %y = softmax(%x) {axis = 0} return out: %y }\n",
        "stir 1\ngraph @a(%x: f32[4]) { %y = constant {value = f32[] {1}} return out: %y }\n",
        "stir 1\ngraph @a(%x: f32[4]) { %y = constant {value = f32[] {2}} return out: %y }\n"};
    world w;
    uint8_t hashes[12][16];
    begin(&w);
    for (uint32_t i = 0; i < 12; i++) {
        text_graph g;
        const char *text = i < 2 ? same[i] : other[i - 2];
        cr_assert_eq(text_read(&w.w, text, strlen(text), NULL, NULL, &g, &w.err), STATOR_OK, "%s",
                     st_diag_text(w.err));
        cr_assert(st_graph_hash(g.graph, hashes[i]));
        w.w.mem.fail_at = w.w.mem.requests + 1u;
        uint8_t none[16];
        cr_assert_not(st_graph_hash(g.graph, none), "a hash without memory tells nothing");
        w.w.mem.fail_at = 0;
        text_graph_free(&g);
    }
    cr_assert_eq(memcmp(hashes[0], hashes[1], 16), 0);
    for (uint32_t i = 1; i < 12; i++) {
        for (uint32_t k = i + 1; k < 12; k++) {
            cr_assert_neq(memcmp(hashes[i], hashes[k], 16), 0, "%u and %u", i, k);
        }
    }
    end(&w);
}

Test(module, merged_origins_have_no_duplicates)
{
    world w;
    begin(&w);
    const uint32_t a = st_module_origin(w.m, "a", "Add", NULL, 0);
    const uint32_t b = st_module_origin(w.m, "b", "Add", NULL, 0);
    const uint32_t ab = st_module_origin_merge(w.m, a, b);
    cr_assert_eq(st_module_origin_merge(w.m, ab, a), ab);
    cr_assert_eq(st_module_origin_merge(w.m, a, 0), a);
    cr_assert_eq(st_module_origin_merge(w.m, 0, b), b);
    const stator_origin_row *row = st_seg_at(&w.m->origins, ab);
    cr_assert_str_eq(st_module_str(w.m, row->name), "a");
    row = st_seg_at(&w.m->origins, row->next);
    cr_assert_str_eq(st_module_str(w.m, row->name), "b");
    cr_assert_eq(row->next, 0);
    cr_assert_eq(st_module_origin(w.m, "", NULL, NULL, 0), 0);
    end(&w);
}

/* The imported graph's values are their own witnesses; copies keep them. */
Test(module, witnesses)
{
    world w;
    stator_ref y = 0;
    stator_graph *first = NULL;
    stator_graph *second = NULL;
    begin(&w);
    cr_assert_eq(node(&w, "exp", 1, &w.x, 0, NULL, &y), STATOR_OK);
    cr_assert_eq(st_build_output(w.b, "y", y, &w.err), STATOR_OK);
    cr_assert_eq(st_builder_finish(w.b, &first, &w.err), STATOR_OK);
    w.b = NULL;
    const stator_graph_view *v = st_graph_view(first);
    cr_assert_eq(stator_value_at(v, y)->witness, y);
    stator_builder *b = NULL;
    stator_ref map[8] = {0};
    cr_assert_eq(st_builder_create(w.m, "copy", &b, &w.err), STATOR_OK);
    cr_assert_eq(st_build_clone_inputs(b, first, map, &w.err), STATOR_OK);
    stator_ref extra = 0;
    cr_assert_eq(st_build_op(b, "neg", 1, &map[w.x], 0, NULL, 1, &extra, &w.err), STATOR_OK);
    cr_assert_eq(st_build_clone(b, first, 1, 1, map, &w.err), STATOR_OK);
    failed_with(&w, st_build_clone(b, first, 1, 2, map, &w.err), STATOR_OUT_OF_RANGE, "1 to 2");
    cr_assert_eq(st_build_clone_outputs(b, first, map, &w.err), STATOR_OK);
    cr_assert_eq(st_builder_finish(b, &second, &w.err), STATOR_OK);
    v = st_graph_view(second);
    cr_assert_eq(stator_value_at(v, map[y])->witness, y);
    cr_assert_eq(stator_value_at(v, extra)->witness, 0);
    end(&w);
}

Test(module, strings_and_types_are_interned)
{
    world w;
    begin(&w);
    const uint32_t a = st_module_string(w.m, "name", 4);
    cr_assert_eq(st_module_string(w.m, "name!", 4), a);
    cr_assert_neq(st_module_string(w.m, "nam", 3), a);
    cr_assert_eq(st_module_string(w.m, "", 0), 0);
    cr_assert_str_eq(st_module_str(w.m, 0), "");
    const stator_ref four = st_types_api.sym_int(w.b, 4);
    cr_assert_eq(st_types_api.tensor(w.b, STATOR_F32, 1, &four), w.f32x4);
    const stator_ref f64 = st_types_api.tensor(w.b, STATOR_F64, 1, &four);
    const stator_type_row *p = st_seg_at(&w.m->types, f64);
    const stator_type_row *q = st_seg_at(&w.m->types, w.f32x4);
    cr_assert_eq(p->dims_begin, q->dims_begin, "equal dims have one place");
    cr_assert_eq(st_types_api.tensor(w.b, 99, 1, &four), 0);
    cr_assert_eq(st_types_api.tensor(w.b, STATOR_F32, 17, &four), 0);
    const stator_ref bad = 12345;
    cr_assert_eq(st_types_api.tensor(w.b, STATOR_F32, 1, &bad), 0);
    end(&w);
}
