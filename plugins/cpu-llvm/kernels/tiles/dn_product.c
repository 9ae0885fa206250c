/* Products of two matrices of f32 that both come with the call, in whatever order they lie.
 *
 * Columns of y are taken some panels at a time, as many as stay in the last cache, and copied into
 * panels by all threads. Threads then take blocks of rows of x, of which each is copied, some
 * places of the sum at a time, into panels that leave the second cache room for more; a tile of
 * sums is held in registers for those places, while a panel of y stays in the first cache. What the
 * places before have summed lies in scratch, so that the output, which may share its memory with an
 * operand of the epilogue, is written once. Each element is summed in one order, whatever the
 * number of threads.
 *
 * (K. Goto, R. van de Geijn, "Anatomy of high-performance matrix multiplication", 2008.) */
#include "plugins/cpu-llvm/kernels/tiles/dn_product.h"
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#include "core/base/diag.h"

#include <string.h>

#define BLOCK_PANELS 24                /* panels of x in a block */
#define CHUNK_BYTES ((int64_t)8 << 20) /* of the panels of y: a part of the last cache */
#define SUMS_BYTES ((int64_t)3 << 19)  /* of a block's sums in scratch */
#define PANEL_MAX ((int64_t)16 << 20)  /* bytes of a panel of y, at most */
#define PANELS_A_RANGE 4               /* worth a thread to copy */
#define LINE_FLOATS 16                 /* of a cache line */
/* With less of either the copies count, and others are as fast. */
#define ROWS_MIN 48
#define COLUMNS_MIN 32
#define DEPTH_MIN 32
#define EXTENT_MAX ((int64_t)1 << 24)

/* The numbers of a call. */
typedef struct product {
    const dn_op *op;
    dn_sizes s;
    void *const *at;
    const dn_product_isa *isa;
    const dn_tiles_isa *tiles;  /* whose `finish` makes output of sums */
    int64_t depths;             /* parts of the sum */
    int64_t row_panels, panels; /* of x, and of y */
    int64_t blocks, parts;      /* ranges of panels of x, and of a chunk's panels of y, in tasks */
    int64_t chunks;             /* ranges of panels that are in memory at a time */
    int64_t chunk_panels;       /* of a chunk, at most */
    int64_t x_floats;           /* of a block's panels of x */
    int64_t sums_floats;        /* of a task's sums */
    int64_t first, n;           /* panels of this chunk */
    float *y;                   /* its panels, [panel][k][columns] */
    _Atomic bool has_failed;
} product;

static const dn_product_isa *isa_of(const dn_lib *lib)
{
    return DN_ISA_OF(lib, dn_product);
}

static const dn_tiles_isa *tiles_of(const dn_lib *lib)
{
    return dn_vector_bytes(lib) == 64 ? dn_tiles_wide_512() : dn_tiles_256(STATOR_F32);
}

/* ---- sizes ---- */

/* The begin of part i of n, which are of about the same size. */
static int64_t begin_of(int64_t whole, int64_t i, int64_t n)
{
    return whole * i / n;
}

static void product_init(product *p, const dn_op *op, const dn_sizes *s)
{
    *p = (product){.op = op, .s = *s, .isa = isa_of(op->lib), .tiles = tiles_of(op->lib)};
    const dn_product_isa *isa = p->isa;
    const int64_t size = (int64_t)sizeof(float);
    const int64_t threads = s->threads;
    p->depths = dn_parts(s->k, isa->depth);
    p->row_panels = dn_parts(s->m, isa->rows);
    p->panels = dn_parts(s->n, isa->columns);
    p->blocks = dn_parts(dn_parts(p->row_panels, BLOCK_PANELS), threads) * threads;
    p->blocks = dn_least(p->blocks, p->row_panels);
    const int64_t block_panels = dn_parts(p->row_panels, p->blocks);
    const int64_t held = dn_least(CHUNK_BYTES / (s->k * isa->columns * size),
                                  SUMS_BYTES / (block_panels * isa->rows * isa->columns * size));
    p->chunks = dn_parts(p->panels, held < 1 ? 1 : held);
    p->chunk_panels = dn_parts(p->panels, p->chunks);
    p->parts = dn_least(dn_parts(threads, p->blocks), p->chunk_panels);
    p->x_floats = dn_parts(s->k, p->depths) * isa->rows * block_panels + isa->columns;
    p->sums_floats = block_panels * isa->rows * isa->columns *
                     (p->depths > 1 ? dn_parts(p->chunk_panels, p->parts) : 1);
}

static uint64_t task_bytes(const product *p)
{
    return (uint64_t)(p->x_floats + p->sums_floats) * sizeof(float);
}

static uint64_t panels_bytes(const product *p)
{
    return (uint64_t)(p->chunk_panels * p->s.k * p->isa->columns) * sizeof(float);
}

/* ---- panels ---- */

static void pack_y(void *self, int64_t begin, int64_t end)
{
    const product *p = self;
    const dn_sizes *s = &p->s;
    const int64_t columns = p->isa->columns;
    for (int64_t i = begin; i < end; i++) {
        const int64_t column = (p->first + i) * columns;
        const dn_product_pack pack = {.from = (const float *)p->at[DN_Y] + column * s->y.stride[1],
                                      .place_step = s->y.stride[0],
                                      .row_step = s->y.stride[1],
                                      .n = s->k,
                                      .count = dn_least(columns, s->n - column)};
        p->isa->pack_columns(&pack, p->y + i * s->k * columns);
    }
}

/* A task: panels of x and (of the chunk) of y, from the first to the end - 1. */
typedef struct task {
    const product *p;
    int64_t row_panel, row_panels_end;
    int64_t panel, panels_end;
    int64_t place, places; /* the part of the sum */
    float *x, *sums;
} task;

static void pack_x(const task *t)
{
    const product *p = t->p;
    const dn_sizes *s = &p->s;
    const int64_t rows = p->isa->rows;
    float *to = t->x;
    for (int64_t i = t->row_panel; i < t->row_panels_end; i++, to += rows * t->places) {
        const dn_product_pack pack = {.from = (const float *)p->at[DN_X] +
                                              i * rows * s->x.stride[0] + t->place * s->x.stride[1],
                                      .place_step = s->x.stride[1],
                                      .row_step = s->x.stride[0],
                                      .n = t->places,
                                      .count = dn_least(rows, s->m - i * rows)};
        p->isa->pack_rows(&pack, to);
    }
}

/* ---- sums ---- */

static void finish(const task *t, int64_t panel, const float *sums)
{
    const product *p = t->p;
    const int64_t row = t->row_panel * p->isa->rows;
    const int64_t rows = dn_least(t->row_panels_end * p->isa->rows, p->s.m) - row;
    const int64_t column = (p->first + panel) * p->isa->columns;
    const dn_finish f = {.contraction = &p->op->contraction,
                         .at = p->at,
                         .is_across = true,
                         .n = 2 * rows,
                         .sums = sums,
                         .feature = column,
                         .out = row * p->s.out.stride[0] + column,
                         .step = p->s.out.stride[0],
                         .mask = {dn_tiles_mask(p->tiles, p->s.n - column),
                                  dn_tiles_mask(p->tiles, p->s.n - column - p->tiles->lanes)}};
    p->tiles->finish(&f);
}

/* All rows of the task by one panel, of which the first tiles ask for the next one. */
static void run_panel(const task *t, int64_t panel, float *sums)
{
    const dn_product_isa *isa = t->p->isa;
    const int64_t panel_floats = t->p->s.k * isa->columns;
    const int64_t asked = t->places / DN_PRODUCT_ASK * LINE_FLOATS; /* by a tile */
    const int64_t asking =
        panel + 1 < t->panels_end ? DN_PRODUCT_ASK * isa->columns / LINE_FLOATS : 0;
    const float *y = t->p->y + panel * panel_floats + t->place * isa->columns;
    for (int64_t i = 0; i < t->row_panels_end - t->row_panel; i++) {
        const dn_product_tile tile = {.x = t->x + i * isa->rows * t->places,
                                      .y = y,
                                      .n = t->places,
                                      .sums = sums + i * isa->rows * isa->columns,
                                      .is_first = t->place == 0,
                                      .ask = i < asking ? y + panel_floats + i * asked : y};
        isa->run(&tile);
    }
}

static void run_task(task *t)
{
    const product *p = t->p;
    const int64_t panel_sums = (t->row_panels_end - t->row_panel) * p->isa->rows * p->isa->columns;
    for (int64_t d = 0; d < p->depths; d++) {
        t->place = begin_of(p->s.k, d, p->depths);
        t->places = begin_of(p->s.k, d + 1, p->depths) - t->place;
        pack_x(t);
        float *sums = t->sums;
        for (int64_t i = t->panel; i < t->panels_end; i++) {
            run_panel(t, i, sums);
            if (d + 1 == p->depths) {
                finish(t, i, sums);
            }
            sums += p->depths > 1 ? panel_sums : 0;
        }
    }
}

static void run_tasks(void *self, int64_t begin, int64_t end)
{
    product *p = self;
    dn_scratch *scratch = dn_scratch_take(p->op->lib, task_bytes(p));
    if (scratch == NULL) {
        p->has_failed = true;
        return;
    }
    task t = {.p = p, .sums = dn_scratch_data(scratch)};
    t.x = t.sums + p->sums_floats;
    for (int64_t i = begin; i < end; i++) {
        const int64_t block = i / p->parts;
        const int64_t part = i % p->parts;
        t.row_panel = begin_of(p->row_panels, block, p->blocks);
        t.row_panels_end = begin_of(p->row_panels, block + 1, p->blocks);
        t.panel = begin_of(p->n, part, p->parts);
        t.panels_end = begin_of(p->n, part + 1, p->parts);
        run_task(&t);
    }
    dn_scratch_give(p->op->lib, scratch);
}

/* ---- a call ---- */

stator_status dn_product_run(const dn_op *op, const dn_sizes *sizes, void *const at[DN_ROLES],
                             stator_ctx *ctx, stator_diag **err)
{
    product p;
    dn_lib *lib = op->lib;
    dn_sizes simple = *sizes;
    dn_simplify(&op->contraction, &simple);
    product_init(&p, op, &simple);
    p.at = at;
    const int64_t tasks = p.blocks * p.parts;
    const stator_host *host = simple.threads > 1 ? lib->host : NULL;
    dn_scratch *panels = dn_scratch_take(lib, panels_bytes(&p));
    ST_TRY_MEM(panels, err);
    p.y = dn_scratch_data(panels);
    dn_scratch_reserve(lib, task_bytes(&p), dn_least(tasks, simple.threads));
    for (int64_t i = 0; i < p.chunks && !p.has_failed; i++) {
        p.first = begin_of(p.panels, i, p.chunks);
        p.n = begin_of(p.panels, i + 1, p.chunks) - p.first;
        dn_parallel(host, ctx, p.n, PANELS_A_RANGE, pack_y, &p);
        dn_parallel(host, ctx, tasks, 1, run_tasks, &p);
    }
    dn_scratch_give(lib, panels);
    return p.has_failed ? st_fail_oom(err) : STATOR_OK;
}

uint64_t dn_product_scratch(const dn_op *op, const dn_sizes *s)
{
    product p;
    product_init(&p, op, s);
    return panels_bytes(&p) + task_bytes(&p) * (uint64_t)dn_least(p.blocks * p.parts, s->threads);
}

/* ---- which ---- */

/* `finish` of 64-byte vectors has no gelu. */
static bool has_epilogue(const dn_lib *lib, const st_contraction *contraction)
{
    return dn_tiles_has_epilogue(contraction) &&
           (dn_vector_bytes(lib) != 64 || !(dn_epilogue_kinds(contraction) & DN_KIND(GELU_ERF)));
}

static bool is_dense(const dn_operand *o)
{
    return o->stride[0] == 1 || o->stride[1] == 1;
}

static bool is_taken(const dn_op *op, const dn_sizes *s, const dn_product_isa *isa)
{
    const st_contraction *contraction = &op->contraction;
    return contraction->kind == ST_CONTRACTION_GEMM && contraction->x.dtype == STATOR_F32 &&
           contraction->y.dtype == STATOR_F32 && contraction->out.dtype == STATOR_F32 &&
           !op->has_constant && !contraction->weights.is_scaled && !s->is_bare &&
           has_epilogue(op->lib, contraction) && s->n_batch == 0 && s->m >= ROWS_MIN &&
           s->n >= COLUMNS_MIN && s->k >= DEPTH_MIN && s->m < EXTENT_MAX && s->n < EXTENT_MAX &&
           s->k < EXTENT_MAX && s->k * isa->columns * (int64_t)sizeof(float) <= PANEL_MAX &&
           is_dense(&s->x) && is_dense(&s->y) && s->out.stride[1] == 1;
}

bool dn_product_describe(const dn_op *op, const dn_sizes *s, dn_desc *out)
{
    const dn_product_isa *isa = isa_of(op->lib);
    memset(out, 0, sizeof *out);
    if (isa == NULL || !is_taken(op, s, isa)) {
        return false;
    }
    out->name = "product";
    out->class_ = DN_GOOD;
    out->how.is_product = 1;
    return dn_note_operands(op, s, s->n, out);
}
