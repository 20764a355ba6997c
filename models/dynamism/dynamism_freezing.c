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
    model_case of;
    int start;      // first iteration at which a layer may freeze
    int interval;   // iterations between decisions
    int max_frozen; // layers from here on never freeze
    bool caches;
    int cache_delay; // iterations from freezing to the first read
    double reference_ratio;
    int *freeze_at;       // [block_count] not falling; NEVER where no schedule says when
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

/// One more layer every so many iterations: layer l freezes at start + l * interval.
static void freeze_by_interval(freezing_state *freezing)
{
    for (int layer = 0; layer < freezing->max_frozen; layer++) {
        freezing->freeze_at[layer] =
            clamp_iteration(freezing->start + (int64_t)layer * freezing->interval);
    }
}

/// A share of the layers that are still learning, every interval: after e intervals from the start
/// on, ceil(L (1 - (1 - share)^e)) layers are frozen.
///
/// @param share in (0, 1)
/// Source: He, Li, Soltanolkotabi, Avestimehr, PipeTransformer, ICML 2021, and
/// freeze/auto_freeze.py of its code, which sums the same series term by term and whose interval is
/// an epoch.
static void freeze_by_share(freezing_state *freezing, double share)
{
    const int layer_count = freezing->of.block_count;
    assert(share > 0 && share < 1);
    int frozen = 0;
    double learning = 1;
    for (int64_t at = freezing->start; frozen < freezing->max_frozen; at += freezing->interval) {
        learning *= 1 - share;
        const int wanted = layer_count - (int)(layer_count * learning); // rounds up
        while (frozen < wanted && frozen < freezing->max_frozen) {
            freezing->freeze_at[frozen++] = clamp_iteration(at);
        }
    }
}

/// The first multiple of interval that is not before iteration.
static int64_t next_multiple(int64_t iteration, int interval)
{
    return (iteration + interval - 1) / interval * interval;
}

/// Layers whose loss-change rate falls below a tolerance, the front ones first. The rate of layer l
/// is exp(-k / tau_l) at iteration k and tau_l grows linearly with depth, and so do the times at
/// which rates reach a tolerance. A layer waits for those in front of it.
///
/// @param first  >= 1, when the front layer gets there
/// @param last   >= first, when the last of max_frozen layers does
/// @param jitter in [0, 1): times vary by up to this share
///
/// Source of the shape (front layers first, decisions at fixed intervals, one after the other):
/// Wang et al., Egeria, EuroSys 2023. It publishes no times: they are the caller's.
static void freeze_by_plasticity(freezing_state *freezing, int first, int last, double jitter)
{
    rng random = model_case_stream(freezing->of.seed, STREAM_PLASTICITY, 0, 0, 0);
    const int layers = freezing->max_frozen;
    const double span = (double)last - first;
    int64_t before = 0;
    for (int layer = 0; layer < layers; layer++) {
        const double depth = layers > 1 ? (double)layer / (layers - 1) : 0;
        const double vary = 1 + jitter * (2 * rng_unit(&random) - 1);
        const int64_t wanted = (int64_t)((first + span * depth) * vary + 0.5);
        const int64_t at = next_multiple(wanted, freezing->interval);
        before = at > before ? at : before;
        freezing->freeze_at[layer] = clamp_iteration(before);
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

static void freeze_by_measure(freezing_state *freezing, const measured_layers *measured)
{
    const size_t layers = (size_t)measured->layer_count;
    const int max_frozen = freezing->max_frozen;
    double *scratch = arena_array(freezing->of.memory, 2 * layers, sizeof *scratch);
    int frozen = 0;
    int since = 0;
    for (int row = 1; row < measured->row_count && frozen < max_frozen; row++) {
        const int64_t at = (int64_t)(row + 1) * freezing->interval;
        const int now = measured->by_gradients
                            ? frozen_by_gradients(measured, row, frozen, scratch, scratch + layers)
                            : frozen_by_plasticity(measured, row, frozen, since);
        if (at < freezing->start || now == frozen) continue;
        since = row;
        while (frozen < now && frozen < max_frozen) {
            freezing->freeze_at[frozen++] = clamp_iteration(at);
        }
    }
}

/// Layers that are frozen while an iteration runs: those at the front with freeze_at <= iteration.
static int frozen_count(const freezing_state *freezing, int iteration)
{
    int frozen = 0;
    while (frozen < freezing->of.block_count && freezing->freeze_at[frozen] <= iteration) {
        frozen++;
    }
    return frozen;
}

static status read_list(freezing_state *freezing, error_message *err)
{
    const json_value list = model_parameter_ask(freezing->of.parameters, "freeze_at");
    const int given = json_count(list);
    if (!json_is_array(list) || given < 1) {
        return json_error(list, STATUS_FORMAT, err,
                          "schedule 'list' needs the iterations at which layers freeze");
    }
    if (given > freezing->of.block_count) {
        return json_error(list, STATUS_INVALID, err, "%d layers freeze, the model has %d", given,
                          freezing->of.block_count);
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
    model_parameter_note(freezing->of.parameters, "freeze_at", model_given,
                         "%d layers, from iteration %d to %d", given, freezing->freeze_at[0],
                         freezing->freeze_at[given - 1]);
    return STATUS_OK;
}

/// "measured": a row per decision, in it a number per transformer layer.
static status read_rows(const model_case *of, measured_layers *measured, error_message *err)
{
    const json_value list = model_parameter_ask(of->parameters, "measured");
    const size_t layers = (size_t)measured->layer_count;
    measured->row_count = json_count(list);
    if (!json_is_array(list) || measured->row_count < 2) {
        return json_error(list, STATUS_FORMAT, err,
                          "this schedule needs an array of 2 rows at least, one per decision");
    }
    double *value = arena_array(of->memory, (size_t)measured->row_count * layers, sizeof *value);
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
    model_parameter_note(of->parameters, "measured", (model_origin){MODEL_ORIGIN_MEASURED, ""},
                         "%d decisions", measured->row_count);
    return STATUS_OK;
}

/// Fills freeze_at by what was measured.
static status read_measured(freezing_state *freezing, bool by_gradients, error_message *err)
{
    model_case_parameters *parameters = freezing->of.parameters;
    measured_layers measured = {.layer_count = freezing->of.block_count,
                                .by_gradients = by_gradients};
    const model_parameter of_gradients = {"percentile", .real = &measured.percentile,
                                          .fallback = 50, .max = 100,
                                          .from = MODEL_PUBLISHED("AutoFreeze: the median")};
    const model_parameter of_plasticity[] = {
        {"window", .whole = &measured.window, .fallback = 10, .min = 2, .max = 10000,
         .from = MODEL_ASSUMED("decisions that the slope is fitted to, and of patience")},
        {"tolerance", .real = &measured.tolerance, .fallback = 0.2, .max = 1,
         .from = MODEL_ASSUMED("a fifth of the layer's steepest slope")},
    };
    TRY(read_rows(&freezing->of, &measured, err));
    TRY(by_gradients ? model_parameters_read(parameters, &of_gradients, 1, err)
                     : model_parameters_read(parameters, of_plasticity, 2, err));
    freeze_by_measure(freezing, &measured);
    return STATUS_OK;
}

/// Fills freeze_at by plasticity.
static status read_plasticity(freezing_state *freezing, error_message *err)
{
    const int first = freezing->start > 0 ? freezing->start : 1;
    int last = 0;
    double jitter = 0;
    const model_parameter rows[] = {
        {"last_iteration", .whole = &last, .fallback = freezing->of.base->iteration_count,
         .max = INT32_MAX - 1,
         .from = MODEL_ASSUMED("no trace of freezing is published; the end of training")},
        {"jitter", .real = &jitter, .fallback = 0.1, .max = 0.99,
         .from = MODEL_ASSUMED("not published")},
    };
    TRY(model_parameters_read(freezing->of.parameters, rows, 2, err));
    if (last < first) {
        return error_set(err, STATUS_INVALID,
                         "case 'freezing': the schedule ends before it starts: last_iteration "
                         "%d is before start_iteration %d",
                         last, first);
    }
    freeze_by_plasticity(freezing, first, last, jitter);
    return STATUS_OK;
}

static status read_schedule(freezing_state *freezing, error_message *err)
{
    model_case_parameters *parameters = freezing->of.parameters;
    const int blocks = freezing->of.block_count;
    int kind = SCHEDULE_PLASTICITY;
    double share = 0;
    const model_parameter interval = {
        "interval",           .whole = &freezing->interval,
        .fallback = 50,       .min = 1,
        .max = INT32_MAX - 1, .from = MODEL_PUBLISHED("DynMo: as often as every 50 iterations")};
    model_parameter rows[] = {
        {"start_iteration", .whole = &freezing->start,
         .fallback = freezing->of.base->iteration_count / 10, .max = INT32_MAX - 1,
         .from = MODEL_ASSUMED("not published; a tenth of the training")},
        {"max_frozen", .whole = &freezing->max_frozen, .fallback = blocks - 1, .max = blocks,
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
    if (kind == SCHEDULE_LIST) return read_list(freezing, err);
    if (is_measured) {
        rows[0].fallback = 0;
        rows[0].from = MODEL_ASSUMED("what was measured decides alone");
    }
    TRY(model_parameters_read(parameters, rows, sizeof rows / sizeof rows[0], err));
    if (is_measured) return read_measured(freezing, kind == SCHEDULE_AUTOFREEZE, err);
    if (kind == SCHEDULE_PLASTICITY) return read_plasticity(freezing, err);
    if (kind == SCHEDULE_INTERVAL) {
        freeze_by_interval(freezing);
        return STATUS_OK;
    }
    TRY(model_parameters_read(parameters, &share_row, 1, err));
    freeze_by_share(freezing, share);
    return STATUS_OK;
}

/// What reading the outputs of the cached prefix takes.
static status read_cache(freezing_state *freezing, const bal_layer_costs *costs, error_message *err)
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
    TRY(model_parameters_read(freezing->of.parameters, rows, 1, err));
    if (!freezing->caches) return STATUS_OK;
    TRY(model_parameters_read(freezing->of.parameters, rows + 1, 2, err));
    if (costs->message_bytes == NULL) {
        return error_set(err, STATUS_INVALID,
                         "case 'freezing': cached_prefix needs to know the bytes that layers "
                         "hand on");
    }
    for (int layer = 0; layer < freezing->of.layer_count; layer++) {
        const model_work fetch = {.bytes = costs->message_bytes[layer]};
        freezing->fetch_ns[layer] = model_roofline_ns(fetch, 1, bytes_per_s);
    }
    return STATUS_OK;
}

/// A frozen layer keeps its weights: gradients, moments and 32-bit copies go.
static void count_state(freezing_state *freezing, const bal_layer_costs *costs)
{
    const int weight_bytes = model_case_weight_bytes(&freezing->of);
    if (costs->parameters == NULL || costs->state_bytes == NULL) return;
    for (int layer = 0; layer < freezing->of.layer_count; layer++) {
        const double weights = (double)costs->parameters[layer] * weight_bytes;
        const double state = (double)costs->state_bytes[layer];
        freezing->frozen_state[layer] = state > weights ? weights / state : 1;
    }
}

static void carve(freezing_state *freezing)
{
    model_load *loads = freezing->of.load;
    const size_t layers = (size_t)freezing->of.layer_count;
    freezing->freeze_at =
        arena_array(freezing->of.memory, (size_t)freezing->of.block_count, sizeof(int));
    freezing->fetch_ns = arena_array(freezing->of.memory, layers, sizeof(int64_t));
    for (int block = 0; block < freezing->of.block_count; block++) {
        freezing->freeze_at[block] = NEVER;
    }
    freezing->frozen_state = model_case_ones(freezing->of.memory, layers);
    double *learns = freezing->learns = model_case_ones(freezing->of.memory, layers);
    model_load load = {
        .state = model_case_ones(freezing->of.memory, layers),
        .activation = learns,
        .gradient = learns,
        .message = model_case_ones(freezing->of.memory, layers),
        .reduction = learns,
    };
    loads[MODEL_LOAD_PUBLISHED] = load;
    loads[MODEL_LOAD_PUBLISHED].whole = learns;
    load.pass[MODEL_PASS_FORWARD] = model_case_ones(freezing->of.memory, layers);
    load.pass[MODEL_PASS_BACKWARD_INPUT] = learns;
    load.pass[MODEL_PASS_BACKWARD_WEIGHT] = learns;
    load.added_ns[MODEL_PASS_FORWARD] = arena_array(freezing->of.memory, layers, sizeof(int64_t));
    loads[MODEL_LOAD_PHYSICAL] = load;
    freezing->load = &loads[MODEL_LOAD_PHYSICAL];
}

static status freezing_open(void *state, error_message *err)
{
    bal_layer_costs costs;
    freezing_state *freezing = state;
    const model_parameter reference = {
        "reference_time_ratio", .real = &freezing->reference_ratio, .max = 100,
        .from = MODEL_ASSUMED("no reference model; Egeria runs one to decide")};
    freezing->held.frozen = -1;
    carve(freezing);
    TRY(read_schedule(freezing, err));
    TRY(model_case_first_costs(&freezing->of, &costs, err));
    TRY(read_cache(freezing, &costs, err));
    count_state(freezing, &costs);
    TRY(model_parameters_read(freezing->of.parameters, &reference, 1, err));
    freezing->of.varies = freezing->reference_ratio > 0;
    return STATUS_OK;
}

static freezing_moment moment_at(const freezing_state *freezing, int iteration)
{
    const int cached_since = iteration - freezing->cache_delay;
    const bool reads_cache = freezing->caches && cached_since >= 0;
    return (freezing_moment){
        .frozen = frozen_count(freezing, iteration),
        .cached = reads_cache ? frozen_count(freezing, cached_since) : 0,
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
    const int block = layer - freezing->of.first;
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
    for (int layer = 0; layer < freezing->of.first + freezing->of.block_count; layer++) {
        set_layer(freezing, moment, layer);
    }
    const int after = freezing->of.first + moment.cached;
    int64_t *added_ns = freezing->load->added_ns[MODEL_PASS_FORWARD];
    memset(added_ns, 0, (size_t)freezing->of.layer_count * sizeof *added_ns);
    if (moment.cached > 0 && after < freezing->of.layer_count) {
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
    .state_bytes = sizeof(freezing_state),
    .open = freezing_open,
    .load_at = freezing_load_at,
};
