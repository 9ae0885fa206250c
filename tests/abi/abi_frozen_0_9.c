/* Every field of ABI 0.9, its place and its type, and every enumerator's value. Made by
 * tests/tools/gen_abi_frozen.py when that ABI was published; never edited.
 * Compiling it is the test. */
#include <stator/inspect.h>
#include <stator/stator.h>
#include <stator/train.h>

/* clang-format off */
#define FROZEN(type_, field_, offset_, ...)                                        \
    _Static_assert(offsetof(type_, field_) == (offset_) &&                         \
                       __builtin_types_compatible_p(                               \
                           __typeof__(((type_ *)0)->field_), __VA_ARGS__),         \
                   #type_ "." #field_ " moved or changed its type")
#define SAME(name_, value_) _Static_assert((name_) == (value_), #name_ " changed")

FROZEN(DLPackVersion, major, 0, uint32_t);
FROZEN(DLPackVersion, minor, 4, uint32_t);
FROZEN(DLDevice, device_type, 0, DLDeviceType);
FROZEN(DLDevice, device_id, 4, int32_t);
FROZEN(DLDataType, code, 0, uint8_t);
FROZEN(DLDataType, bits, 1, uint8_t);
FROZEN(DLDataType, lanes, 2, uint16_t);
FROZEN(DLTensor, data, 0, void *);
FROZEN(DLTensor, device, 8, DLDevice);
FROZEN(DLTensor, ndim, 16, int32_t);
FROZEN(DLTensor, dtype, 20, DLDataType);
FROZEN(DLTensor, shape, 24, int64_t *);
FROZEN(DLTensor, strides, 32, int64_t *);
FROZEN(DLTensor, byte_offset, 40, uint64_t);
FROZEN(DLManagedTensor, dl_tensor, 0, DLTensor);
FROZEN(DLManagedTensor, manager_ctx, 48, void *);
FROZEN(DLManagedTensor, deleter, 56, void (*)(struct DLManagedTensor *self));
FROZEN(DLManagedTensorVersioned, version, 0, DLPackVersion);
FROZEN(DLManagedTensorVersioned, manager_ctx, 8, void *);
FROZEN(DLManagedTensorVersioned, deleter, 16, void (*)(struct DLManagedTensorVersioned *self));
FROZEN(DLManagedTensorVersioned, flags, 24, uint64_t);
FROZEN(DLManagedTensorVersioned, dl_tensor, 32, DLTensor);
FROZEN(stator_column, chunks, 0, const void *const *);
FROZEN(stator_column, stride, 8, uint32_t);
FROZEN(stator_column, reserved, 12, uint32_t);
FROZEN(stator_node_row, op, 0, uint32_t);
FROZEN(stator_node_row, operand_begin, 4, uint32_t);
FROZEN(stator_node_row, operand_count, 8, uint32_t);
FROZEN(stator_node_row, result_begin, 12, uint32_t);
FROZEN(stator_node_row, result_count, 16, uint32_t);
FROZEN(stator_node_row, attr_begin, 20, uint32_t);
FROZEN(stator_node_row, attr_count, 24, uint32_t);
FROZEN(stator_node_row, region_begin, 28, uint32_t);
FROZEN(stator_node_row, region_count, 32, uint32_t);
FROZEN(stator_node_row, origin, 36, uint32_t);
FROZEN(stator_node_row, flags, 40, uint32_t);
FROZEN(stator_node_row, reserved, 44, uint32_t);
FROZEN(stator_value_row, type, 0, uint32_t);
FROZEN(stator_value_row, node, 4, uint32_t);
FROZEN(stator_value_row, index, 8, uint32_t);
FROZEN(stator_value_row, flags, 12, uint32_t);
FROZEN(stator_value_row, name, 16, uint32_t);
FROZEN(stator_value_row, witness, 20, uint32_t);
FROZEN(stator_value_row, blob, 24, uint32_t);
FROZEN(stator_value_row, reserved, 28, uint32_t);
FROZEN(stator_type_row, dtype, 0, uint32_t);
FROZEN(stator_type_row, rank, 4, uint32_t);
FROZEN(stator_type_row, dims_begin, 8, uint32_t);
FROZEN(stator_type_row, device, 12, uint32_t);
FROZEN(stator_sym_row, constant, 0, int64_t);
FROZEN(stator_sym_row, term_begin, 8, uint32_t);
FROZEN(stator_sym_row, term_count, 12, uint32_t);
FROZEN(stator_term_row, coef, 0, int64_t);
FROZEN(stator_term_row, atom, 8, uint32_t);
FROZEN(stator_term_row, reserved, 12, uint32_t);
FROZEN(stator_atom_row, kind, 0, uint32_t);
FROZEN(stator_atom_row, a, 4, uint32_t);
FROZEN(stator_atom_row, b, 8, uint32_t);
FROZEN(stator_atom_row, name, 12, uint32_t);
FROZEN(stator_atom_row, index, 16, uint32_t);
FROZEN(stator_atom_row, flags, 20, uint32_t);
FROZEN(stator_atom_row, lo, 24, int64_t);
FROZEN(stator_atom_row, hi, 32, int64_t);
FROZEN(stator_atom_row, divisor, 40, int64_t);
FROZEN(stator_atom_row, hint, 48, int64_t);
FROZEN(stator_attr_row, kind, 0, uint32_t);
FROZEN(stator_attr_row, begin, 4, uint32_t);
FROZEN(stator_attr_row, count, 8, uint32_t);
FROZEN(stator_attr_row, name, 12, uint32_t);
FROZEN(stator_attr_row, i, 16, int64_t);
FROZEN(stator_attr_row, f, 24, double);
FROZEN(stator_string_row, data, 0, const char *);
FROZEN(stator_string_row, len, 8, uint32_t);
FROZEN(stator_string_row, reserved, 12, uint32_t);
FROZEN(stator_origin_row, name, 0, uint32_t);
FROZEN(stator_origin_row, kind, 4, uint32_t);
FROZEN(stator_origin_row, file, 8, uint32_t);
FROZEN(stator_origin_row, line, 12, uint32_t);
FROZEN(stator_origin_row, next, 16, uint32_t);
FROZEN(stator_origin_row, reserved, 20, uint32_t);
FROZEN(stator_write_back_row, input, 0, uint32_t);
FROZEN(stator_write_back_row, value, 4, uint32_t);
FROZEN(stator_attr_desc, name, 0, const char *);
FROZEN(stator_attr_desc, kind, 8, uint32_t);
FROZEN(stator_attr_desc, is_required, 12, uint32_t);
FROZEN(stator_attr_desc, i, 16, int64_t);
FROZEN(stator_attr_desc, f, 24, double);
FROZEN(stator_attr_desc, s, 32, const char *);
FROZEN(stator_op_desc, struct_size, 0, uint32_t);
FROZEN(stator_op_desc, version, 4, uint32_t);
FROZEN(stator_op_desc, name, 8, const char *);
FROZEN(stator_op_desc, operands, 16, const char *);
FROZEN(stator_op_desc, results, 24, const char *);
FROZEN(stator_op_desc, doc, 32, const char *);
FROZEN(stator_op_desc, body, 40, const char *);
FROZEN(stator_op_desc, attrs, 48, const stator_attr_desc *);
FROZEN(stator_op_desc, attr_count, 56, uint32_t);
FROZEN(stator_op_desc, operand_min, 60, uint32_t);
FROZEN(stator_op_desc, operand_max, 64, uint32_t);
FROZEN(stator_op_desc, region_count, 68, uint32_t);
FROZEN(stator_op_desc, flags, 72, uint64_t);
FROZEN(stator_graph_view, struct_size, 0, uint32_t);
FROZEN(stator_graph_view, n_nodes, 4, uint32_t);
FROZEN(stator_graph_view, n_values, 8, uint32_t);
FROZEN(stator_graph_view, n_inputs, 12, uint32_t);
FROZEN(stator_graph_view, n_outputs, 16, uint32_t);
FROZEN(stator_graph_view, output_begin, 20, uint32_t);
FROZEN(stator_graph_view, output_name_begin, 24, uint32_t);
FROZEN(stator_graph_view, n_write_backs, 28, uint32_t);
FROZEN(stator_graph_view, n_symbols, 32, uint32_t);
FROZEN(stator_graph_view, name, 36, uint32_t);
FROZEN(stator_graph_view, nodes, 40, stator_column);
FROZEN(stator_graph_view, values, 56, stator_column);
FROZEN(stator_graph_view, write_backs, 72, stator_column);
FROZEN(stator_graph_view, types, 88, stator_column);
FROZEN(stator_graph_view, syms, 104, stator_column);
FROZEN(stator_graph_view, terms, 120, stator_column);
FROZEN(stator_graph_view, atoms, 136, stator_column);
FROZEN(stator_graph_view, attrs, 152, stator_column);
FROZEN(stator_graph_view, refs, 168, stator_column);
FROZEN(stator_graph_view, i64s, 184, stator_column);
FROZEN(stator_graph_view, f64s, 200, stator_column);
FROZEN(stator_graph_view, strings, 216, stator_column);
FROZEN(stator_graph_view, origins, 232, stator_column);
FROZEN(stator_graph_view, regions, 248, stator_column);
FROZEN(stator_graph_view, ops, 264, stator_column);
FROZEN(stator_source, struct_size, 0, uint32_t);
FROZEN(stator_source, flags, 4, uint32_t);
FROZEN(stator_source, path, 8, const char *);
FROZEN(stator_source, bytes, 16, const void *);
FROZEN(stator_source, size, 24, uint64_t);
FROZEN(stator_source, dir, 32, const char *);
FROZEN(stator_source, input_value, 40,
       const DLTensor * (*)(const struct stator_source *source, const char *name));
FROZEN(stator_source, need_value, 48,
       void (*)(const struct stator_source *source, const char *name));
FROZEN(stator_source, host, 56, void *);
FROZEN(stator_source, fact, 64,
       void (*)(const struct stator_source *source, const char *kind, const char *name, const char *value));
FROZEN(stator_rewrite, struct_size, 0, uint32_t);
FROZEN(stator_rewrite, value_count, 4, uint32_t);
FROZEN(stator_rewrite, names, 8, const char *const *);
FROZEN(stator_rewrite, values, 16, const DLTensor *);
FROZEN(stator_rewrite, data_name, 24, const char *);
FROZEN(stator_rewrite, append, 32,
       stator_status (*)(const struct stator_rewrite *to, uint32_t file, const void *bytes, uint64_t size, stator_diag **err));
FROZEN(stator_rewrite, host, 40, void *);
FROZEN(stator_mem_api, struct_size, 0, uint32_t);
FROZEN(stator_mem_api, reserved, 4, uint32_t);
FROZEN(stator_mem_api, alloc, 8, void * (*)(stator_ctx *ctx, uint64_t size, uint64_t align));
FROZEN(stator_mem_api, realloc, 16,
       void * (*)(stator_ctx *ctx, void *p, uint64_t size, uint64_t align));
FROZEN(stator_mem_api, free, 24, void (*)(stator_ctx *ctx, void *p));
FROZEN(stator_diag_api, struct_size, 0, uint32_t);
FROZEN(stator_diag_api, reserved, 4, uint32_t);
FROZEN(stator_diag_api, create, 8,
       stator_diag * (*)(stator_status code, const char *text, uint64_t text_len));
FROZEN(stator_diag_api, add_note, 16,
       void (*)(stator_diag *diag, const char *node, const char *file, uint32_t line, const char *text));
FROZEN(stator_diag_api, set_hint, 24, void (*)(stator_diag *diag, const char *hint));
FROZEN(stator_diag_api, text, 32, const char * (*)(const stator_diag *diag));
FROZEN(stator_diag_api, hint, 40, const char * (*)(const stator_diag *diag));
FROZEN(stator_diag_api, release, 48, void (*)(stator_diag *diag));
FROZEN(stator_diag_api, add_node, 56,
       void (*)(stator_diag *diag, stator_ref node, const char *reason));
FROZEN(stator_ir_api, struct_size, 0, uint32_t);
FROZEN(stator_ir_api, reserved, 4, uint32_t);
FROZEN(stator_ir_api, view, 8, const stator_graph_view * (*)(const stator_graph *graph));
FROZEN(stator_ir_api, find_op, 16, uint32_t (*)(stator_ctx *ctx, const char *name));
FROZEN(stator_ir_api, op_count, 24, uint32_t (*)(stator_ctx *ctx));
FROZEN(stator_ir_api, op_desc, 32, const stator_op_desc * (*)(stator_ctx *ctx, uint32_t op));
FROZEN(stator_ir_api, attr, 40,
       const stator_attr_row * (*)(const stator_graph *graph, stator_ref node, const char *name));
FROZEN(stator_ir_api, structural_hash, 48,
       void (*)(const stator_graph *graph, uint8_t out_hash[16]));
FROZEN(stator_ir_api, print, 56,
       stator_status (*)(stator_ctx *ctx, const stator_graph *graph, char **out_text, uint64_t *out_len, stator_diag **err));
FROZEN(stator_ir_api, parse, 64,
       stator_status (*)(stator_builder *builder, const char *bytes, uint64_t len, const char *file_name, const char *dir, stator_diag **err));
FROZEN(stator_ir_api, library_op, 72,
       const struct stator_oplib_op * (*)(stator_ctx *ctx, uint32_t op, void **out_self));
FROZEN(stator_attr, name, 0, const char *);
FROZEN(stator_attr, kind, 8, uint32_t);
FROZEN(stator_attr, count, 12, uint32_t);
FROZEN(stator_attr, i, 16, int64_t);
FROZEN(stator_attr, f, 24, double);
FROZEN(stator_attr, s, 32, const char *);
FROZEN(stator_attr, list, 40, const void *);
FROZEN(stator_attr, blob, 48, stator_blob *);
FROZEN(stator_node_desc, struct_size, 0, uint32_t);
FROZEN(stator_node_desc, op, 4, uint32_t);
FROZEN(stator_node_desc, operands, 8, const stator_ref *);
FROZEN(stator_node_desc, operand_count, 16, uint32_t);
FROZEN(stator_node_desc, attr_count, 20, uint32_t);
FROZEN(stator_node_desc, attrs, 24, const stator_attr *);
FROZEN(stator_node_desc, regions, 32, stator_graph *const *);
FROZEN(stator_node_desc, region_count, 40, uint32_t);
FROZEN(stator_node_desc, result_count, 44, uint32_t);
FROZEN(stator_node_desc, result_types, 48, const stator_ref *);
FROZEN(stator_build_api, struct_size, 0, uint32_t);
FROZEN(stator_build_api, reserved, 4, uint32_t);
FROZEN(stator_build_api, view, 8, const stator_graph_view * (*)(stator_builder *b));
FROZEN(stator_build_api, input, 16,
       stator_status (*)(stator_builder *b, const char *name, stator_ref type, stator_ref *out, stator_diag **err));
FROZEN(stator_build_api, param, 24,
       stator_status (*)(stator_builder *b, const char *name, stator_ref type, stator_blob *blob, stator_ref *out, stator_diag **err));
FROZEN(stator_build_api, node, 32,
       stator_status (*)(stator_builder *b, const stator_node_desc *desc, stator_ref *out_results, stator_diag **err));
FROZEN(stator_build_api, constant, 40,
       stator_status (*)(stator_builder *b, stator_ref type, const void *data, uint64_t size, stator_ref *out, stator_diag **err));
FROZEN(stator_build_api, constant_blob, 48,
       stator_status (*)(stator_builder *b, stator_ref type, stator_blob *blob, stator_ref *out, stator_diag **err));
FROZEN(stator_build_api, output, 56,
       stator_status (*)(stator_builder *b, const char *name, stator_ref value, stator_diag **err));
FROZEN(stator_build_api, write_back, 64,
       stator_status (*)(stator_builder *b, stator_ref input, stator_ref value, stator_diag **err));
FROZEN(stator_build_api, expr, 72,
       stator_status (*)(stator_builder *b, const char *program, uint32_t n_names, const char *const *names, const stator_ref *values, uint32_t n_attrs, const stator_attr *attrs, uint32_t n_out, stator_ref *out, stator_diag **err));
FROZEN(stator_build_api, region_begin, 80,
       stator_status (*)(stator_builder *b, const char *name, stator_builder **out, stator_diag **err));
FROZEN(stator_build_api, region_end, 88,
       stator_status (*)(stator_builder *region, stator_graph **out, stator_diag **err));
FROZEN(stator_build_api, region_abort, 96, void (*)(stator_builder *region));
FROZEN(stator_build_api, set_origin, 104,
       void (*)(stator_builder *b, const char *name, const char *kind, const char *file, uint32_t line));
FROZEN(stator_build_api, set_origin_ref, 112, void (*)(stator_builder *b, stator_ref origin));
FROZEN(stator_build_api, set_witness, 120,
       void (*)(stator_builder *b, stator_ref value, stator_ref witness));
FROZEN(stator_build_api, set_name, 128,
       void (*)(stator_builder *b, stator_ref value, const char *name));
FROZEN(stator_build_api, clone, 136,
       stator_status (*)(stator_builder *b, const stator_graph *from, stator_ref first, stator_ref last, stator_ref *map, stator_diag **err));
FROZEN(stator_build_api, known_ints, 144,
       int32_t (*)(stator_builder *b, stator_ref value, uint32_t n, stator_ref *out_syms));
FROZEN(stator_build_api, as_dims, 152,
       stator_status (*)(stator_builder *b, stator_ref value, uint32_t n, stator_ref *out_syms, stator_diag **err));
FROZEN(stator_build_api, from_dims, 160,
       stator_status (*)(stator_builder *b, const stator_ref *syms, uint32_t n, stator_ref *out, stator_diag **err));
FROZEN(stator_build_api, find_op, 168, uint32_t (*)(stator_builder *b, const char *name));
FROZEN(stator_types_api, struct_size, 0, uint32_t);
FROZEN(stator_types_api, reserved, 4, uint32_t);
FROZEN(stator_types_api, tensor, 8,
       stator_ref (*)(stator_builder *b, stator_dtype dtype, uint32_t rank, const stator_ref *dims));
FROZEN(stator_types_api, sym_int, 16, stator_ref (*)(stator_builder *b, int64_t value));
FROZEN(stator_types_api, sym_symbol, 24,
       stator_ref (*)(stator_builder *b, const char *name, int64_t lo, int64_t hi, int64_t divisor));
FROZEN(stator_types_api, sym_unbacked, 32,
       stator_ref (*)(stator_builder *b, int64_t lo, int64_t hi));
FROZEN(stator_types_api, sym_op, 40,
       stator_ref (*)(stator_builder *b, uint32_t op, stator_ref lhs, stator_ref rhs));
FROZEN(stator_types_api, sym_compare, 48,
       int32_t (*)(stator_builder *b, uint32_t op, stator_ref lhs, stator_ref rhs));
FROZEN(stator_types_api, sym_range, 56,
       void (*)(stator_builder *b, stator_ref sym, int64_t *out_lo, int64_t *out_hi));
FROZEN(stator_blob_info, struct_size, 0, uint32_t);
FROZEN(stator_blob_info, flags, 4, uint32_t);
FROZEN(stator_blob_info, data, 8, const void *);
FROZEN(stator_blob_info, size_bytes, 16, uint64_t);
FROZEN(stator_blob_info, content_hash, 24, uint8_t [16]);
FROZEN(stator_cst_api, struct_size, 0, uint32_t);
FROZEN(stator_cst_api, reserved, 4, uint32_t);
FROZEN(stator_cst_api, of_value, 8, stator_blob * (*)(const stator_graph *graph, stator_ref value));
FROZEN(stator_cst_api, of_ref, 16, stator_blob * (*)(const stator_graph *graph, stator_ref blob));
FROZEN(stator_cst_api, get, 24,
       stator_status (*)(stator_blob *blob, stator_blob_info *out, stator_diag **err));
FROZEN(stator_cst_api, retain, 32, void (*)(stator_blob *blob));
FROZEN(stator_cst_api, release, 40, void (*)(stator_blob *blob));
FROZEN(stator_cst_api, will_not_read, 48, void (*)(stator_blob *blob));
FROZEN(stator_cst_api, create, 56,
       stator_blob * (*)(stator_ctx *ctx, const void *data, uint64_t size));
FROZEN(stator_cst_api, from_file, 64,
       stator_status (*)(stator_ctx *ctx, const char *path, uint64_t offset, uint64_t size, int32_t copy, stator_blob **out, stator_diag **err));
FROZEN(stator_cst_api, pack, 72,
       stator_status (*)(stator_ctx *ctx, const uint8_t content_hash[16], const char *format_key, uint64_t size, stator_status (*fill)(void *self, void *dst, uint64_t size), void *self, stator_blob **out, stator_diag **err));
FROZEN(stator_cst_api, peek, 80,
       stator_status (*)(stator_blob *blob, stator_blob_info *out, stator_diag **err));
FROZEN(stator_cst_api, hash, 88,
       stator_status (*)(stator_blob *blob, uint8_t out_hash[16], stator_diag **err));
FROZEN(stator_opt_api, struct_size, 0, uint32_t);
FROZEN(stator_opt_api, reserved, 4, uint32_t);
FROZEN(stator_opt_api, get_bool, 8, int32_t (*)(const stator_options *options, const char *key));
FROZEN(stator_opt_api, get_i64, 16, int64_t (*)(const stator_options *options, const char *key));
FROZEN(stator_opt_api, get_f64, 24, double (*)(const stator_options *options, const char *key));
FROZEN(stator_opt_api, get_str, 32,
       const char * (*)(const stator_options *options, const char *key));
FROZEN(stator_log_api, struct_size, 0, uint32_t);
FROZEN(stator_log_api, reserved, 4, uint32_t);
FROZEN(stator_log_api, enabled, 8,
       int32_t (*)(stator_ctx *ctx, const char *channel, uint32_t level));
FROZEN(stator_log_api, write, 16,
       void (*)(stator_ctx *ctx, const char *channel, uint32_t level, const char *text));
FROZEN(stator_log_api, is_dumping, 24, int32_t (*)(stator_ctx *ctx));
FROZEN(stator_log_api, dump, 32,
       void (*)(stator_ctx *ctx, const char *name, const void *bytes, uint64_t size_bytes));
FROZEN(stator_thr_api, struct_size, 0, uint32_t);
FROZEN(stator_thr_api, reserved, 4, uint32_t);
FROZEN(stator_thr_api, parallel_for, 8,
       void (*)(stator_ctx *ctx, int64_t n, int64_t grain, stator_range_fn fn, void *self));
FROZEN(stator_thr_api, thread_count, 16, int32_t (*)(stator_ctx *ctx));
FROZEN(stator_thr_api, is_contended, 24, int32_t (*)(stator_ctx *ctx));
FROZEN(stator_thr_api, note_team, 32,
       void (*)(stator_ctx *ctx, uint64_t team_ns, uint64_t alone_ns));
FROZEN(stator_fuel_api, struct_size, 0, uint32_t);
FROZEN(stator_fuel_api, reserved, 4, uint32_t);
FROZEN(stator_fuel_api, scope, 8,
       stator_fuel_scope * (*)(stator_fuel_scope *parent, const char *name));
FROZEN(stator_fuel_api, may_apply, 16,
       int32_t (*)(stator_fuel_scope *scope, uint32_t kind, const char *rule, stator_ref node));
FROZEN(stator_call, struct_size, 0, uint32_t);
FROZEN(stator_call, n_in, 4, uint32_t);
FROZEN(stator_call, n_out, 8, uint32_t);
FROZEN(stator_call, n_syms, 12, uint32_t);
FROZEN(stator_call, in, 16, const DLTensor *);
FROZEN(stator_call, out, 24, DLTensor *);
FROZEN(stator_call, syms, 32, int64_t *);
FROZEN(stator_call, workspace, 40, void *);
FROZEN(stator_call, workspace_bytes, 48, uint64_t);
FROZEN(stator_call, stream, 56, void *);
FROZEN(stator_call, ctx, 64, stator_ctx *);
FROZEN(stator_call, alloc_output, 72,
       stator_status (*)(const struct stator_call *call, uint32_t k, uint32_t rank, const int64_t *shape, stator_diag **err));
FROZEN(stator_call, host, 80, void *);
FROZEN(stator_call, fuel, 88, stator_fuel_scope *);
FROZEN(stator_call, note_time, 96,
       void (*)(const struct stator_call *call, const char *name, uint64_t begin_ns, uint64_t end_ns));
FROZEN(stator_call, number, 104, uint64_t);
FROZEN(stator_exe_info, struct_size, 0, uint32_t);
FROZEN(stator_exe_info, flags, 4, uint32_t);
FROZEN(stator_exe_info, workspace_bytes, 8, uint64_t);
FROZEN(stator_exe_info, constant_bytes, 16, uint64_t);
FROZEN(stator_exe_info, packed_bytes, 24, uint64_t);
FROZEN(stator_exe_info, winograd_bytes, 32, uint64_t);
FROZEN(stator_exe_info, scratch_bytes, 40, uint64_t);
FROZEN(stator_exe_info, may_alias, 48, const uint32_t *);
FROZEN(stator_nested_api, struct_size, 0, uint32_t);
FROZEN(stator_nested_api, reserved, 4, uint32_t);
FROZEN(stator_nested_api, open, 8,
       stator_status (*)(stator_ctx *ctx, const char *opener, const char *backend, const stator_options *options, stator_instance **out, stator_diag **err));
FROZEN(stator_nested_api, compile, 16,
       stator_status (*)(stator_instance *instance, const stator_graph *graph, void **out_exe, stator_diag **err));
FROZEN(stator_nested_api, exe_info, 24,
       stator_status (*)(stator_instance *instance, void *exe, stator_exe_info *out));
FROZEN(stator_nested_api, run, 32,
       stator_status (*)(stator_instance *instance, void *exe, const stator_call *call, stator_diag **err));
FROZEN(stator_nested_api, exe_destroy, 40, void (*)(stator_instance *instance, void *exe));
FROZEN(stator_nested_api, close, 48, void (*)(stator_instance *instance));
FROZEN(stator_nested_api, capability, 56,
       stator_status (*)(stator_instance *instance, const stator_graph *graph, uint8_t *accepts, stator_diag **err));
FROZEN(stator_nested_api, keep, 64,
       int32_t (*)(stator_instance *instance, const char *op, uint32_t version, const stator_dtype *dtypes, const uint32_t *ranks, uint32_t n));
FROZEN(stator_nested_api, compile_node, 72,
       stator_status (*)(stator_instance *instance, const stator_graph *graph, stator_ref node, void **out_exe, stator_diag **err));
FROZEN(stator_nested_api, exe_steps, 80,
       stator_status (*)(stator_instance *instance, void *exe, const struct stator_step_sink *sink, stator_diag **err));
FROZEN(stator_cache_api, struct_size, 0, uint32_t);
FROZEN(stator_cache_api, reserved, 4, uint32_t);
FROZEN(stator_cache_api, wanted, 8, int32_t (*)(stator_ctx *ctx));
FROZEN(stator_cache_api, put_constant, 16,
       stator_status (*)(stator_ctx *ctx, stator_blob *blob, uint32_t *out_id, stator_diag **err));
FROZEN(stator_cache_api, get_constant, 24,
       stator_status (*)(stator_ctx *ctx, uint32_t id, stator_blob **out, stator_diag **err));
FROZEN(stator_host, struct_size, 0, uint32_t);
FROZEN(stator_host, abi_major, 4, uint16_t);
FROZEN(stator_host, abi_minor, 6, uint16_t);
FROZEN(stator_host, features, 8, uint64_t);
FROZEN(stator_host, ctx, 16, stator_ctx *);
FROZEN(stator_host, mem, 24, const stator_mem_api *);
FROZEN(stator_host, diag, 32, const stator_diag_api *);
FROZEN(stator_host, ir, 40, const stator_ir_api *);
FROZEN(stator_host, build, 48, const stator_build_api *);
FROZEN(stator_host, types, 56, const stator_types_api *);
FROZEN(stator_host, cst, 64, const stator_cst_api *);
FROZEN(stator_host, opt, 72, const stator_opt_api *);
FROZEN(stator_host, log, 80, const stator_log_api *);
FROZEN(stator_host, thr, 88, const stator_thr_api *);
FROZEN(stator_host, fuel, 96, const stator_fuel_api *);
FROZEN(stator_host, cache, 104, const stator_cache_api *);
FROZEN(stator_host, nested, 112, const stator_nested_api *);
FROZEN(stator_host, get_ext, 120, const void * (*)(const char *name, uint32_t min_version));
FROZEN(stator_option_desc, struct_size, 0, uint32_t);
FROZEN(stator_option_desc, type, 4, uint32_t);
FROZEN(stator_option_desc, flags, 8, uint32_t);
FROZEN(stator_option_desc, since_minor, 12, uint32_t);
FROZEN(stator_option_desc, key, 16, const char *);
FROZEN(stator_option_desc, default_text, 24, const char *);
FROZEN(stator_option_desc, min_i64, 32, int64_t);
FROZEN(stator_option_desc, max_i64, 40, int64_t);
FROZEN(stator_option_desc, min_f64, 48, double);
FROZEN(stator_option_desc, max_f64, 56, double);
FROZEN(stator_option_desc, enum_values, 64, const char *);
FROZEN(stator_option_desc, help, 72, const char *);
FROZEN(stator_option_desc, renamed_to, 80, const char *);
FROZEN(stator_item, struct_size, 0, uint32_t);
FROZEN(stator_item, kind, 4, uint32_t);
FROZEN(stator_item, abi_major, 8, uint16_t);
FROZEN(stator_item, abi_minor_min, 10, uint16_t);
FROZEN(stator_item, abi_minor_built, 12, uint16_t);
FROZEN(stator_item, reserved, 14, uint16_t);
FROZEN(stator_item, name, 16, const char *);
FROZEN(stator_item, doc, 24, const char *);
FROZEN(stator_item, options, 32, const stator_option_desc *);
FROZEN(stator_item, option_count, 40, uint32_t);
FROZEN(stator_item, option_stride, 44, uint32_t);
FROZEN(stator_capability_sink, struct_size, 0, uint32_t);
FROZEN(stator_capability_sink, reserved, 4, uint32_t);
FROZEN(stator_capability_sink, self, 8, void *);
FROZEN(stator_capability_sink, yes, 16, void (*)(void *self, stator_ref node, uint64_t cost_ns));
FROZEN(stator_capability_sink, no, 24,
       void (*)(void *self, stator_ref node, stator_status reason, const char *text));
FROZEN(stator_capability_sink, group, 32,
       void (*)(void *self, const stator_ref *nodes, uint32_t n, uint32_t flags));
FROZEN(stator_pipeline_sink, struct_size, 0, uint32_t);
FROZEN(stator_pipeline_sink, reserved, 4, uint32_t);
FROZEN(stator_pipeline_sink, self, 8, void *);
FROZEN(stator_pipeline_sink, stage, 16, void (*)(void *self, const char *pass_name));
FROZEN(stator_pipeline_sink, phase, 24, void (*)(void *self, uint32_t phase));
FROZEN(stator_package_sink, struct_size, 0, uint32_t);
FROZEN(stator_package_sink, reserved, 4, uint32_t);
FROZEN(stator_package_sink, self, 8, void *);
FROZEN(stator_package_sink, piece, 16,
       stator_status (*)(void *self, uint32_t kind, const char *name, const void *bytes, uint64_t size));
FROZEN(stator_exe_step, struct_size, 0, uint32_t);
FROZEN(stator_exe_step, kind, 4, uint32_t);
FROZEN(stator_exe_step, flags, 8, uint32_t);
FROZEN(stator_exe_step, depth, 12, uint32_t);
FROZEN(stator_exe_step, reserved, 16, uint32_t);
FROZEN(stator_exe_step, n_nodes, 20, uint32_t);
FROZEN(stator_exe_step, nodes, 24, const stator_ref *);
FROZEN(stator_exe_step, name, 32, const char *);
FROZEN(stator_exe_step, read_bytes, 40, uint64_t);
FROZEN(stator_exe_step, written_bytes, 48, uint64_t);
FROZEN(stator_step_sink, struct_size, 0, uint32_t);
FROZEN(stator_step_sink, reserved, 4, uint32_t);
FROZEN(stator_step_sink, self, 8, void *);
FROZEN(stator_step_sink, step, 16, stator_status (*)(void *self, const stator_exe_step *step));
FROZEN(stator_device_info, struct_size, 0, uint32_t);
FROZEN(stator_device_info, id, 4, uint32_t);
FROZEN(stator_device_info, name, 8, const char *);
FROZEN(stator_device_info, arch, 16, const char *);
FROZEN(stator_device_info, memory_bytes, 24, uint64_t);
FROZEN(stator_memory_info, struct_size, 0, uint32_t);
FROZEN(stator_memory_info, flags, 4, uint32_t);
FROZEN(stator_memory_info, device, 8, DLDevice);
FROZEN(stator_memory_info, alignment, 16, uint64_t);
FROZEN(stator_strided_copy, struct_size, 0, uint32_t);
FROZEN(stator_strided_copy, rank, 4, uint32_t);
FROZEN(stator_strided_copy, item_bytes, 8, uint64_t);
FROZEN(stator_strided_copy, sizes, 16, const int64_t *);
FROZEN(stator_strided_copy, dst_strides, 24, const int64_t *);
FROZEN(stator_strided_copy, src_strides, 32, const int64_t *);
FROZEN(stator_backend, item, 0, stator_item);
FROZEN(stator_backend, aliases, 48, const char *);
FROZEN(stator_backend, tags, 56, const char *);
FROZEN(stator_backend, priority, 64, int32_t);
FROZEN(stator_backend, flags, 68, uint32_t);
FROZEN(stator_backend, probe, 72, stator_status (*)(void *self, stator_diag **err));
FROZEN(stator_backend, devices, 80,
       stator_status (*)(void *self, stator_device_fn fn, void *fn_self));
FROZEN(stator_backend, create, 88,
       stator_status (*)(void *self, const stator_options *options, uint32_t device, void **inst, stator_diag **err));
FROZEN(stator_backend, destroy, 96, void (*)(void *self, void *inst));
FROZEN(stator_backend, pipeline, 104,
       stator_status (*)(void *self, const stator_options *options, const stator_pipeline_sink *sink));
FROZEN(stator_backend, keep, 112,
       int32_t (*)(void *inst, const char *op, uint32_t version, const stator_dtype *dtypes, const uint32_t *ranks, uint32_t n_operands));
FROZEN(stator_backend, capability, 120,
       stator_status (*)(void *inst, const stator_graph *graph, const stator_capability_sink *sink, stator_diag **err));
FROZEN(stator_backend, compile, 128,
       stator_status (*)(void *inst, const stator_graph *graph, stator_fuel_scope *fuel, void **exe, stator_diag **err));
FROZEN(stator_backend, exe_info, 136,
       stator_status (*)(void *inst, void *exe, stator_exe_info *out));
FROZEN(stator_backend, exe_run, 144,
       stator_status (*)(void *inst, void *exe, const stator_call *call, stator_diag **err));
FROZEN(stator_backend, exe_destroy, 152, void (*)(void *inst, void *exe));
FROZEN(stator_backend, exe_serialize, 160,
       stator_status (*)(void *inst, void *exe, stator_blob **out, stator_diag **err));
FROZEN(stator_backend, exe_deserialize, 168,
       stator_status (*)(void *inst, stator_blob *blob, void **exe, stator_diag **err));
FROZEN(stator_backend, compat_key, 176, const char * (*)(void *inst));
FROZEN(stator_backend, alloc, 184,
       stator_status (*)(void *inst, uint64_t size, void *stream, void **out, stator_diag **err));
FROZEN(stator_backend, free, 192, void (*)(void *inst, void *p, void *stream));
FROZEN(stator_backend, copy, 200,
       stator_status (*)(void *inst, void *dst, const void *src, uint64_t size, uint32_t direction, void *stream, stator_diag **err));
FROZEN(stator_backend, stream_create, 208,
       stator_status (*)(void *inst, void **out, stator_diag **err));
FROZEN(stator_backend, stream_destroy, 216, void (*)(void *inst, void *stream));
FROZEN(stator_backend, synchronize, 224,
       stator_status (*)(void *inst, void *stream, stator_diag **err));
FROZEN(stator_backend, explain, 232,
       stator_status (*)(void *inst, void *exe, stator_ref node, stator_diag **out));
FROZEN(stator_backend, self_test, 240, stator_status (*)(void *inst, stator_diag **err));
FROZEN(stator_backend, exe_package, 248,
       stator_status (*)(void *inst, void *exe, const stator_package_sink *sink, stator_diag **err));
FROZEN(stator_backend, exe_steps, 256,
       stator_status (*)(void *inst, void *exe, const stator_step_sink *sink, stator_diag **err));
FROZEN(stator_backend, memory, 264,
       stator_status (*)(void *inst, stator_memory_info *out, stator_diag **err));
FROZEN(stator_backend, event_create, 272,
       stator_status (*)(void *inst, void **out, stator_diag **err));
FROZEN(stator_backend, event_destroy, 280, void (*)(void *inst, void *event));
FROZEN(stator_backend, event_record, 288,
       stator_status (*)(void *inst, void *event, void *stream, stator_diag **err));
FROZEN(stator_backend, event_wait, 296,
       stator_status (*)(void *inst, void *event, void *stream, stator_diag **err));
FROZEN(stator_backend, fill, 304,
       stator_status (*)(void *inst, void *dst, uint8_t value, uint64_t size, void *stream, stator_diag **err));
FROZEN(stator_backend, check_address, 312,
       stator_status (*)(void *inst, const void *p, stator_diag **err));
FROZEN(stator_backend, copy_strided, 320,
       stator_status (*)(void *inst, void *dst, const void *src, const stator_strided_copy *layout, void *stream, stator_diag **err));
FROZEN(stator_backend, check_stream, 328,
       stator_status (*)(void *inst, void *stream, stator_diag **err));
FROZEN(stator_backend, check_range, 336,
       stator_status (*)(void *inst, const void *p, uint64_t below, uint64_t above, stator_diag **err));
FROZEN(stator_backend, late_failure, 344,
       stator_status (*)(void *inst, void *stream, uint64_t *out_first, uint64_t *out_last, stator_diag **err));
FROZEN(stator_frontend, item, 0, stator_item);
FROZEN(stator_frontend, extensions, 48, const char *);
FROZEN(stator_frontend, sniff, 56, uint32_t (*)(void *self, const uint8_t *bytes, uint64_t size));
FROZEN(stator_frontend, import, 64,
       stator_status (*)(void *self, const stator_source *source, const stator_options *options, stator_builder *builder, stator_diag **err));
FROZEN(stator_frontend, rewrite, 72,
       stator_status (*)(void *self, const stator_source *source, const stator_rewrite *to, stator_diag **err));
FROZEN(stator_pass, item, 0, stator_item);
FROZEN(stator_pass, phase, 48, uint32_t);
FROZEN(stator_pass, flags, 52, uint32_t);
FROZEN(stator_pass, after, 56, const char *);
FROZEN(stator_pass, before, 64, const char *);
FROZEN(stator_pass, run, 72,
       stator_status (*)(void *self, const stator_graph *in, stator_builder *out, stator_fuel_scope *fuel, uint32_t *out_result, stator_diag **err));
FROZEN(stator_pass, run_with, 80,
       stator_status (*)(void *self, const stator_graph *in, const stator_options *options, stator_builder *out, stator_fuel_scope *fuel, uint32_t *out_result, stator_diag **err));
FROZEN(stator_oplib_op, desc, 0, stator_op_desc);
FROZEN(stator_oplib_op, infer, 80,
       stator_status (*)(void *self, stator_builder *b, const stator_node_desc *node, stator_ref *out_types, uint32_t n_types, stator_diag **err));
FROZEN(stator_oplib_op, decompose, 88,
       stator_status (*)(void *self, stator_builder *b, const stator_node_desc *node, stator_ref *out_results, stator_diag **err));
FROZEN(stator_oplib_op, kernel, 96,
       stator_status (*)(void *self, uint32_t n_in, const DLTensor *in, uint32_t n_out, DLTensor *out, const stator_attr *attrs, uint32_t n_attrs, stator_diag **err));
FROZEN(stator_oplib_op, gradient, 104,
       stator_status (*)(void *self, stator_builder *b, const stator_node_desc *node, const stator_ref *out_grads, stator_ref *in_grads, stator_diag **err));
FROZEN(stator_oplib, item, 0, stator_item);
FROZEN(stator_oplib, ops, 48, const stator_oplib_op *);
FROZEN(stator_oplib, op_count, 56, uint32_t);
FROZEN(stator_oplib, op_stride, 60, uint32_t);
FROZEN(stator_plugin, struct_size, 0, uint32_t);
FROZEN(stator_plugin, abi_major, 4, uint16_t);
FROZEN(stator_plugin, abi_minor_min, 6, uint16_t);
FROZEN(stator_plugin, abi_minor_built, 8, uint16_t);
FROZEN(stator_plugin, reserved, 10, uint16_t);
FROZEN(stator_plugin, item_count, 12, uint32_t);
FROZEN(stator_plugin, name, 16, const char *);
FROZEN(stator_plugin, vendor, 24, const char *);
FROZEN(stator_plugin, version, 32, const char *);
FROZEN(stator_plugin, sanitizer, 40, const char *);
FROZEN(stator_plugin, items, 48, const stator_item *const *);
FROZEN(stator_plugin, init, 56,
       stator_status (*)(const stator_host *host, void **self, stator_diag **err));
FROZEN(stator_plugin, shutdown, 64, void (*)(void *self));
FROZEN(stator_ctx_options, struct_size, 0, uint32_t);
FROZEN(stator_ctx_options, flags, 4, uint32_t);
FROZEN(stator_ctx_options, threads, 8, int32_t);
FROZEN(stator_ctx_options, plugin_dir_count, 12, uint32_t);
FROZEN(stator_ctx_options, plugin_dirs, 16, const char *const *);
FROZEN(stator_ctx_options, memory_limit_bytes, 24, uint64_t);
FROZEN(stator_ctx_options, alloc, 32, void * (*)(void *self, uint64_t size, uint64_t align));
FROZEN(stator_ctx_options, free, 40, void (*)(void *self, void *p));
FROZEN(stator_ctx_options, alloc_self, 48, void *);
FROZEN(stator_ctx_options, log, 56,
       void (*)(void *self, const char *channel, uint32_t level, const char *text));
FROZEN(stator_ctx_options, log_self, 64, void *);
FROZEN(stator_ctx_options, log_channels, 72, const char *);
FROZEN(stator_mem_stats, struct_size, 0, uint32_t);
FROZEN(stator_mem_stats, reserved, 4, uint32_t);
FROZEN(stator_mem_stats, live_bytes, 8, uint64_t);
FROZEN(stator_mem_stats, peak_bytes, 16, uint64_t);
FROZEN(stator_mem_stats, live_blocks, 24, uint64_t);
FROZEN(stator_device_stats, struct_size, 0, uint32_t);
FROZEN(stator_device_stats, reserved, 4, uint32_t);
FROZEN(stator_device_stats, held_bytes, 8, uint64_t);
FROZEN(stator_device_stats, used_bytes, 16, uint64_t);
FROZEN(stator_device_stats, peak_bytes, 24, uint64_t);
FROZEN(stator_device_stats, n_allocs, 32, uint64_t);
FROZEN(stator_device_stats, n_copies, 40, uint64_t);
FROZEN(stator_device_stats, copied_bytes, 48, uint64_t);
FROZEN(stator_device_stats, n_waits, 56, uint64_t);
FROZEN(stator_item_info, struct_size, 0, uint32_t);
FROZEN(stator_item_info, index, 4, uint32_t);
FROZEN(stator_item_info, name, 8, const char *);
FROZEN(stator_item_info, kind, 16, const char *);
FROZEN(stator_item_info, state, 24, const char *);
FROZEN(stator_item_info, reason, 32, const char *);
FROZEN(stator_item_info, hint, 40, const char *);
FROZEN(stator_item_info, version, 48, const char *);
FROZEN(stator_item_info, abi, 56, const char *);
FROZEN(stator_item_info, path, 64, const char *);
FROZEN(stator_item_info, origin, 72, const char *);
FROZEN(stator_item_info, tags, 80, const char *);
FROZEN(stator_item_info, description, 88, const char *);
FROZEN(stator_item_info, shadowed_by, 96, const char *);
FROZEN(stator_item_info, build_id, 104, const char *);
FROZEN(stator_item_info, priority, 112, int32_t);
FROZEN(stator_item_info, probed, 116, int32_t);
FROZEN(stator_item_info, device_count, 120, uint32_t);
FROZEN(stator_item_info, option_count, 124, uint32_t);
FROZEN(stator_item_info, devices, 128, const stator_device_info *);
FROZEN(stator_buffer, struct_size, 0, uint32_t);
FROZEN(stator_buffer, reserved, 4, uint32_t);
FROZEN(stator_buffer, data, 8, void *);
FROZEN(stator_buffer, size_bytes, 16, uint64_t);
FROZEN(stator_buffer, deleter, 24, void (*)(void *self, void *data));
FROZEN(stator_buffer, self, 32, void *);
FROZEN(stator_load_options, struct_size, 0, uint32_t);
FROZEN(stator_load_options, flags, 4, uint32_t);
FROZEN(stator_load_options, frontend, 8, const char *);
FROZEN(stator_load_options, option_keys, 16, const char *const *);
FROZEN(stator_load_options, option_values, 24, const char *const *);
FROZEN(stator_load_options, option_count, 32, uint32_t);
FROZEN(stator_load_options, reserved, 36, uint32_t);
FROZEN(stator_port_info, struct_size, 0, uint32_t);
FROZEN(stator_port_info, dtype, 4, stator_dtype);
FROZEN(stator_port_info, name, 8, const char *);
FROZEN(stator_port_info, rank, 16, uint32_t);
FROZEN(stator_port_info, is_param, 20, uint32_t);
FROZEN(stator_port_info, dims, 24, int64_t [STATOR_RANK_MAX]);
FROZEN(stator_port_info, dim_names, 152, const char *[STATOR_RANK_MAX]);
FROZEN(stator_compile_options, struct_size, 0, uint32_t);
FROZEN(stator_compile_options, flags, 4, uint32_t);
FROZEN(stator_compile_options, backend, 8, const char *);
FROZEN(stator_compile_options, mode, 16, const char *);
FROZEN(stator_compile_options, fallback, 24, const char *);
FROZEN(stator_compile_options, option_keys, 32, const char *const *);
FROZEN(stator_compile_options, option_values, 40, const char *const *);
FROZEN(stator_compile_options, option_count, 48, uint32_t);
FROZEN(stator_compile_options, recompile_limit, 52, uint32_t);
FROZEN(stator_compile_options, fuel, 56, int64_t);
FROZEN(stator_compile_options, fuel_scope, 64, const char *);
FROZEN(stator_compile_options, verify, 72, uint32_t);
FROZEN(stator_compile_options, outputs, 76, uint32_t);
FROZEN(stator_compile_options, progress, 80,
       void (*)(void *self, const char *stage, uint32_t done, uint32_t total));
FROZEN(stator_compile_options, is_cancelled, 88, int32_t (*)(void *self));
FROZEN(stator_compile_options, watch_self, 96, void *);
FROZEN(stator_compile_options, node_fallbacks, 104, const char *);
FROZEN(stator_compile_options, device, 112, const char *);
FROZEN(stator_shape, rank, 0, uint32_t);
FROZEN(stator_shape, reserved, 4, uint32_t);
FROZEN(stator_shape, dims, 8, const int64_t *);
FROZEN(stator_call_options, struct_size, 0, uint32_t);
FROZEN(stator_call_options, outputs, 4, uint32_t);
FROZEN(stator_call_options, stream, 8, void *);
FROZEN(stator_coverage, backend, 0, const char *);
FROZEN(stator_coverage, nodes, 8, uint32_t);
FROZEN(stator_coverage, partitions, 12, uint32_t);
FROZEN(stator_copy_info, struct_size, 0, uint32_t);
FROZEN(stator_copy_info, n_copies, 4, uint32_t);
FROZEN(stator_copy_info, bytes, 8, uint64_t);
FROZEN(stator_copy_info, n_waits, 16, uint32_t);
FROZEN(stator_copy_info, n_devices, 20, uint32_t);
FROZEN(stator_copy_info, n_calls, 24, uint64_t);
FROZEN(stator_copy_info, n_write_backs, 32, uint32_t);
FROZEN(stator_copy_info, n_write_back_copies, 36, uint32_t);
FROZEN(stator_copy_info, write_back_bytes, 40, uint64_t);
FROZEN(stator_x_cut, struct_size, 0, uint32_t);
FROZEN(stator_x_cut, n_nodes, 4, uint32_t);
FROZEN(stator_x_cut, n_inputs, 8, uint32_t);
FROZEN(stator_x_cut, n_outputs, 12, uint32_t);
FROZEN(stator_x_cut, nodes, 16, const stator_ref *);
FROZEN(stator_x_cut, inputs, 24, const stator_ref *);
FROZEN(stator_x_cut, outputs, 32, const stator_ref *);
FROZEN(stator_x_cut, known, 40, const DLTensor *const *);
FROZEN(stator_x_fuel_row, struct_size, 0, uint32_t);
FROZEN(stator_x_fuel_row, scope, 4, uint32_t);
FROZEN(stator_x_fuel_row, n, 8, uint64_t);
FROZEN(stator_x_fuel_row, kind, 16, uint32_t);
FROZEN(stator_x_fuel_row, node, 20, uint32_t);
FROZEN(stator_x_fuel_row, rule, 24, const char *);
FROZEN(stator_x_fuel_row, scope_name, 32, const char *);
FROZEN(stator_x_fuel_row, pass, 40, const char *);
FROZEN(stator_x_fuel_row, node_name, 48, const char *);
FROZEN(stator_x_fuel_row, witness, 56, uint32_t);
FROZEN(stator_x_fuel_row, reserved, 60, uint32_t);
FROZEN(stator_x_memory, struct_size, 0, uint32_t);
FROZEN(stator_x_memory, executables, 4, uint32_t);
FROZEN(stator_x_memory, workspace_bytes, 8, uint64_t);
FROZEN(stator_x_memory, constant_bytes, 16, uint64_t);
FROZEN(stator_x_memory, packed_bytes, 24, uint64_t);
FROZEN(stator_x_memory, winograd_bytes, 32, uint64_t);
FROZEN(stator_x_memory, scratch_bytes, 40, uint64_t);
FROZEN(stator_x_memory, output_bytes, 48, uint64_t);
FROZEN(stator_x_memory, device_bytes, 56, uint64_t);
FROZEN(stator_x_memory, device_peak_bytes, 64, uint64_t);
FROZEN(stator_x_part, struct_size, 0, uint32_t);
FROZEN(stator_x_part, program, 4, uint32_t);
FROZEN(stator_x_part, body, 8, uint32_t);
FROZEN(stator_x_part, step, 12, uint32_t);
FROZEN(stator_x_part, backend, 16, const char *);
FROZEN(stator_x_part, result_bytes, 24, uint64_t);
FROZEN(stator_x_part, workspace_bytes, 32, uint64_t);
FROZEN(stator_x_part, constant_bytes, 40, uint64_t);
FROZEN(stator_x_part, packed_bytes, 48, uint64_t);
FROZEN(stator_x_part, winograd_bytes, 56, uint64_t);
FROZEN(stator_x_part, scratch_bytes, 64, uint64_t);
FROZEN(stator_x_step, struct_size, 0, uint32_t);
FROZEN(stator_x_step, kind, 4, uint32_t);
FROZEN(stator_x_step, flags, 8, uint32_t);
FROZEN(stator_x_step, depth, 12, uint32_t);
FROZEN(stator_x_step, reserved, 16, uint32_t);
FROZEN(stator_x_step, n_nodes, 20, uint32_t);
FROZEN(stator_x_step, nodes, 24, const char *const *);
FROZEN(stator_x_step, name, 32, const char *);
FROZEN(stator_x_step, read_bytes, 40, uint64_t);
FROZEN(stator_x_step, written_bytes, 48, uint64_t);
FROZEN(stator_x_step, flops, 56, uint64_t);
FROZEN(stator_x_fallback_entry, struct_size, 0, uint32_t);
FROZEN(stator_x_fallback_entry, count, 4, uint32_t);
FROZEN(stator_x_fallback_entry, op, 8, const char *);
FROZEN(stator_x_fallback_entry, name, 16, const char *);
FROZEN(stator_x_fallback_entry, reason, 24, const char *);
FROZEN(stator_x_copy, struct_size, 0, uint32_t);
FROZEN(stator_x_copy, is_border, 4, uint32_t);
FROZEN(stator_x_copy, value, 8, const char *);
FROZEN(stator_x_copy, from, 16, const char *);
FROZEN(stator_x_copy, to, 24, const char *);
FROZEN(stator_x_copy, backend, 32, const char *);
FROZEN(stator_x_copy, node, 40, const char *);
FROZEN(stator_x_copy, op, 48, const char *);
FROZEN(stator_x_guard, struct_size, 0, uint32_t);
FROZEN(stator_x_guard, kind, 4, uint32_t);
FROZEN(stator_x_guard, subject, 8, const char *);
FROZEN(stator_x_guard, text, 16, const char *);
FROZEN(stator_x_place, struct_size, 0, uint32_t);
FROZEN(stator_x_place, is_found, 4, uint32_t);
FROZEN(stator_x_place, is_wanted, 8, uint32_t);
FROZEN(stator_x_place, hides_wanted, 12, uint32_t);
FROZEN(stator_x_place, value, 16, uint32_t);
FROZEN(stator_x_place, reserved, 20, uint32_t);
FROZEN(stator_x_place, max_abs, 24, double);
FROZEN(stator_x_place, node, 32, char [STATOR_X_PLACE_TEXT]);
FROZEN(stator_x_place, name, 192, char [STATOR_X_PLACE_TEXT]);
FROZEN(stator_x_place, origin, 352, char [STATOR_X_PLACE_TEXT]);
FROZEN(stator_x_place, n_steps, 512, uint32_t);
FROZEN(stator_x_place, is_rounding, 516, uint32_t);
FROZEN(stator_x_place, step_node, 520, char [STATOR_X_PLACE_TEXT]);
FROZEN(stator_x_place, step_name, 680, char [STATOR_X_PLACE_TEXT]);
FROZEN(stator_x_pair, struct_size, 0, uint32_t);
FROZEN(stator_x_pair, wanted, 4, uint32_t);
FROZEN(stator_x_pair, model, 8, stator_model *);
FROZEN(stator_x_pair, good, 16, const stator_compile_options *);
FROZEN(stator_x_pair, bad, 24, const stator_compile_options *);
FROZEN(stator_x_pair, in, 32, stator_tensor *const *);
FROZEN(stator_x_pair, n_in, 40, uint32_t);
FROZEN(stator_x_pair, reserved, 44, uint32_t);
FROZEN(stator_x_pair, rtol, 48, double);
FROZEN(stator_x_pair, atol, 56, double);
FROZEN(stator_x_cache_row, struct_size, 0, uint32_t);
FROZEN(stator_x_cache_row, reserved, 4, uint32_t);
FROZEN(stator_x_cache_row, name, 8, const char *);
FROZEN(stator_x_cache_row, kind, 16, const char *);
FROZEN(stator_x_cache_row, key, 24, const char *);
FROZEN(stator_x_cache_row, size_bytes, 32, uint64_t);
FROZEN(stator_x_cache_row, used_s, 40, int64_t);
FROZEN(stator_x_profile_row, struct_size, 0, uint32_t);
FROZEN(stator_x_profile_row, reserved, 4, uint32_t);
FROZEN(stator_x_profile_row, name, 8, const char *);
FROZEN(stator_x_profile_row, begin_ns, 16, uint64_t);
FROZEN(stator_x_profile_row, end_ns, 24, uint64_t);
FROZEN(stator_differentiate_options, struct_size, 0, uint32_t);
FROZEN(stator_differentiate_options, wrt, 4, uint32_t);
FROZEN(stator_differentiate_options, loss, 8, const char *);
FROZEN(stator_differentiate_options, names, 16, const char *const *);
FROZEN(stator_differentiate_options, name_count, 24, uint32_t);
FROZEN(stator_differentiate_options, reserved, 28, uint32_t);
FROZEN(stator_partition_facts, struct_size, 0, uint32_t);
FROZEN(stator_partition_facts, recomputed, 4, uint32_t);
FROZEN(stator_partition_facts, is_capped, 8, uint32_t);
FROZEN(stator_partition_facts, reserved, 12, uint32_t);
FROZEN(stator_partition_options, struct_size, 0, uint32_t);
FROZEN(stator_partition_options, flags, 4, uint32_t);
FROZEN(stator_partition_options, plan, 8, const char *);
FROZEN(stator_partition_options, budget, 16, double);
FROZEN(stator_partition_options, facts, 24, stator_partition_facts *);
FROZEN(stator_train_item, struct_size, 0, uint32_t);
FROZEN(stator_train_item, kind, 4, uint32_t);
FROZEN(stator_train_item, name, 8, const char *);
FROZEN(stator_train_item, options, 16, const char *);
FROZEN(stator_train_item, state, 24, const char *);
FROZEN(stator_train_item, doc, 32, const char *);
FROZEN(stator_train_item, ranges, 40, const char *);
FROZEN(stator_train_options, struct_size, 0, uint32_t);
FROZEN(stator_train_options, flags, 4, uint32_t);
FROZEN(stator_train_options, loss, 8, const char *);
FROZEN(stator_train_options, output, 16, const char *);
FROZEN(stator_train_options, optimizer, 24, const char *);
FROZEN(stator_train_options, schedule, 32, const char *);
FROZEN(stator_train_options, option_keys, 40, const char *const *);
FROZEN(stator_train_options, option_values, 48, const char *const *);
FROZEN(stator_train_options, option_count, 56, uint32_t);
FROZEN(stator_train_options, reserved, 60, uint32_t);
FROZEN(stator_train_options, freeze, 64, const char *);
FROZEN(stator_train_options, amp, 72, const char *);
FROZEN(stator_train_options, budget, 80, double);
FROZEN(stator_train_options, teacher, 88, const stator_model *);
FROZEN(stator_train_options, teacher_output, 96, const char *);
FROZEN(stator_train_options, teacher_loss, 104, const char *);
FROZEN(stator_train_state_options, struct_size, 0, uint32_t);
FROZEN(stator_train_state_options, init, 4, uint32_t);
FROZEN(stator_train_state_options, seed, 8, uint64_t);
FROZEN(stator_train_state_options, device, 16, const char *);
SAME(STATOR_DTYPE_NONE, 0); SAME(STATOR_CLASS_BOOL, 1); SAME(STATOR_CLASS_INT, 2);
SAME(STATOR_CLASS_UINT, 3); SAME(STATOR_CLASS_FLOAT, 4); SAME(STATOR_CLASS_COMPLEX, 5);
SAME(kDLCPU, 1); SAME(kDLCUDA, 2); SAME(kDLCUDAHost, 3); SAME(kDLROCM, 10); SAME(kDLROCMHost, 11);
SAME(kDLExtDev, 12); SAME(kDLInt, 0); SAME(kDLUInt, 1); SAME(kDLFloat, 2); SAME(kDLOpaqueHandle, 3);
SAME(kDLBfloat, 4); SAME(kDLComplex, 5); SAME(kDLBool, 6); SAME(kDLFloat8_e4m3fn, 10);
SAME(kDLFloat8_e5m2, 12); SAME(STATOR_VALUE_INPUT, 1); SAME(STATOR_VALUE_PARAM, 2);
SAME(STATOR_VALUE_WRITTEN, 4); SAME(STATOR_ATOM_SYMBOL, 1); SAME(STATOR_ATOM_FLOORDIV, 2);
SAME(STATOR_ATOM_MOD, 3); SAME(STATOR_ATOM_PRODUCT, 4); SAME(STATOR_ATOM_MIN, 5);
SAME(STATOR_ATOM_MAX, 6); SAME(STATOR_SYM_ADD, 1); SAME(STATOR_SYM_FLOORDIV, 2);
SAME(STATOR_SYM_MOD, 3); SAME(STATOR_SYM_MUL, 4); SAME(STATOR_SYM_MIN, 5); SAME(STATOR_SYM_MAX, 6);
SAME(STATOR_SYM_SUB, 7); SAME(STATOR_SYM_CEILDIV, 8); SAME(STATOR_SYM_EQ, 9);
SAME(STATOR_SYM_LT, 10); SAME(STATOR_SYM_LE, 11); SAME(STATOR_ATOM_UNBACKED, 1);
SAME(STATOR_ATTR_NONE, 0); SAME(STATOR_ATTR_INT, 1); SAME(STATOR_ATTR_FLOAT, 2);
SAME(STATOR_ATTR_STRING, 3); SAME(STATOR_ATTR_DTYPE, 4); SAME(STATOR_ATTR_INTS, 5);
SAME(STATOR_ATTR_FLOATS, 6); SAME(STATOR_ATTR_DIMS, 7); SAME(STATOR_ATTR_BLOB, 8);
SAME(STATOR_OP_POINTWISE, 1); SAME(STATOR_OP_VIEW, 2); SAME(STATOR_OP_REDUCES, 4);
SAME(STATOR_OP_COMMUTES, 8); SAME(STATOR_OP_ASSOCIATES, 16); SAME(STATOR_OP_RANDOM, 32);
SAME(STATOR_OP_EFFECT, 64); SAME(STATOR_OP_NO_RECOMPUTE, 128); SAME(STATOR_OP_COMPOSITE, 256);
SAME(STATOR_OP_REGIONS, 512); SAME(STATOR_OP_UNBACKED, 1024); SAME(STATOR_OP_CONSTANT, 2048);
SAME(STATOR_OP_IDEMPOTENT, 4096); SAME(STATOR_OP_INVOLUTION, 8192);
SAME(STATOR_OP_CONTRACTS, 16384); SAME(STATOR_OP_WRITES, 32768); SAME(STATOR_OP_ANY_STRIDE, 65536);
SAME(STATOR_OP_AUTOCAST_LOW, 131072); SAME(STATOR_OP_AUTOCAST_F32, 262144);
SAME(STATOR_OP_AUTOCAST_WIDEST, 524288); SAME(STATOR_SOURCE_COPY, 1); SAME(STATOR_BLOB_MAPPED, 1);
SAME(STATOR_BLOB_INLINE, 2); SAME(STATOR_FUEL_PASS, 1); SAME(STATOR_FUEL_REWRITE, 2);
SAME(STATOR_FUEL_DECOMPOSITION, 3); SAME(STATOR_FUEL_FUSION, 4); SAME(STATOR_FUEL_LOWERING, 5);
SAME(STATOR_FUEL_KERNEL, 6); SAME(STATOR_FUEL_CLAIM, 7); SAME(STATOR_EXE_STATIC_OUTPUTS, 1);
SAME(STATOR_EXE_FILL_OUTPUTS, 2); SAME(STATOR_EXE_TELLS_AT_ONCE, 4); SAME(STATOR_KIND_BACKEND, 1);
SAME(STATOR_KIND_FRONTEND, 2); SAME(STATOR_KIND_PASS, 3); SAME(STATOR_KIND_OPLIB, 4);
SAME(STATOR_OPTION_BOOL, 1); SAME(STATOR_OPTION_I64, 2); SAME(STATOR_OPTION_F64, 3);
SAME(STATOR_OPTION_STR, 4); SAME(STATOR_OPTION_ENUM, 5); SAME(STATOR_OPTION_LIST, 6);
SAME(STATOR_OPTION_BYTES, 7); SAME(STATOR_OPTION_SECRET, 1); SAME(STATOR_OPTION_DEPRECATED, 2);
SAME(STATOR_OPTION_AFFECTS_CODE, 4); SAME(STATOR_OPTION_RUNTIME_SETTABLE, 8);
SAME(STATOR_GROUP_ATOMIC, 1); SAME(STATOR_GROUP_PREFER, 2); SAME(STATOR_PACKAGE_C, 1);
SAME(STATOR_PACKAGE_OBJECT, 2); SAME(STATOR_PACKAGE_DATA, 3); SAME(STATOR_STEP_KERNEL, 1);
SAME(STATOR_STEP_LIBRARY, 2); SAME(STATOR_STEP_NODE, 3); SAME(STATOR_STEP_LOOP, 4);
SAME(STATOR_STEP_OPEN, 1); SAME(STATOR_STEP_IF_APART, 2); SAME(STATOR_STEP_IF_FAILED, 4);
SAME(STATOR_COPY_TO_DEVICE, 1); SAME(STATOR_COPY_TO_HOST, 2); SAME(STATOR_COPY_ON_DEVICE, 3);
SAME(STATOR_BACKEND_SERIAL_RUN, 1); SAME(STATOR_BACKEND_CONCURRENT_COMPILE, 2);
SAME(STATOR_BACKEND_FORK_SAFE, 4); SAME(STATOR_PHASE_PRE_GRAD, 1); SAME(STATOR_PHASE_JOINT, 2);
SAME(STATOR_PHASE_POST_GRAD, 3); SAME(STATOR_PHASE_LOWERING, 4); SAME(STATOR_PHASE_BACKEND, 5);
SAME(STATOR_PASS_VERIFY_ONLY, 1); SAME(STATOR_PASS_DETERMINISTIC, 2); SAME(STATOR_PASS_SAME, 0);
SAME(STATOR_PASS_CHANGED, 1); SAME(STATOR_CTX_NO_PLUGINS, 1); SAME(STATOR_CTX_NO_ENV, 2);
SAME(STATOR_CTX_PROBE_HERE, 4); SAME(STATOR_CTX_NO_CACHE, 8); SAME(STATOR_OUTPUTS_AUTO, 0);
SAME(STATOR_OUTPUTS_HOST, 1); SAME(STATOR_OUTPUTS_DEVICE, 2); SAME(STATOR_COMPILE_STRICT, 1);
SAME(STATOR_COMPILE_NO_FREEZE, 2); SAME(STATOR_COMPILE_VERIFY_EACH, 4);
SAME(STATOR_COMPILE_NO_FUEL, 8); SAME(STATOR_COMPILE_STATIC, 16); SAME(STATOR_COMPILE_NO_CACHE, 32);
SAME(STATOR_COMPILE_STRICT_SIZES, 64); SAME(STATOR_COMPILE_FILL_OUTPUTS, 128);
SAME(STATOR_COMPILE_STRICT_COPIES, 256); SAME(STATOR_X_GUARD_INPUT, 1);
SAME(STATOR_X_GUARD_SIZE, 2); SAME(STATOR_X_GUARD_NEED, 3); SAME(STATOR_WRT_PARAMS, 1);
SAME(STATOR_WRT_INPUTS, 2); SAME(STATOR_PARTITION_BUDGET, 1);
SAME(STATOR_PARTITION_CONTRACTIONS, 2); SAME(STATOR_PARTITION_RANDOM, 4);
SAME(STATOR_TRAIN_LOSS, 0); SAME(STATOR_TRAIN_STEP, 1); SAME(STATOR_TRAIN_OPTIMIZER, 2);
SAME(STATOR_TRAIN_SCHEDULE, 3); SAME(STATOR_TRAIN_OUTPUTS, 1); SAME(STATOR_TRAIN_LOSS_ONLY, 2);
SAME(STATOR_TRAIN_ACCUMULATE, 4); SAME(STATOR_TRAIN_GRADIENTS_ONLY, 8);
SAME(STATOR_TRAIN_BUDGET, 16); SAME(STATOR_TRAIN_INFERENCE, 32); SAME(STATOR_ROLE_DATA, 0);
SAME(STATOR_ROLE_TARGET, 1); SAME(STATOR_ROLE_RATE, 2); SAME(STATOR_ROLE_SEED, 3);
SAME(STATOR_ROLE_BATCHES, 4); SAME(STATOR_ROLE_PARAMETER, 5); SAME(STATOR_ROLE_STATE, 6);
SAME(STATOR_ROLE_SUM, 7); SAME(STATOR_ROLE_STEP, 8); SAME(STATOR_INIT_KEEP, 0);
SAME(STATOR_INIT_RANDOM, 1); SAME(STATOR_OK, 0); SAME(STATOR_CANCELLED, 1); SAME(STATOR_UNKNOWN, 2);
SAME(STATOR_INVALID_ARGUMENT, 3); SAME(STATOR_DEADLINE_EXCEEDED, 4); SAME(STATOR_NOT_FOUND, 5);
SAME(STATOR_ALREADY_EXISTS, 6); SAME(STATOR_PERMISSION_DENIED, 7);
SAME(STATOR_RESOURCE_EXHAUSTED, 8); SAME(STATOR_FAILED_PRECONDITION, 9); SAME(STATOR_ABORTED, 10);
SAME(STATOR_OUT_OF_RANGE, 11); SAME(STATOR_UNIMPLEMENTED, 12); SAME(STATOR_INTERNAL, 13);
SAME(STATOR_UNAVAILABLE, 14); SAME(STATOR_DATA_LOSS, 15); SAME(STATOR_UNAUTHENTICATED, 16);
SAME(STATOR_UNSUPPORTED, 32); SAME(STATOR_NEED_FALLBACK, 33); SAME(STATOR_NEED_VALUE, 34);
SAME(STATOR_BOOL, 1); SAME(STATOR_I4, 2); SAME(STATOR_U4, 3); SAME(STATOR_I8, 4);
SAME(STATOR_I16, 5); SAME(STATOR_I32, 6); SAME(STATOR_I64, 7); SAME(STATOR_U8, 8);
SAME(STATOR_U16, 9); SAME(STATOR_U32, 10); SAME(STATOR_U64, 11); SAME(STATOR_F8E4M3FN, 12);
SAME(STATOR_F8E5M2, 13); SAME(STATOR_BF16, 14); SAME(STATOR_F16, 15); SAME(STATOR_F32, 16);
SAME(STATOR_F64, 17); SAME(STATOR_C64, 18); SAME(STATOR_C128, 19);
/* clang-format on */
