/// Mixture of depths: in routed blocks only k of s tokens take part, the others pass by on the
/// residual stream.
#include "models/dynamism/dynamism_case.h"
#include "models/dynamism/random_draw.h"

#include <assert.h>
#include <stdlib.h>

enum { STREAM_ERROR = 1, BLOCKS_MAX = 1 << 16, SEQUENCE_MAX = 1 << 24 };

static const char *const keys[] = {"capacity_ratio", "every", "first_routed",
                                   "predictor_error_ratio", "routing_weight"};

typedef struct mod_state {
    uint64_t seed;
    double capacity_ratio; // k / s
    int every;
    int first_routed;             // of the transformer layers
    double predictor_error_ratio; // standard deviation of k over microbatches, relative to k
    double routing_weight;        // of the published load model
    int layer_count;
    int transformer_first;
    int transformer_end;
    int column_count;
    int64_t window; // keys that a query sees, in units of s / s; 0: all
    int64_t length; // s; 0: not known, no window
    double *linear; // [layer_count][column_count] k / s
    double *core;   // [layer_count][column_count] pairs of k tokens over pairs of s
    double *kept;   // [layer_count] k / s without error: what memory is provided for
    double *whole;  // [layer_count][column_count] published
    int64_t *added_ns[MODEL_PASS_COUNT]; // [layer_count][column_count]; NULL without hardware
} mod_state;

static bool is_routed(const mod_state *mod, int layer)
{
    if (layer < mod->transformer_first || layer >= mod->transformer_end) return false;
    const int block = layer - mod->transformer_first;
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

static status read_parameters(const model_case_setup *setup, mod_state *mod, error_message *err)
{
    static const char raposo[] = "Raposo et al., Mixture-of-Depths (2024): 12.5 % of the tokens, "
                                 "in every other block";
    model_case_parameters *parameters = setup->parameters;
    mod->capacity_ratio = 0.125;
    mod->every = 2;
    mod->first_routed = 1;
    mod->routing_weight = 1;
    TRY(model_parameter_double(parameters, "capacity_ratio", 0, 1, MODEL_PUBLISHED(raposo),
                               &mod->capacity_ratio, err));
    TRY(model_parameter_int(parameters, "every", 1, BLOCKS_MAX, MODEL_PUBLISHED(raposo),
                            &mod->every, err));
    TRY(model_parameter_int(parameters, "first_routed", 0, BLOCKS_MAX,
                            MODEL_ASSUMED("the first block takes all tokens"), &mod->first_routed,
                            err));
    TRY(model_parameter_double(parameters, "predictor_error_ratio", 0, 1,
                               MODEL_ASSUMED("top-k over the sequence, exact in training"),
                               &mod->predictor_error_ratio, err));
    return model_parameter_double(parameters, "routing_weight", 0, 1,
                                  MODEL_ASSUMED("no published value; load model published only"),
                                  &mod->routing_weight, err);
}

static status check_fit(const mod_state *mod, error_message *err)
{
    const int blocks = mod->transformer_end - mod->transformer_first;
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
static status add_router(const model_case_setup *setup, mod_state *mod, error_message *err)
{
    const model_dynamism_base *base = setup->base;
    static const model_origin from = {MODEL_ORIGIN_ASSUMED,
                                      "bytes over the bandwidth: all tokens read once, the chosen "
                                      "ones gathered and scattered"};
    if (base->config == NULL || base->hardware == NULL) {
        return model_parameter_note(setup->parameters, "router", from, err,
                                    "0 ns: no model or no hardware beside the costs");
    }
    const double all = (double)model_message_bytes(base->config, base->shape);
    const int64_t forward_ns = bytes_ns(base->hardware, all * (1 + 4 * mod->capacity_ratio));
    const int64_t backward_ns = bytes_ns(base->hardware, all * 4 * mod->capacity_ratio);
    const size_t cells = (size_t)setup->layer_count * (size_t)mod->column_count;
    int64_t *added = arena_array(setup->memory, 2 * cells, sizeof *added);
    mod->added_ns[MODEL_PASS_FORWARD] = added;
    mod->added_ns[MODEL_PASS_BACKWARD_INPUT] = added + cells;
    for (size_t cell = 0; cell < cells; cell++) {
        const bool routed = is_routed(mod, (int)(cell / (size_t)mod->column_count));
        added[cell] = routed ? forward_ns : 0;
        added[cells + cell] = routed ? backward_ns : 0;
    }
    return model_parameter_note(setup->parameters, "router", from, err,
                                "%lld ns in F, %lld ns in B of a routed block",
                                (long long)forward_ns, (long long)backward_ns);
}

static void carve(const model_case_setup *setup, mod_state *mod)
{
    const size_t layers = (size_t)setup->layer_count;
    const size_t cells = layers * (size_t)mod->column_count;
    double *all = arena_array(setup->memory, 3 * cells + layers, sizeof *all);
    mod->linear = all;
    mod->core = all + cells;
    mod->whole = all + 2 * cells;
    mod->kept = all + 3 * cells;
    for (size_t cell = 0; cell < 3 * cells; cell++) {
        all[cell] = 1;
    }
    for (int layer = 0; layer < setup->layer_count; layer++) {
        mod->kept[layer] = is_routed(mod, layer) ? mod->capacity_ratio : 1;
    }
}

static void set_cell(mod_state *mod, size_t cell, double share)
{
    mod->linear[cell] = share;
    mod->core[cell] = pair_ratio(mod, share);
    mod->whole[cell] = share * mod->routing_weight;
}

static status mod_open(const model_case_setup *setup, model_case_instance *instance,
                       error_message *err)
{
    const model_dynamism_base *base = setup->base;
    mod_state *mod = arena_array(setup->memory, 1, sizeof *mod);
    mod->seed = setup->seed;
    mod->layer_count = setup->layer_count;
    mod->transformer_first = base->transformer_first;
    mod->transformer_end = base->transformer_end;
    TRY(read_parameters(setup, mod, err));
    TRY(check_fit(mod, err));
    const bool varies = mod->predictor_error_ratio > 0;
    mod->column_count = varies ? base->microbatch_count : 1;
    if (base->config != NULL && base->config->sliding_window > 0 &&
        base->config->sliding_window < base->shape->sequence_length) {
        mod->window = base->config->sliding_window;
        mod->length = base->shape->sequence_length;
    }
    carve(setup, mod);
    TRY(add_router(setup, mod, err));
    for (int layer = 0; layer < setup->layer_count; layer++) {
        if (is_routed(mod, layer) && !varies) set_cell(mod, (size_t)layer, mod->capacity_ratio);
    }
    instance->state = mod;
    instance->source_count = varies && base->parallel.data > 1 ? base->parallel.data : 1;
    return STATUS_OK;
}

/// Draws how many tokens take part, for every routed layer and microbatch.
static void draw(mod_state *mod, int iteration, int replica)
{
    for (int layer = mod->transformer_first; layer < mod->transformer_end; layer++) {
        if (!is_routed(mod, layer)) continue;
        rng random = model_case_stream(mod->seed, STREAM_ERROR, layer, iteration, replica);
        for (int column = 0; column < mod->column_count; column++) {
            const double error = mod->predictor_error_ratio * model_draw_normal(&random);
            const double share = mod->capacity_ratio * (1 + error);
            const double bounded = share < 0 ? 0 : share > 1 ? 1 : share;
            set_cell(mod, (size_t)layer * (size_t)mod->column_count + (size_t)column, bounded);
        }
    }
}

static status mod_load_at(void *state, model_load_model load_model, int iteration, int replica,
                          model_load *load, bool *changed, error_message *err)
{
    (void)err;
    mod_state *mod = state;
    const bool varies = mod->predictor_error_ratio > 0;
    if (varies) draw(mod, iteration, replica);
    *changed = varies || iteration == 0;
    load->column_count = mod->column_count;
    if (load_model == MODEL_LOAD_PUBLISHED) {
        load->whole = mod->whole;
        return STATUS_OK;
    }
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        load->part[pass][MODEL_PART_PROJECTION] = mod->linear;
        load->part[pass][MODEL_PART_MLP] = mod->linear;
        load->part[pass][MODEL_PART_ELEMENTWISE] = mod->linear;
        load->part[pass][MODEL_PART_ATTENTION] = mod->core;
        load->added_ns[pass] = mod->added_ns[pass];
    }
    load->activation = mod->kept;
    load->gradient = mod->kept;
    return STATUS_OK;
}

const model_dynamism_case model_dynamism_mod = {
    .name = "mod",
    .keys = keys,
    .key_count = sizeof keys / sizeof keys[0],
    .needs_shares = true,
    .open = mod_open,
    .load_at = mod_load_at,
};
