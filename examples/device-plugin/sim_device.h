/* A simulated device: memory at addresses that the host cannot read, and streams that work when
 * they like, each on a thread of its own. It has nothing of Stator.
 *
 * A device address is the host's plus SIM_OFFSET, beyond what the host can address: who reads
 * through it gets a signal at once. Work is done in the order of its stream; nothing orders two
 * streams but events, each of which has one caller at a time. Threads: any, at once. Functions
 * that make something give NULL or false without memory. */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_OFFSET (UINT64_C(1) << 48)
#define SIM_ALIGNMENT 256u
#define SIM_MEMORY (UINT64_C(1) << 30) /* the largest block */

typedef struct sim_stream sim_stream;
/* A point in a stream's work; zeros: none. */
typedef struct sim_event {
    sim_stream *stream;
    uint64_t number;
} sim_event;

/* The host's pointer behind a device address, for code that runs on the device alone. */
static inline void *sim_host(const void *device_address)
{
    return (void *)((uintptr_t)device_address - SIM_OFFSET);
}

void *sim_alloc(uint64_t bytes);
/* Once the stream has done what is queued on it; NULL: at once. */
void sim_free(void *p, sim_stream *stream);

/* Each piece of its work begins after a delay, to show who does not wait for it. */
sim_stream *sim_stream_create(uint32_t delay_us);
void sim_stream_destroy(sim_stream *stream); /* waits for it */
/* Waits for what is queued; the text of the first failure since the last wait, or NULL. */
const char *sim_stream_wait(sim_stream *stream);

/* A function on the stream's thread, with a copy of at most SIM_ARGUMENTS bytes of arguments. It
 * answers NULL, or what went wrong: a text that lives for ever. */
#define SIM_ARGUMENTS 256u
typedef const char *(*sim_function)(void *arguments);
bool sim_launch(sim_stream *stream, sim_function function, const void *arguments, size_t size);

void sim_event_record(sim_event *event, sim_stream *stream);
/* The stream goes on when the event's last record has been reached. */
bool sim_event_wait(const sim_event *event, sim_stream *stream);

#endif
