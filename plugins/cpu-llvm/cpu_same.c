/* Kernels in a canonical form of bytes: instructions, blocks, axes and buffers as they are, syms
 * written out with their symbols by kind and index, their terms in the order of their hashes.
 * Equal bytes mean equal code. The numbers of graph nodes count where code holds them: in CHECK
 * instructions, and between a product and its sum when they belong to one node. */
#include "cpu_same.h"

#include "core/base/map.h"
#include "core/base/seg.h"

#include <string.h>

#define TERMS_MAX (ST_SYM_TERMS_MAX + 1u)

typedef struct form {
    const st_kernel *kernel;
    st_str bytes;
} form;

static void put(form *f, uint64_t value)
{
    st_str_addn(&f->bytes, (const char *)&value, sizeof value);
}

/* ---- syms ---- */

static uint64_t mix(uint64_t a, uint64_t b)
{
    const uint64_t both[2] = {a, b};
    return st_hash64(both, sizeof both, 0);
}

static uint64_t sym_hash(const form *f, uint32_t sym);

static uint64_t symbol_key(const form *f, uint32_t index)
{
    const st_loop_symbol *symbol = &f->kernel->syms->symbols.data[index];
    return ((uint64_t)symbol->kind << 32) | symbol->id;
}

static uint64_t atom_hash(const form *f, uint32_t atom)
{
    const stator_atom_row *row = st_atom_at(&f->kernel->syms->tab, atom);
    if (row->kind == STATOR_ATOM_SYMBOL) {
        return mix(row->kind, symbol_key(f, row->index));
    }
    return mix(row->kind, mix(sym_hash(f, row->a), sym_hash(f, row->b)));
}

static uint64_t sym_hash(const form *f, uint32_t sym)
{
    const stator_sym_row *row = st_sym_row_at(&f->kernel->syms->tab, sym);
    uint64_t sum = mix((uint64_t)row->constant, row->term_count);
    for (uint32_t i = 0; i < row->term_count; i++) {
        const stator_term_row *term = st_sym_term(&f->kernel->syms->tab, row, i);
        sum += mix((uint64_t)term->coef, atom_hash(f, term->atom));
    }
    return sum;
}

static void put_sym(form *f, uint32_t sym);

static void put_atom(form *f, uint32_t atom)
{
    const stator_atom_row *row = st_atom_at(&f->kernel->syms->tab, atom);
    put(f, row->kind);
    if (row->kind == STATOR_ATOM_SYMBOL) {
        put(f, symbol_key(f, row->index));
        put(f, (uint64_t)row->lo);
        put(f, (uint64_t)row->hi);
        put(f, (uint64_t)row->divisor);
        return;
    }
    put_sym(f, row->a);
    put_sym(f, row->b);
}

static void put_sym(form *f, uint32_t sym)
{
    uint64_t hashes[TERMS_MAX];
    uint32_t order[TERMS_MAX];
    const stator_sym_row *row = st_sym_row_at(&f->kernel->syms->tab, sym);
    put(f, (uint64_t)row->constant);
    put(f, row->term_count);
    for (uint32_t i = 0; i < row->term_count && i < TERMS_MAX; i++) {
        const stator_term_row *term = st_sym_term(&f->kernel->syms->tab, row, i);
        const uint64_t hash = mix((uint64_t)term->coef, atom_hash(f, term->atom));
        uint32_t at = i;
        for (; at > 0 && hashes[at - 1u] > hash; at--) {
            hashes[at] = hashes[at - 1u];
            order[at] = order[at - 1u];
        }
        hashes[at] = hash;
        order[at] = i;
    }
    for (uint32_t i = 0; i < row->term_count && i < TERMS_MAX; i++) {
        const stator_term_row *term = st_sym_term(&f->kernel->syms->tab, row, order[i]);
        put(f, (uint64_t)term->coef);
        put_atom(f, term->atom);
    }
}

/* ---- kernels ---- */

static void put_inst(form *f, const st_loop_inst *inst)
{
    const st_loop_inst *value = &f->kernel->insts.data[inst->args[0]];
    uint64_t origin = inst->code == ST_LOOP_CHECK ? inst->origin : 0;
    if (inst->code == ST_LOOP_UPDATE) {
        origin = value->origin != 0 && value->origin == inst->origin;
    }
    put(f, ((uint64_t)inst->code << 32) | inst->dtype);
    put(f, ((uint64_t)inst->args[0] << 32) | inst->args[1]);
    put(f, ((uint64_t)inst->args[2] << 32) | inst->ref);
    put(f, ((uint64_t)inst->body << 32) | inst->block);
    put(f, ((uint64_t)inst->next << 32) | origin);
    put(f, (uint64_t)inst->imm.i);
    if (inst->sym) {
        put_sym(f, inst->sym);
    }
}

static void put_kernel(form *f)
{
    const st_kernel *k = f->kernel;
    put(f, ((uint64_t)k->insts.count << 32) | k->blocks.count);
    put(f, ((uint64_t)k->axes.count << 32) | k->buffers.count);
    for (uint32_t i = 1; i < k->insts.count; i++) {
        put_inst(f, &k->insts.data[i]);
    }
    for (uint32_t i = 0; i < k->blocks.count; i++) {
        put(f, ((uint64_t)k->blocks.data[i].first << 32) | k->blocks.data[i].loop);
    }
    for (uint32_t i = 0; i < k->axes.count; i++) {
        const st_loop_axis *axis = &k->axes.data[i];
        put(f, ((uint64_t)axis->flags << 32) | axis->block);
        put(f, ((uint64_t)axis->lanes << 32) | axis->unroll);
        put_sym(f, axis->extent);
    }
    for (uint32_t i = 0; i < k->buffers.count; i++) {
        const st_loop_buffer *buffer = &k->buffers.data[i];
        put(f, ((uint64_t)buffer->dtype << 32) | buffer->flags);
        put(f, buffer->align);
        put_sym(f, buffer->numel);
    }
}

typedef struct sought {
    const form *forms;
    uint32_t k;
} sought;

static bool same_form(void *self, uint32_t id)
{
    const sought *s = self;
    const st_str *a = &s->forms[id - 1u].bytes;
    const st_str *b = &s->forms[s->k].bytes;
    return a->len == b->len && memcmp(a->data, b->data, a->len) == 0;
}

stator_status cpu_same_kernels(st_mem *mem, const st_kernel *const *kernels, uint32_t n,
                               uint32_t *first)
{
    st_hashset set;
    bool is_ok = true;
    form *forms = st_calloc(mem, (uint64_t)n + 1u, sizeof *forms);
    st_hashset_init(&set, mem);
    for (uint32_t k = 0; forms != NULL && is_ok && k < n; k++) {
        forms[k].kernel = kernels[k];
        st_str_init(&forms[k].bytes, mem);
        put_kernel(&forms[k]);
        sought s = {forms, k};
        is_ok = st_str_ok(&forms[k].bytes);
        const uint64_t hash = is_ok ? st_hash64(forms[k].bytes.data, forms[k].bytes.len, 0) : 0;
        const uint32_t id = is_ok ? st_hashset_find(&set, hash, same_form, &s) : 0;
        first[k] = id ? id - 1u : k;
        is_ok = is_ok && (id || st_hashset_add(&set, hash, k + 1u));
    }
    for (uint32_t k = 0; forms != NULL && k < n; k++) {
        st_str_deinit(&forms[k].bytes);
    }
    st_hashset_deinit(&set);
    st_free(mem, forms);
    return forms != NULL && is_ok ? STATOR_OK : STATOR_RESOURCE_EXHAUSTED;
}
