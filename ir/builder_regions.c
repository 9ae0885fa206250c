/* Regions: child builders of the same module. A region reads outer values only through its inputs;
 * the node that owns it passes them as operands. */
#include "ir/builder.h"

stator_status st_build_region_begin(stator_builder *b, const char *name, stator_builder **out,
                                    stator_diag **err)
{
    ST_TRY(st_builder_create(b->module, name, out, err));
    (*out)->parent = b;
    (*out)->origin = b->origin;
    (*out)->graph->parent = b->graph;
    return STATOR_OK;
}

stator_status st_build_region_end(stator_builder *region, stator_graph **out, stator_diag **err)
{
    ST_REQUIRE(region, err);
    return st_builder_finish(region, out, err);
}

void st_build_region_abort(stator_builder *region)
{
    st_builder_abort(region);
}
