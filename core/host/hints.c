/* The log channel perf_hints, as far as the host knows; see hints.h.
 *
 * In: a division, a recompile, the settings of a compile. Out: one plain line each: what is slow,
 * and what to do. Nothing is computed when nobody listens. */
#include "core/host/hints.h"

#include "core/base/str.h"
#include "core/cache/cache.h"

#include <inttypes.h>
#include <stator/ops.h>
#include <string.h>
#include <unistd.h>

#define AXES_MAX 4u /* shown */

static bool is_heard(const stator_ctx *ctx)
{
    return st_log_enabled(ctx, ST_HINTS, 2);
}

/* ---- settings ---- */

static void hint_threads(stator_ctx *ctx)
{
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (!ctx->is_threads_given && ctx->threads == 1 && online > 1) {
        st_log(ctx, ST_HINTS, 2,
               "1 thread on a machine of %ld processors: this process may run on one of them alone "
               "(taskset, or the cpuset of its container)",
               online);
    }
}

/* A folder that cannot be used is nobody's wish, as a cache that is switched off is. */
static void hint_cache(const st_compile_request *request)
{
    const bool is_wanted = (request->flags & STATOR_COMPILE_NO_CACHE) == 0 &&
                           request->main->backend->exe_serialize != NULL;
    const st_cache_store *store = is_wanted ? st_cache_of(request->ctx) : NULL;
    if (store != NULL && store->fd < 0) {
        st_log(
            request->ctx, ST_HINTS, 2,
            "each process compiles anew, as the cache cannot be used: %s; STATOR_CACHE_DIR names "
            "another folder",
            store->reason);
    }
}

void st_hint_settings(const st_compile_request *request)
{
    if (is_heard(request->ctx)) {
        hint_threads(request->ctx);
        hint_cache(request);
    }
}

/* ---- programs for other sizes ---- */

/* The size of the axis as a number of a program; -1: the program takes several there. */
static int64_t number_of(const st_guard *guard, uint32_t input, uint32_t axis)
{
    const st_guard_size *size = &guard->sizes[guard->inputs[input].size_begin + axis];
    return size->kind == ST_SIZE_CONST ? size->lo : -1;
}

/* Does the call bring another size than the first program's? */
static bool has_changed_size(const st_hint_recompile *what)
{
    const st_guard *first = &what->programs[what->n_programs - 1u]->guard;
    for (uint32_t i = 0; i < first->n_inputs; i++) {
        for (uint32_t axis = 0; axis < first->inputs[i].rank; axis++) {
            const int64_t number = number_of(first, i, axis);
            if (number >= 0 && number != what->in[i].shape[axis]) {
                return true;
            }
        }
    }
    return false;
}

static int64_t given(const st_hint_recompile *what, const st_changed_axis *at)
{
    return what->in[at->input].shape[at->axis];
}

/* Size of an axis in the oldest program that has another number there; -1: no hint is due.
 * `numbers`: only axes that stay numbers in the next program, else only the others. Sizes 0 and 1
 * have programs of their own, whatever the model declares. */
static int64_t size_before(const st_hint_recompile *what, const st_guard *next,
                           const st_changed_axis *at, int numbers)
{
    const int64_t least = at->is_number ? 0 : 2;
    const bool is_number = at->is_number || number_of(next, at->input, at->axis) >= least;
    const bool is_meant = !at->is_told && is_number == numbers && given(what, at) >= least;
    for (uint32_t i = what->n_programs; is_meant && i-- > 0;) {
        const int64_t number = number_of(&what->programs[i]->guard, at->input, at->axis);
        if (number >= least && number != given(what, at)) {
            return number;
        }
    }
    return -1;
}

/* "axis 0 of input 'x' was 4 and is 6 now, ...", of the axes not told yet; how many they are. */
static uint32_t print_axes(const st_hint_recompile *what, const st_guard *next, int numbers,
                           st_str *out)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < what->sizes->changed.count; i++) {
        const st_changed_axis *at = &what->sizes->changed.data[i];
        const int64_t before = size_before(what, next, at, numbers);
        if (before >= 0 && n++ < AXES_MAX) {
            st_str_addf(out, "%saxis %u of input '%s' was %" PRId64 " and is %" PRId64 " now",
                        n > 1 ? ", " : "", at->axis, next->inputs[at->input].name, before,
                        given(what, at));
        }
    }
    if (n > AXES_MAX) {
        st_str_addf(out, " and so on, %u axes", n);
    }
    return n;
}

static void hint_axes(const st_hint_recompile *what, const st_guard *next, int numbers,
                      const char *advice)
{
    st_str text;
    st_str_init(&text, &what->ctx->mem);
    if (print_axes(what, next, numbers, &text) != 0 && st_str_ok(&text)) {
        st_log(what->ctx, ST_HINTS, 2, "%s: one more compile%s", text.data, advice);
        for (uint32_t i = 0; i < what->sizes->changed.count; i++) {
            st_changed_axis *at = &what->sizes->changed.data[i];
            at->is_told |= size_before(what, next, at, numbers) >= 0;
        }
    }
    st_str_deinit(&text);
}

/* Is the program made for contents of the input in this shape? */
static bool has_shape(const st_guard_input *input, const DLTensor *in)
{
    for (uint32_t axis = 0; input->value != NULL && axis < input->rank; axis++) {
        if (input->value_shape[axis] != in->shape[axis]) {
            return false;
        }
    }
    return input->value != NULL;
}

/* Are there programs for other contents of the input in this shape, and none for these? */
static bool has_other_values(const st_hint_recompile *what, uint32_t i)
{
    const DLTensor *in = &what->in[i];
    const char *data = (const char *)in->data + in->byte_offset;
    bool has_others = false;
    for (uint32_t k = 0; k < what->n_programs; k++) {
        const st_guard_input *input = &what->programs[k]->guard.inputs[i];
        const bool is_shape = has_shape(input, in);
        if (is_shape &&
            (input->value_bytes == 0 || memcmp(input->value, data, input->value_bytes) == 0)) {
            return false;
        }
        has_others |= is_shape;
    }
    return has_others;
}

static void hint_values(const st_hint_recompile *what)
{
    const st_guard *guard = &what->programs[0]->guard;
    for (uint32_t i = 0; i < guard->n_inputs; i++) {
        if (has_other_values(what, i)) {
            st_log(what->ctx, ST_HINTS, 2,
                   "input '%s' has other values: one more compile, as for each of them, because "
                   "shapes follow from it; as a constant of the model it would cost none",
                   guard->inputs[i].name);
        }
    }
}

static void hint_changed(const st_hint_recompile *what)
{
    st_guard next;
    if (st_graph_guard(&what->ctx->mem, what->next->module->root, &next, NULL) != STATOR_OK) {
        return;
    }
    hint_axes(what, &next, 0,
              "; with a symbolic axis in the model (dim_param of ONNX, sym of .stir) one program "
              "serves both");
    hint_axes(what, &next, 1,
              ", as for each other size: the model has nodes that do not work with a symbol there "
              "(STATOR_LOGS=recompiles names one)");
    st_guard_deinit(&next);
}

void st_hint_recompiled(const st_hint_recompile *what)
{
    if (!is_heard(what->ctx)) {
        return;
    }
    hint_values(what);
    if (what->is_static && !what->is_generic && has_changed_size(what)) {
        st_log(what->ctx, ST_HINTS, 2,
               "one more compile, for the sizes of this call alone, as STATOR_COMPILE_STATIC asks: "
               "without it one program serves many sizes");
    }
    if (!what->is_static) {
        hint_changed(what);
    }
}
