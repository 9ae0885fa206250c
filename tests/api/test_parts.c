/* What a function says of its parts: one row an executable, bodies of control flow among them,
 * whose sums are those of stator_x_memory_of; callers of an older header get what they know. What a
 * part does step by step, what was left to another backend, and what calls the program is for. */
#include "api_check.h"

static const char plain[] = "stir 1\n"
                            "graph @main(%x: f32[2, 3]) {\n"
                            "  %a = exp(%x)\n"
                            "  %b = reduce_sum(%a) {axes = [1]}\n"
                            "  return a: %a, b: %b\n"
                            "}\n";

static const char branches[] = "stir 1\n"
                               "graph @main(%p: bool[], %x: f32[2, 3]) {\n"
                               "  %a = exp(%x)\n"
                               "  %o = cond(%p, %a) : f32[2, 3]\n"
                               "   region (%u: f32[2, 3]) { %v = sin(%u) return %v }\n"
                               "   region (%u: f32[2, 3]) { %v = neg(%u) return %v }\n"
                               "  return o: %o\n"
                               "}\n";

typedef struct totals {
    uint32_t parts, in_bodies;
    uint64_t constant_bytes, packed_bytes, winograd_bytes, results;
} totals;

static totals add_up(stator_function *function)
{
    totals t = {.parts = stator_x_part_count(function)};
    stator_x_part part = {.struct_size = sizeof part};
    for (uint32_t i = 0; i < t.parts; i++) {
        CHECK(stator_x_part_at(function, i, &part) == STATOR_OK);
        CHECK(part.backend != NULL && part.program == 0 && part.struct_size == sizeof part);
        t.in_bodies += part.body != 0;
        t.constant_bytes += part.constant_bytes;
        t.packed_bytes += part.packed_bytes;
        t.winograd_bytes += part.winograd_bytes;
        t.results += part.result_bytes;
    }
    CHECK(stator_x_part_at(function, t.parts, &part) == STATOR_OUT_OF_RANGE);
    return t;
}

static void check_sums(stator_function *function, const totals *t, uint64_t outputs)
{
    stator_x_memory sum = {.struct_size = sizeof sum};
    stator_x_memory_of(function, &sum);
    CHECK(sum.executables == t->parts && sum.constant_bytes == t->constant_bytes);
    CHECK(sum.packed_bytes == t->packed_bytes && sum.winograd_bytes == t->winograd_bytes);
    CHECK(sum.output_bytes == outputs);
}

/* The caller's struct ends where it says. */
static void check_older(stator_function *function)
{
    stator_x_part part;
    stator_x_memory sum;
    memset(&part, 0x55, sizeof part);
    memset(&sum, 0x55, sizeof sum);
    part.struct_size = offsetof(stator_x_part, result_bytes);
    CHECK(stator_x_part_at(function, 0, &part) == STATOR_OK);
    CHECK(part.result_bytes == UINT64_C(0x5555555555555555) && part.backend[0] != 0);
    sum.struct_size = offsetof(stator_x_memory, output_bytes);
    stator_x_memory_of(function, &sum);
    CHECK(sum.output_bytes == UINT64_C(0x5555555555555555) && sum.executables != 0);
}

static void test_plain(stator_ctx *ctx, const char *backend)
{
    const float values[6] = {1, 2, 3, 4, 5, 6};
    stator_model *model = load_text(ctx, plain);
    stator_function *function = compile_for(ctx, model, backend);
    stator_tensor *in = tensor_2d(ctx, 2, 3, values);
    CHECK(stator_x_part_count(function) == 0); /* nothing is compiled yet */
    CHECK_OK(ctx, stator_x_prepare(function, 1, &in));
    const totals t = add_up(function);
    CHECK(t.parts == 1 && t.in_bodies == 0 && t.results == (6 + 2) * sizeof(float));
    check_sums(function, &t, (6 + 2) * sizeof(float));
    check_older(function);
    stator_tensor_release(in);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

static void test_branches(stator_ctx *ctx, const char *backend)
{
    const float values[6] = {1, 2, 3, 4, 5, 6};
    stator_model *model = load_text(ctx, branches);
    const stator_compile_options options = {.struct_size = sizeof options, .backend = backend};
    stator_function *function = NULL;
    if (stator_compile(model, &options, &function) != STATOR_OK) {
        (void)printf("%s is not available here\n", backend);
        stator_model_destroy(model);
        return;
    }
    stator_tensor *in[2] = {NULL, tensor_2d(ctx, 2, 3, values)};
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_BOOL, 0, NULL, &in[0]));
    *(char *)stator_tensor_data(in[0]) = 1;
    CHECK_OK(ctx, stator_x_prepare(function, 2, in));
    const totals t = add_up(function);
    CHECK(t.parts == 3 && t.in_bodies == 2);
    check_sums(function, &t, 6 * sizeof(float));
    stator_tensor_release(in[0]);
    stator_tensor_release(in[1]);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

/* ---- steps, fallback nodes, guards ---- */

static const char symbolic[] = "stir 1\n"
                               "graph @main(%x: f32[N, 3]) {\n"
                               "  %a = exp(%x)\n"
                               "  %b = neg(%a)\n"
                               "  %i = nonzero(%b)\n"
                               "  return b: %b, i: %i\n"
                               "}\n";

typedef struct told {
    uint32_t n_steps, n_loops, n_open, deepest;
    uint64_t read_bytes, written_bytes;
    char nodes[256];  /* names, each followed by a blank */
    char guards[512]; /* lines "kind subject text;" */
    uint32_t n_fallback_entries;
} told;

static void add_text(char *to, size_t size, const char *text)
{
    CHECK(strlen(to) + strlen(text) + 1u < size);
    strcat(to, text);
}

static void take_step(void *self, const stator_x_step *step)
{
    told *t = self;
    CHECK(step->struct_size == sizeof *step && step->name[0] != 0);
    t->n_steps++;
    t->n_loops += step->kind == STATOR_STEP_LOOP;
    t->n_open += (step->flags & STATOR_STEP_OPEN) != 0;
    t->deepest = step->depth > t->deepest ? step->depth : t->deepest;
    t->read_bytes += step->read_bytes;
    t->written_bytes += step->written_bytes;
    for (uint32_t i = 0; i < step->n_nodes; i++) {
        add_text(t->nodes, sizeof t->nodes, step->nodes[i]);
        add_text(t->nodes, sizeof t->nodes, " ");
    }
}

static void take_guard(void *self, const stator_x_guard *guard)
{
    told *t = self;
    char line[128];
    (void)snprintf(line, sizeof line, "%u %s %s;", guard->kind, guard->subject, guard->text);
    add_text(t->guards, sizeof t->guards, line);
}

static void take_fallback_entry(void *self, const stator_x_fallback_entry *entry)
{
    told *t = self;
    CHECK(entry->count == 1 && strcmp(entry->op, "nonzero") == 0 && entry->reason[0] != 0);
    t->n_fallback_entries++;
}

/* All that is told of a program for x: f32[rows, 3]. */
static told ask(stator_ctx *ctx, const char *text, const char *backend, int64_t rows)
{
    told t = {.n_steps = 0};
    float *values = calloc((size_t)rows * 3u, sizeof *values);
    stator_model *model = load_text(ctx, text);
    stator_function *function = compile_for(ctx, model, backend);
    stator_tensor *in = tensor_2d(ctx, rows, 3, values);
    CHECK_OK(ctx, stator_x_guards(function, take_guard, &t));
    CHECK(t.guards[0] == 0); /* nothing is compiled yet */
    CHECK_OK(ctx, stator_x_prepare(function, 1, &in));
    for (uint32_t i = 0; i < stator_x_part_count(function); i++) {
        CHECK_OK(ctx, stator_x_part_steps(function, i, take_step, &t));
    }
    CHECK(stator_x_part_steps(function, stator_x_part_count(function), take_step, &t) ==
          STATOR_OUT_OF_RANGE);
    CHECK_OK(ctx, stator_x_guards(function, take_guard, &t));
    stator_x_fallback_nodes(function, take_fallback_entry, &t);
    stator_tensor_release(in);
    stator_function_destroy(function);
    stator_model_destroy(model);
    free(values);
    return t;
}

static int is_available(stator_ctx *ctx, const char *backend)
{
    const stator_compile_options options = {.struct_size = sizeof options, .backend = backend};
    stator_model *model = load_text(ctx, plain);
    stator_function *function = NULL;
    const int is_there = stator_compile(model, &options, &function) == STATOR_OK;
    stator_function_destroy(function);
    stator_model_destroy(model);
    return is_there;
}

static void test_told(stator_ctx *ctx)
{
    told t = ask(ctx, plain, "eager", 2);
    CHECK(t.n_steps == 2 && t.n_open == 0 && t.n_fallback_entries == 0);
    CHECK(t.read_bytes == 2u * 24u && t.written_bytes == 24u + 8u);
    CHECK(strcmp(t.guards, "1 x f32[2, 3];") == 0);
    t = ask(ctx, plain, "aot_eager", 2); /* tells what its eager tells */
    CHECK(t.n_steps == 2 && t.read_bytes == 2u * 24u);
    t = ask(ctx, symbolic, "eager", 5);
    CHECK(t.n_steps == 3 && t.n_open == 3 && t.n_fallback_entries == 0);
    CHECK(strcmp(t.guards, "1 x f32[N, 3];2 N 0 or more;") == 0);
    if (is_available(ctx, "inductor-cpu")) {
        t = ask(ctx, plain, "inductor-cpu", 2);
        CHECK(t.n_steps >= 1 && t.n_open == 0 && strstr(t.nodes, "a ") && strstr(t.nodes, "b "));
        CHECK(t.written_bytes == 24u + 8u);
        t = ask(ctx, symbolic, "inductor-cpu", 5);
        CHECK(t.n_fallback_entries == 1 && t.n_open != 0 && strstr(t.guards, "2 N "));
    }
}

int main(void)
{
    const stator_ctx_options options = {
        .struct_size = sizeof options, .threads = 1, .flags = STATOR_CTX_NO_CACHE};
    stator_ctx *ctx = NULL;
    CHECK(stator_ctx_create(&options, &ctx) == STATOR_OK);
    test_plain(ctx, "eager");
    test_branches(ctx, "inductor-cpu"); /* eager runs control flow itself */
    test_told(ctx);
    stator_ctx_destroy(ctx);
    return 0;
}
