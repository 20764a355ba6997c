#include "models/dynamism/expert_load.h"

#include "models/dynamism/dynamism_case.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/// What streams are for.
enum {
    STREAM_POOL = 1,
    STREAM_CHOICE,
    STREAM_RANGE = 101,
    STREAM_LAYER,
    STREAM_PERSISTENT,
    STREAM_DRIFT
};

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

/// The same number for every expert, the first ones one more where it does not divide.
static void balance(const model_routing *routing, int32_t *counts)
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

/// Drawn outcomes that a layer keeps at hand; every microbatch meets one of them, INDEX_BITS of a
/// random word.
enum { INDEX_BITS = 7, DRAWN_OUTCOMES = 1 << INDEX_BITS, INDICES_PER_WORD = 64 / INDEX_BITS };

static bool is_recorded(const model_expert_load *load)
{
    return load->router == MODEL_ROUTER_RECORDED;
}

static bool is_skewed(const model_expert_load *load)
{
    return is_recorded(load) || load->router == MODEL_ROUTER_TOKEN_CHOICE;
}

void model_expert_load_carve(model_expert_load *load)
{
    arena *memory = load->of.memory;
    load->column_count =
        is_recorded(load) ? load->recorded.microbatch_count : load->of.base->microbatch_count;
    load->outcome_count = is_recorded(load) ? load->column_count : DRAWN_OUTCOMES;
    load->at_hand = -1;
    const size_t layers = (size_t)load->of.layer_count;
    const size_t experts = (size_t)load->routing.expert_count;
    const size_t outcomes = layers * (size_t)load->outcome_count;
    const size_t cells = layers * (size_t)load->column_count;
    const bool is_drawn = load->router == MODEL_ROUTER_TOKEN_CHOICE;
    load->outcomes = arena_array(memory, outcomes, sizeof *load->outcomes);
    load->counts = arena_array(memory, is_drawn ? outcomes * experts : 0, sizeof *load->counts);
    load->group_counts = arena_array(memory, experts, sizeof *load->group_counts);
    load->share = arena_array(memory, experts, sizeof *load->share);
    load->choice = arena_array(memory, (size_t)load->column_count, sizeof *load->choice);
    load->tokens = arena_array(memory, layers * experts, sizeof *load->tokens);
    load->held[MODEL_LOAD_PUBLISHED] =
        (model_load){.column_count = load->column_count, .whole = model_case_ones(memory, cells)};
    model_load *physical = &load->held[MODEL_LOAD_PHYSICAL];
    *physical = (model_load){.column_count = load->column_count,
                             .activation = model_case_ones(memory, layers),
                             .gradient = model_case_ones(memory, layers)};
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        physical->pass[pass] = model_case_ones(memory, cells);
        if (pass == MODEL_PASS_BACKWARD_WEIGHT) continue; // W exchanges nothing
        physical->added_ns[pass] = arena_array(memory, cells, sizeof(int64_t));
    }
    for (int load_model = 0; load_model < MODEL_LOAD_COUNT; load_model++) {
        if (!model_expert_load_is_varied(load, (model_load_model)load_model)) continue;
        load->of.load[load_model] = load->held[load_model];
    }
}

bool model_expert_load_is_varied(const model_expert_load *load, model_load_model load_model)
{
    return is_skewed(load) && (load_model == MODEL_LOAD_PUBLISHED || load->rank_count > 1);
}

bool model_expert_load_changes(const model_expert_load *load, int iteration)
{
    if (iteration == 0 || !is_recorded(load)) return true;
    return model_expert_counts_sample(&load->recorded, iteration) !=
           model_expert_counts_sample(&load->recorded, iteration - 1);
}

static double token_ratio(const model_expert_load *load, int layer)
{
    return load->token_ratio != NULL ? load->token_ratio[layer] : 1;
}

/// A number of tokens of the base, in this layer.
static int64_t tokens_in(const model_expert_load *load, int layer, int64_t tokens)
{
    if (token_ratio(load, layer) == 1) return tokens;
    const int64_t scaled = (int64_t)((double)tokens * token_ratio(load, layer) + 0.5);
    return scaled > 1 ? scaled : 1;
}

/// What two all-to-alls, out and back, take longer because one rank receives, and sends back, more.
///
/// @param sent the busiest rank's tokens over those of a balanced all-to-all of the base
static int64_t excess_ns_of(const model_expert_load *load, double sent)
{
    if (load->group.rank_count < 2) return 0;
    const double received = (double)load->exchange_bytes * sent + 0.5;
    const int64_t bytes = received < 0x1p62 ? (int64_t)received : INT64_C(1) << 62;
    return 2 * (bal_group_all_to_all_ns(&load->group, bytes) -
                bal_group_all_to_all_ns(&load->group, load->exchange_bytes));
}

/// @param total tokens that all experts together were sent
static model_routing_outcome outcome_of(const model_expert_load *load, const int32_t *counts,
                                        int64_t total)
{
    const int experts = load->routing.expert_count;
    const int64_t rank = model_routing_busiest(counts, experts, load->rank_count);
    const int64_t expert = model_routing_busiest(counts, experts, experts);
    return (model_routing_outcome){
        .straggler = (double)rank * load->rank_count / (double)total,
        .busiest = (double)expert * experts / (double)total,
    };
}

/// Routes one microbatch of every group that a replica waits for.
///
/// @param counts [expert_count] out: of all groups
static model_routing_outcome draw_outcome(model_expert_load *load, int layer, rng *random,
                                          int32_t *counts)
{
    const int experts = load->routing.expert_count;
    model_routing routing = load->routing;
    model_routing_outcome worst = {0};
    routing.tokens = tokens_in(load, layer, routing.tokens);
    memset(counts, 0, (size_t)experts * sizeof *counts);
    for (int group = 0; group < load->group_count; group++) {
        model_routing_draw(&routing, load->share, random, load->group_counts);
        const model_routing_outcome one =
            outcome_of(load, load->group_counts, routing.tokens * routing.top_k);
        if (one.straggler > worst.straggler) worst.straggler = one.straggler;
        if (one.busiest > worst.busiest) worst.busiest = one.busiest;
        for (int expert = 0; expert < experts; expert++) {
            counts[expert] += load->group_counts[expert];
        }
    }
    return worst;
}

static int32_t *drawn_counts(const model_expert_load *load, int layer, int outcome)
{
    const size_t index = (size_t)layer * (size_t)load->outcome_count + (size_t)outcome;
    return load->counts + index * (size_t)load->routing.expert_count;
}

static void draw_layer(model_expert_load *load, int layer, int step)
{
    model_routing_outcome *outcomes = load->outcomes + (size_t)layer * (size_t)load->outcome_count;
    rng random = model_case_stream(load->of.seed, STREAM_POOL, layer, step, 0);
    model_routing_shares(&load->routing, layer, step * load->step_iterations, load->share);
    for (int outcome = 0; outcome < load->outcome_count; outcome++) {
        outcomes[outcome] = draw_outcome(load, layer, &random, drawn_counts(load, layer, outcome));
    }
}

static const int32_t *recorded_counts(const model_expert_load *load, int layer, int sample,
                                      int column)
{
    return model_expert_counts_row(&load->recorded, sample, layer - load->of.first, column);
}

static void look_up_layer(model_expert_load *load, int layer, int sample)
{
    model_routing_outcome *outcomes = load->outcomes + (size_t)layer * (size_t)load->outcome_count;
    for (int column = 0; column < load->outcome_count; column++) {
        const int32_t *counts = recorded_counts(load, layer, sample, column);
        int64_t total = load->counted_tokens;
        for (int expert = 0; load->counted_tokens == 0 && expert < load->routing.expert_count;
             expert++) {
            total += counts[expert];
        }
        outcomes[column] = outcome_of(load, counts, total);
    }
}

/// What follows from the outcomes of a layer whichever of them a microbatch meets.
static void finish_layer(model_expert_load *load, int layer)
{
    model_routing_outcome *outcomes = load->outcomes + (size_t)layer * (size_t)load->outcome_count;
    const double ratio = token_ratio(load, layer);
    double worst = 0;
    for (int outcome = 0; outcome < load->outcome_count; outcome++) {
        outcomes[outcome].excess_ns = excess_ns_of(load, outcomes[outcome].straggler * ratio);
        if (outcomes[outcome].straggler > worst) worst = outcomes[outcome].straggler;
    }
    load->held[MODEL_LOAD_PHYSICAL].activation[layer] =
        1 + load->routed[layer].activation * (worst - 1);
    load->held[MODEL_LOAD_PHYSICAL].gradient[layer] =
        1 + load->routed[layer].gradient * (worst - 1);
}

/// Step or sample that an iteration belongs to.
static int period_of(const model_expert_load *load, int iteration)
{
    if (is_recorded(load)) return model_expert_counts_sample(&load->recorded, iteration);
    return load->step_iterations > 0 ? iteration / load->step_iterations : 0;
}

/// Makes the outcomes that hold in an iteration, unless they are there.
static void prepare(model_expert_load *load, int iteration)
{
    const int period = period_of(load, iteration);
    if (load->at_hand == period) return;
    for (int layer = 0; layer < load->of.layer_count; layer++) {
        if (!load->has_experts[layer]) continue;
        if (is_recorded(load)) {
            look_up_layer(load, layer, period);
        } else {
            draw_layer(load, layer, period);
        }
        finish_layer(load, layer);
    }
    load->at_hand = period;
}

/// Which outcome each microbatch of a layer meets.
static void choose(model_expert_load *load, int layer, int iteration, int replica)
{
    rng random = model_case_stream(load->of.seed, STREAM_CHOICE, layer, iteration, replica);
    uint64_t word = 0;
    for (int column = 0; column < load->column_count; column++) {
        if (is_recorded(load)) {
            load->choice[column] = column;
            continue;
        }
        if (column % INDICES_PER_WORD == 0) word = rng_next(&random);
        load->choice[column] = (int32_t)(word % DRAWN_OUTCOMES);
        word >>= INDEX_BITS;
    }
}

static void fill_physical_row(model_expert_load *load, int layer)
{
    const model_routing_outcome *restrict outcomes =
        load->outcomes + (size_t)layer * (size_t)load->outcome_count;
    const model_routed_share routed = load->routed[layer];
    const size_t row = (size_t)layer * (size_t)load->column_count;
    const model_load *held = &load->held[MODEL_LOAD_PHYSICAL];
    double *restrict forward = held->pass[MODEL_PASS_FORWARD] + row;
    double *restrict input = held->pass[MODEL_PASS_BACKWARD_INPUT] + row;
    double *restrict weight = held->pass[MODEL_PASS_BACKWARD_WEIGHT] + row;
    int64_t *restrict forward_excess = held->added_ns[MODEL_PASS_FORWARD] + row;
    int64_t *restrict backward_excess = held->added_ns[MODEL_PASS_BACKWARD_INPUT] + row;
    for (int column = 0; column < load->column_count; column++) {
        const model_routing_outcome *met = &outcomes[load->choice[column]];
        const double beyond = met->straggler - 1;
        forward[column] = 1 + routed.pass[MODEL_PASS_FORWARD] * beyond;
        input[column] = 1 + routed.pass[MODEL_PASS_BACKWARD_INPUT] * beyond;
        weight[column] = 1 + routed.pass[MODEL_PASS_BACKWARD_WEIGHT] * beyond;
        forward_excess[column] = met->excess_ns;
        backward_excess[column] = met->excess_ns * load->backward_ways / 2;
    }
}

static void fill_published_row(model_expert_load *load, int layer)
{
    const model_routing_outcome *outcomes =
        load->outcomes + (size_t)layer * (size_t)load->outcome_count;
    double *whole =
        load->held[MODEL_LOAD_PUBLISHED].whole + (size_t)layer * (size_t)load->column_count;
    for (int column = 0; column < load->column_count; column++) {
        whole[column] = outcomes[load->choice[column]].busiest;
    }
}

void model_expert_load_fill(model_expert_load *load, model_load_model load_model, int iteration,
                            int replica)
{
    prepare(load, iteration);
    for (int layer = 0; layer < load->of.layer_count; layer++) {
        if (!load->has_experts[layer]) continue;
        choose(load, layer, iteration, replica);
        if (load_model == MODEL_LOAD_PUBLISHED) {
            fill_published_row(load, layer);
        } else {
            fill_physical_row(load, layer);
        }
    }
}

/// Adds what the experts of a layer get in all microbatches.
static void sum_skewed(model_expert_load *load, int layer, int period, int64_t *sums)
{
    const int repeated = load->of.base->microbatch_count / load->column_count;
    for (int column = 0; column < load->column_count; column++) {
        const int32_t *counts = is_recorded(load) ? recorded_counts(load, layer, period, column)
                                                  : drawn_counts(load, layer, load->choice[column]);
        for (int expert = 0; expert < load->routing.expert_count; expert++) {
            sums[expert] += (int64_t)counts[expert] * repeated;
        }
    }
}

static void sum_balanced(model_expert_load *load, int layer, int64_t *sums)
{
    model_routing routing = load->routing;
    routing.tokens = tokens_in(load, layer, routing.tokens);
    balance(&routing, load->group_counts);
    for (int expert = 0; expert < load->routing.expert_count; expert++) {
        sums[expert] = (int64_t)load->group_counts[expert] * load->of.base->microbatch_count *
                       load->group_count;
    }
}

void model_expert_load_tokens(model_expert_load *load, int iteration, int replica)
{
    const size_t experts = (size_t)load->routing.expert_count;
    memset(load->tokens, 0, (size_t)load->of.layer_count * experts * sizeof *load->tokens);
    if (is_skewed(load)) prepare(load, iteration);
    for (int layer = 0; layer < load->of.layer_count; layer++) {
        int64_t *sums = load->tokens + (size_t)layer * experts;
        if (!load->has_experts[layer]) continue;
        if (!is_skewed(load)) {
            sum_balanced(load, layer, sums);
            continue;
        }
        choose(load, layer, iteration, replica);
        sum_skewed(load, layer, period_of(load, iteration), sums);
    }
}
