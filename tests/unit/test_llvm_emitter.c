/* The emitter as a whole: bounds checked in code, launches from many threads, memory that runs out,
 * objects that are broken, kernels that cannot be compiled. */
#include "core/base/diag.h"
#include "llvm_support.h"

#include <criterion/criterion.h>
#include <elf.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define COUNT 100

static llvm_world v;

static void begin(void)
{
    llvm_world_init(&v, "kernel");
}

static void end(void)
{
    llvm_world_deinit(&v);
}

TestSuite(llvm_emitter, .init = begin, .fini = end);

/* z[i] = sum over j of x[4 * i + j] * y[i + shift], i in lanes. */
static void build(llvm_world *of, int64_t shift, uint32_t lanes)
{
    loop_world *w = &of->w;
    st_loop_builder *b = &w->b;
    const uint32_t x = loop_in(w, "x", STATOR_F32, loop_int(w, 4 * COUNT));
    const uint32_t y = loop_in(w, "y", STATOR_F32, loop_int(w, COUNT));
    const uint32_t z = loop_out(w, "z", STATOR_F32, loop_int(w, COUNT));
    const uint32_t i = st_loop_axis_add(b, loop_int(w, COUNT), ST_AXIS_PARALLEL | ST_AXIS_VECTOR);
    const uint32_t j = st_loop_axis_add(b, loop_int(w, 4), ST_AXIS_REDUCE);
    w->kernel.axes.data[i].lanes = lanes;
    st_loop_open(b, i);
    const st_loop_ref s = st_loop_acc(b, ST_ACC_SUM, STATOR_F32, 0);
    const uint32_t at = loop_axis(w, i);
    const st_loop_ref by = st_loop_load(b, y, loop_add(w, at, loop_int(w, shift)), 0, 0);
    st_loop_open(b, j);
    const uint32_t from = loop_add(w, loop_mul(w, at, 4), loop_axis(w, j));
    st_loop_update(b, s, loop_op(w, "mul", st_loop_load(b, x, from, 0, 0), by, 0), 0, 0);
    st_loop_close(b);
    st_loop_store(b, z, at, st_loop_read(b, s, STATOR_F32), 0);
    st_loop_close(b);
    loop_must_verify(&w->kernel);
}

static void *compile(llvm_world *of)
{
    void *module = NULL;
    stator_diag *err = NULL;
    const st_kernel *kernels[1] = {&of->w.kernel};
    st_emitter *emitter = &of->inst.emitter;
    const stator_status status = emitter->compile(emitter->self, kernels, 1, &module, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
    return module;
}

typedef struct data {
    float x[4 * COUNT];
    float y[COUNT];
    float z[COUNT];
} data;

static void fill(data *d)
{
    for (int i = 0; i < 4 * COUNT; i++) {
        d->x[i] = (float)i / 8.0f;
    }
    for (int i = 0; i < COUNT; i++) {
        d->y[i] = (float)(i - 50);
        d->z[i] = -1.0f;
    }
}

static stator_status launch(const llvm_world *of, void *module, data *d, int64_t count,
                            stator_diag **err)
{
    void *buffers[3] = {d->x, d->y, d->z};
    uint32_t failed = 0;
    const st_emitter *emitter = &of->inst.emitter;
    const st_kernel_args args = {.buffers = buffers, .status = &failed};
    const st_launch what = {.args = &args, .count = count, .grain = 1};
    return emitter->launch(emitter->self, module, 0, &what, err);
}

static int is_right(const data *d)
{
    for (int i = 0; i < COUNT; i++) {
        const float *x = &d->x[4 * i];
        const float sum = x[0] + x[1] + x[2] + x[3];
        if (d->z[i] != sum * d->y[i]) { /* small numbers: exact in any order */
            return 0;
        }
    }
    return 1;
}

/* ---- bounds ---- */

static void out_of_bounds(int64_t shift, uint32_t lanes, int is_bad)
{
    data d;
    stator_diag *err = NULL;
    v.inst.settings.debug_bounds = 1;
    build(&v, shift, lanes);
    void *module = compile(&v);
    fill(&d);
    const stator_status status = launch(&v, module, &d, COUNT, &err);
    v.inst.emitter.module_destroy(&v.inst, module);
    if (is_bad) {
        cr_assert_eq(status, STATOR_INTERNAL);
        cr_assert(strstr(st_diag_text(err), "outside its buffer") != NULL, "%s", st_diag_text(err));
        st_diag_release(err);
    } else {
        cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
        cr_assert(is_right(&d));
    }
    end();
    begin();
}

Test(llvm_emitter, debug_bounds)
{
    out_of_bounds(0, 16, 0);
    out_of_bounds(0, 1, 0);
    out_of_bounds(1, 16, 1);
    out_of_bounds(-1, 16, 1);
    out_of_bounds(1, 1, 1);
    out_of_bounds(INT64_C(1) << 40, 1, 1); /* would fault without the check */
    out_of_bounds(-(INT64_C(1) << 40), 16, 1);
}

/* ---- many threads ---- */

typedef struct caller {
    pthread_t thread;
    void *module;
    int is_right;
} caller;

static void *call_often(void *self)
{
    caller *c = self;
    c->is_right = 1;
    for (int round = 0; round < 200; round++) {
        data d;
        fill(&d);
        c->is_right &= launch(&v, c->module, &d, COUNT, NULL) == STATOR_OK && is_right(&d);
    }
    return NULL;
}

static void *compile_often(void *self)
{
    caller *c = self;
    c->is_right = 1;
    for (int round = 0; round < 5; round++) {
        data d;
        llvm_world own; /* the symbols of a program are its own; the plugin's state is shared */
        llvm_world_init(&own, "own");
        build(&own, 0, 16);
        void *module = compile(&own);
        fill(&d);
        c->is_right &= launch(&own, module, &d, COUNT, NULL) == STATOR_OK && is_right(&d);
        own.inst.emitter.module_destroy(&own.inst, module);
        llvm_world_deinit(&own);
    }
    return NULL;
}

Test(llvm_emitter, eight_threads_compile_one_kernel)
{
    caller callers[8];
    build(&v, 0, 16);
    void *module = compile(&v);
    for (int i = 0; i < 8; i++) {
        callers[i] = (caller){.module = module};
        cr_assert_eq(pthread_create(&callers[i].thread, NULL, i < 6 ? call_often : compile_often,
                                    &callers[i]),
                     0);
    }
    for (int i = 0; i < 8; i++) {
        (void)pthread_join(callers[i].thread, NULL);
        cr_assert(callers[i].is_right, "thread %d", i);
    }
    v.inst.emitter.module_destroy(&v.inst, module);
}

/* ---- memory ---- */

Test(llvm_emitter, every_allocation_may_fail)
{
    int done = 0;
    build(&v, 0, 16);
    for (uint64_t at = 1; !done; at++) {
        void *module = NULL;
        stator_diag *err = NULL;
        const st_kernel *kernels[1] = {&v.w.kernel};
        cr_assert_lt(at, 2000u);
        v.self.mem.fail_at = v.self.mem.requests + at;
        const stator_status status = v.inst.emitter.compile(&v.inst, kernels, 1, &module, &err);
        done = v.self.mem.requests < v.self.mem.fail_at;
        v.self.mem.fail_at = 0;
        cr_assert(status == STATOR_OK || status == STATOR_RESOURCE_EXHAUSTED, "status %d: %s",
                  status, st_diag_text(err));
        cr_assert_eq(status == STATOR_OK, module != NULL);
        cr_assert(status == STATOR_OK || err != NULL);
        st_diag_release(err);
        v.inst.emitter.module_destroy(&v.inst, module);
        cr_assert_eq(v.self.mem.live_blocks, 0, "failing at %llu", (unsigned long long)at);
        cr_assert_eq(v.self.mem.live_bytes, 0);
    }
}

/* ---- several kernels ---- */

Test(llvm_emitter, compiling_no_kernels_succeeds)
{
    void *module = NULL;
    stator_diag *err = NULL;
    cr_assert_eq(v.inst.emitter.compile(&v.inst, NULL, 0, &module, &err), STATOR_OK);
    v.inst.emitter.module_destroy(&v.inst, module);
}

Test(llvm_emitter, concurrent_modules)
{
    enum { KERNELS = 30 };
    static st_kernel kernels[KERNELS];
    const st_kernel *list[KERNELS];
    stator_diag *err = NULL;
    void *module = NULL;
    loop_world *w = &v.w;
    for (uint32_t k = 0; k < KERNELS; k++) { /* z[i] = k after a long way round */
        st_loop_builder b;
        cr_assert(st_kernel_init(&kernels[k], &w->mem, &w->syms, "number"));
        st_loop_builder_init(&b, &kernels[k]);
        const uint32_t z =
            st_loop_buffer_add(&b, "z", STATOR_F32, loop_int(w, COUNT), ST_BUFFER_WRITTEN, 0);
        const uint32_t i = st_loop_axis_add(&b, loop_int(w, COUNT), ST_AXIS_PARALLEL);
        st_loop_open(&b, i);
        st_loop_ref x =
            st_loop_cast(&b, STATOR_F32, st_loop_index(&b, kernels[k].axes.data[i].sym));
        const st_loop_ref first = x;
        for (uint32_t n = 0; n < k; n++) {
            const st_loop_ref one = st_loop_float(&b, STATOR_F32, 1.0);
            x = st_loop_apply(&b, ST_LOOP_add, 0, x, one, 0);
        }
        st_loop_store(&b, z, kernels[k].axes.data[i].sym,
                      st_loop_apply(&b, ST_LOOP_sub, 0, x, first, 0), 0);
        st_loop_close(&b);
        st_loop_builder_deinit(&b);
        list[k] = &kernels[k];
    }
    v.inst.emitter.target.threads = 4;
    const stator_status status = v.inst.emitter.compile(&v.inst, list, KERNELS, &module, &err);
    cr_assert_eq(status, STATOR_OK, "%s", st_diag_text(err));
    for (uint32_t k = 0; k < KERNELS; k++) {
        float z[COUNT];
        void *buffers[1] = {z};
        const st_kernel_args args = {.buffers = buffers};
        const st_launch what = {.args = &args, .count = COUNT, .grain = COUNT};
        cr_assert_eq(v.inst.emitter.launch(&v.inst, module, k, &what, &err), STATOR_OK);
        cr_assert_eq(z[77], (float)k);
        st_kernel_deinit(&kernels[k]);
    }
    v.inst.emitter.module_destroy(&v.inst, module);
}

/* ---- names ---- */

Test(llvm_emitter, debug_names)
{
    char path[64];
    char line[256] = "";
    int is_there = 0;
    (void)snprintf(path, sizeof path, "/tmp/perf-%ld.map", (long)getpid());
    build(&v, 0, 16);
    v.inst.settings.debug_names = 1;
    void *module = compile(&v);
    FILE *map = fopen(path, "r");
    cr_assert(map != NULL);
    while (fgets(line, sizeof line, map) != NULL) {
        is_there |= strstr(line, " kernel.0") != NULL;
    }
    (void)fclose(map);
    (void)unlink(path);
    cr_assert(is_there, "no line for the kernel in %s", path);
    v.inst.emitter.module_destroy(&v.inst, module);
}

/* ---- what cannot be compiled is an error ---- */

Test(llvm_emitter, update_without_an_accumulator_is_refused)
{
    void *module = NULL;
    stator_diag *err = NULL;
    const st_kernel *kernels[1] = {&v.w.kernel};
    build(&v, 0, 16);
    for (uint32_t i = 1; i < v.w.kernel.insts.count; i++) {
        st_loop_inst *inst = &v.w.kernel.insts.data[i];
        if (inst->code == ST_LOOP_UPDATE) {
            inst->ref = inst->args[0]; /* no accumulator */
        }
    }
    const stator_status status = v.inst.emitter.compile(&v.inst, kernels, 1, &module, &err);
    cr_assert_neq(status, STATOR_OK);
    cr_assert_null(module);
    cr_assert(strlen(st_diag_text(err)) > 10);
    st_diag_release(err);
}

/* ---- objects ---- */

static const void *no_function(void *self, const char *name)
{
    (void)self;
    (void)name;
    return NULL;
}

static jit_output object_of(void)
{
    jit_output out = {.mem = NULL};
    char msg[256] = "";
    const st_kernel *kernels[1] = {&v.w.kernel};
    const jit_request request = {.struct_size = sizeof request,
                                 .mem = &v.self.mem,
                                 .kernels = kernels,
                                 .n_kernels = 1,
                                 .tier = JIT_TIER_DEFAULT,
                                 .vector_bytes = v.inst.emitter.target.vector_bytes,
                                 .modules = 1,
                                 .spells = v.inst.emitter.target.spells};
    cr_assert_eq(v.self.jit->compile(&request, &out, msg, sizeof msg), STATOR_OK, "%s", msg);
    return out;
}

static stator_status load(const uint8_t *bytes, uint64_t size)
{
    cpu_image image;
    char msg[512] = "";
    const stator_status status =
        cpu_image_load(&v.self.mem, bytes, size, no_function, NULL, &image, msg, sizeof msg);
    if (status == STATOR_OK) {
        (void)cpu_image_find(&image, "kernel.0");
        cpu_image_unload(&v.self.mem, &image);
    } else {
        cr_assert(strlen(msg) > 10);
    }
    return status;
}

/* Cut off anywhere, and with any byte changed, an object is refused or loads; it is never followed
 * outside itself. The sanitizer presets watch. */
Test(llvm_emitter, truncated_and_changed_objects_are_harmless)
{
    build(&v, 0, 16);
    jit_output out = object_of();
    uint8_t *bytes = out.objects[0].bytes;
    const uint64_t size = out.objects[0].size;
    cr_assert_eq(load(bytes, size), STATOR_OK);
    for (uint64_t n = 0; n < size; n += n < 128 ? 1 : 61) {
        uint8_t *cut = st_alloc(&v.self.mem, n, 16);
        memcpy(cut, bytes, n);
        (void)load(cut, n);
        st_free(&v.self.mem, cut);
    }
    for (uint64_t at = 0; at < size; at++) {
        const uint8_t before = bytes[at];
        bytes[at] = (uint8_t)(before ^ (at & 1 ? 0xff : 1u << (at % 8u)));
        (void)load(bytes, size);
        bytes[at] = before;
    }
    v.self.jit->output_free(&out);
}

Test(llvm_emitter, objects_of_another_machine_are_refused)
{
    build(&v, 0, 16);
    jit_output out = object_of();
    Elf64_Ehdr head;
    memcpy(&head, out.objects[0].bytes, sizeof head);
    head.e_machine = EM_AARCH64;
    memcpy(out.objects[0].bytes, &head, sizeof head);
    cr_assert_eq(load(out.objects[0].bytes, out.objects[0].size), STATOR_UNSUPPORTED);
    cr_assert_eq(load((const uint8_t *)"not an object", 13), STATOR_DATA_LOSS);
    v.self.jit->output_free(&out);
}
