/* Writing a graph: inputs, nodes, outputs, write-backs, origins, and the builder's life.
 *
 * In: descriptions by callers that are not trusted to be right. Out: rows of one graph. A call that
 * fails leaves the graph as it was (pools may have grown). Every node's operands are checked
 * against the op's names, its attributes against the schema, and its result types come from the
 * op's infer rule, so that a graph can only be wrong in ways that infer rules cannot see. */
#include "ir/builder.h"
#include "core/base/blob.h"
#include "core/base/sized.h"
#include "ir/infer.h"
#include "ir/sizes/baked_in.h"
#include <string.h>

/* ---- life ---- */

static void drop_graph(stator_graph *g)
{
    st_module *m = g->module;
    stator_graph **link = &m->graphs;
    while (*link != NULL && *link != g) {
        link = &(*link)->next;
    }
    if (*link == g) {
        *link = g->next;
    }
    st_seg_deinit(&g->nodes);
    st_seg_deinit(&g->values);
    st_seg_deinit(&g->write_backs);
}

static void free_builder(stator_builder *b)
{
    st_mem *mem = b->module->mem;
    st_map_deinit(&b->known);
    st_map_deinit(&b->input_names);
    st_free(mem, b->outputs);
    st_free(mem, b->output_names);
    st_free(mem, b);
}

stator_status st_builder_create(st_module *m, const char *name, stator_builder **out_builder,
                                stator_diag **err)
{
    *out_builder = NULL;
    stator_builder *b = st_calloc(m->mem, 1, sizeof *b);
    stator_graph *g = b != NULL ? st_graph_alloc(m) : NULL;
    if (g == NULL) {
        st_free(m->mem, b);
        return st_fail_oom(err);
    }
    st_map_init(&b->known, m->mem);
    st_map_init(&b->input_names, m->mem);
    b->graph = g;
    b->module = m;
    g->index = m->n_graphs++;
    g->name = name != NULL ? st_module_string(m, name, strlen(name)) : 0;
    g->next = m->graphs;
    m->graphs = g;
    st_graph_refresh(g);
    *out_builder = b;
    return STATOR_OK;
}

void st_builder_abort(stator_builder *b)
{
    if (b != NULL) {
        drop_graph(b->graph);
        free_builder(b);
    }
}

/* An output is asked for by its name: two of one name are one value, as ONNX may list one twice, or
 * a mistake. */
static stator_status check_output_names(const stator_builder *b, stator_diag **err)
{
    st_map seen;
    stator_status status = STATOR_OK;
    st_map_init(&seen, b->module->mem);
    for (uint32_t k = 0; status == STATOR_OK && k < b->n_outputs; k++) {
        const uint32_t name = b->output_names[k];
        const uint32_t before = name != 0 ? st_map_get(&seen, name) : 0;
        if (before != 0 && before != b->outputs[k]) {
            status = st_fail(err, STATOR_ALREADY_EXISTS, "two outputs are named '%s'",
                             st_module_str(b->module, name));
        } else if (name != 0 && before == 0 && !st_map_put(&seen, name, b->outputs[k])) {
            status = st_fail_oom(err);
        }
    }
    st_map_deinit(&seen);
    return status;
}

/* The first root graph of a module is the imported one: its values are their own witnesses. */
static void seed_witnesses(stator_graph *g)
{
    for (uint32_t i = 1; i < g->values.count; i++) {
        stator_value_row *row = st_seg_at(&g->values, i);
        row->witness = row->witness != 0 ? row->witness : i;
    }
}

stator_status st_builder_finish(stator_builder *b, stator_graph **out_graph, stator_diag **err)
{
    stator_graph *g = b->graph;
    st_module *m = b->module;
    stator_status status = STATOR_OK;
    const bool is_import = b->parent == NULL && m->root == NULL; /* *out_graph may be m->root */
    *out_graph = NULL;
    if (b->n_outputs == 0 && g->write_backs.count == 0 && b->parent == NULL) {
        status = st_fail(err, STATOR_INVALID_ARGUMENT, "graph '%s' has no output",
                         st_module_str(m, g->name));
    } else if (is_import) {
        status = check_output_names(b, err);
    }
    if (status == STATOR_OK) {
        g->output_begin = st_module_refs(m, b->outputs, b->n_outputs);
        g->output_name_begin = st_module_refs(m, b->output_names, b->n_outputs);
        if (g->output_begin == UINT32_MAX || g->output_name_begin == UINT32_MAX) {
            status = st_fail_oom(err);
        }
    }
    if (status != STATOR_OK) {
        st_builder_abort(b);
        return status;
    }
    g->n_outputs = b->n_outputs;
    if (b->parent == NULL) {
        if (is_import && !g->has_witnesses) {
            seed_witnesses(g);
        }
        m->root = g;
    }
    st_graph_refresh(g);
    g->is_finished = 1;
    free_builder(b);
    *out_graph = g;
    return STATOR_OK;
}

st_build_mark st_build_here(const stator_builder *b)
{
    return (st_build_mark){b->graph->nodes.count, b->graph->values.count,
                           b->graph->write_backs.count, b->n_outputs};
}

void st_build_rollback(stator_builder *b, st_build_mark mark)
{
    if (b->known.count != 0 && mark.n_values < b->graph->values.count) {
        st_map_deinit(&b->known);
    }
    for (uint32_t i = mark.n_write_backs; i < b->graph->write_backs.count; i++) {
        const stator_write_back_row *row = st_seg_at(&b->graph->write_backs, i);
        stator_value_row *target = st_seg_at(&b->graph->values, row->input);
        target->flags &= ~(uint32_t)STATOR_VALUE_WRITTEN;
    }
    if (b->module->baked_in != NULL) {
        st_baked_in_forget(b->module->baked_in, b->graph, mark.n_values);
    }
    st_seg_truncate(&b->graph->nodes, mark.n_nodes);
    st_seg_truncate(&b->graph->values, mark.n_values);
    st_seg_truncate(&b->graph->write_backs, mark.n_write_backs);
    b->n_outputs = mark.n_outputs;
}

/* ---- origins, witnesses, names ---- */

void st_build_set_origin(stator_builder *b, const char *name, const char *kind, const char *file,
                         uint32_t line)
{
    b->origin = st_module_origin(b->module, name, kind, file, line);
}

void st_build_set_origin_ref(stator_builder *b, stator_ref origin)
{
    b->origin = origin < b->module->origins.count ? origin : 0;
}

void st_build_set_witness(stator_builder *b, stator_ref value, stator_ref witness)
{
    if (value != 0 && value < b->graph->values.count) {
        ((stator_value_row *)st_seg_at(&b->graph->values, value))->witness = witness;
    }
}

void st_build_set_name(stator_builder *b, stator_ref value, const char *name)
{
    if (value != 0 && value < b->graph->values.count && name != NULL) {
        stator_value_row *row = st_seg_at(&b->graph->values, value);
        row->name = st_module_string(b->module, name, strlen(name));
    }
}

/* ---- inputs and outputs ---- */

static stator_status check_type(const st_module *m, stator_ref type, const char *what,
                                const char *name, stator_diag **err)
{
    ST_FAIL_IF(type == 0 || type >= m->types.count, err, STATOR_INVALID_ARGUMENT,
               "%s '%s': no type of this module has ref %u (0 comes from a wrong dtype, a "
               "rank above 16 or a limit of the symbolic engine)",
               what, name, type);
    return STATOR_OK;
}

static stator_status check_value(const stator_builder *b, stator_ref value, const char *what,
                                 const char *name, stator_diag **err)
{
    ST_FAIL_IF(value == 0 || value >= b->graph->values.count, err, STATOR_INVALID_ARGUMENT,
               "%s '%s': value %u is not in graph '%s', which has values 1 to %u", what, name,
               value, st_module_str(b->module, b->graph->name), b->graph->values.count - 1u);
    return STATOR_OK;
}

static stator_status push_input(stator_builder *b, const char *name, stator_value_row row,
                                stator_ref *out, stator_diag **err)
{
    stator_graph *g = b->graph;
    st_module *m = b->module;
    *out = 0;
    name = name != NULL ? name : "";
    ST_TRY(check_type(m, row.type, "input", name, err));
    ST_FAIL_IF(g->nodes.count > 1, err, STATOR_FAILED_PRECONDITION,
               "input '%s' comes after the first node; inputs are declared first", name);
    row.name = st_module_string(m, name, strlen(name));
    ST_FAIL_IF(row.name != 0 && st_map_get(&b->input_names, row.name) != 0, err,
               STATOR_ALREADY_EXISTS, "two inputs are named '%s'", name);
    row.index = g->n_inputs;
    row.flags |= STATOR_VALUE_INPUT;
    stator_value_row *slot = st_seg_push(&g->values, out);
    if (slot == NULL || (row.name == 0 && *name != '\0') ||
        (row.name != 0 && !st_map_put(&b->input_names, row.name, 1))) {
        st_seg_truncate(&g->values, *out != 0 ? *out : g->values.count);
        *out = 0;
        return st_fail_oom(err);
    }
    *slot = row;
    g->n_inputs++;
    return STATOR_OK;
}

stator_status st_build_input(stator_builder *b, const char *name, stator_ref type, stator_ref *out,
                             stator_diag **err)
{
    return push_input(b, name, (stator_value_row){.type = type}, out, err);
}

bool st_build_has_input(stator_builder *b, const char *name)
{
    const uint32_t string = st_module_string(b->module, name, strlen(name));
    return string != 0 && st_map_get(&b->input_names, string) != 0;
}

/* A blob that is to be the contents of `type` must have exactly its dense size. */
static stator_status check_blob(const st_module *m, stator_ref type, uint64_t size,
                                const char *what, const char *name, stator_diag **err)
{
    uint64_t elements = 0;
    uint64_t bytes = 0;
    ST_TRY(check_type(m, type, what, name, err));
    ST_FAIL_IF(!st_type_static_size(m, type, &elements, &bytes), err, STATOR_INVALID_ARGUMENT,
               "%s '%s': its sizes must be plain integers whose product fits in memory", what,
               name);
    ST_FAIL_IF(bytes != size, err, STATOR_INVALID_ARGUMENT,
               "%s '%s' has %llu bytes of data, its type needs %llu", what, name,
               (unsigned long long)size, (unsigned long long)bytes);
    return STATOR_OK;
}

stator_status st_build_param(stator_builder *b, const char *name, stator_ref type,
                             stator_blob *blob, stator_ref *out, stator_diag **err)
{
    *out = 0;
    ST_FAIL_IF(blob == NULL, err, STATOR_INVALID_ARGUMENT, "parameter '%s' has no data",
               name != NULL ? name : "");
    ST_TRY(check_blob(b->module, type, st_blob_size(blob), "parameter", name != NULL ? name : "",
                      err));
    const uint32_t ref = st_module_blob(b->module, blob);
    ST_TRY_MEM(ref, err);
    return push_input(b, name,
                      (stator_value_row){.type = type, .flags = STATOR_VALUE_PARAM, .blob = ref},
                      out, err);
}

static bool reserve_outputs(stator_builder *b)
{
    if (b->n_outputs < b->output_capacity) {
        return true;
    }
    const uint32_t capacity = b->output_capacity == 0 ? 8u : b->output_capacity * 2u;
    uint32_t *outputs = st_realloc(b->module->mem, b->outputs, capacity * sizeof(uint32_t), 4);
    if (outputs == NULL) {
        return false;
    }
    b->outputs = outputs;
    uint32_t *names = st_realloc(b->module->mem, b->output_names, capacity * sizeof(uint32_t), 4);
    if (names == NULL) {
        return false;
    }
    b->output_names = names;
    b->output_capacity = capacity;
    return true;
}

stator_status st_build_output(stator_builder *b, const char *name, stator_ref value,
                              stator_diag **err)
{
    name = name != NULL ? name : "";
    ST_TRY(check_value(b, value, "output", name, err));
    const uint32_t string = st_module_string(b->module, name, strlen(name));
    if ((string == 0 && *name != '\0') || !reserve_outputs(b)) {
        return st_fail_oom(err);
    }
    b->outputs[b->n_outputs] = value;
    b->output_names[b->n_outputs] = string;
    b->n_outputs++;
    return STATOR_OK;
}

static bool same_shape(st_module *m, const stator_type_row *a, const stator_type_row *b)
{
    if (a->dtype != b->dtype || a->rank != b->rank) {
        return false;
    }
    for (uint32_t i = 0; i < a->rank; i++) {
        const uint32_t x = *(const uint32_t *)st_seg_at(&m->refs, a->dims_begin + i);
        const uint32_t y = *(const uint32_t *)st_seg_at(&m->refs, b->dims_begin + i);
        if (x != y && st_sym_eq(&m->symtab, x, y) == 0) {
            return false;
        }
    }
    return true;
}

stator_status st_build_write_back(stator_builder *b, stator_ref input, stator_ref value,
                                  stator_diag **err)
{
    stator_graph *g = b->graph;
    st_module *m = b->module;
    ST_TRY(check_value(b, input, "write-back", "target", err));
    ST_TRY(check_value(b, value, "write-back", "value", err));
    stator_value_row *target = st_seg_at(&g->values, input);
    const stator_value_row *source = st_seg_at(&g->values, value);
    const char *name = st_module_str(m, target->name);
    ST_FAIL_IF((target->flags & STATOR_VALUE_INPUT) == 0, err, STATOR_INVALID_ARGUMENT,
               "write-back: value %u is no graph input; only an input's buffer can be "
               "written",
               input);
    ST_FAIL_IF(
        !same_shape(m, st_seg_at(&m->types, target->type), st_seg_at(&m->types, source->type)), err,
        STATOR_INVALID_ARGUMENT, "write-back to '%s': the value has another dtype or shape", name);
    ST_FAIL_IF(target->flags & STATOR_VALUE_WRITTEN, err, STATOR_ALREADY_EXISTS,
               "input '%s' is written back twice", name);
    stator_write_back_row *row = st_seg_push(&g->write_backs, NULL);
    ST_TRY_MEM(row, err);
    *row = (stator_write_back_row){input, value};
    target->flags |= STATOR_VALUE_WRITTEN;
    return STATOR_OK;
}

/* ---- nodes ---- */

const char *st_list_name(const char *names, uint32_t k, uint32_t *out_len, char *out_mark)
{
    const char *p = names;
    *out_len = 0;
    *out_mark = 0;
    while (*p == ' ') {
        p++;
    }
    for (uint32_t i = 0; *p != '\0'; i++) {
        const char *end = p;
        while (*end != '\0' && *end != ',' && *end != '?' && *end != '*' && *end != ' ') {
            end++;
        }
        const char mark = *end == '?' || *end == '*' ? *end : 0;
        if (i == k || mark == '*') {
            *out_len = (uint32_t)(end - p);
            *out_mark = mark;
            return p;
        }
        p = end;
        while (*p == ',' || *p == ' ' || *p == '?') {
            p++;
        }
    }
    return NULL;
}

uint32_t st_list_place(const char *names, const char *name, uint32_t len)
{
    for (uint32_t k = 0;; k++) {
        uint32_t n = 0;
        char mark = 0;
        const char *text = st_list_name(names, k, &n, &mark);
        if (text == NULL) {
            return UINT32_MAX;
        }
        if (n == len && strncmp(text, name, n) == 0) {
            return k;
        }
        if (mark == '*') {
            return UINT32_MAX;
        }
    }
}

static stator_status check_operands(const stator_builder *b, const st_op *op,
                                    const stator_node_desc *desc, stator_diag **err)
{
    ST_FAIL_IF(desc->operand_count > op->desc.operand_max, err, STATOR_INVALID_ARGUMENT,
               "%s: %u operands given, takes at most %u (%s)", op->desc.name, desc->operand_count,
               op->desc.operand_max, op->desc.operands);
    for (uint32_t k = 0;; k++) {
        uint32_t len = 0;
        char mark = 0;
        const char *name = st_list_name(op->desc.operands, k, &len, &mark);
        const bool is_past = k >= desc->operand_count;
        if (name == NULL || (is_past && mark == '*')) {
            return STATOR_OK;
        }
        const stator_ref value = is_past ? 0 : desc->operands[k];
        if (value == 0 && mark == '?') {
            continue;
        }
        ST_FAIL_IF(value == 0, err, STATOR_INVALID_ARGUMENT, "%s: operand %u ('%.*s') is missing",
                   op->desc.name, k, (int)len, name);
        ST_FAIL_IF(value >= b->graph->values.count, err, STATOR_INVALID_ARGUMENT,
                   "%s: operand %u ('%.*s') is value %u, which is not in graph '%s' (values "
                   "1 to %u); a region reads outer values through its inputs",
                   op->desc.name, k, (int)len, name, value,
                   st_module_str(b->module, b->graph->name), b->graph->values.count - 1u);
    }
}

static stator_status check_regions(const stator_builder *b, const st_op *op,
                                   const stator_node_desc *desc, stator_diag **err)
{
    ST_FAIL_IF(desc->region_count != op->desc.region_count, err, STATOR_INVALID_ARGUMENT,
               "%s: %u regions given, takes %u", op->desc.name, desc->region_count,
               op->desc.region_count);
    for (uint32_t k = 0; k < desc->region_count; k++) {
        const stator_graph *g = desc->regions[k];
        ST_FAIL_IF(g == NULL || g->module != b->module || !g->is_finished || g == b->graph, err,
                   STATOR_INVALID_ARGUMENT, "%s: region %u is not a finished graph of this module",
                   op->desc.name, k);
    }
    return STATOR_OK;
}

/* How many results the node is to have; 0 leaves it to the infer rule. */
static stator_status wanted_results(const st_op *op, const stator_node_desc *desc, uint32_t *out,
                                    stator_diag **err)
{
    uint32_t least = 0;
    uint32_t most = 0;
    st_name_counts(op->desc.results, &least, &most);
    *out = desc->result_count != 0 ? desc->result_count : least;
    ST_FAIL_IF(*out > ST_RESULTS_MAX || (*out != 0 && (*out < least || *out > most)), err,
               STATOR_INVALID_ARGUMENT, "%s: %u results asked for, has %s", op->desc.name, *out,
               op->desc.results);
    return STATOR_OK;
}

static stator_status infer_types(stator_builder *b, const st_op *op, const stator_node_desc *desc,
                                 const stator_attr_row *rows, stator_ref *types, uint32_t *out_n,
                                 stator_diag **err)
{
    const stator_attr_row *attrs[ST_ATTRS_MAX];
    for (uint32_t k = 0; k < op->desc.attr_count; k++) {
        attrs[k] = &rows[k];
    }
    st_infer in = {.b = b,
                   .m = b->module,
                   .v = st_graph_view(b->graph),
                   .op = op,
                   .operands = desc->operands,
                   .n_operands = desc->operand_count,
                   .attrs = attrs,
                   .regions = desc->regions,
                   .n_regions = desc->region_count,
                   .given_types = desc->result_types,
                   .types = types,
                   .err = err};
    ST_TRY(wanted_results(op, desc, &in.n_results, err));
    ST_FAIL_IF(op->infer == NULL, err, STATOR_UNIMPLEMENTED, "%s: has no infer rule",
               op->desc.name);
    ST_TRY(op->infer(&in));
    for (uint32_t k = 0; k < in.n_results; k++) {
        ST_FAIL_IF(k >= ST_RESULTS_MAX || types[k] == 0 || types[k] >= b->module->types.count, err,
                   STATOR_INTERNAL, "%s: its infer rule gave no type for result %u", op->desc.name,
                   k);
    }
    *out_n = in.n_results;
    return STATOR_OK;
}

stator_status st_build_raw_node(stator_builder *b, const stator_node_row *from,
                                const stator_ref *operands, const stator_attr_row *attrs,
                                stator_graph *const *regions, const stator_ref *types,
                                stator_diag **err)
{
    st_module *m = b->module;
    stator_graph *g = b->graph;
    const st_build_mark mark = st_build_here(b);
    stator_node_row row = *from;
    uint32_t node = 0;
    row.result_begin = g->values.count;
    if (attrs != NULL && row.attr_count != 0) {
        ST_TRY_MEM(st_seg_grow(&m->attrs, row.attr_count, &row.attr_begin), err);
        for (uint32_t k = 0; k < row.attr_count; k++) {
            *(stator_attr_row *)st_seg_at(&m->attrs, row.attr_begin + k) = attrs[k];
        }
    }
    if (regions != NULL && row.region_count != 0) {
        ST_TRY_MEM(st_seg_grow(&m->regions, row.region_count, &row.region_begin), err);
        for (uint32_t k = 0; k < row.region_count; k++) {
            *(const stator_graph **)st_seg_at(&m->regions, row.region_begin + k) = regions[k];
        }
    }
    stator_node_row *slot = NULL;
    if (st_module_ref_list(m, operands, row.operand_count, &row.operand_begin)) {
        slot = st_seg_push(&g->nodes, &node);
    }
    for (uint32_t k = 0; slot != NULL && k < row.result_count; k++) {
        stator_value_row *value = st_seg_push(&g->values, NULL);
        if (value == NULL) {
            slot = NULL;
            break;
        }
        *value = (stator_value_row){.type = types[k], .node = node, .index = k};
    }
    if (slot == NULL) {
        st_build_rollback(b, mark);
        return st_fail_oom(err);
    }
    *slot = row;
    return STATOR_OK;
}

/* Appends a node whose operands and regions are checked. */
static stator_status append_node(stator_builder *b, const st_op *op, const stator_node_desc *desc,
                                 stator_ref *out_results, stator_diag **err)
{
    stator_attr_row rows[ST_ATTRS_MAX];
    stator_ref types[ST_RESULTS_MAX] = {0};
    uint32_t n_results = 0;
    ST_TRY(st_build_attr_rows(b, op, desc, rows, err));
    ST_TRY(infer_types(b, op, desc, rows, types, &n_results, err));
    const stator_node_row row = {.op = desc->op,
                                 .operand_count = desc->operand_count,
                                 .result_count = n_results,
                                 .attr_count = op->desc.attr_count,
                                 .region_count = desc->region_count,
                                 .origin = b->origin};
    const stator_ref first = b->graph->values.count;
    ST_TRY(st_build_raw_node(b, &row, desc->operands, rows, desc->regions, types, err));
    for (uint32_t k = 0; out_results != NULL && k < n_results; k++) {
        out_results[k] = first + k;
    }
    return STATOR_OK;
}

static stator_status build_node(stator_builder *b, const stator_node_desc *given,
                                stator_ref *out_results, stator_diag **err)
{
    stator_node_desc desc;
    ST_TRY(ST_SIZED_READ(stator_node_desc, &desc, given, err));
    ST_REQUIRE_LIST(desc.operands, desc.operand_count, err);
    ST_REQUIRE_LIST(desc.attrs, desc.attr_count, err);
    ST_REQUIRE_LIST(desc.regions, desc.region_count, err);
    ST_FAIL_IF(desc.op == 0 || desc.op > st_optable_count(b->module->ops), err,
               STATOR_INVALID_ARGUMENT, "no op has id %u", desc.op);
    const st_op *op = st_optable_at(b->module->ops, desc.op);
    st_baked_in *baked_in = b->module->baked_in;
    ST_TRY(check_operands(b, op, &desc, err));
    while (desc.operand_count > 0 && desc.operands[desc.operand_count - 1u] == 0) {
        desc.operand_count--; /* trailing absent operands are not stored */
    }
    ST_TRY(check_regions(b, op, &desc, err));
    if (baked_in == NULL) {
        return append_node(b, op, &desc, out_results, err);
    }
    stator_status status = st_baked_in_read(baked_in, b, &desc, err);
    ST_THEN(status, append_node(b, op, &desc, out_results, err));
    st_baked_in_done(baked_in);
    return status;
}

stator_status st_build_node(stator_builder *b, const stator_node_desc *desc,
                            stator_ref *out_results, stator_diag **err)
{
    const stator_status status = build_node(b, desc, out_results, err);
    if (status != STATOR_OK) {
        st_module_note_origin(b->module, b->origin, err);
    }
    return status;
}

stator_status st_build_op(stator_builder *b, const char *op, uint32_t n_operands,
                          const stator_ref *operands, uint32_t n_attrs, const stator_attr *attrs,
                          uint32_t n_results, stator_ref *out_results, stator_diag **err)
{
    const stator_node_desc desc = {.struct_size = sizeof desc,
                                   .op = st_optable_find(b->module->ops, op),
                                   .operands = operands,
                                   .operand_count = n_operands,
                                   .attrs = attrs,
                                   .attr_count = n_attrs,
                                   .result_count = n_results};
    ST_FAIL_IF(desc.op == 0, err, STATOR_NOT_FOUND, "no op is named '%s'", op);
    return st_build_node(b, &desc, out_results, err);
}

/* ---- constants ---- */

static stator_status push_constant(stator_builder *b, stator_ref type, uint32_t blob,
                                   stator_ref *out, stator_diag **err)
{
    ST_TRY_MEM(blob, err);
    const stator_attr value = {.name = "value",
                               .kind = STATOR_ATTR_BLOB,
                               .i = type,
                               .blob = st_module_blob_at(b->module, blob)};
    return st_build_op(b, "constant", 0, NULL, 1, &value, 1, out, err);
}

stator_status st_build_constant(stator_builder *b, stator_ref type, const void *data, uint64_t size,
                                stator_ref *out, stator_diag **err)
{
    *out = 0;
    ST_REQUIRE_LIST(data, size, err);
    ST_TRY(check_blob(b->module, type, size, "constant", "", err));
    return push_constant(b, type, st_module_blob_of_bytes(b->module, data, size), out, err);
}

stator_status st_build_constant_blob(stator_builder *b, stator_ref type, stator_blob *blob,
                                     stator_ref *out, stator_diag **err)
{
    *out = 0;
    ST_FAIL_IF(blob == NULL, err, STATOR_INVALID_ARGUMENT, "constant: no data");
    ST_TRY(check_blob(b->module, type, st_blob_size(blob), "constant", "", err));
    return push_constant(b, type, st_module_blob(b->module, blob), out, err);
}
