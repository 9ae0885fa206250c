#include "support_loop.h"

#include "core/base/diag.h"
#include <criterion/criterion.h>
#include <string.h>

void loop_world_init(loop_world *w, const char *name)
{
    memset(w, 0, sizeof *w);
    st_mem_init(&w->mem, NULL, NULL, NULL, 0);
    cr_assert(st_loop_syms_init(&w->syms, &w->mem));
    cr_assert(st_kernel_init(&w->kernel, &w->mem, &w->syms, name));
    st_loop_builder_init(&w->b, &w->kernel);
}

void loop_world_deinit(loop_world *w)
{
    st_loop_builder_deinit(&w->b);
    st_kernel_deinit(&w->kernel);
    st_loop_syms_deinit(&w->syms);
    cr_assert_eq(w->mem.live_blocks, 0, "%llu blocks left", (unsigned long long)w->mem.live_blocks);
}

uint32_t loop_int(loop_world *w, int64_t value)
{
    return st_sym_int(&w->syms.tab, value);
}

uint32_t loop_size(loop_world *w, const char *name)
{
    const st_loop_symbol size = {.kind = ST_SYMBOL_SIZE, .id = w->n_sizes++, .name = name};
    return st_loop_symbol_add(&w->syms, &size, 0, INT64_C(1) << 40, 1);
}

uint32_t loop_add(loop_world *w, uint32_t a, uint32_t b)
{
    return st_sym_add(&w->syms.tab, a, b);
}

uint32_t loop_mul(loop_world *w, uint32_t a, int64_t times)
{
    return st_sym_mul(&w->syms.tab, a, loop_int(w, times));
}

uint32_t loop_axis(loop_world *w, uint32_t axis)
{
    return w->kernel.axes.data[axis].sym;
}

uint32_t loop_in(loop_world *w, const char *name, uint32_t dtype, uint32_t numel)
{
    return st_loop_buffer_add(&w->b, name, dtype, numel, ST_BUFFER_READ | ST_BUFFER_UNIQUE, 0);
}

uint32_t loop_out(loop_world *w, const char *name, uint32_t dtype, uint32_t numel)
{
    return st_loop_buffer_add(&w->b, name, dtype, numel, ST_BUFFER_WRITTEN | ST_BUFFER_UNIQUE, 0);
}

void loop_must_verify(const st_kernel *kernel)
{
    stator_diag *err = NULL;
    const stator_status status = st_kernel_verify(kernel, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
}

void loop_must_fail(const st_kernel *kernel, const char *part)
{
    stator_diag *err = NULL;
    const stator_status status = st_kernel_verify(kernel, &err);
    cr_assert_eq(status, STATOR_INTERNAL, "expected a refusal with '%s'", part);
    cr_assert(strstr(st_diag_text(err), part) != NULL, "expected '%s' in '%s'", part,
              st_diag_text(err));
    st_diag_release(err);
}

void loop_must_print(const st_kernel *kernel, const char *expected)
{
    st_str text;
    st_str_init(&text, kernel->mem);
    st_kernel_print(kernel, &text);
    cr_assert(st_str_ok(&text));
    cr_assert_str_eq(text.data, expected);
    st_str_deinit(&text);
}

st_loop_ref loop_op(loop_world *w, const char *name, st_loop_ref x, st_loop_ref y, st_loop_ref z)
{
    const uint32_t code = st_loop_find(name);
    cr_assert(code != 0, "no op named %s", name);
    return st_loop_apply(&w->b, code, 0, x, y, z);
}
