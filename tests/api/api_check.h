/* CHECK for API test programs: prints the place and ends the program with status 1. */
#ifndef STATOR_TEST_API_CHECK_H
#define STATOR_TEST_API_CHECK_H

#include <stator/inspect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            (void)fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition);        \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* The call must succeed; prints the context's error otherwise. */
#define CHECK_OK(ctx, expression)                                                                  \
    do {                                                                                           \
        if ((expression) != STATOR_OK) {                                                           \
            (void)fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #expression,              \
                          stator_ctx_error_text(ctx));                                             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

static inline stator_model *load_text(stator_ctx *ctx, const char *text)
{
    const stator_load_options options = {.struct_size = sizeof options, .flags = 1};
    stator_model *model = NULL;
    CHECK_OK(ctx, stator_model_load_bytes(ctx, text, strlen(text), "test.stir", &options, &model));
    return model;
}

static inline stator_function *compile_for(stator_ctx *ctx, stator_model *model,
                                           const char *backend)
{
    const stator_compile_options options = {.struct_size = sizeof options, .backend = backend};
    stator_function *function = NULL;
    CHECK_OK(ctx, stator_compile(model, &options, &function));
    return function;
}

/* A f32 tensor of rank 2 with these contents, row by row. */
static inline stator_tensor *tensor_2d(stator_ctx *ctx, int64_t rows, int64_t columns,
                                       const float *values)
{
    const int64_t shape[2] = {rows, columns};
    stator_tensor *tensor = NULL;
    CHECK_OK(ctx, stator_tensor_create(ctx, STATOR_F32, 2, shape, &tensor));
    memcpy(stator_tensor_data(tensor), values, (size_t)(rows * columns) * sizeof *values);
    return tensor;
}

#endif
