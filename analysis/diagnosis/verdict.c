/// The rules of the verdict.
#include "analysis/diagnosis/diagnosis.h"

/// Which ground decides, the first that holds.
static ana_ground ground_of(const ana_evidence *evidence)
{
    const double threshold = evidence->threshold_ratio;
    const ana_gain_interval *best = &evidence->best;
    if (evidence->is_uniform) return ANA_GROUND_UNIFORM;
    if (best->is_short) return ANA_GROUND_SHORT;
    if (evidence->is_of_stages) return ANA_GROUND_STAGES;
    if (evidence->bound.high < threshold) return ANA_GROUND_PROVEN;
    if (best->high < threshold) return ANA_GROUND_NOISE;
    if (evidence->best_over_kept.high < threshold) return ANA_GROUND_ONE_SPLIT;
    if (best->low > threshold) {
        return evidence->knows_state ? ANA_GROUND_GAIN : ANA_GROUND_STATE_UNKNOWN;
    }
    return ANA_GROUND_INTERVAL;
}

static const struct {
    const char *name;
    ana_verdict verdict;
} grounds[ANA_GROUND_COUNT] = {
    [ANA_GROUND_UNIFORM] = {"uniform", ANA_VERDICT_UNDECIDABLE},
    [ANA_GROUND_SHORT] = {"short", ANA_VERDICT_UNDECIDABLE},
    [ANA_GROUND_STAGES] = {"stages", ANA_VERDICT_UNDECIDABLE},
    [ANA_GROUND_PROVEN] = {"proven", ANA_VERDICT_NOT_WORTHWHILE},
    [ANA_GROUND_NOISE] = {"noise", ANA_VERDICT_NOT_WORTHWHILE},
    [ANA_GROUND_ONE_SPLIT] = {"one-split", ANA_VERDICT_NOT_WORTHWHILE},
    [ANA_GROUND_STATE_UNKNOWN] = {"state-unknown", ANA_VERDICT_UNDECIDABLE},
    [ANA_GROUND_GAIN] = {"gain", ANA_VERDICT_WORTHWHILE},
    [ANA_GROUND_INTERVAL] = {"interval", ANA_VERDICT_UNDECIDABLE},
};

const char *const ana_verdict_names[] = {"worthwhile", "not worthwhile", "undecidable"};

ana_judgement ana_judge(const ana_evidence *evidence)
{
    const ana_ground ground = ground_of(evidence);
    return (ana_judgement){grounds[ground].verdict, ground};
}

const char *ana_ground_name(ana_ground ground)
{
    return grounds[ground].name;
}

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
