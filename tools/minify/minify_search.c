/* Fewer and fewer nodes that still fail the same way; see minify.h.
 *
 *   all nodes, cut out of the file     what the graph writes is an output, sizes are numbers
 *   one output, what it is made of
 *   halves, again and again            a mistake in one place is found in about log2 n trials
 *   the shortest beginning and end     a mistake that lies on both sides of a cut
 *   ddmin                              what is left: no part of it can go
 *
 * ddmin: Zeller and Hildebrandt, "Simplifying and isolating failure-inducing input", TSE 2002. A
 * cut gets the values at its edge as the good backend computed them, so each trial is a program of
 * its own; both backends run it, and only their difference counts. */
#include "tools/minify/minify.h"

#include "core/base/map.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRIALS_MAX 500u
#define FEW_NODES 32u /* up to which the second form of outputs is worth a trial */

void minify_add_note(minify *m, const char *text)
{
    const size_t used = strlen(m->note);
    (void)snprintf(m->note + used, sizeof m->note - used, "%s%s", used > 0 ? "; " : "", text);
}

/* ---- one trial ---- */

bool minify_is_same(const minify_outcome *a, const minify_outcome *b)
{
    if (a->verdict != b->verdict || !a->is_good_done || !b->is_good_done) {
        return false;
    }
    switch (a->verdict) {
    case BISECT_DIFFERS:
        return true;
    case BISECT_FAILS:
        return strcmp(a->error.code, b->error.code) == 0;
    default: /* the message names the signal or the exit status */
        return strcmp(a->error.code, b->error.code) == 0 &&
               strcmp(a->error.message, b->error.message) == 0;
    }
}

static uint64_t key_of(const minify_cut *cut)
{
    const uint64_t how = (uint64_t)cut->has_symbols << 1 | (uint64_t)cut->is_random;
    return st_hash64(&how, sizeof how, cut->hash);
}

static bool is_seen(const minify *m, uint64_t key)
{
    for (uint32_t i = 0; i < m->n_seen; i++) {
        if (m->seen[i] == key) {
            return true;
        }
    }
    return false;
}

static void remember(minify *m, uint64_t key)
{
    uint64_t *seen = realloc(m->seen, (m->n_seen + 1u) * sizeof *seen);
    if (seen != NULL) { /* else the trial may be made twice */
        m->seen = seen;
        seen[m->n_seen++] = key;
    }
}

static void progress(const minify *m, const minify_cut *cut, const minify_outcome *o)
{
    static const char *const words[] = {"",      "agrees",  "differs",
                                        "fails", "crashes", "is no program"};
    if (isatty(STDERR_FILENO)) {
        (void)fprintf(stderr, "trial %u: %u of %u nodes: %s%s\n", m->trials, cut->n_ops,
                      m->graph.n_ops, words[o->verdict], o->is_good_done ? "" : " on the good one");
    }
}

static bool run_trial(minify *m, const minify_cut *cut)
{
    const minify_job job = {.task = MINIFY_TRIAL, .setup = &m->setup, .cut = cut};
    minify_outcome outcome;
    child c;
    if (m->trials >= TRIALS_MAX) {
        m->is_capped = true;
        return false;
    }
    const bool ok = minify_child(m, &job, &c, &outcome);
    child_close(&c);
    m->trials++;
    ST_NEED(ok);
    progress(m, cut, &outcome);
    ST_NEED(minify_is_same(&m->whole, &outcome));
    m->last = outcome;
    return true;
}

bool minify_try(minify *m, minify_cut *cut)
{
    const uint64_t key = key_of(cut);
    bool fails = false;
    if (!m->is_broken && !is_seen(m, key)) {
        fails = minify_record_need(m, cut->n_inputs, cut->inputs) && run_trial(m, cut);
        if (!fails) {
            remember(m, key);
        }
    }
    if (fails) {
        minify_cut_free(&m->best);
        m->best = *cut;
        *cut = (minify_cut){.n_ops = 0};
    } else {
        minify_cut_free(cut);
    }
    return fails;
}

/* ---- sets of nodes ---- */

typedef struct search {
    minify *m;
    stator_ref *list; /* nodes of the best cut but constants, ascending */
    uint32_t n;
    uint8_t *is_kept; /* by node; scratch */
    uint8_t *slice;
} search;

static void take_best(search *s)
{
    const minify_cut *best = &s->m->best;
    s->n = 0;
    for (uint32_t k = 0; k < best->n_nodes; k++) {
        if (minify_is_op(&s->m->graph, best->nodes[k])) {
            s->list[s->n++] = best->nodes[k];
        }
    }
}

static bool try_cut(search *s, const minify_cut_spec *spec)
{
    minify_cut cut;
    ST_NEED(minify_cut_make(&s->m->graph, spec, &cut));
    cut.has_symbols = s->m->best.has_symbols;
    ST_NEED(minify_try(s->m, &cut));
    take_best(s);
    return true;
}

/* Only the ends as outputs: inner values stay inner, so that what was fused still is. A value that
 * is wrong and that the nodes behind it hide is an output in the second form. */
static bool try_kept(search *s, uint32_t n)
{
    const minify_cut_spec ends = {.is_kept = s->is_kept, .form = MINIFY_ENDS};
    const minify_cut_spec leaves = {.is_kept = s->is_kept, .form = MINIFY_LEAVES};
    return n > 0 && (try_cut(s, &ends) || (n <= FEW_NODES && try_cut(s, &leaves)));
}

/* The nodes list[first, first + count) alone, or all but those. */
static bool try_range(search *s, uint32_t first, uint32_t count, int without)
{
    memset(s->is_kept, 0, s->m->graph.n_nodes + (size_t)1);
    for (uint32_t i = 0; i < s->n; i++) {
        const bool inside = i >= first && i - first < count;
        s->is_kept[s->list[i]] = (uint8_t)(inside != without);
    }
    return try_kept(s, without ? s->n - count : count);
}

/* These outputs and what they are made of. */
static bool try_outputs(search *s, uint32_t n, const stator_ref *outputs)
{
    memset(s->is_kept, 0, s->m->graph.n_nodes + (size_t)1);
    for (uint32_t i = 0; i < s->n; i++) {
        s->is_kept[s->list[i]] = 1;
    }
    minify_ancestors(&s->m->graph, s->is_kept, n, outputs, s->slice);
    const minify_cut_spec spec = {.is_kept = s->slice, .outputs = outputs, .n_outputs = n};
    return try_cut(s, &spec);
}

/* One output if one is enough, else none that can go. */
static void reduce_outputs(search *s)
{
    const uint32_t n = s->m->best.n_outputs;
    stator_ref *outputs = calloc(n + (size_t)1, sizeof *outputs);
    if (outputs == NULL || n < 2) {
        free(outputs);
        return;
    }
    memcpy(outputs, s->m->best.outputs, n * sizeof *outputs);
    bool is_done = false;
    for (uint32_t k = n; k > 0 && !is_done; k--) {
        is_done = try_outputs(s, 1, &outputs[k - 1u]);
    }
    for (uint32_t k = 0, left = n; k < left && !is_done && left > 1;) {
        const stator_ref dropped = outputs[k];
        memmove(&outputs[k], &outputs[k + 1u], (left - k - 1u) * sizeof *outputs);
        if (try_outputs(s, left - 1u, outputs)) {
            left--;
        } else {
            memmove(&outputs[k + 1u], &outputs[k], (left - k - 1u) * sizeof *outputs);
            outputs[k++] = dropped;
        }
    }
    free(outputs);
}

/* ---- fewer nodes ---- */

static void halve(search *s)
{
    while (s->n > 1 &&
           (try_range(s, 0, s->n / 2, 0) || try_range(s, s->n / 2, s->n - s->n / 2, 0))) {
    }
}

/* The shortest beginning that fails, by halving. */
static void shorten_end(search *s)
{
    uint32_t right = 0; /* a beginning of this length agrees */
    while (s->n - right > 1) {
        const uint32_t middle = right + (s->n - right) / 2;
        if (!try_range(s, 0, middle, 0)) {
            right = middle;
        }
    }
}

/* The shortest end that fails. It is grown, since short ones are tried quickly. */
static void shorten_begin(search *s)
{
    for (uint32_t count = 1; count < s->n; count *= 2) {
        if (try_range(s, s->n - count, count, 0)) {
            return;
        }
    }
}

static void ddmin(search *s)
{
    uint32_t parts = 2;
    while (s->n > 1 && !s->m->is_capped && !s->m->is_broken) {
        const uint32_t n = s->n;
        bool is_smaller = false;
        bool is_part = false;
        parts = parts > n ? n : parts;
        for (uint32_t i = 0; i < parts && !is_smaller; i++) {
            const uint32_t first = (uint32_t)((uint64_t)n * i / parts);
            const uint32_t end = (uint32_t)((uint64_t)n * (i + 1u) / parts);
            is_part = try_range(s, first, end - first, 0);
            is_smaller = is_part;
        }
        for (uint32_t i = 0; i < parts && !is_smaller && parts > 2; i++) {
            const uint32_t first = (uint32_t)((uint64_t)n * i / parts);
            const uint32_t end = (uint32_t)((uint64_t)n * (i + 1u) / parts);
            is_smaller = try_range(s, first, end - first, 1);
        }
        if (!is_smaller && parts == n) {
            return;
        }
        parts = is_part ? 2 : is_smaller ? (parts > 3 ? parts - 1u : 2u) : parts * 2u;
    }
}

/* ---- the whole ---- */

/* The graph with its results as outputs, without the writes and with numbers for sizes, or with its
 * symbols where the failure needs them. */
static bool begin(search *s)
{
    minify *m = s->m;
    memset(s->is_kept, 1, m->graph.n_nodes + (size_t)1);
    for (int has_symbols = 0; has_symbols < 2; has_symbols++) {
        const minify_cut_spec spec = {
            .is_kept = s->is_kept, .outputs = m->graph.results, .n_outputs = m->graph.n_results};
        minify_cut cut;
        if (minify_cut_make(&m->graph, &spec, &cut)) {
            cut.has_symbols = has_symbols;
            if (minify_try(m, &cut)) {
                take_best(s);
                return true;
            }
        }
    }
    return false;
}

/* The result that was seen to differ first, with what it is made of; of a failure nothing is known.
 */
static void take_result(search *s)
{
    const minify *m = s->m;
    const uint32_t k = m->last.result;
    if (m->whole.verdict == BISECT_DIFFERS && k < m->best.n_outputs && m->best.n_outputs > 1) {
        const stator_ref output = m->best.outputs[k];
        (void)try_outputs(s, 1, &output);
    }
}

static void reduce(search *s)
{
    take_result(s);
    halve(s);
    if (s->n > 1) {
        shorten_end(s);
        shorten_begin(s);
        ddmin(s);
    }
    reduce_outputs(s);
}

void minify_search(minify *m)
{
    search s = {.m = m};
    s.list = calloc(m->graph.n_nodes + (size_t)1, sizeof *s.list);
    s.is_kept = calloc(m->graph.n_nodes + (size_t)1, 1);
    s.slice = calloc(m->graph.n_nodes + (size_t)1, 1);
    if (s.list == NULL || s.is_kept == NULL || s.slice == NULL) {
        m->is_broken = true;
        (void)cli_fail(m->setup.common.json, "RESOURCE_EXHAUSTED", NULL, "out of memory");
    } else if (begin(&s)) {
        if (m->best.has_symbols) {
            minify_add_note(m, "it fails only with symbolic sizes, so these stay");
        }
        reduce(&s);
    } else if (!m->is_broken) {
        minify_add_note(m, "the model is kept whole: taken out of its file it does not fail so");
    }
    free(s.list);
    free(s.is_kept);
    free(s.slice);
}
