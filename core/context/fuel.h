/* Fuel: one answer to "may I apply this?" for every optional transformation of one compile.
 *
 * A serial is (scope, n): scopes are numbered in the order they are opened (graph order, before
 * work is given to threads), n counts questions inside a scope from 1. A limit (scope, n) allows
 * every question of earlier scopes, the first n of that scope, and none after. What was granted is
 * recorded and told to a watcher, with the imported node it is about. See docs/fuel.md. */
#ifndef STATOR_CONTEXT_FUEL_H
#define STATOR_CONTEXT_FUEL_H

#include "core/base/alloc.h"
#include "core/base/diag.h"
#include <pthread.h>
#include <stator/inspect.h>

typedef struct st_fuel st_fuel;

struct stator_fuel_scope {
    st_fuel *fuel;
    struct stator_fuel_scope *next; /* in order of opening */
    uint32_t index;                 /* from 1 */
    _Atomic uint64_t asked;
    char name[112];            /* "2.canonicalize", inner ones "2.canonicalize/region" */
    char pass[64];             /* the running pass, "" for none */
    const stator_graph *graph; /* graph of the nodes asked about, NULL: unknown */
};

/* One granted application. */
typedef struct st_fuel_record {
    uint32_t scope;
    uint32_t kind; /* stator_fuel_kind */
    uint64_t n;
    stator_ref node;
    stator_ref witness; /* imported value that the node's first result computes, or 0 */
    char rule[60];
    char scope_name[112];
    char pass[64];
    char node_name[128]; /* name of the imported node */
} st_fuel_record;

struct st_fuel {
    st_mem *mem;
    pthread_mutex_t lock;
    stator_fuel_scope *first, *last;
    uint32_t n_scopes;
    uint32_t mode;        /* st_fuel_mode */
    uint32_t limit_scope; /* SERIAL */
    int64_t limit;        /* TOTAL, SERIAL */
    _Atomic int64_t total;
    uint32_t is_recording;
    stator_x_fuel_fn watch; /* told of each granted application before it happens, or NULL */
    void *watch_self;
    st_fuel_record *records;
    uint32_t n_records, record_capacity;
};

enum st_fuel_mode {
    ST_FUEL_UNLIMITED = 0,
    ST_FUEL_TOTAL = 1,
    ST_FUEL_SERIAL = 2,
    ST_FUEL_NONE = 3
};

void st_fuel_init(st_fuel *fuel, st_mem *mem);
void st_fuel_deinit(st_fuel *fuel);
/* Sets the limit from the compile options: fuel_scope "3" limits within scope number 3, "" or NULL
 * over the whole compile. */
stator_status st_fuel_configure(st_fuel *fuel, int64_t limit, const char *scope, bool none,
                                stator_diag **err);
/* NULL when out of memory; may_apply(NULL) then says no, which is always safe. */
stator_fuel_scope *st_fuel_scope(st_fuel *fuel, stator_fuel_scope *parent, const char *name);
/* A scope of one stage: questions in it belong to the pass of that name. */
stator_fuel_scope *st_fuel_stage(st_fuel *fuel, const char *name, const char *pass,
                                 const stator_graph *graph);
/* The graph that the scope's questions are about from here on; scope may be NULL. */
void st_fuel_about(stator_fuel_scope *scope, const stator_graph *graph);
/* A record as a row of the public API; its strings are the record's. */
stator_x_fuel_row st_fuel_row(const st_fuel_record *record);

extern const stator_fuel_api st_fuel_api;

#endif
