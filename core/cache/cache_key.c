/* The key of a compile: all that what is made depends on, in words.
 *
 * A line is "field: value". The graph counts by its structure before any pass, with the ranges of
 * its symbols, the contents of every constant, and the names that messages show; around it count
 * who compiles (builds of the host, the backends, passes and op libraries), with which options, for
 * which machine and how many threads, and the state of the floating point unit, which folding
 * obeys. */
#define _GNU_SOURCE
#include "core/cache/cache.h"

#include "core/base/map.h"
#include "core/context/item_options.h"
#include "core/plugins/elf_reader.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

#define NEAREST_OF 64u /* entries that an explanation looks at */

/* ---- builds ---- */

typedef struct own_build {
    const void *address; /* a function of libstator, by which its object is found */
    char id[64];
} own_build;

static void note_build(own_build *own, const struct dl_phdr_info *info)
{
    for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        const uint8_t *note = NULL;
        const uint8_t *id = NULL;
        uint64_t note_len = 0;
        uint64_t len = 0;
        if (h->p_type != PT_NOTE) {
            continue;
        }
        const uint8_t *bytes = (const uint8_t *)(uintptr_t)(info->dlpi_addr + h->p_vaddr);
        if (st_elf_scan_notes(bytes, h->p_memsz, h->p_align, &note, &note_len, &id, &len) >= 0 &&
            id != NULL) {
            for (uint64_t k = 0; k < len && 2u * k + 3u <= sizeof own->id; k++) {
                (void)snprintf(own->id + 2u * k, 3, "%02x", id[k]);
            }
        }
    }
}

/* Is it the object that holds our function? */
static int visit_object(struct dl_phdr_info *info, size_t size, void *self)
{
    own_build *own = self;
    const uintptr_t at = (uintptr_t)own->address;
    (void)size;
    for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        const uintptr_t begin = (uintptr_t)(info->dlpi_addr + h->p_vaddr);
        if (h->p_type == PT_LOAD && at >= begin && at - begin < h->p_memsz) {
            note_build(own, info);
            return 1;
        }
    }
    return 0;
}

/* "stator 0.1.0 <build id>"; 0: this build has none. */
static bool put_host(st_str *out)
{
    own_build own = {.address = (const void *)(uintptr_t)&st_cache_make_key};
    (void)dl_iterate_phdr(visit_object, &own);
    st_str_addf(out, "host: %s %s\n", stator_version(), own.id);
    return own.id[0] != '\0';
}

static bool put_loaded(st_str *out, const char *field, const st_loaded *loaded)
{
    const char *id = loaded->build_id;
    st_str_addf(out, "%s: %s %s %s\n", field, loaded->desc->name,
                loaded->version != NULL ? loaded->version : "", id != NULL ? id : "");
    return id != NULL;
}

typedef struct builds {
    st_str *out;
    stator_ctx *ctx;
    const stator_options *given; /* to the compile, those of passes among them */
    bool is_whole;               /* each has a build id */
} builds;

static stator_status put_oplib(void *self, const st_loaded *loaded)
{
    builds *b = self;
    char field[96];
    (void)snprintf(field, sizeof field, "ops %.80s", loaded->desc->name);
    b->is_whole = put_loaded(b->out, field, loaded) && b->is_whole;
    return STATOR_OK;
}

/* "key=value\n" lines as words of one line. */
static void put_values(st_str *out, const stator_options *options)
{
    const uint64_t begin = out->len;
    st_options_code_key(options, out);
    for (uint64_t i = begin; st_str_ok(out) && i < out->len; i++) {
        out->data[i] = out->data[i] == '\n' ? ' ' : out->data[i];
    }
}

/* "(key=value )": behind the pass that receives them. */
static stator_status put_pass_options(const builds *b, const st_loaded *pass)
{
    stator_options *options = NULL;
    if (pass->desc->option_count == 0) {
        return STATOR_OK;
    }
    ST_TRY(st_pass_options(b->ctx, pass->desc, b->given, &options, NULL));
    st_str_add(b->out, "(");
    put_values(b->out, options);
    st_str_add(b->out, ")");
    st_options_destroy(options);
    return STATOR_OK;
}

static stator_status put_stage(void *self, const char *stage)
{
    builds *b = self;
    const st_loaded *loaded = NULL;
    if (st_pass_find(stage) != NULL) {
        st_str_addf(b->out, " %s", stage);
        return STATOR_OK;
    }
    ST_TRY(st_registry_get(b->ctx->registry, STATOR_KIND_PASS, stage, &loaded, NULL));
    st_str_addf(b->out, " %s@%s", stage, loaded->build_id != NULL ? loaded->build_id : "");
    b->is_whole = loaded->build_id != NULL && b->is_whole;
    return put_pass_options(b, loaded);
}

static bool put_builds(st_cache_job *job)
{
    const st_compile_request *request = job->request;
    stator_instance *main = request->main;
    builds b = {.out = &job->key, .ctx = request->ctx, .given = request->options, .is_whole = true};
    b.is_whole = put_host(&job->key);
    b.is_whole = put_loaded(&job->key, "backend", main->loaded) && b.is_whole;
    if (request->evaluator != NULL) {
        b.is_whole = put_loaded(&job->key, "reference", request->evaluator->loaded) && b.is_whole;
    }
    for (uint32_t i = 0; i < request->n_fallbacks; i++) {
        b.is_whole =
            put_loaded(&job->key, "node fallback", request->fallbacks[i]->loaded) && b.is_whole;
    }
    if (st_registry_each(request->ctx->registry, STATOR_KIND_OPLIB, put_oplib, &b, NULL) !=
        STATOR_OK) {
        return false;
    }
    st_str_add(&job->key, "stages:");
    if (st_pipeline_stages(request->ctx, main->loaded, main->options, put_stage, &b, NULL) !=
        STATOR_OK) {
        return false;
    }
    st_str_add(&job->key, "\n");
    return b.is_whole;
}

/* ---- settings ---- */

static void put_options(st_str *out, const char *field, const stator_options *options)
{
    st_str_addf(out, "%s: ", field);
    put_values(out, options);
    st_str_add(out, "\n");
}

static void put_settings(st_cache_job *job)
{
    const st_compile_request *request = job->request;
    stator_instance *main = request->main;
    put_options(&job->key, "options", main->options);
    if (request->evaluator != NULL) {
        put_options(&job->key, "reference options", request->evaluator->options);
    }
    st_str_addf(&job->key, "flags: %x\n", request->flags);
    for (uint32_t i = 0; i < request->n_fallbacks; i++) {
        put_options(&job->key, "node fallback options", request->fallbacks[i]->options);
    }
    st_str_addf(&job->key, "machine: %s\n", st_instance_compat_key(main));
    st_str_addf(&job->key, "threads: %d\n", request->ctx->threads);
    /* Rounding and flushing of subnormals, which constants that are folded obey. */
    st_str_addf(&job->key, "float: %x\n", st_fp_control());
}

/* ---- the graph ---- */

typedef struct graph_walk {
    st_str contents;
    st_str names;
} graph_walk;

static void put_blob(graph_walk *w, const stator_graph *graph, stator_ref blob)
{
    uint8_t hash[16];
    stator_blob *at = st_module_blob_at(graph->module, blob);
    const uint64_t size = st_blob_size(at);
    if (st_blob_hash(at, hash, NULL) != STATOR_OK) {
        w->contents.failed = 1;
        return;
    }
    st_str_addn(&w->contents, (const char *)&size, sizeof size);
    st_str_addn(&w->contents, (const char *)hash, sizeof hash);
}

static void put_name(graph_walk *w, const stator_graph_view *v, stator_ref name)
{
    const char *text = stator_string_at(v, name);
    st_str_addn(&w->names, text, strlen(text) + 1u);
}

/* Constants by contents, and what messages call inputs, outputs and nodes; regions as they come. */
static void walk_graph(graph_walk *w, const stator_graph *graph, uint32_t depth)
{
    const stator_graph_view *v = st_graph_view(graph);
    for (stator_ref i = 1; i <= v->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(v, i);
        put_name(w, v, row->name);
        if ((row->flags & STATOR_VALUE_PARAM) != 0) {
            put_blob(w, graph, row->blob);
        }
    }
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        const stator_origin_row *origin = stator_origin_at(v, row->origin);
        put_name(w, v, origin != NULL ? origin->name : 0);
        for (uint32_t k = 0; k < row->attr_count; k++) {
            const stator_attr_row *attr = stator_attr_at(v, row, k);
            if (attr->kind == STATOR_ATTR_BLOB) {
                put_blob(w, graph, attr->begin);
            }
        }
        for (uint32_t k = 0; k < row->region_count; k++) {
            if (depth == 0) {
                w->contents.failed = 1;
                return;
            }
            walk_graph(w, stator_region_at(v, row, k), depth - 1u);
        }
    }
    for (uint32_t k = 0; k < v->n_outputs; k++) {
        put_name(w, v, stator_ref_at(v, v->output_name_begin + k));
    }
}

static void put_hash(st_str *out, const char *field, const void *bytes, uint64_t n)
{
    char name[ST_CACHE_NAME_BYTES];
    st_cache_name(bytes, n, name);
    st_str_addf(out, "%s: %s\n", field, name);
}

/* Sizes of the call as classes, those below 16 and then each four times as large as the one before:
 * what is compiled is right for all sizes, and choices that were made for one of a class are good
 * ones for the others. */
static void put_hints(st_cache_job *job)
{
    const st_compile_request *request = job->request;
    st_str_add(&job->key, "hints:");
    for (uint32_t i = 0; i < request->n_hints; i++) {
        uint32_t class_ = 0;
        for (int64_t size = request->hints[i] / 16; size > 0; size /= 4) {
            class_++;
        }
        st_str_addf(&job->key, " %u", class_);
    }
    st_str_add(&job->key, "\n");
}

/* Every symbol by its place, with what is known of it. */
static void put_symbols(st_str *out, st_mem *mem, const st_module *m)
{
    st_str text;
    st_str_init(&text, mem);
    for (uint32_t atom = 1; atom < m->symtab.atoms.count; atom++) {
        const stator_atom_row *row = st_atom_at(&m->symtab, atom);
        if (row->kind == STATOR_ATOM_SYMBOL) {
            st_str_addf(&text, "%u %s %lld %lld %lld %u;", row->index,
                        row->name != 0 ? st_module_str(m, row->name) : "", (long long)row->lo,
                        (long long)row->hi, (long long)row->divisor, row->flags);
        }
    }
    out->failed |= text.failed;
    put_hash(out, "sizes", text.data, text.len);
    st_str_deinit(&text);
}

static bool put_graph(st_cache_job *job)
{
    const st_module *m = job->request->source;
    uint8_t hash[16];
    graph_walk w;
    ST_NEED(st_cache_hash_constants(job->store, m) && st_graph_hash(m->root, hash));
    put_hash(&job->key, "graph", hash, sizeof hash);
    put_symbols(&job->key, &job->request->ctx->mem, m);
    put_hints(job);
    st_str_init(&w.contents, &job->request->ctx->mem);
    st_str_init(&w.names, &job->request->ctx->mem);
    walk_graph(&w, m->root, 64);
    const bool is_ok = st_str_ok(&w.contents) && st_str_ok(&w.names);
    if (is_ok) {
        put_hash(&job->key, "constants", w.contents.data, w.contents.len);
        put_hash(&job->key, "names", w.names.data, w.names.len);
    }
    st_str_deinit(&w.contents);
    st_str_deinit(&w.names);
    return is_ok;
}

const char *st_cache_make_key(st_cache_job *job)
{
    const st_compile_request *request = job->request;
    if (request->main->backend->exe_serialize == NULL) {
        return "the backend's executables cannot be kept";
    }
    if ((request->flags & STATOR_COMPILE_VERIFY_EACH) != 0) {
        return "each pass is to be verified";
    }
    if (request->fuel->mode != ST_FUEL_UNLIMITED || request->fuel->is_recording ||
        request->fuel->watch != NULL) {
        return "fuel is limited or watched";
    }
    st_str_addf(&job->key, "format: %u\n", ST_CACHE_PROGRAM_FORMAT);
    if (!put_builds(job)) {
        return "something that takes part has no build id";
    }
    put_settings(job);
    if (!put_graph(job) || !st_str_ok(&job->key)) {
        return "the graph cannot be read whole";
    }
    st_cache_name(job->key.data, job->key.len, job->name);
    return NULL;
}

/* ---- why there is no entry ---- */

typedef struct nearest {
    st_cache_job *job;
    st_str best;
    uint32_t best_differ;
    uint32_t n;
} nearest;

/* Length of the line at `at`. */
static size_t line_of(const char *at)
{
    return strcspn(at, "\n");
}

/* The line of the same field in another key, NULL: it has none. */
static const char *same_field(const char *key, const char *line)
{
    const size_t n = strcspn(line, ":\n") + 1u;
    for (const char *at = key; *at != '\0'; at += line_of(at) + (at[line_of(at)] == '\n')) {
        if (strncmp(at, line, n) == 0) {
            return at;
        }
    }
    return NULL;
}

/* How many lines of `key` the other has not; appends them as far as out is there. */
static uint32_t differ(const char *key, const char *other, st_str *out)
{
    uint32_t n = 0;
    for (const char *at = key; *at != '\0'; at += line_of(at) + (at[line_of(at)] == '\n')) {
        const char *was = same_field(other, at);
        const size_t len = line_of(at);
        if (was != NULL && line_of(was) == len && strncmp(was, at, len) == 0) {
            continue;
        }
        if (out != NULL) {
            st_str_addf(out, "%s%.*s", n != 0 ? "; " : "", (int)len, at);
            if (was != NULL) {
                const size_t skip = strcspn(was, ":\n") + 1u;
                st_str_addf(out, " (was%.*s)", (int)(line_of(was) - skip), was + skip);
            }
        }
        n++;
    }
    return n;
}

static bool consider(void *self, const st_cache_entry *entry)
{
    nearest *near = self;
    st_str key;
    if (entry->kind != ST_CACHE_CODE) {
        return true;
    }
    st_str_init(&key, near->best.mem);
    if (st_cache_read_key(near->job->store, ST_CACHE_CODE, entry->name, &key)) {
        const uint32_t n = differ(near->job->key.data, key.data, NULL);
        if (near->best.data == NULL || n < near->best_differ) {
            const st_str before = near->best;
            near->best = key;
            near->best_differ = n;
            key = before;
        }
    }
    st_str_deinit(&key);
    return ++near->n < NEAREST_OF;
}

void st_cache_explain(st_cache_job *job, st_str *out)
{
    nearest near = {.job = job};
    st_str_init(&near.best, &job->request->ctx->mem);
    if (!st_cache_each(job->store, consider, &near) || near.best.data == NULL) {
        st_str_add(out, "there is no entry to compare with");
    } else if (near.best_differ == 0) {
        st_str_add(out, "an entry of this key is there, but it could not be used");
    } else {
        st_str_add(out, "the nearest entry differs in ");
        (void)differ(job->key.data, near.best.data, out);
    }
    st_str_deinit(&near.best);
}
