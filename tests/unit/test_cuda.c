/* plugins/cuda over libraries that lack something: states, reasons, what a lost context does, and
 * what NVRTC is asked for. tests/plugins/fake_cuda makes the libraries; no GPU is needed. */
#define _GNU_SOURCE
#include "plugins/cuda/cuda_compile.h"
#include "plugins/cuda/cuda_vendor.h"

#include "core/base/diag.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FAKE(name) ST_TEST_BUILD "/tests/fake_cuda/" name ".so"

const char cuda_prelude[] = "#define ST_KERNEL\n";

static stator_diag *err;

static void end(void)
{
    st_diag_release(err);
    err = NULL;
}

TestSuite(cuda, .fini = end);

/* The last failure says `words` and, if a hint is given, `hint`; then it is forgotten. */
static void expect_text(const char *words, const char *hint)
{
    cr_expect_not_null(strstr(st_diag_text(err), words), "no '%s' in '%s'", words,
                       st_diag_text(err));
    if (hint != NULL) {
        cr_assert_not_null(st_diag_hint(err));
        cr_expect_not_null(strstr(st_diag_hint(err), hint), "no '%s' in '%s'", hint,
                           st_diag_hint(err));
    }
    end();
}

/* ---- the driver ---- */

Test(cuda, missing_driver_names_the_file)
{
    st_gpu_native driver;
    cr_expect_eq(st_gpu_native_begin(&driver, &cuda_vendor, "cuda", "/nowhere/libcuda.so.1", &err),
                 STATOR_NOT_FOUND);
    expect_text("the file of the option driver cannot be opened: /nowhere/libcuda.so.1",
                "correct the option driver");
}

Test(cuda, absent_driver_says_where_it_was_looked_for)
{
    void *dso;
    char path[ST_GPU_PATH_BYTES];
    st_gpu_missing why;
    if (st_gpu_open_library(cuda_vendor.driver, NULL, &why, &dso, path)) {
        return; /* a machine with a driver */
    }
    cr_expect_not_null(strstr(why.reason, "no libcuda.so.1 where the dynamic linker looks"));
    cr_expect_not_null(strstr(why.reason, "/usr/lib/wsl/lib"));
    cr_expect_not_null(strstr(why.hint, "nvidia-driver-libs"));
}

Test(cuda, driver_without_a_function_is_too_old)
{
    st_gpu_native driver;
    cr_expect_eq(st_gpu_native_begin(&driver, &cuda_vendor, "cuda", FAKE("cuda_lacks"), &err),
                 STATOR_NOT_FOUND);
    expect_text("has no function cuMemHostAlloc", "CUDA 11 or newer");
}

Test(cuda, driver_without_a_device)
{
    st_gpu_native driver;
    unsetenv("CUDA_VISIBLE_DEVICES");
    cr_expect_eq(st_gpu_native_begin(&driver, &cuda_vendor, "cuda", FAKE("cuda_no_device"), &err),
                 STATOR_UNAVAILABLE);
    expect_text("sees no device", "nvidia-smi");
    setenv("CUDA_VISIBLE_DEVICES", "7", 1);
    cr_expect_eq(st_gpu_native_begin(&driver, &cuda_vendor, "cuda", FAKE("cuda_no_device"), &err),
                 STATOR_UNAVAILABLE);
    expect_text("CUDA_VISIBLE_DEVICES is '7'", "unset it");
}

Test(cuda, driver_that_does_not_fit_the_kernel_module)
{
    st_gpu_native driver;
    cr_expect_eq(st_gpu_native_begin(&driver, &cuda_vendor, "cuda", FAKE("cuda_mismatch"), &err),
                 STATOR_UNAVAILABLE);
    expect_text("803", "restart the machine");
}

/* ---- a device ---- */

static st_gpu_native driver;
static st_gpu_context device;
static const st_gpu_open_options plain = {.compiler = FAKE("nvrtc")};

static void open_device(const char *file)
{
    cr_assert_eq(st_gpu_native_begin(&driver, &cuda_vendor, "cuda", file, &err), STATOR_OK, "%s",
                 st_diag_text(err));
    cr_assert_eq(st_gpu_context_open(&device, &driver, 0, &plain, &err), STATOR_OK, "%s",
                 st_diag_text(err));
}

Test(cuda, device_is_described)
{
    open_device(FAKE("cuda"));
    const st_gpu_device *d = &device.table.device;
    cr_expect_str_eq(d->name, "Fake H100");
    cr_expect_str_eq(d->arch, "sm_90");
    cr_expect_eq(d->warp_size, 32);
    cr_expect_eq(d->n_multiprocessors, 132);
    cr_expect_eq(d->shared_bytes, 49152);
    cr_expect_eq(d->memory_bytes, 8u << 20);
    st_gpu_context_close(&device);
}

Test(cuda, device_that_is_not_there)
{
    cr_assert_eq(st_gpu_native_begin(&driver, &cuda_vendor, "cuda", FAKE("cuda"), &err), STATOR_OK);
    cr_expect_eq(st_gpu_context_open(&device, &driver, 5, &plain, &err), STATOR_NOT_FOUND);
    expect_text("there is no device cuda:5: the driver sees 2", NULL);
    cr_expect_eq(st_gpu_context_open(&device, &driver, 1, &plain, &err), STATOR_UNAVAILABLE);
    expect_text("cuda:1 is in the compute mode 'prohibited'", NULL);
}

Test(cuda, memory_goes_there_and_back_and_is_counted)
{
    st_gpu_address p = 0;
    uint32_t word = 0;
    uint32_t back = 0;
    open_device(FAKE("cuda"));
    const st_gpu_driver *t = &device.table;
    cr_assert_eq(t->alloc(t->self, 4096, &p, &err), STATOR_OK);
    cr_expect_eq(atomic_load(&device.held_bytes), 4096);
    word = 0x01020304;
    cr_expect_eq(t->fill(t->self, p, 0xff, 4096, NULL, &err), STATOR_OK);
    cr_expect_eq(t->copy_to_device(t->self, p, &word, sizeof word, NULL, &err), STATOR_OK);
    cr_expect_eq(t->copy_on_device(t->self, p + 8, p, sizeof word, NULL, &err), STATOR_OK);
    cr_expect_eq(t->copy_to_host(t->self, &back, p + 8, sizeof back, NULL, &err), STATOR_OK);
    cr_expect_eq(back, word);
    t->free(t->self, p);
    t->free(t->self, 0);
    cr_expect_eq(atomic_load(&device.held_bytes), 0);
    st_gpu_context_close(&device);
}

Test(cuda, address_of_another_memory_is_refused)
{
    static const char *const texts[] = {"one of host memory, or of memory that has",
                                        "one of pinned host memory",
                                        "an address of cuda:1; expected one of cuda:0"};
    open_device(FAKE("cuda"));
    for (uintptr_t page = 0; page < 3; page++) {
        const void *p = (const void *)(page * 4096u + 16u);
        cr_expect_eq(st_gpu_check_address(&device, p, &err), STATOR_INVALID_ARGUMENT);
        expect_text(texts[page], NULL);
    }
    cr_expect_eq(st_gpu_check_address(&device, (const void *)(uintptr_t)16384, &err), STATOR_OK);
    st_gpu_context_close(&device);
}

Test(cuda, out_of_memory_says_what_was_asked_and_what_is_free)
{
    st_gpu_address p = 0;
    st_gpu_address kept = 0;
    open_device(FAKE("cuda"));
    const st_gpu_driver *t = &device.table;
    cr_assert_eq(t->alloc(t->self, 1000, &kept, &err), STATOR_OK);
    cr_expect_eq(t->alloc(t->self, 2 << 20, &p, &err), STATOR_RESOURCE_EXHAUSTED);
    cr_expect_eq(p, 0);
    expect_text("no memory for 2097152 bytes: 1048576 of 8388608 bytes are free, this backend "
                "holds 1000",
                NULL);
    t->free(t->self, kept);
    st_gpu_context_close(&device);
}

/* A thread's own context is there again behind each call; a thread without one keeps ours. */
Test(cuda, context_of_the_thread_is_put_back)
{
    uint64_t free_bytes = 0;
    uint64_t total_bytes = 0;
    void *other = (void *)(uintptr_t)&plain;
    void *now = NULL;
    open_device(FAKE("cuda"));
    const st_gpu_driver *t = &device.table;
    driver.api.context_set(other);
    cr_expect_eq(t->memory_info(t->self, &free_bytes, &total_bytes, &err), STATOR_OK);
    driver.api.context_get(&now);
    cr_expect_eq(now, other);
    driver.api.context_set(NULL);
    cr_expect_eq(t->memory_info(t->self, &free_bytes, &total_bytes, &err), STATOR_OK);
    driver.api.context_get(&now);
    cr_expect_eq(now, device.context);
    st_gpu_context_close(&device);
}

Test(cuda, launch_hands_the_struct_of_arguments_over)
{
    void *module = NULL;
    void *function = NULL;
    uint64_t arguments[2] = {0, 0};
    open_device(FAKE("cuda"));
    const st_gpu_driver *t = &device.table;
    cr_assert_eq(t->module_load(t->self, "image", 6, &module, &err), STATOR_OK);
    cr_assert_eq(t->module_function(t->self, module, "k", &function, &err), STATOR_OK);
    const st_gpu_launch launch = {.function = function,
                                  .blocks = {3, 2, 1},
                                  .threads = 128,
                                  .arguments = arguments,
                                  .argument_bytes = sizeof arguments};
    cr_expect_eq(t->launch(t->self, &launch, NULL, &err), STATOR_OK);
    cr_expect_eq(arguments[0], 3u * 2u * 128u);
    cr_expect_eq(t->module_function(t->self, module, "absent", &function, &err), STATOR_INTERNAL);
    expect_text("looking a kernel up in its image failed", NULL);
    cr_expect_eq(t->module_load(t->self, "!", 2, &module, &err), STATOR_INTERNAL);
    expect_text("the driver is older than NVRTC", NULL);
    cr_expect_eq(t->module_load(t->self, "?", 2, &module, &err), STATOR_INTERNAL);
    expect_text("the driver is of an older release of CUDA than NVRTC", NULL);
    st_gpu_context_close(&device);
}

/* The call that meets the loss tells it, and so does every later one; nothing reaches the
 * driver. */
Test(cuda, lost_context_answers_unavailable_for_good)
{
    uint64_t arguments[1] = {0};
    void *stream = NULL;
    open_device(FAKE("cuda_lost"));
    const st_gpu_driver *t = &device.table;
    const st_gpu_launch launch = {
        .function = &stream, .blocks = {1, 1, 1}, .threads = 1, .arguments = arguments};
    cr_expect_eq(t->launch(t->self, &launch, NULL, &err), STATOR_UNAVAILABLE);
    expect_text("the context of cuda:0 is lost, seen while launching a kernel "
                "(CUDA_ERROR_ILLEGAL_ADDRESS, 700, an illegal memory access was encountered); "
                "start a new process",
                "compute-sanitizer");
    cr_expect_eq(t->stream_create(t->self, &stream, &err), STATOR_UNAVAILABLE);
    expect_text("the context of cuda:0 is lost (CUDA_ERROR_ILLEGAL_ADDRESS, 700", NULL);
    t->free(t->self, 4096); /* goes no further: the context has taken its memory with it */
    st_gpu_context_close(&device);
}

Test(cuda, child_made_by_fork_is_refused)
{
    st_gpu_address p = 0;
    int status = 0;
    open_device(FAKE("cuda"));
    const st_gpu_driver *t = &device.table;
    const pid_t child = fork();
    if (child == 0) {
        const stator_status answer = t->alloc(t->self, 64, &p, &err);
        const bool is_right = answer == STATOR_FAILED_PRECONDITION &&
                              strstr(st_diag_text(err), "does not survive fork") != NULL;
        _exit(is_right ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect_eq(status, 0);
    cr_assert_eq(t->alloc(t->self, 64, &p, &err), STATOR_OK, "the parent goes on");
    t->free(t->self, p);
    st_gpu_context_close(&device);
}

/* ---- NVRTC ---- */

static st_mem mem;
static st_str image;

static stator_status compile(const char *nvrtc, const char *arch, const char *text)
{
    cuda_compiler compiler;
    st_mem_init(&mem, NULL, NULL, NULL, 0);
    st_str_init(&image, &mem);
    cuda_compiler_init(&compiler, nvrtc);
    const stator_status status =
        cuda_compile(&compiler, arch, "add_mul", text, strlen(text), &image, &err);
    cuda_compiler_deinit(&compiler);
    return status;
}

Test(cuda, kernel_is_compiled_for_the_device)
{
    cr_assert_eq(compile(FAKE("nvrtc"), "sm_90", "body"), STATOR_OK, "%s", st_diag_text(err));
    cr_expect_str_eq(image.data, "--gpu-architecture=sm_90\n--std=c++17\n--fmad=false\n-minimal\n"
                                 "add_mul.cu: body");
    cr_expect_eq(image.len, strlen(image.data) + 1, "the 0 is part of the image");
    st_str_deinit(&image);
}

Test(cuda, device_newer_than_nvrtc_gets_ptx)
{
    cr_assert_eq(compile(FAKE("nvrtc"), "sm_120", "body"), STATOR_OK);
    cr_expect_not_null(strstr(image.data, "--gpu-architecture=compute_100\n"));
    st_str_deinit(&image);
    cr_assert_eq(compile(FAKE("nvrtc"), "compute_90", "body"), STATOR_OK);
    cr_expect_not_null(strstr(image.data, "--gpu-architecture=compute_90\n"));
    st_str_deinit(&image);
}

Test(cuda, device_older_than_nvrtc_is_unsupported)
{
    cr_expect_eq(compile(FAKE("nvrtc"), "sm_70", "body"), STATOR_UNSUPPORTED);
    expect_text("makes code for sm_75 and newer, and the device, or the option arch, is sm_70",
                NULL);
    cr_expect_eq(compile(FAKE("nvrtc"), "H100", "body"), STATOR_INVALID_ARGUMENT);
    expect_text("'H100' is no architecture", NULL);
    st_str_deinit(&image);
}

Test(cuda, old_nvrtc_is_not_asked_for_minimal_headers)
{
    cr_assert_eq(compile(FAKE("nvrtc_old"), "sm_90", "body"), STATOR_OK);
    cr_expect_null(strstr(image.data, "-minimal"));
    st_str_deinit(&image);
}

/* Its functions are taken by name: a newer one serves, and what it refuses says its version. */
Test(cuda, newer_nvrtc_is_used)
{
    cr_assert_eq(compile(FAKE("nvrtc_new"), "sm_90", "body"), STATOR_OK, "%s", st_diag_text(err));
    st_str_deinit(&image);
    cr_expect_eq(compile(FAKE("nvrtc_new"), "sm_90", "refused"), STATOR_INTERNAL);
    expect_text("NVRTC 99.0 cannot compile the kernel", NULL);
    st_str_deinit(&image);
}

Test(cuda, refused_kernel_shows_log_and_numbered_text)
{
    cr_expect_eq(compile(FAKE("nvrtc"), "sm_90", "first\nrefused"), STATOR_INTERNAL);
    cr_expect_not_null(strstr(st_diag_text(err), "text:\n    k.cu(2): error: no\n    x\n"));
    cr_expect_not_null(strstr(st_diag_text(err), "   2  refused"));
    expect_text("cannot compile the kernel 'add_mul' for sm_90", NULL);
    st_str_deinit(&image);
}

Test(cuda, missing_nvrtc_is_unavailable)
{
    cr_expect_eq(compile("/nowhere/libnvrtc.so.13", "sm_90", "body"), STATOR_UNAVAILABLE);
    expect_text("the file of the option nvrtc cannot be opened", "correct the option nvrtc");
    st_str_deinit(&image);
}
