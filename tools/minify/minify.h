/* stator minify: the smallest program that still fails the same way.
 *
 *   cmd_minify.c      the options, what is said
 *   minify_search.c   which nodes to try next
 *   minify_simplify.c which data to try next
 *   minify_graph.c    the graph as the parent knows it; what a set of nodes reads and gives
 *   minify_child.c    what runs in children: trials, values that are kept, files
 *   minify_record.c   values of the good backend, kept as they are needed
 *   minify_write.c    the folder */
#ifndef STATOR_MINIFY_H
#define STATOR_MINIFY_H

#include "core/base/str.h"
#include "tools/bisect/bisect_child.h"

/* ---- the graph ---- */

/* As the first child writes it down; the parent has no context to hold a graph. */
typedef struct minify_node {
    uint64_t flags; /* stator_op_flag */
    uint32_t operand_begin, operand_count;
    uint32_t result_begin, result_count;
    char op[48];
} minify_node;

enum minify_value_flag {
    MINIFY_PARAM = 1u << 0,
    MINIFY_RESULT = 1u << 1,   /* an output, or what an input is overwritten with */
    MINIFY_READ = 1u << 2,     /* a node reads it, or it is a result */
    MINIFY_LARGE = 1u << 3,    /* a parameter or constant that a .stir file keeps in its .blob */
    MINIFY_UNBACKED = 1u << 4, /* its sizes are known only when its node has run */
    MINIFY_CONSTANT = 1u << 5
};

typedef struct minify_value {
    uint32_t node; /* 0: an input */
    uint32_t flags;
    uint64_t size_bytes; /* a guess where sizes are symbols */
} minify_value;

typedef struct minify_graph {
    uint32_t n_nodes, n_values, n_refs, n_results;
    uint32_t n_ops;             /* nodes that are no constants */
    const minify_node *nodes;   /* from 1 */
    const minify_value *values; /* from 1 */
    const uint32_t *refs;       /* operands */
    const uint32_t *results;    /* values with MINIFY_RESULT */
    void *mapping;
    size_t size;
} minify_graph;

/* In the child: writes the graph for the parent. 0: errno says why not. */
bool minify_graph_write(const stator_graph_view *v, int fd);
bool minify_graph_map(int fd, minify_graph *out);
void minify_graph_free(minify_graph *graph);
bool minify_is_op(const minify_graph *graph, stator_ref node);

/* ---- cuts ---- */

/* A part of the graph as a program of its own. */
typedef struct minify_cut {
    bool is_whole;   /* the model is as it was loaded; the lists are empty */
    int has_symbols; /* sizes stay symbols */
    int is_random;   /* inputs are those of --random 0 */
    uint32_t n_nodes, n_inputs, n_outputs;
    stator_ref *nodes; /* ascending, with the constants that they read */
    stator_ref *inputs;
    stator_ref *outputs;
    uint32_t n_ops;
    uint64_t hash;
} minify_cut;

enum minify_form {
    MINIFY_ENDS = 0,  /* outputs are the results that no kept node reads */
    MINIFY_LEAVES = 1 /* outputs are the results that something outside reads */
};

/* The nodes and values to keep. */
typedef struct minify_cut_spec {
    const uint8_t *is_kept;    /* by node; constants follow their readers */
    uint32_t form;             /* when no outputs are given */
    const stator_ref *outputs; /* NULL: as the form says */
    uint32_t n_outputs;
    const uint8_t *is_given; /* by value: parameters and constants that become inputs; or NULL */
} minify_cut_spec;

/* 0: out of memory, or there is no output. */
bool minify_cut_make(const minify_graph *graph, const minify_cut_spec *spec, minify_cut *out);
void minify_cut_free(minify_cut *cut);
/* Marks the nodes among is_kept that these values are made of. */
void minify_ancestors(const minify_graph *graph, const uint8_t *is_kept, uint32_t n,
                      const stator_ref *values, uint8_t *out_is_kept);

/* ---- children ---- */

typedef struct minify_outcome {
    uint32_t verdict;      /* bisect_verdict */
    uint32_t is_good_done; /* the good backend has answered */
    uint32_t result;       /* DIFFERS: the first result that does */
    uint32_t reserved;
    double max_abs;
    child_error error;
} minify_outcome;

/* Values that a call of the good backend had, by value of the graph. */
typedef struct minify_record {
    const DLTensor **known;
    child_tensors *groups;
    uint32_t n_groups;
    uint32_t *group_of; /* by value: values that are kept together */
    uint8_t *is_tried;  /* by group: it was tried */
    uint64_t size_bytes;
} minify_record;

/* One minification. */
typedef struct minify {
    bisect_setup setup;
    const char *folder;
    minify_graph graph;
    minify_record record;
    minify_outcome whole; /* the failure to keep */
    minify_cut best;      /* the smallest form that fails so */
    minify_outcome last;  /* outcome of `best` */
    minify_cut exact;     /* `best` before its data were made simpler; empty when they were not */
    uint64_t *seen;       /* hashes of cuts that do not fail so */
    uint32_t n_seen;
    uint32_t trials;
    bool is_capped; /* there were too many trials */
    bool is_broken; /* a child could not be run: stop, it was said why */
    char note[512];
} minify;

enum minify_task {
    MINIFY_SURVEY = 1, /* write down the graph and the inputs */
    MINIFY_RECORD = 2, /* keep values of the good backend */
    MINIFY_TRIAL = 3,  /* run both backends */
    MINIFY_WRITE = 4   /* program, inputs and answers into a folder */
};

typedef struct minify_job {
    uint32_t task;
    const bisect_setup *setup;
    const minify_cut *cut;    /* TRIAL, WRITE */
    const stator_ref *values; /* RECORD */
    uint32_t n_values;
    const char *folder; /* WRITE */
} minify_job;

/* Runs it; files of the child stay open in *c, which the caller closes. 0: no child could be made,
 * and it was said. */
bool minify_child(minify *m, const minify_job *job, child *c, minify_outcome *out);

bool minify_record_begin(minify *m, child *survey);
/* Are these values known now? */
bool minify_record_need(minify *m, uint32_t n, const stator_ref *values);
void minify_record_free(minify_record *record);

/* ---- the search ---- */

/* Does the cut fail as the whole does? It is taken over: it is the best one then, or freed. */
bool minify_try(minify *m, minify_cut *cut);
bool minify_is_same(const minify_outcome *a, const minify_outcome *b);
void minify_add_note(minify *m, const char *text);
/* Goes from the whole model to fewer nodes; m->best holds them. */
void minify_search(minify *m);
/* Goes on from there to simpler data. */
void minify_simplify(minify *m);

/* ---- the folder ---- */

/* Can it be made, or is it there and empty? 0: said why not. */
bool minify_folder_check(const char *folder, int json);
/* Writes a form that fails when it is loaded again, the smallest there is. CLI_OK, or said why not.
 * out_files: names, NULL at the end. */
cli_status minify_write(minify *m, const char *out_files[8]);
/* Has the program that is written inputs in a file? */
bool minify_has_inputs(const minify *m);
/* The command that repeats the failure, with paths below `folder`. */
void minify_command(const minify *m, const char *folder, st_str *out);

#endif
