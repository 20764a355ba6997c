/// Dynamic sparse attention at the paper's setting, over dense attention: as flash attention, which
/// skips what the causal mask hides already, and unfused, which moves its scores through memory.
#include "analysis/paper/experiments.h"

#include <math.h>

static const char *const ranges[] = {
    NULL,
    "{\"dynamism.seed\":2}",
    "{\"dynamism.skew\":0}",
    "{\"dynamism.skew\":1.5,\"dynamism.skew_spread\":0.9}",
    "{\"training.layers\":24}",
};
enum { RANGE_COUNT = (int)(sizeof ranges / sizeof ranges[0]) };

static ana_speed_up_case case_with(const char *common)
{
    return (ana_speed_up_case){.study = "sparse-attention",
                               .baseline = ANA_BASELINE_STILL,
                               .common = common,
                               .ranges = ranges,
                               .range_count = RANGE_COUNT};
}

/// Idle share over that of dense attention, both under the even split.
static status add_bubble(ana_rows *rows, const char *quantity, const char *common, const char *note,
                         error_message *err)
{
    static const char *const dense =
        "{\"dynamism\":null,\"training.iterations\":1,\"balancing\":[{\"balancer\":\"even\"}]}";
    static const char *const still = "{\"balancing\":[{\"balancer\":\"even\"}]}";
    ana_interval ratio = {0};
    for (int range = 0; range < RANGE_COUNT; range++) {
        const char *const sparse_changes[] = {common, ranges[range], still};
        const char *const dense_changes[] = {common, ranges[range], dense};
        ana_trial sparse_trial;
        ana_trial dense_trial;
        TRY(ana_trial_play("sparse-attention", sparse_changes, 3, &sparse_trial, err));
        TRY(ana_trial_play("sparse-attention", dense_changes, 3, &dense_trial, err));
        ana_interval_add(&ratio,
                         sparse_trial.rows[0].bubble_ratio / dense_trial.rows[0].bubble_ratio);
    }
    ana_rows_add_number(rows, quantity, &ratio, NAN, ANA_AGREEMENT_PREDICTED,
                        "even, dense attention", note);
    return STATUS_OK;
}

status ana_play_sparse_attention(ana_rows *rows, error_message *err)
{
    const ana_speed_up_case flash = case_with(NULL);
    const ana_speed_up_case unfused =
        case_with("{\"training.attention\":\"unfused\",\"training.layers\":24}");
    const ana_speed_up_case published = case_with("{\"dynamism.load_model\":\"published\"}");
    const ana_speed_up_case both =
        case_with("{\"model\":\"gpt-dynmo-body\",\"dynamism.load_model\":\"published\"}");
    ana_speed_up result;
    TRY(ana_rows_play_speed_up(rows, "speed-up over dense, least", &flash,
                               "Over flash attention, which is a small share of a layer at s 2048 "
                               "and h 1024. The paper's 90 nodes of 4 GPUs are 360, not 720.",
                               &result, err));
    ana_rows_draw(rows, ANA_FIGURE_SPEED_UP, "sparse, over flash");
    TRY(ana_rows_play_speed_up(
        rows, "speed-up over dense, most", &unfused,
        "Over unfused attention, with 24 layers: the scores of 48 do not fit 80 GB. Static tuning "
        "is the head's; it would help the dense model as much.",
        &result, err));
    ana_rows_draw(rows, ANA_FIGURE_SPEED_UP, "sparse, over unfused");
    TRY(ana_rows_play_speed_up(
        rows, "speed-up over dense, most, published load model", &published,
        "The whole layer scaled by the share of attention that is kept, as the paper has it.",
        &result, err));
    TRY(ana_rows_play_speed_up(rows, "speed-up over dense, most, published load model, no head",
                               &both, "", &result, err));
    TRY(add_bubble(rows, "bubble over dense", NULL,
                   "The head makes the dense model idle already: there is no room for 4x.", err));
    return add_bubble(rows, "bubble over dense, published load model, no head", both.common, "",
                      err);
}
