/* The teacher of a training step (Hinton, Vinyals and Dean, 2015): another model's graph, which is
 * copied into the step and whose output the loss compares with what the model computes. Nothing
 * that is trained is read by it, so that it has no backward part.
 *
 *   teacher (%image: f32[B, 4], param %v) { %t = matmul(%image, %v) }
 *   model   (%x: f32[N, 4], param %w)     { %y = matmul(%x, %w) }      gives
 *
 *   (%x: f32[N, 4], param %teacher_v, %lr, %w, ..) { %teacher_t = matmul(%x, %teacher_v)
 *                                                    %y = matmul(%x, %w)
 *                                                    %loss = kl_div(%y, %teacher_t) .. } */
#include "core/base/check.h"
#include "core/base/str.h"
#include "core/train/joint.h"
#include "core/train/train_step.h"

#include <inttypes.h>
#include <string.h>

/* ---- the teacher's graph ---- */

/* A teacher draws no random numbers and writes none of its inputs. It normalises as where a
 * model is used, so that running statistics that it would write have become what they are. */
static stator_status check_inference(const stator_graph *graph, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    for (uint32_t k = 0; k < v->n_write_backs; k++) {
        const stator_write_back_row *row = stator_write_back_at(v, k);
        ST_FAIL_IF(row->value != row->input, err, STATOR_INVALID_ARGUMENT,
                   "it writes its input '%s', and a teacher stays as it is",
                   stator_string_at(v, stator_value_at(v, row->input)->name));
    }
    for (stator_ref node = 1; node <= v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(v, node);
        ST_FAIL_IF((stator_op_at(v, row->op)->flags & STATOR_OP_RANDOM) != 0, err,
                   STATOR_INVALID_ARGUMENT,
                   "node '%s' (%s) computes as in training; load the teacher in its mode for "
                   "inference",
                   st_step_node_name(v, node), stator_op_at(v, row->op)->name);
        for (uint32_t k = 0; k < row->region_count; k++) {
            ST_TRY(check_inference(stator_region_at(v, row, k), err));
        }
    }
    return STATOR_OK;
}

stator_status st_step_open_teacher(st_train_step *s, stator_diag **err)
{
    ST_TRY(check_inference(s->teacher->root, err));
    ST_TRY(st_step_find_read(s->teacher->root, s->options.teacher_output, &s->teacher_read, err));
    return st_linker_init(&s->linker, s->teacher->root, s->module, "teacher_", "teacher: ", err);
}

void st_step_close_teacher(st_train_step *s)
{
    st_free(s->module->mem, s->teacher_alias);
    st_linker_deinit(&s->linker);
    st_module_destroy(s->teacher);
}

/* ---- types ---- */

static const stator_type_row *taught_type(const st_train_step *s, stator_ref value)
{
    return stator_value_type(st_graph_view(s->teacher->root), value);
}

static const char *taught_name(const st_train_step *s, stator_ref value)
{
    const stator_graph_view *v = st_graph_view(s->teacher->root);
    return stator_string_at(v, stator_value_at(v, value)->name);
}

/* Values of the model and of the teacher that are to have one type, and their names. */
typedef struct value_pair {
    stator_ref mine, taught;
    const char *my_name, *taught_name;
} value_pair;

/* "WHAT, 'x', is f32[N, 3], and of the teacher it is 'image', f32[B, 4]" */
static stator_status fail_types(const st_train_step *s, const char *what, const value_pair *pair,
                                stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(s->teacher->root);
    st_str a, b;
    st_str_init(&a, s->module->mem);
    st_str_init(&b, s->module->mem);
    st_module_print_type(s->module, stator_value_at(s->v, pair->mine)->type, &a);
    st_module_print_type(s->teacher, stator_value_at(v, pair->taught)->type, &b);
    const bool ok = st_str_ok(&a) && st_str_ok(&b);
    const stator_status status =
        ok ? st_fail(err, STATOR_INVALID_ARGUMENT,
                     "%s, '%s', is %s, and of the teacher it is '%s', %s", what, pair->my_name,
                     a.data, pair->taught_name, b.data)
           : st_fail_oom(err);
    st_str_deinit(&a);
    st_str_deinit(&b);
    return status;
}

/* ---- inputs ---- */

static bool is_data(const stator_graph_view *v, stator_ref input)
{
    return (stator_value_at(v, input)->flags & STATOR_VALUE_PARAM) == 0;
}

/* Input number k of those that are no parameters; 0: there is none. */
static stator_ref data_at(const stator_graph_view *v, uint32_t k)
{
    for (stator_ref i = 1; i <= v->n_inputs; i++) {
        if (is_data(v, i) && k-- == 0) {
            return i;
        }
    }
    return 0;
}

static stator_ref data_of_name(const stator_graph_view *v, const char *name)
{
    for (stator_ref i = 1; i <= v->n_inputs; i++) {
        if (is_data(v, i) && strcmp(stator_string_at(v, stator_value_at(v, i)->name), name) == 0) {
            return i;
        }
    }
    return 0;
}

static uint32_t count_data(const stator_graph_view *v)
{
    uint32_t n = 0;
    while (data_at(v, n) != 0) {
        n++;
    }
    return n;
}

/* A size of the teacher's that is a symbol is the model's size, which has to be one of its
 * range. */
static stator_status bind_size(st_train_step *s, uint32_t atom, stator_ref size, const char *input,
                               stator_diag **err)
{
    const stator_atom_row *row = st_atom_at(&s->teacher->symtab, atom);
    int64_t lo = 0, hi = 0;
    if (st_map_get(&s->linker.sizes.values, atom) != 0) {
        return STATOR_OK;
    }
    st_sym_range(&s->module->symtab, size, &lo, &hi);
    const int64_t divisor = st_sym_divisor(&s->module->symtab, size);
    ST_FAIL_IF(lo < row->lo || hi > row->hi, err, STATOR_INVALID_ARGUMENT,
               "the teacher's size '%s' lies in [%" PRId64 ", %" PRId64
               "], and that of the model's input '%s' lies in [%" PRId64 ", %" PRId64 "]",
               st_module_str(s->teacher, row->name), row->lo, row->hi, input, lo, hi);
    ST_FAIL_IF(divisor % row->divisor != 0, err, STATOR_INVALID_ARGUMENT,
               "the teacher's size '%s' is a multiple of %" PRId64
               ", and that of the model's input '%s' is not",
               st_module_str(s->teacher, row->name), row->divisor, input);
    ST_TRY_MEM(st_binding_set(&s->linker.sizes, atom, size), err);
    return STATOR_OK;
}

static stator_status fail_input(const st_train_step *s, stator_ref mine, stator_ref taught,
                                stator_diag **err)
{
    const value_pair pair = {mine, taught, st_step_value_name(s, mine), taught_name(s, taught)};
    return fail_types(s, "an input of the model", &pair, err);
}

/* The teacher's input is the model's. */
static stator_status match_input(st_train_step *s, stator_ref mine, stator_ref taught,
                                 stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(s->teacher->root);
    const stator_type_row *a = stator_value_type(s->v, mine), *b = taught_type(s, taught);
    if (a->dtype != b->dtype || a->rank != b->rank) {
        return fail_input(s, mine, taught, err);
    }
    for (uint32_t axis = 0; axis < a->rank; axis++) {
        const uint32_t atom = st_sym_as_symbol(&s->teacher->symtab, stator_dim_at(v, b, axis));
        if (atom != 0) {
            ST_TRY(
                bind_size(s, atom, stator_dim_at(s->v, a, axis), st_step_value_name(s, mine), err));
        }
    }
    /* Until the model's inputs are those of the step, the map has their places in the model. */
    s->linker.map[taught] = mine;
    return STATOR_OK;
}

static stator_status match_inputs(st_train_step *s, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(s->teacher->root);
    const uint32_t n = count_data(v), n_mine = count_data(s->v);
    uint32_t n_named = 0;
    for (uint32_t k = 0; k < n; k++) {
        n_named += data_of_name(s->v, taught_name(s, data_at(v, k))) != 0;
    }
    ST_FAIL_IF(n_named == 0 && n != n_mine, err, STATOR_INVALID_ARGUMENT,
               "the model has %u input%s and the teacher %u, and no name is of both", n_mine,
               n_mine == 1 ? "" : "s", n);
    for (uint32_t k = 0; k < n; k++) {
        const stator_ref taught = data_at(v, k);
        const char *name = taught_name(s, taught);
        const stator_ref mine = n_named != 0 ? data_of_name(s->v, name) : data_at(s->v, k);
        ST_FAIL_IF(mine == 0, err, STATOR_INVALID_ARGUMENT,
                   "the teacher's input '%s' is none of the model's, which has '%s'", name,
                   st_step_value_name(s, data_at(s->v, 0)));
        ST_TRY(match_input(s, mine, taught, err));
    }
    return STATOR_OK;
}

/* Are the sizes of two types equal, in those of the step? */
static bool is_same_shape(st_train_step *s, stator_ref mine, stator_ref taught)
{
    const stator_graph_view *v = st_graph_view(s->teacher->root);
    const stator_type_row *a = stator_value_type(s->v, mine), *b = taught_type(s, taught);
    bool is_same = a->rank == b->rank;
    for (uint32_t axis = 0; is_same && axis < a->rank; axis++) {
        const stator_ref size = st_binding_sym(&s->linker.sizes, stator_dim_at(v, b, axis));
        is_same = !s->linker.sizes.failed &&
                  st_sym_eq(&s->module->symtab, stator_dim_at(s->v, a, axis), size) == ST_PROVED;
    }
    return is_same;
}

/* What the loss compares: floats of one shape. */
static stator_status match_read(st_train_step *s, stator_diag **err)
{
    const stator_train_options *o = &s->options;
    const stator_dtype dtype = taught_type(s, s->teacher_read)->dtype;
    char made[2][24];
    const value_pair pair = {
        s->read, s->teacher_read,
        o->output != NULL ? o->output : st_joint_output_name(s->v, 0, made[0]),
        o->teacher_output != NULL
            ? o->teacher_output
            : st_joint_output_name(st_graph_view(s->teacher->root), 0, made[1])};
    ST_FAIL_IF(st_dtype_class(dtype) != STATOR_CLASS_FLOAT, err, STATOR_INVALID_ARGUMENT,
               "output '%s' of the teacher is %s, and a loss compares values of a float dtype",
               pair.taught_name, st_dtype_name(dtype));
    return is_same_shape(s, s->read, s->teacher_read)
               ? (stator_status)STATOR_OK
               : fail_types(s, "what the loss compares", &pair, err);
}

stator_status st_step_match_teacher(st_train_step *s, stator_diag **err)
{
    if (s->teacher == NULL) {
        return STATOR_OK;
    }
    const stator_graph_view *v = st_graph_view(s->teacher->root);
    ST_TRY(match_inputs(s, err));
    ST_TRY(st_linker_add_symbols(&s->linker, err));
    for (stator_ref i = 1; i <= v->n_inputs; i++) {
        if (is_data(v, i) && !is_same_shape(s, s->linker.map[i], i)) {
            return fail_input(s, s->linker.map[i], i, err);
        }
    }
    return match_read(s, err);
}

/* ---- the step ---- */

void st_step_add_teacher_params(st_train_step *s)
{
    for (stator_ref i = 1;
         s->teacher != NULL && s->e.status == STATOR_OK && i <= s->teacher->root->n_inputs; i++) {
        if (is_data(st_graph_view(s->teacher->root), i)) {
            s->linker.map[i] = s->map[s->linker.map[i]];
            continue;
        }
        const char *name = st_step_free_name(s, "teacher_", taught_name(s, i));
        stator_emit_check(&s->e, st_linker_add_param(&s->linker, s->e.b, i, name, s->e.err));
    }
}

void st_step_add_teacher_nodes(st_train_step *s)
{
    if (s->teacher != NULL && s->e.status == STATOR_OK) {
        stator_emit_check(&s->e, st_linker_add_nodes(&s->linker, s->e.b, s->e.err));
    }
}
