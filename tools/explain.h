/* What a model becomes on a backend: what `explain` prints and `report` shows. */
#ifndef STATOR_EXPLAIN_H
#define STATOR_EXPLAIN_H

#include "cli.h"

/* Memory of a part: key of the JSON, heading, where in a stator_x_part. */
typedef struct explain_column {
    const char *key;
    const char *heading;
    size_t offset;
} explain_column;
#define EXPLAIN_COLUMNS 6u
extern const explain_column explain_columns[EXPLAIN_COLUMNS];

uint64_t explain_value(const stator_x_part *part, const explain_column *column);
/* The next part, 0 behind the last. */
int explain_part_at(const cli_program *p, uint32_t i, stator_x_part *out);
/* "graph.2", "body1.0" */
const char *explain_part_name(const stator_x_part *part, char out[48]);
/* "kernel", "library", "node", "loop" */
const char *explain_step_kind(uint32_t kind);
/* The first line of a step's name: that of a loop goes on with its body, in braces. */
const char *explain_step_name(const char *name, char out[CLI_CLEAN_BYTES]);
/* All of it, see docs/command.md; NULL: the context has the error. */
cJSON *explain_facts(const cli_program *p);

#endif
