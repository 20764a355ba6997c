#include "analysis/converge/drift.h"

#include "analysis/converge/converge_loads.h"
#include "analysis/converge/drift_bound.h"
#include "models/dynamism/random_draw.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 16, DRIFT_PURPOSE = 201, WINDOW = 100 };
static const double pi = 3.14159265358979323846;

const char *const ana_drift_shape_names[ANA_DRIFT_SHAPE_COUNT] = {"slow", "random"};

/// One instance at work.
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
    double *sorted; // [stage_count]
} drifting;

/// Means over instances, per iteration that is looked at.
typedef struct drift_sums {
    int64_t iteration_count;
    double *tracked;
    double *executed;
    double *imbalance;
    double drift_sum;
    double drift_max; // in the norm of the bound
    double drift_l2_max;
    int64_t drift_count;
} drift_sums;

static status open_instance(const ana_drift_question *question, arena *memory, drifting *out,
                            error_message *err)
{
    const size_t stages = (size_t)question->stage_count;
    const size_t layers = question->course != NULL ? (size_t)question->course->layer_count : 0;
    out->question = question;
    TRY(ana_graph_make(ANA_GRAPH_PATH, question->stage_count, &out->graph, err));
    TRY(ana_scheme_open(question->scheme, &out->graph, &question->options, memory, &out->run, err));
    out->cut = arena_array(memory, stages + 1, sizeof *out->cut);
    out->before = arena_array(memory, layers + 1, sizeof *out->before);
    out->load = arena_array(memory, stages, sizeof *out->load);
    out->change = arena_array(memory, stages, sizeof *out->change);
    out->sorted = arena_array(memory, stages, sizeof *out->sorted);
    return STATUS_OK;
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/// The norm of the scheme's bound: l2, or for max-neighbor the potential.
static double norm_of(drifting *state, const double *values)
{
    const int stages = state->question->stage_count;
    double norm = 0;
    if (state->question->scheme != &ana_scheme_max_neighbor) {
        for (int stage = 0; stage < stages; stage++) {
            norm += values[stage] * values[stage];
        }
        return sqrt(norm);
    }
    memcpy(state->sorted, values, (size_t)stages * sizeof *values);
    qsort(state->sorted, (size_t)stages, sizeof *state->sorted, ascending);
    for (int stage = 0; stage < stages; stage++) {
        norm += (2 * stage - stages + 1) * state->sorted[stage];
    }
    return norm;
}

static double length_of(const double *values, int count)
{
    double squares = 0;
    for (int index = 0; index < count; index++) {
        squares += values[index] * values[index];
    }
    return sqrt(squares);
}

static void extremes_of(const double *load, int count, double *least, double *most)
{
    *least = load[0];
    *most = load[0];
    for (int stage = 1; stage < count; stage++) {
        if (load[stage] < *least) *least = load[stage];
        if (load[stage] > *most) *most = load[stage];
    }
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
static void iterate(drifting *state, drift_sums *sums, int64_t iteration)
{
    const ana_drift_question *question = state->question;
    const int stages = question->stage_count;
    double least = 0;
    double most = 0;
    extremes_of(state->load, stages, &least, &most);
    const bool is_noted = iteration >= 0 && iteration < sums->iteration_count;
    if (is_noted) {
        sums->executed[iteration] += most - least;
        sums->imbalance[iteration] += most;
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
    extremes_of(state->load, stages, &least, &most);
    if (is_noted) sums->tracked[iteration] += most - least;
}

static void note_change(drifting *state, drift_sums *sums)
{
    const double norm = norm_of(state, state->change);
    const double length = length_of(state->change, state->question->stage_count);
    if (norm > sums->drift_max) sums->drift_max = norm;
    if (length > sums->drift_l2_max) sums->drift_l2_max = length;
    sums->drift_sum += length;
    sums->drift_count++;
}

/// Layers take the times of the next sample: loads change between the cuts as they are.
static void change_times(drifting *state, int sample, drift_sums *sums)
{
    const int stages = state->question->stage_count;
    memcpy(state->sorted, state->load, (size_t)stages * sizeof *state->load);
    set_times(state, sample);
    read_loads(state);
    for (int stage = 0; stage < stages; stage++) {
        state->change[stage] = state->load[stage] - state->sorted[stage];
    }
    note_change(state, sums);
}

/// A course from balanced stages at its first sample on, whose own iteration is not looked at.
static void play_course(drifting *state, drift_sums *sums)
{
    const ana_layer_course *course = state->question->course;
    const int first = course->iteration[0];
    set_times(state, 0);
    for (int stage = 0; stage < state->question->stage_count; stage++) {
        state->load[stage] = 1;
    }
    write_cuts(state);
    for (int sample = 0; sample < course->sample_count; sample++) {
        const int begin = sample == 0 ? first + 1 : course->iteration[sample];
        const int end = sample + 1 < course->sample_count ? course->iteration[sample + 1]
                                                          : course->iteration[sample] + 1;
        if (sample > 0) change_times(state, sample, sums);
        for (int iteration = begin; iteration < end; iteration++) {
            iterate(state, sums, iteration - first - 1);
        }
        write_cuts(state);
    }
}

/// How many iterations it takes until the begin is forgotten: a chain forgets in about N^2 / 2
/// rounds per factor of e, whatever the scheme.
static int64_t settling_iterations(const ana_drift_question *question)
{
    const double squared = (double)question->stage_count * question->stage_count;
    return (int64_t)ceil(3.5 * squared / (double)question->round_count);
}

static void play_shape(drifting *state, drift_sums *sums)
{
    const int stages = state->question->stage_count;
    const int64_t settling = settling_iterations(state->question);
    for (int stage = 0; stage < stages; stage++) {
        state->load[stage] = 1;
    }
    for (int64_t iteration = -settling; iteration < sums->iteration_count; iteration++) {
        draw_change(state);
        for (int stage = 0; stage < stages; stage++) {
            state->load[stage] += state->change[stage];
        }
        note_change(state, sums);
        iterate(state, sums, iteration);
    }
}

static status sums_init(const ana_drift_question *question, arena *memory, drift_sums *sums,
                        error_message *err)
{
    const ana_layer_course *course = question->course;
    const int64_t count = course == NULL ? WINDOW
                                         : (int64_t)course->iteration[course->sample_count - 1] -
                                               course->iteration[0];
    if (count < 1) {
        return error_set(err, STATUS_INVALID,
                         "one iteration does not drift: two samples are needed");
    }
    if (count > ANA_DRIFT_ITERATIONS_MAX) {
        return error_set(err, STATUS_INVALID, "%" PRId64 " iterations are more than %d", count,
                         ANA_DRIFT_ITERATIONS_MAX);
    }
    *sums = (drift_sums){.iteration_count = count};
    sums->tracked = arena_array(memory, (size_t)count, sizeof *sums->tracked);
    sums->executed = arena_array(memory, (size_t)count, sizeof *sums->executed);
    sums->imbalance = arena_array(memory, (size_t)count, sizeof *sums->imbalance);
    return STATUS_OK;
}

/// What is left of a gap when the noise of rounding, which differs between machines, is taken off.
static double resolved(double gap)
{
    static const double resolution = 1e-10;
    return floor(gap / resolution + 0.5) * resolution;
}

/// Mean and largest of sums over instances.
static void summarise(const double *sum, int64_t count, int instances, double *mean, double *max)
{
    *mean = 0;
    *max = 0;
    for (int64_t index = 0; index < count; index++) {
        const double value = sum[index] / instances;
        *mean += value / (double)count;
        if (value > *max) *max = value;
    }
    *mean = resolved(*mean);
    *max = resolved(*max);
}

static void fill_point(const ana_drift_question *question, const drift_sums *sums, int instances,
                       const ana_graph *graph, ana_drift_point *point)
{
    const int64_t count = sums->iteration_count;
    const double left =
        ana_drift_sum(question->scheme, graph, &question->options, question->round_count);
    ana_drift_point made = {.shape = question->shape,
                            .round_count = question->round_count,
                            .iteration_count = count,
                            .drift_mean = sums->drift_sum / (double)sums->drift_count,
                            .drift_max = sums->drift_l2_max};
    summarise(sums->tracked, count, instances, &made.tracked_mean, &made.tracked_max);
    summarise(sums->executed, count, instances, &made.executed_mean, &made.executed_max);
    summarise(sums->imbalance, count, instances, &made.imbalance_mean, &made.imbalance_max);
    made.tracked_bound = ana_drift_gap(question->scheme, graph->node_count, sums->drift_max * left);
    made.executed_bound =
        ana_drift_gap(question->scheme, graph->node_count, sums->drift_max * (1 + left));
    *point = made;
}

static status measure(const ana_drift_question *question, arena *memory, ana_drift_point *point,
                      error_message *err)
{
    drifting state = {0};
    drift_sums sums = {0};
    const int instances = question->scheme->is_random ? question->instance_count : 1;
    TRY(open_instance(question, memory, &state, err));
    if (isnan(ana_drift_sum(question->scheme, &state.graph, &question->options,
                            question->round_count))) {
        return error_set(err, STATUS_UNSUPPORTED, "no bound on drift is known for %s",
                         question->scheme->name);
    }
    TRY(sums_init(question, memory, &sums, err));
    for (int instance = 0; instance < instances; instance++) {
        state.rounds_played = 0;
        state.coins = ana_coins_make(question->seed, (uint64_t)instance);
        state.directions = rng_init(question->seed, DRIFT_PURPOSE + ((uint64_t)instance << 32));
        if (question->course != NULL) {
            play_course(&state, &sums);
        } else {
            play_shape(&state, &sums);
        }
    }
    fill_point(question, &sums, instances, &state.graph, point);
    return STATUS_OK;
}

status ana_drift_measure(const ana_drift_question *question, ana_drift_point *point,
                         error_message *err)
{
    const ana_layer_course *course = question->course;
    if (course != NULL && course->layer_count < question->stage_count) {
        return error_set(err, STATUS_INVALID, "%d layers do not make %d stages",
                         course->layer_count, question->stage_count);
    }
    arena *memory = arena_create(ARENA_BYTES);
    const status result = measure(question, memory, point, err);
    arena_destroy(memory);
    return result;
}

typedef struct drift_items {
    const ana_drift_question *questions;
    ana_drift_point *points;
} drift_items;

static status run_item(void *context, void *worker, int64_t item, text_buffer *result,
                       error_message *err)
{
    (void)worker;
    const drift_items *items = context;
    ana_drift_point point;
    TRY(ana_drift_measure(&items->questions[item], &point, err));
    text_append_bytes(result, (const char *)&point, sizeof point);
    return STATUS_OK;
}

static status put_item(void *context, int64_t item, const text_buffer *result, error_message *err)
{
    const drift_items *items = context;
    if (result->length != sizeof items->points[item]) {
        return error_set(err, STATUS_FORMAT, "a result of %zu bytes is not one of drift",
                         result->length);
    }
    memcpy(&items->points[item], result->bytes, result->length);
    return STATUS_OK;
}

status ana_drift_measure_all(const ana_drift_question *questions, int count, ana_spread *spread,
                             ana_drift_point *points, error_message *err)
{
    drift_items context = {questions, points};
    const ana_items items = {.count = count, .context = &context, .run = run_item, .put = put_item};
    return ana_spread_run(spread, &items, NULL, err);
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
