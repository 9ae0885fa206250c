/* From a divided graph to programs: slots, steps, executables. */
#ifndef STATOR_COMPILE_ASSEMBLE_H
#define STATOR_COMPILE_ASSEMBLE_H

#include "core/compile/divide.h"

typedef struct st_assembly {
    st_division *division;
    st_compiled *out;
    bool is_last;        /* a part that main declines is compiled for the fallback at once */
    uint32_t n_declined; /* nodes, when it is not the last time */
} st_assembly;

/* Compiles the parts of the root and of the bodies that the host runs, and fills out->program and
 * out->bodies. With n_declined != 0 the programs are not complete: divide again. */
stator_status st_assemble(st_assembly *assembly, stator_diag **err);
/* Makes the step of `program` one that runs its executable, of which the instance told `info`. */
stator_status st_describe_step(const st_compile_request *request, const st_program *program,
                               stator_instance *instance, const stator_exe_info *info,
                               st_step *step, stator_diag **err);
/* Ends executables and programs of `compiled`. */
void st_disassemble(st_compiled *compiled);

#endif
