#include "analysis/diagnosis/diagnosis.h"

#include "analysis/compare/compare.h"
#include "balance/partition/chain.h"
#include "balance/partition/partition.h"
#include "balance/schedule/schedule.h"
#include "sim/training_replay.h"

/// Additions that the search for a kept split may take.
enum { SEARCH_MAX = 400000000 };

/// The slowest stage's time under a plan, added up over the series.
static bal_wide slowest_sum(const ana_series *series, const int *first_layer, int stage_count)
{
    bal_wide sum = 0;
    for (int index = 0; index < series->count; index++) {
        const int64_t *before = ana_series_before(series, index);
        int64_t slowest = 0;
        for (int stage = 0; stage < stage_count; stage++) {
            const int64_t load = before[first_layer[stage + 1]] - before[first_layer[stage]];
            if (load > slowest) slowest = load;
        }
        sum += slowest;
    }
    return sum;
}

/// Moves neighbouring cuts. @return false if a stage would be empty; nothing is moved
static bool move_cuts(int *first_layer, int first, int last, int by)
{
    if (first_layer[first] + by <= first_layer[first - 1]) return false;
    if (first_layer[last] + by >= first_layer[last + 1]) return false;
    for (int cut = first; cut <= last; cut++) {
        first_layer[cut] += by;
    }
    return true;
}

/// Moves one or several neighbouring cuts as long as that makes the slowest stages faster: where
/// layers are noisy or change, the split of the means is not the best.
static void improve_split(const ana_series *series, int stage_count, int *first_layer)
{
    const int layers = series->layer_count;
    bal_wide least = slowest_sum(series, first_layer, stage_count);
    int64_t left = SEARCH_MAX;
    for (bool is_better = true; is_better;) {
        is_better = false;
        for (int pair = 0; pair < stage_count * stage_count; pair++) {
            const int first = pair / stage_count;
            const int last = pair % stage_count;
            if (first < 1 || last < first) continue;
            for (int by = -layers; by <= layers && left > 0; by++) {
                if (!move_cuts(first_layer, first, last, by)) continue;
                left -= (int64_t)series->count * stage_count;
                const bal_wide sum = slowest_sum(series, first_layer, stage_count);
                if (sum >= least) move_cuts(first_layer, first, last, -by);
                if (sum >= least) continue;
                least = sum;
                is_better = true;
            }
        }
    }
}

status ana_kept_split_of(const ana_series *series, int stage_count, arena *memory, int *first_layer,
                         error_message *err)
{
    const size_t entries = (size_t)series->layer_count + 1;
    int64_t *before = arena_array(memory, entries, sizeof *before);
    int64_t *zeros = arena_array(memory, entries, sizeof *zeros);
    int64_t bottleneck_ns = 0;
    for (int layer = 0; layer <= series->layer_count; layer++) {
        bal_wide sum = 0; // of iterations that each fit int64, but not all together
        for (int index = 0; index < series->count; index++) {
            sum += ana_series_before(series, index)[layer];
        }
        before[layer] = (int64_t)(sum / series->count);
    }
    bal_chain chain = {.layer_count = series->layer_count,
                       .stage_count = stage_count,
                       .weight_before = before,
                       .state_before = zeros,
                       .activation_before = zeros};
    TRY(bal_chain_bound_load_sum(&chain, err));
    TRY(bal_partition_bottleneck(&chain, memory, first_layer, &bottleneck_ns, err));
    improve_split(series, stage_count, first_layer);
    return STATUS_OK;
}

/// The costs as the schedule plays them: one backward op where it does not split it.
static void costs_as_played(const bal_layer_costs *costs, bool has_split, arena *memory,
                            bal_layer_costs *played)
{
    *played = *costs;
    if (has_split) return;
    const size_t entries = (size_t)costs->layer_count * (size_t)costs->microbatch_count;
    int64_t *backward = arena_array(memory, entries, sizeof *backward);
    int64_t *none = arena_array(memory, entries, sizeof *none);
    for (size_t entry = 0; entry < entries; entry++) {
        backward[entry] = costs->backward_input_ns[entry] + costs->backward_weight_ns[entry];
    }
    played->backward_input_ns = backward;
    played->backward_weight_ns = none;
}

status ana_contiguous_bounds_of(const ana_setup *setup, const ana_series *series, int64_t *bound_ns,
                                error_message *err)
{
    const bool has_split = bal_schedule_family_find(setup->study->run.schedule)->has_split;
    arena *scratch = arena_create(1 << 16);
    status result = STATUS_OK;
    for (int index = 0; index < series->count && result == STATUS_OK; index++) {
        bal_layer_costs played;
        ana_contiguous_bound bound = {0};
        arena_reset(scratch);
        costs_as_played(&series->costs[index], has_split, scratch, &played);
        result = ana_bound_contiguous(&played, setup->machine.rank_count, setup->microbatch_count,
                                      scratch, &bound, err);
        bound_ns[index] = bound.makespan_ns + setup->study->run.optimizer_step_ns;
    }
    arena_destroy(scratch);
    return result;
}

static status put_iteration(void *context, const bal_training_iteration *iteration,
                            error_message *err)
{
    (void)err;
    int64_t *taken_ns = context;
    taken_ns[iteration->iteration] = iteration->iteration_ns;
    return STATUS_OK;
}

status ana_plan_takes(const ana_setup *setup, const ana_series *series, const int *first_layer,
                      arena *memory, int64_t *taken_ns, error_message *err)
{
    const ana_balancing given = ana_balancing_default("given");
    const bal_cost_source source = ana_series_source(series);
    ana_setup own = *setup;
    bal_training_result result;
    own.source = own.still = source;
    own.sources = &source;
    own.given_first_layer = first_layer;
    const bal_training training = ana_setup_training(
        &own, &given, (bal_record_sink){.context = taken_ns, .put = put_iteration});
    return sim_training_replay(&training, NULL, memory, &result, err);
}
