/* Lines of the log channel perf_hints about what main does not run. */
#include "core/compile/divide.h"

#include "core/base/str.h"

#include <stator/ops.h>

#define GROUPS_MAX 8u /* shown */

static void print_groups(const st_fallback_nodes *nodes, st_str *out)
{
    for (uint32_t i = 0; i < nodes->entries.count && i < GROUPS_MAX; i++) {
        const st_fallback_entry *at = &nodes->entries.data[i];
        st_str_add(out, i != 0 ? "; " : "");
        if (at->count > 1) {
            st_str_addf(out, "%u ", at->count);
        }
        st_str_add(out, at->op);
        if (at->name[0] != '\0') {
            st_str_addf(out, " '%s'%s", at->name, at->count > 1 ? " and others" : "");
        }
        st_str_addf(out, " (%s)", at->reason);
    }
    if (nodes->entries.count > GROUPS_MAX) {
        st_str_addf(out, "; and %u more kinds", nodes->entries.count - GROUPS_MAX);
    }
}

/* Says what running these nodes on main would gain. */
static void print_gain(const stator_backend *main, const st_fallback_nodes *nodes, st_str *out)
{
    st_str_addf(out, "; with ops that %s runs in their place %s", main->item.name,
                nodes->n_host != 0 ? "nothing would be handed over"
                                   : "the program would be one piece");
}

static void hint_fallback_nodes(const st_division *d, const st_fallback_nodes *nodes)
{
    const st_compile_request *request = d->request;
    st_str text;
    st_str_init(&text, d->mem);
    st_str_addf(&text, "%u of %u nodes run on ", nodes->n_nodes, d->root->n_counted);
    for (uint32_t i = 0; i < request->n_fallbacks; i++) {
        st_str_addf(&text, "%s%s", i != 0 ? " or " : "", request->fallbacks[i]->backend->item.name);
    }
    st_str_addf(&text, ", and values are handed over %u times a call: ", nodes->n_handed);
    print_groups(nodes, &text);
    print_gain(request->main->backend, nodes, &text);
    if (st_str_ok(&text)) {
        st_log(request->ctx, ST_HINTS, 2, "%s", text.data);
    }
    st_str_deinit(&text);
}

/* Loops that the host steps: each step is a call of every part of the body. A `while` has no other
 * way to go, so nothing is said of it. */
static void hint_loops(const st_division *d, const st_unit *u)
{
    for (uint32_t i = 0; i < u->parts.n_parts; i++) {
        const st_part *part = &u->parts.parts[i];
        const stator_ref node = part->n_nodes != 0 ? part->nodes[0] : 0;
        if (part->color == ST_COLOR_HOST && node != 0 &&
            stator_node_at(u->v, node)->op == STATOR_OPCODE_scan) {
            const char *name = stator_node_origin(u->v, node);
            st_log(
                d->request->ctx, ST_HINTS, 2,
                "scan%s%s%s is stepped by the host, a call of each part of its body a step: %s; a "
                "scan that %s runs whole is one call",
                name[0] != '\0' ? " '" : "", name, name[0] != '\0' ? "'" : "",
                st_division_reason(u, node), d->request->main->backend->item.name);
        }
    }
}

void st_hint_division(const st_division *d, const st_fallback_nodes *nodes)
{
    if (!st_log_enabled(d->request->ctx, ST_HINTS, 2)) {
        return;
    }
    for (uint32_t i = 0; i < d->units.count; i++) {
        const st_unit *u = d->units.data[i];
        if (u == d->root || u->program != NULL) {
            hint_loops(d, u);
        }
    }
    if (nodes->n_nodes != 0 && d->request->n_fallbacks != 0) {
        hint_fallback_nodes(d, nodes);
    }
}
