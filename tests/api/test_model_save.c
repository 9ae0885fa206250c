/* stator_model_save over the file that the model was read from, again and again: data that its
 * own saves have written are removed when the next one replaces them, unless a file beside them
 * names them; data that were there before stay. A file that was cut since it was loaded is
 * refused, or no matter to a model that was copied. */
#define _GNU_SOURCE
#include "api_check.h"

#include <dirent.h>
#include <stator/inspect.h>
#include <stator/train.h>
#include <unistd.h>

/* y = x * w + f, of f32[2]; w and f lie in w.bin, at 0 and at 8. Made by tests/tools/bad_models.py:
 * model([node("Mul", ["x", "w"], ["h"]), node("Add", ["h", "f"], ["y"])], [value("x", [2])],
 *       [value("y", [2])], [external("w", [2], 1, "w.bin", 0, 8), external("f", ...8, 8)]) */
static const char MODEL[] =
    "\010\010\022\003bad:\277\001\012\023\012\001x\012\001w\022\001h\032\003mul\042\003"
    "Mul\012\023\012\001h\012\001f\022\001y\032\003add\042\003Add\022\001g*6\010\002\020"
    "\001B\001wj\021\012\010location\022\005w.binj\013\012\006offset\022\0010j\013\012"
    "\006length\022\0018p\001*6\010\002\020\001B\001fj\021\012\010location\022\005w.b"
    "inj\013\012\006offset\022\0018j\013\012\006length\022\0018p\001Z\017\012\001x\022"
    "\012\012\010\010\001\022\004\012\002\010\002b\017\012\001y\022\012\012\010\010\001"
    "\022\004\012\002\010\002B\004\012\000\020\021";
static const float DATA[] = {1, 2, 10, 20};

static void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    CHECK(file != NULL && fwrite(bytes, 1, n, file) == n && fclose(file) == 0);
}

static stator_model *load(stator_ctx *ctx, uint32_t flags)
{
    const stator_load_options options = {.struct_size = sizeof options, .flags = flags};
    stator_model *model = NULL;
    CHECK_OK(ctx, stator_model_load(ctx, "m.onnx", &options, &model));
    return model;
}

/* With w = (a, b). */
static stator_status save(stator_ctx *ctx, const stator_model *model, float a, float b)
{
    const char *name = "w";
    const int64_t n = 2;
    stator_tensor *w = NULL;
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 1, &n, &w));
    memcpy(stator_tensor_data(w), (float[]){a, b}, 2 * sizeof a);
    const stator_status status = stator_model_save(model, "m.onnx", 1, &name, &w);
    stator_tensor_release(w);
    return status;
}

/* The file's model gives (w + f) of x = (1, 1). */
static void expect(stator_ctx *ctx, float a, float b)
{
    const int64_t n = 2;
    stator_model *model = load(ctx, 0);
    stator_function *function = compile_for(ctx, model, "eager");
    stator_tensor *x = NULL, *y = NULL;
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 1, &n, &x));
    memcpy(stator_tensor_data(x), (float[]){1, 1}, 2 * sizeof a);
    CHECK_OK(ctx, stator_call_tensors(function, 1, &x, 1, &y));
    const float *values = stator_tensor_data(y);
    CHECK(values[0] == a && values[1] == b);
    stator_tensor_release(x);
    stator_tensor_release(y);
    stator_function_destroy(function);
    stator_model_destroy(model);
}

/* Data files beside the model; `path` has the last one. */
static uint32_t count_data(char path[300])
{
    uint32_t n = 0;
    DIR *dir = opendir(".");
    const struct dirent *entry = NULL;
    CHECK(dir != NULL);
    while ((entry = readdir(dir)) != NULL) {
        const size_t length = strlen(entry->d_name);
        if (length > 5 && strcmp(entry->d_name + length - 5, ".data") == 0) {
            (void)snprintf(path, 300, "%s", entry->d_name);
            n++;
        }
    }
    (void)closedir(dir);
    return n;
}

static void test_again_and_again(stator_ctx *ctx)
{
    char first[300], last[300];
    stator_model *model = load(ctx, 0);
    CHECK_OK(ctx, save(ctx, model, 3, 4));
    expect(ctx, 13, 24);
    CHECK_OK(ctx, save(ctx, model, 5, 6));
    expect(ctx, 15, 26);
    CHECK(count_data(first) == 1 && access("w.bin", F_OK) == 0);
    stator_model_destroy(model);
    model = load(ctx, 0); /* its f lies in the data of the copy */
    for (int i = 0; i < 3; i++) {
        CHECK_OK(ctx, save(ctx, model, 7, (float)i));
        expect(ctx, 17, 20 + (float)i);
        CHECK(count_data(last) == 2 && access(first, F_OK) == 0);
    }
    CHECK(link("m.onnx", "other.onnx") == 0);
    CHECK_OK(ctx, save(ctx, model, 7, 3)); /* other.onnx goes on to need its data */
    CHECK(count_data(last) == 3 && unlink("other.onnx") == 0);
    stator_model_destroy(model);
    CHECK(count_data(last) == 3 && access(first, F_OK) == 0);
    expect(ctx, 17, 23);
}

/* Asking writes nothing, and names the place that was asked about. */
static void test_asked(stator_ctx *ctx)
{
    char before[300], after[300];
    const char *name = "w";
    const int64_t n = 2;
    stator_tensor *w = NULL;
    stator_model *model = load(ctx, 0);
    const uint32_t count = count_data(before);
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 1, &n, &w));
    CHECK_OK(ctx, stator_x_model_check_save(model, "new.onnx", 1, &name, &w));
    CHECK_OK(ctx, stator_x_model_check_save(model, NULL, 1, &name, &w));
    CHECK(stator_x_model_check_save(model, "/dev/null", 1, &name, &w) == STATOR_UNAVAILABLE);
    CHECK(strstr(stator_ctx_error_text(ctx), "cannot write '/dev/null': the model has data") !=
          NULL);
    CHECK(stator_x_model_check_save(model, "no/new.onnx", 1, &name, &w) == STATOR_UNAVAILABLE);
    CHECK(count_data(after) == count && access("new.onnx", F_OK) != 0);
    stator_tensor_release(w);
    stator_model_destroy(model);
}

/* A model of the same bytes, whatever the file is by now. */
static void test_again(stator_ctx *ctx)
{
    stator_model *model = load(ctx, 1), *again = NULL;
    CHECK(rename("m.onnx", "moved.onnx") == 0);
    CHECK_OK(ctx, stator_x_model_load_again(model, NULL, &again));
    CHECK(stator_model_input_count(again) == stator_model_input_count(model));
    CHECK(rename("moved.onnx", "m.onnx") == 0);
    stator_model_destroy(model);
    stator_model_destroy(again);
}

static void test_cut(stator_ctx *ctx)
{
    stator_model *mapped = load(ctx, 0), *copied = load(ctx, 1);
    CHECK(truncate("m.onnx", 0) == 0);
    CHECK(save(ctx, mapped, 8, 9) == STATOR_FAILED_PRECONDITION);
    CHECK(strstr(stator_ctx_error_text(ctx), "changed since it was loaded") != NULL);
    CHECK_OK(ctx, save(ctx, copied, 8, 9));
    expect(ctx, 18, 29);
    CHECK(save(ctx, mapped, 8, 9) == STATOR_FAILED_PRECONDITION); /* whatever has the name now */
    stator_model_destroy(mapped);
    stator_model_destroy(copied);
}

int main(void)
{
    char dir[] = ST_TEST_BUILD "/tests/model_save_XXXXXX", data[300];
    stator_ctx *ctx = NULL;
    CHECK(mkdtemp(dir) != NULL && chdir(dir) == 0);
    write_bytes("m.onnx", MODEL, sizeof MODEL - 1u);
    write_bytes("w.bin", DATA, sizeof DATA);
    CHECK(stator_ctx_create(NULL, &ctx) == STATOR_OK);
    test_again_and_again(ctx);
    test_asked(ctx);
    test_again(ctx);
    test_cut(ctx);
    stator_ctx_destroy(ctx);
    while (count_data(data) != 0) {
        CHECK(unlink(data) == 0);
    }
    CHECK(unlink("m.onnx") == 0 && unlink("w.bin") == 0 && rmdir(dir) == 0);
    return 0;
}
