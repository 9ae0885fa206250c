/* Running .stir texts on a backend of the build, for tests of backends. */
#ifndef STATOR_TEST_SUPPORT_RUN_H
#define STATOR_TEST_SUPPORT_RUN_H

#include <stator/stator.h>

/* A context that finds the plugins of this build and nothing else. */
stator_ctx *run_context(void);
/* A graph whose outputs come in pairs, got and wanted: runs it on `backend` and compares dtype,
 * shape and every element (|a-b| <= atol + rtol*|b|, NaN equals NaN). The tolerance is read from a
 * line
 * "// rtol R atol A", else it is 0; both grow by `slack` places of the float dtype (a decomposition
 * rounds after each op); where all are 0 the sign of zero counts. Inputs of the graph come from a
 * second graph after a line "// inputs" whose outputs are each input before the call and after it,
 * in turn; the latter are compared too. Returns the number of elements that differ and
 * prints the first ones; -1 when the text did not run (the error is printed). */
int64_t run_pairs(stator_ctx *ctx, const char *backend, double slack, const char *text,
                  uint64_t len, const char *name);
/* Loads and compiles; NULL with the error printed. */
stator_function *run_compile(stator_ctx *ctx, const char *backend, const char *text,
                             const char *name);
/* An f32 tensor whose element i is i + 1 (released by the caller); a test that gets none stops
 * there.
 */
stator_tensor *run_counting(stator_ctx *ctx, uint32_t rank, const int64_t *shape);
/* A tensor with these contents (released by the caller). */
stator_tensor *run_tensor(stator_ctx *ctx, stator_dtype dtype, uint32_t rank, const int64_t *shape,
                          const void *data);

#endif
