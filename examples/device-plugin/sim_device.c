/* A simulated device; see sim_device.h. A stream is a list of commands and a thread that does them.
 */
#define _POSIX_C_SOURCE 200809L
#include "sim_device.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct command {
    struct command *next;
    sim_function function; /* NULL: the thread ends */
    _Alignas(16) char arguments[SIM_ARGUMENTS];
} command;

struct sim_stream {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    command *first, *last;
    uint64_t n_queued, n_done;
    const char *failure;
    uint32_t delay_us;
};

struct sim_event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t n_recorded, n_reached;
};

/* ---- memory ---- */

bool sim_is_device(const void *p)
{
    return (uintptr_t)p >> 47 != 0; /* the host's addresses end below, those moved do not */
}

void *sim_alloc(uint64_t bytes)
{
    void *p = NULL;
    if (bytes > SIZE_MAX / 2 || posix_memalign(&p, SIM_ALIGNMENT, (size_t)bytes + 1) != 0) {
        return NULL;
    }
    memset(p, 0xff, (size_t)bytes); /* NaN: what reads before it writes shows */
    return (void *)((uintptr_t)p + SIM_OFFSET);
}

void sim_free(void *p)
{
    if (p != NULL) {
        free(sim_host(p));
    }
}

/* ---- streams ---- */

static void sleep_us(uint32_t us)
{
    const struct timespec time = {.tv_sec = us / 1000000, .tv_nsec = (long)(us % 1000000) * 1000};
    (void)nanosleep(&time, NULL);
}

static command *next_command(sim_stream *s)
{
    pthread_mutex_lock(&s->lock);
    while (s->first == NULL) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    command *c = s->first;
    s->first = c->next;
    if (s->first == NULL) {
        s->last = NULL;
    }
    pthread_mutex_unlock(&s->lock);
    return c;
}

static void *work(void *self)
{
    sim_stream *s = self;
    for (;;) {
        command *c = next_command(s);
        if (c->function == NULL) {
            free(c);
            return NULL;
        }
        if (s->delay_us != 0) {
            sleep_us(s->delay_us);
        }
        const char *failure = c->function(c->arguments);
        free(c);
        pthread_mutex_lock(&s->lock);
        s->n_done++;
        if (s->failure == NULL) {
            s->failure = failure;
        }
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->lock);
    }
}

bool sim_launch(sim_stream *s, sim_function function, const void *arguments, size_t size)
{
    command *c = malloc(sizeof *c);
    if (c == NULL || size > SIM_ARGUMENTS) {
        free(c);
        return false;
    }
    c->next = NULL;
    c->function = function;
    if (size != 0) {
        memcpy(c->arguments, arguments, size);
    }
    pthread_mutex_lock(&s->lock);
    if (s->last != NULL) {
        s->last->next = c;
    } else {
        s->first = c;
    }
    s->last = c;
    s->n_queued += function != NULL;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    return true;
}

sim_stream *sim_stream_create(uint32_t delay_us)
{
    sim_stream *s = calloc(1, sizeof *s);
    if (s == NULL) {
        return NULL;
    }
    s->delay_us = delay_us;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    if (pthread_create(&s->thread, NULL, work, s) != 0) {
        free(s);
        return NULL;
    }
    return s;
}

const char *sim_stream_wait(sim_stream *s)
{
    pthread_mutex_lock(&s->lock);
    const uint64_t until = s->n_queued;
    while (s->n_done < until) {
        pthread_cond_wait(&s->changed, &s->lock);
    }
    const char *failure = s->failure;
    s->failure = NULL;
    pthread_mutex_unlock(&s->lock);
    return failure;
}

void sim_stream_destroy(sim_stream *s)
{
    while (!sim_launch(s, NULL, NULL, 0)) { /* without memory: until there is some */
        sleep_us(1000);
    }
    pthread_join(s->thread, NULL);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
    free(s);
}

/* ---- events ---- */

typedef struct event_point {
    sim_event *event;
    uint64_t number;
} event_point;

static const char *reach(void *arguments)
{
    const event_point *point = arguments;
    sim_event *e = point->event;
    pthread_mutex_lock(&e->lock);
    e->n_reached = point->number > e->n_reached ? point->number : e->n_reached;
    pthread_cond_broadcast(&e->changed);
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

static const char *wait_for(void *arguments)
{
    const event_point *point = arguments;
    sim_event *e = point->event;
    pthread_mutex_lock(&e->lock);
    while (e->n_reached < point->number) {
        pthread_cond_wait(&e->changed, &e->lock);
    }
    pthread_mutex_unlock(&e->lock);
    return NULL;
}

sim_event *sim_event_create(void)
{
    sim_event *e = calloc(1, sizeof *e);
    if (e != NULL) {
        pthread_mutex_init(&e->lock, NULL);
        pthread_cond_init(&e->changed, NULL);
    }
    return e;
}

void sim_event_destroy(sim_event *e)
{
    pthread_mutex_destroy(&e->lock);
    pthread_cond_destroy(&e->changed);
    free(e);
}

static bool push_point(sim_event *e, sim_stream *s, sim_function function, uint64_t step)
{
    pthread_mutex_lock(&e->lock);
    e->n_recorded += step;
    const event_point point = {e, e->n_recorded};
    pthread_mutex_unlock(&e->lock);
    return sim_launch(s, function, &point, sizeof point);
}

bool sim_event_record(sim_event *e, sim_stream *s)
{
    return push_point(e, s, reach, 1);
}

bool sim_event_wait(sim_event *e, sim_stream *s)
{
    return push_point(e, s, wait_for, 0);
}
