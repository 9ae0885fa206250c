/* Pictures of graphs: a graph view becomes text in Graphviz' language. Shared by the files of
 * `stator draw`. */
#ifndef STATOR_DRAW_H
#define STATOR_DRAW_H

#include "core/base/str.h"

#include <stator/plugin.h>

enum draw_kind {
    DRAW_CONTRACT = 0, /* matmul, convolution */
    DRAW_POINTWISE = 1,
    DRAW_REDUCE = 2,
    DRAW_VIEW = 3,
    DRAW_COMPOSITE = 4,
    DRAW_CONTROL = 5,
    DRAW_RANDOM = 6, /* random numbers and effects */
    DRAW_SOURCE = 7, /* no operands */
    DRAW_OTHER = 8,
    DRAW_KIND_COUNT = 9
};

/* One graph on its way into a picture. */
typedef struct draw_context {
    const stator_host *host;
    const stator_graph *graph;
    const stator_graph_view *view;
    uint32_t number; /* the graph's number within the picture; node ids begin with it */
} draw_context;

uint32_t draw_kind_of(const stator_op_desc *op);
const char *draw_colour(uint32_t kind);
const char *draw_kind_name(uint32_t kind);

/* Text inside an HTML-like label or a quoted string; long ones lose their front ("...tail"). */
void draw_escape(st_str *out, const char *text, uint32_t max_chars);
/* "f32[N, 64, 112, 112]" */
void draw_type(st_str *out, const stator_graph_view *view, stator_ref type);
/* The label of a node, "<...>": op, imported name, parameters, constants, attributes. */
void draw_node_label(st_str *out, const draw_context *d, stator_ref node);
/* Is the value drawn inside the labels of its users only? Parameters and constants are. */
bool draw_is_folded(const draw_context *d, stator_ref value);

/* The whole picture. */
void draw_graph(st_str *out, const stator_host *host, const stator_graph *graph, const char *title);

/* ---- draw_render.c ---- */

typedef struct draw_picture {
    char *bytes; /* NULL when it failed */
    size_t size;
    bool is_missing; /* there is no Graphviz, or it has no such format */
    char why[256];
} draw_picture;
/* 0: failed, `why` says it. Free it when it did not. */
bool draw_render(const char *dot, const char *format, draw_picture *out);
void draw_picture_free(draw_picture *picture);

#endif
