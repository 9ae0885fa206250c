/* A compiled graph as bytes: the constants it refers to, symbols, guard, coverage, the programs
 * with the executables of their steps. cache_load.c reads what this file writes, in the same order.
 */
#include "core/cache/cache.h"

#include "core/base/bytes.h"
#include "ir/binary.h"

#include <stdio.h>
#include <string.h>

void st_cache_constant_key(const uint8_t hash[16], char out_key[64],
                           char out_name[ST_CACHE_NAME_BYTES])
{
    uint64_t halves[2];
    memcpy(halves, hash, sizeof halves);
    (void)snprintf(out_key, 64, "constant: %016llx%016llx", (unsigned long long)halves[0],
                   (unsigned long long)halves[1]);
    st_cache_name(out_key, strlen(out_key), out_name);
}

/* ---- programs ---- */

typedef struct saving {
    st_cache_job *job;
    const st_compiled *compiled;
    st_str *out;
} saving;

static void put_list(st_str *out, const uint32_t *list, uint32_t n)
{
    st_put_block(out, list, (uint64_t)n * sizeof *list);
}

static stator_status put_slot(saving *s, const st_program *p, const st_slot *slot,
                              stator_diag **err)
{
    uint32_t id = 0;
    st_put_u32(s->out, slot->dtype);
    st_put_u32(s->out, slot->rank);
    st_put_u32(s->out, slot->is_static);
    st_put_u32(s->out, (uint32_t)(slot->output + 1));
    st_put_u64(s->out, slot->size_bytes);
    st_put_text(s->out, slot->op);
    st_put_text(s->out, slot->name);
    for (uint32_t axis = 0; axis < slot->rank; axis++) {
        const uint32_t dim = slot->dim_begin + axis;
        st_symprog_put(&p->dims[dim], s->out);
        st_put_u32(s->out, (uint32_t)(p->bound_symbol[dim] + 1));
    }
    st_put_u32(s->out, slot->data != NULL);
    if (slot->data != NULL) {
        ST_TRY(st_cache_api.put_constant(s->job->request->ctx, slot->blob, &id, err));
        st_put_u32(s->out, id);
    }
    return STATOR_OK;
}

static uint32_t fallback_number(const st_compile_request *request, const stator_instance *instance)
{
    uint32_t i = 0;
    while (i < request->n_fallbacks && request->fallbacks[i] != instance) {
        i++;
    }
    return i;
}

static stator_status put_graph(saving *s, const st_step *step, stator_diag **err)
{
    st_str bytes;
    st_str_init(&bytes, &s->job->request->ctx->mem);
    const stator_status status = st_write_binary_symbols(step->graph, &bytes, err);
    if (status == STATOR_OK) {
        st_put_u32(s->out, ST_CACHED_GRAPH);
        st_put_u32(s->out, fallback_number(s->job->request, step->self));
        st_put_block(s->out, bytes.data, bytes.len);
    }
    st_str_deinit(&bytes);
    return status;
}

static stator_status put_part(saving *s, const st_step *step, stator_diag **err)
{
    stator_instance *instance = step->self;
    stator_blob *blob = NULL;
    const void *data = NULL;
    if (instance != s->job->request->main) {
        return put_graph(s, step, err);
    }
    st_put_u32(s->out, ST_CACHED_EXECUTABLE);
    ST_TRY(st_instance_serialize(instance, step->exe, &blob, err));
    const stator_status status = st_blob_get(blob, &data, err);
    if (status == STATOR_OK) {
        st_put_block(s->out, data, st_blob_size(blob));
    }
    st_blob_release(blob);
    return status;
}

/* Places of bodies grow inwards, so that the reader, which begins at the last, has planned what a
 * program needs. */
static stator_status put_control(saving *s, const st_step *step, uint32_t own, stator_diag **err)
{
    const st_control *c = step->control;
    st_put_text(s->out, step->name);
    st_put_u32(s->out, c->n_bodies);
    for (uint32_t k = 0; k < c->n_bodies; k++) {
        uint32_t place = 0;
        while (place < s->compiled->n_bodies && s->compiled->bodies[place] != c->bodies[k]) {
            place++;
        }
        ST_FAIL_IF(place + 1u <= own, err, STATOR_UNSUPPORTED,
                   "a body of control flow is used twice");
        st_put_u32(s->out, place);
    }
    st_put_u32(s->out, c->n_carried);
    st_put_u32(s->out, c->n_scanned);
    st_put_u32(s->out, c->n_stacked);
    if (step->kind == ST_STEP_SCAN) {
        put_list(s->out, c->scanned_axes, c->n_scanned);
        put_list(s->out, c->scanned_reverse, c->n_scanned);
        put_list(s->out, c->stacked_axes, c->n_stacked);
        put_list(s->out, c->stacked_reverse, c->n_stacked);
    }
    return STATOR_OK;
}

/* The inputs of a step before copies between devices were put in front of it. */
static void put_sources(st_str *out, const st_program *p, const st_step *step)
{
    st_put_u64(out, (uint64_t)step->n_in * sizeof *step->in);
    for (uint32_t k = 0; k < step->n_in; k++) {
        st_put_u32(out, st_program_source(p, step->in[k]));
    }
}

static stator_status put_step(saving *s, const st_program *p, const st_step *step, uint32_t own,
                              stator_diag **err)
{
    st_put_u32(s->out, step->kind);
    put_sources(s->out, p, step);
    put_list(s->out, step->out, step->n_out);
    return step->kind == ST_STEP_RUN ? put_part(s, step, err) : put_control(s, step, own, err);
}

/* own: 1 + the place among the bodies, 0 the root. */
static stator_status put_program(saving *s, const st_program *p, uint32_t own, stator_diag **err)
{
    st_put_u32(s->out, p->n_syms);
    st_put_u32(s->out, p->n_in);
    st_put_u32(s->out, p->n_own_slots);
    for (uint32_t i = 0; i < p->n_own_slots; i++) {
        ST_TRY(put_slot(s, p, &p->slots[i], err));
    }
    put_list(s->out, p->outputs, p->n_outputs);
    st_put_u32(s->out, p->n_write_backs);
    for (uint32_t k = 0; k < p->n_write_backs; k++) {
        st_put_u32(s->out, p->write_backs[k].input);
        st_put_u32(s->out, p->write_backs[k].slot);
    }
    uint32_t n_steps = 0; /* copies are planned anew when it is read */
    for (uint32_t i = 0; i < p->n_steps; i++) {
        n_steps += p->steps[i].kind != ST_STEP_COPY;
    }
    st_put_u32(s->out, n_steps);
    for (uint32_t i = 0; i < p->n_steps; i++) {
        if (p->steps[i].kind != ST_STEP_COPY) {
            ST_TRY(put_step(s, p, &p->steps[i], own, err));
        }
    }
    return STATOR_OK;
}

/* ---- around them ---- */

static void put_symbols(saving *s)
{
    const uint32_t n = s->compiled->module->symtab.n_symbols;
    st_put_u32(s->out, n);
    for (uint32_t i = 0; i < n; i++) {
        const st_symbol *symbol = &s->compiled->symbols[i];
        st_put_i64(s->out, symbol->lo);
        st_put_i64(s->out, symbol->hi);
        st_put_i64(s->out, symbol->divisor);
        st_put_text(s->out, symbol->name);
    }
}

static void put_guard(saving *s)
{
    const st_guard *g = &s->compiled->guard;
    st_put_u32(s->out, g->n_symbols);
    st_put_u32(s->out, g->n_exprs);
    st_put_u32(s->out, g->n_inputs);
    for (uint32_t i = 0; i < g->n_inputs; i++) {
        const st_guard_input *input = &g->inputs[i];
        st_put_u32(s->out, input->dtype.code);
        st_put_u32(s->out, input->dtype.bits);
        st_put_u32(s->out, input->dtype.lanes);
        st_put_text(s->out, input->name);
        st_put_u32(s->out, input->rank);
        for (uint32_t axis = 0; axis < input->rank; axis++) {
            const st_guard_size *size = &g->sizes[input->size_begin + axis];
            st_put_u32(s->out, size->kind);
            st_put_u32(s->out, size->symbol);
            st_put_i64(s->out, size->lo);
            st_put_i64(s->out, size->hi);
            st_put_i64(s->out, size->divisor);
            st_put_text(s->out, size->text);
            if (size->kind == ST_SIZE_EXPR) {
                st_symprog_put(&size->prog, s->out);
            }
        }
    }
    st_put_u32(s->out, g->n_shape_constraints);
    for (uint32_t i = 0; i < g->n_shape_constraints; i++) {
        st_put_u32(s->out, g->shape_constraints[i].kind);
        st_put_i64(s->out, g->shape_constraints[i].step);
        st_put_text(s->out, g->shape_constraints[i].text);
        for (uint32_t k = 0; k < st_shape_constraint_sizes(g->shape_constraints[i].kind); k++) {
            st_symprog_put(&g->shape_constraints[i].size[k], s->out);
        }
    }
}

static void put_coverage(saving *s)
{
    const st_compiled *c = s->compiled;
    st_put_u32(s->out, c->n_coverage);
    for (uint32_t i = 0; i < c->n_coverage; i++) {
        st_put_text(s->out, c->coverage[i].backend);
        st_put_u32(s->out, c->coverage[i].nodes);
        st_put_u32(s->out, c->coverage[i].partitions);
    }
}

static void put_fallback_nodes(saving *s)
{
    const st_fallback_nodes *nodes = &s->compiled->fallback_nodes;
    st_put_u32(s->out, nodes->n_nodes);
    st_put_u32(s->out, nodes->n_handed);
    st_put_u32(s->out, nodes->n_host);
    st_put_u32(s->out, nodes->entries.count);
    for (uint32_t i = 0; i < nodes->entries.count; i++) {
        const st_fallback_entry *entry = &nodes->entries.data[i];
        st_put_text(s->out, entry->op);
        st_put_text(s->out, entry->reason);
        st_put_text(s->out, entry->name);
        st_put_u32(s->out, entry->count);
    }
}

/* ---- constants ---- */

/* Is it one of the imported graph, which the reader has too? */
static bool is_of_source(const st_module *source, const st_cached_constant *c)
{
    uint8_t hash[16];
    for (uint32_t i = 1; i < source->blobs.count; i++) {
        stator_blob *blob = st_module_blob_at(source, i);
        if (st_blob_size(blob) == c->size_bytes && st_blob_hash(blob, hash, NULL) == STATOR_OK &&
            memcmp(hash, c->hash, sizeof hash) == 0) {
            return true;
        }
    }
    return false;
}

static stator_status put_beside(st_cache_job *job, const st_cached_constant *c, stator_diag **err)
{
    char key[64];
    char name[ST_CACHE_NAME_BYTES];
    const st_cache_item item = {
        .key = key, .name = name, .payload = c->blob, .kind = ST_CACHE_DATA, .is_needed = 1};
    st_cache_constant_key(c->hash, key, name);
    ST_FAIL_IF(job->data_bytes + c->size_bytes > job->store->cap_bytes / 2u, err,
               STATOR_RESOURCE_EXHAUSTED,
               "its constants are more than half of the cache's size, %llu bytes "
               "(STATOR_CACHE_SIZE)",
               (unsigned long long)job->store->cap_bytes);
    ST_TRY_MEM(st_cache_parcel_add(&job->request->ctx->mem, &job->parcel, &item), err);
    job->data_bytes += c->size_bytes;
    return STATOR_OK;
}

static stator_status put_constants(st_cache_job *job, st_str *out, stator_diag **err)
{
    st_put_u32(out, job->constants.count);
    for (uint32_t i = 0; i < job->constants.count; i++) {
        const st_cached_constant *c = &job->constants.data[i];
        const void *data = NULL;
        st_str_addn(out, (const char *)c->hash, sizeof c->hash);
        st_put_u64(out, c->size_bytes);
        if (is_of_source(job->request->source, c)) {
            st_put_u32(out, ST_CACHED_SOURCE);
            continue;
        }
        if (c->size_bytes <= ST_CACHE_INLINE_BYTES) {
            ST_TRY(st_blob_get(c->blob, &data, err));
            st_put_u32(out, ST_CACHED_INLINE);
            st_put_block(out, data, c->size_bytes);
        } else {
            st_put_u32(out, ST_CACHED_BESIDE);
            ST_TRY(put_beside(job, c, err));
        }
    }
    return STATOR_OK;
}

stator_status st_cache_write_compiled(st_cache_job *job, const st_compiled *compiled, st_str *out,
                                      stator_diag **err)
{
    st_str rest; /* written first: the executables say which constants there are */
    st_str_init(&rest, &job->request->ctx->mem);
    saving s = {.job = job, .compiled = compiled, .out = &rest};
    put_symbols(&s);
    put_guard(&s);
    put_coverage(&s);
    put_fallback_nodes(&s);
    st_put_u32(&rest, compiled->n_bodies);
    stator_status status = STATOR_OK;
    for (uint32_t i = compiled->n_bodies; i > 0 && status == STATOR_OK; i--) {
        status = put_program(&s, compiled->bodies[i - 1u], i, err);
    }
    ST_THEN(status, put_program(&s, &compiled->program, 0, err));
    ST_THEN(status, put_constants(job, out, err));
    if (status == STATOR_OK) {
        st_put_block(out, rest.data, rest.len);
        out->failed |= rest.failed;
        status = st_str_ok(out) ? STATOR_OK : st_fail_oom(err);
    }
    st_str_deinit(&rest);
    return status;
}
