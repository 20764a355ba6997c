#include "models/dynamism/dynamism.h"

#include "models/dynamism/dynamism_case.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>

#define COST_MAX (INT64_MAX / 4) // what sums over stages still hold

static const model_dynamism_case *const cases[] = {
    &model_dynamism_moe,        &model_dynamism_pruning,
    &model_dynamism_freezing,   &model_dynamism_sparse_attention,
    &model_dynamism_early_exit, &model_dynamism_mod,
    &model_dynamism_lengths,
};
enum { CASE_COUNT = sizeof cases / sizeof cases[0] };

static const char *const load_model_names[] = {"physical", "published"};

/// The costs of one of the replicas that differ, in arrays of its own: the base's are gone at the
/// base's next call.
typedef struct replica_costs {
    model_dynamism *owner;
    int replica;
    int iteration; // that is held; -1: none
    bool changed;  // what the case said of it
    uint64_t base_version;
    bal_layer_costs layers;
    int column_capacity;
    int64_t *arrays[BAL_COST_ARRAY_COUNT]; // those of layers, first the passes
} replica_costs;

struct model_dynamism {
    const model_dynamism_case *row;
    model_case *state; // of the case, and what it has beside
    model_load_model load_model;
    model_dynamism_base base;
    model_layer_shares shares; // those of base
    int layer_count;
    uint64_t base_version; // how often the base's numbers have changed
    arena *memory;
    model_case_parameters parameters;
    replica_costs *replicas; // [state->source_count]
    double *scale;           // [microbatch_count] of a row, while it is computed
    double *weight_scale;    // [microbatch_count]
};

static status find_case(model_case_parameters *parameters, const model_dynamism_case **row,
                        error_message *err)
{
    const char *names[CASE_COUNT];
    const char *word = NULL;
    int index = 0;
    for (int each = 0; each < CASE_COUNT; each++) {
        names[each] = cases[each]->name;
    }
    const model_parameter name = {"case", .whole = &index, .names = names,
                                  .name_count = CASE_COUNT};
    TRY(json_string(model_parameter_ask(parameters, "case"), &word, err)); // it has no default
    TRY(model_parameters_read(parameters, &name, 1, err));
    *row = cases[index];
    return STATUS_OK;
}

static status read_seed(model_case_parameters *parameters, uint64_t *seed, error_message *err)
{
    const json_value member = model_parameter_ask(parameters, "seed");
    int64_t given = 1;
    if (!json_is_missing(member)) TRY(json_int64(member, 0, JSON_INTEGER_MAX, &given, err));
    *seed = (uint64_t)given;
    model_parameter_note(parameters, "seed",
                         json_is_missing(member) ? MODEL_ASSUMED("default") : model_given,
                         "%" PRId64, given);
    return STATUS_OK;
}

static status choose_shares(model_dynamism *dynamism, error_message *err)
{
    model_case_parameters *parameters = &dynamism->parameters;
    const model_dynamism_base *base = &dynamism->base;
    if (base->shares != NULL) {
        if (base->shares->layer_count != dynamism->layer_count) {
            return error_set(err, STATUS_INVALID,
                             "the model has %d layers with embedding and head, the costs that "
                             "case '%s' is put over have %d",
                             base->shares->layer_count, dynamism->row->name, dynamism->layer_count);
        }
        dynamism->shares = *base->shares;
        dynamism->base.shares = &dynamism->shares;
        model_parameter_note(parameters, "shares", MODEL_ASSUMED("the cost model"),
                             "of the model: each part timed alone, over the whole layer");
        return STATUS_OK;
    }
    if (!dynamism->row->needs_shares || dynamism->load_model == MODEL_LOAD_PUBLISHED) {
        return STATUS_OK;
    }
    return json_error(parameters->object, STATUS_INVALID, err,
                      "case '%s' touches parts of a layer, and a trace does not tell them apart: "
                      "name the model that was traced, trace.model",
                      dynamism->row->name);
}

static status check_base(const model_dynamism *dynamism, error_message *err)
{
    const model_dynamism_base *base = &dynamism->base;
    assert(base->iteration_count >= 1 && base->microbatch_count >= 1);
    assert(base->transformer_first >= 0 && base->transformer_end <= dynamism->layer_count);
    if (base->transformer_first < base->transformer_end) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "case '%s' needs a transformer layer; the costs have none",
                     dynamism->row->name);
}

static void create_replicas(model_dynamism *dynamism)
{
    model_case *of = dynamism->state;
    if (of->source_count == 0) of->source_count = 1;
    for (int load_model = 0; load_model < MODEL_LOAD_COUNT; load_model++) {
        model_load *load = &of->load[load_model];
        if (load->column_count == 0) load->column_count = 1;
    }
    const int count = of->source_count;
    const size_t columns = (size_t)dynamism->base.microbatch_count;
    dynamism->replicas = arena_array(dynamism->memory, (size_t)count, sizeof *dynamism->replicas);
    dynamism->scale = arena_array(dynamism->memory, columns, sizeof(double));
    dynamism->weight_scale = arena_array(dynamism->memory, columns, sizeof(double));
    for (int replica = 0; replica < count; replica++) {
        dynamism->replicas[replica] =
            (replica_costs){.owner = dynamism, .replica = replica, .iteration = -1};
    }
}

/// All of model_dynamism_open but for the memory of the object itself.
static status open_case(model_dynamism *dynamism, error_message *err)
{
    model_case_parameters *parameters = &dynamism->parameters;
    const model_dynamism_base *base = &dynamism->base;
    model_case of = {.base = base,
                     .layer_count = dynamism->layer_count,
                     .first = base->transformer_first,
                     .block_count = base->transformer_end - base->transformer_first,
                     .memory = dynamism->memory,
                     .parameters = parameters};
    int load_model = MODEL_LOAD_PHYSICAL;
    TRY(find_case(parameters, &dynamism->row, err));
    (void)model_parameter_ask(parameters, "change_ratio"); // of who detects changes
    TRY(check_base(dynamism, err));
    const model_parameter name = {"load_model", .whole = &load_model, .names = load_model_names,
                                  .name_count = MODEL_LOAD_COUNT, .from = MODEL_ASSUMED("default")};
    TRY(model_parameters_read(parameters, &name, 1, err));
    of.load_model = dynamism->load_model = (model_load_model)load_model;
    TRY(read_seed(parameters, &of.seed, err));
    TRY(choose_shares(dynamism, err));
    dynamism->state = arena_array(dynamism->memory, 1, dynamism->row->state_bytes);
    *dynamism->state = of;
    TRY(dynamism->row->open(dynamism->state, err));
    TRY(model_parameters_check(parameters, err));
    create_replicas(dynamism);
    return STATUS_OK;
}

status model_dynamism_open(json_value object, const model_dynamism_base *base, arena *memory,
                           model_dynamism **out, error_message *err)
{
    model_dynamism *dynamism = arena_array(memory, 1, sizeof *dynamism);
    *dynamism = (model_dynamism){
        .base = *base,
        .layer_count = base->source.layer_count,
        .memory = memory,
        .parameters = {.object = object, .list.memory = memory},
    };
    TRY(open_case(dynamism, err));
    *out = dynamism;
    return STATUS_OK;
}

const char *model_dynamism_name(const model_dynamism *dynamism)
{
    return dynamism->row->name;
}

bool model_dynamism_varies(const model_dynamism *dynamism)
{
    return dynamism->state->varies;
}

int model_dynamism_source_count(const model_dynamism *dynamism)
{
    return dynamism->state->source_count;
}

const model_assumption *model_dynamism_assumptions(const model_dynamism *dynamism, int *count)
{
    *count = dynamism->parameters.list.count;
    return dynamism->parameters.list.rows;
}

/// Factor of a row on a pass, per column of the load: 1 + sum over parts of share x (factor - 1),
/// which is exactly 1 where no part changes, times the factors on the whole pass.
///
/// @param scratch [column_count] for what is computed
/// @return [column_count]; NULL if nothing touches the row
static const double *scale_of_row(const model_dynamism *dynamism, const model_load *load, int pass,
                                  int layer, double *restrict scratch)
{
    const size_t columns = (size_t)load->column_count;
    const size_t row = (size_t)layer * columns;
    const double *scale = NULL;
    for (int part = 0; part < MODEL_PART_COUNT; part++) {
        if (load->part[pass][part] == NULL) continue;
        const double share = dynamism->base.shares->share[pass][part][layer];
        const double *factor = load->part[pass][part] + row;
        if (share == 0) continue;
        for (size_t column = 0; column < columns; column++) {
            scratch[column] = (scale != NULL ? scratch[column] : 1) + share * (factor[column] - 1);
        }
        scale = scratch;
    }
    const double *const layer_factors[] = {load->whole, load->pass[pass]};
    for (int kind = 0; kind < 2; kind++) {
        if (layer_factors[kind] == NULL) continue;
        const double *factor = layer_factors[kind] + row;
        if (scale == NULL) {
            scale = factor;
            continue;
        }
        for (size_t column = 0; column < columns; column++) {
            scratch[column] = scale[column] * factor[column];
        }
        scale = scratch;
    }
    return scale;
}

/// A base that does not split the backward has B and W in one number.
static const double *scale_of_full_backward(const model_dynamism *dynamism, const model_load *load,
                                            int layer)
{
    double *scratch = dynamism->scale;
    const double *input = scale_of_row(dynamism, load, MODEL_PASS_BACKWARD_INPUT, layer, scratch);
    const double *weight =
        scale_of_row(dynamism, load, MODEL_PASS_BACKWARD_WEIGHT, layer, dynamism->weight_scale);
    const double share =
        dynamism->base.shares != NULL ? dynamism->base.shares->weight_of_backward[layer] : 0.5;
    if (input == NULL && weight == NULL) return NULL;
    for (int column = 0; column < load->column_count; column++) {
        const double of_input = input != NULL ? input[column] : 1;
        const double of_weight = weight != NULL ? weight[column] : 1;
        scratch[column] = of_input + share * (of_weight - of_input);
    }
    return scratch;
}

/// Rounds halves up; what is too large stops at COST_MAX and is refused by its row's highest.
static int64_t rounded_ns(double ns)
{
    return (int64_t)(ns < (double)COST_MAX ? ns + 0.5 : (double)COST_MAX);
}

/// One row of a pass: base x scale, or base, each repeated where it has one column.
///
/// @param scale   NULL: 1
/// @param highest out: the largest number, before rounding
static void fill_row(const int64_t *restrict base, int base_columns, const double *restrict scale,
                     int scale_columns, int columns, int64_t *restrict out, double *highest)
{
    double top = 0;
    if (scale == NULL) {
        for (int column = 0; column < columns; column++) {
            out[column] = base[base_columns == 1 ? 0 : column];
        }
    } else if (base_columns == 1 && scale_columns == columns) { // the usual shape, without choices
        const double constant = (double)base[0];
        for (int column = 0; column < columns; column++) {
            const double ns = constant * scale[column];
            top = ns > top ? ns : top;
            out[column] = rounded_ns(ns);
        }
    } else {
        for (int column = 0; column < columns; column++) {
            const double ns = (double)base[base_columns == 1 ? 0 : column] *
                              scale[scale_columns == 1 ? 0 : column];
            top = ns > top ? ns : top;
            out[column] = rounded_ns(ns);
        }
    }
    *highest = top;
}

/// Adds what stands on top; a correction does not go below 0.
static void add_row(const int64_t *restrict added, int added_columns, int columns,
                    int64_t *restrict out, double *highest)
{
    int64_t top = 0;
    for (int column = 0; column < columns; column++) {
        const int64_t sum = out[column] + added[added_columns == 1 ? 0 : column];
        out[column] = sum > 0 ? sum : 0;
        top = sum > top ? sum : top;
    }
    if ((double)top > *highest) *highest = (double)top;
}

static status check_highest(const model_dynamism *dynamism, double highest, int pass, int layer,
                            int iteration, error_message *err)
{
    if (highest < (double)COST_MAX) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "case '%s': %s of layer %d in iteration %d: too large to be counted in 64 "
                     "bits",
                     dynamism->row->name, bal_cost_names[pass], layer, iteration);
}

static void add_pass(const model_load *load, int pass, int layer, int columns, int64_t *out,
                     double *highest)
{
    if (load->added_ns[pass] == NULL) return;
    add_row(load->added_ns[pass] + (size_t)layer * (size_t)load->column_count, load->column_count,
            columns, out, highest);
}

/// @param base_ns [layer_count][base->microbatch_count] of this pass
static status fill_pass(const model_dynamism *dynamism, const bal_layer_costs *base,
                        const int64_t *base_ns, const model_load *load, int pass,
                        replica_costs *replica, int iteration, error_message *err)
{
    const int columns = replica->layers.microbatch_count;
    const bool is_full_backward = !base->has_split && pass == MODEL_PASS_BACKWARD_INPUT;
    for (int layer = 0; layer < dynamism->layer_count; layer++) {
        const int64_t *from = base_ns + (size_t)layer * (size_t)base->microbatch_count;
        int64_t *out = replica->arrays[pass] + (size_t)layer * (size_t)columns;
        double highest = 0;
        const double *scale = is_full_backward
                                  ? scale_of_full_backward(dynamism, load, layer)
                                  : scale_of_row(dynamism, load, pass, layer, dynamism->scale);
        fill_row(from, base->microbatch_count, scale, load->column_count, columns, out, &highest);
        add_pass(load, pass, layer, columns, out, &highest);
        if (is_full_backward) {
            add_pass(load, MODEL_PASS_BACKWARD_WEIGHT, layer, columns, out, &highest);
        }
        TRY(check_highest(dynamism, highest, pass, layer, iteration, err));
    }
    return STATUS_OK;
}

/// The weight gradients of a base that has them in its backward.
static void clear_weight_pass(const model_dynamism *dynamism, replica_costs *replica)
{
    memset(replica->arrays[MODEL_PASS_BACKWARD_WEIGHT], 0,
           (size_t)dynamism->layer_count * (size_t)replica->layers.microbatch_count *
               sizeof(int64_t));
}

/// Bytes, parameters or reduction of every layer.
static status fill_array(const model_dynamism *dynamism, const char *name, const int64_t *base,
                         const double *factor, int64_t *out, error_message *err)
{
    for (int layer = 0; base != NULL && layer < dynamism->layer_count; layer++) {
        if (factor == NULL) {
            out[layer] = base[layer];
            continue;
        }
        const double value = (double)base[layer] * factor[layer] + 0.5;
        if (!(value < (double)COST_MAX)) {
            return error_set(err, STATUS_INVALID,
                             "case '%s': %s of layer %d: too large to be counted in 64 bits",
                             dynamism->row->name, name, layer);
        }
        out[layer] = factor[layer] == 1 ? base[layer] : (int64_t)value;
    }
    return STATUS_OK;
}

static status fill_arrays(const model_dynamism *dynamism, const bal_layer_costs *base,
                          const model_load *load, const replica_costs *to, error_message *err)
{
    const double *const factors[BAL_COST_ARRAY_COUNT - MODEL_PASS_COUNT] = {
        load->parameters, load->state,   load->activation,
        load->gradient,   load->message, load->reduction};
    for (int array = MODEL_PASS_COUNT; array < BAL_COST_ARRAY_COUNT; array++) {
        TRY(fill_array(dynamism, bal_cost_names[array], base->arrays[array],
                       factors[array - MODEL_PASS_COUNT], to->arrays[array], err));
    }
    return STATUS_OK;
}

/// Makes room for rows of so many columns; what was there before stays in the arena, which happens
/// at most once for a replica whose columns become microbatches.
static void reserve(model_dynamism *dynamism, replica_costs *replica, int columns)
{
    const size_t layers = (size_t)dynamism->layer_count;
    if (columns <= replica->column_capacity) return;
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        const size_t count = array < MODEL_PASS_COUNT ? layers * (size_t)columns : layers;
        replica->arrays[array] = arena_array(dynamism->memory, count, sizeof(int64_t));
    }
    replica->column_capacity = columns;
}

static status check_columns(const model_dynamism *dynamism, const bal_layer_costs *base,
                            const model_load *load, int iteration, error_message *err)
{
    const int microbatches = dynamism->base.microbatch_count;
    assert(base->layer_count == dynamism->layer_count);
    assert(load->column_count == 1 || load->column_count == microbatches);
    if (base->microbatch_count == 1 || base->microbatch_count == microbatches) return STATUS_OK;
    return error_set(err, STATUS_INVALID,
                     "case '%s': iteration %d of the costs has %d microbatches, the training "
                     "%d",
                     dynamism->row->name, iteration, base->microbatch_count, microbatches);
}

/// Writes the costs of a replica: the base under a load.
static status apply(model_dynamism *dynamism, bal_layer_costs *base, replica_costs *replica,
                    int iteration, error_message *err)
{
    const model_load *load = &dynamism->state->load[dynamism->load_model];
    TRY(check_columns(dynamism, base, load, iteration, err));
    const int columns =
        base->microbatch_count > load->column_count ? base->microbatch_count : load->column_count;
    reserve(dynamism, replica, columns);
    replica->layers = *base;
    replica->layers.microbatch_count = columns;
    for (int array = 0; array < BAL_COST_ARRAY_COUNT; array++) {
        if (base->arrays[array] != NULL) replica->layers.arrays[array] = replica->arrays[array];
    }
    const int passes = base->has_split ? MODEL_PASS_COUNT : MODEL_PASS_BACKWARD_WEIGHT;
    for (int pass = 0; pass < passes; pass++) {
        TRY(fill_pass(dynamism, base, base->arrays[pass], load, pass, replica, iteration, err));
    }
    if (!base->has_split) clear_weight_pass(dynamism, replica);
    return fill_arrays(dynamism, base, load, replica, err);
}

static status ask_base(model_dynamism *dynamism, int iteration, bal_layer_costs *costs,
                       error_message *err)
{
    bool changed = false;
    const bal_cost_source *source = &dynamism->base.source;
    TRY(source->costs_at(source->context, iteration, costs, &changed, err));
    if (changed) dynamism->base_version++;
    return STATUS_OK;
}

/// What is held is used again where neither base nor case has changed: foresight asks every
/// iteration twice, and most cases change in few iterations.
static status costs_at(void *context, int asked, bal_layer_costs *costs, bool *changed,
                       error_message *err)
{
    replica_costs *replica = context;
    model_dynamism *dynamism = replica->owner;
    bal_layer_costs base;
    assert(asked >= 0);
    const int last = dynamism->base.iteration_count - 1;
    const int iteration = asked < last ? asked : last; // after the training its end holds
    TRY(ask_base(dynamism, iteration, &base, err));
    const bool is_first = replica->iteration < 0;
    const bool has_same_base = !is_first && replica->base_version == dynamism->base_version;
    if (!has_same_base || replica->iteration != iteration) {
        bool case_changed = false;
        TRY(dynamism->row->load_at(dynamism->state, dynamism->load_model, iteration,
                                   replica->replica, &case_changed, err));
        const bool is_held = has_same_base && replica->iteration == iteration - 1 &&
                             !case_changed && !dynamism->state->varies;
        replica->iteration = -1; // until the costs are complete
        if (!is_held) TRY(apply(dynamism, &base, replica, iteration, err));
        replica->changed = case_changed;
    }
    replica->iteration = iteration;
    replica->base_version = dynamism->base_version;
    *costs = replica->layers;
    *changed = is_first || (replica->changed && asked <= last) ||
               (dynamism->base.source.announces_changes && !has_same_base);
    return STATUS_OK;
}

bal_cost_source model_dynamism_source(model_dynamism *dynamism, int replica)
{
    assert(replica >= 0 && replica < dynamism->state->source_count);
    return (bal_cost_source){
        .context = &dynamism->replicas[replica],
        .layer_count = dynamism->layer_count,
        .iteration_count = dynamism->base.iteration_count,
        .announces_changes = true,
        .costs_at = costs_at,
    };
}

/// Sum over passes and mean over columns of one layer, without factor.
static double mean_ns(const bal_layer_costs *base, int layer, int column)
{
    const size_t cell = (size_t)layer * (size_t)base->microbatch_count +
                        (size_t)(base->microbatch_count == 1 ? 0 : column);
    return (double)base->forward_ns[cell] + (double)base->backward_input_ns[cell] +
           (double)base->backward_weight_ns[cell];
}

status model_dynamism_published_load(model_dynamism *dynamism, int iteration, int replica,
                                     int64_t *load_ns, error_message *err)
{
    const model_load *load = &dynamism->state->load[MODEL_LOAD_PUBLISHED];
    bal_layer_costs base;
    bool changed = false;
    assert(replica >= 0 && replica < dynamism->state->source_count);
    TRY(ask_base(dynamism, iteration, &base, err));
    TRY(dynamism->row->load_at(dynamism->state, MODEL_LOAD_PUBLISHED, iteration, replica, &changed,
                               err));
    TRY(check_columns(dynamism, &base, load, iteration, err));
    const int columns =
        base.microbatch_count > load->column_count ? base.microbatch_count : load->column_count;
    for (int layer = 0; layer < dynamism->layer_count; layer++) {
        double sum = 0;
        for (int column = 0; column < columns; column++) {
            const size_t cell = (size_t)layer * (size_t)load->column_count +
                                (size_t)(load->column_count == 1 ? 0 : column);
            const double factor = load->whole == NULL ? 1 : load->whole[cell];
            sum += mean_ns(&base, layer, column) * factor;
        }
        const double mean = sum / columns + 0.5;
        load_ns[layer] = mean < (double)COST_MAX ? (int64_t)mean : COST_MAX;
    }
    return STATUS_OK;
}

status model_dynamism_expert_tokens(model_dynamism *dynamism, int iteration, int replica,
                                    model_expert_tokens *tokens, error_message *err)
{
    assert(replica >= 0 && replica < dynamism->state->source_count);
    *tokens = (model_expert_tokens){.layer_count = dynamism->layer_count};
    if (dynamism->row->expert_tokens == NULL) return STATUS_OK;
    return dynamism->row->expert_tokens(dynamism->state, iteration, replica, tokens, err);
}

status model_dynamism_documents(model_dynamism *dynamism, int iteration, int replica,
                                int microbatch, model_documents *documents, error_message *err)
{
    assert(replica >= 0 && replica < dynamism->state->source_count);
    assert(microbatch >= 0 && microbatch < dynamism->base.microbatch_count);
    if (dynamism->row->documents == NULL) {
        return error_set(err, STATUS_UNSUPPORTED, "case '%s' packs no sequences",
                         dynamism->row->name);
    }
    return dynamism->row->documents(dynamism->state, iteration, replica, microbatch, documents,
                                    err);
}
