/// Which layers the stages of a run had, by what layers and ops took.
#include "analysis/stragglers/causes.h"

#include "traces/store/catalog.h"
#include "traces/store/reader.h"
#include "traces/store/store.h"

#include <math.h>
#include <string.h>

/// Adds what the layers took in the steps of the run.
///
/// @param layer_ns [info->layer_count]
/// @param ends     out: whether the first layer is the embedding, and the last the head
static status add_layers(trace_store *store, const trace_info *info, const ana_op_run *run,
                         arena *memory, int64_t *layer_ns, bool ends[2], error_message *err)
{
    trace_reader *reader = NULL;
    TRY(trace_reader_open(store, info->trace_id, TRACE_COLUMNS_MEAN, memory, &reader, err));
    for (int step = 0; step < run->step_count; step++) {
        bal_layer_costs costs;
        bool is_changed = false;
        TRY(trace_reader_costs_at(reader, run->steps[step].step, &costs, &is_changed, err));
        ends[0] = costs.embedding;
        ends[1] = costs.head;
        for (int layer = 0; layer < info->layer_count; layer++) {
            for (int pass = 0; pass < BAL_COST_TIMES_COUNT; pass++) {
                layer_ns[layer] += costs.arrays[pass][layer] / run->step_count;
            }
        }
    }
    return STATUS_OK;
}

/// What each stage took with all before it, of all stages' time. @param share [stage_count] out
static bool find_shares(const ana_op_run *run, double *share)
{
    const int stages = run->stage_count;
    for (int step = 0; step < run->step_count; step++) {
        const ana_op_step *each = &run->steps[step];
        for (int op = 0; op < each->op_count; op++) {
            if (each->ops[op].kind > TRACE_OP_BACKWARD) continue;
            share[each->ops[op].stage] += (double)each->own_ns[op];
        }
    }
    for (int stage = 1; stage < stages; stage++) {
        share[stage] += share[stage - 1];
    }
    for (int stage = 0; stage < stages && share[stages - 1] > 0; stage++) {
        share[stage] /= share[stages - 1];
    }
    return share[stages - 1] > 0;
}

/// Cuts the layers where their times come nearest to those of the stages.
static void cut(const int64_t *layer_ns, int layer_count, const double *share, int stage_count,
                int *counts)
{
    double total_ns = 0;
    double before_ns = 0;
    int first = 0;
    for (int layer = 0; layer < layer_count; layer++) {
        total_ns += (double)layer_ns[layer];
    }
    for (int stage = 0; stage + 1 < stage_count; stage++) {
        const int most = layer_count - first - (stage_count - 1 - stage);
        int count = 1;
        before_ns += (double)layer_ns[first];
        while (count < most) {
            const double with_ns = before_ns + (double)layer_ns[first + count];
            if (fabs(with_ns / total_ns - share[stage]) >=
                fabs(before_ns / total_ns - share[stage])) {
                break;
            }
            before_ns = with_ns;
            count++;
        }
        counts[stage] = count;
        first += count;
    }
    counts[stage_count - 1] = layer_count - first;
}

/// Whether the layers are those of the trace, or would be with embedding and head.
///
/// @param counts [stage_count] to the first stage and the last these are added
static bool are_of_trace(int *counts, int stage_count, int layer_count, const bool ends[2])
{
    int left = layer_count;
    for (int stage = 0; stage < stage_count; stage++) {
        left -= counts[stage];
    }
    if (left == 0) return true;
    counts[0] += ends[0];
    counts[stage_count - 1] += ends[1];
    return left == ends[0] + ends[1];
}

static status find_layers(trace_store *store, const char *trace, const ana_op_run *run,
                          arena *memory, ana_stage_layers *layers, error_message *err)
{
    trace_info info;
    bool ends[2] = {false};
    const size_t stages = (size_t)run->stage_count;
    double *share = arena_array(memory, stages, sizeof *share);
    TRY(trace_find(store, trace, memory, &info, err));
    if (run->table->chunk_count > 1 || info.layer_count <= run->stage_count) return STATUS_OK;
    int64_t *layer_ns = arena_array(memory, (size_t)info.layer_count, sizeof *layer_ns);
    int *counts = arena_array(memory, stages, sizeof *counts);
    TRY(add_layers(store, &info, run, memory, layer_ns, ends, err));
    if (layers->counts != NULL) {
        memcpy(counts, layers->counts, stages * sizeof *counts);
        if (!are_of_trace(counts, run->stage_count, info.layer_count, ends)) return STATUS_OK;
    } else {
        if (!find_shares(run, share)) return STATUS_OK;
        cut(layer_ns, info.layer_count, share, run->stage_count, counts);
    }
    *layers =
        (ana_stage_layers){.counts = counts, .has_ends = ends[0] || ends[1], .layer_ns = layer_ns};
    return STATUS_OK;
}

status ana_stage_layers_of_trace(const char *path, const char *trace, const ana_op_run *run,
                                 const int *given, arena *memory, ana_stage_layers *layers,
                                 error_message *err)
{
    trace_store *store = NULL;
    *layers = (ana_stage_layers){.counts = given};
    TRY(trace_store_open_within(path, TRACE_READ, memory, &store, err));
    return find_layers(store, trace, run, memory, layers, err);
}
