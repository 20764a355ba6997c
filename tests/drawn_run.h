/// Random training runs: costs, replicas, slow ranks, schedules, balancers and policies from a
/// seed.
#pragma once

#include "balance/run/training.h"
#include "balance/schedule/schedule.h"
#include "base/rng.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { DRAWN_LAYERS_MAX = 60, DRAWN_MICROBATCHES_MAX = 48, DRAWN_REPLICAS_MAX = 3 };

/// Draws an iteration's costs from its number, so that iterations may be asked in any order.
typedef struct drawn_source {
    uint64_t seed;
    int layer_count;
    int column_count;
    int period; // iterations with the same costs
    bool always_changes;
    bool comes_back; // in every other period all layers but one cost next to nothing
    int last;        // iteration asked for last; -1: none
    int64_t times[3][DRAWN_LAYERS_MAX * DRAWN_MICROBATCHES_MAX];
    int64_t parameters[DRAWN_LAYERS_MAX];
    int64_t bytes[DRAWN_LAYERS_MAX];
    int64_t reduction_ns[DRAWN_LAYERS_MAX];
} drawn_source;

static inline status drawn_costs_at(void *context, int iteration, bal_layer_costs *costs,
                                    bool *changed, error_message *err)
{
    drawn_source *source = context;
    const int era = iteration / source->period;
    rng generator = rng_init(source->seed, (uint64_t)era);
    const int64_t heavy = rng_between(&generator, 0, source->layer_count - 1);
    for (int layer = 0; layer < source->layer_count; layer++) {
        const bool is_light = source->comes_back && era % 2 == 1 && layer != heavy;
        const int64_t most = is_light ? 9 : layer >= heavy ? 900 : 100 + 400 / (era + 1);
        for (int column = 0; column < source->column_count; column++) {
            for (int pass = 0; pass < 3; pass++) {
                source->times[pass][layer * source->column_count + column] =
                    rng_between(&generator, 0, most);
            }
        }
    }
    *changed = source->always_changes || source->last < 0 || source->last / source->period != era;
    source->last = iteration;
    *costs = (bal_layer_costs){.layer_count = source->layer_count,
                               .microbatch_count = source->column_count,
                               .has_split = true,
                               .forward_ns = source->times[0],
                               .backward_input_ns = source->times[1],
                               .backward_weight_ns = source->times[2],
                               .parameters = source->parameters,
                               .state_bytes = source->bytes,
                               .activation_bytes = source->bytes,
                               .gradient_bytes = source->bytes,
                               .message_bytes = source->bytes,
                               .reduction_ns = source->reduction_ns};
    return STATUS_OK;
}

static inline int pick(rng *generator, int count)
{
    return (int)rng_below(generator, (uint64_t)count);
}

typedef struct drawn_run {
    drawn_source sources[DRAWN_REPLICAS_MAX];
    bal_cost_source ports[DRAWN_REPLICAS_MAX];
    bal_slow_rank slow;
    bal_training training;
} drawn_run;

/// Draws the sources of as many replicas as there may be, with one period.
static inline void draw_sources(drawn_run *run, rng *generator, int layer_count, int column_count,
                                bool announces_changes)
{
    const int period = 1 + pick(generator, 3);
    for (int replica = 0; replica < DRAWN_REPLICAS_MAX; replica++) {
        drawn_source *source = &run->sources[replica];
        source->seed = rng_next(generator);
        source->layer_count = layer_count;
        source->column_count = column_count;
        source->period = period;
        source->last = -1;
        for (int layer = 0; layer < layer_count; layer++) {
            source->parameters[layer] = rng_between(generator, 1, 50);
            source->bytes[layer] = rng_between(generator, 0, 500);
            source->reduction_ns[layer] = rng_between(generator, 0, 800);
        }
        run->ports[replica] = (bal_cost_source){.context = source,
                                                .layer_count = layer_count,
                                                .iteration_count = 1000,
                                                .announces_changes = announces_changes,
                                                .costs_at = drawn_costs_at};
    }
}

/// A row of the schedule table that training runs take and that has orders for these ranks.
static inline const bal_schedule_family *draw_family(rng *generator, int ranks)
{
    int count = 0;
    const bal_schedule_family *families = bal_schedule_families(&count);
    for (;;) {
        const bal_schedule_family *family = &families[pick(generator, count)];
        if (family->placement == BAL_PLACEMENT_BIDIRECTIONAL) continue; // refused
        if (bal_schedule_microbatch_count(family, ranks, ranks) > 0) return family;
    }
}

/// Any balancer, or one of those for ranks of several chunks where the schedule has them.
static inline const bal_balancer *draw_balancer(rng *generator, const bal_schedule_family *family,
                                                int ranks)
{
    static const char *const names[] = {"even", "partition", "parameters", "diffusion", "makespan"};
    const int count = ranks > 8 ? 4 : 5;
    const int index = pick(generator, count + 2);
    if (index < count) return bal_balancer_find(names[index]);
    if (bal_schedule_chunk_count(family, 0) == 1) return bal_balancer_find("partition");
    return bal_balancer_find(family->placement == BAL_PLACEMENT_V ? "v-partition"
                                                                  : "interleaved-partition");
}

/// A run of so many ranks and replicas; everything else is drawn. Re-packing is left out.
///
/// @param layer_spread layers are at most so many more than 2 * ranks
static inline void draw_run(drawn_run *run, uint64_t seed, int ranks, int layer_spread,
                            int replicas, int iteration_count)
{
    static const char *const policies[] = {"never",   "on-change",     "every:2",
                                           "every:1", "threshold:0.1", "shadow"};
    rng generator = rng_init(seed, 0);
    const bal_schedule_family *family = draw_family(&generator, ranks);
    const int chunks = bal_schedule_chunk_count(family, 0);
    const int wanted = ranks * (1 + pick(&generator, ranks > 8 ? 2 : 12 / ranks + 1));
    const int microbatches = bal_schedule_microbatch_count(family, ranks, wanted);
    const int columns = 1 + pick(&generator, microbatches);
    const int layers = 2 * ranks + pick(&generator, layer_spread + 1);
    memset(run, 0, sizeof *run);
    const bool announces_changes = pick(&generator, 2) == 0;
    const int column_count = pick(&generator, 2) == 0 ? 1 : columns;
    draw_sources(run, &generator, layers, column_count, announces_changes);
    run->slow = (bal_slow_rank){.rank = pick(&generator, ranks),
                                .time_factor = 1 + rng_unit(&generator),
                                .first_iteration = pick(&generator, iteration_count),
                                .end_iteration = pick(&generator, 2 * iteration_count)};
    run->training = (bal_training){
        .sources = run->ports,
        .source_count = pick(&generator, 2) == 0 ? 1 : replicas,
        .data_parallel = replicas,
        .gpus_per_rank = 1 + pick(&generator, 2),
        .reduction_overlap = (bal_reduction_overlap)pick(&generator, 3),
        .machine = {.rank_count = ranks,
                    .ranks_per_node = 1 + pick(&generator, ranks),
                    .intra_node = {.latency_ns = 3, .bytes_per_s = 2000000000},
                    .inter_node = {.latency_ns = 9, .bytes_per_s = 1000000000}},
        .iteration_count = iteration_count,
        .microbatch_count = microbatches,
        .chunk_count = chunks > 1 ? chunks : 0,
        .schedule = family->name,
        .post_validation = pick(&generator, 2) == 0,
        .optimizer_step_ns = 13,
        .decision_ns = 5,
        .profile_ns = 7,
        .change_ratio = 0.25,
        .balancer = draw_balancer(&generator, family, ranks),
        .information = (bal_information)pick(&generator, BAL_INFORMATION_COUNT),
        .migration = bal_migration_options_default(),
        .repack = bal_repack_options_default(),
        .slow_ranks = &run->slow,
        .slow_rank_count = pick(&generator, 2),
    };
    run->training.migration.relabels = pick(&generator, 2) == 0;
    run->training.migration.overlaps = pick(&generator, 2) == 0;
    run->training.migration.slack_ratio = pick(&generator, 2) == 0 ? 0 : 0.1;
    run->training.machine.rank_memory_bytes = pick(&generator, 2) == 0 ? 0 : 1000000;
    (void)bal_policy_parse(policies[pick(&generator, 6)], &run->training.policy, NULL);
}

/// Makes the sources forget who has asked, so that another player may have the run.
static inline void rewind_run(drawn_run *run)
{
    for (int replica = 0; replica < DRAWN_REPLICAS_MAX; replica++) {
        run->sources[replica].last = -1;
    }
}
