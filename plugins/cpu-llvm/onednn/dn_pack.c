/* Constant weights in the order that a primitive asks for, made once: shared through the host by
 * everything that holds the same constant, or the op's own where there is no host. */
#include "plugins/cpu-llvm/onednn/dn_library.h"

#include "codegen/codegen.h"
#include "core/base/diag.h"

#include <stdio.h>
#include <string.h>

#define LINE 64u
#define ALONE_BYTES (UINT64_C(256) << 10) /* packed sooner than a team meets on a busy machine */

/* ---- a name for an order ---- */

static void mix(uint64_t *hash, const void *bytes, size_t n)
{
    const uint8_t *b = bytes;
    for (size_t i = 0; i < n; i++) { /* FNV-1a */
        *hash = (*hash ^ b[i]) * UINT64_C(1099511628211);
    }
}

static void mix_order(uint64_t *hash, const dnnl_memory_desc_t *md)
{
    const size_t dims = (size_t)md->ndims * sizeof md->dims[0];
    mix(hash, &md->ndims, sizeof md->ndims);
    mix(hash, md->dims, dims);
    mix(hash, md->padded_dims, dims);
    mix(hash, &md->data_type, sizeof md->data_type);
    mix(hash, &md->format_kind, sizeof md->format_kind);
    mix(hash, &md->extra.flags, sizeof md->extra.flags);
    mix(hash, &md->extra.compensation_mask, sizeof md->extra.compensation_mask);
    mix(hash, &md->extra.asymm_compensation_mask, sizeof md->extra.asymm_compensation_mask);
    mix(hash, &md->extra.scale_adjust, sizeof md->extra.scale_adjust);
    if (md->format_kind == dnnl_blocked) {
        const dnnl_blocking_desc_t *b = &md->format_desc.blocking;
        const size_t inner = (size_t)b->inner_nblks * sizeof b->inner_blks[0];
        mix(hash, b->strides, dims);
        mix(hash, b->inner_blks, inner);
        mix(hash, b->inner_idxs, inner);
    } else if (md->format_kind == dnnl_format_kind_wino) {
        const dnnl_wino_desc_t *w = &md->format_desc.wino_desc;
        const int fields[] = {(int)w->wino_format, w->r,        w->alpha,     w->ic,       w->oc,
                              w->ic_block,         w->oc_block, w->ic2_block, w->oc2_block};
        mix(hash, fields, sizeof fields);
        mix(hash, &w->adj_scale, sizeof w->adj_scale);
        mix(hash, &w->size, sizeof w->size);
    }
}

static void mix_blocks(uint64_t *hash, const st_contraction_blocks *of)
{
    const uint32_t has_buffer = of->buffer != UINT32_MAX;
    mix(hash, &has_buffer, sizeof has_buffer);
    mix(hash, &of->dtype, sizeof of->dtype);
    mix(hash, &of->value, sizeof of->value);
    mix(hash, &of->offset, sizeof of->offset);
    mix(hash, of->stride, sizeof of->stride);
    mix(hash, of->block, sizeof of->block);
    mix(hash, of->hash, sizeof of->hash);
}

/* ---- packing ---- */

typedef struct packing {
    dn_op *op;
    const dnnl_memory_desc_t *from;
    const dnnl_memory_desc_t *to;
    const dn_candidate *how;
    const void *y; /* NULL: to be read from the op's blob */
    const dn_sizes *sizes;
    dnnl_status_t failed;
} packing;

static dnnl_status_t reorder(const packing *p, dnnl_memory_t from, dnnl_memory_t to)
{
    const dnnl_engine_t engine = p->op->lib->engine;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_stream_t stream = NULL;
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
    dnnl_status_t status =
        dnnl_reorder_primitive_desc_create(&pd, p->from, engine, p->to, engine, NULL);
    DN_THEN(status, dnnl_primitive_create(&primitive, pd));
    DN_THEN(status, dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    DN_THEN(status, dnnl_primitive_execute(primitive, stream, 2, args));
    DN_THEN(status, dnnl_stream_wait(stream));
    (void)(stream ? dnnl_stream_destroy(stream) : dnnl_success);
    (void)(primitive ? dnnl_primitive_destroy(primitive) : dnnl_success);
    (void)(pd ? dnnl_primitive_desc_destroy(pd) : dnnl_success);
    return status;
}

/* Packed weights are read in whole cache lines; the host's blobs begin at less. */
static void *align(const void *p)
{
    return (void *)(((uintptr_t)p + LINE - 1u) / LINE * LINE);
}

/* Padding of the order or around it becomes zeros. What is written to anyway is left alone: memory
 * that is cleared first is fetched twice. */
static void clear(const packing *p, char *dst, uint64_t size)
{
    const dnnl_memory_desc_t *to = p->to;
    char *first = align(dst);
    uint64_t bytes = st_element_bytes(p->op->contraction.y.dtype);
    for (int i = 0; i < to->ndims; i++) {
        bytes *= (uint64_t)to->dims[i];
    }
    if (to->format_kind == dnnl_format_kind_wino) {
        const uint64_t tile = (uint64_t)to->format_desc.wino_desc.alpha;
        const uint64_t r = (uint64_t)to->format_desc.wino_desc.r;
        bytes = bytes / (r * r) * tile * tile;
    }
    if (bytes != dnnl_memory_desc_get_size(to)) {
        memset(dst, 0, size);
        return;
    }
    memset(dst, 0, (size_t)(first - dst));
    memset(first + bytes, 0, size - bytes - (uint64_t)(first - dst));
}

static stator_status fill(void *self, void *dst, uint64_t size)
{
    packing *p = self;
    dnnl_memory_t from = NULL;
    dnnl_memory_t to = NULL;
    const stator_host *host = p->op->lib->host;
    if (p->how->is_quant) {
        return dn_quant_pack(p->op, p->sizes, p->y, align(dst), host ? host->ctx : NULL);
    }
    if (p->y == NULL) {
        ST_TRY(dn_y_data(p->op, p->sizes, p->sizes->y.offset, &p->y, NULL));
    }
    if (p->how->is_tiles) {
        dn_tiles_pack(p->op, p->sizes, (int)p->how->is_winograd, p->y, align(dst),
                      host ? host->ctx : NULL);
        return STATOR_OK;
    }
    clear(p, dst, size);
    if (dn_winograd_pack(p->op, p->from, p->to, p->y, align(dst))) {
        return STATOR_OK;
    }
    const dn_team team = dn_team_begin(size <= ALONE_BYTES ? 1 : (int)p->sizes->threads);
    /* oneDNN does not write to a tensor that is reordered from. */
    dnnl_status_t status =
        dnnl_memory_create(&from, p->from, p->op->lib->engine, (void *)(uintptr_t)p->y);
    DN_THEN(status, dnnl_memory_create(&to, p->to, p->op->lib->engine, align(dst)));
    DN_THEN(status, reorder(p, from, to));
    dn_team_end(&team);
    (void)(from ? dnnl_memory_destroy(from) : dnnl_success);
    (void)(to ? dnnl_memory_destroy(to) : dnnl_success);
    p->failed = status;
    return status == dnnl_success         ? STATOR_OK
           : status == dnnl_out_of_memory ? STATOR_RESOURCE_EXHAUSTED
                                          : STATOR_INTERNAL;
}

static stator_status pack_shared(packing *p, dn_pack *pack, stator_diag **err)
{
    const stator_host *host = p->op->lib->host;
    const st_contraction *contraction = &p->op->contraction;
    char library[64];
    char key[128];
    uint64_t hash = UINT64_C(14695981039346656037);
    stator_blob_info info = {.struct_size = sizeof info};
    mix_order(&hash, p->from);
    mix_order(&hash, p->to);
    if (p->how->is_tiles && contraction->is_transposed) { /* the order of its phases */
        mix(&hash, contraction->stride, contraction->n_spatial * sizeof contraction->stride[0]);
        mix(&hash, contraction->dilation, contraction->n_spatial * sizeof contraction->dilation[0]);
    }
    if (p->how->is_quant) {
        mix(&hash, &contraction->y.dtype, sizeof contraction->y.dtype);
        mix_blocks(&hash, &contraction->weights.scale);
        mix_blocks(&hash, &contraction->weights.zero);
    }
    dn_identity(library, sizeof library);
    (void)snprintf(key, sizeof key, "%s:%lld:%016llx", library, (long long)p->sizes->y.offset,
                   (unsigned long long)hash);
    stator_diag *theirs = NULL;
    stator_status status = host->cst->pack(host->ctx, contraction->y_hash, key, pack->bytes, fill,
                                           p, &pack->blob, &theirs);
    if (status == STATOR_OK) { /* get would hash it */
        status = STATOR_HAS(host->cst, peek) ? host->cst->peek(pack->blob, &info, &theirs)
                                             : host->cst->get(pack->blob, &info, &theirs);
        pack->data = align(info.data);
    }
    return st_cg_from_host(host, status, &theirs, err);
}

static stator_status pack_own(packing *p, dn_pack *pack, stator_diag **err)
{
    pack->data = st_alloc(p->op->lib->mem, pack->bytes, LINE);
    return pack->data ? fill(p, pack->data, pack->bytes) : st_fail_oom(err);
}

static void release(const dn_op *op, dn_pack *pack)
{
    if (pack->blob) {
        op->lib->host->cst->release(pack->blob);
    } else {
        st_free(op->lib->mem, pack->data);
    }
}

/* The pack of the weights in this order; NULL: there is none. */
static const dn_pack *find(const dn_op *op, const dnnl_memory_desc_t *md)
{
    for (uint32_t i = 0; i < op->n_packs; i++) {
        if (dnnl_memory_desc_equal(&op->packs[i].md, md)) {
            return &op->packs[i];
        }
    }
    return NULL;
}

bool dn_pack_has(dn_op *op, const dnnl_memory_desc_t *md)
{
    return find(op, md) != NULL;
}

bool dn_pack_fits(dn_op *op, const dnnl_memory_desc_t *to)
{
    dn_lib *lib = op->lib;
    if (lib->memory_cap == 0 || dn_pack_has(op, to)) {
        return true;
    }
    (void)pthread_mutex_lock(&lib->mutex);
    const uint64_t used = lib->packed_bytes;
    (void)pthread_mutex_unlock(&lib->mutex);
    return used <= lib->memory_cap &&
           dnnl_memory_desc_get_size(to) + LINE <= lib->memory_cap - used;
}

static void count_packed(dn_lib *lib, uint64_t more, uint64_t less)
{
    (void)pthread_mutex_lock(&lib->mutex);
    lib->packed_bytes += more - less;
    (void)pthread_mutex_unlock(&lib->mutex);
}

stator_status dn_pack_get(dn_op *op, const dn_desc *desc, const void *y, const dn_sizes *sizes,
                          void **out_data, stator_diag **err)
{
    const dnnl_memory_desc_t *to = &desc->md[DN_Y2];
    const dn_pack *made = find(op, to);
    if (made) {
        *out_data = made->data;
        return STATOR_OK;
    }
    ST_FAIL_IF(op->n_packs == DN_PACKS_MAX, err, STATOR_RESOURCE_EXHAUSTED,
               "inductor-cpu: a constant would be packed in more than %u ways", DN_PACKS_MAX);
    dn_pack pack = {.md = *to,
                    .bytes = dnnl_memory_desc_get_size(to) + LINE,
                    .is_winograd = desc->how.is_winograd};
    packing p = {
        .op = op, .from = &desc->md[DN_Y], .to = to, .how = &desc->how, .y = y, .sizes = sizes};
    const bool is_shared = op->lib->host && op->lib->host->cst && op->lib->host->cst->pack;
    const stator_status status = is_shared ? pack_shared(&p, &pack, err) : pack_own(&p, &pack, err);
    if (status != STATOR_OK) {
        release(op, &pack);
        return p.failed != dnnl_success ? dn_fail(err, "pack weights", p.failed) : status;
    }
    count_packed(op->lib, pack.bytes, 0);
    op->packs[op->n_packs++] = pack;
    *out_data = pack.data;
    return STATOR_OK;
}

void dn_packs_release(dn_op *op)
{
    for (uint32_t i = 0; i < op->n_packs; i++) {
        count_packed(op->lib, 0, op->packs[i].bytes);
        release(op, &op->packs[i]);
    }
    op->n_packs = 0;
}
