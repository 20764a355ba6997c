/// Mixture of depths: in routed blocks only k of s tokens take part, the others pass by on the
/// residual stream. Blocks with experts route those that take part once more, to experts.
#include "models/dynamism/dynamism_case.h"
#include "models/dynamism/expert_load.h"

enum { STREAM_ERROR = 1, BLOCKS_MAX = 1 << 16 };

typedef struct mod_state {
    model_case of;
    double capacity_ratio; // k / s
    int every;
    int first_routed;             // of the transformer layers
    double predictor_error_ratio; // standard deviation of k over microbatches, relative to k
    double routing_weight;        // of the published load model
    int predictor_width;          // of its hidden layer
    int column_count;
    int64_t window;                      // keys that a query sees, in units of s / s; 0: all
    int64_t length;                      // s; 0: not known, no window
    int64_t router_ns[MODEL_PASS_COUNT]; // of a routed block; 0 without hardware
    model_expert_load *moe; // of case moe, which routes the tokens that take part; NULL: no experts
    double *share;          // [layer_count][column_count] k / s
    double *kept;           // [layer_count] k / s without error: what memory is provided for
    double *whole;          // [layer_count][column_count] published
    model_load *load;       // physical
} mod_state;

static bool is_routed(const mod_state *mod, int layer)
{
    const int block = layer - mod->of.first;
    if (block < 0 || block >= mod->of.block_count) return false;
    return block >= mod->first_routed && (block - mod->first_routed) % mod->every == 0;
}

/// Pairs of query and key among the share of a sample's tokens, over those of the whole sample:
/// causal attention with a window w meets w (2s - w) / 2 pairs, and so do k tokens in the place of
/// s. Without a window this is (k / s)^2.
static double pair_ratio(const mod_state *mod, double share)
{
    if (mod->window == 0) return share * share;
    const double length = (double)mod->length;
    const double kept = share * length;
    const double window = (double)mod->window;
    const double seen = window < kept ? window : kept;
    return seen * (2 * kept - seen) / (window * (2 * length - window));
}

static status read_parameters(mod_state *mod, error_message *err)
{
    const model_origin raposo = MODEL_PUBLISHED("Raposo et al., Mixture-of-Depths (2024): 12.5 % "
                                                "of the tokens, in every other block");
    const model_parameter rows[] = {
        {"capacity_ratio", .real = &mod->capacity_ratio, .fallback = 0.125, .max = 1,
         .from = raposo},
        {"every", .whole = &mod->every, .fallback = 2, .min = 1, .max = BLOCKS_MAX, .from = raposo},
        {"first_routed", .whole = &mod->first_routed, .fallback = 1, .max = BLOCKS_MAX,
         .from = MODEL_ASSUMED("the first block takes all tokens")},
        {"predictor_error_ratio", .real = &mod->predictor_error_ratio, .max = 1,
         .from = MODEL_ASSUMED("top-k over the sequence, exact in training")},
        {"predictor_width", .whole = &mod->predictor_width, .max = BLOCKS_MAX,
         .from = MODEL_ASSUMED("0: its products cost nothing; the width is not published")},
        {"routing_weight", .real = &mod->routing_weight, .fallback = 1, .max = 1,
         .from = MODEL_ASSUMED("no published value; load model published only")},
    };
    return model_parameters_read(mod->of.parameters, rows, sizeof rows / sizeof rows[0], err);
}

static status check_fit(const mod_state *mod, error_message *err)
{
    const int blocks = mod->of.block_count;
    if (mod->first_routed < blocks) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "case 'mod': first_routed %d leaves none of the %d transformer layers to "
                     "route",
                     mod->first_routed, blocks);
}

static int64_t bytes_ns(const model_hardware *hardware, double bytes)
{
    const double bytes_per_s = (double)hardware->memory_bytes_per_s * hardware->memory_efficiency;
    return (int64_t)(bytes / bytes_per_s * 1e9 + 0.5);
}

/// The router reads every token in F; the chosen ones are gathered and added back, in F and in B.
static void add_router(mod_state *mod)
{
    const model_dynamism_base *base = mod->of.base;
    static const model_origin from = {MODEL_ORIGIN_ASSUMED,
                                      "bytes over the bandwidth: all tokens read once, the chosen "
                                      "ones gathered and scattered"};
    if (base->config == NULL || base->hardware == NULL) {
        model_parameter_note(mod->of.parameters, "router", from,
                             "0 ns: no model or no hardware beside the costs");
        return;
    }
    const double all = (double)model_message_bytes(base->config, base->shape);
    const int64_t forward_ns = bytes_ns(base->hardware, all * (1 + 4 * mod->capacity_ratio));
    const int64_t backward_ns = bytes_ns(base->hardware, all * 4 * mod->capacity_ratio);
    const model_dtype dtype = model_dtype_wide(base->shape->dtype);
    const double flop = 2 * all / model_dtype_bytes(dtype) * mod->predictor_width;
    const double flop_per_s =
        (double)base->hardware->flop_per_s[dtype] * base->hardware->gemm_efficiency;
    const int64_t predictor_ns =
        flop > 0 && flop_per_s > 0 ? (int64_t)(flop / flop_per_s * 1e9 + 0.5) : 0;
    mod->router_ns[MODEL_PASS_FORWARD] = forward_ns + predictor_ns;
    mod->router_ns[MODEL_PASS_BACKWARD_INPUT] = backward_ns;
    mod->router_ns[MODEL_PASS_BACKWARD_WEIGHT] = predictor_ns; // none goes back into the states
    model_parameter_note(mod->of.parameters, "router", from,
                         "%lld ns in F, %lld ns in B of a routed block", (long long)forward_ns,
                         (long long)backward_ns);
    if (predictor_ns == 0) return;
    model_parameter_note(mod->of.parameters, "predictor", from, "%lld ns more in F, and in W",
                         (long long)predictor_ns);
}

static void carve(mod_state *mod)
{
    model_load *loads = mod->of.load;
    const size_t layers = (size_t)mod->of.layer_count;
    const size_t columns = (size_t)mod->column_count;
    mod->share = model_case_ones(mod->of.memory, layers * columns);
    mod->kept = model_case_ones(mod->of.memory, layers);
    mod->whole = model_case_ones(mod->of.memory, layers * columns);
    mod->load = &loads[MODEL_LOAD_PHYSICAL];
    loads[MODEL_LOAD_PUBLISHED] =
        (model_load){.column_count = mod->column_count, .whole = mod->whole};
    *mod->load = (model_load){
        .column_count = mod->column_count,
        .activation = model_case_ones(mod->of.memory, layers),
        .gradient = model_case_ones(mod->of.memory, layers),
    };
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        mod->load->pass[pass] = model_case_ones(mod->of.memory, layers * columns);
        mod->load->added_ns[pass] = arena_array(mod->of.memory, layers * columns, sizeof(int64_t));
    }
    for (size_t cell = 0; cell < layers * columns; cell++) {
        const int layer = (int)(cell / columns);
        if (!is_routed(mod, layer)) continue;
        mod->share[cell] = mod->capacity_ratio;
        mod->kept[layer] = mod->capacity_ratio;
    }
}

/// "moe": the case moe over the tokens that take part.
static status open_moe(mod_state *mod, error_message *err)
{
    const json_value object = model_parameter_ask(mod->of.parameters, "moe");
    model_case_parameters parameters = {.object = object, .list = mod->of.parameters->list};
    if (json_is_missing(object)) return STATUS_OK;
    mod->moe = arena_array(mod->of.memory, 1, sizeof *mod->moe);
    mod->moe->of = mod->of;
    mod->moe->of.parameters = &parameters;
    TRY(model_dynamism_moe.open(mod->moe, err));
    TRY(model_parameters_check(&parameters, err));
    mod->of.parameters->list = parameters.list;
    mod->moe->of.parameters = mod->of.parameters;
    mod->of.seed = ~mod->of.seed; // draws apart from the experts'
    if (mod->predictor_error_ratio == 0) mod->column_count = mod->moe->column_count;
    return STATUS_OK;
}

static status mod_open(void *state, error_message *err)
{
    mod_state *mod = state;
    const model_dynamism_base *base = mod->of.base;
    TRY(read_parameters(mod, err));
    TRY(check_fit(mod, err));
    const bool varies = mod->predictor_error_ratio > 0;
    mod->column_count = varies ? base->microbatch_count : 1;
    if (base->config != NULL && base->config->sliding_window > 0 &&
        base->config->sliding_window < base->shape->sequence_length) {
        mod->window = base->config->sliding_window;
        mod->length = base->shape->sequence_length;
    }
    TRY(open_moe(mod, err));
    carve(mod);
    add_router(mod);
    mod->of.source_count = varies && base->parallel.data > 1 ? base->parallel.data : 1;
    if (mod->moe == NULL) return STATUS_OK;
    mod->moe->token_ratio = mod->kept;
    if (mod->moe->of.source_count > 1) mod->of.source_count = mod->moe->of.source_count;
    return STATUS_OK;
}

/// Draws how many tokens take part, for every routed layer and microbatch.
static void draw(mod_state *mod, int iteration, int replica)
{
    for (int layer = 0; layer < mod->of.layer_count; layer++) {
        if (!is_routed(mod, layer)) continue;
        rng random = model_case_stream(mod->of.seed, STREAM_ERROR, layer, iteration, replica);
        for (int column = 0; column < mod->column_count; column++) {
            const double error = mod->predictor_error_ratio * rng_normal(&random);
            const double share = mod->capacity_ratio * (1 + error);
            const double bounded = share < 0 ? 0 : share > 1 ? 1 : share;
            mod->share[(size_t)layer * (size_t)mod->column_count + (size_t)column] = bounded;
        }
    }
}

/// Time of a pass of a layer, over the base's, with depths alone.
static double pass_scale(const mod_state *mod, int pass, int layer, double share)
{
    double scale = 1;
    for (int part = 0; part < MODEL_PART_EXCHANGE; part++) {
        const double factor = part == MODEL_PART_ATTENTION ? pair_ratio(mod, share) : share;
        scale += mod->of.base->shares->share[pass][part][layer] * (factor - 1);
    }
    return scale;
}

/// A cell of the physical load. What waits for the busiest rank of experts is the share of the time
/// that goes with the tokens that take part.
///
/// @param experts their load, or NULL
/// @param met     its cell
static void fill_cell(mod_state *mod, const model_load *experts, int layer, size_t cell, size_t met)
{
    const double share = mod->share[cell];
    const model_load *load = mod->load;
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        const double waiting = experts != NULL ? experts->pass[pass][met] - 1 : 0;
        const bool exchanges = experts != NULL && experts->added_ns[pass] != NULL;
        load->pass[pass][cell] = pass_scale(mod, pass, layer, share) + share * waiting;
        load->added_ns[pass][cell] = (is_routed(mod, layer) ? mod->router_ns[pass] : 0) +
                                     (exchanges ? experts->added_ns[pass][met] : 0);
    }
}

/// @param moe NULL: all experts alike
static void fill(mod_state *mod, const model_expert_load *moe, model_load_model load_model)
{
    const size_t columns = (size_t)mod->column_count;
    const model_load *experts = moe != NULL ? &moe->held[load_model] : NULL;
    for (size_t cell = 0; cell < (size_t)mod->of.layer_count * columns; cell++) {
        const int layer = (int)(cell / columns);
        const size_t met = moe != NULL && moe->column_count == 1 ? (size_t)layer : cell;
        if (load_model == MODEL_LOAD_PHYSICAL) {
            fill_cell(mod, experts, layer, cell, met);
            continue;
        }
        const double weight = is_routed(mod, layer) ? mod->routing_weight : 1;
        mod->whole[cell] = mod->share[cell] * weight * (moe != NULL ? experts->whole[met] : 1);
    }
    for (int layer = 0; load_model == MODEL_LOAD_PHYSICAL && layer < mod->of.layer_count; layer++) {
        const double kept = mod->kept[layer];
        mod->load->activation[layer] = kept * (moe != NULL ? experts->activation[layer] : 1);
        mod->load->gradient[layer] = kept * (moe != NULL ? experts->gradient[layer] : 1);
    }
}

static status mod_load_at(void *state, model_load_model load_model, int iteration, int replica,
                          bool *changed, error_message *err)
{
    (void)err;
    mod_state *mod = state;
    const bool waits = mod->moe != NULL && model_expert_load_is_varied(mod->moe, load_model);
    const bool varies = mod->predictor_error_ratio > 0;
    if (varies) draw(mod, iteration, replica);
    if (waits) model_expert_load_fill(mod->moe, load_model, iteration, replica);
    fill(mod, waits ? mod->moe : NULL, load_model);
    *changed =
        varies || iteration == 0 || (waits && model_expert_load_changes(mod->moe, iteration));
    return STATUS_OK;
}

static status mod_expert_tokens(void *state, int iteration, int replica,
                                model_expert_tokens *tokens, error_message *err)
{
    const mod_state *mod = state;
    if (mod->moe == NULL) return STATUS_OK;
    return model_dynamism_moe.expert_tokens(mod->moe, iteration, replica, tokens, err);
}

const model_dynamism_case model_dynamism_mod = {
    .name = "mod",
    .needs_shares = true,
    .state_bytes = sizeof(mod_state),
    .open = mod_open,
    .load_at = mod_load_at,
    .expert_tokens = mod_expert_tokens,
};
