/* A symbol table with names, for the tests of the symbolic engine. */
#ifndef STATOR_TESTS_SUPPORT_SYM_H
#define STATOR_TESTS_SUPPORT_SYM_H

#include "core/base/sym/sym.h"

#define SYM_NAMES_MAX 64u

typedef struct sym_world {
    st_mem mem;
    st_symtab tab;
    char names[SYM_NAMES_MAX][64]; /* name id i is names[i]; 0 is none */
    uint32_t n_names;
} sym_world;

void sym_world_init(sym_world *w);
void sym_world_deinit(sym_world *w); /* fails the test when blocks are left */
uint32_t sym_world_intern(void *self, const char *s, uint64_t n);
const char *sym_world_name(void *self, uint32_t name);
/* The symbol of that name with range [lo, hi]. */
uint32_t sym_world_symbol(sym_world *w, const char *name, int64_t lo, int64_t hi, int64_t divisor);
/* The sym that the text states; symbols that the table does not know get range [0, INT64_MAX]. 0
 * on a syntax error or past a limit; *out_used, which may be NULL, is the number of bytes read. */
uint32_t sym_parse(st_symtab *tab, const char *text, uint64_t len,
                   uint32_t (*intern)(void *self, const char *s, uint64_t n), void *self,
                   uint64_t *out_used);
/* Parses; fails the test when the text is not taken whole. */
uint32_t sym_world_parse(sym_world *w, const char *text);
/* The printed form, valid until the next call. */
const char *sym_world_print(sym_world *w, uint32_t sym, char *buf, uint64_t size);

/* Random numbers of a printed seed: STATOR_TEST_SEED or a fixed one (splitmix64). */
uint64_t test_seed(uint64_t fallback);
uint64_t test_random(uint64_t *state);
int64_t test_random_in(uint64_t *state, int64_t lo, int64_t hi);

#endif
