/* Functions of stator_function that the rest of the host calls. */
#ifndef STATOR_HOST_FUNCTION_H
#define STATOR_HOST_FUNCTION_H

#include "core/compile/compile.h"
#include "core/host/model.h"

/* Compiles for these inputs when nothing compiled yet fits. */
stator_status st_function_prepare(stator_function *function, uint32_t n_in, const DLTensor *in,
                                  st_compiled **out_compiled, stator_diag **err);
/* The request a compile of this function makes for one import. */
void st_function_request(stator_function *function, const st_specialisation *spec,
                         st_compile_request *out_request);
stator_model *st_function_model(stator_function *function);
stator_ctx *st_function_ctx(const stator_function *function);
/* Compiled entry i, newest first; NULL behind the last. */
const st_compiled *st_function_entry(const stator_function *function, uint32_t i);
/* The step that runs part `index` of stator/inspect.h; OUT_OF_RANGE (inspect_memory.c). */
stator_status st_part_step(stator_function *function, uint32_t index, const st_step **out_step);
/* Looks these inputs up in the cache without compiling. Appends the entry's name to *text, or why
 * there is none. */
stator_status st_function_cache_why(stator_function *f, uint32_t n_in, const DLTensor *in,
                                    bool *out_hit, st_str *text, stator_diag **err);
/* The fuel of the last compile; from this call on compiles record what they apply. */
st_fuel *st_function_fuel(stator_function *function);
/* Compiles from here on tell fn what they apply. */
void st_function_watch(stator_function *function, stator_x_fuel_fn fn, void *self);

#endif
