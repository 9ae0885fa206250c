/* Lines of perf_hints of a compile that may be tried again: kept until it is known whether what
 * they are about stays; each once. */
#ifndef STATOR_HOST_HELD_H
#define STATOR_HOST_HELD_H

#include "core/base/vec.h"
#include "core/host/ctx.h"

/* Of the thread that began it; the innermost one takes a line. */
typedef struct st_held {
    stator_ctx *ctx;
    pthread_t thread;
    struct st_held *next;
    st_vec(char *) lines;
} st_held;

/* From here on lines of this thread are kept. */
void st_held_begin(st_held *held, stator_ctx *ctx);
/* Until here. They are said in their order, or forgotten. Another thread's stay as they are. */
void st_held_end(st_held *held, int is_said);
/* Is the line kept? Without memory it is not, and is said at once. */
int st_held_take(stator_ctx *ctx, const char *channel, const char *text);

#endif
