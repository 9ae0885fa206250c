/* Entries of the compile cache on their way to the disk, written behind the caller's back.
 *
 *   put      the entries of one compile: its constants, then its program
 *   start    a thread begins to write what was put; called when the first call of the program ended
 *   flush    on return all that was put is written, by the caller as far as the thread has not
 *            begun
 *
 * One entry is written at a time, the oldest first, so a program is published after the constants
 * that it needs. The thread ends when there is nothing left. What waits is referred to, not copied.
 *
 * A process that ends before that keeps nothing of what is left. In a child made by fork after
 * something was put, nothing is written any more. */
#ifndef STATOR_CACHE_CACHE_WRITER_H
#define STATOR_CACHE_CACHE_WRITER_H

#include "core/base/blob.h"
#include "core/base/vec.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/types.h>

struct st_cache_store;

typedef struct st_cache_item {
    char *key;            /* allocated with the allocator of the context */
    stator_blob *payload; /* retained */
    const char *name;     /* name of the entry; lies behind the key in its block */
    uint32_t kind;        /* st_cache_kind */
    uint32_t is_needed;   /* without it the program cannot be loaded */
} st_cache_item;

/* The entries that one compile stores. */
typedef struct st_cache_parcel {
    struct st_cache_parcel *next;
    st_vec(st_cache_item) items; /* the program, if it is stored, comes last */
    uint32_t n_done;
    uint32_t is_lost;    /* something that the program needs could not be written */
    uint64_t data_bytes; /* size of the constants that are written */
    uint64_t spent_ns;
} st_cache_parcel;

typedef struct st_cache_writer {
    stator_ctx *ctx;
    pthread_mutex_t lock;
    pthread_cond_t is_moved;  /* an entry was written */
    st_cache_parcel *first;   /* stays until its last entry is written */
    _Atomic uint32_t is_idle; /* 0: there is something, and no thread has been started for it */
    uint32_t is_writing;      /* somebody is, one at a time */
    uint32_t n_flushing;
    uint32_t has_thread; /* to be joined */
    uint32_t is_over;    /* the writer thread has ended and waits to be joined */
    pthread_t thread;
    _Atomic pid_t process; /* process that last put an entry; 0: none yet */
} st_cache_writer;

/* The writer of a context, which has a cache when something is put. */
st_cache_writer *st_cache_writer_create(stator_ctx *ctx); /* NULL: out of memory */
/* Flushes first. */
void st_cache_writer_destroy(st_cache_writer *writer);

/* Appends an entry to a parcel. 0: out of memory, the parcel is as before. */
bool st_cache_parcel_add(st_mem *mem, st_cache_parcel *parcel, const st_cache_item *item);
void st_cache_parcel_deinit(st_mem *mem, st_cache_parcel *parcel);

/* Takes the parcel's items and leaves it empty. Without memory they are dropped. */
void st_cache_writer_put(st_cache_writer *writer, st_cache_parcel *parcel);
/* Any thread, often: costs a load where there is nothing to do. */
void st_cache_writer_start(st_cache_writer *writer);
void st_cache_writer_flush(st_cache_writer *writer);
/* Does an entry of that name wait? */
bool st_cache_writer_has(st_cache_writer *writer, uint32_t kind, const char *name);

#endif
