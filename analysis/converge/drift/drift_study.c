#include "analysis/converge/drift/drift_study.h"

#include "analysis/converge/converge_records.h"
#include "balance/partition/balancer.h"
#include "traces/store/catalog.h"
#include "traces/store/reader.h"

#include <inttypes.h>
#include <string.h>

enum { ARENA_BYTES = 1 << 18 };

static status count_samples(trace_reader *reader, int first, int last, int *count,
                            error_message *err)
{
    int sample = first - 1;
    *count = 0;
    TRY(trace_reader_next_sample(reader, sample, &sample, err));
    while (sample >= 0 && sample <= last) {
        (*count)++;
        TRY(trace_reader_next_sample(reader, sample, &sample, err));
    }
    return STATUS_OK;
}

/// @param total out: the sum of the times
static status read_sample(trace_reader *reader, int iteration, int64_t *time_ns, int64_t *total,
                          error_message *err)
{
    bal_layer_costs costs;
    bool changed = false;
    *total = 0;
    TRY(trace_reader_costs_at(reader, iteration, &costs, &changed, err));
    for (int layer = 0; layer < costs.layer_count; layer++) {
        time_ns[layer] = costs.forward_ns[layer] + costs.backward_input_ns[layer] +
                         costs.backward_weight_ns[layer];
        *total += time_ns[layer];
    }
    return STATUS_OK;
}

static status read_course(trace_reader *reader, const trace_info *info, const char *path, int first,
                          int last, arena *memory, ana_layer_course *course, error_message *err)
{
    int count = 0;
    TRY(count_samples(reader, first, last, &count, err));
    if (count < 2) {
        return error_set(err, STATUS_INVALID,
                         "%s: trace '%s': drift needs two samples in iterations %d:%d, not %d; it "
                         "has them from %" PRId64 " to %" PRId64,
                         path, info->name, first, last, count, info->first_iteration,
                         info->last_iteration);
    }
    const int layers = trace_reader_source(reader).layer_count;
    if ((int64_t)count * layers > ANA_COURSE_TIMES_MAX) {
        return error_set(err, STATUS_INVALID,
                         "%s: %d samples of %d layers are more than %d times; choose a range of "
                         "--iterations",
                         path, count, layers, ANA_COURSE_TIMES_MAX);
    }
    int *iteration = arena_array(memory, (size_t)count, sizeof *iteration);
    int64_t *time_ns = arena_array(memory, (size_t)count * (size_t)layers, sizeof *time_ns);
    for (int sample = 0; sample < count; sample++) {
        int64_t total = 0;
        const int before = sample > 0 ? iteration[sample - 1] : first - 1;
        TRY(trace_reader_next_sample(reader, before, &iteration[sample], err));
        TRY(read_sample(reader, iteration[sample], &time_ns[(int64_t)sample * layers], &total,
                        err));
        if (total > 0) continue;
        return error_set(err, STATUS_INVALID, "%s: iteration %d of trace '%s' takes no time at all",
                         path, iteration[sample], info->name);
    }
    *course = (ana_layer_course){layers, count, iteration, time_ns};
    return STATUS_OK;
}

status ana_layer_course_read(trace_store *store, const char *trace, int first, int last,
                             arena *memory, ana_layer_course *course, error_message *err)
{
    trace_info info;
    trace_reader *reader = NULL;
    TRY(trace_find(store, trace, memory, &info, err));
    TRY(trace_reader_open(store, info.trace_id, TRACE_COLUMNS_MEAN, &reader, err));
    const status result =
        read_course(reader, &info, trace_store_path(store), first, last, memory, course, err);
    trace_reader_close(reader);
    return result;
}

/// Who owns which layer, whatever form the answer has.
static void read_owners(const bal_answer *answer, int layer_count, int stage_count, int *owner)
{
    if (answer->owner != NULL) {
        memcpy(owner, answer->owner, (size_t)layer_count * sizeof *owner);
        return;
    }
    for (int stage = 0; stage < stage_count; stage++) {
        for (int layer = answer->first_layer[stage]; layer < answer->first_layer[stage + 1];
             layer++) {
            owner[layer] = stage;
        }
    }
}

static void add_sample(const bal_answer *answer, ana_drift_floor *floor)
{
    floor->gap_mean += answer->load_spread_ratio;
    floor->imbalance_mean += answer->imbalance_ratio;
    if (answer->load_spread_ratio > floor->gap_max) floor->gap_max = answer->load_spread_ratio;
    if (answer->imbalance_ratio > floor->imbalance_max) {
        floor->imbalance_max = answer->imbalance_ratio;
    }
}

/// @param owner, before [layer_count] scratch
static status follow(const ana_layer_course *course, int stage_count, const char *name,
                     arena *scratch, int *owner, int *before, ana_drift_floor *floor,
                     error_message *err)
{
    const bal_balancer *balancer = bal_balancer_find(name);
    const int layers = course->layer_count;
    int64_t moved = 0;
    *floor = (ana_drift_floor){.balancer = name};
    for (int sample = 0; sample < course->sample_count; sample++) {
        arena_reset(scratch);
        bal_problem problem = {.layers = {.layer_count = layers,
                                          .microbatch_count = 1,
                                          .forward_ns = &course->time_ns[(int64_t)sample * layers]},
                               .stage_count = stage_count};
        if (balancer->owns_freely && sample > 0) problem.current_owner = before;
        bal_answer answer;
        TRY(bal_balance(balancer, &problem, scratch, &answer, err));
        read_owners(&answer, layers, stage_count, owner);
        for (int layer = 0; layer < layers && sample > 0; layer++) {
            moved += owner[layer] != before[layer] ? 1 : 0;
        }
        memcpy(before, owner, (size_t)layers * sizeof *owner);
        add_sample(&answer, floor);
    }
    floor->gap_mean /= course->sample_count;
    floor->imbalance_mean /= course->sample_count;
    floor->moved_mean = (double)moved / (course->sample_count - 1);
    return STATUS_OK;
}

status ana_drift_floors(const ana_layer_course *course, int stage_count, arena *memory,
                        ana_drift_floor *floors, error_message *err)
{
    static const char *const names[ANA_DRIFT_FLOORS] = {"even", "partition", "diffusion",
                                                        "diffusion-published"};
    const size_t layers = (size_t)course->layer_count;
    int *owner = arena_array(memory, layers, sizeof *owner);
    int *before = arena_array(memory, layers, sizeof *before);
    arena *scratch = arena_create(ARENA_BYTES);
    status result = STATUS_OK;
    for (int index = 0; index < ANA_DRIFT_FLOORS && result == STATUS_OK; index++) {
        result =
            follow(course, stage_count, names[index], scratch, owner, before, &floors[index], err);
    }
    arena_destroy(scratch);
    return result;
}

/// What each point of a study asks. @return how many there are
static int list_questions(const ana_drift_study *study, ana_drift_question *questions)
{
    const bool has_course = study->question.course != NULL;
    const int shapes = has_course ? 1 : ANA_DRIFT_SHAPE_COUNT;
    const int drifts = has_course ? 1 : study->drift_count;
    int count = 0;
    for (int shape = 0; shape < shapes; shape++) {
        for (int index = 0; index < drifts; index++) {
            for (int option = 0; option < study->round_option_count; option++, count++) {
                questions[count] = study->question;
                questions[count].shape = (ana_drift_shape)shape;
                questions[count].drift = has_course ? 0 : study->drifts[index];
                questions[count].round_count = study->rounds[option];
            }
        }
    }
    return count;
}

/// What a scheme without remainder leaves: a scan with all its rounds.
static status measure_exact(const ana_drift_study *study, ana_drift_point *exact,
                            error_message *err)
{
    ana_drift_question question = study->question;
    question.scheme = &ana_scheme_scan;
    question.round_count = 2;
    for (int reach = 1; reach < question.stage_count; reach *= 2) {
        question.round_count += 2;
    }
    return ana_drift_measure(&question, exact, err);
}

static status complete_course(const ana_drift_study *study, arena *memory, ana_drift_result *result,
                              error_message *err)
{
    TRY(ana_drift_budget(&study->question, study->tolerance, &result->budget, &result->has_budget,
                         err));
    TRY(measure_exact(study, &result->exact, err));
    return ana_drift_floors(study->question.course, study->question.stage_count, memory,
                            result->floors, err);
}

static status measure_point(const void *context, arena *memory, void **state, int group, int index,
                            void *record, error_message *err)
{
    (void)memory;
    (void)state;
    (void)index;
    const ana_drift_question *questions = context;
    return ana_drift_measure(&questions[group], record, err);
}

status ana_drift_study_run(const ana_drift_study *study, ana_spread *spread, arena *memory,
                           ana_drift_result *result, error_message *err)
{
    ana_drift_question questions[ANA_DRIFT_SHAPE_COUNT * ANA_DRIFT_POINTS_MAX];
    ana_drift_result made = {.point_count = list_questions(study, questions)};
    made.points = arena_array(memory, (size_t)made.point_count, sizeof *made.points);
    made.drift = arena_array(memory, (size_t)made.point_count, sizeof *made.drift);
    for (int point = 0; point < made.point_count; point++) {
        made.drift[point] = questions[point].drift;
    }
    const ana_record_plays plays = {.group_count = made.point_count,
                                    .group_length = 1,
                                    .record_bytes = sizeof *made.points,
                                    .context = questions,
                                    .play = measure_point};
    TRY(ana_records_play(&plays, spread, made.points, NULL, err));
    if (study->question.course != NULL) {
        TRY(complete_course(study, memory, &made, err));
    }
    *result = made;
    return STATUS_OK;
}
