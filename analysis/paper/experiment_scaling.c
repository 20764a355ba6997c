/// What changes with the machine: weak scaling over replicas, and slower messages.
#include "analysis/paper/experiments.h"

#include "analysis/paper/published.h"

#include <math.h>
#include <stdio.h>

/// Time of a row without what its decisions and migrations cost, as the paper's scaling excludes
/// them.
static double bare_ns(const ana_trial_row *row)
{
    return (double)(row->total_ns - row->overhead_ns);
}

/// Partition by time over `even`; NAN if one of them was not played.
static double bare_speed_up(const ana_trial *trial)
{
    const ana_trial_row *even = ana_trial_find(trial, "even");
    const ana_trial_row *partition = ana_trial_find(trial, "partition on-change");
    return even != NULL && partition != NULL ? bare_ns(even) / bare_ns(partition) : NAN;
}

enum { RANGE_COUNT = 4 };

/// A speed-up and the largest that any plan could reach, over the ranges of a setting.
typedef struct scaled {
    double of_range[RANGE_COUNT];
    ana_interval speed_up;
    ana_interval bound;
} scaled;

static status play(const char *study, const char *setting, const char *const ranges[RANGE_COUNT],
                   scaled *out, error_message *err)
{
    *out = (scaled){.speed_up = {.count = 0}};
    for (int range = 0; range < RANGE_COUNT; range++) {
        const char *const changes[] = {setting, ranges[range]};
        ana_trial trial;
        TRY(ana_trial_play(study, changes, 2, &trial, err));
        const double speed_up = bare_speed_up(&trial);
        if (isnan(speed_up)) {
            return error_set(err, STATUS_INFEASIBLE, "%s: no plan fits with %s", study, setting);
        }
        out->of_range[range] = speed_up;
        ana_interval_add(&out->speed_up, speed_up);
        ana_interval_add(&out->bound,
                         bare_ns(ana_trial_find(&trial, "even")) / (double)trial.bound_ns);
    }
    return STATUS_OK;
}

status ana_play_weak_scaling(ana_rows *rows, error_message *err)
{
    static const int replicas[] = {1, 5, 10, 20, 40};
    static const char *const ranges[] = {NULL, "{\"dynamism.sigma_spread\":0.5}",
                                         "{\"dynamism.load_model\":\"published\"}",
                                         "{\"training.layers\":24}"};
    enum { STAGES = 24, GPUS_PER_NODE = 4, ITERATIONS = 100 };
    scaled most = {.speed_up = {.count = 0}};
    for (size_t index = 0; index < sizeof replicas / sizeof replicas[0]; index++) {
        const int gpus = STAGES * replicas[index];
        const char *setting = ana_rows_text(
            rows,
            "{\"cluster.nodes\":%d,\"training.data_parallel\":%d,\"training.iterations\":%d,"
            "\"dynamism.start_iteration\":30,\"dynamism.end_iteration\":70,\"dynamism.interval\":"
            "10}",
            gpus / GPUS_PER_NODE, replicas[index], ITERATIONS);
        scaled result;
        TRY(play("pruning", setting, ranges, &result, err));
        ana_rows_add_number(rows, ana_rows_text(rows, "speed-up on %d GPUs", gpus),
                            &result.speed_up, result.bound.high, ANA_AGREEMENT_PREDICTED,
                            "even (Megatron), the same model", "");
        ana_rows_draw(rows, ANA_FIGURE_WEAK_SCALING, ana_rows_text(rows, "%d GPUs", gpus));
        if (most.speed_up.count == 0 || result.speed_up.value > most.speed_up.value) most = result;
    }
    ana_rows_add_number(rows, "speed-up over static, most", &most.speed_up, most.bound.high,
                        ANA_AGREEMENT_PREDICTED, "even (Megatron), the same model",
                        "Almost all of it is the head, which the even split leaves beside two "
                        "layers: static tuning, the same at every scale. The paper's 240 nodes of "
                        "4 GPUs are 960, more than its 720.");
    ana_reproduced *row = &rows->rows[rows->count - 1];
    if (row->bound < row->published) row->agreement = ANA_AGREEMENT_UNREACHABLE;
    return STATUS_OK;
}

status ana_play_network_delay(ana_rows *rows, error_message *err)
{
    static const char *const ranges[] = {NULL, "{\"dynamism.keep_final\":0.8}",
                                         "{\"dynamism.keep_final\":0.95}",
                                         "{\"training.layers\":24}"};
    enum { DELAY_MAX = 4 };
    static const long long intra_bytes_per_s = 450000000000;
    static const long long inter_bytes_per_s = 25000000000;
    scaled first = {.speed_up = {.count = 0}};
    ana_interval change = {0};
    for (int delay = 1; delay <= DELAY_MAX; delay++) {
        const char *setting =
            ana_rows_text(rows,
                          "{\"training.data_parallel\":1,\"cluster.links\":{"
                          "\"intra\":{\"latency_ns\":5000,\"bytes_per_s\":%lld},"
                          "\"inter\":{\"latency_ns\":10000,\"bytes_per_s\":%lld}}}",
                          intra_bytes_per_s / delay, inter_bytes_per_s / delay);
        scaled result;
        TRY(play("early-exit", setting, ranges, &result, err));
        if (delay == 1) first = result;
        for (int range = 0; range < RANGE_COUNT && delay == DELAY_MAX; range++) {
            ana_interval_add(&change, result.of_range[range] / first.of_range[range]);
        }
        ana_rows_add_number(rows, ana_rows_text(rows, "speed-up, messages %dx as long", delay),
                            &result.speed_up, result.bound.high, ANA_AGREEMENT_PREDICTED,
                            "even (Megatron), the same model", "");
        ana_rows_draw(rows, ANA_FIGURE_NETWORK_DELAY, ana_rows_text(rows, "%dx", delay));
    }
    ana_rows_add_number(rows, "speed-up at 4x over that at 1x", &change, NAN,
                        ANA_AGREEMENT_PREDICTED, "messages at their own length",
                        "The paper says that the speed-up increases; it gives no numbers. Sends "
                        "are asynchronous here; slow ones wait alike under every split.");
    return STATUS_OK;
}
