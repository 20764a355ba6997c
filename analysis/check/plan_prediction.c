/// Simulates a run under one plan that stays.
#include "analysis/check/check.h"

#include "balance/metrics.h"
#include "balance/run/iteration_times.h"
#include "balance/run/training.h"
#include "balance/run/training_costs.h"
#include "balance/run/training_ledger.h"
#include "sim/training_play.h"

#include <string.h>

/// A prediction in the midst of being made.
typedef struct predicting {
    const bal_training *training;
    bal_placed_partition placed;
    const bal_schedule *schedule; // NULL: made of the first iteration's costs
    bal_schedule built;
    bal_training_costs costs;
    bal_layer_costs *replicas; // [data_parallel]
    sim_plan_replay replay;    // of the iteration played last
    int64_t *peak_bytes;
    arena *memory;
    arena *play_memory; // of the replay
} predicting;

/// Raises the peaks to what the iteration at hand needs.
static void note_memory(predicting *at)
{
    const int places = at->placed.rank_count;
    int64_t *peak = arena_array(at->play_memory, (size_t)places, sizeof *peak);
    for (int replica = 0; replica < at->training->data_parallel; replica++) {
        bal_memory_peak(at->schedule, &at->replay.stages[replica], peak);
        for (int place = 0; place < places; place++) {
            int64_t *noted = &at->peak_bytes[at->placed.machine_rank[place]];
            const int64_t bytes =
                peak[place] + bal_placed_sum(&at->placed, place, at->replicas[replica].state_bytes);
            if (bytes > *noted) *noted = bytes;
        }
    }
}

static status play(predicting *at, error_message *err)
{
    const bal_training *training = at->training;
    for (int replica = 0; replica < training->data_parallel; replica++) {
        at->replicas[replica] = at->costs.replicas[replica % at->costs.replica_count];
    }
    if (at->schedule == NULL) {
        TRY(bal_training_order(training, &at->placed, &at->replicas[0], training->microbatch_count,
                               at->memory, &at->built, err));
        at->schedule = &at->built;
    }
    const bal_played_plan played = {
        .plan = &at->placed,
        .schedule = at->schedule,
        .replicas = at->replicas,
        .replica_count = training->data_parallel,
        .rank_time_factor = at->costs.rank_time_factor,
        .post_validation = training->post_validation,
        .reduction_overlap = training->reduction_overlap,
        .reduction_from = training->data_parallel,
        .reduction_to = training->data_parallel,
    };
    arena_reset(at->play_memory);
    TRY(sim_plan_replay_play(&training->machine, &played, at->play_memory, &at->replay, err));
    note_memory(at);
    return STATUS_OK;
}

static status put(const predicting *at, int iteration, bool is_new, error_message *err)
{
    const bal_training *training = at->training;
    const bal_record_sink *sink = &training->sink;
    const bal_iteration_times *times = &at->replay.times;
    bal_training_iteration record = {
        .iteration = iteration,
        .pipeline_ns = times->pipeline_ns,
        .reduction_ns = times->reduction_ns,
        .metrics = times->metrics,
        .changed = is_new && iteration > 0,
        .rank_count = at->placed.rank_count,
        .replica_count = training->data_parallel,
        .microbatch_count = training->microbatch_count,
        .first_layer = at->placed.first_layer,
        .machine_rank = at->placed.machine_rank,
        .rank_work_ns = times->rank_work_ns,
    };
    TRY(bal_training_ledger_close(&record, training->optimizer_step_ns, err));
    if (sink->wants_timeline != NULL && sink->wants_timeline(sink->context, iteration)) {
        record.timeline = &at->replay.timelines[times->slowest];
        record.costs = &at->replay.stages[times->slowest];
    }
    return sink->put != NULL ? sink->put(sink->context, &record, err) : STATUS_OK;
}

status ana_plan_predict(const bal_training *training, const bal_plan *plan, arena *memory,
                        int64_t *peak_bytes, error_message *err)
{
    predicting at = {
        .training = training,
        .placed = {.first_layer = plan->first_layer,
                   .rank_count = plan->rank_count,
                   .chunk_count = plan->chunk_count,
                   .placement = plan->placement,
                   .machine_rank = plan->stage_ranks},
        .schedule = plan->order,
        .peak_bytes = peak_bytes,
        .memory = memory,
        .replicas = arena_array(memory, (size_t)training->data_parallel, sizeof *at.replicas),
        .play_memory = arena_within(memory, 1 << 18),
    };
    const bal_batch batch = {training->microbatch_count, training->microbatch_count};
    memset(peak_bytes, 0, (size_t)training->machine.rank_count * sizeof *peak_bytes);
    bal_training_costs_init(&at.costs, training, memory);
    for (int iteration = 0; iteration < training->iteration_count; iteration++) {
        TRY(bal_training_costs_fetch(&at.costs, iteration, batch, err));
        const bool is_new = at.costs.is_new;
        if (is_new || iteration == 0) TRY(play(&at, err));
        TRY(put(&at, iteration, is_new, err));
    }
    return STATUS_OK;
}
