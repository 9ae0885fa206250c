/* What the files that write a package's launch plan share: package_plan.c and package_scan.c. */
#ifndef STATOR_CODEGEN_PACKAGE_PLAN_H
#define STATOR_CODEGEN_PACKAGE_PLAN_H

#include "codegen/package/packer.h"
#include "codegen/run/scan_loop.h"

/* One C source: the program's, or that of the body of a scan. */
typedef struct cg_packing {
    const st_cg_exe *exe;
    const st_cg_packer *packer;
    const stator_package_sink *sink;
    st_str *out;
    uint32_t *n_units; /* sources begun so far, in all */
    uint32_t *bodies;  /* by step: the number of the body's source */
    uint32_t unit;     /* number of this one; the program's is 0 */
    uint32_t depth;    /* scans around it */
    char suffix[16];   /* suffix of symbols that other sources see: "" or the unit's number */
} cg_packing;

/* ---- package_parts.c ---- */
void cg_pack_i64(st_str *out, int64_t value);
/* The function NAME<k> of a size that is no number. */
void cg_pack_size(st_str *out, const char *name, uint32_t k, const st_symprog *prog);
/* Begins the function of step i: its buffers as b[]. */
void cg_pack_begin_step(const cg_packing *p, uint32_t i);
/* Is buffer k of the step one that the package must hold? */
bool cg_pack_is_read(const cg_launch *launch, const st_cg_exe *exe, uint32_t k);

/* ---- package_scan.c ---- */
bool cg_pack_has_scans(const st_cg_exe *exe);
/* Writes the helper functions that the scans' code calls. */
void cg_pack_scan_head(const cg_packing *p);
/* The sizes of the scan at step i, if it is one. */
void cg_pack_scan_sizes(const cg_packing *p, uint32_t i);
void cg_pack_scan_step(const cg_packing *p, uint32_t i);
/* The steps from i on that run concurrently, as one function. */
void cg_pack_concurrent(const cg_packing *p, uint32_t i);
/* Appends to the function that lays out the workspace: those of bodies whose sizes are symbolic,
 * at[] from the last slot on. */
void cg_pack_body_rooms(const cg_packing *p);
uint32_t cg_pack_n_rooms(const st_cg_exe *exe);
/* Does the workspace's size depend on the call? */
bool cg_pack_is_symbolic(const st_cg_exe *exe);

#endif
