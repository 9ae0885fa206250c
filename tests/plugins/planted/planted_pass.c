/* A pass that copies the graph and replaces the nodes of one op wrongly: the row PLANT_NAME of
 * planted_passes.def. For tests/tools/check_bisect.sh.
 *
 *     z = sub(x, y)    ->    z = sub(y, x)
 */
#include <signal.h>
#include <stator/plugin.h>
#include <string.h>

typedef struct plant {
    const char *name;
    uint32_t phase;
    const char *op;
    uint32_t kind; /* stator_fuel_kind; 0: not asked */
    const char *rule;
    const char *program;
    const char *right;
    uint32_t nth; /* from 1; 0: each */
    uint32_t dtype;
    uint32_t lone; /* 1: only when its result has one reader */
} plant;

static const plant plants[] = {
#define PLANTED(name_, phase_, op_, kind_, rule_, program_, right_, nth_, dtype_, lone_)           \
    {#name_, phase_, op_, kind_, rule_, program_, right_, nth_, dtype_, lone_},
#include "planted_passes.def"
#undef PLANTED
};

typedef struct copier {
    const stator_host *host;
    const plant *plant;
    const stator_graph *in;
    const stator_graph_view *v;
    stator_builder *out;
    stator_fuel_scope *fuel;
    stator_ref *map;
    uint32_t n_seen;
} copier;

static stator_status copy_inputs(copier *c, stator_diag **err)
{
    for (stator_ref i = 1; i <= c->v->n_inputs; i++) {
        const stator_value_row *row = stator_value_at(c->v, i);
        const char *name = stator_string_at(c->v, row->name);
        const stator_status status =
            (row->flags & STATOR_VALUE_PARAM) != 0
                ? c->host->build->param(c->out, name, row->type, c->host->cst->of_value(c->in, i),
                                        &c->map[i], err)
                : c->host->build->input(c->out, name, row->type, &c->map[i], err);
        if (status != STATOR_OK) {
            return status;
        }
        c->host->build->set_witness(c->out, c->map[i], row->witness);
    }
    return STATOR_OK;
}

static uint32_t readers_of(const copier *c, stator_ref value)
{
    uint32_t n = 0;
    for (stator_ref node = 1; node <= c->v->n_nodes; node++) {
        const stator_node_row *row = stator_node_at(c->v, node);
        for (uint32_t k = 0; k < row->operand_count; k++) {
            n += stator_operand(c->v, row, k) == value;
        }
    }
    for (uint32_t k = 0; k < c->v->n_outputs; k++) {
        n += stator_output_at(c->v, k) == value;
    }
    return n;
}

static int is_planted(const copier *c, const stator_node_row *row)
{
    const stator_type_row *type = stator_value_type(c->v, row->result_begin);
    if (c->plant->lone && readers_of(c, row->result_begin) != 1) {
        return 0;
    }
    return strcmp(stator_op_at(c->v, row->op)->name, c->plant->op) == 0 &&
           (c->plant->dtype == 0 || c->plant->dtype == type->dtype);
}

static stator_status replace(copier *c, const stator_node_row *row, const char *program,
                             stator_diag **err)
{
    static const char *const two[] = {"x", "y"};
    static const char *const three[] = {"c", "x", "y"};
    stator_ref operands[3] = {0};
    stator_ref result = 0;
    for (uint32_t k = 0; k < row->operand_count && k < 3; k++) {
        operands[k] = c->map[stator_operand(c->v, row, k)];
    }
    c->host->build->set_origin_ref(c->out, row->origin);
    const stator_status status = c->host->build->expr(c->out, program, row->operand_count,
                                                      row->operand_count == 3 ? three : two,
                                                      operands, 0, NULL, 1, &result, err);
    c->map[row->result_begin] = result;
    if (status == STATOR_OK && strcmp(program, "x") != 0) {
        c->host->build->set_witness(c->out, result,
                                    stator_value_at(c->v, row->result_begin)->witness);
    }
    return status;
}

static stator_status copy_node(copier *c, stator_ref node, stator_diag **err)
{
    const stator_node_row *row = stator_node_at(c->v, node);
    const plant *p = c->plant;
    if (!is_planted(c, row) ||
        (p->kind != 0 && !c->host->fuel->may_apply(c->fuel, p->kind, p->rule, node))) {
        return c->host->build->clone(c->out, c->in, node, node, c->map, err);
    }
    const int is_wrong = ++c->n_seen == p->nth || p->nth == 0;
    if (is_wrong && strcmp(p->program, "crash") == 0) {
        (void)raise(SIGSEGV);
    }
    return replace(c, row, is_wrong ? p->program : p->right, err);
}

static stator_status copy_outputs(copier *c, stator_diag **err)
{
    for (uint32_t k = 0; k < c->v->n_outputs; k++) {
        const char *name = stator_string_at(c->v, stator_ref_at(c->v, c->v->output_name_begin + k));
        const stator_status status =
            c->host->build->output(c->out, name, c->map[stator_output_at(c->v, k)], err);
        if (status != STATOR_OK) {
            return status;
        }
    }
    return STATOR_OK;
}

static stator_status run(void *self, const stator_graph *in, stator_builder *out,
                         stator_fuel_scope *fuel, uint32_t *out_result, stator_diag **err)
{
    const stator_host *host = self;
    copier c = {.host = host, .in = in, .v = host->ir->view(in), .out = out, .fuel = fuel};
    const uint64_t bytes = (c.v->n_values + UINT64_C(1)) * sizeof *c.map;
    *out_result = STATOR_PASS_CHANGED;
    for (size_t i = 0; i < sizeof plants / sizeof plants[0]; i++) {
        if (strcmp(plants[i].name, PLANT_NAME) == 0) {
            c.plant = &plants[i];
        }
    }
    c.map = host->mem->alloc(host->ctx, bytes, 16);
    if (c.map == NULL) {
        return STATOR_RESOURCE_EXHAUSTED;
    }
    memset(c.map, 0, bytes);
    stator_status status = copy_inputs(&c, err);
    for (stator_ref node = 1; status == STATOR_OK && node <= c.v->n_nodes; node++) {
        status = copy_node(&c, node, err);
    }
    if (status == STATOR_OK) {
        status = copy_outputs(&c, err);
    }
    host->mem->free(host->ctx, c.map);
    return status;
}

/* ---- the descriptor ---- */

static const stator_pass pass = {
    .item = STATOR_ITEM(stator_pass, STATOR_KIND_PASS, PLANT_NAME, "a pass with a planted mistake"),
    .phase = PLANT_PHASE,
    .flags = STATOR_PASS_DETERMINISTIC,
    .run = run,
};

static const stator_item *const items[] = {&pass.item};

STATOR_PLUGIN(PLANT_NAME, "1.0.0", "Stator tests", "[\"pass\"]", "", items, stator_init_host, NULL);
