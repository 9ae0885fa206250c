/* Are two tensors equal but for rounding? Dense host tensors of any of our dtypes; pure. This is
 * the one definition of "same": run --expect, compare, verify, bisect, minify, check and conform
 * use it. */
#ifndef STATOR_BASE_COMPARE_H
#define STATOR_BASE_COMPARE_H

#include <stator/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct st_tolerance {
    double rtol, atol; /* negative: chosen, see ST_COMPARE_RULE */
} st_tolerance;
#define ST_TOLERANCE_CHOSEN                                                                        \
    {                                                                                              \
        .rtol = -1, .atol = -1                                                                     \
    }

/* The comparison in words, which `--help` prints. */
#define ST_COMPARE_RULE                                                                            \
    "Two results are the same when their dtypes and shapes are equal and each element is within\n" \
    "|a - b| <= atol + rtol * |b|, where b is the expected one. Without --rtol and --atol:\n"      \
    "  integers, bool   equal\n"                                                                   \
    "  f64, f32         rtol 1e-3, atol 1e-5 of the expected tensor's typical magnitude\n"         \
    "  f16              rtol 5e-3, atol 2e-3 of that magnitude\n"                                  \
    "  bf16             rtol 3e-2, atol 2e-2 of that magnitude; always within 2 ulp\n"             \
    "  f8               one step\n"                                                                \
    "  complex          rtol 1e-3, atol 1e-7\n"                                                    \
    "The typical magnitude is the median of |b| over elements that are finite and not zero; atol " \
    "of\n"                                                                                         \
    "a float is 1e-7 at least. NaN equals NaN, an infinity equals itself alone.\n"

#define ST_DIFFERENCE_TEXT 192u

typedef struct st_difference {
    double max_abs; /* NaN or inf where they differ so */
    double max_rel;
    int ok;
    const char *reason;              /* NULL when ok: "dtype", "shape", "values" */
    char detail[ST_DIFFERENCE_TEXT]; /* dtypes or shapes: "f32[9], expected f32[10]"; else "" */
} st_difference;

/* "f32[9], expected f32[10]", cut to what fits. */
void st_print_layouts(const DLTensor *got, const DLTensor *want, char out[ST_DIFFERENCE_TEXT]);
/* ST_COMPARE_RULE, with the tolerances that are given in the place of the chosen ones. */
void st_compare(const DLTensor *got, const DLTensor *want, const st_tolerance *given,
                st_difference *out);

#ifdef __cplusplus
}
#endif
#endif
