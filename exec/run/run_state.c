/// The state of the model after the last iteration, as one number.
#include "exec/run/run.h"

#include "base/file.h"
#include "exec/transport/activity.h"

/// One layer of a replica.
typedef struct layer_answer {
    int64_t index; // replica * layers + layer
    uint64_t hash; // file_hash of its packed state
} layer_answer;

static status hash_layer(exec_run *run, int layer, error_message *err)
{
    exec_packet packed = {0};
    const status done = exec_packet_pack(&packed, run->device, layer, err);
    if (done == STATUS_OK) {
        const int64_t byte_count = run->device->table->packed_bytes(run->device, layer);
        const layer_answer answer = {
            .index = run->ranks.replica * run->terms.layer_count + layer,
            .hash = file_hash(FILE_HASH_START, packed.bytes, (size_t)byte_count)};
        exec_packet_put(&run->answer, &answer, sizeof answer);
    }
    exec_packet_free(&packed);
    return done;
}

status exec_run_hash(exec_run *run, const exec_command *command, error_message *err)
{
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_HASH);
    for (int index = 0; index < plan->layer_count; index++) {
        TRY(hash_layer(run, plan->layer[index], err));
    }
    return STATUS_OK;
}

status exec_leader_hash(exec_leader *leader, int iteration, error_message *err)
{
    const exec_run_terms *terms = &leader->run.terms;
    const size_t layers = (size_t)terms->replica_count * (size_t)terms->layer_count;
    const exec_gathered *gathered = &leader->run.gathered;
    const exec_command command = {.kind = EXEC_COMMAND_HASH, .iteration = iteration};
    uint64_t *hash = arena_array(leader->iteration_memory, layers, sizeof *hash);
    exec_run_begin_command(&leader->run, &command);
    TRY(exec_run_give_command(&leader->run, err));
    for (int index = 0; index < gathered->group->rank_count; index++) {
        exec_packet packet = exec_gathered_of(gathered, index);
        while (packet.taken_bytes < packet.byte_count) {
            const layer_answer *answer = exec_packet_take(&packet, sizeof *answer);
            hash[answer->index] = answer->hash;
        }
    }
    leader->reports.measured.state_hash = file_hash(FILE_HASH_START, hash, layers * sizeof *hash);
    return STATUS_OK;
}
