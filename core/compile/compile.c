/* A compile; see compile.h. */
#include "core/compile/assemble.h"
#include "core/context/deferred_log.h"
#include "core/context/dump.h"

#include "ir/text/text_sym.h"

stator_status st_watch_stage(const st_watch *watch, const char *stage, uint32_t done,
                             uint32_t total, stator_diag **err)
{
    if (watch->progress != NULL && stage != NULL) {
        watch->progress(watch->self, stage, done, total);
    }
    return watch->is_cancelled == NULL || watch->is_cancelled(watch->self) == 0
               ? STATOR_OK
               : st_fail(err, STATOR_CANCELLED, "the application cancelled the %s%s%s",
                         stage != NULL ? "compile before stage '" : "call",
                         stage != NULL ? stage : "", stage != NULL ? "'" : "");
}

/* The mapped files behind a module's blobs; a model has one or a few. */
stator_status st_compiled_list_files(st_compiled *out, const st_module *m, stator_diag **err)
{
    out->files = st_calloc(m->mem, m->blobs.count + 1u, sizeof *out->files);
    ST_TRY_MEM(out->files, err);
    for (uint32_t blob = 1; blob < m->blobs.count; blob++) {
        const st_file *file = st_blob_file(st_module_blob_at(m, blob), NULL);
        uint32_t i = 0;
        while (i < out->n_files && out->files[i] != file) {
            i++;
        }
        if (file != NULL && i == out->n_files) {
            out->files[out->n_files++] = file;
        }
    }
    return STATOR_OK;
}

stator_status st_compiled_check_files(const st_compiled *compiled, stator_diag **err)
{
    for (uint32_t i = 0; i < compiled->n_files; i++) {
        ST_TRY(st_file_check(compiled->files[i], err));
    }
    return STATOR_OK;
}

/* One row a backend that has a part, main's always, and one for the control flow of the host. */
static void count_coverage(const st_division *d, st_compiled *out)
{
    const char *names[ST_COLORS] = {[ST_COLOR_HOST] = "host"};
    stator_coverage rows[ST_COLORS] = {{.nodes = 0}};
    names[ST_COLOR_MAIN] = d->request->main->backend->item.name;
    for (uint32_t i = 0; i < d->request->n_fallbacks; i++) {
        names[ST_COLOR_FALLBACK + i] = d->request->fallbacks[i]->backend->item.name;
    }
    for (uint32_t i = 0; i < d->units.count; i++) {
        const st_unit *u = d->units.data[i];
        for (uint32_t k = 0; (u == d->root || u->program != NULL) && k < u->parts.n_parts; k++) {
            const st_part *part = &u->parts.parts[k];
            rows[part->color].partitions++;
            rows[part->color].nodes += st_division_count(d, u, part);
        }
    }
    for (uint32_t color = 0; color < ST_COLORS; color++) {
        if (color == ST_COLOR_MAIN || rows[color].nodes != 0) {
            rows[color].backend = names[color];
            out->coverage[out->n_coverage++] = rows[color];
        }
    }
}

/* Gives the guard's symbolic sizes their text, for messages; without memory they stay as they are.
 */
static void name_sizes(st_guard *guard, const stator_graph *graph, const stator_ref *inputs)
{
    const stator_graph_view *v = st_graph_view(graph);
    st_sym_printer printer;
    st_sym_printer_init(&printer, graph->module);
    for (uint32_t i = 0; i < guard->n_inputs; i++) {
        const stator_type_row *type = stator_value_type(v, inputs[i]);
        for (uint32_t axis = 0; axis < type->rank; axis++) {
            st_guard_size *size = &guard->sizes[guard->inputs[i].size_begin + axis];
            st_str text;
            st_str_init(&text, guard->mem);
            if (size->kind != ST_SIZE_CONST) {
                st_text_print_sym(&printer, stator_dim_at(v, type, axis), &text);
                size->text = st_strdup(guard->mem, text.data != NULL ? text.data : "?");
            }
            st_str_deinit(&text);
        }
    }
    st_sym_printer_deinit(&printer);
}

uint32_t st_graph_call_inputs(const stator_graph *graph, stator_ref *out)
{
    const stator_graph_view *v = st_graph_view(graph);
    uint32_t n = 0;
    for (stator_ref value = 1; value <= v->n_inputs; value++) {
        if ((stator_value_at(v, value)->flags & STATOR_VALUE_PARAM) == 0) {
            if (out != NULL) {
                out[n] = value;
            }
            n++;
        }
    }
    return n;
}

stator_status st_graph_guard(st_mem *mem, const stator_graph *graph, st_guard *out_guard,
                             stator_diag **err)
{
    const stator_graph_view *v = st_graph_view(graph);
    stator_ref *inputs = st_calloc(mem, v->n_inputs + 1u, sizeof *inputs);
    ST_TRY_MEM(inputs, err);
    const uint32_t n = st_graph_call_inputs(graph, inputs);
    const stator_status status = st_guard_init(out_guard, mem, v, inputs, n, err);
    if (status == STATOR_OK) {
        name_sizes(out_guard, graph, inputs);
    }
    st_free(mem, inputs);
    return status;
}

/* Assembles the program. Logs of backends are deferred until all parts stay. */
static stator_status assemble(st_assembly *assembly, stator_diag **err)
{
    st_deferred_log deferred;
    st_deferred_log_begin(&deferred, assembly->out->ctx);
    const stator_status status = st_assemble(assembly, err);
    const bool is_kept = assembly->n_declined == 0 || assembly->is_last;
    st_deferred_log_end(&deferred, status == STATOR_OK && is_kept);
    return status;
}

/* Divides and assembles. Nodes that the backend declines while it compiles are refused and all is
 * divided again, once; what it declines then goes to the fallback, partition by partition. */
static stator_status build_programs(st_division *d, st_compiled *out, stator_diag **err)
{
    st_assembly assembly = {.division = d, .out = out};
    ST_TRY(st_divide(d->request, out->module->root, d, err));
    ST_TRY(assemble(&assembly, err));
    if (assembly.n_declined != 0) {
        st_log(out->ctx, "dispatch", 2, "%s declined %u nodes while compiling: divided again",
               d->request->main->backend->item.name, assembly.n_declined);
        st_disassemble(out);
        ST_TRY(st_divide_again(d, err));
        assembly.is_last = true;
        ST_TRY(assemble(&assembly, err));
    }
    count_coverage(d, out);
    ST_TRY(st_fallback_nodes_count(d, &out->fallback_nodes, err));
    st_hint_division(d, &out->fallback_nodes);
    return st_graph_guard(&out->ctx->mem, d->root->graph, &out->guard, err);
}

/* The guard owns the texts of the constraints from here. */
static stator_status set_shape_constraints(st_compiled *out,
                                           st_shape_constraints *shape_constraints,
                                           stator_diag **err)
{
    st_guard *guard = &out->guard;
    const st_sym_cols cols = st_sym_columns(&out->module->symtab);
    guard->shape_constraints = st_calloc(guard->mem, shape_constraints->rows.count + UINT64_C(1),
                                         sizeof *guard->shape_constraints);
    ST_TRY_MEM(guard->shape_constraints, err);
    for (uint32_t i = 0; i < shape_constraints->rows.count; i++) {
        st_shape_constraint *from = &shape_constraints->rows.data[i];
        st_guard_shape_constraint *to = &guard->shape_constraints[guard->n_shape_constraints++];
        *to =
            (st_guard_shape_constraint){.kind = from->kind, .step = from->step, .text = from->text};
        from->text = NULL;
        for (uint32_t k = 0; k < st_shape_constraint_sizes(to->kind); k++) {
            ST_TRY_MEM(st_symprog_init(&to->size[k], guard->mem, &cols, from->size[k]), err);
        }
    }
    return STATOR_OK;
}

static stator_status compile_with(const st_compile_request *request, st_compiled *out,
                                  st_shape_constraints *shape_constraints, stator_diag **err)
{
    ST_TRY(st_run_pipeline(request, shape_constraints, &out->module, err));
    st_division division = {.request = request};
    const stator_status status = build_programs(&division, out, err);
    st_division_deinit(&division);
    ST_TRY(status);
    ST_TRY(set_shape_constraints(out, shape_constraints, err));
    return st_compiled_list_files(out, out->module, err);
}

stator_status st_compile_anew(const st_compile_request *request, st_compiled *out,
                              stator_diag **err)
{
    st_shape_constraints shape_constraints;
    st_shape_constraints_init(&shape_constraints, &request->ctx->mem);
    const stator_status status = compile_with(request, out, &shape_constraints, err);
    st_shape_constraints_deinit(&shape_constraints);
    return status;
}

void st_compiled_clear(st_compiled *compiled)
{
    stator_ctx *ctx = compiled->ctx;
    st_disassemble(compiled);
    st_guard_deinit(&compiled->guard);
    st_fallback_nodes_deinit(&compiled->fallback_nodes);
    st_free(&ctx->mem, compiled->files);
    st_module_destroy(compiled->module);
    for (uint32_t i = 0; i < compiled->n_blobs; i++) {
        st_blob_release(compiled->blobs[i]);
    }
    st_free(&ctx->mem, compiled->blobs);
    for (uint32_t i = 0; i < compiled->parts.count; i++) {
        st_module_destroy(compiled->parts.data[i]);
    }
    st_vec_free(&ctx->mem, &compiled->parts);
    if (compiled->arena.mem != NULL) {
        st_arena_deinit(&compiled->arena);
    }
    *compiled = (st_compiled){.ctx = ctx};
}

void st_compiled_destroy(st_compiled *compiled)
{
    if (compiled != NULL) {
        stator_ctx *ctx = compiled->ctx;
        st_compiled_clear(compiled);
        st_free(&ctx->mem, compiled);
    }
}
