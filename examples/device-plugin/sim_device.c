/* A simulated device, see sim_device.h: a stream is a list of commands and a thread for them. */
#define _POSIX_C_SOURCE 200809L
#include "sim_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct command {
    struct command *next;
    sim_function function;
    _Alignas(16) char arguments[SIM_ARGUMENTS];
} command;

struct sim_stream {
    pthread_t thread;
    command *first, *last;
    uint64_t n_queued, n_done;
    const char *failure;
    uint32_t delay_us;
    bool is_ending;
};

/* Of all streams and events: speed is no aim here. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

static void unlock_changed(void)
{
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

/* ---- memory ---- */

void *sim_alloc(uint64_t bytes)
{
    void *p = NULL;
    if (bytes > SIM_MEMORY || posix_memalign(&p, SIM_ALIGNMENT, (size_t)bytes + 1) != 0) {
        return NULL;
    }
    memset(p, 0xff, (size_t)bytes); /* NaN: what reads before it writes shows */
    return (void *)((uintptr_t)p + SIM_OFFSET);
}

/* Lock held. */
static void wait_for_stream(const sim_stream *s)
{
    const uint64_t until = s->n_queued;
    while (s->n_done < until) {
        pthread_cond_wait(&changed, &lock);
    }
}

void sim_free(void *p, sim_stream *s)
{
    if (s != NULL) {
        pthread_mutex_lock(&lock);
        wait_for_stream(s);
        pthread_mutex_unlock(&lock);
    }
    free(p != NULL ? sim_host(p) : NULL);
}

/* ---- streams ---- */

/* NULL: the stream ends. */
static command *next_command(sim_stream *s)
{
    pthread_mutex_lock(&lock);
    while (s->first == NULL && !s->is_ending) {
        pthread_cond_wait(&changed, &lock);
    }
    command *c = s->first;
    s->first = c != NULL ? c->next : NULL;
    pthread_mutex_unlock(&lock);
    return c;
}

static void *work(void *self)
{
    sim_stream *s = self;
    for (command *c = NULL; (c = next_command(s)) != NULL; free(c)) {
        const struct timespec delay = {s->delay_us / 1000000, (long)(s->delay_us % 1000000) * 1000};
        (void)(s->delay_us != 0 ? nanosleep(&delay, NULL) : 0);
        const char *failure = c->function(c->arguments);
        pthread_mutex_lock(&lock);
        s->n_done++;
        s->failure = s->failure != NULL ? s->failure : failure;
        unlock_changed();
    }
    return NULL;
}

bool sim_launch(sim_stream *s, sim_function function, const void *arguments, size_t size)
{
    command *c = size <= SIM_ARGUMENTS ? malloc(sizeof *c) : NULL;
    if (c == NULL) {
        return false;
    }
    c->next = NULL;
    c->function = function;
    memcpy(c->arguments, arguments, size);
    pthread_mutex_lock(&lock);
    *(s->first != NULL ? &s->last->next : &s->first) = c;
    s->last = c;
    s->n_queued++;
    unlock_changed();
    return true;
}

sim_stream *sim_stream_create(uint32_t delay_us)
{
    sim_stream *s = calloc(1, sizeof *s);
    if (s != NULL) {
        s->delay_us = delay_us;
        if (pthread_create(&s->thread, NULL, work, s) == 0) {
            return s;
        }
    }
    free(s);
    return NULL;
}

const char *sim_stream_wait(sim_stream *s)
{
    pthread_mutex_lock(&lock);
    wait_for_stream(s);
    const char *failure = s->failure;
    s->failure = NULL;
    pthread_mutex_unlock(&lock);
    return failure;
}

void sim_stream_destroy(sim_stream *s)
{
    pthread_mutex_lock(&lock);
    s->is_ending = true;
    unlock_changed();
    pthread_join(s->thread, NULL);
    free(s);
}

/* ---- events ---- */

/* The arguments are a point of an event's. */
static const char *reach(void *arguments)
{
    const sim_event *point = arguments;
    pthread_mutex_lock(&lock);
    while (point->stream->n_done < point->number) {
        pthread_cond_wait(&changed, &lock);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

void sim_event_record(sim_event *e, sim_stream *s)
{
    pthread_mutex_lock(&lock);
    *e = (sim_event){s, s->n_queued};
    pthread_mutex_unlock(&lock);
}

bool sim_event_wait(const sim_event *e, sim_stream *s)
{
    return e->stream == NULL || sim_launch(s, reach, e, sizeof *e);
}
