/// The transports that come from modules, and so are there only where those are.
#include "base/launcher.h"
#include "base/loadable.h"
#include "exec/transport/transports.h"

#include <stdlib.h>
#include <time.h>

static status run_module(const char *name, const exec_transport_options *options,
                         exec_rank_body *body, void *context, error_message *err)
{
    const loadable *module = NULL;
    TRY(loadable_open(name, &module, err));
    const exec_transport_module *transport = module->table;
    return transport->run(options, body, context, err);
}

status exec_transport_mpi_run(const exec_transport_options *options, exec_rank_body *body,
                              void *context, error_message *err)
{
    return run_module("mpi", options, body, context, err);
}

status exec_transport_nccl_run(const exec_transport_options *options, exec_rank_body *body,
                               void *context, error_message *err)
{
    return run_module("nccl", options, body, context, err);
}

const char *exec_transport_beneath_nccl(void)
{
    const loadable *module = NULL;
    if (launcher_process_count(NULL) == 1) return "local";
    if (getenv("MASTER_ADDR") != NULL) return "tcp";
    return loadable_open("mpi", &module, NULL) == STATUS_OK ? "mpi" : "tcp";
}

bool exec_transport_nccl_is_leader(void)
{
    const loadable *module = NULL;
    if (loadable_open("nccl", &module, NULL) != STATUS_OK) return launcher_rank() == 0;
    const exec_transport_module *transport = module->table;
    return transport->is_leader(launcher_rank());
}

bool exec_transport_mpi_is_leader(void)
{
    const loadable *module = NULL;
    if (loadable_open("mpi", &module, NULL) != STATUS_OK) return launcher_rank() == 0;
    const exec_transport_module *transport = module->table;
    return transport->is_leader(launcher_rank());
}

void exec_transport_mpi_let_leader_end(void)
{
    const struct timespec patience = {.tv_sec = 5};
    nanosleep(&patience, NULL);
}
