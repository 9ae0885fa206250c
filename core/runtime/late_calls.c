/* Calls that may fail late; see late_calls.h. */
#include "core/runtime/late_calls.h"

#include "core/runtime/stream_failures.h"

/* ---- lists ---- */

/* Ranges of one stream that overlap or touch become one. */
static bool join_touching(st_late_range *to, const st_late_range *from)
{
    if (to->stream != from->stream || from->before > to->last || to->before > from->last) {
        return false;
    }
    to->first = from->first < to->first ? from->first : to->first;
    to->before = from->before < to->before ? from->before : to->before;
    to->last = from->last > to->last ? from->last : to->last;
    to->first_at = from->first_at < to->first_at ? from->first_at : to->first_at;
    to->last_at = from->last_at > to->last_at ? from->last_at : to->last_at;
    return true;
}

/* One with all calls from the first of both to the last. */
static void join(st_late_range *to, const st_late_range *from)
{
    st_late_range other = *from;
    if (to->stream != other.stream) {
        to->stream = other.stream = NULL;
    }
    to->before = other.before = 0;
    (void)join_touching(to, &other);
    to->before = to->first - 1u;
}

/* Two ranges of the full list become one: of the same stream, else of any. */
static void make_room(st_late_calls *calls)
{
    uint32_t at = ST_LATE_MAX - 2u;
    uint32_t with = ST_LATE_MAX - 1u;
    for (uint32_t i = 0; i < ST_LATE_MAX; i++) {
        for (uint32_t k = i + 1u; k < ST_LATE_MAX; k++) {
            if (calls->ranges[i].stream == calls->ranges[k].stream) {
                at = i;
                with = k;
            }
        }
    }
    join(&calls->ranges[at], &calls->ranges[with]);
    calls->ranges[with] = calls->ranges[--calls->n];
}

static void add_range(st_late_calls *calls, const st_late_range *range)
{
    for (uint32_t i = 0; i < calls->n; i++) {
        if (join_touching(&calls->ranges[i], range)) {
            return;
        }
    }
    if (calls->n == ST_LATE_MAX) {
        make_room(calls);
    }
    calls->ranges[calls->n++] = *range;
}

void st_late_note(st_late_calls *calls, st_stream *stream, uint64_t number)
{
    const uint64_t at = atomic_load(&stream->queued);
    const uint64_t before = atomic_exchange(&stream->last_late, number);
    uint64_t late_at = atomic_load(&stream->late_at);
    while (late_at < at && !atomic_compare_exchange_weak(&stream->late_at, &late_at, at)) {
    }
    const st_late_range range = {.stream = stream,
                                 .first = number,
                                 .last = number,
                                 .before = before < number ? before : number - 1u,
                                 .first_at = at,
                                 .last_at = at};
    add_range(calls, &range);
}

/* ---- what a list's calls have come to ---- */

/* Has it gone well, as far as has been looked? */
static bool is_over(const st_late_range *range)
{
    st_stream *s = range->stream;
    return s != NULL && range->last_at <= atomic_load(&s->examined) &&
           !st_failures_concern(s, range);
}

void st_late_add(st_late_calls *to, const st_late_calls *from)
{
    for (uint32_t i = 0; i < from->n; i++) {
        if (!is_over(&from->ranges[i])) {
            add_range(to, &from->ranges[i]);
        }
    }
}

/* The streams of a range: the next one behind `at`, which is NULL at first. */
static st_stream *next_stream(st_domain *d, const st_late_range *range, const st_stream *at)
{
    if (range->stream != NULL) {
        return at == NULL ? range->stream : NULL;
    }
    pthread_mutex_lock(&d->lock);
    st_stream *next = at == NULL ? d->all_streams : at->all;
    pthread_mutex_unlock(&d->lock);
    return next;
}

stator_status st_late_known(const st_late_calls *calls, st_domain *d, stator_diag **err)
{
    for (uint32_t i = 0; i < calls->n; i++) {
        const st_late_range *range = &calls->ranges[i];
        for (st_stream *s = NULL; (s = next_stream(d, range, s)) != NULL;) {
            ST_TRY(st_failures_tell(s, range, err));
        }
    }
    return STATOR_OK;
}

/* The failures of the range's calls are kept with the stream from here on. */
static void examine(st_stream *s, const st_late_range *range)
{
    if (range->stream == NULL) {
        st_failures_collect(s, 0);
    } else if (range->last_at > atomic_load(&s->examined)) {
        st_failures_collect(s, range->last_at);
    }
}

stator_status st_late_check(st_late_calls *calls, st_domain *d, stator_diag **err)
{
    for (uint32_t i = 0; i < calls->n; i++) {
        const st_late_range *range = &calls->ranges[i];
        for (st_stream *s = NULL; (s = next_stream(d, range, s)) != NULL;) {
            if (d->tells_late) {
                examine(s, range);
            } else { /* what fails there is kept for the range */
                (void)st_stream_wait(s, NULL);
            }
        }
    }
    ST_TRY(st_late_known(calls, d, err));
    calls->n = 0;
    return STATOR_OK;
}
