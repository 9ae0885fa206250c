/* Scans of a packaged program. The body of each is a C source of its own, of the same form as the
 * program's, and the step calls it once for each step of the scan:
 *
 *     static int step3(call *c)
 *     {
 *         void *const b[] = {operands, results, twins of the carried results, scratch};
 *         int64_t move[] = {0, 0, 512, 0, 512};
 *         ...
 *         return run_scan(c, &s, b);
 *     }
 *
 * That is cg_run_scan of run_scan.c in C; nothing of the body's tensors is needed, so that part
 * of the scratch stays unused. */
#include "codegen/package/package_plan.h"

#include <inttypes.h>
#include <stdio.h>

static const char head[] =
    "/* Steps of a body: what it reads, then what it writes, lies at `at`, each step `move` bytes\n"
    " * further. The first `carried` of both hand values on. */\n"
    "typedef struct scan {\n"
    "    int (*run)(void *const *in, void *const *out, const int64_t *sizes, void *work);\n"
    "    int in, out, carried;\n"
    "    int64_t length;\n"
    "    const int64_t *move;\n"
    "    const int64_t *bytes; /* of the carried values */\n"
    "    char **at;\n"
    "    char *work;\n"
    "} scan;\n"
    "\n"
    "/* Carried values go to and fro between the result and its twin behind the results: the last\n"
    " * step writes the result. Without a step it is what the scan began with. */\n"
    "UNUSED static int run_scan(const call *c, const scan *s, void *const *b)\n"
    "{\n"
    "    const int n = s->in + s->out;\n"
    "    int status = 0;\n"
    "    for (int k = 0; s->length <= 0 && k < s->carried; k++) {\n"
    "        if (s->bytes[k] > 0) {\n"
    "            memcpy(b[s->in + k], b[k], (size_t)s->bytes[k]);\n"
    "        }\n"
    "    }\n"
    "    for (int k = 0; k < n; k++) {\n"
    "        s->at[k] = (char *)b[k] - (s->move[k] < 0 ? s->move[k] * (s->length - 1) : 0);\n"
    "    }\n"
    "    for (int64_t t = 0; t < s->length && status == 0; t++) {\n"
    "        for (int k = 0; k < s->carried; k++) {\n"
    "            s->at[k] = t > 0 ? s->at[s->in + k] : s->at[k];\n"
    "            s->at[s->in + k] = b[(s->length - t) % 2 ? s->in + k : n + k];\n"
    "        }\n"
    "        status = s->run((void **)s->at, (void **)s->at + s->in, c->sizes, s->work);\n"
    "        for (int k = 0; k < n; k++) {\n"
    "            s->at[k] += s->move[k];\n"
    "        }\n"
    "    }\n"
    "    return status;\n"
    "}\n"
    "\n"
    "/* Steps that need nothing of each other, a thread each. */\n"
    "UNUSED static int run_concurrent(call *c, int (*const *steps)(call *), int n)\n"
    "{\n"
    "    const int threads = omp_get_max_threads();\n"
    "    int status = 0;\n"
    "#pragma omp parallel for num_threads(n < threads ? n : threads) reduction(max : status)\n"
    "    for (int i = 0; i < n; i++) {\n"
    "        const int one = steps[i](c);\n"
    "        status = one > status ? one : status;\n"
    "    }\n"
    "    return status;\n"
    "}\n"
    "\n";

bool cg_pack_has_scans(const st_cg_exe *exe)
{
    for (uint32_t i = 0; i < exe->launches.count; i++) {
        if (exe->launches.data[i].scan) {
            return true;
        }
    }
    return false;
}

void cg_pack_scan_head(const cg_packing *p)
{
    st_str_add(p->out, "#include <string.h>\n\n");
    st_str_add(p->out, head);
    for (uint32_t i = 0; i < p->exe->launches.count; i++) {
        if (p->bodies[i]) {
            st_str_addf(p->out,
                        "HIDDEN int stator_package_workspace%u(const int64_t *sizes, uint64_t "
                        "*out_bytes);\n"
                        "HIDDEN int stator_package_run%u(void *const *in, void *const *out, const "
                        "int64_t *sizes,\n    void *work);\n",
                        p->bodies[i], p->bodies[i]);
        }
    }
    st_str_add(p->out, "\n");
}

/* ---- sizes ---- */

/* Functions of sizes are numbered by the buffers that they are about: ports, then twins, then, for
 * the number of steps, the scratch. */

void cg_pack_scan_sizes(const cg_packing *p, uint32_t i)
{
    const cg_launch *launch = &p->exe->launches.data[i];
    const cg_scan *scan = launch->scan;
    const uint32_t twins = scan ? launch->first_buffer + scan->n_in + scan->n_out : 0;
    for (uint32_t k = 0; scan && k < scan->n_in + scan->n_out; k++) {
        if (scan->ports[k].kind == CG_PORT_SLICE) {
            cg_pack_size(p->out, "scan", launch->first_buffer + k, &scan->ports[k].bytes);
        }
    }
    for (uint32_t k = 0; scan && k < scan->n_carried; k++) {
        cg_pack_size(p->out, "scan", twins + k, &scan->carried_bytes[k]);
    }
    if (scan) {
        cg_pack_size(p->out, "scan", twins + scan->n_carried, &scan->length);
    }
}

/* ---- the step ---- */

/* Sets TARGET, which was made with 0, where that is not right. */
static void put_size(const cg_packing *p, const char *target, const st_symprog *prog,
                     uint32_t number)
{
    if (!prog->is_const) {
        st_str_addf(p->out, "    if (!scan%u(c->sizes, &%s)) {\n        return 1;\n    }\n", number,
                    target);
    } else if (prog->constant != 0) {
        st_str_addf(p->out, "    %s = ", target);
        cg_pack_i64(p->out, prog->constant);
        st_str_add(p->out, ";\n");
    }
}

static void put_sizes(const cg_packing *p, const cg_launch *launch)
{
    const cg_scan *scan = launch->scan;
    const uint32_t n = scan->n_in + scan->n_out;
    char target[32];
    for (uint32_t k = 0; k < n; k++) {
        (void)snprintf(target, sizeof target, "move[%u]", k);
        if (scan->ports[k].kind == CG_PORT_SLICE) {
            put_size(p, target, &scan->ports[k].bytes, launch->first_buffer + k);
            if (scan->ports[k].is_reversed) {
                st_str_addf(p->out, "    %s = -%s;\n", target, target);
            }
        }
    }
    for (uint32_t k = 0; k < scan->n_carried; k++) {
        (void)snprintf(target, sizeof target, "bytes[%u]", k);
        put_size(p, target, &scan->carried_bytes[k], launch->first_buffer + n + k);
    }
    put_size(p, "s.length", &scan->length, launch->first_buffer + n + scan->n_carried);
}

/* Bodies among the first n steps whose workspaces depend on the call. */
static uint32_t rooms_before(const st_cg_exe *exe, uint32_t n)
{
    uint32_t rooms = 0;
    for (uint32_t i = 0; i < n; i++) {
        const cg_scan *scan = exe->launches.data[i].scan;
        rooms += scan && cg_pack_is_symbolic(scan->body);
    }
    return rooms;
}

/* Behind the slots and the rooms of the bodies before it, or in the scratch. */
static void put_work(const cg_packing *p, uint32_t i)
{
    const cg_launch *launch = &p->exe->launches.data[i];
    const uint32_t n_slots = p->exe->slots ? p->exe->n_slots : 0;
    if (cg_pack_is_symbolic(launch->scan->body)) {
        st_str_addf(p->out, "c->work + c->at[%u]", n_slots + rooms_before(p->exe, i));
    } else {
        st_str_addf(p->out, "(char *)b[%u] + %" PRIu64, launch->n_buffers - 1u,
                    cg_scan_tensor_bytes(launch->scan));
    }
}

void cg_pack_scan_step(const cg_packing *p, uint32_t i)
{
    const cg_launch *launch = &p->exe->launches.data[i];
    const cg_scan *scan = launch->scan;
    const uint32_t n = scan->n_in + scan->n_out;
    cg_pack_begin_step(p, i);
    st_str_addf(p->out,
                "    char *at[%u];\n"
                "    int64_t move[%u] = {0};\n"
                "    int64_t bytes[%u] = {0};\n"
                "    scan s = {stator_package_run%u, %u, %u, %u, 0, move, bytes, at,\n"
                "              ",
                n, n, scan->n_carried + 1u, p->bodies[i], scan->n_in, scan->n_out, scan->n_carried);
    put_work(p, i);
    st_str_add(p->out, "};\n");
    put_sizes(p, launch);
    st_str_add(p->out, "    return run_scan(c, &s, b);\n}\n\n");
}

void cg_pack_concurrent(const cg_packing *p, uint32_t i)
{
    const uint32_t n = p->exe->launches.data[i].n_concurrent;
    st_str_addf(p->out,
                "static int concurrent%u(call *c)\n"
                "{\n"
                "    static int (*const steps[])(call *) = {",
                i);
    for (uint32_t k = 0; k < n; k++) {
        st_str_addf(p->out, "%sstep%u", k ? ", " : "", i + k);
    }
    st_str_addf(p->out, "};\n    return run_concurrent(c, steps, %u);\n}\n\n", n);
}

/* ---- workspaces of bodies ---- */

void cg_pack_body_rooms(const cg_packing *p)
{
    uint32_t room = p->exe->slots ? p->exe->n_slots : 0;
    for (uint32_t i = 0; i < p->exe->launches.count; i++) {
        const cg_scan *scan = p->exe->launches.data[i].scan;
        if (scan && cg_pack_is_symbolic(scan->body)) {
            st_str_addf(p->out,
                        "    uint64_t room%u = 0;\n"
                        "    if (stator_package_workspace%u(s, &room%u) != 0 ||\n"
                        "        !take(room%u, &at[%u], total)) {\n"
                        "        return 0;\n"
                        "    }\n",
                        i, p->bodies[i], i, i, room++);
        }
    }
}

uint32_t cg_pack_n_rooms(const st_cg_exe *exe)
{
    return rooms_before(exe, exe->launches.count);
}

bool cg_pack_is_symbolic(const st_cg_exe *exe)
{
    return (exe->slots != NULL && exe->n_slots != 0) || cg_pack_n_rooms(exe) != 0;
}
