/// Early exit at the paper's setting, over the same model without exits.
#include "analysis/paper/experiments.h"

#include <math.h>

static const char *const ranges[] = {
    NULL,
    "{\"dynamism.keep_final\":0.8}",
    "{\"dynamism.keep_final\":0.95}",
    "{\"dynamism.attention_keys\":\"survivors\"}",
    "{\"training.layers\":24}",
};
enum { RANGE_COUNT = (int)(sizeof ranges / sizeof ranges[0]) };

static ana_speed_up_case case_with(const char *common)
{
    return (ana_speed_up_case){.study = "early-exit",
                               .baseline = ANA_BASELINE_STILL,
                               .common = common,
                               .ranges = ranges,
                               .range_count = RANGE_COUNT};
}

/// Idle share at the end over that before anybody exits, under the even split.
static status add_bubble(ana_rows *rows, const char *quantity, const char *common, const char *note,
                         error_message *err)
{
    ana_interval ratio = {0};
    for (int range = 0; range < RANGE_COUNT; range++) {
        const char *const changes[] = {common, ranges[range],
                                       "{\"balancing\":[{\"balancer\":\"even\"}]}"};
        ana_trial trial;
        TRY(ana_trial_play("early-exit", changes, 3, &trial, err));
        ana_interval_add(&ratio,
                         trial.rows[0].last_bubble_ratio / trial.rows[0].first_bubble_ratio);
    }
    ana_rows_add_number(rows, quantity, &ratio, NAN, ANA_AGREEMENT_PREDICTED, "even, iteration 0",
                        note);
    return STATUS_OK;
}

status ana_play_early_exit(ana_rows *rows, error_message *err)
{
    const ana_speed_up_case stated = case_with(NULL);
    ana_speed_up_case replicas = stated;
    replicas.repacks = true;
    const ana_speed_up_case body = case_with("{\"model\":\"gpt-dynmo-body\"}");
    const ana_speed_up_case published = case_with("{\"dynamism.load_model\":\"published\"}");
    const ana_speed_up_case both =
        case_with("{\"model\":\"gpt-dynmo-body\",\"dynamism.load_model\":\"published\"}");
    ana_speed_up result;
    TRY(ana_rows_play_speed_up(rows, "speed-up over no exit", &stated,
                               "The head computes every token, whether or not it left early. The "
                               "paper's 90 nodes of 4 GPUs are 360, not 720.",
                               &result, err));
    ana_rows_draw(rows, ANA_FIGURE_SPEED_UP, "early exit");
    TRY(ana_rows_play_speed_up(rows, "speed-up over no exit, released GPUs as replicas", &replicas,
                               ANA_NOTE_REPLICAS, &result, err));
    TRY(ana_rows_play_speed_up(rows, "speed-up over no exit, no head", &body, ANA_NOTE_BODY,
                               &result, err));
    TRY(ana_rows_play_speed_up(rows, "speed-up over no exit, published load model", &published,
                               "The whole layer scaled by the tokens that reach it.", &result,
                               err));
    TRY(ana_rows_play_speed_up(rows, "speed-up over no exit, published load model, no head", &both,
                               "", &result, err));
    TRY(add_bubble(rows, "bubble over no exit", NULL, "", err));
    return add_bubble(rows, "bubble over no exit, published load model, no head", both.common, "",
                      err);
}
