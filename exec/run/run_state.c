/// The state of the model after the last iteration, as one number.
#include "exec/run/run.h"

#include "base/file.h"
#include "exec/transport/activity.h"

static status hash_layer(exec_run *run, int layer, uint64_t *hash, error_message *err)
{
    exec_packet packed = {0};
    const status done = exec_packet_pack(&packed, run->device, layer, err);
    if (done == STATUS_OK) {
        const int64_t byte_count = run->device->table->packed_bytes(run->device, layer);
        *hash = file_hash(FILE_HASH_START, packed.bytes, (size_t)byte_count);
    }
    exec_packet_free(&packed);
    return done;
}

/// Every rank knows the hashes of its own layers; the others are 0 there, so that sums are all.
status exec_run_hash(exec_run *run, const exec_command *command, error_message *err)
{
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    const int64_t layers = (int64_t)run->terms.replica_count * run->terms.layer_count;
    int64_t *sums = arena_array(run->scratch, (size_t)layers, sizeof *sums);
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_HASH);
    for (int index = 0; index < plan->layer_count; index++) {
        const int layer = plan->layer[index];
        uint64_t hash = 0;
        TRY(hash_layer(run, layer, &hash, err));
        sums[run->ranks.replica * run->terms.layer_count + layer] = (int64_t)hash;
    }
    TRY(exec_group_sum_int64(&run->ranks.awake, sums, layers, err));
    const uint64_t state = file_hash(FILE_HASH_START, sums, (size_t)layers * sizeof *sums);
    exec_packet_put(&run->answer, &state, sizeof state);
    return STATUS_OK;
}

status exec_leader_hash(exec_leader *leader, int iteration, error_message *err)
{
    const exec_command command = {.kind = EXEC_COMMAND_HASH, .iteration = iteration};
    exec_run_begin_command(&leader->run, &command);
    TRY(exec_run_give_command(&leader->run, err));
    const uint64_t *state = exec_packet_take(&leader->run.answers, sizeof *state);
    leader->reports.measured.state_hash = *state;
    return STATUS_OK;
}
