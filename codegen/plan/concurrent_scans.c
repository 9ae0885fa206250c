/* Scans that run concurrently.
 *
 * The steps of a scan follow each other, and each is often too small to be divided among threads,
 * but two scans of which neither needs the other (the directions of a bidirectional LSTM, the heads
 * of a model) can have a thread each.
 *
 * Before: fusion groups in launch order. After: scans that run concurrently are adjacent, behind
 * all that they need, and n_concurrent at the index of the first says how many they are. Each of
 * them has one thread, and its body is made for that (cg_unit.is_alone): its steps are too small
 * to divide, or there is a scan for each thread. Values that are made earlier for that live
 * longer, and the memory of concurrent scans is taken at once. */
#include "codegen/lower/lower.h"
#include "codegen/plan/plan.h"

#include <stator/ops.h>
#include <string.h>

#define WINDOW 512u /* groups behind a scan among which others are looked for */
/* Products a step in each of which threads meet about as long as they work. */
#define STEP_MACS_SMALL ((int64_t)500000)

typedef struct gather {
    const cg_unit *unit;
    uint32_t *order;
    uint32_t n;
    uint8_t *is_needed; /* by group */
    uint32_t *moved;    /* scratch of `order` */
} gather;

static const cg_root *first_root(const cg_unit *unit, uint32_t group)
{
    return &unit->roots.data[unit->groups.data[group].roots.data[0]];
}

static bool is_scan(const cg_unit *unit, uint32_t group)
{
    const cg_lowering *lowering = first_root(unit, group)->lowering;
    return lowering != NULL && lowering->is_loop;
}

/* May it run beside others? */
static bool may_join(const cg_unit *unit, uint32_t group)
{
    const stator_graph_view *v = unit->view;
    return is_scan(unit, group) && !cg_scan_binds(unit->host->ir->view(stator_region_at(
                                       v, stator_node_at(v, first_root(unit, group)->node), 0)));
}

static void note_needs(gather *g, uint32_t group)
{
    const cg_unit *unit = g->unit;
    const cg_fusion_group *of = &unit->groups.data[group];
    for (uint32_t i = 0; i < of->roots.count; i++) {
        const cg_root *root = &unit->roots.data[of->roots.data[i]];
        for (uint32_t k = 0; k < root->n_needs; k++) {
            g->is_needed[unit->roots.data[unit->needs.data[root->first_need + k]].group] = 1;
        }
    }
}

/* Marks what the group at `last` needs of order[first, last). 1: no scan is among it. */
static bool mark_needs(gather *g, uint32_t first, uint32_t last)
{
    bool is_apart = true;
    for (uint32_t i = first; i < last; i++) {
        g->is_needed[g->order[i]] = 0;
    }
    note_needs(g, g->order[last]);
    for (uint32_t i = last; i-- > first;) {
        if (g->is_needed[g->order[i]]) {
            is_apart = is_apart && !is_scan(g->unit, g->order[i]);
            note_needs(g, g->order[i]);
        }
    }
    return is_apart;
}

/* The scan at `last` comes behind the group order[*first, *first + n), what it needs before that.
 */
static void bring_forward(gather *g, uint32_t *first, uint32_t n, uint32_t last)
{
    uint32_t count = 0;
    for (uint32_t i = *first + n; i < last; i++) {
        if (g->is_needed[g->order[i]]) {
            g->moved[count++] = g->order[i];
        }
    }
    const uint32_t needed = count;
    for (uint32_t i = *first; i < *first + n; i++) {
        g->moved[count++] = g->order[i];
    }
    g->moved[count++] = g->order[last];
    for (uint32_t i = *first + n; i < last; i++) {
        if (!g->is_needed[g->order[i]]) {
            g->moved[count++] = g->order[i];
        }
    }
    memcpy(&g->order[*first], g->moved, (size_t)count * sizeof *g->moved);
    *first += needed;
}

static int64_t known_numel(const cg_unit *unit, stator_ref value, uint32_t to_axis)
{
    const cg_value *v = &unit->values[value];
    int64_t numel = 1;
    for (uint32_t a = 0; a < to_axis; a++) {
        const int64_t dim = st_sym_size_hint(&unit->syms->tab, v->dims[a]);
        numel = dim > 0 && numel < STEP_MACS_SMALL ? numel * dim : numel;
    }
    return numel;
}

/* About as many products as a step has: each row of a carried value with what is captured. */
static bool is_step_small(const cg_unit *unit, uint32_t group)
{
    const stator_graph_view *v = unit->view;
    const stator_node_row *row = stator_node_at(v, first_root(unit, group)->node);
    const uint32_t carried = (uint32_t)stator_attr_at(v, row, STATOR_scan_carried)->i;
    const uint32_t whole = carried + (uint32_t)stator_attr_at(v, row, STATOR_scan_scanned)->i;
    int64_t rows = 1;
    int64_t captured = 0;
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(v, row, k);
        const uint32_t rank = unit->values[value].rank;
        if (k < carried && rank > 0) {
            const int64_t n = known_numel(unit, value, rank - 1u);
            rows = n > rows ? n : rows;
        } else if (k >= whole) {
            captured += known_numel(unit, value, rank);
        }
    }
    return captured <= STEP_MACS_SMALL / rows;
}

/* Makes a group that begins with the scan at *first, which moves behind what the others need. */
static uint32_t gather_at(gather *g, uint32_t *first)
{
    const cg_unit *unit = g->unit;
    const uint32_t stage = first_root(unit, g->order[*first])->stage;
    const uint32_t threads = unit->config->emitter->target.threads;
    const uint32_t most = threads < CG_CONCURRENT_MAX ? threads : CG_CONCURRENT_MAX;
    uint32_t n = 1;
    if (threads > 2 && !is_step_small(unit, g->order[*first])) {
        return n;
    }
    for (uint32_t i = *first + 1u; i < g->n && i - *first < WINDOW && n < most; i++) {
        const uint32_t group = g->order[i];
        if (may_join(unit, group) && first_root(unit, group)->stage == stage &&
            (threads == 2 || is_step_small(unit, group)) && mark_needs(g, *first, i)) {
            bring_forward(g, first, n, i);
            n++;
        }
    }
    return n;
}

stator_status cg_gather_scans(cg_unit *unit, uint32_t *order, uint32_t n, uint32_t *n_concurrent,
                              stator_diag **err)
{
    gather g = {.unit = unit, .order = order, .n = n};
    g.is_needed = st_arena_zalloc(&unit->arena, (uint64_t)unit->groups.count + 1u, 1);
    g.moved = st_arena_zalloc(&unit->arena, (uint64_t)n + 1u, sizeof *g.moved);
    ST_TRY_MEM(g.is_needed && g.moved, err);
    memset(n_concurrent, 0, (size_t)n * sizeof *n_concurrent);
    const st_emitter *emitter = unit->config->emitter;
    const bool is_on_host = emitter->memory == NULL;
    for (uint32_t i = 0; i < n && emitter->target.threads > 1 && is_on_host && !unit->is_alone;
         i++) {
        if (may_join(unit, order[i])) {
            uint32_t first = i;
            const uint32_t count = gather_at(&g, &first);
            n_concurrent[first] = count;
            i = first + count - 1u;
        }
    }
    return STATOR_OK;
}
