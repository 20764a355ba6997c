/// The transports that the names of transport.h stand for, one per file transport_<name>.c, and
/// what they share. Those of mpi and nccl are in modules. Only these files include this.
#pragma once

#include "exec/transport/transport.h"

/// As exec_transport_run, for a transport; options are complete: what they point to is there.
typedef status exec_transport_runner(const exec_transport_options *options, exec_rank_body *body,
                                     void *context, error_message *err);

exec_transport_runner exec_transport_local_run;
exec_transport_runner exec_transport_tcp_run;

/// What a transport tells its own.
typedef enum exec_note { EXEC_NOTE_FAILURE, EXEC_NOTE_MEETING, EXEC_NOTE_END } exec_note;

uint64_t exec_note_key(exec_note what);

/// Collective over the world: returns when all ranks have come, by messages to rank 0 and back.
status exec_transport_meet(exec_endpoint *endpoint, error_message *err);

/// As exec_transport.regroup where there is nothing to split. Ranks meet as they do where there is,
/// so that one which does not come is missed.
status exec_transport_regroup(exec_endpoint *endpoint, const int *place, int line_ranks,
                              error_message *err);

/// As exec_transport.now_ns: the machine's monotonic clock.
int64_t exec_transport_now_ns(const exec_endpoint *endpoint);
