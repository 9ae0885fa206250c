/* Entries of the compile cache with a right checksum and wrong contents: each is refused or makes a
 * program, and none brings the process down. Real entries of inductor-cpu (code, contractions,
 * symbolic sizes, control flow, a part on the fallback), one to a few places of them changed or the end cut off. */
#define _GNU_SOURCE
#include "core/host/cache.h"

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

/* Does `what` with an entry of each model on a folder of its own. */
static void with_entries(void (*what)(world *w))
{
    char root[] = "/tmp/stator-damage-XXXXXX";
    char command[96];
    cr_assert_not_null(mkdtemp(root));
    cr_assert_eq(setenv("STATOR_CACHE_DIR", root, 1), 0);
    cr_assert_eq(unsetenv("STATOR_CACHE"), 0);
    const stator_ctx_options options = {.struct_size = sizeof options, .threads = 2};
    world w = {.ctx = NULL};
    cr_assert_eq(stator_ctx_create(&options, &w.ctx), STATOR_OK);
    for (size_t m = 0; is_here(w.ctx) && m < sizeof models / sizeof models[0]; m++) {
        make(&w, models[m]);
        read_entry(&w);
        cr_assert_eq(load(&w, (const uint8_t *)w.good.data, w.good.len), STATOR_OK);
        what(&w);
        end(&w);
    }
    stator_ctx_destroy(w.ctx);
    (void)snprintf(command, sizeof command, "rm -rf %s", root);
    cr_assert_eq(system(command), 0);
}

Test(cache_damage, is_refused_or_harmless, .timeout = 240)
{
    with_entries(damage);
}

Test(cache_damage, no_memory_is_no_damage, .timeout = 240)
{
    with_entries(starve);
}
