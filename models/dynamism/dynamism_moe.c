/// Mixture of experts: under expert parallelism a layer waits for the rank whose experts have most
/// tokens.
#include "base/file.h"
#include "models/cost/saturating.h"
#include "models/dynamism/dynamism_case.h"
#include "models/dynamism/expert_load.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { STEPS_PER_DRIFT = 10, TOKENS_MAX = 1 << 30, COUNT_STAGES_MAX = 1 << 12 };

static const char *const routing_names[] = {"token-choice", "s-base", "expert-choice"};

/// Experts of the model, or those that the object states where no model stands beside a trace.
static status read_model(model_expert_load *moe, error_message *err)
{
    model_case_parameters *parameters = moe->of.parameters;
    const model_config *config = moe->of.base->config;
    const model_origin from_model = {MODEL_ORIGIN_GIVEN, "the model"};
    static const char *const stated[] = {"experts", "top_k", "tokens"};
    if (config == NULL) {
        int tokens = 0;
        for (int key = 0; key < 3; key++) {
            if (!json_is_missing(json_member(parameters->object, stated[key]))) continue;
            return json_error(parameters->object, STATUS_INVALID, err,
                              "case 'moe' over a trace needs '%s', or the model named beside it",
                              stated[key]);
        }
        const model_parameter experts = {"experts", .whole = &moe->routing.expert_count, .min = 1,
                                         .max = MODEL_EXPERTS_MAX};
        TRY(model_parameters_read(parameters, &experts, 1, err));
        const model_parameter rest[] = {
            {"top_k", .whole = &moe->routing.top_k, .min = 1, .max = moe->routing.expert_count},
            {"tokens", .whole = &tokens, .min = 1, .max = TOKENS_MAX},
        };
        TRY(model_parameters_read(parameters, rest, sizeof rest / sizeof rest[0], err));
        moe->routing.tokens = tokens;
        return STATUS_OK;
    }
    if (config->expert_count == 0) {
        return error_set(err, STATUS_INVALID,
                         "case 'moe': the model (%s) is dense, it has no experts",
                         config->model_type);
    }
    if (config->expert_count > MODEL_EXPERTS_MAX) {
        return error_set(err, STATUS_INVALID,
                         "case 'moe': %d experts of a layer, at most %d are modelled",
                         config->expert_count, MODEL_EXPERTS_MAX);
    }
    const int context = model_parallel_filled(moe->of.base->parallel).context;
    moe->routing.expert_count = config->expert_count;
    moe->routing.top_k = config->expert_top_k;
    moe->routing.tokens = (int64_t)moe->of.base->shape->sequence_length / context *
                          moe->of.base->shape->microbatch_size;
    model_parameter_note(parameters, "experts", from_model,
                         "%d of %d per token, %" PRId64 " tokens of a GPU and microbatch",
                         config->expert_top_k, config->expert_count, moe->routing.tokens);
    return STATUS_OK;
}

/// The groups of GPUs that hold the experts of a layer together.
static status read_groups(model_expert_load *moe, int *groups, error_message *err)
{
    const model_parallel degrees = model_parallel_filled(moe->of.base->parallel);
    const int experts = moe->routing.expert_count;
    if (degrees.tensor % degrees.expert_tensor != 0) {
        return error_set(err, STATUS_INVALID,
                         "case 'moe': expert_tensor %d does not divide tensor %d",
                         degrees.expert_tensor, degrees.tensor);
    }
    const int64_t part = (int64_t)degrees.context * (degrees.tensor / degrees.expert_tensor);
    if (experts % degrees.expert != 0 || degrees.data * part % degrees.expert != 0 ||
        (degrees.expert % part != 0 && part % degrees.expert != 0)) {
        return error_set(err, STATUS_INVALID,
                         "case 'moe': expert %d must divide the %d experts and data %d x "
                         "context %d, and divide context or be a multiple of it",
                         degrees.expert, experts, degrees.data, degrees.context);
    }
    const model_expert_span span = model_parallel_expert_span(&degrees);
    moe->rank_count = degrees.expert;
    moe->group_count = span.group_count;
    // A GPU's tokens are those of its context rank; a replica's are context times as many.
    moe->routing.tokens =
        moe->routing.tokens * degrees.context * span.replica_count / span.group_count;
    *groups = degrees.data / span.replica_count;
    if (moe->routing.tokens > INT32_MAX / moe->routing.top_k / moe->group_count) {
        return error_set(err, STATUS_INVALID,
                         "case 'moe': %" PRId64 " tokens of a group x top_k %d exceed %d",
                         moe->routing.tokens, moe->routing.top_k, INT32_MAX);
    }
    model_parameter_note(moe->of.parameters, "expert parallelism", model_given,
                         "%d ranks share experts and wait for the busiest of them; %d "
                         "group%s of replicas with loads of their own",
                         moe->rank_count, *groups, *groups == 1 ? "" : "s");
    return STATUS_OK;
}

/// Numbers that only routing without a balancing assignment has.
static status read_skew(model_expert_load *moe, error_message *err)
{
    model_case_parameters *parameters = moe->of.parameters;
    const bool leaves_rest = moe->router == MODEL_ROUTER_S_BASE &&
                             !json_is_missing(model_parameter_ask(parameters, "spread_ratio"));
    if (moe->router != MODEL_ROUTER_TOKEN_CHOICE && !leaves_rest) return STATUS_OK;
    double spread = 0;
    double noise = 0;
    const model_parameter rows[] = {
        {"spread_ratio", .real = &spread, .fallback = 0.4, .max = 100,
         .from = MODEL_PUBLISHED(
             "DynMo paper: busiest and least busy expert of Mixtral up to 40 % apart")},
        {"skew_layers", .whole = &moe->routing.skew_layers, .fallback = 1, .min = 1, .max = 4096,
         .from = MODEL_ASSUMED("each layer has a skew of its own")},
        {"persistent_ratio", .real = &moe->routing.persistent, .fallback = 0.8, .max = 1,
         .from = MODEL_ASSUMED("most of a layer's skew stays")},
        {"drift_iterations", .whole = &moe->routing.drift_period, .fallback = 1000,
         .max = INT32_MAX / 2,
         .from = MODEL_ASSUMED("routers change slowly in continual training")},
        {"microbatch_noise_ratio", .real = &noise, .fallback = 0.05, .max = 10,
         .from = MODEL_ASSUMED("documents differ")},
        {"token_correlation", .real = &moe->routing.correlation, .fallback = 1.5, .max = 1e6,
         .from = MODEL_ASSUMED("above 1: neighbouring tokens repeat their expert more often than "
                               "chance (Jiang et al., Mixtral of Experts, section 5)")},
    };
    TRY(model_parameters_read(parameters, rows, sizeof rows / sizeof rows[0], err));
    // What a balanced assignment leaves is spread as tokens that chose are, only less.
    moe->router = MODEL_ROUTER_TOKEN_CHOICE;
    const int samples = model_parallel_expert_span(&moe->of.base->parallel).replica_count;
    moe->routing.noise = noise / sqrt(samples);
    moe->routing.sigma = model_routing_sigma(moe->routing.expert_count, spread);
    moe->step_iterations = moe->routing.drift_period / STEPS_PER_DRIFT;
    if (moe->routing.drift_period > 0 && moe->step_iterations == 0) moe->step_iterations = 1;
    return STATUS_OK;
}

static double share_without(int64_t all, int64_t without)
{
    return all > 0 ? (double)(all - without) / (double)all : 0;
}

/// Whether B computes F again.
static bool recomputes(const model_dynamism_base *base)
{
    return base->parallel.recompute == MODEL_RECOMPUTE_FULL ||
           base->parallel.recompute == MODEL_RECOMPUTE_EARLY_STOP ||
           base->parallel.recompute == MODEL_RECOMPUTE_MLP;
}

/// All-to-alls in B: two of its own, and those that it makes again.
static int backward_ways(const model_dynamism_base *base)
{
    const bool stops =
        base->parallel.recompute == MODEL_RECOMPUTE_EARLY_STOP &&
        (base->config == NULL || base->config->expert_latent_size == 0); // before the way back
    if (!recomputes(base)) return 2;
    return stops ? 3 : 4;
}

static void add_work(const model_config *config, const model_shape *shape, int block,
                     model_pass pass, model_layer_work *sum)
{
    const model_layer_work work = model_layer_work_of(config, shape, block, pass);
    sum->mlp.flop = saturating_add(sum->mlp.flop, work.mlp.flop);
    sum->elementwise.bytes = saturating_add(sum->elementwise.bytes, work.elementwise.bytes);
}

/// Of a part, what would not be done if no token met an expert; a trace's MLP is all experts.
static double routed_part(const model_dynamism_base *base, int block, model_pass pass,
                          model_part part)
{
    if (base->config == NULL) return part == MODEL_PART_MLP ? 1 : 0;
    model_config unrouted = *base->config;
    unrouted.expert_top_k = 0;
    model_layer_work all = {0};
    model_layer_work rest = {0};
    add_work(base->config, base->shape, block, pass, &all);
    add_work(&unrouted, base->shape, block, pass, &rest);
    if (pass == MODEL_PASS_BACKWARD_INPUT && recomputes(base)) {
        add_work(base->config, base->shape, block, MODEL_PASS_FORWARD, &all);
        add_work(&unrouted, base->shape, block, MODEL_PASS_FORWARD, &rest);
    }
    if (part == MODEL_PART_MLP) return share_without(all.mlp.flop, rest.mlp.flop);
    return share_without(all.elementwise.bytes, rest.elementwise.bytes);
}

static model_routed_share routed_share_of(const model_dynamism_base *base, int layer)
{
    model_routed_share routed = {0};
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
static void find_layers(model_expert_load *moe)
{
    const model_dynamism_base *base = moe->of.base;
    const size_t layers = (size_t)moe->of.layer_count;
    bool *has_experts = arena_array(moe->of.memory, layers, sizeof *has_experts);
    model_routed_share *routed = arena_array(moe->of.memory, layers, sizeof *routed);
    for (int layer = base->transformer_first; layer < base->transformer_end; layer++) {
        const int block = layer - base->transformer_first;
        has_experts[layer] = base->config == NULL || base->config->is_moe[block];
        if (has_experts[layer]) routed[layer] = routed_share_of(base, layer);
    }
    moe->has_experts = has_experts;
    moe->routed = routed;
}

static void find_links(model_expert_load *moe)
{
    const model_dynamism_base *base = moe->of.base;
    const model_origin from = {MODEL_ORIGIN_ASSUMED,
                               "the base holds the balanced all-to-alls; what the busiest rank "
                               "receives and sends beyond them is added, twice in F and in B"};
    if (moe->rank_count == 1) return;
    if (base->config == NULL || base->hardware == NULL) {
        model_parameter_note(moe->of.parameters, "all_to_all", from,
                             "0 ns: no model or no hardware beside the costs");
        return;
    }
    moe->group = model_parallel_groups(&base->parallel, base->hardware).expert;
    moe->backward_ways = backward_ways(base);
    moe->exchange_bytes = saturating_multiply(model_expert_row_bytes(base->config, base->shape),
                                              base->config->expert_top_k);
    model_parameter_note(moe->of.parameters, "all_to_all", from,
                         "%" PRId64 " bytes of a GPU each, %d GPUs, %d on a node",
                         moe->exchange_bytes, moe->group.rank_count, moe->group.node_rank_count);
}

/// A path in the object, meant from the folder of its file.
static status read_path(const model_case *of, json_value value, const char **path,
                        error_message *err)
{
    const char *text = NULL;
    TRY(json_string(value, &text, err));
    *path = file_path_beside(of->base->path, text, of->memory);
    return STATUS_OK;
}

/// The files of one pipeline stage: {"first_layer":n,"files":["rank0.jsonl",...]}.
static status read_count_stage(const model_case *of, json_value object, model_count_stage *stage,
                               error_message *err)
{
    static const char *const stage_keys[] = {"first_layer", "files"};
    TRY(json_check_keys(object, stage_keys, 2, err));
    TRY(json_int(json_member(object, "first_layer"), 0, INT32_MAX, &stage->first_layer, err));
    const json_value files = json_member(object, "files");
    stage->path_count = json_count(files);
    if (!json_is_array(files) || stage->path_count < 1 ||
        stage->path_count > MODEL_COUNT_FILES_MAX) {
        return json_error(files, STATUS_FORMAT, err, "not an array of 1 to %d files",
                          MODEL_COUNT_FILES_MAX);
    }
    const char **paths = arena_array(of->memory, (size_t)stage->path_count, sizeof *paths);
    json_value file = json_element(files, 0);
    for (int path = 0; path < stage->path_count; path++) {
        TRY(read_path(of, file, &paths[path], err));
        file = json_next(file);
    }
    stage->paths = paths;
    return STATUS_OK;
}

/// {"megatron":[stage,...]}
static status read_megatron(const model_case *of, json_value object,
                            const model_counts_shape *shape, model_expert_counts *counts,
                            error_message *err)
{
    static const char *const formats[] = {"megatron"};
    TRY(json_check_keys(object, formats, 1, err));
    const json_value array = json_member(object, "megatron");
    const int count = json_count(array);
    if (!json_is_array(array) || count < 1 || count > COUNT_STAGES_MAX) {
        return json_error(array, STATUS_FORMAT, err, "not an array of 1 to %d stages",
                          COUNT_STAGES_MAX);
    }
    model_count_stage *stages = arena_array(of->memory, (size_t)count, sizeof *stages);
    json_value element = json_element(array, 0);
    for (int stage = 0; stage < count; stage++) {
        TRY(read_count_stage(of, element, &stages[stage], err));
        element = json_next(element);
    }
    return model_expert_counts_read_megatron(stages, count, shape, of->memory, counts, err);
}

/// Counts of a real run, in place of drawn ones.
static status read_counts(model_expert_load *moe, error_message *err)
{
    model_case_parameters *parameters = moe->of.parameters;
    const json_value member = model_parameter_ask(parameters, "counts");
    if (json_is_missing(member)) return STATUS_OK;
    int tokens = 0;
    const model_parameter row = {
        "counted_tokens", .whole = &tokens, .max = TOKENS_MAX,
        .from = MODEL_ASSUMED("0: what experts have together is what was routed")};
    TRY(model_parameters_read(parameters, &row, 1, err));
    moe->router = MODEL_ROUTER_RECORDED;
    moe->counted_tokens = (int64_t)tokens * moe->routing.top_k;
    const model_counts_shape shape = {
        .layer_count = moe->of.block_count,
        .is_moe = moe->has_experts + moe->of.first,
        .expert_count = moe->routing.expert_count,
        .microbatch_count = moe->of.base->microbatch_count,
        .row_tokens = moe->counted_tokens,
    };
    error_message why = {0};
    status read = STATUS_OK;
    if (json_is_string(member)) {
        const char *path = NULL;
        TRY(read_path(&moe->of, member, &path, err));
        read = model_expert_counts_read_csv(path, &shape, moe->of.memory, &moe->recorded, &why);
    } else {
        read = read_megatron(&moe->of, member, &shape, &moe->recorded, &why);
    }
    TRY(model_parameter_read(member, read, &why, err));
    model_parameter_note(parameters, "counts", (model_origin){MODEL_ORIGIN_MEASURED, ""},
                         "%d iterations from %d to %d, each holds until the next",
                         moe->recorded.sample_count, moe->recorded.iteration[0],
                         moe->recorded.iteration[moe->recorded.sample_count - 1]);
    return STATUS_OK;
}

static status read_router(model_expert_load *moe, error_message *err)
{
    TRY(read_counts(moe, err));
    if (moe->router == MODEL_ROUTER_RECORDED) return STATUS_OK;
    int router = MODEL_ROUTER_TOKEN_CHOICE;
    const model_parameter name = {
        "routing", .whole = &router, .names = routing_names, .name_count = MODEL_ROUTER_NAMED_COUNT,
        .from = MODEL_PUBLISHED("DynMo paper: Mixtral, token choice with an auxiliary loss")};
    TRY(model_parameters_read(moe->of.parameters, &name, 1, err));
    moe->router = (model_router)router;
    return STATUS_OK;
}

/// Recorded counts are of one group, for which all of them stand.
static int source_count_of(const model_expert_load *moe, model_load_model load_model, int groups)
{
    const bool is_drawn = moe->router == MODEL_ROUTER_TOKEN_CHOICE;
    return is_drawn && model_expert_load_is_varied(moe, load_model) ? groups : 1;
}

static status moe_open(void *state, error_message *err)
{
    model_expert_load *moe = state;
    int groups = 0;
    moe->routing.seed = moe->of.seed;
    TRY(read_model(moe, err));
    find_layers(moe);
    TRY(read_groups(moe, &groups, err));
    TRY(read_router(moe, err));
    TRY(read_skew(moe, err));
    find_links(moe);
    model_expert_load_carve(moe);
    moe->of.source_count = source_count_of(moe, moe->of.load_model, groups);
    return STATUS_OK;
}

static status moe_load_at(void *state, model_load_model load_model, int iteration, int replica,
                          bool *changed, error_message *err)
{
    (void)err;
    model_expert_load *moe = state;
    *changed = iteration == 0;
    if (!model_expert_load_is_varied(moe, load_model)) return STATUS_OK;
    *changed = model_expert_load_changes(moe, iteration);
    model_expert_load_fill(moe, load_model, iteration, replica);
    return STATUS_OK;
}

static status moe_expert_tokens(void *state, int iteration, int replica,
                                model_expert_tokens *tokens, error_message *err)
{
    (void)err;
    model_expert_load *moe = state;
    model_expert_load_tokens(moe, iteration, replica);
    tokens->expert_count = moe->routing.expert_count;
    tokens->tokens = moe->tokens;
    return STATUS_OK;
}

const model_dynamism_case model_dynamism_moe = {
    .name = "moe",
    .needs_shares = true,
    .state_bytes = sizeof(model_expert_load),
    .open = moe_open,
    .load_at = moe_load_at,
    .expert_tokens = moe_expert_tokens,
};
