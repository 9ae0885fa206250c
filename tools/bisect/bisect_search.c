/* The search of bisect; see bisect_search.h and docs/bisect.md.
 *
 *   good                 its answers are kept
 *   aot_eager, nothing applied
 *   aot_eager + pass 1, + pass 2, ...      switched on in turn: a fuel limit ends each scope
 *   bad, the same with its own passes, then its claims, then what it asks while it compiles
 *
 * The first rung that answers otherwise is taken, and the questions of its scope are halved. The
 * limit (scope, n) is a prefix of all applications, so "right at n - 1, wrong at n" names one of
 * them. */
#include "tools/bisect/bisect_search.h"

#include <string.h>
#include <unistd.h>

#define LADDER_BACKEND "aot_eager"

/* One backend under search. */
typedef struct lane {
    bisect_setup *setup;
    const char *backend;
    bisect_outcome whole; /* with everything applied: the list of steps */
    bisect_outcome last;  /* outcome of the last bad run */
    bool is_broken;       /* a child could not be run: stop */
} lane;

/* Result of halving one lane. */
typedef struct culprit {
    const bisect_step *step; /* NULL: wrong with nothing applied */
    bisect_limit limit;      /* the smallest limit with a wrong answer */
    bisect_outcome outcome;  /* at that limit */
    bool is_unsteady;        /* wrong at first, right when repeated */
} culprit;

/* ---- runs ---- */

static void progress(const char *backend, const bisect_limit *limit, const bisect_outcome *o)
{
    static const char *const words[] = {"", "agrees", "differs", "fails", "crashes", "refused"};
    if (!isatty(STDERR_FILENO)) {
        return;
    }
    if (limit->kind == BISECT_ALL) {
        (void)fprintf(stderr, "%s: %s\n", backend, words[o->verdict]);
    } else if (limit->kind == BISECT_NOTHING) {
        (void)fprintf(stderr, "%s, nothing applied: %s\n", backend, words[o->verdict]);
    } else if (limit->n == UINT64_MAX) {
        (void)fprintf(stderr, "%s, up to scope %u: %s\n", backend, limit->scope, words[o->verdict]);
    } else {
        (void)fprintf(stderr, "%s, up to %u:%llu: %s\n", backend, limit->scope,
                      (unsigned long long)limit->n, words[o->verdict]);
    }
}

static bool is_bad_verdict(uint32_t verdict)
{
    return verdict == BISECT_DIFFERS || verdict == BISECT_FAILS || verdict == BISECT_CRASHES;
}

/* Runs the lane with a limit; 1 when the answer is wrong. */
static bool is_bad(lane *l, const bisect_limit *limit)
{
    bisect_outcome outcome;
    const bisect_job job = {.task = BISECT_RUN, .backend = l->backend, .limit = *limit};
    if (l->is_broken || !bisect_child(l->setup, &job, &outcome)) {
        l->is_broken = true;
        return false;
    }
    progress(l->backend, limit, &outcome);
    if (is_bad_verdict(outcome.verdict)) {
        l->last = outcome;
        return true;
    }
    return false;
}

/* ---- halving ---- */

static bisect_limit limit_at(const bisect_step *step)
{
    return (bisect_limit){.kind = BISECT_UP_TO, .scope = step->scope, .n = step->n};
}

/* Steps [low, high): the answer is right before low and wrong after high - 1. Returns the index of
 * the step that makes it wrong. */
static uint32_t halve(lane *l, uint32_t low, uint32_t high)
{
    while (high - low > 1 && !l->is_broken) {
        const uint32_t middle = low + (high - low) / 2;
        const bisect_limit limit = limit_at(&l->whole.steps[middle - 1]);
        if (is_bad(l, &limit)) {
            high = middle;
        } else {
            low = middle;
        }
    }
    return low;
}

/* The end of a rung: the steps of one pass, also in scopes that it opened itself. */
static uint32_t rung_end(const lane *l, uint32_t i)
{
    uint32_t end = i;
    while (end < l->whole.n_steps &&
           strcmp(l->whole.steps[end].pass, l->whole.steps[i].pass) == 0) {
        end++;
    }
    return end;
}

/* The passes switched on in turn; then what is left, by halving. *out_low and *out_high bound the
 * step that is looked for. */
static void climb(lane *l, uint32_t *out_low, uint32_t *out_high)
{
    uint32_t i = 0;
    *out_high = l->whole.n_steps;
    while (i < l->whole.n_steps && l->whole.steps[i].pass[0] != '\0') {
        const uint32_t end = rung_end(l, i);
        const bisect_limit limit = {
            .kind = BISECT_UP_TO, .scope = l->whole.steps[end - 1].scope, .n = UINT64_MAX};
        if (is_bad(l, &limit)) {
            *out_high = end;
            break;
        }
        i = end;
    }
    *out_low = i;
}

/* Finds what makes the lane wrong; l->whole says that it is. 0 when a child could not be run. */
static bool find_culprit(lane *l, culprit *out)
{
    *out = (culprit){.limit = {.kind = BISECT_NOTHING}};
    if (is_bad(l, &out->limit)) {
        out->outcome = l->last;
        return !l->is_broken;
    }
    uint32_t low = 0;
    uint32_t high = 0;
    climb(l, &low, &high);
    if (low == high || l->is_broken) {
        out->limit.kind = BISECT_ALL;
        out->outcome = l->whole;
        out->is_unsteady = true;
        return !l->is_broken;
    }
    const uint32_t found = halve(l, low, high);
    out->step = &l->whole.steps[found];
    out->limit = limit_at(out->step);
    out->is_unsteady = !is_bad(l, &out->limit);
    out->outcome = out->is_unsteady ? l->whole : l->last;
    return !l->is_broken;
}

/* ---- naming ---- */

static const char *kind_of(const culprit *c)
{
    if (c->outcome.verdict == BISECT_CRASHES) {
        return "crash";
    }
    switch (c->step != NULL ? c->step->kind : (uint32_t)STATOR_FUEL_CLAIM) {
    case STATOR_FUEL_PASS:
        return "pass";
    case STATOR_FUEL_REWRITE:
        return "rewrite";
    case STATOR_FUEL_DECOMPOSITION:
        return "decomposition";
    default: /* claims, and what a backend asks while it compiles */
        return c->step != NULL && c->step->pass[0] != '\0' ? "rewrite" : "kernel";
    }
}

static void name_step(const culprit *c, bisect_finding *out)
{
    const bisect_step *step = c->step;
    if (step == NULL) {
        return;
    }
    const bool is_pass = step->kind == STATOR_FUEL_PASS;
    out->has_serial = true;
    out->scope = step->scope;
    out->n = step->n;
    (void)snprintf(out->pass, sizeof out->pass, "%s",
                   is_pass && step->pass[0] == '\0' ? step->rule : step->pass);
    if (!is_pass && step->kind != STATOR_FUEL_CLAIM) {
        (void)snprintf(out->rule, sizeof out->rule, "%s", step->rule);
    }
}

/* A child that looks at values; nothing found when it dies. */
static bool look(const lane *l, const culprit *c, uint32_t task, bisect_limit limit,
                 stator_x_place *out)
{
    bisect_outcome outcome;
    const bisect_job job = {.task = task,
                            .backend = l->backend,
                            .limit = limit,
                            .wanted = c->step != NULL ? c->step->witness : 0};
    *out = (stator_x_place){0};
    ST_NEED(bisect_child(l->setup, &job, &outcome));
    if (outcome.verdict == BISECT_AGREES) {
        *out = outcome.place;
    }
    return true;
}

/* The first value that differs, under the least wrong limit, else with everything applied. */
static bool observe(const lane *l, const culprit *c, stator_x_place *out)
{
    const bisect_limit all = {.kind = BISECT_ALL};
    return look(l, c, BISECT_OBSERVE, c->limit, out) &&
           (out->is_found || c->limit.kind == BISECT_ALL || look(l, c, BISECT_OBSERVE, all, out));
}

/* Is the node of the question the one to blame, whatever value was seen to differ first? A claim is
 * that node alone (but for an ATOMIC group, claimed by its first member). A node without an
 * imported value (of a loop's body, a piece of a decomposition) is seen only where its results come
 * out, and a rewrite that needs its node to itself only behind it. Else a rewrite may name another
 * node than it spoils. */
static bool is_blame_of_step_right(const bisect_step *step, const stator_x_place *seen)
{
    if (step == NULL || step->node[0] == '\0') {
        return false;
    }
    const bool is_one_claim = step->kind == STATOR_FUEL_CLAIM && strcmp(step->rule, "group") != 0;
    return !seen->is_found || seen->hides_wanted || step->witness == 0 || is_one_claim;
}

static bool name_place(const lane *l, const culprit *c, bisect_finding *out)
{
    const bisect_step *step = c->step;
    const bool is_dead = c->outcome.verdict == BISECT_CRASHES || c->outcome.verdict == BISECT_FAILS;
    stator_x_place seen = {0};
    ST_NEED(is_dead || observe(l, c, &seen));
    if (seen.n_steps != 0 && out->message[0] == '\0') {
        bisect_print_steps(&seen, out->message, sizeof out->message);
    }
    const double error = seen.is_found ? seen.max_abs : c->outcome.max_abs;
    const bool is_blamed = is_blame_of_step_right(step, &seen);
    out->place = seen;
    if (is_blamed && step->witness != 0 && !seen.is_wanted &&
        !look(l, c, BISECT_DESCRIBE, c->limit, &out->place)) {
        return false;
    }
    if (is_blamed) {
        (void)snprintf(out->place.node, sizeof out->place.node, "%s", step->node);
    }
    out->place.max_abs = error;
    out->is_hidden = !is_dead && (!seen.is_found || seen.hides_wanted);
    out->has_error = !is_dead;
    return true;
}

static bool report_culprit(const lane *l, const culprit *c, bisect_finding *out)
{
    out->is_found = 1;
    out->kind = kind_of(c);
    out->backend = l->backend;
    name_step(c, out);
    (void)snprintf(out->rung, sizeof out->rung, "%s%s%.60s", l->backend,
                   out->pass[0] != '\0' ? "+" : "", out->pass);
    (void)snprintf(out->message, sizeof out->message, "%s", c->outcome.error.message);
    if (c->is_unsteady) {
        (void)snprintf(out->message, sizeof out->message,
                       "the answer changes from run to run; repeat bisect");
    }
    return name_place(l, c, out);
}

/* ---- the ladder ---- */

static cli_status refuse(const bisect_setup *setup, const bisect_outcome *o)
{
    return cli_fail(setup->common.json, o->error.code, o->error.hint, "%s", o->error.message);
}

/* The good backend's answers; without them nothing can be said. */
static cli_status run_good(bisect_setup *setup)
{
    bisect_outcome outcome;
    const bisect_job job = {.task = BISECT_KEEP, .backend = setup->good};
    CLI_NEED(bisect_child(setup, &job, &outcome));
    progress(setup->good, &job.limit, &outcome);
    if (outcome.verdict == BISECT_AGREES) {
        return CLI_OK;
    }
    return outcome.verdict == BISECT_REFUSED
               ? refuse(setup, &outcome)
               : cli_fail(setup->common.json, outcome.error.code, "choose another --good",
                          "the good backend '%s' itself fails: %s", setup->good,
                          outcome.error.message);
}

/* Runs the lane with everything applied. 0 when no child could be run. */
static bool run_whole(lane *l)
{
    const bisect_job job = {.task = BISECT_LIST, .backend = l->backend};
    ST_NEED(bisect_child(l->setup, &job, &l->whole));
    progress(l->backend, &job.limit, &l->whole);
    return true;
}

/* Is the same thing to blame in both lanes? Then the lower rung is the place to look. */
static bool is_same(const culprit *a, const culprit *b)
{
    return a->step != NULL && b->step != NULL && a->step->kind == b->step->kind &&
           a->step->pass[0] != '\0' && strcmp(a->step->pass, b->step->pass) == 0 &&
           strcmp(a->step->rule, b->step->rule) == 0;
}

static bool search(lane *ladder, lane *bad, bisect_finding *out)
{
    culprit c;
    ST_NEED(find_culprit(bad, &c));
    if (strcmp(bad->backend, LADDER_BACKEND) != 0 && c.step != NULL && c.step->pass[0] != '\0') {
        ST_NEED(run_whole(ladder));
        culprit lower;
        if (is_bad_verdict(ladder->whole.verdict)) {
            ST_NEED(find_culprit(ladder, &lower));
            if (is_same(&lower, &c)) {
                return report_culprit(ladder, &lower, out);
            }
        }
    }
    return report_culprit(bad, &c, out);
}

cli_status bisect_search(bisect_setup *setup, bisect_finding *out)
{
    *out = (bisect_finding){0};
    lane ladder = {.setup = setup, .backend = LADDER_BACKEND};
    lane bad = {.setup = setup, .backend = setup->bad};
    cli_status status = run_good(setup);
    if (status == CLI_OK && !run_whole(&bad)) {
        status = CLI_FAILED;
    }
    if (status == CLI_OK && (bad.whole.verdict == BISECT_REFUSED ||
                             (setup->compile.strict && bad.whole.verdict == BISECT_FAILS))) {
        status = refuse(setup, &bad.whole);
    }
    if (status == CLI_OK && bad.whole.place.is_rounding) {
        bisect_print_steps(&bad.whole.place, out->message, sizeof out->message);
    }
    if (status == CLI_OK && is_bad_verdict(bad.whole.verdict) && !search(&ladder, &bad, out)) {
        status = CLI_FAILED;
    }
    bisect_outcome_free(&ladder.whole);
    bisect_outcome_free(&bad.whole);
    return status;
}
