/* A function that runs in a child process: what bisect and minify are made of. A crash, a hang or
 * an exit ends the child alone. The parent never opens a context, so it has no threads to lose.
 *
 * The child leaves what it has to say in files without a name (memfd); what a dead child wrote
 * stays. */
#ifndef STATOR_CHILD_H
#define STATOR_CHILD_H

#include <stator/stator.h>
#include <stdbool.h>

enum child_file { CHILD_REPORT = 0, CHILD_LIST = 1, CHILD_KEPT = 2, CHILD_FILES = 3 };

typedef struct child {
    int files[CHILD_FILES]; /* file descriptors of the child; -1: none */
    int alive[2];           /* closed by the kernel when the child ends */
    bool in_time;           /* 0: it was killed when its time was up */
    int status;             /* as of waitpid */
} child;

typedef struct child_work {
    /* 1: it left its report. The process ends when it returns. */
    bool (*run)(void *self, const child *c);
    void *self;
    int64_t timeout_s;
    bool is_quiet; /* stderr goes nowhere, as stdout always does */
} child_work;

/* The failure in words. */
typedef struct child_error {
    char code[64]; /* name of a status, CRASH or TIMEOUT */
    char message[1024];
    char hint[512];
} child_error;

/* Runs it to its end. 0 when no child could be made (errno says why); close it in both cases. */
bool child_run(child *c, const child_work *work);
void child_close(child *c);
/* The report that the child left; false when there is none. */
bool child_report(const child *c, void *report, uint64_t size);
/* How a child ended that left no whole report. */
void child_death(const child *c, child_error *out);
/* Says that no child could be made (errno says why); false. */
bool child_failed(int json);

/* In the child: writes all of the data at that place of a file. */
bool child_write(int fd, const void *data, uint64_t size, uint64_t offset);
/* In the child: the last error that the command's helpers kept, as "CODE: message". ctx may be
 * NULL. */
void child_take_error(stator_ctx *ctx, child_error *out);

#endif
