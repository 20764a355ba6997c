#include "analysis/converge/drift_study.h"

#include <string.h>

/// Points of a study: how many there are, and with questions not NULL what each asks.
static int list_questions(const ana_drift_study *study, ana_drift_question *questions,
                          double *drift)
{
    const bool has_course = study->question.course != NULL;
    const int shapes = has_course ? 1 : ANA_DRIFT_SHAPE_COUNT;
    const int drifts = has_course ? 1 : study->drift_count;
    int count = 0;
    for (int shape = 0; shape < shapes; shape++) {
        for (int index = 0; index < drifts; index++) {
            for (int option = 0; option < study->round_option_count; option++, count++) {
                if (questions == NULL) continue;
                questions[count] = study->question;
                questions[count].shape = (ana_drift_shape)shape;
                questions[count].drift = has_course ? 0 : study->drifts[index];
                questions[count].round_count = study->rounds[option];
                drift[count] = questions[count].drift;
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

status ana_drift_study_run(const ana_drift_study *study, ana_spread *spread, arena *memory,
                           ana_drift_result *result, error_message *err)
{
    ana_drift_result made = {.point_count = list_questions(study, NULL, NULL)};
    const size_t count = (size_t)made.point_count;
    ana_drift_question *questions = arena_array(memory, count, sizeof *questions);
    made.points = arena_array(memory, count, sizeof *made.points);
    made.drift = arena_array(memory, count, sizeof *made.drift);
    list_questions(study, questions, made.drift);
    TRY(ana_drift_measure_all(questions, made.point_count, spread, made.points, err));
    if (study->question.course != NULL && ana_spread_is_leader(spread)) {
        TRY(complete_course(study, memory, &made, err));
    }
    *result = made;
    return STATUS_OK;
}
