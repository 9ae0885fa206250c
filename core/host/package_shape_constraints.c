/* The shape constraints of a packaged graph, as C.
 *
 * In: the shape constraints of the graph and the columns their sizes are in. Out: one piece, which
 * defines
 *
 *     int stator_package_needs(const int64_t *sizes);     1: the graph works with them
 *
 * Sizes are the postfix code of st_symprog, run by a few lines that every package gets; a size that
 * cannot be computed does not do. Without constraints the function says 1. */
#include "core/host/package_shape_constraints.h"

#include "core/base/str.h"

#include <inttypes.h>

static const char head[] =
    "/* The model's shape constraints on sizes known only at call time. */\n"
    "#include <stdint.h>\n"
    "\n"
    "__attribute__((visibility(\"hidden\"))) int stator_package_needs(const int64_t *sizes);\n"
    "\n";

static const char evaluator[] =
    "static int apply(int64_t op, int64_t a, int64_t b, int64_t *out)\n"
    "{\n"
    "    switch (op) {\n"
    "    case FLOORDIV:\n"
    "    case MOD:\n"
    "        if (b == 0 || (b == -1 && a == INT64_MIN)) {\n"
    "            return 0;\n"
    "        }\n"
    "        *out = op == FLOORDIV ? a / b - (a % b != 0 && (a < 0) != (b < 0))\n"
    "                              : a % b + (a % b != 0 && (a < 0) != (b < 0) ? b : 0);\n"
    "        return 1;\n"
    "    case PRODUCT:\n"
    "        return !__builtin_mul_overflow(a, b, out);\n"
    "    case MIN:\n"
    "        *out = a < b ? a : b;\n"
    "        return 1;\n"
    "    default:\n"
    "        *out = a > b ? a : b;\n"
    "        return 1;\n"
    "    }\n"
    "}\n"
    "\n"
    "/* Postfix code: pairs of operation and argument. 0: overflow or a division by zero. */\n"
    "static int eval(const int64_t *code, int count, const int64_t *s, int64_t *out)\n"
    "{\n"
    "    int64_t t[STACK];\n"
    "    int n = 0;\n"
    "    for (int i = 0; i < count; i++, code += 2) {\n"
    "        if (code[0] == CONSTANT || code[0] == SYMBOL) {\n"
    "            t[n++] = code[0] == CONSTANT ? code[1] : s[code[1]];\n"
    "            continue;\n"
    "        }\n"
    "        n--;\n"
    "        if (code[0] == MADD\n"
    "                ? __builtin_mul_overflow(t[n], code[1], &t[n]) ||\n"
    "                      __builtin_add_overflow(t[n - 1], t[n], &t[n - 1])\n"
    "                : !apply(code[0], t[n - 1], t[n], &t[n - 1])) {\n"
    "            return 0;\n"
    "        }\n"
    "    }\n"
    "    *out = t[0];\n"
    "    return 1;\n"
    "}\n"
    "\n";

static const char function[] =
    "int stator_package_needs(const int64_t *sizes)\n"
    "{\n"
    "    for (unsigned i = 0; i < sizeof constraints / sizeof constraints[0]; i++) {\n"
    "        int64_t n[3] = {0, 0, 0};\n"
    "        for (int k = 0; k < (constraints[i].kind == INSIDE ? 3 : 2); k++) {\n"
    "            if (!eval(code + constraints[i].size[k].at, constraints[i].size[k].count, sizes, "
    "&n[k])) {\n"
    "                return 0;\n"
    "            }\n"
    "        }\n"
    "        if (!holds(constraints[i].kind, n, constraints[i].step)) {\n"
    "            return 0;\n"
    "        }\n"
    "    }\n"
    "    return 1;\n"
    "}\n";

static void put_names(st_str *out)
{
    st_str_addf(out, "enum { FLOORDIV = %d, MOD = %d, PRODUCT = %d, MIN = %d };\n",
                STATOR_ATOM_FLOORDIV, STATOR_ATOM_MOD, STATOR_ATOM_PRODUCT, STATOR_ATOM_MIN);
    st_str_addf(out, "enum { CONSTANT = %d, SYMBOL = %d, MADD = %d, STACK = %u };\n",
                ST_SYMPROG_CONST, ST_SYMPROG_SYMBOL, ST_SYMPROG_MADD, ST_SYMPROG_STACK);
}

/* INT64_MIN has no literal. */
static void put_i64(st_str *out, int64_t value)
{
    if (value == INT64_MIN) {
        st_str_add(out, "INT64_MIN, ");
    } else {
        st_str_addf(out, "%" PRId64 ", ", value);
    }
}

/* The code of one size into `code`, where it is and how long into `rows`. */
static bool put_size(st_str *code, st_str *rows, uint32_t *at, const st_sym_cols *cols,
                     stator_ref sym, st_mem *mem)
{
    st_symprog prog;
    ST_NEED(st_symprog_init(&prog, mem, cols, sym));
    const int64_t number[2] = {ST_SYMPROG_CONST, prog.constant};
    const int64_t *from = prog.is_const ? number : prog.code;
    const uint32_t count = prog.is_const ? 1u : prog.count;
    for (uint32_t i = 0; i < 2u * count; i++) {
        put_i64(code, from[i]);
    }
    st_str_add(code, "\n    ");
    st_str_addf(rows, "{%u, %u}, ", *at, count);
    *at += 2u * count;
    st_symprog_deinit(&prog, mem);
    return true;
}

static bool put_rows(const st_shape_constraints *shape_constraints, const st_sym_cols *cols,
                     st_str *code, st_str *rows)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < shape_constraints->rows.count; i++) {
        const st_shape_constraint *constraint = &shape_constraints->rows.data[i];
        st_str_addf(rows, "    {%u, ", constraint->kind);
        put_i64(rows, constraint->step);
        st_str_add(rows, "{");
        for (uint32_t k = 0; k < st_shape_constraint_sizes(constraint->kind); k++) {
            ST_NEED(put_size(code, rows, &at, cols, constraint->size[k], shape_constraints->mem));
        }
        st_str_add(rows, "}},\n");
    }
    return true;
}

static bool put_all(const st_shape_constraints *shape_constraints, const st_sym_cols *cols,
                    st_str *out)
{
    st_str code, rows;
    st_str_init(&code, shape_constraints->mem);
    st_str_init(&rows, shape_constraints->mem);
    const bool ok =
        put_rows(shape_constraints, cols, &code, &rows) && st_str_ok(&code) && st_str_ok(&rows);
    if (ok) {
        put_names(out);
        st_shape_constraint_put_c(out);
        st_str_add(out, evaluator);
        st_str_addf(out, "static const int64_t code[] = {\n    %s};\n\n", code.data);
        st_str_addf(out,
                    "static const struct {\n"
                    "    int kind;\n"
                    "    int64_t step;\n"
                    "    struct {\n"
                    "        int at, count;\n"
                    "    } size[3];\n"
                    "} constraints[] = {\n%s};\n\n",
                    rows.data);
        st_str_add(out, function);
    }
    st_str_deinit(&code);
    st_str_deinit(&rows);
    return ok;
}

stator_status st_package_shape_constraints(const st_shape_constraints *shape_constraints,
                                           const st_sym_cols *cols, const stator_package_sink *sink,
                                           stator_diag **err)
{
    st_str out;
    st_str_init(&out, shape_constraints->mem);
    st_str_add(&out, head);
    bool ok = true;
    if (shape_constraints->rows.count != 0) {
        ok = put_all(shape_constraints, cols, &out);
    } else {
        st_str_add(&out, "int stator_package_needs(const int64_t *sizes)\n"
                         "{\n"
                         "    (void)sizes;\n"
                         "    return 1;\n"
                         "}\n");
    }
    const stator_status status = ok && st_str_ok(&out) ? sink->piece(sink->self, STATOR_PACKAGE_C,
                                                                     "needs", out.data, out.len)
                                                       : st_fail_oom(err);
    st_str_deinit(&out);
    return status;
}
