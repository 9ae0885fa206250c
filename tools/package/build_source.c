/* The public functions of a package: every argument is checked, sizes are bound, then the backend's
 * plan runs. See build.h and docs/build.md.
 *
 * The same text for every model, with tables and three functions that are the model's: `bind` (the
 * shapes of the inputs give the symbols), `shapes` (the symbols give the shapes of the outputs) and
 * `gather` (pointers and sizes as arrays). */
#include "tools/package/build.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char head[] =
    "#include \"package.h\"\n"
    "\n"
    "#include <stddef.h>\n"
    "#include <stdlib.h>\n"
    "\n"
    "#define HIDDEN __attribute__((visibility(\"hidden\")))\n"
    "#define PUBLIC __attribute__((visibility(\"default\")))\n"
    "#define UNUSED __attribute__((unused))\n"
    "\n"
    "HIDDEN int stator_package_cpu(void);\n"
    "HIDDEN int stator_package_needs(const int64_t *sizes);\n"
    "HIDDEN int stator_package_workspace(const int64_t *sizes, uint64_t *out_bytes);\n"
    "HIDDEN int stator_package_run(void *const *in, void *const *out, const int64_t *sizes,\n"
    "                              void *work);\n"
    "\n"
    "/* ---- sizes: *ok becomes 0 on overflow or a division by zero ---- */\n"
    "\n"
    "UNUSED static int64_t size_add(int *ok, int64_t a, int64_t b)\n"
    "{\n"
    "    *ok &= !__builtin_add_overflow(a, b, &a);\n"
    "    return a;\n"
    "}\n"
    "UNUSED static int64_t size_mul(int *ok, int64_t a, int64_t b)\n"
    "{\n"
    "    *ok &= !__builtin_mul_overflow(a, b, &a);\n"
    "    return a;\n"
    "}\n"
    "UNUSED static int64_t size_floordiv(int *ok, int64_t a, int64_t b)\n"
    "{\n"
    "    if (b == 0 || (b == -1 && a == INT64_MIN)) {\n"
    "        *ok = 0;\n"
    "        return 0;\n"
    "    }\n"
    "    return a / b - (a % b != 0 && (a < 0) != (b < 0));\n"
    "}\n"
    "UNUSED static int64_t size_mod(int *ok, int64_t a, int64_t b)\n"
    "{\n"
    "    if (b == 0) {\n"
    "        *ok = 0;\n"
    "    }\n"
    "    return b == 0 || b == -1 ? 0 : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);\n"
    "}\n"
    "UNUSED static int64_t size_min(int *ok, int64_t a, int64_t b)\n"
    "{\n"
    "    (void)ok;\n"
    "    return a < b ? a : b;\n"
    "}\n"
    "UNUSED static int64_t size_max(int *ok, int64_t a, int64_t b)\n"
    "{\n"
    "    (void)ok;\n"
    "    return a > b ? a : b;\n"
    "}\n"
    "UNUSED static uint64_t bytes_of(int *ok, const int64_t *shape, uint32_t rank, uint64_t "
    "element)\n"
    "{\n"
    "    uint64_t bytes = element;\n"
    "    int is_empty = 0;\n"
    "    for (uint32_t a = 0; a < rank; a++) {\n"
    "        *ok &= shape[a] >= 0;\n"
    "        is_empty |= shape[a] == 0;\n"
    "    }\n"
    "    for (uint32_t a = 0; a < rank && !is_empty; a++) {\n"
    "        *ok &= !__builtin_mul_overflow(bytes, (uint64_t)shape[a], &bytes);\n"
    "    }\n"
    "    *ok &= bytes < (uint64_t)1 << 62;\n"
    "    return is_empty ? 0 : bytes;\n"
    "}\n"
    "\n"
    "typedef struct range {\n"
    "    uintptr_t first;\n"
    "    uint64_t bytes;\n"
    "} range;\n"
    "\n"
    "static int overlap(range a, range b)\n"
    "{\n"
    "    return a.bytes != 0 && b.bytes != 0 && a.first < b.first + b.bytes &&\n"
    "           b.first < a.first + a.bytes;\n"
    "}\n"
    "\n";

/* ---- metadata ---- */

static void put_dims(const build_ports *ports, const build_port *port, const char *what, uint32_t i,
                     st_str *out)
{
    int64_t value = 0;
    st_str_addf(out, "static const int64_t %s%u_dims[] = {", what, i);
    for (uint32_t a = 0; a < port->rank; a++) {
        const bool is_number = stator_sym_is_const(ports->v, port->dims[a], &value);
        st_str_addf(out, "%s%" PRId64, a > 0 ? ", " : "", is_number ? value : -1);
    }
    st_str_addf(out, "%s};\nstatic const char *const %s%u_names[] = {", port->rank ? "" : "0", what,
                i);
    for (uint32_t a = 0; a < port->rank; a++) {
        st_str text;
        st_str_init(&text, out->mem);
        st_str_add(out, a > 0 ? ", " : "");
        if (!stator_sym_is_const(ports->v, port->dims[a], &value)) {
            build_sym_text(ports->v, port->dims[a], &text);
        }
        build_literal(text.data, out);
        st_str_deinit(&text);
    }
    st_str_add(out, port->rank ? "};\n" : "NULL};\n");
}

static void put_port_list(const build_facts *f, const char *what, const build_port *list,
                          uint32_t n, st_str *out)
{
    for (uint32_t i = 0; i < n; i++) {
        put_dims(f->ports, &list[i], what, i, out);
    }
    st_str_addf(out, "static const %s_port %s_list[] = {\n", f->name, what);
    for (uint32_t i = 0; i < n; i++) {
        st_str_add(out, "    {");
        build_literal(list[i].name, out);
        st_str_addf(out, ", \"%s\", %u, %u, %s%u_dims, %s%u_names},\n", list[i].dtype,
                    list[i].bytes, list[i].rank, what, i, what, i);
    }
    st_str_add(out, "    {NULL, NULL, 0, 0, NULL, NULL}};\n\n");
    st_str_addf(out,
                "PUBLIC uint32_t %s_%s_count(void)\n"
                "{\n"
                "    return %u;\n"
                "}\n"
                "\n"
                "PUBLIC const %s_port *%s_%s(uint32_t index)\n"
                "{\n"
                "    return index < %u ? &%s_list[index] : NULL;\n"
                "}\n\n",
                f->name, what, n, f->name, f->name, what, n, what);
}

static void put_status_text(const build_facts *f, st_str *out)
{
    st_str_addf(out,
                "PUBLIC const char *%s_status_text(int status)\n"
                "{\n"
                "    static const char *const texts[] = {\n"
                "        \"ok\",\n"
                "        \"an argument or the data of a tensor is NULL\",\n"
                "        \"the shape of an input is none that the model takes\",\n"
                "        \"an output or the workspace has too little room\",\n"
                "        \"data are not aligned to 16 bytes, or the workspace not to 64\",\n"
                "        \"an output shares memory with another tensor or the workspace\",\n"
                "        \"out of memory\",\n"
                "        \"the processor lacks what the code was compiled for\",\n"
                "        \"an index is outside its axis\"};\n"
                "    const int n = (int)(sizeof texts / sizeof texts[0]);\n"
                "    return status >= 0 && status < n ? texts[status] : \"unknown status\";\n"
                "}\n\n",
                f->name);
}

/* ---- shapes ---- */

/* The size `at` of an input against its sym: a number, the first sight of a symbol, or later ones.
 */
static void put_bound(const build_ports *ports, stator_ref sym, const char *at, uint8_t *seen,
                      st_str *out)
{
    int64_t number = 0;
    const stator_atom_row *lone = stator_sym_as_symbol(ports->v, sym);
    if (stator_sym_is_const(ports->v, sym, &number)) {
        st_str_addf(out, "    ok &= %s == %" PRId64 ";\n", at, number);
    } else if (lone != NULL && !seen[lone->index]) {
        seen[lone->index] = 1;
        st_str_addf(out, "    s[%u] = %s;\n    ok &= s[%u] >= %" PRId64, lone->index, at,
                    lone->index, lone->lo > 0 ? lone->lo : 0);
        if (lone->hi != INT64_MAX) {
            st_str_addf(out, " && s[%u] <= %" PRId64, lone->index, lone->hi);
        }
        if (lone->divisor > 1) {
            st_str_addf(out, " && s[%u] %% %" PRId64 " == 0", lone->index, lone->divisor);
        }
        st_str_add(out, ";\n");
    } else if (lone != NULL) {
        st_str_addf(out, "    ok &= %s == s[%u];\n", at, lone->index);
    }
}

static void put_bind(const build_facts *f, st_str *out)
{
    const build_ports *p = f->ports;
    uint8_t *seen = calloc(p->v->n_symbols + 1u, 1);
    out->failed |= seen == NULL;
    st_str_addf(out,
                "/* The symbols from the shapes of the inputs; 0: a shape is wrong. */\n"
                "static int bind(const %s_inputs *in, int64_t *s)\n"
                "{\n"
                "    int ok = 1;\n"
                "    (void)in;\n"
                "    (void)s;\n",
                f->name);
    /* Symbols first: expressions are compared when all are bound. */
    for (int round = 0; seen != NULL && round < 2; round++) {
        for (uint32_t i = 0; i < p->n_in; i++) {
            for (uint32_t a = 0; a < p->in[i].rank; a++) {
                char at[sizeof(build_name) + 32u];
                int64_t number = 0;
                const stator_ref sym = p->in[i].dims[a];
                const bool is_plain = stator_sym_is_const(p->v, sym, &number) ||
                                      stator_sym_as_symbol(p->v, sym) != NULL;
                (void)snprintf(at, sizeof at, "in->%s.shape[%u]", p->in[i].id, a);
                if (round == 0 && is_plain) {
                    put_bound(p, sym, at, seen, out);
                } else if (round == 1 && !is_plain) {
                    st_str_addf(out, "    ok = ok && %s == ", at);
                    build_sym_code(p->v, sym, out);
                    st_str_add(out, ";\n");
                }
            }
        }
    }
    st_str_add(out, "    return ok;\n}\n\n");
    free(seen);
}

static void put_shapes(const build_facts *f, st_str *out)
{
    const build_ports *p = f->ports;
    st_str_addf(out,
                "/* Shapes and bytes of the outputs; 0: they cannot be computed. */\n"
                "static int shapes(const int64_t *s, %s_outputs *out)\n"
                "{\n"
                "    int ok = 1;\n"
                "    (void)s;\n"
                "    (void)out;\n",
                f->name);
    for (uint32_t k = 0; k < p->n_out; k++) {
        const build_port *port = &p->out[k];
        for (uint32_t a = 0; a < port->rank; a++) {
            st_str_addf(out, "    out->%s.shape[%u] = ", port->id, a);
            build_sym_code(p->v, port->dims[a], out);
            st_str_add(out, ";\n");
        }
        if (port->rank > 0) {
            st_str_addf(out, "    out->%s.bytes = bytes_of(&ok, out->%s.shape, %u, %u);\n",
                        port->id, port->id, port->rank, port->bytes);
        } else {
            st_str_addf(out, "    out->%s.bytes = %u;\n", port->id, port->bytes);
        }
    }
    st_str_add(out, "    return ok;\n}\n\n");
}

/* ---- pointers ---- */

static void put_gather(const build_facts *f, st_str *out)
{
    const build_ports *p = f->ports;
    st_str_addf(
        out,
        "#define N_IN %u\n"
        "#define N_OUT %u\n"
        "#define N_SIZES %u\n"
        "\n"
        "/* Pointers and bytes of all tensors; `room` are those that outputs have. */\n"
        "static int gather(const %s_inputs *in, const %s_outputs *out,\n"
        "                  const %s_outputs *want, void **data, uint64_t *bytes, uint64_t *room)\n"
        "{\n"
        "    int ok = 1;\n"
        "    (void)in;\n"
        "    (void)out;\n"
        "    (void)want;\n"
        "    (void)room;\n",
        p->n_in, p->n_out, p->v->n_symbols + 1u, f->name, f->name, f->name);
    for (uint32_t i = 0; i < p->n_in; i++) {
        st_str_addf(out, "    data[%u] = (void *)(uintptr_t)in->%s.data;\n", i, p->in[i].id);
        if (p->in[i].rank > 0) {
            st_str_addf(out, "    bytes[%u] = bytes_of(&ok, in->%s.shape, %u, %u);\n", i,
                        p->in[i].id, p->in[i].rank, p->in[i].bytes);
        } else {
            st_str_addf(out, "    bytes[%u] = %u;\n", i, p->in[i].bytes);
        }
    }
    for (uint32_t k = 0; k < p->n_out; k++) {
        st_str_addf(out,
                    "    data[N_IN + %u] = out->%s.data;\n"
                    "    bytes[N_IN + %u] = want->%s.bytes;\n"
                    "    room[%u] = out->%s.bytes;\n",
                    k, p->out[k].id, k, p->out[k].id, k, p->out[k].id);
    }
    st_str_add(out, "    return ok;\n}\n\n");
}

/* The caller's structs keep their data and room, and get the shapes. */
static void put_keep(const build_facts *f, st_str *out)
{
    const build_ports *p = f->ports;
    st_str_addf(out,
                "static void tell_shapes(const %s_outputs *want, %s_outputs *out, int with_bytes)\n"
                "{\n"
                "    (void)want;\n"
                "    (void)out;\n"
                "    (void)with_bytes;\n",
                f->name, f->name);
    for (uint32_t k = 0; k < p->n_out; k++) {
        for (uint32_t a = 0; a < p->out[k].rank; a++) {
            st_str_addf(out, "    out->%s.shape[%u] = want->%s.shape[%u];\n", p->out[k].id, a,
                        p->out[k].id, a);
        }
        st_str_addf(out, "    out->%s.bytes = with_bytes ? want->%s.bytes : out->%s.bytes;\n",
                    p->out[k].id, p->out[k].id, p->out[k].id);
    }
    st_str_add(out, "}\n\n");
}

static const char checks[] =
    "static int check_tensors(void *const *data, const uint64_t *bytes, const uint64_t *room)\n"
    "{\n"
    "    for (uint32_t i = 0; i < N_IN + N_OUT; i++) {\n"
    "        if (data[i] == NULL && bytes[i] != 0) {\n"
    "            return STATUS(NULL_POINTER);\n"
    "        }\n"
    "        if ((uintptr_t)data[i] % 16 != 0) {\n"
    "            return STATUS(NOT_ALIGNED);\n"
    "        }\n"
    "    }\n"
    "    for (uint32_t k = N_IN; k < N_IN + N_OUT; k++) {\n"
    "        if (room[k - N_IN] < bytes[k]) {\n"
    "            return STATUS(NO_ROOM);\n"
    "        }\n"
    "        for (uint32_t i = 0; i < k; i++) {\n"
    "            if (overlap((range){(uintptr_t)data[k], bytes[k]},\n"
    "                        (range){(uintptr_t)data[i], bytes[i]})) {\n"
    "                return STATUS(OVERLAP);\n"
    "            }\n"
    "        }\n"
    "    }\n"
    "    return STATUS(OK);\n"
    "}\n"
    "\n"
    "static int check_workspace(void *const *data, const uint64_t *bytes, const void *work,\n"
    "                           uint64_t given, uint64_t wanted)\n"
    "{\n"
    "    if ((uintptr_t)work % 64 != 0) {\n"
    "        return STATUS(NOT_ALIGNED);\n"
    "    }\n"
    "    if (given < wanted) {\n"
    "        return STATUS(NO_ROOM);\n"
    "    }\n"
    "    for (uint32_t i = 0; i < N_IN + N_OUT; i++) {\n"
    "        if (overlap((range){(uintptr_t)work, wanted}, (range){(uintptr_t)data[i], bytes[i]})) "
    "{\n"
    "            return STATUS(OVERLAP);\n"
    "        }\n"
    "    }\n"
    "    return STATUS(OK);\n"
    "}\n"
    "\n"
    "static int run_plan(void *const *data, const int64_t *s, void *work)\n"
    "{\n"
    "    const int status = stator_package_run(data, data + N_IN, s, work);\n"
    "    return status == 0 ? STATUS(OK) : status == 1 ? STATUS(BAD_SHAPE) : STATUS(BAD_INDEX);\n"
    "}\n"
    "\n"
    "/* With a workspace of this call's own. */\n"
    "static int run_alone(void *const *data, const int64_t *s, uint64_t wanted)\n"
    "{\n"
    "    const uint64_t bytes = (wanted + 63) / 64 * 64;\n"
    "    void *work = bytes != 0 ? aligned_alloc(64, (size_t)bytes) : NULL;\n"
    "    if (bytes != 0 && work == NULL) {\n"
    "        return STATUS(NO_MEMORY);\n"
    "    }\n"
    "    const int status = run_plan(data, s, work);\n"
    "    free(work);\n"
    "    return status;\n"
    "}\n"
    "\n";

/* The two functions; $ is the package's name. */
static const char functions[] =
    "PUBLIC int $_sizes(const $_inputs *in, $_outputs *out, uint64_t *workspace_bytes)\n"
    "{\n"
    "    int64_t s[N_SIZES] = {0};\n"
    "    $_outputs want;\n"
    "    uint64_t wanted = 0;\n"
    "    if (in == NULL || out == NULL) {\n"
    "        return STATUS(NULL_POINTER);\n"
    "    }\n"
    "    if (!bind(in, s) || !shapes(s, &want) || !stator_package_needs(s) ||\n"
    "        stator_package_workspace(s, &wanted) != 0) {\n"
    "        return STATUS(BAD_SHAPE);\n"
    "    }\n"
    "    tell_shapes(&want, out, 1);\n"
    "    if (workspace_bytes != NULL) {\n"
    "        *workspace_bytes = wanted;\n"
    "    }\n"
    "    return STATUS(OK);\n"
    "}\n"
    "\n"
    "PUBLIC int $_run(const $_inputs *in, $_outputs *out, void *workspace, uint64_t "
    "workspace_bytes)\n"
    "{\n"
    "    int64_t s[N_SIZES] = {0};\n"
    "    $_outputs want;\n"
    "    void *data[N_IN + N_OUT + 1];\n"
    "    uint64_t bytes[N_IN + N_OUT + 1];\n"
    "    uint64_t room[N_OUT + 1];\n"
    "    uint64_t wanted = 0;\n"
    "    if (in == NULL || out == NULL) {\n"
    "        return STATUS(NULL_POINTER);\n"
    "    }\n"
    "    if (!stator_package_cpu()) {\n"
    "        return STATUS(BAD_CPU);\n"
    "    }\n"
    "    if (!bind(in, s) || !shapes(s, &want) || !gather(in, out, &want, data, bytes, room) ||\n"
    "        !stator_package_needs(s) || stator_package_workspace(s, &wanted) != 0) {\n"
    "        return STATUS(BAD_SHAPE);\n"
    "    }\n"
    "    int status = check_tensors(data, bytes, room);\n"
    "    if (status == STATUS(OK) && workspace != NULL) {\n"
    "        status = check_workspace(data, bytes, workspace, workspace_bytes, wanted);\n"
    "    }\n"
    "    if (status == STATUS(OK)) {\n"
    "        status = workspace != NULL ? run_plan(data, s, workspace) : run_alone(data, s, "
    "wanted);\n"
    "    }\n"
    "    if (status == STATUS(OK)) {\n"
    "        tell_shapes(&want, out, 0);\n"
    "    }\n"
    "    return status;\n"
    "}\n";

static void put_with_name(const char *text, const char *name, st_str *out)
{
    for (const char *next = strchr(text, '$'); next != NULL; next = strchr(text, '$')) {
        st_str_addn(out, text, (uint64_t)(next - text));
        st_str_add(out, name);
        text = next + 1;
    }
    st_str_add(out, text);
}

void build_source(const build_facts *facts, st_str *out)
{
    const build_ports *p = facts->ports;
    st_str_add(out, "/* Made by stator build: the public functions. */\n");
    st_str_add(out, head);
    st_str_addf(out, "#define STATUS(code) ((int)%s_STATUS_##code)\n\n", facts->upper);
    put_port_list(facts, "input", p->in, p->n_in, out);
    put_port_list(facts, "output", p->out, p->n_out, out);
    put_status_text(facts, out);
    put_bind(facts, out);
    put_shapes(facts, out);
    put_gather(facts, out);
    put_keep(facts, out);
    st_str_add(out, checks);
    put_with_name(functions, facts->name, out);
}
