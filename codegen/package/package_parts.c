/* Sizes and buffers as C: what the launch plan of a package and its scans write alike. */
#include "codegen/package/package_plan.h"

#include <inttypes.h>

/* The function of the package that does each operation. */
static const char *const functions[] = {[STATOR_ATOM_FLOORDIV] = "floordiv",
                                        [STATOR_ATOM_MOD] = "mod",
                                        [STATOR_ATOM_PRODUCT] = "product",
                                        [STATOR_ATOM_MIN] = "least",
                                        [STATOR_ATOM_MAX] = "most"};

/* INT64_MIN has no literal. */
void cg_pack_i64(st_str *out, int64_t value)
{
    if (value == INT64_MIN) {
        st_str_add(out, "INT64_MIN");
    } else {
        st_str_addf(out, "%" PRId64, value);
    }
}

/* The stack of the postfix code becomes variables. */
static void put_code(st_str *out, const st_symprog *prog)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < prog->count; i++) {
        const int64_t op = prog->code[2u * i];
        const int64_t argument = prog->code[2u * i + 1u];
        if (op == ST_SYMPROG_CONST) {
            st_str_addf(out, "    t[%u] = ", n++);
            cg_pack_i64(out, argument);
            st_str_add(out, ";\n");
        } else if (op == ST_SYMPROG_SYMBOL) {
            st_str_addf(out, "    t[%u] = s[%" PRId64 "];\n", n++, argument);
        } else if (op == ST_SYMPROG_MADD) {
            n--;
            st_str_addf(out, "    ok &= madd(&t[%u], t[%u], ", n - 1u, n);
            cg_pack_i64(out, argument);
            st_str_add(out, ");\n");
        } else {
            n--;
            st_str_addf(out, "    ok &= %s(&t[%u], t[%u]);\n", functions[op], n - 1u, n);
        }
    }
}

void cg_pack_size(st_str *out, const char *name, uint32_t k, const st_symprog *prog)
{
    if (prog->is_const) {
        return;
    }
    st_str_addf(out,
                "static int %s%u(const int64_t *s, int64_t *out)\n"
                "{\n"
                "    int64_t t[%u];\n"
                "    int ok = 1;\n",
                name, k, prog->count);
    put_code(out, prog);
    st_str_add(out, "    *out = t[0];\n"
                    "    return ok;\n"
                    "}\n\n");
}

static void put_buffer(const cg_packing *p, uint32_t operand)
{
    const st_cg_exe *exe = p->exe;
    if (operand == UINT32_MAX) {
        st_str_add(p->out, "NULL");
        return;
    }
    const cg_buffer *buffer = &exe->buffers.data[operand];
    switch (buffer->kind) {
    case CG_BUFFER_INPUT:
        st_str_addf(p->out, "c->in[%u]", buffer->index);
        break;
    case CG_BUFFER_OUTPUT:
        st_str_addf(p->out, "(char *)c->out[%u] + %" PRIu64, buffer->index, buffer->offset);
        break;
    case CG_BUFFER_CONSTANT:
        st_str_addf(p->out, "(void *)(uintptr_t)constant%u", buffer->index);
        break;
    default:
        if (exe->slots) {
            st_str_addf(p->out, "c->work + c->at[%u]", buffer->index);
        } else {
            st_str_addf(p->out, "c->work + %" PRIu64, exe->static_offsets[buffer->index]);
        }
    }
}

/* Constants are the body's own: the step has no use for them. */
bool cg_pack_is_read(const cg_launch *launch, const st_cg_exe *exe, uint32_t k)
{
    if (exe->operands.data[launch->first_buffer + k] == UINT32_MAX || launch->scan == NULL ||
        !cg_scan_knows(launch->scan, k)) {
        return true;
    }
    const st_cg_exe *body = launch->scan->body;
    for (uint32_t i = 0; i < body->operands.count; i++) {
        const uint32_t operand = body->operands.data[i];
        if (operand != UINT32_MAX && body->buffers.data[operand].kind == CG_BUFFER_INPUT &&
            body->buffers.data[operand].index == k) {
            return true;
        }
    }
    return false;
}

void cg_pack_begin_step(const cg_packing *p, uint32_t i)
{
    const cg_launch *launch = &p->exe->launches.data[i];
    st_str_addf(p->out, "static int step%u(call *c)\n{\n    void *const b[] = {", i);
    for (uint32_t k = 0; k < launch->n_buffers; k++) {
        const uint32_t operand = p->exe->operands.data[launch->first_buffer + k];
        st_str_add(p->out, k == 0 ? "" : k % 4u == 0 ? ",\n                       " : ", ");
        put_buffer(p, cg_pack_is_read(launch, p->exe, k) ? operand : UINT32_MAX);
    }
    st_str_add(p->out, "};\n");
}
