/* The joint graph of a program, as a program: what comes behind it judges, shrinks and keeps it
 * like any other.
 *
 *     gf_program -> text -> model -> stator_model_differentiate, twice at times -> text ->
 * gf_program
 *
 * The text of a joint model has names of its own, origins and sizes as Stator writes them. Here it
 * becomes the text that gf_read takes: values are numbered, those of the program as before, so that
 * its inputs are filled as before. A program of many nodes, or whose sizes are no sums of A and B,
 * has no joint program. */
#define _GNU_SOURCE
#include "gf.h"
#include "gf_write.h"

#include <inttypes.h>
#include <math.h>
#include <stator/inspect.h>
#include <stator/train.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAME_BYTES 64
#define SECOND_ORDER_PERCENT 20
#define ONE_LOSS_PERCENT 40
#define WANTED_PERCENT 70 /* of the inputs that may be differentiated by */

static int is_float(uint8_t dtype)
{
    return dtype >= STATOR_BF16 && dtype <= STATOR_F64;
}

/* ---- models ---- */

/* What is asked for, in names of the model. */
typedef struct wanted {
    char names[GF_VALUES][16];
    const char *list[GF_VALUES];
    uint32_t n;
    char loss[16]; /* "": all outputs, with tangents */
} wanted;

/* Some inputs by name, at least one; and one of the outputs, or all. 0: the program has no
 * floats to differentiate. */
static int choose(gf_program *p, wanted *out)
{
    uint8_t live[GF_VALUES];
    int floats[GF_OUTPUTS];
    int n = 0;
    int last = -1;
    gf_live(p, live);
    out->n = 0;
    out->loss[0] = '\0';
    for (int v = 0; v < p->n_values; v++) {
        const gf_value *at = &p->values[v];
        if (!live[v] || !at->is_input || !is_float(at->dtype)) {
            continue;
        }
        last = v;
        if (gf_chance(p, WANTED_PERCENT)) {
            (void)snprintf(out->names[out->n++], sizeof out->names[0], "v%d", v);
        }
    }
    if (last >= 0 && out->n == 0) {
        (void)snprintf(out->names[out->n++], sizeof out->names[0], "v%d", last);
    }
    for (uint32_t i = 0; i < out->n; i++) {
        out->list[i] = out->names[i];
    }
    for (int k = 0; k < p->n_outputs; k++) {
        if (is_float(p->values[p->outputs[k]].dtype)) {
            floats[n++] = k;
        }
    }
    if (n > 0 && gf_chance(p, ONE_LOSS_PERCENT)) {
        (void)snprintf(out->loss, sizeof out->loss, "o%d", floats[gf_below(p, n)]);
    }
    return out->n > 0 && n > 0;
}

static stator_status differentiate(const stator_model *model, const wanted *w, stator_model **out)
{
    const stator_differentiate_options options = {.struct_size = sizeof options,
                                                  .loss = w->loss[0] ? w->loss : NULL,
                                                  .names = w->list,
                                                  .name_count = w->n};
    return stator_model_differentiate(model, &options, out);
}

/* The model's text, by way of a file, beside which large constants lie. */
static int text_of(stator_ctx *ctx, const stator_model *model, char out[GF_TEXT], char why[512])
{
    char folder[] = "/tmp/graph_fuzz_XXXXXX";
    char path[64];
    char blob[64];
    size_t length = 0;
    if (mkdtemp(folder) == NULL) {
        (void)snprintf(why, 512, "no folder for the joint graph");
        return 0;
    }
    (void)snprintf(path, sizeof path, "%s/joint.stir", folder);
    (void)snprintf(blob, sizeof blob, "%s/joint.blob", folder);
    if (stator_x_model_write(model, path) != STATOR_OK) {
        (void)snprintf(why, 512, "write: %s", stator_ctx_error_text(ctx));
    } else {
        FILE *in = fopen(path, "r");
        length = in ? fread(out, 1, GF_TEXT - 1, in) : 0;
        (void)(in && fclose(in));
        (void)snprintf(why, 512, "the joint graph is too large");
    }
    out[length] = '\0';
    (void)unlink(path);
    (void)unlink(blob);
    (void)rmdir(folder);
    return length > 0 && length < GF_TEXT - 1;
}

/* ---- text: from Stator's to gf_read's ---- */

typedef struct numbering {
    const char *at;
    gf_writer w;
    char (*names)[NAME_BYTES]; /* of values past those of the program, by number */
    int first, n;
    int ok;
} numbering;

/* The program's own number of a value that has a name of its; -1: none. */
static int own_number(const numbering *t, const char *name, size_t length)
{
    char *end = NULL;
    const int64_t own = name[0] == 'v' && length > 1 ? strtoll(name + 1, &end, 10) : -1;
    return end == name + length && own >= 0 && own < t->first ? (int)own : -1;
}

static int new_number(numbering *t, const char *name, size_t length)
{
    t->ok = t->ok && length < NAME_BYTES && t->first + t->n < GF_VALUES;
    if (t->ok) {
        memcpy(t->names[t->n], name, length);
        t->names[t->n++][length] = '\0';
    }
    return t->first + t->n - 1;
}

/* The number of a value: one that it was given, or of the program its own. */
static int number_of(numbering *t, const char *name, size_t length)
{
    for (int i = 0; i < t->n; i++) {
        if (strlen(t->names[i]) == length && strncmp(t->names[i], name, length) == 0) {
            return t->first + i;
        }
    }
    const int own = own_number(t, name, length);
    return own >= 0 ? own : new_number(t, name, length);
}

/* The end of a name, of letters, digits and underscores. */
static const char *name_end(const char *at)
{
    return at + strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

/* A stretch of text, its values numbered; witnesses of symbols keep their names. */
static void add_numbered(numbering *t, const char *from, const char *end)
{
    while (from < end) {
        const char *value = memchr(from, '%', (size_t)(end - from));
        const char *stop = value ? value : end;
        gf_add(&t->w, "%.*s", (int)(stop - from), from);
        from = stop;
        if (value) {
            from = name_end(value + 1);
            if (value[1] == 's' && (value[2] == 'A' || value[2] == 'B')) {
                gf_add(&t->w, "%.*s", (int)(from - value), value);
            } else {
                gf_add(&t->w, "%%v%d", number_of(t, value + 1, (size_t)(from - value - 1)));
            }
        }
    }
}

/* Results of a node are neighbours. Where some of them are not the program's (what a scan
 * stacked along another axis is a transpose of what it stacks along the first one), all have new
 * numbers. */
static void number_results(numbering *t, const char *line, const char *end)
{
    const char *names[GF_RESULTS];
    size_t lengths[GF_RESULTS];
    int n = 0;
    int are_own = 1;
    for (const char *at = line; at < end && *at != '='; at++) {
        if (*at == '%' && n < GF_RESULTS) {
            names[n] = at + 1;
            lengths[n] = (size_t)(name_end(at + 1) - at - 1);
            are_own = are_own && own_number(t, names[n], lengths[n]) >= 0;
            n++;
        }
    }
    for (int i = 0; !are_own && n > 1 && i < n; i++) {
        (void)new_number(t, names[i], lengths[i]);
    }
}

/* The end of a line without what it says of its origin: ` @"name":op`. */
static const char *without_origin(const char *line, const char *end)
{
    for (const char *at = end - 3; at > line; at--) {
        if (at[0] == ' ' && at[1] == '@' && at[2] == '"') {
            return at;
        }
    }
    return end;
}

/* Inputs, which stand on lines of their own where they are many. */
static void add_inputs(numbering *t)
{
    const char *end = strstr(t->at, ") {\n");
    gf_add(&t->w, "graph @main(");
    t->ok = end != NULL;
    t->at = strchr(t->at, '(');
    for (t->at += t->ok; t->ok && t->at < end;) {
        t->at += strspn(t->at, " \n");
        const char *stop = t->at + strcspn(t->at, "\n");
        stop = stop < end ? stop : end;
        add_numbered(t, t->at, stop);
        gf_add(&t->w, stop > t->at && stop[-1] == ',' ? " " : "");
        t->at = stop;
    }
    gf_add(&t->w, ") {\n");
    t->at = t->ok ? end + 4 : t->at;
}

/* `return o0: %v1, grad_v0: %v7`: outputs are numbered. */
static void add_outputs(numbering *t)
{
    int n = 0;
    gf_add(&t->w, "  return ");
    for (const char *at = strchr(t->at, '%'); t->ok && at; at = strchr(at, '%')) {
        const char *end = name_end(at + 1);
        gf_add(&t->w, "%so%d: ", n ? ", " : "", n);
        add_numbered(t, at, end);
        n++;
        at = end;
    }
    t->ok = t->ok && n <= GF_OUTPUTS;
    gf_add(&t->w, "\n}\n");
}

/* The joint text in gf_read's form, with what it cannot say of the program's own values. */
static int renumber(const gf_program *p, const char *joint, char out[GF_TEXT])
{
    static char names[GF_VALUES][NAME_BYTES];
    numbering t = {.w = {out, 0}, .names = names, .first = p->n_values, .ok = 1};
    gf_add(&t.w, "// graph seed=%" PRIu64 " specials=%d A=%" PRId64 " B=%" PRId64 "\n", p->seed,
           p->specials, p->sizes[0], p->sizes[1]);
    gf_add(&t.w, "stir 1\nsym A in [%" PRId64 ", inf]\nsym B in [%" PRId64 ", inf]\n", p->lowest[0],
           p->lowest[1]);
    t.at = strstr(joint, "graph @");
    t.ok = t.at != NULL;
    if (t.ok) {
        add_inputs(&t);
    }
    while (t.ok && strncmp(t.at, "  return", 8) != 0) {
        const char *end = t.at + strcspn(t.at, "\n");
        const char *stop = without_origin(t.at, end);
        t.ok = *end == '\n';
        if (strncmp(t.at, "    ", 4) == 0) { /* a region sees its own values alone */
            gf_add(&t.w, "%.*s", (int)(stop - t.at), t.at);
        } else {
            number_results(&t, t.at, stop);
            add_numbered(&t, t.at, stop);
        }
        gf_add(&t.w, "\n");
        t.at = end + 1;
    }
    if (t.ok) {
        add_outputs(&t);
    }
    return t.ok && t.w.len < GF_TEXT - 1;
}

/* ---- the program ---- */

/* How many elements meet in one of a node's: of a contraction the root of what its operands have
 * more than its result. */
static int64_t folded_in(const gf_program *p, const gf_node *node)
{
    const double made = (double)gf_numel(p, &p->values[node->first]);
    const int x = node->n_args > 0 ? node->args[0] : GF_ABSENT;
    const int y = node->n_args > 1 ? node->args[1] : GF_ABSENT;
    const double left = x >= 0 ? (double)gf_numel(p, &p->values[x]) : 1;
    const double right = y >= 0 ? (double)gf_numel(p, &p->values[y]) : 1;
    const double ratio = left * right / (made > 0 ? made : 1);
    return 1 + (int64_t)fmin(y >= 0 ? sqrt(ratio) : ratio, GF_NUMEL);
}

/* What the program says of its own nodes holds in the joint one: large constants, and how results
 * are rounded. */
static void carry_over(const gf_program *p, gf_program *joint)
{
    for (int v = 0; v < p->n_values; v++) {
        joint->values[v].is_index = p->values[v].is_index;
        joint->values[v].below = p->values[v].below;
    }
    for (int k = 0; k < joint->n_nodes; k++) {
        gf_node *node = &joint->nodes[k];
        const int made_by = node->first < p->n_values ? p->values[node->first].node : -1;
        if (made_by >= 0 && strcmp(p->nodes[made_by].op, node->op) == 0) {
            if (strcmp(node->op, "constant") == 0) { /* others may have been given another form */
                memcpy(node->attrs, p->nodes[made_by].attrs, sizeof node->attrs);
            }
            node->folded = p->nodes[made_by].folded;
        } else {
            node->folded = node->noise == GF_EXACT ? 0 : folded_in(joint, node);
        }
    }
}

/* A joint graph of first order, then of that one where there is a second. */
static stator_status joint_model(const stator_model *model, gf_program *p, const wanted *w,
                                 stator_model **out)
{
    stator_model *first = NULL;
    const int is_twice = gf_chance(p, SECOND_ORDER_PERCENT);
    const stator_status status = differentiate(model, w, &first);
    if (status == STATOR_OK && is_twice) {
        static wanted second;
        second = *w;
        for (uint32_t i = 0; i < w->n; i++) {
            second.list[i] = second.names[i];
        }
        (void)snprintf(second.loss, sizeof second.loss, "grad_%.8s", w->names[0]);
        if (differentiate(first, &second, out) == STATOR_OK) {
            stator_model_destroy(first);
            return STATOR_OK;
        }
    }
    *out = first;
    return status;
}

/* 1: out is the joint program. */
static int read_joint(stator_ctx *ctx, const gf_program *p, const stator_model *joint,
                      gf_program *out, char why[512])
{
    static char theirs[GF_TEXT];
    static char ours[GF_TEXT];
    if (!text_of(ctx, joint, theirs, why)) {
        return 0;
    }
    (void)snprintf(why, 512, "the joint graph is too large, or has sizes of another kind");
    if (!renumber(p, theirs, ours) || !gf_read(ours, out)) {
        return 0;
    }
    carry_over(p, out);
    return 1;
}

int gf_differentiate(stator_ctx *ctx, gf_program *p, char why[512])
{
    static gf_program joint;
    static wanted w;
    static char text[GF_TEXT];
    stator_model *model = NULL;
    stator_model *made = NULL;
    (void)snprintf(why, 512, "no floats");
    p->specials = 0; /* what an infinite operand of a backward node does is nobody's business */
    int answer = choose(p, &w) && gf_write(p, 0, text) ? 1 : 0;
    if (answer == 1 &&
        stator_model_load_bytes(ctx, text, strlen(text), "graph.stir", NULL, &model) != STATOR_OK) {
        answer = 0; /* gf_judge says so too */
    }
    if (answer == 1) {
        const stator_status status = joint_model(model, p, &w, &made);
        const int is_refusal = status == STATOR_UNSUPPORTED || status == STATOR_INVALID_ARGUMENT;
        answer = status == STATOR_OK ? 1 : is_refusal ? 0 : -1;
        (void)snprintf(why, 512, "differentiate: %s", stator_ctx_error_text(ctx));
    }
    if (answer == 1) {
        answer = read_joint(ctx, p, made, &joint, why);
    }
    if (answer == 1) {
        *p = joint;
    }
    stator_model_destroy(made);
    stator_model_destroy(model);
    return answer;
}
