/* Helpers of operator functions over the host's builder: nodes, types, sizes, constants, and the
 * one failure an import keeps. */
#include "core/base/check.h"
#include "frontends/onnx/ox_import.h"

#include <stdarg.h>
#include <string.h>

/* ---- memory ---- */

/* protobuf-c does not say why it gave up: the import remembers that memory was refused. */
static void *pb_alloc(void *self, size_t size)
{
    ox_import *im = self;
    void *p = st_alloc(&im->pb_mem, size, 16);
    im->pb_refused |= p == NULL;
    return p;
}

static void pb_free(void *self, void *p)
{
    st_free(&((ox_import *)self)->pb_mem, p);
}

ProtobufCAllocator ox_import_allocator(ox_import *im)
{
    return (ProtobufCAllocator){pb_alloc, pb_free, im};
}

/* ---- failures ---- */

static void keep(ox_import *im, stator_status code, const char *where, const char *format,
                 va_list args)
{
    if (im->status != STATOR_OK) {
        return;
    }
    im->status = code;
    st_str text;
    st_str_init(&text, &im->mem);
    if (where != NULL) {
        st_str_addf(&text, "%s: ", where);
    }
    st_str_vaddf(&text, format, args);
    const bool is_ok = st_str_ok(&text) && text.data != NULL;
    const char *shown = is_ok ? text.data : "out of memory";
    im->diag =
        im->host->diag->create(is_ok ? code : STATOR_RESOURCE_EXHAUSTED, shown, strlen(shown));
    st_str_deinit(&text);
}

stator_status ox_import_fail(ox_import *im, stator_status code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    keep(im, code, NULL, format, args);
    va_end(args);
    return im->status;
}

bool ox_import_check(ox_import *im, stator_status status, const char *where)
{
    const stator_diag_api *api = im->host->diag;
    stator_diag *diag = im->emit_diag;
    if (status == STATOR_OK) {
        return true;
    }
    im->emit_diag = NULL;
    if (im->status == STATOR_OK) {
        const char *text = diag != NULL ? api->text(diag) : "it failed";
        const char *hint = diag != NULL ? api->hint(diag) : NULL;
        ox_import_fail(im, status, "%s: %s", where, text);
        if (hint != NULL && im->diag != NULL) {
            api->set_hint(im->diag, hint);
        }
    }
    if (diag != NULL) {
        api->release(diag);
    }
    return false;
}

const char *ox_node_where(const ox_node *n)
{
    const ox_frame *f = n->scope->frame;
    st_str text;
    st_str_init(&text, &n->im->mem);
    st_str_addf(&text, "node '%s' (%s)", n->name, ox_text(n->proto->op_type));
    if (f != NULL) {
        st_str_addf(&text, " in function '%s'", ox_text(f->function->name));
    }
    char *copy = st_str_ok(&text) ? st_arena_strndup(&n->im->arena, text.data, text.len) : NULL;
    st_str_deinit(&text);
    return copy != NULL ? copy : n->name;
}

void ox_node_end(ox_node *n)
{
    if (n->e.status != STATOR_OK) {
        ox_import_check(n->im, n->e.status, n->im->status == STATOR_OK ? ox_node_where(n) : "");
    }
}

bool ox_ok(const ox_node *n)
{
    const ox_import *im = n->im;
    return im->status == STATOR_OK && im->emit_diag == NULL && n->e.status == STATOR_OK;
}

stator_ref ox_fail(ox_node *n, stator_status code, const char *format, ...)
{
    if (ox_ok(n)) {
        va_list args;
        va_start(args, format);
        keep(n->im, code, ox_node_where(n), format, args);
        va_end(args);
    }
    return 0;
}

void *ox_alloc(ox_node *n, uint64_t count, uint64_t size)
{
    void *p = ox_ok(n) ? st_arena_zalloc(&n->im->arena, count, size) : NULL;
    if (p == NULL) {
        ox_fail(n, STATOR_RESOURCE_EXHAUSTED, "out of memory");
    }
    return p;
}

/* ---- operands and results ---- */

stator_ref ox_in(const ox_node *n, uint32_t k)
{
    return k < n->in_count ? n->in[k] : 0;
}

stator_ref ox_need(ox_node *n, uint32_t k)
{
    const stator_ref v = ox_in(n, k);
    return v != 0 ? v : ox_fail(n, STATOR_INVALID_ARGUMENT, "input %u is required", k);
}

bool ox_wants(const ox_node *n, uint32_t k)
{
    return k < n->out_count && ox_text(n->proto->output[k])[0] != '\0';
}

bool ox_is_training(ox_node *n, bool own)
{
    ox_import *im = n->im;
    const char *all =
        im->options != NULL ? im->host->opt->get_str(im->options, "training") : "model";
    im->mode_count++;
    return strcmp(all, "model") == 0 ? own : strcmp(all, "on") == 0;
}

void ox_out(ox_node *n, uint32_t k, stator_ref v)
{
    if (k < n->out_count) {
        n->out[k] = v;
    }
}

/* ---- types ---- */

static const stator_type_row *type_of(ox_node *n, stator_ref v)
{
    if (!ox_ok(n)) {
        return NULL;
    }
    if (!ox_expect(n, v != 0, "a required input is absent")) {
        return NULL;
    }
    if ((v & OX_SEQUENCE) != 0) {
        ox_fail(n, STATOR_UNIMPLEMENTED, "a sequence stands where a tensor is needed");
        return NULL;
    }
    return stator_emit_type(&n->e, v);
}

stator_dtype ox_dtype(ox_node *n, stator_ref v)
{
    const stator_type_row *t = type_of(n, v);
    return t != NULL ? t->dtype : STATOR_DTYPE_NONE;
}

uint32_t ox_rank(ox_node *n, stator_ref v)
{
    const stator_type_row *t = type_of(n, v);
    return t != NULL ? t->rank : 0;
}

stator_ref ox_dim(ox_node *n, stator_ref v, int64_t axis)
{
    const stator_type_row *t = type_of(n, v);
    if (t == NULL) {
        return 0;
    }
    axis = st_normalize_axis(axis, t->rank);
    ST_FAIL_BY_IF(ox_fail, axis < 0 || axis >= (int64_t)t->rank, n, STATOR_INVALID_ARGUMENT,
                  "an input of rank %u has no axis %lld", t->rank, (long long)axis);
    return stator_emit_dim(&n->e, v, (uint32_t)axis);
}

uint32_t ox_dims(ox_node *n, stator_ref v, stator_ref out[STATOR_RANK_MAX])
{
    return type_of(n, v) != NULL ? stator_emit_dims(&n->e, v, out) : 0;
}

bool ox_dim_known(ox_node *n, stator_ref v, int64_t axis, int64_t *out)
{
    const stator_ref dim = ox_dim(n, v, axis);
    return dim != 0 && ox_sym_const(n, dim, out);
}

int64_t ox_dim_need(ox_node *n, stator_ref v, int64_t axis, const char *what)
{
    int64_t size = 0;
    if (ox_ok(n) && !ox_dim_known(n, v, axis, &size)) {
        ox_ask(n, v, what);
    }
    return size;
}

bool ox_is_float(ox_node *n, stator_ref v)
{
    return st_dtype_class(ox_dtype(n, v)) == STATOR_CLASS_FLOAT;
}

bool ox_is_unsigned(ox_node *n, stator_ref v)
{
    return st_dtype_class(ox_dtype(n, v)) == STATOR_CLASS_UINT;
}

void ox_check_rank(ox_node *n, stator_ref v, uint32_t lo, uint32_t hi, const char *what)
{
    const uint32_t rank = ox_rank(n, v);
    ox_expect(n, rank >= lo && rank <= hi, "%s has rank %u, expected %u to %u", what, rank, lo, hi);
}

uint32_t ox_axis(ox_node *n, int64_t axis, uint32_t rank)
{
    if (axis >= -(int64_t)rank && axis < (int64_t)rank) {
        return (uint32_t)st_normalize_axis(axis, rank);
    }
    return ox_fail(n, STATOR_INVALID_ARGUMENT, "axis %lld is outside a tensor of rank %u",
                   (long long)axis, rank);
}

stator_dtype ox_dtype_of(ox_node *n, int64_t onnx_type)
{
    const char *name;
    const stator_dtype dtype = ox_import_dtype(onnx_type, &name);
    if (dtype == 0) {
        ox_fail(n, STATOR_UNIMPLEMENTED, "element type %s (%lld) is not supported", name,
                (long long)onnx_type);
    }
    return dtype;
}

/* ---- sizes and shapes ---- */

void ox_sym_range(ox_node *n, stator_ref sym, int64_t *out_lo, int64_t *out_hi)
{
    *out_lo = *out_hi = 0;
    if (ox_ok(n) && sym != 0) {
        n->e.types->sym_range(n->e.b, sym, out_lo, out_hi);
    }
}

stator_ref ox_cast(ox_node *n, stator_ref x, stator_dtype dtype)
{
    return ox_dtype(n, x) == dtype ? x : stator_emit_cast(&n->e, x, dtype);
}

stator_ref ox_transpose(ox_node *n, stator_ref x, const int64_t *perm)
{
    return ox_op(n, "transpose", STATOR_IN(x),
                 STATOR_AT(STATOR_A_INTS("perm", ox_rank(n, x), perm)));
}

stator_ref ox_unsqueeze(ox_node *n, stator_ref x, uint32_t axis)
{
    stator_ref dims[STATOR_RANK_MAX + 1u];
    const uint32_t rank = ox_dims(n, x, dims);
    if (!ox_ok(n)) {
        return 0;
    }
    ST_FAIL_BY_IF(ox_fail, rank == STATOR_RANK_MAX || axis > rank, n, STATOR_INVALID_ARGUMENT,
                  "axis %u cannot be added to rank %u", axis, rank);
    memmove(dims + axis + 1, dims + axis, (rank - axis) * sizeof dims[0]);
    dims[axis] = ox_sym(n, 1);
    return ox_reshape(n, x, rank + 1u, dims);
}

stator_ref ox_squeeze(ox_node *n, stator_ref x, uint32_t axis)
{
    stator_ref dims[STATOR_RANK_MAX];
    const uint32_t rank = ox_dims(n, x, dims);
    if (!ox_ok(n)) {
        return 0;
    }
    ST_FAIL_BY_IF(ox_fail, axis >= rank, n, STATOR_INVALID_ARGUMENT, "axis %u is outside rank %u",
                  axis, rank);
    memmove(dims + axis, dims + axis + 1, (rank - axis - 1u) * sizeof dims[0]);
    return ox_reshape(n, x, rank - 1u, dims);
}

stator_ref ox_channels(ox_node *n, stator_ref x, uint32_t rank)
{
    stator_ref dims[STATOR_RANK_MAX];
    ox_check_rank(n, x, 1, 1, "a per-channel operand");
    for (uint32_t i = 0; i < rank && i < STATOR_RANK_MAX; i++) {
        dims[i] = i == 1 ? ox_dim(n, x, 0) : ox_sym(n, 1);
    }
    return ox_reshape(n, x, rank, dims);
}
