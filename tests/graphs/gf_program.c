/* The program as data and as text. */
#include "gf.h"
#include "gf_write.h"

#include "core/base/check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- random numbers: splitmix64 (Steele, Lea and Flood, 2014) ---- */

uint64_t gf_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t gf_random(gf_program *p)
{
    return gf_next(&p->state);
}

int64_t gf_below(gf_program *p, int64_t n)
{
    return n > 0 ? (int64_t)(gf_random(p) % (uint64_t)n) : 0;
}

int gf_chance(gf_program *p, int percent)
{
    return gf_below(p, 100) < percent;
}

/* ---- sizes ---- */

gf_dim gf_const(int64_t n)
{
    return (gf_dim){n, 0, 0};
}

int64_t gf_size(const gf_program *p, gf_dim d)
{
    return d.c + d.a * p->sizes[0] + d.b * p->sizes[1];
}

int64_t gf_numel(const gf_program *p, const gf_value *v)
{
    int64_t n = 1;
    for (int a = 0; a < v->rank; a++) {
        n *= gf_size(p, v->dims[a]);
    }
    return n;
}

int gf_same_dim(gf_dim x, gf_dim y)
{
    return x.c == y.c && x.a == y.a && x.b == y.b;
}

int gf_is_const(gf_dim d, int64_t n)
{
    return gf_same_dim(d, gf_const(n));
}

int gf_has_symbol(gf_dim d)
{
    return d.a != 0 || d.b != 0;
}

void gf_dim_text(gf_dim d, char out[64])
{
    if (!gf_has_symbol(d)) {
        (void)snprintf(out, 64, "%" PRId64, d.c);
        return;
    }
    size_t len = 0;
    out[0] = '\0';
    if (d.a) {
        len += (size_t)snprintf(out, 64, "%" PRId64 "*A", d.a);
    }
    if (d.b) {
        len += (size_t)snprintf(out + len, 64 - len, "%s%" PRId64 "*B", len ? " + " : "", d.b);
    }
    if (d.c) {
        (void)snprintf(out + len, 64 - len, " %c %" PRId64, d.c < 0 ? '-' : '+',
                       d.c < 0 ? -d.c : d.c);
    }
}

/* ---- building ---- */

static int value_add(gf_program *p, uint8_t dtype, int rank, const gf_dim *dims)
{
    if (p->n_values >= GF_GROWN_VALUES || rank > GF_RANK) {
        return -1;
    }
    gf_value *v = &p->values[p->n_values];
    *v = (gf_value){.dtype = dtype, .rank = (uint8_t)rank, .node = -1};
    for (int a = 0; a < rank; a++) {
        v->dims[a] = dims[a];
        if (gf_size(p, dims[a]) < 0) {
            return -1;
        }
    }
    return gf_numel(p, v) <= (p->is_large ? GF_LARGE : GF_NUMEL) ? p->n_values++ : -1;
}

int gf_input(gf_program *p, uint8_t dtype, int rank, const gf_dim *dims)
{
    const int v = value_add(p, dtype, rank, dims);
    if (v >= 0) {
        p->values[v].is_input = 1;
    }
    return v;
}

int gf_index_input(gf_program *p, int rank, const gf_dim *dims, gf_dim below)
{
    const int v = gf_input(p, gf_chance(p, 70) ? STATOR_I64 : STATOR_I32, rank, dims);
    if (v >= 0) {
        p->values[v].is_index = 1;
        p->values[v].below = below;
    }
    return v;
}

gf_node *gf_newest(gf_program *p)
{
    return &p->nodes[p->n_nodes - 1];
}

int gf_node_add(gf_program *p, const char *op, int n_args, const int *args, uint8_t dtype, int rank,
                const gf_dim *dims)
{
    for (int k = 0; k < n_args; k++) {
        if (args[k] < 0 && args[k] != GF_ABSENT) {
            return -1;
        }
    }
    if (p->n_nodes >= GF_GROWN_NODES) {
        return -1;
    }
    const int v = value_add(p, dtype, rank, dims);
    if (v < 0) {
        return -1;
    }
    gf_node *n = &p->nodes[p->n_nodes++];
    *n = (gf_node){.op = op, .n_args = n_args, .first = v, .n_results = 1};
    for (int k = 0; k < n_args; k++) {
        n->args[k] = args[k];
    }
    p->values[v].node = p->n_nodes - 1;
    return v;
}

int gf_result_add(gf_program *p, uint8_t dtype, int rank, const gf_dim *dims)
{
    const int v = value_add(p, dtype, rank, dims);
    if (v >= 0) {
        p->values[v].node = p->n_nodes - 1;
        gf_newest(p)->n_results++;
    }
    return v;
}

int gf_scalar(gf_program *p, uint8_t dtype, double x)
{
    const int v = gf_node_add(p, "constant", 0, NULL, dtype, 0, NULL);
    if (v >= 0) {
        const char *name = st_dtype_name(dtype);
        const int is_bool = dtype == STATOR_BOOL;
        if (is_bool) {
            (void)snprintf(gf_newest(p)->attrs, GF_LONG, "value = bool[] {%s}",
                           x != 0 ? "true" : "false");
        } else {
            (void)snprintf(gf_newest(p)->attrs, GF_LONG, "value = %s[] {%.9g}", name, x);
        }
    }
    return v;
}

/* ---- what the outputs need ---- */

void gf_live(const gf_program *p, uint8_t live[GF_VALUES])
{
    memset(live, 0, GF_VALUES);
    for (int k = 0; k < p->n_outputs; k++) {
        live[p->outputs[k]] = 1;
    }
    for (int n = p->n_nodes - 1; n >= 0; n--) {
        const gf_node *node = &p->nodes[n];
        int is_live = 0;
        for (int k = 0; k < node->n_results; k++) {
            is_live |= live[node->first + k] && !p->values[node->first + k].is_input;
        }
        for (int k = 0; is_live && k < node->n_args; k++) {
            if (node->args[k] >= 0) {
                live[node->args[k]] = 1;
            }
        }
    }
}

static int node_is_live(const gf_program *p, const gf_node *node, const uint8_t *live)
{
    for (int k = 0; k < node->n_results; k++) {
        if (live[node->first + k] && !p->values[node->first + k].is_input) {
            return 1;
        }
    }
    return 0;
}

int gf_inputs(const gf_program *p, int with_noise, int out[GF_INPUTS])
{
    uint8_t live[GF_VALUES];
    int n = 0;
    int has[2] = {0, 0};
    int needs[2] = {0, 0};
    gf_live(p, live);
    for (int v = 0; v < p->n_values; v++) {
        for (int a = 0; live[v] && a < p->values[v].rank; a++) {
            const gf_dim d = p->values[v].dims[a];
            needs[0] |= d.a != 0;
            needs[1] |= d.b != 0;
            has[0] |= p->values[v].is_input && gf_same_dim(d, (gf_dim){0, 1, 0});
            has[1] |= p->values[v].is_input && gf_same_dim(d, (gf_dim){0, 0, 1});
        }
        if (live[v] && p->values[v].is_input) {
            out[n++] = v;
        }
    }
    for (int k = 0; k < p->n_nodes; k++) {
        if (live[p->nodes[k].first]) {
            needs[0] |= strchr(p->nodes[k].attrs, 'A') || strchr(p->nodes[k].body, 'A');
            needs[1] |= strchr(p->nodes[k].attrs, 'B') || strchr(p->nodes[k].body, 'B');
        }
    }
    for (int k = 0; k < 2; k++) {
        if (needs[k] && !has[k]) {
            out[n++] = -GF_WITNESS - k;
        }
    }
    for (int k = 0; with_noise && k < p->n_nodes; k++) {
        n += node_is_live(p, &p->nodes[k], live) ? gf_noise_inputs(p, k, out + n) : 0;
    }
    return n;
}

/* ---- text ---- */

void gf_add(gf_writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const size_t room = GF_TEXT - w->len;
    const int n = vsnprintf(w->out + w->len, room, format, args);
    va_end(args);
    w->len += n > 0 && (size_t)n < room ? (size_t)n : 0;
}

void gf_add_type(gf_writer *w, const gf_value *v)
{
    gf_add(w, "%s[", st_dtype_name(v->dtype));
    for (int a = 0; a < v->rank; a++) {
        char text[64];
        gf_dim_text(v->dims[a], text);
        gf_add(w, "%s%s", a ? ", " : "", text);
    }
    gf_add(w, "]");
}

static void add_input(const gf_program *p, gf_writer *w, int number, int is_first)
{
    gf_add(w, is_first ? "" : ", ");
    if (number == -GF_WITNESS || number == -GF_WITNESS - 1) {
        const char *symbol = number == -GF_WITNESS ? "A" : "B";
        gf_add(w, "%%s%s: bool[%s]", symbol, symbol);
    } else if (number < 0) {
        gf_write_noise_input(p, w, number);
    } else {
        gf_add(w, "%%v%d: ", number);
        gf_add_type(w, &p->values[number]);
    }
}

static void add_results(const gf_program *p, gf_writer *w, int k, int with_noise)
{
    const gf_node *node = &p->nodes[k];
    for (int i = 0; i < node->n_results; i++) {
        const int is_cut = p->values[node->first + i].is_input; /* the text has an input instead */
        const int is_noisy = with_noise && !is_cut && gf_is_noisy_result(p, k, i);
        gf_add(w, "%s%%%s%d", i ? ", " : "",
               is_noisy ? "w"
               : is_cut ? "x"
                        : "v",
               is_noisy ? k + GF_STEP * i : node->first + i);
    }
}

static void add_node(const gf_program *p, gf_writer *w, int k, int with_noise)
{
    const gf_node *node = &p->nodes[k];
    for (int i = 0; with_noise && i < node->n_args; i++) {
        if (gf_is_noisy_operand(p, k, i)) {
            gf_write_noisy_operand(p, w, k, i);
        }
    }
    gf_add(w, "  ");
    add_results(p, w, k, with_noise);
    gf_add(w, " = %s", node->op);
    for (int i = 0; i < node->n_args; i++) {
        gf_add(w, "%s", i ? ", " : "(");
        if (node->args[i] < 0) {
            gf_add(w, "_");
        } else {
            const int renamed = with_noise && gf_is_noisy_operand(p, k, i);
            gf_add(w, "%%%s%d", renamed ? "y" : "v", renamed ? k + GF_STEP * i : node->args[i]);
        }
    }
    gf_add(w, "%s%s%s%s : ", node->n_args ? ")" : "", node->attrs[0] ? " {" : "", node->attrs,
           node->attrs[0] ? "}" : "");
    for (int i = 0; i < node->n_results; i++) {
        gf_add(w, "%s", i ? ", " : "");
        gf_add_type(w, &p->values[node->first + i]);
    }
    gf_add(w, "\n%s", with_noise ? "" : node->body);
    if (with_noise) {
        gf_write_noisy_body(w, node->body);
    }
    for (int i = 0; with_noise && i < node->n_results; i++) {
        if (gf_is_noisy_result(p, k, i) && !p->values[node->first + i].is_input) {
            gf_write_noisy_result(p, w, k, i);
        }
    }
}

int gf_write(const gf_program *p, int with_noise, char out[GF_TEXT])
{
    gf_writer w = {out, 0};
    int inputs[GF_INPUTS];
    uint8_t live[GF_VALUES];
    const int n = gf_inputs(p, with_noise, inputs);
    gf_live(p, live);
    gf_add(&w, "// graph seed=%" PRIu64 " specials=%d A=%" PRId64 " B=%" PRId64 "\n", p->seed,
           p->specials, p->sizes[0], p->sizes[1]);
    for (int i = 0; i < n; i++) {
        const gf_value *v = inputs[i] >= 0 ? &p->values[inputs[i]] : NULL;
        if (v && v->is_index) {
            char text[64];
            gf_dim_text(v->below, text);
            gf_add(&w, "// index v%d below %s\n", inputs[i], text);
        }
    }
    for (int k = 0; k < p->n_nodes; k++) {
        const gf_node *node = &p->nodes[k];
        if (node->folded > 1 && node->folded != GF_FOLDED && node_is_live(p, node, live)) {
            gf_add(&w, "// folded v%d: %" PRId64 "\n", node->first, node->folded);
        }
    }
    gf_add(&w, "stir 1\nsym A in [%" PRId64 ", inf]\nsym B in [%" PRId64 ", inf]\ngraph @main(",
           p->lowest[0], p->lowest[1]);
    for (int i = 0; i < n; i++) {
        add_input(p, &w, inputs[i], i == 0);
    }
    gf_add(&w, ") {\n");
    for (int k = 0; k < p->n_nodes; k++) {
        if (node_is_live(p, &p->nodes[k], live)) {
            add_node(p, &w, k, with_noise);
        }
    }
    gf_add(&w, "  return ");
    for (int k = 0; k < p->n_outputs; k++) {
        gf_add(&w, "%so%d: %%v%d", k ? ", " : "", k, p->outputs[k]);
    }
    gf_add(&w, "\n}\n");
    return w.len < GF_TEXT - 1;
}
