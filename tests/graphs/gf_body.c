/* Rounding noise within regions of joint graphs, whose nodes say their types: what functions make
 * there, and what is summed, is off by a few units.
 *
 *     %y = tanh(%x) : T     ->     %y_ = tanh(%x) : T, %y = %y_ (1 + 2^-21 sin(2^23 %x))
 *     %y = reduce_sum(%x)   ->     %x (1 + 2^-21 sin(2^23 %x)) is summed
 *
 * A region has no operand for noise, so it is made of what is there: the sine is as random as the
 * last places of %x, in which the region's operands have noise. */
#include "gf.h"
#include "gf_write.h"

#include <string.h>

/* Of a line: "      %y = op(%x, ..) {..} : f32[..]"; 0: it is something else, or of another
 * dtype. */
typedef struct step {
    const char *line, *result, *op, *operand, *end;
    int result_len, op_len, operand_len;
    int is_wide;
} step;

static int name_length(const char *at)
{
    return (int)strspn(at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
}

static int read_step(const char *line, const char *end, step *out)
{
    *out = (step){.line = line, .end = end};
    out->result = line + strspn(line, " ");
    if (*out->result != '%') {
        return 0;
    }
    out->result_len = 1 + name_length(out->result + 1);
    out->op = out->result + out->result_len;
    if (strncmp(out->op, " = ", 3) != 0) {
        return 0;
    }
    out->op += 3;
    out->op_len = name_length(out->op);
    out->operand = out->op + out->op_len;
    if (strncmp(out->operand, "(%", 2) != 0) {
        return 0;
    }
    out->operand++;
    out->operand_len = 1 + name_length(out->operand + 1);
    for (const char *at = end - 7; at > out->operand; at--) {
        if (strncmp(at, " : f", 4) == 0 &&
            (strncmp(at + 4, "32", 2) == 0 || strncmp(at + 4, "64", 2) == 0)) {
            out->is_wide = at[4] == '6';
            return 1;
        }
    }
    return 0;
}

static int is_op(const step *s, const char *const *list)
{
    for (; *list; list++) {
        if ((int)strlen(*list) == s->op_len && strncmp(s->op, *list, (size_t)s->op_len) == 0) {
            return 1;
        }
    }
    return 0;
}

/* %NAME_e = 1 + units * sin(2^23 %x), 1 where that is no number; %NAME: the result's. */
static void write_factor(gf_writer *w, const step *s)
{
    const char *dtype = s->is_wide ? "f64" : "f32";
    const char *const shifts[] = {"0x1p23", "0x1p52"};
    const char *const units[] = {"0x1p-21", "0x1p-50"};
    const int n = s->result_len;
    const char *y = s->result;
    gf_add(w, "      %.*s_a = constant {value = %s[] {%s}}\n", n, y, dtype, shifts[s->is_wide]);
    gf_add(w, "      %.*s_b = constant {value = %s[] {%s}}\n", n, y, dtype, units[s->is_wide]);
    gf_add(w, "      %.*s_c = constant {value = %s[] {1}}\n", n, y, dtype);
    gf_add(w, "      %.*s_d = mul(%.*s, %.*s_a)\n", n, y, s->operand_len, s->operand, n, y);
    gf_add(w, "      %.*s_f = sin(%.*s_d)\n      %.*s_g = mul(%.*s_f, %.*s_b)\n", n, y, n, y, n, y,
           n, y, n, y);
    gf_add(w, "      %.*s_h = add(%.*s_g, %.*s_c)\n      %.*s_i = is_finite(%.*s_d)\n", n, y, n, y,
           n, y, n, y, n, y);
    gf_add(w, "      %.*s_e = select(%.*s_i, %.*s_h, %.*s_c)\n", n, y, n, y, n, y, n, y);
}

static void write_step(gf_writer *w, const step *s)
{
    static const char *const functions[] = {"exp",  "exp2",  "expm1", "log",     "log2",    "log1p",
                                            "sqrt", "rsqrt", "sin",   "cos",     "tan",     "asin",
                                            "acos", "atan",  "sinh",  "cosh",    "tanh",    "asinh",
                                            "erf",  "acosh", "atanh", "sigmoid", "softmax", NULL};
    static const char *const sums[] = {"dot_general", "matmul", "reduce_sum", "cumsum", NULL};
    const int n = s->result_len;
    const char *y = s->result;
    if (is_op(s, functions)) {
        write_factor(w, s);
        gf_add(w, "      %.*s_ = %.*s\n", n, y, (int)(s->end - s->op), s->op);
        gf_add(w, "      %.*s = mul(%.*s_, %.*s_e)\n", n, y, n, y, n, y);
    } else if (is_op(s, sums)) {
        const char *rest = s->operand + s->operand_len;
        write_factor(w, s);
        gf_add(w, "      %.*s_ = mul(%.*s, %.*s_e)\n", n, y, s->operand_len, s->operand, n, y);
        gf_add(w, "      %.*s = %.*s(%.*s_%.*s\n", n, y, s->op_len, s->op, n, y,
               (int)(s->end - rest), rest);
    } else {
        gf_add(w, "%.*s\n", (int)(s->end - s->line), s->line);
    }
}

void gf_write_noisy_body(gf_writer *w, const char *body)
{
    while (*body) {
        const char *end = body + strcspn(body, "\n");
        step s;
        if (read_step(body, end, &s)) {
            write_step(w, &s);
        } else {
            gf_add(w, "%.*s\n", (int)(end - body), body);
        }
        body = end + (*end == '\n');
    }
}
