/// Stands in for transport_nccl.c where NCCL or Open MPI was not found.
#include "exec/transports.h"

status exec_transport_nccl_run(const exec_transport_options *options, exec_rank_body *body,
                               void *context, error_message *err)
{
    (void)options;
    (void)body;
    (void)context;
    return error_set(err, STATUS_UNSUPPORTED,
                     "transport 'nccl': dynmo was built without NCCL; 'local' needs none");
}
