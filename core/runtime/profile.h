/* How long the steps of programs take: a record that is switched on for a context, filled by
 * whoever runs steps and read in the end. Off it costs one relaxed load a step. Threads: any may
 * add. */
#ifndef STATOR_RUNTIME_PROFILE_H
#define STATOR_RUNTIME_PROFILE_H

#include "core/base/alloc.h"
#include "core/base/map.h"
#include "core/base/vec.h"
#include <pthread.h>
#include <stator/inspect.h>
#include <stdatomic.h>

typedef struct st_profile_event {
    uint32_t name; /* into names */
    uint64_t begin_ns, end_ns;
} st_profile_event;

typedef struct st_profile_name {
    char text[STATOR_X_PROFILE_NAME];
} st_profile_name;

typedef struct st_profile {
    st_mem *mem;
    pthread_mutex_t lock;
    _Atomic uint32_t is_on;
    uint32_t is_cut; /* no memory for all of it */
    st_vec(st_profile_event) events;
    st_vec(st_profile_name) names;
    st_hashset by_name; /* places of names, plus 1 */
} st_profile;

void st_profile_init(st_profile *profile, st_mem *mem);
void st_profile_deinit(st_profile *profile);
void st_profile_start(st_profile *profile); /* empty, on */
void st_profile_stop(st_profile *profile);  /* recorded times stay */
void st_profile_go_on(st_profile *profile); /* after a stop, behind what is recorded */
/* Gives the record back; nobody may be adding to it. */
void st_profile_forget(st_profile *profile);
bool st_profile_is_on(const st_profile *profile);
/* `name` up to its first newline, cut to what fits. */
void st_profile_add(st_profile *profile, const char *name, uint64_t begin_ns, uint64_t end_ns);

#endif
