/* Types every Stator header shares: status codes, element types, refs, version, small macros.
 *
 * Border rules (docs/abi.md): C11, fixed-width integers and pointers only, no bool, enum, bit-field
 * or long inside a struct that crosses the border, structs begin with struct_size and have no tail
 * padding, fields are appended and never moved. */
#ifndef STATOR_BASE_H
#define STATOR_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef ST_TEST_ABI_MAJOR /* tests alone: a host or plugin of another version */
#define STATOR_ABI_MAJOR ST_TEST_ABI_MAJOR
#define STATOR_ABI_MINOR ST_TEST_ABI_MINOR
#else
#define STATOR_ABI_MAJOR 0
#define STATOR_ABI_MINOR 9
#endif
#define STATOR_VERSION "0.1.0"

#if defined(__GNUC__)
#define STATOR_EXPORT __attribute__((visibility("default")))
#define STATOR_MUST_USE __attribute__((warn_unused_result))
#define STATOR_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define STATOR_EXPORT
#define STATOR_MUST_USE
#define STATOR_PRINTF(f, a)
#endif

/* True when `table` is there, reaches past member `slot` and the slot is set. The only legal way to
 * ask whether the other side of the border has something. */
#define STATOR_HAS(table, slot)                                                                    \
    ((table) != NULL &&                                                                            \
     (const char *)(&(table)->slot + 1) <= (const char *)(table) + (table)->struct_size &&         \
     (table)->slot != 0)

/* Status of every call that can fail: one of stator_status_code. */
typedef int32_t stator_status;

enum stator_status_code {
#define STATOR_STATUS(name, number, text) STATOR_##name = (number),
#include <stator/status.def>
#undef STATOR_STATUS
};

/* Element types. 0 is "none". */
typedef uint32_t stator_dtype;

enum stator_dtype_id {
    STATOR_DTYPE_NONE = 0,
#define STATOR_DTYPE(name, id, text, bits, class_) STATOR_##name = (id),
#include <stator/dtype.def>
#undef STATOR_DTYPE
    STATOR_DTYPE_COUNT = 20
};

enum stator_dtype_class {
    STATOR_CLASS_BOOL = 1,
    STATOR_CLASS_INT = 2,
    STATOR_CLASS_UINT = 3,
    STATOR_CLASS_FLOAT = 4,
    STATOR_CLASS_COMPLEX = 5
};

/* A 32-bit name of a node, value, type, symbolic dimension, string or blob inside one graph's
 * pools. 0 names nothing. Refs are never pointers and stay valid while the graph lives. */
typedef uint32_t stator_ref;

#define STATOR_RANK_MAX 16

/* Opaque handles; who owns each is said where it is handed out. */
typedef struct stator_ctx stator_ctx;           /* a session: registry, memory account, log */
typedef struct stator_graph stator_graph;       /* an immutable graph */
typedef struct stator_builder stator_builder;   /* a graph being written */
typedef struct stator_options stator_options;   /* option values the host validated */
typedef struct stator_blob stator_blob;         /* immutable bytes of a constant */
typedef struct stator_diag stator_diag;         /* an error's text and notes */
typedef struct stator_instance stator_instance; /* a nested backend instance */
typedef struct stator_fuel_scope stator_fuel_scope;

#ifdef __cplusplus
}
#endif
#endif
