/* Modules: creation, copies, and the interned pools of strings, lists, types, blobs and origins.
 *
 * Row 0 of the pools that refs name (strings, types, origins, blobs) is a dummy, so that 0 names
 * nothing; refs, i64s, f64s, attrs and regions are read by ranges and start at 0. Interning is by
 * content: equal lists have one place, equal types one ref. */
#include "ir/module.h"
#include "core/base/blob.h"
#include "core/base/check.h"
#include "ir/graph.h"
#include <string.h>

/* Constants up to this size are interned by content, which takes 0.1 ms of the largest. */
#define SMALL_BLOB_BYTES (UINT64_C(1) << 20)
#define MERGED_ORIGINS_MAX 64u

/* ---- life ---- */

static void init_pools(st_module *m)
{
    st_seg_init(&m->types, m->mem, sizeof(stator_type_row));
    st_seg_init(&m->attrs, m->mem, sizeof(stator_attr_row));
    st_seg_init(&m->refs, m->mem, sizeof(uint32_t));
    st_seg_init(&m->i64s, m->mem, sizeof(int64_t));
    st_seg_init(&m->f64s, m->mem, sizeof(double));
    st_seg_init(&m->strings, m->mem, sizeof(stator_string_row));
    st_seg_init(&m->origins, m->mem, sizeof(stator_origin_row));
    st_seg_init(&m->regions, m->mem, sizeof(const stator_graph *));
    st_seg_init(&m->blobs, m->mem, sizeof(stator_blob *));
}

/* Calls fn on each hash set of the module and of `other`, which may be NULL. */
static bool each_set(st_module *m, const st_module *other,
                     bool (*fn)(st_hashset *set, st_mem *mem, const st_hashset *from))
{
    st_hashset *const sets[] = {&m->string_set, &m->type_set, &m->list_set,   &m->i64_set,
                                &m->f64_set,    &m->blob_set, &m->content_set};
    const st_module *o = other != NULL ? other : m;
    const st_hashset *const from[] = {&o->string_set, &o->type_set, &o->list_set,   &o->i64_set,
                                      &o->f64_set,    &o->blob_set, &o->content_set};
    bool ok = true;
    for (uint32_t i = 0; i < sizeof sets / sizeof sets[0]; i++) {
        ok = fn(sets[i], m->mem, from[i]) && ok;
    }
    return ok;
}

static bool set_init(st_hashset *set, st_mem *mem, const st_hashset *from)
{
    (void)from;
    st_hashset_init(set, mem);
    return true;
}

static bool set_deinit(st_hashset *set, st_mem *mem, const st_hashset *from)
{
    (void)mem;
    (void)from;
    st_hashset_deinit(set);
    return true;
}

/* On failure the set is deinitialised, which may be repeated. */
static bool set_clone(st_hashset *set, st_mem *mem, const st_hashset *from)
{
    return st_hashset_clone(set, mem, from);
}

static st_module *module_alloc(st_mem *mem, stator_ctx *ctx, const st_optable *ops)
{
    st_module *m = st_calloc(mem, 1, sizeof *m);
    if (m == NULL) {
        return NULL;
    }
    m->mem = mem;
    m->ctx = ctx;
    m->ops = ops;
    st_arena_init(&m->arena, mem);
    init_pools(m);
    each_set(m, NULL, set_init);
    return m;
}

static bool push_dummies(st_module *m)
{
    stator_string_row *empty = st_seg_push(&m->strings, NULL);
    if (empty == NULL) {
        return false;
    }
    empty->data = "";
    return st_seg_push(&m->types, NULL) != NULL && st_seg_push(&m->origins, NULL) != NULL &&
           st_seg_push(&m->blobs, NULL) != NULL;
}

stator_status st_module_create(st_mem *mem, stator_ctx *ctx, const st_optable *ops,
                               st_module **out_module, stator_diag **err)
{
    *out_module = NULL;
    st_module *m = module_alloc(mem, ctx, ops);
    ST_TRY_MEM(m, err);
    if (!st_symtab_init(&m->symtab, mem) || !push_dummies(m)) {
        st_module_destroy(m);
        return st_fail_oom(err);
    }
    *out_module = m;
    return STATOR_OK;
}

void st_module_destroy(st_module *m)
{
    if (m == NULL) {
        return;
    }
    for (stator_graph *g = m->graphs; g != NULL; g = g->next) {
        st_seg_deinit(&g->nodes);
        st_seg_deinit(&g->values);
        st_seg_deinit(&g->write_backs);
    }
    for (uint32_t i = 1; i < m->blobs.count; i++) {
        st_blob_release(*(stator_blob **)st_seg_at(&m->blobs, i));
    }
    st_seg *const segs[] = {&m->types,   &m->attrs,   &m->refs,    &m->i64s, &m->f64s,
                            &m->strings, &m->origins, &m->regions, &m->blobs};
    for (uint32_t i = 0; i < sizeof segs / sizeof segs[0]; i++) {
        st_seg_deinit(segs[i]);
    }
    each_set(m, NULL, set_deinit);
    if (m->symtab.mem != NULL) {
        st_symtab_deinit(&m->symtab);
    }
    st_arena_deinit(&m->arena);
    st_free(m->mem, m);
}

/* ---- copies ---- */

static bool clone_pools(st_module *to, const st_module *from)
{
    const struct {
        st_seg *to;
        const st_seg *from;
    } segs[] = {{&to->types, &from->types},     {&to->attrs, &from->attrs},
                {&to->refs, &from->refs},       {&to->i64s, &from->i64s},
                {&to->f64s, &from->f64s},       {&to->strings, &from->strings},
                {&to->origins, &from->origins}, {&to->regions, &from->regions}};
    for (uint32_t i = 0; i < sizeof segs / sizeof segs[0]; i++) {
        if (!st_seg_clone(segs[i].to, to->mem, segs[i].from)) {
            return false;
        }
    }
    for (uint32_t i = 1; i < to->strings.count; i++) {
        stator_string_row *row = st_seg_at(&to->strings, i);
        row->data = st_arena_strndup(&to->arena, row->data, row->len);
        if (row->data == NULL) {
            return false;
        }
    }
    return true;
}

static bool clone_blobs(st_module *to, const st_module *from)
{
    for (uint32_t i = 0; i < from->blobs.count; i++) {
        stator_blob **slot = st_seg_push(&to->blobs, NULL);
        if (slot == NULL) {
            return false;
        }
        *slot = *(stator_blob **)st_seg_at(&from->blobs, i);
        if (*slot != NULL) {
            st_blob_retain(*slot);
        }
    }
    return true;
}

static bool clone_graph(stator_graph *to, const stator_graph *from)
{
    st_mem *mem = to->module->mem;
    to->n_inputs = from->n_inputs;
    to->n_outputs = from->n_outputs;
    to->output_begin = from->output_begin;
    to->output_name_begin = from->output_name_begin;
    to->name = from->name;
    to->is_finished = from->is_finished;
    st_seg_deinit(&to->nodes);
    st_seg_deinit(&to->values);
    return st_seg_clone(&to->nodes, mem, &from->nodes) &&
           st_seg_clone(&to->values, mem, &from->values) &&
           st_seg_clone(&to->write_backs, mem, &from->write_backs);
}

/* The graphs in the order of from's list; map[index of the old one] = the new one. */
static bool clone_graphs(st_module *to, const st_module *from, stator_graph **map)
{
    stator_graph **link = &to->graphs;
    for (const stator_graph *g = from->graphs; g != NULL; g = g->next) {
        stator_graph *copy = st_graph_alloc(to);
        if (copy == NULL) {
            return false;
        }
        map[g->index] = copy;
        copy->index = g->index;
        *link = copy;
        link = &copy->next;
        if (!clone_graph(copy, g)) {
            return false;
        }
    }
    for (const stator_graph *g = from->graphs; g != NULL; g = g->next) {
        map[g->index]->parent = g->parent != NULL ? map[g->parent->index] : NULL;
    }
    for (uint32_t i = 0; i < to->regions.count; i++) {
        const stator_graph **slot = st_seg_at(&to->regions, i);
        *slot = map[(*slot)->index];
    }
    to->root = from->root != NULL ? map[from->root->index] : NULL;
    to->n_graphs = from->n_graphs;
    for (stator_graph *g = to->graphs; g != NULL; g = g->next) {
        st_graph_refresh(g);
    }
    return true;
}

stator_status st_module_clone(const st_module *from, st_module **out_module, stator_diag **err)
{
    *out_module = NULL;
    st_module *m = module_alloc(from->mem, from->ctx, from->ops);
    stator_graph **map = st_calloc(from->mem, from->n_graphs + 1u, sizeof *map);
    const bool ok = m != NULL && map != NULL &&
                    st_symtab_clone(&m->symtab, m->mem, &from->symtab) && clone_pools(m, from) &&
                    clone_blobs(m, from) && each_set(m, from, set_clone) &&
                    clone_graphs(m, from, map);
    st_free(from->mem, map);
    if (!ok) {
        st_module_destroy(m);
        return st_fail_oom(err);
    }
    *out_module = m;
    return STATOR_OK;
}

/* ---- strings ---- */

typedef struct key {
    const st_module *m;
    const void *data;
    const st_seg *seg;
    uint64_t n;
} key;

static bool string_equal(void *self, uint32_t id)
{
    const key *k = self;
    const stator_string_row *row = st_seg_at(&k->m->strings, id);
    return row->len == k->n && memcmp(row->data, k->data, k->n) == 0;
}

uint32_t st_module_string(st_module *m, const char *s, uint64_t n)
{
    if (n == 0 || n > UINT32_MAX) {
        return 0;
    }
    const uint64_t hash = st_hash64(s, n, 1);
    key k = {.m = m, .data = s, .n = n};
    uint32_t id = st_hashset_find(&m->string_set, hash, string_equal, &k);
    if (id != 0) {
        return id;
    }
    const char *copy = st_arena_strndup(&m->arena, s, n);
    stator_string_row *row = copy != NULL ? st_seg_push(&m->strings, &id) : NULL;
    if (row == NULL) {
        return 0;
    }
    row->data = copy;
    row->len = (uint32_t)n;
    return st_hashset_add(&m->string_set, hash, id) ? id : 0;
}

const char *st_module_str(const st_module *m, uint32_t string)
{
    return string == 0 ? "" : ((const stator_string_row *)st_seg_at(&m->strings, string))->data;
}

/* ---- lists ---- */

/* Ids in the list sets are begin + 1: ranges may begin at 0. */
static bool list_equal(void *self, uint32_t id)
{
    const key *k = self;
    const uint32_t begin = id - 1u;
    const uint32_t stride = k->seg->stride;
    if ((uint64_t)begin + k->n > k->seg->count) {
        return false;
    }
    for (uint32_t i = 0; i < k->n; i++) {
        if (memcmp(st_seg_at(k->seg, begin + i), (const char *)k->data + (uint64_t)i * stride,
                   stride) != 0) {
            return false;
        }
    }
    return true;
}

static bool append(st_seg *seg, const void *data, uint32_t n, uint32_t *out_begin)
{
    *out_begin = seg->count;
    if (n == 0) {
        return true;
    }
    if (!st_seg_grow(seg, n, out_begin)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        memcpy(st_seg_at(seg, *out_begin + i), (const char *)data + (uint64_t)i * seg->stride,
               seg->stride);
    }
    return true;
}

static bool intern_list(st_module *m, st_hashset *set, st_seg *seg, const void *data, uint32_t n,
                        uint32_t *out)
{
    *out = 0;
    if (n == 0) {
        return true;
    }
    const uint64_t hash = st_hash64(data, (uint64_t)n * seg->stride, n);
    key k = {.m = m, .data = data, .seg = seg, .n = n};
    const uint32_t id = st_hashset_find(set, hash, list_equal, &k);
    if (id != 0) {
        *out = id - 1u;
        return true;
    }
    return append(seg, data, n, out) && st_hashset_add(set, hash, *out + 1u);
}

bool st_module_ref_list(st_module *m, const uint32_t *refs, uint32_t n, uint32_t *out)
{
    return intern_list(m, &m->list_set, &m->refs, refs, n, out);
}

bool st_module_i64_list(st_module *m, const int64_t *values, uint32_t n, uint32_t *out)
{
    return intern_list(m, &m->i64_set, &m->i64s, values, n, out);
}

bool st_module_f64_list(st_module *m, const double *values, uint32_t n, uint32_t *out)
{
    return intern_list(m, &m->f64_set, &m->f64s, values, n, out);
}

uint32_t st_module_refs(st_module *m, const uint32_t *refs, uint32_t n)
{
    uint32_t begin = 0;
    return append(&m->refs, refs, n, &begin) ? begin : UINT32_MAX;
}

/* ---- types ---- */

typedef struct type_key {
    const st_module *m;
    stator_type_row row;
} type_key;

static bool type_equal(void *self, uint32_t id)
{
    const type_key *k = self;
    return memcmp(&k->row, st_seg_at(&k->m->types, id), sizeof k->row) == 0;
}

uint32_t st_module_type(st_module *m, stator_dtype dtype, uint32_t rank, const stator_ref *dims)
{
    if (dtype == 0 || dtype >= STATOR_DTYPE_COUNT || rank > STATOR_RANK_MAX ||
        (dims == NULL && rank != 0)) {
        return 0;
    }
    for (uint32_t i = 0; i < rank; i++) {
        if (dims[i] == 0 || dims[i] >= m->symtab.syms.count) {
            return 0;
        }
    }
    type_key k = {.m = m, .row = {.dtype = dtype, .rank = rank}};
    if (!st_module_ref_list(m, dims, rank, &k.row.dims_begin)) {
        return 0;
    }
    const uint64_t hash = st_hash64(&k.row, sizeof k.row, 2);
    uint32_t id = st_hashset_find(&m->type_set, hash, type_equal, &k);
    if (id != 0) {
        return id;
    }
    stator_type_row *row = st_seg_push(&m->types, &id);
    if (row == NULL) {
        return 0;
    }
    *row = k.row;
    return st_hashset_add(&m->type_set, hash, id) ? id : 0;
}

static const char *name_of(void *self, uint32_t name)
{
    return st_module_str(self, name);
}

void st_module_print_type(const st_module *m, uint32_t type, st_str *out)
{
    const stator_type_row *row = st_seg_at(&m->types, type);
    st_str_add(out, st_dtype_name(row->dtype));
    st_str_add(out, "[");
    for (uint32_t i = 0; i < row->rank; i++) {
        if (i != 0) {
            st_str_add(out, ", ");
        }
        const uint32_t dim = *(const uint32_t *)st_seg_at(&m->refs, row->dims_begin + i);
        st_sym_print(&m->symtab, dim, name_of, (void *)(uintptr_t)m, out);
    }
    st_str_add(out, "]");
}

/* ---- blobs ---- */

static bool blob_equal(void *self, uint32_t id)
{
    const key *k = self;
    return *(stator_blob **)st_seg_at(&k->m->blobs, id) == k->data;
}

static uint32_t push_blob(st_module *m, stator_blob *blob)
{
    uint32_t id = 0;
    stator_blob **slot = st_seg_push(&m->blobs, &id);
    if (slot == NULL) {
        return 0;
    }
    st_blob_retain(blob);
    *slot = blob;
    return id;
}

static uint32_t blob_by_pointer(st_module *m, stator_blob *blob)
{
    const uint64_t hash = st_hash64(&blob, sizeof blob, 3);
    key k = {.m = m, .data = blob};
    uint32_t id = st_hashset_find(&m->blob_set, hash, blob_equal, &k);
    if (id != 0) {
        return id;
    }
    id = push_blob(m, blob);
    return id != 0 && st_hashset_add(&m->blob_set, hash, id) ? id : 0;
}

static bool content_equal(void *self, uint32_t id)
{
    const key *k = self;
    stator_blob *blob = st_module_blob_at(k->m, id);
    const void *data = NULL;
    return st_blob_size(blob) == k->n && st_blob_get(blob, &data, NULL) == STATOR_OK &&
           (k->n == 0 || memcmp(data, k->data, k->n) == 0);
}

/* Small bytes in memory are interned by content; a file's are not read for that. */
uint32_t st_module_blob(st_module *m, stator_blob *blob)
{
    const void *data = NULL;
    uint64_t offset = 0;
    if (blob == NULL) {
        return 0;
    }
    const uint64_t size = st_blob_size(blob);
    if (size > SMALL_BLOB_BYTES || st_blob_file(blob, &offset) != NULL ||
        st_blob_get(blob, &data, NULL) != STATOR_OK) {
        return blob_by_pointer(m, blob);
    }
    const uint64_t hash = st_hash64(data, size, 4);
    key k = {.m = m, .data = data, .n = size};
    uint32_t id = st_hashset_find(&m->content_set, hash, content_equal, &k);
    if (id != 0) {
        return id;
    }
    id = push_blob(m, blob);
    return id != 0 && st_hashset_add(&m->content_set, hash, id) ? id : 0;
}

uint32_t st_module_blob_of_bytes(st_module *m, const void *data, uint64_t size)
{
    if (size <= SMALL_BLOB_BYTES) {
        key k = {.m = m, .data = data, .n = size};
        const uint64_t hash = st_hash64(data, size, 4);
        const uint32_t id = st_hashset_find(&m->content_set, hash, content_equal, &k);
        if (id != 0) {
            return id;
        }
    }
    stator_blob *blob = st_blob_copy(m->mem, data, size);
    const uint32_t id = blob != NULL ? st_module_blob(m, blob) : 0;
    st_blob_release(blob);
    return id;
}

stator_blob *st_module_blob_at(const st_module *m, uint32_t blob)
{
    return *(stator_blob **)st_seg_at(&m->blobs, blob);
}

/* ---- origins ---- */

static uint32_t text_ref(st_module *m, const char *s)
{
    return s != NULL ? st_module_string(m, s, strlen(s)) : 0;
}

static uint32_t push_origin(st_module *m, const stator_origin_row *row)
{
    uint32_t id = 0;
    stator_origin_row *slot = st_seg_push(&m->origins, &id);
    if (slot == NULL) {
        return 0;
    }
    *slot = *row;
    return id;
}

uint32_t st_module_origin(st_module *m, const char *name, const char *kind, const char *file,
                          uint32_t line)
{
    const stator_origin_row row = {.name = text_ref(m, name),
                                   .kind = text_ref(m, kind),
                                   .file = text_ref(m, file),
                                   .line = line};
    if ((row.name | row.kind | row.file | row.line) == 0) {
        return 0;
    }
    return push_origin(m, &row);
}

static const stator_origin_row *origin_at(const st_module *m, uint32_t origin)
{
    return st_seg_at(&m->origins, origin);
}

static bool same_origin(const stator_origin_row *a, const stator_origin_row *b)
{
    return a->name == b->name && a->kind == b->kind && a->file == b->file && a->line == b->line;
}

/* Appends the rows of a list that are not in rows[0..n) yet. */
static uint32_t gather_origins(const st_module *m, uint32_t list, stator_origin_row *rows,
                               uint32_t n)
{
    for (; list != 0 && n < MERGED_ORIGINS_MAX; list = origin_at(m, list)->next) {
        uint32_t k = 0;
        while (k < n && !same_origin(&rows[k], origin_at(m, list))) {
            k++;
        }
        if (k == n) {
            rows[n++] = *origin_at(m, list);
        }
    }
    return n;
}

uint32_t st_module_origin_merge(st_module *m, uint32_t a, uint32_t b)
{
    if (a == 0 || a == b || b == 0) {
        return a != 0 ? a : b;
    }
    stator_origin_row rows[MERGED_ORIGINS_MAX];
    const uint32_t n_a = gather_origins(m, a, rows, 0);
    const uint32_t n = gather_origins(m, b, rows, n_a);
    if (n == n_a) {
        return a;
    }
    uint32_t result = 0;
    for (uint32_t i = n; i > 0; i--) {
        rows[i - 1].next = result;
        const uint32_t id = push_origin(m, &rows[i - 1]);
        if (id == 0) {
            return a;
        }
        result = id;
    }
    return result;
}

/* The mark and the name, which is without STATOR_RECOMPUTED: the gradient of a node that is
 * computed once more is that of the first one, and what is computed a third time is named as the
 * second. */
static uint32_t marked_name(st_module *m, const char *mark, const char *name)
{
    st_str text;
    st_str_init(&text, m->mem);
    if (strncmp(name, STATOR_RECOMPUTED, strlen(STATOR_RECOMPUTED)) == 0) {
        name += strlen(STATOR_RECOMPUTED);
    }
    st_str_addf(&text, "%s%s", mark, name);
    const uint32_t string = st_str_ok(&text) ? st_module_string(m, text.data, text.len) : 0;
    st_str_deinit(&text);
    return string;
}

uint32_t st_module_origin_marked(st_module *m, uint32_t origin, const char *mark, const char *op)
{
    stator_origin_row rows[MERGED_ORIGINS_MAX];
    const uint32_t n = gather_origins(m, origin, rows, 0);
    uint32_t result = 0;
    if (n == 0) {
        const stator_origin_row row = {.name = marked_name(m, mark, op), .kind = text_ref(m, op)};
        return push_origin(m, &row);
    }
    for (uint32_t i = n; i > 0; i--) {
        stator_origin_row *row = &rows[i - 1];
        row->name = marked_name(m, mark, st_module_str(m, row->name != 0 ? row->name : row->kind));
        row->next = result;
        result = push_origin(m, row);
    }
    return result;
}

uint32_t st_module_origin_backward(st_module *m, uint32_t origin, const char *op)
{
    return st_module_origin_marked(m, origin, STATOR_BACKWARD_OF, op);
}

void st_module_note_origin(const st_module *m, uint32_t origin, stator_diag **err)
{
    if (origin != 0 && origin < m->origins.count && err != NULL && *err != NULL) {
        const stator_origin_row *row = origin_at(m, origin);
        st_diag_note(*err, st_module_str(m, row->name), st_module_str(m, row->file), row->line,
                     st_module_str(m, row->kind));
    }
}
