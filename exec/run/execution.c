#include "exec/run/execution.h"

#include "base/arena.h"
#include "exec/run/leader.h"
#include "exec/run/run.h"

#include <stdlib.h>

/// What every rank but the leader does.
static status follow(exec_endpoint *endpoint, const exec_training *training, error_message *err)
{
    exec_run *run = memory_array(1, sizeof *run);
    status followed = exec_run_open(run, endpoint, training, NULL, err);
    if (followed == STATUS_OK) followed = exec_run_follow(run, err);
    exec_run_close(run);
    free(run);
    return followed;
}

status exec_training_rank(exec_endpoint *endpoint, const exec_training *training, arena *memory,
                          bal_training_result *result, error_message *err)
{
    if (endpoint->rank != EXEC_LEADER) return follow(endpoint, training, err);
    return exec_lead(endpoint, training, memory, result, err);
}
