/* What makes a program of inductor-cpu slower than it could be, as far as only the plugin knows:
 * the log channel perf_hints. The generator's own lines are codegen/plan/perf_hints.c's. */
#include "cpu_hints.h"

#include "core/base/str.h"

#include <string.h>

static bool is_heard(const cpu_inst *inst)
{
    const stator_host *host = inst->self->host;
    return host != NULL && host->log->enabled(host->ctx, "perf_hints", 2);
}

static void say(const cpu_inst *inst, const st_str *text)
{
    const stator_host *host = inst->self->host;
    if (st_str_ok(text) && text->data != NULL) {
        host->log->write(host->ctx, "perf_hints", 2, text->data);
    }
}

/* ---- functions without a vector form ---- */

void cpu_asked_init(cpu_asked *asked, cpu_inst *inst)
{
    *asked = (cpu_asked){.inst = inst,
                         .is_heard = (uint32_t)(is_heard(inst) && !inst->settings.self_contained)};
    (void)pthread_mutex_init(&asked->mutex, NULL);
}

/* "Sleef_tanf16_u10avx512f" is tan: what follows is how wide and how exact. */
static uint32_t function_bytes(const char *name)
{
    uint32_t end = (uint32_t)strlen(name);
    for (uint32_t i = 0; i + 1u < end; i++) {
        const bool is_width = name[i + 1u] >= '0' && name[i + 1u] <= '9';
        const char *rest = name + i + 1u + strspn(name + i + 1u, "0123456789");
        if ((name[i] == 'f' || name[i] == 'd') && is_width && strncmp(rest, "_u", 2) == 0) {
            end = i;
        }
    }
    return end;
}

void cpu_hint_missing(cpu_asked *asked, const char *name)
{
    if (!asked->is_heard) {
        return;
    }
    const uint32_t n = function_bytes(name);
    (void)pthread_mutex_lock(&asked->mutex);
    uint32_t i = 0;
    while (i < asked->n_missing &&
           (strlen(asked->missing[i]) != n || memcmp(asked->missing[i], name, n) != 0)) {
        i++;
    }
    if (i == asked->n_missing && i < CPU_ASKED_MAX && n < sizeof asked->missing[0]) {
        memcpy(asked->missing[i], name, n); /* the rest is zero */
        asked->n_missing++;
    }
    (void)pthread_mutex_unlock(&asked->mutex);
}

/* A function that an installed SLEEF does not have is nobody's to change. */
void cpu_hint_asked(cpu_asked *asked)
{
    const cpu_inst *inst = asked->inst;
    if (asked->n_missing != 0 && cpu_resolve(inst->self, "Sleef_sinf4_u10") == NULL) {
        st_str text;
        st_str_init(&text, &inst->self->mem);
        for (uint32_t i = 0; i < asked->n_missing; i++) {
            st_str_addf(&text, "%s%s", i ? ", " : "", asked->missing[i]);
        }
        st_str_add(&text, asked->n_missing == 1 ? ": it is" : ": these are");
        st_str_add(&text, " computed one element after the other, as SLEEF is not installed "
                          "(package libsleef3)");
        say(inst, &text);
        st_str_deinit(&text);
    }
    (void)pthread_mutex_destroy(&asked->mutex);
}

/* ---- options ---- */

void cpu_hint_settings(const cpu_inst *inst)
{
    if (inst->settings.debug_bounds && is_heard(inst)) {
        const stator_host *host = inst->self->host;
        host->log->write(host->ctx, "perf_hints", 2,
                         "debug_bounds is on: each load and store checks its index; leave the "
                         "option out when no error is looked for");
    }
}
