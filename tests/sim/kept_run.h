/// A run that is replayed for a test: over a table of costs, with every iteration kept.
#pragma once

#include "sim/training_replay.h"
#include "tests/sim/table_source.h"
#include "tests/test.h"
#include "tests/test_memory.h"

enum { KEPT_RANKS = 4, KEPT_REPLICAS = 2 };

/// What the sink of the last run was told of iterations.
static struct {
    int count;
    bal_training_iteration iterations[TABLE_ITERATIONS];
    int first_layer[TABLE_ITERATIONS][KEPT_RANKS + 1]; // of the stages
    int machine_rank[TABLE_ITERATIONS][KEPT_RANKS];
    int64_t work_ns[TABLE_ITERATIONS][KEPT_RANKS];
} all;

static inline status keep(void *context, const bal_training_iteration *iteration,
                          error_message *err)
{
    if (iteration->iteration == 0) memset(&all, 0, sizeof all);
    assert_true(all.count < TABLE_ITERATIONS);
    for (int place = 0; place < iteration->rank_count && place < KEPT_RANKS; place++) {
        all.first_layer[all.count][place] = iteration->first_layer[place];
        all.machine_rank[all.count][place] = iteration->machine_rank[place];
        all.work_ns[all.count][place] = iteration->rank_work_ns[place];
    }
    all.iterations[all.count++] = *iteration;
    return STATUS_OK;
}

/// A run under GPipe on ranks of one node whose links cost nothing; a test names what differs.
///
/// @param table [replica_count] at most KEPT_REPLICAS
static inline bal_training kept_training(const table_source *table, int replica_count, int ranks,
                                         int iterations, int microbatches)
{
    static bal_cost_source sources[KEPT_REPLICAS];
    for (int replica = 0; replica < replica_count; replica++) {
        sources[replica] = table[replica].source;
    }
    return (bal_training){.sources = sources,
                          .source_count = replica_count,
                          .data_parallel = replica_count,
                          .machine = {.rank_count = ranks, .ranks_per_node = ranks},
                          .iteration_count = iterations,
                          .microbatch_count = microbatches,
                          .schedule = "gpipe",
                          .change_ratio = 0.25,
                          .balancer = bal_balancer_find("even"),
                          .migration = bal_migration_options_default(),
                          .repack = bal_repack_options_default(),
                          .sink = {.put = keep}};
}

static inline bal_training_result replay_in(const bal_training *training)
{
    bal_training_result result;
    require(sim_training_replay(training, NULL, memory, &result, &why));
    return result;
}

/// The same where a test reads numbers only.
static inline bal_training_result replay(const bal_training *training)
{
    bal_training_result result = replay_in(training);
    result.start_first_layer = result.final_first_layer = NULL; // they go with the arena
    result.peak_memory_bytes = NULL;
    return result;
}

/// Tables of one or several replicas, until a test asks for others.
static inline table_source *tables(int count, int layer_count, int column_count)
{
    static table_source made[KEPT_REPLICAS];
    assert_true(count <= KEPT_REPLICAS);
    for (int table = 0; table < count; table++) {
        table_source_init(&made[table], layer_count, column_count);
    }
    return made;
}
