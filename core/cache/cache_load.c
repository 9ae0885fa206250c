/* Bytes of the cache as a compiled graph; see cache_save.c for what they hold.
 *
 * Nothing that is read is believed: counts against what is left, places against what was read
 * before, shapes and sizes are computed anew, values are made before they are read, bodies of
 * control flow take and give what their step does. */
#include "core/cache/cache.h"
#include "core/compile/assemble.h"

#include "core/base/bytes.h"
#include "core/base/check.h"
#include "ir/binary.h"
#include "ir/builder.h"

#include <stdio.h>
#include <string.h>

#define ITEM_BYTES_MIN 4u /* smallest item of a counted list: bounds a count by the bytes left */

typedef struct loading {
    st_cache_job *job;
    st_compiled *out;
    st_mem *mem;
    st_reader r;
    uint32_t n_syms; /* symbols read so far */
} loading;

/* The entry is damaged: the reader failed, or a check of `what` did not hold. */
static stator_status broken(stator_diag **err, const char *what)
{
    return st_fail(err, STATOR_DATA_LOSS, "%s", what);
}
#define BROKEN_IF(condition, err, what)                                                            \
    do {                                                                                           \
        if (condition) {                                                                           \
            return broken((err), (what));                                                          \
        }                                                                                          \
    } while (0)

/* ---- constants ---- */

static stator_blob *find_in_source(const loading *l, const st_cached_constant *c)
{
    const st_module *source = l->job->request->source;
    uint8_t hash[16];
    for (uint32_t i = 1; i < source->blobs.count; i++) {
        stator_blob *blob = st_module_blob_at(source, i);
        if (st_blob_size(blob) == c->size_bytes && st_blob_hash(blob, hash, NULL) == STATOR_OK &&
            memcmp(hash, c->hash, sizeof hash) == 0) {
            st_blob_retain(blob);
            return blob;
        }
    }
    return NULL;
}

static stator_blob *take_constant(loading *l, const st_cached_constant *c, uint32_t place)
{
    char key[64];
    char name[ST_CACHE_NAME_BYTES];
    uint64_t n = 0;
    if (place == ST_CACHED_SOURCE) {
        return find_in_source(l, c);
    }
    stator_blob *blob = NULL;
    if (place == ST_CACHED_INLINE) {
        const void *data = st_read_block(&l->r, &n);
        blob = !l->r.failed && n == c->size_bytes ? st_blob_copy(l->mem, data, n) : NULL;
    } else {
        st_cache_constant_key(c->hash, key, name);
        blob = st_cache_map(l->job->store, name, key, c->size_bytes);
    }
    if (blob != NULL) {
        st_blob_set_hash(blob, c->hash);
    }
    return blob;
}

static stator_status read_constants(loading *l, stator_diag **err)
{
    const uint32_t n = st_read_count(&l->r, ITEM_BYTES_MIN);
    for (uint32_t i = 0; i < n; i++) {
        st_cached_constant c = {.blob = NULL};
        st_read_bytes(&l->r, c.hash, sizeof c.hash);
        c.size_bytes = st_read_u64(&l->r);
        const uint32_t place = st_read_below(&l->r, ST_CACHED_BESIDE + 1u);
        c.blob = l->r.failed ? NULL : take_constant(l, &c, place);
        BROKEN_IF(c.blob == NULL, err, "a constant is not there");
        st_cached_constant *at = st_vec_push(l->mem, &l->job->constants);
        if (at == NULL) {
            st_blob_release(c.blob);
            return st_fail_oom(err);
        }
        *at = c;
    }
    return STATOR_OK;
}

/* The program needs its constants as long as it lives. */
static stator_status keep_constants(loading *l, stator_diag **err)
{
    const uint32_t n = l->job->constants.count;
    l->out->blobs = st_calloc(l->mem, n + UINT64_C(1), sizeof *l->out->blobs);
    ST_TRY_MEM(l->out->blobs, err);
    for (uint32_t i = 0; i < n; i++) {
        l->out->blobs[i] = l->job->constants.data[i].blob;
        st_blob_retain(l->out->blobs[i]);
        l->out->n_blobs = i + 1u;
    }
    return STATOR_OK;
}

/* ---- around the programs ---- */

/* A text that lives as long as what is made; NULL stays NULL. */
static const char *keep_text(loading *l)
{
    const char *text = st_read_text(&l->r);
    if (text == NULL || l->r.failed) {
        return NULL;
    }
    const char *kept = st_arena_strndup(&l->out->arena, text, strlen(text));
    l->r.failed |= kept == NULL;
    return kept;
}

static stator_status read_symbols(loading *l, stator_diag **err)
{
    l->n_syms = st_read_count(&l->r, 3u * sizeof(int64_t));
    l->out->symbols = st_calloc(l->mem, l->n_syms + UINT64_C(1), sizeof *l->out->symbols);
    ST_TRY_MEM(l->out->symbols, err);
    for (uint32_t i = 0; i < l->n_syms; i++) {
        st_symbol *s = &l->out->symbols[i];
        s->lo = st_read_i64(&l->r);
        s->hi = st_read_i64(&l->r);
        s->divisor = st_read_i64(&l->r);
        const char *name = st_read_text(&l->r);
        (void)snprintf(s->name, sizeof s->name, "%s", name != NULL ? name : "");
    }
    return l->r.failed ? broken(err, "its symbols are damaged") : STATOR_OK;
}

static bool read_guard_size(loading *l, st_guard_size *size)
{
    size->kind = st_read_u32(&l->r);
    size->symbol = st_read_u32(&l->r);
    size->lo = st_read_i64(&l->r);
    size->hi = st_read_i64(&l->r);
    size->divisor = st_read_i64(&l->r);
    const char *text = st_read_text(&l->r);
    const uint32_t kind = size->kind;
    size->kind = ST_SIZE_CONST; /* until its program is there */
    if (l->r.failed || kind < ST_SIZE_CONST || kind > ST_SIZE_EXPR ||
        (kind == ST_SIZE_BIND && (size->symbol >= l->n_syms || size->divisor < 1))) {
        return false;
    }
    size->text = text != NULL ? st_strdup(l->mem, text) : NULL;
    ST_NEED(kind != ST_SIZE_EXPR || st_symprog_read(&size->prog, l->mem, &l->r, l->n_syms));
    size->kind = kind;
    l->out->guard.n_exprs += kind == ST_SIZE_EXPR;
    return text == NULL || size->text != NULL;
}

static bool read_guard_input(loading *l, st_guard_input *input, uint32_t capacity)
{
    st_guard *g = &l->out->guard;
    input->dtype.code = (uint8_t)st_read_below(&l->r, 256);
    input->dtype.bits = (uint8_t)st_read_below(&l->r, 256);
    input->dtype.lanes = (uint16_t)st_read_below(&l->r, 65536);
    input->name = keep_text(l);
    input->rank = st_read_below(&l->r, STATOR_RANK_MAX + 1u);
    input->size_begin = g->n_sizes;
    if (l->r.failed || input->rank > capacity - g->n_sizes) {
        return false;
    }
    for (uint32_t axis = 0; axis < input->rank; axis++) {
        ST_NEED(read_guard_size(l, &g->sizes[g->n_sizes++]));
    }
    return true;
}

static bool read_shape_constraint(loading *l, st_guard_shape_constraint *constraint)
{
    constraint->kind = st_read_below(&l->r, ST_SHAPE_CONSTRAINT_KINDS);
    constraint->step = st_read_i64(&l->r);
    const char *text = st_read_text(&l->r);
    if (l->r.failed || constraint->kind == 0 || text == NULL) {
        return false;
    }
    constraint->text = st_strdup(l->mem, text);
    for (uint32_t k = 0; k < st_shape_constraint_sizes(constraint->kind); k++) {
        ST_NEED(st_symprog_read(&constraint->size[k], l->mem, &l->r, l->n_syms));
    }
    return constraint->text != NULL;
}

static stator_status read_shape_constraints(loading *l, stator_diag **err)
{
    st_guard *g = &l->out->guard;
    const uint32_t n = st_read_count(&l->r, 5u * ITEM_BYTES_MIN);
    g->shape_constraints = st_calloc(l->mem, n + UINT64_C(1), sizeof *g->shape_constraints);
    ST_TRY_MEM(g->shape_constraints, err);
    for (uint32_t i = 0; i < n; i++) {
        BROKEN_IF(!read_shape_constraint(l, &g->shape_constraints[g->n_shape_constraints++]), err,
                  "its shape constraints are damaged");
    }
    return l->r.failed ? broken(err, "its shape constraints are damaged") : STATOR_OK;
}

static stator_status read_guard(loading *l, stator_diag **err)
{
    st_guard *g = &l->out->guard;
    const uint32_t n_symbols = st_read_below(&l->r, l->n_syms + 1u);
    (void)st_read_u32(&l->r); /* expressions: counted again */
    const uint32_t n = st_read_count(&l->r, 5u * ITEM_BYTES_MIN);
    BROKEN_IF(l->r.failed || n > UINT32_MAX / STATOR_RANK_MAX, err, "its guard is damaged");
    const uint32_t capacity = n * STATOR_RANK_MAX;
    *g = (st_guard){.mem = l->mem, .n_symbols = n_symbols};
    g->inputs = st_calloc(l->mem, n + UINT64_C(1), sizeof *g->inputs);
    g->sizes = st_calloc(l->mem, capacity + UINT64_C(1), sizeof *g->sizes);
    ST_TRY_MEM(g->inputs && g->sizes, err);
    for (uint32_t i = 0; i < n; i++) {
        BROKEN_IF(!read_guard_input(l, &g->inputs[i], capacity), err, "its guard is damaged");
    }
    g->n_inputs = n;
    return l->r.failed || n_symbols != l->n_syms ? broken(err, "its guard is damaged")
                                                 : read_shape_constraints(l, err);
}

/* Names of backends live with the instances. */
static const char *known_backend(const loading *l, const char *name)
{
    const st_compile_request *request = l->job->request;
    const char *found = "host";
    for (uint32_t i = 0; name != NULL && i <= request->n_fallbacks; i++) {
        const stator_instance *of = i == 0 ? request->main : request->fallbacks[i - 1u];
        found = strcmp(name, of->backend->item.name) == 0 ? of->backend->item.name : found;
    }
    return found;
}

static stator_status read_coverage(loading *l, stator_diag **err)
{
    const uint32_t n = st_read_below(&l->r, ST_COLORS + 1u);
    for (uint32_t i = 0; i < n; i++) {
        stator_coverage *row = &l->out->coverage[i];
        row->backend = known_backend(l, st_read_text(&l->r));
        row->nodes = st_read_u32(&l->r);
        row->partitions = st_read_u32(&l->r);
    }
    l->out->n_coverage = n;
    return l->r.failed ? broken(err, "its coverage is damaged") : STATOR_OK;
}

static stator_status read_fallback_nodes(loading *l, stator_diag **err)
{
    st_fallback_nodes *nodes = &l->out->fallback_nodes;
    *nodes = (st_fallback_nodes){.mem = l->mem};
    st_arena_init(&nodes->arena, l->mem);
    nodes->n_nodes = st_read_u32(&l->r);
    nodes->n_handed = st_read_u32(&l->r);
    nodes->n_host = st_read_u32(&l->r);
    const uint32_t n = st_read_count(&l->r, 4u * ITEM_BYTES_MIN);
    for (uint32_t i = 0; i < n; i++) {
        st_fallback_entry entry = {.op = keep_text(l)};
        entry.reason = keep_text(l);
        entry.name = keep_text(l);
        entry.count = st_read_u32(&l->r);
        st_fallback_entry *at = st_vec_push(l->mem, &nodes->entries);
        ST_TRY_MEM(at, err);
        *at = entry;
        l->r.failed |= entry.op == NULL || entry.reason == NULL || entry.name == NULL;
    }
    return l->r.failed ? broken(err, "what was left of it is damaged") : STATOR_OK;
}

/* ---- slots ---- */

/* Places in a list of the entry, copied to `to`; each is below the limit, or ST_NO_SLOT if that may
 * be. */
static bool read_places(loading *l, uint32_t limit, bool may_lack, uint32_t **to, uint32_t *out_n)
{
    uint64_t bytes = 0;
    const void *list = st_read_block(&l->r, &bytes);
    const uint64_t n = bytes / sizeof(uint32_t);
    *out_n = 0;
    *to = NULL;
    ST_NEED(!l->r.failed && bytes % sizeof(uint32_t) == 0 && n < UINT32_MAX / 4u);
    *to = st_calloc(l->mem, n + UINT64_C(1), sizeof **to);
    ST_NEED(*to != NULL);
    if (n != 0) {
        memcpy(*to, list, (size_t)bytes);
    }
    for (uint64_t i = 0; i < n; i++) {
        ST_NEED((*to)[i] < limit || (may_lack && (*to)[i] == ST_NO_SLOT));
    }
    *out_n = (uint32_t)n;
    return true;
}

static bool read_dims(loading *l, st_program *p, st_slot *slot)
{
    int64_t shape[STATOR_RANK_MAX];
    uint64_t count = 0;
    uint32_t is_static = 1;
    slot->dim_begin = p->n_dims;
    for (uint32_t axis = 0; axis < slot->rank; axis++) {
        st_symprog *dim = &p->dims[p->n_dims];
        ST_NEED(st_symprog_read(dim, l->mem, &l->r, l->n_syms));
        p->bound_symbol[p->n_dims++] = (int32_t)st_read_below(&l->r, l->n_syms + 1u) - 1;
        is_static &= dim->is_const;
        shape[axis] = dim->constant;
    }
    slot->size_bytes = 0;
    return !l->r.failed && is_static == slot->is_static &&
           (!is_static || (st_numel(shape, slot->rank, &count) &&
                           st_dtype_bytes(slot->dtype, count, &slot->size_bytes)));
}

/* The blob of a slot that holds a constant, 0 when there is no such or it is too short. */
static bool read_data(loading *l, st_slot *slot)
{
    const uint32_t id = st_read_below(&l->r, l->job->constants.count);
    ST_NEED(!l->r.failed);
    slot->blob = l->job->constants.data[id].blob;
    return slot->is_static && st_blob_size(slot->blob) >= slot->size_bytes &&
           st_blob_get(slot->blob, &slot->data, NULL) == STATOR_OK;
}

static bool read_slot(loading *l, st_program *p, st_slot *slot)
{
    slot->dtype = st_read_u32(&l->r);
    slot->rank = st_read_below(&l->r, STATOR_RANK_MAX + 1u);
    slot->is_static = st_read_below(&l->r, 2);
    slot->output = (int32_t)st_read_below(&l->r, INT32_MAX) - 1;
    const uint64_t size = st_read_u64(&l->r);
    slot->op = keep_text(l);
    slot->name = keep_text(l);
    if (l->r.failed || st_dtype_bits(slot->dtype) == 0 || !read_dims(l, p, slot) ||
        size != slot->size_bytes) {
        return false;
    }
    return st_read_below(&l->r, 2) ? read_data(l, slot) : !l->r.failed;
}

static stator_status read_slots(loading *l, st_program *p, stator_diag **err)
{
    const uint32_t n_in = st_read_u32(&l->r);
    const uint32_t n = st_read_count(&l->r, 8u * ITEM_BYTES_MIN);
    const uint64_t n_dims = (uint64_t)n * STATOR_RANK_MAX + 1u;
    p->slots = st_calloc(l->mem, n + UINT64_C(1), sizeof *p->slots);
    p->dims = st_calloc(l->mem, n_dims, sizeof *p->dims);
    p->bound_symbol = st_calloc(l->mem, n_dims, sizeof *p->bound_symbol);
    ST_TRY_MEM(p->slots && p->dims && p->bound_symbol, err);
    for (uint32_t i = 0; i < n; i++) {
        BROKEN_IF(!read_slot(l, p, &p->slots[i]), err, "a value is damaged");
        p->n_slots = i + 1u;
    }
    p->n_in = n_in;
    for (uint32_t i = 0; i < n_in && n_in <= n; i++) {
        BROKEN_IF(p->slots[i].data != NULL, err, "an input is damaged");
    }
    return l->r.failed || n_in > n ? broken(err, "its values are damaged") : STATOR_OK;
}

/* ---- steps ---- */

static stator_status set_executable(const loading *l, const st_program *p, st_step *step,
                                    stator_instance *instance, stator_diag **err)
{
    stator_exe_info info = {.struct_size = sizeof info};
    step->self = instance; /* ends the executable, whatever fails from here on */
    const stator_status status = st_instance_exe_info(instance, step->exe, &info);
    BROKEN_IF(status != STATOR_OK, err, "an executable does not tell its needs");
    return st_describe_step(l->job->request, p, instance, &info, step, err);
}

static stator_status read_executable(loading *l, const st_program *p, st_step *step,
                                     stator_diag **err)
{
    stator_instance *main = l->job->request->main;
    uint64_t n = 0;
    const void *bytes = st_read_block(&l->r, &n);
    BROKEN_IF(l->r.failed, err, "an executable is damaged");
    stator_blob *blob = st_blob_copy(l->mem, bytes, n);
    ST_TRY_MEM(blob, err);
    const stator_status status = st_instance_deserialize(main, blob, &step->exe, err);
    st_blob_release(blob);
    ST_TRY(status);
    return set_executable(l, p, step, main, err);
}

/* A part's graph in a module of its own, which lives as long as the program. */
static stator_status parse_graph(loading *l, const void *bytes, uint64_t n, st_module **out,
                                 stator_diag **err)
{
    stator_ctx *ctx = l->job->request->ctx;
    stator_builder *b = NULL;
    ST_TRY(st_module_create(l->mem, ctx, &ctx->ops, out, err));
    st_module **at = st_vec_push(l->mem, &l->out->parts);
    if (at == NULL) {
        st_module_destroy(*out);
        return st_fail_oom(err);
    }
    *at = *out;
    ST_TRY(st_builder_create(*out, "part", &b, err));
    const stator_status status = st_parse_binary(b, bytes, n, NULL, err);
    if (status != STATOR_OK) {
        st_builder_abort(b);
        return status;
    }
    return st_builder_finish(b, &(*out)->root, err);
}

/* Is each size of the type, as its graph has it, that of the slot, by the program's symbols? */
static bool are_sizes_of(const loading *l, const st_program *p, const st_slot *slot,
                         const stator_graph_view *v, const stator_type_row *type)
{
    const st_sym_cols cols = {.syms = v->syms, .terms = v->terms, .atoms = v->atoms};
    bool is_so = true;
    for (uint32_t axis = 0; is_so && axis < type->rank; axis++) {
        st_symprog size;
        is_so = st_symprog_init(&size, l->mem, &cols, stator_dim_at(v, type, axis)) &&
                st_symprog_is_same(&size, &p->dims[slot->dim_begin + axis]);
        st_symprog_deinit(&size, l->mem);
    }
    return is_so;
}

static bool is_slot_of(const loading *l, const st_program *p, uint32_t slot,
                       const stator_graph_view *v, stator_ref value)
{
    const stator_type_row *type = stator_value_type(v, value);
    return slot != ST_NO_SLOT && p->slots[slot].dtype == type->dtype &&
           p->slots[slot].rank == type->rank && are_sizes_of(l, p, &p->slots[slot], v, type);
}

/* Does the graph take and give what the step does, under the program's symbols? Behind those there
 * are some that inference made before it saw what they are. */
static bool is_graph_of(const loading *l, const st_program *p, const st_step *step,
                        const stator_graph *graph)
{
    const stator_graph_view *v = st_graph_view(graph);
    bool is_so =
        v->n_inputs == step->n_in && v->n_outputs == step->n_out && v->n_symbols >= l->n_syms;
    for (uint32_t k = 0; is_so && k < step->n_in; k++) {
        is_so = is_slot_of(l, p, step->in[k], v, k + 1u);
    }
    for (uint32_t k = 0; is_so && k < step->n_out; k++) {
        is_so = is_slot_of(l, p, step->out[k], v, stator_output_at(v, k));
    }
    return is_so;
}

static stator_status read_graph(loading *l, const st_program *p, st_step *step, stator_diag **err)
{
    const st_compile_request *request = l->job->request;
    st_module *module = NULL;
    uint64_t n = 0;
    const uint32_t which = st_read_u32(&l->r);
    const void *bytes = st_read_block(&l->r, &n);
    BROKEN_IF(l->r.failed || which >= request->n_fallbacks, err, "a part is damaged");
    stator_instance *fallback = request->fallbacks[which];
    ST_TRY(parse_graph(l, bytes, n, &module, err));
    BROKEN_IF(!is_graph_of(l, p, step, module->root), err, "a part is not that of its step");
    stator_fuel_scope *scope = st_fuel_scope(request->fuel, NULL, fallback->backend->item.name);
    ST_TRY_MEM(scope, err);
    ST_TRY(st_instance_compile(fallback, module->root, scope, &step->exe, err));
    step->graph = module->root;
    return set_executable(l, p, step, fallback, err);
}

static stator_status read_part(loading *l, const st_program *p, st_step *step, stator_diag **err)
{
    const uint32_t how = st_read_below(&l->r, ST_CACHED_GRAPH + 1u);
    return how == ST_CACHED_GRAPH ? read_graph(l, p, step, err) : read_executable(l, p, step, err);
}

/* Do the inputs and outputs of the bodies match those of the step? */
static bool is_arity_right(const st_step *step, const st_control *c)
{
    static const uint32_t bodies[] = {
        [ST_STEP_COND] = 2, [ST_STEP_CALL] = 1, [ST_STEP_WHILE] = 1, [ST_STEP_SCAN] = 1};
    const uint64_t results = (uint64_t)c->n_carried + c->n_stacked;
    const uint32_t lead = step->kind == ST_STEP_COND || step->kind == ST_STEP_WHILE ? 1u : 0;
    bool is_right = c->n_bodies == bodies[step->kind];
    for (uint32_t k = 0; is_right && k < c->n_bodies; k++) {
        const st_program *body = c->bodies[k];
        const uint64_t given = (uint64_t)step->n_out + (step->kind == ST_STEP_WHILE);
        is_right = (uint64_t)body->n_in + lead == step->n_in && body->n_outputs == given;
    }
    if (step->kind == ST_STEP_WHILE) {
        return is_right && results == step->n_out && c->n_carried + UINT64_C(2) <= step->n_in;
    }
    if (step->kind == ST_STEP_SCAN) {
        return is_right && results == step->n_out && c->n_scanned != 0 &&
               (uint64_t)c->n_carried + c->n_scanned <= step->n_in;
    }
    return is_right;
}

/* Four lists behind the control: axes and directions of what is scanned and of what is stacked. */
static bool read_scan(loading *l, const st_program *p, const st_step *step, st_control *c)
{
    uint32_t *at = (uint32_t *)(void *)(c + 1);
    const uint32_t counts[4] = {c->n_scanned, c->n_scanned, c->n_stacked, c->n_stacked};
    const uint32_t **lists[4] = {&c->scanned_axes, &c->scanned_reverse, &c->stacked_axes,
                                 &c->stacked_reverse};
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t n = 0;
        const void *bytes = st_read_block(&l->r, &n);
        if (l->r.failed || n != (uint64_t)counts[i] * sizeof *at) {
            return false;
        }
        *lists[i] = at;
        memcpy(at, bytes != NULL && n != 0 ? bytes : "", (size_t)n);
        at += counts[i];
    }
    for (uint32_t k = 0; k < c->n_scanned; k++) {
        const uint32_t slot = step->in[c->n_carried + k];
        if (slot == ST_NO_SLOT || c->scanned_axes[k] >= p->slots[slot].rank) {
            return false;
        }
    }
    for (uint32_t k = 0; k < c->n_stacked; k++) {
        if (c->stacked_axes[k] >= p->slots[step->out[c->n_carried + k]].rank) {
            return false;
        }
    }
    return true;
}

/* own: 1 + the place of the program among the bodies; those behind it have been read. */
static bool read_control(loading *l, st_program *p, st_step *step, uint32_t own)
{
    static const char *const ops[] = {[ST_STEP_COND] = "cond",
                                      [ST_STEP_CALL] = "call",
                                      [ST_STEP_WHILE] = "while",
                                      [ST_STEP_SCAN] = "scan"};
    st_control head = {.n_bodies = 0};
    step->op = ops[step->kind];
    step->name = keep_text(l);
    step->name = step->name != NULL ? step->name : "";
    head.n_bodies = st_read_below(&l->r, 3);
    for (uint32_t k = 0; k < head.n_bodies; k++) {
        const uint32_t place = st_read_below(&l->r, l->out->n_bodies);
        ST_NEED(!l->r.failed && place + 1u > own);
        head.bodies[k] = l->out->bodies[place];
    }
    head.n_carried = st_read_below(&l->r, UINT32_MAX / 8u);
    head.n_scanned = st_read_below(&l->r, step->n_in + 1u);
    head.n_stacked = st_read_below(&l->r, step->n_out + 1u);
    ST_NEED(!l->r.failed && is_arity_right(step, &head));
    const uint64_t lists = 2u * ((uint64_t)head.n_scanned + head.n_stacked);
    st_control *c = st_calloc(l->mem, 1, sizeof *c + lists * sizeof(uint32_t));
    ST_NEED(c != NULL);
    *c = head;
    step->control = c;
    return step->kind != ST_STEP_SCAN || read_scan(l, p, step, c);
}

/* The slots of a step, in one block. */
static bool read_ports(loading *l, const st_program *p, st_step *step)
{
    uint32_t *in = NULL;
    uint32_t *out = NULL;
    uint32_t n_in = 0;
    uint32_t n_out = 0;
    bool is_ok = read_places(l, p->n_slots, step->kind != ST_STEP_RUN, &in, &n_in) &&
                 read_places(l, p->n_slots, false, &out, &n_out);
    uint32_t *both = is_ok ? st_calloc(l->mem, (uint64_t)n_in + n_out + 1u, sizeof *both) : NULL;
    is_ok = both != NULL;
    if (is_ok) {
        memcpy(both, in, n_in * sizeof *both);
        memcpy(both + n_in, out, n_out * sizeof *both);
        step->in = both;
        step->out = both + n_in;
        step->n_in = n_in;
        step->n_out = n_out;
    }
    st_free(l->mem, in);
    st_free(l->mem, out);
    return is_ok;
}

static stator_status read_steps(loading *l, st_program *p, uint32_t own, stator_diag **err)
{
    const uint32_t n = st_read_count(&l->r, 5u * ITEM_BYTES_MIN);
    p->steps = st_calloc(l->mem, n + UINT64_C(1), sizeof *p->steps);
    ST_TRY_MEM(p->steps, err);
    for (uint32_t i = 0; i < n; i++) {
        st_step *step = &p->steps[i];
        step->kind = st_read_below(&l->r, ST_STEP_SCAN + 1u);
        p->n_steps = i + 1u;
        BROKEN_IF(l->r.failed || !read_ports(l, p, step), err, "a step is damaged");
        if (step->kind == ST_STEP_RUN) {
            ST_TRY(read_part(l, p, step, err));
        } else if (!read_control(l, p, step, own)) {
            return broken(err, "a step of control flow is damaged");
        }
    }
    return STATOR_OK;
}

/* ---- programs ---- */

static bool read_write_backs(loading *l, st_program *p)
{
    const uint32_t n = st_read_count(&l->r, 2u * ITEM_BYTES_MIN);
    p->write_backs = st_calloc(l->mem, n + UINT64_C(1), sizeof *p->write_backs);
    for (uint32_t k = 0; p->write_backs != NULL && k < n; k++) {
        p->write_backs[k].input = st_read_below(&l->r, p->n_in);
        p->write_backs[k].slot = st_read_below(&l->r, p->n_slots);
        p->n_write_backs = k + 1u;
    }
    return p->write_backs != NULL && !l->r.failed;
}

/* Each value is made once, before it is read; outputs name values that are made. */
static bool is_in_order(const loading *l, const st_program *p)
{
    uint8_t *made = st_calloc(l->mem, p->n_slots + UINT64_C(1), 1);
    bool is_ok = made != NULL;
    for (uint32_t i = 0; is_ok && i < p->n_slots; i++) {
        made[i] = i < p->n_in || p->slots[i].data != NULL;
        is_ok = p->slots[i].output < 0 || ((uint32_t)p->slots[i].output < p->n_outputs && !made[i]);
    }
    for (uint32_t s = 0; is_ok && s < p->n_steps; s++) {
        const st_step *step = &p->steps[s];
        for (uint32_t k = 0; is_ok && k < step->n_in; k++) {
            is_ok = step->in[k] == ST_NO_SLOT || made[step->in[k]];
        }
        for (uint32_t k = 0; is_ok && k < step->n_out; k++) {
            is_ok = !made[step->out[k]];
            made[step->out[k]] = 1;
        }
    }
    for (uint32_t k = 0; is_ok && k < p->n_outputs; k++) {
        is_ok = made[p->outputs[k]];
    }
    for (uint32_t k = 0; is_ok && k < p->n_write_backs; k++) {
        is_ok = made[p->write_backs[k].slot];
    }
    st_free(l->mem, made);
    return is_ok;
}

static stator_status read_program(loading *l, st_program *p, uint32_t own, stator_diag **err)
{
    stator_ctx *ctx = l->job->request->ctx;
    *p = (st_program){.mem = l->mem,
                      .pool = &ctx->pool,
                      .profile = &ctx->profile,
                      .ctx = ctx,
                      .symbols = l->out->symbols};
    pthread_mutex_init(&p->lock, NULL);
    ST_TRY(st_request_domains(l->job->request, p, err));
    p->n_syms = st_read_below(&l->r, l->n_syms + 1u);
    BROKEN_IF(l->r.failed || p->n_syms != l->n_syms, err, "its symbols are damaged");
    ST_TRY(read_slots(l, p, err));
    if (!read_places(l, p->n_slots, false, &p->outputs, &p->n_outputs) || !read_write_backs(l, p)) {
        return broken(err, "its outputs are damaged");
    }
    ST_TRY(read_steps(l, p, own, err));
    BROKEN_IF(!is_in_order(l, p), err, "a value is read before it is made");
    ST_TRY_MEM(st_program_plan_copies(p), err);
    return st_program_plan_memory(p) ? STATOR_OK : st_fail_oom(err);
}

static stator_status read_bodies(loading *l, stator_diag **err)
{
    const uint32_t n = st_read_count(&l->r, 8u * ITEM_BYTES_MIN);
    l->out->bodies = st_calloc(l->mem, n + UINT64_C(1), sizeof *l->out->bodies);
    ST_TRY_MEM(l->out->bodies, err);
    for (uint32_t i = 0; i < n; i++) {
        l->out->bodies[i] = st_calloc(l->mem, 1, sizeof *l->out->bodies[i]);
        ST_TRY_MEM(l->out->bodies[i], err);
        l->out->n_bodies = i + 1u;
    }
    for (uint32_t i = n; i > 0; i--) {
        ST_TRY(read_program(l, l->out->bodies[i - 1u], i, err));
    }
    return STATOR_OK;
}

stator_status st_cache_read_compiled(st_cache_job *job, const void *bytes, uint64_t n,
                                     st_compiled *out, stator_diag **err)
{
    loading l = {
        .job = job, .out = out, .mem = &job->request->ctx->mem, .r = st_reader_of(bytes, n)};
    uint64_t rest = 0;
    st_arena_init(&out->arena, l.mem);
    ST_TRY(read_constants(&l, err));
    const void *body = st_read_block(&l.r, &rest);
    BROKEN_IF(l.r.failed || l.r.left != 0, err, "its length is wrong");
    l.r = st_reader_of(body, rest);
    ST_TRY(read_symbols(&l, err));
    ST_TRY(read_guard(&l, err));
    ST_TRY(read_coverage(&l, err));
    ST_TRY(read_fallback_nodes(&l, err));
    ST_TRY(read_bodies(&l, err));
    ST_TRY(read_program(&l, &out->program, 0, err));
    BROKEN_IF(l.r.failed || l.r.left != 0 || out->guard.n_inputs != out->program.n_in, err,
              "there is more than a program");
    return keep_constants(&l, err);
}
