/// Telling the state of the layers to the leader: their hashes, or all of it for a checkpoint.
#include "exec/run/run_carry_out.h"

#include "base/file.h"
#include "exec/transport/activity.h"

/// Puts one layer into the answer: its head, and then its bytes or nothing.
static status pack_layer(exec_run *run, int layer, bool wants_bytes, error_message *err)
{
    exec_parcel packed = {0};
    status done = exec_parcel_pack(&packed, run->device, layer, err);
    if (done == STATUS_OK) {
        const int64_t byte_count = run->device->table->packed_bytes(run->device, layer);
        const exec_packed_answer answer = {
            .layer = layer,
            .byte_count = byte_count,
            .hash = file_hash(FILE_HASH_START, packed.bytes, (size_t)byte_count),
        };
        done = exec_parcel_put(&run->answer, &answer, (int64_t)sizeof answer);
        if (done == STATUS_OK && wants_bytes) {
            done = exec_parcel_put(&run->answer, packed.bytes, byte_count);
        }
    }
    exec_parcel_free(&packed);
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
