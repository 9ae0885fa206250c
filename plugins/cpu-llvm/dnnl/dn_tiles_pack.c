/* Constant weights in the panels of dn_tiles.c: [panel][place in the window][group][feature],
 * before them of bytes the sums of each feature's weights, i32. Features and channels that there
 * are not are 0. Unsigned bytes are moved by -128. */
#include "dn_tiles.h"

#include <string.h>

#define MOVED 0x80

typedef struct packing {
    const char *y;
    char *dst;
    const dn_tiles_isa *isa;
    int64_t size;    /* bytes of an element */
    int64_t columns; /* of a panel */
    int64_t features, channels, places, panels;
    int64_t feature, channel; /* elements from one to the next */
    int64_t width;            /* places of a line of the window; elements: */
    int64_t line, place;
    uint8_t flip;
    int is_winograd;
} packing;

int64_t dn_tiles_sums_bytes(const dn_tiles_isa *isa, int64_t panels)
{
    return isa->sum_bytes ? panels * 2 * isa->lanes * (int64_t)sizeof(int32_t) : 0;
}

static int64_t depth_of(const packing *p)
{
    const int64_t together = dn_tiles_together(p->isa);
    return (p->channels + together - 1) / together;
}

/* One group of channels of a panel at one place of the window. */
static void pack_group(const packing *p, int64_t panel, int64_t place, int64_t group, char *to)
{
    const int64_t together = dn_tiles_together(p->isa);
    const int64_t first = panel * p->columns;
    const int64_t offset = place / p->width * p->line + place % p->width * p->place;
    if (p->size == DN_TILE_GROUP && p->feature == 1 && first + p->columns <= p->features) {
        const char *from = p->y + (offset + group * p->channel + first) * p->size;
        memcpy(to, from, (size_t)(p->columns * p->size));
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
            const char *from =
                p->y + (offset + channel * p->channel + (first + i) * p->feature) * p->size;
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

static void pack_panels(void *self, int64_t begin, int64_t end)
{
    const packing *p = self;
    const int64_t groups = p->places * depth_of(p);
    const int64_t together = dn_tiles_together(p->isa);
    const int64_t bytes = together * p->size * p->columns;
    const int64_t sums_bytes = dn_tiles_sums_bytes(p->isa, p->panels);
    for (int64_t panel = begin; p->is_winograd && panel < end; panel++) {
        const int64_t first = panel * p->columns;
        const int64_t left = p->features - first;
        const int64_t stride[4] = {p->feature, p->channel, p->line, p->place};
        char *to = p->dst + panel * DN_WINO_PLACES * p->channels * bytes;
        dn_winograd_panel((const float *)(const void *)p->y + first * p->feature, stride,
                          left < p->columns ? left : p->columns, p->channels, (float *)(void *)to);
    }
    if (p->is_winograd) {
        return;
    }
    for (int64_t panel = begin; panel < end; panel++) {
        int32_t *sums = (int32_t *)(void *)p->dst + panel * p->columns;
        char *to = p->dst + sums_bytes + panel * groups * bytes;
        if (sums_bytes) {
            memset(sums, 0, (size_t)p->columns * sizeof *sums);
        }
        for (int64_t g = 0; g < groups; g++, to += bytes) {
            pack_group(p, panel, g / depth_of(p), g % depth_of(p), to);
            if (sums_bytes) {
                sum_group(to, p->columns, together, sums);
            }
        }
    }
}

void dn_tiles_pack(const dn_op *op, const dn_sizes *sizes, int is_winograd, const void *y,
                   void *dst, stator_ctx *ctx)
{
    const st_form *form = &op->form;
    const stator_host *host = op->lib->host;
    dn_sizes s = *sizes;
    dn_simplify(form, &s);
    const dn_tiles_isa *isa = dn_tiles_isa_of(op->lib, form->x.dtype);
    packing p = {.y = y,
                 .dst = dst,
                 .isa = isa,
                 .columns = 2 * isa->lanes,
                 .is_winograd = is_winograd,
                 .size = (int64_t)dn_dtype_size(form->y.dtype),
                 .features = s.n,
                 .channels = s.k,
                 .places = 1,
                 .feature = s.y.stride[1],
                 .channel = s.y.stride[0],
                 .width = 1,
                 .flip = form->y.dtype == STATOR_U8 ? MOVED : 0};
    if (form->kind == ST_FORM_CONV) {
        const uint32_t last = form->n_spatial - 1u;
        p.features = s.features;
        p.channels = s.channels;
        p.feature = s.y.dims[0];
        p.channel = s.y.dims[1];
        p.width = s.kernel[last];
        p.place = s.y.dims[2 + last];
        p.line = last ? s.y.dims[2] : 0;
        p.places = last ? s.kernel[0] * p.width : p.width;
    }
    p.panels = (p.features + p.columns - 1) / p.columns;
    if (host && s.threads > 1) {
        host->thr->parallel_for(ctx, p.panels, 1, pack_panels, &p);
    } else {
        pack_panels(&p, 0, p.panels);
    }
}
