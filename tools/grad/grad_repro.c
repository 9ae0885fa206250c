/* A node whose gradient is off as a program of its own, for a report of the mistake: in a new
 * folder
 *
 *     repro.stir (and repro.blob)   the node, in f64
 *     inputs.npz                    its operands
 *     repeat.sh                     the check of it */
#define _GNU_SOURCE
#include "tools/grad/grad.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#define PATH_BYTES 4200

static const char script[] =
    "#!/bin/sh\n"
    "# Shows a gradient that is off; made by stator grad.\n"
    "here=$(dirname \"$0\")\n"
    "stator grad \"$here/repro.stir\" --wrt inputs --check --inputs \"$here/inputs.npz\" \"$@\"\n";

static cli_status write_inputs(stator_ctx *ctx, int json, const stator_model *node,
                               stator_tensor *const *in, const char *path)
{
    cli_tensors list = {.ctx = ctx};
    char errbuf[512] = "out of memory";
    bool ok = true;
    for (uint32_t k = 0; ok && k < stator_model_input_count(node); k++) {
        stator_port_info port = {.struct_size = sizeof port};
        stator_tensor_retain(in[k]);
        ok = stator_model_input_info(node, k, &port) == STATOR_OK &&
             cli_tensors_add(&list, port.name, in[k]);
    }
    ok = ok && cli_write_npz(path, &list, errbuf);
    cli_tensors_free(&list);
    return ok ? CLI_OK : cli_fail(json, "UNAVAILABLE", NULL, "%s", errbuf);
}

cli_status grad_write_repro(const cli_graph *g, const stator_model *node, stator_tensor *const *in,
                            const char *folder)
{
    const int json = g->common.json;
    char path[PATH_BYTES];
    CLI_FAIL_IF(mkdir(folder, 0777) != 0, json, "UNAVAILABLE", "name a folder that is not there",
                "the folder '%.4000s' cannot be made: %s", folder, strerror(errno));
    (void)snprintf(path, sizeof path, "%.4000s/repro.stir", folder);
    CLI_TRY_CTX(g->ctx, json, stator_x_model_write(node, path));
    (void)snprintf(path, sizeof path, "%.4000s/inputs.npz", folder);
    CLI_TRY(write_inputs(g->ctx, json, node, in, path));
    (void)snprintf(path, sizeof path, "%.4000s/repeat.sh", folder);
    CLI_NEED(cli_write_file(path, script, sizeof script - 1, json));
    CLI_FAIL_IF(chmod(path, 0755) != 0, json, "UNAVAILABLE", NULL,
                "'%s' cannot be made a program: %s", path, strerror(errno));
    return CLI_OK;
}
