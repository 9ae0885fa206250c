/* Reading a NumPy file as a tensor. */
#ifndef TRAIN_DIGITS_NPY_H
#define TRAIN_DIGITS_NPY_H

#include <stator/stator.h>

/* DIR/NAME.npy, of f32 or i64 elements in C order, version 1; NULL after a message. */
stator_tensor *npy_load(stator_ctx *ctx, const char *dir, const char *name);

#endif
