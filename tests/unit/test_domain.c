/* Memory domains over a device that counts: free blocks are found again, also by another stream,
 * which follows first; a full device is asked again once free blocks are back. */
#include "core/runtime/tensor.h"

#include <criterion/criterion.h>
#include <stdlib.h>

typedef struct counting {
    uint64_t cap, used;
    uint32_t n_allocs, n_frees, n_streams, n_records, n_waits, n_copies, n_synchronized;
    uint32_t direction; /* of the last copy */
} counting;

static stator_status dev_alloc(void *self, uint64_t size, void *stream, void **out,
                               stator_diag **err)
{
    counting *c = self;
    (void)stream;
    if (size > c->cap - c->used) {
        return st_fail(err, STATOR_RESOURCE_EXHAUSTED, "it is full");
    }
    *out = aligned_alloc(256, (size + 255u) / 256u * 256u);
    c->used += size;
    c->n_allocs++;
    return STATOR_OK;
}

static void dev_free(void *self, void *p, void *stream)
{
    counting *c = self;
    (void)stream;
    c->used = 0; /* the tests free everything at once */
    c->n_frees++;
    free(p);
}

static stator_status dev_copy(void *self, void *dst, const void *src, uint64_t size,
                              uint32_t direction, void *stream, stator_diag **err)
{
    counting *c = self;
    (void)stream, (void)err;
    memcpy(dst, src, size);
    c->direction = direction;
    c->n_copies++;
    return STATOR_OK;
}

static stator_status dev_fill(void *self, void *dst, uint8_t value, uint64_t size, void *stream,
                              stator_diag **err)
{
    (void)self, (void)stream, (void)err;
    memset(dst, value, size);
    return STATOR_OK;
}

static stator_status dev_create(void *self, void **out, stator_diag **err)
{
    counting *c = self;
    (void)err;
    c->n_streams++;
    *out = self;
    return STATOR_OK;
}

static void dev_destroy(void *self, void *stream)
{
    (void)self, (void)stream;
}

static stator_status dev_synchronize(void *self, void *stream, stator_diag **err)
{
    counting *c = self;
    (void)stream, (void)err;
    c->n_synchronized++;
    return STATOR_OK;
}

static stator_status dev_record(void *self, void *event, void *stream, stator_diag **err)
{
    counting *c = self;
    (void)event, (void)stream, (void)err;
    c->n_records++;
    return STATOR_OK;
}

static stator_status dev_wait(void *self, void *event, void *stream, stator_diag **err)
{
    counting *c = self;
    (void)event, (void)stream, (void)err;
    c->n_waits++;
    return STATOR_OK;
}

static const st_device_ops ops = {.alloc = dev_alloc,
                                  .free = dev_free,
                                  .copy = dev_copy,
                                  .fill = dev_fill,
                                  .stream_create = dev_create,
                                  .stream_destroy = dev_destroy,
                                  .synchronize = dev_synchronize,
                                  .event_create = dev_create,
                                  .event_destroy = dev_destroy,
                                  .event_record = dev_record,
                                  .event_wait = dev_wait};

typedef struct world {
    st_mem mem;
    st_pool pool;
    counting device;
    st_domain domain;
    st_stream *a, *b;
} world;

static void open_world(world *w, uint64_t cap)
{
    *w = (world){.device = {.cap = cap}};
    st_mem_init(&w->mem, NULL, NULL, NULL, 0);
    st_pool_init(&w->pool, &w->mem);
    w->domain = (st_domain){.ops = &ops, .self = &w->device, .alignment = 256, .name = "toy:0"};
    st_domain_init(&w->domain, &w->mem, &w->pool);
    cr_assert_eq(st_stream_acquire(&w->domain, &w->a, NULL), STATOR_OK);
    cr_assert_eq(st_stream_acquire(&w->domain, &w->b, NULL), STATOR_OK);
    cr_assert_neq(w->a, w->b);
}

static void close_world(world *w)
{
    st_stream_release(w->a);
    st_stream_release(w->b);
    st_domain_deinit(&w->domain);
    st_pool_deinit(&w->pool);
    cr_expect_eq(atomic_load(&w->mem.live_blocks), 0);
    cr_expect_eq(w->device.n_frees, w->device.n_allocs);
}

static void *take(world *w, uint64_t bytes, st_stream *stream)
{
    void *p = NULL;
    cr_assert_eq(st_domain_take(&w->domain, bytes, stream, &p, NULL), STATOR_OK);
    return p;
}

Test(domain, a_block_is_found_again)
{
    world w;
    open_world(&w, 1u << 20);
    for (uint64_t bytes = 0; bytes < 5000; bytes += 37) {
        void *p = take(&w, bytes, w.a);
        memset(p, 1, bytes); /* address sanitizer: it is long enough */
        st_domain_give(&w.domain, p, bytes, w.a);
        cr_expect_eq(take(&w, bytes, w.a), p);
        st_domain_give(&w.domain, p, bytes, w.a);
    }
    const uint32_t n = w.device.n_allocs;
    st_domain_give(&w.domain, take(&w, 4000, w.a), 4000, w.a);
    cr_expect_eq(w.device.n_allocs, n, "a warm domain takes nothing");
    cr_expect_eq(w.device.n_records, 0, "one stream needs no events");
    close_world(&w);
}

Test(domain, another_stream_follows_first)
{
    world w;
    open_world(&w, 1u << 20);
    void *p = take(&w, 1000, w.a);
    st_domain_give(&w.domain, p, 1000, w.a);
    cr_expect_eq(take(&w, 1000, w.b), p);
    cr_expect(w.device.n_records == 1 && w.device.n_waits == 1);
    void *q = take(&w, 1000, w.a);
    cr_expect_neq(q, p);
    st_domain_give(&w.domain, q, 1000, w.a);
    st_domain_give(&w.domain, p, 1000, w.b);
    cr_expect_eq(take(&w, 1000, w.a), q, "a block of the same stream comes first");
    st_domain_give(&w.domain, q, 1000, NULL);
    cr_expect_eq(take(&w, 1000, w.b), q, "what nobody uses is for every stream");
    cr_expect_eq(w.device.n_records, 1);
    st_domain_give(&w.domain, q, 1000, w.b);
    close_world(&w);
}

Test(domain, a_full_device_is_asked_again)
{
    world w;
    stator_diag *why = NULL;
    void *p = NULL;
    open_world(&w, 8192);
    st_domain_give(&w.domain, take(&w, 6000, w.a), 6000, w.a);
    p = take(&w, 8000, w.b); /* fits once the free block is back */
    cr_expect_eq(w.device.n_frees, 1);
    void *q = NULL;
    cr_expect_eq(st_domain_take(&w.domain, 4096, w.b, &q, &why), STATOR_RESOURCE_EXHAUSTED);
    cr_expect_null(q);
    cr_expect_not_null(strstr(st_diag_text(why), "device toy:0: no memory for 4096 bytes beside "
                                                 "the 8192 that are in use"));
    st_diag_release(why);
    st_domain_give(&w.domain, p, 8000, w.b);
    close_world(&w);
}

Test(domain, copies_say_their_direction)
{
    world w;
    open_world(&w, 1u << 20);
    char bytes[16] = "fifteen letters";
    char back[16] = "";
    void *p = take(&w, 16, w.a);
    void *q = take(&w, 16, w.b);
    cr_assert_eq(st_domain_copy(p, w.a, bytes, NULL, 16, NULL), STATOR_OK);
    cr_expect_eq(w.device.direction, STATOR_COPY_TO_DEVICE);
    cr_assert_eq(st_domain_copy(q, w.b, p, w.a, 16, NULL), STATOR_OK);
    cr_expect_eq(w.device.direction, STATOR_COPY_ON_DEVICE);
    cr_expect_eq(w.device.n_records, 1, "b follows a");
    cr_assert_eq(st_domain_copy(back, NULL, q, w.b, 16, NULL), STATOR_OK);
    cr_expect_eq(w.device.direction, STATOR_COPY_TO_HOST);
    cr_expect_str_eq(back, "fifteen letters");
    cr_assert_eq(st_domain_copy(p, w.a, bytes, NULL, 0, NULL), STATOR_OK);
    cr_expect_eq(w.device.n_copies, 3, "nothing is queued for no bytes");
    st_domain_give(&w.domain, p, 16, w.a);
    st_domain_give(&w.domain, q, 16, w.b);
    close_world(&w);
}

Test(domain, a_stream_that_was_waited_for_is_not_followed)
{
    world w;
    open_world(&w, 1u << 20);
    void *p = take(&w, 1000, w.a);
    st_domain_give(&w.domain, p, 1000, w.a);
    cr_assert_eq(st_stream_wait(w.a, NULL), STATOR_OK);
    cr_assert_eq(st_stream_wait(w.a, NULL), STATOR_OK);
    cr_expect_eq(w.device.n_synchronized, 1, "a stream with nothing on it is not waited for");
    cr_expect_eq(take(&w, 1000, w.b), p);
    cr_expect_eq(w.device.n_records, 0);
    st_domain_give(&w.domain, p, 1000, w.b);
    close_world(&w);
}

Test(domain, a_callers_stream_is_found_again_and_stays_the_callers)
{
    world w;
    int handle = 0;
    st_stream *first = NULL;
    st_stream *again = NULL;
    open_world(&w, 1u << 20);
    const uint32_t n = w.device.n_streams;
    cr_assert_eq(st_stream_of_caller(&w.domain, &handle, &first, NULL), STATOR_OK);
    cr_assert_eq(st_stream_of_caller(&w.domain, &handle, &again, NULL), STATOR_OK);
    cr_expect_eq(first, again);
    cr_expect_eq(w.device.n_streams, n + 1u, "an event alone");
    st_stream_release(first);
    cr_assert_eq(st_stream_acquire(&w.domain, &again, NULL), STATOR_OK);
    cr_expect_neq(first, again, "nobody else gets it");
    st_stream_release(again);
    close_world(&w);
}

Test(domain, readers_of_a_tensor_do_not_follow_readers)
{
    static const int64_t shape[1] = {8};
    world w;
    stator_tensor *t = NULL;
    st_stream *streams[ST_TENSOR_READERS + 1u];
    open_world(&w, 1u << 20);
    cr_assert_eq(st_tensor_create_on(&w.domain, w.a, STATOR_F32, 1, shape, &t, NULL), STATOR_OK);
    for (uint32_t i = 0; i <= ST_TENSOR_READERS; i++) {
        cr_assert_eq(st_stream_acquire(&w.domain, &streams[i], NULL), STATOR_OK);
        st_stream_note(streams[i]);
    }
    cr_assert_eq(st_tensor_read(t, streams[0], NULL), STATOR_OK);
    cr_assert_eq(st_tensor_read(t, streams[1], NULL), STATOR_OK);
    cr_assert_eq(st_tensor_read(t, streams[0], NULL), STATOR_OK);
    cr_expect_eq(w.device.n_records, 2, "each follows the writer, once");
    cr_assert_eq(st_tensor_write(t, w.b, NULL), STATOR_OK);
    cr_expect_eq(w.device.n_records, 5, "a writer follows the writer and both readers");
    for (uint32_t i = 0; i <= ST_TENSOR_READERS; i++) {
        cr_assert_eq(st_tensor_read(t, streams[i], NULL), STATOR_OK);
    }
    cr_expect_eq(w.device.n_records, 11, "the reader without room follows one more");
    stator_tensor_release(t);
    for (uint32_t i = 0; i <= ST_TENSOR_READERS; i++) {
        st_stream_release(streams[i]);
    }
    close_world(&w);
}

/* A matrix of 4 by 6 of which every second column is taken: 4 rows of 3, of one axis each. */
Test(domain, strided_copies_merge_axes)
{
    world w;
    float from[24];
    float to[12];
    open_world(&w, 1u << 20);
    for (int i = 0; i < 24; i++) {
        from[i] = (float)i;
    }
    stator_strided_copy layout = {.struct_size = sizeof layout,
                                  .rank = 3,
                                  .item_bytes = sizeof(float),
                                  .sizes = (const int64_t[]){4, 1, 3},
                                  .dst_strides = (const int64_t[]){12, 4, 4},
                                  .src_strides = (const int64_t[]){24, 99, 8}};
    cr_assert_eq(st_domain_copy_strided(to, from, &layout, NULL, NULL), STATOR_OK);
    for (int i = 0; i < 12; i++) {
        cr_expect_eq(to[i], (float)(2 * i));
    }
    layout.src_strides = (const int64_t[]){24, 99, 4}; /* rows of 12 bytes */
    cr_assert_eq(st_domain_copy_strided(to, from, &layout, w.a, NULL), STATOR_OK);
    cr_expect_eq(w.device.n_copies, 4, "one for each row");
    cr_expect(to[2] == 2 && to[3] == 6 && to[11] == 20);
    layout.src_strides = layout.dst_strides;
    cr_assert_eq(st_domain_copy_strided(to, from, &layout, w.a, NULL), STATOR_OK);
    cr_expect_eq(w.device.n_copies, 5, "one for all");
    close_world(&w);
}
