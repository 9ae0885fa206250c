/* The piece of a package that tests sizes; see package_shape_constraints.c. */
#ifndef STATOR_HOST_PACKAGE_SHAPE_CONSTRAINTS_H
#define STATOR_HOST_PACKAGE_SHAPE_CONSTRAINTS_H

#include "core/base/sym/sym.h"
#include "ir/sizes/shape_constraint_list.h"
#include <stator/plugin.h>

/* Gives the sink the piece "needs". `cols` are those of the module that the shape constraints
 * are of. */
stator_status st_package_shape_constraints(const st_shape_constraints *shape_constraints,
                                           const st_sym_cols *cols, const stator_package_sink *sink,
                                           stator_diag **err);

#endif
