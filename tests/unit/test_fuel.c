/* Fuel: a limit is a prefix of what an unlimited compile applies, every prefix gives the same
 * answer, and a question names its pass, its node and its value. */
#include "tests/unit/support_run.h"

#include <criterion/criterion.h>
#include <stator/inspect.h>
#include <stdio.h>
#include <string.h>

static const char model_text[] = "stir 1\n"
                                 "graph @main(%x: f32[2, 3], param %w: f32[3] = {1, 2, 3}) {\n"
                                 "  %n = neg(%x) @\"Neg_0\":Neg\n"
                                 "  %m = neg(%n) @\"Neg_1\":Neg\n"
                                 "  %one = constant {value = f32[] {1}}\n"
                                 "  %two = add(%one, %one) @\"Add_2\":Add\n"
                                 "  %p = mul(%m, %one) @\"Mul_3\":Mul\n"
                                 "  %q = mul(%p, %w) @\"Mul_4\":Mul\n"
                                 "  %r = mul(%p, %w) @\"Mul_5\":Mul\n"
                                 "  %s = silu(%q) @\"Silu_6\":Silu\n"
                                 "  %t = add(%s, %r) @\"Add_7\":Add\n"
                                 "  %u = max(%t, %two) @\"Max_8\":Max\n"
                                 "  return y: %u\n"
                                 "}\n";

typedef struct fixture {
    stator_ctx *ctx;
    stator_model *model;
    stator_tensor *x;
} fixture;

static void set_up(fixture *f, const char *text, int32_t threads)
{
    static const char *const dirs[] = {ST_TEST_BUILD "/lib/stator/plugins-1"};
    const stator_ctx_options options = {.struct_size = sizeof options,
                                        .flags = STATOR_CTX_NO_ENV,
                                        .threads = threads,
                                        .plugin_dir_count = 1,
                                        .plugin_dirs = dirs};
    const stator_load_options load = {.struct_size = sizeof load, .flags = 1, .frontend = "text"};
    const float data[6] = {-1, 0.5F, 2, 3, -4, 0};
    cr_assert_eq(stator_ctx_create(&options, &f->ctx), STATOR_OK);
    cr_assert_eq(stator_model_load_bytes(f->ctx, text, strlen(text), "m.stir", &load, &f->model),
                 STATOR_OK, "%s", stator_ctx_error_text(f->ctx));
    f->x = run_tensor(f->ctx, STATOR_F32, 2, (const int64_t[]){2, 3}, data);
    cr_assert_not_null(f->x);
}

static void tear_down(fixture *f)
{
    stator_tensor_release(f->x);
    stator_model_destroy(f->model);
    stator_ctx_destroy(f->ctx);
}

static stator_function *compile(const fixture *f, const char *backend, uint32_t flags,
                                uint32_t scope, uint64_t n)
{
    char text[16];
    (void)snprintf(text, sizeof text, "%u", scope);
    const stator_compile_options options = {.struct_size = sizeof options,
                                            .flags = flags,
                                            .backend = backend,
                                            .fuel = (int64_t)n,
                                            .fuel_scope = scope != 0 ? text : NULL};
    stator_function *function = NULL;
    cr_assert_eq(stator_compile(f->model, &options, &function), STATOR_OK, "%s",
                 stator_ctx_error_text(f->ctx));
    stator_x_fuel_record(function);
    return function;
}

static void call(const fixture *f, stator_function *function, float out[6])
{
    stator_tensor *y = NULL;
    cr_assert_eq(stator_call_tensors(function, 1, &f->x, 1, &y), STATOR_OK, "%s",
                 stator_ctx_error_text(f->ctx));
    memcpy(out, stator_tensor_data(y), 6 * sizeof out[0]);
    stator_tensor_release(y);
}

static stator_x_fuel_row row_at(stator_function *function, uint32_t i)
{
    stator_x_fuel_row row = {.struct_size = sizeof row};
    cr_assert_eq(stator_x_fuel_at(function, i, &row), STATOR_OK);
    return row;
}

static void check_same_row(const stator_x_fuel_row *a, const stator_x_fuel_row *b)
{
    cr_assert(a->scope == b->scope && a->n == b->n && a->kind == b->kind && a->node == b->node &&
              a->witness == b->witness);
    cr_assert_str_eq(a->rule, b->rule);
    cr_assert_str_eq(a->pass, b->pass);
    cr_assert_str_eq(a->scope_name, b->scope_name);
    cr_assert_str_eq(a->node_name, b->node_name);
}

Test(fuel, every_limit_is_a_prefix_with_the_same_answer)
{
    fixture f;
    set_up(&f, model_text, 1);
    stator_function *whole = compile(&f, "aot_eager", 0, 0, 0);
    float want[6];
    call(&f, whole, want);
    const uint32_t count = stator_x_fuel_count(whole);
    cr_assert_gt(count, 15u, "%u applications", count);
    for (uint32_t i = 0; i < count; i++) {
        const stator_x_fuel_row row = row_at(whole, i);
        stator_function *limited = compile(&f, "aot_eager", 0, row.scope, row.n);
        float got[6];
        call(&f, limited, got);
        cr_assert_eq(stator_x_fuel_count(limited), i + 1u, "limit %u:%llu", row.scope,
                     (unsigned long long)row.n);
        for (uint32_t k = 0; k <= i; k++) {
            const stator_x_fuel_row a = row_at(whole, k);
            const stator_x_fuel_row b = row_at(limited, k);
            check_same_row(&a, &b);
        }
        for (uint32_t k = 0; k < 6; k++) {
            cr_assert_float_eq(got[k], want[k], 1e-6, "limit %u:%llu", row.scope,
                               (unsigned long long)row.n);
        }
        stator_function_destroy(limited);
    }
    stator_function_destroy(whole);
    tear_down(&f);
}

Test(fuel, serials_do_not_depend_on_threads)
{
    fixture f[2];
    stator_function *functions[2];
    for (int i = 0; i < 2; i++) {
        float out[6];
        set_up(&f[i], model_text, i + 1);
        functions[i] = compile(&f[i], "aot_eager", 0, 0, 0);
        call(&f[i], functions[i], out);
    }
    const uint32_t count = stator_x_fuel_count(functions[0]);
    cr_assert_eq(stator_x_fuel_count(functions[1]), count);
    for (uint32_t i = 0; i < count; i++) {
        const stator_x_fuel_row a = row_at(functions[0], i);
        const stator_x_fuel_row b = row_at(functions[1], i);
        check_same_row(&a, &b);
    }
    for (int i = 0; i < 2; i++) {
        stator_function_destroy(functions[i]);
        tear_down(&f[i]);
    }
}

/* The row of a rule; fails when there is none. */
static stator_x_fuel_row find_rule(stator_function *function, uint32_t kind, const char *rule)
{
    for (uint32_t i = 0; i < stator_x_fuel_count(function); i++) {
        const stator_x_fuel_row row = row_at(function, i);
        if (row.kind == kind && strcmp(row.rule, rule) == 0) {
            return row;
        }
    }
    cr_assert_fail("no question of rule %s", rule);
    return (stator_x_fuel_row){0};
}

Test(fuel, record_names_pass_node_and_value)
{
    fixture f;
    float out[6];
    set_up(&f, model_text, 1);
    stator_function *function = compile(&f, "aot_eager", 0, 0, 0);
    call(&f, function, out);
    const stator_x_fuel_row silu = find_rule(function, STATOR_FUEL_DECOMPOSITION, "silu");
    cr_assert_str_eq(silu.pass, "decompose");
    cr_assert_str_eq(silu.node_name, "Silu_6");
    const stator_x_fuel_row pair = find_rule(function, STATOR_FUEL_REWRITE, "involution");
    cr_assert_str_eq(pair.pass, "canonicalize");
    cr_assert_str_eq(pair.node_name, "Neg_1");
    cr_assert_eq(pair.witness, 4u, "value %u", pair.witness); /* after x, w and n */
    const stator_x_fuel_row claim = find_rule(function, STATOR_FUEL_CLAIM, "max");
    cr_assert_str_eq(claim.pass, "");
    cr_assert_str_eq(claim.node_name, "Max_8");
    stator_function_destroy(function);
    tear_down(&f);
}

typedef struct heard {
    uint32_t count;
    char last[64];
} heard;

static void hear(void *self, const stator_x_fuel_row *row)
{
    heard *h = self;
    h->count++;
    (void)snprintf(h->last, sizeof h->last, "%s", row->rule);
}

Test(fuel, watcher_is_called_for_every_record)
{
    fixture f;
    float out[6];
    heard h = {0};
    set_up(&f, model_text, 1);
    stator_function *function = compile(&f, "aot_eager", 0, 0, 0);
    stator_x_fuel_watch(function, hear, &h);
    call(&f, function, out);
    const uint32_t count = stator_x_fuel_count(function);
    cr_assert_eq(h.count, count);
    cr_assert_str_eq(h.last, row_at(function, count - 1).rule);
    stator_function_destroy(function);
    tear_down(&f);
}

Test(fuel, without_fuel_in_place_writes_still_run)
{
    fixture f;
    set_up(&f,
           "stir 1\n"
           "graph @main(%x: f32[2, 3]) {\n"
           "  %n = neg(%x)\n"
           "  %a = assign(%x, %n)\n"
           "  %y = add(%a, %x)\n"
           "  return y: %y\n"
           "}\n",
           1);
    stator_function *function = compile(&f, "aot_eager", STATOR_COMPILE_NO_FUEL, 0, 0);
    float out[6];
    call(&f, function, out);
    const float *x = stator_tensor_data(f.x);
    cr_assert_eq(stator_x_fuel_count(function), 0u);
    cr_assert_eq(x[3], -3.0F, "x[3] is %g after the write", (double)x[3]);
    cr_assert_eq(out[3], -6.0F, "y[3] is %g", (double)out[3]);
    stator_function_destroy(function);
    tear_down(&f);
}

/* ---- a backend inside a backend ---- */

typedef struct nest {
    const stator_host *host;
    const char *inner; /* NULL: the innermost, which asks */
    stator_instance *open;
} nest;

static stator_status nest_create(void *self, const stator_options *options, uint32_t device,
                                 void **inst, stator_diag **err)
{
    nest *n = self;
    (void)options;
    (void)device;
    *inst = n;
    return n->host->nested->open(n->host->ctx, "outer", n->inner, NULL, &n->open, err);
}

static void nest_destroy(void *self, void *inst)
{
    nest *n = inst;
    (void)self;
    n->host->nested->close(n->open);
}

static stator_status nest_compile(void *inst, const stator_graph *graph, stator_fuel_scope *fuel,
                                  void **exe, stator_diag **err)
{
    nest *n = inst;
    if (strcmp(n->inner, "eager") == 0 && fuel != NULL) {
        (void)n->host->fuel->may_apply(fuel, STATOR_FUEL_KERNEL, "inner_rule", 1);
    }
    return n->host->nested->compile(n->open, graph, exe, err);
}

static stator_status nest_info(void *inst, void *exe, stator_exe_info *out)
{
    nest *n = inst;
    return n->host->nested->exe_info(n->open, exe, out);
}

static stator_status nest_run(void *inst, void *exe, const stator_call *c, stator_diag **err)
{
    nest *n = inst;
    return n->host->nested->run(n->open, exe, c, err);
}

static void nest_exe_destroy(void *inst, void *exe)
{
    nest *n = inst;
    n->host->nested->exe_destroy(n->open, exe);
}

#define NEST_BACKEND(name_)                                                                        \
    {                                                                                              \
        .item = {STATOR_ITEM_HEAD(stator_backend, STATOR_KIND_BACKEND), .name = name_,             \
                 .doc = "passes graphs on", .option_stride = sizeof(stator_option_desc)},          \
        .create = nest_create, .destroy = nest_destroy, .compile = nest_compile,                   \
        .exe_info = nest_info, .exe_run = nest_run, .exe_destroy = nest_exe_destroy                \
    }

Test(fuel, nested_compile_records_below_the_outer_scope)
{
    static const stator_backend outer = NEST_BACKEND("outer");
    static const stator_backend inner = NEST_BACKEND("inner");
    fixture f;
    float out[6];
    set_up(&f, model_text, 1);
    nest outer_self = {.host = stator_ctx_host(f.ctx), .inner = "inner"};
    nest inner_self = {.host = stator_ctx_host(f.ctx), .inner = "eager"};
    cr_assert_eq(stator_backend_register(f.ctx, &outer, &outer_self), STATOR_OK);
    cr_assert_eq(stator_backend_register(f.ctx, &inner, &inner_self), STATOR_OK);
    stator_function *function = compile(&f, "outer", 0, 0, 0);
    call(&f, function, out);
    const stator_x_fuel_row row = find_rule(function, STATOR_FUEL_KERNEL, "inner_rule");
    const char *tail = strstr(row.scope_name, ".outer/inner");
    cr_assert(tail != NULL && strcmp(tail, ".outer/inner") == 0, "scope %s", row.scope_name);
    cr_assert_eq(row.n, 1u);
    stator_function_destroy(function);
    tear_down(&f);
}

Test(fuel, backends_that_open_each_other_are_refused)
{
    static const stator_backend outer = NEST_BACKEND("outer");
    static const stator_backend inner = NEST_BACKEND("inner");
    const stator_compile_options options = {.struct_size = sizeof options, .backend = "outer"};
    stator_function *function = NULL;
    fixture f;
    set_up(&f, model_text, 1);
    nest outer_self = {.host = stator_ctx_host(f.ctx), .inner = "inner"};
    nest inner_self = {.host = stator_ctx_host(f.ctx), .inner = "outer"};
    cr_assert_eq(stator_backend_register(f.ctx, &outer, &outer_self), STATOR_OK);
    cr_assert_eq(stator_backend_register(f.ctx, &inner, &inner_self), STATOR_OK);
    cr_assert_neq(stator_compile(f.model, &options, &function), STATOR_OK);
    cr_assert(strstr(stator_ctx_error_text(f.ctx), "in a circle: outer > inner > outer") != NULL,
              "%s", stator_ctx_error_text(f.ctx));
    tear_down(&f);
}
