/* Entries of the compile cache with a right checksum and wrong contents: each is refused or
 * makes a program, and none brings the process down. Real entries of inductor-cpu (code,
 * contractions, symbolic sizes, control flow, a part on the fallback), one to a few places of
 * them changed or the end cut off. */
#define _GNU_SOURCE
#include "codegen/target/library.h"
#include "core/cache/cache.h"
#include "core/host/compile_graph.h"
#include "core/host/model.h"
#include "ir/binary.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS 1500u

static const char *const models[] = {
    "stir 1\nsym N in [1, 64]\ngraph @main(%x: f32[N, 16], %w: f32[16, 16]) {\n"
    "  %a = matmul(%x, %w)\n  %b = softmax(%a) {axis = -1}\n  %c = concat(%b, %x) {axis = 0}\n"
    "  return c: %c\n}\n",
    "stir 1\ngraph @main(%n: i64[], %p: bool[], %x: f32[4], %s: f32[5, 4], %w: f32[]) {\n"
    "  %r = while(%n, %p, %x) {carried = 1} : f32[4]\n"
    "   region (%i: i64[], %y: f32[4]) { %t = constant {value = bool[] {true}} %z = sin(%y)"
    " %q = add(%z, %y) return %t, %q }\n"
    "  %g, %k = scan(%r, %s, %w) {carried = 1, scanned = 1, stacked = 1} : f32[4], f32[5, 4]\n"
    "   region (%a: f32[4], %b: f32[4], %c: f32[]) { %d = add(%a, %b) %e = mul(%d, %c)"
    " return %e, %d }\n  return g: %g, k: %k\n}\n",
    "stir 1\nsym N in [2, 64]\nsym M in [1, 64]\ngraph @main(%x: f32[N, 3], %y: f32[M, 3]) {\n"
    "  %a = add(%x, %y) : f32[N, 3]\n  %s = slice(%a) {starts = [M, 0], sizes = [2, 3],"
    " steps = [1, 1]}\n  return a: %a, s: %s\n}\n",
    /* nonzero is the fallback's: its graph is kept */
    "stir 1\nsym N in [1, 64]\ngraph @main(%x: f32[N, 4]) {\n"
    "  %c = constant {value = f32[4] {1, 2, 3, 4}}\n  %a = mul(%x, %c)\n  %z = nonzero(%a)\n"
    "  %f = cast(%z) {dtype = f32}\n  %e = exp(%f)\n  return e: %e, a: %a\n}\n",
};

typedef struct world {
    stator_ctx *ctx;
    stator_model *model;
    st_cache_job job;
    st_compile_request request;
    st_fuel fuel;
    st_str good;
} world;

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static int is_here(stator_ctx *ctx)
{
    stator_instance *instance = NULL;
    stator_diag *diag = NULL;
    const int is_ok =
        st_instance_open(ctx, "inductor-cpu", 0, NULL, NULL, &instance, &diag) == STATOR_OK;
    st_diag_release(diag);
    st_instance_close(instance);
    return is_ok;
}

/* Loads the model and asks for the key of its compile. */
static void make(world *w, const char *text)
{
    const stator_load_options options = {.struct_size = sizeof options, .flags = 1};
    stator_diag *err = NULL;
    cr_assert_eq(stator_model_load_bytes(w->ctx, text, strlen(text), "m.stir", &options, &w->model),
                 STATOR_OK, "%s", stator_ctx_error_text(w->ctx));
    st_fuel_init(&w->fuel, &w->ctx->mem);
    w->request = (st_compile_request){
        .ctx = w->ctx, .source = w->model->specialisations->module, .fuel = &w->fuel};
    cr_assert_eq(st_instance_open(w->ctx, "inductor-cpu", 0, NULL, NULL, &w->request.main, &err),
                 STATOR_OK, "%s", st_diag_text(err));
    cr_assert_eq(st_instance_open(w->ctx, "eager", 0, NULL, NULL, &w->request.fallbacks[0], &err),
                 STATOR_OK, "%s", st_diag_text(err));
    w->request.evaluator = w->request.fallbacks[0];
    w->request.n_fallbacks = 1;
}

static void end(world *w)
{
    st_cache_end(&w->job);
    st_str_deinit(&w->good);
    st_instance_close(w->request.main);
    st_instance_close(w->request.fallbacks[0]);
    st_fuel_deinit(&w->fuel);
    stator_model_destroy(w->model);
}

/* Compiles, and takes the payload of the entry that was published. */
static void read_entry(world *w)
{
    st_cache_bytes entry;
    st_compiled *made = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(st_compile_graph(&w->request, &made, &err), STATOR_OK, "%s", st_diag_text(err));
    st_compiled_destroy(made);
    st_cache_begin(&w->job, &w->request);
    cr_assert_not_null(w->job.store, "%s", w->job.refusal);
    cr_assert(st_cache_read(w->job.store, ST_CACHE_CODE, w->job.name, w->job.key.data, &entry));
    st_str_init(&w->good, &w->ctx->mem);
    st_str_addn(&w->good, (const char *)entry.payload, entry.size_bytes);
    cr_assert(st_str_ok(&w->good));
    st_free(&w->ctx->mem, entry.file);
}

static stator_status load(world *w, const uint8_t *bytes, uint64_t n)
{
    st_compiled out = {.ctx = w->ctx};
    stator_diag *err = NULL;
    w->job.phase = ST_CACHE_LOADING;
    const stator_status status = st_cache_read_compiled(&w->job, bytes, n, &out, &err);
    cr_assert_eq(status == STATOR_OK, err == NULL);
    st_compiled_clear(&out);
    st_diag_release(err);
    for (uint32_t i = 0; i < w->job.constants.count; i++) {
        st_blob_release(w->job.constants.data[i].blob);
    }
    w->job.constants.count = 0;
    return status;
}

/* A number that is likely to be a count, a place or a length, made another. */
static void change(uint8_t *bytes, uint64_t n, uint64_t *state)
{
    static const uint32_t odd[] = {0, 1, 2, 0x7fffffff, 0x80000000, 0xffffffff, 64, 65536};
    const uint64_t at = next(state) % n;
    if (next(state) % 2 && at + 4 <= n) {
        uint32_t word = odd[next(state) % (sizeof odd / sizeof odd[0])];
        memcpy(bytes + at / 4u * 4u, &word, at / 4u * 4u + 4u <= n ? 4u : 0u);
    } else {
        bytes[at] ^= (uint8_t)(1u << next(state) % 8u);
    }
}

static void damage(world *w)
{
    uint64_t state = 1;
    const uint64_t n = w->good.len;
    uint8_t *bytes = malloc(n);
    uint32_t refused = 0;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        memcpy(bytes, w->good.data, n);
        const uint64_t few = 1u + next(&state) % 3u;
        for (uint64_t i = 0; i < few; i++) {
            change(bytes, n, &state);
        }
        refused += load(w, bytes, round % 8u == 0 ? next(&state) % n : n) != STATOR_OK;
    }
    free(bytes);
    cr_assert_gt(refused, ROUNDS / 8u); /* the rest changed code, names or values alone */
}

/* A load without memory fails and leaves the entry, which is as good as before. */
static void starve(world *w)
{
    uint32_t failed = 0;
    for (uint64_t n = 1; n < 2000; n++) {
        st_compiled out = {.ctx = w->ctx};
        st_cache_bytes entry;
        stator_x_fail_alloc_at(w->ctx, n);
        const int is_hit = st_cache_load(&w->job, &out);
        stator_x_fail_alloc_at(w->ctx, 0);
        st_compiled_clear(&out);
        cr_assert(st_cache_read(w->job.store, ST_CACHE_CODE, w->job.name, w->job.key.data, &entry),
                  "request %llu took the entry along", (unsigned long long)n);
        st_free(&w->ctx->mem, entry.file);
        if (is_hit) {
            break;
        }
        failed++;
    }
    cr_assert(failed > 5 && failed < 1999);
}

/* A context with the cache in a folder of its own. */
static void open_world(world *w, char root[])
{
    cr_assert_not_null(mkdtemp(root));
    cr_assert_eq(setenv("STATOR_CACHE_DIR", root, 1), 0);
    cr_assert_eq(unsetenv("STATOR_CACHE"), 0);
    const stator_ctx_options options = {.struct_size = sizeof options, .threads = 2};
    *w = (world){.ctx = NULL};
    cr_assert_eq(stator_ctx_create(&options, &w->ctx), STATOR_OK);
}

static void close_world(world *w, const char *root)
{
    char command[96];
    stator_ctx_destroy(w->ctx);
    (void)snprintf(command, sizeof command, "rm -rf %s", root);
    cr_assert_eq(system(command), 0);
}

static void load_good(world *w)
{
    cr_assert_eq(load(w, (const uint8_t *)w->good.data, w->good.len), STATOR_OK);
}

/* Does `what` with an entry of each model. */
static void with_entries(void (*what)(world *w))
{
    char root[] = "/tmp/stator-damage-XXXXXX";
    world w;
    open_world(&w, root);
    for (size_t m = 0; is_here(w.ctx) && m < sizeof models / sizeof models[0]; m++) {
        make(&w, models[m]);
        read_entry(&w);
        load_good(&w);
        what(&w);
        end(&w);
    }
    close_world(&w, root);
}

Test(cache_damage, damaged_entry_is_refused_or_harmless, .timeout = 240)
{
    with_entries(damage);
}

Test(cache_damage, out_of_memory_does_not_remove_the_entry, .timeout = 240)
{
    with_entries(starve);
}

/* ---- entries that were put together from sound pieces ---- */

/* Where the bytes occur first, which they must. */
static uint64_t find(const world *w, const void *bytes, uint64_t n)
{
    const char *at = memmem(w->good.data, w->good.len, bytes, n);
    cr_assert_not_null(at);
    return (uint64_t)(at - w->good.data);
}

/* The graph of the part that is on the fallback, with its length before it. */
static uint64_t find_graph(const world *w, uint64_t *out_bytes)
{
    uint64_t n = 0;
    const uint64_t at = find(w, ST_STIRB_MAGIC, 8) - sizeof n;
    memcpy(&n, w->good.data + at, sizeof n);
    *out_bytes = n + sizeof n;
    cr_assert_leq(at + *out_bytes, w->good.len);
    return at;
}

/* nonzero, which is the fallback's, of `sizes` */
static void make_nonzero(world *w, const char *sizes)
{
    char text[512];
    (void)snprintf(text, sizeof text,
                   "stir 1\nsym N in [1, 64]\ngraph @main(%%x: f32%s, %%n: f32[N]) {\n"
                   "  %%a = mul(%%x, %%x)\n  %%z = nonzero(%%a)\n  %%f = cast(%%z) {dtype = f32}\n"
                   "  %%e = exp(%%f)\n  %%m = neg(%%n)\n  return e: %%e, a: %%a, m: %%m\n}\n",
                   sizes);
    make(w, text);
    read_entry(w);
    load_good(w);
}

/* The graph of another entry, whose sizes are others, would run past the ends of the step's
 * buffers. */
Test(cache_damage, entry_with_a_part_of_other_sizes_is_refused, .timeout = 60)
{
    static const char *const sizes[] = {"[N, 4]", "[N, 8]", "[4, N]",       "[N, N]",
                                        "[4, 4]", "[4, 8]", "[2*N + 1, 4]", "[N + 1, 4]"};
    enum { KINDS = sizeof sizes / sizeof sizes[0] };
    char root[] = "/tmp/stator-damage-XXXXXX";
    world first;
    open_world(&first, root);
    stator_ctx *ctx = first.ctx;
    for (uint32_t i = 0; is_here(ctx) && i < KINDS * KINDS; i++) {
        world w = {.ctx = ctx};
        world other = {.ctx = ctx};
        st_str forged;
        uint64_t n_own = 0;
        uint64_t n_other = 0;
        if (i / KINDS == i % KINDS) {
            continue;
        }
        make_nonzero(&w, sizes[i / KINDS]);
        make_nonzero(&other, sizes[i % KINDS]);
        const uint64_t own = find_graph(&w, &n_own);
        const uint64_t from = find_graph(&other, &n_other);
        st_str_init(&forged, &ctx->mem);
        st_str_addn(&forged, w.good.data, own);
        st_str_addn(&forged, other.good.data + from, n_other);
        st_str_addn(&forged, w.good.data + own + n_own, w.good.len - own - n_own);
        cr_expect_neq(load(&w, (const uint8_t *)forged.data, forged.len), STATOR_OK,
                      "the graph of %s instead of %s", sizes[i % KINDS], sizes[i / KINDS]);
        st_str_deinit(&forged);
        end(&w);
        end(&other);
    }
    close_world(&first, root);
}

enum { ROWS = 128, COLUMNS = 96, SHARE = 32 };

/* x[3, ROWS] times weights of four bits, with a scale for each SHARE rows of a column. */
static void make_few_bits(world *w)
{
    st_str text;
    st_str_init(&text, &w->ctx->mem);
    st_str_addf(&text,
                "stir 1\ngraph @main(%%x: f32[3, %d]) {\n  %%w = constant {value = i4[%d, %d] {",
                ROWS, ROWS, COLUMNS);
    for (int i = 0; i < ROWS * COLUMNS; i++) {
        st_str_addf(&text, "%s%d", i ? ", " : "", i % 16 - 8);
    }
    st_str_addf(&text, "}}\n  %%s0 = constant {value = f32[%d, %d] {", ROWS / SHARE, COLUMNS);
    for (int i = 0; i < ROWS / SHARE * COLUMNS; i++) {
        st_str_addf(&text, "%s0.0%d", i ? ", " : "", i % 9 + 1);
    }
    st_str_addf(&text,
                "}}\n  %%s1 = reshape(%%s0) {shape = [%d, 1, %d]}\n"
                "  %%s2 = expand(%%s1) {shape = [%d, %d, %d]}\n"
                "  %%s = reshape(%%s2) {shape = [%d, %d]}\n  %%i = cast(%%w) {dtype = i32}\n"
                "  %%f = cast(%%i) {dtype = f32}\n"
                "  %%d = mul(%%f, %%s)\n  %%y = matmul(%%x, %%d)\n  return y: %%y\n}\n",
                ROWS / SHARE, COLUMNS, ROWS / SHARE, SHARE, COLUMNS, ROWS, COLUMNS);
    cr_assert(st_str_ok(&text));
    make(w, text.data);
    st_str_deinit(&text);
    read_entry(w);
    load_good(w);
}

/* A size of a launch as the entry has it: a program that is a number. */
typedef struct __attribute__((packed)) kept_number {
    uint32_t is_const;
    int64_t value;
    uint64_t n_code;
} kept_number;

/* The weights' offset and strides among the numbers of the launch: they follow those of x, whose
 * rows are ROWS long. */
static uint64_t find_strides(const world *w)
{
    kept_number numbers[5] = {{1, ROWS, 0}, {1, 1, 0}, {1, 0, 0}, {1, COLUMNS, 0}, {1, 1, 0}};
    return find(w, numbers, sizeof numbers) + 2 * sizeof numbers[0];
}

static void refuse_changed(world *w, uint64_t at, int64_t value, const char *what)
{
    char *bytes = malloc(w->good.len);
    cr_assert_not_null(bytes);
    memcpy(bytes, w->good.data, w->good.len);
    memcpy(bytes + at, &value, sizeof value);
    cr_expect_neq(load(w, (const uint8_t *)bytes, w->good.len), STATOR_OK, "%s %lld", what,
                  (long long)value);
    free(bytes);
}

/* Offsets and strides that leave the constants, of the weights and of their scales. */
Test(cache_damage, packed_strides_outside_their_constants_are_refused, .timeout = 60)
{
    static const int64_t bad[] = {COLUMNS + 1, INT64_C(1) << 40, INT64_C(1) << 62, -1, INT64_MIN};
    char root[] = "/tmp/stator-damage-XXXXXX";
    const uint64_t contraction_bytes = sizeof(st_contraction);
    world w;
    open_world(&w, root);
    const int is_tested = is_here(w.ctx);
    if (is_tested) {
        make_few_bits(&w);
        const uint64_t numbers = find_strides(&w) + offsetof(kept_number, value);
        const uint64_t scale = find(&w, &contraction_bytes, sizeof contraction_bytes) +
                               sizeof contraction_bytes + offsetof(st_contraction, weights) +
                               offsetof(st_contraction_weights, scale);
        for (uint32_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            refuse_changed(&w, numbers, bad[i], "offset of weights");
            refuse_changed(&w, numbers + sizeof(kept_number), bad[i], "stride of k of weights");
            refuse_changed(&w, numbers + 2 * sizeof(kept_number), bad[i], "stride of n of weights");
            refuse_changed(&w, scale + offsetof(st_contraction_blocks, offset), bad[i],
                           "offset of scales");
            refuse_changed(&w, scale + offsetof(st_contraction_blocks, stride), bad[i],
                           "stride of scales");
        }
        end(&w);
    }
    close_world(&w, root);
}
