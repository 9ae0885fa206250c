/* Pictures as model inputs, through libpng's simplified API: 8 bits a channel, gray or RGB as the
 * model wants, f32 CxHxW divided by 255, then (x - mean) / std by channel. */
#include "tools/cli/cli_npy.h"

#include <stdlib.h>
#include <string.h>

#define ERROR_SIZE 512u
#define PIXELS_MAX (UINT64_C(1) << 26)

#if ST_HAVE_PNG
#include <png.h>

static float normalised(uint8_t value, uint32_t channel, const cli_image_norm *norm)
{
    const uint32_t m = norm->n_mean > 1 ? channel : 0;
    const uint32_t s = norm->n_std > 1 ? channel : 0;
    const float mean = norm->n_mean > 0 ? norm->mean[m] : 0.0f;
    const float std = norm->n_std > 0 ? norm->std[s] : 1.0f;
    return ((float)value / 255.0f - mean) / std;
}

static bool fill(stator_ctx *ctx, const png_image *image, const uint8_t *pixels,
                 const cli_image_norm *norm, stator_tensor **out_tensor, char *errbuf)
{
    const uint32_t channels = image->format == PNG_FORMAT_GRAY ? 1 : 3;
    const int64_t shape[4] = {1, channels, image->height, image->width};
    if (stator_tensor_create(ctx, STATOR_F32, 4, shape, out_tensor) != STATOR_OK) {
        (void)snprintf(errbuf, ERROR_SIZE, "%s", stator_ctx_error_text(ctx));
        return false;
    }
    float *data = stator_tensor_data(*out_tensor);
    const uint64_t plane = (uint64_t)image->width * image->height;
    for (uint64_t i = 0; i < plane; i++) {
        for (uint32_t c = 0; c < channels; c++) {
            data[c * plane + i] = normalised(pixels[i * channels + c], c, norm);
        }
    }
    return true;
}

/* Deflate packs at most about 1:1032 and a pixel has at least one bit, so that a header that
 * promises more is a lie and no memory is asked for. */
static bool check_size(const png_image *image, uint64_t file_size, char *errbuf)
{
    const uint64_t pixels = (uint64_t)image->width * image->height;
    if (pixels > PIXELS_MAX) {
        (void)snprintf(errbuf, ERROR_SIZE, "the picture has %u x %u pixels, at most 2^26 are taken",
                       image->width, image->height);
        return false;
    }
    if (pixels / 8u / 1100u > file_size) {
        (void)snprintf(errbuf, ERROR_SIZE,
                       "the picture claims %u x %u pixels, its file is too short", image->width,
                       image->height);
        return false;
    }
    return true;
}

static bool decode(stator_ctx *ctx, png_image *image, uint32_t channels, const cli_image_norm *norm,
                   stator_tensor **out_tensor, char *errbuf)
{
    const png_color black = {0, 0, 0};
    image->format = channels == 1 ? PNG_FORMAT_GRAY : PNG_FORMAT_RGB;
    uint8_t *pixels = malloc(PNG_IMAGE_SIZE(*image) + 1u);
    bool ok = pixels != NULL && png_image_finish_read(image, &black, pixels, 0, NULL);
    if (!ok) {
        (void)snprintf(errbuf, ERROR_SIZE, "not a readable PNG: %s",
                       pixels != NULL ? image->message : "out of memory");
    } else {
        ok = fill(ctx, image, pixels, norm, out_tensor, errbuf);
    }
    free(pixels);
    return ok;
}

bool cli_parse_png(stator_ctx *ctx, const void *bytes, uint64_t size, uint32_t channels,
                   const cli_image_norm *norm, stator_tensor **out_tensor, char *errbuf)
{
    png_image image;
    *out_tensor = NULL;
    memset(&image, 0, sizeof image);
    image.version = PNG_IMAGE_VERSION;
    if (channels != 1 && channels != 3) {
        (void)snprintf(errbuf, ERROR_SIZE, "the input wants %u channels, a picture gives 1 or 3",
                       channels);
        return false;
    }
    bool ok = png_image_begin_read_from_memory(&image, bytes, size) != 0;
    if (!ok) {
        (void)snprintf(errbuf, ERROR_SIZE, "not a readable PNG: %s", image.message);
    }
    ok = ok && check_size(&image, size, errbuf) &&
         decode(ctx, &image, channels, norm, out_tensor, errbuf);
    png_image_free(&image);
    return ok;
}

#else

bool cli_parse_png(stator_ctx *ctx, const void *bytes, uint64_t size, uint32_t channels,
                   const cli_image_norm *norm, stator_tensor **out_tensor, char *errbuf)
{
    (void)ctx;
    (void)bytes;
    (void)size;
    (void)channels;
    (void)norm;
    *out_tensor = NULL;
    (void)snprintf(errbuf, ERROR_SIZE, "built without libpng");
    return false;
}

#endif

bool cli_read_png(stator_ctx *ctx, const char *path, uint32_t channels, const cli_image_norm *norm,
                  stator_tensor **out_tensor, char *errbuf)
{
    void *bytes = NULL;
    uint64_t size = 0;
    *out_tensor = NULL;
    ST_NEED(cli_map_file(path, &bytes, &size, errbuf));
    const bool ok = cli_parse_png(ctx, bytes, size, channels, norm, out_tensor, errbuf);
    cli_unmap_file(bytes, size);
    return ok;
}
