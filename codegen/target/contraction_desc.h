/* The room of the target: what a backend plugs into codegen. emitter.h: the machine and what turns
 * kernels into something that runs; library.h: contractions that it does better than loops. Here:
 * a contraction in words, and its buffers. */
#ifndef STATOR_CODEGEN_CONTRACTION_DESC_H
#define STATOR_CODEGEN_CONTRACTION_DESC_H

#include "codegen/target/library.h"

/* Index of the program's buffer among the kernel's; UINT32_MAX: it is not there. */
uint32_t cg_buffer_index(const st_kernel *kernel, uint32_t id);

/* One line that says what the contraction does to the kernel's buffers. */
void cg_print_contraction(const st_contraction *contraction, const st_kernel *kernel, st_str *out);

#endif
