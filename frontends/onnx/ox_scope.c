/* Names of a graph under construction, the values behind them, and the operator sets in force.
 *
 * A scope belongs to one region (one builder). A branch that is chosen during import and a
 * subgraph translated in place have a scope of their own that looks into `outer`; a function's body
 * has one that does not. */
#include "frontends/onnx/ox_import.h"

#include <string.h>

void ox_scope_init(ox_scope *s, ox_import *im, ox_region *region, ox_scope *outer,
                   const ox_frame *frame)
{
    memset(s, 0, sizeof *s);
    s->im = im;
    s->region = region;
    s->outer = outer;
    s->frame = frame;
    s->depth = outer != NULL ? outer->depth + 1u : 0;
    st_hashset_init(&s->set, &im->mem);
}

void ox_scope_deinit(ox_scope *s)
{
    st_hashset_deinit(&s->set);
    st_vec_free(&s->im->mem, &s->names);
}

typedef struct name_query {
    const ox_scope *scope;
    const char *text;
} name_query;

static bool name_equal(void *self, uint32_t id)
{
    const name_query *q = self;
    return strcmp(q->scope->names.data[id - 1u].text, q->text) == 0;
}

static uint32_t find_own(const ox_scope *s, const char *name)
{
    name_query query = {s, name};
    return st_hashset_find(&s->set, st_hash64(name, strlen(name), 0), name_equal, &query);
}

bool ox_scope_find(const ox_scope *s, const char *name, stator_ref *out)
{
    for (; s != NULL; s = s->outer) {
        const uint32_t id = find_own(s, name);
        if (id != 0) {
            *out = s->names.data[id - 1u].value;
            return true;
        }
    }
    *out = 0;
    return false;
}

bool ox_scope_has_own(const ox_scope *s, const char *name)
{
    return find_own(s, name) != 0;
}

bool ox_scope_bind(ox_scope *s, const char *name, stator_ref value)
{
    ox_import *im = s->im;
    ox_name *row = st_vec_push(&im->mem, &s->names);
    if (row == NULL) {
        ox_import_fail(im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
        return false;
    }
    *row = (ox_name){name, value};
    if (!st_hashset_add(&s->set, st_hash64(name, strlen(name), 0), s->names.count)) {
        s->names.count--;
        ox_import_fail(im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
        return false;
    }
    return true;
}

void ox_region_deinit(ox_region *r, st_mem *mem)
{
    st_map_deinit(&r->data);
    st_vec_free(mem, &r->datas);
}

void ox_region_keep(ox_import *im, ox_region *r, stator_ref v, stator_dtype dtype, uint32_t rank,
                    const int64_t *dims, const void *bytes, uint64_t size)
{
    uint64_t count;
    if (v == 0 || !st_numel(dims, rank, &count)) {
        return;
    }
    int64_t *own_dims = st_arena_alloc(&im->arena, (rank + 1u) * sizeof *dims, 8);
    void *own = st_arena_alloc(&im->arena, size + 1u, 16);
    ox_data *row = own != NULL && own_dims != NULL ? st_vec_push(&im->mem, &r->datas) : NULL;
    if (row == NULL || !st_map_put(&r->data, v, r->datas.count)) {
        ox_import_fail(im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    if (rank != 0) {
        memcpy(own_dims, dims, rank * sizeof *dims);
    }
    if (size != 0) {
        memcpy(own, bytes, size);
    }
    *row = (ox_data){dtype, rank, count, own_dims, own};
}

const ox_data *ox_region_data(const ox_region *r, stator_ref v)
{
    const uint32_t id = st_map_get(&r->data, v);
    return id != 0 ? &r->datas.data[id - 1u] : NULL;
}

bool ox_is_default_domain(const char *domain)
{
    domain = ox_text(domain);
    return domain[0] == '\0' || strcmp(domain, "ai.onnx") == 0;
}

static int64_t find_opset(size_t n, Onnx__OperatorSetIdProto *const *sets, const char *domain)
{
    const bool is_default = ox_is_default_domain(domain);
    for (size_t i = 0; i < n; i++) {
        if (is_default ? ox_is_default_domain(sets[i]->domain)
                       : strcmp(ox_text(sets[i]->domain), domain) == 0) {
            return sets[i]->version;
        }
    }
    return 0;
}

int64_t ox_opset(const ox_import *im, const ox_frame *frame, const char *domain)
{
    domain = ox_text(domain);
    const Onnx__ModelProto *m = im->model;
    int64_t version = 0;
    if (frame != NULL) {
        version =
            find_opset(frame->function->n_opset_import, frame->function->opset_import, domain);
    }
    if (version == 0) {
        version = find_opset(m->n_opset_import, m->opset_import, domain);
    }
    if (version == 0 && ox_is_default_domain(domain) && m->n_opset_import == 0) {
        version = 1; /* models older than operator sets (IR version below 3) */
    }
    return version;
}
