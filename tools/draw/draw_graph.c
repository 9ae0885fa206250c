/* A graph in Graphviz' language: nodes coloured by kind, a cluster a region, types on the edges.
 *
 *     ( x )            graph inputs and outputs are ovals
 *       | f32[1, 8]
 *     [ relu ]         parameters and constants are lines in the boxes that read them
 *
 * Node ids are g<graph>n<node>, g<graph>i<input> and g<graph>o<output>; see draw.h. */
#include "tools/draw/draw.h"

#include <stdio.h>

/* Regions nest no deeper than the readers allow; what is deeper is named and not opened. */
#define DEPTH_MAX 32u

/* From here on the network simplex of Graphviz is cut short: BERT base (400 nodes) is placed in 1.1
 * s of CPU time and not in 4.6, and looks the same. */
#define MANY_NODES 150u

typedef struct picture {
    st_str *out;
    const stator_host *host;
    uint32_t n_graphs;
    uint32_t depth;
    uint32_t kinds_seen; /* bit set of draw_kind */
} picture;

static void add_graph(picture *p, const stator_graph *graph, const char *owner);

/* ---- edges ---- */

static void add_source(picture *p, const draw_context *d, stator_ref value)
{
    const stator_value_row *row = stator_value_at(d->view, value);
    if (row->node == 0) {
        st_str_addf(p->out, "g%ui%u", d->number, row->index);
    } else {
        st_str_addf(p->out, "g%un%u", d->number, row->node);
    }
}

/* An edge from the value's maker; `to` is a node id, `head` an attribute more or "". */
static void add_edge(picture *p, const draw_context *d, stator_ref value, const char *to)
{
    st_str_add(p->out, "  ");
    add_source(p, d, value);
    st_str_addf(p->out, " -> %s [label=\" ", to);
    draw_type(p->out, d->view, stator_value_at(d->view, value)->type);
    st_str_add(p->out, "\"];\n");
}

static void add_operand_edges(picture *p, const draw_context *d, stator_ref node)
{
    const stator_node_row *row = stator_node_at(d->view, node);
    char id[32];
    (void)snprintf(id, sizeof id, "g%un%u", d->number, node);
    for (uint32_t k = 0; k < row->operand_count; k++) {
        const stator_ref value = stator_operand(d->view, row, k);
        if (value != 0 && !draw_is_folded(d, value)) {
            add_edge(p, d, value, id);
        }
    }
}

/* ---- nodes ---- */

static bool is_output(const draw_context *d, stator_ref node)
{
    for (uint32_t k = 0; k < d->view->n_outputs; k++) {
        const stator_ref value = stator_output_at(d->view, k);
        if (stator_value_at(d->view, value)->node == node) {
            return true;
        }
    }
    return false;
}

static void add_box(picture *p, const draw_context *d, stator_ref node)
{
    const stator_op_desc *op = stator_op_at(d->view, stator_node_at(d->view, node)->op);
    const uint32_t kind = draw_kind_of(op);
    p->kinds_seen |= 1u << kind;
    st_str_addf(p->out, "  g%un%u [fillcolor=\"%s\" tooltip=\"", d->number, node,
                draw_colour(kind));
    draw_escape(p->out, op->doc != NULL ? op->doc : "", 400);
    st_str_add(p->out, "\" label=");
    draw_node_label(p->out, d, node);
    st_str_add(p->out, "];\n");
}

/* A node with regions is a cluster: its box, and a cluster a region with an edge to its first part.
 */
static void add_regions(picture *p, const draw_context *d, stator_ref node)
{
    const stator_node_row *row = stator_node_at(d->view, node);
    char id[32];
    (void)snprintf(id, sizeof id, "g%un%u", d->number, node);
    st_str_addf(p->out,
                "  subgraph cluster_%s {\n  style=\"rounded\" color=\"#b0a060\" label=\"\";\n", id);
    add_box(p, d, node);
    p->depth++;
    for (uint32_t k = 0; k < row->region_count && p->depth < DEPTH_MAX; k++) {
        add_graph(p, stator_region_at(d->view, row, k), id);
    }
    p->depth--;
    st_str_add(p->out, "  }\n");
}

static void add_nodes(picture *p, const draw_context *d)
{
    for (stator_ref node = 1; node <= d->view->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(d->view, node);
        const bool is_constant = (stator_op_at(d->view, row->op)->flags & STATOR_OP_CONSTANT) != 0;
        if (is_constant && !is_output(d, node)) {
            continue;
        }
        if (row->region_count > 0) {
            add_regions(p, d, node);
        } else {
            add_box(p, d, node);
        }
        add_operand_edges(p, d, node);
    }
}

/* ---- inputs and outputs ---- */

static void add_port(picture *p, const char *id, const char *name, const char *colour)
{
    st_str_addf(p->out, "  %s [shape=oval fillcolor=\"%s\" label=\"", id, colour);
    draw_escape(p->out, name, 44);
    st_str_add(p->out, "\"];\n");
}

static void add_inputs(picture *p, const draw_context *d)
{
    for (uint32_t i = 0; i < d->view->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(d->view, i + 1u);
        char id[32];
        char name[32];
        (void)snprintf(id, sizeof id, "g%ui%u", d->number, row->index);
        (void)snprintf(name, sizeof name, "input %u", i);
        if ((row->flags & STATOR_VALUE_PARAM) == 0) {
            add_port(p, id, row->name != 0 ? stator_string_at(d->view, row->name) : name,
                     "#ffffff");
        }
    }
}

static void add_outputs(picture *p, const draw_context *d)
{
    for (uint32_t k = 0; k < d->view->n_outputs; k++) {
        const stator_ref value = stator_output_at(d->view, k);
        const stator_ref name = stator_ref_at(d->view, d->view->output_name_begin + k);
        const stator_value_row *row = stator_value_at(d->view, value);
        char id[32];
        char fallback[32];
        (void)snprintf(id, sizeof id, "g%uo%u", d->number, k);
        (void)snprintf(fallback, sizeof fallback, "output %u", k);
        add_port(p, id, name != 0 ? stator_string_at(d->view, name) : fallback, "#f0f0f0");
        if ((row->flags & STATOR_VALUE_PARAM) != 0) { /* a parameter handed through */
            char from[32];
            (void)snprintf(from, sizeof from, "g%ui%u", d->number, row->index);
            add_port(p, from, stator_string_at(d->view, row->name), "#ffffff");
        }
        add_edge(p, d, value, id);
    }
}

/* The first thing in a region that an edge from its owner can point at. */
static void add_owner_edge(picture *p, const draw_context *d, const char *owner)
{
    char id[32] = "";
    if (d->view->n_inputs > 0) {
        (void)snprintf(id, sizeof id, "g%ui%u", d->number, 0u);
    } else if (d->view->n_outputs > 0) {
        (void)snprintf(id, sizeof id, "g%uo%u", d->number, 0u);
    } else {
        return;
    }
    st_str_addf(p->out,
                "  %s -> %s [lhead=cluster_g%u style=dashed color=\"#b0a060\" arrowhead=none];\n",
                owner, id, d->number);
}

static void add_graph(picture *p, const stator_graph *graph, const char *owner)
{
    const draw_context d = {
        .host = p->host, .graph = graph, .view = p->host->ir->view(graph), .number = p->n_graphs++};
    if (owner != NULL) {
        st_str_addf(p->out,
                    "  subgraph cluster_g%u {\n  style=\"rounded,filled\" color=\"#d8d0b0\" "
                    "fillcolor=\"#fffdf2\" fontsize=9 labeljust=l label=\"",
                    d.number);
        draw_escape(p->out, stator_string_at(d.view, d.view->name), 44);
        st_str_add(p->out, "\";\n");
    }
    add_inputs(p, &d);
    add_nodes(p, &d);
    add_outputs(p, &d);
    if (owner != NULL) {
        st_str_add(p->out, "  }\n");
        add_owner_edge(p, &d, owner);
    }
}

/* ---- the frame ---- */

/* The graph's label: what it is, and the colours that occur. */
static void add_legend(picture *p, const draw_context *root, const char *title)
{
    st_str_add(p->out, "  label=<<TABLE BORDER=\"0\" CELLSPACING=\"4\"><TR><TD><B>");
    draw_escape(p->out, title, 80);
    st_str_addf(p->out, "</B>, %u nodes</TD>", root->view->n_nodes);
    for (uint32_t kind = 0; kind < DRAW_KIND_COUNT; kind++) {
        if ((p->kinds_seen & (1u << kind)) != 0) {
            st_str_addf(p->out, "<TD BGCOLOR=\"%s\">%s</TD>", draw_colour(kind),
                        draw_kind_name(kind));
        }
    }
    st_str_add(p->out, "</TR></TABLE>>;\n");
}

void draw_graph(st_str *out, const stator_host *host, const stator_graph *graph, const char *title)
{
    picture p = {.out = out, .host = host};
    const draw_context root = {.host = host, .graph = graph, .view = host->ir->view(graph)};
    st_str_add(out, "digraph stator {\n"
                    "  compound=true rankdir=TB ranksep=0.35 nodesep=0.3 labelloc=t "
                    "fontname=\"Helvetica\" fontsize=11;\n"
                    "  node [shape=box style=\"rounded,filled\" fontname=\"Helvetica\" fontsize=11 "
                    "margin=\"0.12,0.05\" height=0.3 color=\"#606060\"];\n"
                    "  edge [fontname=\"Helvetica\" fontsize=8 fontcolor=\"#4d4d4d\" "
                    "color=\"#606060\" arrowsize=0.6];\n");
    if (root.view->n_nodes > MANY_NODES) {
        st_str_add(out, "  nslimit=2 nslimit1=2;\n");
    }
    add_graph(&p, graph, NULL);
    add_legend(&p, &root, title);
    st_str_add(out, "}\n");
}
