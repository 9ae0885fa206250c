/* core/cache keeps compiled programs on disk: keys, entries as bytes, the folder (cache_store.h)
 * and the thread that writes (cache_writer.h).
 *
 * The compile cache: what st_compile_graph asks before it compiles and gives what it made.
 *
 *   begin   the key of the compile (cache_key.c), from the imported graph, before any pass runs
 *   load    an entry of that key becomes a st_compiled (cache_load.c)
 *   save    a st_compiled becomes an entry (cache_save.c)
 *   end     what is kept goes to the writer (cache_writer.h), who waits for the first call
 *
 * A program is kept when the main backend can serialise executables. Of a part on the fallback the
 * graph is kept, which the fallback compiles when it is loaded. What went wrong is
 * a line of the log channel "cache", never an error: the cache is left out then.
 *
 * A job is what one compile has to do with the cache. It belongs to its thread, which is how the
 * slots of stator_cache_api, called by a plugin on that thread, find it. */
#ifndef STATOR_CACHE_CACHE_H
#define STATOR_CACHE_CACHE_H

#include "core/cache/cache_store.h"
#include "core/cache/cache_writer.h"
#include "core/compile/compile.h"

/* A constant that an entry refers to. */
typedef struct st_cached_constant {
    stator_blob *blob; /* retained */
    uint8_t hash[16];
    uint64_t size_bytes;
} st_cached_constant;

enum st_cache_phase {
    ST_CACHE_OFF = 0,
    ST_CACHE_COMPILING = 1, /* compiled parts are recorded for the entry */
    ST_CACHE_SAVING = 2,
    ST_CACHE_LOADING = 3
};

typedef struct st_cache_job {
    struct st_cache_job *next; /* list of ctx->cache_jobs */
    pthread_t thread;
    const st_compile_request *request;
    st_cache_store *store; /* NULL: the cache is left out */
    uint32_t phase;        /* st_cache_phase */
    uint32_t may_read;
    const char *refusal; /* why the cache is left out, or NULL */
    uint64_t data_bytes; /* size of the constants that will lie beside the entry */
    st_cache_parcel parcel;
    st_vec(st_cached_constant) constants;
    st_str key;
    char name[ST_CACHE_NAME_BYTES];
} st_cache_job;

/* Never fails; the job must be ended. */
void st_cache_begin(st_cache_job *job, const st_compile_request *request);
void st_cache_end(st_cache_job *job);
/* 1: *out is filled from the cache; 0: compile. */
bool st_cache_load(st_cache_job *job, st_compiled *out);
/* Would st_cache_load find an entry? Appends its name, or why not. */
bool st_cache_ask(const st_compile_request *request, st_str *out);
void st_cache_save(st_cache_job *job, const st_compiled *compiled);

/* The store of a context, opened at the first question; NULL: the cache is switched off. Its fd is
 * -1 where there is no folder. */
st_cache_store *st_cache_of(stator_ctx *ctx);
/* The same without making the folder where it is not there yet. */
st_cache_store *st_cache_look(stator_ctx *ctx);
void st_cache_destroy(stator_ctx *ctx);
extern const stator_cache_api st_cache_api;

/* Packed constants (host_table.c). NULL: not there. */
stator_blob *st_cache_pack_find(stator_ctx *ctx, const uint8_t hash[16], const char *format,
                                uint64_t size_bytes);
/* One that was made: in a compile that is kept it is kept too. */
void st_cache_pack_keep(stator_ctx *ctx, const uint8_t hash[16], const char *format,
                        stator_blob *blob);

/* ---- cache_key.c ---- */

/* The key in words, a line a field, and its hash in job->name. A reason why this compile is none
 * for the cache, or NULL. */
const char *st_cache_make_key(st_cache_job *job);
/* How the key differs from that of the nearest entry, by lines: "threads: 1 (was 2)". */
void st_cache_explain(st_cache_job *job, st_str *out);

/* ---- cache_sums.c ---- */

/* Makes the content hash of every constant known: remembered by the file that it lies in, computed
 * by all threads where it is not. 0: a constant cannot be read. */
bool st_cache_hash_constants(st_cache_store *store, const st_module *module);

/* ---- cache_save.c, cache_load.c ---- */

/* UNSUPPORTED, with the reason: it cannot be kept. */
stator_status st_cache_write_compiled(st_cache_job *job, const st_compiled *compiled, st_str *out,
                                      stator_diag **err);
/* DATA_LOSS: the bytes are no program of this compile. *out is to be ended in both cases. */
stator_status st_cache_read_compiled(st_cache_job *job, const void *bytes, uint64_t n,
                                     st_compiled *out, stator_diag **err);
#define ST_CACHE_PROGRAM_FORMAT 3u
/* How a part of the program is kept. */
enum st_cached_part {
    ST_CACHED_EXECUTABLE = 0, /* main's, serialised */
    ST_CACHED_GRAPH = 1       /* the fallback's graph, compiled anew when it is loaded */
};
/* Constants from this size on lie beside the entry, smaller ones in it. */
#define ST_CACHE_INLINE_BYTES 65536u
enum st_cached_place { ST_CACHED_SOURCE = 0, ST_CACHED_INLINE = 1, ST_CACHED_BESIDE = 2 };
/* Name and key of a constant that lies beside entries. */
void st_cache_constant_key(const uint8_t hash[16], char out_key[64],
                           char out_name[ST_CACHE_NAME_BYTES]);

#endif
