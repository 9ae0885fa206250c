/* The parts of a scan in a launch plan (plan_scan.c), for the files that run or write it. */
#ifndef STATOR_CODEGEN_SCAN_LOOP_H
#define STATOR_CODEGEN_SCAN_LOOP_H

#include "codegen/run/barrier_group.h"

enum cg_port_kind { CG_PORT_WHOLE = 0, CG_PORT_CARRIED, CG_PORT_SLICE };

/* How each step uses one input or output of the body. */
typedef struct cg_port {
    uint32_t kind; /* cg_port_kind */
    uint32_t is_reversed;
    st_symprog bytes; /* SLICE: from one to the next */
} cg_port;

struct cg_scan {
    st_cg_exe *body;
    uint32_t n_in, n_out, n_carried;
    uint32_t group;    /* threads that divide each step; 1: as many as each launch takes */
    st_symprog length; /* steps */
    st_symprog *carried_bytes;
    cg_port *ports;                 /* inputs, then outputs */
    cg_barrier_group_record record; /* timings: with `spare` all that calls change */
    _Atomic(void *) spare;          /* on a device: tensor descriptors that nobody uses */
};

/* Bytes of tensor descriptors at the head of the step's last buffer; the body's workspace lies
 * behind them. On a device they are host memory, and the buffer has the workspace alone. */
uint64_t cg_scan_tensor_bytes(const cg_scan *scan);

#endif
