/* The self test: texts from the rows, one program for each group of them, launched over the same
 * samples of operands, and what comes back held against the host row by row.
 *
 * Samples are edge values in all pairs, then numbers of a fixed sequence: any bits, and magnitudes
 * up to 1, 64 and 1024. */
#include "codegen/gpu/self_test/gpu_self_test.h"

#include "codegen/gpu/gpu_runtime.h"

#include <string.h>

enum {
    SAMPLES = 8192,
    WORDS = 3, /* operands of an expression */
    KINDS = GPU_SELF_TEST_OPERANDS,
    BLOCK_PLACES = GPU_SELF_TEST_BLOCK_COUNT * GPU_SELF_TEST_THREADS,
    ROOM_BYTES = GPU_SELF_TEST_THREADS * 4, /* of shared memory that a launch asks for */
    PROGRAMS = GPU_SELF_TEST_PROGRAMS
};

/* What a kernel is given. */
typedef struct arguments {
    uint64_t in[KINDS];
    uint64_t out;
} arguments;

typedef struct program {
    st_str text, image;
    stator_status status; /* of compiling */
    stator_diag *err;
    void *module;
    uint32_t n_rows;
    uint32_t n_places; /* results of each row */
} program;

typedef struct test {
    st_gpu *gpu;
    gpu_stream *stream;
    uint64_t *samples; /* of each kind of operands, one behind the other */
    program programs[PROGRAMS];
} test;

/* ---- samples ---- */

static const uint64_t edge_words[] = {0,
                                      1,
                                      2,
                                      3,
                                      7,
                                      63,
                                      64,
                                      0x7f,
                                      0x80,
                                      0xff,
                                      0x7fff,
                                      0x8000,
                                      0xffff,
                                      0x7fffffff,
                                      0x80000000,
                                      0xffffffff,
                                      0x100000000,
                                      0x7fffffffffffffff,
                                      0x8000000000000000,
                                      0xffffffffffffffff,
                                      0x5555555555555555,
                                      0x7c00,
                                      0x7e00,
                                      0x03ff,
                                      0x0400,
                                      0x7bff,
                                      0xfbff};

/* The last four lie in the middle between two numbers of f16, and of bf16. */
static const float edge_singles[] = {0.0f,
                                     1.0f,
                                     0.5f,
                                     1.5f,
                                     2.0f,
                                     2.5f,
                                     3.0f,
                                     0x1p-149f,
                                     0x1.fffffcp-127f,
                                     0x1p-126f,
                                     0x1.fffffep127f,
                                     0x1.fffffep-1f,
                                     0x1.000002p0f,
                                     0x1p23f,
                                     0x1.000002p23f,
                                     0x1p24f,
                                     65504.0f,
                                     65520.0f,
                                     0x1p-24f,
                                     0x1p-25f,
                                     0x1.8p-25f,
                                     0x1p-14f,
                                     88.7f,
                                     -103.9f,
                                     0x1.921fb6p0f,
                                     1e22f,
                                     0x1p-12f,
                                     0x1.002p0f,
                                     0x1.006p0f,
                                     0x1.01p0f,
                                     0x1.03p0f};

static const double edge_doubles[] = {0.0,
                                      1.0,
                                      0.5,
                                      1.5,
                                      2.0,
                                      2.5,
                                      3.0,
                                      0x1p-1074,
                                      0x1.ffffffffffffep-1023,
                                      0x1p-1022,
                                      0x1.fffffffffffffp1023,
                                      0x1.fffffffffffffp-1,
                                      0x1.0000000000001p0,
                                      0x1p52,
                                      0x1p53,
                                      0x1.0000000000001p52,
                                      0x1.fffffffffffffp51,
                                      709.78,
                                      -745.1,
                                      0x1.921fb54442d18p0,
                                      0x1.921fb54442d18p1,
                                      1e22,
                                      0x1p-27,
                                      0x1.fffffep127,
                                      0x1.ffffffp127,
                                      0x1p-149,
                                      0x1p-150,
                                      0x1.000001p0,
                                      0x1.000003p0};

#define COUNT(list) (sizeof(list) / sizeof(list)[0])

static uint64_t of_single(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static uint64_t of_real(double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* The number of edge values, and each of them; those of floats with either sign, and what no table
 * of numbers can hold. */
static uint32_t edge_count(uint32_t kind)
{
    return kind == GPU_SELF_TEST_WORDS     ? (uint32_t)COUNT(edge_words)
           : kind == GPU_SELF_TEST_SINGLES ? 2u * (uint32_t)COUNT(edge_singles) + 3u
                                           : 2u * (uint32_t)COUNT(edge_doubles) + 3u;
}

static uint64_t edge(uint32_t kind, uint32_t i)
{
    static const uint64_t others[2][3] = {
        {0x7f800000, 0xff800000, 0x7fc00000},
        {0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000}};
    if (kind == GPU_SELF_TEST_WORDS) {
        return edge_words[i];
    }
    if (i < 3u) {
        return others[kind == GPU_SELF_TEST_DOUBLES][i];
    }
    const uint32_t at = (i - 3u) / 2u;
    const bool is_negative = i % 2u != 0;
    return kind == GPU_SELF_TEST_SINGLES
               ? of_single(is_negative ? -edge_singles[at] : edge_singles[at])
               : of_real(is_negative ? -edge_doubles[at] : edge_doubles[at]);
}

/* Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014. */
static uint64_t next_bits(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static uint64_t other_sample(uint32_t kind, uint32_t i, uint64_t *state)
{
    const uint64_t bits = next_bits(state);
    const double x = (double)(int64_t)bits * (i % 4u == 1u   ? 0x1p-63
                                              : i % 4u == 2u ? 0x1p-57
                                                             : 0x1p-53);
    return i % 4u == 0 || kind == GPU_SELF_TEST_WORDS ? bits
           : kind == GPU_SELF_TEST_SINGLES            ? of_single((float)x)
                                                      : of_real(x);
}

/* All pairs of edge values, then others. */
static void fill_samples(uint32_t kind, uint64_t *out)
{
    const uint32_t n = edge_count(kind);
    uint64_t state = kind;
    for (uint32_t i = 0; i < SAMPLES; i++) {
        const uint32_t at[WORDS] = {i % n, i / n, (i * 7u + 3u) % n};
        for (uint32_t k = 0; k < WORDS; k++) {
            out[i * WORDS + k] = i < n * n ? edge(kind, at[k]) : other_sample(kind, i + k, &state);
        }
    }
}

/* ---- texts ---- */

static const char helpers[] =
    "ST_DEVICE float single(st_u64 word) { return st_f32_of_bits((st_u32)word); }\n"
    "ST_DEVICE double real(st_u64 word) { return st_f64_of_bits(word); }\n"
    "ST_DEVICE st_u64 of_single(float x) { return st_bits_of_f32(x); }\n"
    "ST_DEVICE st_u64 of_real(double x) { return st_bits_of_f64(x); }\n"
    "ST_DEVICE st_u64 st_self_test_inlined(st_u64 x, st_u64 y) { return 3u * x ^ y; }\n"
    "ST_DEVICE_CALL st_u64 st_self_test_called(st_u64 x, st_u64 y) { return 5u * x ^ y; }\n";

static void print_head(st_str *out)
{
    st_str_addf(out,
                "/* Names of the prelude, for the self test. */\n#include \"gpu_prelude.h\"\n\n"
                "typedef struct st_self_test_arguments {\n    st_u64 in[%d];\n    st_u64 out;\n"
                "} st_self_test_arguments;\n\n%s\n",
                (int)KINDS, helpers);
}

static void print_rows(uint32_t which, program *p)
{
    st_str *out = &p->text;
    uint32_t operands = KINDS;
    st_str_addf(out,
                "ST_KERNEL(st_self_test, st_self_test_arguments, %d)\n{\n"
                "    const st_i64 i = ST_BLOCK * %d + ST_THREAD;\n"
                "    st_u64 *out = ST_GLOBAL(st_u64, ST_ARG(out)) + i;\n"
                "    const st_u64 *in;\n    st_u64 a, b, c;\n",
                GPU_SELF_TEST_THREADS, GPU_SELF_TEST_THREADS);
    for (uint32_t r = 0; r < gpu_self_test_row_count; r++) {
        const gpu_self_test_row *row = &gpu_self_test_rows[r];
        if (row->program != which) {
            continue;
        }
        if (row->operands != operands) {
            operands = row->operands;
            st_str_addf(out,
                        "    in = ST_GLOBAL(const st_u64, ST_ARG(in[%u])) + %d * i;\n"
                        "    a = in[0];\n    b = in[1];\n    c = in[2];\n",
                        operands, (int)WORDS);
        }
        st_str_addf(out, "    out[%u] = %s;\n", p->n_rows * SAMPLES, row->text);
        p->n_rows++;
    }
    st_str_add(out, "    (void)a, (void)b, (void)c;\n}\n");
    p->n_places = SAMPLES;
}

static const char matrix_helpers[] =
    "ST_DEVICE float left(st_u32 row, st_u32 step, st_u32 w)\n"
    "{\n    return (float)((7u * row + 3u * step + w) % 13u) - 6.0f;\n}\n"
    "ST_DEVICE float right(st_u32 step, st_u32 column, st_u32 w)\n"
    "{\n    return (float)((5u * step + 11u * column + 2u * w) % 9u) - 4.0f;\n}\n"
    "ST_DEVICE st_u32 pair(st_u16 x, st_u16 y) { return x | (st_u32)y << 16; }\n"
    "ST_DEVICE st_u64 of_words(const st_u32 *m)\n"
    "{\n    return m[0] + 3u * (st_u64)m[1] + 5u * (st_u64)m[2] + 7u * (st_u64)m[3];\n}\n"
    "ST_DEVICE st_u64 of_sums(const float *c)\n"
    "{\n    return st_bits_of_f32(c[0]) + 3u * (st_u64)st_bits_of_f32(c[1]) + "
    "5u * (st_u64)st_bits_of_f32(c[2]) + 7u * (st_u64)st_bits_of_f32(c[3]);\n}\n\n";

static const char matrix_names[] =
    "    const st_u32 i = ST_LANE / 4u, j = ST_LANE % 4u * 2u, w = t / ST_WARP;\n"
    "    st_u32 m[4], n[2];\n    float c[4];\n";

static void print_blocks(uint32_t which, program *p)
{
    const bool has_matrices = which == GPU_SELF_TEST_MATRICES;
    st_str *out = &p->text;
    st_str_add(out, has_matrices ? matrix_helpers : "");
    st_str_addf(out,
                "ST_KERNEL_BLOCKS(st_self_test, st_self_test_arguments, %d, 2)\n{\n"
                "    ST_SHARED(st_u32, words, %d);\n    ST_SHARED(st_u64, longs, %d);\n"
                "    ST_SHARED(float, singles, %d);\n    ST_SHARED(double, reals, %d);\n"
                "    ST_DYNAMIC_SHARED(st_u32, room);\n"
                "    const st_u32 t = ST_THREAD;\n"
                "    const st_u32 *in = ST_GLOBAL(const st_u32, ST_ARG(in[0]));\n"
                "    st_u64 r, cell_address;\n    st_u64 *cell;\n    st_u32 k;\n"
                "    st_u32x2 two;\n    st_u32x4 four;\n%s",
                GPU_SELF_TEST_THREADS, GPU_SELF_TEST_THREADS, GPU_SELF_TEST_THREADS,
                GPU_SELF_TEST_THREADS, GPU_SELF_TEST_THREADS, has_matrices ? matrix_names : "");
    for (uint32_t r = 0; r < gpu_self_test_block_row_count; r++) {
        if (gpu_self_test_block_rows[r].program != which) {
            continue;
        }
        st_str_addf(
            out,
            "    r = 0;\n    cell_address = ST_ARG(out) + 8u * (st_u64)(%u + ST_BLOCK * %d + t);\n"
            "    cell = ST_GLOBAL(st_u64, cell_address);\n    %s\n    *cell = r;\n",
            p->n_rows++ * BLOCK_PLACES, GPU_SELF_TEST_THREADS, gpu_self_test_block_rows[r].text);
    }
    st_str_add(out,
               "    (void)words, (void)longs, (void)singles, (void)reals, (void)room, (void)k, "
               "(void)two, (void)four;\n}\n");
    p->n_places = BLOCK_PLACES;
}

static bool is_of_blocks(uint32_t which)
{
    return which == GPU_SELF_TEST_BLOCKS || which == GPU_SELF_TEST_MATRICES;
}

/* ---- compiling ---- */

/* A program for what the device does not have stays without rows. */
static void compile_range(void *self, int64_t begin, int64_t end)
{
    test *t = self;
    const st_gpu_driver *driver = t->gpu->driver;
    for (int64_t i = begin; i < end; i++) {
        program *p = &t->programs[i];
        if (i == GPU_SELF_TEST_MATRICES && !driver->device.has_matrices) {
            continue;
        }
        print_head(&p->text);
        if (is_of_blocks((uint32_t)i)) {
            print_blocks((uint32_t)i, p);
        } else {
            print_rows((uint32_t)i, p);
        }
        p->status = st_str_ok(&p->text)
                        ? driver->compile(driver->self, "st_self_test", p->text.data, p->text.len,
                                          &p->image, &p->err)
                        : st_fail_oom(&p->err);
        if (p->status == STATOR_OK && !st_str_ok(&p->image)) {
            p->status = st_fail_oom(&p->err);
        }
    }
}

static stator_status compile_all(test *t, stator_diag **err)
{
    const stator_host *host = t->gpu->config.host;
    host->thr->parallel_for(host->ctx, PROGRAMS, 1, compile_range, t);
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        program *p = &t->programs[i];
        if (p->status != STATOR_OK) {
            stator_diag *told = p->err;
            p->err = NULL;
            return st_diag_give(p->status, told, err);
        }
    }
    return STATOR_OK;
}

/* ---- the comparison ---- */

/* A float's bits are NaN. */
static bool is_nan(uint64_t bits, enum gpu_self_test_result result)
{
    static const uint64_t signs[] = {0, 0x8000, 0x8000, 0x80000000, 0x8000000000000000};
    static const uint64_t infinities[] = {0, 0x7c00, 0x7f80, 0x7f800000, 0x7ff0000000000000};
    return result != GPU_SELF_TEST_BITS && (bits & (signs[result] - 1u)) > infinities[result];
}

static bool is_right(const gpu_self_test_row *row, uint64_t got, uint64_t wanted)
{
    return got == wanted || (is_nan(got, row->result) && is_nan(wanted, row->result));
}

/* Fails with the first result of the row that is wrong. */
static stator_status check_row(const test *t, const gpu_self_test_row *row, const uint64_t *got,
                               stator_diag **err)
{
    const uint64_t *in = t->samples + (uint64_t)row->operands * SAMPLES * WORDS;
    for (uint32_t i = 0; i < SAMPLES; i++, in += WORDS) {
        const uint64_t wanted = row->host(in[0], in[1], in[2]);
        ST_FAIL_IF(!is_right(row, got[i], wanted), err, STATOR_UNAVAILABLE,
                   "%s is wrong: with a = 0x%llx, b = 0x%llx, c = 0x%llx, %s is 0x%llx, and on the "
                   "host 0x%llx",
                   row->name, (unsigned long long)in[0], (unsigned long long)in[1],
                   (unsigned long long)in[2], row->text, (unsigned long long)got[i],
                   (unsigned long long)wanted);
    }
    return STATOR_OK;
}

static stator_status check_block_row(const test *t, const gpu_self_test_block_row *row,
                                     const uint64_t *got, stator_diag **err)
{
    gpu_self_test_place p = {.warp = t->gpu->driver->device.warp_size,
                             .in = (const uint32_t *)(const void *)t->samples};
    for (uint32_t i = 0; i < BLOCK_PLACES; i++) {
        p.block = i / GPU_SELF_TEST_THREADS;
        p.thread = i % GPU_SELF_TEST_THREADS;
        const uint64_t wanted = row->host(&p);
        ST_FAIL_IF(got[i] != wanted, err, STATOR_UNAVAILABLE,
                   "%s is wrong: thread %u of block %u has 0x%llx, and on the host 0x%llx",
                   row->name, p.thread, p.block, (unsigned long long)got[i],
                   (unsigned long long)wanted);
    }
    return STATOR_OK;
}

static stator_status check_results(const test *t, uint32_t which, const uint64_t *got,
                                   stator_diag **err)
{
    uint32_t at = 0;
    for (uint32_t r = 0; r < gpu_self_test_row_count; r++) {
        if (gpu_self_test_rows[r].program == which) {
            ST_TRY(check_row(t, &gpu_self_test_rows[r], got + (uint64_t)at++ * SAMPLES, err));
        }
    }
    for (uint32_t r = 0; r < gpu_self_test_block_row_count; r++) {
        const gpu_self_test_block_row *row = &gpu_self_test_block_rows[r];
        if (row->program == which) {
            ST_TRY(check_block_row(t, row, got + (uint64_t)at++ * BLOCK_PLACES, err));
        }
    }
    return STATOR_OK;
}

/* ---- running ---- */

static stator_status launch(const test *t, uint32_t which, const arguments *with, stator_diag **err)
{
    const program *p = &t->programs[which];
    const st_gpu_driver *driver = t->gpu->driver;
    arguments copy = *with;
    st_gpu_launch what = {.blocks = {p->n_places / GPU_SELF_TEST_THREADS, 1, 1},
                          .threads = GPU_SELF_TEST_THREADS,
                          .dynamic_shared_bytes = is_of_blocks(which) ? ROOM_BYTES : 0,
                          .arguments = &copy,
                          .argument_bytes = sizeof copy};
    ST_TRY(driver->module_function(driver->self, p->module, "st_self_test", &what.function, err));
    return driver->launch(driver->self, &what, t->stream->driver_stream, err);
}

static stator_status run_program(test *t, uint32_t which, const arguments *with, stator_diag **err)
{
    st_gpu *gpu = t->gpu;
    const st_gpu_driver *driver = gpu->driver;
    program *p = &t->programs[which];
    const uint64_t bytes = (uint64_t)p->n_rows * p->n_places * sizeof(uint64_t);
    ST_TRY(driver->module_load(driver->self, p->image.data, p->image.len, &p->module, err));
    uint64_t *got = st_alloc(gpu->mem, bytes, 1);
    stator_status status = got != NULL ? launch(t, which, with, err) : st_fail_oom(err);
    ST_THEN(status, gpu_read_back(gpu, t->stream, got, (st_gpu_address)with->out, bytes, err));
    ST_THEN(status, check_results(t, which, got, err));
    st_free(gpu->mem, got);
    return status;
}

static uint64_t result_bytes(const test *t)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        const uint64_t n = (uint64_t)t->programs[i].n_rows * t->programs[i].n_places;
        most = n > most ? n : most;
    }
    return most * sizeof(uint64_t);
}

/* Operands go up once; each program runs and is judged before the next. */
static stator_status run_all(test *t, stator_diag **err)
{
    st_gpu *gpu = t->gpu;
    const uint64_t kind_bytes = (uint64_t)SAMPLES * WORDS * sizeof(uint64_t);
    st_gpu_address in = 0;
    st_gpu_address out = 0;
    ST_TRY(gpu_queue_on(gpu, NULL, &t->stream, err));
    ST_TRY(gpu_take(gpu, &gpu->device, t->stream, KINDS * kind_bytes, &in, err));
    stator_status status = gpu_take(gpu, &gpu->device, t->stream, result_bytes(t), &out, err);
    ST_THEN(status, gpu_upload(gpu, t->stream, in, t->samples, KINDS * kind_bytes, err));
    const arguments with = {.in = {in, in + kind_bytes, in + 2u * kind_bytes}, .out = out};
    for (uint32_t i = 0; i < PROGRAMS && status == STATOR_OK; i++) {
        status = t->programs[i].n_rows ? run_program(t, i, &with, err) : STATOR_OK;
    }
    gpu_note_queued(gpu, t->stream);
    gpu_give(gpu, &gpu->device, t->stream, out);
    gpu_give(gpu, &gpu->device, t->stream, in);
    return status;
}

static void end_test(test *t)
{
    const st_gpu_driver *driver = t->gpu->driver;
    gpu_wait_for_queued(t->gpu);
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        program *p = &t->programs[i];
        if (p->module != NULL) {
            driver->module_unload(driver->self, p->module);
        }
        st_str_deinit(&p->text);
        st_str_deinit(&p->image);
        st_diag_release(p->err);
    }
    st_free(t->gpu->mem, t->samples);
    st_free(t->gpu->mem, t);
}

stator_status st_gpu_self_test(st_gpu *gpu, stator_diag **err)
{
    stator_diag *own = NULL;
    test *t = st_calloc(gpu->mem, 1, sizeof *t);
    ST_TRY_MEM(t, err);
    t->gpu = gpu;
    for (uint32_t i = 0; i < PROGRAMS; i++) {
        st_str_init(&t->programs[i].text, gpu->mem);
        st_str_init(&t->programs[i].image, gpu->mem);
    }
    t->samples = st_alloc(gpu->mem, (uint64_t)KINDS * SAMPLES * WORDS * sizeof *t->samples, 1);
    stator_status status = t->samples != NULL ? STATOR_OK : st_fail_oom(&own);
    for (uint32_t kind = 0; kind < KINDS && status == STATOR_OK; kind++) {
        fill_samples(kind, t->samples + (uint64_t)kind * SAMPLES * WORDS);
    }
    ST_THEN(status, compile_all(t, &own));
    ST_THEN(status, run_all(t, &own));
    end_test(t);
    if (status != STATOR_OK) {
        st_diag_prefix(own, "self test of %s (%s)", gpu->driver->device.name,
                       gpu->driver->device.arch);
    }
    return st_diag_give(status, own, err);
}
