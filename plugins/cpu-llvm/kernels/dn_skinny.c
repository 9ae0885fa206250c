/* Few rows against constant weights, out[m, n] = x[m, k] * w[k, n] with m of at most 8, or few
 * images of one position.
 *
 * Each weight is used so seldom that the time is that of reading them, and what matters is that
 * memory is never idle: the weights lie in panels, [n / columns][k][columns] (an order of oneDNN's,
 * so that oneDNN packs them), which are read from front to back, and what comes later is asked for.
 * The sums of a panel stay in registers. Threads take panels concurrently. f32 alone, with AVX-512
 * or AVX2; the epilogue keeps NaN. */
#include "plugins/cpu-llvm/kernels/dn_skinny.h"

#include <string.h>

#define GRAIN_BYTES ((int64_t)64 << 10) /* weights that are worth a thread */

/* The numbers of a product: those of the contraction, or of a convolution of one position, which
 * is one (squeeze and excite, classifiers). 0: it is none. */
static bool as_product(const dn_op *op, const dn_sizes *s, dn_sizes *out)
{
    const st_contraction *contraction = &op->contraction;
    *out = *s;
    if (contraction->kind == ST_CONTRACTION_GEMM) {
        dn_simplify(contraction, out);
        return true;
    }
    bool is_product =
        contraction->groups == 1 && !contraction->is_transposed && !contraction->is_weight_grad;
    for (uint32_t i = 0; i < contraction->n_spatial; i++) {
        is_product = is_product && s->in[i] == 1 && s->kernel[i] == 1 && s->out_size[i] == 1 &&
                     s->pad_low[i] == 0 && s->pad_high[i] == 0;
    }
    out->n_batch = 0;
    out->m = s->images;
    out->n = s->features;
    out->k = s->channels;
    for (uint32_t i = 0; i < 2; i++) {
        out->x.stride[i] = s->x.dims[i];
        out->y.stride[i] = s->y.dims[1 - i];
        out->out.stride[i] = s->out.dims[i];
    }
    return is_product;
}

/* NULL: this processor has none. */
static const dn_skinny_isa *isa_of(const dn_lib *lib)
{
    return DN_ISA_OF(lib, dn_skinny);
}

/* ---- a call ---- */

static dn_skinny call_of(const dn_op *op, const dn_sizes *product, void *const at[DN_ROLES],
                         const float *w)
{
    const dn_skinny_isa *isa = isa_of(op->lib);
    const int64_t k = (product->k + DN_SKINNY_BLOCK - 1) / DN_SKINNY_BLOCK * DN_SKINNY_BLOCK;
    return (dn_skinny){
        .isa = isa, .op = op, .s = product, .at = at, .w = w, .panel = k * isa->columns};
}

static int64_t count_of(const dn_skinny *s)
{
    return (s->s->n + s->isa->columns - 1) / s->isa->columns;
}

static void run_panels(void *self, int64_t begin, int64_t end)
{
    const dn_skinny *s = self;
    s->isa->run(s, begin, end);
}

void dn_skinny_run(const dn_op *op, const dn_plan *plan, const dn_sizes *sizes,
                   void *const at[DN_ROLES], stator_ctx *ctx)
{
    dn_sizes product;
    void *w = NULL;
    (void)as_product(op, sizes, &product);
    (void)dnnl_memory_get_data_handle(plan->packed, &w);
    dn_skinny s = call_of(op, &product, at, w);
    const int64_t grain = GRAIN_BYTES / (s.panel * (int64_t)sizeof *s.w) + 1;
    dn_parallel(sizes->threads > 1 ? op->lib->host : NULL, ctx, count_of(&s), grain, run_panels,
                &s);
}

void dn_skinny_note(dn_op *op, const dn_plan *plan, const dn_sizes *sizes)
{
    void *w = NULL;
    (void)as_product(op, sizes, &op->sizes);
    (void)dnnl_memory_get_data_handle(plan->packed, &w);
    op->panels = w;
}

void dn_skinny_part(const dn_op *op, void *const at[DN_ROLES], uint32_t part, uint32_t parts)
{
    dn_skinny s = call_of(op, &op->sizes, at, op->panels);
    const int64_t panels = count_of(&s);
    run_panels(&s, panels * part / parts, panels * (part + 1) / parts);
}

/* ---- which ---- */

bool dn_rows_has_epilogue(const st_contraction *contraction)
{
    const uint32_t done = DN_KIND(BIAS) | DN_KIND(ADD) | DN_KIND(SCALE) | DN_KIND(RELU) |
                          DN_KIND(CLIP) | DN_KIND(OFFSET);
    return !(dn_epilogue_kinds(contraction) & ~done) && dn_is_epilogue_f32(contraction);
}

bool dn_skinny_describe(const dn_op *op, const dn_sizes *sizes, dn_desc *out)
{
    const st_contraction *contraction = &op->contraction;
    const dn_skinny_isa *isa = isa_of(op->lib);
    dn_sizes product;
    const bool is_product = as_product(op, sizes, &product);
    const dn_sizes *s = &product;
    const dnnl_dims_t dims = {s->k, s->n};
    const dnnl_dims_t strides = {s->y.stride[0], s->y.stride[1]};
    memset(out, 0, sizeof *out);
    if (!is_product || !op->has_constant || !op->is_static || s->is_bare ||
        contraction->x.dtype != STATOR_F32 || contraction->y.dtype != STATOR_F32 ||
        contraction->out.dtype != STATOR_F32 || s->n_batch != 0 || s->m < 1 ||
        s->m > DN_SKINNY_ROWS || s->n < 1 || s->k < 1 || (s->x.stride[1] != 1 && s->k > 1) ||
        (s->out.stride[1] != 1 && s->n > 1) || !dn_rows_has_epilogue(contraction) || isa == NULL) {
        return false;
    }
    out->name = "skinny";
    out->class_ = DN_GOOD;
    return dn_strided(2, dims, dnnl_f32, strides, &out->md[DN_Y]) &&
           dnnl_memory_desc_init_by_tag(&out->md[DN_Y2], 2, dims, dnnl_f32, isa->order) ==
               dnnl_success;
}
