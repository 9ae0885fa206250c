/* Reads the binary form (docs/stirb.md) into a builder.
 *
 * In: any bytes. Out: the graph, or one error that says where in the file. The section table is
 * checked first; then each pool is read in order, every count against the bytes that are left and
 * every reference against the entries before it; the graph itself goes through the same functions
 * that frontends use, so that no file can make a graph that they would not. */
#include "ir/binary.h"

#include "core/base/blob.h"
#include "ir/binary_format.h"
#include "ir/builder.h"
#include "ir/rebuild.h"

#include <string.h>

/* Unread bytes of one section. */
typedef struct cursor {
    const unsigned char *at, *end;
    uint32_t section;
} cursor;

typedef struct string_entry {
    const char *data; /* NUL-terminated, in the arena */
    uint32_t id;      /* the module's id of the string */
} string_entry;

/* Entries by number; element 0 is unused. */
typedef struct pool {
    uint32_t *refs;
    uint32_t count; /* entries read so far */
} pool;

typedef struct reader {
    st_module *m;
    st_arena arena;
    st_rebuild rebuild;
    const unsigned char *bytes;
    cursor sections[ST_STIRB_SECTIONS];
    string_entry *strings;
    uint32_t n_strings;
    st_map symbols; /* key + 1 -> sym */
    pool syms, types, origins;
    stator_blob **blobs;
    uint32_t n_blobs;
    uint64_t data_end; /* end of the blobs read so far: ascending ranges stay within the file */
    st_file *file;     /* file of the bytes, or NULL */
    uint32_t depth;
    stator_diag **err;
} reader;

static stator_status read_graph(reader *r, stator_builder *b);

bool st_is_binary(const void *bytes, uint64_t size)
{
    return size >= 8 && memcmp(bytes, ST_STIRB_MAGIC, 8) == 0;
}

/* ---- bytes ---- */

#define FAIL_AT_IF(condition, ...) ST_FAIL_BY_IF(fail_at, condition, __VA_ARGS__)
static stator_status fail_at(const reader *r, const cursor *c, const char *text)
{
    static const char *const names[] = {"the head", "STRINGS", "SYMBOLS", "SYMS", "TYPES",
                                        "ORIGINS",  "BLOBS",   "GRAPH",   "DATA"};
    return st_fail(r->err, STATOR_DATA_LOSS, "stirb: %s, at byte %llu (section %s)", text,
                   (unsigned long long)(c->at - r->bytes), names[c->section]);
}

static uint32_t load_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t load_u64(const unsigned char *p)
{
    return (uint64_t)load_u32(p) | (uint64_t)load_u32(p + 4) << 32;
}

static uint64_t bytes_left(const cursor *c)
{
    return (uint64_t)(c->end - c->at);
}

static stator_status take(const reader *r, cursor *c, uint64_t n, const unsigned char **out)
{
    FAIL_AT_IF(n > bytes_left(c), r, c, "the section ends too early");
    *out = c->at;
    c->at += n;
    return STATOR_OK;
}

static stator_status u32_of(const reader *r, cursor *c, uint32_t *out)
{
    const unsigned char *p = NULL;
    ST_TRY(take(r, c, 4, &p));
    *out = load_u32(p);
    return STATOR_OK;
}

static stator_status u64_of(const reader *r, cursor *c, uint64_t *out)
{
    const unsigned char *p = NULL;
    ST_TRY(take(r, c, 8, &p));
    *out = load_u64(p);
    return STATOR_OK;
}

static stator_status i64_of(const reader *r, cursor *c, int64_t *out)
{
    uint64_t bits = 0;
    ST_TRY(u64_of(r, c, &bits));
    memcpy(out, &bits, sizeof bits);
    return STATOR_OK;
}

/* A count of records of at least `least` bytes each. */
static stator_status count_of(const reader *r, cursor *c, uint64_t least, uint32_t *out)
{
    ST_TRY(u32_of(r, c, out));
    return *out <= bytes_left(c) / least
               ? STATOR_OK
               : fail_at(r, c, "a count is larger than the bytes that are left");
}

/* A reference to one of `count` entries; 0 is allowed when may_be_none. */
static stator_status ref_of(const reader *r, cursor *c, uint32_t count, bool may_be_none,
                            uint32_t *out)
{
    ST_TRY(u32_of(r, c, out));
    return *out <= count && (*out != 0 || may_be_none)
               ? STATOR_OK
               : fail_at(r, c, "a reference names no entry before it");
}

static stator_status alloc_of(const reader *r, uint64_t count, uint64_t size, void *out)
{
    void *p = st_arena_zalloc(&((reader *)(uintptr_t)r)->arena, count + 1u, size);
    memcpy(out, &p, sizeof p);
    return p ? STATOR_OK : st_fail_oom(r->err);
}

static stator_status string_of(const reader *r, cursor *c, const char **out)
{
    uint32_t ref = 0;
    ST_TRY(ref_of(r, c, r->n_strings, true, &ref));
    *out = r->strings[ref].data;
    return STATOR_OK;
}

static stator_status entry_of(const reader *r, cursor *c, const pool *p, bool may_be_none,
                              uint32_t *out)
{
    uint32_t ref = 0;
    ST_TRY(ref_of(r, c, p->count, may_be_none, &ref));
    *out = ref ? p->refs[ref] : 0;
    return STATOR_OK;
}

/* ---- head ---- */

static stator_status read_row(reader *r, uint64_t size, uint32_t k)
{
    const unsigned char *row = r->bytes + ST_STIRB_HEAD_BYTES + (uint64_t)k * ST_STIRB_ROW_BYTES;
    const uint32_t id = load_u32(row);
    const uint64_t offset = load_u64(row + 8), length = load_u64(row + 16);
    const uint64_t align = id == ST_STIRB_DATA ? ST_STIRB_DATA_ALIGN : 8u;
    const cursor here = {.at = row};
    FAIL_AT_IF(offset > size || length > size - offset || offset % align != 0, r, &here,
               "a section lies outside the file or is not aligned");
    if (id == 0 || id >= ST_STIRB_SECTIONS) {
        return STATOR_OK; /* a section of a later version */
    }
    FAIL_AT_IF(r->sections[id].at != NULL, r, &here, "a section is there twice");
    r->sections[id] = (cursor){r->bytes + offset, r->bytes + offset + length, id};
    return STATOR_OK;
}

static stator_status read_head(reader *r, uint64_t size)
{
    const unsigned char *p = r->bytes;
    const cursor here = {.at = p};
    FAIL_AT_IF(size < ST_STIRB_HEAD_BYTES || !st_is_binary(p, size), r, &here,
               "the file is too short or has another magic");
    const uint32_t version = load_u32(p + 8), count = load_u32(p + 12);
    ST_FAIL_IF(version == 0 || version > ST_STIRB_VERSION, r->err, STATOR_INVALID_ARGUMENT,
               "stirb: this file is of version %u, this program reads version %u", version,
               ST_STIRB_VERSION);
    ST_FAIL_IF(load_u64(p + 16) != size, r->err, STATOR_DATA_LOSS,
               "stirb: the file says that it has %llu bytes, it has %llu",
               (unsigned long long)load_u64(p + 16), (unsigned long long)size);
    if (count > ST_STIRB_SECTIONS_MAX ||
        (uint64_t)count * ST_STIRB_ROW_BYTES > size - ST_STIRB_HEAD_BYTES) {
        return fail_at(r, &here, "the section table is too long");
    }
    for (uint32_t k = 0; k < count; k++) {
        ST_TRY(read_row(r, size, k));
    }
    for (uint32_t id = 1; id < ST_STIRB_DATA; id++) {
        ST_FAIL_IF(r->sections[id].at == NULL, r->err, STATOR_DATA_LOSS,
                   "stirb: section %u is missing", id);
    }
    if (r->sections[ST_STIRB_DATA].at == NULL) {
        r->sections[ST_STIRB_DATA] = (cursor){p, p, ST_STIRB_DATA};
    }
    return STATOR_OK;
}

/* ---- pools ---- */

static stator_status read_strings(reader *r)
{
    cursor *c = &r->sections[ST_STIRB_STRINGS];
    uint32_t count = 0;
    ST_TRY(count_of(r, c, 4, &count));
    ST_TRY(alloc_of(r, count, sizeof *r->strings, &r->strings));
    r->strings[0].data = "";
    for (uint32_t i = 1; i <= count; i++) {
        uint32_t len = 0;
        const unsigned char *data = NULL;
        ST_TRY(u32_of(r, c, &len));
        ST_TRY(take(r, c, len, &data));
        FAIL_AT_IF(len == 0 || memchr(data, 0, len), r, c, "a string is empty or holds a NUL");
        r->strings[i].id = st_module_string(r->m, (const char *)data, len);
        ST_TRY_MEM(r->strings[i].id, r->err);
        r->strings[i].data = st_module_str(r->m, r->strings[i].id);
    }
    r->n_strings = count;
    return STATOR_OK;
}

static stator_status make_symbol(reader *r, const cursor *c, uint32_t name, const int64_t n[4],
                                 uint32_t is_unbacked, uint32_t *out)
{
    const uint32_t before = r->m->symtab.n_symbols;
    FAIL_AT_IF(n[0] > n[1] || n[2] < 1, r, c,
               "a symbol's range is empty or its divisor is below 1");
    *out = st_sym_symbol(&r->m->symtab, name, n[0], n[1], n[2], is_unbacked);
    ST_TRY_MEM(*out, r->err);
    FAIL_AT_IF(r->m->symtab.n_symbols == before, r, c, "two symbols have one name");
    stator_atom_row *row = st_seg_at(&r->m->symtab.atoms, st_sym_as_symbol(&r->m->symtab, *out));
    row->hint = n[3];
    return STATOR_OK;
}

static stator_status read_symbols(reader *r)
{
    cursor *c = &r->sections[ST_STIRB_SYMBOLS];
    uint32_t count = 0;
    uint64_t last_key = 0; /* + 1 */
    ST_TRY(count_of(r, c, 44, &count));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t key = 0, name = 0, flags = 0, sym = 0;
        int64_t numbers[4] = {0};
        ST_TRY(u32_of(r, c, &key));
        ST_TRY(ref_of(r, c, r->n_strings, false, &name));
        ST_TRY(u32_of(r, c, &flags));
        for (uint32_t k = 0; k < 4; k++) {
            ST_TRY(i64_of(r, c, &numbers[k]));
        }
        FAIL_AT_IF((uint64_t)key + 1u <= last_key, r, c, "the keys of the symbols do not ascend");
        last_key = (uint64_t)key + 1u;
        ST_TRY(make_symbol(r, c, r->strings[name].id, numbers, flags & STATOR_ATOM_UNBACKED, &sym));
        ST_TRY_MEM(st_map_put(&r->symbols, last_key, sym), r->err);
    }
    return STATOR_OK;
}

static stator_status read_sum(reader *r, cursor *c, uint32_t *out)
{
    st_symtab *tab = &r->m->symtab;
    int64_t constant = 0;
    uint32_t n = 0;
    ST_TRY(i64_of(r, c, &constant));
    ST_TRY(count_of(r, c, 12, &n));
    *out = st_sym_int(tab, constant);
    for (uint32_t k = 0; k < n && *out != 0; k++) {
        int64_t coef = 0;
        uint32_t sym = 0;
        ST_TRY(i64_of(r, c, &coef));
        ST_TRY(entry_of(r, c, &r->syms, false, &sym));
        const uint32_t factor = st_sym_int(tab, coef);
        const uint32_t term = factor ? st_sym_mul(tab, factor, sym) : 0;
        *out = term ? st_sym_add(tab, *out, term) : 0;
    }
    return STATOR_OK;
}

static stator_status read_sym(reader *r, cursor *c, uint32_t *out)
{
    static uint32_t (*const functions[])(st_symtab *, uint32_t,
                                         uint32_t) = {[STATOR_ATOM_FLOORDIV] = st_sym_floordiv,
                                                      [STATOR_ATOM_MOD] = st_sym_mod,
                                                      [STATOR_ATOM_PRODUCT] = st_sym_mul,
                                                      [STATOR_ATOM_MIN] = st_sym_min,
                                                      [STATOR_ATOM_MAX] = st_sym_max};
    uint32_t kind = 0, key = 0, a = 0, b = 0;
    ST_TRY(u32_of(r, c, &kind));
    if (kind == ST_STIRB_SYM_SUM) {
        ST_TRY(read_sum(r, c, out));
    } else if (kind == ST_STIRB_SYM_SYMBOL) {
        ST_TRY(u32_of(r, c, &key));
        *out = st_map_get(&r->symbols, (uint64_t)key + 1u);
    } else if (kind >= STATOR_ATOM_FLOORDIV && kind <= STATOR_ATOM_MAX) {
        ST_TRY(entry_of(r, c, &r->syms, false, &a));
        ST_TRY(entry_of(r, c, &r->syms, false, &b));
        *out = functions[kind](&r->m->symtab, a, b);
    } else {
        return fail_at(r, c, "a size is of an unknown kind");
    }
    if (*out == 0) { /* the engine returns 0 at its limits and without memory alike */
        void *probe = st_alloc(r->m->mem, 1024, 1);
        const bool has_memory = probe != NULL;
        st_free(r->m->mem, probe);
        return has_memory ? fail_at(r, c,
                                    "a size names no symbol, exceeds a limit of the symbolic "
                                    "engine or leaves 64 bits")
                          : st_fail_oom(r->err);
    }
    return STATOR_OK;
}

static stator_status read_type(reader *r, cursor *c, uint32_t *out)
{
    uint32_t dtype = 0, rank = 0;
    uint32_t dims[STATOR_RANK_MAX];
    ST_TRY(u32_of(r, c, &dtype));
    ST_TRY(u32_of(r, c, &rank));
    FAIL_AT_IF(dtype == 0 || dtype >= STATOR_DTYPE_COUNT || rank > STATOR_RANK_MAX, r, c,
               "a type has an unknown dtype or too many axes");
    for (uint32_t i = 0; i < rank; i++) {
        int64_t lo, hi;
        ST_TRY(entry_of(r, c, &r->syms, false, &dims[i]));
        st_sym_range(&r->m->symtab, dims[i], &lo, &hi);
        FAIL_AT_IF(hi < 0, r, c, "a type has a negative size");
    }
    *out = st_module_type(r->m, dtype, rank, dims);
    return *out ? STATOR_OK : st_fail_oom(r->err);
}

static stator_status read_origin(reader *r, cursor *c, uint32_t *out)
{
    const char *name = NULL, *kind = NULL, *file = NULL;
    uint32_t line = 0, next = 0;
    ST_TRY(string_of(r, c, &name));
    ST_TRY(string_of(r, c, &kind));
    ST_TRY(string_of(r, c, &file));
    ST_TRY(u32_of(r, c, &line));
    ST_TRY(entry_of(r, c, &r->origins, true, &next));
    *out = st_module_origin_merge(r->m, st_module_origin(r->m, name, kind, file, line), next);
    return STATOR_OK;
}

/* Reads a pool of entries of at least `least` bytes each with `fn`. */
static stator_status read_pool(reader *r, uint32_t id, uint64_t least, pool *to,
                               stator_status (*fn)(reader *, cursor *, uint32_t *))
{
    cursor *c = &r->sections[id];
    uint32_t count = 0;
    ST_TRY(count_of(r, c, least, &count));
    ST_TRY(alloc_of(r, count, sizeof *to->refs, &to->refs));
    for (uint32_t i = 1; i <= count; i++) {
        ST_TRY(fn(r, c, &to->refs[i]));
        to->count = i;
    }
    return STATOR_OK;
}

static stator_status read_data(reader *r, const cursor *c, uint64_t offset, uint64_t size,
                               stator_blob **out)
{
    const cursor *data = &r->sections[ST_STIRB_DATA];
    const uint64_t length = bytes_left(data);
    if (offset > length || size > length - offset || offset % ST_STIRB_DATA_ALIGN != 0 ||
        offset < r->data_end) {
        return fail_at(r, c, "a constant lies outside DATA, is not aligned or overlaps another");
    }
    r->data_end = offset + size;
    if (r->file != NULL) {
        return st_blob_from_file(r->m->mem, r->file, (uint64_t)(data->at - r->bytes) + offset, size,
                                 0, out, r->err);
    }
    *out = st_blob_copy(r->m->mem, data->at + offset, size);
    return *out ? STATOR_OK : st_fail_oom(r->err);
}

static stator_status read_blob(reader *r, cursor *c, stator_blob **out)
{
    uint32_t kind = 0;
    uint64_t offset = 0, size = 0;
    const unsigned char *hash = NULL;
    ST_TRY(u32_of(r, c, &kind));
    ST_TRY(u64_of(r, c, &offset));
    ST_TRY(u64_of(r, c, &size));
    ST_TRY(take(r, c, 16, &hash));
    if (kind == ST_STIRB_BLOB_DATA) {
        return read_data(r, c, offset, size, out);
    }
    FAIL_AT_IF(kind != ST_STIRB_BLOB_HASH || offset != 0, r, c, "a constant is of an unknown kind");
    *out = st_blob_from_hash(r->m->mem, hash, size);
    return *out ? STATOR_OK : st_fail_oom(r->err);
}

static stator_status read_blobs(reader *r)
{
    cursor *c = &r->sections[ST_STIRB_BLOBS];
    uint32_t count = 0;
    ST_TRY(count_of(r, c, 36, &count));
    ST_TRY(alloc_of(r, count, sizeof(stator_blob *), &r->blobs));
    for (uint32_t i = 1; i <= count; i++) {
        ST_TRY(read_blob(r, c, &r->blobs[i]));
        r->n_blobs = i;
    }
    return STATOR_OK;
}

/* ---- nodes ---- */

typedef struct node {
    stator_node_desc desc;
    stator_ref *operands, *types;
    stator_attr *attrs;
    stator_graph **regions;
    const char **names;
    uint32_t *witnesses;
    uint32_t origin;
} node;

static stator_status read_list(reader *r, cursor *c, stator_attr *attr)
{
    const uint64_t size = attr->kind == STATOR_ATTR_DIMS ? 4u : 8u;
    unsigned char *list = NULL;
    ST_TRY(count_of(r, c, size, &attr->count));
    ST_TRY(alloc_of(r, attr->count, size, &list));
    attr->list = list;
    for (uint32_t i = 0; i < attr->count; i++) {
        if (attr->kind == STATOR_ATTR_DIMS) {
            uint32_t sym = 0;
            ST_TRY(entry_of(r, c, &r->syms, false, &sym));
            memcpy(list + i * size, &sym, sizeof sym);
        } else {
            uint64_t bits = 0;
            ST_TRY(u64_of(r, c, &bits));
            memcpy(list + i * size, &bits, sizeof bits);
        }
    }
    return STATOR_OK;
}

static stator_status read_attr(reader *r, cursor *c, stator_attr *attr)
{
    uint32_t ref = 0, blob = 0;
    int64_t bits = 0;
    ST_TRY(string_of(r, c, &attr->name));
    ST_TRY(u32_of(r, c, &attr->kind));
    switch (attr->kind) {
    case STATOR_ATTR_INT:
        return i64_of(r, c, &attr->i);
    case STATOR_ATTR_FLOAT:
        ST_TRY(i64_of(r, c, &bits));
        memcpy(&attr->f, &bits, sizeof bits);
        return STATOR_OK;
    case STATOR_ATTR_STRING:
        return string_of(r, c, &attr->s);
    case STATOR_ATTR_DTYPE:
        ST_TRY(u32_of(r, c, &ref));
        attr->i = ref;
        return STATOR_OK;
    case STATOR_ATTR_INTS:
    case STATOR_ATTR_FLOATS:
    case STATOR_ATTR_DIMS:
        return read_list(r, c, attr);
    case STATOR_ATTR_BLOB:
        ST_TRY(entry_of(r, c, &r->types, false, &ref));
        ST_TRY(ref_of(r, c, r->n_blobs, false, &blob));
        attr->i = ref;
        attr->blob = r->blobs[blob];
        return STATOR_OK;
    default:
        return fail_at(r, c, "an attribute is of an unknown kind");
    }
}

static stator_status read_op(reader *r, cursor *c, node *n)
{
    const char *name = NULL;
    uint32_t version = 0;
    ST_TRY(string_of(r, c, &name));
    ST_TRY(u32_of(r, c, &version));
    n->desc.op = st_optable_find(r->m->ops, name);
    ST_FAIL_IF(n->desc.op == 0, r->err, STATOR_NOT_FOUND, "stirb: there is no op named '%s'", name);
    const uint32_t known = st_optable_at(r->m->ops, n->desc.op)->desc.version;
    return version == known ? STATOR_OK
                            : st_fail(r->err, STATOR_INVALID_ARGUMENT,
                                      "stirb: op %s is written in version %u, here it has %u", name,
                                      version, known);
}

static stator_status read_operands(reader *r, cursor *c, const stator_builder *b, node *n)
{
    const uint32_t n_values = b->graph->values.count - 1u;
    ST_TRY(count_of(r, c, 4, &n->desc.operand_count));
    ST_TRY(alloc_of(r, n->desc.operand_count, sizeof *n->operands, &n->operands));
    for (uint32_t k = 0; k < n->desc.operand_count; k++) {
        ST_TRY(ref_of(r, c, n_values, true, &n->operands[k]));
    }
    return STATOR_OK;
}

static stator_status read_attrs(reader *r, cursor *c, node *n)
{
    ST_TRY(count_of(r, c, 12, &n->desc.attr_count));
    ST_TRY(alloc_of(r, n->desc.attr_count, sizeof *n->attrs, &n->attrs));
    for (uint32_t k = 0; k < n->desc.attr_count; k++) {
        ST_TRY(read_attr(r, c, &n->attrs[k]));
    }
    return STATOR_OK;
}

static stator_status read_region(reader *r, stator_builder *b, stator_graph **out)
{
    stator_builder *region = NULL;
    ST_FAIL_IF(r->depth == ST_STIRB_REGIONS_MAX, r->err, STATOR_INVALID_ARGUMENT,
               "stirb: regions are nested deeper than %u", ST_STIRB_REGIONS_MAX);
    const uint32_t mark = st_rebuild_enter(&r->rebuild);
    ST_TRY(st_build_region_begin(b, NULL, &region, r->err));
    r->depth++;
    const stator_status status = read_graph(r, region);
    r->depth--;
    st_rebuild_leave(&r->rebuild, mark);
    if (status != STATOR_OK) {
        st_build_region_abort(region);
        return status;
    }
    return st_build_region_end(region, out, r->err);
}

static stator_status read_regions(reader *r, cursor *c, stator_builder *b, node *n)
{
    ST_TRY(count_of(r, c, 20, &n->desc.region_count));
    ST_TRY(alloc_of(r, n->desc.region_count, sizeof(stator_graph *), &n->regions));
    for (uint32_t k = 0; k < n->desc.region_count; k++) {
        ST_TRY(read_region(r, b, &n->regions[k]));
    }
    return STATOR_OK;
}

/* A witness; the largest number is left free, as in the text form. */
static stator_status witness_of(const reader *r, cursor *c, uint32_t *out)
{
    ST_TRY(u32_of(r, c, out));
    return *out != UINT32_MAX ? STATOR_OK : fail_at(r, c, "a witness is no value number");
}

static stator_status read_results(reader *r, cursor *c, node *n)
{
    ST_TRY(count_of(r, c, 12, &n->desc.result_count));
    const uint32_t count = n->desc.result_count;
    FAIL_AT_IF(count > ST_RESULTS_MAX, r, c, "a node has more than 256 results");
    ST_TRY(alloc_of(r, count, sizeof *n->types, &n->types));
    ST_TRY(alloc_of(r, count, sizeof *n->names, &n->names));
    ST_TRY(alloc_of(r, count, sizeof *n->witnesses, &n->witnesses));
    for (uint32_t k = 0; k < count; k++) {
        ST_TRY(entry_of(r, c, &r->types, false, &n->types[k]));
        ST_TRY(string_of(r, c, &n->names[k]));
        ST_TRY(witness_of(r, c, &n->witnesses[k]));
    }
    return STATOR_OK;
}

static stator_status read_node(reader *r, cursor *c, stator_builder *b)
{
    node n = {.desc = {.struct_size = sizeof n.desc}};
    stator_ref values[ST_RESULTS_MAX] = {0};
    ST_TRY(read_op(r, c, &n));
    ST_TRY(entry_of(r, c, &r->origins, true, &n.origin));
    ST_TRY(read_operands(r, c, b, &n));
    ST_TRY(read_attrs(r, c, &n));
    ST_TRY(read_regions(r, c, b, &n));
    ST_TRY(read_results(r, c, &n));
    n.desc.operands = n.operands;
    n.desc.attrs = n.attrs;
    n.desc.regions = n.regions;
    st_build_set_origin_ref(b, n.origin);
    ST_TRY(st_rebuild_node(&r->rebuild, b, &n.desc, n.types, values, r->err));
    for (uint32_t k = 0; k < n.desc.result_count; k++) {
        st_build_set_name(b, values[k], n.names[k]);
        st_build_set_witness(b, values[k], n.witnesses[k]);
    }
    return STATOR_OK;
}

/* ---- graphs ---- */

static stator_status read_inputs(reader *r, cursor *c, stator_builder *b)
{
    uint32_t count = 0;
    ST_TRY(count_of(r, c, 20, &count));
    for (uint32_t i = 0; i < count; i++) {
        const char *name = NULL;
        uint32_t type = 0, flags = 0, witness = 0, blob = 0;
        stator_ref value = 0;
        ST_TRY(string_of(r, c, &name));
        ST_TRY(entry_of(r, c, &r->types, false, &type));
        ST_TRY(u32_of(r, c, &flags));
        ST_TRY(witness_of(r, c, &witness));
        ST_TRY(ref_of(r, c, r->n_blobs, !(flags & ST_STIRB_INPUT_PARAM), &blob));
        ST_TRY(flags & ST_STIRB_INPUT_PARAM
                   ? st_build_param(b, name, type, r->blobs[blob], &value, r->err)
                   : st_build_input(b, name, type, &value, r->err));
        st_build_set_witness(b, value, witness);
    }
    return STATOR_OK;
}

static stator_status read_writes(reader *r, cursor *c, stator_builder *b)
{
    uint32_t count = 0;
    ST_TRY(count_of(r, c, 8, &count));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t input = 0, value = 0;
        ST_TRY(u32_of(r, c, &input));
        ST_TRY(u32_of(r, c, &value));
        ST_TRY(st_build_write_back(b, input, value, r->err));
    }
    return STATOR_OK;
}

static stator_status read_outputs(reader *r, cursor *c, stator_builder *b)
{
    uint32_t count = 0;
    ST_TRY(count_of(r, c, 8, &count));
    for (uint32_t i = 0; i < count; i++) {
        const char *name = NULL;
        uint32_t value = 0;
        ST_TRY(string_of(r, c, &name));
        ST_TRY(u32_of(r, c, &value));
        ST_TRY(st_build_output(b, name, value, r->err));
    }
    return STATOR_OK;
}

static stator_status read_graph(reader *r, stator_builder *b)
{
    cursor *c = &r->sections[ST_STIRB_GRAPH];
    uint32_t name = 0, count = 0;
    ST_TRY(ref_of(r, c, r->n_strings, true, &name));
    b->graph->name = r->strings[name].id;
    ST_TRY(read_inputs(r, c, b));
    ST_TRY(count_of(r, c, 28, &count));
    for (uint32_t i = 0; i < count; i++) {
        ST_TRY(read_node(r, c, b));
    }
    ST_TRY(read_writes(r, c, b));
    return read_outputs(r, c, b);
}

static stator_status read_file(reader *r, stator_builder *b, uint64_t size)
{
    ST_TRY(read_head(r, size));
    ST_TRY(read_strings(r));
    ST_TRY(read_symbols(r));
    ST_TRY(read_pool(r, ST_STIRB_SYMS, 8, &r->syms, read_sym));
    ST_TRY(read_pool(r, ST_STIRB_TYPES, 8, &r->types, read_type));
    ST_TRY(read_pool(r, ST_STIRB_ORIGINS, 20, &r->origins, read_origin));
    ST_TRY(read_blobs(r));
    b->graph->has_witnesses = 1;
    ST_TRY(read_graph(r, b));
    return bytes_left(&r->sections[ST_STIRB_GRAPH]) == 0
               ? STATOR_OK
               : fail_at(r, &r->sections[ST_STIRB_GRAPH], "bytes are left after the graph");
}

/* The file that the bytes are from; blobs become ranges of it. */
static stator_status open_file(reader *r, const char *path, uint64_t size)
{
    if (path == NULL) {
        return STATOR_OK;
    }
    ST_TRY(st_file_open(r->m->mem, path, &r->file, r->err));
    return st_file_size(r->file) == size
               ? STATOR_OK
               : st_fail(r->err, STATOR_FAILED_PRECONDITION,
                         "'%s' changed while it was read: it has %llu bytes, had %llu", path,
                         (unsigned long long)st_file_size(r->file), (unsigned long long)size);
}

stator_status st_parse_binary(stator_builder *b, const void *bytes, uint64_t size, const char *path,
                              stator_diag **err)
{
    reader r = {.m = b->module, .bytes = bytes, .err = err};
    st_arena_init(&r.arena, r.m->mem);
    st_rebuild_init(&r.rebuild, r.m);
    st_map_init(&r.symbols, r.m->mem);
    stator_status status = open_file(&r, path, size);
    ST_THEN(status, read_file(&r, b, size));
    for (uint32_t i = 1; i <= r.n_blobs; i++) {
        st_blob_release(r.blobs[i]);
    }
    st_file_release(r.file);
    st_map_deinit(&r.symbols);
    st_rebuild_deinit(&r.rebuild);
    st_arena_deinit(&r.arena);
    return status;
}
