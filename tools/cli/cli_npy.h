/* Functions that readers of .npz and of other files share with .npy. */
#ifndef STATOR_CLI_NPY_H
#define STATOR_CLI_NPY_H

#include "tools/cli/cli.h"

/* A whole regular file, mapped read-only; unmap with cli_unmap_file. The error text does not name
 * the file: the caller puts it before. */
bool cli_map_file(const char *path, void **out_bytes, uint64_t *out_size, char *errbuf);
void cli_unmap_file(void *bytes, uint64_t size);
/* The .npy header of a tensor of a dtype that NumPy has (see cli_to_numpy); returns its length. */
uint32_t cli_npy_header(const stator_tensor *tensor, char out[512]);

#endif
