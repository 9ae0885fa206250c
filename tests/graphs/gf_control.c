/* Control flow with random bodies. All carried values, captures that are results, and results of a
 * body have one type, the state's; other captures and slices broadcast to it. A body sees %b0,
 * %b1, .. in the order of its region's inputs. */
#include "gf_make.h"

#include "core/base/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define N(list) ((int64_t)(sizeof(list) / sizeof((list)[0])))
#define BODY_VALUES 24

typedef struct body {
    gf_program *p;
    char *out; /* of GF_BODY bytes */
    size_t len;
    gf_value state;
    int is_full[BODY_VALUES]; /* is it of the state's type? */
    int n;
    int ok;
} body;

__attribute__((format(printf, 2, 3))) static void say(body *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(b->out + b->len, GF_BODY - b->len, format, args);
    va_end(args);
    b->ok = b->ok && n >= 0 && b->len + (size_t)n < GF_BODY;
    b->len += b->ok ? (size_t)n : 0;
}

static void say_type(body *b, const gf_value *t)
{
    char text[GF_ATTRS];
    say(b, "%s%s", st_dtype_name(t->dtype), gf_list(t->dims, t->rank, text));
}

static int is_state(const gf_value *t, const gf_value *state)
{
    int same = t->dtype == state->dtype && t->rank == state->rank;
    for (int a = 0; same && a < t->rank; a++) {
        same = gf_same_dim(t->dims[a], state->dims[a]);
    }
    return same;
}

static void parameter(body *b, const gf_value *t)
{
    say(b, "%s%%b%d: ", b->out[b->len - 1] == '(' ? "" : ", ", b->n);
    say_type(b, t);
    b->is_full[b->n++] = is_state(t, &b->state);
}

static void open_region(body *b, const char *name)
{
    b->n = 0;
    say(b, "    region @%s(", name);
}

/* ---- statements ---- */

/* One of the state's type; the last ones more often. -1: none. */
static int full(body *b)
{
    for (int tries = 0; tries < 20; tries++) {
        const int i = b->n - 1 - (int)gf_below(b->p, 1 + gf_below(b->p, b->n));
        if (b->is_full[i]) {
            return i;
        }
    }
    return -1;
}

static int made(body *b)
{
    b->is_full[b->n] = 1;
    return b->n++;
}

/* With 1e9 and the like around, exact ones alone: no noise within a body tells how far functions or
 * sums may be. */
static int unary(body *b, int x)
{
    static const char *const floats[] = {"neg", "relu", "abs", "tanh", "sigmoid", "sin"};
    static const char *const ints[] = {"neg", "abs", "sign"};
    const int is_float = gf_is_float(b->state.dtype);
    const char *op = is_float ? floats[gf_below(b->p, b->p->specials ? 3 : N(floats))]
                              : ints[gf_below(b->p, N(ints))];
    say(b, "      %%b%d = %s(%%b%d)\n", b->n, op, x);
    return made(b);
}

static int binary(body *b, int x)
{
    static const char *const ops[] = {"add", "add", "mul", "sub", "min", "max"};
    const int y = (int)gf_below(b->p, b->n);
    const int swap = gf_chance(b->p, 50);
    say(b, "      %%b%d = %s(%%b%d, %%b%d)\n", b->n, ops[gf_below(b->p, N(ops))], swap ? y : x,
        swap ? x : y);
    return made(b);
}

/* The sum along the last axis, which broadcasts to what was summed. */
static int sum(body *b, int x)
{
    say(b, "      %%b%d = reduce_sum(%%b%d) {axes = [%d], keepdims = 1}\n", b->n, x,
        b->state.rank - 1);
    b->is_full[b->n] = 0;
    b->n++;
    say(b, "      %%b%d = sub(%%b%d, %%b%d)\n", b->n, x, b->n - 1);
    return made(b);
}

static int statement(body *b)
{
    const int x = full(b);
    if (x < 0 || b->n + 2 >= BODY_VALUES) {
        return -1;
    }
    const int64_t kind = gf_below(b->p, 8);
    return kind < 3                                       ? unary(b, x)
           : kind < 7 || !b->state.rank || b->p->specials ? binary(b, x)
                                                          : sum(b, x);
}

/* Random statements; a result, kept small so that noise does not grow from iteration to
 * iteration. */
static int result(body *b)
{
    const int n = (int)gf_below(b->p, 4);
    int x = full(b);
    for (int k = 0; k < n && x >= 0; k++) {
        x = statement(b);
    }
    if (x >= 0 && n > 0 && b->n < BODY_VALUES && gf_is_float(b->state.dtype) && !b->p->specials) {
        say(b, "      %%b%d = tanh(%%b%d)\n", b->n, x);
        x = made(b);
    }
    b->ok = b->ok && x >= 0;
    return x;
}

/* "return .." of n random results after what comes first. */
static void close_region(body *b, const char *first, int n)
{
    int results[GF_RESULTS];
    for (int k = 0; k < n; k++) {
        results[k] = result(b);
    }
    say(b, "      return %s", first);
    for (int k = 0; k < n; k++) {
        say(b, "%s%%b%d", k || first[0] ? ", " : "", results[k]);
    }
    say(b, "\n    }\n");
}

/* ---- operands ---- */

static int fits(const gf_value *t, const gf_value *state)
{
    int ok = t->dtype == state->dtype && t->rank <= state->rank && !t->is_index;
    for (int a = 0; ok && a < t->rank; a++) {
        ok = gf_is_const(t->dims[a], 1) ||
             gf_same_dim(t->dims[a], state->dims[state->rank - t->rank + a]);
    }
    return ok;
}

/* What a body reads besides its state: a value there is, or an input. */
static int capture(gf_program *p, const gf_value *state)
{
    for (int tries = 0; tries < 6; tries++) {
        const int v = (int)gf_below(p, p->n_values);
        if (fits(&p->values[v], state)) {
            return v;
        }
    }
    const int dropped = (int)gf_below(p, state->rank + 1);
    return gf_input(p, state->dtype, state->rank - dropped, state->dims + dropped);
}

/* Of the state's type. */
static int initial(gf_program *p, const gf_value *state)
{
    for (int tries = 0; tries < 4; tries++) {
        const int v = (int)gf_below(p, p->n_values);
        if (is_state(&p->values[v], state) && !p->values[v].is_index) {
            return v;
        }
    }
    return gf_input(p, state->dtype, state->rank, state->dims);
}

/* The node without its region; its body is written after. */
static int add_node(gf_program *p, const char *op, int n_args, const int *args, int n,
                    const gf_value *types)
{
    int ok = n > 0 &&
             gf_node_add(p, op, n_args, args, types[0].dtype, types[0].rank, types[0].dims) >= 0;
    for (int k = 1; ok && k < n; k++) {
        ok = gf_result_add(p, types[k].dtype, types[k].rank, types[k].dims) >= 0;
    }
    return ok;
}

/* Without its body the node would be no graph: a program that has it is given up. */
static int finish(gf_program *p, body *b, const char *text, int64_t folded)
{
    gf_node *node = gf_newest(p);
    memcpy(node->body, text, b->ok ? b->len + 1u : 0);
    gf_set_noise(p, GF_COMPOSITE, folded);
    if (!b->ok) {
        p->n_values = node->first;
        p->n_nodes--;
    }
    return b->ok;
}

/* ---- the ops ---- */

static int make_branches(gf_program *p, const gf_value *state, int is_cond)
{
    char text[GF_BODY] = "";
    body b = {.p = p, .out = text, .state = *state, .ok = 1};
    int args[GF_ARGS];
    gf_value types[GF_RESULTS];
    int n = 0;
    if (is_cond) {
        args[n++] = gf_chance(p, 30) ? gf_scalar(p, STATOR_BOOL, gf_chance(p, 50))
                                     : gf_input(p, STATOR_BOOL, 0, NULL);
    }
    args[n++] = initial(p, state);
    for (int k = (int)gf_below(p, 3); k > 0; k--) {
        args[n++] = capture(p, state);
    }
    const int results = 1 + (int)gf_below(p, 2);
    for (int k = 0; k < results; k++) {
        types[k] = *state;
    }
    if (!add_node(p, is_cond ? "cond" : "call", n, args, results, types)) {
        return 0;
    }
    for (int region = 0; region < 1 + is_cond; region++) {
        open_region(&b, region ? "else" : "then");
        for (int k = is_cond; k < n; k++) {
            parameter(&b, &p->values[args[k]]);
        }
        say(&b, ") {\n");
        close_region(&b, "", results);
    }
    return finish(p, &b, text, 32);
}

static int make_while(gf_program *p, const gf_value *state)
{
    char text[GF_BODY] = "";
    body b = {.p = p, .out = text, .state = *state, .ok = 1};
    int args[GF_ARGS];
    gf_value types[GF_RESULTS];
    const int carried = 1 + (int)gf_below(p, 2);
    const int captures = (int)gf_below(p, 3);
    int n = 2;
    args[0] = gf_scalar(p, STATOR_I64, (double)gf_below(p, 5));
    args[1] = gf_chance(p, 70) ? gf_scalar(p, STATOR_BOOL, 1) : gf_input(p, STATOR_BOOL, 0, NULL);
    for (int k = 0; k < carried; k++) {
        types[k] = *state;
        args[n++] = initial(p, state);
    }
    for (int k = 0; k < captures; k++) {
        args[n++] = capture(p, state);
    }
    if (!add_node(p, "while", n, args, carried, types)) {
        return 0;
    }
    gf_attrs(p, "carried = %d, stacked = 0", carried);
    open_region(&b, "body");
    say(&b, "%%i: i64[]"); /* the count has a name of its own */
    for (int k = 2; k < n; k++) {
        parameter(&b, &p->values[args[k]]);
    }
    say(&b, ") {\n");
    say(&b, "      %%t = constant {value = i64[] {%" PRId64 "}}\n      %%g = lt(%%i, %%t)\n",
        gf_below(p, 5));
    close_region(&b, "%g", carried);
    return finish(p, &b, text, 64);
}

static void put_axis(gf_value *t, int axis, gf_dim d)
{
    for (int a = t->rank; a > axis; a--) {
        t->dims[a] = t->dims[a - 1];
    }
    t->dims[axis] = d;
    t->rank++;
}

/* Axes and directions of n slices or stacks, as text; each type gets its axis. */
static void choose_axes(gf_program *p, int n, gf_value *types, gf_dim steps, char axes[GF_ATTRS],
                        char reverse[GF_ATTRS])
{
    int64_t at[GF_RESULTS] = {0};
    int64_t backwards[GF_RESULTS] = {0};
    for (int k = 0; k < n; k++) {
        at[k] = gf_chance(p, 60) ? 0 : gf_below(p, types[k].rank + 1);
        backwards[k] = gf_chance(p, 30);
        put_axis(&types[k], (int)at[k], steps);
    }
    (void)gf_ints(at, n, axes);
    (void)gf_ints(backwards, n, reverse);
}

static int make_steps(gf_program *p, const gf_value *state)
{
    static const int64_t sizes[] = {1, 2, 3, 5, 8};
    char text[GF_BODY] = "";
    char axes[4][GF_ATTRS];
    body b = {.p = p, .out = text, .state = *state, .ok = 1};
    int args[GF_ARGS];
    gf_value slices[GF_RESULTS];
    gf_value types[GF_RESULTS];
    const gf_dim steps = p->is_used[1] && gf_chance(p, 40) ? (gf_dim){0, 0, 1}
                                                           : gf_const(sizes[gf_below(p, N(sizes))]);
    const int carried = (int)gf_below(p, 3);
    const int scanned = 1 + (int)gf_below(p, 2);
    const int stacked = (int)gf_below(p, 3);
    const int captures = (int)gf_below(p, 3);
    int n = 0;
    if (carried + stacked == 0 || state->rank >= GF_RANK) {
        return 0;
    }
    for (int k = 0; k < carried + stacked; k++) {
        types[k] = *state;
        if (k < carried) {
            args[n++] = initial(p, state);
        }
    }
    for (int k = 0; k < scanned; k++) {
        const int dropped = k == 0 ? 0 : (int)gf_below(p, state->rank + 1);
        slices[k] = *state;
        slices[k].rank = (uint8_t)(state->rank - dropped);
        memmove(slices[k].dims, state->dims + dropped, slices[k].rank * sizeof(gf_dim));
    }
    gf_value whole[GF_RESULTS];
    memcpy(whole, slices, sizeof whole);
    choose_axes(p, scanned, whole, steps, axes[0], axes[1]);
    choose_axes(p, stacked, types + carried, steps, axes[2], axes[3]);
    for (int k = 0; k < scanned; k++) {
        args[n++] = gf_input(p, state->dtype, whole[k].rank, whole[k].dims);
    }
    for (int k = 0; k < captures; k++) {
        args[n++] = capture(p, state);
    }
    if (!add_node(p, "scan", n, args, carried + stacked, types)) {
        return 0;
    }
    gf_attrs(p,
             "carried = %d, scanned = %d, stacked = %d, axes = %s, reverse = %s, out_axes = %s, "
             "out_reverse = %s",
             carried, scanned, stacked, axes[0], axes[1], axes[2], axes[3]);
    open_region(&b, "body");
    for (int k = 0; k < n; k++) {
        parameter(&b, k < carried || k >= carried + scanned ? &p->values[args[k]]
                                                            : &slices[k - carried]);
    }
    say(&b, ") {\n");
    close_region(&b, "", carried + stacked);
    return finish(p, &b, text, 16 * gf_size(p, steps));
}

int gf_make_control(gf_program *p)
{
    const int v = gf_pick(p, gf_is_number, 0);
    if (v < 0) {
        return 0;
    }
    gf_value state = gf_type_of(p, v);
    state.is_input = 0;
    const int64_t kind = gf_below(p, 10);
    return kind < 2   ? make_branches(p, &state, 1)
           : kind < 3 ? make_branches(p, &state, 0)
           : kind < 5 ? make_while(p, &state)
                      : make_steps(p, &state);
}
