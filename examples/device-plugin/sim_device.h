/* A simulated device: memory at addresses that the host cannot read, and streams that work when
 * they like, each on a thread of its own. It has nothing of Stator.
 *
 * A device address is the host's plus SIM_OFFSET, so that who reads through it on the host gets a
 * signal at once. Work is queued and done in the order of its stream; nothing orders two streams
 * but events. Threads: any, at once. Functions that make something give NULL without memory. */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_OFFSET (UINT64_C(1) << 46)
#define SIM_ALIGNMENT 256u

typedef struct sim_stream sim_stream;
typedef struct sim_event sim_event;

/* The host's pointer behind a device address, for code that runs on the device alone. */
static inline void *sim_host(const void *device_address)
{
    return (void *)((uintptr_t)device_address - SIM_OFFSET);
}

/* Is it an address of the device? */
bool sim_is_device(const void *p);
void *sim_alloc(uint64_t bytes);
void sim_free(void *p); /* nothing that is queued may use it */

/* Each piece of its work begins after a delay, to show who does not wait for it. */
sim_stream *sim_stream_create(uint32_t delay_us);
void sim_stream_destroy(sim_stream *stream); /* waits for it */
/* Waits for what is queued; the text of the first failure since the last wait, or NULL. */
const char *sim_stream_wait(sim_stream *stream);

/* A function on the stream's thread, with a copy of `size` bytes of arguments (at most
 * SIM_ARGUMENTS). It answers NULL, or what went wrong: a text that lives for ever. False without
 * memory. */
#define SIM_ARGUMENTS 256u
typedef const char *(*sim_function)(void *arguments);
bool sim_launch(sim_stream *stream, sim_function function, const void *arguments, size_t size);

sim_event *sim_event_create(void);
void sim_event_destroy(sim_event *event);
bool sim_event_record(sim_event *event, sim_stream *stream);
/* The stream goes on when the last record of the event has been reached. */
bool sim_event_wait(sim_event *event, sim_stream *stream);

#endif
