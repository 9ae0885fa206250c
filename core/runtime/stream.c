/* Streams of a memory domain; see domain.h.
 *
 * A stream counts what is queued on it, and a wait remembers the count that it has reached. Where
 * the two are equal nothing is queued: nobody needs an event of that stream, nor its handle. */
#include "core/runtime/stream_failures.h"

#include "core/base/check.h"

/* With the application's handle, or NULL for one of the domain's own. */
static stator_status make_stream(st_domain *d, void *callers, st_stream **out, stator_diag **err)
{
    st_stream *s = st_calloc(d->mem, 1, sizeof *s);
    ST_TRY_MEM(s, err);
    s->domain = d;
    s->handle = callers;
    s->is_callers = callers != NULL;
    stator_status status =
        callers == NULL ? d->ops->stream_create(d->self, &s->handle, err) : STATOR_OK;
    if (status == STATOR_OK) {
        status = d->ops->event_create(d->self, &s->event, err);
        if (status != STATOR_OK && callers == NULL) {
            d->ops->stream_destroy(d->self, s->handle);
        }
    }
    if (status != STATOR_OK) {
        st_free(d->mem, s);
        return status;
    }
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->waits, NULL);
    pthread_mutex_lock(&d->lock);
    s->all = d->all_streams;
    d->all_streams = s;
    pthread_mutex_unlock(&d->lock);
    *out = s;
    return STATOR_OK;
}

stator_status st_stream_acquire(st_domain *d, st_stream **out, stator_diag **err)
{
    pthread_mutex_lock(&d->lock);
    st_stream **at = &d->free_streams;
    while (*at != NULL && st_failures_concern(*at, NULL)) { /* by those that it concerns */
        at = &(*at)->next;
    }
    st_stream *s = *at;
    if (s != NULL) {
        *at = s->next;
    }
    pthread_mutex_unlock(&d->lock);
    *out = s;
    return s != NULL ? STATOR_OK : make_stream(d, NULL, out, err);
}

static st_stream *find_callers(st_domain *d, const void *handle)
{
    pthread_mutex_lock(&d->lock);
    st_stream *s = d->all_streams;
    while (s != NULL && (!s->is_callers || s->handle != handle)) {
        s = s->all;
    }
    pthread_mutex_unlock(&d->lock);
    return s;
}

/* Two threads that bring a handle for the first time may make two of it, which events order as they
 * order others. */
stator_status st_stream_of_caller(st_domain *d, void *handle, st_stream **out, stator_diag **err)
{
    *out = find_callers(d, handle);
    if (*out != NULL && st_stream_is_busy(*out)) {
        return STATOR_OK;
    }
    if (d->checks_streams) { /* a new one may have the handle of one that has ended */
        ST_TRY(d->ops->check_stream(d->self, handle, err));
    }
    return *out != NULL ? STATOR_OK : make_stream(d, handle, out, err);
}

void st_stream_release(st_stream *s)
{
    if (s == NULL || s->is_callers) {
        return;
    }
    pthread_mutex_lock(&s->domain->lock);
    s->next = s->domain->free_streams;
    s->domain->free_streams = s;
    pthread_mutex_unlock(&s->domain->lock);
}

stator_status st_stream_follow(st_stream *later, st_stream *earlier, stator_diag **err)
{
    const st_domain *d = earlier->domain;
    if (later == earlier || !st_stream_is_busy(earlier)) {
        return STATOR_OK;
    }
    if (later->domain != d) {
        return st_stream_wait(earlier, err);
    }
    pthread_mutex_lock(&earlier->lock);
    stator_status status = d->ops->event_record(d->self, earlier->event, earlier->handle, err);
    if (status == STATOR_OK) {
        status = d->ops->event_wait(d->self, earlier->event, later->handle, err);
    }
    pthread_mutex_unlock(&earlier->lock);
    st_stream_note(later);
    return status;
}

/* What is queued on the stream until now, and the error of the wait itself. */
static stator_status synchronize(st_stream *s, stator_diag **err)
{
    st_domain *d = s->domain;
    const uint64_t queued = atomic_load(&s->queued);
    const uint64_t examined = atomic_load(&s->examined);
    if (queued == atomic_load(&s->reached)) {
        return STATOR_OK;
    }
    stator_diag *why = NULL;
    (void)atomic_fetch_add_explicit(&d->n_waits, 1, memory_order_relaxed);
    const stator_status status = d->ops->synchronize(d->self, s->handle, &why);
    if (status != STATOR_OK) {
        const st_late_failure failure = {.first = UINT64_MAX, /* what was queued since the last */
                                         .after_at = examined,
                                         .last_at = queued,
                                         .status = status,
                                         .why = why,
                                         .is_told = err != NULL};
        st_failures_keep(s, &failure);
        return st_diag_give(status, why, err);
    }
    st_failures_collect(s, queued);
    uint64_t reached = atomic_load(&s->reached);
    while (reached < queued && !atomic_compare_exchange_weak(&s->reached, &reached, queued)) {
    }
    return STATOR_OK;
}

stator_status st_stream_wait(st_stream *s, stator_diag **err)
{
    if (s->domain->tells_late) {
        return synchronize(s, err);
    }
    pthread_mutex_lock(&s->waits); /* who is told here keeps it before others are told nothing */
    const stator_status status = synchronize(s, err);
    pthread_mutex_unlock(&s->waits);
    return status;
}
