/* The piece of a package that tests sizes; see package_needs.c. */
#ifndef STATOR_HOST_PACKAGE_NEEDS_H
#define STATOR_HOST_PACKAGE_NEEDS_H

#include "core/base/sym.h"
#include "ir/needs.h"
#include <stator/plugin.h>

/* Gives the sink the piece "needs". `cols` are those of the module that the needs are of. */
stator_status st_package_needs(const st_needs *needs, const st_sym_cols *cols,
                               const stator_package_sink *sink, stator_diag **err);

#endif
