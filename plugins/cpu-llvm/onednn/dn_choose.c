/* Which way of doing a contraction is taken.
 *
 * The candidates differ in what is reordered: nothing; one operand; all of them into the order that
 * oneDNN likes; Winograd, which has an order of its own. Without measuring, the best class with the
 * least to move is taken. With it, large contractions of known size are tried (dn_tune.c). */
#include "plugins/cpu-llvm/kernels/tiles/dn_tiles.h"
#include "plugins/cpu-llvm/onednn/dn_library.h"

#include "core/base/diag.h"

#include <string.h>

#define TUNE_MACS 1000000   /* below, the choice is not worth the time to measure */
#define TUNE_MACS_ALL 10000 /* the same with DNNL_TUNE_ALL */

#define FAR_BYTES 2048 /* from one row to the next */

#define LONG_PRODUCT 256 /* columns, and products of a sum */

#define HINTED_LESS 16 /* a measurement holds down to a sixteenth of the work */

/* ---- candidates ---- */

static void add(dn_candidate *all, uint32_t *n, dn_candidate how)
{
    if (*n < DN_CANDIDATES_MAX) {
        all[(*n)++] = how;
    }
}

static bool has_add(const dn_op *op)
{
    return (dn_epilogue_kinds(&op->contraction) & DN_KIND(ADD)) != 0;
}

/* Both images as they are or moved; the weight's order is free. */
static uint32_t gradient_candidates(dn_candidate all[DN_CANDIDATES_MAX])
{
    uint32_t n = 0;
    for (uint32_t moved = 0; moved < 4; moved++) {
        add(all, &n, (dn_candidate){.move_x = moved & 1u, .move_y = moved >> 1, .move_out = 1});
    }
    add(all, &n, (dn_candidate){.move_x = 1, .move_y = 1, .move_out = 1, .channels_last = 1});
    return n;
}

/* x and out each as they are or moved; weights: free when they are packed or a convolution's. */
uint32_t dn_candidates(const dn_op *op, const dn_sizes *s, dn_candidate all[DN_CANDIDATES_MAX])
{
    uint32_t n = 0;
    const bool is_conv = op->contraction.kind == ST_CONTRACTION_CONV;
    const bool is_added = has_add(op) && !s->is_bare;
    if (op->contraction.is_weight_grad) {
        return gradient_candidates(all);
    }
    const uint32_t free_y = is_conv || op->has_constant;
    for (uint32_t moved = 0; moved < 4; moved++) {
        for (uint32_t sum = 0; sum <= (uint32_t)is_added; sum++) {
            const dn_candidate how = {
                .move_x = moved & 1u, .move_y = free_y, .move_out = moved >> 1, .is_sum = sum};
            add(all, &n, how);
            if (!free_y) {
                dn_candidate packed = how;
                packed.move_y = 1;
                add(all, &n, packed);
            }
        }
    }
    if (is_conv) {
        add(all, &n,
            (dn_candidate){.move_x = 1,
                           .move_y = 1,
                           .move_out = 1,
                           .channels_last = 1,
                           .is_sum = (uint32_t)is_added});
    }
    return n;
}

uint32_t dn_describe_any(const dn_op *op, const dn_sizes *s, const dn_candidate *how, dn_desc *out)
{
    if (how->is_planes) {
        return dn_planes_describe(op, s, out) ? out->class_ : (uint32_t)DN_NO;
    }
    if (how->is_product) {
        return dn_product_describe(op, s, out) ? out->class_ : (uint32_t)DN_NO;
    }
    if (how->is_gradient) {
        return dn_gradient_describe(op, s, how->is_winograd, out) ? out->class_ : (uint32_t)DN_NO;
    }
    if (!how->is_tiles) {
        return dn_describe(op, s, how, out);
    }
    return dn_tiles_describe(op, s, how->is_winograd, out) ? out->class_ : (uint32_t)DN_NO;
}

dn_candidate dn_winograd_of(const dn_op *op)
{
    if (op->contraction.is_weight_grad) {
        return (dn_candidate){.is_gradient = 1, .is_winograd = 1};
    }
    if (dn_tiles_has_winograd(op)) {
        return (dn_candidate){.is_tiles = 1, .is_winograd = 1};
    }
    return (dn_candidate){
        .move_x = 1, .move_y = 1, .move_out = 1, .is_winograd = 1, .is_sum = (uint32_t)has_add(op)};
}

/* oneDNN's transposed convolutions do other rows than a bias one element after the other. */
static bool has_slow_rows(const st_contraction *contraction)
{
    return contraction->is_transposed && contraction->n_epilogue &&
           (contraction->n_epilogue > 1 || contraction->epilogue[0].kind != ST_EPILOGUE_BIAS);
}

uint32_t dn_best_class(const dn_op *op, const dn_sizes *s)
{
    dn_candidate all[DN_CANDIDATES_MAX];
    uint32_t best = DN_NO;
    const uint32_t n = dn_candidates(op, s, all);
    dn_desc own;
    if (op->contraction.weights.is_scaled) {
        return op->has_constant && dn_quant_describe(op, s, &own) ? DN_GOOD : DN_NO;
    }
    if (dn_tiles_describe(op, s, 0, &own) || dn_planes_describe(op, s, &own) ||
        dn_gradient_describe(op, s, 0, &own) || dn_product_describe(op, s, &own)) {
        return DN_GOOD;
    }
    if (has_slow_rows(&op->contraction)) {
        return DN_NO;
    }
    for (uint32_t i = 0; i < n && best != DN_GOOD; i++) {
        dn_desc desc;
        const uint32_t class_ = dn_describe(op, s, &all[i], &desc);
        best = class_ > best ? class_ : best;
        dn_desc_deinit(&desc);
    }
    return best;
}

/* ---- without measuring ---- */

/* Does a product read rows of weights that lie far apart, where they lie? Its kernel takes 64
 * columns at a time, so that each row that it comes to is another page: packed, the same weights
 * take half the time. */
static bool has_far_rows(const dn_op *op, const dn_desc *desc)
{
    const dnnl_memory_desc_t *y = &desc->md[DN_Y2];
    const dnnl_dim_t *strides = y->format_desc.blocking.strides;
    return op->contraction.kind == ST_CONTRACTION_GEMM && y->ndims >= 2 &&
           dnnl_memory_desc_equal(&desc->md[DN_Y], y) && strides[y->ndims - 1] == 1 &&
           strides[y->ndims - 2] * (int64_t)st_element_bytes(op->contraction.y.dtype) >= FAR_BYTES;
}

/* A rough time in bytes: what is moved, and what a slower implementation loses (it does about half
 * of the products, of which there are some 16 in the time of a byte). */
static uint64_t cost_of(dn_op *op, const dn_sizes *s, const dn_desc *desc)
{
    int64_t elements = 0;
    int64_t macs = 0;
    dn_work(&op->contraction, s, &elements, &macs);
    uint64_t cost = dn_desc_moved(desc);
    if (op->has_constant && !dnnl_memory_desc_equal(&desc->md[DN_Y], &desc->md[DN_Y2])) {
        cost -= 2u * dnnl_memory_desc_get_size(&desc->md[DN_Y2]); /* packed once */
    }
    if (op->has_constant && op->n_packs && !dn_pack_has(op, &desc->md[DN_Y2])) {
        cost += 1; /* a tie goes to the one that is packed already */
    }
    if (desc->sum) {
        cost += 2u * dnnl_memory_desc_get_size(&desc->md[DN_OUT2]);
    }
    const bool is_slow = desc->class_ == DN_GEMM || has_far_rows(op, desc);
    return cost + (is_slow ? (uint64_t)(macs / 16) : 0);
}

/* The cheapest of oneDNN's, described; class DN_NO: none. */
static void guess_of_onednn(dn_op *op, const dn_sizes *s, dn_desc *out)
{
    dn_candidate all[DN_CANDIDATES_MAX];
    uint64_t best = UINT64_MAX;
    const uint32_t n = dn_candidates(op, s, all);
    memset(out, 0, sizeof *out);
    for (uint32_t i = 0; i < n; i++) {
        dn_desc desc;
        if (dn_describe(op, s, &all[i], &desc) == DN_NO) {
            continue;
        }
        const uint64_t cost = cost_of(op, s, &desc);
        if (cost < best) {
            dn_desc_deinit(out);
            *out = desc;
            best = cost;
        } else {
            dn_desc_deinit(&desc);
        }
        if (best == 0) {
            return;
        }
    }
}

/* Are kernels of our own usually the best, as far as they do it? Most groups of a convolution leave
 * their panels half empty, and none of them are written for AMX. */
static bool are_tiles_first(const dn_op *op, const dn_sizes *s)
{
    if (op->contraction.x.dtype != STATOR_F32 && dn_has_amx(op->lib)) {
        return false;
    }
    if (op->lib->flags & DNNL_TILES_FIRST) {
        return true;
    }
    if (dn_tiles_are_second(op->lib, &op->contraction)) {
        return false;
    }
    if (op->contraction.groups <= 1 || has_slow_rows(&op->contraction)) {
        return true;
    }
    const dn_tiles_isa *isa = dn_tiles_isa_for(op->lib, &op->contraction, s);
    const dn_sections sections =
        isa ? dn_tiles_sections(isa, &op->contraction, s) : (dn_sections){0};
    return sections.are_fours || sections.are_singles;
}

/* Is a product of two inputs usually the fastest by the kernel of our own? With AVX-512 oneDNN's
 * are as good; of few columns, or of short sums, those that need not be reordered are. */
static bool is_product_first(const dn_op *op, const dn_sizes *s)
{
    return (op->lib->flags & DNNL_TILES_FIRST) ||
           (!dn_tiles_are_second(op->lib, &op->contraction) &&
            ((s->x.stride[1] == 1 && s->y.stride[1] == 1) ||
             (s->n >= LONG_PRODUCT && s->k >= LONG_PRODUCT)));
}

/* The cheapest one, described; class DN_NO: none. */
static void guess(dn_op *op, const dn_sizes *s, dn_desc *out)
{
    const uint32_t is_winograd = (op->lib->flags & DNNL_WINOGRAD_FIRST) != 0;
    if ((is_winograd &&
         (dn_tiles_describe(op, s, 1, out) || dn_gradient_describe(op, s, 1, out))) ||
        dn_planes_describe(op, s, out) || dn_gradient_describe(op, s, 0, out) ||
        (is_product_first(op, s) && dn_product_describe(op, s, out)) ||
        (are_tiles_first(op, s) && dn_tiles_describe(op, s, 0, out))) {
        return;
    }
    guess_of_onednn(op, s, out);
    dn_desc own;
    if (out->class_ != DN_GOOD && dn_tiles_describe(op, s, 0, &own)) {
        dn_desc_deinit(out);
        *out = own;
    } else if (out->class_ == DN_NO && dn_product_describe(op, s, &own)) {
        *out = own;
    }
}

/* ---- a plan ---- */

static stator_status bind_weights(dn_op *op, dn_plan *plan, const dn_sizes *s, const void *y,
                                  stator_diag **err)
{
    void *data = NULL;
    if (!plan->is_packed) {
        return STATOR_OK;
    }
    ST_TRY(dn_pack_get(op, &plan->desc, y, s, &data, err));
    return dn_plan_bind(op, plan, data, err);
}

/* The plan of the descriptors, which it takes over, its weights bound. */
static stator_status make_bound(dn_op *op, const dn_sizes *key, const dn_sizes *sizes,
                                dn_desc *desc, const void *y, dn_plan **out, stator_diag **err)
{
    if (desc->primitive) {
        ST_TRY(dn_plan_make(op, key, desc, out, err));
    } else {
        ST_TRY(dn_plan_own(op, key, desc, out, err));
    }
    (*out)->y_offset = sizes->y.offset;
    const stator_status status = bind_weights(op, *out, sizes, y, err);
    if (status != STATOR_OK) {
        dn_plan_destroy(op, *out);
        *out = NULL;
    }
    return status;
}

/* Packed weights that pass the library's cap: another form of them than Winograd's, or none.
 * Replaces the descriptors. */
static void keep_to_cap(dn_op *op, const dn_sizes *s, dn_desc *desc)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (desc->class_ == DN_NO || !op->has_constant || dn_pack_fits(op, &desc->md[DN_Y2])) {
            return;
        }
        op->has_constant = i == 0 && desc->how.is_winograd;
        dn_desc_deinit(desc);
        guess(op, s, desc);
    }
}

void dn_note_hinted(dn_op *op, const dn_sizes *sizes)
{
    const dn_plan *plan = op->n_plans == 1 ? op->plans[0] : NULL;
    int64_t elements = 0;
    if (plan && !op->is_static &&
        (plan->kind == DN_PLAN_PRIMITIVE || plan->kind == DN_PLAN_TILES ||
         plan->kind == DN_PLAN_PRODUCT)) {
        op->hinted = plan->desc.how;
        dn_work(&op->contraction, sizes, &elements, &op->hinted_macs);
    }
}

/* The candidate chosen for the sizes of the hints, where it is possible here and not for much less
 * work: there other things count than were measured. */
static bool describe_hinted(const dn_op *op, const dn_sizes *s, int64_t macs, dn_desc *out)
{
    return op->hinted_macs && macs >= op->hinted_macs / HINTED_LESS && !s->is_bare &&
           dn_describe_any(op, s, &op->hinted, out) != DN_NO;
}

stator_status dn_choose(dn_op *op, const dn_sizes *sizes, const void *y, bool is_tuned,
                        dn_plan **out, stator_diag **err)
{
    dn_desc desc;
    int64_t elements = 0;
    int64_t macs = 0;
    dn_sizes key;
    *out = NULL;
    dn_key_of(sizes, &key);
    dn_work(&op->contraction, sizes, &elements, &macs);
    if (elements == 0 || macs == 0) {
        return dn_plan_other(op, &key, elements ? DN_PLAN_PLAIN : DN_PLAN_EMPTY, out, err);
    }
    dn_sizes simple = key;
    dn_simplify(&op->contraction, &simple);
    if (op->contraction.weights.is_scaled) {
        if (!dn_quant_describe(op, &simple, &desc)) {
            return dn_plan_other(op, &key, DN_PLAN_PLAIN, out, err);
        }
        op->has_constant = op->has_constant && dn_pack_fits(op, &desc.md[DN_Y2]);
        return make_bound(op, &key, sizes, &desc, y, out, err);
    }
    if (dn_skinny_describe(op, &simple, &desc) && dn_pack_fits(op, &desc.md[DN_Y2])) {
        return make_bound(op, &key, sizes, &desc, y, out, err);
    }
    if (!describe_hinted(op, &simple, macs, &desc)) {
        guess(op, &simple, &desc);
    }
    const int64_t least = op->lib->flags & DNNL_TUNE_ALL ? TUNE_MACS_ALL : TUNE_MACS;
    if (desc.class_ != DN_NO && is_tuned && macs >= least) {
        const dn_candidate how = dn_tune(op, &simple, &desc.how);
        if (memcmp(&how, &desc.how, sizeof how) != 0) {
            dn_desc_deinit(&desc);
            if (dn_describe_any(op, &simple, &how, &desc) == DN_NO) {
                guess(op, &simple, &desc);
            }
        }
    }
    keep_to_cap(op, &simple, &desc);
    if (desc.class_ == DN_NO) {
        return dn_plan_other(op, &key, DN_PLAN_PLAIN, out, err);
    }
    return make_bound(op, &key, sizes, &desc, y, out, err);
}

stator_status dn_adopt(dn_op *op, const dn_sizes *sizes, uint32_t kind, const dn_candidate *how,
                       stator_diag **err)
{
    dn_desc desc;
    dn_plan *plan = NULL;
    dn_sizes key;
    dn_key_of(sizes, &key);
    dn_sizes simple = key;
    if (kind == DN_PLAN_PLAIN || kind == DN_PLAN_EMPTY) {
        ST_TRY(dn_plan_other(op, &key, kind, &plan, err));
    } else {
        dn_simplify(&op->contraction, &simple);
        const bool is_known = kind == DN_PLAN_SKINNY ? dn_skinny_describe(op, &simple, &desc)
                              : kind == DN_PLAN_QUANT
                                  ? dn_quant_describe(op, &simple, &desc)
                                  : dn_describe_any(op, &simple, how, &desc) != DN_NO;
        ST_FAIL_IF(!is_known, err, STATOR_DATA_LOSS,
                   "inductor-cpu: oneDNN does not know what was chosen for a contraction");
        ST_TRY(make_bound(op, &key, sizes, &desc, NULL, &plan, err));
    }
    op->plans[op->n_plans++] = plan;
    return STATOR_OK;
}
