/// The transports behind the names of transport.h, one per file transport_<name>.c. Only
/// transport.c and they include this.
#pragma once

#include "exec/transport.h"

/// As exec_transport_run, for a transport; options are complete.
typedef status exec_transport_runner(const exec_transport_options *options, exec_rank_body *body,
                                     void *context, error_message *err);

exec_transport_runner exec_transport_local_run;
exec_transport_runner exec_transport_mpi_run;
exec_transport_runner exec_transport_nccl_run;

/// Whether this process is that of rank 0 of the launcher.
bool exec_transport_mpi_is_leader(void);
