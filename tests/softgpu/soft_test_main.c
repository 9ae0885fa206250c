/* Tests of the software device. Each row is a process: what it runs, with which options, how it
 * must end, and what it must say. */
#include "soft_test_cases.h"

#define LEAKS_OK "STATOR_SOFT_LEAKS=0"
#define MISUSE_STATUS 67 /* docs/softgpu.md */
#define SEGV_STATUS (128 + 11)

/* clang-format off */
static const soft_case cases[] = {
    {"pointwise", case_pointwise, NULL, 0, NULL},
    {"pointwise ascending", case_pointwise, "STATOR_SOFT_ORDER=ascending", 0, NULL},
    {"pointwise descending", case_pointwise, "STATOR_SOFT_ORDER=descending", 0, NULL},
    {"pointwise for a debugger", case_pointwise,
     "STATOR_SOFT_DEBUG=1 TMPDIR=" ST_TEST_BUILD "/tests/softgpu", 0, NULL},
    {"softmax", case_softmax, LEAKS_OK, 0, NULL},
    {"softmax in another order", case_softmax, LEAKS_OK " STATOR_SOFT_ORDER=random:77", 0, NULL},
    {"softmax descending", case_softmax, LEAKS_OK " STATOR_SOFT_ORDER=descending", 0, NULL},
    {"softmax on one thread", case_softmax, LEAKS_OK " STATOR_SOFT_THREADS=1", 0, NULL},
    {"functions", case_functions, LEAKS_OK, 0, NULL},
    {"missing barrier", case_missing_barrier, LEAKS_OK, 0, NULL},
    {"divergent barrier", case_divergent_barrier, LEAKS_OK " STATOR_SOFT_ORDER=ascending", 0,
     "thread 0 waits at the barrier of line 5, but thread 32 waits at the barrier of line 4; "
     "all threads of a block must meet there"},
    {"ended thread", case_ended_thread, LEAKS_OK, 0,
     "thread 32 waits at the barrier of line 5, but thread 63 has ended"},
    {"missing lane", case_lane_missing, LEAKS_OK, 0, "waits at the shuffle of line 6, but thread"},
    {"shuffle beyond the warp", case_shuffle_width, LEAKS_OK, 0, "but its warp has 16 lanes"},
    {"past the end", case_past_the_end, LEAKS_OK, 0,
     "thread 63 writes byte 256 of an allocation of 256 bytes"},
    {"address without ST_GLOBAL", case_no_address, LEAKS_OK, 0, "without ST_GLOBAL?"},
    {"null address", case_null_address, LEAKS_OK, 0, "at device address 8"},
    {"misaligned", case_misaligned, LEAKS_OK, 0, "that is not aligned to its type"},
    {"division by zero", case_division, LEAKS_OK, 0, "division by zero"},
    {"stack", case_stack, LEAKS_OK, 0, "has used up its stack"},
    {"host pointer", case_host_pointer, LEAKS_OK, 0, "reads memory of the host"},
    {"use after free", case_use_after_free, LEAKS_OK, 0, "reads memory that has been freed"},
    {"host reads device memory", case_host_dereference, LEAKS_OK, SEGV_STATUS, NULL},
    {"does not compile", case_does_not_compile, LEAKS_OK, 1, "unknown"},
    {"compiler's options", case_options, LEAKS_OK, 0, NULL},
    {"no compiler", case_pointwise, LEAKS_OK " STATOR_SOFT_CC=/no/cc", 1,
     "/no/cc"},
    {"limits", case_limits, LEAKS_OK, 0, NULL},
    {"small chip", case_small_chip, LEAKS_OK " STATOR_SOFT_CHIP=small", 0, NULL},
    {"streams and events", case_streams, NULL, 0, NULL},
    {"events", case_events, LEAKS_OK, 0, NULL},
    {"what is no handle", case_no_handles, NULL, 0, "or none at all"},
    {"stream 0", case_legacy_stream, LEAKS_OK, 0, NULL},
    {"pinned memory", case_pinned, "STATOR_SOFT_LEAKS=1", MISUSE_STATUS, NULL},
    {"copies", case_copies, LEAKS_OK, 0, NULL},
    {"source of a copy gone", case_source_gone, LEAKS_OK, 0, "a copy reads host memory"},
    {"host threads", case_threads, NULL, 0, NULL},
    {"two devices", case_two_devices, "STATOR_SOFT_DEVICES=2", 0, NULL},
    {"one device of two", case_one_device, "STATOR_SOFT_DEVICES=2 CUDA_VISIBLE_DEVICES=1", 0, NULL},
    {"out of memory", case_fail_alloc, "STATOR_SOFT_FAIL=alloc:2", 0, NULL},
    {"out of pinned memory", case_fail_pinned, "STATOR_SOFT_FAIL=pinned:1", 0, NULL},
    {"launch refused", case_fail_launch, "STATOR_SOFT_FAIL=alloc:9,launch:2", 0, NULL},
    {"device lost", case_fail_lost, "STATOR_SOFT_FAIL=lost:1", 0, "the device is lost"},
    {"leak", case_leak, NULL, MISUSE_STATUS, "allocation 1 of 100 bytes was not freed"},
    {"leak that is allowed", case_leak, LEAKS_OK, 0, NULL},
    {"double free", case_double_free, NULL, MISUSE_STATUS, "has been freed before"},
    {"write beside an allocation", case_beside, NULL, MISUSE_STATUS,
     "memory was written 12 bytes from the begin of an allocation of 12 bytes"},
    {"fork", case_fork, NULL, 0, NULL},
    {"cuGetProcAddress", case_proc_address, NULL, 0, NULL},
    {"unknown chip", case_bad_option, "STATOR_SOFT_CHIP=sm_1", 1, "expected sm_90, small or wave64"},
    {"unknown order", case_bad_option, "STATOR_SOFT_ORDER=odd", 1, "expected ascending"},
    {"unknown fault", case_bad_option, "STATOR_SOFT_FAIL=alloc:0", 1, "expected alloc:N"},
    {"no thread", case_bad_option, "STATOR_SOFT_THREADS=0", 1, "expected a number from 1 to 2"},
};
/* clang-format on */

int main(void)
{
    return soft_run_cases(cases, sizeof(cases) / sizeof(cases[0])) == 0 ? 0 : 1;
}
