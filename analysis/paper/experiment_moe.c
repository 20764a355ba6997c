/// Mixture of experts and mixture of depths: one input is set so that the bubble under the best
/// static split is the published one, and what balancing leaves of it is predicted.
#include "analysis/paper/experiments.h"

#include "analysis/paper/published.h"

#include <math.h>

/// An experiment whose bubble before balancing is the calibration.
typedef struct bubble_case {
    const char *study;
    const char *prefix; // of its quantities
    const char *common; // changes for every trial, or NULL
    const char *path;   // of the number that is calibrated
    double low;
    double high;
    const char *what; // of the number, for people
    const char *const *ranges;
    int range_count;
    const char *bar; // in figures; NULL: not drawn
} bubble_case;

static const char *quantity(ana_rows *rows, const bubble_case *what, const char *name)
{
    return ana_rows_text(rows, "%s%s", what->prefix, name);
}

/// The ranges, each joined with the calibration that belongs to it.
static status calibrate_ranges(ana_rows *rows, const bubble_case *what, double wanted,
                               const char **ranges, ana_interval *value, error_message *err)
{
    for (int range = 0; range < what->range_count; range++) {
        const ana_calibration calibration = {
            .study = what->study,
            .common = ana_rows_join(rows, what->common, what->ranges[range]),
            .rows = ANA_STATIC_ROWS,
            .path = what->path,
            .low = what->low,
            .high = what->high,
            .wanted = wanted,
            .measure = ana_measure_static_bubble,
        };
        ana_calibrated calibrated;
        TRY(ana_calibrate(&calibration, &calibrated, err));
        ana_interval_add(value, calibrated.value);
        ranges[range] =
            ana_rows_join(rows, calibration.common, ana_rows_text(rows, "%s", calibrated.change));
    }
    return STATUS_OK;
}

static void add_bubbles(ana_rows *rows, const bubble_case *what, double wanted,
                        const ana_speed_up *result, const ana_interval *value)
{
    const bool is_reached = fabs(result->before.value - wanted) < 0.005;
    ana_rows_add_number(
        rows, quantity(rows, what, "bubble before"), &result->before, NAN, ANA_AGREEMENT_CALIBRATED,
        ana_rows_text(rows, "%s, idle over total", result->still),
        ana_rows_text(rows, "By %s %.3g (%.3g to %.3g)%s.", what->what, value->value, value->low,
                      value->high, is_reached ? "" : ": the nearest that it reaches"));
    if (what->bar != NULL) {
        ana_rows_draw(rows, ANA_FIGURE_IDLENESS, ana_rows_text(rows, "%s, static", what->bar));
    }
    const char *after = quantity(rows, what, "bubble after");
    ana_rows_add_number(rows, after, &result->after, result->after_bound.low,
                        ANA_AGREEMENT_PREDICTED,
                        ana_rows_text(rows, "%s, idle over total", result->dynamic), "");
    ana_reproduced *row = &rows->rows[rows->count - 1];
    if (result->after_bound.low > row->published) row->agreement = ANA_AGREEMENT_UNREACHABLE;
    row->note = ana_rows_text(rows,
                              "%.3f above the published number; no contiguous plan leaves less "
                              "than %.3f, were it chosen anew in every iteration for nothing.",
                              row->simulated - row->published, result->after_bound.value);
    if (what->bar != NULL) {
        ana_rows_draw(rows, ANA_FIGURE_IDLENESS, ana_rows_text(rows, "%s, balanced", what->bar));
    }
}

/// What the two published bubbles are as a speed-up.
static void add_identity(ana_rows *rows, const bubble_case *what)
{
    const char *before = quantity(rows, what, "bubble before");
    const char *after = quantity(rows, what, "bubble after");
    const double speed_up = (1 - ana_published_find(rows->experiment, after)->value) /
                            (1 - ana_published_find(rows->experiment, before)->value);
    const ana_interval identity = ana_interval_of(speed_up);
    ana_rows_add_number(rows,
                        quantity(rows, what, "speed-up over static, of the published bubbles"),
                        &identity, NAN, ANA_AGREEMENT_CONSISTENT, "the published bubble before",
                        "(1 - after) / (1 - before).");
}

static status play_bubbles(ana_rows *rows, const bubble_case *what, const char *note,
                           error_message *err)
{
    enum { RANGES_MAX = 8 };
    const char *ranges[RANGES_MAX];
    ana_interval value = {0};
    ana_speed_up result;
    const double wanted =
        ana_published_find(rows->experiment, quantity(rows, what, "bubble before"))->value;
    TRY(calibrate_ranges(rows, what, wanted, ranges, &value, err));
    const ana_speed_up_case calibrated = {.study = what->study,
                                          .baseline = ANA_BASELINE_STATIC,
                                          .ranges = ranges,
                                          .range_count = what->range_count};
    TRY(ana_speed_up_play(&calibrated, &result, err));
    add_bubbles(rows, what, wanted, &result, &value);
    ana_rows_add_speed_up(rows, quantity(rows, what, "speed-up over static"), ANA_BASELINE_STATIC,
                          &result, note);
    if (what->bar != NULL) ana_rows_draw(rows, ANA_FIGURE_SPEED_UP, what->bar);
    add_identity(rows, what);
    return STATUS_OK;
}

status ana_play_moe(ana_rows *rows, error_message *err)
{
    static const char *const ranges[] = {
        NULL,
        "{\"dynamism.seed\":2}",
        "{\"dynamism.seed\":3}",
        "{\"dynamism.persistent_ratio\":0}",
    };
    const bubble_case mixtral = {.study = "moe-mixtral",
                                 .prefix = "Mixtral 8x7B, ",
                                 .path = "dynamism.spread_ratio",
                                 .low = 0,
                                 .high = 2.5,
                                 .what = "spread_ratio",
                                 .ranges = ranges,
                                 .range_count = (int)(sizeof ranges / sizeof ranges[0]),
                                 .bar = "Mixtral 8x7B"};
    bubble_case llama = mixtral;
    llama.study = "moe-llama";
    llama.prefix = "LLaMA-MoE-3.5B, ";
    llama.bar = "LLaMA-MoE-3.5B";
    TRY(play_bubbles(rows, &mixtral,
                     "Migration is paid. The paper's 16 nodes of 4 GPUs are 64, not 128: 32 nodes "
                     "are simulated.",
                     err));
    return play_bubbles(rows, &llama, "Migration is paid.", err);
}

/// With the head in, no capacity makes the bubble as small as the published one.
static status add_bubble_with_head(ana_rows *rows, error_message *err)
{
    const char *const change = "{\"model\":\"gpt-dynmo\"}";
    ana_trial trial;
    TRY(ana_trial_play("mod", &change, 1, &trial, err));
    const ana_interval bubble = ana_interval_of(ana_measure_static_bubble(&trial));
    ana_rows_add_number(rows, "bubble before, with the head", &bubble, NAN, ANA_AGREEMENT_PREDICTED,
                        "best static split, idle over total",
                        "12.5 % of the tokens in every other block: a head of 3.07 layers is then "
                        "larger than any other stage.");
    return STATUS_OK;
}

status ana_play_mod(ana_rows *rows, error_message *err)
{
    static const char *const ranges[] = {
        NULL,
        "{\"dynamism.seed\":2,\"dynamism.predictor_error_ratio\":0.1}",
        "{\"dynamism.seed\":3,\"dynamism.predictor_error_ratio\":0.2}",
        "{\"pipeline.schedule\":\"zb-h2\"}",
        "{\"dynamism.load_model\":\"published\"}",
    };
    const bubble_case mod = {.study = "mod",
                             .prefix = "",
                             .path = "dynamism.capacity_ratio",
                             .low = 0.01,
                             .high = 1,
                             .what = "capacity_ratio",
                             .ranges = ranges,
                             .range_count = (int)(sizeof ranges / sizeof ranges[0]),
                             .bar = "MoD"};
    TRY(play_bubbles(
        rows, &mod,
        "Layers only: see the row with the head. The pattern stands still, so that what can be "
        "gained is static. The paper's 16 nodes of 4 GPUs are 64, not 128.",
        err));
    return add_bubble_with_head(rows, err);
}
