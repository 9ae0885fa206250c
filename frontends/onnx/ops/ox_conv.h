/* Convolution pieces that ox_conv.c and ox_quant.c share. */
#ifndef STATOR_FRONTEND_OX_CONV_H
#define STATOR_FRONTEND_OX_CONV_H

#include "frontends/onnx/onnx.h"

/* conv(x, w, b) with the node's window attributes; b may be 0. */
stator_ref ox_conv_node(ox_node *n, stator_ref x, stator_ref w, stator_ref b);

#endif
