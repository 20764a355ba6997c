/// What replaying a run with mixture of experts costs, from the model on: routing is drawn for
/// every microbatch of every group of replicas, and every iteration is rebalanced. bench_training
/// has the replay alone.
#include "analysis/study/setup.h"
#include "analysis/study/study.h"
#include "base/arena.h"
#include "sim/training_replay.h"
#include "tests/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>

/// A Mixtral of 34 layers on 16 stages; groups of 8 replicas share their experts.
static void open_setup(int replicas, int iterations, arena *memory, ana_study *study,
                       ana_setup *setup)
{
    char text[1024];
    error_message err = {0};
    snprintf(text, sizeof text,
             "{\"schema\":\"dynmo-study/1\",\"model\":\"mixtral-8x7b\",\"hardware\":\"h100-sxm\","
             "\"training\":{\"iterations\":%d,\"sequence_length\":2048,\"microbatch_size\":1,"
             "\"microbatches\":64,\"data_parallel\":%d,\"expert_parallel\":8},"
             "\"pipeline\":{\"stages\":16,\"schedule\":\"1f1b\"},"
             "\"dynamism\":{\"case\":\"moe\"}}",
             iterations, replicas);
    bench_require(ana_study_open_text("bench", text, memory, study, &err), &err);
    bench_require(ana_setup_open(study, memory, setup, &err), &err);
}

static double replay(const ana_setup *setup, const char *policy, arena *memory,
                     bal_training_result *result)
{
    error_message err = {0};
    bal_training training = {
        .sources = setup->sources,
        .source_count = setup->source_count,
        .machine = setup->machine,
        .iteration_count = setup->iteration_count,
        .microbatch_count = setup->microbatch_count,
        .schedule = setup->study->schedule,
        .data_parallel = setup->study->parallel.data,
        .change_ratio = setup->study->change_ratio,
        .balancer = bal_balancer_find("partition"),
        .migration = bal_migration_options_default(),
    };
    bench_require(bal_policy_parse(policy, &training.policy, &err), &err);
    const int64_t begin_ns = bench_now_ns();
    bench_require(sim_training_replay(&training, memory, result, &err), &err);
    return (double)(bench_now_ns() - begin_ns) / 1e9;
}

static void measure(bool smoke, int replicas)
{
    static const char *const policies[] = {"every-iteration", "shadow"};
    arena *memory = arena_create(1 << 20);
    ana_study *study = memory_array(1, sizeof *study);
    ana_setup *setup = memory_array(1, sizeof *setup);
    open_setup(replicas, smoke ? 3 : 10000, memory, study, setup);
    for (size_t policy = 0; policy < sizeof policies / sizeof policies[0]; policy++) {
        bal_training_result result;
        const double seconds = replay(setup, policies[policy], memory, &result);
        bench_print("experts_replay_s", seconds, "s",
                    "D=%d (%d sources) P=16 M=64 L=34, %d iterations, partition %s, %d plans",
                    replicas, setup->source_count, setup->iteration_count, policies[policy],
                    1 + result.rebalance_count);
    }
    ana_setup_close(setup);
    ana_study_close(study);
    free(setup);
    free(study);
    arena_destroy(memory);
}

int main(int argc, char **argv)
{
    const bool smoke = bench_is_smoke(argc, argv);
    measure(smoke, 8);
    measure(smoke, 64);
    return 0;
}
