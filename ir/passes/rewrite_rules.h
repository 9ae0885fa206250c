/* The rules of rules.def that are C functions (rules.c). Each returns true with m->out set, false
 * when it does not apply. */
#ifndef STATOR_PASSES_REWRITE_RULES_H
#define STATOR_PASSES_REWRITE_RULES_H

#include "ir/passes/rewrite.h"

#define ST_RULE(name_) bool name_(st_match *m)
ST_RULE(st_rule_involution);
ST_RULE(st_rule_idempotent);
ST_RULE(st_rule_constant_right);
ST_RULE(st_rule_same_type);
ST_RULE(st_rule_cast_cast);
ST_RULE(st_rule_inner_operand);
ST_RULE(st_rule_cast_transpose);
ST_RULE(st_rule_transpose_transpose);
ST_RULE(st_rule_transpose_moves_ones);
ST_RULE(st_rule_reshape_group_norm);
ST_RULE(st_rule_slice_all);
ST_RULE(st_rule_slice_slice);
ST_RULE(st_rule_pad_nothing);
ST_RULE(st_rule_tile_once);
ST_RULE(st_rule_inline_call);
ST_RULE(st_rule_inline_cond);
ST_RULE(st_rule_count_loop);  /* rule_count_loop.c */
ST_RULE(st_rule_scan_axes);   /* rule_scan_axes.c */
ST_RULE(st_rule_window_axes); /* rule_window_axes.c */
#undef ST_RULE

#endif
