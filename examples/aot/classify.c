/* Recognises digits with a library that `stator build` made; no Stator is needed to build or run
 * this:
 *
 *     stator build digits.onnx -o libdigits.so --header digits.h
 *     cc -I. classify.c libdigits.so -Wl,-rpath,'$ORIGIN' -o classify
 *     ./classify IMAGES.npy
 *
 * In: images f32[N, 1, 8, 8], a NumPy file. Out: a line of N digits; status 0, or 1 after a
 * message. */
#include <digits.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, CLASSES = 10 };

/* The pixels of a .npy file, aligned as malloc aligns, and the number of images; NULL: no such
 * file. */
static float *load_images(const char *path, int64_t *out_count)
{
    unsigned char head[10];
    FILE *file = fopen(path, "rb");
    float *pixels = NULL;
    if (file == NULL) {
        return NULL;
    }
    if (fread(head, 1, sizeof head, file) == sizeof head && memcmp(head, "\x93NUMPY\x01", 7) == 0) {
        const long begin = 10 + (head[8] | (long)head[9] << 8);
        (void)fseek(file, 0, SEEK_END);
        const long bytes = ftell(file) - begin;
        *out_count = bytes / (long)(PIXELS * sizeof *pixels);
        (void)fseek(file, begin, SEEK_SET);
        pixels = bytes > 0 ? malloc((size_t)bytes) : NULL;
        if (pixels != NULL && fread(pixels, 1, (size_t)bytes, file) != (size_t)bytes) {
            free(pixels);
            pixels = NULL;
        }
    }
    (void)fclose(file);
    return pixels;
}

static int largest(const float *row)
{
    int best = 0;
    for (int i = 1; i < CLASSES; i++) {
        best = row[i] > row[best] ? i : best;
    }
    return best;
}

int main(int argc, char **argv)
{
    digits_inputs in = {0};
    digits_outputs out = {0};
    int64_t count = 0;
    float *pixels = argc == 2 ? load_images(argv[1], &count) : NULL;
    if (pixels == NULL) {
        fprintf(stderr, "usage: classify IMAGES.npy\n");
        return 1;
    }
    in.image.data = pixels;
    in.image.shape[0] = count;
    in.image.shape[1] = 1;
    in.image.shape[2] = 8;
    in.image.shape[3] = 8;
    int status = digits_sizes(&in, &out, NULL);
    if (status == DIGITS_STATUS_OK) {
        out.probabilities.data = malloc((size_t)out.probabilities.bytes);
        status = digits_run(&in, &out, NULL, 0);
    }
    for (int64_t i = 0; status == DIGITS_STATUS_OK && i < count; i++) {
        (void)putchar('0' + largest(out.probabilities.data + i * CLASSES));
    }
    (void)putchar('\n');
    if (status != DIGITS_STATUS_OK) {
        fprintf(stderr, "classify: %s\n", digits_status_text(status));
    }
    free(out.probabilities.data);
    free(pixels);
    return status == DIGITS_STATUS_OK ? 0 : 1;
}
