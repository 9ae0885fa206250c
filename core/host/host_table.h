/* The functions that a context gives its plugins. */
#ifndef STATOR_HOST_TABLE_H
#define STATOR_HOST_TABLE_H

#include "core/context/ctx.h"

/* Fills the host table of a context. */
void st_host_table_init(stator_ctx *ctx);
/* Frees the packed constants that it keeps. */
void st_packs_destroy(stator_ctx *ctx);
/* Loads the op libraries found so far into the op table, once. */
stator_status st_ctx_load_oplibs(stator_ctx *ctx, stator_diag **err);

#endif
