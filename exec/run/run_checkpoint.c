/// The state of the model: told by those who hold it, in checkpoints, as one number, and handed out
/// again.
#include "exec/run/run.h"

#include "base/file.h"
#include "exec/transport/activity.h"

/// One layer of the first replica; with wants_bytes byte_count bytes follow.
typedef struct exec_packed_answer {
    int64_t layer;
    int64_t byte_count;
    uint64_t hash; // file_hash of the bytes
} exec_packed_answer;

/// Puts one layer into the answer: its head, and then its bytes or nothing.
static status pack_layer(exec_run *run, int layer, bool wants_bytes, error_message *err)
{
    exec_packet packed = {0};
    const status done = exec_packet_pack(&packed, run->device, layer, err);
    if (done == STATUS_OK) {
        const int64_t byte_count = run->device->table->packed_bytes(run->device, layer);
        const exec_packed_answer answer = {
            .layer = layer,
            .byte_count = byte_count,
            .hash = file_hash(FILE_HASH_START, packed.bytes, (size_t)byte_count),
        };
        exec_packet_put(&run->answer, &answer, (int64_t)sizeof answer);
        if (wants_bytes) exec_packet_put(&run->answer, packed.bytes, byte_count);
    }
    exec_packet_free(&packed);
    return done;
}

status exec_run_pack(exec_run *run, const exec_command *command, error_message *err)
{
    const exec_run_plan *plan = exec_run_plan_in_force(run);
    exec_activity_set_phase(&run->endpoint->activity, command->iteration, EXEC_PHASE_CHECKPOINT);
    if (run->ranks.replica > 0) return STATUS_OK; // replicas have the same state
    for (int index = 0; index < plan->layer_count; index++) {
        TRY(pack_layer(run, plan->layer[index], command->wants_bytes, err));
    }
    return STATUS_OK;
}

/// What was told of the layers. Arrays are in iteration_memory, states in the answers.
typedef struct told_layers {
    const void **layers; // [layer_count], or NULLs
    int64_t *byte_count; // [layer_count]
    uint64_t *hash;      // [layer_count]
} told_layers;

/// Has all layers told by the ranks that hold them.
static status tell(exec_leader *leader, int iteration, bool wants_bytes, told_layers *told,
                   error_message *err)
{
    const exec_command command = {
        .kind = EXEC_COMMAND_PACK, .iteration = iteration, .wants_bytes = wants_bytes};
    const size_t layers = (size_t)leader->run.terms.layer_count;
    const exec_gathered *gathered = &leader->run.gathered;
    told->layers = arena_array(leader->iteration_memory, layers, sizeof *told->layers);
    told->byte_count = arena_array(leader->iteration_memory, layers, sizeof *told->byte_count);
    told->hash = arena_array(leader->iteration_memory, layers, sizeof *told->hash);
    exec_run_begin_command(&leader->run, &command);
    TRY(exec_run_give_command(&leader->run, err));
    int64_t offset = 0;
    for (int index = 0; index < gathered->group->rank_count; index++) {
        exec_packet packet = exec_gathered_next(gathered, index, &offset);
        while (packet.taken_bytes < packet.byte_count) {
            const exec_packed_answer *answer = exec_packet_take(&packet, (int64_t)sizeof *answer);
            told->hash[answer->layer] = answer->hash;
            told->byte_count[answer->layer] = answer->byte_count;
            if (!wants_bytes) continue;
            told->layers[answer->layer] = exec_packet_take(&packet, answer->byte_count);
        }
    }
    return STATUS_OK;
}

status exec_leader_save(exec_leader *leader, int iteration, error_message *err)
{
    const exec_training *execution = leader->execution;
    const int every = execution->checkpoint_every;
    const bool is_last = iteration + 1 == leader->training.iteration_count;
    const bool is_due = execution->checkpoint_write != NULL &&
                        (is_last || (every > 0 && (iteration + 1) % every == 0));
    const bool wants_hash = is_last && leader->learns;
    told_layers told;
    if (!is_due && !wants_hash) return STATUS_OK;
    TRY(tell(leader, iteration, is_due, &told, err));
    const size_t layers = (size_t)leader->run.terms.layer_count;
    if (wants_hash) {
        leader->state_hash = file_hash(FILE_HASH_START, told.hash, layers * sizeof *told.hash);
    }
    if (!is_due) return STATUS_OK;
    const exec_checkpoint checkpoint = {
        .iteration = iteration + 1,
        .layer_count = (int)layers,
        .layers = told.layers,
        .byte_count = told.byte_count,
    };
    return exec_checkpoint_write(execution->checkpoint_write, &checkpoint, err);
}

/// Sends the state of a layer to the rank that shall hold it, in all replicas.
static status hand_out_layer(exec_run *run, const exec_checkpoint *checkpoint, int layer, int rank,
                             error_message *err)
{
    const exec_layer_head head = {.byte_count = checkpoint->byte_count[layer]};
    exec_packet packet = {0};
    status sent = STATUS_OK;
    exec_packet_put(&packet, &head, (int64_t)sizeof head);
    exec_packet_put(&packet, checkpoint->layers[layer], head.byte_count);
    for (int replica = 0; replica < run->ranks.replica_count && sent == STATUS_OK; replica++) {
        sent = exec_packet_send(run->endpoint, exec_run_world_rank(&run->ranks, replica, rank),
                                EXEC_MESSAGE_MIGRATE, layer, &packet, err);
    }
    exec_packet_free(&packet);
    return sent;
}

status exec_leader_read_checkpoint(exec_leader *leader, exec_checkpoint *checkpoint,
                                   error_message *err)
{
    const char *path = leader->execution->checkpoint_read;
    TRY(exec_checkpoint_read(path, leader->memory, checkpoint, err));
    if (checkpoint->layer_count != leader->run.terms.layer_count) {
        return error_set(err, STATUS_INVALID, "%s: the checkpoint has %d layers, the run %d", path,
                         checkpoint->layer_count, leader->run.terms.layer_count);
    }
    if (checkpoint->iteration < leader->training.iteration_count) {
        leader->first_iteration = checkpoint->iteration;
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID,
                     "%s: the checkpoint stands at iteration %d, and the run ends at %d", path,
                     checkpoint->iteration, leader->training.iteration_count);
}

status exec_leader_hand_out(exec_leader *leader, const exec_checkpoint *checkpoint,
                            const bal_placed_partition *placed, error_message *err)
{
    exec_activity_set_phase(&leader->run.endpoint->activity, leader->first_iteration,
                            EXEC_PHASE_CHECKPOINT);
    for (int stage = 0; stage < bal_placed_stage_count(placed); stage++) {
        const int rank = bal_placed_machine_rank(placed, stage);
        for (int layer = placed->first_layer[stage]; layer < placed->first_layer[stage + 1];
             layer++) {
            TRY(hand_out_layer(&leader->run, checkpoint, layer, rank, err));
        }
    }
    return STATUS_OK;
}
