/* Status words: how a check inside a kernel becomes an error.
 *
 * A kernel whose check fails writes the origin of the check to a word of pinned memory that was
 * 0. Each call whose kernels check something has a word of its own; it is used again when the
 * stream has been waited for and, if a check has failed, that has been told. A stream on which
 * many calls are queued without a wait shares the words among calls of one executable, so that
 * their number has a bound. */
#include "codegen/gpu/gpu_runtime.h"

#include <string.h>

#define WORDS_APART 64u /* words of a stream before calls share one */

/* ---- the texts ---- */

stator_status gpu_checks_create(st_gpu *gpu, const st_check_text *checks, uint32_t n,
                                gpu_checks **out, stator_diag **err)
{
    gpu_checks *c = st_calloc(gpu->mem, 1, sizeof *c);
    ST_TRY_MEM(c, err);
    c->mem = gpu->mem;
    atomic_init(&c->references, 1);
    c->checks = st_calloc(gpu->mem, (uint64_t)n + 1u, sizeof *c->checks);
    for (uint32_t i = 0; c->checks && i < n; i++) {
        char *text = st_strdup(gpu->mem, checks[i].text);
        if (text == NULL) {
            break;
        }
        c->checks[c->n++] = (st_check_text){checks[i].origin, text};
    }
    if (c->n < n) {
        gpu_checks_release(c);
        return st_fail_oom(err);
    }
    *out = c;
    return STATOR_OK;
}

void gpu_checks_release(gpu_checks *c)
{
    if (atomic_fetch_sub(&c->references, 1) > 1) {
        return;
    }
    for (uint32_t i = 0; i < c->n; i++) {
        st_free(c->mem, (void *)(uintptr_t)c->checks[i].text);
    }
    st_free(c->mem, c->checks);
    st_free(c->mem, c);
}

static const char *text_of(const gpu_checks *c, uint32_t origin)
{
    for (uint32_t i = 0; i < c->n; i++) {
        if (c->checks[i].origin == origin) {
            return c->checks[i].text;
        }
    }
    return "a check inside a kernel failed";
}

/* ---- words ---- */

/* One more page of words, all unused. */
static stator_status add_page(st_gpu *gpu, stator_diag **err)
{
    const uint64_t bytes = GPU_WORDS_PER_PAGE * sizeof(uint32_t);
    void *values = NULL;
    gpu_word_page *page = st_calloc(gpu->mem, 1, sizeof *page);
    ST_TRY_MEM(page, err);
    const stator_status status = gpu->driver->alloc_pinned(gpu->driver->self, bytes, &values, err);
    if (status != STATOR_OK) {
        st_free(gpu->mem, page);
        return status;
    }
    memset(values, 0, bytes);
    page->values = values;
    page->next = gpu->word_pages;
    gpu->word_pages = page;
    for (uint32_t i = 0; i < GPU_WORDS_PER_PAGE; i++) {
        page->words[i] = (gpu_word){.next = gpu->unused_words, .value = &page->values[i]};
        gpu->unused_words = &page->words[i];
    }
    return STATOR_OK;
}

/* A word of earlier calls of the executable, when the stream has many; NULL: none. */
static gpu_word *shared_word(const gpu_stream *stream, const gpu_checks *checks)
{
    gpu_word *word = stream->n_words < WORDS_APART ? NULL : stream->words;
    while (word && word->checks != checks) {
        word = word->next;
    }
    return word;
}

stator_status gpu_word_begin(st_gpu *gpu, gpu_stream *stream, gpu_checks *checks, uint64_t number,
                             gpu_word **out, stator_diag **err)
{
    gpu_word *word = shared_word(stream, checks);
    if (word == NULL) {
        if (gpu->unused_words == NULL) {
            ST_TRY(add_page(gpu, err));
        }
        word = gpu->unused_words;
        gpu->unused_words = word->next;
        word->next = stream->words;
        word->checks = checks;
        word->first_call = number;
        word->n_open = 0;
        stream->words = word;
        stream->n_words++;
        atomic_fetch_add(&checks->references, 1);
    }
    word->last_call = number;
    word->n_open++;
    *out = word;
    return STATOR_OK;
}

void gpu_word_end(gpu_stream *stream, gpu_word *word)
{
    word->n_open--;
    word->epoch = stream->epoch;
}

/* ---- telling ---- */

static stator_status tell(const gpu_word *word, uint32_t value, stator_diag **err)
{
    const bool is_new = err != NULL && *err == NULL;
    const char *text = text_of(word->checks, value);
    stator_status status = STATOR_OUT_OF_RANGE;
    if (word->first_call == word->last_call) {
        status = st_fail(err, status, "%s (in call %llu of the device)", text,
                         (unsigned long long)word->first_call);
    } else {
        status = st_fail(err, status, "%s (in one of the calls %llu to %llu of the device)", text,
                         (unsigned long long)word->first_call, (unsigned long long)word->last_call);
    }
    if (is_new) {
        st_diag_set_hint(*err,
                         "the backend eager names the index and its position for these inputs");
    }
    return status;
}

stator_status gpu_words_check(st_gpu *gpu, const gpu_call *call, stator_diag **err)
{
    stator_status status = STATOR_OK;
    pthread_mutex_lock(&gpu->lock);
    for (const gpu_word *word = call->stream->words; word; word = word->next) {
        const uint32_t value = atomic_load(word->value);
        if (value && word->first_call <= call->number && word->last_call >= call->number) {
            status = tell(word, value, err);
            break;
        }
    }
    pthread_mutex_unlock(&gpu->lock);
    return status;
}

/* Everything that was queued on the stream in the epochs before is done. */
static bool has_ended(const gpu_word *word, uint64_t epoch)
{
    return word->n_open == 0 && word->epoch < epoch;
}

void gpu_words_take_back(st_gpu *gpu, gpu_stream *stream, uint64_t epoch, bool all)
{
    for (gpu_word **at = &stream->words; *at;) {
        gpu_word *word = *at;
        if (has_ended(word, epoch) && (all || atomic_load(word->value) == 0)) {
            atomic_store(word->value, 0);
            *at = word->next;
            word->next = gpu->unused_words;
            gpu->unused_words = word;
            stream->n_words--;
            gpu_checks_release(word->checks);
        } else {
            at = &word->next;
        }
    }
}

/* The words are linked from the newest to the oldest: the oldest that failed is told. */
stator_status gpu_words_tell(st_gpu *gpu, gpu_stream *stream, uint64_t *out_first,
                             uint64_t *out_last, stator_diag **err)
{
    const gpu_word *failed = NULL;
    for (const gpu_word *word = stream->words; word; word = word->next) {
        failed = atomic_load(word->value) ? word : failed;
    }
    if (failed == NULL) {
        return STATOR_OK;
    }
    *out_first = failed->first_call;
    *out_last = failed->last_call;
    const stator_status status = tell(failed, atomic_exchange(failed->value, 0), err);
    gpu_words_take_back(gpu, stream, stream->waited, false);
    return status;
}

void gpu_words_destroy(st_gpu *gpu)
{
    for (uint32_t i = 0; i < gpu->streams.count; i++) {
        for (gpu_word *word = gpu->streams.data[i]->words; word; word = word->next) {
            gpu_checks_release(word->checks);
        }
        gpu->streams.data[i]->words = NULL;
    }
    while (gpu->word_pages) {
        gpu_word_page *next = gpu->word_pages->next;
        gpu->driver->free_pinned(gpu->driver->self, gpu->word_pages->values);
        st_free(gpu->mem, gpu->word_pages);
        gpu->word_pages = next;
    }
}
