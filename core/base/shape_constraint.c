/* Tests of shape constraints; see shape_constraint.h. In: numbers. Out: a status and a text with
 * op, node and numbers; or the test as C. */
#include "core/base/shape_constraint.h"

#include "core/base/check.h"

uint32_t st_shape_constraint_sizes(uint32_t kind)
{
    return kind == ST_SHAPE_CONSTRAINT_INSIDE ? 3u : 2u;
}

/* The first and the last index lie in the axis, unless nothing is taken. */
static bool is_inside(const int64_t size[3], int64_t step)
{
    int64_t last = 0;
    if (size[1] <= 0) {
        return size[1] == 0;
    }
    return st_mul_i64(size[1] - 1, step, &last) && st_add_i64(size[0], last, &last) &&
           size[0] >= 0 && size[0] < size[2] && last >= 0 && last < size[2];
}

static bool holds(uint32_t kind, const int64_t size[3], int64_t step)
{
    switch (kind) {
    case ST_SHAPE_CONSTRAINT_EQUAL:
        return size[0] == size[1];
    case ST_SHAPE_CONSTRAINT_FITS:
        return size[0] == size[1] || size[0] == 1;
    case ST_SHAPE_CONSTRAINT_BROADCAST:
        return size[0] == size[1] || size[0] == 1 || size[1] == 1;
    case ST_SHAPE_CONSTRAINT_MULTIPLE:
        return size[1] > 0 && size[0] % size[1] == 0;
    case ST_SHAPE_CONSTRAINT_AT_MOST:
    case ST_SHAPE_CONSTRAINT_FILLED:
        return size[0] <= size[1];
    default:
        return is_inside(size, step);
    }
}

stator_status st_shape_constraint_check(uint32_t kind, const int64_t size[3], int64_t step,
                                        const char *text, stator_diag **err)
{
    const long long a = size[0], b = size[1], c = size[2];
    if (holds(kind, size, step)) {
        return STATOR_OK;
    }
    switch (kind) {
    case ST_SHAPE_CONSTRAINT_EQUAL:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s: sizes %lld and %lld differ", text, a, b);
    case ST_SHAPE_CONSTRAINT_FITS:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s is %lld, it must be 1 or %lld", text, a,
                       b);
    case ST_SHAPE_CONSTRAINT_BROADCAST:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s: sizes %lld and %lld do not broadcast",
                       text, a, b);
    case ST_SHAPE_CONSTRAINT_MULTIPLE:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s: %lld is no multiple of %lld", text, a, b);
    case ST_SHAPE_CONSTRAINT_AT_MOST:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s: a size of %lld, it must be at most %lld",
                       text, a, b);
    case ST_SHAPE_CONSTRAINT_FILLED:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s", text);
    default:
        return st_fail(err, STATOR_OUT_OF_RANGE,
                       "%s: %lld elements from %lld by %lld leave its size %lld", text, b, a,
                       (long long)step, c);
    }
}

/* ---- as C ---- */

/* holds(), for who has no Stator. */
static const char test[] =
    "__attribute__((unused)) static int holds(int kind, const int64_t *n, int64_t step)\n"
    "{\n"
    "    int64_t last = 0;\n"
    "    switch (kind) {\n"
    "    case EQUAL:\n"
    "        return n[0] == n[1];\n"
    "    case FITS:\n"
    "        return n[0] == n[1] || n[0] == 1;\n"
    "    case BROADCAST:\n"
    "        return n[0] == n[1] || n[0] == 1 || n[1] == 1;\n"
    "    case MULTIPLE:\n"
    "        return n[1] > 0 && n[0] % n[1] == 0;\n"
    "    case AT_MOST:\n"
    "    case FILLED:\n"
    "        return n[0] <= n[1];\n"
    "    default:\n"
    "        return n[1] == 0 ||\n"
    "               (n[1] > 0 && !__builtin_mul_overflow(n[1] - 1, step, &last) &&\n"
    "                !__builtin_add_overflow(n[0], last, &last) && n[0] >= 0 && n[0] < n[2] &&\n"
    "                last >= 0 && last < n[2]);\n"
    "    }\n"
    "}\n"
    "\n";

void st_shape_constraint_put_c(st_str *out)
{
    st_str_addf(out,
                "enum { EQUAL = %d, FITS = %d, BROADCAST = %d, MULTIPLE = %d, AT_MOST = %d, "
                "FILLED = %d, INSIDE = %d };\n\n",
                ST_SHAPE_CONSTRAINT_EQUAL, ST_SHAPE_CONSTRAINT_FITS, ST_SHAPE_CONSTRAINT_BROADCAST,
                ST_SHAPE_CONSTRAINT_MULTIPLE, ST_SHAPE_CONSTRAINT_AT_MOST,
                ST_SHAPE_CONSTRAINT_FILLED, ST_SHAPE_CONSTRAINT_INSIDE);
    st_str_add(out, test);
}
