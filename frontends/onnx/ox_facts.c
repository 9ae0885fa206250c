/* What an ONNX file says of itself, told to the host for `stator info`: operator sets, who wrote
 * it, how many nodes of each operator it has, and its metadata.
 *
 * In: the unpacked model. Out: facts (stator_source.fact), in that order; operators by name.
 * Nodes of bodies count once each, however often they run, and so do those of the model's
 * functions. Behind the import: how many nodes have a mode for training, a function's once for
 * each call, and the names that stand for a value of another name; during it the files beside the
 * model that values are read from. */
#include "frontends/onnx/ox_facts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct op_list {
    ox_import *im;
    st_vec(const char *) types;
} op_list;

static void tell(const ox_import *im, const char *kind, const char *name, const char *value)
{
    im->source->fact(im->source, kind, name, value);
}

static void tell_number(const ox_import *im, const char *kind, const char *name, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof text, "%" PRId64, value);
    tell(im, kind, name, text);
}

/* 0: no memory. */
static bool add_nodes(op_list *list, size_t n, Onnx__NodeProto *const *nodes);

static bool add_graph(void *self, const Onnx__GraphProto *graph)
{
    return add_nodes(self, graph->n_node, graph->node);
}

static bool add_nodes(op_list *list, size_t n, Onnx__NodeProto *const *nodes)
{
    for (size_t i = 0; i < n; i++) {
        const char **slot = st_vec_push(&list->im->mem, &list->types);
        ST_NEED(slot != NULL);
        *slot = ox_text(nodes[i]->op_type);
        ST_NEED(ox_node_each_graph(nodes[i], add_graph, list));
    }
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void tell_ops(ox_import *im)
{
    op_list list = {.im = im};
    bool is_whole = add_graph(&list, im->graph);
    for (size_t i = 0; is_whole && i < im->model->n_functions; i++) {
        const Onnx__FunctionProto *f = im->model->functions[i];
        is_whole = add_nodes(&list, f->n_node, f->node);
    }
    if (list.types.count != 0) {
        qsort(list.types.data, list.types.count, sizeof *list.types.data, by_text);
    }
    for (uint32_t i = 0, next = 0; is_whole && i < list.types.count; i = next) {
        while (next < list.types.count &&
               by_text(&list.types.data[i], &list.types.data[next]) == 0) {
            next++;
        }
        tell_number(im, "op", list.types.data[i], next - i);
    }
    st_vec_free(&im->mem, &list.types);
}

void ox_tell_facts(ox_import *im)
{
    const Onnx__ModelProto *m = im->model;
    if (!STATOR_HAS(im->source, fact)) {
        return;
    }
    for (size_t i = 0; i < m->n_opset_import; i++) {
        const char *domain = ox_text(m->opset_import[i]->domain);
        tell_number(im, "opset", ox_is_default_domain(domain) ? "ai.onnx" : domain,
                    m->opset_import[i]->version);
    }
    tell_number(im, "format", "ONNX IR", m->ir_version);
    if (ox_text(m->producer_name)[0] != '\0') {
        tell(im, "producer", m->producer_name, ox_text(m->producer_version));
    }
    tell_ops(im);
    for (size_t i = 0; i < m->n_metadata_props; i++) {
        tell(im, "metadata", ox_text(m->metadata_props[i]->key),
             ox_text(m->metadata_props[i]->value));
    }
}

void ox_tell_data(ox_import *im, const char *location, const char *path)
{
    if (STATOR_HAS(im->source, fact) && strcmp(im->data_path, path) != 0) {
        (void)snprintf(im->data_path, sizeof im->data_path, "%s", path);
        tell(im, "data", location, path);
    }
}

static void tell_alias(ox_import *im, const ox_name *name)
{
    if (name->value == 0 || (name->value & OX_SEQUENCE) != 0) {
        return;
    }
    const stator_graph_view *v = im->host->build->view(im->root.b);
    const char *own = stator_string_at(v, stator_value_at(v, name->value)->name);
    if (own[0] != '\0' && strcmp(own, name->text) != 0) {
        tell(im, "alias", name->text, own);
    }
}

void ox_tell_import(ox_import *im)
{
    if (!STATOR_HAS(im->source, fact) || im->status != STATOR_OK) {
        return;
    }
    if (im->mode_count != 0) {
        tell_number(im, "training", "nodes", im->mode_count);
    }
    for (uint32_t i = 0; i < im->scope.names.count; i++) {
        tell_alias(im, &im->scope.names.data[i]);
    }
}
