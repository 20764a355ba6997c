/// Proven bounds of the iterations of a series, and what plans take that are given or chosen with
/// hindsight.
#include "analysis/diagnosis/gain_bounds.h"

#include "analysis/compare/contiguous_bound.h"
#include "balance/partition/balancer.h"
#include "balance/schedule/schedule.h"
#include "sim/training_plan.h"

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

/// No assignment of layers to ranks has a rank with less than an even share, or than the longest
/// layer.
static int64_t any_owner_ns_of(const bal_layer_costs *costs, int ranks, int microbatch_count,
                               int64_t all_work_ns)
{
    int64_t bound = all_work_ns / ranks + (all_work_ns % ranks != 0);
    for (int layer = 0; layer < costs->layer_count; layer++) {
        int64_t work = 0;
        for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
            const size_t entry = (size_t)layer * (size_t)costs->microbatch_count +
                                 (size_t)(microbatch % costs->microbatch_count);
            work += costs->forward_ns[entry] + costs->backward_input_ns[entry] +
                    costs->backward_weight_ns[entry];
        }
        if (work > bound) bound = work;
    }
    return bound;
}

status ana_gain_bounds_of(const ana_setup *setup, const ana_series *series, int64_t *contiguous_ns,
                          int64_t *any_owner_ns, error_message *err)
{
    const bool has_split = bal_schedule_family_find(setup->study->schedule)->has_split;
    const int ranks = setup->machine.rank_count;
    const int64_t step_ns = setup->study->optimizer_step_ns;
    arena *scratch = arena_create(1 << 16);
    status result = STATUS_OK;
    for (int index = 0; index < series->count && result == STATUS_OK; index++) {
        bal_layer_costs played;
        ana_contiguous_bound bound = {0, 0};
        arena_reset(scratch);
        costs_as_played(&series->costs[index], has_split, scratch, &played);
        result =
            ana_bound_contiguous(&played, ranks, setup->microbatch_count, scratch, &bound, err);
        contiguous_ns[index] = bound.makespan_ns + step_ns;
        any_owner_ns[index] =
            any_owner_ns_of(&played, ranks, setup->microbatch_count, bound.work_ns) + step_ns;
    }
    arena_destroy(scratch);
    return result;
}

/// Plays single iterations under any plan.
typedef struct playing {
    const ana_setup *setup;
    bal_training training; // borrowed by the predictor
    sim_predictor *predictor;
    arena *scratch; // of one iteration
} playing;

static void cycle(const int64_t **times, int layer_count, int column_count, int wanted,
                  arena *scratch)
{
    int64_t *cycled = arena_array(scratch, (size_t)layer_count * (size_t)wanted, sizeof *cycled);
    for (int layer = 0; layer < layer_count; layer++) {
        for (int microbatch = 0; microbatch < wanted; microbatch++) {
            cycled[(size_t)layer * (size_t)wanted + (size_t)microbatch] =
                (*times)[(size_t)layer * (size_t)column_count +
                         (size_t)(microbatch % column_count)];
        }
    }
    *times = cycled;
}

/// The costs of an iteration with as many columns as the run has microbatches, or one.
static bal_layer_costs costs_of(const playing *of, const bal_layer_costs *costs)
{
    const int wanted = of->setup->microbatch_count;
    bal_layer_costs played = *costs;
    const int64_t **arrays[BAL_COST_ARRAY_COUNT];
    arena_reset(of->scratch);
    if (costs->microbatch_count == 1 || costs->microbatch_count == wanted) return played;
    bal_layer_costs_list(&played, arrays);
    for (int array = 0; array < BAL_COST_TIMES_COUNT; array++) {
        cycle(arrays[array], costs->layer_count, costs->microbatch_count, wanted, of->scratch);
    }
    played.microbatch_count = wanted;
    return played;
}

/// @param first_layer the plan; NULL: the one that `makespan` chooses for these costs
static status play(const playing *of, const bal_layer_costs *costs, const int *first_layer,
                   int64_t *taken_ns, error_message *err)
{
    const bal_balancer *balancer = bal_balancer_find("makespan");
    const bal_evaluator *evaluator = sim_predictor_evaluator(of->predictor);
    const bal_problem problem = {.layers = costs_of(of, costs),
                                 .stage_count = of->setup->stage_count,
                                 .weight = balancer->weight,
                                 .microbatch_count = of->setup->microbatch_count,
                                 .evaluator = evaluator};
    if (first_layer == NULL) {
        bal_answer answer;
        TRY(bal_balance(balancer, &problem, of->scratch, &answer, err));
        *taken_ns = answer.iteration_ns;
    } else {
        const bal_placed_partition plan = {
            .first_layer = first_layer, .rank_count = of->setup->stage_count, .chunk_count = 1};
        TRY(evaluator->iteration_ns_of(evaluator->context, &problem.layers, &plan,
                                       of->setup->microbatch_count, taken_ns, err));
    }
    *taken_ns += of->setup->study->optimizer_step_ns;
    return STATUS_OK;
}

/// @param indices     of the series; NULL: all
/// @param first_layer plans, entries apart; NULL: those of hindsight
static status play_all(const ana_setup *setup, const ana_series *series, const int *indices,
                       int count, const int *first_layer, size_t entries, int64_t *taken_ns,
                       error_message *err)
{
    const ana_balancing no_balancing = {.balancer = bal_balancer_find("makespan"),
                                        .migration = bal_migration_options_default(),
                                        .repack = {.options = bal_repack_options_default()}};
    playing of = {.setup = setup,
                  .training = ana_setup_training(setup, &no_balancing, (bal_record_sink){0}),
                  .scratch = arena_create(1 << 16)};
    status result = sim_predictor_create(&of.training, &of.predictor, err);
    for (int at = 0; at < count && result == STATUS_OK; at++) {
        const int *plan = first_layer != NULL ? first_layer + (size_t)at * entries : NULL;
        result =
            play(&of, &series->costs[indices != NULL ? indices[at] : at], plan, &taken_ns[at], err);
    }
    sim_predictor_destroy(of.predictor);
    arena_destroy(of.scratch);
    return result;
}

status ana_plans_take(const ana_setup *setup, const ana_series *series, const int *first_layer,
                      bool is_kept, int64_t *taken_ns, error_message *err)
{
    const size_t entries = is_kept ? 0 : (size_t)setup->stage_count + 1;
    return play_all(setup, series, NULL, series->count, first_layer, entries, taken_ns, err);
}

status ana_clairvoyant_of(const ana_setup *setup, const ana_series *series, const int *indices,
                          int index_count, int64_t *clairvoyant_ns, error_message *err)
{
    return play_all(setup, series, indices, index_count, NULL, 0, clairvoyant_ns, err);
}
