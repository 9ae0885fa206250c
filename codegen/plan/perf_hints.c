/* What of a program is slower than it could be, and what to do about it: the log channel
 * perf_hints.
 *
 * In: a group and the kernel or the call that it became. Out: a line of text; nothing of the
 * program depends on it, and nothing is computed when nobody listens. A size known only at
 * call time counts as it is in the call that the program is compiled for (st_sym_size_hint). */
#include "codegen/plan/perf_hints.h"

#include "core/base/check.h"

#include <string.h>

#define LINES_MAX 16u /* lines for one program */
#define FLOPS_MIN 2e6 /* a smaller contraction costs too little in loops to be noticed */
#define BYTES_MIN (1024.0 * 1024.0)
#define MIB (1024.0 * 1024.0)
#define CONSTANT_BYTES_MIN (64.0 * 1024.0) /* made anew in each call, worth a line */

static bool is_heard(const cg_unit *unit)
{
    const stator_log_api *log = unit->host->log;
    return log->enabled(unit->host->ctx, "perf_hints", 2);
}

/* Keeps the line and frees it; past the cap it is counted alone. */
static void say(cg_unit *unit, st_str *text)
{
    if (st_str_ok(text) && text->data != NULL && unit->n_hints++ < LINES_MAX) {
        st_str_addf(&unit->hints, "%s\n", text->data);
    }
    st_str_deinit(text);
}

/* Lines are kept until here: a program that is given up has nothing to say. */
void cg_hint_end(cg_unit *unit)
{
    if (unit->n_hints > LINES_MAX) {
        st_str_addf(&unit->hints, "and %u more such lines\n", unit->n_hints - LINES_MAX);
    }
    char *line = st_str_ok(&unit->hints) && unit->declined.count == 0 ? unit->hints.data : NULL;
    while (line != NULL && *line != '\0') {
        char *end = strchr(line, '\n');
        *end = '\0';
        unit->host->log->write(unit->host->ctx, "perf_hints", 2, line);
        line = end + 1;
    }
}

/* ---- words and sizes ---- */

/* The size of calls that have something to do. */
static double size_of(const cg_unit *unit, uint32_t sym)
{
    const int64_t size = st_sym_size_hint(&unit->syms->tab, sym);
    return size > 1 ? (double)size : 1;
}

static double numel_of(const cg_unit *unit, const cg_value *v)
{
    double count = 1;
    for (uint32_t a = 0; a < v->rank; a++) {
        count *= size_of(unit, v->dims[a]);
    }
    return count;
}

/* "matmul 'y'", of an op called so. */
static void print_named(const cg_unit *unit, stator_ref node, const char *op, st_str *out)
{
    const char *name = stator_node_origin(unit->view, node);
    st_str_add(out, op);
    if (name[0]) {
        st_str_addf(out, " '%s'", name);
    }
}

static void print_node(const cg_unit *unit, stator_ref node, st_str *out)
{
    const stator_node_row *row = stator_node_at(unit->view, node);
    print_named(unit, node, stator_op_at(unit->view, row->op)->name, out);
}

/* "f32[4, N]" */
static void print_type(const cg_unit *unit, stator_ref value, st_str *out)
{
    const cg_value *v = cg_value_of(unit, value);
    st_str_addf(out, "%s[", st_dtype_name(v->dtype));
    for (uint32_t a = 0; a < v->rank; a++) {
        st_str_add(out, a ? ", " : "");
        st_loop_sym_print(unit->syms, v->dims[a], out);
    }
    st_str_add(out, "]");
}

/* ---- contractions ---- */

/* A sum of products of two operands, or what is written as a contraction for the emitter's
 * library. */
static bool is_contraction(const cg_unit *unit, const cg_root *root)
{
    const bool is_product =
        root->is_fold && cg_sums_products(stator_node_at(unit->view, root->node));
    return is_product ||
           (root->lowering && root->lowering->contraction && !root->lowering->is_fixed);
}

/* Operations. A contraction of its own is attention: two products over the keys. */
static double flops_of(const cg_unit *unit, const cg_root *root)
{
    const stator_node_row *row = stator_node_at(unit->view, root->node);
    double flops = 2 * numel_of(unit, cg_value_of(unit, root->value));
    for (uint32_t i = 0; root->is_fold && i < root->fold.n_inner; i++) {
        flops *= size_of(unit, root->fold.inner[i]);
    }
    if (!root->is_fold) {
        const cg_value *keys = cg_value_of(unit, stator_operand(unit->view, row, 1));
        flops *= keys->rank >= 2 ? 2 * size_of(unit, keys->dims[keys->rank - 2u]) : 0;
    }
    return flops;
}

/* Would the library take a plain product of such elements? */
static bool takes_product(const cg_unit *unit, const uint32_t dtypes[2], uint32_t acc, uint32_t out)
{
    const st_library *library = unit->config->emitter->library;
    st_symtab *tab = &unit->syms->tab;
    const uint32_t n = st_sym_int(tab, 256);
    const uint32_t one = st_sym_int(tab, 1);
    const uint32_t zero = st_sym_int(tab, 0);
    const st_contraction_operand row_major = {.offset = zero, .stride = {n, one}};
    st_contraction contraction = {.kind = ST_CONTRACTION_GEMM,
                                  .acc_dtype = acc,
                                  .f32_products = unit->config->emitter->target.f32_products,
                                  .m = n,
                                  .n = n,
                                  .k = n,
                                  .x = row_major,
                                  .y = row_major,
                                  .out = row_major,
                                  .n_buffers = 3,
                                  .syms = unit->syms};
    contraction.x.dtype = dtypes[0];
    contraction.y.dtype = dtypes[1];
    contraction.out.dtype = out;
    contraction.y.buffer = 1;
    contraction.out.buffer = 2;
    return n && one && zero && library->takes(library->self, &contraction) == 1;
}

/* A dtype or layout that the library would take; "": none is known here. */
static const char *advice_for(const cg_unit *unit, const uint32_t dtypes[2])
{
    static const uint32_t plain[2] = {STATOR_F32, STATOR_F32};
    const bool are_floats =
        dtypes[0] == dtypes[1] &&
        (dtypes[0] == STATOR_F64 || dtypes[0] == STATOR_F16 || dtypes[0] == STATOR_BF16);
    if (are_floats && takes_product(unit, plain, STATOR_F32, STATOR_F32)) {
        return "; it has one of f32: cast to it where its precision will do";
    }
    return takes_product(unit, dtypes, STATOR_I32, STATOR_I32) ? "; it has one with sums in i32"
                                                               : "";
}

/* Why it is no call of the library. */
static void print_fault(const cg_unit *unit, const cg_root *root, st_str *out)
{
    const stator_node_row *row = stator_node_at(unit->view, root->node);
    const uint32_t result = cg_value_of(unit, root->value)->dtype;
    uint32_t dtypes[2];
    for (uint32_t k = 0; k < 2; k++) {
        dtypes[k] = cg_value_of(unit, stator_operand(unit->view, row, k))->dtype;
    }
    const uint32_t sums = root->is_fold ? root->fold.dtype : cg_wide_dtype(dtypes[0]);
    if (unit->config->emitter->library == NULL) {
        st_str_add(out, unit->config->no_library);
    } else if (takes_product(unit, dtypes, sums, result)) {
        st_str_add(out, "the library of contractions does not take how its operands lie or what is "
                        "done to them");
    } else {
        st_str_addf(out,
                    "the library of contractions has no product of %s and %s with sums in %s%s",
                    st_dtype_name(dtypes[0]), st_dtype_name(dtypes[1]), st_dtype_name(sums),
                    advice_for(unit, dtypes));
    }
}

static void hint_loops(cg_unit *unit, const cg_root *root)
{
    const double flops = flops_of(unit, root);
    if (flops < FLOPS_MIN) {
        return;
    }
    const stator_node_row *row = stator_node_at(unit->view, root->node);
    st_str text;
    st_str_init(&text, unit->mem);
    print_node(unit, root->node, &text);
    st_str_add(&text, " of ");
    print_type(unit, stator_operand(unit->view, row, 0), &text);
    st_str_add(&text, " and ");
    print_type(unit, stator_operand(unit->view, row, 1), &text);
    st_str_addf(&text, ", %.1f Mflop, runs as generated loops: ", flops / 1e6);
    print_fault(unit, root, &text);
    say(unit, &text);
}

/* ---- one thread ---- */

/* How often an instruction of the block runs. */
static double runs_of(const cg_unit *unit, const st_kernel *kernel, uint32_t block)
{
    double runs = 1;
    for (st_loop_ref loop = kernel->blocks.data[block].loop; loop;
         loop = kernel->blocks.data[st_loop_at(kernel, loop)->block].loop) {
        if (st_loop_at(kernel, loop)->code == ST_LOOP_LOOP) {
            runs *= size_of(unit, kernel->axes.data[st_loop_at(kernel, loop)->ref].extent);
        }
    }
    return runs;
}

/* Bytes of the buffer that the kernel reads or writes. */
static double bytes_touched(const cg_unit *unit, const st_kernel *kernel, uint32_t index)
{
    const st_loop_buffer *buffer = &kernel->buffers.data[index];
    const double all = size_of(unit, buffer->numel);
    double touched = 0;
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if ((inst->code == ST_LOOP_LOAD || inst->code == ST_LOOP_STORE) && inst->ref == index) {
            const double runs = runs_of(unit, kernel, inst->block);
            touched = runs > touched ? runs : touched;
        }
    }
    return (touched < all ? touched : all) * st_element_bytes(buffer->dtype);
}

/* Flags of the loops of the kernel's root block, all together. */
static uint32_t outer_flags(const st_kernel *kernel)
{
    uint32_t flags = 0;
    for (st_loop_ref ref = kernel->blocks.data[0].first; ref; ref = st_loop_at(kernel, ref)->next) {
        if (st_loop_at(kernel, ref)->code == ST_LOOP_LOOP) {
            flags |= kernel->axes.data[st_loop_at(kernel, ref)->ref].flags;
        }
    }
    return flags;
}

/* Whoever looks for the index of the smallest or largest would hardly write that in two steps. */
static bool has_index(const st_kernel *kernel)
{
    for (st_loop_ref ref = 1; ref < kernel->insts.count; ref++) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        if (inst->code == ST_LOOP_ACC &&
            (inst->imm.i == ST_ACC_ARGMIN || inst->imm.i == ST_ACC_ARGMAX)) {
            return true;
        }
    }
    return false;
}

/* The op that the model has where the node comes from; "": that is not known. */
static const char *kind_of(const cg_unit *unit, stator_ref node)
{
    const stator_origin_row *origin =
        stator_origin_at(unit->view, stator_node_at(unit->view, node)->origin);
    return origin ? stator_string_at(unit->view, origin->kind) : "";
}

/* "ReduceSum" is reduce_sum. */
static bool is_same_op(const char *kind, const char *op)
{
    for (; *kind != '\0' || *op != '\0'; kind++, op++) {
        kind += *kind == '_';
        op += *op == '_';
        const char lower = (char)(*kind >= 'A' && *kind <= 'Z' ? *kind - 'A' + 'a' : *kind);
        if (lower == '\0' || lower != *op) {
            return false;
        }
    }
    return true;
}

/* A composite may become several kernels: one line is for all of them. 1 the first time. */
static bool tell_once(cg_unit *unit, uint32_t origin)
{
    for (uint32_t i = 0; i < unit->hinted.count; i++) {
        if (unit->hinted.data[i] == origin) {
            return false;
        }
    }
    uint32_t *slot = st_vec_push(unit->mem, &unit->hinted);
    if (slot != NULL) {
        *slot = origin;
    }
    return true;
}

/* Work that goes in order, or folds of all that there is. Only who wrote the fold can write it
 * otherwise, so there is no advice on one of a composite, or of nobody knows what. */
static void say_one_thread(cg_unit *unit, stator_ref node, const st_kernel *kernel, bool is_serial,
                           double bytes)
{
    const stator_node_row *row = stator_node_at(unit->view, node);
    const char *kind = kind_of(unit, node);
    const bool is_own = is_same_op(kind, stator_op_at(unit->view, row->op)->name);
    const bool is_part = !is_own && kind[0] != '\0';
    st_str text;
    if (is_part && !tell_once(unit, row->origin)) {
        return;
    }
    st_str_init(&text, unit->mem);
    if (is_part) {
        st_str_add(&text, "part of ");
        print_named(unit, node, kind, &text);
    } else {
        print_node(unit, node, &text);
    }
    st_str_addf(&text, " runs on one thread and touches %.1f MiB (kernel %s): %s", bytes / MIB,
                kernel->name,
                is_serial ? "its steps go in order; an axis beside them, whose rows need nothing "
                            "of each other, would be shared among threads"
                          : "it folds everything at once");
    if (!is_serial && is_own) {
        st_str_add(&text, "; fold in two steps, the first over the last axes alone (of a view "
                          "[64, n / 64] where there is but one)");
    }
    say(unit, &text);
}

static void hint_one_thread(cg_unit *unit, stator_ref node, const st_kernel *kernel)
{
    const uint32_t flags = outer_flags(kernel);
    const bool is_serial = (flags & ST_AXIS_SERIAL) != 0;
    double bytes = 0;
    if (unit->config->emitter->target.threads <= 1 || unit->is_alone || node == 0 ||
        (flags & (ST_AXIS_SERIAL | ST_AXIS_REDUCE)) == 0 || st_kernel_parallel_loop(kernel) ||
        (!is_serial && has_index(kernel))) {
        return;
    }
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        bytes +=
            kernel->buffers.data[i].flags & ST_BUFFER_LOCAL ? 0 : bytes_touched(unit, kernel, i);
    }
    if (bytes >= BYTES_MIN) {
        say_one_thread(unit, node, kernel, is_serial, bytes);
    }
}

/* ---- constants ---- */

/* The first constant that the kernel reads, where it reads nothing else; else NULL. */
static const cg_buffer *only_constants(const cg_unit *unit, const st_kernel *kernel)
{
    const cg_buffer *first = NULL;
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        const st_loop_buffer *of = &kernel->buffers.data[i];
        const bool is_read = (of->flags & ST_BUFFER_READ) && !(of->flags & ST_BUFFER_LOCAL);
        const cg_buffer *buffer = is_read ? &unit->buffers.data[of->id] : NULL;
        if (buffer && buffer->kind != CG_BUFFER_CONSTANT) {
            return NULL;
        }
        first = first ? first : buffer;
    }
    return first;
}

static void hint_constants(cg_unit *unit, stator_ref node, const st_kernel *kernel)
{
    const cg_buffer *constant = only_constants(unit, kernel);
    double bytes = 0;
    st_str text;
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        const bool is_made = (kernel->buffers.data[i].flags & ST_BUFFER_WRITTEN) &&
                             !(kernel->buffers.data[i].flags & ST_BUFFER_LOCAL);
        bytes += is_made ? bytes_touched(unit, kernel, i) : 0;
    }
    if (constant == NULL || node == 0 || bytes < CONSTANT_BYTES_MIN) {
        return;
    }
    const char *name =
        stator_string_at(unit->view, stator_value_at(unit->view, constant->value)->name);
    st_str_init(&text, unit->mem);
    print_node(unit, node, &text);
    st_str_addf(&text, ": each call makes %.1f MiB of constants alone%s%s%s (kernel %s); ",
                bytes / MIB, name[0] ? ", as '" : "", name, name[0] ? "'" : "", kernel->name);
    st_str_add(&text, "kept in the model as it is made here, it would only be read");
    say(unit, &text);
}

/* ---- what is said of a group ---- */

/* The node that the group is named by: its contraction, else the first fold, else the first. */
static stator_ref node_of_group(const cg_unit *unit, const cg_fusion_group *group)
{
    stator_ref node = 0;
    uint32_t best = 0;
    for (uint32_t i = 0; i < group->roots.count; i++) {
        const cg_root *root = &unit->roots.data[group->roots.data[i]];
        const uint32_t rank = root->node == 0              ? 0
                              : is_contraction(unit, root) ? 3
                              : root->is_fold              ? 2
                                                           : 1;
        if (rank > best) {
            node = root->node;
            best = rank;
        }
    }
    return node;
}

void cg_hint_kernel(cg_unit *unit, uint32_t group, const st_kernel *kernel)
{
    const cg_fusion_group *of = &unit->groups.data[group];
    const bool has_reason = unit->config->emitter->library || unit->config->no_library;
    if (!is_heard(unit)) {
        return;
    }
    for (uint32_t i = 0; has_reason && i < of->roots.count; i++) {
        const cg_root *root = &unit->roots.data[of->roots.data[i]];
        if (root->node && is_contraction(unit, root)) {
            hint_loops(unit, root);
        }
    }
    hint_one_thread(unit, node_of_group(unit, of), kernel);
    hint_constants(unit, node_of_group(unit, of), kernel);
}

/* ---- operands that are moved ---- */

/* The operand as an input of the graph; NULL: it is made here, or a constant. */
static const cg_buffer *as_input(const cg_unit *unit, const st_kernel *kernel, uint32_t index)
{
    const cg_buffer *buffer = &unit->buffers.data[kernel->buffers.data[index].id];
    return buffer->kind == CG_BUFFER_INPUT ? buffer : NULL;
}

static void hint_moved(cg_unit *unit, stator_ref node, const cg_buffer *input, double bytes,
                       const char *advice)
{
    st_str text;
    if (input == NULL || bytes < BYTES_MIN || node == 0) {
        return;
    }
    st_str_init(&text, unit->mem);
    print_node(unit, node, &text);
    st_str_addf(
        &text, ": each call puts %.1f MiB of input '%s' into another order: %s", bytes / MIB,
        stator_string_at(unit->view, stator_value_at(unit->view, input->value)->name), advice);
    say(unit, &text);
}

void cg_hint_call(cg_unit *unit, uint32_t group, const st_kernel *kernel,
                  const st_contraction *contraction, void *op)
{
    const st_library *library = unit->config->emitter->library;
    st_library_memory moved = {.unread = UINT32_MAX};
    if (!is_heard(unit) || st_contraction_is_fixed(contraction->kind) ||
        !STATOR_HAS(library, memory) || library->memory == NULL) {
        return;
    }
    library->memory(library->self, op, &moved);
    const stator_ref node = node_of_group(unit, &unit->groups.data[group]);
    const bool is_transpose =
        contraction->kind == ST_CONTRACTION_GEMM && !cg_is_one(unit, contraction->x.stride[1]);
    hint_moved(unit, node, as_input(unit, kernel, contraction->y.buffer),
               (double)moved.moved_bytes[1],
               "a weight that is a constant of the model is put in order once");
    hint_moved(unit, node, is_transpose ? as_input(unit, kernel, contraction->x.buffer) : NULL,
               (double)moved.moved_bytes[0],
               "it is read along its columns; given the other way round it stays as it is");
}
