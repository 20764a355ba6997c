/// The state of the model after the last iteration: as one number, and in a file from which another
/// run goes on.
///
/// The file, in the byte order of the machine that wrote it: a head, for each layer the bytes of
/// its packed state and these, padded to a multiple of 8, and the FNV-1a of everything before.
#include "exec/run/run.h"

#include "base/file.h"
#include "exec/transport/activity.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { VERSION = 2, BYTE_ORDER_MARK = 0x01020304 };
static const size_t file_bytes_max = (size_t)1 << 42;

typedef struct file_head {
    char magic[8];
    int32_t byte_order;
    int32_t version;
    int64_t layer_count;
    int64_t iteration; // that comes next
} file_head;
static const char magic[8] = "dynmo-c";

/// One layer of the first replica; with wants_bytes its byte_count bytes follow.
typedef struct layer_answer {
    int64_t layer;
    int64_t byte_count;
    uint64_t hash; // file_hash of the bytes
} layer_answer;

/// Packs a layer of the device into a packet, after what is in it.
static status pack_layer(exec_run *run, int layer, bool wants_bytes, error_message *err)
{
    exec_packet packed = {0};
    layer_answer answer = {.layer = layer};
    const status done = exec_packet_pack(&packed, run->device, layer, err);
    if (done == STATUS_OK) {
        answer.byte_count = run->device->table->packed_bytes(run->device, layer);
        answer.hash = file_hash(FILE_HASH_START, packed.bytes, (size_t)answer.byte_count);
        exec_packet_put(&run->answer, &answer, (int64_t)sizeof answer);
        if (wants_bytes) exec_packet_put(&run->answer, packed.bytes, answer.byte_count);
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

/// @param answers [layer_count] of the layers in model order
/// @param states  [layer_count] their bytes
static status write_file(const char *path, int iteration, const layer_answer *answers,
                         const void *const *states, int layer_count, error_message *err)
{
    exec_packet file = {0};
    file_head head = {.byte_order = BYTE_ORDER_MARK,
                      .version = VERSION,
                      .layer_count = layer_count,
                      .iteration = iteration};
    memcpy(head.magic, magic, sizeof magic);
    exec_packet_put(&file, &head, (int64_t)sizeof head);
    for (int layer = 0; layer < layer_count; layer++) {
        const int64_t byte_count = answers[layer].byte_count;
        exec_packet_put(&file, &byte_count, (int64_t)sizeof byte_count);
        exec_packet_put(&file, states[layer], byte_count);
    }
    const uint64_t hash = file_hash(FILE_HASH_START, file.bytes, (size_t)file.byte_count);
    exec_packet_put(&file, &hash, (int64_t)sizeof hash);
    const status written = file_write(path, (char *)file.bytes, (size_t)file.byte_count, err);
    exec_packet_free(&file);
    return written;
}

status exec_leader_save(exec_leader *leader, int iteration, error_message *err)
{
    const char *path = leader->execution->checkpoint_write;
    const int layer_count = leader->run.terms.layer_count;
    const size_t layers = (size_t)layer_count;
    const exec_gathered *gathered = &leader->run.gathered;
    const exec_command command = {
        .kind = EXEC_COMMAND_PACK, .iteration = iteration, .wants_bytes = path != NULL};
    layer_answer *answers = arena_array(leader->iteration_memory, layers, sizeof *answers);
    const void **states = arena_array(leader->iteration_memory, layers, sizeof *states);
    uint64_t *hash = arena_array(leader->iteration_memory, layers, sizeof *hash);
    exec_run_begin_command(&leader->run, &command);
    TRY(exec_run_give_command(&leader->run, err));
    int64_t offset = 0;
    for (int index = 0; index < gathered->group->rank_count; index++) {
        exec_packet packet = exec_gathered_next(gathered, index, &offset);
        while (packet.taken_bytes < packet.byte_count) {
            const layer_answer *answer = exec_packet_take(&packet, (int64_t)sizeof *answer);
            answers[answer->layer] = *answer;
            hash[answer->layer] = answer->hash;
            if (path != NULL) {
                states[answer->layer] = exec_packet_take(&packet, answer->byte_count);
            }
        }
    }
    leader->state_hash = file_hash(FILE_HASH_START, hash, layers * sizeof *hash);
    if (path == NULL) return STATUS_OK;
    return write_file(path, iteration + 1, answers, states, layer_count, err);
}

static status check_head(const file_head *head, const char *name, error_message *err)
{
    if (head->version != VERSION || head->byte_order != BYTE_ORDER_MARK) {
        return error_set(err, STATUS_UNSUPPORTED,
                         "%s: a checkpoint of version %d, or of a machine with another byte order; "
                         "known is version %d",
                         name, head->version, VERSION);
    }
    if (head->iteration >= 0 && head->iteration <= INT_MAX && head->layer_count >= 1 &&
        head->layer_count <= INT_MAX) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_FORMAT, "%s: a checkpoint of %lld layers at iteration %lld", name,
                     (long long)head->layer_count, (long long)head->iteration);
}

status exec_checkpoint_parse(void *bytes, size_t length, const char *name, arena *memory,
                             exec_checkpoint *checkpoint, error_message *err)
{
    const file_head *head = bytes;
    const size_t end = length - sizeof(uint64_t);
    uint64_t hash;
    if (length < sizeof *head + sizeof hash || memcmp(head->magic, magic, sizeof magic) != 0) {
        return error_set(err, STATUS_FORMAT, "%s: this is not a checkpoint", name);
    }
    TRY(check_head(head, name, err));
    memcpy(&hash, (char *)bytes + end, sizeof hash);
    bool is_whole = hash == file_hash(FILE_HASH_START, bytes, end) &&
                    (uint64_t)head->layer_count <= end / sizeof(int64_t);
    const size_t layers = is_whole ? (size_t)head->layer_count : 0;
    exec_checkpoint read = {.iteration = (int)head->iteration, .layer_count = (int)layers};
    read.layers = arena_array(memory, layers, sizeof *read.layers);
    read.byte_count = arena_array(memory, layers, sizeof *read.byte_count);
    exec_packet file = exec_packet_of(bytes, (int64_t)end);
    (void)exec_packet_take(&file, (int64_t)sizeof *head);
    for (size_t layer = 0; layer < layers && is_whole; layer++) {
        is_whole = file.byte_count - file.taken_bytes >= (int64_t)sizeof(int64_t);
        if (!is_whole) break;
        const int64_t count = *(const int64_t *)exec_packet_take(&file, (int64_t)sizeof count);
        is_whole = count >= 0 && count <= (file.byte_count - file.taken_bytes) / 8 * 8;
        if (!is_whole) break;
        read.byte_count[layer] = count;
        read.layers[layer] = exec_packet_take(&file, count);
    }
    if (!is_whole || file.taken_bytes != file.byte_count) {
        return error_set(err, STATUS_FORMAT,
                         "%s: the checkpoint is cut off, or has other bytes than were written",
                         name);
    }
    *checkpoint = read;
    return STATUS_OK;
}

status exec_leader_read_checkpoint(exec_leader *leader, exec_checkpoint *checkpoint,
                                   error_message *err)
{
    const char *path = leader->execution->checkpoint_read;
    char *bytes = NULL;
    size_t length = 0;
    TRY(file_read(path, file_bytes_max, &bytes, &length, err));
    leader->restart_bytes = bytes;
    TRY(exec_checkpoint_parse(bytes, length, path, leader->memory, checkpoint, err));
    leader->first_iteration = checkpoint->iteration;
    if (checkpoint->layer_count != leader->run.terms.layer_count) {
        return error_set(err, STATUS_INVALID, "%s: the checkpoint has %d layers, the run %d", path,
                         checkpoint->layer_count, leader->run.terms.layer_count);
    }
    if (checkpoint->iteration < leader->training.iteration_count) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "%s: the checkpoint stands at iteration %d, and the run ends at %d", path,
                     checkpoint->iteration, leader->training.iteration_count);
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

status exec_leader_hand_out(exec_leader *leader, const exec_checkpoint *checkpoint,
                            const bal_placed_partition *placed, error_message *err)
{
    int *owner = arena_array(leader->next_memory, (size_t)checkpoint->layer_count, sizeof *owner);
    bal_placed_owners(placed, owner);
    for (int layer = 0; layer < checkpoint->layer_count; layer++) {
        TRY(hand_out_layer(&leader->run, checkpoint, layer, owner[layer], err));
    }
    return STATUS_OK;
}
