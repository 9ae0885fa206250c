/* Graphviz as a library: text of its language becomes a picture; see draw.h. */
#include "tools/draw/draw.h"

#include <stdio.h>

#if ST_HAVE_GVC

#include <graphviz/gvc.h>

/* Graphviz' messages are taken from aglasterr; nothing is to be printed meanwhile. */
static int be_quiet(char *text)
{
    (void)text;
    return 0;
}

static bool fail(draw_picture *out, const char *what, bool is_missing)
{
    const char *why = aglasterr();
    out->is_missing = is_missing;
    (void)snprintf(out->why, sizeof out->why, "%s: %.200s", what, why != NULL ? why : "no reason");
    return false;
}

/* Renders a graph that was placed. */
static bool render(GVC_t *gvc, Agraph_t *graph, const char *format, draw_picture *out)
{
    unsigned int size = 0;
    if (gvRenderData(gvc, graph, format, &out->bytes, &size) != 0 || out->bytes == NULL) {
        return fail(out, "this Graphviz has no such format", true);
    }
    out->size = size;
    return true;
}

bool draw_render(const char *dot, const char *format, draw_picture *out)
{
    *out = (draw_picture){.bytes = NULL};
    GVC_t *gvc = gvContext();
    (void)agseterrf(be_quiet);
    Agraph_t *graph = gvc != NULL ? agmemread(dot) : NULL;
    bool ok = false;
    if (graph != NULL && gvLayout(gvc, graph, "dot") == 0) {
        ok = render(gvc, graph, format, out);
        (void)gvFreeLayout(gvc, graph);
    } else {
        (void)fail(out, "the graph cannot be placed", false);
    }
    if (graph != NULL) {
        (void)agclose(graph);
    }
    if (gvc != NULL) {
        (void)gvFreeContext(gvc);
    }
    return ok;
}

void draw_picture_free(draw_picture *picture)
{
    if (picture->bytes != NULL) {
        gvFreeRenderData(picture->bytes);
    }
    *picture = (draw_picture){.bytes = NULL};
}

#else

bool draw_render(const char *dot, const char *format, draw_picture *out)
{
    (void)dot;
    (void)format;
    *out = (draw_picture){.is_missing = 1, .why = "built without Graphviz (libgraphviz-dev)"};
    return false;
}

void draw_picture_free(draw_picture *picture)
{
    (void)picture;
}

#endif
