/// Reads a recorded trace as a run under one plan: its layers stand for stages, or are summed up to
/// those of a plan.
#include "analysis/check/observed.h"

#include "analysis/report/recording.h"
#include "balance/schedule/schedule.h"
#include "traces/store/catalog.h"
#include "traces/store/reader.h"

#include <string.h>

/// A trace in the midst of being read.
typedef struct reading {
    trace_store *store;
    trace_reader *reader;
    trace_info info;
    arena *memory;
    ana_observed *observed;
    error_message *err;
} reading;

/// A plan in which every layer is a stage of its own.
static bal_plan plan_by_layer(const trace_info *info, arena *memory)
{
    int *first_layer = arena_array(memory, (size_t)info->layer_count + 1, sizeof *first_layer);
    for (int layer = 0; layer <= info->layer_count; layer++) {
        first_layer[layer] = layer;
    }
    return (bal_plan){.first_layer = first_layer,
                      .rank_count = info->layer_count,
                      .chunk_count = 1,
                      .schedule = "recorded",
                      .microbatch_count = 1,
                      .stage_ranks = first_layer,
                      .data_parallel = 1};
}

static void take_plan(const reading *at, const bal_plan *plan)
{
    ana_observed *observed = at->observed;
    bal_plan *own = arena_array(at->memory, 1, sizeof *own);
    *own = plan != NULL ? *plan : plan_by_layer(&at->info, at->memory);
    if (at->info.microbatch_count > 0) own->microbatch_count = at->info.microbatch_count;
    observed->is_trace = true;
    observed->is_by_layer = plan == NULL;
    ana_observed_take_plans(observed, own, 1);
    if (plan == NULL) observed->rank_count = 0;
}

/// How many ranks the ops of replica 0 ran on; 0: there are none.
///
/// @param ran_on [layer_count] out: the rank of a layer; -1: none of its ops is known
static int ranks_of(const trace_op *ops, int count, int layer_count, int *ran_on)
{
    int rank_count = 0;
    memset(ran_on, -1, (size_t)layer_count * sizeof *ran_on);
    for (int op = 0; op < count; op++) {
        if (ops[op].replica != 0) continue; // others run the same stages on ranks of their own
        if (ops[op].rank >= rank_count) rank_count = ops[op].rank + 1;
        if (ops[op].layer >= 0 && ops[op].layer < layer_count) {
            ran_on[ops[op].layer] = ops[op].rank;
        }
    }
    return rank_count;
}

/// Whether the layers that the plan has on one rank ran on one.
static bool ran_together(const ana_observed *observed, const int *ran_on, arena *scratch)
{
    const bal_plan *plan = &observed->plans[0];
    int *found = arena_array(scratch, (size_t)observed->rank_count, sizeof *found);
    memset(found, -1, (size_t)observed->rank_count * sizeof *found);
    for (int stage = 0; stage < observed->stage_count; stage++) {
        const int rank = ana_observed_rank_of(plan, stage);
        for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
            if (ran_on[layer] < 0) continue;
            if (found[rank] >= 0 && found[rank] != ran_on[layer]) return false;
            found[rank] = ran_on[layer];
        }
    }
    return true;
}

/// A trace that ran under another plan says nothing of the plan's ranks.
static status compare_ranks(const reading *at, arena *scratch)
{
    ana_observed *observed = at->observed;
    trace_op *ops = NULL;
    int count = 0;
    int *ran_on = arena_array(scratch, (size_t)at->info.layer_count, sizeof *ran_on);
    if (observed->is_by_layer) return STATUS_OK;
    TRY(trace_ops(at->store, at->info.trace_id, (int)at->info.first_iteration, scratch, &ops,
                  &count, at->err));
    observed->recorded_rank_count = ranks_of(ops, count, at->info.layer_count, ran_on);
    observed->is_elsewhere = observed->recorded_rank_count > 0 &&
                             (observed->recorded_rank_count != observed->plans[0].rank_count ||
                              !ran_together(observed, ran_on, scratch));
    if (observed->is_elsewhere) observed->rank_count = 0;
    observed->is_of_work = observed->is_elsewhere;
    return STATUS_OK;
}

/// Room for all samples.
static void carve(const reading *at)
{
    ana_observed *observed = at->observed;
    arena *memory = at->memory;
    const size_t samples = (size_t)at->info.iteration_count;
    const size_t cells = samples * (size_t)observed->stage_count * OP_KIND_COUNT;
    observed->iterations = arena_array(memory, samples, sizeof *observed->iterations);
    observed->sample_of = arena_array(memory, samples, sizeof *observed->sample_of);
    observed->plan_of = arena_array(memory, samples, sizeof *observed->plan_of); // all of one
    observed->work_ns =
        arena_array(memory, samples * (size_t)observed->rank_count, sizeof *observed->work_ns);
    observed->op_ns = arena_array(memory, cells, sizeof *observed->op_ns);
    observed->travel_ns = arena_array(memory, cells, sizeof *observed->travel_ns);
    observed->trace_work_ns = arena_array(memory, samples, sizeof *observed->trace_work_ns);
    memset(observed->op_ns, -1, cells * sizeof *observed->op_ns);
    memset(observed->travel_ns, -1, cells * sizeof *observed->travel_ns);
    observed->has_op_times = true;
}

/// Whether a side has B and W apart: a schedule that does not split them plays both as one op.
static bool is_split(const ana_observed *observed, const bal_layer_costs *costs)
{
    const bal_schedule_family *family = bal_schedule_family_find(observed->plans[0].schedule);
    return costs->has_split && (family == NULL || family->has_split);
}

/// Adds what the layers of a stage take, [layer][column], to the sums, [column].
static void add_layers(const bal_layer_costs *costs, const int64_t *ns, const int *bounds,
                       int64_t *sums)
{
    const int columns = costs->microbatch_count;
    for (int layer = bounds[0]; layer < bounds[1]; layer++) {
        for (int column = 0; column < columns; column++) {
            sums[column] += ns[layer * columns + column];
        }
    }
}

/// Turns the sums into an op: the median over the microbatches, as of the ops of a run. Sums begin
/// anew.
///
/// @return what all of them took
static int64_t take_op(int64_t *sums, int columns, int64_t *op_ns)
{
    int64_t all_ns = 0;
    for (int column = 0; column < columns; column++) {
        all_ns += sums[column];
    }
    if (all_ns > 0) *op_ns = ana_op_median(sums, columns);
    memset(sums, 0, (size_t)columns * sizeof *sums);
    return all_ns;
}

/// @param ops [OP_KIND_COUNT] out: of the stage
/// @return its work on all microbatches that the costs tell apart
static int64_t take_stage(const bal_layer_costs *costs, const int *bounds, bool is_split,
                          int64_t *sums, int64_t *ops)
{
    const int columns = costs->microbatch_count;
    add_layers(costs, costs->forward_ns, bounds, sums);
    int64_t all_ns = take_op(sums, columns, &ops[OP_FORWARD]);
    add_layers(costs, costs->backward_input_ns, bounds, sums);
    if (is_split) all_ns += take_op(sums, columns, &ops[OP_BACKWARD_INPUT]);
    if (costs->has_split) add_layers(costs, costs->backward_weight_ns, bounds, sums);
    return all_ns + take_op(sums, columns, &ops[is_split ? OP_BACKWARD_WEIGHT : OP_BACKWARD]);
}

/// Sums all layers up to their stages. @return the work of the iteration
static int64_t take_stages(const reading *at, const bal_layer_costs *costs, int sample,
                           arena *scratch)
{
    const ana_observed *observed = at->observed;
    const bal_plan *plan = &observed->plans[0];
    const int repeats = plan->microbatch_count / costs->microbatch_count; // of a mean
    int64_t *sums = arena_array(scratch, (size_t)costs->microbatch_count, sizeof *sums);
    int64_t all_ns = 0;
    for (int stage = 0; stage < observed->stage_count; stage++) {
        const int64_t row = (int64_t)sample * observed->stage_count + stage;
        const int64_t ns =
            repeats * take_stage(costs, &plan->first_layer[stage], is_split(observed, costs), sums,
                                 observed->op_ns + row * OP_KIND_COUNT);
        all_ns += ns;
        if (observed->rank_count == 0) continue;
        const int rank = ana_observed_rank_of(plan, stage);
        observed->work_ns[(int64_t)sample * observed->rank_count + rank] += ns;
    }
    return all_ns;
}

/// Reads a sample; it lasts from its first op to its last or, without ops, as long as its work.
static status read_sample(const reading *at, int iteration, int sample, arena *scratch)
{
    bal_layer_costs costs;
    bool changed = false;
    trace_op *ops = NULL;
    int count = 0;
    int64_t begin_ns = INT64_MAX;
    int64_t end_ns = 0;
    TRY(trace_reader_costs_at(at->reader, iteration, &costs, &changed, at->err));
    const int64_t work_ns = take_stages(at, &costs, sample, scratch);
    TRY(trace_ops(at->store, at->info.trace_id, iteration, scratch, &ops, &count, at->err));
    for (int op = 0; op < count; op++) {
        if (ops[op].begin_ns < begin_ns) begin_ns = ops[op].begin_ns;
        if (ops[op].end_ns > end_ns) end_ns = ops[op].end_ns;
    }
    const int64_t length_ns = count > 0 ? end_ns - begin_ns : work_ns;
    if (length_ns <= 0) {
        return error_set(at->err, STATUS_INVALID, "%s: iteration %d takes no time",
                         at->observed->source, iteration);
    }
    at->observed->trace_work_ns[sample] = work_ns;
    at->observed->is_of_work = at->observed->is_of_work || count == 0;
    at->observed->sample_of[sample] = sample;
    at->observed->iterations[sample] = (trace_run_iteration){
        .iteration = iteration, .iteration_ns = length_ns, .makespan_ns = length_ns};
    return STATUS_OK;
}

static status read_samples(const reading *at)
{
    ana_observed *observed = at->observed;
    arena *scratch = arena_within(at->memory, 1 << 16);
    int iteration = -1;
    TRY(compare_ranks(at, scratch));
    carve(at);
    TRY(trace_next_sample(at->store, at->info.trace_id, iteration, &iteration, at->err));
    while (iteration >= 0 && observed->sample_count < at->info.iteration_count) {
        arena_reset(scratch);
        TRY(read_sample(at, iteration, observed->sample_count, scratch));
        observed->iteration_count = ++observed->sample_count;
        TRY(trace_next_sample(at->store, at->info.trace_id, iteration, &iteration, at->err));
    }
    return STATUS_OK;
}

status ana_observed_read_trace(trace_store *store, const char *name, const bal_plan *plan,
                               arena *memory, ana_observed *observed, error_message *err)
{
    reading at = {.store = store, .memory = memory, .observed = observed, .err = err};
    TRY(trace_find(store, name, memory, &at.info, err));
    const char *source =
        arena_format(memory, "%.250s, trace '%.80s'", trace_store_path(store), at.info.name);
    *observed = (ana_observed){.source = source,
                               .label = at.info.name,
                               .info = {.run_id = at.info.trace_id,
                                        .status = TRACE_COMPLETE,
                                        .name = at.info.name,
                                        .kind = TRACE_RUN_IMPORT}};
    const int layers = plan != NULL ? plan->first_layer[plan->rank_count * plan->chunk_count]
                                    : at.info.layer_count;
    if (layers != at.info.layer_count) {
        return error_set(err, STATUS_INVALID, "%s has %d layers, the plan of the other side %d",
                         source, at.info.layer_count, layers);
    }
    take_plan(&at, plan);
    TRY(trace_reader_open(store, at.info.trace_id, TRACE_COLUMNS_RECORDED, at.memory, &at.reader,
                          err));
    return read_samples(&at);
}
