/* Contexts: each device has its primary one, whose handle is the device. */
#ifndef STATOR_TESTS_SOFT_CONTEXT_H
#define STATOR_TESTS_SOFT_CONTEXT_H

#include "soft_device.h"

/* The top of the calling thread's stack of contexts; NULL when it is empty. */
soft_device *soft_current_context(void);

#endif
