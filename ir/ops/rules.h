/* The functions that rows of ir/ops.def name: infer rules and decompositions, one file a family,
 * and what baked-in sizes ask for. A rule reads the node through st_infer and sets result types; a
 * decomposition writes lower ops into a builder (ir/infer.h has both interfaces). */
#ifndef STATOR_IR_OPS_RULES_H
#define STATOR_IR_OPS_RULES_H

#include "ir/infer.h"

#define ST_INFER_RULE(name) stator_status name(st_infer *in)
#define ST_DECOMPOSITION(name)                                                                     \
    stator_status name(stator_builder *b, const st_decompose_node *node, stator_ref *out_results,  \
                       stator_diag **err)

/* op_pointwise.c */
ST_INFER_RULE(st_infer_same);
ST_INFER_RULE(st_infer_same_float);
ST_INFER_RULE(st_infer_same_bits);
ST_INFER_RULE(st_infer_abs);
ST_INFER_RULE(st_infer_predicate);
ST_INFER_RULE(st_infer_cast);
ST_INFER_RULE(st_infer_bitcast);
ST_INFER_RULE(st_infer_broadcast);
ST_INFER_RULE(st_infer_broadcast_float);
ST_INFER_RULE(st_infer_broadcast_bits);
ST_INFER_RULE(st_infer_broadcast_int);
ST_INFER_RULE(st_infer_compare);
ST_INFER_RULE(st_infer_order);
ST_INFER_RULE(st_infer_select);
ST_INFER_RULE(st_infer_check);
/* op_source.c */
ST_INFER_RULE(st_infer_constant);
ST_INFER_RULE(st_infer_iota);
ST_INFER_RULE(st_infer_dims);
ST_INFER_RULE(st_infer_sym_bind);
ST_INFER_RULE(st_infer_rng_bits);
ST_INFER_RULE(st_infer_rng);
/* op_movement.c */
ST_INFER_RULE(st_infer_reshape);
ST_INFER_RULE(st_infer_transpose);
ST_INFER_RULE(st_infer_expand);
ST_INFER_RULE(st_infer_slice);
ST_INFER_RULE(st_infer_concat);
ST_INFER_RULE(st_infer_pad);
ST_INFER_RULE(st_infer_gather);
ST_INFER_RULE(st_infer_gather_elements);
ST_INFER_RULE(st_infer_gather_nd);
ST_INFER_RULE(st_infer_scatter_elements);
ST_INFER_RULE(st_infer_scatter_nd);
ST_INFER_RULE(st_infer_assign);
ST_INFER_RULE(st_infer_shape_attr);
ST_INFER_RULE(st_infer_tile);
ST_INFER_RULE(st_infer_one_hot);
ST_INFER_RULE(st_infer_trilu);
/* op_reduce.c */
ST_INFER_RULE(st_infer_reduce);
ST_INFER_RULE(st_infer_arg);
ST_INFER_RULE(st_infer_along);
ST_INFER_RULE(st_infer_along_float);
ST_INFER_RULE(st_infer_sort);
ST_INFER_RULE(st_infer_topk);
ST_INFER_RULE(st_infer_nonzero);
ST_INFER_RULE(st_infer_unique);
/* op_contract.c */
ST_INFER_RULE(st_infer_dot_general);
ST_INFER_RULE(st_infer_matmul);
ST_INFER_RULE(st_infer_einsum);
ST_INFER_RULE(st_infer_conv);
ST_INFER_RULE(st_infer_conv_transpose);
ST_INFER_RULE(st_infer_conv_weight_grad);
ST_INFER_RULE(st_infer_deform_conv);
ST_INFER_RULE(st_infer_col2im);
ST_INFER_RULE(st_infer_dft);
ST_INFER_RULE(st_infer_det);
/* op_window.c */
ST_INFER_RULE(st_infer_window);
ST_INFER_RULE(st_infer_reduce_window);
ST_INFER_RULE(st_infer_lp_pool);
ST_INFER_RULE(st_infer_max_pool);
ST_INFER_RULE(st_infer_avg_pool);
ST_INFER_RULE(st_infer_roi_align);
ST_INFER_RULE(st_infer_grid_sample);
ST_INFER_RULE(st_infer_resize);
ST_INFER_RULE(st_infer_nms);
/* op_norm.c */
ST_INFER_RULE(st_infer_layer_norm);
ST_INFER_RULE(st_infer_rms_norm);
ST_INFER_RULE(st_infer_batch_norm);
ST_INFER_RULE(st_infer_batch_norm_train);
ST_INFER_RULE(st_infer_group_norm);
ST_INFER_RULE(st_infer_lrn);
ST_INFER_RULE(st_infer_lp_norm);
/* op_loss.c */
ST_INFER_RULE(st_infer_element_loss);
ST_INFER_RULE(st_infer_bce_with_logits);
ST_INFER_RULE(st_infer_kl_div);
ST_INFER_RULE(st_infer_nll_loss);
ST_INFER_RULE(st_infer_cross_entropy);
/* op_attention.c */
ST_INFER_RULE(st_infer_sdpa);
ST_INFER_RULE(st_infer_sdpa_gradient);
/* op_recurrent.c */
ST_INFER_RULE(st_infer_recurrent);
/* op_control.c */
ST_INFER_RULE(st_infer_cond);
ST_INFER_RULE(st_infer_while);
ST_INFER_RULE(st_infer_scan);
ST_INFER_RULE(st_infer_call);
ST_INFER_RULE(st_infer_gradient);
/* op_library.c */
ST_INFER_RULE(st_infer_oplib);
ST_DECOMPOSITION(st_dec_oplib);
/* The library's gradient function of a node: a gradient or 0 for each result, and for each operand.
 */
stator_status st_gradient_oplib(stator_builder *b, const st_decompose_node *node,
                                const stator_ref *out_grads, stator_ref *in_grads,
                                stator_diag **err);

/* op_einsum_lower.c */
ST_DECOMPOSITION(st_dec_einsum);
ST_DECOMPOSITION(st_dec_matmul);
/* op_pool_lower.c */
ST_DECOMPOSITION(st_dec_tile);
ST_DECOMPOSITION(st_dec_max_pool);
/* op_resize_lower.c */
ST_DECOMPOSITION(st_dec_resize);
/* op_sample_lower.c */
ST_DECOMPOSITION(st_dec_grid_sample);
/* op_recurrent_lower.c */
ST_DECOMPOSITION(st_dec_rnn);
ST_DECOMPOSITION(st_dec_gru);
ST_DECOMPOSITION(st_dec_lstm);

/* Baked-in sizes, columns `unify_sizes` and `size_requirements`: baked_in.c */
#define ST_UNIFY_SIZES(name) void name(struct st_baked_in_reading *r)
ST_UNIFY_SIZES(st_unify_sizes_matmul);
ST_UNIFY_SIZES(st_unify_sizes_concat);
ST_UNIFY_SIZES(st_unify_sizes_expand);
ST_UNIFY_SIZES(st_unify_sizes_reshape);
ST_UNIFY_SIZES(st_unify_sizes_gather_elements);
ST_UNIFY_SIZES(st_unify_sizes_recurrent);
/* baked_in_values.c */
#define ST_SIZE_REQUIREMENTS(name) bool name(struct st_baked_in_again *a)
ST_SIZE_REQUIREMENTS(st_size_requirements_same);
ST_SIZE_REQUIREMENTS(st_size_requirements_transpose);
ST_SIZE_REQUIREMENTS(st_size_requirements_expand);
ST_SIZE_REQUIREMENTS(st_size_requirements_reshape);
ST_SIZE_REQUIREMENTS(st_size_requirements_slice);
ST_SIZE_REQUIREMENTS(st_size_requirements_concat);
ST_SIZE_REQUIREMENTS(st_size_requirements_gather);
ST_SIZE_REQUIREMENTS(st_size_requirements_gather_nd);
ST_SIZE_REQUIREMENTS(st_size_requirements_gather_elements);
ST_SIZE_REQUIREMENTS(st_size_requirements_iota);

#undef ST_INFER_RULE
#undef ST_DECOMPOSITION
#undef ST_UNIFY_SIZES
#undef ST_SIZE_REQUIREMENTS

#endif
