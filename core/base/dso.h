/* Shared objects: opening them for good, and finding sonames without loading anything. */
#ifndef STATOR_BASE_DSO_H
#define STATOR_BASE_DSO_H

#include "core/base/alloc.h"

#ifdef __cplusplus
extern "C" {
#endif

/* dlopen(RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE). NULL on failure, with the loader's text copied to
 * msg. Never closed. */
void *st_dso_open(const char *path, char *msg, uint64_t msg_size);
void *st_dso_symbol(void *dso, const char *name);
/* Folder of the object that holds `address` into out (dladdr, realpath); 0 on failure. */
bool st_dso_folder_of(const void *address, char *out, uint64_t out_size);
/* The file may be trusted like the folder of the plugin that opens it: they have one owner, or
 * root owns the file, and nobody else writes it. */
bool st_dso_is_trusted(const char *path, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
