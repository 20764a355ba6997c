/// Stands in for transport_mpi.c where Open MPI was not found.
#include "exec/transports.h"

status exec_transport_mpi_run(const exec_transport_options *options, exec_rank_body *body,
                              void *context, error_message *err)
{
    (void)options;
    (void)body;
    (void)context;
    return error_set(err, STATUS_UNSUPPORTED,
                     "transport 'mpi': dynmo was built without Open MPI; 'local' needs none");
}

bool exec_transport_mpi_is_leader(void)
{
    return true;
}
