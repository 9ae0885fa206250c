/* The lowerings that codegen/lower/lower.def names. */
#ifndef STATOR_CODEGEN_LOWER_H
#define STATOR_CODEGEN_LOWER_H

#include "codegen/lower/unit.h"

#define CG_POINT(op, function, cost)                                                               \
    st_loop_ref function(cg_nest *nest, const cg_node *node, uint32_t result,                      \
                         const uint32_t *index);
#define CG_FOLD(op, fold, element, finish)                                                         \
    void fold(const cg_node *node, cg_fold *out);                                                  \
    void element(cg_nest *nest, const cg_node *node, const uint32_t *index, const uint32_t *inner, \
                 cg_element *out);
#define CG_REPEAT(op, fold, element, finish) CG_FOLD(op, fold, element, finish)
#define CG_WRITE(op, write, refuses, repeats)                                                      \
    void write(cg_nest *nest, const cg_node *node);                                                \
    const char *refuses(const stator_graph_view *view, const stator_node_row *row);
#define CG_WHOLE(op, write, refuses, contraction)                                                  \
    CG_WRITE(op, write, refuses, 1)                                                                \
    bool contraction(cg_unit *unit, const cg_node *node, const st_kernel *kernel,                  \
                     st_contraction *out);
#define CG_AIDED(op, write, refuses, contraction) CG_WHOLE(op, write, refuses, contraction)
#define CG_FIXED(op, write, refuses, contraction) CG_WHOLE(op, write, refuses, contraction)
#define CG_HOST(op, write, refuses, slow, contraction)                                             \
    CG_WHOLE(op, write, refuses, contraction)                                                      \
    const char *slow(const stator_graph_view *view, const stator_node_row *row);
#define CG_LOOP(op, write) void write(cg_nest *nest, const cg_node *node);
#include "codegen/lower/lower.def"

/* Pointwise ops that are ops of codegen/loopir/loop_ops.def. */
st_loop_ref cg_scalar(cg_nest *nest, const cg_node *node, uint32_t result, const uint32_t *index);

/* Broadcasts: sets an index into `operand` to 0 along axes of size 1, known or not, where `dims`
 * has another size. */
void cg_fit_index(cg_nest *nest, const cg_value *operand, const uint32_t *dims, uint32_t *index);

/* ---- reduction.c ---- */
st_loop_ref cg_arg_finish(cg_nest *nest, const cg_node *node, const uint32_t *index,
                          st_loop_ref folded);

/* ---- contraction_folds.c ---- */
st_loop_ref cg_conv_finish(cg_nest *nest, const cg_node *node, const uint32_t *index,
                           st_loop_ref folded);

/* Position of an operand for output position o and window position k: o * stride + k * dilation
 * - low. */
uint32_t cg_window_position(cg_nest *nest, uint32_t o, int64_t stride, uint32_t k, int64_t dilation,
                            uint32_t low);
/* The operand where ok holds, wide; outside it the fold is not updated. */
st_loop_ref cg_masked_operand(cg_nest *nest, stator_ref operand, const uint32_t *index,
                              st_loop_ref ok);

/* ---- gradient_folds.c ---- */
/* Columns of blocks along spatial axis i, 0 or less where a block is larger than the image; 0 as a
 * sym: beyond the limits. */
uint32_t cg_col2im_columns(const cg_node *node, uint32_t i);

/* ---- view_ops.c ---- */

/* The value of an index tensor as an index into an axis: negative counts from the end, outside
 * fails the call. *out_ok holds where the index is good; elsewhere nothing may be loaded. */
uint32_t cg_bound_index(cg_nest *nest, stator_ref tensor, const uint32_t *index, uint32_t size,
                        st_loop_ref *out_ok);

/* ---- op_loops.c: what ops with loops of their own share ---- */

/* Opens a loop and gives the sym of its axis, 0 after an error. The first one opened in a kernel is
 * parallel unless it is serial or folds. */
uint32_t cg_open(cg_nest *nest, uint32_t extent, uint32_t flags);
void cg_close(cg_nest *nest, uint32_t n);
/* Opens a loop over each of dims[0..rank) but `skip` (UINT32_MAX: none) and those of size 1, writes
 * their syms to index. Returns how many. */
uint32_t cg_open_all(cg_nest *nest, uint32_t rank, const uint32_t *dims, uint32_t skip,
                     uint32_t flags, uint32_t *index);
/* Does anything read result k? */
bool cg_is_wanted(const cg_unit *unit, const cg_node *node, uint32_t k);
/* The element of result k that the kernel wrote before, and writing it: of the result's dtype. */
st_loop_ref cg_written(cg_nest *nest, const cg_node *node, uint32_t k, const uint32_t *index,
                       st_loop_ref mask);
void cg_put(cg_nest *nest, const cg_node *node, uint32_t k, const uint32_t *index,
            st_loop_ref value, st_loop_ref mask);
/* An axis attribute, counted from the front. */
uint32_t cg_axis(const cg_node *node, uint32_t attr, uint32_t rank);

/* ---- scan.c ---- */
/* Number i of a list among the node's attributes, 0 behind its end; and an attribute's number. */
int64_t cg_scan_list_at(const stator_graph_view *v, const stator_node_row *row, uint32_t attr,
                        uint32_t i);
uint32_t cg_scan_count(const stator_graph_view *v, const stator_node_row *row, uint32_t attr);
/* How many sizes does a step bind? They are the call's, so no two such bodies run at once. */
uint32_t cg_scan_binds(const stator_graph_view *body);
const char *cg_scan_refuses(const stator_host *host, const stator_graph_view *view,
                            const stator_node_row *row);

#endif
