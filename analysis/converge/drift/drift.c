#include "analysis/converge/drift/drift.h"

#include "analysis/converge/converge_loads.h"
#include "models/dynamism/random_draw.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 16, DRIFT_PURPOSE = 201, WINDOW = 100 };
static const double pi = 3.14159265358979323846;

const char *const ana_drift_shape_names[ANA_DRIFT_SHAPE_COUNT] = {"slow", "random"};

/// What k rounds leave of a deviation at the most, of schemes that begin anew in every iteration:
/// their map is symmetric, so its norm is its largest eigenvalue's.
/// Source of second-order and Chebyshev: Golub & Varga, Numer. Math. 3 (1961).
static double left_of(const ana_scheme *scheme, const ana_graph *graph,
                      const ana_scheme_options *options, int64_t round_count)
{
    const double rounds = (double)round_count;
    const double contraction = ana_scheme_contraction(scheme, graph, options);
    if (scheme == &ana_scheme_scan) {
        int reach = 0;
        while (INT64_C(1) << reach < graph->node_count) {
            reach++;
        }
        return round_count >= 2 * reach ? 0 : 1;
    }
    const double power = contraction > 0 ? pow(contraction, rounds) : 0;
    if (scheme == &ana_scheme_first_order) return power;
    if (scheme == &ana_scheme_chebyshev) return 2 * power / (1 + power * power);
    if (scheme == &ana_scheme_second_order) {
        const double squared = contraction * contraction;
        return power * (1 + rounds * (1 - squared) / (1 + squared));
    }
    return (double)NAN;
}

static double geometric(double left)
{
    return left >= 1 ? (double)INFINITY : left / (1 - left);
}

double ana_drift_sum(const ana_scheme *scheme, const ana_graph *graph,
                     const ana_scheme_options *options, int64_t round_count)
{
    const double nodes = graph->node_count;
    if (round_count < 1) return (double)INFINITY;
    if (scheme == &ana_scheme_max_neighbor) {
        if (options->variant != ANA_VARIANT_Q) return (double)NAN;
        // log1p keeps the digits that 1 - 1 / (4 n^2) loses.
        const double rate = (double)round_count * log1p(-1 / (4 * nodes * nodes));
        return exp(rate) / -expm1(rate);
    }
    if (scheme == &ana_scheme_odd_even) {
        // Alternating projections: m of them in a row leave contraction^(m - 1).
        if (graph->node_count == 2) return 0;
        const double contraction = ana_scheme_contraction(scheme, graph, options);
        return pow(contraction, (double)(round_count - 1)) /
               (1 - pow(contraction, (double)round_count));
    }
    return geometric(left_of(scheme, graph, options, round_count));
}

/// The largest (max - min) of loads that deviate from their mean by this much: in l2 sqrt(2) times
/// it; of max-neighbor, whose deviation is the potential, 1/(n - 1).
static double gap_of(const ana_scheme *scheme, int node_count, double deviation)
{
    if (scheme == &ana_scheme_max_neighbor) return deviation / (node_count - 1);
    return sqrt(2) * deviation;
}

/// A question at work, one instance after another.
typedef struct drifting {
    const ana_drift_question *question;
    ana_graph graph;
    ana_scheme_run run;
    ana_coins coins;
    rng directions;
    int64_t rounds_played;
    double *cut;    // [stage_count + 1] places between layers, of a course
    double *before; // [layer_count + 1] times of the layers in front, of a course
    double *load;   // [stage_count]
    double *change; // [stage_count]
    double *spare;  // [stage_count]
    int64_t iteration_count;
    double *tracked;   // [iteration_count] sums over the instances, as the next two
    double *executed;  // [iteration_count]
    double *imbalance; // [iteration_count]
    double drift_sum;  // l2
    double drift_l2_max;
    double drift_max; // in the norm of the bound
    int64_t drift_count;
} drifting;

static status count_iterations(const ana_layer_course *course, int64_t *count, error_message *err)
{
    *count = WINDOW;
    if (course == NULL) return STATUS_OK;
    *count = (int64_t)course->iteration[course->sample_count - 1] - course->iteration[0];
    if (*count < 1) {
        return error_set(err, STATUS_INVALID,
                         "one iteration does not drift: two samples are needed");
    }
    if (*count <= ANA_DRIFT_ITERATIONS_MAX) return STATUS_OK;
    return error_set(err, STATUS_INVALID, "%" PRId64 " iterations are more than %d", *count,
                     ANA_DRIFT_ITERATIONS_MAX);
}

static status open_question(const ana_drift_question *question, arena *memory, drifting *out,
                            error_message *err)
{
    const size_t stages = (size_t)question->stage_count;
    const size_t layers = question->course != NULL ? (size_t)question->course->layer_count : 0;
    out->question = question;
    TRY(ana_graph_make(ANA_GRAPH_PATH, question->stage_count, &out->graph, err));
    TRY(ana_scheme_open(question->scheme, &out->graph, &question->options, memory, &out->run, err));
    if (isnan(ana_drift_sum(question->scheme, &out->graph, &question->options,
                            question->round_count))) {
        return error_set(err, STATUS_UNSUPPORTED, "no bound on drift is known for %s",
                         question->scheme->name);
    }
    TRY(count_iterations(question->course, &out->iteration_count, err));
    out->cut = arena_array(memory, stages + 1, sizeof *out->cut);
    out->before = arena_array(memory, layers + 1, sizeof *out->before);
    out->load = arena_array(memory, stages, sizeof *out->load);
    out->change = arena_array(memory, stages, sizeof *out->change);
    out->spare = arena_array(memory, stages, sizeof *out->spare);
    const size_t iterations = (size_t)out->iteration_count;
    out->tracked = arena_array(memory, iterations, sizeof *out->tracked);
    out->executed = arena_array(memory, iterations, sizeof *out->executed);
    out->imbalance = arena_array(memory, iterations, sizeof *out->imbalance);
    return STATUS_OK;
}

static double length_of(const double *values, int count)
{
    double squares = 0;
    for (int index = 0; index < count; index++) {
        squares += values[index] * values[index];
    }
    return sqrt(squares);
}

static double largest_of(const double *load, int count)
{
    double most = load[0];
    for (int stage = 1; stage < count; stage++) {
        if (load[stage] > most) most = load[stage];
    }
    return most;
}

/// Sums of the times of a sample's layers, in units of the mean stage load.
static void set_times(drifting *state, int sample)
{
    const ana_layer_course *course = state->question->course;
    const int64_t *time_ns = &course->time_ns[(int64_t)sample * course->layer_count];
    double total = 0;
    for (int layer = 0; layer < course->layer_count; layer++) {
        total += (double)time_ns[layer];
    }
    const double mean = total / state->question->stage_count;
    double sum = 0;
    for (int layer = 0; layer < course->layer_count; layer++) {
        state->before[layer] = sum / mean;
        sum += (double)time_ns[layer];
    }
    state->before[course->layer_count] = state->question->stage_count;
}

/// Loads of the stages between the cuts, layers being divisible.
static void read_loads(drifting *state)
{
    const int layers = state->question->course->layer_count;
    double passed = 0;
    for (int stage = 0; stage < state->question->stage_count; stage++) {
        const double end = state->cut[stage + 1];
        const int layer = end >= layers ? layers - 1 : (int)end;
        const double share = end - layer;
        const double sum =
            state->before[layer] + share * (state->before[layer + 1] - state->before[layer]);
        state->load[stage] = sum - passed;
        passed = sum;
    }
}

/// Cuts where the sums of the loads are; a load below 0, which some schemes pass through, moves its
/// cut to that of the stage before.
static void write_cuts(drifting *state)
{
    const int layers = state->question->course->layer_count;
    const int stages = state->question->stage_count;
    double sum = 0;
    int layer = 0;
    state->cut[0] = 0;
    for (int stage = 0; stage + 1 < stages; stage++) {
        sum += state->load[stage];
        while (layer + 1 < layers && state->before[layer + 1] < sum) {
            layer++;
        }
        const double width = state->before[layer + 1] - state->before[layer];
        double share = width > 0 ? (sum - state->before[layer]) / width : 0;
        share = share < 0 ? 0 : share > 1 ? 1 : share;
        const double cut = layer + share;
        state->cut[stage + 1] = cut > state->cut[stage] ? cut : state->cut[stage];
    }
    state->cut[stages] = layers;
}

/// A direction of length drift that leaves the mean as it is.
static void draw_change(drifting *state)
{
    const ana_drift_question *question = state->question;
    const int stages = question->stage_count;
    double mean = 0;
    for (int stage = 0; stage < stages; stage++) {
        state->change[stage] = question->shape == ANA_DRIFT_SLOW
                                   ? cos(pi * (stage + 0.5) / stages)
                                   : model_draw_normal(&state->directions);
        mean += state->change[stage] / stages;
    }
    for (int stage = 0; stage < stages; stage++) {
        state->change[stage] -= mean;
    }
    const double length = length_of(state->change, stages);
    for (int stage = 0; stage < stages; stage++) {
        state->change[stage] *= length > 0 ? question->drift / length : 0;
    }
}

/// One iteration: notes what it executed with, plays the rounds, notes what they left.
static void iterate(drifting *state, int64_t iteration)
{
    const ana_drift_question *question = state->question;
    const int stages = question->stage_count;
    const bool is_noted = iteration >= 0 && iteration < state->iteration_count;
    if (is_noted) {
        state->executed[iteration] += ana_loads_spread(state->load, stages);
        state->imbalance[iteration] += largest_of(state->load, stages);
    }
    // Schemes with memory begin anew; the others go on with the turns and coins where they were.
    const bool goes_on =
        question->scheme == &ana_scheme_odd_even || question->scheme == &ana_scheme_max_neighbor;
    ana_scheme_begin(&state->run, state->load, &state->coins, goes_on ? state->rounds_played : 0);
    for (int64_t round = 0; round < question->round_count; round++) {
        ana_scheme_play(&state->run);
    }
    state->rounds_played += question->round_count;
    memcpy(state->load, state->run.load, (size_t)stages * sizeof *state->load);
    if (is_noted) state->tracked[iteration] += ana_loads_spread(state->load, stages);
}

static void note_change(drifting *state)
{
    const int stages = state->question->stage_count;
    const double length = length_of(state->change, stages);
    const double norm = state->question->scheme == &ana_scheme_max_neighbor
                            ? ana_loads_potential(state->change, stages, state->spare)
                            : length;
    if (norm > state->drift_max) state->drift_max = norm;
    if (length > state->drift_l2_max) state->drift_l2_max = length;
    state->drift_sum += length;
    state->drift_count++;
}

/// Layers take the times of the next sample: loads change between the cuts as they are.
static void change_times(drifting *state, int sample)
{
    const int stages = state->question->stage_count;
    memcpy(state->spare, state->load, (size_t)stages * sizeof *state->load);
    set_times(state, sample);
    read_loads(state);
    for (int stage = 0; stage < stages; stage++) {
        state->change[stage] = state->load[stage] - state->spare[stage];
    }
    note_change(state);
}

/// A course from balanced stages at its first sample on, whose own iteration is not looked at.
static void play_course(drifting *state)
{
    const ana_layer_course *course = state->question->course;
    const int first = course->iteration[0];
    set_times(state, 0);
    write_cuts(state);
    for (int sample = 0; sample < course->sample_count; sample++) {
        const int begin = sample == 0 ? first + 1 : course->iteration[sample];
        const int end = sample + 1 < course->sample_count ? course->iteration[sample + 1]
                                                          : course->iteration[sample] + 1;
        if (sample > 0) change_times(state, sample);
        for (int iteration = begin; iteration < end; iteration++) {
            iterate(state, iteration - first - 1);
        }
        write_cuts(state);
    }
}

/// First as many iterations as it takes until the begin is forgotten: a chain forgets in about
/// N^2 / 2 rounds per factor of e, whatever the scheme.
static void play_shape(drifting *state)
{
    const int stages = state->question->stage_count;
    const double rounds = 3.5 * (double)stages * stages;
    const int64_t settling = (int64_t)ceil(rounds / (double)state->question->round_count);
    for (int64_t iteration = -settling; iteration < state->iteration_count; iteration++) {
        draw_change(state);
        for (int stage = 0; stage < stages; stage++) {
            state->load[stage] += state->change[stage];
        }
        note_change(state);
        iterate(state, iteration);
    }
}

static void play_instance(drifting *state, int instance)
{
    const uint64_t number = (uint64_t)instance;
    state->rounds_played = 0;
    state->coins = ana_coins_make(state->question->seed, number);
    state->directions = rng_init(state->question->seed, DRIFT_PURPOSE + (number << 32));
    for (int stage = 0; stage < state->question->stage_count; stage++) {
        state->load[stage] = 1;
    }
    if (state->question->course != NULL) {
        play_course(state);
    } else {
        play_shape(state);
    }
}

/// What is left of a gap when the noise of rounding, which differs between machines, is taken off.
static double resolved(double gap)
{
    static const double resolution = 1e-10;
    return floor(gap / resolution + 0.5) * resolution;
}

/// Mean over the iterations, and largest, of means over the instances.
static void summarise(const drifting *state, const double *sum, int instances, double *mean,
                      double *max)
{
    *mean = *max = 0;
    for (int64_t index = 0; index < state->iteration_count; index++) {
        const double value = sum[index] / instances;
        *mean += value / (double)state->iteration_count;
        if (value > *max) *max = value;
    }
    *mean = resolved(*mean);
    *max = resolved(*max);
}

static ana_drift_point point_of(const drifting *state, int instances)
{
    const ana_drift_question *question = state->question;
    const int stages = question->stage_count;
    const double left =
        ana_drift_sum(question->scheme, &state->graph, &question->options, question->round_count);
    ana_drift_point made = {
        .shape = question->shape,
        .round_count = question->round_count,
        .iteration_count = state->iteration_count,
        .drift_mean = state->drift_sum / (double)state->drift_count,
        .drift_max = state->drift_l2_max,
        .tracked_bound = gap_of(question->scheme, stages, state->drift_max * left),
        .executed_bound = gap_of(question->scheme, stages, state->drift_max * (1 + left))};
    summarise(state, state->tracked, instances, &made.tracked_mean, &made.tracked_max);
    summarise(state, state->executed, instances, &made.executed_mean, &made.executed_max);
    summarise(state, state->imbalance, instances, &made.imbalance_mean, &made.imbalance_max);
    return made;
}

status ana_drift_measure(const ana_drift_question *question, ana_drift_point *point,
                         error_message *err)
{
    const ana_layer_course *course = question->course;
    if (course != NULL && course->layer_count < question->stage_count) {
        return error_set(err, STATUS_INVALID, "%d layers do not make %d stages",
                         course->layer_count, question->stage_count);
    }
    drifting state = {0};
    arena *memory = arena_create(ARENA_BYTES);
    const status result = open_question(question, memory, &state, err);
    const int instances = question->scheme->is_random ? question->instance_count : 1;
    for (int instance = 0; instance < instances && result == STATUS_OK; instance++) {
        play_instance(&state, instance);
    }
    if (result == STATUS_OK) *point = point_of(&state, instances);
    arena_destroy(memory);
    return result;
}

status ana_drift_budget(const ana_drift_question *question, double tolerance,
                        ana_drift_point *point, bool *is_found, error_message *err)
{
    ana_drift_question tried = *question;
    int64_t low = 0; // not enough
    *is_found = false;
    for (tried.round_count = 1; !*is_found; tried.round_count *= 2) {
        TRY(ana_drift_measure(&tried, point, err));
        *is_found = point->tracked_max <= tolerance;
        if (*is_found) break;
        low = tried.round_count;
        if (tried.round_count >= ANA_DRIFT_ROUNDS_MAX) return STATUS_OK;
    }
    int64_t high = tried.round_count;
    while (high - low > 1) {
        ana_drift_point middle;
        tried.round_count = low + (high - low) / 2;
        TRY(ana_drift_measure(&tried, &middle, err));
        if (middle.tracked_max <= tolerance) {
            high = tried.round_count;
            *point = middle;
        } else {
            low = tried.round_count;
        }
    }
    return STATUS_OK;
}
