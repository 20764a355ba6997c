/// Re-packing: pruning on pipelines of eight GPUs, of which those that are no longer needed are
/// released, or make further replicas.
#include "analysis/paper/experiments.h"

#include <math.h>

static const char *const ranges[] = {
    NULL,
    "{\"dynamism.seed\":2}",
    "{\"dynamism.load_model\":\"published\"}",
    "{\"dynamism.kernels\":\"sparse-always\"}",
    "{\"training.layers\":40}",
    "{\"model\":\"gpt-dynmo-body\"}",
};
enum { RANGE_COUNT = (int)(sizeof ranges / sizeof ranges[0]) };

/// What re-packing does in all trials.
typedef struct repacking {
    ana_interval ranks;
    ana_interval kept;  // throughput with over that without, GPUs released
    ana_interval share; // of the gain, released GPUs making further replicas
} repacking;

static double speed(int64_t before_ns, int64_t after_ns)
{
    return (double)before_ns / (double)after_ns;
}

static status play(const char *common, repacking *result, error_message *err)
{
    *result = (repacking){.ranks = {.count = 0}};
    for (int range = 0; range < RANGE_COUNT; range++) {
        const char *const changes[] = {common, ranges[range]};
        ana_trial trial;
        TRY(ana_trial_play("repack", changes, 2, &trial, err));
        const ana_trial_row *packed = ana_trial_find(&trial, "re-packed");
        const ana_trial_row *replicated = ana_trial_find(&trial, "replicated");
        const ana_trial_row *even = ana_trial_find(&trial, "even");
        if (packed == NULL || replicated == NULL || even == NULL) {
            return error_set(err, STATUS_INFEASIBLE, "repack: no plan fits");
        }
        const double replicas = speed(replicated->unpacked_ns, replicated->total_ns);
        const double total = speed(even->total_ns, replicated->total_ns);
        ana_interval_add(&result->ranks, packed->rank_count_mean);
        ana_interval_add(&result->kept, speed(packed->unpacked_ns, packed->total_ns));
        ana_interval_add(&result->share, total > 1 ? log(replicas) / log(total) : 0);
    }
    return STATUS_OK;
}

static void add(ana_rows *rows, const repacking *result, const char *which, const char *note)
{
    const char *ranks = ana_rows_text(rows, "mean GPUs of 8%s", which);
    const char *kept = ana_rows_text(rows, "throughput kept%s", which);
    const char *share = ana_rows_text(rows, "share of the gain, most%s", which);
    ana_rows_add_number(rows, ranks, &result->ranks, NAN, ANA_AGREEMENT_PREDICTED,
                        "8 GPUs a pipeline, mean over time", note);
    ana_rows_draw(rows, ANA_FIGURE_REPACKING, which[0] == '\0' ? "within 2 %" : "within 50 %");
    ana_rows_add_number(rows, kept, &result->kept, NAN, ANA_AGREEMENT_PREDICTED,
                        "the same without re-packing", "");
    ana_rows_add_number(
        rows, share, &result->share, NAN, ANA_AGREEMENT_PREDICTED, "the gain over even (Megatron)",
        "Released GPUs make further replicas, the global batch held: log of the factor of "
        "re-packing over log of the whole speed-up. The paper says 0.04 to 0.11.");
}

status ana_play_repack(ana_rows *rows, error_message *err)
{
    repacking result;
    TRY(play(NULL, &result, err));
    add(rows, &result, "",
        "The fewest GPUs within 2 % of the throughput of that moment. The head of 3.07 layers "
        "needs a GPU for itself, and Sputnik at 90 % sparsity leaves more than half of the time.");
    TRY(play("{\"balancing\":["
             "{\"balancer\":\"even\"},{\"balancer\":\"tuned\"},"
             "{\"balancer\":\"partition\",\"policy\":\"on-change\",\"label\":\"re-packed\","
             "\"repack\":{\"kind\":\"throughput\",\"tolerance\":0.5}},"
             "{\"balancer\":\"partition\",\"policy\":\"on-change\",\"label\":\"replicated\","
             "\"repack\":{\"kind\":\"throughput\",\"tolerance\":0.5,\"use\":\"replicate\"}}]}",
             &result, err));
    add(rows, &result, ", within 50 %", "As few GPUs as cost at most half of the speed again.");
    const ana_interval published = ana_interval_of((8 * 4000 + 6 * 1000 + 4 * 5000) / 10000.0);
    ana_rows_add_number(
        rows, "mean GPUs of 8, of 8, 6, 4 from 0, 4000, 5000 on", &published, NAN,
        ANA_AGREEMENT_CONSISTENT, "8 GPUs a pipeline, mean over iterations",
        "Packed to 6 and then to 4 at the first two prunings of the released code.");
    ana_rows_draw(rows, ANA_FIGURE_REPACKING, "8, 6, 4");
    return STATUS_OK;
}
