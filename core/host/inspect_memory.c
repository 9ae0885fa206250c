/* What functions take of memory, as their backends say; see stator/inspect.h. */
#include "core/host/assemble.h"
#include "core/host/function.h"

#include <stator/inspect.h>
#include <string.h>

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static void add_program(const st_program *p, stator_x_memory *sum)
{
    sum->workspace_bytes = larger(sum->workspace_bytes, p->workspace_bytes);
    for (uint32_t s = 0; s < p->n_steps; s++) {
        const st_step *step = &p->steps[s];
        stator_instance *instance = step->self;
        stator_exe_info info = {.struct_size = sizeof info};
        if (step->kind != ST_STEP_RUN || step->exe == NULL ||
            instance->backend->exe_info(instance->inst, step->exe, &info) != STATOR_OK) {
            continue;
        }
        sum->executables++;
        sum->constant_bytes += info.constant_bytes;
        sum->packed_bytes += info.packed_bytes;
        sum->winograd_bytes += info.winograd_bytes;
        sum->scratch_bytes = larger(sum->scratch_bytes, info.scratch_bytes);
    }
}

void stator_x_memory_of(stator_function *function, stator_x_memory *out)
{
    const uint32_t size = out->struct_size;
    stator_x_memory sum = {.struct_size = size};
    const st_compiled *compiled = NULL;
    for (uint32_t i = 0; (compiled = st_function_entry(function, i)) != NULL; i++) {
        add_program(&compiled->program, &sum);
        for (uint32_t b = 0; b < compiled->n_bodies; b++) {
            add_program(compiled->bodies[b], &sum);
        }
    }
    memcpy(out, &sum, size < sizeof sum ? size : sizeof sum);
}
