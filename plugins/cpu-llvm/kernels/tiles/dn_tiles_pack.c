/* Weights in the panels of dn_tiles.c: [section][panel][phase][place in the
 * window][group][feature], before them of bytes the sums of each phase's and feature's weights,
 * i32. Features and channels that there are not are 0. Unsigned bytes are moved by -128. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles_job.h"

#include <string.h>

#define MOVED 0x80

typedef struct packing {
    dn_job j; /* the call that reads the panels, which says how they are cut */
    const char *y;
    char *dst;
    int64_t size;               /* bytes of an element */
    int64_t features, channels; /* a section's; a tight line's are all one pixel's */
    int64_t feature, channel;   /* elements from one to the next */
    int64_t together, apart;    /* features that lie together; elements from these to the next */
    int64_t pixel; /* channels of a pixel; others lie in its line's next ones, or next slices */
    int64_t next;  /* elements from a pixel to the next one with channels */
    int64_t line, place; /* elements from a line or place of the window to the next */
    uint8_t flip;
} packing;

static int64_t depth_of(const packing *p)
{
    return dn_parts(p->channels, dn_tiles_together(p->j.isa));
}

/* Elements before a feature's. */
static int64_t feature_at(const packing *p, int64_t feature)
{
    return feature % p->together * p->feature + feature / p->together * p->apart;
}

/* Elements before a channel's. */
static int64_t channel_at(const packing *p, int64_t channel)
{
    return channel / p->pixel * p->next + channel % p->pixel * p->channel;
}

/* One group of channels of a panel at one place of the window, `offset` elements on. */
static void pack_group(const packing *p, int64_t panel, int64_t offset, int64_t group, char *to)
{
    const int64_t together = dn_tiles_together(p->j.isa);
    const int64_t columns = p->j.columns;
    const int64_t first = panel % p->j.section_panels * columns;
    const int64_t of_section = panel / p->j.section_panels * p->features;
    if (p->size == DN_TILE_GROUP && p->feature == 1 && p->features <= p->together &&
        first + columns <= p->features) {
        const int64_t at = offset + channel_at(p, group) + feature_at(p, of_section + first);
        memcpy(to, p->y + at * p->size, (size_t)(columns * p->size));
        return;
    }
    for (int64_t c = 0; c < together; c++) {
        const int64_t channel = group * together + c;
        for (int64_t i = 0; i < columns; i++) {
            char *at = to + (i * together + c) * p->size;
            if (channel >= p->channels || first + i >= p->features) {
                memset(at, 0, (size_t)p->size);
                continue;
            }
            const int64_t at_feature = feature_at(p, of_section + first + i);
            const char *from = p->y + (offset + channel_at(p, channel) + at_feature) * p->size;
            if (p->size == 1) {
                *at = (char)((uint8_t)*from ^ p->flip);
            } else {
                memcpy(at, from, (size_t)p->size);
            }
        }
    }
}

/* Adds a group of bytes to the sums of their features. */
static void sum_group(const char *from, int64_t columns, int64_t together, int32_t *sums)
{
    for (int64_t i = 0; i < columns * together; i++) {
        sums[i / together] += (int8_t)from[i];
    }
}

/* Taps of bytes are transformed by twice the matrix of F(2,3) in each direction, to words. */
_Static_assert(DN_WINO_BYTES + 2 == 4, "a tile of 3x3 taps");

static void winograd_taps(int32_t taps[3][3], int32_t out[4][4])
{
    int32_t half[4][3];
    for (int x = 0; x < 3; x++) {
        const int32_t a = taps[0][x] + taps[2][x];
        half[0][x] = 2 * taps[0][x];
        half[1][x] = a + taps[1][x];
        half[2][x] = a - taps[1][x];
        half[3][x] = 2 * taps[2][x];
    }
    for (int y = 0; y < 4; y++) {
        const int32_t a = half[y][0] + half[y][2];
        out[y][0] = 2 * half[y][0];
        out[y][1] = a + half[y][1];
        out[y][2] = a - half[y][1];
        out[y][3] = 2 * half[y][2];
    }
}

static void pack_winograd_bytes(const packing *p, int64_t panel, int16_t *to, int32_t *sums)
{
    const int64_t together = dn_tiles_together(p->j.isa);
    const int64_t place = dn_wino_step(depth_of(p) * p->j.columns) * together;
    const int64_t n = dn_least(p->j.columns, p->features - panel * p->j.columns);
    memset(to, 0, (size_t)(dn_tiles_places(p->j.isa) * place) * sizeof *to);
    for (int64_t c = 0; c < p->channels; c++) {
        for (int64_t i = 0; i < n; i++) {
            const char *y = p->y + c * p->channel + (panel * p->j.columns + i) * p->feature;
            int16_t *at = to + (c / together * p->j.columns + i) * together + c % together;
            int32_t taps[3][3];
            int32_t out[4][4];
            for (int t = 0; t < 9; t++) {
                taps[t / 3][t % 3] = (int8_t)y[t / 3 * p->line + t % 3 * p->place];
                sums[i] += taps[t / 3][t % 3];
            }
            winograd_taps(taps, out);
            for (int t = 0; t < 16; t++) {
                at[t * place] = (int16_t)out[t / 4][t % 4];
            }
        }
    }
}

void dn_job_transform_taps(const dn_job *j, const void *y, int64_t panel, float *to)
{
    const int64_t *steps = j->s.y.dims;
    const dn_phase *down = &j->phases[0].of[0];
    const dn_phase *across = &j->phases[1].of[0];
    const int64_t first = panel * j->columns;
    const dn_wino_taps t = {.from = (const float *)y + first * steps[0] + down->first * steps[2] +
                                    across->first * steps[3],
                            .features = j->features - first,
                            .feature = steps[0],
                            .channels = j->channels,
                            .channel = steps[1],
                            .line = down->step * steps[2],
                            .place = across->step * steps[3],
                            .to = to,
                            .step = dn_wino_step(j->depth * j->columns)};
    j->isa->wino_taps(&t);
}

static void pack_winograd(const packing *p, int64_t panel, char *to, int32_t *sums)
{
    if (p->size == 1) {
        pack_winograd_bytes(p, panel, (int16_t *)(void *)to, sums);
        return;
    }
    dn_job_transform_taps(&p->j, p->y, panel, (float *)(void *)to);
}

/* Weights of a group for each channel, as words: [pair of places][channel][place], channels in the
 * order in which unpacking words gives them (dn_depthwise_256.c). */
static void pack_singles(const packing *p, int64_t panel, int16_t *to, int32_t *sums)
{
    const int64_t width = p->j.phases[1].of[0].places;
    const int64_t places = p->j.phases[0].of[0].places * width;
    const int64_t first = panel * p->j.columns;
    const int64_t n = dn_least(p->j.columns, p->j.features - first);
    memset(to, 0, (size_t)p->j.panel_bytes);
    for (int64_t t = 0; t < places; t++) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = (i & 3) | (i & 8) >> 1 | (i & 4) << 1;
            const int64_t offset = t / width * p->line + t % width * p->place;
            const int16_t weight = (int8_t)p->y[(first + i) * p->feature + offset];
            to[(t / 2 * p->j.columns + at) * 2 + t % 2] = weight;
            sums[i] += weight;
        }
    }
}

/* Weights of a group for each channel, as bytes, twice, for either pixel (dn_depthwise_512.c):
 * [column][group of four lines][vector][channel][line]. */
static void pack_columns(const packing *p, int64_t panel, char *to, int32_t *sums)
{
    const int64_t lines = p->j.phases[0].of[0].places;
    const int64_t width = p->j.phases[1].of[0].places;
    const int64_t first = panel * p->j.columns;
    const int64_t n = dn_least(p->j.columns, p->j.features - first);
    memset(to, 0, (size_t)p->j.panel_bytes);
    for (int64_t t = 0; t < lines * width; t++) {
        const int64_t line = t / width;
        const int64_t column = t % width;
        char *group = to + (column * dn_parts(lines, 4) + line / 4) * DN_TILE_COLUMN;
        for (int64_t i = 0; i < n; i++) {
            const int64_t offset = line * p->line + column * p->place;
            const char weight = p->y[(first + i) * p->feature + offset];
            char *at = group + (i & 12) * 16 + (i & 16) + (i & 3) * 4 + line % 4;
            at[0] = weight;
            at[DN_TILE_COLUMN / 8] = weight;
            sums[i] += (int8_t)weight;
        }
    }
}

/* Bytes for `run_winograd_product`: numbers with which sums begin, then [group][feature]. */
static void pack_winograd_product(const packing *p, int64_t panel, char *to, int32_t *sums)
{
    int32_t *starts = (int32_t *)(void *)to;
    int8_t *bytes = (int8_t *)to + DN_TILE_PAIR;
    const int64_t first = panel * p->j.columns;
    const int64_t n = dn_least(p->j.columns, p->features - first);
    memset(to, 0, (size_t)p->j.panel_bytes);
    for (int64_t c = 0; c < p->channels; c++) {
        for (int64_t i = 0; i < n; i++) {
            const char from = p->y[c * p->channel + feature_at(p, first + i)];
            const int8_t weight = (int8_t)((uint8_t)from ^ p->flip);
            bytes[(c / 2 * p->j.columns + i) * 2 + c % 2] = weight;
            sums[i] += weight;
            if (c % 4 >= 2) { /* the second group of two */
                const int32_t met = bytes[((c / 2 - 1) * p->j.columns + i) * 2 + c % 2];
                starts[i] = (int32_t)((uint32_t)starts[i] - (uint32_t)(weight * met));
            }
        }
    }
}

/* Weights of col2im, [position][feature][channel]. */
static void pack_rows(const packing *p, char *to)
{
    for (int64_t row = 0; row < p->features; row++) {
        for (int64_t c = 0; c < p->channels; c++, to += p->size) {
            const int64_t at = channel_at(p, c) + feature_at(p, row);
            memcpy(to, p->y + at * p->size, (size_t)p->size);
        }
    }
}

/* A panel's places of one phase of lines and one of pixels. Returns what follows them. */
static char *pack_phase(const packing *p, int64_t panel, const dn_phase *of[2], char *to,
                        int32_t *sums)
{
    const int64_t together = dn_tiles_together(p->j.isa);
    const int64_t groups = depth_of(p);
    const int64_t across = p->j.is_tight ? 1 : of[1]->places;
    for (int64_t i = 0; i < of[0]->places * across; i++) {
        const int64_t line = of[0]->first + i / across * of[0]->step;
        const int64_t place = of[1]->first + i % across * of[1]->step;
        for (int64_t g = 0; g < groups; g++, to += together * p->size * p->j.columns) {
            pack_group(p, panel, line * p->line + place * p->place, g, to);
            if (sums) {
                sum_group(to, p->j.columns, together, sums);
            }
        }
    }
    return to;
}

static void pack_phases(const packing *p, int64_t panel, char *to, int32_t *sums)
{
    const dn_phases *all = p->j.phases;
    for (int64_t i = 0; i < all[0].n * all[1].n; i++) {
        const dn_phase *of[2] = {&all[0].of[i / all[1].n], &all[1].of[i % all[1].n]};
        to = pack_phase(p, panel, of, to, sums ? sums + i * p->j.columns : NULL);
    }
}

static void pack_panels(void *self, int64_t begin, int64_t end)
{
    const packing *p = self;
    const dn_job *j = &p->j;
    const int64_t phases = j->phases[0].n * j->phases[1].n;
    const int64_t sums_bytes = dn_job_sums_bytes(j);
    for (int64_t panel = begin; panel < end; panel++) {
        int32_t *sums = (int32_t *)(void *)p->dst + panel * phases * j->columns;
        char *to = p->dst + sums_bytes + panel * j->panel_bytes;
        if (sums_bytes) {
            memset(sums, 0, (size_t)(phases * j->columns) * sizeof *sums);
        }
        if (j->is_wino) {
            pack_winograd(p, panel, to, sums);
        } else if (j->is_winograd_product) {
            pack_winograd_product(p, panel, to, sums);
        } else if (j->is_col2im) {
            pack_rows(p, to);
        } else if (j->sections.are_singles && j->isa->size == 1) {
            pack_columns(p, panel, to, sums);
        } else if (j->sections.are_singles) {
            pack_singles(p, panel, (int16_t *)(void *)to, sums);
        } else {
            pack_phases(p, panel, to, sums_bytes ? sums : NULL);
        }
    }
}

/* How the weights of a convolution lie. */
static void set_window(packing *p, const st_contraction *contraction, const dn_sizes *s)
{
    const uint32_t last = contraction->n_spatial - 1u;
    p->feature = s->y.dims[0];
    p->channel = s->y.dims[1];
    p->place = s->y.dims[2 + last];
    p->line = last ? s->y.dims[2] : 0;
    p->next = p->place;
    if (s->slices.n) {
        p->pixel /= s->slices.n;
        p->next = s->slices.weight_step;
    }
    if (contraction->is_transposed) { /* a group's features lie beside its channels */
        p->together = s->features / contraction->groups;
        p->apart = s->channels / contraction->groups * p->channel;
    }
    p->channels *= p->j.is_tight ? s->kernel[last] : 1;
    if (p->j.is_col2im) { /* features of all positions are the rows of one panel */
        p->features = p->j.products;
        p->apart = p->place;
    }
}

/* One part of the weights at y. Returns how many bytes it takes. */
static int64_t pack_part(const dn_op *op, const dn_tiles_part *part, int is_winograd, const char *y,
                         char *dst, stator_ctx *ctx)
{
    const st_contraction *contraction = &part->contraction;
    const dn_sizes *s = &part->sizes;
    const int64_t size = (int64_t)st_element_bytes(contraction->y.dtype);
    packing p = {.y = y + s->slices.weight_first * size,
                 .dst = dst,
                 .size = size,
                 .feature = s->y.stride[1],
                 .channel = s->y.stride[0],
                 .flip = contraction->y.dtype == STATOR_U8 ? MOVED : 0};
    (void)dn_job_init(&p.j, op, part, (uint32_t)is_winograd, true); /* described: cannot fail */
    p.features = p.j.sections.features;
    p.channels = p.pixel = p.j.sections.channels;
    p.together = p.features * p.j.sections.n;
    if (contraction->kind == ST_CONTRACTION_CONV) {
        set_window(&p, contraction, s);
    }
    dn_parallel(s->threads > 1 ? op->lib->host : NULL, ctx, p.j.panels, 1, pack_panels, &p);
    return dn_job_packed_bytes(&p.j);
}

void dn_tiles_pack(const dn_op *op, const dn_sizes *sizes, int is_winograd, const void *y,
                   void *dst, stator_ctx *ctx)
{
    dn_sizes s = *sizes;
    char *to = dst;
    dn_simplify(&op->contraction, &s);
    for (int64_t i = 0; i < dn_tiles_slices(&op->contraction); i++) {
        dn_tiles_part part;
        dn_tiles_slice(&op->contraction, &s, i, &part);
        to += pack_part(op, &part, is_winograd, y, to, ctx);
    }
}
