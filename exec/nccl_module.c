#include "exec/module.h"
#include "exec/transport_nccl.h"
#include "exec/transports.h"

static status run(const exec_transport_options *options, exec_rank_body *body, void *context,
                  error_message *err)
{
    return exec_nccl_run_over("mpi", options, body, context, err);
}

const exec_module *dynmo_module(void)
{
    static const exec_transport_module transport = {.run = run};
    static const exec_module module = {
        .interface = EXEC_MODULE_INTERFACE, .name = "nccl", .transport = &transport};
    return &module;
}
