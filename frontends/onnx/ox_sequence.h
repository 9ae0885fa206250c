/* Sequences of tensors: they exist during the import alone, as a list of values or, where nobody
 * knows their number, as one tensor with the elements along axis 0. No sequence reaches the graph.
 *
 *   SplitToSequence, SequenceConstruct  -> a list; a stack where the axis has no known size
 *   Loop that appends one tensor an iteration -> a stack, the loop's stacked result
 *   ConcatFromSequence, SequenceAt      -> concat, slices, gather over either
 *
 * A scope binds a sequence's name to a ref with OX_SEQUENCE set, which is no value of the graph:
 * operators without a row ONNX_SEQUENCE never see one. */
#ifndef STATOR_FRONTEND_OX_SEQUENCE_H
#define STATOR_FRONTEND_OX_SEQUENCE_H

#include "frontends/onnx/ox_import.h"

/* A list as a tensor with its elements along a new axis 0, which need one shape; of a stack that
 * tensor. 0 after failing: no elements, unequal ones, or a sequence that a loop makes longer. */
stator_ref ox_sequence_stack(ox_node *n, stator_ref sequence);
/* The sequence of the elements along axis 0 of a value. */
stator_ref ox_sequence_of_stack(ox_node *n, stator_ref stack);

/* A carried sequence in the body of a loop: empty there, and all that may be done is to append. */
stator_ref ox_sequence_begin(ox_node *n);
/* The one tensor that the body appended; 0: the sequence is unchanged (*out_same is 1). Fails on
 * anything else. */
stator_ref ox_sequence_appended(ox_node *n, stator_ref begun, stator_ref made, bool *out_same);
/* The sequence `initial` followed by the elements along axis 0 of `stack`. */
stator_ref ox_sequence_followed(ox_node *n, stator_ref initial, stator_ref stack);

#endif
