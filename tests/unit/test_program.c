/* Programs built by hand over steps that say what shapes they like: sizes that results bind are
 * held against their symbols, and the errors name node and symbol. */
#include "core/runtime/program.h"

#include <criterion/criterion.h>
#include <string.h>

#define UNKNOWN INT64_MIN

/* A step that asks for its one output with this size, or trusts the host when it is -1; it writes
 * the symbol itself when `tells` is set. */
typedef struct fake {
    int64_t size;
    int64_t tells;
} fake;

static stator_status run_fake(void *self, void *exe, const stator_call *call, stator_diag **err)
{
    const fake *f = exe;
    (void)self;
    if (f->tells != UNKNOWN) {
        call->syms[0] = f->tells;
    }
    if (f->size >= 0 && (call->out[0].data == NULL || call->out[0].shape[0] != f->size)) {
        return call->alloc_output(call, 0, 1, &f->size, err);
    }
    return STATOR_OK;
}

typedef struct fixture {
    st_mem mem;
    st_pool pool;
    st_symtab tab;
    st_program p;
    st_symbol symbols[1];
    fake fakes[2];
} fixture;

/* Two steps in a chain whose results are i64[u] and i64[u + extra]. */
static void begin(fixture *f, int64_t lo, int64_t hi, int64_t divisor, int64_t extra)
{
    memset(f, 0, sizeof *f);
    st_mem_init(&f->mem, NULL, NULL, NULL, 0);
    st_pool_init(&f->pool, &f->mem);
    cr_assert(st_symtab_init(&f->tab, &f->mem));
    const uint32_t u = st_sym_symbol(&f->tab, 0, lo, hi, divisor, 1);
    const uint32_t sizes[2] = {u, st_sym_add(&f->tab, u, st_sym_int(&f->tab, extra))};
    f->symbols[0] = (st_symbol){.lo = lo, .hi = hi, .divisor = divisor, .name = "u"};
    st_program *p = &f->p;
    *p = (st_program){.mem = &f->mem, .pool = &f->pool, .n_syms = 1, .symbols = f->symbols};
    pthread_mutex_init(&p->lock, NULL);
    p->slots = st_calloc(&f->mem, 2, sizeof *p->slots);
    p->steps = st_calloc(&f->mem, 2, sizeof *p->steps);
    p->dims = st_calloc(&f->mem, 2, sizeof *p->dims);
    p->bound_symbol = st_calloc(&f->mem, 2, sizeof *p->bound_symbol);
    p->outputs = st_calloc(&f->mem, 1, sizeof *p->outputs);
    const st_sym_cols cols = st_sym_columns(&f->tab);
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t *ports = st_calloc(&f->mem, 2, sizeof *ports);
        cr_assert(st_symprog_init(&p->dims[i], &f->mem, &cols, sizes[i]));
        p->bound_symbol[i] = i == 0 || extra == 0 ? 0 : -1;
        p->slots[i] = (st_slot){.dtype = STATOR_I64,
                                .rank = 1,
                                .dim_begin = i,
                                .output = i == 1 ? 0 : -1,
                                .op = i == 0 ? "nonzero" : "unique",
                                .name = i == 0 ? "first" : "second"};
        ports[i] = i; /* the first step has an output alone, the second reads it */
        p->steps[i] = (st_step){.run = run_fake,
                                .exe = &f->fakes[i],
                                .n_in = i,
                                .n_out = 1,
                                .in = ports,
                                .out = ports + i};
    }
    p->outputs[0] = 1;
    p->n_slots = p->n_steps = p->n_dims = 2;
    p->n_outputs = 1;
    cr_assert(st_program_plan_memory(p));
    f->fakes[0].tells = f->fakes[1].tells = UNKNOWN;
}

static void end(fixture *f)
{
    st_program_deinit(&f->p);
    st_pool_deinit(&f->pool);
    st_symtab_deinit(&f->tab);
    cr_expect_eq(f->mem.live_blocks, 0);
}

/* Runs; the error must hold all words (NULL: it must go well). */
static void run(fixture *f, stator_status expected, const char *const words[4])
{
    stator_diag *diag = NULL;
    stator_tensor *out = NULL;
    st_call_state *state = st_program_acquire(&f->p);
    cr_assert(state);
    st_call_state_syms(state)[0] = UNKNOWN;
    const stator_status status = st_program_run(&f->p, state, NULL, &out, &diag);
    cr_expect_eq(status, expected, "status %d: %s", status, st_diag_text(diag));
    cr_expect_eq(status == STATOR_OK, out != NULL);
    for (uint32_t i = 0; words != NULL && i < 4 && words[i] != NULL; i++) {
        cr_expect(strstr(st_diag_text(diag), words[i]), "'%s' lacks '%s'", st_diag_text(diag),
                  words[i]);
    }
    st_diag_release(diag);
    stator_tensor_release(out);
    st_program_release(&f->p, state);
}

Test(program, consistent_run_time_sizes_are_accepted)
{
    fixture f;
    begin(&f, 0, 100, 2, 3);
    f.fakes[0].size = 8;
    f.fakes[1].size = -1; /* u + 3 is known by then */
    run(&f, STATOR_OK, NULL);
    f.fakes[1].size = 11;
    run(&f, STATOR_OK, NULL);
    f.fakes[0].tells = 8;
    run(&f, STATOR_OK, NULL);
    end(&f);
}

Test(program, run_time_size_outside_its_range_or_divisor_is_refused)
{
    fixture f;
    begin(&f, 0, 100, 2, 3);
    f.fakes[1].size = -1;
    f.fakes[0].size = 102;
    run(&f, STATOR_OUT_OF_RANGE,
        (const char *const[4]){"nonzero 'first'", "102", "symbol u", "0 to 100"});
    f.fakes[0].size = 7;
    run(&f, STATOR_OUT_OF_RANGE,
        (const char *const[4]){"nonzero 'first'", "7", "symbol u", "multiple of 2"});
    f.fakes[0].tells = 102; /* the executable may say what it likes */
    f.fakes[0].size = 102;
    run(&f, STATOR_OUT_OF_RANGE, (const char *const[4]){"symbol u"});
    end(&f);
    begin(&f, 5, INT64_MAX, 1, 3);
    f.fakes[0].size = 4;
    run(&f, STATOR_OUT_OF_RANGE, (const char *const[4]){"5 or more"});
    end(&f);
}

Test(program, a_symbol_bound_to_two_sizes_is_refused)
{
    fixture f;
    begin(&f, 0, 100, 1, 0);
    f.fakes[0].size = 8;
    f.fakes[1].size = 9;
    run(&f, STATOR_INVALID_ARGUMENT,
        (const char *const[4]){"unique 'second'", "is 9", "symbol u", "8 already"});
    f.fakes[0].tells = 7; /* and produces 8 */
    run(&f, STATOR_INVALID_ARGUMENT,
        (const char *const[4]){"nonzero 'first'", "is 8", "symbol u", "7 already"});
    end(&f);
}

Test(program, run_time_size_that_differs_from_its_expression_is_refused)
{
    fixture f;
    begin(&f, 0, 100, 1, 3);
    f.fakes[0].size = 8;
    f.fakes[1].size = 12;
    run(&f, STATOR_INVALID_ARGUMENT,
        (const char *const[4]){"unique 'second'", "is 12", "must be 11"});
    end(&f);
}
