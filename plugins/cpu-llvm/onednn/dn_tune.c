/* Candidates timed on memory of their sizes.
 *
 * Candidates that come to the same descriptors are one; where one is left nothing is measured. They
 * race (dn_race.h). Times on one thread are that thread's own on a processor, of which other work
 * takes nothing. What was found is kept for others of the same numbers; whether Winograd's
 * algorithm won also for the same sizes with another epilogue, which changes little on either
 * side. */
#include "plugins/cpu-llvm/onednn/dn_library.h"
#include "plugins/cpu-llvm/onednn/dn_race.h"

#include "core/base/threads/threads.h"

#include <string.h>
#include <time.h>

#define TRIALS_MAX (DN_CANDIDATES_MAX + 2u)
#define MACS_MAX                                                                                   \
    ((int64_t)1 << 28) /* multiply-adds of a run: larger problems are measured in part */
#define ROWS_MIN 64
#define PIXELS_MIN 512 /* transforming weights takes as long as about 50 direct pixels do */
#define SUMMED_MIN 256 /* products of a sum: fewer leave the loops of a kernel too short */
#define TIMES_ALL 4u   /* runs with DNNL_TUNE_ALL: so many times as many */
#define FILL_BYTE 0x3c /* a small normal number in every dtype */
#define PROBES 8u      /* places at which a choice is looked for */

/* One candidate. */
typedef struct trial {
    dn_candidate how;
    dn_plan *plan;
    dn_slot *slot;
} trial;

/* Memory in the place of the caller's, and of the packed weights; of the largest need so far. */
typedef struct bench {
    void *at[DN_ROLES];
    size_t bytes[DN_ROLES];
} bench;

typedef struct tuning {
    dn_op *op;
    const dn_sizes *sizes;
    uint32_t times;
    uint32_t n;
    bool is_large; /* a part of the contraction is measured, or more than is worth it */
    bench memory;
    trial all[TRIALS_MAX];
    dn_racer racers[TRIALS_MAX]; /* of each candidate */
} tuning;

/* ---- memory ---- */

static void bench_deinit(dn_op *op, bench *b)
{
    for (uint32_t role = 0; role < DN_ROLES; role++) {
        dn_free_large(op->lib->mem, b->at[role], b->bytes[role]);
    }
}

/* At least so many bytes for a role, written to: fresh pages would be one and the same page. */
static bool bench_fit(dn_op *op, bench *b, uint32_t role, size_t bytes)
{
    if (b->bytes[role] >= bytes) {
        return true;
    }
    dn_free_large(op->lib->mem, b->at[role], b->bytes[role]);
    b->bytes[role] = 0;
    b->at[role] = st_alloc(op->lib->mem, bytes, 64);
    if (b->at[role] == NULL) {
        return false;
    }
    dn_advise_huge(b->at[role], bytes);
    memset(b->at[role], FILL_BYTE, bytes);
    b->bytes[role] = bytes;
    return true;
}

/* Packed weights lie in the place of DN_Y2. */
static bool bench_init(dn_op *op, const dn_plan *plan, bench *b)
{
    for (uint32_t role = 0; role < DN_ROLES; role++) {
        const bool is_callers = role <= DN_OUT || role >= DN_POST;
        const bool is_packed = role == DN_Y2 && plan->is_packed;
        if (((is_callers && plan->desc.used & 1u << role) || is_packed) &&
            !bench_fit(op, b, role, dnnl_memory_desc_get_size(&plan->desc.md[role]))) {
            return false;
        }
    }
    return true;
}

/* ---- candidates ---- */

static bool is_same(const dn_desc *a, const dn_desc *b)
{
    for (uint32_t role = DN_X2; role <= DN_OUT2; role++) {
        if (!dnnl_memory_desc_equal(&a->md[role], &b->md[role])) {
            return false;
        }
    }
    return a->sum == b->sum && strcmp(a->name, b->name) == 0;
}

/* Adds it unless it cannot be done or is there already. */
static void add(tuning *t, const dn_candidate *how)
{
    dn_desc desc;
    if (t->n == TRIALS_MAX || dn_describe_any(t->op, t->sizes, how, &desc) == DN_NO) {
        return;
    }
    if (desc.class_ == DN_GEMM && t->n && (t->all[0].how.is_tiles || t->all[0].how.is_planes)) {
        dn_desc_deinit(&desc); /* kernels of our own are always faster */
        return;
    }
    trial *at = &t->all[t->n];
    *at = (trial){.how = *how};
    for (uint32_t i = 0; i < t->n; i++) {
        if (is_same(&t->all[i].plan->desc, &desc)) {
            dn_desc_deinit(&desc);
            return;
        }
    }
    const stator_status status = desc.primitive
                                     ? dn_plan_make(t->op, t->sizes, &desc, &at->plan, NULL)
                                     : dn_plan_own(t->op, t->sizes, &desc, &at->plan, NULL);
    t->n += status == STATOR_OK;
}

/* Is what was guessed one way of several? What moves no images, and is not "gemm", mostly wins. A
 * part of the rows says nothing about weights that are packed once for all of them, and all rows
 * take longer to measure than they gain. */
static bool has_rivals(const tuning *t, const dn_candidate *guessed)
{
    const dn_op *op = t->op;
    const uint32_t is_image_moved =
        op->contraction.is_weight_grad ? guessed->move_y : guessed->move_out;
    return (op->lib->flags & DNNL_TUNE_ALL) || guessed->is_tiles || guessed->is_planes ||
           guessed->is_gradient || guessed->move_x || is_image_moved || guessed->is_sum ||
           (op->contraction.kind == ST_CONTRACTION_CONV && t->n &&
            t->all[0].plan->desc.class_ == DN_GEMM) ||
           (guessed->move_y && !op->has_constant && !t->is_large &&
            op->contraction.kind == ST_CONTRACTION_GEMM);
}

static void collect(tuning *t, const dn_candidate *guessed, bool with_winograd)
{
    dn_candidate all[DN_CANDIDATES_MAX];
    const dn_op *op = t->op;
    const dn_candidate winograd = dn_winograd_of(op);
    const dn_candidate tiles = {.is_tiles = 1};
    const dn_candidate planes = {.is_planes = 1};
    const dn_candidate gradient = {.is_gradient = 1};
    const dn_candidate product = {.is_product = 1};
    add(t, guessed);
    const bool is_open = has_rivals(t, guessed);
    if (is_open || !dn_tiles_are_second(op->lib, &op->contraction)) {
        add(t, &tiles);
        add(t, &product);
    }
    add(t, &planes);
    add(t, &gradient);
    if (with_winograd || op->contraction.is_weight_grad) {
        add(t, &winograd);
    }
    if (is_open) {
        const uint32_t n = dn_candidates(op, t->sizes, all);
        for (uint32_t i = 0; i < n; i++) {
            add(t, &all[i]);
        }
    }
}

/* ---- measuring ---- */

static bool make_ready(tuning *t, trial *c)
{
    bench *b = &t->memory;
    if (!bench_init(t->op, c->plan, b)) {
        return false;
    }
    if (c->plan->is_packed && dn_plan_bind(t->op, c->plan, b->at[DN_Y2], NULL) != STATOR_OK) {
        return false;
    }
    if (c->slot == NULL && c->plan->kind == DN_PLAN_PRIMITIVE) {
        c->slot = dn_slot_make(t->op, c->plan);
    }
    return c->slot != NULL || c->plan->kind != DN_PLAN_PRIMITIVE;
}

static stator_status call(tuning *t, trial *c)
{
    stator_ctx *ctx = t->op->lib->host ? t->op->lib->host->ctx : NULL;
    void *const *at = t->memory.at;
    switch (c->plan->kind) {
    case DN_PLAN_TILES:
        return dn_tiles_run(t->op, c->plan, t->sizes, at, ctx, NULL);
    case DN_PLAN_PLANES:
        return dn_planes_run(t->op, t->sizes, at, ctx, NULL);
    case DN_PLAN_PRODUCT:
        return dn_product_run(t->op, t->sizes, at, ctx, NULL);
    case DN_PLAN_GRADIENT:
        return dn_gradient_run(t->op, c->plan, t->sizes, at, ctx, NULL);
    default:
        return dn_slot_run(t->op, c->plan, c->slot, at, NULL);
    }
}

static uint64_t clock_ns(const tuning *t)
{
    struct timespec at;
    if (t->sizes->threads > 1 || clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at) != 0) {
        return st_now_ns();
    }
    return (uint64_t)at.tv_sec * UINT64_C(1000000000) + (uint64_t)at.tv_nsec;
}

/* One run of a candidate, for dn_race. */
static uint64_t time_trial(void *user, uint32_t i)
{
    tuning *t = user;
    trial *c = &t->all[i];
    if (!make_ready(t, c)) {
        return UINT64_MAX;
    }
    const uint64_t begin = clock_ns(t);
    const stator_status status = call(t, c);
    return status == STATOR_OK ? clock_ns(t) - begin : UINT64_MAX;
}

/* The fastest of those that work; among convolutions kernels of our own where they are as fast but
 * for the noise. NULL: none works. */
static const trial *winner_of(const tuning *t)
{
    const uint32_t best = dn_race_best(t->racers, t->n);
    const trial *own = &t->all[0];
    const uint64_t own_ns = t->racers[0].ns;
    const bool is_preferred =
        (own->how.is_tiles || own->how.is_planes) && t->op->contraction.kind == ST_CONTRACTION_CONV;
    if (t->racers[best].ns == UINT64_MAX) {
        return NULL;
    }
    return is_preferred && own_ns - own_ns / 16u <= t->racers[best].ns ? own : &t->all[best];
}

static void tuning_deinit(tuning *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        trial *c = &t->all[i];
        if (c->slot) {
            c->slot->next = NULL;
            c->plan->slots = c->slot; /* goes with the plan */
        }
        dn_plan_destroy(t->op, c->plan);
    }
    bench_deinit(t->op, &t->memory);
}

static int64_t macs_of(const dn_op *op, const dn_sizes *s)
{
    int64_t elements = 0, macs = 0;
    dn_work(&op->contraction, s, &elements, &macs);
    return macs;
}

static bool is_large(const dn_op *op, int64_t macs)
{
    return macs > MACS_MAX && !(op->lib->flags & DNNL_TUNE_ALL);
}

static bool can_be(const dn_op *op, const dn_sizes *s, const dn_candidate *how)
{
    dn_desc desc;
    const bool is_possible = dn_describe_any(op, s, how, &desc) != DN_NO;
    dn_desc_deinit(&desc);
    return is_possible;
}

/* Images of a part, at least: enough that what each call does to weights for Winograd's algorithm
 * counts as little as in the whole. */
static int64_t images_min(const dn_op *op, const dn_sizes *s)
{
    const dn_candidate winograd = dn_winograd_of(op);
    if (op->contraction.is_weight_grad
            ? !can_be(op, s, &winograd)
            : op->has_constant || !dn_tiles_has_winograd(op) || !dn_may_be_winograd(op, s)) {
        return 1;
    }
    const int64_t pixels = s->out_size[0] * s->out_size[1];
    const int64_t images = (PIXELS_MIN + pixels - 1) / pixels;
    return images < s->images ? images : s->images;
}

/* The sizes of a part of a large contraction that is enough to tell which way is the fastest: some
 * images, some rows, or some of the products of each sum where these lie outermost in both operands
 * (a gradient to weights), as less of a row would be another order of axes to oneDNN. */
static dn_sizes part_of(const dn_op *op, const dn_sizes *s)
{
    dn_sizes part = *s;
    const int64_t macs = macs_of(op, s);
    if (!is_large(op, macs)) {
        return part;
    }
    const int64_t times = macs / MACS_MAX + 1;
    if (op->contraction.kind == ST_CONTRACTION_CONV) {
        const int64_t least = images_min(op, s);
        part.images = (s->images + times - 1) / times;
        part.images = part.images < least ? least : part.images;
    } else if (s->x.stride[0] == 1 && s->y.stride[1] == 1 && s->k > SUMMED_MIN) {
        part.k = s->k / times > SUMMED_MIN ? s->k / times : SUMMED_MIN;
    } else if (s->m / times >= ROWS_MIN) {
        part.m = s->m / times;
    }
    return part;
}

/* ---- what was measured before ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 32;
}

static uint64_t zero_word(const st_contraction_zero *zero)
{
    return (uint64_t)dn_has_zero(zero) | (uint64_t)(zero->is_each != 0) << 1;
}

/* A hash of the numbers, and with `with_epilogue` of the epilogue's rows. */
static uint64_t key_of(const dn_op *op, const dn_sizes *s, bool with_epilogue)
{
    const st_contraction *contraction = &op->contraction;
    const uint64_t words[] = {contraction->kind,
                              contraction->x.dtype,
                              contraction->y.dtype,
                              contraction->out.dtype,
                              contraction->acc_dtype,
                              (uint64_t)contraction->groups,
                              op->has_constant,
                              contraction->is_transposed,
                              contraction->is_weight_grad,
                              zero_word(&contraction->x_zero),
                              zero_word(&contraction->y_zero),
                              (uint64_t)with_epilogue};
    const void *parts[] = {s, words, contraction->stride, contraction->dilation};
    const size_t sizes[] = {sizeof *s, sizeof words, sizeof contraction->stride,
                            sizeof contraction->dilation};
    uint64_t hash = 1;
    for (uint32_t p = 0; p < 4; p++) {
        for (size_t i = 0; i < sizes[p]; i += sizeof(uint64_t)) {
            uint64_t word = 0;
            memcpy(&word, (const char *)parts[p] + i, sizeof word);
            hash = mix(hash, word);
        }
    }
    for (uint32_t i = 0; with_epilogue && i < contraction->n_epilogue; i++) {
        hash = mix(hash, contraction->epilogue[i].kind | contraction->epilogue[i].dtype << 8);
    }
    return hash ? hash : 1;
}
_Static_assert(sizeof(dn_sizes) % sizeof(uint64_t) == 0, "hashed by words");
_Static_assert(sizeof(((st_contraction *)0)->stride) % sizeof(uint64_t) == 0, "hashed by words");
_Static_assert(sizeof(((st_contraction *)0)->dilation) % sizeof(uint64_t) == 0, "hashed by words");

/* Where the key's choice is, or may be put; the first place gives way when all are taken. */
static dn_choice *place_of(dn_lib *lib, uint64_t key)
{
    for (uint32_t i = 0; i < PROBES; i++) {
        dn_choice *c = &lib->choices[(key + i) % DN_CHOICES];
        if (c->key == key || c->key == 0) {
            return c;
        }
    }
    return &lib->choices[key % DN_CHOICES];
}

static bool recall(dn_lib *lib, uint64_t key, dn_candidate *out)
{
    (void)pthread_mutex_lock(&lib->mutex);
    const dn_choice *c = place_of(lib, key);
    const bool is_found = c->key == key;
    if (is_found) {
        *out = c->how;
    }
    (void)pthread_mutex_unlock(&lib->mutex);
    return is_found;
}

static void remember(dn_lib *lib, uint64_t key, const dn_candidate *how)
{
    (void)pthread_mutex_lock(&lib->mutex);
    *place_of(lib, key) = (dn_choice){key, *how};
    (void)pthread_mutex_unlock(&lib->mutex);
}

/* ---- choosing ---- */

dn_candidate dn_tune(dn_op *op, const dn_sizes *sizes, const dn_candidate *guessed)
{
    const uint64_t key = key_of(op, sizes, true);
    const uint64_t family = key_of(op, sizes, false);
    const bool is_thorough = (op->lib->flags & DNNL_TUNE_ALL) != 0;
    const dn_candidate winograd = dn_winograd_of(op);
    dn_candidate best = *guessed;
    dn_candidate kin;
    if (recall(op->lib, key, &best)) {
        return best;
    }
    const bool may_win = dn_may_be_winograd(op, sizes);
    const bool has_kin = may_win && !is_thorough && recall(op->lib, family, &kin);
    if (has_kin && kin.is_winograd && can_be(op, sizes, &winograd)) {
        return winograd;
    }
    const dn_sizes part = part_of(op, sizes);
    tuning t = {.op = op, .sizes = &part, .times = is_thorough ? TIMES_ALL : 1u};
    t.is_large = is_large(op, macs_of(op, sizes));
    collect(&t, guessed, may_win && !has_kin);
    if (t.n > 1) {
        dn_race(t.racers, t.n, t.times, time_trial, &t);
        const trial *winner = winner_of(&t);
        best = winner ? winner->how : best;
    }
    tuning_deinit(&t);
    remember(op->lib, key, &best);
    if (may_win && !has_kin) {
        remember(op->lib, family, &best);
    }
    return best;
}
