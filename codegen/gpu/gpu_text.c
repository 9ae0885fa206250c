/* The program of one kernel in the dialect of docs/gpu.md; see gpu_kernel.h.
 *
 *     #include "gpu_prelude.h"
 *     typedef struct k_arguments { st_u64 b0; st_u64 b1; st_i64 s0; } k_arguments;
 *     ST_KERNEL(k, k_arguments, 256)
 *     {
 *         const float *b0 = ST_GLOBAL(const float, ST_ARG(b0));
 *         float *b1 = ST_GLOBAL(float, ST_ARG(b1));
 *         const st_i64 s0 = ST_ARG(s0);
 *         const st_i64 i2 = ST_BLOCK * 256 + ST_THREAD;
 *         if (i2 < s0) { ... }
 *     }
 *
 * The body is printed first: what it uses decides what stands before it. Where threads share loops
 * that move several elements at once it is printed for aligned memory, and once more for any:
 *
 *         if (((ST_ARG(b0) | ST_ARG(b1)) & 15) == 0) { ... } else { ... }
 */
#include "codegen/gpu/gpu_text.h"

#include "core/base/check.h"
#include "core/base/diag.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define put st_loop_text_put

#define INDEX_MAX (UINT64_C(1) << 30) /* of indices of 32 bits; a block more does not overflow */
#define THREAD_ARRAY_BYTES 1024u      /* of LOCAL buffers that a thread keeps as arrays */
#define LOCAL_ALIGN 16u
#define HELD_THREADS 1024u /* of a multiprocessor at least, with 64 registers each */

typedef struct program {
    gpu_text g;
    st_loop_spelling spelling;
    const st_target *target;
    st_gpu_kernel *out;
    bool is_shared; /* threads of a block work together */
    bool has_check;
    bool is_large;    /* an index may need more than 32 bits */
    uint8_t *is_size; /* by symbol: a size that the kernel reads */
    uint64_t local_bytes;
} program;

/* ---- what is used ---- */

typedef void (*inst_fn)(program *p, const st_loop_inst *inst);

static void each_inst(program *p, uint32_t block, inst_fn fn)
{
    const st_kernel *kernel = p->g.kernel;
    for (st_loop_ref ref = kernel->blocks.data[block].first; ref;
         ref = st_loop_at(kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        fn(p, inst);
        if (inst->code == ST_LOOP_LOOP || inst->code == ST_LOOP_RARE) {
            each_inst(p, inst->body, fn);
        }
    }
}

static void note_symbol(void *self, uint32_t index)
{
    program *p = self;
    p->is_size[index] = p->g.kernel->syms->symbols.data[index].kind == ST_SYMBOL_SIZE;
}

static void note_uses(program *p, const st_loop_inst *inst)
{
    const st_kernel *kernel = p->g.kernel;
    if (inst->sym && inst->code != ST_LOOP_BIND) {
        st_loop_each_symbol(kernel->syms, inst->sym, note_symbol, p);
    }
    if (inst->code == ST_LOOP_LOOP) {
        const st_loop_axis *axis = &kernel->axes.data[inst->ref];
        st_loop_each_symbol(kernel->syms, axis->extent, note_symbol, p);
        p->is_shared = p->is_shared || axis->mapping == ST_MAPPING_THREADS ||
                       axis->mapping == ST_MAPPING_TILE_ROWS;
    }
    p->has_check = p->has_check || inst->code == ST_LOOP_CHECK;
}

/* ---- 32-bit indices ---- */

static uint64_t magnitude(int64_t x)
{
    return x < 0 ? 0u - (uint64_t)x : (uint64_t)x;
}

/* Does each step of computing the sym stay below INDEX_MAX? */
static bool is_small(const st_symtab *tab, uint32_t sym)
{
    const stator_sym_row *row = st_sym_row_at(tab, sym);
    uint64_t sum = magnitude(row->constant);
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *term = st_sym_term(tab, row, i);
        const stator_atom_row *atom = st_atom_at(tab, term->atom);
        const uint64_t lo = magnitude(atom->lo);
        const uint64_t hi = magnitude(atom->hi);
        uint64_t part = 0;
        if (!st_mul_u64(lo > hi ? lo : hi, magnitude(term->coef), &part) ||
            !st_add_u64(sum, part, &sum) ||
            (atom->kind != STATOR_ATOM_SYMBOL &&
             !(is_small(tab, atom->a) && is_small(tab, atom->b)))) {
            return false;
        }
    }
    return sum < INDEX_MAX;
}

static void note_large(program *p, const st_loop_inst *inst)
{
    const st_kernel *kernel = p->g.kernel;
    const st_symtab *tab = &kernel->syms->tab;
    const bool is_loop = inst->code == ST_LOOP_LOOP;
    p->is_large = p->is_large || (inst->sym && !is_small(tab, inst->sym)) ||
                  (is_loop && !is_small(tab, kernel->axes.data[inst->ref].extent));
}

/* Indices have 32 bits where ranges prove that they fit: division is several times faster. */
static void choose_index_type(program *p)
{
    p->spelling = gpu_spelling;
    each_inst(p, 0, note_large);
    if (!p->is_large) {
        p->spelling.index_type = "st_i32";
        p->spelling.index_literal[1] = "";
    }
}

/* ---- arguments ---- */

static void add_argument(program *p, uint32_t kind, uint32_t index)
{
    p->out->arguments[p->out->n_arguments++] = (st_gpu_argument){kind, index};
}

static stator_status list_arguments(program *p, st_arena *arena, stator_diag **err)
{
    const st_kernel *kernel = p->g.kernel;
    const st_loop_syms *syms = kernel->syms;
    const uint64_t most = (uint64_t)kernel->buffers.count + syms->symbols.count + 2u;
    p->out->arguments = st_arena_zalloc(arena, most, sizeof *p->out->arguments);
    ST_TRY_MEM(p->out->arguments, err);
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        if (!(kernel->buffers.data[i].flags & ST_BUFFER_LOCAL)) {
            add_argument(p, ST_GPU_ARGUMENT_BUFFER, i);
        }
    }
    for (uint32_t i = 0; i < syms->symbols.count; i++) {
        if (p->is_size[i]) {
            add_argument(p, ST_GPU_ARGUMENT_SIZE, syms->symbols.data[i].id);
        }
    }
    if (p->has_check) {
        add_argument(p, ST_GPU_ARGUMENT_STATUS, 0);
    }
    if (p->out->scratch_bytes) {
        add_argument(p, ST_GPU_ARGUMENT_SCRATCH, 0);
    }
    return STATOR_OK;
}

static void put_arguments(program *p)
{
    st_loop_text *t = &p->g.t;
    put(t, "\ntypedef struct %s_arguments {\n", p->out->name);
    for (uint32_t i = 0; i < p->out->n_arguments; i++) {
        const st_gpu_argument *a = &p->out->arguments[i];
        switch (a->kind) {
        case ST_GPU_ARGUMENT_BUFFER:
            put(t, "    st_u64 b%" PRIu32 "; /* %s */\n", a->index,
                p->g.kernel->buffers.data[a->index].name);
            break;
        case ST_GPU_ARGUMENT_SIZE:
            put(t, "    st_i64 s%" PRIu32 ";\n", a->index);
            break;
        default:
            put(t, "    st_u64 %s;\n", a->kind == ST_GPU_ARGUMENT_STATUS ? "status" : "scratch");
            break;
        }
    }
    put(t, "%s} %s_arguments;\n", p->out->n_arguments ? "" : "    st_u64 none;\n", p->out->name);
}

/* ---- LOCAL buffers ---- */

static uint64_t local_elements(const program *p, const st_loop_buffer *buffer)
{
    const int64_t numel = st_loop_known_or(&p->g.kernel->syms->tab, buffer->numel, 1);
    return numel > 0 ? (uint64_t)numel : 1u;
}

static uint64_t local_bytes(const program *p, const st_loop_buffer *buffer)
{
    const uint64_t bytes = local_elements(p, buffer) * st_element_bytes(buffer->dtype);
    return (bytes + LOCAL_ALIGN - 1u) / LOCAL_ALIGN * LOCAL_ALIGN;
}

/* Where LOCAL buffers lie: threads that work together share them; those that do not have arrays
 * each. What is too large for either lies in device memory. */
static void place_locals(program *p, uint32_t exchange_bytes)
{
    const st_kernel *kernel = p->g.kernel;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < kernel->buffers.count; i++) {
        const st_loop_buffer *buffer = &kernel->buffers.data[i];
        bytes += (buffer->flags & (ST_BUFFER_LOCAL | ST_BUFFER_THREAD)) == ST_BUFFER_LOCAL
                     ? local_bytes(p, buffer)
                     : 0;
    }
    p->local_bytes = bytes;
    p->out->shared_bytes = exchange_bytes;
    if (p->is_shared && bytes + exchange_bytes <= p->target->shared_bytes) {
        p->out->shared_bytes += (uint32_t)bytes;
    } else if (p->is_shared || bytes > THREAD_ARRAY_BYTES) {
        p->out->scratch_bytes = bytes * (p->is_shared ? 1u : kernel->threads);
    }
}

/* Arrays that each thread has, at the head of a body: one that is no straight code would bring
 * those of another into memory. */
static void put_own_locals(program *p)
{
    for (uint32_t i = 0; i < p->g.kernel->buffers.count; i++) {
        const st_loop_buffer *buffer = &p->g.kernel->buffers.data[i];
        if (buffer->flags & ST_BUFFER_THREAD) {
            st_loop_text_indent(&p->g.t);
            put(&p->g.t, "%s b%" PRIu32 "[%" PRIu32 "]; /* %s */\n",
                st_loop_text_memory_type(&p->g.t, buffer->dtype), i, gpu_own_elements(&p->g, i),
                buffer->name);
        }
    }
}

static void put_local(program *p, uint32_t i, uint64_t *offset)
{
    const st_loop_buffer *buffer = &p->g.kernel->buffers.data[i];
    const char *type = st_loop_text_memory_type(&p->g.t, buffer->dtype);
    st_loop_text *t = &p->g.t;
    if (!p->out->scratch_bytes) {
        put(t,
            p->is_shared ? "    ST_SHARED(%s, b%" PRIu32 ", %" PRIu64 "); /* %s */\n"
                         : "    %s b%" PRIu32 "[%" PRIu64 "]; /* %s */\n",
            type, i, local_elements(p, buffer), buffer->name);
        return;
    }
    put(t, "    %s *b%" PRIu32 " = ST_GLOBAL(%s, ST_ARG(scratch) + ", type, i, type);
    if (p->is_shared) {
        put(t, "(st_u64)ST_BLOCK");
    } else {
        put(t, "((st_u64)ST_BLOCK * %" PRIu32 " + ST_THREAD)", p->g.kernel->threads);
    }
    put(t, " * %" PRIu64 " + %" PRIu64 "); /* %s */\n", p->local_bytes, *offset, buffer->name);
    *offset += local_bytes(p, buffer);
}

/* ---- the kernel ---- */

static void put_buffers(program *p)
{
    uint64_t offset = 0;
    for (uint32_t i = 0; i < p->g.kernel->buffers.count; i++) {
        const st_loop_buffer *buffer = &p->g.kernel->buffers.data[i];
        const char *is_const = buffer->flags & ST_BUFFER_WRITTEN ? "" : "const ";
        const char *type = st_loop_text_memory_type(&p->g.t, buffer->dtype);
        if (buffer->flags & ST_BUFFER_THREAD) {
            continue;
        }
        if (buffer->flags & ST_BUFFER_LOCAL) {
            put_local(p, i, &offset);
            continue;
        }
        put(&p->g.t, "    %s%s *b%" PRIu32 " = ST_GLOBAL(%s%s, ST_ARG(b%" PRIu32 "));\n", is_const,
            type, i, is_const, type, i);
    }
}

static void put_sizes(program *p)
{
    const char *type = p->spelling.index_type;
    for (uint32_t i = 0; i < p->out->n_arguments; i++) {
        if (p->out->arguments[i].kind == ST_GPU_ARGUMENT_SIZE) {
            put(&p->g.t, "    const %s s%" PRIu32 " = (%s)ST_ARG(s%" PRIu32 ");\n", type,
                p->out->arguments[i].index, type, p->out->arguments[i].index);
        }
    }
}

/* A LOOP of a kernel in which each thread works for itself. */
static void put_thread_loop(st_loop_text *t, const st_loop_inst *inst)
{
    const st_loop_axis *axis = &t->kernel->axes.data[inst->ref];
    const char *type = t->spelling->index_type;
    if (axis->mapping != ST_MAPPING_GRID) {
        gpu_put_loop(t, inst);
        return;
    }
    if (gpu_has_lanes(t->frame, inst)) {
        put(t,
            "const %s f%" PRIu32 " = (%s)((ST_BLOCK * %" PRIu32 " + ST_THREAD) * %" PRIu32 ");\n",
            type, inst->ref, type, t->kernel->threads, axis->lanes);
        st_loop_text_indent(t);
        put(t, "if (f%" PRIu32 " < ", inst->ref);
        st_loop_text_sym(t, axis->extent);
        put(t, ") {\n");
        t->depth++;
        gpu_put_lanes(t->frame, inst);
        t->depth--;
        st_loop_text_indent(t);
        put(t, "}\n");
        return;
    }
    put(t, "const %s i%" PRIu32 " = (%s)(ST_BLOCK * %" PRIu32 " + ST_THREAD);\n", type, inst->ref,
        type, t->kernel->threads);
    st_loop_text_indent(t);
    put(t, "if (i%" PRIu32 " < ", inst->ref);
    st_loop_text_sym(t, axis->extent);
    put(t, ") {\n");
    st_loop_text_body(t, inst->body);
    st_loop_text_indent(t);
    put(t, "}\n");
}

/* The instructions of threads that share loops, from a new beginning. */
static void put_shared_body(program *p, bool is_aligned, bool is_rolled)
{
    const st_kernel *kernel = p->g.kernel;
    p->g.is_aligned = is_aligned;
    p->g.is_rolled = is_rolled;
    memset(p->g.acc_state, 0, kernel->insts.count);
    memset(p->g.is_combined, 0, kernel->insts.count);
    memset(p->g.held, 0, kernel->insts.count * sizeof *p->g.held);
    memset(p->g.touched, 0, kernel->buffers.count);
    put_own_locals(p);
    gpu_put_shared_block(&p->g, 0);
}

/* Is there a buffer whose address must be aligned? */
static bool wants_alignment(const program *p)
{
    for (uint32_t i = 0; i < p->g.kernel->buffers.count; i++) {
        if (p->g.alignment[i]) {
            return true;
        }
    }
    return false;
}

/* The test whether addresses are aligned to so many bytes, if some must be. */
static void put_test(program *p, uint32_t bytes, const char **before)
{
    bool is_some = false;
    for (uint32_t i = 0; i < p->g.kernel->buffers.count; i++) {
        if (p->g.alignment[i] == bytes) {
            put(&p->g.t, "%sST_ARG(b%" PRIu32 ")", is_some ? " | " : *before, i);
            is_some = true;
        }
    }
    if (is_some) {
        put(&p->g.t, ") & %" PRIu32 ") == 0", bytes - 1u);
        *before = " && ((";
    }
}

/* One body where no access depends on how memory is aligned, else one for aligned memory and one
 * for any. */
static void put_shared_bodies(program *p)
{
    st_str *out = p->g.t.out;
    st_str aligned;
    st_str_init(&aligned, p->g.kernel->mem);
    p->g.t.out = &aligned;
    put_shared_body(p, true, false);
    p->g.t.out = out;
    if (!wants_alignment(p)) {
        st_str_addn(out, aligned.data, aligned.len);
        st_str_deinit(&aligned);
        return;
    }
    st_str_deinit(&aligned);
    const char *before = "if (((";
    st_loop_text_indent(&p->g.t);
    for (uint32_t bytes = 16u; bytes >= 4u; bytes /= 2u) {
        put_test(p, bytes, &before);
    }
    put(&p->g.t, ") {\n");
    p->g.t.depth++;
    put_shared_body(p, true, false);
    put(&p->g.t, "    } else {\n");
    put_shared_body(p, false, true);
    p->g.t.depth--;
    st_loop_text_indent(&p->g.t);
    put(&p->g.t, "}\n");
}

static void put_body(program *p)
{
    if (p->is_shared) {
        p->g.t.put_loop = gpu_put_loop;
        put_shared_bodies(p);
    } else {
        p->g.t.put_loop = put_thread_loop;
        st_loop_text_block(&p->g.t, 0);
    }
}

/* Threads that keep a row get no more registers than let HELD_THREADS of them run at once. */
static void put_head(program *p)
{
    const st_kernel *kernel = p->g.kernel;
    const uint32_t blocks = HELD_THREADS / kernel->threads;
    bool keeps_row = false;
    for (uint32_t i = 0; i < kernel->axes.count; i++) {
        keeps_row = keeps_row || (kernel->axes.data[i].flags & ST_AXIS_HELD);
    }
    put(&p->g.t, "\n%s(%s, %s_arguments, %" PRIu32, keeps_row ? "ST_KERNEL_BLOCKS" : "ST_KERNEL",
        p->out->name, p->out->name, kernel->threads);
    if (keeps_row) {
        put(&p->g.t, ", %" PRIu32, blocks ? blocks : 1u);
    }
    put(&p->g.t, ")");
}

/* The whole program around the body, which has been printed. */
static stator_status put_program(program *p, const st_str *body, st_arena *arena, st_str *out,
                                 stator_diag **err)
{
    st_str exchanges;
    const char *text = body->data ? body->data : "";
    st_str_init(&exchanges, p->g.kernel->mem);
    p->g.t.out = &exchanges;
    const uint32_t exchange_bytes = gpu_put_exchanges(&p->g);
    place_locals(p, exchange_bytes + gpu_put_tile_memory(&p->g, &p->out->dynamic_bytes));
    p->g.t.out = out;
    const stator_status status = list_arguments(p, arena, err);
    if (status == STATOR_OK) {
        st_str functions;
        st_str_init(&functions, p->g.kernel->mem);
        put(&p->g.t, "#include \"gpu_prelude.h\"\n");
        put_arguments(p);
        p->g.t.out = &functions;
        gpu_put_functions(&p->g);
        st_str_add(&functions, text); /* helpers are looked for in both */
        gpu_put_helpers(functions.data ? functions.data : "", out);
        st_str_deinit(&functions);
        p->g.t.out = out;
        memset(p->g.has_function, 0, sizeof p->g.has_function);
        gpu_put_functions(&p->g);
        gpu_put_moves(&p->g);
        put_head(p);
        put(&p->g.t, "\n{\n%s", exchanges.data ? exchanges.data : "");
        put_buffers(p);
        put_sizes(p);
        put(&p->g.t, "%s}\n", text);
    }
    st_str_deinit(&exchanges);
    return status;
}

static bool take_tables(program *p, st_arena *arena)
{
    const st_kernel *kernel = p->g.kernel;
    p->g.acc_state = st_arena_zalloc(arena, kernel->insts.count, 1);
    p->g.is_combined = st_arena_zalloc(arena, kernel->insts.count, 1);
    p->g.touched = st_arena_zalloc(arena, (uint64_t)kernel->buffers.count + 1u, 1);
    p->is_size = st_arena_zalloc(arena, (uint64_t)kernel->syms->symbols.count + 1u, 1);
    p->g.is_staged = st_arena_zalloc(arena, kernel->insts.count, 1);
    p->g.held = st_arena_zalloc(arena, kernel->insts.count, sizeof *p->g.held);
    p->g.needed = st_arena_zalloc(arena, kernel->insts.count, 1);
    p->g.alignment = st_arena_zalloc(arena, (uint64_t)kernel->buffers.count + 1u, 1);
    return p->g.alignment && p->g.held && p->g.needed && p->g.acc_state && p->g.is_combined &&
           p->g.touched && p->g.is_staged && p->is_size;
}

/* Iterations of the parallel loop that a block takes. */
static uint32_t iterations_of(const st_kernel *kernel, const st_loop_axis *axis)
{
    const bool has_several =
        axis->mapping == ST_MAPPING_COLUMNS || axis->mapping == ST_MAPPING_ROWS;
    return axis->mapping == ST_MAPPING_GRID ? kernel->threads * axis->lanes
           : has_several                    ? axis->lanes
                                            : 1u;
}

stator_status st_gpu_print(const st_target *target, const st_kernel *kernel, const char *name,
                           st_arena *arena, st_str *out, st_gpu_kernel *out_kernel,
                           stator_diag **err)
{
    st_str body;
    program p = {.g = {.kernel = kernel}, .target = target, .out = out_kernel};
    const st_loop_ref loop = st_kernel_parallel_loop(kernel);
    ST_FAIL_IF(kernel->threads == 0, err, STATOR_INTERNAL,
               "kernel %s is printed for a GPU and is mapped onto none", kernel->name);
    *out_kernel = (st_gpu_kernel){.threads = kernel->threads, .iterations = 1};
    if (loop) {
        const st_loop_axis *axis = &kernel->axes.data[st_loop_at(kernel, loop)->ref];
        out_kernel->iterations = iterations_of(kernel, axis);
        p.g.columns = axis->mapping == ST_MAPPING_COLUMNS ? axis->lanes : 0;
        p.g.row_threads = axis->mapping == ST_MAPPING_ROWS ? kernel->threads / axis->lanes : 0;
    }
    (void)snprintf(out_kernel->name, sizeof out_kernel->name, "%s", name);
    ST_TRY_MEM(take_tables(&p, arena), err);
    each_inst(&p, 0, note_uses);
    choose_index_type(&p);
    st_str_init(&body, kernel->mem);
    p.g.t = (st_loop_text){.kernel = kernel, .spelling = &p.spelling, .out = &body, .frame = &p.g};
    put_body(&p);
    stator_status status = put_program(&p, &body, arena, out, err);
    if (status == STATOR_OK && (!st_str_ok(&body) || !st_str_ok(out))) {
        status = st_fail_oom(err);
    }
    st_str_deinit(&body);
    return status;
}
