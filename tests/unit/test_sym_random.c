/* Property tests of the symbolic engine: random expressions are built through the engine and, next
 * to it, evaluated directly under random values of their symbols. Wherever the direct value exists
 *   - the normal form (and its program) evaluates to it,
 *   - the range holds it and the divisor divides it,
 *   - no proof about two expressions contradicts their values,
 * and parse(print(sym)) is the same ref. */
#include "core/base/check.h"
#include "support_sym.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define ENVS 24
#define NODES 40
#define SYMBOLS 6
#define VALUE_MAX (INT64_C(1) << 40)

typedef struct node {
    uint32_t sym;
    int64_t value[ENVS];
    int is_defined[ENVS];
} node;

typedef struct trial {
    sym_world w;
    uint64_t random;
    int64_t env[ENVS][SYMBOLS];
    node nodes[NODES];
    uint32_t count;
    uint32_t limits_met;
} trial;

/* The direct meaning of an operation; 0 where it has none or the number is large. */
static int direct(uint32_t op, int64_t a, int64_t b, int64_t *out)
{
    int ok = 1;
    *out = 0;
    switch (op) {
    case STATOR_SYM_ADD:
        ok = st_add_i64(a, b, out);
        break;
    case STATOR_SYM_SUB:
        ok = st_sub_i64(a, b, out);
        break;
    case STATOR_SYM_MUL:
        ok = st_mul_i64(a, b, out);
        break;
    case STATOR_SYM_FLOORDIV:
        ok = b != 0;
        *out = ok ? st_floordiv(a, b) : 0;
        break;
    case STATOR_SYM_MOD:
        ok = b != 0;
        *out = ok ? st_floormod(a, b) : 0;
        break;
    case STATOR_SYM_CEILDIV:
        ok = b != 0;
        *out = ok ? -st_floordiv(-a, b) : 0;
        break;
    case STATOR_SYM_MIN:
        *out = a < b ? a : b;
        break;
    default:
        *out = a > b ? a : b;
        break;
    }
    return ok && *out<VALUE_MAX && * out> - VALUE_MAX;
}

static void check_node(trial *t, const node *n)
{
    char text[4096];
    const st_sym_cols cols = st_sym_columns(&t->w.tab);
    int64_t lo = 0;
    int64_t hi = 0;
    st_symprog prog;
    sym_world_print(&t->w, n->sym, text, sizeof text);
    st_sym_range(&t->w.tab, n->sym, &lo, &hi);
    const int64_t divisor = st_sym_divisor(&t->w.tab, n->sym);
    cr_assert(st_symprog_init(&prog, &t->w.mem, &cols, n->sym));
    for (uint32_t e = 0; e < ENVS; e++) {
        if (!n->is_defined[e]) {
            continue;
        }
        int64_t v = 0;
        int64_t pv = 0;
        cr_assert(st_sym_eval(&cols, n->sym, t->env[e], &v), "%s has no value", text);
        cr_assert(st_symprog_eval(&prog, t->env[e], &pv), "%s has no value", text);
        cr_assert_eq(v, n->value[e], "%s = %" PRId64 ", expected %" PRId64, text, v, n->value[e]);
        cr_assert_eq(pv, v, "program of %s", text);
        cr_assert(lo <= v && v <= hi, "%s = %" PRId64 " is outside [%" PRId64 ", %" PRId64 "]",
                  text, v, lo, hi);
        cr_assert(divisor == 0 ? v == 0 : v % divisor == 0, "%s = %" PRId64 " by %" PRId64, text, v,
                  divisor);
    }
    st_symprog_deinit(&prog, &t->w.mem);
    const uint32_t again = sym_world_parse(&t->w, text);
    char text2[4096];
    cr_assert_eq(again, n->sym, "'%s' parses to '%s'", text,
                 sym_world_print(&t->w, again, text2, sizeof text2));
}

static void check_proofs(trial *t, const node *x, const node *y)
{
    char a[4096];
    char b[4096];
    const int eq = st_sym_eq(&t->w.tab, x->sym, y->sym);
    const int lt = st_sym_lt(&t->w.tab, x->sym, y->sym);
    const int le = st_sym_le(&t->w.tab, x->sym, y->sym);
    sym_world_print(&t->w, x->sym, a, sizeof a);
    sym_world_print(&t->w, y->sym, b, sizeof b);
    for (uint32_t e = 0; e < ENVS; e++) {
        const int64_t v = x->value[e];
        const int64_t u = y->value[e];
        if (x->is_defined[e] && y->is_defined[e]) {
            cr_assert(eq < 0 || eq == (v == u), "%s == %s is said to be %d", a, b, eq);
            cr_assert(lt < 0 || lt == (v < u), "%s < %s is said to be %d", a, b, lt);
            cr_assert(le < 0 || le == (v <= u), "%s <= %s is said to be %d", a, b, le);
        }
    }
}

static void add_symbols(trial *t)
{
    static const int64_t divisors[] = {1, 1, 1, 2, 4, 6, 32};
    char name[4] = "A";
    for (uint32_t i = 0; i < SYMBOLS; i++) {
        const int64_t d = divisors[test_random_in(&t->random, 0, 6)];
        const int64_t lo =
            test_random_in(&t->random, 0, 5) == 0 ? -7 : test_random_in(&t->random, 0, 1);
        const int64_t hi = test_random_in(&t->random, 0, 1) ? 40 : INT64_MAX;
        node *n = &t->nodes[t->count++];
        name[0] = (char)('A' + i);
        n->sym = sym_world_symbol(&t->w, name, lo, hi, d);
        for (uint32_t e = 0; e < ENVS; e++) {
            const int64_t top = hi == INT64_MAX ? 300 : hi;
            int64_t v = test_random_in(&t->random, lo, e % 3 == 0 ? lo + 4 : top);
            v = st_floordiv(v + d - 1, d) * d; /* up to a multiple, still in range for hi = max */
            v = v > hi ? v - d : v;
            t->env[e][i] = v;
            n->value[e] = v;
            n->is_defined[e] = v >= lo && v <= hi;
        }
    }
    /* an environment whose symbols could not all be placed is not used at all */
    for (uint32_t e = 0; e < ENVS; e++) {
        int all = 1;
        for (uint32_t i = 0; i < SYMBOLS; i++) {
            all &= t->nodes[i].is_defined[e];
        }
        for (uint32_t i = 0; i < SYMBOLS; i++) {
            t->nodes[i].is_defined[e] = all;
        }
    }
}

static void add_integer(trial *t)
{
    node *n = &t->nodes[t->count++];
    const int64_t v = test_random_in(&t->random, -3, 16);
    n->sym = st_sym_int(&t->w.tab, v);
    for (uint32_t e = 0; e < ENVS; e++) {
        n->value[e] = v;
        n->is_defined[e] = t->nodes[0].is_defined[e];
    }
}

static void add_operation(trial *t)
{
    static const uint8_t ops[] = {STATOR_SYM_ADD,      STATOR_SYM_ADD,      STATOR_SYM_SUB,
                                  STATOR_SYM_SUB,      STATOR_SYM_MUL,      STATOR_SYM_MUL,
                                  STATOR_SYM_MUL,      STATOR_SYM_FLOORDIV, STATOR_SYM_MOD,
                                  STATOR_SYM_FLOORDIV, STATOR_SYM_FLOORDIV, STATOR_SYM_MOD,
                                  STATOR_SYM_MIN,      STATOR_SYM_MAX,      STATOR_SYM_CEILDIV};
    const uint32_t op = ops[test_random_in(&t->random, 0, (int64_t)sizeof ops - 1)];
    const node *x = &t->nodes[test_random_in(&t->random, 0, t->count - 1)];
    const node *y = &t->nodes[test_random_in(&t->random, 0, t->count - 1)];
    node *n = &t->nodes[t->count];
    n->sym = st_sym_op(&t->w.tab, op, x->sym, y->sym);
    if (n->sym == 0) {
        t->limits_met++;
        return;
    }
    t->count++;
    for (uint32_t e = 0; e < ENVS; e++) {
        n->is_defined[e] = x->is_defined[e] && y->is_defined[e] &&
                           direct(op, x->value[e], y->value[e], &n->value[e]);
    }
    check_node(t, n);
}

static void run_trial(trial *t, uint64_t seed)
{
    t->random = seed;
    t->count = 0;
    sym_world_init(&t->w);
    add_symbols(t);
    for (uint32_t i = 0; i < 4; i++) {
        add_integer(t);
    }
    for (uint32_t step = 0; step < 3 * NODES && t->count < NODES; step++) {
        add_operation(t);
    }
    for (uint32_t i = 0; i < 60; i++) {
        check_proofs(t, &t->nodes[test_random_in(&t->random, 0, t->count - 1)],
                     &t->nodes[test_random_in(&t->random, 0, t->count - 1)]);
    }
    sym_world_deinit(&t->w);
}

Test(sym_random, normal_forms_keep_values)
{
    static trial t;
    const uint64_t seed = test_seed(20240611);
    const char *count = getenv("STATOR_TEST_ROUNDS");
    const uint64_t rounds = count != NULL ? strtoull(count, NULL, 0) : 300;
    for (uint64_t i = 0; i < rounds; i++) {
        run_trial(&t, seed + i);
    }
    printf("%" PRIu64 " trials, %u operations met a limit\n", rounds, t.limits_met);
}

/* Two ways to the same polynomial give one ref. */
Test(sym_random, polynomials_are_canonical)
{
    uint64_t random = test_seed(7);
    for (uint32_t round = 0; round < 200; round++) {
        sym_world w;
        sym_world_init(&w);
        uint32_t s[3] = {sym_world_symbol(&w, "A", 0, INT64_MAX, 1),
                         sym_world_symbol(&w, "B", 0, INT64_MAX, 1),
                         sym_world_symbol(&w, "C", 0, INT64_MAX, 1)};
        uint32_t x[3];
        for (uint32_t i = 0; i < 3; i++) { /* x = k*S + c */
            const uint32_t k = st_sym_int(&w.tab, test_random_in(&random, -4, 4));
            x[i] = st_sym_add(&w.tab, st_sym_mul(&w.tab, k, s[test_random_in(&random, 0, 2)]),
                              st_sym_int(&w.tab, test_random_in(&random, -4, 4)));
        }
        const uint32_t left =
            st_sym_mul(&w.tab, x[0], st_sym_add(&w.tab, x[1], x[2])); /* x0 * (x1 + x2) */
        const uint32_t right =
            st_sym_add(&w.tab, st_sym_mul(&w.tab, x[2], x[0]), st_sym_mul(&w.tab, x[1], x[0]));
        cr_assert(left != 0 && left == right);
        const uint32_t square = st_sym_mul(&w.tab, st_sym_mul(&w.tab, x[0], x[1]), x[2]);
        cr_assert_eq(square, st_sym_mul(&w.tab, x[0], st_sym_mul(&w.tab, x[2], x[1])));
        sym_world_deinit(&w);
    }
}
