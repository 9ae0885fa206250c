/* Modules: shared objects that libnvrtc has made, and the kernels in them. */
#ifndef STATOR_TESTS_SOFT_MODULE_H
#define STATOR_TESTS_SOFT_MODULE_H

#include "soft_device.h"

/* Ends all modules of a context that is going. */
void soft_modules_destroy(soft_device *device);

#endif
