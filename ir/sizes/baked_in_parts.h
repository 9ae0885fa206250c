/* Functions that the files of baked-in sizes share; see baked_in.h. */
#ifndef STATOR_IR_BAKED_IN_PARTS_H
#define STATOR_IR_BAKED_IN_PARTS_H

#include "ir/sizes/baked_in.h"

/* Sizes asked for by axis, 0: as it is. */
typedef stator_ref st_wanted[STATOR_RANK_MAX];

/* One value's way back through the graph. */
typedef struct st_baked_in_walk {
    st_baked_in *s;
    stator_builder *b;
    uint32_t depth;
} st_baked_in_walk;

/* ---- sizes ---- */

/* The size as it was when the file was written; 0 when that is not known, or beyond 64 bits. */
bool st_baked_in_size(st_baked_in *s, stator_ref size, int64_t *out);
bool st_baked_in_is_number(const st_baked_in *s, stator_ref size);
/* Does this number, past 1, stand for `size`, which is none? */
bool st_baked_in_stands_for(st_baked_in *s, stator_ref number, stator_ref size);

/* Groups of sizes of `from` and of `to`, as in a reshape: the sizes of one group had equally many
 * elements on both sides. Group 0: sizes of 1 between the groups. */
typedef struct st_groups {
    uint32_t n;
    uint8_t of_from[STATOR_RANK_MAX], of_to[STATOR_RANK_MAX];
} st_groups;
bool st_baked_in_groups(const int64_t *from, uint32_t n_from, const int64_t *to, uint32_t n_to,
                        st_groups *out); /* 0: there are none, or a size is 0 */
/* The sizes `to` of a reshape of `from`, numbers among them read as sizes, into out; 0: they stay.
 */
bool st_baked_in_reshape(st_baked_in *s, const stator_ref *from, uint32_t n_from,
                         const stator_ref *to, uint32_t n_to, stator_ref *out);

/* ---- values ---- */

/* A note about the value: the newest, or the one before `after`; NULL: no more. */
const st_baked_in_value *st_baked_in_known(const st_baked_in *s, const stator_graph *graph,
                                           stator_ref value, const st_baked_in_value *after);
void st_baked_in_note(st_baked_in *s, const st_baked_in_value *known);
/* Is any other size asked for? */
bool st_baked_in_is_wanted(const stator_ref *wanted);
/* The value with other sizes; 0 when it cannot be had with them. */
stator_ref st_baked_in_again(st_baked_in_walk *w, stator_ref value, const stator_ref *wanted);
/* The same, of a constant or a parameter whose elements are `blob`. */
stator_ref st_baked_in_constant(st_baked_in_walk *w, stator_ref value, stator_blob *blob,
                                const stator_ref *wanted);
stator_attr *st_find_attr(const stator_attr *attrs, uint32_t n, const char *name);

/* ---- checks ---- */

/* A sum over S divided by the number that S was is a mean that would no longer be one:
 * FAILED_PRECONDITION. */
stator_status st_baked_in_check_mean(st_baked_in *s, const stator_builder *b,
                                     const stator_node_desc *desc, stator_diag **err);

#endif
