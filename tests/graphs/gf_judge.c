/* Runs a program on two backends and compares, with symbols a second time with other sizes; see
 * gf.h for the rule. Inputs are to stay as they are, and a second call is to give the same bits.
 * gf_bits says what one backend computes, for a comparison bit by bit with another machine's. */
#include "gf.h"

#include "core/base/check.h"
#include "core/base/convert.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_VARIANTS 8
#define ALL_VARIANTS 48
#define OPTIONS_MAX 5
#define OPTIONS_TEXT 256
#define MARGIN 8.0 /* times what noise does */
#define LOOSE 1e3  /* where noise is as large as the number: tails of 1/x are long */

typedef struct results {
    stator_tensor *out[GF_OUTPUTS];
    int n;
    int has_written; /* to an input */
} results;

static void release(results *r)
{
    for (int k = 0; k < r->n; k++) {
        if (r->out[k]) {
            stator_tensor_release(r->out[k]);
        }
    }
    r->n = 0;
}

static int fail(stator_ctx *ctx, const char *what, char why[512])
{
    (void)snprintf(why, 512, "%s: %s", what, stator_ctx_error_text(ctx));
    return 0;
}

static int64_t elements(const stator_tensor *t)
{
    const DLTensor *view = stator_tensor_view(t);
    int64_t n = 1;
    for (int32_t a = 0; a < view->ndim; a++) {
        n *= view->shape[a];
    }
    return n;
}

/* FNV-1a of a tensor's bytes (Fowler, Noll and Vo, 1991). */
static uint64_t digest(const stator_tensor *t, uint64_t h)
{
    const uint8_t *at = stator_tensor_data(t);
    const int64_t n = elements(t) * (int64_t)st_dtype_bits(stator_tensor_dtype(t)) / 8;
    for (int64_t i = 0; i < n; i++) {
        h = (h ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return h;
}

static uint64_t digest_of(stator_tensor *const *list, int n)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < n; i++) {
        h = digest(list[i], h);
    }
    return h;
}

static stator_status call(stator_ctx *ctx, const gf_program *p, int with_noise, uint64_t variant,
                          stator_function *function, results *out, char why[512])
{
    int numbers[GF_INPUTS];
    stator_tensor *in[GF_INPUTS] = {0};
    const int n = gf_inputs(p, with_noise, numbers);
    stator_status status = STATOR_OK;
    for (int i = 0; i < n && status == STATOR_OK; i++) {
        /* The inputs proper are the same in all variants. */
        status = gf_tensor(ctx, p, numbers[i], numbers[i] < 0 ? variant : 0, &in[i]);
    }
    *out = (results){.n = p->n_outputs};
    if (status == STATOR_OK) {
        const uint64_t before = digest_of(in, n);
        status = stator_call_tensors(function, (uint32_t)n, in, (uint32_t)p->n_outputs, out->out);
        out->has_written = before != digest_of(in, n);
    }
    if (status != STATOR_OK) {
        (void)fail(ctx, "call", why);
    }
    for (int i = 0; i < n; i++) {
        if (in[i]) {
            stator_tensor_release(in[i]);
        }
    }
    if (status != STATOR_OK) {
        release(out);
    }
    return status;
}

/* Models and functions of one text; released by `forget`. */
typedef struct compiled {
    char *text;
    stator_model *model;
    stator_function *function;
} compiled;

static void forget(compiled *c)
{
    stator_function_destroy(c->function);
    stator_model_destroy(c->model);
    free(c->text);
    *c = (compiled){0};
}

/* Options of the backend under test: GF_KEY and GF_VALUE, each one or some with commas between. */
typedef struct option_list {
    const char *keys[OPTIONS_MAX];
    const char *values[OPTIONS_MAX];
    uint32_t n;
    char text[2][OPTIONS_TEXT];
} option_list;

/* How many there are with the n before: those past OPTIONS_MAX are counted, and not listed. */
static uint32_t split(const char *name, char text[OPTIONS_TEXT], const char **out, uint32_t n)
{
    char *rest = NULL;
    const char *value = getenv(name);
    if (value && strlen(value) >= OPTIONS_TEXT) {
        return UINT32_MAX;
    }
    (void)snprintf(text, OPTIONS_TEXT, "%s", value ? value : "");
    for (char *at = strtok_r(text, ",", &rest); at; at = strtok_r(NULL, ",", &rest)) {
        if (n < OPTIONS_MAX) {
            out[n] = at;
        }
        n++;
    }
    return n;
}

/* 0: keys and values are not as many, or too many. */
static int options_of(const char *backend, option_list *out)
{
    out->n = 0;
    if (strcmp(backend, "eager") == 0) {
        return 1;
    }
    if (getenv("GF_BOUNDS") != NULL && strcmp(backend, "inductor-cpu") == 0) {
        out->keys[0] = "inductor-cpu.debug_bounds";
        out->values[0] = "1";
        out->n = 1;
    }
    const uint32_t keys = split("GF_KEY", out->text[0], out->keys, out->n);
    const uint32_t values = split("GF_VALUE", out->text[1], out->values, out->n);
    const int is_sound = keys == values && keys <= OPTIONS_MAX;
    out->n = is_sound ? keys : 0;
    return is_sound;
}

int gf_has_sound_options(const char *backend)
{
    option_list list;
    return options_of(backend, &list);
}

static int compile(stator_ctx *ctx, const gf_program *p, int with_noise, const char *backend,
                   compiled *out, char why[512])
{
    option_list list;
    (void)options_of(backend, &list);
    const stator_compile_options options = {
        .struct_size = sizeof options,
        .backend = backend,
        .mode = strcmp(backend, "eager") == 0 ? NULL : getenv("GF_MODE"),
        .option_keys = list.keys,
        .option_values = list.values,
        .option_count = list.n};
    *out = (compiled){.text = malloc(GF_TEXT)};
    if (out->text == NULL || !gf_write(p, with_noise, out->text)) {
        (void)snprintf(why, 512, "the text is too long");
        return 0;
    }
    if (stator_model_load_bytes(ctx, out->text, strlen(out->text), "graph.stir", NULL,
                                &out->model) != STATOR_OK) {
        return fail(ctx, "load", why);
    }
    if (stator_compile(out->model, &options, &out->function) != STATOR_OK) {
        return fail(ctx, "compile", why);
    }
    return 1;
}

/* ---- comparing ---- */

static double value_at(const stator_tensor *t, int64_t i)
{
    const stator_dtype dtype = stator_tensor_dtype(t);
    return dtype >= STATOR_BF16 ? st_load_f64(dtype, stator_tensor_data(t), i)
                                : (double)st_load_i64(dtype, stator_tensor_data(t), i);
}

static int same_shape(const stator_tensor *x, const stator_tensor *y)
{
    const DLTensor *a = stator_tensor_view(x);
    const DLTensor *b = stator_tensor_view(y);
    return stator_tensor_dtype(x) == stator_tensor_dtype(y) && a->ndim == b->ndim &&
           memcmp(a->shape, b->shape, (size_t)a->ndim * sizeof *a->shape) == 0;
}

/* Equal, both NaN, or a last place apart. */
static int is_close(stator_dtype dtype, double x, double y)
{
    if (x == y || (isnan(x) && isnan(y))) {
        return 1;
    }
    const double step = dtype == STATOR_F32 ? 0x1p-22 : dtype == STATOR_F64 ? 0x1p-51 : 0;
    return isfinite(x) && isfinite(y) && fabs(x - y) <= step * fmax(fabs(x), fabs(y));
}

/* How far noise moves the element at most. A 0 that it makes (of what may cancel) counts apart: it
 * is as far off as the number is large, which says nothing of how large noise is. */
typedef struct spread {
    double far;
    int has_nan, has_high, has_low, has_number, has_zero;
} spread;

static void widen(spread *s, double reference, double x)
{
    s->has_nan |= isnan(x);
    s->has_high |= isinf(x) && x > 0;
    s->has_low |= isinf(x) && x < 0;
    s->has_number |= isfinite(x);
    s->has_zero |= x == 0;
    if (isfinite(x) && isfinite(reference) && x != 0) {
        s->far = fmax(s->far, fabs(x - reference));
    }
}

static int is_within(const spread *s, stator_dtype dtype, double reference, double x)
{
    const int has_both = s->has_high && s->has_low; /* 0 times inf lies between */
    const int is_loose = isfinite(reference) && s->far >= 0.5 * fabs(reference);
    if (isnan(x)) {
        return s->has_nan || has_both;
    }
    if (isinf(x)) {
        /* A logarithm of what noise takes below 0 and above it is infinite at 0. */
        return (x > 0 ? s->has_high : s->has_low) || (is_loose && reference != 0) ||
               (s->has_nan && s->has_number);
    }
    if (!isfinite(reference)) {
        return s->has_number;
    }
    if (!s->has_number) {
        return 1; /* noise leaves no number (a root of what was positive): how far is not known */
    }
    /* A few of the smallest numbers; products of bf16 have no subnormal ones on some processors. */
    const double tiny = dtype == STATOR_F16    ? 0x1p-24
                        : dtype == STATOR_BF16 ? 0x1p-124
                        : dtype == STATOR_F32  ? 0x1p-145
                                               : 0x1p-1060;
    const double step = dtype == STATOR_F32 ? 0x1p-21 : 0;
    if (s->has_zero && x * reference >= 0 && fabs(x) <= fabs(reference)) {
        return 1; /* between what it is and 0 */
    }
    const double margin = is_loose && reference != 0 ? LOOSE : MARGIN;
    return fabs(x - reference) <= margin * s->far + step * fabs(reference) + tiny;
}

typedef struct suspect {
    int output;
    int64_t index;
    spread spread;
} suspect;

typedef struct suspects {
    suspect *items;
    int64_t n, capacity;
} suspects;

static int find_suspects(const gf_program *p, const results *want, const results *got,
                         suspects *out, char why[512])
{
    for (int k = 0; k < p->n_outputs; k++) {
        if (!same_shape(want->out[k], got->out[k])) {
            (void)snprintf(why, 512, "output %d has another shape or dtype", k);
            return 0;
        }
        for (int64_t i = 0; i < elements(want->out[k]); i++) {
            const double x = value_at(want->out[k], i);
            if (is_close(stator_tensor_dtype(want->out[k]), x, value_at(got->out[k], i))) {
                continue;
            }
            if (out->n == out->capacity) {
                out->capacity = out->capacity * 2 + 64;
                out->items = realloc(out->items, (size_t)out->capacity * sizeof *out->items);
                if (out->items == NULL) {
                    abort();
                }
            }
            out->items[out->n++] = (suspect){.output = k, .index = i};
        }
    }
    return 1;
}

static int64_t still_suspect(const results *want, const results *got, const suspects *s)
{
    for (int64_t i = 0; i < s->n; i++) {
        const suspect *at = &s->items[i];
        const stator_tensor *w = want->out[at->output];
        if (!is_within(&at->spread, stator_tensor_dtype(w), value_at(w, at->index),
                       value_at(got->out[at->output], at->index))) {
            return i;
        }
    }
    return -1;
}

/* Can noise do what the backend did? *out_first: the first suspect that it cannot explain. */
static int explain(stator_ctx *ctx, const gf_program *p, const results *want, const results *got,
                   suspects *s, int64_t *out_first, char why[512])
{
    compiled c;
    if (!compile(ctx, p, 1, "eager", &c, why)) {
        forget(&c);
        return 0;
    }
    int ok = 1;
    *out_first = 0;
    for (int variant = 1; variant <= ALL_VARIANTS && ok && *out_first >= 0; variant++) {
        results noisy;
        ok = call(ctx, p, 1, (uint64_t)variant, c.function, &noisy, why) == STATOR_OK;
        for (int64_t i = 0; ok && i < s->n; i++) {
            suspect *at = &s->items[i];
            widen(&at->spread, value_at(want->out[at->output], at->index),
                  value_at(noisy.out[at->output], at->index));
        }
        if (ok && (variant == FIRST_VARIANTS || variant == ALL_VARIANTS)) {
            *out_first = still_suspect(want, got, s);
        }
        if (ok) {
            release(&noisy);
        }
    }
    forget(&c);
    return ok;
}

static int compare(stator_ctx *ctx, const gf_program *p, const results *want, const results *got,
                   char why[512])
{
    suspects s = {0};
    int64_t first = -1;
    int verdict = GF_AGREES;
    if (!find_suspects(p, want, got, &s, why)) {
        verdict = GF_DIFFERS;
    } else if (s.n > 0 && !explain(ctx, p, want, got, &s, &first, why)) {
        verdict = GF_FAILED; /* no eager's refusal: nobody knows whether it may differ */
        char cause[256];
        (void)snprintf(cause, sizeof cause, "%s", why);
        (void)snprintf(why, 512, "%lld elements differ, and noise cannot tell: %s", (long long)s.n,
                       cause);
    } else if (first >= 0) {
        const suspect *at = &s.items[first];
        (void)snprintf(why, 512,
                       "output %d, element %lld of %lld is %.9g, expected %.9g (noise moves it by "
                       "%.3g); %lld elements differ",
                       at->output, (long long)at->index, (long long)elements(want->out[at->output]),
                       value_at(got->out[at->output], at->index),
                       value_at(want->out[at->output], at->index), at->spread.far, (long long)s.n);
        verdict = GF_DIFFERS;
    }
    free(s.items);
    return verdict;
}

/* What eager refuses at these sizes is to be refused in the same way. */
static int judge_refusal(stator_ctx *ctx, const gf_program *p, stator_status refused,
                         stator_function *other, char why[512])
{
    results got;
    char theirs[512];
    const stator_status status = call(ctx, p, 0, 0, other, &got, theirs);
    if (status == refused) {
        return GF_REFUSED;
    }
    (void)snprintf(why + strlen(why), 512 - strlen(why), "; but the backend: %.200s",
                   status == STATOR_OK ? "answers" : theirs);
    if (status == STATOR_OK) {
        release(&got);
    }
    return GF_DIFFERS;
}

/* A second call is to give the same bits, while the results of the first are alive. */
static int judge_again(stator_ctx *ctx, const gf_program *p, stator_function *other,
                       const results *first, char why[512])
{
    results second;
    const uint64_t before = digest_of(first->out, first->n);
    if (call(ctx, p, 0, 0, other, &second, why) != STATOR_OK) {
        return GF_FAILED;
    }
    const int is_same = before == digest_of(second.out, second.n);
    const int is_kept = before == digest_of(first->out, first->n);
    release(&second);
    if (!is_same || !is_kept) {
        (void)snprintf(why, 512, "%s",
                       is_kept ? "a second call answers otherwise"
                               : "a second call writes to the first one's results");
    }
    return is_same && is_kept ? GF_AGREES : GF_DIFFERS;
}

/* Both functions called with the program's sizes. */
static int judge_sizes(stator_ctx *ctx, const gf_program *p, stator_function *eager,
                       stator_function *other, char why[512])
{
    results want;
    results got;
    const stator_status refused = call(ctx, p, 0, 0, eager, &want, why);
    if (refused != STATOR_OK) {
        return judge_refusal(ctx, p, refused, other, why);
    }
    if (call(ctx, p, 0, 0, other, &got, why) != STATOR_OK) {
        release(&want);
        return GF_FAILED;
    }
    int verdict = compare(ctx, p, &want, &got, why);
    if (got.has_written) {
        verdict = GF_DIFFERS;
        (void)snprintf(why, 512, "an input has changed");
    }
    if (verdict == GF_AGREES) {
        verdict = judge_again(ctx, p, other, &got, why);
    }
    release(&want);
    release(&got);
    return verdict;
}

/* The program with other sizes for its symbols; 0: it has none, or something gets too large. */
static int has_other_sizes(const gf_program *p, gf_program *out)
{
    int has_symbol = 0;
    *out = *p;
    out->sizes[0] = p->sizes[0] + 1 + (int64_t)(p->seed % 4);
    out->sizes[1] = p->sizes[1] > 2 ? p->sizes[1] - 1 : p->sizes[1] + 2;
    for (int v = 0; v < p->n_values; v++) {
        for (int a = 0; a < p->values[v].rank; a++) {
            has_symbol |= gf_has_symbol(p->values[v].dims[a]);
            if (gf_size(out, p->values[v].dims[a]) < 0) {
                return 0;
            }
        }
        if (gf_numel(out, &p->values[v]) > 4 * (int64_t)(p->is_large ? GF_LARGE : GF_NUMEL)) {
            return 0;
        }
    }
    return has_symbol;
}

static int judge_compiled(stator_ctx *ctx, const gf_program *p, stator_function *eager,
                          stator_function *other, char why[512])
{
    static gf_program again; /* large for a stack */
    int verdict = judge_sizes(ctx, p, eager, other, why);
    if ((verdict == GF_AGREES || verdict == GF_REFUSED) && has_other_sizes(p, &again)) {
        char second[512] = "";
        const int found = judge_sizes(ctx, &again, eager, other, second);
        if (found != GF_INVALID && found != GF_REFUSED) { /* some are for some sizes alone */
            verdict = found;
            (void)snprintf(why, 512, "A=%lld B=%lld: %.440s", (long long)again.sizes[0],
                           (long long)again.sizes[1], second);
        }
    }
    return verdict;
}

static int is_fused(const char *backend)
{
    option_list list;
    (void)options_of(backend, &list);
    for (uint32_t i = 0; i < list.n; i++) {
        if (strcmp(list.keys[i], "numerics") == 0 && strcmp(list.values[i], "fused") == 0) {
            return 1;
        }
    }
    return 0;
}

int gf_judge(stator_ctx *ctx, const gf_program *p, const char *backend, char why[512])
{
    compiled eager;
    compiled other = {0};
    static gf_program own; /* large for a stack */
    int verdict = GF_INVALID;
    own = *p;
    own.is_fused = is_fused(backend);
    if (compile(ctx, &own, 0, "eager", &eager, why)) {
        verdict = compile(ctx, &own, 0, backend, &other, why)
                      ? judge_compiled(ctx, &own, eager.function, other.function, why)
                      : GF_FAILED;
    }
    forget(&eager);
    forget(&other);
    return verdict;
}

/* ---- bits ---- */

/* FNV-1a of a tensor's elements, where every NaN counts as one: which of them an operation makes
 * is the processor's choice. */
static uint64_t digest_numbers(const stator_tensor *t, uint64_t h)
{
    const stator_dtype dtype = stator_tensor_dtype(t);
    if (dtype < STATOR_BF16) {
        return digest(t, h);
    }
    for (int64_t i = 0; i < elements(t); i++) {
        const double x = value_at(t, i); /* as exact as the element */
        uint64_t bits = 0;
        if (isnan(x)) {
            bits = UINT64_C(0x7ff8000000000000);
        } else {
            memcpy(&bits, &x, sizeof bits);
        }
        for (int byte = 0; byte < 8; byte++) {
            h = (h ^ (bits >> (8 * byte) & 0xff)) * UINT64_C(0x100000001b3);
        }
    }
    return h;
}

static uint64_t digest_results(const results *r)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (int k = 0; k < r->n; k++) {
        h = digest_numbers(r->out[k], h);
    }
    return h;
}

static int call_for_bits(stator_ctx *ctx, const gf_program *p, stator_function *function, int calls,
                         gf_answer *out, char why[512])
{
    for (int i = 0; i < calls; i++) {
        results got;
        if (call(ctx, p, 0, 0, function, &got, why) != STATOR_OK) {
            return 0;
        }
        const uint64_t bits = digest_results(&got);
        out->changes += i > 0 && bits != out->bits;
        out->bits = bits;
        release(&got);
    }
    return 1;
}

int gf_bits(stator_ctx *ctx, const gf_program *p, const char *backend, int calls, gf_answer *out,
            char why[512])
{
    compiled c;
    stator_coverage parts[8];
    *out = (gf_answer){0};
    const int is_answered =
        compile(ctx, p, 0, backend, &c, why) && call_for_bits(ctx, p, c.function, calls, out, why);
    const uint32_t n = is_answered ? stator_function_coverage(c.function, 8, parts) : 0;
    for (uint32_t i = 0; i < n && i < 8; i++) {
        out->others += strcmp(parts[i].backend, backend) != 0 ? parts[i].nodes : 0;
    }
    forget(&c);
    return is_answered;
}
