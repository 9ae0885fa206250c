/* The cases that soft_test_main.c runs; each is a program of its own. */
#ifndef STATOR_TESTS_SOFT_TEST_CASES_H
#define STATOR_TESTS_SOFT_TEST_CASES_H

#include "soft_test.h"

/* soft_test_kernels.c */
void case_pointwise(void);
void case_softmax(void);
void case_missing_barrier(void);
void case_divergent_barrier(void);
void case_ended_thread(void);
void case_lane_missing(void);
void case_shuffle_width(void);
void case_past_the_end(void);
void case_no_address(void);
void case_null_address(void);
void case_misaligned(void);
void case_division(void);
void case_stack(void);
void case_host_pointer(void);
void case_use_after_free(void);
void case_host_dereference(void);
void case_functions(void);
void case_does_not_compile(void);
void case_options(void);
void case_limits(void);
void case_small_chip(void);

/* soft_test_streams.c */
void case_streams(void);
void case_events(void);
void case_no_handles(void);
void case_legacy_stream(void);
void case_pinned(void);
void case_copies(void);
void case_source_gone(void);
void case_threads(void);
void case_two_devices(void);
void case_one_device(void);

/* soft_test_faults.c */
void case_fail_alloc(void);
void case_fail_pinned(void);
void case_fail_launch(void);
void case_fail_lost(void);
void case_leak(void);
void case_double_free(void);
void case_beside(void);
void case_fork(void);
void case_proc_address(void);
void case_bad_option(void);

#endif
