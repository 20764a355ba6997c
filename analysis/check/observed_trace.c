/// Reads a recorded trace as a run under one plan: its layers stand for stages, or are summed up to
/// those of a plan.
#include "analysis/check/observed.h"

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

/// Adds a layer to the ops of its stage, [OP_KIND_COUNT]. @return its work of one microbatch
static int64_t add_layer(const bal_layer_costs *costs, int layer, int64_t *ops)
{
    const bool is_split = costs->has_split;
    const int64_t ns[] = {costs->forward_ns[layer], costs->backward_input_ns[layer],
                          is_split ? costs->backward_weight_ns[layer] : 0};
    const bal_op_kind kinds[] = {OP_FORWARD, is_split ? OP_BACKWARD_INPUT : OP_BACKWARD,
                                 OP_BACKWARD_WEIGHT};
    for (int each = 0; each < 3; each++) {
        if (ns[each] > 0)
            ops[kinds[each]] = ns[each] + (ops[kinds[each]] > 0 ? ops[kinds[each]] : 0);
    }
    return ns[0] + ns[1] + ns[2];
}

/// Adds all layers to their stages. @return the work of the iteration
static int64_t add_layers(const reading *at, const bal_layer_costs *costs, int sample)
{
    const ana_observed *observed = at->observed;
    const bal_plan *plan = &observed->plans[0];
    int64_t all_ns = 0;
    for (int stage = 0; stage < observed->stage_count; stage++) {
        const int64_t row = (int64_t)sample * observed->stage_count + stage;
        int64_t sum = 0;
        for (int layer = plan->first_layer[stage]; layer < plan->first_layer[stage + 1]; layer++) {
            sum += add_layer(costs, layer, observed->op_ns + row * OP_KIND_COUNT);
        }
        sum *= plan->microbatch_count;
        all_ns += sum;
        if (observed->is_by_layer) continue;
        const int rank = ana_observed_rank_of(plan, stage);
        observed->work_ns[(int64_t)sample * observed->rank_count + rank] += sum;
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
    const int64_t work_ns = add_layers(at, &costs, sample);
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
    TRY(trace_reader_open(store, at.info.trace_id, TRACE_COLUMNS_MEAN, at.memory, &at.reader, err));
    return read_samples(&at);
}
