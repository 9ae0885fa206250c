/* STATOR_DUMP=DIR: what a compile makes, as files (docs/dump.md).
 *
 *   DIR/001-main-inductor-cpu/           one folder a compile
 *       00-import.stir, 01-freeze.stir   the graph before the first pass and after each
 *       constants.blob                   what these files name, each content once
 *       passes.log, fusion.log, ...      what the compile said on these channels
 *       part-0-inductor-cpu.stir         the graph that a backend was given
 *       part-0-inductor-cpu/             what the backend hands over, under its names
 *
 * A compile that dumps is not read from the cache. A folder that cannot be made is an error of the
 * compile; files that cannot be written later are a line in the log. Threads: the functions below
 * find the dump by the handle of the compile (compile_handle.h), those of graphs on the thread that
 * compiles, the others on its helpers too; where there is none they do nothing. */
#ifndef STATOR_CONTEXT_DUMP_H
#define STATOR_CONTEXT_DUMP_H

#include "core/context/compile_handle.h"
#include "ir/graph.h"

typedef struct st_dump {
    st_compile_handle handle;
    int fd;      /* folder; -1: nothing is dumped */
    int part_fd; /* folder of the part that is being compiled, or -1 */
    int blob_fd;
    uint64_t blob_bytes;
    st_map places; /* blob -> place in offsets, + 1 */
    st_vec(uint64_t) offsets;
    uint32_t n_stages, n_parts;
    _Atomic bool is_full; /* a write has failed: said once */
} st_dump;

/* Nothing when STATOR_DUMP is not set. */
stator_status st_dump_begin(st_dump *dump, stator_ctx *ctx, const stator_graph *graph,
                            const char *backend, stator_diag **err);
void st_dump_end(st_dump *dump);

/* The graph after a stage. */
void st_dump_stage(stator_ctx *ctx, const char *stage, const stator_graph *graph);
/* The graph of a part; what is handed over until the end is its backend's. */
void st_dump_part_begin(stator_ctx *ctx, const char *backend, const stator_graph *graph);
void st_dump_part_end(stator_ctx *ctx);

/* The slots of stator_log_api. */
int32_t st_dump_is_on(stator_ctx *ctx);
void st_dump_file(stator_ctx *ctx, const char *name, const void *bytes, uint64_t size_bytes);

/* Channels of the log that tell of a compile: a dump writes them down, a program that comes from
 * the cache has nothing to tell on them. */
#define ST_COMPILE_CHANNELS 4u
extern const char *const st_compile_channels[ST_COMPILE_CHANNELS];

/* Is a line of this channel and level written down, whoever else listens? */
bool st_dump_hears(const stator_ctx *ctx, const char *channel, uint32_t level);
void st_dump_line(stator_ctx *ctx, const char *channel, const char *text);

#endif
