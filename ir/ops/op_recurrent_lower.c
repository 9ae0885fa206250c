/* Decompositions of rnn, gru and lstm into one scan a direction.
 *
 *     xw = x w^T + wb                  [T, N, G*H], outside of the loop
 *     scan over t: h[, c] = cell(h[, c], xw[t], r, ...)        y stacks h
 *
 * In: ONNX layout 0 (op_recurrent.c has the shapes). The backward direction scans in reverse and
 * writes its results in reverse, so that y[t] belongs to x[t]. With lengths a step at t >=
 * lengths[n] keeps the state and gives 0. Narrow floats are computed in f32 and cast back once.
 * Equations: the ONNX operator texts RNN, GRU, LSTM; Cho et al., 2014; Hochreiter and Schmidhuber,
 * 1997. */
#include "ir/op_emitter.h"
#include "ir/ops/rules.h"
#include <ctype.h>
#include <stator/ops.h>
#include <string.h>

#define ACTIVATIONS_MAX 6u

typedef struct activation {
    const char *program; /* over v, alpha, beta */
    double alpha, beta;
} activation;

typedef struct activation_row {
    const char *name; /* lower case */
    const char *program;
    uint32_t parameters; /* how many of alpha, beta the function takes */
    double alpha, beta;
} activation_row;

static const activation_row activation_rows[] = {
    {"sigmoid", "sigmoid(v)", 0, 0, 0},
    {"tanh", "tanh(v)", 0, 0, 0},
    {"relu", "relu(v)", 0, 0, 0},
    {"affine", "alpha * v + beta", 2, 1, 0},
    {"leakyrelu", "leaky_relu(v, alpha=alpha)", 1, 0.01, 0},
    {"thresholdedrelu", "thresholded_relu(v, alpha=alpha)", 1, 1, 0},
    {"scaledtanh", "alpha * tanh(beta * v)", 2, 1, 1},
    {"hardsigmoid", "hard_sigmoid(v, alpha=alpha, beta=beta)", 2, 0.2, 0.5},
    {"elu", "elu(v, alpha=alpha)", 1, 1, 0},
    {"softsign", "softsign(v)", 0, 0, 0},
    {"softplus", "softplus(v)", 0, 0, 0},
};

enum { GATES_RNN = 1, GATES_GRU = 3, GATES_LSTM = 4 };

typedef struct net {
    stator_emitter *e;
    const st_decompose_node *node;
    uint32_t gates;       /* gates in the weights: 1, 3 or 4 */
    uint32_t directions;  /* 1 or 2 */
    uint32_t n_functions; /* activations of one direction */
    activation functions[ACTIVATIONS_MAX];
    int64_t hidden;
    double clip;
    stator_ref x, w, r, b, lengths, h0, c0, p;
} net;

/* ---- activations ---- */

static bool same_word(const char *word, size_t len, const char *name)
{
    if (strlen(name) != len) {
        return false;
    }
    for (size_t i = 0; i < len; i++) {
        if (tolower((unsigned char)word[i]) != name[i]) {
            return false;
        }
    }
    return true;
}

static const activation_row *find_activation(const char *word, size_t len)
{
    for (uint32_t i = 0; i < sizeof activation_rows / sizeof activation_rows[0]; i++) {
        if (same_word(word, len, activation_rows[i].name)) {
            return &activation_rows[i];
        }
    }
    return NULL;
}

static const char *default_activations(uint32_t gates)
{
    return gates == GATES_RNN   ? "tanh,tanh"
           : gates == GATES_GRU ? "sigmoid,tanh,sigmoid,tanh"
                                : "sigmoid,tanh,tanh,sigmoid,tanh,tanh";
}

/* alpha and beta are consumed in order by the functions that take them. */
static void read_activations(net *n)
{
    const stator_attr *alpha = &n->node->attrs[STATOR_lstm_alpha];
    const stator_attr *beta = &n->node->attrs[STATOR_lstm_beta];
    const char *p = n->node->attrs[STATOR_lstm_activations].s;
    uint32_t used_alpha = 0, used_beta = 0;
    p = p != NULL && *p != '\0' ? p : default_activations(n->gates);
    for (uint32_t i = 0; i < n->n_functions * n->directions; i++) {
        p += strspn(p, ", ");
        const size_t len = strcspn(p, ", ");
        const activation_row *row = find_activation(p, len);
        if (row == NULL) {
            stator_emit_fail(
                n->e, STATOR_INVALID_ARGUMENT,
                "activation %u is '%.*s', expected one of Sigmoid, Tanh, Relu, Affine, "
                "LeakyRelu, ThresholdedRelu, ScaledTanh, HardSigmoid, Elu, Softsign, "
                "Softplus",
                i, (int)(len < 40 ? len : 40), p);
            return;
        }
        activation *out = &n->functions[i];
        *out = (activation){row->program, row->alpha, row->beta};
        if (row->parameters > 0 && used_alpha < alpha->count) {
            out->alpha = ((const double *)alpha->list)[used_alpha++];
        }
        if (row->parameters > 1 && used_beta < beta->count) {
            out->beta = ((const double *)beta->list)[used_beta++];
        }
        p += len;
    }
}

/* Function `which` (f, g, h) of a direction on v, clipped before. */
static stator_ref activate(const net *n, uint32_t direction, uint32_t which, stator_ref v)
{
    const activation *f = &n->functions[direction * n->n_functions + which];
    const stator_attr attrs[3] = {STATOR_A_FLOAT("alpha", f->alpha),
                                  STATOR_A_FLOAT("beta", f->beta), STATOR_A_FLOAT("clip", n->clip)};
    if (n->clip > 0) {
        v = stator_emit_expr(n->e, "max(min(v, clip), -clip)", "v", 1, &v, 3, attrs);
    }
    return stator_emit_expr(n->e, f->program, "v", 1, &v, 3, attrs);
}

/* ---- cells ---- */

typedef struct cell {
    uint32_t direction;
    stator_ref h, c, xw, t, r, rb, p, lengths; /* region inputs, 0 absent */
    stator_ref new_h, new_c;
} cell;

/* Columns [gate*H, (gate+1)*H) of the last axis. */
static stator_ref gate_of(const net *n, stator_ref v, uint32_t gate)
{
    const stator_attr attrs[2] = {STATOR_A_INT("from", gate * n->hidden),
                                  STATOR_A_INT("n", n->hidden)};
    const char *program = stator_emit_rank(n->e, v) == 1
                              ? "slice(v, starts=[from], sizes=[n], steps=[1])"
                              : "slice(v, starts=[0, from], sizes=[dim(v, 0), n], steps=[1, 1])";
    return stator_emit_expr(n->e, program, "v", 1, &v, 2, attrs);
}

/* Rows [gate*H, (gate+count)*H) of a [G*H, H] matrix. */
static stator_ref rows_of(const net *n, stator_ref r, uint32_t gate, uint32_t count)
{
    return stator_emit_expr(
        n->e, "slice(r, starts=[from, 0], sizes=[n, dim(r, 1)], steps=[1, 1])", "r", 1, &r,
        STATOR_AT(STATOR_A_INT("from", gate * n->hidden), STATOR_A_INT("n", count * n->hidden)));
}

#define TIMES_R "dot_general(h, r, contract_x=[1], contract_y=[1])"

static void rnn_cell(const net *n, cell *c)
{
    const stator_ref v = stator_emit_expr(n->e, "xw + " TIMES_R, "xw,h,r",
                                          STATOR_IN(c->xw, c->h, c->r), STATOR_NONE);
    c->new_h = activate(n, c->direction, 0, v);
}

static void gru_cell(const net *n, cell *c)
{
    const bool after = n->node->attrs[STATOR_gru_linear_before_reset].i != 0;
    const stator_ref zr_in[3] = {gate_of(n, c->xw, 0), c->h, rows_of(n, c->r, 0, 1)};
    const stator_ref r_in[3] = {gate_of(n, c->xw, 1), c->h, rows_of(n, c->r, 1, 1)};
    const stator_ref z =
        activate(n, c->direction, 0,
                 stator_emit_expr(n->e, "xw + " TIMES_R, "xw,h,r", 3, zr_in, STATOR_NONE));
    const stator_ref reset =
        activate(n, c->direction, 0,
                 stator_emit_expr(n->e, "xw + " TIMES_R, "xw,h,r", 3, r_in, STATOR_NONE));
    const stator_ref g_in[5] = {gate_of(n, c->xw, 2), c->h, rows_of(n, c->r, 2, 1), reset, c->rb};
    const char *program = !after ? "xw + dot_general(reset * h, r, contract_x=[1], contract_y=[1])"
                                 : "xw + reset * (has(rb) ? " TIMES_R " + rb : " TIMES_R ")";
    const stator_ref g =
        activate(n, c->direction, 1,
                 stator_emit_expr(n->e, program, "xw,h,r,reset,rb", 5, g_in, STATOR_NONE));
    c->new_h =
        stator_emit_expr(n->e, "(1 - z) * g + z * h", "z,g,h", STATOR_IN(z, g, c->h), STATOR_NONE);
}

/* A gate's argument plus its peephole, when there is one. Peepholes stand in the order i, o, f. */
static stator_ref with_peephole(const net *n, cell *c, stator_ref v, stator_ref state,
                                uint32_t place)
{
    if (c->p == 0) {
        return v;
    }
    return stator_emit_expr(n->e, "v + p * c", "v,c,p",
                            STATOR_IN(v, state, gate_of(n, c->p, place)), STATOR_NONE);
}

static void lstm_cell(const net *n, cell *c)
{
    const stator_ref v = stator_emit_expr(n->e, "xw + " TIMES_R, "xw,h,r",
                                          STATOR_IN(c->xw, c->h, c->r), STATOR_NONE);
    const stator_ref i =
        activate(n, c->direction, 0, with_peephole(n, c, gate_of(n, v, 0), c->c, 0));
    stator_ref f;
    if (n->node->attrs[STATOR_lstm_input_forget].i != 0) {
        f = stator_emit_expr(n->e, "1 - i", "i", 1, &i, STATOR_NONE);
    } else {
        f = activate(n, c->direction, 0, with_peephole(n, c, gate_of(n, v, 2), c->c, 2));
    }
    const stator_ref g = activate(n, c->direction, 1, gate_of(n, v, 3));
    c->new_c =
        stator_emit_expr(n->e, "f * c + i * g", "f,c,i,g", STATOR_IN(f, c->c, i, g), STATOR_NONE);
    const stator_ref o =
        activate(n, c->direction, 0, with_peephole(n, c, gate_of(n, v, 1), c->new_c, 1));
    c->new_h = stator_emit_expr(n->e, "o * a", "o,a",
                                STATOR_IN(o, activate(n, c->direction, 2, c->new_c)), STATOR_NONE);
}

/* ---- the loop of one direction ---- */

typedef struct loop {
    stator_ref values[10];  /* operands of the scan: carried, scanned, captures */
    stator_ref types[10];   /* types of the region's inputs */
    stator_ref *inputs[10]; /* where the region's input goes in the cell */
    uint32_t n, carried, scanned;
} loop;

static void add_value(const net *n, loop *l, stator_ref value, stator_ref *input, bool is_scanned)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = stator_emit_dims(n->e, value, dims);
    if (value != 0) {
        l->values[l->n] = value;
        l->types[l->n] = st_module_type(n->e->b->module, stator_emit_dtype(n->e, value),
                                        rank - is_scanned, dims + is_scanned);
        l->inputs[l->n++] = input;
    }
}

/* Where t >= lengths[n], keeps the old value (or 0 when old is 0). */
static stator_ref masked(const net *n, const cell *c, stator_ref fresh, stator_ref old)
{
    if (c->lengths == 0) {
        return fresh;
    }
    return stator_emit_expr(n->e, "select(unsqueeze(t < lengths, 1), fresh, has(old) ? old : 0)",
                            "t,lengths,fresh,old", STATOR_IN(c->t, c->lengths, fresh, old),
                            STATOR_NONE);
}

static void write_cell(const net *n, const loop *l, cell *c)
{
    const bool is_lstm = n->gates == GATES_LSTM;
    for (uint32_t i = 0; i < l->n; i++) {
        *l->inputs[i] = stator_emit_input(n->e, "", l->types[i]);
    }
    if (n->gates == GATES_RNN) {
        rnn_cell(n, c);
    } else if (n->gates == GATES_GRU) {
        gru_cell(n, c);
    } else {
        lstm_cell(n, c);
    }
    const stator_ref y = masked(n, c, c->new_h, 0);
    c->new_h = masked(n, c, c->new_h, c->h);
    c->new_c = is_lstm ? masked(n, c, c->new_c, c->c) : 0;
    stator_emit_output(n->e, "h", c->new_h);
    if (is_lstm) {
        stator_emit_output(n->e, "c", c->new_c);
    }
    stator_emit_output(n->e, "y", y);
}

/* Part d of an operand with a leading axis of directions, without that axis. */
static stator_ref direction_part(const net *n, stator_ref v, uint32_t d)
{
    return v == 0 ? 0
                  : stator_emit_expr(
                        n->e,
                        "squeeze(slice(v, starts=[d] + repeat(0, rank(v) - 1), sizes=[1] + "
                        "shape(v)[1:], steps=repeat(1, rank(v))), 0)",
                        "v", 1, &v, STATOR_AT(STATOR_A_INT("d", d)));
}

/* x w^T with the biases that can be added before the loop. *out_rb: the recurrent bias of the
 * hidden gate that cannot (gru with linear_before_reset). */
static stator_ref project(const net *n, uint32_t d, stator_ref *out_rb)
{
    const bool keep_rb =
        n->gates == GATES_GRU && n->node->attrs[STATOR_gru_linear_before_reset].i != 0 && n->b != 0;
    const stator_ref b = direction_part(n, n->b, d);
    const stator_ref in[3] = {n->x, direction_part(n, n->w, d), b};
    const stator_attr attrs[2] = {
        STATOR_A_INT("n", n->gates * n->hidden),
        STATOR_A_INT("r", keep_rb ? 2 * n->hidden : n->gates * n->hidden)};
    *out_rb = !keep_rb
                  ? 0
                  : stator_emit_expr(n->e, "slice(b, starts=[n + r], sizes=[n - r], steps=[1])",
                                     "b", 1, &b, 2, attrs);
    return stator_emit_expr(
        n->e,
        "v = dot_general(x, w, contract_x=[2], contract_y=[1]); "
        "wb = has(b) ? slice(b, starts=[0], sizes=[n], steps=[1]) : none; "
        "rb = has(b) ? slice(b, starts=[n], sizes=[r], steps=[1]) : none; "
        "q = has(b) && r < n ? pad(rb, low=[0], high=[n - r]) : rb; has(b) ? v + (wb + q) : v",
        "x,w,b", 3, in, 2, attrs);
}

/* Zeros [N, H] when no initial state is given. */
static stator_ref initial(const net *n, stator_ref given, uint32_t d)
{
    if (given != 0) {
        return direction_part(n, given, d);
    }
    return stator_emit_expand(
        n->e, stator_emit_scalar(n->e, 0, stator_emit_dtype(n->e, n->x)),
        STATOR_IN(stator_emit_dim(n->e, n->x, 1), stator_emit_size(n->e, n->hidden)));
}

static void fill_loop(const net *n, uint32_t d, cell *c, loop *l)
{
    const bool is_lstm = n->gates == GATES_LSTM;
    stator_ref rb = 0, steps = 0;
    const stator_ref xw = project(n, d, &rb);
    if (n->lengths != 0) {
        const stator_ref count = stator_emit_dim(n->e, n->x, 0);
        steps = stator_emit_iota(n->e, stator_emit_dtype(n->e, n->lengths), 1, &count, 0);
    }
    add_value(n, l, initial(n, n->h0, d), &c->h, false);
    add_value(n, l, is_lstm ? initial(n, n->c0, d) : 0, &c->c, false);
    l->carried = l->n;
    add_value(n, l, xw, &c->xw, true);
    add_value(n, l, steps, &c->t, true);
    l->scanned = l->n - l->carried;
    add_value(n, l, direction_part(n, n->r, d), &c->r, false);
    add_value(n, l, rb, &c->rb, false);
    add_value(n, l, is_lstm ? direction_part(n, n->p, d) : 0, &c->p, false);
    add_value(n, l, n->lengths, &c->lengths, false);
}

/* One direction: out receives h, (c,) y. */
static void run_direction(const net *n, uint32_t d, bool reverse, stator_ref out[3])
{
    const int64_t flags[2] = {reverse, reverse};
    cell c = {.direction = d};
    loop l = {.n = 0};
    fill_loop(n, d, &c, &l);
    stator_builder *around = stator_emit_region_begin(n->e, "cell");
    write_cell(n, &l, &c);
    stator_graph *region = stator_emit_region_end(n->e, around);
    stator_emit_node(n->e, "scan", l.n, l.values,
                     STATOR_AT(STATOR_A_INT("carried", l.carried),
                               STATOR_A_INT("scanned", l.scanned), STATOR_A_INT("stacked", 1),
                               STATOR_A_INTS("reverse", l.scanned, flags),
                               STATOR_A_INTS("out_reverse", 1, flags)),
                     1, &region, l.carried + 1u, out);
}

/* Joins the directions along a new axis, in the result's dtype. */
static stator_ref join_directions(const net *n, const stator_ref *parts, int64_t axis)
{
    stator_ref wide[2] = {0, 0};
    for (uint32_t d = 0; d < n->directions; d++) {
        wide[d] = stator_emit_expr(n->e, "unsqueeze(v, axis)", "v", 1, &parts[d],
                                   STATOR_AT(STATOR_A_INT("axis", axis)));
    }
    const stator_ref y = n->directions == 1 ? wide[0]
                                            : stator_emit_op(n->e, "concat", 2, wide,
                                                             STATOR_AT(STATOR_A_INT("axis", axis)));
    return stator_emit_cast(n->e, y, stator_emit_dtype(n->e, n->node->operands[0]));
}

static stator_ref wide_operand(const net *n, uint32_t i)
{
    const stator_ref v = i < n->node->n_operands ? n->node->operands[i] : 0;
    return v ? stator_emit_wide(n->e, v) : 0;
}

static void read_net(net *n)
{
    const stator_attr *attrs = n->node->attrs;
    n->directions = strcmp(attrs[STATOR_lstm_direction].s, "bidirectional") == 0 ? 2 : 1;
    n->n_functions = n->gates == GATES_LSTM ? 3 : n->gates == GATES_GRU ? 2 : 1;
    n->hidden = attrs[STATOR_lstm_hidden].i;
    n->clip = attrs[STATOR_lstm_clip].f;
    n->x = wide_operand(n, 0);
    n->w = wide_operand(n, 1);
    n->r = wide_operand(n, 2);
    n->b = wide_operand(n, 3);
    n->lengths = n->node->n_operands > 4 ? n->node->operands[4] : 0;
    n->h0 = wide_operand(n, 5);
    n->c0 = wide_operand(n, 6);
    n->p = wide_operand(n, 7);
    read_activations(n);
}

static stator_status decompose(stator_builder *b, const st_decompose_node *node, uint32_t gates,
                               stator_ref *out_results, stator_diag **err)
{
    stator_emitter e = st_op_emitter(b, err);
    net n = {.e = &e, .node = node, .gates = gates};
    stator_ref parts[3][2] = {{0, 0}, {0, 0}, {0, 0}}; /* y, h, c of each direction */
    const uint32_t has_c = gates == GATES_LSTM;
    read_net(&n);
    const bool first_is_reverse = strcmp(node->attrs[STATOR_lstm_direction].s, "reverse") == 0;
    for (uint32_t d = 0; d < n.directions; d++) {
        stator_ref out[3] = {0, 0, 0};
        run_direction(&n, d, d == 1 || first_is_reverse, out);
        parts[0][d] = out[1u + has_c];
        parts[1][d] = out[0];
        parts[2][d] = has_c ? out[1] : 0;
    }
    for (uint32_t i = 0; i < node->n_results; i++) {
        out_results[i] = join_directions(&n, parts[i], i == 0 ? 1 : 0);
    }
    return e.status;
}

stator_status st_dec_rnn(stator_builder *b, const st_decompose_node *node, stator_ref *out_results,
                         stator_diag **err)
{
    return decompose(b, node, GATES_RNN, out_results, err);
}

stator_status st_dec_gru(stator_builder *b, const st_decompose_node *node, stator_ref *out_results,
                         stator_diag **err)
{
    return decompose(b, node, GATES_GRU, out_results, err);
}

stator_status st_dec_lstm(stator_builder *b, const st_decompose_node *node, stator_ref *out_results,
                          stator_diag **err)
{
    return decompose(b, node, GATES_LSTM, out_results, err);
}
