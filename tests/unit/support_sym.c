/* See support_sym.h. A failed check ends the process, which both Criterion and its stand-in for the
 * tsan build count as a failure. */
#include "support_sym.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int ok, const char *what)
{
    if (!ok) {
        fprintf(stderr, "%s\n", what);
        abort();
    }
}

void sym_world_init(sym_world *w)
{
    memset(w, 0, sizeof *w);
    st_mem_init(&w->mem, NULL, NULL, NULL, 0);
    check(st_symtab_init(&w->tab, &w->mem), "no memory for a symbol table");
    w->n_names = 1;
}

void sym_world_deinit(sym_world *w)
{
    st_symtab_deinit(&w->tab);
    check(w->mem.live_blocks == 0 && w->mem.live_bytes == 0, "blocks are left");
}

uint32_t sym_world_intern(void *self, const char *s, uint64_t n)
{
    sym_world *w = self;
    for (uint32_t i = 1; i < w->n_names; i++) {
        if (strlen(w->names[i]) == n && memcmp(w->names[i], s, n) == 0) {
            return i;
        }
    }
    if (w->n_names == SYM_NAMES_MAX || n >= sizeof w->names[0]) {
        return 0;
    }
    memcpy(w->names[w->n_names], s, n);
    w->names[w->n_names][n] = '\0';
    return w->n_names++;
}

const char *sym_world_name(void *self, uint32_t name)
{
    return ((sym_world *)self)->names[name];
}

uint32_t sym_world_symbol(sym_world *w, const char *name, int64_t lo, int64_t hi, int64_t divisor)
{
    const uint32_t id = sym_world_intern(w, name, strlen(name));
    const uint32_t sym = st_sym_symbol(&w->tab, id, lo, hi, divisor, 0);
    check(sym != 0, name);
    return sym;
}

uint32_t sym_world_parse(sym_world *w, const char *text)
{
    uint64_t used = 0;
    const uint32_t sym = sym_parse(&w->tab, text, strlen(text), sym_world_intern, w, &used);
    check(sym != 0 && used == strlen(text), text);
    return sym;
}

const char *sym_world_print(sym_world *w, uint32_t sym, char *buf, uint64_t size)
{
    st_str s;
    st_str_init(&s, &w->mem);
    st_sym_print(&w->tab, sym, sym_world_name, w, &s);
    snprintf(buf, size, "%s", s.data != NULL ? s.data : "");
    st_str_deinit(&s);
    return buf;
}

uint64_t test_seed(uint64_t fallback)
{
    const char *text = getenv("STATOR_TEST_SEED");
    const uint64_t seed = text != NULL ? strtoull(text, NULL, 0) : fallback;
    printf("repeat with STATOR_TEST_SEED=%" PRIu64 "\n", seed);
    return seed;
}

uint64_t test_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

int64_t test_random_in(uint64_t *state, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(test_random(state) % (uint64_t)(hi - lo + 1));
}
