/* Functions of mapfile.c that blob.c uses beyond blob.h. */
#ifndef STATOR_BASE_BLOB_FILE_H
#define STATOR_BASE_BLOB_FILE_H

#include "core/base/blob.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The whole file, mapped; NULL when it is empty. Page-aligned. */
const void *st_file_data(const st_file *file);

#ifdef __cplusplus
}
#endif
#endif
