/* Gradients with symbolic sizes: every case of gradient_cases.def once more, its sizes made
 * symbols.
 *
 *     %x: f64[2, 3], %z: f64[3]   ->   sym s2 in [2, 64], sym s3 in [2, 64]; %x: f64[s2, s3], %z:
 * f64[s3]
 *
 * Each number above 1 in the type of an input, of the graph or of a region, becomes the symbol of
 * that number, but for those that the case says stay numbers, with the reason. Called with the
 * sizes of the case, the gradients and those of second order must be what the graph of numbers
 * gives, which test_gradient.c compares with differences. */
#include "core/base/diag.h"
#include "tests/unit/support_gradient.h"
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096u
#define CASE_SIZE_MAX 64 /* no case has a larger one */

typedef struct symbolic {
    char text[TEXT_MAX];
    size_t n;
    const char *fixed;
    bool used[CASE_SIZE_MAX + 1];
} symbolic;

static void put(symbolic *s, const char *bytes, size_t n)
{
    cr_assert_lt(s->n + n, sizeof s->text);
    memcpy(s->text + s->n, bytes, n);
    s->n += n;
    s->text[s->n] = '\0';
}

/* Is the number one of the list "2 3"? */
static bool is_fixed(const char *list, long number)
{
    char *end = NULL;
    for (const char *at = list; *at != '\0'; at = *end == ' ' ? end + 1 : end) {
        if (strtol(at, &end, 10) == number) {
            return true;
        }
        cr_assert(end != at, "'%s' is no list of sizes", list);
    }
    return false;
}

/* The text with the sizes of its inputs as symbols: those behind "%name: f64[" and "%name:
 * i64[". */
static void put_sizes(symbolic *s, const char *text)
{
    while (*text != '\0') {
        const char *open = strstr(text, "64[");
        const bool is_input = open != NULL && open - text >= 3 && strncmp(open - 3, ": ", 2) == 0;
        if (open == NULL) {
            put(s, text, strlen(text));
            return;
        }
        put(s, text, (size_t)(open + 3 - text));
        for (text = open + 3; is_input && *text != ']';) {
            char *end = NULL;
            const long number = strtol(text, &end, 10);
            const bool is_symbol = end != text && number > 1 && !is_fixed(s->fixed, number);
            char name[32];
            (void)snprintf(name, sizeof name, "s%ld", number);
            end = end == text ? end + 1 : end;
            put(s, is_symbol ? name : text, is_symbol ? strlen(name) : (size_t)(end - text));
            if (is_symbol) {
                cr_assert_leq(number, CASE_SIZE_MAX);
                s->used[number] = true;
            }
            text = end;
        }
    }
}

/* False: no size of the case is a symbol. */
static bool make_symbolic(const gradient_case *of, char *out)
{
    symbolic s = {.fixed = of->fixed};
    bool any = false;
    char head[512] = "stir 1\n";
    put_sizes(&s, of->inputs);
    put(&s, ") {\n  ", 6);
    put_sizes(&s, of->lines);
    for (int k = 0; k <= CASE_SIZE_MAX; k++) {
        const size_t at = strlen(head);
        if (s.used[k]) {
            (void)snprintf(head + at, sizeof head - at, "sym s%d in [2, %d]\n", k, CASE_SIZE_MAX);
            any = true;
        }
    }
    (void)snprintf(out, 2 * TEXT_MAX, "%sgraph @g(%s\n  return %%y\n}\n", head, s.text);
    return any;
}

/* ---- running both ---- */

typedef struct results {
    stator_tensor *out[GRADIENT_INPUTS_MAX + 1u];
    uint32_t n;
} results;

static void release(stator_tensor **t, uint32_t n)
{
    for (uint32_t k = 0; k < n; k++) {
        stator_tensor_release(t[k]);
    }
}

/* The inputs of the graph of numbers, and of how many results. */
static uint32_t make_inputs(stator_ctx *ctx, const char *text, stator_tensor **in)
{
    const stator_load_options options = {
        .struct_size = sizeof options, .flags = 1, .frontend = "text"};
    stator_model *model = NULL;
    cr_assert_eq(stator_model_load_bytes(ctx, text, strlen(text), "gradient", &options, &model),
                 STATOR_OK, "%s", stator_ctx_error_text(ctx));
    const uint32_t n = stator_model_input_count(model);
    for (uint32_t i = 0; i < n; i++) {
        stator_port_info info = {.struct_size = sizeof info};
        cr_assert_eq(stator_model_input_info(model, i, &info), STATOR_OK);
        in[i] = gradient_values(ctx, info.rank, info.dims, i);
    }
    stator_model_destroy(model);
    return n;
}

/* False: the reason was printed. */
static bool run(stator_ctx *ctx, const char *text, uint32_t n, stator_tensor **in, results *out)
{
    stator_function *f = run_compile(ctx, "eager", text, "gradient");
    out->n = n;
    const bool is_ok = f != NULL && stator_call_tensors(f, n, in, n, out->out) == STATOR_OK;
    if (!is_ok) {
        fprintf(stderr, "%s\n", stator_ctx_error_text(ctx));
    }
    stator_function_destroy(f);
    return is_ok;
}

static uint32_t count_different(const results *a, const results *b)
{
    uint32_t wrong = 0;
    for (uint32_t i = 0; i < a->n; i++) {
        const uint64_t n = gradient_element_count(a->out[i]);
        cr_assert_eq(gradient_element_count(b->out[i]), n);
        for (uint64_t k = 0; k < n; k++) {
            const double want = gradient_data(a->out[i])[k], got = gradient_data(b->out[i])[k];
            wrong += !(fabs(got - want) <= 1e-12 * (1 + fabs(want)));
        }
    }
    return wrong;
}

/* Do the graphs of these texts have the same results and gradients? */
static bool is_same(text_world *w, const char *numbers, const char *symbols)
{
    stator_diag *err = NULL;
    char *texts[] = {gradient_text(w, numbers, &err), gradient_text(w, symbols, &err)};
    bool ok = texts[0] != NULL && texts[1] != NULL;
    if (!ok) {
        fprintf(stderr, "%s\n", st_diag_text(err));
    } else {
        stator_ctx *ctx = run_context();
        stator_tensor *in[GRADIENT_INPUTS_MAX + 1u] = {NULL};
        results a = {.n = 0}, b = {.n = 0};
        const uint32_t n = make_inputs(ctx, texts[0], in);
        ok = run(ctx, texts[0], n, in, &a) && run(ctx, texts[1], n, in, &b);
        const uint32_t wrong = ok ? count_different(&a, &b) : 0;
        cr_expect_eq(wrong, 0u, "%u elements differ in %s", wrong, symbols);
        release(a.out, a.n);
        release(b.out, b.n);
        release(in, n);
        stator_ctx_destroy(ctx);
    }
    st_free(&w->mem, texts[0]);
    st_free(&w->mem, texts[1]);
    st_diag_release(err);
    return ok;
}

static void check_case(const gradient_case *of, const char *symbols)
{
    char numbers[2 * TEXT_MAX];
    text_world w;
    stator_diag *err = NULL;
    text_world_init(&w);
    (void)snprintf(numbers, sizeof numbers, "stir 1\ngraph @g(%s) {\n  %s\n  return %%y\n}\n",
                   of->inputs, of->lines);
    cr_expect(is_same(&w, numbers, symbols), "%s", symbols);
    char *second[] = {gradient_text_of_order(&w, numbers, 2, &err),
                      gradient_text_of_order(&w, symbols, 2, &err)};
    cr_expect(second[0] != NULL && second[1] != NULL, "%s: %s", symbols, st_diag_text(err));
    if (second[0] != NULL && second[1] != NULL) {
        cr_expect(is_same(&w, second[0], second[1]), "of second order: %s", symbols);
    }
    st_free(&w.mem, second[0]);
    st_free(&w.mem, second[1]);
    st_diag_release(err);
    text_world_deinit(&w);
}

Test(gradient_sizes, every_case_has_symbols_or_says_why_not)
{
    uint32_t with_symbols = 0;
    for (uint32_t k = 0; k < gradient_case_count; k++) {
        const gradient_case *of = &gradient_cases[k];
        char symbols[2 * TEXT_MAX];
        cr_expect_eq(of->fixed[0] != '\0', of->why[0] != '\0', "%s", of->lines);
        if (make_symbolic(of, symbols)) {
            check_case(of, symbols);
            with_symbols++;
        }
    }
    cr_expect_gt(with_symbols + 5u, gradient_case_count); /* the others have scalars alone */
}
