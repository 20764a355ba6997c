/// Early exit: tokens whose prediction is sure leave after an exit: later layers see
/// fewer.
#include "models/dynamism/dynamism_case.h"

#include <assert.h>
#include <inttypes.h>

/// What decides at an exit: CALM's three measures of confidence, or nothing that costs time.
typedef enum exit_classifier {
    CLASSIFIER_NONE,
    CLASSIFIER_LINEAR,     ///< one vector of weights: sure or not
    CLASSIFIER_HEAD,       ///< an LM head of its own, as the softmax's confidence needs
    CLASSIFIER_SATURATION, ///< cosine of the states before and after the layer, without gradient
    CLASSIFIER_COUNT
} exit_classifier;

static const char *const classifier_names[] = {"none", "linear", "head", "saturation"};
static const char *const key_names[] = {"all", "survivors"};

/// Factors on a layer with an exit that has an LM head; 0 where nothing is added.
typedef struct head_ratio {
    double activation;
    double gradient;
} head_ratio;

typedef struct exit_state {
    model_case of;
    double keep_initial;
    double keep_final;
    double confidence_iterations;
    int interval;
    bool keeps_all_keys;
    int classifier;                          // exit_classifier
    bool *has_exit;                          // [block_count + 1]
    double kv_share;                         // of keys' and values' matrices among attention's
    head_ratio *head;                        // [block_count]
    int64_t classifier_ns[MODEL_PASS_COUNT]; // of all tokens
    double *share;      // [block_count + 1] of a microbatch's tokens, of which [block_count] reach
                        // the head
    double *linear;     // [layer_count] published; 1 outside the transformer layers
    double *projection; // [layer_count]
    double *core;       // [layer_count]
    model_load *load;   // physical
    double held;        // keep of the arrays; negative: none
} exit_state;

/// "exits": the layers with an exit after them.
static status read_exit_list(exit_state *exits, json_value list, error_message *err)
{
    const int count = json_count(list);
    if (!json_is_array(list) || count < 1) {
        return json_error(list, STATUS_FORMAT, err, "not an array of transformer layers");
    }
    int before = -1;
    for (int index = 0; index < count; index++) {
        const json_value element = json_element(list, index);
        int block = 0;
        TRY(json_int(element, 0, exits->of.block_count - 1, &block, err));
        if (block <= before) {
            return json_error(element, STATUS_INVALID, err, "layer %d is not after layer %d", block,
                              before);
        }
        exits->has_exit[block] = true;
        before = block;
    }
    model_parameter_note(exits->of.parameters, "exits", model_given, "%d, the last after layer %d",
                         count, before);
    return STATUS_OK;
}

static status read_exits(exit_state *exits, error_message *err)
{
    model_case_parameters *parameters = exits->of.parameters;
    const json_value list = model_parameter_ask(parameters, "exits");
    if (!json_is_missing(list)) return read_exit_list(exits, list, err);
    int first = 0;
    int every = 0;
    const model_parameter rows[] = {
        {"first_exit", .whole = &first, .fallback = exits->of.block_count / 4,
         .max = exits->of.block_count - 1,
         .from = MODEL_ASSUMED("not published; a quarter of the depth, as EE-LLM's")},
        {"exit_every", .whole = &every, .fallback = 1, .min = 1, .max = INT32_MAX,
         .from = MODEL_PUBLISHED("CALM, arXiv 2207.07061: after every layer")},
    };
    TRY(model_parameters_read(parameters, rows, sizeof rows / sizeof rows[0], err));
    for (int block = first; block < exits->of.block_count; block += every) {
        exits->has_exit[block] = true;
        if (every >= exits->of.block_count - block) break;
    }
    return STATUS_OK;
}

static status read_decay(exit_state *exits, error_message *err)
{
    const model_origin unknown = MODEL_ASSUMED("no decay of tokens is published");
    const model_parameter rows[] = {
        {"keep_initial", .real = &exits->keep_initial, .fallback = 1, .max = 1, .from = unknown},
        {"keep_final", .real = &exits->keep_final, .fallback = 0.9, .max = 1, .from = unknown},
        {"confidence_iterations", .real = &exits->confidence_iterations,
         .fallback = exits->of.base->iteration_count / 4.0, .min = 1e-3, .max = 1e9,
         .from = unknown},
        {"interval", .whole = &exits->interval, .fallback = 500, .min = 1, .max = INT32_MAX,
         .from = MODEL_PUBLISHED("DynMo: every 100s to 1000s of iterations")},
    };
    TRY(model_parameters_read(exits->of.parameters, rows, sizeof rows / sizeof rows[0], err));
    if (exits->keep_final > exits->keep_initial) {
        return error_set(err, STATUS_INVALID,
                         "case 'early-exit': keep_final %g exceeds keep_initial %g: a model "
                         "grows surer, not less sure",
                         exits->keep_final, exits->keep_initial);
    }
    return STATUS_OK;
}

static status read_choices(exit_state *exits, error_message *err)
{
    model_case_parameters *parameters = exits->of.parameters;
    int attention_keys = 0;
    const model_parameter rows[] = {
        {"attention_keys", .whole = &attention_keys, .names = key_names, .name_count = 2,
         .from = MODEL_PUBLISHED("CALM: states of tokens that have left are copied on, and "
                                 "attended to")},
        {"classifier", .whole = &exits->classifier, .names = classifier_names,
         .name_count = CLASSIFIER_COUNT, .fallback = CLASSIFIER_LINEAR,
         .from = MODEL_ASSUMED("CALM's cheapest; its softmax needs a head")},
    };
    TRY(model_parameters_read(parameters, rows, sizeof rows / sizeof rows[0], err));
    exits->keeps_all_keys = attention_keys == 0;
    return STATUS_OK;
}

/// Keys and values of every token are computed in every layer where tokens that have left are
/// attended to.
static double key_matrix_share(const model_config *config)
{
    if (config == NULL || config->kv_rank > 0) return 0.5; // of four matrices alike
    model_config attention = *config;
    attention.mamba_head_count = 0;
    const double keys_and_values = (double)config->hidden_size * config->kv_head_count *
                                   (config->query_key_dim + config->value_dim);
    return keys_and_values / (double)model_mixer_weight_count(&attention);
}

/// a of one layer over a of another, 0 where it is not known.
static double ratio_of(const int64_t *values, int of, int over)
{
    return values == NULL || values[over] == 0 ? 0 : (double)values[of] / (double)values[over];
}

static status add_heads(const bal_layer_costs *costs, exit_state *exits, error_message *err)
{
    if (!costs->head) {
        return error_set(err, STATUS_INVALID,
                         "case 'early-exit': classifier 'head' takes as long as the model's "
                         "head, which the costs do not have");
    }
    const int head = costs->layer_count - 1;
    const size_t cell = (size_t)head * (size_t)costs->microbatch_count;
    exits->classifier_ns[MODEL_PASS_FORWARD] = costs->forward_ns[cell];
    exits->classifier_ns[MODEL_PASS_BACKWARD_INPUT] = costs->backward_input_ns[cell];
    exits->classifier_ns[MODEL_PASS_BACKWARD_WEIGHT] = costs->backward_weight_ns[cell];
    for (int block = 0; block < exits->of.block_count; block++) {
        const int layer = exits->of.first + block;
        if (!exits->has_exit[block]) continue;
        exits->load->parameters[layer] = 1 + ratio_of(costs->parameters, head, layer);
        exits->load->state[layer] = 1 + ratio_of(costs->state_bytes, head, layer);
        exits->load->reduction[layer] = 1 + ratio_of(costs->reduction_ns, head, layer);
        exits->head[block] = (head_ratio){ratio_of(costs->activation_bytes, head, layer),
                                          ratio_of(costs->gradient_bytes, head, layer)};
    }
    return STATUS_OK;
}

static status count_classifiers(exit_state *exits, error_message *err)
{
    bal_layer_costs costs;
    if (exits->classifier == CLASSIFIER_NONE) return STATUS_OK;
    TRY(model_case_first_costs(&exits->of, &costs, err));
    model_origin origin = MODEL_ASSUMED("an LM head with weights of its own; every token that "
                                        "arrives passes it in F, B and W");
    if (exits->classifier == CLASSIFIER_HEAD) {
        TRY(add_heads(&costs, exits, err));
    } else {
        const bool compares = exits->classifier == CLASSIFIER_SATURATION;
        origin =
            compares
                ? MODEL_ASSUMED("states before and after the layer read in F, over the "
                                "bandwidth")
                : MODEL_ASSUMED("states read in F, gradients added to in B, over the bandwidth");
        const int64_t bytes =
            costs.message_bytes != NULL ? costs.message_bytes[exits->of.first] : 0;
        const int64_t read_ns = model_case_bytes_ns(exits->of.base->hardware, bytes);
        exits->classifier_ns[MODEL_PASS_FORWARD] = compares ? 2 * read_ns : read_ns;
        exits->classifier_ns[MODEL_PASS_BACKWARD_INPUT] = compares ? 0 : 2 * read_ns;
    }
    model_parameter_note(exits->of.parameters, "classifier_time", origin,
                         "%" PRId64 ", %" PRId64 ", %" PRId64 " ns in F, B, W for all tokens",
                         exits->classifier_ns[MODEL_PASS_FORWARD],
                         exits->classifier_ns[MODEL_PASS_BACKWARD_INPUT],
                         exits->classifier_ns[MODEL_PASS_BACKWARD_WEIGHT]);
    return STATUS_OK;
}

static void carve(exit_state *exits)
{
    model_load *loads = exits->of.load;
    const size_t layers = (size_t)exits->of.layer_count;
    const size_t blocks = (size_t)exits->of.block_count;
    exits->share = model_case_ones(exits->of.memory, blocks + 1);
    exits->head = arena_array(exits->of.memory, blocks, sizeof *exits->head);
    exits->linear = model_case_ones(exits->of.memory, layers);
    exits->projection = model_case_ones(exits->of.memory, layers);
    exits->core = model_case_ones(exits->of.memory, layers);
    loads[MODEL_LOAD_PUBLISHED].whole = exits->linear;
    exits->load = &loads[MODEL_LOAD_PHYSICAL];
    *exits->load = (model_load){
        .parameters = model_case_ones(exits->of.memory, layers),
        .state = model_case_ones(exits->of.memory, layers),
        .reduction = model_case_ones(exits->of.memory, layers),
        .activation = model_case_ones(exits->of.memory, layers),
        .gradient = model_case_ones(exits->of.memory, layers),
    };
    for (int pass = 0; pass < MODEL_PASS_COUNT; pass++) {
        double **part = exits->load->part[pass];
        part[MODEL_PART_PROJECTION] = exits->projection;
        part[MODEL_PART_ATTENTION] = exits->core;
        part[MODEL_PART_MLP] = exits->linear;
        part[MODEL_PART_ELEMENTWISE] = exits->linear;
        exits->load->added_ns[pass] = arena_array(exits->of.memory, layers, sizeof(int64_t));
    }
}

static status exit_open(void *state, error_message *err)
{
    exit_state *exits = state;
    const model_dynamism_base *base = exits->of.base;
    exits->held = -1;
    exits->has_exit =
        arena_array(exits->of.memory, (size_t)exits->of.block_count + 1, sizeof(bool));
    TRY(read_exits(exits, err));
    TRY(read_decay(exits, err));
    TRY(read_choices(exits, err));
    carve(exits);
    exits->kv_share = key_matrix_share(base->config);
    TRY(count_classifiers(exits, err));
    return STATUS_OK;
}

static void set_layer(exit_state *exits, int block)
{
    const model_load *load = exits->load;
    const int layer = exits->of.first + block;
    const double share = exits->share[block];
    const double whole = exits->keeps_all_keys ? exits->kv_share : 0;
    exits->linear[layer] = share;
    exits->projection[layer] = whole + (1 - whole) * share;
    exits->core[layer] = exits->keeps_all_keys ? share : share * share;
    for (int pass = 0; exits->has_exit[block] && pass < MODEL_PASS_COUNT; pass++) {
        load->added_ns[pass][layer] = (int64_t)((double)exits->classifier_ns[pass] * share + 0.5);
    }
    load->activation[layer] = share * (1 + exits->head[block].activation);
    load->gradient[layer] = share * (1 + exits->head[block].gradient);
}

/// Share of tokens that go on from layer to layer where everybody may exit. It falls from initial
/// to final as the model grows confident: final + (initial - final) exp(-k / time_constant), taken
/// at the last multiple of interval that is not after the iteration.
static double keep_at(const exit_state *exits, int iteration)
{
    enum { EXPONENT_MAX = 700 };
    const int step = iteration - iteration % exits->interval;
    const double exponent = step / exits->confidence_iterations;
    const double confident = exponent < EXPONENT_MAX ? rng_portable_exp(-exponent) : 0;
    return exits->keep_final + (exits->keep_initial - exits->keep_final) * confident;
}

/// Share of tokens at every layer: 1 up to and including the first with an exit after it,
/// keep^(l - that) where every later layer has one. Between exits nobody leaves: after an exit the
/// share is what it would be had all layers since the first exit had one.
static void share_tokens(exit_state *exits, double keep)
{
    assert(keep >= 0 && keep <= 1);
    double reaching = 1;
    double due = 1; // what would be left if every layer from the first exit on had one
    bool has_begun = false;
    for (int block = 0; block <= exits->of.block_count; block++) {
        exits->share[block] = reaching;
        has_begun = has_begun || exits->has_exit[block];
        if (has_begun) due *= keep;
        if (exits->has_exit[block]) reaching = due;
    }
}

static void hold_keep(exit_state *exits, double keep)
{
    if (exits->held == keep) return;
    exits->held = keep;
    share_tokens(exits, keep);
    for (int block = 0; block < exits->of.block_count; block++) {
        set_layer(exits, block);
    }
}

static status exit_load_at(void *state, model_load_model load_model, int iteration, int replica,
                           bool *changed, error_message *err)
{
    (void)load_model;
    (void)replica; // tokens of all of them leave alike
    (void)err;
    exit_state *exits = state;
    const double keep = keep_at(exits, iteration);
    hold_keep(exits, keep);
    *changed = iteration == 0 || keep != keep_at(exits, iteration - 1);
    return STATUS_OK;
}

const model_dynamism_case model_dynamism_early_exit = {
    .name = "early-exit",
    .needs_shares = true,
    .state_bytes = sizeof(exit_state),
    .open = exit_open,
    .load_at = exit_load_at,
};
