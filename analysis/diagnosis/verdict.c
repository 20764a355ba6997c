#include "analysis/diagnosis/verdict.h"

static ana_judgement judgement(ana_verdict verdict, ana_ground ground)
{
    return (ana_judgement){verdict, ground};
}

ana_judgement ana_judge(const ana_evidence *evidence)
{
    const double threshold = evidence->threshold_ratio;
    if (evidence->is_uniform) return judgement(ANA_VERDICT_UNDECIDABLE, ANA_GROUND_UNIFORM);
    if (evidence->best.is_short) return judgement(ANA_VERDICT_UNDECIDABLE, ANA_GROUND_SHORT);
    if (evidence->bound.high < threshold) {
        return judgement(ANA_VERDICT_NOT_WORTHWHILE, ANA_GROUND_PROVEN);
    }
    if (!evidence->clairvoyant.is_short && evidence->clairvoyant.high < threshold) {
        return judgement(ANA_VERDICT_NOT_WORTHWHILE, ANA_GROUND_CLAIRVOYANT);
    }
    if (evidence->best.high < threshold && evidence->drift.high < threshold) {
        return judgement(ANA_VERDICT_NOT_WORTHWHILE, ANA_GROUND_NOISE);
    }
    if (evidence->best_over_kept.high < threshold && evidence->drift_over_kept.high < threshold) {
        return judgement(ANA_VERDICT_NOT_WORTHWHILE, ANA_GROUND_ONE_SPLIT);
    }
    if (evidence->best.low > threshold) {
        if (!evidence->knows_state) {
            return judgement(ANA_VERDICT_UNDECIDABLE, ANA_GROUND_STATE_UNKNOWN);
        }
        return judgement(ANA_VERDICT_WORTHWHILE, ANA_GROUND_GAIN);
    }
    if (evidence->best.high >= threshold) {
        return judgement(ANA_VERDICT_UNDECIDABLE, ANA_GROUND_INTERVAL);
    }
    return judgement(ANA_VERDICT_UNDECIDABLE, ANA_GROUND_FORECAST);
}

const char *ana_verdict_name(ana_verdict verdict)
{
    static const char *const names[] = {"worthwhile", "not worthwhile", "undecidable"};
    return names[verdict];
}

const char *ana_ground_name(ana_ground ground)
{
    static const char *const names[] = {"uniform",  "short",     "proven",        "clairvoyant",
                                        "noise",    "one-split", "state-unknown", "gain",
                                        "interval", "forecast"};
    _Static_assert(sizeof names / sizeof names[0] == ANA_GROUND_COUNT, "a name per ground");
    return names[ground];
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
