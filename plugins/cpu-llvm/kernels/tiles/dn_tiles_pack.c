/* Constant weights in the panels of dn_tiles.c: [section][panel][phase][place in the
 * window][group][feature], before them of bytes the sums of each phase's and feature's weights,
 * i32. Features and channels that there are not are 0. Unsigned bytes are moved by -128. */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"

#include <string.h>

#define MOVED 0x80

typedef struct packing {
    const char *y;
    char *dst;
    const dn_tiles_isa *isa;
    int64_t size;               /* bytes of an element */
    int64_t columns;            /* of a panel */
    int64_t features, channels; /* of a section, */
    int64_t section;            /* which has so many panels */
    int64_t panels, panel_bytes;
    dn_phases phases[2];
    int64_t feature, channel; /* elements from one to the next, */
    int64_t together, apart;  /* of so many features, and from those to the next ones */
    int64_t pixel; /* channels of one; others lie in the next ones of its line, or next slices, */
    int64_t next;  /* so many elements on */
    int64_t line, place; /* elements from one of the window to the next */
    uint8_t flip;
    int is_winograd;
    bool are_singles;         /* dn_sections */
    bool is_winograd_product; /* dn_tiles_is_winograd_product */
    bool are_rows;            /* dn_tiles_is_col2im */
    int64_t all_features;     /* of all sections */
} packing;

int64_t dn_tiles_sums_bytes(const dn_tiles_isa *isa, int64_t panels, int64_t phases)
{
    return isa->sum_bytes ? panels * phases * 2 * isa->lanes * (int64_t)sizeof(int32_t) : 0;
}

static int64_t depth_of(const packing *p)
{
    return dn_parts(p->channels, dn_tiles_together(p->isa));
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
    const int64_t together = dn_tiles_together(p->isa);
    const int64_t first = panel % p->section * p->columns;
    const int64_t of_section = panel / p->section * p->features;
    if (p->size == DN_TILE_GROUP && p->feature == 1 && p->features <= p->together &&
        first + p->columns <= p->features) {
        const int64_t at = offset + channel_at(p, group) + feature_at(p, of_section + first);
        memcpy(to, p->y + at * p->size, (size_t)(p->columns * p->size));
        return;
    }
    for (int64_t c = 0; c < together; c++) {
        const int64_t channel = group * together + c;
        for (int64_t i = 0; i < p->columns; i++) {
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

/* Of bytes. */
static void sum_group(const char *from, int64_t columns, int64_t together, int32_t *sums)
{
    for (int64_t i = 0; i < columns * together; i++) {
        sums[i / together] += (int8_t)from[i];
    }
}

/* Of bytes: twice F(2,3)'s in each direction, as words. */
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
    const int64_t together = dn_tiles_together(p->isa);
    const int64_t place = depth_of(p) * together * p->columns;
    const int64_t n = dn_least(p->columns, p->features - panel * p->columns);
    memset(to, 0, (size_t)(dn_tiles_places(p->isa) * place) * sizeof *to);
    for (int64_t c = 0; c < p->channels; c++) {
        for (int64_t i = 0; i < n; i++) {
            const char *y = p->y + c * p->channel + (panel * p->columns + i) * p->feature;
            int16_t *at = to + (c / together * p->columns + i) * together + c % together;
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

static void pack_winograd(const packing *p, int64_t panel, char *to, int32_t *sums)
{
    if (p->size == 1) {
        pack_winograd_bytes(p, panel, (int16_t *)(void *)to, sums);
        return;
    }
    const int64_t first = panel * p->columns;
    const int64_t n = dn_least(p->columns, p->features - first);
    const int64_t stride[4] = {p->feature, p->channel, p->line, p->place};
    dn_winograd_panel((const float *)(const void *)p->y + first * p->feature, stride, n,
                      p->channels, (float *)(void *)to);
}

/* Of bytes with a group for each channel: words, [pair of places][channel][place], channels in the
 * order in which unpacking words gives them (dn_depthwise_256.c). */
static void pack_singles(const packing *p, int64_t panel, int16_t *to, int32_t *sums)
{
    const int64_t width = p->phases[1].of[0].places;
    const int64_t places = p->phases[0].of[0].places * width;
    const int64_t first = panel * p->columns;
    const int64_t n = dn_least(p->columns, p->all_features - first);
    memset(to, 0, (size_t)p->panel_bytes);
    for (int64_t t = 0; t < places; t++) {
        for (int64_t i = 0; i < n; i++) {
            const int64_t at = (i & 3) | (i & 8) >> 1 | (i & 4) << 1;
            const int64_t offset = t / width * p->line + t % width * p->place;
            const int16_t weight = (int8_t)p->y[(first + i) * p->feature + offset];
            to[(t / 2 * p->columns + at) * 2 + t % 2] = weight;
            sums[i] += weight;
        }
    }
}

/* The same of bytes that stay bytes: [column][group of four lines][vector][channel][line], twice,
 * for either pixel (dn_depthwise_512.c). */
static void pack_columns(const packing *p, int64_t panel, char *to, int32_t *sums)
{
    const int64_t lines = p->phases[0].of[0].places;
    const int64_t width = p->phases[1].of[0].places;
    const int64_t first = panel * p->columns;
    const int64_t n = dn_least(p->columns, p->all_features - first);
    memset(to, 0, (size_t)p->panel_bytes);
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

/* Of bytes for `run_winograd_product`: a row of what sums begin with, then [group][feature]. */
static void pack_winograd_product(const packing *p, int64_t panel, char *to, int32_t *sums)
{
    int32_t *starts = (int32_t *)(void *)to;
    int8_t *bytes = (int8_t *)to + DN_TILE_PAIR;
    const int64_t first = panel * p->columns;
    const int64_t n = dn_least(p->columns, p->features - first);
    memset(to, 0, (size_t)p->panel_bytes);
    for (int64_t c = 0; c < p->channels; c++) {
        for (int64_t i = 0; i < n; i++) {
            const char from = p->y[c * p->channel + feature_at(p, first + i)];
            const int8_t weight = (int8_t)((uint8_t)from ^ p->flip);
            bytes[(c / 2 * p->columns + i) * 2 + c % 2] = weight;
            sums[i] += weight;
            if (c % 4 >= 2) { /* the second group of two */
                const int32_t met = bytes[((c / 2 - 1) * p->columns + i) * 2 + c % 2];
                starts[i] = (int32_t)((uint32_t)starts[i] - (uint32_t)(weight * met));
            }
        }
    }
}

/* Of col2im: [position][feature][channel]. */
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
    const int64_t together = dn_tiles_together(p->isa);
    const int64_t groups = depth_of(p);
    for (int64_t i = 0; i < of[0]->places * of[1]->places; i++) {
        const int64_t line = of[0]->first + i / of[1]->places * of[0]->step;
        const int64_t place = of[1]->first + i % of[1]->places * of[1]->step;
        for (int64_t g = 0; g < groups; g++, to += together * p->size * p->columns) {
            pack_group(p, panel, line * p->line + place * p->place, g, to);
            if (sums) {
                sum_group(to, p->columns, together, sums);
            }
        }
    }
    return to;
}

static void pack_panels(void *self, int64_t begin, int64_t end)
{
    const packing *p = self;
    const int64_t phases = p->phases[0].n * p->phases[1].n;
    const int64_t sums_bytes = dn_tiles_sums_bytes(p->isa, p->panels, phases);
    for (int64_t panel = begin; panel < end; panel++) {
        int32_t *sums = (int32_t *)(void *)p->dst + panel * phases * p->columns;
        char *to = p->dst + sums_bytes + panel * p->panel_bytes;
        if (sums_bytes) {
            memset(sums, 0, (size_t)(phases * p->columns) * sizeof *sums);
        }
        if (p->is_winograd) {
            pack_winograd(p, panel, to, sums);
            continue;
        }
        if (p->is_winograd_product) {
            pack_winograd_product(p, panel, to, sums);
            continue;
        }
        if (p->are_rows) {
            pack_rows(p, to);
            continue;
        }
        if (p->are_singles && p->isa->size == 1) {
            pack_columns(p, panel, to, sums);
            continue;
        }
        if (p->are_singles) {
            pack_singles(p, panel, (int16_t *)(void *)to, sums);
            continue;
        }
        for (int64_t i = 0; i < phases; i++, sums += p->columns) {
            const dn_phase *of[2] = {&p->phases[0].of[i / p->phases[1].n],
                                     &p->phases[1].of[i % p->phases[1].n]};
            to = pack_phase(p, panel, of, to, sums_bytes ? sums : NULL);
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
    if (!p->is_winograd && dn_tiles_is_tight(p->isa, contraction, s)) {
        p->channels *= s->kernel[last];
        p->phases[1].of[0].places = 1;
    }
    if (dn_tiles_is_col2im(contraction,
                           s)) { /* features of all positions are the rows of one panel */
        p->are_rows = true;
        p->features *= s->kernel[last] * (last ? s->kernel[0] : 1);
        p->apart = p->place;
    }
}

static int64_t panel_bytes_of(const packing *p)
{
    if (p->are_rows) {
        return p->features * p->channels * p->size;
    }
    const int64_t group = dn_tiles_together(p->isa) * p->columns * depth_of(p);
    int64_t places[2] = {0, 0};
    if (p->are_singles) {
        return dn_tiles_singles_bytes(p->isa, p->phases[0].of[0].places, p->phases[1].of[0].places);
    }
    if (p->is_winograd_product) {
        return DN_TILE_PAIR + dn_parts(depth_of(p), 2) * 2 * 2 * p->columns;
    }
    for (int64_t i = 0; i < p->phases[0].n; i++) {
        places[0] += p->phases[0].of[i].places;
    }
    for (int64_t i = 0; i < p->phases[1].n; i++) {
        places[1] += p->phases[1].of[i].places;
    }
    return group * (p->is_winograd ? dn_tiles_places(p->isa) * p->isa->size
                                   : places[0] * places[1] * p->size);
}

/* One part of the weights at y. Returns how many bytes it takes. */
static int64_t pack_part(const dn_op *op, const dn_tiles_part *part, int is_winograd, const char *y,
                         char *dst, stator_ctx *ctx)
{
    const st_contraction *contraction = &part->contraction;
    const dn_sizes *s = &part->sizes;
    const dn_tiles_isa *isa = dn_tiles_isa_for(op->lib, contraction, s);
    const dn_sections sections = dn_tiles_sections(isa, contraction, s);
    packing p = {.y = y + s->slices.weight_first * (int64_t)dn_dtype_size(contraction->y.dtype),
                 .dst = dst,
                 .isa = isa,
                 .columns = 2 * isa->lanes,
                 .is_winograd = is_winograd,
                 .size = (int64_t)dn_dtype_size(contraction->y.dtype),
                 .features = sections.features,
                 .channels = sections.channels,
                 .phases = {dn_tiles_phases(contraction, s, 0), dn_tiles_phases(contraction, s, 1)},
                 .pixel = sections.channels,
                 .feature = s->y.stride[1],
                 .channel = s->y.stride[0],
                 .together = sections.features * sections.n,
                 .flip = contraction->y.dtype == STATOR_U8 ? MOVED : 0,
                 .are_singles = sections.are_singles,
                 .is_winograd_product =
                     !is_winograd && dn_tiles_is_winograd_product(isa, contraction, s),
                 .all_features = s->features};
    if (contraction->kind == ST_CONTRACTION_CONV) {
        set_window(&p, contraction, s);
    }
    p.section = p.are_rows ? 1 : dn_parts(p.features, p.columns);
    p.panels = p.section * sections.n;
    p.panel_bytes = panel_bytes_of(&p);
    dn_parallel(s->threads > 1 ? op->lib->host : NULL, ctx, p.panels, 1, pack_panels, &p);
    return p.panels * p.panel_bytes;
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
