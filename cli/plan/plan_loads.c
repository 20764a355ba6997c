#include "cli/plan/plan_loads.h"

#include "balance/partition/chain.h"
#include "traces/store/catalog.h"
#include "traces/store/reader.h"

#include <math.h>

enum { PPB = 1000000000 };
static const double time_factor_min = 1e-6;
static const double time_factor_max = 1e6;

/// Reads [count] integers >= 0 into *out; leaves it NULL if the key is missing.
static status read_optional(json_value root, const char *key, int count, arena *memory,
                            const int64_t **out, error_message *err)
{
    const json_value value = json_member(root, key);
    if (json_is_missing(value)) return STATUS_OK;
    int64_t *numbers = arena_array(memory, (size_t)count, sizeof *numbers);
    TRY(json_int64_array(value, count, 0, JSON_INTEGER_MAX, numbers, err));
    *out = numbers;
    return STATUS_OK;
}

static status read_layers(json_value root, arena *memory, bal_layer_costs *layers,
                          error_message *err)
{
    const json_value forward = json_member(root, "forward_ns");
    const int count = json_count(forward);
    if (!json_is_array(forward)) {
        return json_error(forward, STATUS_FORMAT, err, "needs an array of times, one per layer");
    }
    if (count > BAL_LAYERS_MAX) {
        return json_error(forward, STATUS_FORMAT, err, "has %d layers, more than %d", count,
                          BAL_LAYERS_MAX);
    }
    layers->layer_count = count;
    layers->microbatch_count = 1;
    TRY(read_optional(root, "forward_ns", count, memory, &layers->forward_ns, err));
    TRY(read_optional(root, "backward_input_ns", count, memory, &layers->backward_input_ns, err));
    TRY(read_optional(root, "backward_weight_ns", count, memory, &layers->backward_weight_ns, err));
    TRY(read_optional(root, "parameters", count, memory, &layers->parameters, err));
    TRY(read_optional(root, "state_bytes", count, memory, &layers->state_bytes, err));
    TRY(read_optional(root, "activation_bytes", count, memory, &layers->activation_bytes, err));
    TRY(read_optional(root, "gradient_bytes", count, memory, &layers->gradient_bytes, err));
    layers->has_split = layers->backward_weight_ns != NULL;
    const int64_t *zeros = arena_array(memory, (size_t)count, sizeof *zeros);
    if (layers->backward_input_ns == NULL) layers->backward_input_ns = zeros;
    if (layers->backward_weight_ns == NULL) layers->backward_weight_ns = zeros;
    const json_value embedding = json_member(root, "embedding");
    const json_value head = json_member(root, "head");
    if (!json_is_missing(embedding)) TRY(json_bool(embedding, &layers->embedding, err));
    if (!json_is_missing(head)) TRY(json_bool(head, &layers->head, err));
    return STATUS_OK;
}

/// The rank of each stage.
static int rank_of(cli_plan_shape shape, int stage)
{
    return bal_rank_of_stage(shape.placement, shape.rank_count, shape.chunk_count, stage, NULL);
}

/// An entry for each rank, or for each stage in model order; out: for each stage.
static status read_per_stage(json_value root, const char *key, cli_plan_shape shape, arena *memory,
                             const int64_t **out, error_message *err)
{
    const int stages = shape.rank_count * shape.chunk_count;
    const int64_t *given = NULL;
    if (shape.chunk_count == 1 || json_count(json_member(root, key)) == stages) {
        return read_optional(root, key, stages, memory, out, err);
    }
    TRY(read_optional(root, key, shape.rank_count, memory, &given, err));
    if (given == NULL) return STATUS_OK;
    int64_t *spread = arena_array(memory, (size_t)stages, sizeof *spread);
    for (int stage = 0; stage < stages; stage++) {
        spread[stage] = given[rank_of(shape, stage)];
    }
    *out = spread;
    return STATUS_OK;
}

static status read_factors(json_value root, cli_plan_shape shape, arena *memory,
                           const int64_t **out, error_message *err)
{
    const int count = shape.rank_count;
    const json_value value = json_member(root, "stage_time_factor");
    if (json_is_missing(value)) return STATUS_OK;
    if (!json_is_array(value) || json_count(value) != count) {
        return json_error(value, STATUS_FORMAT, err, "needs an array of %d factors", count);
    }
    const int stages = count * shape.chunk_count;
    int64_t *ppb = arena_array(memory, (size_t)stages, sizeof *ppb);
    json_value element = json_element(value, 0);
    for (int stage = 0; stage < count; stage++, element = json_next(element)) {
        double factor = 0;
        TRY(json_double(element, time_factor_min, time_factor_max, &factor, err));
        ppb[stage] = (int64_t)round(factor * PPB);
    }
    for (int stage = count; stage < stages; stage++) { // the first chunk is the stage of its rank
        ppb[stage] = ppb[rank_of(shape, stage)];
    }
    *out = ppb;
    return STATUS_OK;
}

/// The plan in force; it may have another number of stages.
static status read_current(json_value root, arena *memory, bal_problem *problem, error_message *err)
{
    const json_value value = json_member(root, "current_first_layer");
    if (json_is_missing(value)) return STATUS_OK;
    const int count = json_count(value);
    if (!json_is_array(value) || count < 2) {
        return json_error(value, STATUS_FORMAT, err, "needs an array of stages + 1 layers");
    }
    int64_t *wide = arena_array(memory, (size_t)count, sizeof *wide);
    int *first = arena_array(memory, (size_t)count, sizeof *first);
    TRY(json_int64_array(value, count, 0, problem->layers.layer_count, wide, err));
    for (int stage = 0; stage < count; stage++) {
        first[stage] = (int)wide[stage];
    }
    problem->current_first_layer = first;
    problem->current_stage_count = count - 1;
    return STATUS_OK;
}

bal_problem cli_plan_problem_of(cli_plan_shape shape)
{
    return (bal_problem){.stage_count = shape.rank_count * shape.chunk_count,
                         .chunk_count = shape.chunk_count,
                         .placement = shape.placement,
                         .load_cap_ns = -1};
}

static status read_root(json_value root, cli_plan_shape shape, arena *memory, bal_problem *problem,
                        error_message *err)
{
    static const char *const keys[] = {
        "forward_ns",     "backward_input_ns",  "backward_weight_ns",  "parameters",
        "state_bytes",    "activation_bytes",   "transfer_ns",         "embedding",
        "head",           "stage_memory_bytes", "stage_inflight",      "stage_time_factor",
        "stage_fixed_ns", "load_cap_ns",        "current_first_layer", "gradient_bytes"};
    TRY(json_check_keys(root, keys, (int)(sizeof keys / sizeof keys[0]), err));
    TRY(read_layers(root, memory, &problem->layers, err));
    TRY(read_optional(root, "transfer_ns", problem->layers.layer_count, memory,
                      &problem->transfer_ns, err));
    const bool has_chunks = shape.chunk_count > 1;
    TRY(read_optional(root, "stage_memory_bytes", shape.rank_count, memory,
                      has_chunks ? &problem->rank_memory_bytes : &problem->stage_memory_bytes,
                      err));
    TRY(read_per_stage(root, "stage_inflight", shape, memory, &problem->stage_inflight, err));
    TRY(read_factors(root, shape, memory, &problem->stage_time_factor_ppb, err));
    TRY(read_per_stage(root, "stage_fixed_ns", shape, memory, &problem->stage_fixed_ns, err));
    const json_value cap = json_member(root, "load_cap_ns");
    if (!json_is_missing(cap)) {
        TRY(json_int64(cap, 0, JSON_INTEGER_MAX, &problem->load_cap_ns, err));
    }
    return read_current(root, memory, problem, err);
}

status cli_plan_loads_of(json_value object, cli_plan_shape shape, arena *memory,
                         bal_problem *problem, error_message *err)
{
    bal_problem made = cli_plan_problem_of(shape);
    TRY(read_root(object, shape, memory, &made, err));
    *problem = made;
    return STATUS_OK;
}

/// The loads: the document itself, or what that of `dynmo model --json` holds under this key.
static json_value loads_in(json_value root)
{
    const json_value loads = json_member(root, "loads");
    return json_is_object(loads) && json_is_string(json_member(root, "model")) ? loads : root;
}

status cli_plan_loads_open(const char *path, arena *memory, json_value *loads, error_message *err)
{
    json_document *document = NULL;
    TRY(json_open(path, &document, err));
    *loads = loads_in(json_keep(document, memory));
    return STATUS_OK;
}

status cli_plan_loads_read(const char *path, cli_plan_shape shape, arena *memory,
                           bal_problem *problem, error_message *err)
{
    json_value loads;
    TRY(cli_plan_loads_open(path, memory, &loads, err));
    return cli_plan_loads_of(loads, shape, memory, problem, err);
}

/// Sums over samples, and room for their means.
typedef struct trace_sums {
    bal_wide *sum; // [BAL_COST_TIMES_COUNT][layer_count]
    int sample_count;
} trace_sums;

static void add_sample(trace_sums *sums, const bal_layer_costs *costs)
{
    for (int kind = 0; kind < BAL_COST_TIMES_COUNT; kind++) {
        for (int layer = 0; layer < costs->layer_count; layer++) {
            sums->sum[kind * costs->layer_count + layer] += costs->arrays[kind][layer];
        }
    }
    sums->sample_count++;
}

/// A copy of the last sample's costs with the means as times.
static void take_means(const trace_sums *sums, arena *memory, bal_layer_costs *costs)
{
    for (int kind = 0; kind < BAL_COST_ARRAY_COUNT; kind++) {
        if (costs->arrays[kind] == NULL) continue;
        int64_t *kept = arena_array(memory, (size_t)costs->layer_count, sizeof *kept);
        for (int layer = 0; layer < costs->layer_count; layer++) {
            const int count = sums->sample_count;
            kept[layer] =
                kind >= BAL_COST_TIMES_COUNT
                    ? costs->arrays[kind][layer]
                    : (int64_t)((sums->sum[kind * costs->layer_count + layer] + count / 2) / count);
        }
        costs->arrays[kind] = kept;
    }
}

static status sum_samples(trace_store *store, int64_t trace_id, int first, int last, arena *memory,
                          bal_layer_costs *costs, trace_sums *sums, error_message *err)
{
    trace_reader *reader = NULL;
    int sample = -1;
    bool is_changed = false;
    TRY(trace_reader_open(store, trace_id, TRACE_COLUMNS_MEAN, memory, &reader, err));
    TRY(trace_next_sample(store, trace_id, first - 1, &sample, err));
    while (sample >= 0 && sample <= last) {
        TRY(trace_reader_costs_at(reader, sample, costs, &is_changed, err));
        if (sums->sum == NULL) {
            sums->sum = arena_array(memory, BAL_COST_TIMES_COUNT * (size_t)costs->layer_count,
                                    sizeof *sums->sum);
        }
        add_sample(sums, costs);
        TRY(trace_next_sample(store, trace_id, sample, &sample, err));
    }
    if (sums->sample_count > 0) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "no iteration in [%d, %d] was sampled", first, last);
}

static status check_recorded(const bal_layer_costs *costs, arena *memory, error_message *err)
{
    bool *has_time = arena_array(memory, (size_t)costs->layer_count, sizeof *has_time);
    bal_layer_costs_mark(costs, has_time);
    return bal_layers_check_recorded(has_time, costs->layer_count, err);
}

static status mean_costs(trace_store *store, int first, int last, arena *memory,
                         bal_layer_costs *costs, int *sample_count, error_message *err)
{
    trace_info info;
    trace_sums sums = {0};
    TRY(trace_find(store, NULL, memory, &info, err));
    status result = sum_samples(store, info.trace_id, first, last, memory, costs, &sums, err);
    if (result == STATUS_OK) {
        take_means(&sums, memory, costs);
        result = check_recorded(costs, memory, err);
    }
    *sample_count = sums.sample_count;
    if (result == STATUS_INVALID) error_prefix(err, result, "%s", trace_store_path(store));
    return result;
}

status cli_plan_loads_of_trace(const char *path, int first, int last, cli_plan_shape shape,
                               arena *memory, bal_problem *problem, int *sample_count,
                               error_message *err)
{
    trace_store *store = NULL;
    bal_problem made = cli_plan_problem_of(shape);
    TRY(trace_store_open_within(path, TRACE_READ, memory, &store, err));
    TRY(mean_costs(store, first, last, memory, &made.layers, sample_count, err));
    *problem = made;
    return STATUS_OK;
}
