/* Infer rule of the recurrent nets rnn, gru and lstm in ONNX's layout 0: x[T,N,I], w[D,G*H,I],
 * r[D,G*H,H] with G gates (1, 3, 4) and D directions. */
#include "ir/ops/rules.h"
#include <stator/ops.h>

typedef struct recurrent_sizes {
    stator_ref t, n, i, d, h;
    int64_t gates;
} recurrent_sizes;

/* Operand k, when there, has exactly these sizes. */
static stator_status has_dims(const st_infer *in, uint32_t k, const stator_ref *dims, uint32_t n)
{
    char name[32];
    if (!st_in_has(in, k)) {
        return STATOR_OK;
    }
    ST_TRY(st_in_rank_is(in, k, n, n));
    for (uint32_t i = 0; i < n; i++) {
        ST_TRY(st_in_same_dim(in, st_in_dim(in, k, i), dims[i], st_in_operand_name(in, k, name)));
    }
    return STATOR_OK;
}

static stator_status check_operands(const st_infer *in, const recurrent_sizes *s)
{
    const stator_ref gates = st_in_op_int(in, STATOR_SYM_MUL, s->h, s->gates);
    const stator_ref w[3] = {s->d, gates, s->i}, r[3] = {s->d, gates, s->h};
    const stator_ref b[2] = {s->d, st_in_op_int(in, STATOR_SYM_MUL, gates, 2)};
    const stator_ref state[3] = {s->d, s->n, s->h};
    const stator_ref p[2] = {s->d, st_in_op_int(in, STATOR_SYM_MUL, s->h, 3)};
    ST_TRY(has_dims(in, 1, w, 3));
    ST_TRY(has_dims(in, 2, r, 3));
    ST_TRY(has_dims(in, 3, b, 2));
    ST_TRY(has_dims(in, 4, &s->n, 1));
    ST_TRY(has_dims(in, 5, state, 3));
    if (s->gates == 4) {
        ST_TRY(has_dims(in, 6, state, 3));
        ST_TRY(has_dims(in, 7, p, 2));
    }
    return STATOR_OK;
}

stator_status st_infer_recurrent(st_infer *in)
{
    const int64_t hidden = st_in_int(in, STATOR_lstm_hidden);
    recurrent_sizes s = {.gates = st_in_is(in, STATOR_OPCODE_lstm)  ? 4
                                  : st_in_is(in, STATOR_OPCODE_gru) ? 3
                                                                    : 1};
    ST_TRY(st_in_class_is(in, 0, 1u << STATOR_CLASS_FLOAT, "a float dtype"));
    ST_TRY(st_in_rank_is(in, 0, 3, 3));
    ST_TRY(st_in_one_of(in, STATOR_lstm_direction, "forward,reverse,bidirectional"));
    for (uint32_t k = 1; k < in->n_operands; k++) {
        ST_TRY(k == 4 ? STATOR_OK : st_in_same_dtype(in, 0, k));
    }
    if (st_in_has(in, 4)) {
        ST_TRY(st_in_index_dtype(in, 4));
    }
    ST_IN_FAIL_IF(hidden < 1, in, "hidden is %lld, expected at least 1", (long long)hidden);
    const bool both = st_in_string_is(in, STATOR_lstm_direction, "bidirectional");
    s.t = st_in_dim(in, 0, 0);
    s.n = st_in_dim(in, 0, 1);
    s.i = st_in_dim(in, 0, 2);
    s.d = st_in_size(in, both ? 2 : 1);
    s.h = st_in_size(in, hidden);
    ST_TRY(check_operands(in, &s));
    const stator_ref y[4] = {s.t, s.d, s.n, s.h};
    ST_TRY(st_in_set(in, 0, st_in_dtype(in, 0), 4, y));
    for (uint32_t k = 1; k < 3; k++) {
        ST_TRY(st_in_set(in, k, st_in_dtype(in, 0), 3, y + 1));
    }
    return STATOR_OK;
}
