/// Mixture of experts: under expert parallelism a layer waits for the rank whose experts have most
/// tokens.
#include "models/dynamism_case.h"
#include "models/expert_routing.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { STREAM_POOL = 1, STREAM_CHOICE };

/// Outcomes of routing that a layer keeps while its shares stand still; every microbatch draws one
/// of them, INDEX_BITS of a random word.
enum { INDEX_BITS = 7, OUTCOMES = 1 << INDEX_BITS, INDICES_PER_WORD = 64 / INDEX_BITS };

enum { STEPS_PER_DRIFT = 10, TOKENS_MAX = 1 << 30 };

typedef enum routing_kind {
    ROUTING_TOKEN_CHOICE,
    ROUTING_S_BASE,
    ROUTING_EXPERT_CHOICE
} routing_kind;

static const char *const routing_names[] = {"token-choice", "s-base", "expert-choice"};
enum { ROUTING_COUNT = sizeof routing_names / sizeof routing_names[0] };

static const char *const keys[] = {"routing",
                                   "spread_ratio",
                                   "persistent_ratio",
                                   "drift_iterations",
                                   "microbatch_noise_ratio",
                                   "token_correlation",
                                   "capacity_factor",
                                   "experts",
                                   "top_k",
                                   "tokens"};

/// What came of routing one microbatch of a group.
typedef struct outcome {
    double straggler;  // tokens of the busiest rank over those of all ranks alike
    double busiest;    // tokens of the busiest expert over those of all experts alike
    int64_t excess_ns; // of the two all-to-alls of a pass over balanced ones
} outcome;

/// How much of a layer's cost goes with the tokens that experts take; 0 in dense layers.
typedef struct routed_share {
    double pass[MODEL_PASS_COUNT]; // of its time
    double activation;             // of the bytes kept from F to B
    double gradient;               // of the bytes kept from B to W
} routed_share;

typedef struct moe_state {
    uint64_t seed;
    routing_kind kind;
    model_routing routing;  // of one group of ranks that share experts
    int rank_count;         // of a group
    int groups_per_source;  // groups that a replica waits for
    double capacity_factor; // 0: no token is dropped
    int64_t capacity;       // tokens that an expert takes, INT64_MAX: all
    int layer_count;
    int microbatch_count;
    const bool *has_experts;        // [layer_count]
    const routed_share *routed;     // [layer_count]
    bal_group group;                // links between its ranks; rank_count 0: not known
    int64_t exchange_bytes;         // that a rank sends in a balanced all-to-all
    int step;                       // iterations for which shares stand still; 0: all
    int pool_step;                  // whose outcomes are held; -1: none
    double *share;                  // [expert_count]
    outcome *outcomes;              // [layer_count][OUTCOMES]
    int32_t *counts;                // [layer_count][OUTCOMES][expert_count] summed over groups
    int32_t *group_counts;          // [expert_count]
    uint8_t *choice;                // [microbatch_count] outcome of each
    double *pass[MODEL_PASS_COUNT]; // [layer_count][microbatch_count] factors
    double *whole;                  // [layer_count][microbatch_count] published
    int64_t *excess_ns;             // [layer_count][microbatch_count]
    double *activation;             // [layer_count]
    double *gradient;               // [layer_count]
    int64_t *tokens;                // [layer_count][expert_count] of an iteration
} moe_state;

static status out_of_memory(error_message *err)
{
    return error_set(err, STATUS_NO_MEMORY, "out of memory for dynamism 'moe'");
}

/// Experts of the model, or those that the object states where no model stands beside a trace.
static status read_model(const model_case_setup *setup, moe_state *moe, error_message *err)
{
    model_case_parameters *parameters = setup->parameters;
    const model_config *config = setup->base->config;
    const model_origin from_model = {MODEL_ORIGIN_GIVEN, "the model"};
    static const char *const stated[] = {"experts", "top_k", "tokens"};
    if (config == NULL) {
        int tokens = 0;
        const model_origin none = MODEL_ASSUMED("");
        for (int key = 0; key < 3; key++) {
            if (!json_is_missing(json_member(parameters->object, stated[key]))) continue;
            return json_error(parameters->object, STATUS_INVALID, err,
                              "case 'moe' over a trace needs '%s', or the model named beside it",
                              stated[key]);
        }
        TRY(model_parameter_int(parameters, "experts", 1, MODEL_EXPERTS_MAX, none,
                                &moe->routing.expert_count, err));
        TRY(model_parameter_int(parameters, "top_k", 1, moe->routing.expert_count, none,
                                &moe->routing.top_k, err));
        TRY(model_parameter_int(parameters, "tokens", 1, TOKENS_MAX, none, &tokens, err));
        moe->routing.tokens = tokens;
        return STATUS_OK;
    }
    for (int key = 0; key < 3; key++) {
        const json_value member = json_member(parameters->object, stated[key]);
        if (json_is_missing(member)) continue;
        return json_error(member, STATUS_INVALID, err, "the model says it already");
    }
    if (config->expert_count == 0) {
        return error_set(err, STATUS_INVALID,
                         "dynamism 'moe': the model (%s) is dense, it has no experts",
                         config->model_type);
    }
    const int context = model_parallel_filled(setup->base->parallel).context;
    moe->routing.expert_count = config->expert_count;
    moe->routing.top_k = config->expert_top_k;
    moe->routing.tokens = (int64_t)setup->base->shape->sequence_length / context *
                          setup->base->shape->microbatch_size;
    return model_parameter_note(parameters, "experts", from_model, err,
                                "%d of %d per token, %" PRId64 " tokens of a GPU and microbatch",
                                config->expert_top_k, config->expert_count, moe->routing.tokens);
}

/// The groups of GPUs that hold the experts of a layer together.
static status read_groups(const model_case_setup *setup, moe_state *moe,
                          model_case_instance *instance, error_message *err)
{
    const model_parallel degrees = model_parallel_filled(setup->base->parallel);
    const int experts = moe->routing.expert_count;
    if (experts % degrees.expert != 0 || degrees.data * degrees.context % degrees.expert != 0 ||
        (degrees.expert % degrees.context != 0 && degrees.context % degrees.expert != 0)) {
        return error_set(err, STATUS_INVALID,
                         "dynamism 'moe': expert %d must divide the %d experts and data %d x "
                         "context %d, and divide context or be a multiple of it",
                         degrees.expert, experts, degrees.data, degrees.context);
    }
    const bool spans_replicas = degrees.expert >= degrees.context;
    const int replicas = spans_replicas ? degrees.expert / degrees.context : 1;
    moe->rank_count = degrees.expert;
    moe->groups_per_source = spans_replicas ? 1 : degrees.context / degrees.expert;
    moe->routing.tokens *= degrees.expert;
    instance->source_count = degrees.data / replicas;
    if (moe->routing.tokens > INT32_MAX / moe->routing.top_k / moe->groups_per_source) {
        return error_set(err, STATUS_INVALID,
                         "dynamism 'moe': %" PRId64 " tokens of a group x top_k %d exceed %d",
                         moe->routing.tokens, moe->routing.top_k, INT32_MAX);
    }
    return model_parameter_note(
        setup->parameters, "expert parallelism", (model_origin){MODEL_ORIGIN_GIVEN, ""}, err,
        "%d ranks share experts and wait for the busiest of them; %d "
        "group%s of replicas with loads of their own",
        moe->rank_count, instance->source_count, instance->source_count == 1 ? "" : "s");
}

/// Numbers that only routing without a balancing assignment has.
static status read_skew(const model_case_setup *setup, moe_state *moe, error_message *err)
{
    model_case_parameters *parameters = setup->parameters;
    static const char *const skew_keys[] = {"spread_ratio", "persistent_ratio", "drift_iterations",
                                            "microbatch_noise_ratio", "token_correlation"};
    enum { SKEW_KEYS = sizeof skew_keys / sizeof skew_keys[0] };
    for (int key = 0; moe->kind != ROUTING_TOKEN_CHOICE && key < SKEW_KEYS; key++) {
        const json_value member = json_member(parameters->object, skew_keys[key]);
        if (json_is_missing(member)) continue;
        return json_error(member, STATUS_INVALID, err,
                          "routing %s gives every expert as many tokens as the others",
                          routing_names[moe->kind]);
    }
    if (moe->kind != ROUTING_TOKEN_CHOICE) return STATUS_OK;
    double spread = 0.4;
    double noise = 0.05;
    moe->routing.persistent = 0.8;
    moe->routing.drift_period = 1000;
    moe->routing.correlation = 1.5;
    TRY(model_parameter_double(
        parameters, "spread_ratio", 0, 100,
        MODEL_PUBLISHED("DynMo paper: busiest and least busy expert of Mixtral up to 40 % apart"),
        &spread, err));
    TRY(model_parameter_double(parameters, "persistent_ratio", 0, 1,
                               MODEL_ASSUMED("most of a layer's skew stays"),
                               &moe->routing.persistent, err));
    TRY(model_parameter_int(parameters, "drift_iterations", 0, INT32_MAX / 2,
                            MODEL_ASSUMED("routers change slowly in continual training"),
                            &moe->routing.drift_period, err));
    TRY(model_parameter_double(parameters, "microbatch_noise_ratio", 0, 10,
                               MODEL_ASSUMED("documents differ"), &noise, err));
    TRY(model_parameter_double(
        parameters, "token_correlation", 0, 1e6,
        MODEL_ASSUMED("above 1: neighbouring tokens repeat their expert more often than chance "
                      "(Jiang et al., Mixtral of Experts, section 5)"),
        &moe->routing.correlation, err));
    const int context = model_parallel_filled(setup->base->parallel).context;
    const int samples = moe->rank_count > context ? moe->rank_count / context : 1;
    moe->routing.noise = noise / sqrt(samples);
    moe->routing.sigma = model_routing_sigma(moe->routing.expert_count, spread);
    moe->step = moe->routing.drift_period / STEPS_PER_DRIFT;
    if (moe->routing.drift_period > 0 && moe->step == 0) moe->step = 1;
    return STATUS_OK;
}

static status read_capacity(const model_case_setup *setup, moe_state *moe, error_message *err)
{
    TRY(model_parameter_double(setup->parameters, "capacity_factor", 0, 1e6,
                               MODEL_ASSUMED("0: no token is dropped"), &moe->capacity_factor,
                               err));
    moe->capacity = INT64_MAX;
    if (moe->capacity_factor == 0) return STATUS_OK;
    const double mean = (double)(moe->routing.tokens * moe->routing.top_k) /
                        moe->routing.expert_count * moe->capacity_factor;
    moe->capacity = mean < (double)INT32_MAX ? (int64_t)mean : INT32_MAX;
    return STATUS_OK;
}

static double share_without(int64_t all, int64_t without)
{
    return all > 0 ? (double)(all - without) / (double)all : 0;
}

/// Of a part, what would not be done if no token met an expert; a trace's MLP is all experts.
static double routed_part(const model_dynamism_base *base, int layer, model_pass pass,
                          model_part part)
{
    if (base->config == NULL) return part == MODEL_PART_MLP ? 1 : 0;
    model_config unrouted = *base->config;
    unrouted.expert_top_k = 0;
    const model_layer_work all = model_layer_work_of(base->config, base->shape, layer, pass);
    const model_layer_work rest = model_layer_work_of(&unrouted, base->shape, layer, pass);
    if (part == MODEL_PART_MLP) return share_without(all.mlp.flop, rest.mlp.flop);
    return share_without(all.elementwise.bytes, rest.elementwise.bytes);
}

static routed_share routed_share_of(const model_dynamism_base *base, int layer)
{
    routed_share routed = {0};
    const int block = layer - base->transformer_first;
    for (int pass = 0; base->shares != NULL && pass < MODEL_PASS_COUNT; pass++) {
        const model_part parts[] = {MODEL_PART_MLP, MODEL_PART_ELEMENTWISE};
        for (int part = 0; part < 2; part++) {
            routed.pass[pass] += base->shares->share[pass][parts[part]][layer] *
                                 routed_part(base, block, (model_pass)pass, parts[part]);
        }
    }
    if (base->config == NULL) return routed;
    model_config unrouted = *base->config;
    unrouted.expert_top_k = 0;
    const model_memory all = model_layer_memory(base->config, base->shape, block);
    const model_memory rest = model_layer_memory(&unrouted, base->shape, block);
    routed.activation = share_without(all.activation_bytes, rest.activation_bytes);
    routed.gradient = share_without(all.gradient_bytes, rest.gradient_bytes);
    return routed;
}

/// A trace without a model has experts in every layer.
static status find_layers(const model_case_setup *setup, moe_state *moe, error_message *err)
{
    const model_dynamism_base *base = setup->base;
    const size_t layers = (size_t)setup->layer_count;
    bool *has_experts = arena_array(setup->memory, layers, sizeof *has_experts);
    routed_share *routed = arena_array(setup->memory, layers, sizeof *routed);
    if (has_experts == NULL || routed == NULL) return out_of_memory(err);
    for (int layer = base->transformer_first; layer < base->transformer_end; layer++) {
        const int block = layer - base->transformer_first;
        has_experts[layer] = base->config == NULL || base->config->is_moe[block];
        if (has_experts[layer]) routed[layer] = routed_share_of(base, layer);
    }
    moe->has_experts = has_experts;
    moe->routed = routed;
    return STATUS_OK;
}

static status find_links(const model_case_setup *setup, moe_state *moe, error_message *err)
{
    const model_dynamism_base *base = setup->base;
    const model_origin from = {MODEL_ORIGIN_ASSUMED,
                               "the base holds the balanced all-to-alls; what the busiest rank "
                               "receives and sends beyond them is added, twice in F and in B"};
    if (moe->rank_count == 1) return STATUS_OK;
    if (base->config == NULL || base->hardware == NULL) {
        return model_parameter_note(setup->parameters, "all_to_all", from, err,
                                    "0 ns: no model or no hardware beside the costs");
    }
    moe->group = model_parallel_groups(&base->parallel, base->hardware).expert;
    moe->exchange_bytes =
        model_message_bytes(base->config, base->shape) * base->config->expert_top_k;
    return model_parameter_note(setup->parameters, "all_to_all", from, err,
                                "%" PRId64 " bytes of a GPU each, %d GPUs, %d on a node",
                                moe->exchange_bytes, moe->group.rank_count,
                                moe->group.node_rank_count);
}

static status carve(const model_case_setup *setup, moe_state *moe, error_message *err)
{
    const size_t layers = (size_t)moe->layer_count;
    const size_t cells = layers * (size_t)moe->microbatch_count;
    const size_t experts = (size_t)moe->routing.expert_count;
    arena *memory = setup->memory;
    enum { CELL_ARRAYS = MODEL_PASS_COUNT + 1 };
    double *factors = arena_array(memory, CELL_ARRAYS * cells + 2 * layers, sizeof *factors);
    moe->share = arena_array(memory, experts, sizeof *moe->share);
    moe->outcomes = arena_array(memory, layers * OUTCOMES, sizeof *moe->outcomes);
    moe->counts = arena_array(memory, layers * OUTCOMES * experts, sizeof *moe->counts);
    moe->group_counts = arena_array(memory, experts, sizeof *moe->group_counts);
    moe->choice = arena_array(memory, (size_t)moe->microbatch_count, 1);
    moe->excess_ns = arena_array(memory, cells, sizeof *moe->excess_ns);
    moe->tokens = arena_array(memory, layers * experts, sizeof *moe->tokens);
    if (factors == NULL || moe->share == NULL || moe->outcomes == NULL || moe->counts == NULL ||
        moe->group_counts == NULL || moe->choice == NULL || moe->excess_ns == NULL ||
        moe->tokens == NULL) {
        return out_of_memory(err);
    }
    for (size_t number = 0; number < CELL_ARRAYS * cells + 2 * layers; number++) {
        factors[number] = 1;
    }
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        moe->pass[pass] = factors;
        factors += cells;
    }
    moe->whole = factors;
    moe->activation = factors + cells;
    moe->gradient = factors + cells + layers;
    return STATUS_OK;
}

/// Whether counts differ at all, and whether a load model sees it: without expert parallelism and
/// without dropping every layer computes as many tokens as the others.
static bool is_varied(const moe_state *moe, model_load_model load_model)
{
    if (moe->kind != ROUTING_TOKEN_CHOICE) return false;
    return load_model == MODEL_LOAD_PUBLISHED || moe->rank_count > 1 || moe->capacity != INT64_MAX;
}

static status moe_open(const model_case_setup *setup, model_case_instance *instance,
                       error_message *err)
{
    moe_state *moe = arena_array(setup->memory, 1, sizeof *moe);
    int kind = ROUTING_TOKEN_CHOICE;
    if (moe == NULL) return out_of_memory(err);
    moe->seed = setup->seed;
    moe->routing.seed = setup->seed;
    moe->layer_count = setup->layer_count;
    moe->microbatch_count = setup->base->microbatch_count;
    moe->pool_step = -1;
    TRY(read_model(setup, moe, err));
    TRY(model_parameter_name(
        setup->parameters, "routing", routing_names, ROUTING_COUNT,
        MODEL_PUBLISHED("DynMo paper: Mixtral, token choice with an auxiliary loss"), &kind, err));
    moe->kind = (routing_kind)kind;
    TRY(read_groups(setup, moe, instance, err));
    TRY(read_skew(setup, moe, err));
    TRY(read_capacity(setup, moe, err));
    TRY(find_layers(setup, moe, err));
    TRY(find_links(setup, moe, err));
    TRY(carve(setup, moe, err));
    if (!is_varied(moe, setup->load_model)) instance->source_count = 1;
    instance->state = moe;
    return STATUS_OK;
}

/// What the two all-to-alls of a pass take longer because one rank receives, and sends back, more.
static int64_t excess_ns_of(const moe_state *moe, double straggler)
{
    if (moe->group.rank_count < 2) return 0;
    const int64_t bytes = (int64_t)((double)moe->exchange_bytes * straggler + 0.5);
    return 2 * (bal_group_all_to_all_ns(&moe->group, bytes) -
                bal_group_all_to_all_ns(&moe->group, moe->exchange_bytes));
}

static outcome outcome_of(const moe_state *moe, const int32_t *counts)
{
    const int experts = moe->routing.expert_count;
    const double total = (double)(moe->routing.tokens * moe->routing.top_k);
    const int64_t rank = model_routing_busiest(counts, experts, moe->rank_count, moe->capacity);
    const int64_t expert = model_routing_busiest(counts, experts, experts, INT64_MAX);
    return (outcome){.straggler = (double)rank * moe->rank_count / total,
                     .busiest = (double)expert * experts / total};
}

/// Routes one microbatch of every group that a replica waits for.
static outcome route(moe_state *moe, rng *random, int32_t *counts)
{
    outcome worst = {0};
    for (int group = 0; group < moe->groups_per_source; group++) {
        model_routing_draw(&moe->routing, moe->share, random, moe->group_counts);
        const outcome one = outcome_of(moe, moe->group_counts);
        if (one.straggler > worst.straggler) worst.straggler = one.straggler;
        if (one.busiest > worst.busiest) worst.busiest = one.busiest;
        for (int expert = 0; expert < moe->routing.expert_count; expert++) {
            counts[expert] += moe->group_counts[expert];
        }
    }
    worst.excess_ns = excess_ns_of(moe, worst.straggler);
    return worst;
}

static void fill_pool_of_layer(moe_state *moe, int layer, int step)
{
    const size_t experts = (size_t)moe->routing.expert_count;
    outcome *outcomes = moe->outcomes + (size_t)layer * OUTCOMES;
    int32_t *counts = moe->counts + (size_t)layer * OUTCOMES * experts;
    rng random = model_case_stream(moe->seed, STREAM_POOL, layer, step, 0);
    double worst = 0;
    model_routing_shares(&moe->routing, layer, step * moe->step, moe->share);
    memset(counts, 0, OUTCOMES * experts * sizeof *counts);
    for (int index = 0; index < OUTCOMES; index++) {
        outcomes[index] = route(moe, &random, counts + (size_t)index * experts);
        if (outcomes[index].straggler > worst) worst = outcomes[index].straggler;
    }
    moe->activation[layer] = 1 + moe->routed[layer].activation * (worst - 1);
    moe->gradient[layer] = 1 + moe->routed[layer].gradient * (worst - 1);
}

/// Makes the outcomes that hold in an iteration, unless they are there.
static void fill_pool(moe_state *moe, int iteration)
{
    const int step = moe->step > 0 ? iteration / moe->step : 0;
    if (moe->pool_step == step) return;
    for (int layer = 0; layer < moe->layer_count; layer++) {
        if (moe->has_experts[layer]) fill_pool_of_layer(moe, layer, step);
    }
    moe->pool_step = step;
}

/// Which outcome each microbatch of a layer meets.
static void choose(moe_state *moe, int layer, int iteration, int replica)
{
    rng random = model_case_stream(moe->seed, STREAM_CHOICE, layer, iteration, replica);
    uint64_t word = 0;
    for (int microbatch = 0; microbatch < moe->microbatch_count; microbatch++) {
        if (microbatch % INDICES_PER_WORD == 0) word = rng_next(&random);
        moe->choice[microbatch] = (uint8_t)(word % OUTCOMES);
        word >>= INDEX_BITS;
    }
}

static void fill_physical_row(moe_state *moe, int layer)
{
    const outcome *restrict outcomes = moe->outcomes + (size_t)layer * OUTCOMES;
    const routed_share routed = moe->routed[layer];
    const size_t row = (size_t)layer * (size_t)moe->microbatch_count;
    double *restrict forward = moe->pass[MODEL_PASS_FORWARD] + row;
    double *restrict input = moe->pass[MODEL_PASS_BACKWARD_INPUT] + row;
    double *restrict weight = moe->pass[MODEL_PASS_BACKWARD_WEIGHT] + row;
    int64_t *restrict excess_ns = moe->excess_ns + row;
    for (int microbatch = 0; microbatch < moe->microbatch_count; microbatch++) {
        const outcome *met = &outcomes[moe->choice[microbatch]];
        const double beyond = met->straggler - 1;
        forward[microbatch] = 1 + routed.pass[MODEL_PASS_FORWARD] * beyond;
        input[microbatch] = 1 + routed.pass[MODEL_PASS_BACKWARD_INPUT] * beyond;
        weight[microbatch] = 1 + routed.pass[MODEL_PASS_BACKWARD_WEIGHT] * beyond;
        excess_ns[microbatch] = met->excess_ns;
    }
}

static void fill_published_row(moe_state *moe, int layer)
{
    const outcome *outcomes = moe->outcomes + (size_t)layer * OUTCOMES;
    double *whole = moe->whole + (size_t)layer * (size_t)moe->microbatch_count;
    for (int microbatch = 0; microbatch < moe->microbatch_count; microbatch++) {
        whole[microbatch] = outcomes[moe->choice[microbatch]].busiest;
    }
}

static status moe_load_at(void *state, model_load_model load_model, int iteration, int replica,
                          model_load *load, bool *changed, error_message *err)
{
    (void)err;
    moe_state *moe = state;
    *changed = iteration == 0;
    if (!is_varied(moe, load_model)) return STATUS_OK;
    fill_pool(moe, iteration);
    for (int layer = 0; layer < moe->layer_count; layer++) {
        if (!moe->has_experts[layer]) continue;
        choose(moe, layer, iteration, replica);
        if (load_model == MODEL_LOAD_PUBLISHED) {
            fill_published_row(moe, layer);
        } else {
            fill_physical_row(moe, layer);
        }
    }
    *changed = true;
    load->column_count = moe->microbatch_count;
    if (load_model == MODEL_LOAD_PUBLISHED) {
        load->whole = moe->whole;
        return STATUS_OK;
    }
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        load->pass[pass] = moe->pass[pass];
        if (pass != MODEL_PASS_BACKWARD_WEIGHT) load->added_ns[pass] = moe->excess_ns;
    }
    load->activation = moe->activation;
    load->gradient = moe->gradient;
    return STATUS_OK;
}

/// Adds what the experts of a layer get in an iteration.
static void sum_tokens(moe_state *moe, int layer, int iteration, int replica, int64_t *sums)
{
    const size_t experts = (size_t)moe->routing.expert_count;
    if (moe->kind != ROUTING_TOKEN_CHOICE) {
        model_routing_balanced(&moe->routing, moe->group_counts);
        for (size_t expert = 0; expert < experts; expert++) {
            sums[expert] =
                (int64_t)moe->group_counts[expert] * moe->microbatch_count * moe->groups_per_source;
        }
        return;
    }
    choose(moe, layer, iteration, replica);
    for (int microbatch = 0; microbatch < moe->microbatch_count; microbatch++) {
        const int32_t *counts =
            moe->counts + ((size_t)layer * OUTCOMES + moe->choice[microbatch]) * experts;
        for (size_t expert = 0; expert < experts; expert++) {
            sums[expert] += counts[expert];
        }
    }
}

static status moe_expert_tokens(void *state, int iteration, int replica,
                                model_expert_tokens *tokens, error_message *err)
{
    (void)err;
    moe_state *moe = state;
    const size_t experts = (size_t)moe->routing.expert_count;
    memset(moe->tokens, 0, (size_t)moe->layer_count * experts * sizeof *moe->tokens);
    if (moe->kind == ROUTING_TOKEN_CHOICE) fill_pool(moe, iteration);
    for (int layer = 0; layer < moe->layer_count; layer++) {
        if (!moe->has_experts[layer]) continue;
        sum_tokens(moe, layer, iteration, replica, moe->tokens + (size_t)layer * experts);
    }
    tokens->expert_count = moe->routing.expert_count;
    tokens->tokens = moe->tokens;
    return STATUS_OK;
}

const model_dynamism_case model_dynamism_moe = {
    .name = "moe",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .needs_shares = true,
    .open = moe_open,
    .load_at = moe_load_at,
    .expert_tokens = moe_expert_tokens,
};
