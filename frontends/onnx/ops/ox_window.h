/* frontends/onnx/ops holds the importers of operators, a file a family; map.def names them.
 *
 * Sliding windows: strides, dilations and pads of convolutions and pools, auto_pad and ceil mode
 * resolved. */
#ifndef STATOR_FRONTEND_OX_WINDOW_H
#define STATOR_FRONTEND_OX_WINDOW_H

#include "frontends/onnx/onnx.h"

typedef struct ox_window_spec {
    uint32_t rank; /* spatial axes */
    const int64_t *strides;
    const int64_t *dilations;
    stator_ref kernel[STATOR_RANK_MAX];
    stator_ref pads[2 * STATOR_RANK_MAX];   /* lows, then highs */
    stator_ref ceil_extra[STATOR_RANK_MAX]; /* more high padding for a rounded-up last window */
    bool has_ceil;
} ox_window_spec;
#define OX_WINDOW_ATTRS(s_)                                                                        \
    STATOR_A_INTS("strides", (s_).rank, (s_).strides),                                             \
        STATOR_A_DIMS("pads", 2 * (s_).rank, (s_).pads),                                           \
        STATOR_A_INTS("dilations", (s_).rank, (s_).dilations)

/* Reads strides, dilations, pads and auto_pad for windows of `kernel` over the axes from 2 on of x;
 * kernel holds x's rank - 2 sizes. With ceil_mode, ceil_extra is computed. */
void ox_window_read(ox_node *n, stator_ref x, const stator_ref *kernel, bool ceil_mode,
                    ox_window_spec *out);
/* Window sizes of x's spatial axes from a weight [M, C, k..], checked against kernel_shape. */
void ox_window_kernel(ox_node *n, stator_ref w, stator_ref *out);

#endif
