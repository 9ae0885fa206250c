/* Writes a graph in the binary form (docs/stirb.md).
 *
 * In: a finished graph. Out: the file's bytes. The graph is written once, into a section buffer;
 * each string, size, type, origin and blob gets its entry the first time it is met, after the
 * entries it refers to, so that entries refer backwards only. */
#include "ir/binary.h"

#include "core/base/blob.h"
#include "core/base/vec.h"
#include "ir/binary_format.h"
#include "ir/text/text.h"
#include "ir/text/text_sym.h"

#include <string.h>

typedef struct section {
    st_str bytes;
    st_map entries; /* ref in the module -> entry */
    uint32_t count;
} section;

typedef struct writer {
    const st_module *m;
    const stator_graph_view *v; /* the graph being written; its pools are the module's */
    section sections[ST_STIRB_SECTIONS];
    st_map symbols;              /* symbol number + 1 -> atom */
    st_vec(stator_blob *) blobs; /* contents of DATA, in order */
    uint64_t data_bytes;
    uint32_t failed;
    stator_diag **err;
} writer;

static stator_status write_graph(writer *w, const stator_graph *graph);

/* ---- numbers ---- */

static void put_u32(st_str *s, uint32_t value)
{
    const unsigned char bytes[4] = {(unsigned char)value, (unsigned char)(value >> 8),
                                    (unsigned char)(value >> 16), (unsigned char)(value >> 24)};
    st_str_addn(s, (const char *)bytes, sizeof bytes);
}

static void put_u64(st_str *s, uint64_t value)
{
    put_u32(s, (uint32_t)value);
    put_u32(s, (uint32_t)(value >> 32));
}

static void put_i64(st_str *s, int64_t value)
{
    put_u64(s, (uint64_t)value);
}

static void put_f64(st_str *s, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put_u64(s, bits);
}

static st_str *bytes_of(writer *w, uint32_t id)
{
    return &w->sections[id].bytes;
}

/* The entry of a ref, 0 when it has none yet. */
static uint32_t entry_of(const writer *w, uint32_t id, uint32_t ref)
{
    return st_map_get(&w->sections[id].entries, ref);
}

static uint32_t new_entry(writer *w, uint32_t id, uint32_t ref)
{
    section *s = &w->sections[id];
    s->count++;
    w->failed |= !st_map_put(&s->entries, ref, s->count);
    return s->count;
}

/* ---- pools ---- */

static uint32_t string_entry(writer *w, uint32_t string)
{
    const uint32_t known = string ? entry_of(w, ST_STIRB_STRINGS, string) : 0;
    if (string == 0 || known) {
        return known;
    }
    const stator_string_row *row = stator_column_at(&w->v->strings, string);
    put_u32(bytes_of(w, ST_STIRB_STRINGS), row->len);
    st_str_addn(bytes_of(w, ST_STIRB_STRINGS), row->data, row->len);
    return new_entry(w, ST_STIRB_STRINGS, string);
}

/* A string that need not be in the module's pool (op and attribute names). It shares the keys of
 * the pool when the pool has it, and its address otherwise: such texts live as long as the table.
 */
static uint32_t text_entry(writer *w, const char *text)
{
    st_map *entries = &w->sections[ST_STIRB_STRINGS].entries;
    const uint64_t key = (uint64_t)(uintptr_t)text | UINT64_C(1) << 63;
    const uint32_t known = st_map_get(entries, key);
    if (known || *text == '\0') {
        return known;
    }
    put_u32(bytes_of(w, ST_STIRB_STRINGS), (uint32_t)strlen(text));
    st_str_add(bytes_of(w, ST_STIRB_STRINGS), text);
    w->failed |= !st_map_put(entries, key, ++w->sections[ST_STIRB_STRINGS].count);
    return w->sections[ST_STIRB_STRINGS].count;
}

static uint32_t sym_entry(writer *w, uint32_t sym);

/* An atom is an entry of SYMS too; its key is its number with the top bit set. */
static uint32_t atom_entry(writer *w, uint32_t atom)
{
    const uint32_t key = atom | UINT32_C(1) << 31;
    const uint32_t known = entry_of(w, ST_STIRB_SYMS, key);
    if (known) {
        return known;
    }
    const stator_atom_row *row = stator_atom_at(w->v, atom);
    if (row->kind == STATOR_ATOM_SYMBOL) {
        w->failed |= !st_map_put(&w->symbols, (uint64_t)row->index + 1u, atom);
        put_u32(bytes_of(w, ST_STIRB_SYMS), ST_STIRB_SYM_SYMBOL);
        put_u32(bytes_of(w, ST_STIRB_SYMS), row->index);
        return new_entry(w, ST_STIRB_SYMS, key);
    }
    const uint32_t a = sym_entry(w, row->a), b = sym_entry(w, row->b);
    put_u32(bytes_of(w, ST_STIRB_SYMS), row->kind);
    put_u32(bytes_of(w, ST_STIRB_SYMS), a);
    put_u32(bytes_of(w, ST_STIRB_SYMS), b);
    return new_entry(w, ST_STIRB_SYMS, key);
}

static uint32_t sym_entry(writer *w, uint32_t sym)
{
    const uint32_t known = entry_of(w, ST_STIRB_SYMS, sym);
    if (known) {
        return known;
    }
    const stator_sym_row *row = stator_sym_at(w->v, sym);
    st_str *out = bytes_of(w, ST_STIRB_SYMS);
    for (uint32_t k = 0; k < row->term_count; k++) {
        const stator_term_row *term = stator_term_at(w->v, row, k);
        (void)atom_entry(w, term->atom);
    }
    put_u32(out, ST_STIRB_SYM_SUM);
    put_i64(out, row->constant);
    put_u32(out, row->term_count);
    for (uint32_t k = 0; k < row->term_count; k++) {
        const stator_term_row *term = stator_term_at(w->v, row, k);
        put_i64(out, term->coef);
        put_u32(out, atom_entry(w, term->atom));
    }
    return new_entry(w, ST_STIRB_SYMS, sym);
}

static uint32_t type_entry(writer *w, uint32_t type)
{
    const uint32_t known = entry_of(w, ST_STIRB_TYPES, type);
    if (known) {
        return known;
    }
    const stator_type_row *row = stator_type_at(w->v, type);
    st_str *out = bytes_of(w, ST_STIRB_TYPES);
    put_u32(out, row->dtype);
    put_u32(out, row->rank);
    for (uint32_t i = 0; i < row->rank; i++) {
        put_u32(out, sym_entry(w, stator_dim_at(w->v, row, i)));
    }
    return new_entry(w, ST_STIRB_TYPES, type);
}

/* Rows of a chain are written from its end. */
static uint32_t origin_entry(writer *w, uint32_t origin)
{
    st_str *out = bytes_of(w, ST_STIRB_ORIGINS);
    while (origin && entry_of(w, ST_STIRB_ORIGINS, origin) == 0) {
        uint32_t last = origin, next = 0;
        for (;;) {
            next = stator_origin_at(w->v, last)->next;
            if (next == 0 || entry_of(w, ST_STIRB_ORIGINS, next)) {
                break;
            }
            last = next;
        }
        const stator_origin_row *row = stator_origin_at(w->v, last);
        put_u32(out, string_entry(w, row->name));
        put_u32(out, string_entry(w, row->kind));
        put_u32(out, string_entry(w, row->file));
        put_u32(out, row->line);
        put_u32(out, next ? entry_of(w, ST_STIRB_ORIGINS, next) : 0);
        (void)new_entry(w, ST_STIRB_ORIGINS, last);
        if (w->failed) {
            return 0;
        }
    }
    return origin ? entry_of(w, ST_STIRB_ORIGINS, origin) : 0;
}

static uint64_t align_up(uint64_t n, uint64_t align)
{
    return (n + align - 1u) / align * align;
}

static void put_blob(writer *w, uint32_t kind, uint64_t offset, uint64_t size,
                     const uint8_t hash[16])
{
    st_str *out = bytes_of(w, ST_STIRB_BLOBS);
    put_u32(out, kind);
    put_u64(out, offset);
    put_u64(out, size);
    st_str_addn(out, (const char *)hash, 16);
}

static stator_status blob_entry(writer *w, uint32_t blob, uint32_t *out)
{
    static const uint8_t no_hash[16] = {0};
    stator_blob *object = blob ? st_module_blob_at(w->m, blob) : NULL;
    const void *data = NULL;
    stator_diag *reason = NULL;
    *out = blob ? entry_of(w, ST_STIRB_BLOBS, blob) : 0;
    if (blob == 0 || *out) {
        return STATOR_OK;
    }
    const uint64_t size = st_blob_size(object);
    const stator_status status = st_blob_get(object, &data, &reason);
    if (status == STATOR_FAILED_PRECONDITION && st_blob_file(object, NULL) == NULL) {
        uint8_t hash[16]; /* known by its hash only */
        st_diag_release(reason);
        ST_TRY(st_blob_hash(object, hash, w->err));
        put_blob(w, ST_STIRB_BLOB_HASH, 0, size, hash);
        *out = new_entry(w, ST_STIRB_BLOBS, blob);
        return STATOR_OK;
    }
    if (status != STATOR_OK) {
        st_fail(w->err, status, "%s", st_diag_text(reason));
        st_diag_release(reason);
        return status;
    }
    stator_blob **slot = st_vec_push(w->m->mem, &w->blobs);
    ST_TRY_MEM(slot, w->err);
    *slot = object;
    put_blob(w, ST_STIRB_BLOB_DATA, w->data_bytes, size, no_hash);
    w->data_bytes = align_up(w->data_bytes + size, ST_STIRB_DATA_ALIGN);
    *out = new_entry(w, ST_STIRB_BLOBS, blob);
    return STATOR_OK;
}

/* ---- nodes ---- */

static void write_list(writer *w, const stator_attr_row *row)
{
    st_str *out = bytes_of(w, ST_STIRB_GRAPH);
    put_u32(out, row->count);
    for (uint32_t i = 0; i < row->count; i++) {
        const uint32_t at = row->begin + i;
        if (row->kind == STATOR_ATTR_INTS) {
            put_i64(out, *(const int64_t *)stator_column_at(&w->v->i64s, at));
        } else if (row->kind == STATOR_ATTR_FLOATS) {
            put_f64(out, *(const double *)stator_column_at(&w->v->f64s, at));
        } else {
            put_u32(out, sym_entry(w, stator_ref_at(w->v, at)));
        }
    }
}

static stator_status write_attr(writer *w, const char *name, const stator_attr_row *row)
{
    st_str *out = bytes_of(w, ST_STIRB_GRAPH);
    uint32_t blob = 0;
    put_u32(out, text_entry(w, name));
    put_u32(out, row->kind);
    switch (row->kind) {
    case STATOR_ATTR_INT:
        put_i64(out, row->i);
        break;
    case STATOR_ATTR_FLOAT:
        put_f64(out, row->f);
        break;
    case STATOR_ATTR_STRING:
        put_u32(out, string_entry(w, row->begin));
        break;
    case STATOR_ATTR_DTYPE:
        put_u32(out, (uint32_t)row->i);
        break;
    case STATOR_ATTR_BLOB:
        ST_TRY(blob_entry(w, row->begin, &blob));
        put_u32(out, type_entry(w, (uint32_t)row->i));
        put_u32(out, blob);
        break;
    default:
        write_list(w, row);
    }
    return STATOR_OK;
}

static stator_status write_attrs(writer *w, const stator_node_row *node)
{
    const stator_op_desc *op = stator_op_at(w->v, node->op);
    uint32_t count = 0;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t k = 0; k < node->attr_count && k < op->attr_count; k++) {
            const stator_attr_row *row = stator_attr_at(w->v, node, k);
            if (st_attr_is_default(w->v, &op->attrs[k], row)) {
                continue;
            }
            count += pass == 0;
            if (pass == 1) {
                ST_TRY(write_attr(w, op->attrs[k].name, row));
            }
        }
        if (pass == 0) {
            put_u32(bytes_of(w, ST_STIRB_GRAPH), count);
        }
    }
    return STATOR_OK;
}

static stator_status write_regions(writer *w, const stator_node_row *node)
{
    const stator_graph_view *outer = w->v;
    put_u32(bytes_of(w, ST_STIRB_GRAPH), node->region_count);
    for (uint32_t k = 0; k < node->region_count; k++) {
        ST_TRY(write_graph(w, stator_region_at(outer, node, k)));
        w->v = outer;
    }
    return STATOR_OK;
}

static stator_status write_node(writer *w, const stator_node_row *node)
{
    const stator_op_desc *op = stator_op_at(w->v, node->op);
    st_str *out = bytes_of(w, ST_STIRB_GRAPH);
    put_u32(out, text_entry(w, op->name));
    put_u32(out, op->version);
    put_u32(out, origin_entry(w, node->origin));
    put_u32(out, node->operand_count);
    for (uint32_t k = 0; k < node->operand_count; k++) {
        put_u32(out, stator_operand(w->v, node, k));
    }
    ST_TRY(write_attrs(w, node));
    ST_TRY(write_regions(w, node));
    put_u32(out, node->result_count);
    for (uint32_t k = 0; k < node->result_count; k++) {
        const stator_value_row *row = stator_value_at(w->v, node->result_begin + k);
        put_u32(out, type_entry(w, row->type));
        put_u32(out, string_entry(w, row->name));
        put_u32(out, row->witness);
    }
    return STATOR_OK;
}

/* ---- graphs ---- */

static stator_status write_inputs(writer *w)
{
    st_str *out = bytes_of(w, ST_STIRB_GRAPH);
    put_u32(out, w->v->n_inputs);
    for (uint32_t i = 1; i <= w->v->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(w->v, i);
        uint32_t blob = 0;
        ST_TRY(blob_entry(w, row->blob, &blob));
        put_u32(out, string_entry(w, row->name));
        put_u32(out, type_entry(w, row->type));
        put_u32(out, row->flags & STATOR_VALUE_PARAM ? ST_STIRB_INPUT_PARAM : 0);
        put_u32(out, row->witness);
        put_u32(out, blob);
    }
    return STATOR_OK;
}

static void write_results(writer *w)
{
    st_str *out = bytes_of(w, ST_STIRB_GRAPH);
    put_u32(out, w->v->n_write_backs);
    for (uint32_t i = 0; i < w->v->n_write_backs; i++) {
        const stator_write_back_row *row = stator_write_back_at(w->v, i);
        put_u32(out, row->input);
        put_u32(out, row->value);
    }
    put_u32(out, w->v->n_outputs);
    for (uint32_t i = 0; i < w->v->n_outputs; i++) {
        put_u32(out, string_entry(w, stator_ref_at(w->v, w->v->output_name_begin + i)));
        put_u32(out, stator_output_at(w->v, i));
    }
}

static stator_status write_graph(writer *w, const stator_graph *graph)
{
    w->v = st_graph_view(graph);
    put_u32(bytes_of(w, ST_STIRB_GRAPH), string_entry(w, w->v->name));
    ST_TRY(write_inputs(w));
    put_u32(bytes_of(w, ST_STIRB_GRAPH), w->v->n_nodes);
    for (uint32_t i = 1; i <= w->v->n_nodes; i++) {
        ST_TRY(write_node(w, stator_node_at(w->v, i)));
    }
    write_results(w);
    return STATOR_OK;
}

/* ---- the file ---- */

/* A symbol without a name gets the one that the text form gives it. */
static uint32_t symbol_name(writer *w, const stator_atom_row *row)
{
    const st_sym_printer names = {.m = w->m};
    char name[24];
    if (row->name != 0) {
        return string_entry(w, row->name);
    }
    st_text_symbol_name(&names, row, name);
    put_u32(bytes_of(w, ST_STIRB_STRINGS), (uint32_t)strlen(name));
    st_str_add(bytes_of(w, ST_STIRB_STRINGS), name);
    return ++w->sections[ST_STIRB_STRINGS].count;
}

static void write_symbols(writer *w)
{
    st_str *out = bytes_of(w, ST_STIRB_SYMBOLS);
    for (uint32_t i = 0; i < w->m->symtab.n_symbols; i++) {
        const uint32_t atom = st_map_get(&w->symbols, (uint64_t)i + 1u);
        if (atom == 0) {
            continue;
        }
        const stator_atom_row *row = stator_atom_at(w->v, atom);
        put_u32(out, row->index);
        put_u32(out, symbol_name(w, row));
        put_u32(out, row->flags);
        put_i64(out, row->lo);
        put_i64(out, row->hi);
        put_i64(out, row->divisor);
        put_i64(out, row->hint);
        w->sections[ST_STIRB_SYMBOLS].count++;
    }
}

static void pad_to(st_str *out, uint64_t begin, uint64_t align)
{
    static const char zeros[ST_STIRB_DATA_ALIGN] = {0};
    const uint64_t len = out->len - begin;
    st_str_addn(out, zeros, align_up(len, align) - len);
}

/* Bytes of a section with its count; DATA has none. */
static uint64_t section_bytes(const writer *w, uint32_t id)
{
    if (id == ST_STIRB_DATA) {
        return w->data_bytes;
    }
    return w->sections[id].bytes.len + (id == ST_STIRB_GRAPH ? 0u : 4u);
}

static void write_head(writer *w, st_str *out)
{
    const uint32_t count = ST_STIRB_SECTIONS - 1u;
    uint64_t offset = align_up(ST_STIRB_HEAD_BYTES + count * ST_STIRB_ROW_BYTES, 8);
    uint64_t size = offset;
    for (uint32_t id = 1; id <= count; id++) {
        size = align_up(size, id == ST_STIRB_DATA ? ST_STIRB_DATA_ALIGN : 8u);
        size += section_bytes(w, id);
    }
    st_str_addn(out, ST_STIRB_MAGIC, 8);
    put_u32(out, ST_STIRB_VERSION);
    put_u32(out, count);
    put_u64(out, size);
    put_u64(out, 0);
    for (uint32_t id = 1; id <= count; id++) {
        offset = align_up(offset, id == ST_STIRB_DATA ? ST_STIRB_DATA_ALIGN : 8u);
        put_u32(out, id);
        put_u32(out, 0);
        put_u64(out, offset);
        put_u64(out, section_bytes(w, id));
        offset += section_bytes(w, id);
    }
}

static stator_status write_data(writer *w, st_str *out)
{
    const uint64_t begin = out->len;
    for (uint32_t i = 0; i < w->blobs.count; i++) {
        const void *data = NULL;
        ST_TRY(st_blob_get(w->blobs.data[i], &data, w->err));
        st_str_addn(out, data, st_blob_size(w->blobs.data[i]));
        pad_to(out, begin, ST_STIRB_DATA_ALIGN);
    }
    return STATOR_OK;
}

static stator_status write_file(writer *w, st_str *out)
{
    const uint64_t begin = out->len;
    write_symbols(w);
    write_head(w, out);
    for (uint32_t id = 1; id < ST_STIRB_DATA; id++) {
        pad_to(out, begin, 8);
        if (id != ST_STIRB_GRAPH) {
            put_u32(out, w->sections[id].count);
        }
        st_str_addn(out, w->sections[id].bytes.data, w->sections[id].bytes.len);
        w->failed |= !st_str_ok(&w->sections[id].bytes);
    }
    pad_to(out, begin, ST_STIRB_DATA_ALIGN);
    ST_TRY(write_data(w, out));
    return w->failed || !st_str_ok(out) ? st_fail_oom(w->err) : STATOR_OK;
}

static void add_symbols(writer *w)
{
    const st_seg *atoms = &w->m->symtab.atoms;
    for (uint32_t atom = 1; atom < atoms->count; atom++) {
        const stator_atom_row *row = st_seg_at(atoms, atom);
        if (row->kind == STATOR_ATOM_SYMBOL) {
            w->failed |= !st_map_put(&w->symbols, (uint64_t)row->index + 1u, atom);
        }
    }
}

static stator_status write_binary(const stator_graph *graph, bool has_all_symbols, st_str *out,
                                  stator_diag **err)
{
    st_mem *mem = graph->module->mem;
    writer w = {.m = graph->module, .err = err};
    st_map_init(&w.symbols, mem);
    for (uint32_t id = 0; id < ST_STIRB_SECTIONS; id++) {
        st_str_init(&w.sections[id].bytes, mem);
        st_map_init(&w.sections[id].entries, mem);
    }
    stator_status status = write_graph(&w, graph);
    if (has_all_symbols) {
        add_symbols(&w);
    }
    ST_THEN(status, write_file(&w, out));
    for (uint32_t id = 0; id < ST_STIRB_SECTIONS; id++) {
        st_str_deinit(&w.sections[id].bytes);
        st_map_deinit(&w.sections[id].entries);
    }
    st_map_deinit(&w.symbols);
    st_vec_free(mem, &w.blobs);
    return status;
}

stator_status st_write_binary(const stator_graph *graph, st_str *out, stator_diag **err)
{
    return write_binary(graph, false, out, err);
}

stator_status st_write_binary_symbols(const stator_graph *graph, st_str *out, stator_diag **err)
{
    return write_binary(graph, true, out, err);
}
