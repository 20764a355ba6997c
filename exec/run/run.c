/// A rank of an execution: its groups, and the commands that it hears or gives.
#include "exec/run/run.h"

#include "base/file.h"
#include "exec/transport/transport.h"

#include <stdlib.h>
#include <string.h>

/// A group without ranks, and room for them.
static exec_group group_of(exec_endpoint *endpoint, int channel, arena *memory)
{
    return (exec_group){.endpoint = endpoint,
                        .rank = arena_array(memory, (size_t)endpoint->rank_count, sizeof(int)),
                        .self = -1,
                        .sequence = arena_array(memory, 1, sizeof(int)),
                        .channel = channel};
}

/// Ranks are added in rising order.
static void group_add(exec_group *group, int rank)
{
    if (rank == group->endpoint->rank) group->self = group->rank_count;
    group->rank[group->rank_count++] = rank;
}

static void fill_groups(exec_run_ranks *ranks)
{
    ranks->awake.rank_count = ranks->pipeline.rank_count = 0;
    ranks->awake.self = ranks->pipeline.self = -1;
    for (int rank = 0; rank < ranks->endpoint->rank_count; rank++) {
        if (ranks->place[rank] >= 0 || rank == EXEC_LEADER) group_add(&ranks->awake, rank);
        if (ranks->place[rank] >= 0 && rank / ranks->rank_count == ranks->replica) {
            group_add(&ranks->pipeline, rank);
        }
    }
    *ranks->awake.sequence = *ranks->pipeline.sequence = *ranks->replicas.sequence = 0;
}

/// All ranks active.
static status ranks_init(exec_run_ranks *ranks, exec_endpoint *endpoint, int replica_count,
                         int rank_count, arena *memory, error_message *err)
{
    const int world = endpoint->rank_count;
    if ((int64_t)replica_count * rank_count != world) {
        return error_set(err, STATUS_INVALID,
                         "%d replicas of %d ranks need %lld ranks, and the world has %d",
                         replica_count, rank_count, (long long)replica_count * rank_count, world);
    }
    *ranks = (exec_run_ranks){
        .endpoint = endpoint,
        .replica_count = replica_count,
        .rank_count = rank_count,
        .replica = endpoint->rank / rank_count,
        .machine_rank = endpoint->rank % rank_count,
        .place = arena_array(memory, (size_t)world, sizeof *ranks->place),
    };
    ranks->world = group_of(endpoint, EXEC_CHANNEL_WORLD, memory);
    ranks->awake = group_of(endpoint, EXEC_CHANNEL_AWAKE, memory);
    ranks->pipeline = group_of(endpoint, EXEC_CHANNEL_PIPELINE, memory);
    ranks->replicas = group_of(endpoint, EXEC_CHANNEL_REPLICAS, memory);
    for (int rank = 0; rank < world; rank++) {
        ranks->place[rank] = rank;
        group_add(&ranks->world, rank);
    }
    for (int replica = 0; replica < replica_count; replica++) {
        group_add(&ranks->replicas, exec_run_world_rank(ranks, replica, ranks->machine_rank));
    }
    fill_groups(ranks);
    return STATUS_OK;
}

int exec_run_world_rank(const exec_run_ranks *ranks, int replica, int machine_rank)
{
    return replica * ranks->rank_count + machine_rank;
}

int exec_run_place_of(const bal_placed_partition *plan, int machine_rank)
{
    for (int place = 0; place < plan->rank_count; place++) {
        const int rank = plan->machine_rank != NULL ? plan->machine_rank[place] : place;
        if (rank == machine_rank) return place;
    }
    return -1;
}

bool exec_run_ranks_differ(const exec_run_ranks *ranks, const bal_placed_partition *plan)
{
    for (int rank = 0; rank < ranks->endpoint->rank_count; rank++) {
        if (ranks->place[rank] != exec_run_place_of(plan, rank % ranks->rank_count)) return true;
    }
    return false;
}

void exec_run_ranks_activate(exec_run_ranks *ranks, const bal_placed_partition *plan)
{
    for (int rank = 0; rank < ranks->endpoint->rank_count; rank++) {
        ranks->place[rank] = exec_run_place_of(plan, rank % ranks->rank_count);
    }
    // All earlier collectives are over on all ranks, so that their numbers may come again.
    fill_groups(ranks);
}

status exec_run_open(exec_run *run, exec_endpoint *endpoint, const exec_training *training,
                     const exec_run_terms *terms, error_message *err)
{
    const int world = endpoint->rank_count;
    *run = (exec_run){
        .endpoint = endpoint,
        .training = training,
        .memory = arena_create(1 << 14),
        .scratch = arena_create(1 << 16),
    };
    run->order_count = arena_array(run->memory, (size_t)world, sizeof *run->order_count);
    // One replica of the whole world, until it is known how many there are.
    exec_activity_set_phase(&endpoint->activity, 0, EXEC_PHASE_START);
    TRY(ranks_init(&run->ranks, endpoint, 1, world, run->memory, err));
    if (endpoint->rank == EXEC_LEADER) run->terms = *terms;
    TRY(exec_group_broadcast(&run->ranks.world, &run->terms, sizeof run->terms, err));
    TRY(ranks_init(&run->ranks, endpoint, run->terms.replica_count, run->terms.machine.rank_count,
                   run->memory, err));
    return training->devices.create(training->devices.context, endpoint->rank, &run->device, err);
}

void exec_run_close(exec_run *run)
{
    if (run->device != NULL) run->device->table->destroy(run->device);
    arena_destroy(run->plans[0].memory);
    arena_destroy(run->plans[1].memory);
    arena_destroy(run->costs.memory);
    exec_packet_free(&run->costs.packet);
    exec_packet_free(&run->command);
    exec_packet_free(&run->answer);
    arena_destroy(run->memory);
    arena_destroy(run->scratch);
    *run = (exec_run){0};
}

const exec_run_plan *exec_run_plan_in_force(const exec_run *run)
{
    return &run->plans[run->plan_index];
}

void exec_run_begin_command(exec_run *run, const exec_command *command)
{
    exec_packet_reset(&run->command);
    exec_packet_put(&run->command, command, sizeof *command);
}

/// Whether ranks that sleep must hear of a command, too.
static bool concerns_all(const exec_command *command)
{
    return command->kind == EXEC_COMMAND_END ||
           (command->kind == EXEC_COMMAND_MOVE && command->changes_ranks);
}

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

/// The state of the model after the last iteration, as one number: every rank knows the hashes of
/// its own layers; the others are 0 there, so that sums are all.
static status hash(exec_run *run, const exec_command *command, error_message *err)
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

static status (*const carriers[EXEC_COMMAND_END])(exec_run *, const exec_command *,
                                                  error_message *) = {
    [EXEC_COMMAND_MOVE] = exec_run_move,
    [EXEC_COMMAND_ITERATE] = exec_run_iterate,
    [EXEC_COMMAND_DIFFUSE] = exec_run_diffuse,
    [EXEC_COMMAND_HASH] = hash,
};

/// Does what run->command says, and gathers the answers at the leader.
static status carry_out(exec_run *run, bool *is_end, error_message *err)
{
    const exec_command command =
        *(const exec_command *)exec_packet_take(&run->command, sizeof command);
    // After a change of ranks the group is another; all of the world are awake then.
    const exec_group *group = concerns_all(&command) ? &run->ranks.world : &run->ranks.awake;
    arena_reset(run->scratch);
    exec_packet_reset(&run->answer);
    *is_end = command.kind == EXEC_COMMAND_END;
    if (*is_end) return exec_group_barrier(group, err);
    TRY(carriers[command.kind](run, &command, err));
    int64_t *sizes = arena_array(run->scratch, (size_t)group->rank_count, sizeof *sizes);
    void *bytes = NULL;
    TRY(exec_group_gather(group, run->answer.bytes, run->answer.byte_count, run->scratch, sizes,
                          &bytes, err));
    run->answers = (exec_packet){.bytes = bytes};
    for (int rank = 0; rank < group->rank_count; rank++) {
        run->answers.byte_count += sizes[rank];
    }
    return STATUS_OK;
}

/// Sends the command to those who sleep.
static status wake(exec_run *run, error_message *err)
{
    for (int rank = 0; rank < run->endpoint->rank_count; rank++) {
        if (rank == EXEC_LEADER || run->ranks.place[rank] >= 0) continue;
        TRY(exec_packet_send(run->endpoint, rank, EXEC_MESSAGE_ORDER, run->order_count[rank]++,
                             &run->command, err));
    }
    return STATUS_OK;
}

status exec_run_give_command(exec_run *run, error_message *err)
{
    bool is_end = false;
    const exec_command *command = (const exec_command *)(const void *)run->command.bytes;
    if (concerns_all(command)) TRY(wake(run, err));
    TRY(exec_packet_share(&run->ranks.awake, &run->command, err));
    return carry_out(run, &is_end, err);
}

status exec_run_follow(exec_run *run, error_message *err)
{
    const int self = run->endpoint->rank;
    bool is_end = false;
    while (!is_end) {
        if (run->ranks.awake.self >= 0) {
            TRY(exec_packet_share(&run->ranks.awake, &run->command, err));
        } else {
            exec_activity_set_phase(&run->endpoint->activity, 0, EXEC_PHASE_RELEASED);
            TRY(exec_packet_receive(run->endpoint, EXEC_LEADER, EXEC_MESSAGE_ORDER,
                                    run->order_count[self]++, &run->command, err));
        }
        TRY(carry_out(run, &is_end, err));
    }
    return STATUS_OK;
}

// How far the clocks of the ranks are from the leader's: those of other nodes count from another
// moment, and drift.

/// Clocks drift apart by no more than this: 50 ppm, what quartz and NTP's slewing stay well within.
enum { FIRST_ROUNDS = 16, DRIFT_DIVISOR = 20000 };

static uint64_t key_of(int iteration)
{
    return exec_message_key(EXEC_MESSAGE_GROUP, iteration, EXEC_STAGE_MAX - 1, 0);
}

/// The leader tells a rank its time, as often as the rank asks: value[0] counts down to the last.
static status tell(exec_run *run, int rank, uint64_t key, error_message *err)
{
    const exec_transport *transport = run->endpoint->transport;
    exec_message question = {.value = {1}};
    while (question.value[0] > 0) {
        TRY(transport->receive(run->endpoint, rank, key, &question, NULL, 0, err));
        const exec_message answer = {.key = key, .value = {exec_endpoint_now_ns(run->endpoint)}};
        TRY(transport->send(run->endpoint, rank, &answer, NULL, err));
    }
    return STATUS_OK;
}

/// The leader read its clock between question and answer. So half of the time between them bounds
/// the error of the middle; that of an earlier answer grows as clocks drift. A clock that can be
/// the leader's is.
static void take(exec_clock_offset *clock, int64_t asked_ns, int64_t told_ns, int64_t heard_ns)
{
    const int64_t residual_ns = (heard_ns - asked_ns) / 2 + 1;
    clock->residual_ns += (heard_ns - clock->heard_ns) / DRIFT_DIVISOR + 1;
    clock->heard_ns = heard_ns;
    if (clock->is_known && clock->residual_ns < residual_ns) return;
    const int64_t offset_ns = asked_ns + (heard_ns - asked_ns) / 2 - told_ns;
    *clock = (exec_clock_offset){.is_known = true,
                                 .offset_ns = llabs(offset_ns) <= residual_ns ? 0 : offset_ns,
                                 .residual_ns = residual_ns,
                                 .heard_ns = heard_ns};
}

static status ask(exec_run *run, uint64_t key, error_message *err)
{
    const exec_transport *transport = run->endpoint->transport;
    for (int left = run->clock.is_known ? 0 : FIRST_ROUNDS - 1; left >= 0; left--) {
        exec_message answer;
        const int64_t asked_ns = exec_endpoint_now_ns(run->endpoint);
        const exec_message question = {.key = key, .value = {left}};
        TRY(transport->send(run->endpoint, EXEC_LEADER, &question, NULL, err));
        TRY(transport->receive(run->endpoint, EXEC_LEADER, key, &answer, NULL, 0, err));
        take(&run->clock, asked_ns, answer.value[0], exec_endpoint_now_ns(run->endpoint));
    }
    return STATUS_OK;
}

status exec_run_compare_clocks(exec_run *run, int iteration, error_message *err)
{
    const exec_group *group = &run->ranks.awake;
    if (strcmp(run->endpoint->transport->name, "local") == 0) return STATUS_OK; // one process
    if (run->endpoint->rank != EXEC_LEADER) return ask(run, key_of(iteration), err);
    for (int index = 0; index < group->rank_count; index++) {
        if (group->rank[index] == EXEC_LEADER) continue;
        TRY(tell(run, group->rank[index], key_of(iteration), err));
    }
    return STATUS_OK;
}
