/* Failures of a stream's calls; see stream_failures.h. */
#include "core/runtime/stream_failures.h"

#include <string.h>

#define ASKED_MAX 4096u /* a plugin that told one failure for ever would hold the stream */

static bool is_hit(const st_late_range *range, const st_late_failure *f)
{
    const bool is_by_number = f->first <= range->last && f->last >= range->first;
    const bool is_by_place =
        f->after_at < f->last_at &&
        (range->stream == NULL || (range->last_at > f->after_at && range->first_at <= f->last_at));
    return is_by_number || is_by_place;
}

/* Lock held: the oldest failure of the stream that concerns the range; NULL as the range: that
 * nobody has been told of. */
static st_late_failure *find_failure(st_stream *s, const st_late_range *range)
{
    const uint32_t n = atomic_load(&s->n_failures);
    for (uint32_t i = 0; i < n; i++) {
        st_late_failure *f = &s->failures[i];
        if (range != NULL ? is_hit(range, f) : !f->is_told) {
            return f;
        }
    }
    return NULL;
}

stator_status st_failures_tell(st_stream *s, const st_late_range *range, stator_diag **err)
{
    stator_diag *why = NULL;
    stator_status status = STATOR_OK;
    if (atomic_load(&s->n_failures) == 0) {
        return STATOR_OK;
    }
    pthread_mutex_lock(&s->lock);
    st_late_failure *f = find_failure(s, range);
    if (f != NULL) {
        f->is_told = true;
        status = f->status;
        why = st_diag_copy(f->why);
    }
    pthread_mutex_unlock(&s->lock);
    return status == STATOR_OK ? STATOR_OK : st_diag_give(status, why, err);
}

/* Lock held: the two oldest become one, with the older one's error. */
static void join_oldest(st_stream *s)
{
    const uint32_t n = atomic_load(&s->n_failures);
    st_late_failure *older = &s->failures[0];
    const st_late_failure *newer = &s->failures[1];
    older->first = newer->first < older->first ? newer->first : older->first;
    older->last = newer->last > older->last ? newer->last : older->last;
    older->after_at = newer->after_at < older->after_at ? newer->after_at : older->after_at;
    older->last_at = newer->last_at > older->last_at ? newer->last_at : older->last_at;
    older->is_told = older->is_told && newer->is_told;
    st_diag_release(newer->why);
    memmove(&s->failures[1], &s->failures[2], (n - 2u) * sizeof s->failures[0]);
    atomic_store(&s->n_failures, n - 1u);
}

/* Lock held; `failure->why` is taken. Several checks of a call may tell it. */
static void keep(st_stream *s, const st_late_failure *failure)
{
    for (uint32_t i = 0; i < atomic_load(&s->n_failures); i++) {
        const st_late_failure *f = &s->failures[i];
        if (f->first == failure->first && f->last == failure->last &&
            f->after_at == failure->after_at && f->last_at == failure->last_at) {
            st_diag_release(failure->why);
            return;
        }
    }
    if (atomic_load(&s->n_failures) == ST_LATE_KEPT) {
        join_oldest(s);
    }
    s->failures[atomic_load(&s->n_failures)] = *failure;
    (void)atomic_fetch_add(&s->n_failures, 1);
}

void st_failures_keep(st_stream *s, const st_late_failure *failure)
{
    st_late_failure kept = *failure;
    kept.why = st_diag_copy(failure->why);
    pthread_mutex_lock(&s->lock);
    keep(s, &kept);
    pthread_mutex_unlock(&s->lock);
}

/* Lock held. */
static void ask_backend(st_stream *s)
{
    const st_domain *d = s->domain;
    st_late_failure f = {.after_at = UINT64_MAX};
    for (uint32_t asked = 0; asked < ASKED_MAX; asked++) {
        f.status = d->ops->late_failure(d->self, s->handle, &f.first, &f.last, &f.why);
        if (f.status == STATOR_OK) {
            return;
        }
        if (f.first == 0) { /* the slot has failed, as it does on a lost device */
            st_diag_release(f.why);
            return;
        }
        keep(s, &f);
        f = (st_late_failure){.after_at = UINT64_MAX};
    }
}

void st_failures_collect(st_stream *s, uint64_t at)
{
    pthread_mutex_lock(&s->lock);
    if (s->domain->tells_late && atomic_load(&s->examined) < atomic_load(&s->late_at)) {
        ask_backend(s);
    }
    if (atomic_load(&s->examined) < at) {
        atomic_store(&s->examined, at);
    }
    pthread_mutex_unlock(&s->lock);
}

bool st_failures_concern(st_stream *s, const st_late_range *range)
{
    if (atomic_load(&s->n_failures) == 0) {
        return false;
    }
    pthread_mutex_lock(&s->lock);
    const bool is_one = find_failure(s, range) != NULL;
    pthread_mutex_unlock(&s->lock);
    return is_one;
}

void st_failures_forget(st_stream *s)
{
    for (uint32_t i = 0; i < atomic_load(&s->n_failures); i++) {
        st_diag_release(s->failures[i].why);
    }
    atomic_store(&s->n_failures, 0);
}
