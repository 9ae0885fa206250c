/* Random draws that ox_random.c and Dropout share. */
#ifndef STATOR_FRONTEND_OX_RANDOM_H
#define STATOR_FRONTEND_OX_RANDOM_H

#include "frontends/onnx/onnx.h"

/* Uniform f32 in [low, high). The seed is the node's attribute, or made from the node's place. */
stator_ref ox_uniform(ox_node *n, uint32_t rank, const stator_ref *dims, double low, double high);

#endif
