/* Images of 16-bit elements from channels first to channels last, and back.
 *
 * One matrix of each image is transposed: 8 x 8 elements at a time in registers, so many of
 * them adjacent that the rows written stay in the first cache. oneDNN 2.6's reorder takes
 * two to three times as long. */
#include "plugins/cpu-llvm/onednn/dn_library.h"

#if defined(__x86_64__)
#include <emmintrin.h>
#endif
#include <string.h>

#define SIDE 8      /* side of a block that is transposed in registers */
#define COLUMNS 256 /* columns of a block: its rows are read so far in one go */

/* Are the axes dense when they lie in this order? */
static bool is_dense(const dnnl_memory_desc_t *md, bool is_channels_last)
{
    const dnnl_dim_t *strides = md->format_desc.blocking.strides;
    dnnl_dim_t next = is_channels_last ? md->dims[1] : 1;
    for (int axis = md->ndims - 1; axis >= 2; axis--) {
        if (strides[axis] != next && md->dims[axis] != 1) {
            return false;
        }
        next *= md->dims[axis];
    }
    const dnnl_dim_t channel = is_channels_last ? 1 : next;
    const dnnl_dim_t image = is_channels_last ? next : next * md->dims[1];
    return strides[1] == channel && (strides[0] == image || md->dims[0] == 1);
}

static bool is_plain(const dnnl_memory_desc_t *md)
{
    return md->ndims >= 3 && md->format_kind == dnnl_blocked && md->offset0 == 0 &&
           md->format_desc.blocking.inner_nblks == 0 && md->extra.flags == 0 &&
           memcmp(md->dims, md->padded_dims, (size_t)md->ndims * sizeof md->dims[0]) == 0;
}

bool dn_transpose_of(const dnnl_memory_desc_t *from, const dnnl_memory_desc_t *to,
                     dn_transpose *out)
{
    const bool is_half = from->data_type == dnnl_bf16 || from->data_type == dnnl_f16;
    memset(out, 0, sizeof *out);
    if (!is_half || from->data_type != to->data_type || from->ndims != to->ndims ||
        !is_plain(from) || !is_plain(to) ||
        memcmp(from->dims, to->dims, (size_t)from->ndims * sizeof from->dims[0]) != 0) {
        return false;
    }
    int64_t pixels = 1;
    for (int axis = 2; axis < from->ndims; axis++) {
        pixels *= from->dims[axis];
    }
    const int64_t channels = from->dims[1];
    if (channels < SIDE || pixels < SIDE) {
        return false;
    }
    if (is_dense(from, false) && is_dense(to, true)) {
        *out = (dn_transpose){from->dims[0], channels, pixels};
    } else if (is_dense(from, true) && is_dense(to, false)) {
        *out = (dn_transpose){from->dims[0], pixels, channels};
    }
    return out->matrices != 0;
}

#if defined(__x86_64__)
/* Rows of `from` lie n elements apart, those of `to` m. */
static void transpose_block(const uint16_t *from, int64_t n, uint16_t *to, int64_t m)
{
    __m128i a[SIDE];
    __m128i b[SIDE];
    for (int i = 0; i < SIDE; i++) {
        a[i] = _mm_loadu_si128((const __m128i *)(const void *)(from + i * n));
    }
    for (int i = 0; i < SIDE; i += 2) { /* pairs of rows: columns 0 to 3, 4 to 7 */
        b[i] = _mm_unpacklo_epi16(a[i], a[i + 1]);
        b[i + 1] = _mm_unpackhi_epi16(a[i], a[i + 1]);
    }
    for (int i = 0; i < SIDE; i += 4) { /* four rows: two columns each */
        a[i] = _mm_unpacklo_epi32(b[i], b[i + 2]);
        a[i + 1] = _mm_unpackhi_epi32(b[i], b[i + 2]);
        a[i + 2] = _mm_unpacklo_epi32(b[i + 1], b[i + 3]);
        a[i + 3] = _mm_unpackhi_epi32(b[i + 1], b[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        uint16_t *row = to + 2 * i * m;
        _mm_storeu_si128((__m128i *)(void *)row, _mm_unpacklo_epi64(a[i], a[i + 4]));
        _mm_storeu_si128((__m128i *)(void *)(row + m), _mm_unpackhi_epi64(a[i], a[i + 4]));
    }
}
#else
static void transpose_block(const uint16_t *from, int64_t n, uint16_t *to, int64_t m)
{
    for (int i = 0; i < SIDE; i++) {
        for (int k = 0; k < SIDE; k++) {
            to[k * m + i] = from[i * n + k];
        }
    }
}
#endif

/* Columns first to last of one matrix. */
static void transpose_columns(const dn_transpose *t, const uint16_t *from, uint16_t *to,
                              int64_t first, int64_t last)
{
    const int64_t whole_rows = t->rows / SIDE * SIDE;
    const int64_t whole = first + (last - first) / SIDE * SIDE;
    for (int64_t r = 0; r < whole_rows; r += SIDE) {
        for (int64_t c = first; c < whole; c += SIDE) {
            transpose_block(from + r * t->columns + c, t->columns, to + c * t->rows + r, t->rows);
        }
    }
    for (int64_t c = first; c < last; c++) {
        for (int64_t r = c < whole ? whole_rows : 0; r < t->rows; r++) {
            to[c * t->rows + r] = from[r * t->columns + c];
        }
    }
}

void dn_transpose_run(const dn_transpose *t, const void *from, void *to, int threads)
{
    const int64_t blocks = (t->columns + COLUMNS - 1) / COLUMNS;
    const int64_t size = t->rows * t->columns;
    const int64_t n = t->matrices * blocks;
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t i = 0; i < n; i++) {
        const int64_t first = i % blocks * COLUMNS;
        const int64_t last = first + COLUMNS < t->columns ? first + COLUMNS : t->columns;
        const int64_t at = i / blocks * size;
        transpose_columns(t, (const uint16_t *)from + at, (uint16_t *)to + at, first, last);
    }
}
