/* Files that a command writes (core/base/files/out_file.h), with what failed said as it says it. */
#include "tools/cli/cli.h"

static bool end(stator_status status, stator_diag *diag, int json)
{
    const bool is_ok = status == STATOR_OK;
    if (!is_ok) {
        (void)cli_fail(json, "UNAVAILABLE", NULL, "%s", st_diag_text(diag));
    }
    st_diag_release(diag);
    return is_ok;
}

bool cli_file_open(st_out_file *f, const char *path, int json)
{
    stator_diag *diag = NULL;
    const stator_status status = st_out_open(path, f, &diag);
    (void)fflush(stdout); /* a path may name it, and what was printed stands before the file */
    return end(status, diag, json);
}

bool cli_file_close(st_out_file *f, int json)
{
    stator_diag *diag = NULL;
    const stator_status status = st_out_close(f, STATOR_OK, &diag);
    return end(status, diag, json);
}

bool cli_file_check(const char *path, int json)
{
    stator_diag *diag = NULL;
    const stator_status status = st_out_check(path, NULL, &diag);
    return end(status, diag, json);
}

bool cli_write_file(const char *path, const void *bytes, uint64_t size, int json)
{
    st_out_file f;
    stator_diag *diag = NULL;
    ST_NEED(cli_file_open(&f, path, json));
    const stator_status status = st_out_write(&f, bytes, size, &diag);
    return end(st_out_close(&f, status, &diag), diag, json);
}
