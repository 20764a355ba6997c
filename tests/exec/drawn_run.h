/// Random training runs: costs, replicas, slow ranks, schedules, balancers and policies from a
/// seed.
#pragma once

#include "balance/run/training.h"
#include "balance/schedule/schedule.h"
#include "base/rng.h"
#include "tests/drawn_source.h"

#include <string.h>

typedef struct drawn_run {
    drawn_source sources[DRAWN_REPLICAS_MAX];
    bal_cost_source ports[DRAWN_REPLICAS_MAX];
    bal_slow_rank slow;
    bal_training training;
} drawn_run;

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
static inline void draw_run(drawn_run *run, uint64_t seed, int ranks, int replicas,
                            int iteration_count)
{
    static const char *const policies[] = {"never",   "on-change",     "every:2",
                                           "every:1", "threshold:0.1", "shadow"};
    rng generator = rng_init(seed, 0);
    const bal_schedule_family *family = draw_family(&generator, ranks);
    const int chunks = bal_schedule_chunk_count(family, 0);
    const int wanted = ranks * (1 + pick(&generator, ranks > 8 ? 2 : 12 / ranks + 1));
    const int microbatches = bal_schedule_microbatch_count(family, ranks, wanted);
    const int columns = 1 + pick(&generator, microbatches);
    const int layers = 2 * ranks + pick(&generator, DRAWN_LAYERS_MAX / 2 - ranks + 1);
    memset(run, 0, sizeof *run);
    const bool announces_changes = pick(&generator, 2) == 0;
    const drawn_shape shape = {.layer_count = layers,
                               .column_count = pick(&generator, 2) == 0 ? 1 : columns,
                               .period_max = 3,
                               .iteration_count = 1000,
                               .announces_changes = announces_changes};
    draw_sources(&shape, &generator, run->sources, run->ports);
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
