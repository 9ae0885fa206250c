/* Rows to threads (order.h): a row is one thread's, several for a thread; a long row where there
 * are few is cut into chunks.
 *
 *     groups of rows    each group has room of its own and goes through its rows; rows whose
 *                       elements are far apart, but neighbours of each other's, are copied row by
 *                       row first
 *     chunks of a row   candidates of each chunk | those of all chunks, selected again */
#include "core/base/order/order.h"

#include "core/base/order/order_keys.h"

#include "core/base/check.h"

#include <stator/base.h>
#include <string.h>

#define SMALL 24      /* words that insertion sort is quick for */
#define RADIX_MIN 512 /* words whose counting pays */
#define ROOM(take) (2 * (take) + 2 * ORDER_MASK)
#define FEW_TAKE_MAX 64           /* results that are found one after the other, */
#define FEW_WORK_MAX (512 * 1024) /* each in a walk over the lowest keys of columns */
#define FEW_KEYS(n) ((n) + ORDER_MASK + ((n) / ORDER_PANEL + 1) * ORDER_MASK)
#define TASK_MIN 16384           /* elements that are worth a thread: some microseconds */
#define TASKS_EACH 4             /* for a thread, so that a slow one holds nobody up */
#define TILE_ROWS 16             /* copied together: a cache line of f32 */
#define TILE_BYTES (1024 * 1024) /* stay in a second-level cache */

enum order_method { ORDER_FEW, ORDER_CANDIDATES, ORDER_WHOLE };

typedef struct order_sizes {
    int64_t rows, size, take;
} order_sizes;

/* Method and buffer sizes, derived from the sizes of the axes and the number of threads. */
typedef struct order_plan {
    order_sizes sizes;
    uint32_t method;
    uint32_t bytes;      /* size of an element */
    uint32_t word_bytes; /* 8: keys of 32 bits; 16: of 64 */
    int64_t groups;      /* groups of rows */
    int64_t chunks;      /* chunks a row; above 1 there is one group */
    int64_t tile;        /* rows that are copied together, 1: none are */
    uint64_t room_bytes; /* room of a group, or of a chunk */
} order_plan;

/* The place of a row's results. */
typedef struct order_target {
    char *values;
    int64_t *indices;
    int64_t values_step, indices_step, bytes;
} order_target;

#define KEY int32_t
#define UKEY uint32_t
#define KEY_MAX INT32_MAX
#define WORD uint64_t
#define HAS_RANKS
#define NAME(x) x##_32
#include "core/base/order/order_row.inc"

__extension__ typedef unsigned __int128 order_wide;

#define KEY int64_t
#define UKEY uint64_t
#define KEY_MAX INT64_MAX
#define WORD order_wide
#define NAME(x) x##_64
#include "core/base/order/order_row.inc"

/* ---- the plan ---- */

/* Elements from one row of a tile to the next: a cache line more than a row, or lines of all rows
 * would share few sets of the cache. */
static int64_t tile_pitch(const order_plan *plan)
{
    return plan->sizes.size + 64 / (int64_t)plan->bytes;
}

static int64_t tile_of(const st_order_job *job, uint32_t bytes)
{
    const st_order_axis *inner = job->n_axes ? &job->axes[job->n_axes - 1u] : NULL;
    if (job->x_step == 1 || job->x_step == 0 || inner == NULL || inner->x != 1) {
        return 1;
    }
    return st_max_i64(
        1, st_min_i64(st_min_i64(TILE_ROWS, inner->size), TILE_BYTES / (job->size * bytes)));
}

static uint32_t method_of(const st_order_job *job)
{
    if (job->take <= FEW_TAKE_MAX && job->take * 4 <= job->size &&
        job->size <= FEW_WORK_MAX / st_max_i64(1, job->take)) {
        return ORDER_FEW;
    }
    return job->take > job->size / 3 ? ORDER_WHOLE : ORDER_CANDIDATES;
}

/* Adds n * each bytes, up to whole cache lines. 0: too many. */
static bool add_room(uint64_t *bytes, int64_t n, uint64_t each)
{
    uint64_t more = 0;
    return st_mul_u64((uint64_t)n, each, &more) && st_add_u64(*bytes, more, bytes) &&
           st_add_u64(*bytes, 63u, bytes) && (*bytes &= ~UINT64_C(63), 1);
}

/* Room of a group or of a chunk: words, then keys of the method FEW, then the tile. 0: more than
 * can be. */
static bool room_bytes(const st_order_job *job, order_plan *plan)
{
    const bool is_whole = plan->method == ORDER_WHOLE;
    uint64_t bytes = 0;
    bool is_well =
        job->size <= INT64_MAX / 4 &&
        add_room(&bytes, is_whole ? 2 * job->size + ORDER_MASK : ROOM(job->take), plan->word_bytes);
    if (plan->method == ORDER_FEW) {
        is_well = is_well && add_room(&bytes, FEW_KEYS(job->size), plan->word_bytes / 2u);
    }
    if (plan->tile > 1) {
        is_well = is_well && add_room(&bytes, plan->tile * tile_pitch(plan), plan->bytes);
    }
    plan->room_bytes = bytes;
    return is_well;
}

/* 0: sizes that no memory has. */
static bool make_plan(const st_order_job *job, int32_t threads, order_plan *plan)
{
    int64_t rows = 1;
    for (uint32_t a = 0; a < job->n_axes; a++) {
        if (__builtin_mul_overflow(rows, job->axes[a].size, &rows)) {
            return false;
        }
    }
    *plan = (order_plan){.sizes = {rows, job->size, job->take},
                         .method = method_of(job),
                         .bytes = st_element_bytes(job->dtype),
                         .chunks = 1};
    plan->word_bytes = plan->bytes < 8u && job->size <= (int64_t)UINT32_MAX ? 8u : 16u;
    if (rows == 0 || job->take == 0) {
        return true;
    }
    plan->tile = tile_of(job, plan->bytes);
    const int64_t tasks_max = threads > 1 ? (int64_t)threads * TASKS_EACH : 1;
    const int64_t worth =
        st_max_i64(1, job->size > INT64_MAX / rows ? tasks_max : job->size * rows / TASK_MIN);
    plan->groups = st_min_i64(st_min_i64(rows, tasks_max), worth);
    if (plan->method == ORDER_CANDIDATES && rows * 2 <= threads) {
        plan->chunks = st_max_i64(1, st_min_i64(st_min_i64(job->size / TASK_MIN, tasks_max),
                                                job->size / (8 * job->take)));
    }
    plan->groups = plan->chunks > 1 ? 1 : plan->groups;
    return room_bytes(job, plan);
}

uint64_t st_order_scratch(const st_order_job *job, int32_t threads)
{
    order_plan plan;
    uint64_t bytes = 0;
    if (!make_plan(job, threads, &plan)) {
        return UINT64_MAX;
    }
    if (!add_room(&bytes, plan.chunks > 1 ? plan.chunks : plan.groups, plan.room_bytes) ||
        (plan.chunks > 1 && !add_room(&bytes, plan.chunks * ROOM(job->take), plan.word_bytes))) {
        return UINT64_MAX;
    }
    return bytes;
}

/* ---- rows ---- */

typedef struct order_run {
    const st_order_job *job;
    const order_plan *plan;
    char *scratch;
    const order_line *line; /* the row that has chunks */
} order_run;

/* A row's place along the axes and its offsets, elements. */
typedef struct order_cursor {
    int64_t index[ST_ORDER_AXES_MAX];
    int64_t x, values, indices;
} order_cursor;

static void move(const st_order_job *job, order_cursor *at, uint32_t axis, int64_t steps)
{
    at->index[axis] += steps;
    at->x += steps * job->axes[axis].x;
    at->values += steps * job->axes[axis].values;
    at->indices += steps * job->axes[axis].indices;
}

static order_cursor cursor_at(const st_order_job *job, int64_t row)
{
    order_cursor at = {.x = 0};
    for (uint32_t a = job->n_axes; a-- > 0;) {
        move(job, &at, a, row % job->axes[a].size);
        row /= job->axes[a].size;
    }
    return at;
}

/* The next row; behind the last one it is the first again. */
static void advance(const st_order_job *job, order_cursor *at)
{
    for (uint32_t a = job->n_axes; a-- > 0;) {
        move(job, at, a, 1);
        if (at->index[a] < job->axes[a].size) {
            return;
        }
        move(job, at, a, -at->index[a]);
    }
}

static order_line line_at(const order_run *run, const order_cursor *at)
{
    const st_order_job *job = run->job;
    return (order_line){.data = (const char *)job->x + at->x * (int64_t)run->plan->bytes,
                        .step = job->x_step,
                        .dtype = job->dtype,
                        .is_falling = job->is_falling};
}

static order_target target_at(const order_run *run, const order_cursor *at)
{
    const st_order_job *job = run->job;
    const int64_t bytes = run->plan->bytes;
    return (order_target){.values = job->values ? (char *)job->values + at->values * bytes : NULL,
                          .indices = job->indices ? job->indices + at->indices : NULL,
                          .values_step = job->values_step,
                          .indices_step = job->indices_step,
                          .bytes = bytes};
}

static void run_row(const order_run *run, const order_cursor *at, const order_line *line,
                    void *room)
{
    const order_target to = target_at(run, at);
    const order_plan *plan = run->plan;
    if (plan->word_bytes == 8) {
        emit_32(&to, line, row_32(plan, line, room), plan->sizes.take);
    } else {
        emit_64(&to, line, row_64(plan, line, room), plan->sizes.take);
    }
}

/* Copies rows that are neighbours, element by element of all, to one behind the other. */
static void copy_rows(const order_run *run, const order_line *line, int64_t rows, char *to)
{
    const int64_t bytes = run->plan->bytes;
    const int64_t pitch = tile_pitch(run->plan);
    for (int64_t i = 0; i < run->job->size; i++) {
        const char *from = line->data + i * line->step * bytes;
        for (int64_t r = 0; r < rows; r++) {
            char *at = to + (r * pitch + i) * bytes;
            if (bytes == 4) {
                memcpy(at, from + r * 4, 4);
            } else {
                memcpy(at, from + r * bytes, (size_t)bytes);
            }
        }
    }
}

/* Rows from the cursor on, as many as lie beside each other; returns how many. */
static int64_t run_some(const order_run *run, order_cursor *at, int64_t n, char *room)
{
    const st_order_job *job = run->job;
    const order_plan *plan = run->plan;
    order_line line = line_at(run, at);
    if (plan->tile == 1) {
        run_row(run, at, &line, room);
        advance(job, at);
        return 1;
    }
    const uint32_t inner = job->n_axes - 1u;
    const int64_t rows =
        st_min_i64(st_min_i64(plan->tile, n), job->axes[inner].size - at->index[inner]);
    const int64_t bytes = tile_pitch(plan) * (int64_t)plan->bytes;
    char *tile = room + plan->room_bytes - ((uint64_t)(plan->tile * bytes) + 63u) / 64u * 64u;
    copy_rows(run, &line, rows, tile);
    line.step = 1;
    for (int64_t r = 0; r < rows; r++) {
        line.data = tile + r * bytes;
        run_row(run, at, &line, room);
        advance(job, at);
    }
    return rows;
}

static void run_groups(void *self, int64_t begin, int64_t end)
{
    const order_run *run = self;
    const order_plan *plan = run->plan;
    for (int64_t group = begin; group < end; group++) {
        const int64_t each = plan->sizes.rows / plan->groups;
        const int64_t left = plan->sizes.rows % plan->groups;
        int64_t row = group * each + st_min_i64(group, left);
        const int64_t stop = row + each + (group < left);
        order_cursor at = cursor_at(run->job, row);
        while (row < stop) {
            row +=
                run_some(run, &at, stop - row, run->scratch + (uint64_t)group * plan->room_bytes);
        }
    }
}

/* ---- chunks of a row ---- */

static int64_t chunk_begin(const order_plan *plan, int64_t chunk)
{
    const int64_t each = plan->sizes.size / plan->chunks;
    return chunk * each + st_min_i64(chunk, plan->sizes.size % plan->chunks);
}

/* Candidates of each chunk, `take` words each: a chunk has more elements than that. */
static void run_chunks(void *self, int64_t begin, int64_t end)
{
    const order_run *run = self;
    const order_plan *plan = run->plan;
    const int64_t take = plan->sizes.take;
    for (int64_t c = begin; c < end; c++) {
        char *room = run->scratch + (uint64_t)c * plan->room_bytes;
        const int64_t from = chunk_begin(plan, c);
        const int64_t to = chunk_begin(plan, c + 1);
        if (plan->word_bytes == 8) {
            (void)candidates_32(run->line, from, to, take, (uint64_t *)(void *)room);
        } else {
            (void)candidates_64(run->line, from, to, take, (order_wide *)(void *)room);
        }
    }
}

static void run_long_row(const order_run *run, const order_cursor *at,
                         const st_order_threads *threads)
{
    const order_plan *plan = run->plan;
    const int64_t take = plan->sizes.take;
    const uint64_t bytes = (uint64_t)take * plan->word_bytes;
    const order_line line = line_at(run, at);
    order_run chunks = *run;
    char *all = run->scratch + (uint64_t)plan->chunks * plan->room_bytes;
    const order_target to = target_at(run, at);
    chunks.line = &line;
    threads->parallel_for(threads->self, plan->chunks, 1, run_chunks, &chunks);
    for (int64_t c = 0; c < plan->chunks; c++) {
        memcpy(all + (uint64_t)c * bytes, run->scratch + (uint64_t)c * plan->room_bytes, bytes);
    }
    if (plan->word_bytes == 8) {
        uint64_t *words = (uint64_t *)(void *)all;
        finish_32(words, words + take, plan->chunks * take, take);
        emit_32(&to, &line, words, take);
    } else {
        order_wide *words = (order_wide *)(void *)all;
        finish_64(words, words + take, plan->chunks * take, take);
        emit_64(&to, &line, words, take);
    }
}

void st_order_run(const st_order_job *job, const st_order_threads *threads, void *scratch)
{
    order_plan plan;
    order_run run = {.job = job, .plan = &plan, .scratch = scratch};
    if (!make_plan(job, threads->count, &plan) || plan.sizes.rows == 0 || job->take == 0) {
        return;
    }
    if (plan.chunks > 1) {
        order_cursor at = cursor_at(job, 0);
        for (int64_t row = 0; row < plan.sizes.rows; row++) {
            run_long_row(&run, &at, threads);
            advance(job, &at);
        }
    } else if (plan.groups > 1) {
        threads->parallel_for(threads->self, plan.groups, 1, run_groups, &run);
    } else {
        run_groups(&run, 0, 1);
    }
}
