/// Layer freezing at the paper's setting. Egeria and AutoFreeze are the same freezing under a
/// static split; what Egeria's reference model costs is not published.
#include "analysis/paper/experiments.h"

#include "analysis/paper/published.h"

#include <math.h>

static const char *const ranges[] = {
    NULL,
    "{\"dynamism.seed\":2}",
    "{\"dynamism.seed\":3}",
    "{\"dynamism.last_iteration\":5000}",
    "{\"dynamism.cached_prefix\":true}",
    "{\"training.layers\":24}",
};
enum { RANGE_COUNT = (int)(sizeof ranges / sizeof ranges[0]) };

static ana_speed_up_case case_with(const char *common)
{
    return (ana_speed_up_case){.study = "freezing",
                               .baseline = ANA_BASELINE_STATIC,
                               .common = common,
                               .ranges = ranges,
                               .range_count = RANGE_COUNT};
}

/// What follows from the published numbers alone.
static void add_identities(ana_rows *rows)
{
    const double before = ana_published_find("freezing", "bubble before")->value;
    const double published = ana_published_find("freezing", "speed-up over Egeria")->value;
    const double most = 1 / (1 - before);
    const ana_interval limit = ana_interval_of(most);
    const ana_interval overhead = ana_interval_of(published / most);
    ana_rows_add_number(rows, "speed-up if all of a bubble of 40 % went", &limit, most,
                        ANA_AGREEMENT_CONSISTENT, "the published bubble", "1 / (1 - 0.40).");
    ana_rows_add_number(rows, "Egeria's overhead that 2.23x implies", &overhead, NAN,
                        ANA_AGREEMENT_CONSISTENT, "the same freezing, free of overhead",
                        "2.23 (1 - 0.40): even if no bubble were left, the reference model would "
                        "have to make Egeria's iterations this much longer. No source says what it "
                        "costs, so it is not modelled.");
}

status ana_play_freezing(ana_rows *rows, error_message *err)
{
    ana_speed_up result;
    ana_speed_up other;
    const ana_speed_up_case stated = case_with(NULL);
    ana_speed_up_case replicas = stated;
    replicas.repacks = true;
    const ana_speed_up_case published = case_with("{\"dynamism.load_model\":\"published\"}");
    const ana_speed_up_case body = case_with("{\"model\":\"gpt-dynmo-body\"}");
    TRY(ana_rows_play_speed_up(
        rows, "speed-up over Egeria", &stated,
        "Egeria (unvalidated): the same freezing under a static split, its reference model free. "
        "The paper's 90 nodes of 4 GPUs are 360, not 720.",
        &result, err));
    ana_rows_draw(rows, ANA_FIGURE_SPEED_UP, "freezing");
    ana_rows_add_number(rows, "bubble before", &result.before, NAN, ANA_AGREEMENT_PREDICTED,
                        ana_rows_text(rows, "%s, idle over total", result.still), "");
    ana_rows_draw(rows, ANA_FIGURE_IDLENESS, "frozen, static");
    ana_rows_add_number(rows, "bubble after", &result.after, result.after_bound.low,
                        ANA_AGREEMENT_PREDICTED,
                        ana_rows_text(rows, "%s, idle over total", result.dynamic), "");
    ana_rows_draw(rows, ANA_FIGURE_IDLENESS, "frozen, balanced");
    TRY(ana_rows_play_speed_up(rows, "speed-up over Egeria, released GPUs as replicas", &replicas,
                               ANA_NOTE_REPLICAS, &other, err));
    TRY(ana_rows_play_speed_up(rows, "speed-up over Egeria, no head", &body, ANA_NOTE_BODY, &other,
                               err));
    TRY(ana_rows_play_speed_up(rows, "speed-up over Egeria, published load model", &published,
                               "A frozen layer costs nothing at all, not even its forward pass.",
                               &other, err));
    add_identities(rows);
    return STATUS_OK;
}
