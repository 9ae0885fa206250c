/* Operators of sequences; see ox_sequence.h. */
#include "frontends/onnx/ox_sequence.h"

#include <string.h>

#define ELEMENTS_MAX 4096u /* each insertion makes a list of its own */

/* ---- making and reading ---- */

const ox_sequence *ox_sequence_find(const ox_import *im, stator_ref v)
{
    const stator_ref index = v & ~OX_SEQUENCE;
    return (v & OX_SEQUENCE) != 0 && index < im->sequences.count ? im->sequences.data[index] : NULL;
}

static stator_ref keep(ox_node *n, const ox_sequence *s)
{
    ox_sequence *own = ox_alloc(n, 1, sizeof *own);
    const ox_sequence **slot = own != NULL ? st_vec_push(&n->im->mem, &n->im->sequences) : NULL;
    ST_FAIL_BY_IF(ox_fail, slot == NULL, n, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    *own = *s;
    *slot = own;
    return OX_SEQUENCE | (n->im->sequences.count - 1u);
}

/* A list of `count` elements, 0 for those that the caller fills in. */
static stator_ref *new_list(ox_node *n, uint64_t count, ox_sequence *out)
{
    memset(out, 0, sizeof *out);
    if (count > ELEMENTS_MAX) {
        ox_fail(n, STATOR_RESOURCE_EXHAUSTED, "a sequence of more than %u tensors", ELEMENTS_MAX);
        return NULL;
    }
    stator_ref *elements = ox_alloc(n, count + 1u, sizeof *elements);
    out->count = elements != NULL ? (uint32_t)count : 0;
    out->elements = elements;
    return elements;
}

/* Operand k, which must be a sequence; NULL after failing. */
static const ox_sequence *need_sequence(ox_node *n, uint32_t k)
{
    const ox_sequence *s = ox_sequence_find(n->im, ox_need(n, k));
    ox_expect(n, s != NULL, "input %u is a tensor, expected a sequence", k);
    return ox_ok(n) ? s : NULL;
}

/* The same, for what the body of a loop may not do to a sequence that it makes longer. */
static const ox_sequence *need_whole(ox_node *n, uint32_t k)
{
    const ox_sequence *s = need_sequence(n, k);
    if (s != NULL && s->begun != 0) {
        ox_fail(n, STATOR_UNIMPLEMENTED,
                "a sequence that is carried by a loop can only be appended to in its body");
        return NULL;
    }
    return s;
}

static stator_ref need_tensor(ox_node *n, uint32_t k)
{
    const stator_ref v = ox_need(n, k);
    ox_rank(n, v); /* fails for a sequence */
    return v;
}

static stator_ref stack_list(ox_node *n, uint32_t axis, const ox_sequence *s)
{
    stator_ref *rows = ox_alloc(n, s->count + 1u, sizeof *rows);
    for (uint32_t i = 0; ox_ok(n) && i < s->count; i++) {
        rows[i] = ox_unsqueeze(n, s->elements[i], axis);
    }
    return ox_ok(n) ? ox_concat(n, axis, s->count, rows) : 0;
}

stator_ref ox_sequence_stack(ox_node *n, stator_ref sequence)
{
    const ox_sequence *s = ox_sequence_find(n->im, sequence);
    ST_FAIL_BY_IF(ox_fail, s == NULL || s->begun != 0, n, STATOR_UNIMPLEMENTED,
                  "a sequence that is carried by a loop can only be appended to in its body");
    if (s->stack != 0) {
        return s->stack;
    }
    ST_FAIL_BY_IF(ox_fail, s->count == 0, n, STATOR_UNIMPLEMENTED,
                  "a subgraph reads a sequence without elements");
    return stack_list(n, 0, s);
}

stator_ref ox_sequence_of_stack(ox_node *n, stator_ref stack)
{
    return keep(n, &(ox_sequence){.stack = stack});
}

/* ---- loops ---- */

stator_ref ox_sequence_begin(ox_node *n)
{
    const stator_ref own = OX_SEQUENCE | n->im->sequences.count;
    return keep(n, &(ox_sequence){.begun = own});
}

stator_ref ox_sequence_appended(ox_node *n, stator_ref begun, stator_ref made, bool *out_same)
{
    const ox_sequence *s = ox_sequence_find(n->im, made);
    *out_same = false;
    if (s == NULL || s->begun != begun || s->count > 1) {
        return ox_fail(n, STATOR_UNIMPLEMENTED,
                       "its body must append one tensor to a sequence that it carries, or none");
    }
    *out_same = s->count == 0;
    return s->count == 0 ? 0 : s->elements[0];
}

stator_ref ox_sequence_followed(ox_node *n, stator_ref initial, stator_ref stack)
{
    const ox_sequence *s = ox_sequence_find(n->im, initial);
    if (s != NULL && (s->count != 0 || s->stack != 0 || s->begun != 0)) {
        const stator_ref first = ox_sequence_stack(n, initial);
        stack = ox_ok(n) ? ox_concat(n, 0, STATOR_IN(first, stack)) : 0;
    }
    return ox_sequence_of_stack(n, stack);
}

/* ---- operators ---- */

void ox_sequence_empty(ox_node *n)
{
    ox_out(n, 0, keep(n, &(ox_sequence){0}));
}

void ox_sequence_construct(ox_node *n)
{
    ox_sequence s;
    stator_ref *elements = new_list(n, n->in_count, &s);
    for (uint32_t i = 0; elements != NULL && i < n->in_count; i++) {
        elements[i] = ox_need(n, i);
    }
    ox_out(n, 0, keep(n, &s));
}

/* Operand k as a place in [0, count]; `absent` without it. */
static uint32_t place_in(ox_node *n, uint32_t k, uint32_t count, uint32_t absent)
{
    if (ox_in(n, k) == 0) {
        return absent;
    }
    const int64_t given = ox_need_int(n, ox_in(n, k), "the position in the sequence");
    const int64_t place = given < 0 ? given + (int64_t)count : given;
    ox_expect(n, place >= 0 && place <= (int64_t)absent,
              "position %lld is outside a sequence of %u tensors", (long long)given, count);
    return ox_ok(n) ? (uint32_t)place : 0;
}

void ox_sequence_insert(ox_node *n)
{
    const ox_sequence *s = need_sequence(n, 0);
    const stator_ref v = need_tensor(n, 1);
    ox_sequence made;
    if (s != NULL && s->stack != 0 && ox_in(n, 2) == 0) {
        ox_out(n, 0, ox_sequence_followed(n, n->in[0], ox_unsqueeze(n, v, 0)));
        return;
    }
    if (s == NULL || s->stack != 0 || (s->begun != 0 && ox_in(n, 2) != 0)) {
        ox_fail(n, STATOR_UNIMPLEMENTED,
                "tensors can only be appended to a sequence whose length is not known");
        return;
    }
    const uint32_t at = place_in(n, 2, s->count, s->count);
    stator_ref *elements = new_list(n, s->count + (uint64_t)1, &made);
    for (uint32_t i = 0; ox_ok(n) && i <= s->count; i++) {
        elements[i] = i == at ? v : s->elements[i - (i > at)];
    }
    made.begun = s->begun;
    ox_out(n, 0, keep(n, &made));
}

void ox_sequence_erase(ox_node *n)
{
    const ox_sequence *s = need_whole(n, 0);
    ox_sequence made;
    if (s == NULL || s->stack != 0 || s->count == 0) {
        ox_fail(n, STATOR_UNIMPLEMENTED,
                "nothing can be erased from a sequence that is empty or "
                "whose length is not known");
        return;
    }
    const uint32_t at = place_in(n, 1, s->count, s->count - 1u);
    stator_ref *elements = new_list(n, s->count - 1u, &made);
    for (uint32_t i = 0; ox_ok(n) && i + 1u < s->count; i++) {
        elements[i] = s->elements[i + (i >= at)];
    }
    ox_out(n, 0, keep(n, &made));
}

void ox_sequence_at(ox_node *n)
{
    const ox_sequence *s = need_whole(n, 0);
    const stator_ref place = need_tensor(n, 1);
    const int64_t *known;
    uint32_t count;
    if (s == NULL) {
        return;
    }
    if (s->stack == 0 && ox_known_ints(n, place, &count, &known)) {
        const uint32_t last = s->count != 0 ? s->count - 1u : 0;
        const uint32_t at = place_in(n, 1, s->count, last);
        ox_expect(n, s->count != 0, "the sequence has no elements");
        ox_out(n, 0, ox_ok(n) ? s->elements[at] : 0);
        return;
    }
    const stator_ref stack = ox_sequence_stack(n, n->in[0]);
    const stator_ref index = ox_reshape(n, ox_cast(n, place, STATOR_I64), 0, NULL);
    ox_out(n, 0, ox_gather(n, stack, index, 0));
}

void ox_sequence_length(ox_node *n)
{
    const ox_sequence *s = need_whole(n, 0);
    if (s != NULL) {
        ox_out(n, 0, s->stack != 0 ? ox_from_dim(n, ox_dim(n, s->stack, 0)) : ox_int(n, s->count));
    }
}

/* A stack with axis 0 moved to `axis`; unless that is new, it then becomes one with the next. */
static stator_ref lay_out(ox_node *n, stator_ref stack, uint32_t axis, bool is_new)
{
    int64_t perm[STATOR_RANK_MAX];
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_rank(n, stack);
    for (uint32_t i = 0; i < rank; i++) {
        perm[i] = i < axis ? i + 1u : i == axis ? 0 : i;
    }
    const stator_ref moved = axis != 0 ? ox_transpose(n, stack, perm) : stack;
    if (is_new || !ox_ok(n)) {
        return moved;
    }
    ox_dims(n, moved, dims);
    dims[axis] = ox_sym_op(n, STATOR_SYM_MUL, dims[axis], dims[axis + 1u]);
    memmove(dims + axis + 1u, dims + axis + 2u, (rank - axis - 2u) * sizeof dims[0]);
    return ox_reshape(n, moved, rank - 1u, dims);
}

void ox_concat_from_sequence(ox_node *n)
{
    const ox_sequence *s = need_whole(n, 0);
    const bool is_new = ox_attr_int(n, "new_axis", 0) != 0;
    const int64_t given = ox_attr_int_need(n, "axis");
    OX_NEED(n, s != NULL && (s->count != 0 || s->stack != 0), "the sequence has no elements");
    const uint32_t rank = s->stack != 0 ? ox_rank(n, s->stack) - 1u : ox_rank(n, s->elements[0]);
    const uint32_t axis = ox_ok(n) ? ox_axis(n, given, rank + (uint32_t)is_new) : 0;
    if (!ox_ok(n)) {
        return;
    }
    ox_out(n, 0,
           s->stack != 0 ? lay_out(n, s->stack, axis, is_new)
           : is_new      ? stack_list(n, axis, s)
                         : ox_concat(n, axis, s->count, s->elements));
}

/* The body of a SequenceMap over element i of its sequences, in the region around it. */
static void map_element(ox_node *n, const Onnx__GraphProto *g, uint32_t i, ox_sequence *out)
{
    ox_scope scope;
    ox_scope_init(&scope, n->im, n->scope->region, n->scope, n->scope->frame);
    for (uint32_t k = 0; ox_ok(n) && k < n->in_count; k++) {
        const ox_sequence *s = ox_sequence_find(n->im, n->in[k]);
        if (s != NULL && (s->stack != 0 || s->begun != 0 || i >= s->count)) {
            ox_fail(n, STATOR_UNIMPLEMENTED, "input %u is a sequence of another or unknown length",
                    k);
            break;
        }
        ox_scope_bind(&scope, ox_text(g->input[k]->name), s != NULL ? s->elements[i] : n->in[k]);
    }
    ox_graph_constants(&scope, g);
    ox_graph_nodes(&scope, g->n_node, g->node);
    for (uint32_t k = 0; ox_ok(n) && k < n->out_count; k++) {
        stator_ref v = 0;
        ox_expect(n, ox_scope_find(&scope, ox_text(g->output[k]->name), &v),
                  "its body does not make its output %u", k);
        ((stator_ref *)out[k].elements)[i] = v;
    }
    ox_scope_deinit(&scope);
}

/* torch.onnx writes hstack, vstack and dstack with it. */
void ox_sequence_map(ox_node *n)
{
    const ox_sequence *s = need_whole(n, 0);
    const Onnx__GraphProto *g = ox_attr_graph(n, "body");
    ox_sequence *out = ox_alloc(n, n->out_count + 1u, sizeof *out);
    if (s == NULL || out == NULL) {
        return;
    }
    OX_NEED(n, g != NULL && g->n_input == n->in_count && g->n_output == n->out_count,
            "its body does not fit its inputs and outputs");
    if (s->stack != 0) {
        ox_fail(n, STATOR_UNIMPLEMENTED, "the length of the sequence is not known");
        return;
    }
    for (uint32_t k = 0; k < n->out_count; k++) {
        new_list(n, s->count, &out[k]);
    }
    for (uint32_t i = 0; ox_ok(n) && i < s->count; i++) {
        map_element(n, g, i, out);
    }
    for (uint32_t k = 0; ox_ok(n) && k < n->out_count; k++) {
        ox_out(n, k, keep(n, &out[k]));
    }
}

/* ---- SplitToSequence ---- */

/* The slices of size 1 of an axis whose size is not known, as a stack. */
static stator_ref split_stack(ox_node *n, stator_ref x, uint32_t axis, bool keeps)
{
    int64_t perm[STATOR_RANK_MAX];
    const uint32_t rank = ox_rank(n, x);
    for (uint32_t i = 0; i < rank; i++) {
        perm[i] = i == 0 ? axis : i <= axis ? i - 1u : i;
    }
    const stator_ref moved = axis != 0 ? ox_transpose(n, x, perm) : x;
    return ox_sequence_of_stack(n, keeps ? ox_unsqueeze(n, moved, axis + 1u) : moved);
}

/* The sizes of the parts from operand 1 or, without it, 1 each; NULL when nobody knows how many. */
static const stator_ref *part_sizes(ox_node *n, stator_ref size, uint32_t *out_count)
{
    const stator_ref list = ox_in(n, 1);
    int64_t whole, part = 1;
    if (list != 0 && ox_rank(n, list) == 1) {
        return ox_sizes(n, list, out_count, "the sizes of the parts");
    }
    part = list != 0 ? ox_need_int(n, list, "the size of the parts") : 1;
    ox_expect(n, part >= 1, "parts of size %lld", (long long)part);
    if (!ox_ok(n) || !ox_sym_const(n, size, &whole)) {
        if (ox_ok(n) && part != 1) {
            ox_fail(n, STATOR_UNIMPLEMENTED, "the number of parts of size %lld is not known",
                    (long long)part);
        }
        return NULL;
    }
    ox_sequence parts;
    stator_ref *sizes = new_list(n, (uint64_t)(whole / part + (whole % part != 0)), &parts);
    for (uint32_t i = 0; sizes != NULL && i < parts.count; i++) {
        sizes[i] = ox_sym(n, i + 1u == parts.count ? whole - (int64_t)i * part : part);
    }
    *out_count = parts.count;
    return sizes;
}

void ox_split_to_sequence(ox_node *n)
{
    const stator_ref x = ox_need(n, 0);
    const uint32_t axis = ox_axis(n, ox_attr_int(n, "axis", 0), ox_rank(n, x));
    const bool keeps = ox_in(n, 1) != 0 || ox_attr_int(n, "keepdims", 1) != 0;
    uint32_t count = 0;
    ox_sequence s;
    const stator_ref *sizes = ox_ok(n) ? part_sizes(n, ox_dim(n, x, axis), &count) : NULL;
    if (sizes == NULL) {
        ox_out(n, 0, ox_ok(n) ? split_stack(n, x, axis, keeps) : 0);
        return;
    }
    stator_ref *elements = new_list(n, count, &s);
    stator_ref start = ox_sym(n, 0);
    for (uint32_t i = 0; ox_ok(n) && i < count; i++) {
        elements[i] = ox_slice(n, x, axis, start, sizes[i], 1);
        elements[i] = keeps ? elements[i] : ox_squeeze(n, elements[i], axis);
        start = ox_sym_op(n, STATOR_SYM_ADD, start, sizes[i]);
    }
    ox_out(n, 0, keep(n, &s));
}
