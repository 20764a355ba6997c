/// The rules of the verdict.
#include "analysis/diagnosis/diagnosis.h"

ana_ground ana_ground_of(const ana_evidence *evidence)
{
    const double threshold = evidence->threshold_ratio;
    const ana_gain_interval *best = &evidence->best;
    if (evidence->is_uniform) return ANA_GROUND_UNIFORM;
    if (best->is_short) return ANA_GROUND_SHORT;
    if (evidence->is_of_stages) return ANA_GROUND_STAGES;
    const bool is_proven = evidence->bound.high < threshold;
    const bool is_noise = best->high < threshold;
    if (is_proven || is_noise || evidence->best_over_kept.high < threshold) {
        if (evidence->is_coarse) return ANA_GROUND_COARSE; // the bound is of these layers, too
        return is_proven ? ANA_GROUND_PROVEN : is_noise ? ANA_GROUND_NOISE : ANA_GROUND_ONE_SPLIT;
    }
    if (best->low > threshold) {
        return evidence->knows_state ? ANA_GROUND_GAIN : ANA_GROUND_STATE_UNKNOWN;
    }
    return ANA_GROUND_INTERVAL;
}

const ana_ground_words ana_grounds[ANA_GROUND_COUNT] = {
    [ANA_GROUND_UNIFORM] =
        {"uniform", ANA_VERDICT_UNDECIDABLE,
         "In every iteration all layers take the same time to the nanosecond: they were "
         "not measured one by one. Record layer by layer."},
    [ANA_GROUND_SHORT] =
        {"short", ANA_VERDICT_UNDECIDABLE,
         "Too few sampled iterations to tell drift from noise. Record at least 20, each "
         "one rather than every n-th."},
    [ANA_GROUND_STAGES] =
        {"stages", ANA_VERDICT_UNDECIDABLE,
         "Every stage was recorded as one layer: no other split can be tried. Record "
         "layer by layer; of a run of which every op was recorded, `dynmo stragglers` "
         "says what slowed it and which split would mend it."},
    [ANA_GROUND_PROVEN] =
        {"proven", ANA_VERDICT_NOT_WORTHWHILE,
         "No contiguous plan can gain that, known beforehand and free to move: proven "
         "for every iteration."},
    [ANA_GROUND_COARSE] =
        {"coarse", ANA_VERDICT_UNDECIDABLE,
         "No policy gains that, but fewer than 4 layers per stage were recorded, and one of them "
         "is much to move. Record every layer of the model by itself. If these are all, "
         "set the best kept split below and leave it."},
    [ANA_GROUND_NOISE] = {"noise", ANA_VERDICT_NOT_WORTHWHILE,
                          "No policy gains that over the split named below. Set it and leave it."},
    [ANA_GROUND_ONE_SPLIT] =
        {"one-split", ANA_VERDICT_NOT_WORTHWHILE,
         "No policy gains that over the best kept split below. Split by the mean of "
         "many iterations, not by the first, and leave it."},
    [ANA_GROUND_STATE_UNKNOWN] =
        {"state-unknown", ANA_VERDICT_UNDECIDABLE,
         "It would be, but the trace does not say how many bytes a layer moves with. "
         "Record parameters, or give --layer-state."},
    [ANA_GROUND_GAIN] = {"gain", ANA_VERDICT_WORTHWHILE,
                         "The low end of its gain is above that, with migration paid."},
    [ANA_GROUND_INTERVAL] = {"interval", ANA_VERDICT_UNDECIDABLE,
                             "The interval of the best policy includes that."},
};

const char *const ana_verdict_names[] = {"worthwhile", "not worthwhile", "undecidable"};

int64_t ana_iterations_to_decide(const ana_evidence *evidence, int count)
{
    const ana_gain_interval *best = &evidence->best;
    const double threshold = evidence->threshold_ratio;
    const bool is_above = best->gain > threshold;
    const double distance = is_above ? best->gain - threshold : threshold - best->gain;
    const double half = is_above ? best->gain - best->low : best->high - best->gain;
    const double factor = distance > 0 ? half / distance : INT32_MAX;
    const double wanted = factor * factor * count;
    return wanted < INT32_MAX ? (int64_t)wanted + 1 : INT32_MAX;
}
