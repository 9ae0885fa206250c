/* Shrinking: fewer outputs, nodes replaced by inputs, smaller symbols, no special numbers; each
 * step is kept when the program still fails. */
#include "gf.h"

typedef int (*fails_fn)(void *self, const gf_program *p);

static int keep_if_fails(gf_program *p, const gf_program *tried, fails_fn fails, void *self)
{
    if (!fails(self, tried)) {
        return 0;
    }
    *p = *tried;
    return 1;
}

static void one_output(gf_program *p, fails_fn fails, void *self)
{
    static gf_program tried; /* large for a stack */
    for (int k = 0; p->n_outputs > 1 && k < p->n_outputs; k++) {
        tried = *p;
        tried.outputs[0] = p->outputs[k];
        tried.n_outputs = 1;
        if (keep_if_fails(p, &tried, fails, self)) {
            return;
        }
    }
}

/* Where one alone does not fail. */
static void fewer_outputs(gf_program *p, fails_fn fails, void *self)
{
    static gf_program tried; /* large for a stack */
    for (int k = p->n_outputs - 1; p->n_outputs > 1 && k >= 0; k--) {
        tried = *p;
        tried.n_outputs--;
        for (int i = k; i < tried.n_outputs; i++) {
            tried.outputs[i] = p->outputs[i + 1];
        }
        (void)keep_if_fails(p, &tried, fails, self);
    }
}

/* An operand takes the output's place: the nodes behind it were not needed. */
static int earlier_output(gf_program *p, fails_fn fails, void *self)
{
    static gf_program tried; /* large for a stack */
    uint8_t live[GF_VALUES];
    gf_live(p, live);
    for (int v = 0; p->n_outputs == 1 && v < p->outputs[0]; v++) {
        if (!live[v] || p->values[v].is_input) {
            continue;
        }
        tried = *p;
        tried.outputs[0] = v;
        if (keep_if_fails(p, &tried, fails, self)) {
            return 1;
        }
    }
    return 0;
}

static int cut_nodes(gf_program *p, fails_fn fails, void *self)
{
    static gf_program tried; /* large for a stack */
    int any = 0;
    for (int v = p->n_values - 1; v >= 0; v--) {
        uint8_t live[GF_VALUES];
        gf_live(p, live);
        if (!live[v] || p->values[v].is_input || v == p->outputs[0]) {
            continue;
        }
        tried = *p;
        tried.values[v].is_input = 1;
        any |= keep_if_fails(p, &tried, fails, self);
    }
    return any;
}

static void smaller_symbols(gf_program *p, fails_fn fails, void *self)
{
    static gf_program tried; /* large for a stack */
    for (int k = 0; k < 2; k++) {
        for (int64_t n = p->lowest[k]; n < p->sizes[k]; n++) {
            tried = *p;
            tried.sizes[k] = n;
            if (keep_if_fails(p, &tried, fails, self)) {
                break;
            }
        }
    }
    tried = *p;
    tried.specials = 0;
    (void)(p->specials && keep_if_fails(p, &tried, fails, self));
}

void gf_shrink(gf_program *p, int (*still_fails)(void *self, const gf_program *p), void *self)
{
    one_output(p, still_fails, self);
    fewer_outputs(p, still_fails, self);
    while (earlier_output(p, still_fails, self)) {
    }
    while (cut_nodes(p, still_fails, self)) {
    }
    smaller_symbols(p, still_fails, self);
}
