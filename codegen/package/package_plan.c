/* The launch plan of an executable as C source; see the header.
 *
 * One function a step, so that the text reads like the log of a run:
 *
 *     static int step3(call *c)
 *     {
 *         void *const b[] = {c->in[0], (void *)(uintptr_t)constant1, c->work + 4096};
 *         launch(c, k2, b, 100352, 16, 2048);
 *         return c->status ? 2 : 0;
 *     }
 *
 * Sizes that depend on the call are functions of their own. Names are numbers; nothing of the
 * model's texts comes in. */
#include "codegen/package/package_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* The names of kernels tell bodies apart down to there (set_scope in codegen.c). */
#define DEPTH_MAX 6u

static const char head[] =
    "/* The steps of a compiled program, made by Stator. */\n"
    "#include <omp.h>\n"
    "#include <stddef.h>\n"
    "#include <stdint.h>\n"
    "\n"
    "#define HIDDEN __attribute__((visibility(\"hidden\")))\n"
    "#define UNUSED __attribute__((unused))\n"
    "\n"
    "typedef struct kernel_args {\n"
    "    void *const *buffers;\n"
    "    const int64_t *sizes;\n"
    "    uint32_t *status;\n"
    "} kernel_args;\n"
    "typedef void kernel(const kernel_args *args, int64_t begin, int64_t end);\n"
    "\n"
    "typedef struct call {\n"
    "    void *const *in;\n"
    "    void *const *out;\n"
    "    const int64_t *sizes;\n"
    "    char *work;\n"
    "    const uint64_t *at; /* offsets in work, when sizes decide them */\n"
    "    uint32_t status;    /* set by a kernel whose index is outside its axis */\n"
    "} call;\n"
    "\n"
    "/* count iterations in shares of whole steps, a thread for each `grain` of them. */\n"
    "UNUSED static void launch(call *c, kernel *run, void *const *b, int64_t count, int64_t step,\n"
    "                          int64_t grain)\n"
    "{\n"
    "    const kernel_args args = {b, c->sizes, &c->status};\n"
    "    const int64_t threads = omp_get_max_threads();\n"
    "    const int64_t steps = count / step + (count % step != 0);\n"
    "    const int64_t wanted = count / grain + (count % grain != 0);\n"
    "    const int64_t shares = wanted < threads ? wanted : threads;\n"
    "    if (count > 0 && shares <= 1) {\n"
    "        run(&args, 0, count);\n"
    "        return;\n"
    "    }\n"
    "#pragma omp parallel for num_threads((int)shares) schedule(static, 1)\n"
    "    for (int64_t i = 0; i < shares; i++) {\n"
    "        const int64_t each = steps / shares;\n"
    "        const int64_t more = steps % shares;\n"
    "        const int64_t first = (each * i + (i < more ? i : more)) * step;\n"
    "        const int64_t last = first + (each + (i < more)) * step;\n"
    "        if (first < count) {\n"
    "            run(&args, first, last < count ? last : count);\n"
    "        }\n"
    "    }\n"
    "}\n"
    "\n"
    "UNUSED static void launch_once(call *c, kernel *run, void *const *b)\n"
    "{\n"
    "    const kernel_args args = {b, c->sizes, &c->status};\n"
    "    run(&args, 0, 1);\n"
    "}\n"
    "\n";

/* Only where a size is computed. */
static const char arithmetic[] =
    "/* Each gives 0 on overflow or a division by zero. */\n"
    "UNUSED static int madd(int64_t *a, int64_t b, int64_t k)\n"
    "{\n"
    "    return !__builtin_mul_overflow(b, k, &b) && !__builtin_add_overflow(*a, b, a);\n"
    "}\n"
    "UNUSED static int product(int64_t *a, int64_t b)\n"
    "{\n"
    "    return !__builtin_mul_overflow(*a, b, a);\n"
    "}\n"
    "UNUSED static int floordiv(int64_t *a, int64_t b)\n"
    "{\n"
    "    if (b == 0 || (b == -1 && *a == INT64_MIN)) {\n"
    "        return 0;\n"
    "    }\n"
    "    *a = *a / b - (*a % b != 0 && (*a < 0) != (b < 0));\n"
    "    return 1;\n"
    "}\n"
    "UNUSED static int mod(int64_t *a, int64_t b)\n"
    "{\n"
    "    if (b == 0) {\n"
    "        return 0;\n"
    "    }\n"
    "    *a = b == -1 ? 0 : *a % b + (*a % b != 0 && (*a < 0) != (b < 0) ? b : 0);\n"
    "    return 1;\n"
    "}\n"
    "UNUSED static int least(int64_t *a, int64_t b)\n"
    "{\n"
    "    *a = *a < b ? *a : b;\n"
    "    return 1;\n"
    "}\n"
    "UNUSED static int most(int64_t *a, int64_t b)\n"
    "{\n"
    "    *a = *a > b ? *a : b;\n"
    "    return 1;\n"
    "}\n"
    "\n";

/* ---- sizes ---- */

static void put_sizes(const cg_packing *p)
{
    const st_cg_exe *exe = p->exe;
    st_str_add(p->out, arithmetic);
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        if (exe->launches.data[i].has_parallel) {
            cg_pack_size(p->out, "count", i, &exe->launches.data[i].count);
        }
        cg_pack_scan_sizes(p, i);
    }
    for (uint32_t i = 0; exe->slots && i < exe->n_slots; i++) {
        cg_pack_size(p->out, "bytes", i, &exe->slots[i]);
    }
    for (uint32_t i = 0; i < exe->shape_constraints.count; i++) {
        for (uint32_t k = 0; k < exe->shape_constraints.data[i].n_sizes; k++) {
            cg_pack_size(p->out, "size", CG_RANK_MAX * i + k,
                         &exe->shape_constraints.data[i].size[k]);
        }
    }
}

/* ---- shape constraints ---- */

/* n[] are the sizes of the row. */
static void put_rule(st_str *out, const cg_shape_constraint *constraint)
{
    st_str_add(out, "    step = ");
    cg_pack_i64(out, constraint->step);
    st_str_add(out, ";\n");
    if (constraint->kind == CG_SHAPE_CONSTRAINT_NUMEL) {
        st_str_addf(out, "    if (!counted(n, %u, step)) {\n", constraint->n_sizes);
    } else {
        st_str_addf(out, "    if (!holds(%u, n, step)) {\n", constraint->kind);
    }
    st_str_add(out, "        return 0;\n    }\n");
}

static const char counted[] =
    "/* A value of these sizes times `bytes` is no larger than memory. */\n"
    "UNUSED static int counted(const int64_t *n, int count, int64_t bytes)\n"
    "{\n"
    "    int empty = bytes == 0;\n"
    "    for (int i = 0; i < count; i++) {\n"
    "        if (n[i] < 0) {\n"
    "            return 0;\n"
    "        }\n"
    "        empty |= n[i] == 0;\n"
    "    }\n"
    "    for (int i = 0; i < count && !empty; i++) {\n"
    "        if (!product(&bytes, n[i]) || bytes > (int64_t)1 << 62) {\n"
    "            return 0;\n"
    "        }\n"
    "    }\n"
    "    return 1;\n"
    "}\n\n";

static void put_shape_constraints(const cg_packing *p)
{
    const st_cg_exe *exe = p->exe;
    st_shape_constraint_put_c(p->out);
    st_str_add(p->out, counted);
    st_str_addf(p->out,
                "static int shapes_hold(const int64_t *s)\n"
                "{\n"
                "    int64_t n[%u] = {0};\n"
                "    int64_t step = 1;\n",
                (unsigned)CG_RANK_MAX);
    for (uint32_t i = 0; i < exe->shape_constraints.count; i++) {
        const cg_shape_constraint *constraint = &exe->shape_constraints.data[i];
        for (uint32_t k = 0; k < constraint->n_sizes; k++) {
            if (constraint->size[k].is_const) {
                st_str_addf(p->out, "    n[%u] = ", k);
                cg_pack_i64(p->out, constraint->size[k].constant);
                st_str_add(p->out, ";\n");
            } else {
                st_str_addf(p->out,
                            "    if (!size%u(s, &n[%u])) {\n"
                            "        return 0;\n"
                            "    }\n",
                            CG_RANK_MAX * i + k, k);
            }
        }
        put_rule(p->out, constraint);
    }
    st_str_add(p->out, "    (void)n;\n"
                       "    (void)step;\n"
                       "    return 1;\n"
                       "}\n\n");
}

/* ---- the workspace ---- */

static const char taking[] =
    "/* The next offset of so many bytes. */\n"
    "static int take(uint64_t bytes, uint64_t *at, uint64_t *total)\n"
    "{\n"
    "    *at = *total;\n"
    "    *total += (bytes + 63) / 64 * 64;\n"
    "    return bytes <= (uint64_t)1 << 62 && *total <= (uint64_t)1 << 62;\n"
    "}\n\n";

static void put_layout(const cg_packing *p)
{
    const st_cg_exe *exe = p->exe;
    st_str_add(p->out, taking);
    st_str_addf(p->out,
                "static int layout(const int64_t *s, uint64_t *at, uint64_t *total)\n"
                "{\n"
                "    int64_t n = 0;\n"
                "    *total = %" PRIu64 ";\n",
                exe->slots ? UINT64_C(0) : (exe->static_bytes + 63u) / 64u * 64u);
    for (uint32_t i = 0; exe->slots && i < exe->n_slots; i++) {
        if (exe->slots[i].is_const) {
            st_str_addf(p->out, "    n = %" PRId64 ";\n    if (", exe->slots[i].constant);
        } else {
            st_str_addf(p->out, "    if (!bytes%u(s, &n) || n < 0 || ", i);
        }
        st_str_addf(p->out, "!take((uint64_t)n, &at[%u], total)) {\n        return 0;\n    }\n", i);
    }
    cg_pack_body_rooms(p);
    st_str_add(p->out, "    return n >= 0;\n"
                       "}\n\n");
}

/* How many offsets layout() gives. */
static uint32_t offset_count(const st_cg_exe *exe)
{
    return (exe->slots ? exe->n_slots : 0) + cg_pack_n_rooms(exe);
}

static void put_workspace(const cg_packing *p)
{
    const st_cg_exe *exe = p->exe;
    const bool is_symbolic = cg_pack_is_symbolic(exe);
    if (is_symbolic) {
        put_layout(p);
    }
    st_str_addf(p->out,
                "HIDDEN int stator_package_workspace%s(const int64_t *sizes, uint64_t "
                "*out_bytes);\n"
                "int stator_package_workspace%s(const int64_t *sizes, uint64_t *out_bytes)\n"
                "{\n",
                p->suffix, p->suffix);
    if (is_symbolic) {
        st_str_addf(p->out,
                    "    uint64_t at[%u];\n"
                    "    return layout(sizes, at, out_bytes) ? 0 : 1;\n"
                    "}\n\n",
                    offset_count(exe));
    } else {
        st_str_addf(p->out,
                    "    (void)sizes;\n"
                    "    *out_bytes = %" PRIu64 ";\n"
                    "    return 0;\n"
                    "}\n\n",
                    exe->slots ? UINT64_C(0) : exe->static_bytes);
    }
}

/* ---- functions of the machine code ---- */

/* Symbols go into the source as they are: letters, digits, '_' and '.' alone. */
static bool is_plain(const char *symbol)
{
    const size_t n =
        strspn(symbol, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.");
    return n > 0 && symbol[n] == '\0';
}

static void put_function(const cg_packing *p, const char *prefix, uint32_t id, const char *symbol,
                         const char *behind)
{
    st_str_addf(p->out, "extern HIDDEN kernel %s%u __asm__(\"%s%s\");\n", prefix, id, symbol,
                behind);
}

static stator_status put_functions(const cg_packing *p, stator_diag **err)
{
    const st_cg_exe *exe = p->exe;
    st_mem *mem = exe->config.mem;
    uint8_t *seen = st_calloc(mem, (uint64_t)exe->kernels.count + 1u, 1);
    stator_status status = seen ? STATOR_OK : st_fail_oom(err);
    for (uint32_t k = 0; status == STATOR_OK && k < exe->kernels.count; k++) {
        st_cg_code code;
        p->packer->code(p->packer->self, exe->module, k, &code);
        if (code.id >= exe->kernels.count || !is_plain(code.symbol) ||
            (code.streamed && !is_plain(code.streamed))) {
            status = st_fail(err, STATOR_INTERNAL, "kernel %u has no plain symbol", k);
        } else if (!seen[code.id]) {
            seen[code.id] = 1;
            put_function(p, "k", code.id, code.symbol, "");
            if (code.streamed) {
                put_function(p, "nt", code.id, code.symbol, code.streamed);
            }
        }
    }
    st_free(mem, seen);
    return status;
}

/* ---- steps ---- */

/* "k3", or the choice between it and the one that stores past the caches. */
static void put_choice(const cg_packing *p, const st_cg_code *code)
{
    if (code->streamed == NULL || code->n_streams == 0) {
        st_str_addf(p->out, "k%u", code->id);
        return;
    }
    st_str_add(p->out, "(");
    for (uint32_t i = 0; i < code->n_streams; i++) {
        st_str_addf(p->out, "%s(uintptr_t)b[%u]", i ? " | " : "", code->streams[i]);
    }
    st_str_addf(p->out, ") %% %u == 0 ? nt%u : k%u", code->stream_align, code->id, code->id);
}

static void put_launch(const cg_packing *p, uint32_t i)
{
    const cg_launch *launch = &p->exe->launches.data[i];
    st_cg_code code;
    p->packer->code(p->packer->self, p->exe->module, launch->kernel, &code);
    cg_pack_begin_step(p, i);
    if (!code.is_parallel) {
        st_str_add(p->out, "    launch_once(c, ");
        put_choice(p, &code);
        st_str_add(p->out, ", b);\n");
    } else {
        if (launch->count.is_const) {
            st_str_addf(p->out, "    const int64_t n = %" PRId64 ";\n", launch->count.constant);
        } else {
            st_str_addf(p->out,
                        "    int64_t n;\n    if (!count%u(c->sizes, &n)) {\n"
                        "        return 1;\n    }\n",
                        i);
        }
        st_str_add(p->out, "    launch(c, ");
        put_choice(p, &code);
        st_str_addf(p->out, ", b, n, %" PRId64 ", %" PRId64 ");\n", code.step > 0 ? code.step : 1,
                    launch->grain > 0 ? launch->grain : 1);
    }
    st_str_add(p->out, "    return c->status ? 2 : 0;\n}\n\n");
}

static stator_status put_step(const cg_packing *p, uint32_t i, stator_diag **err)
{
    const st_cg_exe *exe = p->exe;
    const cg_launch *launch = &exe->launches.data[i];
    const char *text = launch->text ? launch->text : "";
    ST_FAIL_IF(launch->bind, err, STATOR_UNSUPPORTED,
               "sym_bind '%s': a size that is read from data is not known before the call",
               exe->binds.data[launch->bind - 1u].name);
    if (launch->scan) {
        cg_pack_scan_step(p, i);
    } else if (launch->kernel == UINT32_MAX) {
        return st_fail(err, STATOR_UNSUPPORTED, "step %u is a call of a library: %.*s", i,
                       (int)strcspn(text, "\n"), text);
    } else {
        put_launch(p, i);
    }
    return STATOR_OK;
}

/* Names of the steps' functions; those that run concurrently are one. */
static void put_table(const cg_packing *p)
{
    uint32_t n = 0;
    st_str_add(p->out, "    static int (*const steps[])(call *) = {\n");
    for (uint32_t i = 0; i < p->exe->launches.count; n++) {
        const uint32_t n_concurrent = p->exe->launches.data[i].n_concurrent;
        st_str_addf(p->out, "%s%s%u,%s", n % 8u == 0 ? "        " : " ",
                    n_concurrent > 1 ? "concurrent" : "step", i, n % 8u == 7u ? "\n" : "");
        i += n_concurrent > 1 ? n_concurrent : 1u;
    }
    st_str_addf(p->out, "%s        NULL};\n", n % 8u != 0 ? "\n" : "");
}

static void put_run(const cg_packing *p)
{
    const st_cg_exe *exe = p->exe;
    for (int is_body = 0; is_body < 2; is_body++) {
        st_str_addf(p->out,
                    "%sint stator_package_run%s(void *const *in, void *const *out, const int64_t "
                    "*sizes,\n    void *work)%s\n",
                    is_body ? "" : "HIDDEN ", p->suffix, is_body ? "" : ";");
    }
    st_str_add(p->out, "{\n");
    put_table(p);
    st_str_add(p->out, "    call c = {in, out, sizes, work, NULL, 0};\n"
                       "    int status = 0;\n");
    if (exe->shape_constraints.count) {
        st_str_add(p->out, "    if (!shapes_hold(sizes)) {\n        return 1;\n    }\n");
    }
    if (cg_pack_is_symbolic(exe)) {
        st_str_addf(p->out,
                    "    uint64_t at[%u];\n"
                    "    uint64_t total = 0;\n"
                    "    if (!layout(sizes, at, &total)) {\n"
                    "        return 1;\n"
                    "    }\n"
                    "    c.at = at;\n",
                    offset_count(exe));
    }
    st_str_add(p->out, "    for (size_t i = 0; steps[i] && status == 0; i++) {\n"
                       "        status = steps[i](&c);\n"
                       "    }\n"
                       "    return status;\n"
                       "}\n");
}

/* ---- constants ---- */

/* Marks the constants that a step reads. */
static void mark_constants(const st_cg_exe *exe, uint8_t *is_read)
{
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        const cg_launch *launch = &exe->launches.data[i];
        for (uint32_t k = 0; k < launch->n_buffers; k++) {
            const uint32_t operand = exe->operands.data[launch->first_buffer + k];
            if (operand != UINT32_MAX && exe->buffers.data[operand].kind == CG_BUFFER_CONSTANT &&
                cg_pack_is_read(launch, exe, k)) {
                is_read[exe->buffers.data[operand].index] = 1;
            }
        }
    }
}

static stator_status give_constants(const cg_packing *p, stator_diag **err)
{
    const st_cg_exe *exe = p->exe;
    st_mem *mem = exe->config.mem;
    const stator_cst_api *cst = exe->config.host->cst;
    uint8_t *is_read = st_calloc(mem, (uint64_t)exe->blobs.count + 1u, 1);
    stator_status status = STATOR_OK;
    ST_TRY_MEM(is_read, err);
    mark_constants(exe, is_read);
    for (uint32_t i = 0; status == STATOR_OK && i < exe->blobs.count; i++) {
        stator_blob_info info = {.struct_size = sizeof info};
        stator_diag *theirs = NULL;
        char name[48];
        if (!is_read[i]) {
            continue;
        }
        (void)snprintf(name, sizeof name, "constant%u%s%s", i, p->unit ? "_" : "", p->suffix);
        st_str_addf(p->out, "extern HIDDEN const unsigned char constant%u[] __asm__(\"%s\");\n", i,
                    name);
        status = cst->get(exe->blobs.data[i], &info, &theirs);
        status = st_cg_from_host(exe->config.host, status, &theirs, err);
        ST_THEN(status, p->sink->piece(p->sink->self, STATOR_PACKAGE_DATA, name, info.data,
                                       info.size_bytes));
    }
    st_free(mem, is_read);
    return status;
}

/* ---- the whole ---- */

static stator_status write_plan(cg_packing *p, stator_diag **err)
{
    const st_cg_exe *exe = p->exe;
    char name[32];
    (void)snprintf(name, sizeof name, "plan%s", p->suffix);
    st_str_add(p->out, head);
    ST_TRY(give_constants(p, err));
    ST_TRY(put_functions(p, err));
    st_str_add(p->out, "\n");
    if (cg_pack_has_scans(exe)) {
        cg_pack_scan_head(p);
    }
    put_sizes(p);
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        ST_TRY(put_step(p, i, err));
    }
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        if (exe->launches.data[i].n_concurrent > 1) {
            cg_pack_concurrent(p, i);
        }
    }
    put_workspace(p);
    if (exe->shape_constraints.count) {
        put_shape_constraints(p);
    }
    put_run(p);
    return st_str_ok(p->out)
               ? p->sink->piece(p->sink->self, STATOR_PACKAGE_C, name, p->out->data, p->out->len)
               : st_fail_oom(err);
}

static stator_status put_unit(cg_packing *p, stator_diag **err);

/* Sources of the bodies of all scans; p->bodies is set. */
static stator_status put_bodies(cg_packing *p, stator_diag **err)
{
    for (uint32_t i = 0; i < p->exe->launches.count; i++) {
        const cg_scan *scan = p->exe->launches.data[i].scan;
        if (scan == NULL) {
            continue;
        }
        ST_FAIL_IF(p->depth == DEPTH_MAX, err, STATOR_UNSUPPORTED,
                   "scans are nested more than %u deep", DEPTH_MAX);
        cg_packing body = {.exe = scan->body,
                           .packer = p->packer,
                           .sink = p->sink,
                           .n_units = p->n_units,
                           .depth = p->depth + 1u};
        p->bodies[i] = *p->n_units;
        ST_TRY(put_unit(&body, err));
    }
    return STATOR_OK;
}

/* Writes the source and those of the bodies in it; of `p` all up to n_units is set. */
static stator_status put_unit(cg_packing *p, stator_diag **err)
{
    st_mem *mem = p->exe->config.mem;
    st_str text;
    st_str_init(&text, mem);
    p->out = &text;
    p->unit = (*p->n_units)++;
    p->bodies = st_calloc(mem, (uint64_t)p->exe->launches.count + 1u, sizeof *p->bodies);
    if (p->unit > 0) {
        (void)snprintf(p->suffix, sizeof p->suffix, "%u", p->unit);
    }
    stator_status status = p->bodies ? STATOR_OK : st_fail_oom(err);
    ST_THEN(status, p->packer->give(p->packer->self, p->exe->module, p->unit, p->sink, err));
    status = status == STATOR_OK ? put_bodies(p, err) : status;
    status = status == STATOR_OK ? write_plan(p, err) : status;
    st_free(mem, p->bodies);
    st_str_deinit(&text);
    return status;
}

stator_status st_cg_package(const st_cg_exe *exe, const st_cg_packer *packer,
                            const stator_package_sink *sink, stator_diag **err)
{
    stator_diag *own = NULL;
    uint32_t n_units = 0;
    cg_packing p = {.exe = exe, .packer = packer, .sink = sink, .n_units = &n_units};
    const stator_status status = put_unit(&p, &own);
    return st_cg_to_host(exe->config.host, status, own, err);
}
