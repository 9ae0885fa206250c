/* Reading a graph: rows, columns and inline accessors over a stator_graph_view.
 *
 * A graph is SSA over tensors in topological order. Nodes are 1..n_nodes, values 1..n_values; a
 * value is a graph input (node == 0) or result `index` of a node. Types, symbolic dimensions,
 * attributes, strings and blobs live in pools that all graphs of one module (a root graph and its
 * regions) share. Rows never move and never change once written.
 *
 *   node --operands--> refs[] --> values          value --type--> types --dims--> refs[] --> syms
 *        --results---> values (consecutive)       syms = constant + sum(coef * atom)
 *        --attrs-----> attrs (one row per attribute of the op's schema, in schema order)
 *        --regions---> graphs (captures are explicit inputs)
 *
 * A view is valid for the callback that received its graph. Rows may grow at the end in later minor
 * versions: the stride is the host's row size, so old readers see a prefix. */
#ifndef STATOR_IR_H
#define STATOR_IR_H

#include <stator/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A segmented array: chunk k holds elements [64*(2^k - 1), 64*(2^(k+1) - 1)). */
typedef struct stator_column {
    const void *const *chunks;
    uint32_t stride;
    uint32_t reserved;
} stator_column;

#define STATOR_COLUMN_BASE_LOG2 6u
#define STATOR_COLUMN_CHUNKS 26u

/* Address of element i; i must be below the count the view states. */
static inline const void *stator_column_at(const stator_column *column, uint32_t i)
{
    uint32_t j = i + (1u << STATOR_COLUMN_BASE_LOG2);
    uint32_t k = 31u - (uint32_t)__builtin_clz(j) - STATOR_COLUMN_BASE_LOG2;
    uint32_t within = j - (1u << (k + STATOR_COLUMN_BASE_LOG2));
    return (const char *)column->chunks[k] + (size_t)within * column->stride;
}

typedef struct stator_node_row {
    uint32_t op;            /* stator_opcode, or an id of this process (find_op) */
    uint32_t operand_begin; /* into refs: value refs, 0 for an absent optional operand */
    uint32_t operand_count;
    uint32_t result_begin; /* first result's value ref; results are consecutive */
    uint32_t result_count;
    uint32_t attr_begin; /* into attrs; attribute k of the op's schema is row attr_begin + k */
    uint32_t attr_count;
    uint32_t region_begin; /* into regions */
    uint32_t region_count;
    uint32_t origin; /* into origins */
    uint32_t flags;
    uint32_t reserved;
} stator_node_row;

enum stator_value_flag {
    STATOR_VALUE_INPUT = 1u << 0,
    STATOR_VALUE_PARAM = 1u << 1,  /* a graph input with a default blob (an initialiser) */
    STATOR_VALUE_WRITTEN = 1u << 2 /* an input that the graph writes back (see write_backs) */
};

typedef struct stator_value_row {
    uint32_t type;
    uint32_t node;    /* 0 for a graph input */
    uint32_t index;   /* result number, or input number */
    uint32_t flags;   /* stator_value_flag */
    uint32_t name;    /* string, 0 when the value has no name of its own */
    uint32_t witness; /* value ref in the imported root graph that this value computes, or 0 */
    uint32_t blob;    /* default of a PARAM */
    uint32_t reserved;
} stator_value_row;

typedef struct stator_type_row {
    uint32_t dtype;
    uint32_t rank;
    uint32_t dims_begin; /* into refs: sym refs */
    uint32_t device;     /* 0 = host memory */
} stator_type_row;

/* A symbolic integer: constant + sum of terms. Interned: equal refs mean equal normal forms. */
typedef struct stator_sym_row {
    int64_t constant;
    uint32_t term_begin; /* into terms */
    uint32_t term_count; /* 0: a plain integer */
} stator_sym_row;

typedef struct stator_term_row {
    int64_t coef;
    uint32_t atom;
    uint32_t reserved;
} stator_term_row;

enum stator_atom_kind {
    STATOR_ATOM_SYMBOL = 1,   /* a named size; `index` is its place in a call's syms[] */
    STATOR_ATOM_FLOORDIV = 2, /* floor(a / b), b > 0 */
    STATOR_ATOM_MOD = 3,      /* a - b * floor(a / b) */
    STATOR_ATOM_PRODUCT = 4,
    STATOR_ATOM_MIN = 5,
    STATOR_ATOM_MAX = 6
};

/* What sym_op computes of two sizes, and sym_compare asks of them (stator/plugin.h). An operation
 * that an atom stands for has its number. */
enum stator_sym_op {
    STATOR_SYM_ADD = 1,
    STATOR_SYM_FLOORDIV = STATOR_ATOM_FLOORDIV,
    STATOR_SYM_MOD = STATOR_ATOM_MOD,
    STATOR_SYM_MUL = STATOR_ATOM_PRODUCT,
    STATOR_SYM_MIN = STATOR_ATOM_MIN,
    STATOR_SYM_MAX = STATOR_ATOM_MAX,
    STATOR_SYM_SUB = 7,
    STATOR_SYM_CEILDIV = 8,
    STATOR_SYM_EQ = 9,
    STATOR_SYM_LT = 10,
    STATOR_SYM_LE = 11
};

enum stator_atom_flag { STATOR_ATOM_UNBACKED = 1u << 0 }; /* a node's result defines it in a run */

typedef struct stator_atom_row {
    uint32_t kind;
    uint32_t a; /* sym refs of the operands, 0 for a SYMBOL */
    uint32_t b;
    uint32_t name;  /* string, SYMBOL only */
    uint32_t index; /* SYMBOL only: dense number of the symbol in its module */
    uint32_t flags; /* stator_atom_flag */
    int64_t lo;     /* range, inclusive; INT64_MIN / INT64_MAX when open */
    int64_t hi;
    int64_t divisor; /* the value is known to be a multiple of this, >= 1 */
    int64_t hint;    /* a likely value for planning, or INT64_MIN */
} stator_atom_row;

enum stator_attr_kind {
    STATOR_ATTR_NONE = 0,   /* absent and without a default */
    STATOR_ATTR_INT = 1,    /* i */
    STATOR_ATTR_FLOAT = 2,  /* f */
    STATOR_ATTR_STRING = 3, /* begin: string ref */
    STATOR_ATTR_DTYPE = 4,  /* i: stator_dtype */
    STATOR_ATTR_INTS = 5,   /* begin, count into i64s */
    STATOR_ATTR_FLOATS = 6, /* begin, count into f64s */
    STATOR_ATTR_DIMS = 7,   /* begin, count into refs: sym refs, evaluated per call */
    STATOR_ATTR_BLOB = 8    /* begin: blob ref; i: type ref of its contents */
};

typedef struct stator_attr_row {
    uint32_t kind;
    uint32_t begin;
    uint32_t count;
    uint32_t name; /* string */
    int64_t i;
    double f;
} stator_attr_row;

typedef struct stator_string_row {
    const char *data; /* UTF-8, NUL-terminated as well */
    uint32_t len;
    uint32_t reserved;
} stator_string_row;

/* Where a node came from. A merged node's origin is a list: follow `next`. The name of a node that
 * computes part of a gradient is STATOR_BACKWARD_OF and the name of the node whose gradient it is;
 * in a second derivative twice. */
#define STATOR_BACKWARD_OF "backward of "
/* The same of a node of the backward part that computes once more what the node of that name
 * computes in the forward part. */
#define STATOR_RECOMPUTED "recomputed "
typedef struct stator_origin_row {
    uint32_t name; /* string: ONNX node name, or empty */
    uint32_t kind; /* string: the imported op's name, e.g. "Conv" */
    uint32_t file; /* string */
    uint32_t line; /* 0 unknown */
    uint32_t next; /* origin ref, 0 at the end */
    uint32_t reserved;
} stator_origin_row;

/* One input's final value that the caller's buffer receives (after functionalize). */
typedef struct stator_write_back_row {
    uint32_t input; /* value ref of the graph input */
    uint32_t value; /* value ref of its final contents */
} stator_write_back_row;

enum stator_op_flag {
    STATOR_OP_POINTWISE = 1u << 0,
    STATOR_OP_VIEW = 1u << 1, /* moves no data: an index map of its first operand */
    STATOR_OP_REDUCES = 1u << 2,
    STATOR_OP_COMMUTES = 1u << 3,
    STATOR_OP_ASSOCIATES = 1u << 4,
    STATOR_OP_RANDOM = 1u << 5,
    STATOR_OP_EFFECT = 1u << 6, /* must run, in order, even without users; so must
                                 * a node with such a node in a region */
    STATOR_OP_NO_RECOMPUTE = 1u << 7,
    STATOR_OP_COMPOSITE = 1u << 8, /* has a decomposition */
    STATOR_OP_REGIONS = 1u << 9,   /* control flow: reads captures through its regions */
    STATOR_OP_UNBACKED = 1u << 10, /* a result size is known only after it ran */
    STATOR_OP_CONSTANT = 1u << 11, /* has no operands and always the same value */
    STATOR_OP_IDEMPOTENT = 1u << 12,
    STATOR_OP_INVOLUTION = 1u << 13,
    STATOR_OP_CONTRACTS = 1u << 14, /* a contraction: matmul, convolution */
    STATOR_OP_WRITES = 1u << 15,    /* writes the buffer of its first operand */
    /* Reads its operands as well through a view: one in front of it is best left to it. */
    STATOR_OP_ANY_STRIDE = 1u << 16,
    /* What mixed precision does with float operands (pass `autocast`): at most one of these. None:
     * they stay as they are where the op takes them, else the widest of them decides. */
    STATOR_OP_AUTOCAST_LOW = 1u << 17,   /* bf16 or f16 */
    STATOR_OP_AUTOCAST_F32 = 1u << 18,   /* f32 at least */
    STATOR_OP_AUTOCAST_WIDEST = 1u << 19 /* the widest of them, scalars too */
};

typedef struct stator_attr_desc {
    const char *name;
    uint32_t kind;        /* stator_attr_kind */
    uint32_t is_required; /* 1: no default */
    int64_t i;            /* default */
    double f;
    const char *s; /* default of a STRING; text of a list default such as "[1, 1]" */
} stator_attr_desc;

/* One op: the row of the op table, and what an op library registers. */
typedef struct stator_op_desc {
    uint32_t struct_size;
    uint32_t version; /* version of the op's meaning, from 1 */
    const char *name;
    const char *operands; /* names, comma-separated: "x, w, b?" (? optional, * any number) */
    const char *results;  /* names, comma-separated: "y" or "y, mean?"; of a library one at least */
    const char *doc;      /* formula, special values, source */
    const char *body;     /* decomposition as an expression program, or NULL */
    const stator_attr_desc *attrs;
    uint32_t attr_count;
    uint32_t operand_min;
    uint32_t operand_max; /* UINT32_MAX: any number */
    uint32_t region_count;
    uint64_t flags; /* stator_op_flag */
} stator_op_desc;

/* One graph, readable. Node and value tables are the graph's own; the pools are the module's. */
typedef struct stator_graph_view {
    uint32_t struct_size;
    uint32_t n_nodes;
    uint32_t n_values;
    uint32_t n_inputs; /* the inputs are values 1..n_inputs */
    uint32_t n_outputs;
    uint32_t output_begin;      /* into refs: value refs */
    uint32_t output_name_begin; /* into refs: string refs */
    uint32_t n_write_backs;
    uint32_t n_symbols;        /* symbols of the module: length of a call's syms[] */
    uint32_t name;             /* string */
    stator_column nodes;       /* stator_node_row */
    stator_column values;      /* stator_value_row */
    stator_column write_backs; /* stator_write_back_row, from 0 */
    stator_column types;       /* stator_type_row */
    stator_column syms;        /* stator_sym_row */
    stator_column terms;       /* stator_term_row */
    stator_column atoms;       /* stator_atom_row */
    stator_column attrs;       /* stator_attr_row */
    stator_column refs;        /* uint32_t */
    stator_column i64s;        /* int64_t */
    stator_column f64s;        /* double */
    stator_column strings;     /* stator_string_row */
    stator_column origins;     /* stator_origin_row */
    stator_column regions;     /* const stator_graph * */
    stator_column ops;         /* const stator_op_desc *, by op id */
} stator_graph_view;

/* ---- accessors ---- */

static inline const stator_node_row *stator_node_at(const stator_graph_view *v, stator_ref node)
{
    return (const stator_node_row *)stator_column_at(&v->nodes, node);
}
static inline const stator_value_row *stator_value_at(const stator_graph_view *v, stator_ref value)
{
    return (const stator_value_row *)stator_column_at(&v->values, value);
}
static inline uint32_t stator_ref_at(const stator_graph_view *v, uint32_t i)
{
    return *(const uint32_t *)stator_column_at(&v->refs, i);
}
static inline const stator_type_row *stator_type_at(const stator_graph_view *v, stator_ref type)
{
    return (const stator_type_row *)stator_column_at(&v->types, type);
}
static inline const stator_type_row *stator_value_type(const stator_graph_view *v, stator_ref value)
{
    return stator_type_at(v, stator_value_at(v, value)->type);
}
/* Operand k of a node: a value ref, 0 when the optional operand is absent or k is past the end. */
static inline stator_ref stator_operand(const stator_graph_view *v, const stator_node_row *n,
                                        uint32_t k)
{
    return k < n->operand_count ? stator_ref_at(v, n->operand_begin + k) : 0;
}
static inline stator_ref stator_output_at(const stator_graph_view *v, uint32_t k)
{
    return stator_ref_at(v, v->output_begin + k);
}
static inline const stator_attr_row *stator_attr_at(const stator_graph_view *v,
                                                    const stator_node_row *n, uint32_t k)
{
    return (const stator_attr_row *)stator_column_at(&v->attrs, n->attr_begin + k);
}
static inline const char *stator_string_at(const stator_graph_view *v, stator_ref s)
{
    return s ? ((const stator_string_row *)stator_column_at(&v->strings, s))->data : "";
}
static inline const stator_op_desc *stator_op_at(const stator_graph_view *v, uint32_t op)
{
    return *(const stator_op_desc *const *)stator_column_at(&v->ops, op);
}
static inline const stator_graph *stator_region_at(const stator_graph_view *v,
                                                   const stator_node_row *n, uint32_t k)
{
    return *(const stator_graph *const *)stator_column_at(&v->regions, n->region_begin + k);
}
/* Must the node run although nobody reads its results: is its op an EFFECT, or that of a node in
 * one of its regions? All nodes of its regions are read, until one is. `view` is that of
 * stator_ir_api. */
static inline bool stator_node_has_effect(const stator_graph_view *v, const stator_node_row *row,
                                          const stator_graph_view *(*view)(const stator_graph *))
{
    bool has_effect = (stator_op_at(v, row->op)->flags & STATOR_OP_EFFECT) != 0;
    for (uint32_t k = 0; !has_effect && k < row->region_count; k++) {
        const stator_graph_view *inner = view(stator_region_at(v, row, k));
        for (stator_ref node = 1; !has_effect && node <= inner->n_nodes; node++) {
            has_effect = stator_node_has_effect(inner, stator_node_at(inner, node), view);
        }
    }
    return has_effect;
}
/* Element i of an INTS attribute. */
static inline int64_t stator_attr_int_at(const stator_graph_view *v, const stator_attr_row *list,
                                         uint32_t i)
{
    return *(const int64_t *)stator_column_at(&v->i64s, list->begin + i);
}
static inline const stator_write_back_row *stator_write_back_at(const stator_graph_view *v,
                                                                uint32_t k)
{
    return (const stator_write_back_row *)stator_column_at(&v->write_backs, k);
}
/* NULL for 0: the node states no origin. */
static inline const stator_origin_row *stator_origin_at(const stator_graph_view *v,
                                                        stator_ref origin)
{
    return origin ? (const stator_origin_row *)stator_column_at(&v->origins, origin) : NULL;
}
/* The imported name of the model's node that this node comes from; "" when there is none. */
static inline const char *stator_node_origin(const stator_graph_view *v, stator_ref node)
{
    const stator_origin_row *row = stator_origin_at(v, stator_node_at(v, node)->origin);
    return row ? stator_string_at(v, row->name) : "";
}
/* Does the name of an origin begin so? */
static inline bool stator_origin_says(const stator_graph_view *v, const stator_origin_row *origin,
                                      const char *mark)
{
    const char *name = stator_string_at(v, origin->name);
    size_t i = 0;
    while (mark[i] != '\0' && name[i] == mark[i]) {
        i++;
    }
    return mark[i] == '\0';
}
/* Is the node of the backward part: does it compute part of a gradient, or something once more for
 * that? All of its origins are named STATOR_BACKWARD_OF or STATOR_RECOMPUTED then. */
static inline bool stator_node_is_backward(const stator_graph_view *v, stator_ref node)
{
    const stator_origin_row *row = stator_origin_at(v, stator_node_at(v, node)->origin);
    bool is_backward = row != NULL;
    while (is_backward && row != NULL) {
        is_backward = stator_origin_says(v, row, STATOR_BACKWARD_OF) ||
                      stator_origin_says(v, row, STATOR_RECOMPUTED);
        row = stator_origin_at(v, row->next);
    }
    return is_backward;
}
/* Does the backward part compute the node once more? All of its origins are named
 * STATOR_RECOMPUTED then. */
static inline bool stator_node_is_recomputed(const stator_graph_view *v, stator_ref node)
{
    const stator_origin_row *row = stator_origin_at(v, stator_node_at(v, node)->origin);
    bool is_recomputed = row != NULL;
    while (is_recomputed && row != NULL) {
        is_recomputed = stator_origin_says(v, row, STATOR_RECOMPUTED);
        row = stator_origin_at(v, row->next);
    }
    return is_recomputed;
}
static inline const stator_sym_row *stator_sym_at(const stator_graph_view *v, stator_ref sym)
{
    return (const stator_sym_row *)stator_column_at(&v->syms, sym);
}
static inline const stator_term_row *stator_term_at(const stator_graph_view *v,
                                                    const stator_sym_row *sym, uint32_t i)
{
    return (const stator_term_row *)stator_column_at(&v->terms, sym->term_begin + i);
}
static inline const stator_atom_row *stator_atom_at(const stator_graph_view *v, uint32_t atom)
{
    return (const stator_atom_row *)stator_column_at(&v->atoms, atom);
}
/* Dimension `axis` of a type, as a sym ref. */
static inline stator_ref stator_dim_at(const stator_graph_view *v, const stator_type_row *t,
                                       uint32_t axis)
{
    return stator_ref_at(v, t->dims_begin + axis);
}
/* 1 and the value when the sym is a plain integer, else 0. */
static inline bool stator_sym_is_const(const stator_graph_view *v, stator_ref sym, int64_t *out)
{
    const stator_sym_row *row = stator_sym_at(v, sym);
    *out = row->constant;
    return row->term_count == 0;
}
/* The symbol when the sym is exactly one, else NULL. */
static inline const stator_atom_row *stator_sym_as_symbol(const stator_graph_view *v,
                                                          stator_ref sym)
{
    const stator_sym_row *row = stator_sym_at(v, sym);
    if (row->term_count != 1 || row->constant != 0) {
        return NULL;
    }
    const stator_term_row *term = stator_term_at(v, row, 0);
    const stator_atom_row *atom = stator_atom_at(v, term->atom);
    return term->coef == 1 && atom->kind == STATOR_ATOM_SYMBOL ? atom : NULL;
}

#ifdef __cplusplus
}
#endif
#endif
