/* Finding test cases, their tolerances, skip lists and the backend of `stator conform`. */
#ifndef STATOR_CONFORM_CASES_H
#define STATOR_CONFORM_CASES_H

#include "tools/cli/cli.h"

typedef struct test_case {
    char *path; /* the folder */
    char *name; /* the folder's path below DIR */
    uint32_t n_sets;
    st_tolerance tolerance;
} test_case;

typedef struct case_list {
    test_case *items; /* sorted by name */
    uint32_t count;
} case_list;

typedef struct skip_list {
    char **names;
    char **reasons;
    uint32_t count;
} skip_list;

/* Tolerances that case.json in a case's folder allows; st_compare chooses those that it does not
 * set. */
st_tolerance read_tolerance(const char *folder);
/* Every folder below dir, at any depth, that holds model.onnx and test_data_set_0. */
bool find_cases(const char *dir, case_list *out, char *errbuf);
void free_cases(case_list *cases);
/* Adds the lines "name reason..." of a file; 0 when it cannot be read. */
bool read_skips(const char *path, skip_list *out);
void free_skips(skip_list *skips);
const char *skip_reason(const skip_list *skips, const char *name); /* NULL: not skipped */
/* Where the skip lists of a backend and of the reference lie; "" where there is no such plugin. */
typedef struct skip_paths {
    char own[4096];
    char reference[4096];
} skip_paths;
/* A backend's name from a name or the path of a plugin, checked to be usable; where skip lists
 * lie. Prints and gives CLI_FAILED when it is not, but for an
 * unavailable one that another may replace. */
cli_status find_conform_backend(cli_common *common, const char *given, bool may_fall_back,
                                const char **out_name, skip_paths *out_paths);

#endif
