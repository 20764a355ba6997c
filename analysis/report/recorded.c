/// Reads back what recording.c has written.
#include "analysis/report/recorded.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/// Reads what came out: the comparison of a run, or the answer of a what-if study.
static status read_results(trace_store *store, ana_recorded *recorded, arena *memory,
                           error_message *err)
{
    trace_run_result *results = NULL;
    int count = 0;
    TRY(trace_run_rows(store, recorded->info.run_id, TRACE_RUN_RESULTS, NULL, memory, &results,
                       &count, err));
    for (int result = 0; result < count; result++) {
        const char *label = results[result].label;
        const char *json = results[result].result_json;
        json_value words;
        if (strcmp(label, "words") == 0) {
            TRY(json_read_text(label, json, memory, &words, err));
            TRY(json_string(json_member(words, "text"), &recorded->words, err));
        } else if (strcmp(label, "study") == 0 && json_is_missing(recorded->answer)) {
            TRY(json_read_text(label, json, memory, &recorded->answer, err));
        } else if (strcmp(label, "comparison") == 0 && json_is_missing(recorded->comparison)) {
            TRY(json_read_text(label, json, memory, &recorded->comparison, err));
        }
    }
    if (!json_is_missing(recorded->answer) || !json_is_missing(recorded->comparison)) {
        return STATUS_OK;
    }
    return error_set(err, STATUS_INVALID, "%s: run %" PRId64 " (%s) holds no comparison",
                     trace_store_path(store), recorded->info.run_id,
                     trace_status_names[recorded->info.status]);
}

static status read_series(trace_store *store, ana_recorded *recorded, arena *memory,
                          error_message *err)
{
    const char **labels = NULL;
    int count = 0;
    TRY(trace_run_rows(store, recorded->info.run_id, TRACE_RUN_SERIES, NULL, memory, &labels,
                       &count, err));
    ana_report_series *series = arena_array(memory, (size_t)count, sizeof *series);
    for (int index = 0; index < count; index++) {
        trace_run_iteration *rows = NULL;
        int row_count = 0;
        TRY(trace_run_rows(store, recorded->info.run_id, TRACE_RUN_ITERATIONS, labels[index],
                           memory, &rows, &row_count, err));
        series[index] = (ana_report_series){labels[index], row_count, rows, false};
        for (int row = 0; row < row_count; row++) {
            series[index].has_times = series[index].has_times || rows[row].makespan_ns > 0;
        }
    }
    recorded->series = series;
    recorded->series_count = count;
    return STATUS_OK;
}

static status find_run(trace_store *store, const char *name, arena *memory, trace_run_info *info,
                       error_message *err)
{
    const status found = trace_run_find(store, name, memory, info, err);
    if (found != STATUS_INVALID || name != NULL) return found;
    return error_set(err, STATUS_INVALID,
                     "%s: holds no complete run; record one with `dynmo simulate --store`",
                     trace_store_path(store));
}

status ana_recorded_open(trace_store *store, const char *name, arena *memory,
                         ana_recorded *recorded, error_message *err)
{
    *recorded = (ana_recorded){0};
    TRY(find_run(store, name, memory, &recorded->info, err));
    TRY(read_results(store, recorded, memory, err));
    if (!json_is_missing(recorded->comparison)) TRY(read_series(store, recorded, memory, err));
    trace_input_file *inputs = NULL;
    TRY(trace_run_rows(store, recorded->info.run_id, TRACE_RUN_INPUTS, NULL, memory, &inputs,
                       &recorded->input_count, err));
    recorded->inputs = inputs;
    return STATUS_OK;
}

/// "timeline/239/partition on-change": the iteration, and where the label begins; -1 if it is none.
static int timeline_iteration(const char *result_label, const char **label)
{
    static const char prefix[] = "timeline/";
    if (strncmp(result_label, prefix, sizeof prefix - 1) != 0) return -1;
    char *end = NULL;
    const long iteration = strtol(result_label + sizeof prefix - 1, &end, 10);
    if (*end != '/') return -1;
    *label = end + 1;
    return (int)iteration;
}

/// Says which timelines there are.
static status refuse_timeline(trace_store *store, const trace_run_result *results, int count,
                              const char *wanted, arena *memory, error_message *err)
{
    text_buffer known = {.memory = memory};
    for (int result = 0; result < count; result++) {
        const char *row = NULL;
        const int at = timeline_iteration(results[result].label, &row);
        if (at < 0) continue;
        text_format(&known, "%s'%s' %d", known.length > 0 ? ", " : "", row, at);
    }
    return error_set(err, STATUS_INVALID,
                     "%s: no such timeline of '%.60s'; recorded, with iterations: %s",
                     trace_store_path(store), wanted, known.length > 0 ? known.bytes : "none");
}

status ana_recorded_timeline(trace_store *store, const ana_recorded *recorded, const char *label,
                             int iteration, arena *memory, ana_timeline *timeline,
                             error_message *err)
{
    trace_run_result *results = NULL;
    int count = 0;
    int found = -1;
    int found_iteration = -1;
    TRY(trace_run_rows(store, recorded->info.run_id, TRACE_RUN_RESULTS, NULL, memory, &results,
                       &count, err));
    for (int result = 0; result < count; result++) {
        const char *row = NULL;
        const int at = timeline_iteration(results[result].label, &row);
        if (at < 0 || strcmp(row, label) != 0) continue;
        if (iteration >= 0 ? at == iteration : at > found_iteration) {
            found = result;
            found_iteration = at;
        }
    }
    if (found < 0) return refuse_timeline(store, results, count, label, memory, err);
    json_value root;
    TRY(json_read_text(results[found].label, results[found].result_json, memory, &root, err));
    return ana_timeline_read(root, memory, timeline, err);
}

status ana_recorded_plan(const trace_run_plan *recorded, arena *memory, bal_plan *plan,
                         error_message *err)
{
    char name[32];
    json_value root;
    snprintf(name, sizeof name, "plan %" PRId64, recorded->plan_id);
    TRY(json_read_text(name, recorded->plan_json, memory, &root, err));
    return bal_plan_read(root, memory, plan, err);
}

void ana_recorded_before_after(const ana_recorded *recorded, const char **before,
                               const char **after)
{
    double best = 0;
    *before = NULL;
    *after = NULL;
    const json_value rows = json_member(recorded->comparison, "rows");
    for (json_value row = json_element(rows, 0); !json_is_missing(row); row = json_next(row)) {
        const char *label = NULL;
        const char *balancer = NULL;
        double total_ns = 0;
        if (json_double(json_member(row, "total_ns"), 1, 1e300, &total_ns, NULL) != STATUS_OK ||
            json_string(json_member(row, "label"), &label, NULL) != STATUS_OK ||
            json_string(json_member(row, "balancer"), &balancer, NULL) != STATUS_OK) {
            continue;
        }
        if (*before == NULL || strcmp(balancer, "even") == 0) *before = label;
        if (*after == NULL || total_ns < best) {
            *after = label;
            best = total_ns;
        }
    }
    if (*before != NULL && strcmp(*before, *after) == 0) *after = NULL;
}
