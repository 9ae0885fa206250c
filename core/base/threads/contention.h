/* Do other programs want the processors so much that teams of threads do not pay? One answer for
 * the process (core/base/threads/contention.c). Any thread. */
#ifndef STATOR_BASE_CONTENTION_H
#define STATOR_BASE_CONTENTION_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Work that waits for a whole team is to be done without one now (of st_now_ns). */
bool st_is_contended(uint64_t now);
/* A team has done a piece of work in took_ns; without it, it would have taken about alone_ns. */
void st_contention_note(uint64_t took_ns, uint64_t alone_ns, uint64_t now);

#ifdef __cplusplus
}
#endif
#endif
