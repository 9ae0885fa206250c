/* Baked-in sizes of a reshape: which numbers of the new shape belong to which of the old; see
 * baked_in.h.
 *
 *     [1, S, 12, 64] -> [1, 8, 768], S was 8      groups {S} {8} and {12, 64} {768}
 *     [N, 32] -> [8, 8], N was 2                  one group: the first 8 is 4 * N
 *
 * The order of elements says which: an index along N takes 2 steps of 32 elements, and the new
 * shape's first axis, 8 steps of 8 elements, holds these. How the symbols lie in a size that was
 * made of several is remembered, for the reshape that takes it apart again. */
#include "ir/sizes/baked_in_parts.h"

#include "core/base/check.h"

#include <string.h>

/* The end of the group that begins at from[i] and to[j], none of them 1. */
static bool group_end(const int64_t *from, uint32_t n_from, const int64_t *to, uint32_t n_to,
                      uint32_t *i, uint32_t *j)
{
    int64_t a = from[(*i)++], b = to[(*j)++];
    while (a != b) {
        const bool is_from = a < b;
        if (is_from ? *i == n_from : *j == n_to) {
            return false;
        }
        if (!(is_from ? st_mul_i64(a, from[(*i)++], &a) : st_mul_i64(b, to[(*j)++], &b))) {
            return false;
        }
    }
    return true;
}

bool st_baked_in_groups(const int64_t *from, uint32_t n_from, const int64_t *to, uint32_t n_to,
                        st_groups *out)
{
    uint32_t i = 0, j = 0;
    *out = (st_groups){0};
    for (;;) {
        while (i < n_from && from[i] == 1) {
            i++;
        }
        while (j < n_to && to[j] == 1) {
            j++;
        }
        if (i == n_from || j == n_to) {
            return i == n_from && j == n_to;
        }
        uint32_t i_end = i, j_end = j;
        if (from[i] < 1 || to[j] < 1 || !group_end(from, n_from, to, n_to, &i_end, &j_end)) {
            return false;
        }
        out->n++;
        for (; i < i_end; i++) {
            out->of_from[i] = (uint8_t)out->n;
        }
        for (; j < j_end; j++) {
            out->of_to[j] = (uint8_t)out->n;
        }
    }
}

/* A reshape being read. */
typedef struct regroup {
    st_baked_in *s;
    const stator_ref *from, *to;
    uint32_t n_from, n_to;
    int64_t was_from[STATOR_RANK_MAX], was_to[STATOR_RANK_MAX];
    st_groups groups;
    stator_ref *out;
} regroup;

/* size * by / was where that is exact, else 0. */
static stator_ref scaled(const regroup *r, stator_ref size, stator_ref by, int64_t was)
{
    st_symtab *tab = &r->s->m->symtab;
    const stator_ref times = st_sym_mul(tab, size, by);
    return times != 0 && st_sym_divisor(tab, times) % was == 0
               ? st_sym_floordiv(tab, times, st_sym_int(tab, was))
               : 0;
}

/* The places of one group's sizes, as they were: `after` is the product of those behind a place. */
typedef struct side {
    uint32_t places[STATOR_RANK_MAX], n;
    int64_t sizes[STATOR_RANK_MAX], after[STATOR_RANK_MAX];
} side;

static void take_side(uint32_t group, const uint8_t *of, uint32_t n, const int64_t *was, side *out)
{
    int64_t after = 1;
    out->n = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (of[i] == group) {
            out->sizes[out->n] = was[i];
            out->places[out->n++] = i;
        }
    }
    for (uint32_t k = out->n; k-- > 0;) {
        out->after[k] = after;
        after *= out->sizes[k]; /* group_end has multiplied them before */
    }
}

/* The place in `to` whose index holds all of the part's, its steps as wide or narrower and its end
 * as far; to->n: none does. */
static uint32_t holder(const side *to, const st_baked_in_part *part)
{
    for (uint32_t k = 0; k < to->n; k++) {
        if (part->step % to->after[k] == 0 &&
            (to->after[k] * to->sizes[k]) % (part->step * part->was) == 0) {
            return k;
        }
    }
    return to->n;
}

static st_baked_in_merge *find_merge(const st_baked_in *s, stator_ref size)
{
    const uint32_t place = st_map_get(&s->merge_of, size);
    return place != 0 ? &s->merges.data[place - 1u] : NULL;
}

/* The symbols' parts of the index at place i of `from`, in its elements' steps; their number. */
static uint32_t parts_of(const regroup *r, const side *from, uint32_t i, st_baked_in_part *out)
{
    const stator_ref size = r->from[from->places[i]];
    const st_baked_in_merge *merge = find_merge(r->s, size);
    if (st_baked_in_is_number(r->s, size)) {
        return 0;
    }
    if (merge == NULL || merge->n_parts == 0) {
        out[0] = (st_baked_in_part){size, from->sizes[i], from->after[i]};
        return 1;
    }
    for (uint32_t k = 0; k < merge->n_parts; k++) {
        out[k] = merge->parts[k];
        out[k].step *= from->after[i];
    }
    return merge->n_parts;
}

/* The size at a place of `to` has these parts: said of it once more, or the first time. */
static void note_merge(const regroup *r, stator_ref size, const st_baked_in_merge *merge)
{
    st_baked_in_merge *known = find_merge(r->s, size);
    if (merge->n_parts == 0 || merge->parts[0].size == size) {
        return;
    }
    if (known != NULL) {
        const bool is_same =
            known->n_parts == merge->n_parts &&
            memcmp(known->parts, merge->parts, merge->n_parts * sizeof merge->parts[0]) == 0;
        known->n_parts = is_same ? known->n_parts : 0;
        return;
    }
    st_baked_in_merge *slot = st_vec_push(r->s->m->mem, &r->s->merges);
    if (slot == NULL || !st_map_put(&r->s->merge_of, size, r->s->merges.count)) {
        r->s->is_oom = true;
        return;
    }
    *slot = *merge;
    slot->size = size;
}

static stator_ref product(const regroup *r, const side *s, const stator_ref *sizes)
{
    stator_ref all = st_sym_int(&r->s->m->symtab, 1);
    for (uint32_t k = 0; k < s->n && all != 0; k++) {
        all = st_sym_mul(&r->s->m->symtab, all, sizes[s->places[k]]);
    }
    return all;
}

/* Finds which symbols the indices of `to` hold, by position; 0: one of them is in none. */
static bool hold_parts(const regroup *r, const side *from, const side *to, st_baked_in_merge *held)
{
    memset(held, 0, to->n * sizeof *held);
    for (uint32_t i = 0; i < from->n; i++) {
        st_baked_in_part parts[ST_BAKED_IN_PARTS];
        const uint32_t n = parts_of(r, from, i, parts);
        for (uint32_t p = 0; p < n; p++) {
            const uint32_t k = holder(to, &parts[p]);
            if (k == to->n || held[k].n_parts == ST_BAKED_IN_PARTS) {
                return false;
            }
            parts[p].step /= to->after[k];
            held[k].parts[held[k].n_parts++] = parts[p];
        }
    }
    return true;
}

/* The numbers of a group grow with the symbols whose index they hold. */
static bool read_group(const regroup *r, uint32_t group)
{
    st_symtab *tab = &r->s->m->symtab;
    side from, to;
    st_baked_in_merge held[STATOR_RANK_MAX];
    take_side(group, r->groups.of_from, r->n_from, r->was_from, &from);
    take_side(group, r->groups.of_to, r->n_to, r->was_to, &to);
    const stator_ref a = product(r, &from, r->from), b = product(r, &to, r->to);
    const bool fits = a != 0 && b != 0 && st_sym_eq(tab, a, b) == 1;
    if (!hold_parts(r, &from, &to, held)) {
        return fits;
    }
    for (uint32_t k = 0; k < to.n; k++) {
        stator_ref *out = &r->out[to.places[k]];
        if (!fits) {
            *out = st_sym_int(tab, to.sizes[k]);
        }
        for (uint32_t p = 0; !fits && p < held[k].n_parts; p++) {
            *out = scaled(r, *out, held[k].parts[p].size, held[k].parts[p].was);
            if (*out == 0) {
                return false;
            }
        }
        note_merge(r, *out, &held[k]);
    }
    return true;
}

/* Sizes that were 1 lie between groups: as many on both sides keep their order. One that is a
 * symbol now and has no place in the new shape cannot be read. */
static bool read_ones(const regroup *r)
{
    uint32_t i = 0, j = 0;
    while (i < r->n_from || j < r->n_to) {
        uint32_t i_end = i, j_end = j, n_open = 0;
        for (; i_end < r->n_from && r->groups.of_from[i_end] == 0; i_end++) {
            n_open += !st_baked_in_is_number(r->s, r->from[i_end]);
        }
        while (j_end < r->n_to && r->groups.of_to[j_end] == 0) {
            j_end++;
        }
        if (n_open != 0 && i_end - i != j_end - j) {
            return false;
        }
        for (uint32_t k = 0; n_open != 0 && k < i_end - i; k++) {
            r->out[j + k] = r->from[i + k];
        }
        const uint32_t group = i_end < r->n_from ? r->groups.of_from[i_end] : 0;
        for (i = i_end;
             i < r->n_from && r->groups.of_from[i] != 0 && r->groups.of_from[i] == group;) {
            i++;
        }
        for (j = j_end; j < r->n_to && r->groups.of_to[j] != 0 && r->groups.of_to[j] == group;) {
            j++;
        }
    }
    return true;
}

bool st_baked_in_reshape(st_baked_in *s, const stator_ref *from, uint32_t n_from,
                         const stator_ref *to, uint32_t n_to, stator_ref *out)
{
    regroup r = {.s = s, .from = from, .to = to, .n_from = n_from, .n_to = n_to, .out = out};
    bool ok = true;
    for (uint32_t i = 0; ok && i < n_from; i++) {
        ok = st_baked_in_size(s, from[i], &r.was_from[i]);
    }
    for (uint32_t i = 0; ok && i < n_to; i++) {
        out[i] = to[i];
        ok = st_baked_in_size(s, to[i], &r.was_to[i]);
    }
    ok = ok && st_baked_in_groups(r.was_from, n_from, r.was_to, n_to, &r.groups) && read_ones(&r);
    for (uint32_t group = 1; ok && group <= r.groups.n; group++) {
        ok = read_group(&r, group);
    }
    return ok;
}
