/* A whole model: unpack within a budget, look it over, declare inputs and initialisers, translate
 * the nodes, declare the outputs.
 *
 * Initialisers become parameters (inputs with a default), except short integer lists: those are
 * shapes, axes and indices, which the import reads, so they are constants. A graph input whose
 * value the host knows keeps its place, but its users read a constant of that value. */
#include "frontends/onnx/ox_model.h"
#include "frontends/onnx/ox_facts.h"
#include "frontends/onnx/ox_import.h"

#include <stdio.h>
#include <string.h>

#define SYMBOL_MAX ((int64_t)1 << 40) /* largest value of a symbolic size */
#define CONSTANT_MAX 64u              /* elements of an integer initialiser that is a constant */
#define VALUE_MAX 4096u               /* elements of an input value that replaces the input */

/* ---- unpacking ---- */

/* An unpacked message is at most about 40 times its bytes (empty nodes are the worst case). */
static uint64_t budget_for(const ox_import *im)
{
    const int64_t given = im->options != NULL ? im->host->opt->get_i64(im->options, "budget") : 0;
    return given > 0 ? (uint64_t)given : ((uint64_t)16 << 20) + im->wire.size * 64u;
}

static stator_status unpack(ox_import *im)
{
    uint64_t at = 0;
    const ox_wire_schema schema = {.root = &onnx__model_proto__descriptor,
                                   .tensor = &onnx__tensor_proto__descriptor,
                                   .raw_data_field = 9};
    const char *problem =
        ox_wire_reduce(&im->mem, im->source->bytes, im->source->size, &schema, &im->wire, &at);
    OX_FAIL_IF(problem != NULL && strcmp(problem, "out of memory") == 0, im,
               STATOR_RESOURCE_EXHAUSTED, "out of memory");
    OX_FAIL_IF(problem != NULL, im, STATOR_DATA_LOSS,
               "'%s' is not a whole ONNX file: at byte %llu %s", im->file, (unsigned long long)at,
               problem);
    st_mem_init_host(&im->pb_mem, im->host, budget_for(im));
    ProtobufCAllocator allocator = ox_import_allocator(im);
    static const uint8_t nothing[1] = {0};
    im->model = onnx__model_proto__unpack(&allocator, im->wire.size,
                                          im->wire.data != NULL ? im->wire.data : nothing);
    OX_FAIL_IF(im->model == NULL && im->pb_refused, im, STATOR_RESOURCE_EXHAUSTED,
               "unpacking '%s' runs out of memory, or needs more than the budget of "
               "%llu MiB (option 'budget')",
               im->file, (unsigned long long)(budget_for(im) >> 20));
    OX_FAIL_IF(im->model == NULL, im, STATOR_DATA_LOSS, "'%s' is not an ONNX model", im->file);
    im->graph = im->model->graph;
    OX_FAIL_IF(im->graph == NULL, im, STATOR_INVALID_ARGUMENT,
               "'%s' holds no graph; is it an ONNX model?", im->file);
    return STATOR_OK;
}

/* ---- symbols ---- */

static char *symbol_text(ox_import *im, const char *text)
{
    const size_t n = strlen(text);
    char *out = st_arena_alloc(&im->arena, n + 16u, 1);
    if (out == NULL) {
        return NULL;
    }
    char *p = out;
    if (n == 0 || (text[0] >= '0' && text[0] <= '9')) {
        *p++ = 'd';
    }
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        const bool is_word =
            (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
        *p++ = is_word ? c : '_';
    }
    *p = '\0';
    return out;
}

static const ox_symbol_name *symbol_row(const ox_import *im, const char *symbol)
{
    for (uint32_t i = 0; i < im->symbols.count; i++) {
        if (strcmp(im->symbols.data[i].symbol, symbol) == 0) {
            return &im->symbols.data[i];
        }
    }
    return NULL;
}

/* The symbol for a dim_param: an identifier made of its text, another one when two texts meet. */
static stator_ref symbol_for(ox_import *im, const char *text)
{
    char *symbol = symbol_text(im, text);
    const ox_symbol_name *row = NULL;
    for (unsigned k = 2; symbol != NULL; k++) {
        row = symbol_row(im, symbol);
        if (row == NULL || strcmp(row->text, text) == 0) {
            break;
        }
        char *base = symbol_text(im, text);
        if (base != NULL) {
            snprintf(base + strlen(base), 12, "_%u", k % 1000000u);
        }
        symbol = base;
    }
    ox_symbol_name *fresh =
        symbol != NULL && row == NULL ? st_vec_push(&im->mem, &im->symbols) : NULL;
    if (fresh != NULL) {
        *fresh = (ox_symbol_name){symbol, text};
    }
    const stator_ref sym =
        symbol != NULL ? im->host->types->sym_symbol(im->root.b, symbol, 0, SYMBOL_MAX, 1) : 0;
    if (sym == 0) {
        ox_import_fail(im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    }
    return sym;
}

/* ---- inputs ---- */

static const DLTensor *known_value(const ox_import *im, const char *name)
{
    const stator_source *s = im->source;
    return s->input_value != NULL ? s->input_value(s, name) : NULL;
}

static stator_ref dim_of(ox_import *im, const char *input, uint32_t axis,
                         const Onnx__TensorShapeProto__Dimension *d)
{
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
        d->dim_value >= 0) {
        return im->host->types->sym_int(im->root.b, d->dim_value);
    }
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM &&
        ox_text(d->dim_param)[0] != '\0') {
        return symbol_for(im, d->dim_param);
    }
    const size_t size = strlen(input) + 16u;
    char *text = st_arena_alloc(&im->arena, size, 1);
    if (text == NULL) {
        ox_import_fail(im, STATOR_RESOURCE_EXHAUSTED, "out of memory");
        return 0;
    }
    snprintf(text, size, "%s_%u", input, axis);
    return symbol_for(im, text);
}

/* Dims of an input whose rank the model does not state: those of its known value. */
static uint32_t dims_of_value(ox_import *im, const char *name, stator_ref *dims)
{
    const DLTensor *value = known_value(im, name);
    if (value == NULL && im->source->need_value != NULL) {
        im->source->need_value(im->source, name);
        im->shapeless = im->shapeless != NULL ? im->shapeless : name;
        return 0; /* a stand-in of rank 0; add_inputs fails after the last input is declared */
    }
    if (value == NULL || value->ndim < 0 || value->ndim > (int32_t)STATOR_RANK_MAX) {
        ox_import_fail(im, STATOR_INVALID_ARGUMENT, "input '%s' has no shape", name);
        return 0;
    }
    for (int32_t i = 0; i < value->ndim; i++) {
        dims[i] = im->host->types->sym_int(im->root.b, value->shape[i]);
    }
    return (uint32_t)value->ndim;
}

static stator_ref input_type(ox_import *im, const Onnx__ValueInfoProto *info)
{
    const char *name = ox_text(info->name);
    stator_ref dims[STATOR_RANK_MAX] = {0};
    if (info->type == NULL || info->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
        info->type->tensor_type == NULL) {
        ox_import_fail(
            im, STATOR_UNIMPLEMENTED,
            "input '%s' is not a tensor (sequences, maps and optionals are not supported)", name);
        return 0;
    }
    const Onnx__TypeProto__Tensor *t = info->type->tensor_type;
    const char *type_name;
    const stator_dtype dtype = ox_import_dtype(t->elem_type, &type_name);
    if (dtype == 0) {
        ox_import_fail(im, STATOR_UNIMPLEMENTED, "input '%s' has element type %s (%d)", name,
                       type_name, t->elem_type);
        return 0;
    }
    uint32_t rank = 0;
    if (t->shape == NULL) {
        rank = dims_of_value(im, name, dims);
    } else if (t->shape->n_dim > STATOR_RANK_MAX) {
        ox_import_fail(im, STATOR_INVALID_ARGUMENT, "input '%s' has rank %zu, at most %u works",
                       name, t->shape->n_dim, STATOR_RANK_MAX);
    } else {
        rank = (uint32_t)t->shape->n_dim;
        for (uint32_t i = 0; i < rank; i++) {
            dims[i] = dim_of(im, name, i, t->shape->dim[i]);
        }
    }
    if (im->status != STATOR_OK) {
        return 0;
    }
    const stator_ref type = im->host->types->tensor(im->root.b, dtype, rank, dims);
    if (type == 0) {
        ox_import_fail(im, STATOR_INVALID_ARGUMENT, "input '%s' has a shape that does not work",
                       name);
    }
    return type;
}

typedef struct init_query {
    const Onnx__GraphProto *graph;
    const char *name;
} init_query;

static bool init_equal(void *self, uint32_t id)
{
    const init_query *q = self;
    return strcmp(ox_text(q->graph->initializer[id - 1u]->name), q->name) == 0;
}

static const Onnx__TensorProto *initializer_of(const ox_import *im, const st_hashset *set,
                                               const char *name)
{
    init_query query = {im->graph, name};
    const uint32_t id = st_hashset_find(set, st_hash64(name, strlen(name), 0), init_equal, &query);
    return id != 0 ? im->graph->initializer[id - 1u] : NULL;
}

static stator_status index_initializers(ox_import *im, st_hashset *set)
{
    const Onnx__GraphProto *g = im->graph;
    OX_FAIL_IF(g->n_initializer > UINT32_MAX - 1u, im, STATOR_INVALID_ARGUMENT,
               "too many initializers");
    for (uint32_t i = 0; i < g->n_initializer; i++) {
        const char *name = ox_text(g->initializer[i]->name);
        OX_FAIL_IF(name[0] == '\0' || initializer_of(im, set, name) != NULL, im,
                   STATOR_INVALID_ARGUMENT, "initializer %u ('%s') has no name of its own", i,
                   name);
        OX_FAIL_IF(!st_hashset_add(set, st_hash64(name, strlen(name), 0), i + 1u), im,
                   STATOR_RESOURCE_EXHAUSTED, "out of memory");
    }
    return STATOR_OK;
}

/* An initialiser that sizes may be computed with, which a constant is and a parameter is not: lists
 * of integers, and the float that a size is divided by, as in ceil(H / 2.0). */
static bool is_shape_like(const Onnx__TensorProto *t)
{
    const char *ignored;
    const uint32_t class_ = st_dtype_class(ox_import_dtype(t->data_type, &ignored));
    uint64_t count;
    if (class_ == STATOR_CLASS_FLOAT) {
        return t->n_dims == 0;
    }
    return (class_ == STATOR_CLASS_INT || class_ == STATOR_CLASS_UINT ||
            class_ == STATOR_CLASS_BOOL) &&
           t->n_dims <= 1 && st_numel(t->dims, (uint32_t)t->n_dims, &count) &&
           count <= CONSTANT_MAX;
}

/* Declares the initialiser as a parameter; keeps small contents readable. */
static stator_ref add_param(ox_import *im, const Onnx__TensorProto *t)
{
    const stator_host *h = im->host;
    const char *name = ox_text(t->name);
    ox_tensor_value v;
    stator_ref ref = 0;
    if (ox_tensor_read(im, t, "initializer", false, &v) != STATOR_OK) {
        return 0;
    }
    stator_blob *blob = v.blob != NULL ? v.blob : h->cst->create(h->ctx, v.bytes, v.size_bytes);
    const stator_ref type = ox_tensor_type(im, im->root.b, &v);
    if (blob == NULL) {
        ox_import_fail(im, STATOR_RESOURCE_EXHAUSTED, "out of memory for initializer '%s'", name);
        return 0;
    }
    if (type != 0) {
        const stator_status status =
            h->build->param(im->root.b, name, type, blob, &ref, &im->emit_diag);
        if (ox_import_check(im, status, name) && v.bytes != NULL && v.size_bytes <= 4096) {
            ox_region_keep(im, &im->root, ref, v.dtype, v.rank, v.dims, v.bytes, v.size_bytes);
        }
    }
    h->cst->release(blob);
    return ref;
}

static void bind_new(ox_import *im, const char *name, stator_ref v)
{
    if (im->status != STATOR_OK) {
        return;
    }
    if (ox_scope_has_own(&im->scope, name)) {
        ox_import_fail(im, STATOR_INVALID_ARGUMENT, "the graph has two inputs named '%s'", name);
        return;
    }
    ox_scope_bind(&im->scope, name, v);
}

static void add_inputs(ox_import *im, const st_hashset *inits)
{
    const Onnx__GraphProto *g = im->graph;
    for (size_t i = 0; i < g->n_input && im->status == STATOR_OK; i++) {
        const char *name = ox_text(g->input[i]->name);
        const Onnx__TensorProto *init = initializer_of(im, inits, name);
        if (init != NULL && im->model->ir_version < 4 && is_shape_like(init)) {
            continue; /* a constant, made with the others */
        }
        if (init != NULL) {
            bind_new(im, name, add_param(im, init));
            continue;
        }
        const stator_ref type = input_type(im, g->input[i]);
        stator_ref ref = 0;
        if (type == 0 ||
            !ox_import_check(
                im, im->host->build->input(im->root.b, name, type, &ref, &im->emit_diag), name)) {
            return;
        }
        bind_new(im, name, ref);
    }
    for (size_t i = 0; i < g->n_initializer && im->status == STATOR_OK; i++) {
        const Onnx__TensorProto *t = g->initializer[i];
        if (!is_shape_like(t) && !ox_scope_has_own(&im->scope, ox_text(t->name))) {
            bind_new(im, ox_text(t->name), add_param(im, t));
        }
    }
}

/* Fails when an input's rank must be taken from its value and the value is not there yet. */
static void check_shapes(ox_import *im)
{
    if (im->shapeless != NULL) {
        ox_import_fail(im, STATOR_NEED_VALUE,
                       "input '%s' has no shape in the model; its value is needed", im->shapeless);
    }
}

static void add_constants(ox_import *im)
{
    const Onnx__GraphProto *g = im->graph;
    for (size_t i = 0; i < g->n_initializer && im->status == STATOR_OK; i++) {
        const Onnx__TensorProto *t = g->initializer[i];
        if (ox_scope_has_own(&im->scope, ox_text(t->name))) {
            continue;
        }
        const stator_ref ref = ox_tensor_constant(im, &im->root, t, "initializer");
        if (ref != 0) {
            im->host->build->set_name(im->root.b, ref, ox_text(t->name));
        }
        bind_new(im, ox_text(t->name), ref);
    }
    for (size_t i = 0; i < g->n_sparse_initializer && im->status == STATOR_OK; i++) {
        const Onnx__SparseTensorProto *t = g->sparse_initializer[i];
        const char *name = t->values != NULL ? ox_text(t->values->name) : "";
        bind_new(im, name, ox_sparse_constant(im, &im->root, t, name));
    }
}

/* Replaces the uses of inputs whose value the host knows. */
static void add_known_values(ox_import *im)
{
    ox_scope *s = &im->scope;
    for (uint32_t i = 0; i < s->names.count && im->status == STATOR_OK; i++) {
        ox_name *row = &s->names.data[i];
        const DLTensor *value = known_value(im, row->text);
        const stator_graph_view *view = im->host->build->view(im->root.b);
        if (value == NULL || row->value == 0 || stator_value_at(view, row->value)->node != 0 ||
            value->ndim < 0 || value->ndim > (int32_t)STATOR_RANK_MAX) {
            continue;
        }
        ox_tensor_value v = {.dtype = stator_value_type(view, row->value)->dtype,
                             .rank = (uint32_t)value->ndim,
                             .dims = value->shape,
                             .bytes = (const char *)value->data + value->byte_offset};
        if (!st_numel(v.dims, v.rank, &v.count) || v.count > VALUE_MAX ||
            !st_dtype_bytes(v.dtype, v.count, &v.size_bytes)) {
            continue;
        }
        const stator_ref type = ox_tensor_type(im, im->root.b, &v);
        stator_ref ref = 0;
        const stator_status status =
            type == 0 ? im->status
                      : im->host->build->constant(im->root.b, type, v.bytes, v.size_bytes, &ref,
                                                  &im->emit_diag);
        if (!ox_import_check(im, status, row->text)) {
            return;
        }
        ox_region_keep(im, &im->root, ref, v.dtype, v.rank, v.dims, v.bytes, v.size_bytes);
        row->value = ref;
    }
}

static void add_outputs(ox_import *im)
{
    const Onnx__GraphProto *g = im->graph;
    for (size_t i = 0; i < g->n_output && im->status == STATOR_OK; i++) {
        const char *name = ox_text(g->output[i]->name);
        stator_ref v;
        if (!ox_scope_find(&im->scope, name, &v) || v == 0) {
            ox_import_fail(im, STATOR_INVALID_ARGUMENT, "no node makes the graph's output '%s'",
                           name);
            return;
        }
        if (ox_sequence_find(im, v) != NULL) {
            ox_import_fail(im, STATOR_UNIMPLEMENTED,
                           "the graph's output '%s' is a sequence; outputs are tensors", name);
            return;
        }
        ox_import_check(im, im->host->build->output(im->root.b, name, v, &im->emit_diag), name);
    }
    if (g->n_output == 0) {
        ox_import_fail(im, STATOR_INVALID_ARGUMENT, "the graph has no output");
    }
}

/* A value of the type that the model declares for an output; 0 when it declares none. */
static stator_ref stand_in(ox_import *im, const Onnx__ValueInfoProto *info)
{
    static const uint64_t zeros[2] = {0, 0};
    const stator_host *h = im->host;
    const ox_tensor_value v = {.dtype = STATOR_F32, .count = 1};
    ox_tensor_value scalar = v;
    stator_ref dims[STATOR_RANK_MAX];
    const char *ignored;
    uint32_t rank = 0;
    if (info->type != NULL && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE) {
        const Onnx__TypeProto__Tensor *t = info->type->tensor_type;
        const stator_dtype dtype = ox_import_dtype(t->elem_type, &ignored);
        scalar.dtype = dtype != 0 ? dtype : v.dtype;
        rank =
            t->shape != NULL && t->shape->n_dim <= STATOR_RANK_MAX ? (uint32_t)t->shape->n_dim : 0;
        for (uint32_t i = 0; i < rank; i++) {
            dims[i] = dim_of(im, ox_text(info->name), i, t->shape->dim[i]);
        }
    }
    const stator_ref type = ox_tensor_type(im, im->root.b, &scalar);
    stator_ref out[2] = {0, 0};
    st_dtype_bytes(scalar.dtype, 1, &scalar.size_bytes);
    const stator_attr shape = {
        .name = "shape", .kind = STATOR_ATTR_DIMS, .count = rank, .list = dims};
    const stator_node_desc desc = {.struct_size = sizeof desc,
                                   .op = h->ir->find_op(h->ctx, "expand"),
                                   .operands = out,
                                   .operand_count = 1,
                                   .attr_count = 1,
                                   .attrs = &shape};
    if (im->status != STATOR_OK || type == 0 ||
        h->build->constant(im->root.b, type, zeros, scalar.size_bytes, &out[0], NULL) !=
            STATOR_OK ||
        h->build->node(im->root.b, &desc, &out[1], NULL) != STATOR_OK) {
        return 0;
    }
    return out[1];
}

static bool output_equal(void *self, uint32_t id)
{
    const init_query *q = self;
    return strcmp(ox_text(q->graph->output[id - 1u]->name), q->name) == 0;
}

/* Output i; one that is listed again has no name, for its stand-in is another value. */
static void declare_output(ox_import *im, st_hashset *names, uint32_t i)
{
    const Onnx__ValueInfoProto *info = im->graph->output[i];
    const char *name = ox_text(info->name);
    const uint64_t hash = st_hash64(name, strlen(name), 0);
    init_query query = {im->graph, name};
    const stator_ref v = stand_in(im, info);
    const bool is_new = st_hashset_find(names, hash, output_equal, &query) == 0 &&
                        st_hashset_add(names, hash, i + 1u);
    if (v != 0) {
        (void)im->host->build->output(im->root.b, is_new ? name : "", v, NULL);
    }
}

/* Until the asked-for values are there, the model's signature states its outputs as the file
 * declares them. */
static void declare_outputs(ox_import *im)
{
    st_hashset names;
    const stator_status status = im->status;
    stator_diag *diag = im->diag;
    im->status = STATOR_OK;
    im->diag = NULL;
    st_hashset_init(&names, &im->mem);
    for (uint32_t i = 0; i < im->graph->n_output; i++) {
        declare_output(im, &names, i);
    }
    st_hashset_deinit(&names);
    if (im->diag != NULL) {
        im->host->diag->release(im->diag);
    }
    im->status = status;
    im->diag = diag;
}

static void translate(ox_import *im)
{
    st_hashset inits;
    st_hashset_init(&inits, &im->mem);
    im->host->build->set_origin(im->root.b, "", "initializer", im->file, 0);
    if (index_initializers(im, &inits) == STATOR_OK) {
        add_inputs(im, &inits);
        check_shapes(im);
        add_constants(im);
        add_known_values(im);
        ox_graph_nodes(&im->scope, im->graph->n_node, im->graph->node);
        if (im->status == STATOR_OK) {
            add_outputs(im);
        }
        if (im->status == STATOR_NEED_VALUE) {
            declare_outputs(im);
        }
    }
    st_hashset_deinit(&inits);
}

const char *ox_last_part(const char *path)
{
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    return slash != NULL ? slash + 1 : path != NULL ? path : "model";
}

stator_status ox_import_model(const stator_host *host, const stator_source *source,
                              const stator_options *options, stator_builder *builder,
                              stator_diag **err)
{
    ox_import im = {.host = host, .source = source, .options = options};
    im.file = ox_last_part(source->path);
    st_mem_init_host(&im.mem, host, 0);
    st_arena_init(&im.arena, &im.mem);
    st_arena_init(&im.scratch, &im.mem);
    im.root.b = builder;
    st_map_init(&im.root.data, &im.mem);
    ox_scope_init(&im.scope, &im, &im.root, NULL, NULL);
    if (unpack(&im) == STATOR_OK && ox_survey(&im) == STATOR_OK) {
        ox_tell_facts(&im);
        translate(&im);
        ox_tell_import(&im);
    }
    if (im.model != NULL) {
        ProtobufCAllocator allocator = ox_import_allocator(&im);
        onnx__model_proto__free_unpacked(im.model, &allocator);
    }
    ox_wire_deinit(&im.wire, &im.mem);
    ox_scope_deinit(&im.scope);
    ox_region_deinit(&im.root, &im.mem);
    st_vec_free(&im.mem, &im.symbols);
    st_vec_free(&im.mem, &im.sequences);
    st_arena_deinit(&im.arena);
    st_arena_deinit(&im.scratch);
    if (err != NULL && *err == NULL) {
        *err = im.diag;
    } else if (im.diag != NULL) {
        host->diag->release(im.diag);
    }
    return im.status;
}
