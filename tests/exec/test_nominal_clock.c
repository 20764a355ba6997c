/// Executed under the nominal clock a run is the simulator's replay of it, to the ns: every op of
/// every replica, every part of every iteration, every plan. Ranks are threads.
#include "balance/migration/migration.h"
#include "base/arena.h"
#include "exec/run/execution.h"
#include "sim/training_plan.h"
#include "sim/training_play.h"
#include "sim/training_replay.h"
#include "tests/drawn_run.h"
#include "tests/exec/thread_ranks.h"
#include "tests/test_memory.h"

#include <stdlib.h>

enum { ITERATIONS_MAX = 16, STAGES_MAX = 64 };

/// What a player said of an iteration, without the arrays that it lent.
typedef struct seen_iteration {
    bal_training_iteration record;
    int first_layer[STAGES_MAX + 1];
    int machine_rank[STAGES_MAX];
    int64_t rank_work_ns[STAGES_MAX];
    int64_t migration_finish_ns;
    int64_t migrated_bytes;
} seen_iteration;

typedef struct seen_run {
    const bal_training *training;
    int chunk_count;
    int count;
    seen_iteration iterations[ITERATIONS_MAX];
    bal_training_result result;
    arena *memory;
    error_message err;
} seen_run;

static status keep_record(void *context, const bal_training_iteration *iteration,
                          error_message *err)
{
    seen_run *seen = context;
    seen_iteration *kept = &seen->iterations[seen->count++];
    const size_t ranks = (size_t)iteration->rank_count;
    const size_t stages = ranks * (size_t)seen->chunk_count;
    kept->record = *iteration;
    memcpy(kept->first_layer, iteration->first_layer, (stages + 1) * sizeof(int));
    memcpy(kept->machine_rank, iteration->machine_rank, ranks * sizeof(int));
    memcpy(kept->rank_work_ns, iteration->rank_work_ns, ranks * sizeof(int64_t));
    return STATUS_OK;
}

/// Compares every op of every replica with the simulator's.
static status check_ops(void *context, const exec_measured *measured, error_message *err)
{
    seen_run *seen = context;
    const bal_played_plan *played = measured->played;
    const int ops = played->schedule->first_op[played->schedule->rank_count];
    sim_plan_replay replay;
    if (sim_plan_replay_play(&seen->training->machine, played, memory, &replay, err) != STATUS_OK) {
        return err->code;
    }
    status compared = STATUS_OK;
    for (int replica = 0; replica < played->replica_count && compared == STATUS_OK; replica++) {
        const bal_timeline *own = &measured->timelines[replica];
        const bal_timeline *other = &replay.timelines[replica];
        for (int op = 0; op < ops; op++) {
            if (own->begin_ns[op] == other->begin_ns[op] && own->end_ns[op] == other->end_ns[op]) {
                continue;
            }
            compared = error_set(err, STATUS_INVALID,
                                 "iteration %d, replica %d, op %d: executed %lld to %lld, "
                                 "simulated %lld to %lld",
                                 measured->record->iteration, replica, op,
                                 (long long)own->begin_ns[op], (long long)own->end_ns[op],
                                 (long long)other->begin_ns[op], (long long)other->end_ns[op]);
            break;
        }
    }
    // Transfers that overlap the backward sweep count from when they stick out of it.
    const bal_training_iteration *record = measured->record;
    const int64_t exposed_ns = measured->migration_finish_ns - replay.times.makespan_ns;
    if (compared == STATUS_OK && seen->training->migration.overlaps && record->rebalanced &&
        record->migration_ns != (exposed_ns > 0 ? exposed_ns : 0)) {
        compared =
            error_set(err, STATUS_INVALID, "iteration %d: %lld ns of migration, not %lld",
                      record->iteration, (long long)record->migration_ns, (long long)exposed_ns);
    }
    seen->iterations[seen->count - 1].migration_finish_ns = measured->migration_finish_ns;
    seen->iterations[seen->count - 1].migrated_bytes = measured->migrated_bytes;
    return compared;
}

static status make_timed(void *context, int world_rank, exec_device **device, error_message *err)
{
    const bal_training *training = context;
    *device = exec_device_timed_create(training->sources[0].layer_count);
    return STATUS_OK;
}

typedef struct execution {
    exec_training training;
    seen_run *seen;
} execution;

static status run_rank(exec_endpoint *endpoint, void *context, error_message *err)
{
    execution *run = context;
    return exec_training_rank(endpoint, &run->training, run->seen->memory, &run->seen->result, err);
}

static seen_run *seen_create(const bal_training *training)
{
    seen_run *seen = memory_array(1, sizeof *seen);
    const bal_schedule_family *family = bal_schedule_family_find(training->schedule);
    seen->training = training;
    seen->chunk_count = bal_schedule_chunk_count(family, training->chunk_count);
    seen->memory = arena_create(1 << 16);
    return seen;
}

static void seen_destroy(seen_run *seen)
{
    arena_destroy(seen->memory);
    free(seen);
}

static status execute(const exec_training *with, seen_run *seen)
{
    const bal_training *training = with->training;
    bal_training told = *training;
    const exec_training_listener listener = {seen, check_ops};
    execution run = {.training = *with, .seen = seen};
    told.sink = (bal_record_sink){.context = seen, .put = keep_record};
    assert_ok(sim_predictor_create(training, seen->memory, &run.training.evaluator, &seen->err));
    run.training.training = &told;
    run.training.devices = (exec_device_maker){(void *)training, make_timed};
    run.training.clock = EXEC_CLOCK_NOMINAL;
    if (with->listener == NULL) run.training.listener = &listener;
    const status executed = run_threads(training->data_parallel * training->machine.rank_count,
                                        run_rank, &run, &seen->err);
    return executed;
}

static status simulate(const bal_training *training, seen_run *seen)
{
    bal_training told = *training;
    told.sink = (bal_record_sink){.context = seen, .put = keep_record};
    return sim_training_replay(&told, NULL, seen->memory, &seen->result, &seen->err);
}

static void compare_iterations(const seen_iteration *executed, const seen_iteration *simulated,
                               int chunk_count)
{
    const bal_training_iteration *own = &executed->record;
    const bal_training_iteration *other = &simulated->record;
    assert_int_equal(own->iteration, other->iteration);
    assert_int_equal(own->rank_count, other->rank_count);
    const size_t ranks = (size_t)own->rank_count;
    assert_memory_equal(executed->first_layer, simulated->first_layer,
                        (ranks * (size_t)chunk_count + 1) * sizeof(int));
    assert_memory_equal(executed->machine_rank, simulated->machine_rank, ranks * sizeof(int));
    assert_memory_equal(executed->rank_work_ns, simulated->rank_work_ns, ranks * sizeof(int64_t));
    assert_int_equal(own->pipeline_ns, other->pipeline_ns);
    assert_int_equal(own->reduction_ns, other->reduction_ns);
    assert_int_equal(own->profile_ns, other->profile_ns);
    assert_int_equal(own->changed, other->changed);
    assert_int_equal(own->action, other->action);
    assert_int_equal(own->reason, other->reason);
    assert_int_equal(own->was_asked, other->was_asked);
    assert_int_equal(own->decision_ns, other->decision_ns);
    assert_int_equal(own->rebalanced, other->rebalanced);
    assert_int_equal(own->moved_layer_count, other->moved_layer_count);
    assert_int_equal(own->moved_bytes, other->moved_bytes);
    assert_int_equal(own->migration_ns, other->migration_ns);
    assert_int_equal(own->iteration_ns, other->iteration_ns);
    assert_int_equal(own->replica_count, other->replica_count);
    assert_int_equal(own->microbatch_count, other->microbatch_count);
    assert_memory_equal(&own->gpus, &other->gpus, sizeof own->gpus);
    assert_memory_equal(&own->metrics, &other->metrics, sizeof own->metrics);
}

static void compare_results(const seen_run *executed, const seen_run *simulated)
{
    const bal_training_result *own = &executed->result;
    const bal_training_result *other = &simulated->result;
    const bal_training *training = executed->training;
    assert_int_equal(own->total_ns, other->total_ns);
    assert_int_equal(own->decision_count, other->decision_count);
    assert_int_equal(own->rebalance_count, other->rebalance_count);
    assert_int_equal(own->repack_count, other->repack_count);
    assert_int_equal(own->change_count, other->change_count);
    assert_int_equal(own->moved_bytes, other->moved_bytes);
    assert_int_equal(own->bottleneck_ns, other->bottleneck_ns);
    assert_int_equal(own->stage_count, other->stage_count);
    assert_int_equal(own->gpu_ns, other->gpu_ns);
    assert_int_equal(own->idle_gpu_ns, other->idle_gpu_ns);
    assert_int_equal(own->fits, other->fits);
    assert_int_equal(own->final_rank_count, other->final_rank_count);
    assert_memory_equal(own->final_first_layer, other->final_first_layer,
                        ((size_t)own->final_rank_count * (size_t)executed->chunk_count + 1) *
                            sizeof(int));
    assert_memory_equal(own->peak_memory_bytes, other->peak_memory_bytes,
                        (size_t)training->machine.rank_count * sizeof(int64_t));
    // The simulator counts replicas that it does not play as the mean of those that it does.
    if (training->data_parallel % training->source_count == 0) {
        assert_close(own->bubble_ratio, other->bubble_ratio, 1e-9);
    }
}

/// State of each layer, the largest over the replicas.
static void fill_state_bytes(const drawn_run *run, int64_t *state_bytes)
{
    for (int source = 0; source < run->training.source_count; source++) {
        for (int layer = 0; layer < run->ports[0].layer_count; layer++) {
            const int64_t bytes = run->sources[source].bytes[layer];
            if (source == 0 || bytes > state_bytes[layer]) state_bytes[layer] = bytes;
        }
    }
}

/// The clocks of the ranks, of which none has those of all, end where the sums over the ordered
/// transfers do.
static void check_migrations(const drawn_run *run, const seen_run *executed)
{
    const bal_training *training = &run->training;
    int64_t state_bytes[DRAWN_LAYERS_MAX];
    fill_state_bytes(run, state_bytes);
    const bal_layer_costs layers = {.layer_count = run->ports[0].layer_count,
                                    .state_bytes = state_bytes};
    for (int iteration = 0; iteration + 1 < executed->count; iteration++) {
        const seen_iteration *before = &executed->iterations[iteration];
        const seen_iteration *after = &executed->iterations[iteration + 1];
        bal_placed_partition plans[2];
        for (int plan = 0; plan < 2; plan++) {
            const seen_iteration *seen = plan == 0 ? before : after;
            plans[plan] = (bal_placed_partition){
                .first_layer = seen->first_layer,
                .rank_count = seen->record.rank_count,
                .chunk_count = executed->chunk_count,
                .placement = bal_schedule_family_find(training->schedule)->placement,
                .machine_rank = seen->machine_rank};
        }
        bal_migration migration;
        bal_migration ordered;
        int64_t finish_ns = 0;
        assert_ok(bal_migration_between(&plans[0], &plans[1], &layers, &training->machine, memory,
                                        &migration, NULL));
        assert_ok(bal_migration_order(&plans[0], &migration, &layers, &training->machine, memory,
                                      &ordered, NULL));
        assert_ok(bal_migration_finish_ns(&ordered, &layers, &training->machine, NULL, memory,
                                          &finish_ns, NULL));
        assert_int_equal(before->migration_finish_ns, finish_ns);
    }
}

/// Both players play the run; everything that they say of it is the same.
///
/// @param how of the execution, but for the run itself
static void both_agree_on(drawn_run *run, const exec_training *how)
{
    seen_run *executed = seen_create(&run->training);
    seen_run *simulated = seen_create(&run->training);
    exec_training training = *how;
    training.training = &run->training;

    rewind_run(run);
    const status replayed = simulate(&run->training, simulated);
    rewind_run(run);
    const status played = execute(&training, executed);

    assert_string_equal(executed->err.message, simulated->err.message);
    assert_int_equal(played, replayed);
    assert_int_equal(executed->count, simulated->count);
    for (int iteration = 0; iteration < executed->count; iteration++) {
        compare_iterations(&executed->iterations[iteration], &simulated->iterations[iteration],
                           executed->chunk_count);
    }
    if (played == STATUS_OK) compare_results(executed, simulated);
    if (!run->training.migration.overlaps) check_migrations(run, executed);
    seen_destroy(executed);
    seen_destroy(simulated);
}

static void both_agree(drawn_run *run)
{
    const exec_training plain = {0};
    both_agree_on(run, &plain);
}

/// Counts how often ranks were released and taken back in a simulated run.
static void count_repacks(drawn_run *run, int *shrunk, int *grown)
{
    seen_run *simulated = seen_create(&run->training);
    rewind_run(run);
    (void)simulate(&run->training, simulated);
    for (int iteration = 1; iteration < simulated->count; iteration++) {
        const int before = simulated->iterations[iteration - 1].record.rank_count;
        const int ranks = simulated->iterations[iteration].record.rank_count;
        *shrunk += ranks < before;
        *grown += ranks > before;
    }
    seen_destroy(simulated);
}

static uint64_t last_seed; // of the run that is played

/// Says which run it was that a test ended with.
static int print_seed(void **state)
{
    print_message("last seed %d\n", (int)last_seed);
    return 0;
}

TEST_BETWEEN(random_runs_are_executed_as_they_are_simulated, NULL, print_seed)
{
    static const int rank_counts[] = {1, 2, 3, 4, 7, 8};
    drawn_run *run = memory_array(1, sizeof *run);
    for (uint64_t seed = 0; seed < 60 / TEST_SHARE; seed++) {
        const int ranks = rank_counts[seed % 6];
        last_seed = seed;
        draw_run(run, seed, ranks, 30 - ranks, ranks <= 4 ? 1 + (int)(seed / 6 % 3) : 1, 6);
        both_agree(run);
    }
    free(run);
}

TEST_BETWEEN(ranks_that_decide_among_themselves_decide_as_the_simulator_does, NULL, print_seed)
{
    static const int rank_counts[] = {2, 3, 4, 7, 8, 16};
    const exec_training distributed = {.distributes_decisions = true};
    drawn_run *run = memory_array(1, sizeof *run);
    for (uint64_t seed = 0; seed < 36 / TEST_SHARE; seed++) {
        last_seed = seed;
        const int ranks = rank_counts[seed % 6];
        draw_run(run, seed, ranks, 30 - ranks, 1, 6);
        run->training.balancer = bal_balancer_find("diffusion");
        run->training.information = BAL_INFORMATION_PROFILE;
        run->training.policy =
            (bal_policy){.kind = BAL_POLICY_EVERY, .period = 1 + (int)(seed % 2)};
        both_agree_on(run, &distributed);
    }
    free(run);
}

TEST(what_ranks_cannot_decide_among_themselves_is_refused)
{
    const exec_training distributed = {.distributes_decisions = true};
    drawn_run *run = memory_array(1, sizeof *run);
    draw_run(run, 1, 2, 28, 1, 2);
    run->training.balancer = bal_balancer_find("partition");
    seen_run *executed = seen_create(&run->training);
    exec_training training = distributed;
    training.training = &run->training;

    assert_int_equal(execute(&training, executed), STATUS_UNSUPPORTED);

    assert_string_equal(executed->err.message,
                        "rank 0, iteration 0, start: ranks decide among themselves on what each "
                        "has measured of its "
                        "own layers: not with another balancer than diffusion");
    seen_destroy(executed);
    free(run);
}

TEST_BETWEEN(sixteen_and_twentyfour_ranks_agree_under_every_schedule, NULL, print_seed)
{
    int count = 0;
    const bal_schedule_family *families = bal_schedule_families(&count);
    drawn_run *run = memory_array(1, sizeof *run);
    for (int index = 0; index < 2 * count; index++) {
        const bal_schedule_family *family = &families[index % count];
        if (family->placement == BAL_PLACEMENT_BIDIRECTIONAL) continue; // refused
        const int ranks = index < count ? 16 : 24;
        const int chunks = bal_schedule_chunk_count(family, 0);
        last_seed = (uint64_t)index;
        draw_run(run, 1000 + (uint64_t)index, ranks, 30 - ranks, 1, 2);
        bal_training *training = &run->training;
        training->schedule = family->name;
        training->chunk_count = chunks > 1 ? chunks : 0;
        rng generator = rng_init(last_seed, 1);
        training->balancer = draw_balancer(&generator, family, ranks);
        training->microbatch_count =
            bal_schedule_microbatch_count(family, ranks, training->microbatch_count);
        assert_true(training->microbatch_count > 0);
        if (2 * ranks > run->sources[0].layer_count && chunks > 1) continue;
        both_agree(run);
    }
    free(run);
}

/// Re-packing of all kinds, on runs whose loads fall, so that ranks are released, and rise again.
TEST_BETWEEN(released_ranks_come_and_go_as_simulated, NULL, print_seed)
{
    drawn_run *run = memory_array(1, sizeof *run);
    int shrunk = 0;
    int grown = 0;
    for (uint64_t seed = 0; seed < 60 / TEST_SHARE; seed++) {
        rng generator = rng_init(seed, 1);
        last_seed = seed;
        const int ranks = 2 + pick(&generator, 4);
        draw_run(run, 2000 + seed, ranks, 30 - ranks, 1 + pick(&generator, 2), 10);
        bal_training *training = &run->training;
        const bool has_chunks = training->chunk_count > 1;
        training->repack.kind =
            (bal_repack_kind)(1 + pick(&generator, has_chunks ? BAL_REPACK_PUBLISHED - 1
                                                              : BAL_REPACK_COUNT - 1));
        training->repack.tolerance_ratio = rng_unit(&generator);
        training->repack.use = pick(&generator, 2) == 0 ? BAL_RELEASED_RELEASE : BAL_RELEASED_LEND;
        training->repack.load_threshold_ratio = 1;
        training->repack.target_rank_count = 1;
        for (int source = 0; source < DRAWN_REPLICAS_MAX; source++) {
            run->sources[source].comes_back = true;
        }
        both_agree(run);
        count_repacks(run, &shrunk, &grown);
    }
    assert_true(shrunk > 10 / TEST_SHARE);
    assert_true(grown > 3 / TEST_SHARE);
    free(run);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
