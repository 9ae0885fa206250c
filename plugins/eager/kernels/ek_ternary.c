/* Pointwise ops of up to three operands: select, clamp, lerp. */
#include "plugins/eager/kernels/ek_loop.h"
#include "plugins/eager/kernels/ek_move.h"

typedef struct ternary {
    const ek_call *c;
    const ek_loop *l;
} ternary;

/* ---- select: moves bytes, so any dtype ---- */

#define SELECT_LOOP(T)                                                                             \
    {                                                                                              \
        const T *x = (const T *)(const void *)c->in[1].data + at[1];                               \
        const T *y = (const T *)(const void *)c->in[2].data + at[2];                               \
        T *z = (T *)c->out[0].data + out_at;                                                       \
        for (int64_t i = 0; i < n; i++) {                                                          \
            z[i] = cond[i * step[0]] ? x[i * step[1]] : y[i * step[2]];                            \
        }                                                                                          \
    }

static void select_row(const void *self, int64_t out_at, const int64_t *at, int64_t n)
{
    const ternary *t = self;
    const ek_call *c = t->c;
    const int32_t *step = t->l->step;
    const uint8_t *cond = (const uint8_t *)c->in[0].data + at[0];
    EK_BY_SIZE(st_element_bytes(c->out[0].dtype), SELECT_LOOP)
}

/* ---- clamp and lerp ---- */

static void f64_row(const void *self, int64_t out_at, const int64_t *at, int64_t n)
{
    const ternary *t = self;
    const ek_call *c = t->c;
    const bool has_lo = ek_has_in(c, 1);
    const bool has_hi = ek_has_in(c, 2);
    double v[3][EK_BLOCK];
    double *x = v[0];
    for (int64_t i = 0; i < n; i += EK_BLOCK) {
        const int64_t m = n - i < EK_BLOCK ? n - i : EK_BLOCK;
        for (uint32_t k = 0; k < 3; k++) {
            if (ek_has_in(c, k)) {
                ek_block_f64(&c->in[k], at[k] + i * t->l->step[k], t->l->step[k], m, v[k]);
            }
        }
        if (c->op == EAGER_OP_lerp) {
            for (int64_t k = 0; k < m; k++) {
                x[k] += v[2][k] * (v[1][k] - x[k]);
            }
        }
        for (int64_t k = 0; c->op == EAGER_OP_clamp && has_lo && k < m; k++) {
            x[k] = x[k] > v[1][k] || x[k] != x[k] ? x[k] : v[1][k];
        }
        for (int64_t k = 0; c->op == EAGER_OP_clamp && has_hi && k < m; k++) {
            x[k] = x[k] < v[2][k] || x[k] != x[k] ? x[k] : v[2][k];
        }
        st_store_f64_block(c->out[0].dtype, c->out[0].data, out_at + i, m, x);
    }
}

static void clamp_i64_row(const void *self, int64_t out_at, const int64_t *at, int64_t n)
{
    const ternary *t = self;
    const ek_call *c = t->c;
    /* Flipping the top bit orders unsigned numbers as signed ones. */
    const uint64_t flip = ek_flip(c->in[0].dtype);
    int64_t v[3][EK_BLOCK];
    for (int64_t i = 0; i < n; i += EK_BLOCK) {
        const int64_t m = n - i < EK_BLOCK ? n - i : EK_BLOCK;
        for (uint32_t k = 0; k < 3; k++) {
            if (ek_has_in(c, k)) {
                ek_block_i64(&c->in[k], at[k] + i * t->l->step[k], t->l->step[k], m, v[k]);
            }
        }
        for (int64_t k = 0; k < m; k++) {
            int64_t x = (int64_t)((uint64_t)v[0][k] ^ flip);
            if (ek_has_in(c, 1)) {
                const int64_t lo = (int64_t)((uint64_t)v[1][k] ^ flip);
                x = x > lo ? x : lo;
            }
            if (ek_has_in(c, 2)) {
                const int64_t hi = (int64_t)((uint64_t)v[2][k] ^ flip);
                x = x < hi ? x : hi;
            }
            v[0][k] = (int64_t)((uint64_t)x ^ flip);
        }
        st_store_i64_block(c->out[0].dtype, c->out[0].data, out_at + i, m, v[0]);
    }
}

stator_status ek_ternary(const ek_call *c, stator_diag **err)
{
    ek_loop l;
    ST_TRY(ek_loop_init(c, &l, 3, err));
    const ternary t = {c, &l};
    ek_loop_run(c, &l,
                c->op == EAGER_OP_select      ? select_row
                : ek_is_float(c->in[0].dtype) ? f64_row
                                              : clamp_i64_row,
                &t);
    return STATOR_OK;
}
