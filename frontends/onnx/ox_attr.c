/* Reading a node's attributes with a check of their kind. Inside a model-local function an
 * attribute may refer to one of the call's (ref_attr_name); defaults of the function stand behind
 * it. */
#include "frontends/onnx/ox_import.h"

#include <string.h>

typedef const Onnx__AttributeProto attribute;

static attribute *find_in(size_t n, Onnx__AttributeProto *const *attrs, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        if (strcmp(ox_text(attrs[i]->name), name) == 0) {
            return attrs[i];
        }
    }
    return NULL;
}

/* Follows references out of functions until a value is found. */
static attribute *resolve(const ox_frame *frame, attribute *a)
{
    while (a != NULL && ox_text(a->ref_attr_name)[0] != '\0') {
        if (frame == NULL) {
            return NULL;
        }
        const char *name = a->ref_attr_name;
        const Onnx__FunctionProto *f = frame->function;
        a = find_in(frame->call->n_attribute, frame->call->attribute, name);
        if (a == NULL) {
            return find_in(f->n_attribute_proto, f->attribute_proto, name);
        }
        frame = frame->caller;
    }
    return a;
}

static attribute *find(ox_node *n, const char *name)
{
    if (!ox_ok(n)) {
        return NULL;
    }
    return resolve(n->scope->frame, find_in(n->proto->n_attribute, n->proto->attribute, name));
}

#define KIND(name) ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##name

/* The attribute when present and of the kind; type 0 (files before IR version 2) goes by content.
 */
static attribute *find_kind(ox_node *n, const char *name, int kind, bool holds_it, attribute *a,
                            const char *expected)
{
    if (a == NULL) {
        return NULL;
    }
    const int type = a->has_type ? (int)a->type : (int)KIND(UNDEFINED);
    if (type == kind || (type == (int)KIND(UNDEFINED) && holds_it)) {
        return a;
    }
    ox_fail(n, STATOR_INVALID_ARGUMENT, "attribute '%s' must be %s", name, expected);
    return NULL;
}

bool ox_has_attr(ox_node *n, const char *name)
{
    return find(n, name) != NULL;
}

int64_t ox_attr_int(ox_node *n, const char *name, int64_t absent)
{
    attribute *a = find(n, name);
    a = find_kind(n, name, KIND(INT), a != NULL && a->has_i, a, "an integer");
    return a != NULL ? a->i : absent;
}

int64_t ox_attr_int_need(ox_node *n, const char *name)
{
    ox_expect(n, ox_has_attr(n, name), "attribute '%s' is required", name);
    return ox_attr_int(n, name, 0);
}

double ox_attr_float(ox_node *n, const char *name, double absent)
{
    attribute *a = find(n, name);
    a = find_kind(n, name, KIND(FLOAT), a != NULL && a->has_f, a, "a float");
    return a != NULL ? (double)a->f : absent;
}

static const char *text_of(ox_node *n, const char *name, const ProtobufCBinaryData *s)
{
    if (!ox_expect(n, s->len == 0 || memchr(s->data, 0, s->len) == NULL,
                   "attribute '%s' holds a NUL character", name)) {
        return "";
    }
    char *text = ox_alloc(n, s->len + 1u, 1);
    if (text == NULL) {
        return "";
    }
    if (s->len != 0) {
        memcpy(text, s->data, s->len);
    }
    return text;
}

const char *ox_attr_str(ox_node *n, const char *name, const char *absent)
{
    attribute *a = find(n, name);
    a = find_kind(n, name, KIND(STRING), a != NULL && a->has_s, a, "a string");
    return a != NULL ? text_of(n, name, &a->s) : absent;
}

const int64_t *ox_attr_ints(ox_node *n, const char *name, uint32_t *out_count)
{
    static const int64_t none[1] = {0};
    *out_count = 0;
    attribute *a = find(n, name);
    a = find_kind(n, name, KIND(INTS), a != NULL && a->n_ints != 0, a, "a list of integers");
    if (a == NULL) {
        return NULL;
    }
    *out_count = (uint32_t)a->n_ints;
    return a->n_ints != 0 ? a->ints : none;
}

const double *ox_attr_floats(ox_node *n, const char *name, uint32_t *out_count)
{
    *out_count = 0;
    attribute *a = find(n, name);
    a = find_kind(n, name, KIND(FLOATS), a != NULL && a->n_floats != 0, a, "a list of floats");
    double *list = a != NULL ? ox_alloc(n, a->n_floats + 1u, sizeof *list) : NULL;
    if (list == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < a->n_floats; i++) {
        list[i] = (double)a->floats[i];
    }
    *out_count = (uint32_t)a->n_floats;
    return list;
}

const char *const *ox_attr_strs(ox_node *n, const char *name, uint32_t *out_count)
{
    *out_count = 0;
    attribute *a = find(n, name);
    a = find_kind(n, name, KIND(STRINGS), a != NULL && a->n_strings != 0, a, "a list of strings");
    const char **list = a != NULL ? ox_alloc(n, a->n_strings + 1u, sizeof *list) : NULL;
    if (list == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < a->n_strings; i++) {
        list[i] = text_of(n, name, &a->strings[i]);
    }
    *out_count = (uint32_t)a->n_strings;
    return list;
}

const Onnx__TensorProto *ox_attr_tensor(ox_node *n, const char *name)
{
    attribute *a = find(n, name);
    a = find_kind(n, name, KIND(TENSOR), a != NULL && a->t != NULL, a, "a tensor");
    return a != NULL && ox_expect(n, a->t != NULL, "attribute '%s' holds no tensor", name) ? a->t
                                                                                           : NULL;
}

const Onnx__SparseTensorProto *ox_attr_sparse(ox_node *n, const char *name)
{
    attribute *a = find(n, name);
    a = find_kind(n, name, KIND(SPARSE_TENSOR), a != NULL && a->sparse_tensor != NULL, a,
                  "a sparse tensor");
    return a != NULL &&
                   ox_expect(n, a->sparse_tensor != NULL, "attribute '%s' holds no tensor", name)
               ? a->sparse_tensor
               : NULL;
}

const Onnx__GraphProto *ox_attr_graph(ox_node *n, const char *name)
{
    attribute *a = find(n, name);
    a = find_kind(n, name, KIND(GRAPH), a != NULL && a->g != NULL, a, "a graph");
    return a != NULL && ox_expect(n, a->g != NULL, "attribute '%s' holds no graph", name) ? a->g
                                                                                          : NULL;
}

const int64_t *ox_attr_ints_or(ox_node *n, const char *name, uint32_t count, int64_t fill)
{
    uint32_t given;
    const int64_t *list = ox_attr_ints(n, name, &given);
    if (list != NULL && given == count) {
        return list;
    }
    ox_expect(n, list == NULL || given == 0, "attribute '%s' has %u entries, expected %u", name,
              given, count);
    int64_t *filled = ox_alloc(n, count + 1u, sizeof *filled);
    for (uint32_t i = 0; filled != NULL && i < count; i++) {
        filled[i] = fill;
    }
    return filled;
}
