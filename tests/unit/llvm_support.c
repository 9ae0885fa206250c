#include "llvm_support.h"

#include "core/base/check.h"
#include "core/base/convert.h"
#include "core/base/diag.h"
#include "core/base/dso.h"
#include "tests/oracle/loop_oracle.h"

#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#define GUARD 256u /* bytes on both sides that must stay as they are */
#define GUARD_BYTE 0xa5

void llvm_world_init(llvm_world *v, const char *name)
{
    char text[512] = "";
    memset(v, 0, sizeof *v);
    loop_world_init(&v->w, name);
    st_mem_init(&v->self.mem, NULL, NULL, NULL, 0);
    (void)pthread_mutex_init(&v->self.mutex, NULL);
    /* The code generator of the build under test; the plugin looks beside itself. */
    void *dso = st_dso_open(ST_TEST_BUILD "/lib/stator/jit/cpu_llvm_jit.so", text, sizeof text);
    cr_assert(dso != NULL, "%s", text);
    const jit_query_fn query = (jit_query_fn)(uintptr_t)st_dso_symbol(dso, JIT_QUERY_NAME);
    cr_assert(query != NULL);
    v->self.jit = query();
    v->self.libraries[0] = st_dso_open("libm.so.6", text, sizeof text);
    v->self.libraries[1] = st_dso_open("libc.so.6", text, sizeof text);
    v->self.libraries[2] = st_dso_open("libsleef.so.3", text, sizeof text);
    v->self.is_open = 1;
    v->inst.self = &v->self;
    v->inst.settings = (cpu_settings){.tier = JIT_TIER_DEFAULT, .verify = 1};
    cpu_emitter_init(&v->inst);
    for (uint32_t i = 0; i < 8; i++) {
        v->sizes[i] = 1;
    }
}

void llvm_world_deinit(llvm_world *v)
{
    loop_world_deinit(&v->w);
    cr_assert_eq(v->self.mem.live_blocks, 0, "%llu blocks of the emitter left",
                 (unsigned long long)v->self.mem.live_blocks);
    cr_assert_eq(v->self.mem.live_bytes, 0);
}

/* ---- data ---- */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *state >> 33;
}

static double corner(uint64_t *state)
{
    static const double corners[] = {
        0.0,   -0.0,     1.0,          -1.0,          0.5,   -0.5,   1.5,    2.5,
        -2.5,  INFINITY, -INFINITY,    NAN,           1e-40, -3e-45, 3.4e38, -3.4e38,
        127.5, -128.5,   2147483648.0, -2147483649.0, 65504, 65520,  7e-6,   0x1p-149};
    return corners[next_random(state) % (sizeof corners / sizeof corners[0])];
}

static void fill(uint32_t how, uint32_t dtype, void *data, int64_t n, uint64_t *state)
{
    const uint32_t class_ = st_loop_class_of(dtype);
    const int is_float = class_ == ST_LOOP_FLOATS || class_ == ST_LOOP_STORAGE;
    for (int64_t i = 0; i < n; i++) {
        const int64_t bits =
            (int64_t)(next_random(state) << 33 ^ next_random(state) << 11 ^ next_random(state));
        if (how == LLVM_FILL_INDICES) {
            st_store_i64(dtype, data, i, (int64_t)(next_random(state) % 16u));
        } else if (is_float) {
            const double x = ((double)(next_random(state) % 20001u) - 10000.0) / 1024.0;
            st_store_f64(dtype, data, i, how == LLVM_FILL_CORNERS ? corner(state) : x);
        } else if (dtype == STATOR_BOOL) {
            st_store_i64(dtype, data, i, bits & 1);
        } else {
            const int64_t small = (int64_t)(next_random(state) % 41u) - 20;
            st_store_i64(dtype, data, i, how == LLVM_FILL_CORNERS ? bits : small);
        }
    }
}

/* ---- one run ---- */

typedef struct memory {
    void *blocks[2][LLVM_BUFFERS_MAX];
    void *buffers[2][LLVM_BUFFERS_MAX];
    int64_t numel[LLVM_BUFFERS_MAX];
    uint64_t bytes[LLVM_BUFFERS_MAX];
} memory;

static int64_t value_of(llvm_world *v, uint32_t sym)
{
    int64_t env[64];
    int64_t out = 0;
    const st_loop_syms *syms = &v->w.syms;
    const st_sym_cols cols = st_sym_columns(&syms->tab);
    cr_assert_lt(syms->symbols.count, 64u);
    for (uint32_t i = 0; i < syms->symbols.count; i++) {
        const st_loop_symbol *symbol = &syms->symbols.data[i];
        env[i] = symbol->kind == ST_SYMBOL_SIZE ? v->sizes[symbol->id] : INT64_MIN;
    }
    cr_assert(st_sym_eval(&cols, sym, env, &out));
    return out;
}

static void make_memory(llvm_world *v, memory *m)
{
    const st_kernel *k = &v->w.kernel;
    uint64_t state = 42;
    cr_assert_leq(k->buffers.count, LLVM_BUFFERS_MAX);
    memset(m, 0, sizeof *m);
    for (uint32_t b = 0; b < k->buffers.count; b++) {
        const st_loop_buffer *buffer = &k->buffers.data[b];
        if (buffer->flags & ST_BUFFER_LOCAL) {
            continue;
        }
        m->numel[b] = value_of(v, buffer->numel);
        cr_assert(st_dtype_bytes(buffer->dtype, (uint64_t)m->numel[b], &m->bytes[b]));
        for (uint32_t side = 0; side < 2; side++) {
            const uint64_t all = m->bytes[b] + 2u * GUARD + v->misalign;
            m->blocks[side][b] = st_alloc(&v->w.mem, all, 64);
            cr_assert(m->blocks[side][b] != NULL);
            memset(m->blocks[side][b], GUARD_BYTE, all);
            m->buffers[side][b] = (char *)m->blocks[side][b] + GUARD + v->misalign;
        }
        fill(v->fill[b], buffer->dtype, m->buffers[0][b], m->numel[b], &state);
        memcpy(m->buffers[1][b], m->buffers[0][b], m->bytes[b]);
    }
}

static void free_memory(llvm_world *v, memory *m)
{
    for (uint32_t b = 0; b < LLVM_BUFFERS_MAX; b++) {
        st_free(&v->w.mem, m->blocks[0][b]);
        st_free(&v->w.mem, m->blocks[1][b]);
    }
}

static void interpret(llvm_world *v, memory *m, int64_t count)
{
    stator_diag *err = NULL;
    const st_kernel_args args = {.buffers = m->buffers[0], .syms = v->sizes, .status = v->status};
    v->status[0] = 0;
    const stator_status status = loop_oracle_run(&v->w.kernel, &args, 0, count, &err);
    cr_assert_eq(status, STATOR_OK, "oracle: %s", st_diag_text(err));
}

static void emit_and_run(llvm_world *v, memory *m, int64_t count)
{
    stator_diag *err = NULL;
    void *module = NULL;
    const st_kernel *kernels[1] = {&v->w.kernel};
    st_emitter *emitter = &v->inst.emitter;
    stator_status status = emitter->compile(emitter->self, kernels, 1, &module, &err);
    cr_assert_eq(status, STATOR_OK, "emitter: %s", st_diag_text(err));
    const st_kernel_args args = {
        .buffers = m->buffers[1], .syms = v->sizes, .status = &v->status[1]};
    const st_launch launch = {.args = &args, .count = count, .grain = INT64_MAX};
    v->status[1] = 0;
    status = emitter->launch(emitter->self, module, 0, &launch, &err);
    cr_assert_eq(status, STATOR_OK, "launch: %s", st_diag_text(err));
    emitter->module_destroy(emitter->self, module);
}

/* ---- comparison ---- */

static int64_t ordered_bits(uint32_t dtype, const void *data, int64_t i)
{
    int64_t bits = st_load_i64(dtype == STATOR_F64 ? STATOR_I64 : STATOR_I32, data, i);
    const int64_t sign = dtype == STATOR_F64 ? INT64_MIN : -((int64_t)1 << 31);
    return bits < 0 ? sign - bits : bits;
}

static int is_close(const llvm_world *v, uint32_t dtype, const void *a, const void *b, int64_t i)
{
    const uint32_t bytes = st_dtype_bits(dtype) / 8u;
    if (memcmp((const char *)a + i * bytes, (const char *)b + i * bytes, bytes) == 0) {
        return 1;
    }
    const uint32_t class_ = st_loop_class_of(dtype);
    if (class_ != ST_LOOP_FLOATS && class_ != ST_LOOP_STORAGE) {
        return 0;
    }
    const double x = st_load_f64(dtype, a, i);
    const double y = st_load_f64(dtype, b, i);
    if (x != x || y != y) {
        return x != x && y != y;
    }
    if (fabs(x - y) <= v->tolerance * fabs(x)) {
        return 1;
    }
    if (class_ != ST_LOOP_FLOATS || !v->max_ulp) {
        return 0;
    }
    const int64_t distance = ordered_bits(dtype, a, i) - ordered_bits(dtype, b, i);
    return (distance < 0 ? -distance : distance) <= (int64_t)v->max_ulp;
}

static void compare_guards(const memory *m, uint32_t b, uint32_t misalign)
{
    for (uint32_t side = 0; side < 2; side++) {
        const uint8_t *block = m->blocks[side][b];
        for (uint64_t i = 0; i < GUARD; i++) {
            const uint8_t after = block[GUARD + misalign + m->bytes[b] + i];
            cr_assert(block[i] == GUARD_BYTE && after == GUARD_BYTE,
                      "buffer %u was written outside, %s", b, side ? "emitter" : "oracle");
        }
    }
}

static void compare_memory(const llvm_world *v, const memory *m)
{
    const st_kernel *k = &v->w.kernel;
    for (uint32_t b = 0; b < k->buffers.count; b++) {
        const st_loop_buffer *buffer = &k->buffers.data[b];
        if (buffer->flags & ST_BUFFER_LOCAL) {
            continue;
        }
        for (int64_t i = 0; i < m->numel[b]; i++) {
            cr_assert(is_close(v, buffer->dtype, m->buffers[0][b], m->buffers[1][b], i),
                      "%s[%lld]: oracle %.17g, emitter %.17g (kernel %s)", buffer->name,
                      (long long)i, st_load_f64(buffer->dtype, m->buffers[0][b], i),
                      st_load_f64(buffer->dtype, m->buffers[1][b], i), k->name);
        }
        compare_guards(m, b, v->misalign);
    }
}

void llvm_compare(llvm_world *v, int64_t count)
{
    memory m;
    cr_assert_eq(v->w.kernel.failed, 0, "building failed with status %u", v->w.kernel.failed);
    loop_must_verify(&v->w.kernel);
    make_memory(v, &m);
    interpret(v, &m, count);
    emit_and_run(v, &m, count);
    compare_memory(v, &m);
    cr_assert_eq(v->status[0], v->status[1]);
    free_memory(v, &m);
}
