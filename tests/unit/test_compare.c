/* When two tensors count as equal: NaN, infinities, whole numbers past 2^53, bf16 by ulps, other
 * dtypes and shapes; and the tolerance that is chosen when none is set. */
#include "core/base/check.h"
#include "core/base/compare.h"
#include "core/base/convert.h"

#include <criterion/criterion.h>
#include <math.h>

#define COUNT 4

typedef struct sample {
    uint32_t dtype;
    int64_t shape[1];
    char data[COUNT * 16];
    DLTensor view;
} sample;

static DLTensor *fill(sample *s, uint32_t dtype, const double values[COUNT])
{
    *s = (sample){.dtype = dtype, .shape = {COUNT}};
    for (int64_t i = 0; i < COUNT; i++) {
        st_store_f64(dtype, s->data, i, values[i]);
    }
    s->view = (DLTensor){.data = s->data,
                         .device = {.device_type = kDLCPU},
                         .ndim = 1,
                         .dtype = st_dtype_to_dl(dtype),
                         .shape = s->shape};
    return &s->view;
}

static st_difference compare(uint32_t dtype, const double got[COUNT], const double want[COUNT])
{
    const st_tolerance allowed = {.rtol = 1e-3, .atol = 1e-7};
    sample a, b;
    st_difference d;
    st_compare(fill(&a, dtype, got), fill(&b, dtype, want), &allowed, &d);
    return d;
}

Test(compare, special_values)
{
    const double want[COUNT] = {1, NAN, INFINITY, 0};
    const double near[COUNT] = {1.0009, NAN, INFINITY, 1e-8};
    const double negative[COUNT] = {1, NAN, -INFINITY, 0};
    const double finite[COUNT] = {1, NAN, 3e38, 0};
    cr_expect(compare(STATOR_F32, near, want).ok);
    cr_expect(!compare(STATOR_F32, negative, want).ok);
    cr_expect(!compare(STATOR_F32, finite, want).ok, "infinity has no tolerance");
    cr_expect(!compare(STATOR_F32, want, finite).ok);
    const double lost[COUNT] = {NAN, NAN, INFINITY, 0};
    const st_difference d = compare(STATOR_F32, lost, want);
    cr_expect(!d.ok && isnan(d.max_abs), "a new NaN is told as one");
}

Test(compare, ulps_of_bf16)
{
    const double want[COUNT] = {1, 1, 1, 1};
    const double near[COUNT] = {1 + 0x1p-7, 1 + 0x1p-6, 1, 1};
    const double far[COUNT] = {1 + 3 * 0x1p-7, 1, 1, 1};
    cr_expect(compare(STATOR_BF16, near, want).ok);
    cr_expect(!compare(STATOR_BF16, far, want).ok);
}

Test(compare, integers)
{
    const st_tolerance exact = {.rtol = 0, .atol = 0};
    const double zeros[COUNT] = {0};
    sample a, b;
    st_difference d;
    fill(&a, STATOR_I64, zeros);
    fill(&b, STATOR_I64, zeros);
    st_store_i64(STATOR_I64, a.data, 2, (INT64_C(1) << 60) + 1);
    st_store_i64(STATOR_I64, b.data, 2, INT64_C(1) << 60);
    st_compare(&a.view, &b.view, &exact, &d);
    cr_expect(!d.ok && d.max_abs == 1, "as doubles they are the same");
}

Test(compare, dtype_and_shape_must_match)
{
    const st_tolerance allowed = {.rtol = 1, .atol = 1};
    const double ones[COUNT] = {1, 1, 1, 1};
    sample a, b;
    st_difference d;
    st_compare(fill(&a, STATOR_F32, ones), fill(&b, STATOR_F64, ones), &allowed, &d);
    cr_expect(!d.ok && isnan(d.max_abs));
    cr_expect_str_eq(d.reason, "dtype");
    fill(&b, STATOR_F32, ones);
    b.shape[0] = COUNT - 1;
    st_compare(&a.view, &b.view, &allowed, &d);
    cr_expect(!d.ok);
    cr_expect_str_eq(d.reason, "shape");
}

/* Of results of about 1000 one may be off by 1e-5 of that, where a sum cancelled to nothing. */
Test(compare, chosen_tolerance)
{
    const st_tolerance chosen = {.rtol = -1, .atol = -1};
    const st_tolerance atol_alone = {.rtol = -1, .atol = 0};
    const double want[COUNT] = {1000, -1000, 1000, 0};
    const double near[COUNT] = {1000, -1000.5, 1000, 0.009};
    const double far[COUNT] = {1000, -1000, 1000, 0.02};
    sample a, b;
    st_difference d;
    st_compare(fill(&a, STATOR_F32, near), fill(&b, STATOR_F32, want), &chosen, &d);
    cr_expect(d.ok);
    st_compare(&a.view, &b.view, &atol_alone, &d);
    cr_expect(!d.ok);
    st_compare(fill(&a, STATOR_F32, far), &b.view, &chosen, &d);
    cr_expect(!d.ok);
    const double halves[COUNT] = {1003, -1000, 1000, 1};
    st_compare(fill(&a, STATOR_F16, halves), fill(&b, STATOR_F16, want), &chosen, &d);
    cr_expect(d.ok, "f16 steps by 2^-11");
}

/* A rounding that falls the other way is one step of an f8; a whole number has none. */
Test(compare, chosen_tolerance_by_dtype)
{
    const st_tolerance chosen = {.rtol = -1, .atol = -1};
    const struct {
        uint32_t dtype;
        int is_same;
        double got[COUNT], want[COUNT];
    } rows[] = {
        {STATOR_F8E4M3FN, 1, {1.125, 0.9375, 0x1p-9, -448}, {1, 1, 0, -416}},
        {STATOR_F8E4M3FN, 0, {1.25, 1, 1, 1}, {1, 1, 1, 1}},
        {STATOR_F8E4M3FN, 0, {0x1p-8, 1, 1, 1}, {0, 1, 1, 1}},
        {STATOR_F8E5M2, 1, {1.25, 0.875, 0x1p-16, -57344}, {1, 1, 0, -49152}},
        {STATOR_F8E5M2, 0, {1.5, 1, 1, 1}, {1, 1, 1, 1}},
        {STATOR_F8E5M2, 0, {NAN, 1, 1, 1}, {INFINITY, 1, 1, 1}},
        {STATOR_I32, 0, {5001, 1, 1, 1}, {5000, 1, 1, 1}},
        {STATOR_I64, 1, {5000, -1, 1, 1}, {5000, -1, 1, 1}},
        {STATOR_U8, 0, {254, 1, 1, 1}, {255, 1, 1, 1}},
        {STATOR_BOOL, 0, {0, 1, 1, 1}, {1, 1, 1, 1}},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        sample a, b;
        st_difference d;
        st_compare(fill(&a, rows[i].dtype, rows[i].got), fill(&b, rows[i].dtype, rows[i].want),
                   &chosen, &d);
        cr_expect(d.ok == rows[i].is_same, "row %zu of %s", i, st_dtype_name(rows[i].dtype));
    }
}
