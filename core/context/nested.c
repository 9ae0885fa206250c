/* Backend instances; see nested.h. */
#include "core/context/nested.h"

#include "core/base/sized.h"
#include "core/base/str.h"
#include "core/context/compile_handle.h"
#include "core/context/fuel.h"
#include "core/context/item_options.h"
#include "ir/graph.h"

#include <string.h>

/* A backend that is being created or is compiling: what it opens meanwhile belongs to the same
 * compile, so a name met twice there is a circle. Entries live on the stack. */
struct st_open_entry {
    st_compile_handle handle;
    const struct st_open_entry *outer;
    const char *name;
    stator_fuel_scope *fuel; /* fuel scope of the compile, NULL for a creation */
    const stator_options *options;
};

static void print_chain(const struct st_open_entry *entry, st_str *out)
{
    if (entry != NULL) {
        print_chain(entry->outer, out);
        st_str_addf(out, "%s > ", entry->name);
    }
}

static stator_status refuse_circle(const stator_instance *instance, stator_diag **err)
{
    const char *name = instance->backend->item.name;
    const struct st_open_entry *opening = st_compile_of(instance->ctx).opening;
    const struct st_open_entry *same = opening;
    while (same != NULL && strcmp(same->name, name) != 0) {
        same = same->outer;
    }
    if (same == NULL) {
        return STATOR_OK;
    }
    st_str chain;
    st_str_init(&chain, &instance->ctx->mem);
    print_chain(opening, &chain);
    const stator_status status =
        st_fail(err, STATOR_FAILED_PRECONDITION, "backends open each other in a circle: %s%s",
                chain.data != NULL ? chain.data : "", name);
    st_str_deinit(&chain);
    return status;
}

static stator_status enter(const stator_instance *instance, struct st_open_entry *entry,
                           stator_fuel_scope *fuel, stator_diag **err)
{
    ST_TRY(refuse_circle(instance, err));
    st_compile_enter(&entry->handle, instance->ctx);
    entry->outer = entry->handle.opening;
    entry->name = instance->backend->item.name;
    entry->fuel = fuel;
    entry->options = instance->options;
    entry->handle.opening = entry;
    return STATOR_OK;
}

static stator_status create_inst(stator_instance *instance, stator_diag **err)
{
    struct st_open_entry entry;
    ST_TRY(enter(instance, &entry, NULL, err));
    st_plugin_call call;
    st_plugin_enter(&call, instance->loaded->callee, "create");
    stator_status status = instance->backend->create(instance->loaded->self, instance->options,
                                                     instance->device, &instance->inst, err);
    status = st_plugin_leave(&call, status, err);
    st_compile_leave(&entry.handle);
    if (status != STATOR_OK) {
        instance->inst = NULL;
    }
    return status;
}

stator_status st_instance_open_on(stator_ctx *ctx, const char *name, uint32_t device,
                                  const st_option_pairs *given, stator_instance **out_instance,
                                  stator_diag **err)
{
    *out_instance = NULL;
    const st_loaded *loaded = NULL;
    ST_TRY(st_registry_get(ctx->registry, STATOR_KIND_BACKEND, name, &loaded, err));
    const stator_backend *backend = loaded->as.backend;
    ST_FAIL_IF(device != 0 && backend->devices == NULL && backend->memory == NULL, err,
               STATOR_NOT_FOUND, "there is no device %s:%u: backend '%s' works on the host alone",
               name, device, name);
    stator_instance *instance = st_calloc(&ctx->mem, 1, sizeof *instance);
    ST_TRY_MEM(instance, err);
    instance->ctx = ctx;
    instance->loaded = loaded;
    instance->backend = backend;
    instance->device = device;
    atomic_init(&instance->refs, 1);
    pthread_mutex_init(&instance->compile_lock, NULL);
    pthread_mutex_init(&instance->run_lock, NULL);
    stator_status status =
        st_item_options(ctx, &instance->backend->item, given, &instance->options, err);
    ST_THEN(status, create_inst(instance, err));
    if (status != STATOR_OK) {
        st_instance_close(instance);
        return status;
    }
    *out_instance = instance;
    return STATOR_OK;
}

stator_status st_instance_open(stator_ctx *ctx, const char *name, uint32_t option_count,
                               const char *const *keys, const char *const *values,
                               stator_instance **out_instance, stator_diag **err)
{
    const st_option_pairs given = {.count = option_count, .keys = keys, .values = values};
    return st_instance_open_on(ctx, name, 0, &given, out_instance, err);
}

stator_status st_instance_open_below(stator_ctx *ctx, const char *name,
                                     const stator_options *options, stator_instance **out_instance,
                                     stator_diag **err)
{
    st_option_pairs pairs;
    *out_instance = NULL;
    ST_TRY(st_options_foreign(options, 0, name, &pairs, err));
    const stator_status status =
        st_instance_open(ctx, name, pairs.count, pairs.keys, pairs.values, out_instance, err);
    st_option_pairs_deinit(&pairs);
    return status;
}

void st_instance_retain(stator_instance *instance)
{
    atomic_fetch_add_explicit(&instance->refs, 1, memory_order_relaxed);
}

void st_instance_close(stator_instance *instance)
{
    if (instance == NULL ||
        atomic_fetch_sub_explicit(&instance->refs, 1, memory_order_acq_rel) != 1) {
        return;
    }
    if (instance->inst != NULL) {
        st_plugin_call call;
        st_plugin_enter(&call, instance->loaded->callee, "destroy");
        instance->backend->destroy(instance->loaded->self, instance->inst);
        (void)st_plugin_leave(&call, STATOR_OK, NULL);
    }
    st_options_destroy(instance->options);
    pthread_mutex_destroy(&instance->compile_lock);
    pthread_mutex_destroy(&instance->run_lock);
    st_free(&instance->ctx->mem, instance);
}

/* `status`, or a failure where it is OK without what the slot was called for. */
static stator_status check_made(const stator_instance *instance, const char *slot,
                                stator_status status, bool is_made, stator_diag **err)
{
    ST_FAIL_IF(status == STATOR_OK && !is_made, err, STATOR_INTERNAL,
               "plugin '%s', slot %s answered OK and gave nothing", instance->loaded->callee->name,
               slot);
    return status;
}

stator_status st_instance_compile(stator_instance *instance, const stator_graph *graph,
                                  stator_fuel_scope *fuel, void **out_exe, stator_diag **err)
{
    *out_exe = NULL;
    struct st_open_entry entry;
    ST_TRY(enter(instance, &entry, fuel, err));
    const bool is_serial = (instance->backend->flags & STATOR_BACKEND_CONCURRENT_COMPILE) == 0;
    if (is_serial) {
        pthread_mutex_lock(&instance->compile_lock);
    }
    st_plugin_call call;
    st_plugin_enter(&call, instance->loaded->callee, "compile");
    stator_status status = instance->backend->compile(instance->inst, graph, fuel, out_exe, err);
    status = st_plugin_leave(&call, status, err);
    if (is_serial) {
        pthread_mutex_unlock(&instance->compile_lock);
    }
    st_compile_leave(&entry.handle);
    *out_exe = status == STATOR_OK ? *out_exe : NULL; /* a partial result belongs to the plugin */
    return check_made(instance, "compile", status, *out_exe != NULL, err);
}

stator_status st_instance_run(stator_instance *instance, void *exe, const stator_call *call,
                              stator_diag **err)
{
    const bool is_serial = (instance->backend->flags & STATOR_BACKEND_SERIAL_RUN) != 0;
    if (is_serial) {
        pthread_mutex_lock(&instance->run_lock);
    }
    st_plugin_call slot;
    st_plugin_enter_run(&slot, instance->loaded->callee, "exe_run");
    stator_status status = instance->backend->exe_run(instance->inst, exe, call, err);
    status = st_plugin_leave(&slot, status, err);
    if (is_serial) {
        pthread_mutex_unlock(&instance->run_lock);
    }
    return status;
}

stator_status st_instance_exe_info(stator_instance *instance, void *exe, stator_exe_info *out)
{
    st_plugin_call call;
    st_plugin_enter(&call, instance->loaded->callee, "exe_info");
    return st_plugin_leave(&call, instance->backend->exe_info(instance->inst, exe, out), NULL);
}

void st_instance_exe_destroy(stator_instance *instance, void *exe)
{
    st_plugin_call call;
    st_plugin_enter(&call, instance->loaded->callee, "exe_destroy");
    instance->backend->exe_destroy(instance->inst, exe);
    (void)st_plugin_leave(&call, STATOR_OK, NULL);
}

/* ---- the cache, packages ---- */

stator_status st_instance_serialize(stator_instance *instance, void *exe, stator_blob **out_blob,
                                    stator_diag **err)
{
    st_plugin_call call;
    *out_blob = NULL;
    st_plugin_enter(&call, instance->loaded->callee, "exe_serialize");
    stator_status status = instance->backend->exe_serialize(instance->inst, exe, out_blob, err);
    status = st_plugin_leave(&call, status, err);
    return check_made(instance, "exe_serialize", status, *out_blob != NULL, err);
}

stator_status st_instance_deserialize(stator_instance *instance, stator_blob *blob, void **out_exe,
                                      stator_diag **err)
{
    st_plugin_call call;
    *out_exe = NULL;
    st_plugin_enter(&call, instance->loaded->callee, "exe_deserialize");
    stator_status status = instance->backend->exe_deserialize(instance->inst, blob, out_exe, err);
    status = st_plugin_leave(&call, status, err);
    *out_exe = status == STATOR_OK ? *out_exe : NULL;
    return check_made(instance, "exe_deserialize", status, *out_exe != NULL, err);
}

const char *st_instance_compat_key(stator_instance *instance)
{
    if (instance->backend->compat_key == NULL) {
        return "";
    }
    st_plugin_call call;
    st_plugin_enter(&call, instance->loaded->callee, "compat_key");
    const char *key = instance->backend->compat_key(instance->inst);
    (void)st_plugin_leave(&call, STATOR_OK, NULL);
    return key != NULL ? key : "";
}

stator_status st_instance_package(stator_instance *instance, void *exe,
                                  const stator_package_sink *sink, stator_diag **err)
{
    st_plugin_call call;
    st_plugin_enter(&call, instance->loaded->callee, "exe_package");
    const stator_status status = instance->backend->exe_package(instance->inst, exe, sink, err);
    return st_plugin_leave(&call, status, err);
}

/* ---- capability ---- */

typedef struct collector {
    stator_ctx *ctx;
    uint32_t n_nodes;
    uint32_t n_groups;
    uint8_t *accepts;
    char **reasons;
    uint32_t *groups;
    stator_status status;
} collector;

static void on_yes(void *self, stator_ref node, uint64_t cost_ns)
{
    (void)cost_ns;
    collector *c = self;
    if (node >= 1 && node <= c->n_nodes) {
        c->accepts[node] = 1;
    }
}

static void on_no(void *self, stator_ref node, stator_status reason, const char *text)
{
    collector *c = self;
    if (node < 1 || node > c->n_nodes) {
        return;
    }
    c->accepts[node] = 0;
    if (c->reasons != NULL && c->reasons[node] == NULL) {
        c->reasons[node] =
            st_strdup(&c->ctx->mem, text != NULL ? text : stator_status_text(reason));
        if (c->reasons[node] == NULL) {
            c->status = STATOR_RESOURCE_EXHAUSTED;
        }
    }
}

static void on_group(void *self, const stator_ref *nodes, uint32_t n, uint32_t flags)
{
    collector *c = self;
    const uint32_t group = (flags & STATOR_GROUP_ATOMIC) != 0 ? ++c->n_groups : 0;
    for (uint32_t i = 0; i < n; i++) {
        on_yes(self, nodes[i], 0);
        if (group != 0 && c->groups != NULL && nodes[i] >= 1 && nodes[i] <= c->n_nodes) {
            c->groups[nodes[i]] = group;
        }
    }
}

/* A group's number becomes its first member's: a plugin may state more groups than there are nodes.
 */
static stator_status name_groups(const collector *c)
{
    stator_ref *first = st_calloc(&c->ctx->mem, c->n_groups + UINT64_C(1), sizeof *first);
    if (first == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    for (stator_ref n = 1; n <= c->n_nodes; n++) {
        const uint32_t group = c->groups[n];
        if (group != 0) {
            first[group] = first[group] != 0 ? first[group] : n;
            c->groups[n] = first[group];
        }
    }
    st_free(&c->ctx->mem, first);
    return STATOR_OK;
}

stator_status st_instance_capability(stator_instance *instance, const stator_graph *graph,
                                     uint8_t *accepts, char **reasons, uint32_t *groups,
                                     stator_diag **err)
{
    const uint32_t n_nodes = st_graph_view(graph)->n_nodes;
    if (instance->backend->capability == NULL) {
        memset(accepts, 1, n_nodes + 1u);
        return STATOR_OK;
    }
    memset(accepts, 0, n_nodes + 1u);
    collector c = {.ctx = instance->ctx,
                   .n_nodes = n_nodes,
                   .accepts = accepts,
                   .reasons = reasons,
                   .groups = groups};
    const stator_capability_sink sink = {
        .struct_size = sizeof sink, .self = &c, .yes = on_yes, .no = on_no, .group = on_group};
    st_plugin_call call;
    st_plugin_enter(&call, instance->loaded->callee, "capability");
    const stator_status status = instance->backend->capability(instance->inst, graph, &sink, err);
    ST_TRY(st_plugin_leave(&call, status, err));
    if (c.status == STATOR_OK && groups != NULL && c.n_groups != 0) {
        c.status = name_groups(&c);
    }
    return c.status == STATOR_OK ? STATOR_OK : st_fail_oom(err);
}

static bool call_keep(stator_instance *instance, const char *op, uint32_t version,
                      const stator_dtype *dtypes, const uint32_t *ranks, uint32_t n)
{
    st_plugin_call call;
    st_plugin_enter(&call, instance->loaded->callee, "keep");
    const bool is_kept = instance->backend->keep(instance->inst, op, version, dtypes, ranks, n);
    (void)st_plugin_leave(&call, STATOR_OK, NULL);
    return is_kept;
}

bool st_instance_keeps(stator_instance *instance, const stator_graph *graph, stator_ref node)
{
    if (instance->backend->keep == NULL) {
        return false;
    }
    const stator_graph_view *v = st_graph_view(graph);
    const stator_node_row *row = stator_node_at(v, node);
    const stator_op_desc *op = stator_op_at(v, row->op);
    stator_dtype dtypes[16] = {0};
    uint32_t ranks[16] = {0};
    const uint32_t n = row->operand_count < 16 ? row->operand_count : 16;
    for (uint32_t k = 0; k < n; k++) {
        const stator_ref operand = stator_operand(v, row, k);
        if (operand != 0) {
            const stator_type_row *type = stator_value_type(v, operand);
            dtypes[k] = type->dtype;
            ranks[k] = type->rank;
        }
    }
    return call_keep(instance, op->name, op->version, dtypes, ranks, n);
}

/* ---- the table ---- */

static stator_status nested_open(stator_ctx *ctx, const char *opener, const char *backend,
                                 const stator_options *options, stator_instance **out,
                                 stator_diag **err)
{
    (void)opener; /* the call stack names the chain */
    *out = NULL;
    ST_REQUIRE(backend, err);
    const struct st_open_entry *entry = st_compile_of(ctx).opening;
    options = options == NULL && entry != NULL ? entry->options : options;
    ST_TRY(st_instance_open_below(ctx, backend, options, out, err));
    if ((*out)->backend->memory != NULL) {
        st_instance_close(*out);
        *out = NULL;
        return st_fail(err, STATOR_UNSUPPORTED,
                       "backend '%s' has memory of its own, and a backend inside another runs on "
                       "the host's; name it as the main backend or as a node fallback",
                       backend);
    }
    return STATOR_OK;
}

/* A scope for a compile inside the compile that this thread works for; NULL (nothing optional is
 * done) when it is in none. */
static stator_fuel_scope *nested_scope(const stator_instance *instance, const stator_graph *graph)
{
    const struct st_open_entry *e = st_compile_of(instance->ctx).opening;
    while (e != NULL && e->fuel == NULL) {
        e = e->outer;
    }
    stator_fuel_scope *scope =
        e != NULL ? st_fuel_scope(e->fuel->fuel, e->fuel, instance->backend->item.name) : NULL;
    st_fuel_about(scope, graph);
    return scope;
}

static stator_status nested_compile(stator_instance *instance, const stator_graph *graph,
                                    void **out_exe, stator_diag **err)
{
    return st_instance_compile(instance, graph, nested_scope(instance, graph), out_exe, err);
}

/* Copies one node into b: operands become inputs, results outputs. */
static stator_status write_node(const stator_graph *graph, stator_ref node, stator_ref *map,
                                stator_builder *b, stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    const stator_node_row *row = stator_node_at(v, node);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref operand = stator_operand(v, row, k);
        if (operand != 0 && map[operand] == 0) {
            ST_TRY(st_build_input(b, NULL, stator_value_at(v, operand)->type, &map[operand], err));
        }
    }
    ST_TRY(st_build_clone(b, graph, node, node, map, err));
    for (uint32_t k = 0; k < row->result_count; k++) {
        ST_TRY(st_build_output(b, NULL, map[row->result_begin + k], err));
    }
    return STATOR_OK;
}

/* The graph of one node, in the same module. */
static stator_status single_node(const stator_graph *graph, stator_ref node,
                                 stator_graph **out_graph, stator_diag **err)
{
    st_module *m = graph->module;
    stator_graph *root = m->root;
    stator_builder *b = NULL;
    stator_ref *map = st_calloc(m->mem, st_graph_view(graph)->n_values + 1u, sizeof *map);
    stator_status status = map != NULL ? st_builder_create(m, "node", &b, err) : st_fail_oom(err);
    if (status == STATOR_OK) {
        status = write_node(graph, node, map, b, err);
        if (status == STATOR_OK) {
            status = st_builder_finish(b, out_graph, err);
            m->root = root;
        } else {
            st_builder_abort(b);
        }
    }
    st_free(m->mem, map);
    return status;
}

static stator_status nested_compile_node(stator_instance *instance, const stator_graph *graph,
                                         stator_ref node, void **out_exe, stator_diag **err)
{
    stator_graph *one = NULL;
    *out_exe = NULL;
    ST_FAIL_IF(node == 0 || node > st_graph_view(graph)->n_nodes, err, STATOR_OUT_OF_RANGE,
               "the graph has no node %u", node);
    ST_TRY(single_node(graph, node, &one, err));
    return st_instance_compile(instance, one, nested_scope(instance, one), out_exe, err);
}

static stator_status nested_exe_info(stator_instance *instance, void *exe, stator_exe_info *out)
{
    stator_exe_info info = {.struct_size = sizeof info};
    ST_TRY(st_instance_exe_info(instance, exe, &info));
    info.struct_size = sizeof info;
    return ST_SIZED_WRITE(stator_exe_info, out, &info, NULL);
}

stator_status st_instance_steps(stator_instance *instance, void *exe, const stator_step_sink *sink,
                                stator_diag **err)
{
    if (instance->backend->exe_steps == NULL) {
        return STATOR_OK;
    }
    st_plugin_call call;
    st_plugin_enter(&call, instance->loaded->callee, "exe_steps");
    const stator_status status = instance->backend->exe_steps(instance->inst, exe, sink, err);
    return st_plugin_leave(&call, status, err);
}

static stator_status nested_capability(stator_instance *instance, const stator_graph *graph,
                                       uint8_t *accepts, stator_diag **err)
{
    return st_instance_capability(instance, graph, accepts, NULL, NULL, err);
}

static int32_t nested_keep(stator_instance *instance, const char *op, uint32_t version,
                           const stator_dtype *dtypes, const uint32_t *ranks, uint32_t n)
{
    return instance->backend->keep != NULL ? call_keep(instance, op, version, dtypes, ranks, n) : 0;
}

const stator_nested_api st_nested_api = {.struct_size = sizeof st_nested_api,
                                         .open = nested_open,
                                         .compile = nested_compile,
                                         .exe_info = nested_exe_info,
                                         .run = st_instance_run,
                                         .exe_destroy = st_instance_exe_destroy,
                                         .close = st_instance_close,
                                         .capability = nested_capability,
                                         .keep = nested_keep,
                                         .compile_node = nested_compile_node,
                                         .exe_steps = st_instance_steps};
