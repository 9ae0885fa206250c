/* A model as compiled for a backend: `explain` prints it and `report` shows it. */
#ifndef STATOR_EXPLAIN_H
#define STATOR_EXPLAIN_H

#include "tools/cli/cli.h"

/* All of it, see docs/command.md; NULL: the context has the error. */
cJSON *explain_facts(const cli_program *p);
/* The same, but of which backends run the nodes alone: {coverage, fallback_nodes}. */
cJSON *explain_coverage(const cli_program *p);
/* The same step in explain's facts and in the record of times: a hash of its name. */
uint64_t explain_step_key(const char *name);
/* The first line of a step's name: that of a loop goes on with its body, in braces. */
const char *explain_step_name(const char *name, char out[CLI_CLEAN_BYTES]);

/* Members of its objects: a list (NULL: none), a text ("" where it is null), a number. */
const cJSON *explain_list(const cJSON *object, const char *key);
const char *explain_text(const cJSON *object, const char *key);
double explain_number(const cJSON *object, const char *key);

#endif
