/// The transports that the names of transport.h stand for, one per file transport_<name>.c. Those
/// of mpi and nccl are in modules; transport_loaded.c opens them. Only these files include this.
#pragma once

#include "exec/transport/transport.h"

/// As exec_transport_run, for a transport; options are complete.
typedef status exec_transport_runner(const exec_transport_options *options, exec_rank_body *body,
                                     void *context, error_message *err);

exec_transport_runner exec_transport_local_run;
exec_transport_runner exec_transport_mpi_run;
exec_transport_runner exec_transport_nccl_run;
exec_transport_runner exec_transport_tcp_run;

/// Collective over the world: returns when all ranks have come, by messages with this key to rank 0
/// and back.
status exec_transport_meet(exec_endpoint *endpoint, uint64_t key, error_message *err);

/// STATUS_BACKEND for a message that is longer than expected, naming both lengths.
status exec_transport_check_length(int from, int64_t bytes, int64_t capacity_bytes,
                                   error_message *err);

/// The transport that carries what NCCL does not: `local` in a single process; of several `tcp`
/// where MASTER_ADDR is set or this machine has no MPI, else `mpi`.
const char *exec_transport_beneath_nccl(void);

/// Whether this process is that of rank 0 of the launcher. After a failure exactly one process says
/// so that lives: that of rank 1 where rank 0 is lost.
bool exec_transport_mpi_is_leader(void);
bool exec_transport_tcp_is_leader(void);
bool exec_transport_nccl_is_leader(void);

/// Gives the leader 5 s to end, or until a signal comes.
void exec_transport_mpi_let_leader_end(void);

/// What the modules of mpi and nccl hand over.
typedef struct exec_transport_module {
    exec_transport_runner *run;
    bool (*is_leader)(int launched_rank); // before the first run: launched_rank is 0
} exec_transport_module;
