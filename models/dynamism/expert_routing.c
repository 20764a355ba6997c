#include "models/dynamism/expert_routing.h"

#include "models/dynamism/dynamism_case.h"

#include <assert.h>
#include <math.h>

/// What streams are for; expert_load.c has its own below 100.
enum { STREAM_RANGE = 101, STREAM_LAYER, STREAM_PERSISTENT, STREAM_DRIFT };

enum { RANGE_DRAWS = 4096, RANGE_NORMALS_MAX = 1 << 20 };
#define SHARE_LOG_MAX 300.0 // of a logarithm of a share: what exponentials of a sum still hold

double model_routing_sigma(int expert_count, double spread_ratio)
{
    if (expert_count < 2 || spread_ratio == 0) return 0;
    rng random = model_case_stream(0, STREAM_RANGE, expert_count, 0, 0);
    const int draws = RANGE_NORMALS_MAX / expert_count < RANGE_DRAWS
                          ? RANGE_NORMALS_MAX / expert_count
                          : RANGE_DRAWS;
    double sum = 0;
    for (int draw = 0; draw < draws; draw++) {
        double lowest = INFINITY;
        double highest = -INFINITY;
        for (int expert = 0; expert < expert_count; expert++) {
            const double value = rng_normal(&random);
            lowest = value < lowest ? value : lowest;
            highest = value > highest ? value : highest;
        }
        sum += highest - lowest;
    }
    return spread_ratio / (sum / draws);
}

/// What drifts, at a time between two moments at which it was drawn: weights whose squares sum to
/// 1 keep its variance.
typedef struct drift {
    rng before;
    rng after;
    double weight_before;
    double weight_after;
} drift;

static drift drift_at(const model_routing *routing, int layer, int iteration)
{
    const int period = routing->drift_period;
    const int moment = period > 0 ? iteration / period : 0;
    const double fraction = period > 0 ? (double)(iteration % period) / period : 0;
    const double norm = sqrt((1 - fraction) * (1 - fraction) + fraction * fraction);
    return (drift){
        .before = model_case_stream(routing->seed, STREAM_DRIFT, layer, moment, 0),
        .after = model_case_stream(routing->seed, STREAM_DRIFT, layer, moment + 1, 0),
        .weight_before = (1 - fraction) / norm,
        .weight_after = fraction / norm,
    };
}

void model_routing_shares(const model_routing *routing, int layer, int iteration, double *share)
{
    const int skewed = routing->skew_layers > 1 ? layer / routing->skew_layers : layer;
    rng of_layer = model_case_stream(routing->seed, STREAM_LAYER, skewed, 0, 0);
    rng persistent = model_case_stream(routing->seed, STREAM_PERSISTENT, skewed, 0, 0);
    drift drifting = drift_at(routing, skewed, iteration);
    const double sigma = routing->sigma * rng_unit(&of_layer);
    const double stays = sqrt(routing->persistent);
    const double moves = sqrt(1 - routing->persistent);
    double sum = 0;
    for (int expert = 0; expert < routing->expert_count; expert++) {
        const double moving = drifting.weight_before * rng_normal(&drifting.before) +
                              drifting.weight_after * rng_normal(&drifting.after);
        const double logarithm = sigma * (stays * rng_normal(&persistent) + moves * moving);
        const double bounded = logarithm > SHARE_LOG_MAX    ? SHARE_LOG_MAX
                               : logarithm < -SHARE_LOG_MAX ? -SHARE_LOG_MAX
                                                            : logarithm;
        share[expert] = rng_portable_exp(bounded);
        sum += share[expert];
    }
    for (int expert = 0; expert < routing->expert_count; expert++) {
        share[expert] /= sum;
    }
}

/// Brings the counts, which sum to at most the total, to it: one token more for each expert in turn
/// that has room, as often as needed.
static void complete(const model_routing *routing, int64_t missing, int32_t *counts)
{
    const int experts = routing->expert_count;
    while (missing > 0) {
        const int64_t each = missing / experts > 0 ? missing / experts : 1;
        for (int expert = 0; expert < experts && missing > 0; expert++) {
            const int64_t room = routing->tokens - counts[expert];
            const int64_t given = each < room ? each : room;
            counts[expert] += (int32_t)(given < missing ? given : missing);
            missing -= given < missing ? given : missing;
        }
    }
}

void model_routing_draw(const model_routing *routing, const double *share, rng *random,
                        int32_t *counts)
{
    const int experts = routing->expert_count;
    const double total = (double)(routing->tokens * routing->top_k);
    double drawn[MODEL_EXPERTS_MAX];
    double sum = 0;
    for (int expert = 0; expert < experts; expert++) {
        const double counting =
            routing->correlation * (1 - share[expert]) / (total * share[expert]);
        const double deviation = sqrt(routing->noise * routing->noise + counting);
        const double value = share[expert] * (1 + deviation * rng_normal(random));
        drawn[expert] = value > 0 ? value : 0;
        sum += drawn[expert];
    }
    int64_t missing = routing->tokens * routing->top_k;
    for (int expert = 0; expert < experts; expert++) {
        const double count = sum > 0 ? total * (drawn[expert] / sum) : 0;
        const int64_t whole = count < (double)routing->tokens ? (int64_t)count : routing->tokens;
        counts[expert] = (int32_t)(whole < missing ? whole : missing);
        missing -= counts[expert];
    }
    complete(routing, missing, counts);
}

void model_routing_balanced(const model_routing *routing, int32_t *counts)
{
    const int64_t total = routing->tokens * routing->top_k;
    for (int expert = 0; expert < routing->expert_count; expert++) {
        counts[expert] = (int32_t)(total / routing->expert_count +
                                   (expert < total % routing->expert_count ? 1 : 0));
    }
}

int64_t model_routing_busiest(const int32_t *counts, int expert_count, int rank_count)
{
    assert(rank_count >= 1 && expert_count % rank_count == 0);
    const int held = expert_count / rank_count;
    int64_t busiest = 0;
    for (int rank = 0; rank < rank_count; rank++) {
        int64_t sum = 0;
        for (int expert = rank * held; expert < (rank + 1) * held; expert++) {
            sum += counts[expert];
        }
        busiest = sum > busiest ? sum : busiest;
    }
    return busiest;
}
