/* rnn, gru and lstm in ONNX's layout 0: x[T,N,I], w[D,G*H,I], r[D,G*H,H] with G gates (1, 3, 4).
 *
 * A task is a direction and a block of batch rows; it walks all time steps alone, so nothing waits
 * and the result does not depend on the number of threads. Steps are taken in chunks: the inputs of
 * a chunk times w in one matrix product, then step by step the state times r, added to it:
 *
 *     gates[s][rows][G*H] = b + x[t] w^T           a chunk at once
 *     gates[s] += h r^T;  h, c = cell(gates[s])    each step
 *
 * State and gates stay in f64; only what is stored is rounded. The backward direction walks t down
 * from T-1; with lengths, a step at t >= lengths[n] keeps the state of row n and gives 0.
 * Equations: the ONNX texts of RNN, GRU, LSTM; Cho et al., 2014; Hochreiter and Schmidhuber, 1997.
 */
#include "plugins/eager/kernels/ek_gemm.h"

#include <ctype.h>
#include <math.h>

/* The three ops have their common attributes at the same places. */
_Static_assert((int)STATOR_rnn_clip == (int)STATOR_lstm_clip &&
                   (int)STATOR_gru_clip == (int)STATOR_lstm_clip &&
                   (int)STATOR_rnn_hidden == (int)STATOR_lstm_hidden &&
                   (int)STATOR_gru_hidden == (int)STATOR_lstm_hidden,
               "rnn, gru and lstm list hidden to clip alike");

#define BLOCK_ROWS 16   /* batch rows a task */
#define CHUNK_ROWS 256  /* rows of a chunk's product: steps * batch rows */
#define FUNCTIONS_MAX 6 /* activations of both directions */

typedef struct activation {
    double (*fn)(double x, double alpha, double beta);
    double alpha, beta;
} activation;

typedef struct net {
    const ek_call *call;
    int64_t steps, batch, inputs, hidden, gates, directions;
    int64_t columns; /* gates * hidden */
    bool first_is_reverse;
    uint32_t n_functions; /* activations of one direction */
    activation functions[FUNCTIONS_MAX];
    double clip;    /* 0: none */
    bool option;    /* linear_before_reset or input_forget */
    ek_wide *w, *r; /* [D][columns][inputs], [D][columns][hidden] */
    ek_wide *b;     /* [D][columns]: what is added before the loop, zeros without biases */
    ek_wide *rb;    /* [D][hidden]: gru's recurrent bias of the hidden gate, linear_before_reset */
    ek_wide *p;     /* [D][3 * hidden] peepholes or NULL */
    int64_t *lengths; /* [N] or NULL */
    ek_wide *scratch; /* per worker */
    int64_t chunk;    /* steps a chunk */
    int64_t scratch_size;
    int64_t blocks;
} net;

/* One task's state. */
typedef struct cell {
    const net *n;
    const activation *functions;
    const ek_wide *r, *rb, *p;
    int64_t rows;
    ek_wide *x;     /* [chunk * rows][inputs] */
    ek_wide *gates; /* [chunk][rows][columns] */
    ek_wide *h, *c; /* [rows][hidden] */
    ek_wide *fresh; /* [rows][hidden]: the new h */
    ek_wide *spare; /* [rows][hidden] */
} cell;

/* ---- activations ---- */

/* clang-format off */
/* name in lower case, how many of alpha and beta it takes, their defaults (a, b), meaning */
#define ACTIVATIONS(X)                                                                             \
    X(sigmoid, 0, 0, 0, 1.0 / (1.0 + exp(-x)))                                                     \
    X(tanh, 0, 0, 0, tanh(x))                                                                      \
    X(relu, 0, 0, 0, x < 0.0 ? 0.0 : x)                                                            \
    X(affine, 2, 1, 0, a * x + b)                                                                  \
    X(leakyrelu, 1, 0.01, 0, x < 0.0 ? a * x : x)                                                  \
    X(thresholdedrelu, 1, 1, 0, x < a ? 0.0 : x)                                                   \
    X(scaledtanh, 2, 1, 1, a * tanh(b * x))                                                        \
    X(hardsigmoid, 2, 0.2, 0.5, a * x + b < 0.0 ? 0.0 : a * x + b > 1.0 ? 1.0 : a * x + b)         \
    X(elu, 1, 1, 0, x < 0.0 ? a * expm1(x) : x)                                                    \
    X(softsign, 0, 0, 0, x / (1.0 + fabs(x)))                                                      \
    X(softplus, 0, 0, 0, (x < 0.0 ? 0.0 : x) + log1p(exp(-fabs(x))))
#define FUNCTION(name, parameters, alpha, beta, expr)                                              \
    static double a_##name(double x, double a, double b)                                           \
    {                                                                                              \
        (void)a, (void)b;                                                                          \
        return expr;                                                                               \
    }
#define ROW(name, parameters, alpha, beta, expr) {#name, {a_##name, alpha, beta}, parameters},
ACTIVATIONS(FUNCTION)

typedef struct activation_row {
    const char *name;
    activation defaults;
    uint32_t parameters;
} activation_row;

static const activation_row rows_by_name[] = {ACTIVATIONS(ROW)};
/* clang-format on */

static const activation_row *find_row(const char *word, size_t len)
{
    for (size_t i = 0; i < sizeof rows_by_name / sizeof rows_by_name[0]; i++) {
        const char *name = rows_by_name[i].name;
        size_t k = 0;
        while (k < len && tolower((unsigned char)word[k]) == name[k]) {
            k++;
        }
        if (k == len && name[k] == '\0') {
            return &rows_by_name[i];
        }
    }
    return NULL;
}

/* alpha and beta are consumed in order by the functions that take them. */
static stator_status read_functions(net *n, stator_diag **err)
{
    const ek_call *c = n->call;
    const char *text = ek_str(c, STATOR_lstm_activations);
    const char *p = *text != '\0'   ? text
                    : n->gates == 1 ? "tanh,tanh"
                    : n->gates == 3 ? "sigmoid,tanh,sigmoid,tanh"
                                    : "sigmoid,tanh,tanh,sigmoid,tanh,tanh";
    uint32_t n_alpha, n_beta;
    const double *alpha = ek_floats(c, STATOR_lstm_alpha, &n_alpha);
    const double *beta = ek_floats(c, STATOR_lstm_beta, &n_beta);
    uint32_t used_alpha = 0, used_beta = 0;
    n->n_functions = n->gates == 1 ? 1 : n->gates == 3 ? 2 : 3;
    for (uint32_t i = 0; i < n->n_functions * (uint32_t)n->directions; i++) {
        p += strspn(p, ", ");
        const size_t len = strcspn(p, ", ");
        const activation_row *row = find_row(p, len);
        EK_FAIL_IF(row == NULL, c, err, STATOR_INVALID_ARGUMENT,
                   "activation %u of '%.100s' is unknown or missing; there are Sigmoid, "
                   "Tanh, Relu, Affine, LeakyRelu, ThresholdedRelu, ScaledTanh, "
                   "HardSigmoid, Elu, Softsign, Softplus",
                   i, text);
        n->functions[i] = row->defaults;
        if (row->parameters > 0 && used_alpha < n_alpha) {
            n->functions[i].alpha = alpha[used_alpha++];
        }
        if (row->parameters > 1 && used_beta < n_beta) {
            n->functions[i].beta = beta[used_beta++];
        }
        p += len;
    }
    return STATOR_OK;
}

/* Function `which` (f, g, h) of x, clipped before. */
static double activate(const cell *s, uint32_t which, double x)
{
    const activation *a = &s->functions[which];
    const double clip = s->n->clip;
    if (clip > 0.0) {
        x = x > clip ? clip : x < -clip ? -clip : x;
    }
    return a->fn(x, a->alpha, a->beta);
}

/* ---- cells: gates of one step hold b + x w^T; each leaves the new h in `fresh` ---- */

/* to[rows][n] (+)= h[rows][hidden] * (rows `gate` on of r)^T; to has ldc columns. */
static void times_r(const cell *s, const ek_wide *h, int64_t gate, int64_t count, ek_wide *to,
                    int64_t ldc, bool accumulate)
{
    const int64_t hidden = s->n->hidden;
    const ek_matrix_tile product = {.m = s->rows,
                                    .n = count * hidden,
                                    .k = hidden,
                                    .a = h,
                                    .lda = hidden,
                                    .b = s->r + gate * hidden * hidden,
                                    .ldb = hidden,
                                    .c = to,
                                    .ldc = ldc,
                                    .b_transposed = 1,
                                    .accumulate = (uint8_t)accumulate};
    ek_gemm_tile(s->n->call, &product);
}

static void rnn_step(const cell *s, ek_wide *gates)
{
    times_r(s, s->h, 0, 1, gates, s->n->columns, true);
    for (int64_t i = 0; i < s->rows * s->n->hidden; i++) {
        s->fresh[i].f = activate(s, 0, gates[i].f);
    }
}

/* Gates z, r, h. */
static void gru_step(const cell *s, ek_wide *gates)
{
    const int64_t hidden = s->n->hidden;
    const bool after = s->n->option; /* linear_before_reset */
    times_r(s, s->h, 0, 2, gates, s->n->columns, true);
    if (after) {
        times_r(s, s->h, 2, 1, s->spare, hidden, false);
    }
    for (int64_t row = 0; row < s->rows; row++) {
        ek_wide *g = gates + row * s->n->columns;
        for (int64_t j = 0; j < hidden; j++) {
            ek_wide *spare = &s->spare[row * hidden + j];
            const double reset = activate(s, 0, g[hidden + j].f);
            spare->f = reset * (after ? spare->f + s->rb[j].f : s->h[row * hidden + j].f);
        }
    }
    if (!after) {
        times_r(s, s->spare, 2, 1, gates + 2 * hidden, s->n->columns, true);
    }
    for (int64_t row = 0; row < s->rows; row++) {
        const ek_wide *g = gates + row * s->n->columns;
        for (int64_t j = 0; j < hidden; j++) {
            const int64_t i = row * hidden + j;
            const double z = activate(s, 0, g[j].f);
            const double sum = g[2 * hidden + j].f + (after ? s->spare[i].f : 0.0);
            s->fresh[i].f = (1.0 - z) * activate(s, 1, sum) + z * s->h[i].f;
        }
    }
}

/* Gates i, o, f, c; peepholes i, o, f. The new c goes to `spare`. */
static void lstm_step(const cell *s, ek_wide *gates)
{
    const int64_t hidden = s->n->hidden;
    times_r(s, s->h, 0, 4, gates, s->n->columns, true);
    for (int64_t row = 0; row < s->rows; row++) {
        const ek_wide *g = gates + row * s->n->columns;
        for (int64_t j = 0; j < hidden; j++) {
            const int64_t at = row * hidden + j;
            const double c = s->c[at].f;
            const double pi = s->p != NULL ? s->p[j].f * c : 0.0;
            const double pf = s->p != NULL ? s->p[2 * hidden + j].f * c : 0.0;
            const double i = activate(s, 0, g[j].f + pi);
            const double f = s->n->option ? 1.0 - i /* input_forget */
                                          : activate(s, 0, g[2 * hidden + j].f + pf);
            const double fresh = f * c + i * activate(s, 1, g[3 * hidden + j].f);
            const double po = s->p != NULL ? s->p[hidden + j].f * fresh : 0.0;
            const double o = activate(s, 0, g[hidden + j].f + po);
            s->spare[at].f = fresh;
            s->fresh[at].f = o * activate(s, 2, fresh);
        }
    }
}

/* ---- one direction of one block of rows ---- */

/* Takes over the new state and writes y[t] for batch rows from n0. */
static void end_step(const cell *s, int64_t d, int64_t t, int64_t n0)
{
    const net *n = s->n;
    const int64_t hidden = n->hidden;
    const bool is_lstm = n->gates == 4;
    for (int64_t row = 0; row < s->rows; row++) {
        ek_wide *fresh = s->fresh + row * hidden;
        if (n->lengths != NULL && t >= n->lengths[n0 + row]) {
            memset(fresh, 0, (uint64_t)hidden * sizeof *fresh);
        } else {
            memcpy(s->h + row * hidden, fresh, (uint64_t)hidden * sizeof *fresh);
            if (is_lstm) {
                memcpy(s->c + row * hidden, s->spare + row * hidden,
                       (uint64_t)hidden * sizeof *fresh);
            }
        }
        ek_store_wide(&n->call->out[0], ((t * n->directions + d) * n->batch + n0 + row) * hidden,
                      hidden, fresh);
    }
}

static int64_t time_of(const net *n, int64_t d, int64_t step)
{
    return d == 1 || n->first_is_reverse ? n->steps - 1 - step : step;
}

/* b + x w^T of steps [first, first + count). */
static void project(const cell *s, int64_t d, int64_t first, int64_t count, int64_t n0)
{
    const net *n = s->n;
    for (int64_t k = 0; k < count; k++) {
        const int64_t t = time_of(n, d, first + k);
        ek_load_wide(&n->call->in[0], (t * n->batch + n0) * n->inputs, 1, s->rows * n->inputs,
                     s->x + k * s->rows * n->inputs);
    }
    for (int64_t row = 0; row < count * s->rows; row++) {
        memcpy(s->gates + row * n->columns, n->b + d * n->columns,
               (uint64_t)n->columns * sizeof *s->gates);
    }
    const ek_matrix_tile product = {.m = count * s->rows,
                                    .n = n->columns,
                                    .k = n->inputs,
                                    .a = s->x,
                                    .lda = n->inputs > 0 ? n->inputs : 1,
                                    .b = n->w + d * n->columns * n->inputs,
                                    .ldb = n->inputs > 0 ? n->inputs : 1,
                                    .c = s->gates,
                                    .ldc = n->columns,
                                    .b_transposed = 1,
                                    .accumulate = 1};
    ek_gemm_tile(n->call, &product);
}

/* Initial state from operand k, zeros without. */
static void start_state(const cell *s, uint32_t k, int64_t d, int64_t n0, ek_wide *state)
{
    const int64_t hidden = s->n->hidden;
    if (ek_has_in(s->n->call, k)) {
        ek_load_wide(&s->n->call->in[k], (d * s->n->batch + n0) * hidden, 1, s->rows * hidden,
                     state);
    } else {
        memset(state, 0, (uint64_t)(s->rows * hidden) * sizeof *state);
    }
}

static void run_task(void *self, int64_t task, int64_t worker)
{
    const net *n = self;
    const int64_t d = task / n->blocks;
    const int64_t n0 = task % n->blocks * BLOCK_ROWS;
    cell s = {.n = n, .functions = n->functions + d * n->n_functions};
    s.rows = n->batch - n0 < BLOCK_ROWS ? n->batch - n0 : BLOCK_ROWS;
    s.r = n->r + d * n->columns * n->hidden;
    s.rb = n->rb != NULL ? n->rb + d * n->hidden : NULL;
    s.p = n->p != NULL ? n->p + d * 3 * n->hidden : NULL;
    s.h = n->scratch + worker * n->scratch_size;
    s.c = s.h + BLOCK_ROWS * n->hidden;
    s.fresh = s.c + BLOCK_ROWS * n->hidden;
    s.spare = s.fresh + BLOCK_ROWS * n->hidden;
    s.gates = s.spare + BLOCK_ROWS * n->hidden;
    s.x = s.gates + n->chunk * s.rows * n->columns;
    start_state(&s, 5, d, n0, s.h);
    if (n->gates == 4) {
        start_state(&s, 6, d, n0, s.c);
    }
    for (int64_t first = 0; first < n->steps; first += n->chunk) {
        const int64_t count = n->steps - first < n->chunk ? n->steps - first : n->chunk;
        project(&s, d, first, count, n0);
        for (int64_t k = 0; k < count; k++) {
            ek_wide *gates = s.gates + k * s.rows * n->columns;
            if (n->gates == 1) {
                rnn_step(&s, gates);
            } else if (n->gates == 3) {
                gru_step(&s, gates);
            } else {
                lstm_step(&s, gates);
            }
            end_step(&s, d, time_of(n, d, first + k), n0);
        }
    }
    for (uint32_t k = 1; k < n->call->n_out; k++) {
        ek_store_wide(&n->call->out[k], (d * n->batch + n0) * n->hidden, s.rows * n->hidden,
                      k == 1 ? s.h : s.c);
    }
}

/* ---- operands ---- */

/* Operand k, when there, has exactly `count` elements (the infer rule has seen its rank). */
static stator_status check_count(const net *n, uint32_t k, const char *name, int64_t count,
                                 stator_diag **err)
{
    EK_FAIL_IF(ek_has_in(n->call, k) && n->call->in[k].numel != count, n->call, err,
               STATOR_INVALID_ARGUMENT, "operand %s has %lld elements, expected %lld", name,
               (long long)n->call->in[k].numel, (long long)count);
    return STATOR_OK;
}

static stator_status check_operands(const net *n, stator_diag **err)
{
    const int64_t state = n->directions * n->batch * n->hidden;
    ST_TRY(check_count(n, 1, "w", n->directions * n->columns * n->inputs, err));
    ST_TRY(check_count(n, 2, "r", n->directions * n->columns * n->hidden, err));
    ST_TRY(check_count(n, 3, "b", n->directions * 2 * n->columns, err));
    ST_TRY(check_count(n, 4, "lengths", n->batch, err));
    ST_TRY(check_count(n, 5, "h0", state, err));
    if (n->gates == 4) {
        ST_TRY(check_count(n, 6, "c0", state, err));
        ST_TRY(check_count(n, 7, "p", n->directions * 3 * n->hidden, err));
    }
    return STATOR_OK;
}

/* b[D][2 * columns] holds the input biases, then the recurrent ones. */
static stator_status read_biases(net *n, stator_diag **err)
{
    const ek_call *c = n->call;
    const bool keeps_rb = n->gates == 3 && n->option; /* added inside the loop */
    ST_TRY(EK_SCRATCH(c, n->b, n->directions * n->columns, err));
    ST_TRY(EK_SCRATCH(c, n->rb, n->directions * n->hidden, err));
    memset(n->b, 0, (uint64_t)(n->directions * n->columns) * sizeof *n->b);
    memset(n->rb, 0, (uint64_t)(n->directions * n->hidden) * sizeof *n->rb);
    for (int64_t i = 0; i < n->directions * n->columns && ek_has_in(c, 3); i++) {
        const int64_t d = i / n->columns;
        const int64_t j = i % n->columns;
        const double wb = ek_get(&c->in[3], 2 * d * n->columns + j);
        const double rb = ek_get(&c->in[3], (2 * d + 1) * n->columns + j);
        const bool is_kept = keeps_rb && j >= 2 * n->hidden;
        n->b[i].f = is_kept ? wb : wb + rb;
        if (is_kept) {
            n->rb[d * n->hidden + j - 2 * n->hidden].f = rb;
        }
    }
    return STATOR_OK;
}

static stator_status read_operands(net *n, stator_diag **err)
{
    const ek_call *c = n->call;
    ST_TRY(ek_widen(c, &c->in[1], &n->w, err));
    ST_TRY(ek_widen(c, &c->in[2], &n->r, err));
    ST_TRY(read_biases(n, err));
    if (n->gates == 4 && ek_has_in(c, 7)) {
        ST_TRY(ek_widen(c, &c->in[7], &n->p, err));
    }
    if (ek_has_in(c, 4)) {
        ST_TRY(EK_SCRATCH(c, n->lengths, n->batch + 1, err));
        st_load_i64_block(c->in[4].dtype, c->in[4].data, 0, n->batch, n->lengths);
    }
    return STATOR_OK;
}

stator_status ek_recurrent(const ek_call *c, stator_diag **err)
{
    const ek_tensor *x = &c->in[0];
    net n = {.call = c,
             .steps = x->dims[0],
             .batch = x->dims[1],
             .inputs = x->dims[2],
             .hidden = ek_int(c, STATOR_lstm_hidden),
             .gates = c->op == EAGER_OP_rnn   ? 1
                      : c->op == EAGER_OP_gru ? 3
                                              : 4,
             .directions = ek_str_is(c, STATOR_lstm_direction, "bidirectional") ? 2 : 1,
             .first_is_reverse = ek_str_is(c, STATOR_lstm_direction, "reverse"),
             .clip = ek_float(c, STATOR_lstm_clip)};
    n.option = c->op == EAGER_OP_gru    ? ek_int(c, STATOR_gru_linear_before_reset) != 0
               : c->op == EAGER_OP_lstm ? ek_int(c, STATOR_lstm_input_forget) != 0
                                        : false;
    n.columns = n.gates * n.hidden;
    ST_TRY(read_functions(&n, err));
    ST_TRY(check_operands(&n, err));
    if (n.batch == 0) {
        return STATOR_OK;
    }
    ST_TRY(read_operands(&n, err));
    const int64_t rows = n.batch < BLOCK_ROWS ? n.batch : BLOCK_ROWS;
    n.chunk = CHUNK_ROWS / rows < n.steps ? CHUNK_ROWS / rows : n.steps;
    n.blocks = (n.batch + BLOCK_ROWS - 1) / BLOCK_ROWS;
    n.scratch_size = 4 * BLOCK_ROWS * n.hidden + n.chunk * rows * (n.columns + n.inputs);
    const int64_t workers = ek_worker_count(c, n.directions * n.blocks);
    ST_TRY(EK_SCRATCH(c, n.scratch, workers * n.scratch_size, err));
    ek_gemm_prepare(c);
    ek_workers(c, workers, n.directions * n.blocks, run_task, &n);
    return STATOR_OK;
}
