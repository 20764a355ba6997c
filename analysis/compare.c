#include "analysis/compare.h"

#include "base/json.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static double rate(const ana_setup *setup, int64_t total_ns)
{
    const double units =
        setup->tokens_per_microbatch > 0 ? (double)setup->tokens_per_microbatch : 1.0;
    const double per_iteration =
        units * (double)setup->microbatch_count * (double)setup->study->parallel.data;
    if (total_ns <= 0) return 0;
    return per_iteration * (double)setup->iteration_count / ((double)total_ns / 1e9);
}

static sim_training training_of(const ana_setup *setup, const ana_balancing *balancing,
                                const ana_listener *listener)
{
    const ana_study *study = setup->study;
    return (sim_training){
        .sources = &setup->source,
        .source_count = 1,
        .machine = setup->machine,
        .iteration_count = setup->iteration_count,
        .microbatch_count = setup->microbatch_count,
        .chunk_count = study->chunk_count,
        .schedule = study->schedule,
        .post_validation = study->post_validation,
        .data_parallel = study->parallel.data,
        .optimizer_step_ns = study->optimizer_step_ns,
        .decision_ns = study->decision_ns,
        .change_ratio = study->change_ratio,
        .balancer = balancing->balancer,
        .weight = balancing->weight,
        .policy = balancing->policy,
        .sink = listener->sink,
    };
}

/// What is written must be readable again: JSON ends at 2^53, which as a time are 104 days.
static status check_readable(const ana_row *row, const ana_setup *setup, error_message *err)
{
    const sim_training_result *result = &row->result;
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = {
        {"total_ns", result->total_ns},
        {"moved_bytes", result->moved_bytes},
        {"peak_memory_bytes", ana_row_peak_bytes(row, setup)},
        {"bottleneck_ns", result->bottleneck_ns},
    };
    for (size_t each = 0; each < sizeof numbers / sizeof numbers[0]; each++) {
        if (numbers[each].value <= JSON_INTEGER_MAX) continue;
        return error_set(err, STATUS_INVALID,
                         "%s: %s %" PRId64 " of the run exceeds 2^53 = 9007199254740992",
                         row->balancing->label, numbers[each].name, numbers[each].value);
    }
    return STATUS_OK;
}

static status play_row(const ana_setup *setup, const ana_listener *listener, arena *memory,
                       ana_row *row, error_message *err)
{
    const sim_training training = training_of(setup, row->balancing, listener);
    if (listener->begin_row != NULL) {
        TRY(listener->begin_row(listener->sink.context, row->balancing, err));
    }
    error_message inner = {0};
    row->outcome = sim_training_replay(&training, memory, &row->result, &inner);
    if (row->outcome != STATUS_OK) {
        if (row->outcome != STATUS_INFEASIBLE) {
            return error_set(err, row->outcome, "%s: %.*s", row->balancing->label, 400,
                             inner.message);
        }
        snprintf(row->message, sizeof row->message, "%.*s", (int)sizeof row->message - 1,
                 inner.message);
        return STATUS_OK;
    }
    TRY(check_readable(row, setup, err));
    if (row->result.executable) {
        row->iteration_mean_ns = row->result.total_ns / setup->iteration_count;
        row->per_second = rate(setup, row->result.total_ns);
    }
    return STATUS_OK;
}

/// The rate of the row of a static baseline under its own weight; 0 if there is none.
static double baseline_rate(const ana_row *rows, int row_count, const char *name)
{
    for (int row = 0; row < row_count; row++) {
        const ana_balancing *balancing = rows[row].balancing;
        if (strcmp(balancing->balancer->name, name) == 0 &&
            balancing->policy.kind == BAL_POLICY_NEVER && rows[row].outcome == STATUS_OK) {
            return rows[row].per_second;
        }
    }
    return 0;
}

status ana_compare(const ana_setup *setup, const ana_listener *listener, arena *memory,
                   ana_comparison *comparison, error_message *err)
{
    const int row_count = setup->study->balancing_count;
    ana_row *rows = arena_array(memory, (size_t)row_count, sizeof *rows);
    if (rows == NULL) return error_set(err, STATUS_NO_MEMORY, "out of memory");
    static const ana_listener nobody = {0};
    int feasible = 0;
    for (int row = 0; row < row_count; row++) {
        rows[row].balancing = &setup->study->balancings[row];
        TRY(play_row(setup, listener != NULL ? listener : &nobody, memory, &rows[row], err));
        feasible += rows[row].outcome == STATUS_OK;
    }
    if (feasible == 0) return error_set(err, STATUS_INFEASIBLE, "%s", rows[0].message);
    const double even = baseline_rate(rows, row_count, "even");
    const double tuned = baseline_rate(rows, row_count, "tuned");
    for (int row = 0; row < row_count; row++) {
        if (even > 0) rows[row].relative_to_even = rows[row].per_second / even;
        if (tuned > 0) rows[row].relative_to_tuned = rows[row].per_second / tuned;
    }
    *comparison = (ana_comparison){.setup = setup, .rows = rows};
    return STATUS_OK;
}
