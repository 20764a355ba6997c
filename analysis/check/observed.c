/// Reads a run out of a store: iterations, plans, decisions, work of ranks, op times, timelines.
#include "analysis/check/observed.h"

#include "analysis/report/recorded.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/// A run in the midst of being read.
typedef struct reading {
    trace_store *store;
    arena *memory;
    ana_observed *observed;
    error_message *err;
} reading;

/// Reads the rows that the label has of a kind.
static status read_rows(const reading *at, trace_run_table table, void *rows, int *count)
{
    return trace_run_rows(at->store, at->observed->info.run_id, table, at->observed->label,
                          at->memory, rows, count, at->err);
}

static status refuse_empty(const reading *at)
{
    return error_set(at->err, STATUS_INVALID, "%s: run %" PRId64 " (%s) has no iterations",
                     trace_store_path(at->store), at->observed->info.run_id,
                     trace_status_names[at->observed->info.status]);
}

/// The newest complete run, else the newest: a run that was interrupted can be checked, too.
static status find_run(trace_store *store, const char *name, arena *memory, trace_run_info *info,
                       error_message *err)
{
    const status found = trace_run_find(store, name, memory, info, err);
    if (found != STATUS_INVALID || name != NULL) return found;
    trace_run_info *runs = NULL;
    int count = 0;
    TRY(trace_run_list(store, memory, &runs, &count, err));
    if (count == 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: holds no runs; dynmo simulate --store and dynmo "
                         "run --store put them there",
                         trace_store_path(store));
    }
    *info = runs[count - 1];
    return STATUS_OK;
}

/// The row that is wanted, or the only one.
static status choose_row(const reading *at, const char *wanted)
{
    ana_observed *observed = at->observed;
    const char **labels = NULL;
    char known[300] = "";
    int count = 0;
    TRY(trace_run_rows(at->store, observed->info.run_id, TRACE_RUN_SERIES, NULL, at->memory,
                       &labels, &count, at->err));
    for (int row = 0; row < count; row++) {
        if (count == 1 || (wanted != NULL && strcmp(wanted, labels[row]) == 0)) {
            observed->label = labels[row];
        }
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s'%s'", row > 0 ? ", " : "", labels[row]);
    }
    if (observed->label != NULL) return STATUS_OK;
    if (count == 0) return refuse_empty(at);
    return error_set(at->err, STATUS_INVALID,
                     "%s: run %" PRId64 " has %d rows; --row says which: %s",
                     trace_store_path(at->store), observed->info.run_id, count, known);
}

/// Reads the iterations and the plan of each. Rows without a plan are of balancers without stages.
static status read_iterations(const reading *at)
{
    ana_observed *observed = at->observed;
    trace_run_iteration *rows = NULL;
    trace_run_plan *plans = NULL;
    int plan_count = 0;
    int own_count = 0;
    TRY(read_rows(at, TRACE_RUN_ITERATIONS, &rows, &observed->iteration_count));
    TRY(trace_run_rows(at->store, observed->info.run_id, TRACE_RUN_PLANS, NULL, at->memory, &plans,
                       &plan_count, at->err));
    bal_plan *read = arena_array(at->memory, (size_t)plan_count, sizeof *read);
    int64_t *ids = arena_array(at->memory, (size_t)plan_count, sizeof *ids);
    int *plan_of = arena_array(at->memory, (size_t)observed->iteration_count, sizeof *plan_of);
    for (int plan = 0; plan < plan_count; plan++) {
        if (strcmp(plans[plan].series, observed->label) != 0) continue;
        ids[own_count] = plans[plan].plan_id;
        TRY(ana_recorded_plan(&plans[plan], at->memory, &read[own_count++], at->err));
    }
    for (int row = 0; row < observed->iteration_count; row++) {
        plan_of[row] = own_count - 1;
        while (plan_of[row] >= 0 && ids[plan_of[row]] != rows[row].plan_id) {
            plan_of[row]--;
        }
        if (plan_of[row] >= 0 && rows[row].iteration_ns > 0) continue;
        return error_set(at->err, STATUS_INVALID,
                         "%s: row '%s' has no plan in iteration %d: it has loads and no times, and "
                         "cannot be checked",
                         trace_store_path(at->store), observed->label, rows[row].iteration);
    }
    observed->iterations = rows;
    observed->plan_of = plan_of;
    ana_observed_take_plans(observed, read, own_count);
    return observed->iteration_count > 0 ? STATUS_OK : refuse_empty(at);
}

void ana_observed_take_plans(ana_observed *observed, const bal_plan *plans, int plan_count)
{
    observed->plans = plans;
    observed->plan_count = plan_count;
    for (int plan = 0; plan < plan_count; plan++) {
        const int stages = plans[plan].rank_count * plans[plan].chunk_count;
        if (stages > observed->stage_count) observed->stage_count = stages;
        for (int place = 0; place < plans[plan].rank_count; place++) {
            const int ranks = plans[plan].stage_ranks[place] + 1;
            if (ranks > observed->rank_count) observed->rank_count = ranks;
        }
    }
}

/// Reads how long the ranks worked; the iterations of which that is known are the samples.
static status read_work(const reading *at)
{
    ana_observed *observed = at->observed;
    const int iterations = observed->iteration_count;
    trace_run_work *rows = NULL;
    int count = 0;
    TRY(read_rows(at, TRACE_RUN_WORK, &rows, &count));
    int *row_of = arena_array(at->memory, (size_t)count, sizeof *row_of); // index into iterations
    observed->sample_of = arena_array(at->memory, (size_t)iterations, sizeof *row_of);
    memset(observed->sample_of, -1, (size_t)iterations * sizeof *row_of);
    for (int work = 0, row = 0; work < count; work++) {
        while (row < iterations && observed->iterations[row].iteration < rows[work].iteration) {
            row++;
        }
        const bool is_known =
            row < iterations && observed->iterations[row].iteration == rows[work].iteration;
        row_of[work] = is_known ? row : -1;
        if (is_known && observed->sample_of[row] < 0) {
            observed->sample_of[row] = observed->sample_count++;
        }
    }
    const size_t cells = (size_t)observed->sample_count * (size_t)observed->rank_count;
    observed->work_ns = arena_array(at->memory, cells, sizeof *observed->work_ns);
    memset(observed->work_ns, -1, cells * sizeof *observed->work_ns);
    for (int work = 0; work < count; work++) {
        const int rank = rows[work].rank;
        if (row_of[work] < 0 || rank < 0 || rank >= observed->rank_count) continue;
        const int64_t sample = observed->sample_of[row_of[work]];
        observed->work_ns[sample * observed->rank_count + rank] = rows[work].work_ns;
    }
    return STATUS_OK;
}

/// Copies the op times of the sample before, then what is new: rows hold until the next.
static status read_op_times(const reading *at)
{
    ana_observed *observed = at->observed;
    trace_run_op_time *rows = NULL;
    int count = 0;
    TRY(read_rows(at, TRACE_RUN_OP_TIMES, &rows, &count));
    const size_t cells = (size_t)observed->stage_count * OP_KIND_COUNT;
    const size_t all = cells * (size_t)observed->sample_count;
    int64_t *op_ns = arena_array(at->memory, all, sizeof *op_ns);
    int64_t *travel_ns = arena_array(at->memory, all, sizeof *travel_ns);
    memset(op_ns, -1, all * sizeof *op_ns);
    memset(travel_ns, -1, all * sizeof *travel_ns);
    for (int iteration = 0, row = 0; iteration < observed->iteration_count; iteration++) {
        const int sample = observed->sample_of[iteration];
        if (sample < 0) continue;
        int64_t *ops = op_ns + (size_t)sample * cells;
        int64_t *travels = travel_ns + (size_t)sample * cells;
        if (sample > 0) {
            memcpy(ops, ops - cells, cells * sizeof *ops);
            memcpy(travels, travels - cells, cells * sizeof *travels);
        }
        for (; row < count && rows[row].iteration <= observed->iterations[iteration].iteration;
             row++) {
            if (rows[row].stage < 0 || rows[row].stage >= observed->stage_count) continue;
            const int cell = rows[row].stage * OP_KIND_COUNT + (int)rows[row].kind;
            ops[cell] = rows[row].median_ns;
            travels[cell] = rows[row].travel_ns;
        }
    }
    observed->has_op_times = count > 0;
    observed->op_ns = op_ns;
    observed->travel_ns = travel_ns;
    return STATUS_OK;
}

static status read_peaks(const reading *at, json_value row)
{
    ana_observed *observed = at->observed;
    const json_value peaks = json_member(row, "peak_memory_bytes");
    const int count = json_count(peaks);
    if (!json_is_array(peaks) || count < observed->rank_count) return STATUS_OK;
    int64_t *bytes = arena_array(at->memory, (size_t)count, sizeof *bytes);
    TRY(json_int64_array(peaks, count, 0, JSON_INTEGER_MAX, bytes, at->err));
    observed->peak_bytes = bytes;
    return STATUS_OK;
}

static status read_comparison(const reading *at, const char *json)
{
    json_value root;
    TRY(json_read_text("comparison", json, at->memory, &root, at->err));
    const json_value rows = json_member(root, "rows");
    for (json_value row = json_element(rows, 0); !json_is_missing(row); row = json_next(row)) {
        const char *label = "";
        if (json_is_string(json_member(row, "label"))) {
            json_string(json_member(row, "label"), &label, NULL);
        }
        if (strcmp(label, at->observed->label) == 0) TRY(read_peaks(at, row));
    }
    return STATUS_OK;
}

static status read_timeline(const reading *at, const char *json)
{
    ana_observed *observed = at->observed;
    ana_timeline *timeline = arena_array(at->memory, 1, sizeof *timeline);
    json_value root;
    TRY(json_read_text("timeline", json, at->memory, &root, at->err));
    TRY(ana_timeline_read(root, at->memory, timeline, at->err));
    if (observed->first == NULL) observed->first = timeline;
    observed->last = timeline;
    return STATUS_OK;
}

static status read_results(const reading *at)
{
    const ana_observed *observed = at->observed;
    trace_run_result *results = NULL;
    int count = 0;
    TRY(trace_run_rows(at->store, observed->info.run_id, TRACE_RUN_RESULTS, NULL, at->memory,
                       &results, &count, at->err));
    for (int result = 0; result < count; result++) {
        const char *label = results[result].label;
        int consumed = 0;
        int iteration = 0;
        if (strcmp(label, "comparison") == 0) {
            TRY(read_comparison(at, results[result].result_json));
        } else if (sscanf(label, "timeline/%d/%n", &iteration, &consumed) == 1 && consumed > 0 &&
                   strcmp(label + consumed, observed->label) == 0) {
            TRY(read_timeline(at, results[result].result_json));
        }
    }
    return STATUS_OK;
}

static void name_source(const reading *at)
{
    static const char *const kinds[TRACE_RUN_KIND_COUNT] = {[TRACE_RUN_SIM] = "simulated",
                                                            [TRACE_RUN_EXEC] = "executed",
                                                            [TRACE_RUN_IMPORT] = "import"};
    ana_observed *observed = at->observed;
    observed->source = arena_format(
        at->memory, "%.250s, run %" PRId64 " (%.80s, %s), row '%.80s'", trace_store_path(at->store),
        observed->info.run_id, observed->info.name, kinds[observed->info.kind], observed->label);
}

status ana_observed_read(trace_store *store, const char *name, const char *label, arena *memory,
                         ana_observed *observed, error_message *err)
{
    *observed = (ana_observed){0};
    const reading at = {.store = store, .memory = memory, .observed = observed, .err = err};
    trace_run_decision *decisions = NULL;
    TRY(find_run(store, name, memory, &observed->info, err));
    observed->is_predicted = observed->info.kind == TRACE_RUN_SIM;
    TRY(choose_row(&at, label));
    name_source(&at);
    TRY(read_iterations(&at));
    TRY(read_rows(&at, TRACE_RUN_DECISIONS, &decisions, &observed->decision_count));
    observed->decisions = decisions;
    TRY(read_work(&at));
    TRY(read_op_times(&at));
    return read_results(&at);
}

bool ana_observed_is_same_plan(const bal_plan *one, const bal_plan *other)
{
    const size_t bounds = (size_t)one->rank_count * (size_t)one->chunk_count + 1;
    return one->rank_count == other->rank_count && one->chunk_count == other->chunk_count &&
           memcmp(one->first_layer, other->first_layer, bounds * sizeof *one->first_layer) == 0 &&
           memcmp(one->stage_ranks, other->stage_ranks,
                  (size_t)one->rank_count * sizeof *one->stage_ranks) == 0;
}

int ana_observed_rank_of(const bal_plan *plan, int stage)
{
    return plan->stage_ranks[bal_rank_of_stage(plan->placement, plan->rank_count, plan->chunk_count,
                                               stage, NULL)];
}
