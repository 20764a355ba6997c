/// Layer freezing: layers stop learning front to back, and what they no longer need falls away.
#include "models/dynamism/dynamism_case.h"

#include <assert.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STREAM_PLASTICITY = 1, NEVER = INT_MAX };

typedef enum freezing_schedule {
    SCHEDULE_PLASTICITY,
    SCHEDULE_INTERVAL,
    SCHEDULE_SHARE,
    SCHEDULE_LIST,
    SCHEDULE_AUTOFREEZE,
    SCHEDULE_EGERIA,
    SCHEDULE_COUNT
} freezing_schedule;

static const char *const schedule_names[] = {"plasticity", "interval",   "share",
                                             "list",       "autofreeze", "egeria"};

/// What tells two iterations apart.
typedef struct freezing_moment {
    int frozen;     // transformer layers, from the front
    int cached;     // of them: their outputs are read instead of computed
    bool evaluates; // the reference model runs
} freezing_moment;

typedef struct freezing_state {
    int first; // of the transformer layers
    int block_count;
    int layer_count;
    int interval;
    bool caches;
    int cache_delay; // iterations from freezing to the first read
    double reference_ratio;
    int *freeze_at;       // [block_count]
    int64_t *fetch_ns;    // [layer_count] to read what a layer hands on
    double *frozen_state; // [layer_count] state of a frozen layer over that of a learning one
    double *learns;       // [layer_count] 0 where it is frozen
    model_load *load;     // physical
    freezing_moment held; // what the arrays hold; frozen -1: nothing
} freezing_state;

static int clamp_iteration(int64_t iteration)
{
    return iteration < NEVER ? (int)iteration : NEVER;
}

/// One more layer every so many iterations: layer l freezes at first + l * interval.
///
/// @param first, interval, max_frozen >= 0, >= 1, in [0, layer_count]: layers from max_frozen on
///                                    never freeze
/// @param freeze_at [layer_count] out
static void freeze_by_interval(int first, int interval, int max_frozen, int layer_count,
                               int *freeze_at)
{
    assert(first >= 0 && interval >= 1 && max_frozen <= layer_count);
    for (int layer = 0; layer < layer_count; layer++) {
        freeze_at[layer] =
            layer < max_frozen ? clamp_iteration(first + (int64_t)layer * interval) : NEVER;
    }
}

/// A share of the layers that are still learning, every interval: after e intervals from first on,
/// ceil(L (1 - (1 - share)^e)) layers are frozen.
///
/// @param share in (0, 1)
/// Source: He, Li, Soltanolkotabi, Avestimehr, PipeTransformer, ICML 2021, and
/// freeze/auto_freeze.py of its code, which sums the same series term by term and whose interval is
/// an epoch.
static void freeze_by_share(double share, int first, int interval, int max_frozen, int layer_count,
                            int *freeze_at)
{
    assert(share > 0 && share < 1 && interval >= 1 && max_frozen <= layer_count);
    int frozen = 0;
    double learning = 1;
    for (int64_t at = first; frozen < max_frozen; at += interval) {
        learning *= 1 - share;
        const int wanted = layer_count - (int)(layer_count * learning); // rounds up
        const int now = wanted < max_frozen ? wanted : max_frozen;
        while (frozen < now) {
            freeze_at[frozen++] = clamp_iteration(at);
        }
    }
    while (frozen < layer_count) {
        freeze_at[frozen++] = NEVER;
    }
}

/// Layers whose loss-change rate falls below a tolerance, the front ones first.
typedef struct plasticity_plan {
    int first_iteration;     // when the front layer gets there, >= 1
    int last_iteration;      // when the last of max_frozen layers does, >= first_iteration
    int evaluation_interval; // freezing is decided at its multiples only, >= 1
    double jitter;           // in [0, 1): times vary by up to this share
} plasticity_plan;

/// The first multiple of interval that is not before iteration.
static int64_t next_multiple(int64_t iteration, int interval)
{
    return (iteration + interval - 1) / interval * interval;
}

/// The rate of layer l is exp(-k / tau_l) at iteration k and tau_l grows linearly with depth, and
/// so do the times at which rates reach a tolerance. A layer waits for those in front of it.
///
/// Source of the shape (front layers first, decisions at fixed intervals, one after the other):
/// Wang et al., Egeria, EuroSys 2023. It publishes no times: they are the caller's.
static void freeze_by_plasticity(const plasticity_plan *plasticity, rng *random, int max_frozen,
                                 int layer_count, int *freeze_at)
{
    assert(max_frozen <= layer_count);
    const double first = plasticity->first_iteration;
    const double span = (double)plasticity->last_iteration - first;
    int64_t before = 0;
    for (int layer = 0; layer < layer_count; layer++) {
        const double depth = max_frozen > 1 ? (double)layer / (max_frozen - 1) : 0;
        const double vary = 1 + plasticity->jitter * (2 * rng_unit(random) - 1);
        if (layer >= max_frozen) {
            freeze_at[layer] = NEVER;
            continue;
        }
        const int64_t wanted = (int64_t)((first + span * depth) * vary + 0.5);
        const int64_t at = next_multiple(wanted, plasticity->evaluation_interval);
        before = at > before ? at : before;
        freeze_at[layer] = clamp_iteration(before);
    }
}

/// What a run measured of its layers, decision by decision, and the rule that is put to it.
typedef struct measured_layers {
    const double *value; // [row_count][layer_count] >= 0; row r at iteration (r + 1) * interval
    int row_count;
    int layer_count;
    bool by_gradients; // autofreeze; else egeria
    double percentile; // of autofreeze
    int window;        // of egeria
    double tolerance;  // of egeria
} measured_layers;

static double measured_at(const measured_layers *measured, int row, int layer)
{
    return measured->value[(size_t)row * (size_t)measured->layer_count + (size_t)layer];
}

static int by_value(const void *one, const void *other)
{
    const double a = *(const double *)one;
    const double b = *(const double *)other;
    return (a > b) - (a < b);
}

/// The first learning layer whose gradient changed by no less than the percentile of all that
/// learn: those in front of it freeze.
///
/// @param change, sorted [layer_count] scratch
/// Source: Liu, Agarwal, Venkataraman, AutoFreeze (arXiv 2102.01386), and
/// freeze_intermediate_e2e_lr.py of its code: norms of gradients summed over an interval,
/// |before - now| / before, numpy.percentile. There a percentile of 0 would thaw; here it does not.
static int frozen_by_gradients(const measured_layers *measured, int row, int frozen, double *change,
                               double *sorted)
{
    const int learning = measured->layer_count - frozen;
    for (int layer = frozen; layer < measured->layer_count; layer++) {
        const double before = measured_at(measured, row - 1, layer);
        const double now = measured_at(measured, row, layer);
        const double ratio = before > 0 ? fabs(before - now) / before : DBL_MAX;
        change[layer - frozen] = now > 0 ? ratio : 0;
    }
    memcpy(sorted, change, (size_t)learning * sizeof *sorted);
    qsort(sorted, (size_t)learning, sizeof *sorted, by_value);
    const double place = measured->percentile / 100 * (learning - 1);
    const int below = (int)place;
    const int above = below + 1 < learning ? below + 1 : below;
    const double threshold = sorted[below] + (place - below) * (sorted[above] - sorted[below]);
    int first = 0;
    while (change[first] < threshold) {
        first++;
    }
    return frozen + first;
}

/// How fast a layer's measure changes: the least-squares slope over the last window of it.
static double slope_at(const measured_layers *measured, int row, int layer)
{
    const int count = row + 1 < measured->window ? row + 1 : measured->window;
    double slope = 0;
    double square = 0;
    for (int point = 0; point < count; point++) {
        const double away = point - (count - 1) / 2.0;
        slope += away * measured_at(measured, row - count + 1 + point, layer);
        square += away * away;
    }
    return fabs(slope) / square;
}

/// The first learning layer freezes when its slope has stayed below a share of its steepest for a
/// window of decisions since it became the first.
///
/// Source of the rule: Wang et al., Egeria, EuroSys 2023, whose measure is the distance of the
/// layer's activations from those of a reference model.
static int frozen_by_plasticity(const measured_layers *measured, int row, int frozen, int since)
{
    double steepest = 0;
    int calm = 0;
    for (int each = 1; each <= row; each++) {
        const double slope = slope_at(measured, each, frozen);
        steepest = slope > steepest ? slope : steepest;
        calm = slope <= measured->tolerance * steepest && each > since ? calm + 1 : 0;
    }
    return calm >= measured->window ? frozen + 1 : frozen;
}

static void freeze_by_measure(const measured_layers *measured, int start, int interval,
                              int max_frozen, arena *memory, int *freeze_at)
{
    const size_t layers = (size_t)measured->layer_count;
    double *scratch = arena_array(memory, 2 * layers, sizeof *scratch);
    int frozen = 0;
    int since = 0;
    for (int row = 1; row < measured->row_count && frozen < max_frozen; row++) {
        const int64_t at = (int64_t)(row + 1) * interval;
        const int now = measured->by_gradients
                            ? frozen_by_gradients(measured, row, frozen, scratch, scratch + layers)
                            : frozen_by_plasticity(measured, row, frozen, since);
        if (at < start || now == frozen) continue;
        since = row;
        while (frozen < now && frozen < max_frozen) {
            freeze_at[frozen++] = clamp_iteration(at);
        }
    }
    while (frozen < measured->layer_count) {
        freeze_at[frozen++] = NEVER;
    }
}

/// Layers that are frozen while an iteration runs: those at the front with freeze_at <= iteration.
///
/// @param freeze_at [layer_count] not falling
static int frozen_count(const int *freeze_at, int layer_count, int iteration)
{
    int frozen = 0;
    while (frozen < layer_count && freeze_at[frozen] <= iteration) {
        frozen++;
    }
    return frozen;
}

static status read_list(const model_case_setup *setup, freezing_state *freezing, error_message *err)
{
    const json_value list = model_parameter_ask(setup->parameters, "freeze_at");
    const int given = json_count(list);
    if (!json_is_array(list) || given < 1) {
        return json_error(list, STATUS_FORMAT, err,
                          "schedule 'list' needs the iterations at which layers freeze");
    }
    if (given > freezing->block_count) {
        return json_error(list, STATUS_INVALID, err, "%d layers freeze, the model has %d", given,
                          freezing->block_count);
    }
    for (int block = 0; block < freezing->block_count; block++) {
        freezing->freeze_at[block] = NEVER;
    }
    for (int block = 0; block < given; block++) {
        const json_value element = json_element(list, block);
        int *at = &freezing->freeze_at[block];
        TRY(json_int(element, 0, INT32_MAX - 1, at, err));
        if (block > 0 && *at < at[-1]) {
            return json_error(element, STATUS_INVALID, err,
                              "%d is before %d, when the layer in front of it freezes: layers "
                              "freeze front to back",
                              *at, at[-1]);
        }
    }
    model_parameter_note(setup->parameters, "freeze_at", model_given,
                         "%d layers, from iteration %d to %d", given, freezing->freeze_at[0],
                         freezing->freeze_at[given - 1]);
    return STATUS_OK;
}

/// "measured": a row per decision, in it a number per transformer layer.
static status read_rows(const model_case_setup *setup, measured_layers *measured,
                        error_message *err)
{
    const json_value list = model_parameter_ask(setup->parameters, "measured");
    const size_t layers = (size_t)measured->layer_count;
    measured->row_count = json_count(list);
    if (!json_is_array(list) || measured->row_count < 2) {
        return json_error(list, STATUS_FORMAT, err,
                          "this schedule needs an array of 2 rows at least, one per decision");
    }
    double *value = arena_array(setup->memory, (size_t)measured->row_count * layers, sizeof *value);
    measured->value = value;
    json_value row = json_element(list, 0);
    for (int each = 0; each < measured->row_count; each++) {
        if (!json_is_array(row) || json_count(row) != measured->layer_count) {
            return json_error(row, STATUS_FORMAT, err, "not a number for each of the %d layers",
                              measured->layer_count);
        }
        json_value number = json_element(row, 0);
        for (int layer = 0; layer < measured->layer_count; layer++) {
            TRY(json_double(number, 0, 1e300, value++, err));
            number = json_next(number);
        }
        row = json_next(row);
    }
    model_parameter_note(setup->parameters, "measured", (model_origin){MODEL_ORIGIN_MEASURED, ""},
                         "%d decisions", measured->row_count);
    return STATUS_OK;
}

/// Fills freeze_at by what was measured.
static status read_measured(const model_case_setup *setup, bool by_gradients, int start,
                            int max_frozen, freezing_state *freezing, error_message *err)
{
    measured_layers measured = {.layer_count = freezing->block_count, .by_gradients = by_gradients};
    const model_parameter of_gradients = {"percentile", .real = &measured.percentile,
                                          .fallback = 50, .max = 100,
                                          .from = MODEL_PUBLISHED("AutoFreeze: the median")};
    const model_parameter of_plasticity[] = {
        {"window", .whole = &measured.window, .fallback = 10, .min = 2, .max = 10000,
         .from = MODEL_ASSUMED("decisions that the slope is fitted to, and of patience")},
        {"tolerance", .real = &measured.tolerance, .fallback = 0.2, .max = 1,
         .from = MODEL_ASSUMED("a fifth of the layer's steepest slope")},
    };
    TRY(read_rows(setup, &measured, err));
    TRY(by_gradients ? model_parameters_read(setup->parameters, &of_gradients, 1, err)
                     : model_parameters_read(setup->parameters, of_plasticity, 2, err));
    freeze_by_measure(&measured, start, freezing->interval, max_frozen, setup->memory,
                      freezing->freeze_at);
    return STATUS_OK;
}

/// Fills freeze_at by plasticity.
static status read_plasticity(const model_case_setup *setup, int start, int max_frozen,
                              freezing_state *freezing, error_message *err)
{
    plasticity_plan plasticity = {.first_iteration = start > 0 ? start : 1,
                                  .evaluation_interval = freezing->interval};
    const model_parameter rows[] = {
        {"last_iteration", .whole = &plasticity.last_iteration,
         .fallback = setup->base->iteration_count, .max = INT32_MAX - 1,
         .from = MODEL_ASSUMED("no trace of freezing is published; the end of training")},
        {"jitter", .real = &plasticity.jitter, .fallback = 0.1, .max = 0.99,
         .from = MODEL_ASSUMED("not published")},
    };
    TRY(model_parameters_read(setup->parameters, rows, sizeof rows / sizeof rows[0], err));
    if (plasticity.last_iteration < plasticity.first_iteration) {
        return error_set(err, STATUS_INVALID,
                         "case 'freezing': the schedule ends before it starts: last_iteration "
                         "%d is before start_iteration %d",
                         plasticity.last_iteration, plasticity.first_iteration);
    }
    rng random = model_case_stream(setup->seed, STREAM_PLASTICITY, 0, 0, 0);
    freeze_by_plasticity(&plasticity, &random, max_frozen, freezing->block_count,
                         freezing->freeze_at);
    return STATUS_OK;
}

static status read_schedule(const model_case_setup *setup, freezing_state *freezing,
                            error_message *err)
{
    model_case_parameters *parameters = setup->parameters;
    const int blocks = freezing->block_count;
    int kind = SCHEDULE_PLASTICITY;
    int start = 0;
    int max_frozen = 0;
    double share = 0;
    const model_parameter interval = {
        "interval",           .whole = &freezing->interval,
        .fallback = 50,       .min = 1,
        .max = INT32_MAX - 1, .from = MODEL_PUBLISHED("DynMo: as often as every 50 iterations")};
    model_parameter rows[] = {
        {"start_iteration", .whole = &start, .fallback = setup->base->iteration_count / 10,
         .max = INT32_MAX - 1, .from = MODEL_ASSUMED("not published; a tenth of the training")},
        {"max_frozen", .whole = &max_frozen, .fallback = blocks - 1, .max = blocks,
         .from = MODEL_ASSUMED("one transformer layer goes on learning")},
    };
    const model_parameter share_row = {
        "share",      .real = &share, .fallback = 0.5,
        .min = 0.001, .max = 0.999,   .from = MODEL_PUBLISHED("PipeTransformer's default alpha")};
    const model_parameter name = {
        "schedule", .whole = &kind, .names = schedule_names, .name_count = SCHEDULE_COUNT,
        .from = MODEL_ASSUMED("loss-change rates that fall front to back, as Egeria's")};
    TRY(model_parameters_read(parameters, &name, 1, err));
    const bool is_measured = kind == SCHEDULE_AUTOFREEZE || kind == SCHEDULE_EGERIA;
    TRY(model_parameters_read(parameters, &interval, 1, err));
    if (kind == SCHEDULE_LIST) return read_list(setup, freezing, err);
    if (is_measured) {
        rows[0].fallback = 0;
        rows[0].from = MODEL_ASSUMED("what was measured decides alone");
    }
    TRY(model_parameters_read(parameters, rows, sizeof rows / sizeof rows[0], err));
    if (is_measured) {
        return read_measured(setup, kind == SCHEDULE_AUTOFREEZE, start, max_frozen, freezing, err);
    }
    if (kind == SCHEDULE_PLASTICITY) {
        return read_plasticity(setup, start, max_frozen, freezing, err);
    }
    if (kind == SCHEDULE_INTERVAL) {
        freeze_by_interval(start, freezing->interval, max_frozen, blocks, freezing->freeze_at);
        return STATUS_OK;
    }
    TRY(model_parameters_read(parameters, &share_row, 1, err));
    freeze_by_share(share, start, freezing->interval, max_frozen, blocks, freezing->freeze_at);
    return STATUS_OK;
}

/// What reading the outputs of the cached prefix takes.
static status read_cache(const model_case_setup *setup, const bal_layer_costs *costs,
                         freezing_state *freezing, error_message *err)
{
    double bytes_per_s = 0;
    const model_parameter rows[] = {
        {"cached_prefix", .flag = &freezing->caches,
         .from = MODEL_ASSUMED("the prefix is computed again; Egeria caches it")},
        {"cache_bytes_per_s", .real = &bytes_per_s, .fallback = 25e9, .min = 1, .max = 1e15,
         .from = MODEL_ASSUMED("host memory over PCIe 4.0 x16, fetched one microbatch "
                               "after the other")},
        {"cache_delay", .whole = &freezing->cache_delay, .max = INT32_MAX - 1,
         .from = MODEL_ASSUMED("iterations until every sample has been seen since its "
                               "layer froze: an epoch")},
    };
    TRY(model_parameters_read(setup->parameters, rows, 1, err));
    if (!freezing->caches) return STATUS_OK;
    TRY(model_parameters_read(setup->parameters, rows + 1, 2, err));
    if (costs->message_bytes == NULL) {
        return error_set(err, STATUS_INVALID,
                         "case 'freezing': cached_prefix needs to know the bytes that layers "
                         "hand on");
    }
    for (int layer = 0; layer < freezing->layer_count; layer++) {
        const model_work fetch = {.bytes = costs->message_bytes[layer]};
        freezing->fetch_ns[layer] = model_roofline_ns(fetch, 1, bytes_per_s);
    }
    return STATUS_OK;
}

/// A frozen layer keeps its weights: gradients, moments and 32-bit copies go.
static void count_state(const model_case_setup *setup, const bal_layer_costs *costs,
                        freezing_state *freezing)
{
    const int weight_bytes = model_case_weight_bytes(setup);
    if (costs->parameters == NULL || costs->state_bytes == NULL) return;
    for (int layer = 0; layer < freezing->layer_count; layer++) {
        const double weights = (double)costs->parameters[layer] * weight_bytes;
        const double state = (double)costs->state_bytes[layer];
        freezing->frozen_state[layer] = state > weights ? weights / state : 1;
    }
}

static void carve(const model_case_setup *setup, freezing_state *freezing, model_load *loads)
{
    const size_t layers = (size_t)setup->layer_count;
    freezing->freeze_at = arena_array(setup->memory, (size_t)freezing->block_count, sizeof(int));
    freezing->fetch_ns = arena_array(setup->memory, layers, sizeof(int64_t));
    freezing->frozen_state = model_case_ones(setup->memory, layers);
    double *learns = freezing->learns = model_case_ones(setup->memory, layers);
    model_load load = {
        .state = model_case_ones(setup->memory, layers),
        .activation = learns,
        .gradient = learns,
        .message = model_case_ones(setup->memory, layers),
        .reduction = learns,
    };
    loads[MODEL_LOAD_PUBLISHED] = load;
    loads[MODEL_LOAD_PUBLISHED].whole = learns;
    load.pass[MODEL_PASS_FORWARD] = model_case_ones(setup->memory, layers);
    load.pass[MODEL_PASS_BACKWARD_INPUT] = learns;
    load.pass[MODEL_PASS_BACKWARD_WEIGHT] = learns;
    load.added_ns[MODEL_PASS_FORWARD] = arena_array(setup->memory, layers, sizeof(int64_t));
    loads[MODEL_LOAD_PHYSICAL] = load;
    freezing->load = &loads[MODEL_LOAD_PHYSICAL];
}

static status freezing_open(const model_case_setup *setup, model_case_instance *instance,
                            error_message *err)
{
    bal_layer_costs costs;
    freezing_state *freezing = arena_array(setup->memory, 1, sizeof *freezing);
    const model_parameter reference = {
        "reference_time_ratio", .real = &freezing->reference_ratio, .max = 100,
        .from = MODEL_ASSUMED("no reference model; Egeria runs one to decide")};
    freezing->first = setup->base->transformer_first;
    freezing->block_count = setup->base->transformer_end - freezing->first;
    freezing->layer_count = setup->layer_count;
    freezing->held.frozen = -1;
    carve(setup, freezing, instance->load);
    TRY(read_schedule(setup, freezing, err));
    TRY(model_case_first_costs(setup, &costs, err));
    TRY(read_cache(setup, &costs, freezing, err));
    count_state(setup, &costs, freezing);
    TRY(model_parameters_read(setup->parameters, &reference, 1, err));
    instance->state = freezing;
    instance->varies = freezing->reference_ratio > 0;
    return STATUS_OK;
}

static freezing_moment moment_at(const freezing_state *freezing, int iteration)
{
    const int *freeze_at = freezing->freeze_at;
    const int cached_since = iteration - freezing->cache_delay;
    const bool reads_cache = freezing->caches && cached_since >= 0;
    return (freezing_moment){
        .frozen = frozen_count(freeze_at, freezing->block_count, iteration),
        .cached = reads_cache ? frozen_count(freeze_at, freezing->block_count, cached_since) : 0,
        .evaluates = freezing->reference_ratio > 0 && iteration % freezing->interval == 0,
    };
}

static bool is_same_model(freezing_moment a, freezing_moment b)
{
    return a.frozen == b.frozen && a.cached == b.cached;
}

static void set_layer(freezing_state *freezing, freezing_moment moment, int layer)
{
    const model_load *load = freezing->load;
    const int block = layer - freezing->first;
    const bool is_embedding = block < 0; // freezes with the first transformer layer
    const bool is_frozen = is_embedding ? moment.frozen > 0 : block < moment.frozen;
    const bool is_cached = is_embedding ? moment.cached > 0 : block < moment.cached;
    const double forward = moment.evaluates ? 1 + freezing->reference_ratio : 1;
    freezing->learns[layer] = is_frozen ? 0 : 1;
    load->pass[MODEL_PASS_FORWARD][layer] = is_cached ? 0 : forward;
    load->state[layer] = is_frozen ? freezing->frozen_state[layer] : 1;
    load->message[layer] = is_cached ? 0 : 1;
}

/// Fills the arrays for a moment, unless they hold it. The layer after the cached prefix waits for
/// what it reads.
static void hold_moment(freezing_state *freezing, freezing_moment moment)
{
    const freezing_moment held = freezing->held;
    if (is_same_model(held, moment) && held.evaluates == moment.evaluates) return;
    freezing->held = moment;
    for (int layer = 0; layer < freezing->first + freezing->block_count; layer++) {
        set_layer(freezing, moment, layer);
    }
    const int after = freezing->first + moment.cached;
    int64_t *added_ns = freezing->load->added_ns[MODEL_PASS_FORWARD];
    memset(added_ns, 0, (size_t)freezing->layer_count * sizeof *added_ns);
    if (moment.cached > 0 && after < freezing->layer_count) {
        added_ns[after] = freezing->fetch_ns[after - 1];
    }
}

static status freezing_load_at(void *state, model_load_model load_model, int iteration, int replica,
                               bool *changed, error_message *err)
{
    (void)load_model;
    (void)replica; // all of them freeze alike
    (void)err;
    freezing_state *freezing = state;
    const freezing_moment moment = moment_at(freezing, iteration);
    hold_moment(freezing, moment);
    *changed = iteration == 0 || !is_same_model(moment, moment_at(freezing, iteration - 1));
    return STATUS_OK;
}

const model_dynamism_case model_dynamism_freezing = {
    .name = "freezing",
    .open = freezing_open,
    .load_at = freezing_load_at,
};
