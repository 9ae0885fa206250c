/* Memory that functions take, as their backends report it; see stator/inspect.h. */
#include "core/host/function.h"

#include <stator/inspect.h>

/* The place of an executable. */
typedef struct place {
    const st_program *program;
    uint32_t number; /* number of the program, newest first */
    uint32_t body;   /* 0 the graph's own program, else 1 + place of a body */
    uint32_t step;
} place;

/* Called for each executable; all ends when it gives 0. */
typedef bool (*part_fn)(void *self, const place *at);

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t size_of_results(const st_program *p, const st_step *step)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < step->n_out; k++) {
        const st_slot *slot = &p->slots[step->out[k]];
        bytes += slot->is_static ? slot->size_bytes : 0;
    }
    return bytes;
}

/* Fields that the backend does not report are 0. */
static void describe(const place *at, stator_x_part *out)
{
    const st_step *step = &at->program->steps[at->step];
    stator_instance *instance = step->self;
    stator_exe_info info = {.struct_size = sizeof info};
    if (st_instance_exe_info(instance, step->exe, &info) != STATOR_OK) {
        info = (stator_exe_info){.struct_size = sizeof info};
    }
    *out = (stator_x_part){.struct_size = sizeof *out,
                           .program = at->number,
                           .body = at->body,
                           .step = at->step,
                           .backend = instance->backend->item.name,
                           .result_bytes = size_of_results(at->program, step),
                           .workspace_bytes = info.workspace_bytes,
                           .constant_bytes = info.constant_bytes,
                           .packed_bytes = info.packed_bytes,
                           .winograd_bytes = info.winograd_bytes,
                           .scratch_bytes = info.scratch_bytes};
}

static bool each_step(const st_program *p, uint32_t number, uint32_t body, part_fn fn, void *self)
{
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const place at = {.program = p, .number = number, .body = body, .step = s};
        if (p->steps[s].kind == ST_STEP_RUN && p->steps[s].exe != NULL && !fn(self, &at)) {
            return false;
        }
    }
    return true;
}

static void each_part(const stator_function *function, part_fn fn, void *self)
{
    const st_compiled *compiled = NULL;
    for (uint32_t i = 0; (compiled = st_function_entry(function, i)) != NULL; i++) {
        if (!each_step(&compiled->program, i, 0, fn, self)) {
            return;
        }
        for (uint32_t b = 0; b < compiled->n_bodies; b++) {
            if (!each_step(compiled->bodies[b], i, b + 1u, fn, self)) {
                return;
            }
        }
    }
}

/* ---- sums ---- */

static bool add_part(void *self, const place *at)
{
    stator_x_memory *sum = self;
    stator_x_part part;
    describe(at, &part);
    sum->executables++;
    sum->constant_bytes += part.constant_bytes;
    sum->packed_bytes += part.packed_bytes;
    sum->winograd_bytes += part.winograd_bytes;
    sum->scratch_bytes = larger(sum->scratch_bytes, part.scratch_bytes);
    return true;
}

static uint64_t size_of_outputs(const st_program *p)
{
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < p->n_outputs; k++) {
        const st_slot *slot = &p->slots[p->outputs[k]];
        bytes += slot->is_static ? slot->size_bytes : 0;
    }
    return bytes;
}

/* Of the newest program's devices. */
static void add_devices(const st_compiled *compiled, stator_x_memory *sum)
{
    for (uint32_t i = 0; compiled != NULL && i < compiled->program.n_domains; i++) {
        st_domain *d = compiled->program.domains[i];
        pthread_mutex_lock(&d->lock);
        sum->device_bytes += d->held_bytes;
        sum->device_peak_bytes += d->peak_bytes;
        pthread_mutex_unlock(&d->lock);
    }
}

void stator_x_memory_of(stator_function *function, stator_x_memory *out)
{
    stator_x_memory sum = {.struct_size = sizeof sum};
    const st_compiled *compiled = NULL;
    each_part(function, add_part, &sum);
    add_devices(st_function_entry(function, 0), &sum);
    for (uint32_t i = 0; (compiled = st_function_entry(function, i)) != NULL; i++) {
        sum.workspace_bytes = larger(sum.workspace_bytes, compiled->program.workspace_bytes);
        sum.output_bytes = larger(sum.output_bytes, size_of_outputs(&compiled->program));
        for (uint32_t b = 0; b < compiled->n_bodies; b++) {
            sum.workspace_bytes = larger(sum.workspace_bytes, compiled->bodies[b]->workspace_bytes);
        }
    }
    (void)ST_CTX_WRITE(st_function_ctx(function), stator_x_memory, out, &sum);
}

/* ---- one by one ---- */

typedef struct search {
    uint32_t left; /* until the one that is sought */
    place at;      /* no program until it is found */
} search;

static bool find_part(void *self, const place *at)
{
    search *s = self;
    if (s->left-- == 0) {
        s->at = *at;
        return false;
    }
    return true;
}

uint32_t stator_x_part_count(stator_function *function)
{
    search s = {.left = UINT32_MAX};
    each_part(function, find_part, &s);
    return UINT32_MAX - s.left;
}

static stator_status seek(stator_function *function, uint32_t index, search *out)
{
    stator_diag *diag = NULL;
    *out = (search){.left = index};
    each_part(function, find_part, out);
    if (out->at.program != NULL) {
        return STATOR_OK;
    }
    const stator_status status = st_fail(&diag, STATOR_OUT_OF_RANGE, "there is no part %u", index);
    return st_ctx_fail(st_function_ctx(function), status, diag);
}

stator_status st_part_step(stator_function *function, uint32_t index, const st_step **out_step)
{
    search s;
    const stator_status status = seek(function, index, &s);
    *out_step = status == STATOR_OK ? &s.at.program->steps[s.at.step] : NULL;
    return status;
}

stator_status stator_x_part_at(stator_function *function, uint32_t index, stator_x_part *out_part)
{
    stator_x_part part;
    search s;
    ST_TRY(seek(function, index, &s));
    describe(&s.at, &part);
    return ST_CTX_WRITE(st_function_ctx(function), stator_x_part, out_part, &part);
}
