/* Every contraction that the code generator recognises, from its definition: the judge of the
 * recognition, and of other libraries. Floats alone. */
#ifndef STATOR_TESTS_PLAIN_LIBRARY_H
#define STATOR_TESTS_PLAIN_LIBRARY_H

#include "codegen/target/library.h"

st_library plain_library(st_mem *mem);

#endif
