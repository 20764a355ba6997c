/// What balancing costs in the six cases under the paper's own policies: decisions and migration.
#include "analysis/paper/experiments.h"

#include <math.h>

status ana_play_overhead(ana_rows *rows, error_message *err)
{
    static const struct {
        const char *study;
        const char *quantity;
        const char *row;
        const char *changes;
    } cases[] = {
        {"moe-mixtral", "Mixtral 8x7B", "partition every:1", "{\"dynamism.spread_ratio\":2}"},
        {"moe-llama", "LLaMA-MoE-3.5B", "partition every:1", "{\"dynamism.spread_ratio\":2}"},
        {"mod", "MoD", "partition every:1", NULL},
        {"pruning", "pruning", "partition on-change", NULL},
        {"freezing", "freezing", "partition on-change", NULL},
        {"sparse-attention", "sparse attention", "partition every:1", NULL},
        {"early-exit", "early exit", "partition on-change", NULL},
    };
    for (size_t index = 0; index < sizeof cases / sizeof cases[0]; index++) {
        const char *const slow[] = {cases[index].changes, "{\"training.decision_ns\":10000000}"};
        ana_interval share = {0};
        for (int trials = 1; trials <= 2; trials++) {
            ana_trial trial;
            TRY(ana_trial_play(cases[index].study, slow, trials, &trial, err));
            const ana_trial_row *row = ana_trial_find(&trial, cases[index].row);
            if (row == NULL) {
                return error_set(err, STATUS_INFEASIBLE, "%s: no plan fits", cases[index].study);
            }
            ana_interval_add(&share, (double)row->overhead_ns / (double)row->total_ns);
        }
        ana_rows_add_number(rows, cases[index].quantity, &share, NAN, ANA_AGREEMENT_PREDICTED,
                            ana_rows_text(rows, "%s, share of the time", cases[index].row), "");
        ana_rows_draw(rows, ANA_FIGURE_OVERHEAD, cases[index].quantity);
    }
    return STATUS_OK;
}
