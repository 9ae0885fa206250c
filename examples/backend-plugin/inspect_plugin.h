/* What the two files of the backend "inspect" share.
 *
 *   inspect_plugin.c  the plugin: descriptor, options, taking a graph apart into nodes
 *   inspect_run.c     a call: each node in turn, timed, and one line about it */
#ifndef INSPECT_PLUGIN_H
#define INSPECT_PLUGIN_H

#include <stator/plugin.h>

/* An instance: the nested `eager` and the options. */
typedef struct inspect_instance {
    const stator_host *host;
    stator_instance *eager;
    int64_t elements; /* leading elements of each result to print */
    const char *only; /* the one op to print, "" for all; lives as long as the instance */
} inspect_instance;

/* A size that a node defines: syms[symbol] is a size of its result, or an element of it. */
typedef struct inspect_symbol {
    uint32_t symbol;
    uint32_t result;
    uint32_t index;
    uint32_t is_element; /* 1: element `index` of the i64 result, 0: size of axis `index` */
} inspect_symbol;

/* One node, compiled by `eager` as a program of its own. */
typedef struct inspect_step {
    void *exe;
    char *title; /* "conv Conv_0" */
    const char *op;
    uint32_t *in;  /* value refs: the distinct operands, in order */
    uint32_t *out; /* value refs: the results */
    uint32_t n_in, n_out;
    inspect_symbol *symbols;
    uint32_t n_symbols;
    uint64_t workspace_bytes;
} inspect_step;

/* A graph, taken apart. Arrays by value ref start at 1. */
typedef struct inspect_exe {
    const inspect_instance *instance;
    inspect_step *steps;
    uint32_t n_steps;
    uint32_t n_values;
    uint32_t n_inputs; /* values 1..n_inputs */
    uint32_t n_outputs;
    uint32_t *outputs;
    uint32_t *last_use; /* number of the last step that reads a value; n_steps for an output */
    stator_dtype *dtypes;
    uint64_t workspace_bytes; /* the most that a step needs */
} inspect_exe;

/* Zeroed memory of the host's account; NULL when there is none. */
void *inspect_alloc(const stator_host *host, uint64_t count, uint64_t size);
/* The backend's exe_run. */
stator_status inspect_run(void *instance, void *exe, const stator_call *call, stator_diag **err);

#endif
