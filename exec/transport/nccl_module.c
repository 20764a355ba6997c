/// What dynmo_nccl.so offers to the program that opens it.
#include "base/loadable.h"
#include "exec/transport/transport_nccl.h"

static status run(const exec_transport_options *options, exec_rank_body *body, void *context,
                  error_message *err)
{
    return exec_nccl_run_over(NULL, options, body, context, err);
}

const loadable *dynmo_module(void)
{
    static const loadable module = {
        .interface = LOADABLE_INTERFACE, .name = "nccl", .function = (void (*)(void))run};
    return &module;
}
