/* Pictures as model inputs, through libpng's simplified API: 8 bits a channel, gray or RGB as the model
 * wants, f32 CxHxW divided by 255, then (x - mean) / std by channel. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

#define ERROR_SIZE 512u
#define MAX_PIXELS (UINT64_C(1) << 26)

#if ST_HAVE_PNG
#include <png.h>

static float normalised(uint8_t value, uint32_t channel, const cli_image_norm *norm) {
    const uint32_t m = norm->n_mean > 1 ? channel : 0;
    const uint32_t s = norm->n_std > 1 ? channel : 0;
    const float mean = norm->n_mean > 0 ? norm->mean[m] : 0.0f;
    const float std = norm->n_std > 0 ? norm->std[s] : 1.0f;
    return ((float)value / 255.0f - mean) / std;
}

static int fill(stator_ctx *ctx, const uint8_t *pixels, uint32_t width, uint32_t height,
                uint32_t channels, const cli_image_norm *norm, stator_tensor **out_tensor,
                char *errbuf) {
    const int64_t shape[4] = {1, channels, height, width};
    if (stator_tensor_create(ctx, STATOR_F32, 4, shape, out_tensor) != STATOR_OK) {
        (void)snprintf(errbuf, ERROR_SIZE, "%s", stator_ctx_error_text(ctx));
        return 0;
    }
    float *data = stator_tensor_data(*out_tensor);
    const uint64_t plane = (uint64_t)width * height;
    for (uint64_t i = 0; i < plane; i++) {
        for (uint32_t c = 0; c < channels; c++) {
            data[c * plane + i] = normalised(pixels[i * channels + c], c, norm);
        }
    }
    return 1;
}

int cli_read_png(stator_ctx *ctx, const char *path, uint32_t channels, const cli_image_norm *norm,
                 stator_tensor **out_tensor, char *errbuf) {
    *out_tensor = NULL;
    png_image image;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (channels != 1 && channels != 3) {
        (void)snprintf(errbuf, ERROR_SIZE, "the input wants %u channels, a picture gives 1 or 3",
                       channels);
        return 0;
    }
    if (!png_image_begin_read_from_file(&image, path)) {
        (void)snprintf(errbuf, ERROR_SIZE, "cannot read '%s': %s", path, image.message);
        return 0;
    }
    if ((uint64_t)image.width * image.height > MAX_PIXELS) {
        (void)snprintf(errbuf, ERROR_SIZE, "'%s' has %u x %u pixels, at most 2^26 are taken", path,
                       image.width, image.height);
        png_image_free(&image);
        return 0;
    }
    image.format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    uint8_t *pixels = malloc(PNG_IMAGE_SIZE(image) + 1u);
    const png_color black = {0, 0, 0};
    int ok = pixels != NULL && png_image_finish_read(&image, &black, pixels, 0, NULL);
    if (!ok) {
        (void)snprintf(errbuf, ERROR_SIZE, "cannot read '%s': %s", path,
                       pixels != NULL ? image.message : "out of memory");
        png_image_free(&image);
    } else {
        ok = fill(ctx, pixels, image.width, image.height, channels, norm, out_tensor, errbuf);
    }
    free(pixels);
    return ok;
}

#else

int cli_read_png(stator_ctx *ctx, const char *path, uint32_t channels, const cli_image_norm *norm,
                 stator_tensor **out_tensor, char *errbuf) {
    (void)ctx;
    (void)channels;
    (void)norm;
    *out_tensor = NULL;
    (void)snprintf(errbuf, ERROR_SIZE, "'%s': built without libpng", path);
    return 0;
}

#endif
