/* Tests of sizes; see need.h. In: numbers. Out: a status and a text with op, node and numbers. */
#include "core/base/need.h"

#include "core/base/check.h"

uint32_t st_need_sizes(uint32_t kind)
{
    return kind == ST_NEED_INSIDE ? 3u : 2u;
}

/* The first and the last index lie in the axis, unless nothing is taken. */
static int is_inside(const int64_t size[3], int64_t step)
{
    int64_t last = 0;
    if (size[1] <= 0) {
        return size[1] == 0;
    }
    return st_mul_i64(size[1] - 1, step, &last) && st_add_i64(size[0], last, &last) &&
           size[0] >= 0 && size[0] < size[2] && last >= 0 && last < size[2];
}

static int holds(uint32_t kind, const int64_t size[3], int64_t step)
{
    switch (kind) {
    case ST_NEED_EQUAL:
        return size[0] == size[1];
    case ST_NEED_FITS:
        return size[0] == size[1] || size[0] == 1;
    case ST_NEED_BROADCAST:
        return size[0] == size[1] || size[0] == 1 || size[1] == 1;
    case ST_NEED_MULTIPLE:
        return size[1] > 0 && size[0] % size[1] == 0;
    case ST_NEED_AT_MOST:
    case ST_NEED_FILLED:
        return size[0] <= size[1];
    default:
        return is_inside(size, step);
    }
}

stator_status st_need_check(uint32_t kind, const int64_t size[3], int64_t step, const char *text,
                            stator_diag **err)
{
    const long long a = size[0], b = size[1], c = size[2];
    if (holds(kind, size, step)) {
        return STATOR_OK;
    }
    switch (kind) {
    case ST_NEED_EQUAL:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s: sizes %lld and %lld differ", text, a, b);
    case ST_NEED_FITS:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s is %lld, it must be 1 or %lld", text, a,
                       b);
    case ST_NEED_BROADCAST:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s: sizes %lld and %lld do not broadcast",
                       text, a, b);
    case ST_NEED_MULTIPLE:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s: %lld is no multiple of %lld", text, a, b);
    case ST_NEED_AT_MOST:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s: a size of %lld, it must be at most %lld",
                       text, a, b);
    case ST_NEED_FILLED:
        return st_fail(err, STATOR_INVALID_ARGUMENT, "%s", text);
    default:
        return st_fail(err, STATOR_OUT_OF_RANGE,
                       "%s: %lld elements from %lld by %lld leave its size %lld", text, b, a,
                       (long long)step, c);
    }
}
