/* The text of kernels, as loop.h shows it.
 *
 * Instructions that have a value are named v1, v2, ... in order of appearance. What an
 * instruction's operands do not tell is written: the dtype of `const`, `cast`, `bitcast`, `acc`
 * and `read`, the mask ("if v3") and what a masked load gives otherwise ("else v4"). A kernel
 * that verification refuses prints as well: a reference to nothing is "v?". */
#include "codegen/loopir/loop.h"

#include "core/base/check.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define INDENT_MAX 64u

typedef struct printer {
    const st_kernel *kernel;
    st_str *out;
    uint32_t *numbers; /* by instruction; 0: not met yet */
    uint32_t last;
    uint32_t insts_left; /* a chain that runs in a circle ends here */
} printer;

const char *st_loop_acc_name(uint32_t kind)
{
    static const char *const names[] = {
        [ST_ACC_SUM] = "sum", [ST_ACC_PROD] = "prod",     [ST_ACC_MIN] = "min",
        [ST_ACC_MAX] = "max", [ST_ACC_ARGMIN] = "argmin", [ST_ACC_ARGMAX] = "argmax",
        [ST_ACC_ANY] = "any", [ST_ACC_ALL] = "all",       [ST_ACC_LAST] = "last",
    };
    return kind < sizeof names / sizeof names[0] ? names[kind] : NULL;
}

/* ---- parts of an instruction ---- */

static void put(printer *p, const char *text)
{
    st_str_add(p->out, text);
}

static void put_ref(printer *p, st_loop_ref ref)
{
    if (ref < p->kernel->insts.count && p->numbers[ref]) {
        st_str_addf(p->out, "v%" PRIu32, p->numbers[ref]);
    } else {
        put(p, "v?");
    }
}

static void put_sym(printer *p, uint32_t sym)
{
    if (sym && sym < p->kernel->syms->tab.syms.count) {
        st_loop_sym_print(p->kernel->syms, sym, p->out);
    } else {
        put(p, "?");
    }
}

static void put_acc(printer *p, int64_t kind)
{
    const char *name = kind > 0 && kind <= ST_ACC_LAST ? st_loop_acc_name((uint32_t)kind) : NULL;
    put(p, name ? name : "?");
}

/* "x[64*i0 + i1]" */
static void put_element(printer *p, const st_loop_inst *inst)
{
    put(p, inst->ref < p->kernel->buffers.count ? p->kernel->buffers.data[inst->ref].name : "?");
    put(p, "[");
    put_sym(p, inst->sym);
    put(p, "]");
}

static void put_mask(printer *p, st_loop_ref mask)
{
    if (mask) {
        put(p, " if ");
        put_ref(p, mask);
    }
}

/* The shortest text that reads as the same f32, whatever the locale's point is. */
static void put_f32(printer *p, double value)
{
    char text[40];
    if (value - value != 0) { /* nan, inf */
        put(p, st_format_f64(value, text));
        return;
    }
    for (int digits = 1; digits <= 9; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtof(text, NULL) == (float)value) {
            break;
        }
    }
    for (char *c = text; *c != '\0'; c++) {
        *c = *c == ',' ? '.' : *c;
    }
    put(p, text);
}

static void put_const(printer *p, const st_loop_inst *inst)
{
    char text[32];
    st_str_addf(p->out, "const %s ", st_dtype_name(inst->dtype));
    if (inst->dtype == STATOR_BOOL) {
        put(p, inst->imm.i ? "true" : "false");
    } else if (inst->dtype == STATOR_F64) {
        put(p, st_format_f64(inst->imm.f, text));
    } else if (inst->dtype == STATOR_F32) {
        put_f32(p, inst->imm.f);
    } else if (inst->dtype == STATOR_U64) {
        st_str_addf(p->out, "%" PRIu64, (uint64_t)inst->imm.i);
    } else {
        st_str_addf(p->out, "%" PRId64, inst->imm.i);
    }
}

static void put_scalar(printer *p, const st_loop_inst *inst)
{
    const st_loop_op_desc *desc = st_loop_desc(inst->code);
    if (desc == NULL) {
        st_str_addf(p->out, "code %u", (unsigned)inst->code);
        return;
    }
    put(p, desc->name);
    if (desc->result == ST_LOOP_ANY) {
        st_str_addf(p->out, " %s", st_dtype_name(inst->dtype));
    }
    for (uint32_t k = 0; k < desc->arity; k++) {
        put(p, k ? ", " : " ");
        put_ref(p, inst->args[k]);
    }
    if (inst->code == ST_LOOP_lookup) {
        st_str_addf(p->out, " in table %" PRId64, inst->imm.i);
    } else if (desc->expand_bf16 && inst->imm.i) {
        st_str_addf(p->out, " for %s", st_dtype_name((uint32_t)inst->imm.i));
    }
}

/* ---- instructions ---- */

static void put_update(printer *p, const st_loop_inst *inst)
{
    put(p, "update ");
    put_ref(p, inst->ref);
    put(p, ", ");
    put_ref(p, inst->args[0]);
    if (inst->args[1]) {
        put(p, " at ");
        put_ref(p, inst->args[1]);
    }
    put_mask(p, inst->args[2]);
}

static void put_loop(printer *p, const st_loop_inst *inst)
{
    static const char *const names[] = {" parallel", " vector", " reduce", " serial"};
    static const char *const mappings[] = {
        [ST_MAPPING_GRID] = " over the grid",
        [ST_MAPPING_BLOCKS] = " over blocks",
        [ST_MAPPING_THREADS] = " over threads",
        [ST_MAPPING_COLUMNS] = " over columns of threads",
        [ST_MAPPING_TILE_ROWS] = " over rows of a tile",
        [ST_MAPPING_TILE_COLUMNS] = " over columns of a tile",
        [ST_MAPPING_TILE_STEPS] = " by steps of a tile",
        [ST_MAPPING_TILE_SHARES] = " shared in a tile",
        [ST_MAPPING_ROWS] = " over rows of threads",
        [ST_MAPPING_MATRIX_STEPS] = " by steps of matrices",
        [ST_MAPPING_MATRIX_TF32] = " by steps of matrices of tf32",
        [ST_MAPPING_MATRIX_BF16X3] = " by steps of matrices of bf16x3",
        [ST_MAPPING_MATRIX_BF16X6] = " by steps of matrices of bf16x6",
    };
    put(p, "loop ");
    if (inst->ref >= p->kernel->axes.count) {
        put(p, "?");
        return;
    }
    const st_loop_axis *axis = &p->kernel->axes.data[inst->ref];
    put_sym(p, axis->sym);
    put(p, " < ");
    put_sym(p, axis->extent);
    for (uint32_t bit = 0; bit < 4; bit++) {
        if (axis->flags & (1u << bit)) {
            put(p, names[bit]);
        }
        if ((axis->flags & (1u << bit)) == ST_AXIS_VECTOR) {
            st_str_addf(p->out, " %" PRIu32, axis->lanes);
        }
    }
    if (axis->unroll > 1) {
        st_str_addf(p->out, " unroll %" PRIu32, axis->unroll);
    }
    if (axis->mapping) {
        put(p, axis->mapping <= ST_MAPPING_LAST ? mappings[axis->mapping] : " ?");
        if (axis->lanes > 1 && !(axis->flags & ST_AXIS_VECTOR)) {
            st_str_addf(p->out, " by %" PRIu32, axis->lanes);
        }
    }
}

/* A dispatch switch: one case a structural code. */
static void put_inst(printer *p, const st_loop_inst *inst)
{
    switch (inst->code) {
    case ST_LOOP_CONST:
        put_const(p, inst);
        break;
    case ST_LOOP_INDEX:
        put(p, "index ");
        put_sym(p, inst->sym);
        break;
    case ST_LOOP_LOAD:
        put(p, "load ");
        put_element(p, inst);
        put_mask(p, inst->args[0]);
        if (inst->args[1]) {
            put(p, " else ");
            put_ref(p, inst->args[1]);
        }
        break;
    case ST_LOOP_STORE:
        put(p, "store ");
        put_element(p, inst);
        put(p, ", ");
        put_ref(p, inst->args[0]);
        put_mask(p, inst->args[1]);
        break;
    case ST_LOOP_CHECK:
        put(p, "check ");
        put_ref(p, inst->args[0]);
        put_mask(p, inst->args[1]);
        break;
    case ST_LOOP_LOOP:
        put_loop(p, inst);
        break;
    case ST_LOOP_BIND:
        put(p, "bind ");
        put_sym(p, inst->sym);
        put(p, " = ");
        put_ref(p, inst->args[0]);
        break;
    case ST_LOOP_ACC:
        put(p, "acc ");
        put_acc(p, inst->imm.i);
        st_str_addf(p->out, " %s", st_dtype_name(inst->dtype));
        if (inst->args[0]) {
            put(p, " from ");
            put_ref(p, inst->args[0]);
        }
        break;
    case ST_LOOP_UPDATE:
        put_update(p, inst);
        break;
    case ST_LOOP_READ:
        st_str_addf(p->out, "read %s ", st_dtype_name(inst->dtype));
        put_ref(p, inst->ref);
        break;
    case ST_LOOP_RARE:
        put(p, "rare ");
        put_ref(p, inst->args[0]);
        put(p, " else ");
        put_ref(p, inst->args[1]);
        break;
    default:
        put_scalar(p, inst);
        break;
    }
}

static void indent(printer *p, uint32_t depth)
{
    for (uint32_t i = 0; i < depth; i++) {
        put(p, "  ");
    }
}

static void put_block(printer *p, uint32_t block, uint32_t depth)
{
    const st_kernel *kernel = p->kernel;
    if (block >= kernel->blocks.count || depth > INDENT_MAX) {
        return;
    }
    for (st_loop_ref ref = kernel->blocks.data[block].first;
         ref && ref < kernel->insts.count && p->insts_left; ref = st_loop_at(kernel, ref)->next) {
        const st_loop_inst *inst = st_loop_at(kernel, ref);
        p->insts_left--;
        indent(p, depth);
        if (inst->dtype) {
            st_str_addf(p->out, "v%" PRIu32 " = ", ++p->last);
            p->numbers[ref] = p->last;
        }
        put_inst(p, inst);
        put(p, "\n");
        if (inst->code == ST_LOOP_LOOP || inst->code == ST_LOOP_RARE) {
            put_block(p, inst->body, depth + 1u);
        }
        if (inst->code == ST_LOOP_RARE) {
            indent(p, depth + 1u);
            put(p, "give ");
            put_ref(p, inst->args[2]);
            put(p, "\n");
        }
    }
}

/* ---- the head ---- */

static void put_buffer(printer *p, const st_loop_buffer *buffer)
{
    st_str_addf(p->out, "%s: %s[", buffer->name, st_dtype_name(buffer->dtype));
    put_sym(p, buffer->numel);
    put(p, "]");
    if (buffer->flags & ST_BUFFER_LOCAL) {
        return;
    }
    if ((buffer->flags & ST_BUFFER_WRITTEN) && (buffer->flags & ST_BUFFER_READ)) {
        put(p, " read");
    }
    if (buffer->flags & ST_BUFFER_STREAMED) {
        put(p, " streamed");
    }
    if ((buffer->flags & ST_BUFFER_WRITTEN) && !(buffer->flags & ST_BUFFER_UNIQUE)) {
        put(p, " shared");
    }
}

/* The buffers whose flags under `mask` are `want`. */
static void put_buffers(printer *p, uint32_t mask, uint32_t want, const char *between)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->kernel->buffers.count; i++) {
        const st_loop_buffer *buffer = &p->kernel->buffers.data[i];
        if ((buffer->flags & mask) == want) {
            put(p, n++ ? between : "");
            put_buffer(p, buffer);
        }
    }
}

static void put_head(printer *p)
{
    const uint32_t shown = ST_BUFFER_LOCAL | ST_BUFFER_WRITTEN;
    uint32_t n_local = 0;
    for (uint32_t i = 0; i < p->kernel->buffers.count; i++) {
        n_local += (p->kernel->buffers.data[i].flags & ST_BUFFER_LOCAL) != 0;
    }
    st_str_addf(p->out, "kernel %s(", p->kernel->name);
    put_buffers(p, shown, 0, ", ");
    put(p, ") -> (");
    put_buffers(p, shown, ST_BUFFER_WRITTEN, ", ");
    put(p, ")");
    if (p->kernel->threads) {
        st_str_addf(p->out, " in blocks of %" PRIu32, p->kernel->threads);
    }
    put(p, "\n");
    if (n_local) {
        put(p, "  local ");
        put_buffers(p, ST_BUFFER_LOCAL, ST_BUFFER_LOCAL, ", ");
        put(p, "\n");
    }
}

void st_kernel_print(const st_kernel *kernel, st_str *out)
{
    printer p = {.kernel = kernel, .out = out, .insts_left = kernel->insts.count};
    p.numbers = st_calloc(kernel->mem, kernel->insts.count, sizeof *p.numbers);
    if (p.numbers == NULL) {
        out->failed = 1;
        return;
    }
    put_head(&p);
    put_block(&p, 0, 1);
    st_free(kernel->mem, p.numbers);
}
