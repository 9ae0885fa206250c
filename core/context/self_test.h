/* A backend's test of itself on one of its devices (the slot self_test). */
#ifndef STATOR_CONTEXT_SELF_TEST_H
#define STATOR_CONTEXT_SELF_TEST_H

#include "core/context/nested.h"

/* Before a compile: tests what no run has found right yet. Nothing is asked of a backend without
 * the slot, or whose option self_test is off. UNAVAILABLE: the device cannot be used, with what is
 * wrong and a hint. */
stator_status st_self_test_once(stator_instance *instance, stator_diag **err);
/* Tests, whatever is known; *out_ns: how long it took. UNIMPLEMENTED: the backend has no test. */
stator_status st_self_test_now(stator_instance *instance, uint64_t *out_ns, stator_diag **err);

#endif
