/* What a frontend (stator/plugin.h) gets from the host: the source of an import, and where a copy
 * of it with other values of parameters goes. */
#ifndef STATOR_SOURCE_H
#define STATOR_SOURCE_H

#include <stator/base.h>
#include <stator/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

enum stator_source_flag { STATOR_SOURCE_COPY = 1u << 0 }; /* the file may change after loading */

/* The source of an import. */
typedef struct stator_source {
    uint32_t struct_size;
    uint32_t flags;    /* stator_source_flag */
    const char *path;  /* absolute; NULL for bytes alone */
    const void *bytes; /* the whole file, mapped read-only, or the application's bytes */
    uint64_t size;
    const char *dir; /* folder that external data may lie in, NULL: none allowed */
    /* The value of the graph input `name` when the caller already knows it, else NULL. A frontend
     * that cannot go on without one fails with STATOR_NEED_VALUE and calls need_value first. */
    const DLTensor *(*input_value)(const struct stator_source *source, const char *name);
    void (*need_value)(const struct stator_source *source, const char *name);
    void *host;
    /* 0.9: tells what the file says of itself, for people (`stator info`): kind "opset", name
     * "ai.onnx", value "17"; kind "op", name "Conv", value "53"; kind "producer", name and
     * version; kind "metadata", key and value; kind "training", name "nodes" and how many have a
     * mode for training; kind "alias", a name of the file and that of the value of the graph
     * which stands for it; kind "data", a file that values are read from, and its path. Texts
     * are copied. An older host has not got it: STATOR_HAS. */
    void (*fact)(const struct stator_source *source, const char *kind, const char *name,
                 const char *value);
} stator_source;

/* A copy of a model's file with other values of parameters. */
typedef struct stator_rewrite {
    uint32_t struct_size;
    uint32_t value_count;
    const char *const *names; /* parameters of the import */
    const DLTensor *values;   /* theirs: dense, in host memory, of dtype and shape of the import */
    /* Name, without a folder, of a second file that will lie beside the copy: for what the format
     * keeps outside of its file. */
    const char *data_name;
    /* Appends to the copy (file 0) or to the second file (1), which its first bytes make. */
    stator_status (*append)(const struct stator_rewrite *to, uint32_t file, const void *bytes,
                            uint64_t size, stator_diag **err);
    void *host;
} stator_rewrite;

#ifdef __cplusplus
}
#endif
#endif
