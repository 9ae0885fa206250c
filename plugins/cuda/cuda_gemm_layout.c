/* How the operands of a product lie, in cuBLASLt's terms.
 *
 * In: extents m, n, k and strides. Of the result the contiguous axis becomes the rows: n as a rule,
 * and then a is y and b is x; m where the result is stored by columns. Out: for each matrix its
 * rows, columns and leading dimension, and whether it is read transposed. An axis of one element
 * may have any stride. */
#include "cuda_gemm.h"

#include <string.h>

void gemm_read_sizes(const gemm_operands *operands, const int64_t *numbers, gemm_sizes *out)
{
    gemm_side *const sides[3] = {&out->x, &out->y, &out->out};
    const size_t batch_bytes = operands->n_batch * sizeof *numbers;
    memset(out, 0, sizeof *out);
    memcpy(out->batch, numbers, batch_bytes);
    numbers += operands->n_batch;
    out->m = *numbers++;
    out->n = *numbers++;
    out->k = *numbers++;
    for (uint32_t i = 0; i < 3; i++) {
        sides[i]->offset = *numbers++;
        memcpy(sides[i]->batch, numbers, batch_bytes);
        numbers += operands->n_batch;
        sides[i]->stride[0] = *numbers++;
        sides[i]->stride[1] = *numbers++;
    }
}

/* ---- of values, or of all values of syms ---- */

static bool is_one(const st_symtab *tab, int64_t size)
{
    return tab ? st_loop_known_or(tab, (uint32_t)size, 0) == 1 : size == 1;
}

static bool is_at_least(const st_symtab *tab, int64_t size, int64_t least)
{
    if (tab == NULL || size == least) {
        return size >= least;
    }
    int64_t size_low = 0;
    int64_t least_high = 0;
    int64_t unused = 0;
    st_sym_range(tab, (uint32_t)size, &size_low, &unused);
    st_sym_range(tab, (uint32_t)least, &unused, &least_high);
    return size_low >= least_high;
}

/* An axis of a matrix: elements, and the step from one to the next. */
typedef struct axis {
    int64_t size, stride;
} axis;

/* Columns of contiguous rows. Where there is one column, the leading dimension is nobody's. */
static bool set_matrix(const st_symtab *tab, axis rows, axis columns, gemm_matrix *out)
{
    const bool is_column = is_one(tab, columns.size);
    if (!is_one(tab, rows.stride) && !is_one(tab, rows.size)) {
        return false;
    }
    if (!is_column && !is_at_least(tab, columns.stride, rows.size)) {
        return false;
    }
    *out = (gemm_matrix){.rows = rows.size,
                         .columns = columns.size,
                         .leading = is_column ? rows.size : columns.stride};
    return true;
}

static bool set_operand(const st_symtab *tab, axis rows, axis columns, gemm_matrix *out)
{
    if (set_matrix(tab, rows, columns, out)) {
        return true;
    }
    const bool is_matrix = set_matrix(tab, columns, rows, out);
    out->is_transposed = is_matrix;
    return is_matrix;
}

/* d[inner, outer] = sum over k of p[inner, k] * q[k, outer] */
static bool describe(const st_symtab *tab, axis inner, axis outer, const axis p[2], const axis q[2],
                     gemm_key *out)
{
    memset(out, 0, sizeof *out);
    out->count = 1;
    return set_matrix(tab, inner, outer, &out->d) && set_operand(tab, p[0], p[1], &out->a) &&
           set_operand(tab, q[0], q[1], &out->b);
}

bool gemm_describe(const gemm_operands *operands, const gemm_sizes *s, const st_symtab *tab,
                   gemm_key *out, bool *out_swapped)
{
    const axis m = {s->m, s->out.stride[0]};
    const axis n = {s->n, s->out.stride[1]};
    const axis x[2] = {{s->m, s->x.stride[0]}, {s->k, s->x.stride[1]}};
    const axis y[2] = {{s->k, s->y.stride[0]}, {s->n, s->y.stride[1]}};
    const axis x_turned[2] = {x[1], x[0]};
    const axis y_turned[2] = {y[1], y[0]};
    *out_swapped = describe(tab, n, m, y_turned, x_turned, out);
    return *out_swapped || (operands->bias == UINT32_MAX && describe(tab, m, n, x, y, out));
}
