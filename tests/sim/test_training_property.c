/// The replay of random runs: sources, replicas, slow ranks, schedules, balancers, policies and
/// re-packing are drawn. Whatever happens, every layer is somewhere exactly once, times and GPUs
/// add up, the timeline agrees with the summary, and gradients are reduced as the plainest loop
/// says.
#include "base/arena.h"
#include "base/rng.h"
#include "sim/training_replay.h"
#include "tests/drawn_run.h"
#include "tests/test.h"
#include "tests/test_memory.h"

#include <stdlib.h>
#include <string.h>

enum { ITERATIONS = 14, RUNS = 400 / TEST_SHARE };

/// A run, and what is known of it while it is played.
typedef struct checked_run {
    uint64_t seed;
    drawn_run drawn;
    int count; // iterations so far
    int rank_of_layer[DRAWN_LAYERS_MAX];
    int moved_layer_count;    // after the last iteration
    bal_training_result sums; // of what the sink was told
    int64_t iteration_ns[ITERATIONS];
    int first_layers[ITERATIONS]; // a checksum of the plan
} checked_run;

static uint64_t last_seed; // of the run that is played

/// Says which run it was that a test ended with.
static int print_seed(void **state)
{
    print_message("last seed %d\n", (int)last_seed);
    return 0;
}

static status check_iteration(void *context, const bal_training_iteration *iteration,
                              error_message *err);

static bool wants_timeline(void *context, int iteration)
{
    return iteration % 2 == 0;
}

static void draw(checked_run *run, uint64_t seed)
{
    rng generator = rng_init(seed, 1);
    const int ranks = 1 + pick(&generator, 4);
    last_seed = seed;
    *run = (checked_run){.seed = seed};
    draw_run(&run->drawn, seed, ranks, 14 - 2 * ranks, 1 + pick(&generator, DRAWN_REPLICAS_MAX),
             ITERATIONS);
    bal_training *training = &run->drawn.training;
    training->sink = (bal_record_sink){run, wants_timeline, check_iteration};
    // The historical kinds know one chunk per rank.
    training->repack.kind = (bal_repack_kind)pick(
        &generator, training->chunk_count > 1 ? BAL_REPACK_PUBLISHED : BAL_REPACK_COUNT);
    training->repack.tolerance_ratio = rng_unit(&generator);
    training->repack.target_rank_count = 1 + pick(&generator, ranks);
    training->repack.use = (bal_released_use)pick(&generator, BAL_RELEASED_COUNT);
    training->machine.rank_memory_bytes =
        pick(&generator, 2) == 0 ? 0 : rng_between(&generator, 5000, 60000);
}

static int stage_rank(const bal_training_iteration *iteration, const bal_schedule_family *family,
                      int chunks, int stage)
{
    return iteration->machine_rank[bal_rank_of_stage(family->placement, iteration->rank_count,
                                                     chunks, stage, NULL)];
}

/// Every layer is on exactly one rank of the machine, in order, and only migrations move one.
static void check_plan(checked_run *run, const bal_training_iteration *iteration)
{
    const bal_training *training = &run->drawn.training;
    const bal_schedule_family *family = bal_schedule_family_find(training->schedule);
    const int chunks = bal_schedule_chunk_count(family, training->chunk_count);
    const int stages = iteration->rank_count * chunks;
    bool is_used[8] = {false};
    assert_in_range(iteration->rank_count, 1, training->machine.rank_count);
    for (int place = 0; place < iteration->rank_count; place++) {
        const int rank = iteration->machine_rank[place];
        assert_in_range(rank, 0, training->machine.rank_count - 1);
        assert_false(is_used[rank]);
        is_used[rank] = true;
    }
    assert_int_equal(iteration->first_layer[0], 0);
    assert_int_equal(iteration->first_layer[stages], training->sources[0].layer_count);
    int moved = 0;
    for (int stage = 0; stage < stages; stage++) {
        const int rank = stage_rank(iteration, family, chunks, stage);
        assert_true(iteration->first_layer[stage] <= iteration->first_layer[stage + 1]);
        for (int layer = iteration->first_layer[stage]; layer < iteration->first_layer[stage + 1];
             layer++) {
            moved += run->rank_of_layer[layer] != rank;
            run->rank_of_layer[layer] = rank;
        }
    }
    if (iteration->iteration > 0) assert_int_equal(moved, run->moved_layer_count);
}

static void check_gpus(const checked_run *run, const bal_training_iteration *iteration)
{
    const bal_training *training = &run->drawn.training;
    const int64_t ranks = (int64_t)training->machine.rank_count * training->data_parallel;
    const int64_t idle = iteration->gpus.released_rank_count;
    assert_int_equal(iteration->gpus.gpu_count, ranks * training->gpus_per_rank);
    assert_int_equal(iteration->gpus.idle_gpu_count, idle * training->gpus_per_rank);
    assert_int_equal(iteration->replica_count * iteration->rank_count + idle, ranks);
    if (training->repack.use != BAL_RELEASED_REPLICATE) {
        assert_int_equal(iteration->replica_count, training->data_parallel);
    }
    const int64_t batch = (int64_t)training->data_parallel * training->microbatch_count;
    const int64_t replicas = iteration->replica_count;
    int played = (int)((batch + replicas - 1) / replicas);
    while (!bal_schedule_takes(bal_schedule_family_find(training->schedule), iteration->rank_count,
                               played)) {
        played++;
    }
    assert_int_equal(iteration->microbatch_count, played);
}

/// When the gradients of a stage are there, by the timeline.
static int64_t stage_end(const bal_timeline *timeline, int stage)
{
    const bal_schedule *schedule = timeline->schedule;
    int64_t end_ns = -1;
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        for (int op = schedule->first_op[rank]; op < schedule->first_op[rank + 1]; op++) {
            const bal_op_kind kind = (bal_op_kind)schedule->ops[op].kind;
            if (bal_stage_of(schedule->placement, schedule->rank_count, schedule->chunk_count, rank,
                             schedule->ops[op].chunk) == stage &&
                (kind == OP_BACKWARD || kind == OP_BACKWARD_WEIGHT) &&
                timeline->end_ns[op] > end_ns) {
                end_ns = timeline->end_ns[op];
            }
        }
    }
    return end_ns;
}

/// Of a layer, among the replicas that there are: (R - 1) / R of the bytes, rounded up.
static int64_t reduction_ns(const checked_run *run, const bal_training_iteration *iteration,
                            int layer)
{
    const int64_t ns = run->drawn.sources[0].reduction_ns[layer];
    const int64_t before = run->drawn.training.data_parallel;
    const int64_t now = iteration->replica_count;
    if (before == 1 || now == before) return ns;
    const int64_t divisor = (before - 1) * now;
    return (ns * before * (now - 1) + divisor - 1) / divisor;
}

/// What a reduction that begins with the end of each stage adds, where replicas are alike: chunks
/// of a rank in the order in which they end.
static void check_reduction(const checked_run *run, const bal_training_iteration *iteration)
{
    const bal_training *training = &run->drawn.training;
    const bal_schedule *schedule = iteration->timeline->schedule;
    int64_t longest_ns = iteration->pipeline_ns;
    if (training->source_count > 1 || training->post_validation ||
        training->reduction_overlap != BAL_REDUCTION_STAGE || schedule->chunk_count > 2) {
        return;
    }
    for (int rank = 0; rank < schedule->rank_count; rank++) {
        int64_t end_ns[2] = {0, 0};
        int64_t sum_ns[2] = {0, 0};
        for (int chunk = 0; chunk < schedule->chunk_count; chunk++) {
            const int stage = bal_stage_of(schedule->placement, schedule->rank_count,
                                           schedule->chunk_count, rank, chunk);
            const bool is_empty =
                iteration->first_layer[stage] == iteration->first_layer[stage + 1];
            end_ns[chunk] = is_empty ? 0 : stage_end(iteration->timeline, stage);
            for (int layer = iteration->first_layer[stage];
                 layer < iteration->first_layer[stage + 1]; layer++) {
                sum_ns[chunk] += reduction_ns(run, iteration, layer);
            }
        }
        const int first = schedule->chunk_count > 1 && end_ns[1] < end_ns[0] ? 1 : 0;
        int64_t reduced_ns = end_ns[first] + sum_ns[first];
        if (end_ns[1 - first] > reduced_ns) reduced_ns = end_ns[1 - first];
        reduced_ns += sum_ns[1 - first];
        if (reduced_ns > longest_ns) longest_ns = reduced_ns;
    }
    assert_int_equal(iteration->pipeline_ns + iteration->reduction_ns, longest_ns);
}

static void check_times(checked_run *run, const bal_training_iteration *iteration)
{
    const bal_training *training = &run->drawn.training;
    assert_int_equal(iteration->iteration_ns, iteration->pipeline_ns + iteration->reduction_ns +
                                                  iteration->profile_ns + iteration->decision_ns +
                                                  iteration->migration_ns +
                                                  training->optimizer_step_ns);
    assert_true(iteration->reduction_ns >= 0 && iteration->migration_ns >= 0);
    assert_true(iteration->pipeline_ns >= iteration->metrics.work_max_ns);
    int64_t work_ns = 0;
    for (int place = 0; place < iteration->rank_count; place++) {
        work_ns += iteration->rank_work_ns[place];
    }
    assert_int_equal(work_ns, iteration->metrics.busy_ns);
    assert_int_equal(iteration->timeline != NULL, iteration->iteration % 2 == 0);
    if (iteration->timeline == NULL) return;
    const bal_metrics metrics = bal_metrics_of(iteration->timeline);
    assert_int_equal(metrics.makespan_ns, iteration->metrics.makespan_ns);
    assert_int_equal(metrics.span_ns, iteration->metrics.span_ns);
    assert_int_equal(metrics.busy_ns, iteration->metrics.busy_ns);
    check_reduction(run, iteration);
}

static void sum_up(checked_run *run, const bal_training_iteration *iteration)
{
    bal_training_result *sums = &run->sums;
    const int64_t ns = iteration->iteration_ns;
    sums->total_ns += ns;
    sums->pipeline_ns += iteration->pipeline_ns;
    sums->reduction_ns += iteration->reduction_ns;
    sums->profile_ns += iteration->profile_ns;
    sums->decision_ns += iteration->decision_ns;
    sums->migration_ns += iteration->migration_ns;
    sums->moved_bytes += iteration->moved_bytes;
    sums->gpu_ns += iteration->gpus.gpu_count * ns;
    sums->idle_gpu_ns += iteration->gpus.idle_gpu_count * ns;
    sums->released_rank_ns += iteration->gpus.released_rank_count * ns;
    sums->released_node_ns += iteration->gpus.released_node_count * ns;
    sums->rank_count_mean += (double)iteration->rank_count * (double)ns;
    sums->change_count += iteration->changed;
    sums->decision_count += iteration->was_asked;
    sums->rebalance_count += iteration->rebalanced;
    sums->repack_count += iteration->action == BAL_ACTION_REPACK;
}

static status check_iteration(void *context, const bal_training_iteration *iteration,
                              error_message *err)
{
    checked_run *run = context;
    assert_int_equal(iteration->iteration, run->count);
    check_plan(run, iteration);
    check_gpus(run, iteration);
    check_times(run, iteration);
    sum_up(run, iteration);
    run->iteration_ns[run->count] = iteration->iteration_ns;
    run->first_layers[run->count] = iteration->rank_count;
    for (int place = 0; place < iteration->rank_count; place++) {
        run->first_layers[run->count] = run->first_layers[run->count] * 31 +
                                        iteration->first_layer[place] * 7 +
                                        iteration->machine_rank[place];
    }
    run->moved_layer_count = iteration->moved_layer_count;
    run->count++;
    return STATUS_OK;
}

static void check_result(const checked_run *run, const bal_training_result *result)
{
    const bal_training_result *sums = &run->sums;
    assert_int_equal(run->count, ITERATIONS);
    assert_int_equal(result->total_ns, sums->total_ns);
    assert_int_equal(result->total_ns, result->pipeline_ns + result->reduction_ns +
                                           result->profile_ns + result->decision_ns +
                                           result->migration_ns +
                                           ITERATIONS * run->drawn.training.optimizer_step_ns);
    assert_int_equal(result->pipeline_ns, sums->pipeline_ns);
    assert_int_equal(result->reduction_ns, sums->reduction_ns);
    assert_int_equal(result->moved_bytes, sums->moved_bytes);
    assert_int_equal(result->gpu_ns, sums->gpu_ns);
    assert_int_equal(result->gpu_ns, result->gpu_count * result->total_ns);
    assert_int_equal(result->idle_gpu_ns, sums->idle_gpu_ns);
    assert_int_equal(result->released_rank_ns, sums->released_rank_ns);
    assert_int_equal(result->released_node_ns, sums->released_node_ns);
    assert_int_equal(result->change_count, sums->change_count);
    assert_int_equal(result->decision_count, sums->decision_count);
    assert_int_equal(result->rebalance_count, sums->rebalance_count);
    assert_int_equal(result->repack_count, sums->repack_count);
    assert_close(result->rank_count_mean, sums->rank_count_mean / (double)sums->total_ns, 1e-9);
    assert_in_range(result->simulated_count, 1, ITERATIONS);
}

/// @return false if the drawn run cannot be played: no plan, or a rule broken
static bool play_run(checked_run *run, bal_training_result *result)
{
    const status played = sim_training_replay(&run->drawn.training, NULL, memory, result, &why);
    if (played == STATUS_OK) return true;
    if (played != STATUS_INFEASIBLE) fail_msg("seed %d: %s", (int)run->seed, why.message);
    return false;
}

TEST_BETWEEN(random_runs_add_up, NULL, print_seed)
{
    checked_run *run = memory_array(1, sizeof *run);
    assert_non_null(run);
    int repacked = 0;
    int moved = 0;
    int played = 0;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        bal_training_result result;
        arena_reset(memory);
        draw(run, seed);
        if (!play_run(run, &result)) continue;
        check_result(run, &result);
        repacked += result.repack_count;
        moved += result.rebalance_count;
        played++;
    }
    print_message("%d runs, %d re-packings, %d rebalances\n", played, repacked, moved);
    assert_true(played > RUNS / 2);
    assert_true(moved > RUNS);
    assert_true(repacked > RUNS / 8);
    free(run);
}

/// Where nothing but numbers decides, playing every iteration changes nothing.
TEST_BETWEEN(iterations_that_repeat_need_not_be_played, NULL, print_seed)
{
    static checked_run lazy;
    static checked_run diligent;
    int saved = 0;
    for (uint64_t seed = 1; seed <= RUNS; seed++) {
        bal_training_result one;
        bal_training_result other;
        arena_reset(memory);
        draw(&lazy, seed);
        draw(&diligent, seed);
        if (lazy.drawn.training.policy.kind == BAL_POLICY_ON_CHANGE) continue;
        for (int replica = 0; replica < DRAWN_REPLICAS_MAX; replica++) {
            diligent.drawn.sources[replica].always_changes = true;
            diligent.drawn.ports[replica].announces_changes = false;
            lazy.drawn.ports[replica].announces_changes = false;
        }
        if (!play_run(&lazy, &one)) continue;
        assert_true(play_run(&diligent, &other));
        assert_memory_equal(lazy.iteration_ns, diligent.iteration_ns, sizeof lazy.iteration_ns);
        assert_memory_equal(lazy.first_layers, diligent.first_layers, sizeof lazy.first_layers);
        assert_int_equal(one.total_ns, other.total_ns);
        assert_int_equal(other.simulated_count, ITERATIONS);
        saved += ITERATIONS - one.simulated_count;
    }
    assert_true(saved > RUNS);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
