/* Sequences in ONNX models: lists, splits of an axis without a known size, lists that a loop makes,
 * on eager; and what is refused. */
#include "support_onnx.h"
#include "support_run.h"

#include <criterion/criterion.h>
#include <string.h>

static const int64_t ROWS[2] = {-1, 2};
static const float X[8] = {0, 1, 2, 3, 4, 5, 6, 7};

static stator_model *load(stator_ctx *ctx, onnx_bytes *m)
{
    stator_model *model = NULL;
    const stator_load_options options = {
        .struct_size = sizeof options, .frontend = "onnx", .flags = 1};
    const stator_status status =
        stator_model_load_bytes(ctx, m->data, m->size, "hand.onnx", &options, &model);
    onnx_free(m);
    return status == STATOR_OK ? model : NULL;
}

/* Runs a model of x[N, 2] with N = 3 and 4 (x counts up) and compares its first output. */
static void expect(onnx_bytes *m, uint32_t rank, const int64_t dims[2][3], const float *want[2])
{
    stator_ctx *ctx = run_context();
    stator_model *model = load(ctx, m);
    cr_assert_not_null(model, "%s", stator_ctx_error_text(ctx));
    const stator_compile_options how = {.struct_size = sizeof how, .backend = "eager"};
    stator_function *fn = NULL;
    cr_assert_eq(stator_compile(model, &how, &fn), STATOR_OK, "%s", stator_ctx_error_text(ctx));
    for (int64_t n = 3; n <= 4; n++) {
        const int64_t shape[2] = {n, 2};
        stator_tensor *in[1] = {run_tensor(ctx, STATOR_F32, 2, shape, X)};
        stator_tensor *out[1] = {NULL};
        cr_assert_eq(stator_call_tensors(fn, 1, in, 1, out), STATOR_OK, "%s",
                     stator_ctx_error_text(ctx));
        const DLTensor *v = stator_tensor_view(out[0]);
        int64_t count = 1;
        cr_assert_eq((uint32_t)v->ndim, rank);
        for (uint32_t i = 0; i < rank; i++) {
            cr_assert_eq(v->shape[i], dims[n - 3][i]);
            count *= dims[n - 3][i];
        }
        cr_assert_arr_eq(stator_tensor_data(out[0]), want[n - 3], (size_t)count * sizeof X[0]);
        stator_tensor_release(in[0]);
        stator_tensor_release(out[0]);
    }
    stator_function_destroy(fn);
    stator_model_destroy(model);
    stator_ctx_destroy(ctx);
}

static void expect_refused(onnx_bytes *m, const char *word)
{
    stator_ctx *ctx = run_context();
    stator_model *model = load(ctx, m);
    cr_assert_null(model);
    const char *text = stator_ctx_error_text(ctx);
    cr_assert_not_null(strstr(text, word), "'%s' does not say '%s'", text, word);
    stator_ctx_destroy(ctx);
}

static void int_constant(onnx_bytes *g, const char *name, int64_t value)
{
    onnx_init(g, name, ONNX_INT64, 0, NULL, &value, sizeof value);
}

static void node_with_axis(onnx_bytes *g, const char *op, const char *in, const char *out,
                           const char *more, int64_t axis)
{
    onnx_bytes a = {0};
    onnx_attr_int(&a, "axis", axis);
    if (more != NULL) {
        onnx_attr_int(&a, more, more[0] == 'n'); /* new_axis = 1, keepdims = 0 */
    }
    onnx_node(g, op, in, out, &a);
}

static onnx_bytes finished(onnx_bytes *g, const char *output)
{
    onnx_output(g, output, ONNX_FLOAT);
    return onnx_model(g, 17, NULL);
}

static onnx_bytes graph_of_rows(void)
{
    onnx_bytes g = {0};
    onnx_input(&g, "x", ONNX_FLOAT, 2, ROWS);
    return g;
}

/* The columns and x itself, put in order by inserting and erasing. */
Test(onnx_sequences, insert_erase_and_at)
{
    onnx_bytes g = graph_of_rows();
    int_constant(&g, "zero", 0);
    int_constant(&g, "last", -1);
    int_constant(&g, "two", 2);
    node_with_axis(&g, "SplitToSequence", "x", "s", NULL, 1);
    onnx_node(&g, "SequenceAt", "s,last", "c", NULL);
    onnx_node(&g, "SequenceInsert", "s,c,zero", "t", NULL); /* c1 c0 c1 */
    onnx_node(&g, "SequenceInsert", "t,x", "u", NULL);      /* c1 c0 c1 x */
    onnx_node(&g, "SequenceErase", "u,two", "v", NULL);     /* c1 c0 x */
    onnx_node(&g, "Identity", "v", "w", NULL);
    node_with_axis(&g, "ConcatFromSequence", "w", "joined", NULL, -1);
    onnx_node(&g, "SequenceLength", "w", "n", NULL);
    onnx_node(&g, "CastLike", "n,x", "f", NULL);
    onnx_node(&g, "Mul", "joined,f", "y", NULL);
    onnx_bytes m = finished(&g, "y");
    static const int64_t dims[2][3] = {{3, 4}, {4, 4}};
    static const float want[16] = {3, 0, 0, 3, 9, 6, 6, 9, 15, 12, 12, 15, 21, 18, 18, 21};
    expect(&m, 2, dims, (const float *[]){want, want});
}

/* Rows of an axis without a known size: the last one, then all of them as columns. */
Test(onnx_sequences, unbind_of_a_symbolic_axis)
{
    onnx_bytes g = graph_of_rows();
    int_constant(&g, "last", -1);
    node_with_axis(&g, "SplitToSequence", "x", "s", "keepdims", 0);
    onnx_node(&g, "SequenceAt", "s,last", "row", NULL);
    onnx_node(&g, "SequenceInsert", "s,row", "t", NULL);
    node_with_axis(&g, "ConcatFromSequence", "t", "y", "new_axis", 1);
    onnx_bytes m = finished(&g, "y");
    static const int64_t dims[2][3] = {{2, 4}, {2, 5}};
    static const float three[8] = {0, 2, 4, 4, 1, 3, 5, 5};
    static const float four[10] = {0, 2, 4, 6, 6, 1, 3, 5, 7, 7};
    expect(&m, 2, dims, (const float *[]){three, four});
}

/* The body of a loop that carries the sequence `so_far`; it is to make `again` and `next`. */
static onnx_bytes carrying_body(void)
{
    onnx_bytes body = {0};
    onnx_input(&body, "i", ONNX_INT64, 0, NULL);
    onnx_input(&body, "c", ONNX_BOOL, 0, NULL);
    onnx_input(&body, "so_far", ONNX_FLOAT, 1, ROWS);
    return body;
}

/* The model of g with a loop of that body from an empty sequence on, which makes y. */
static onnx_bytes carry_through(onnx_bytes *g, onnx_bytes *body, const char *operands, int64_t axis)
{
    onnx_bytes a = {0};
    onnx_output(body, "again", ONNX_BOOL);
    onnx_output(body, "next", ONNX_FLOAT);
    onnx_attr_graph(&a, "body", body);
    onnx_node(g, "SequenceEmpty", "", "none", NULL);
    onnx_node(g, "Loop", operands, "made", &a);
    node_with_axis(g, "ConcatFromSequence", "made", "y", NULL, axis);
    return finished(g, "y");
}

/* A loop over the rows of x as a sequence: its body makes twice row i, and the next sequence by the
 * operator `appends`. */
static onnx_bytes loop_model(const char *appends, const char *operands, int joins_along)
{
    onnx_bytes g = graph_of_rows(), body = carrying_body();
    onnx_node(&body, "Identity", "c", "again", NULL);
    onnx_node(&body, "SequenceAt", "rows,i", "row", NULL);
    onnx_node(&body, "Add", "row,row", "twice", NULL);
    onnx_node(&body, appends, operands, "next", NULL);
    node_with_axis(&g, "SplitToSequence", "x", "rows", NULL, 0);
    onnx_node(&g, "SequenceLength", "rows", "n", NULL);
    return carry_through(&g, &body, "n,,none", joins_along);
}

Test(onnx_sequences, loop_that_appends_to_a_sequence)
{
    static const int64_t rows[2][3] = {{3, 2}, {4, 2}};
    static const float twice[8] = {0, 2, 4, 6, 8, 10, 12, 14};
    onnx_bytes m = loop_model("SequenceInsert", "so_far,twice", 0);
    expect(&m, 2, rows, (const float *[]){twice, twice});
    static const int64_t row[2][3] = {{1, 6}, {1, 8}};
    m = loop_model("SequenceInsert", "so_far,twice", 1);
    expect(&m, 2, row, (const float *[]){twice, twice});
}

/* "offsets[i : i + 1]" in a loop: a bound without a known count. */
Test(onnx_sequences, slices_between_offsets_in_a_loop)
{
    static const int64_t OFFSETS[1] = {4};
    static const int64_t ONE[1] = {1};
    const int64_t places[4] = {0, 1, 1, 3};
    const int64_t one = 1, first = 0;
    const uint8_t yes = 1;
    onnx_bytes g = graph_of_rows(), body = carrying_body();
    onnx_node(&body, "Less", "i,two", "again", NULL);
    onnx_node(&body, "Add", "i,one", "from", NULL); /* [1] */
    onnx_node(&body, "Add", "from,one", "to", NULL);
    onnx_node(&body, "Unsqueeze", "i,axes", "i1", NULL);
    onnx_node(&body, "Slice", "offsets,i1,from", "start", NULL);
    onnx_node(&body, "Slice", "offsets,from,to", "end", NULL);
    onnx_node(&body, "Slice", "x,start,end", "part", NULL);
    onnx_node(&body, "ReduceSum", "part,axes", "sum", NULL);
    onnx_node(&body, "SequenceInsert", "so_far,sum", "next", NULL);
    onnx_init(&g, "offsets", ONNX_INT64, 1, OFFSETS, places, sizeof places);
    onnx_init(&g, "one", ONNX_INT64, 1, ONE, &one, sizeof one);
    onnx_init(&g, "axes", ONNX_INT64, 1, ONE, &first, sizeof first);
    int_constant(&g, "two", 2);
    onnx_init(&g, "go", ONNX_BOOL, 0, NULL, &yes, sizeof yes);
    onnx_bytes m = carry_through(&g, &body, ",go,none", 0);
    static const int64_t dims[2][3] = {{3, 2}, {3, 2}};
    static const float want[6] = {0, 1, 0, 0, 6, 8};
    expect(&m, 2, dims, (const float *[]){want, want});
}

/* A counted loop whose iterations append the first row, then the first two: written out. Its
 * condition ends it before the third of ten iterations. */
Test(onnx_sequences, iterations_that_append_different_sizes)
{
    static const int64_t ONE[1] = {1};
    const int64_t one = 1, first = 0;
    const uint8_t yes = 1;
    onnx_bytes g = graph_of_rows(), body = carrying_body();
    onnx_node(&body, "Add", "i,one", "to", NULL);
    onnx_node(&body, "Less", "i,single", "again", NULL);
    onnx_node(&body, "Slice", "x,zero,to", "part", NULL);
    onnx_node(&body, "SequenceInsert", "so_far,part", "next", NULL);
    onnx_init(&g, "one", ONNX_INT64, 1, ONE, &one, sizeof one);
    onnx_init(&g, "zero", ONNX_INT64, 1, ONE, &first, sizeof first);
    onnx_init(&g, "go", ONNX_BOOL, 0, NULL, &yes, sizeof yes);
    int_constant(&g, "single", 1);
    int_constant(&g, "ten", 10);
    onnx_bytes m = carry_through(&g, &body, "ten,go,none", 0);
    static const int64_t dims[2][3] = {{3, 2}, {3, 2}};
    static const float want[6] = {0, 1, 0, 1, 2, 3};
    expect(&m, 2, dims, (const float *[]){want, want});
}

/* Each column with x's second column added. */
Test(onnx_sequences, sequence_map)
{
    onnx_bytes g = graph_of_rows(), body = {0}, a = {0};
    int_constant(&g, "last", -1);
    onnx_input(&body, "e", ONNX_FLOAT, 2, ROWS);
    onnx_input(&body, "t", ONNX_FLOAT, 2, ROWS);
    onnx_node(&body, "Add", "e,t", "sum", NULL);
    onnx_output(&body, "sum", ONNX_FLOAT);
    onnx_attr_graph(&a, "body", &body);
    node_with_axis(&g, "SplitToSequence", "x", "s", NULL, 1);
    onnx_node(&g, "SequenceAt", "s,last", "c", NULL);
    onnx_node(&g, "SequenceMap", "s,c", "m", &a);
    node_with_axis(&g, "ConcatFromSequence", "m", "y", NULL, 1);
    onnx_bytes m = finished(&g, "y");
    static const int64_t dims[2][3] = {{3, 2}, {4, 2}};
    static const float want[8] = {1, 2, 5, 6, 9, 10, 13, 14};
    expect(&m, 2, dims, (const float *[]){want, want});
}

Test(onnx_sequences, unsupported_sequences_are_refused)
{
    onnx_bytes m = loop_model("SequenceErase", "so_far", 0);
    expect_refused(&m, "can only be appended to");
    m = loop_model("SequenceConstruct", "twice", 0);
    expect_refused(&m, "must append one tensor");
    onnx_bytes g = graph_of_rows();
    node_with_axis(&g, "SplitToSequence", "x", "s", NULL, 0);
    onnx_node(&g, "Neg", "s", "y", NULL);
    m = finished(&g, "y");
    expect_refused(&m, "input 0 is a sequence, expected a tensor");
    g = graph_of_rows();
    node_with_axis(&g, "SplitToSequence", "x", "s", NULL, 0);
    m = finished(&g, "s");
    expect_refused(&m, "output 's' is a sequence");
    g = graph_of_rows();
    int_constant(&g, "two", 2);
    node_with_axis(&g, "SplitToSequence", "x,two", "s", NULL, 0);
    node_with_axis(&g, "ConcatFromSequence", "s", "y", NULL, 0);
    m = finished(&g, "y");
    expect_refused(&m, "the number of parts of size 2 is not known");
    g = graph_of_rows();
    onnx_node(&g, "SequenceEmpty", "", "s", NULL);
    node_with_axis(&g, "ConcatFromSequence", "s", "y", NULL, 0);
    m = finished(&g, "y");
    expect_refused(&m, "has no elements");
}
