/// Gradual pruning at the paper's setting: in float32, where sparse kernels pay at 90 %; in
/// bfloat16, where they do not; with the paper's own load model; and without the head.
#include "analysis/paper/experiments.h"

#include <math.h>

static const char *const ranges[] = {
    NULL,
    "{\"dynamism.seed\":2}",
    "{\"dynamism.seed\":3}",
    "{\"dynamism.sigma_spread\":0.05}",
    "{\"dynamism.sigma_spread\":0.5}",
    "{\"dynamism.schedule\":\"released\"}",
    "{\"training.layers\":24}",
};
enum { RANGE_COUNT = (int)(sizeof ranges / sizeof ranges[0]) };

static ana_speed_up_case case_with(const char *common)
{
    return (ana_speed_up_case){.study = "pruning",
                               .baseline = ANA_BASELINE_STATIC,
                               .common = common,
                               .ranges = ranges,
                               .range_count = RANGE_COUNT};
}

/// Idle share at the end over that at the start, under the even split.
static status add_idleness(ana_rows *rows, error_message *err)
{
    ana_interval idleness = {0};
    for (int range = 0; range < RANGE_COUNT; range++) {
        ana_trial trial;
        TRY(ana_trial_play("pruning", &ranges[range], 1, &trial, err));
        const ana_trial_row *even = ana_trial_find(&trial, "even");
        if (range == 0) {
            const ana_interval before = ana_interval_of(even->first_bubble_ratio);
            ana_rows_add_number(rows, "bubble before pruning", &before, NAN,
                                ANA_AGREEMENT_PREDICTED, "even, idle over total", "");
            ana_rows_draw(rows, ANA_FIGURE_IDLENESS, "dense");
            const ana_interval after = ana_interval_of(even->last_bubble_ratio);
            ana_rows_add_number(rows, "bubble at 90 % sparsity", &after, NAN,
                                ANA_AGREEMENT_PREDICTED, "even, idle over total", "");
            ana_rows_draw(rows, ANA_FIGURE_IDLENESS, "pruned, even");
        }
        ana_interval_add(&idleness, even->last_bubble_ratio / even->first_bubble_ratio);
    }
    ana_rows_add_number(rows, "idleness at 90 % sparsity over dense", &idleness, NAN,
                        ANA_AGREEMENT_PREDICTED, "even, before the first pruning",
                        "The head, which is not pruned, makes an even split idle from the start, "
                        "so that there is less to add.");
    return STATUS_OK;
}

status ana_play_pruning(ana_rows *rows, error_message *err)
{
    ana_speed_up result;
    const ana_speed_up_case stated = case_with(NULL);
    ana_speed_up_case replicas = stated;
    replicas.repacks = true;
    const ana_speed_up_case sixteen = case_with("{\"training.dtype\":\"bfloat16\"}");
    const ana_speed_up_case published = case_with("{\"dynamism.load_model\":\"published\"}");
    const ana_speed_up_case body = case_with("{\"model\":\"gpt-dynmo-body\"}");
    const ana_speed_up_case both =
        case_with("{\"model\":\"gpt-dynmo-body\",\"dynamism.load_model\":\"published\"}");
    TRY(ana_rows_play_speed_up(rows, "speed-up over static", &stated,
                               "float32 and Sputnik. The head of 3.07 layers is the largest stage, "
                               "and pruning leaves it as it is. The paper's 90 nodes of 4 GPUs are "
                               "360, not the 720 of DP 30 x PP 24: 180 nodes are simulated.",
                               &result, err));
    ana_rows_draw(rows, ANA_FIGURE_SPEED_UP, "pruning");
    TRY(ana_rows_play_speed_up(rows, "speed-up over static, released GPUs as replicas", &replicas,
                               ANA_NOTE_REPLICAS, &result, err));
    TRY(ana_rows_play_speed_up(
        rows, "speed-up over static, bfloat16", &sixteen,
        "Tensor cores gain nothing from unstructured zeros: times do not change.", &result, err));
    TRY(ana_rows_play_speed_up(rows, "speed-up over static, no head", &body, ANA_NOTE_BODY, &result,
                               err));
    TRY(ana_rows_play_speed_up(
        rows, "speed-up over static, published load model", &published,
        "Time proportional to the weights that are left, as the paper has it.", &result, err));
    TRY(ana_rows_play_speed_up(rows, "speed-up over static, published load model, no head", &both,
                               "", &result, err));
    return add_idleness(rows, err);
}
