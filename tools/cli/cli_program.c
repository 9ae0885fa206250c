/* A model on a backend with inputs for a call: what run, bench and explain begin with. */
#include "tools/cli/cli.h"

cli_status cli_program_open(cli_program *p, const cli_program_flags *flags, const char *path)
{
    const int json = flags->common->json;
    *p = (cli_program){.ctx = NULL};
    CLI_TRY(cli_open_model(flags->common, path, &p->ctx, &p->model));
    p->function = cli_compile_model(p->ctx, p->model, flags->compile, flags->backend, json);
    return p->function != NULL &&
                   cli_load_inputs(p->ctx, p->model, flags->inputs, json, &p->in, &p->n_in)
               ? CLI_OK
               : CLI_FAILED;
}

void cli_program_close(cli_program *p)
{
    cli_free_inputs(p->in, p->n_in);
    stator_function_destroy(p->function);
    stator_model_destroy(p->model);
    stator_ctx_destroy(p->ctx);
}
