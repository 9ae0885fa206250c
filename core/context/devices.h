/* Devices of a context: the memory domain of each that is in use, opened by the first instance of a
 * backend on it and kept to the context's end, since tensors outlive functions.
 *
 * The domain keeps that first instance: its slots serve the memory, streams and events that all
 * instances on the device use. */
#ifndef STATOR_CONTEXT_DEVICES_H
#define STATOR_CONTEXT_DEVICES_H

#include "core/context/nested.h"

/* Gives a new instance the domain of the memory that its backend says it works in. */
stator_status st_device_attach(stator_instance *instance, stator_diag **err);
/* "NAME:N" or "NAME" (device 0) taken apart: a backend's name and the number of one of its devices.
 * INVALID_ARGUMENT: it is not of that form; NOT_FOUND: no device has such a number. */
stator_status st_device_parse(const char *text, char *out_name, uint32_t name_bytes,
                              uint32_t *out_device, stator_diag **err);
/* The domain of device "NAME:N", opened now where nothing uses it yet; *out is NULL for "cpu" and
 * for a device of a backend whose memory is the host's. */
stator_status st_device_find(stator_ctx *ctx, const char *text, st_domain **out_domain,
                             stator_diag **err);
/* The same without opening: *out is NULL too where the device is not in use. */
stator_status st_device_in_use(stator_ctx *ctx, const char *text, st_domain **out_domain,
                               stator_diag **err);
/* The domain in use that a tensor's memory on this device lies in. FAILED_PRECONDITION: there is
 * none; INVALID_ARGUMENT, from the backend: the address is none of the device, or the tensor ends
 * outside of what was allocated there. Backends that share a device are each asked. */
stator_status st_device_of_memory(stator_ctx *ctx, DLDevice device, const st_reach *reach,
                                  st_domain **out_domain, stator_diag **err);
/* Does the host read a tensor there? INVALID_ARGUMENT: it is memory of a device in use, or pinned
 * memory that is too short. */
stator_status st_device_check_host(stator_ctx *ctx, const st_reach *reach, stator_diag **err);
/* Ends the domains; nothing of them is in use any more. */
void st_devices_close(stator_ctx *ctx);

#endif
