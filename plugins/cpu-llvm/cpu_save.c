/* Modules in the compile cache: the objects as the code generator made them, and which function
 * each kernel is. Loading needs no LLVM. What is read is checked: indices against counts, the
 * objects by cpu_object.c. */
#include "cpu_module.h"

#include "core/base/bytes.h"
#include "core/base/diag.h"

#include <string.h>

#define STREAMS_MAX 4096u
#define SYMBOL_BYTES_MAX 500u

stator_status cpu_module_save(void *self, void *module, st_str *out, stator_diag **err)
{
    const cpu_inst *inst = self;
    cpu_module *m = module;
    ST_FAIL_IF(m->jit == NULL || inst->settings.self_contained, err, STATOR_UNSUPPORTED,
               "inductor-cpu: this code is not kept");
    st_put_block(out, m->entry_of, (uint64_t)m->n_kernels * sizeof *m->entry_of);
    st_put_u32(out, m->kept.n_objects);
    for (uint32_t i = 0; i < m->kept.n_objects; i++) {
        st_put_block(out, m->kept.objects[i].bytes, m->kept.objects[i].size);
    }
    st_put_u32(out, m->kept.n_kernels);
    for (uint32_t k = 0; k < m->kept.n_kernels; k++) {
        const jit_kernel *kernel = &m->kept.kernels[k];
        const cpu_entry *e = &m->entries[k];
        st_put_text(out, kernel->symbol);
        st_put_u32(out, kernel->module);
        st_put_u32(out, kernel->step);
        st_put_u32(out, kernel->is_parallel);
        st_put_u32(out, kernel->is_streamed);
        st_put_block(out, e->streams, (uint64_t)e->n_streams * sizeof *e->streams);
    }
    m->jit->output_free(&m->kept);
    m->jit = NULL;
    return STATOR_OK;
}

/* ---- reading ---- */

typedef struct loading {
    cpu_inst *inst;
    cpu_module *m;
    st_reader r;
    jit_output out; /* its objects and symbols are borrowed from the bytes */
    const void **streams;
    uint64_t *stream_bytes;
} loading;

static stator_status broken(stator_diag **err)
{
    return st_fail(err, STATOR_DATA_LOSS, "inductor-cpu: the kept code is damaged");
}

/* Numbers from bytes that need not be aligned, each below the limit. */
static uint32_t *read_list(st_mem *mem, const void *bytes, uint64_t n, uint32_t limit)
{
    uint32_t *list = st_calloc(mem, n + 1u, sizeof *list);
    if (list != NULL && n != 0) {
        memcpy(list, bytes, (size_t)n * sizeof *list);
    }
    for (uint64_t i = 0; list != NULL && i < n; i++) {
        if (list[i] >= limit) {
            st_free(mem, list);
            return NULL;
        }
    }
    return list;
}

static bool read_kernel(loading *l, uint32_t k)
{
    jit_kernel *kernel = &l->out.kernels[k];
    const char *symbol = st_read_text(&l->r);
    kernel->module = st_read_below(&l->r, l->out.n_objects);
    kernel->step = st_read_u32(&l->r);
    kernel->is_parallel = st_read_below(&l->r, 2);
    kernel->is_streamed = st_read_below(&l->r, 2);
    l->streams[k] = st_read_block(&l->r, &l->stream_bytes[k]);
    if (l->r.failed || symbol == NULL || strlen(symbol) > SYMBOL_BYTES_MAX || kernel->step == 0 ||
        l->stream_bytes[k] % sizeof(uint32_t) != 0 ||
        l->stream_bytes[k] / sizeof(uint32_t) > STREAMS_MAX) {
        return false;
    }
    kernel->symbol = (char *)(uintptr_t)symbol; /* read alone */
    return true;
}

static bool read_objects(loading *l)
{
    l->out.n_objects = st_read_below(&l->r, JIT_MODULES_MAX + 1u);
    for (uint32_t i = 0; i < l->out.n_objects; i++) {
        jit_object *object = &l->out.objects[i];
        object->bytes = (uint8_t *)(uintptr_t)st_read_block(&l->r, &object->size); /* likewise */
    }
    return !l->r.failed;
}

static stator_status read_kernels(loading *l, stator_diag **err)
{
    st_mem *mem = l->m->mem;
    const uint32_t n = st_read_count(&l->r, 6u * sizeof(uint32_t));
    l->out.kernels = st_calloc(mem, n + UINT64_C(1), sizeof *l->out.kernels);
    l->streams = st_calloc(mem, n + UINT64_C(1), sizeof *l->streams);
    l->stream_bytes = st_calloc(mem, n + UINT64_C(1), sizeof *l->stream_bytes);
    ST_TRY_MEM(l->out.kernels && l->streams && l->stream_bytes, err);
    for (uint32_t k = 0; k < n; k++) {
        ST_FAIL_BY_IF(broken, !read_kernel(l, k), err);
        l->out.n_kernels = k + 1u;
    }
    return l->r.failed || l->r.left != 0 ? broken(err) : STATOR_OK;
}

static stator_status take_streams(loading *l, stator_diag **err)
{
    for (uint32_t k = 0; k < l->m->n_entries; k++) {
        cpu_entry *e = &l->m->entries[k];
        const uint64_t n = l->stream_bytes[k] / sizeof(uint32_t);
        e->streams = read_list(l->m->mem, l->streams[k], n, STREAMS_MAX);
        ST_FAIL_BY_IF(broken, e->streams == NULL, err);
        e->n_streams = (uint32_t)n;
    }
    return STATOR_OK;
}

static stator_status read_module(loading *l, uint32_t n_kernels, stator_diag **err)
{
    uint64_t bytes = 0;
    const void *entries = st_read_block(&l->r, &bytes);
    if (l->r.failed || bytes != (uint64_t)n_kernels * sizeof(uint32_t) || !read_objects(l)) {
        return broken(err);
    }
    ST_TRY(read_kernels(l, err));
    l->m->entry_of = read_list(l->m->mem, entries, n_kernels, l->out.n_kernels);
    ST_FAIL_BY_IF(broken, l->m->entry_of == NULL, err);
    l->m->n_kernels = n_kernels;
    ST_TRY(cpu_module_fill(l->inst, &l->out, l->m, err));
    return take_streams(l, err);
}

stator_status cpu_module_load(void *self, const void *bytes, uint64_t n, uint32_t n_kernels,
                              void **out_module, stator_diag **err)
{
    cpu_inst *inst = self;
    st_mem *mem = &inst->self->mem;
    *out_module = NULL;
    cpu_module *m = st_calloc(mem, 1, sizeof *m);
    ST_TRY_MEM(m, err);
    m->mem = mem;
    m->debug_bounds = inst->settings.debug_bounds;
    loading l = {.inst = inst, .m = m, .r = st_reader_of(bytes, n)};
    const stator_status status = read_module(&l, n_kernels, err);
    st_free(mem, l.out.kernels);
    st_free(mem, l.streams);
    st_free(mem, l.stream_bytes);
    if (status != STATOR_OK) {
        cpu_module_destroy(inst, m);
        return status;
    }
    *out_module = m;
    return STATOR_OK;
}
