#include "analysis/report/imbalance.h"

#include "balance/metrics.h"
#include "balance/partition/balancer.h"
#include "traces/store/runs.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/// Adds a load to a sum of loads; both are >= 0.
static status add_load(int64_t *sum_ns, int64_t load_ns, error_message *err)
{
    if (load_ns > INT64_MAX - *sum_ns) {
        return error_set(err, STATUS_INVALID, "a sum of loads does not fit 64 bits");
    }
    *sum_ns += load_ns;
    return STATUS_OK;
}

static status add_mean(const int64_t *row, int columns, int64_t *sum_ns, error_message *err)
{
    int64_t row_ns = 0;
    for (int column = 0; column < columns; column++) {
        TRY(add_load(&row_ns, row[column], err));
    }
    return add_load(sum_ns, row_ns / columns, err);
}

/// Splits layer_ns evenly and adds up.
static status split(const bal_layer_costs *costs, int worker_count, arena *memory,
                    ana_imbalance *imbalance, error_message *err)
{
    const bal_problem problem = {
        .layers = *costs,
        .stage_count = worker_count,
        .weight = BAL_WEIGHT_TIME,
        .microbatch_count = 1,
    };
    bal_answer answer;
    TRY(bal_balance(bal_balancer_find("even"), &problem, memory, &answer, err));
    int64_t *worker_ns = arena_array(memory, (size_t)worker_count, sizeof *worker_ns);
    for (int worker = 0; worker < worker_count; worker++) {
        for (int layer = answer.first_layer[worker]; layer < answer.first_layer[worker + 1];
             layer++) {
            TRY(add_load(&worker_ns[worker], imbalance->layer_ns[layer], err));
        }
        TRY(add_load(&imbalance->total_ns, worker_ns[worker], err));
    }
    imbalance->first_layer = answer.first_layer;
    imbalance->worker_ns = worker_ns;
    imbalance->worker_count = worker_count;
    imbalance->load_spread_ratio = bal_load_spread_ratio(worker_ns, worker_count);
    return STATUS_OK;
}

status ana_imbalance_of_costs(const bal_layer_costs *costs, int worker_count, arena *memory,
                              ana_imbalance *imbalance, error_message *err)
{
    const int columns = costs->microbatch_count;
    int64_t *layer_ns = arena_array(memory, (size_t)costs->layer_count, sizeof *layer_ns);
    for (int layer = 0; layer < costs->layer_count; layer++) {
        const size_t row = (size_t)layer * (size_t)columns;
        TRY(add_mean(costs->forward_ns + row, columns, &layer_ns[layer], err));
        TRY(add_mean(costs->backward_input_ns + row, columns, &layer_ns[layer], err));
        TRY(add_mean(costs->backward_weight_ns + row, columns, &layer_ns[layer], err));
    }
    ana_imbalance result = {.layer_count = costs->layer_count, .layer_ns = layer_ns};
    TRY(split(costs, worker_count, memory, &result, err));
    *imbalance = result;
    return STATUS_OK;
}

/// Adds how uneven the tokens of each layer's experts are.
static status add_experts(model_dynamism *dynamism, int iteration, arena *memory,
                          ana_imbalance *imbalance, error_message *err)
{
    model_expert_tokens tokens;
    TRY(model_dynamism_expert_tokens(dynamism, iteration, 0, &tokens, err));
    if (tokens.expert_count == 0) return STATUS_OK;
    double *spread = arena_array(memory, (size_t)tokens.layer_count, sizeof *spread);
    double sum = 0;
    for (int layer = 0; layer < tokens.layer_count; layer++) {
        const int64_t *row = tokens.tokens + (size_t)layer * (size_t)tokens.expert_count;
        int64_t all = 0;
        for (int expert = 0; expert < tokens.expert_count; expert++) {
            all += row[expert];
        }
        spread[layer] = -1;
        if (all == 0) continue;
        spread[layer] = bal_load_spread_ratio(row, tokens.expert_count);
        sum += spread[layer];
        if (spread[layer] > imbalance->expert_spread_max) {
            imbalance->expert_spread_max = spread[layer];
        }
        imbalance->expert_layer_count++;
    }
    if (imbalance->expert_layer_count > 0) {
        imbalance->expert_spread = spread;
        imbalance->expert_spread_mean = sum / imbalance->expert_layer_count;
    }
    return STATUS_OK;
}

status ana_imbalance_of_study(const ana_setup *setup, int iteration, int worker_count,
                              arena *memory, ana_imbalance *imbalance, error_message *err)
{
    bal_layer_costs costs;
    bool changed = false;
    const bal_cost_source *source = &setup->still;
    TRY(source->costs_at(source->context, iteration, &costs, &changed, err));
    if (setup->dynamism == NULL) {
        TRY(ana_imbalance_of_costs(&costs, worker_count, memory, imbalance, err));
        imbalance->iteration = iteration;
        return STATUS_OK;
    }
    int64_t *layer_ns = arena_array(memory, (size_t)costs.layer_count, sizeof *layer_ns);
    TRY(model_dynamism_published_load(setup->dynamism, iteration, 0, layer_ns, err));
    ana_imbalance result = {
        .iteration = iteration, .layer_count = costs.layer_count, .layer_ns = layer_ns};
    TRY(source->costs_at(source->context, iteration, &costs, &changed, err));
    TRY(split(&costs, worker_count, memory, &result, err));
    TRY(add_experts(setup->dynamism, iteration, memory, &result, err));
    *imbalance = result;
    return STATUS_OK;
}

/// Refuses a row that the run does not have.
static status check_series(trace_store *store, const trace_run_info *run, const char *series,
                           arena *memory, error_message *err)
{
    const char **labels = NULL;
    int count = 0;
    char known[160] = "";
    TRY(trace_run_series(store, run->run_id, memory, &labels, &count, err));
    for (int label = 0; label < count; label++) {
        if (strcmp(labels[label], series) == 0) return STATUS_OK;
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s'%s'", label > 0 ? ", " : "", labels[label]);
    }
    return error_set(err, STATUS_INVALID, "%s: no row '%.60s' in run %" PRId64 "; there are %s",
                     trace_store_path(store), series, run->run_id, known);
}

/// One iteration's rows of work as an imbalance.
static status imbalance_of_work(const trace_run_work *work, int count, arena *memory,
                                ana_imbalance *imbalance, error_message *err)
{
    int64_t *worker_ns = arena_array(memory, (size_t)count, sizeof *worker_ns);
    *imbalance = (ana_imbalance){.iteration = work[0].iteration, .worker_count = count};
    for (int place = 0; place < count; place++) {
        worker_ns[place] = work[place].work_ns;
        TRY(add_load(&imbalance->total_ns, work[place].work_ns, err));
    }
    imbalance->worker_ns = worker_ns;
    imbalance->load_spread_ratio = bal_load_spread_ratio(worker_ns, count);
    return STATUS_OK;
}

status ana_imbalance_of_run(trace_store *store, const char *run, const char *series, int first,
                            int last, arena *memory, ana_imbalance **imbalances, int *count,
                            error_message *err)
{
    trace_run_info info;
    trace_run_work *work = NULL;
    int work_count = 0;
    TRY(trace_run_find(store, run, memory, &info, err));
    TRY(check_series(store, &info, series, memory, err));
    TRY(trace_run_work_of(store, info.run_id, series, memory, &work, &work_count, err));
    ana_imbalance *found = arena_array(memory, (size_t)work_count + 1, sizeof *found);
    int begin = 0;
    *count = 0;
    for (int index = 1; index <= work_count; index++) {
        const int iteration = work[begin].iteration;
        if (index < work_count && work[index].iteration == iteration) continue;
        if (iteration >= first && iteration <= last) {
            TRY(imbalance_of_work(&work[begin], index - begin, memory, &found[*count], err));
            ++*count;
        }
        begin = index;
    }
    if (*count == 0) {
        return error_set(err, STATUS_INVALID,
                         "%s: the work of '%.60s' was not recorded in iterations %d:%d",
                         trace_store_path(store), series, first, last);
    }
    *imbalances = found;
    return STATUS_OK;
}
