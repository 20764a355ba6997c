/// The time that no split and no order of ops beats, for the run of a point.
#include "analysis/whatif/point.h"

#include "analysis/compare/contiguous_bound.h"
#include "balance/schedule/schedule.h"
#include "base/text.h"

#include <string.h>

/// Whether the bounds below hold for the run.
static bool is_proven(const ana_setup *setup, const ana_balancing *balancing)
{
    const bal_repack_options *repack = &balancing->repack.options;
    if (balancing->balancer->owns_freely) return false;
    if (repack->kind != BAL_REPACK_NONE && repack->use == BAL_RELEASED_REPLICATE) return false;
    const bal_disturbance *disturbance = &setup->study->disturbance;
    if (disturbance->op_sigma > 0 || disturbance->iteration_sigma > 0 ||
        disturbance->rank_sigma > 0) {
        return false; // what is drawn may be faster than its costs
    }
    for (int slow = 0; slow < setup->study->slow_rank_count; slow++) {
        if (setup->study->slow_ranks[slow].time_factor < 1) return false;
    }
    return true;
}

/// The work of a layer over all microbatches; below 0 if it does not fit.
static int64_t layer_work_ns(const bal_layer_costs *costs, int layer, int microbatch_count)
{
    const int columns = costs->microbatch_count;
    const int64_t *times[] = {costs->forward_ns, costs->backward_input_ns,
                              costs->backward_weight_ns};
    int64_t work = 0;
    for (int microbatch = 0; microbatch < microbatch_count; microbatch++) {
        const int64_t at = (int64_t)layer * columns + microbatch % columns;
        for (int pass = 0; pass < 3; pass++) {
            if (times[pass][at] > INT64_MAX / 4 - work) return -1;
            work += times[pass][at];
        }
    }
    return work;
}

/// The larger of an even share and of the longest layer.
static int64_t share_bound_ns(const bal_layer_costs *costs, int rank_count, int microbatch_count)
{
    int64_t all = 0;
    int64_t longest = 0;
    for (int layer = 0; layer < costs->layer_count; layer++) {
        const int64_t work = layer_work_ns(costs, layer, microbatch_count);
        if (work < 0 || work > INT64_MAX / 4 - all) return 0; // the player refuses such costs
        all += work;
        if (work > longest) longest = work;
    }
    const int64_t share = (all + rank_count - 1) / rank_count;
    return share > longest ? share : longest;
}

static int64_t bare_reduction_ns(const ana_setup *setup, const bal_layer_costs *costs)
{
    int64_t sum = 0;
    if (setup->study->reduction_overlap != BAL_REDUCTION_EXPOSED) return 0;
    for (int layer = 0; costs->reduction_ns != NULL && layer < costs->layer_count; layer++) {
        if (costs->reduction_ns[layer] > INT64_MAX / 4 - sum) return 0;
        sum += costs->reduction_ns[layer];
    }
    return sum / setup->machine.rank_count;
}

static status bound_makespan(const ana_setup *setup, const bal_layer_costs *costs, int microbatches,
                             int64_t *makespan_ns, error_message *err)
{
    ana_contiguous_bound contiguous = {0, 0};
    arena *memory = arena_create(1 << 14);
    const status bounded = ana_bound_contiguous(costs, setup->machine.rank_count, microbatches,
                                                memory, &contiguous, err);
    arena_destroy(memory);
    *makespan_ns = contiguous.makespan_ns;
    return bounded;
}

/// The same where another point has asked for it, which it costs more to find than to look up.
static status find_makespan(const ana_setup *setup, const bal_layer_costs *costs, int microbatches,
                            int64_t *makespan_ns, error_message *err)
{
    const ana_setup_cache *cache = setup->cache;
    const int counts[] = {setup->machine.rank_count, microbatches, costs->microbatch_count};
    const size_t bytes = (size_t)costs->layer_count * (size_t)costs->microbatch_count * 8;
    if (cache == NULL || 3 * bytes + sizeof counts > ANA_MEMO_KEY_BYTES_MAX) {
        return bound_makespan(setup, costs, microbatches, makespan_ns, err);
    }
    text_buffer key = {0};
    text_append_bytes(&key, (const char *)counts, sizeof counts);
    text_append_bytes(&key, (const char *)costs->forward_ns, bytes);
    text_append_bytes(&key, (const char *)costs->backward_input_ns, bytes);
    text_append_bytes(&key, (const char *)costs->backward_weight_ns, bytes);
    ana_memo_entry *entry = ana_memo_find(cache->bounds, key.bytes, key.length);
    text_free(&key);
    if (entry->value == NULL) {
        TRY(bound_makespan(setup, costs, microbatches, makespan_ns, err));
        entry->value = memcpy(arena_array(entry->memory, 1, sizeof *makespan_ns), makespan_ns,
                              sizeof *makespan_ns);
    }
    *makespan_ns = *(const int64_t *)entry->value;
    return STATUS_OK;
}

/// Bounds an iteration of these costs.
static status bound_iteration(const ana_setup *setup, const bal_layer_costs *costs,
                              int64_t *bound_ns, error_message *err)
{
    const int ranks = setup->machine.rank_count;
    // Passes one after the other are one order of the microbatches of all.
    const int microbatches = setup->microbatch_count * setup->study->round_count;
    if (setup->stage_count == ranks && !setup->study->post_validation) {
        TRY(find_makespan(setup, costs, microbatches, bound_ns, err));
    } else {
        *bound_ns = share_bound_ns(costs, ranks, microbatches);
    }
    *bound_ns += bare_reduction_ns(setup, costs) + setup->study->optimizer_step_ns;
    return STATUS_OK;
}

static status bound_run(const ana_setup *setup, const bal_cost_source *source, bal_costs_copy *seen,
                        int64_t *total_ns, error_message *err)
{
    int64_t sum = 0;
    int64_t bound_ns = 0;
    for (int iteration = 0; iteration < setup->iteration_count; iteration++) {
        bal_layer_costs costs;
        bool changed = false;
        TRY(source->costs_at(source->context, iteration, &costs, &changed, err));
        // A source that announces changes does not say whether numbers differ.
        const bool may_differ = changed || source->announces_changes || iteration == 0;
        if (may_differ && !bal_costs_copy_equals(seen, &costs)) {
            TRY(bound_iteration(setup, &costs, &bound_ns, err));
            if (source->announces_changes) bal_costs_copy_take(seen, &costs);
        }
        if (bound_ns > INT64_MAX - sum) return STATUS_OK;
        sum += bound_ns;
    }
    *total_ns = sum;
    return STATUS_OK;
}

status ana_run_bound(const ana_setup *setup, const ana_balancing *balancing, int64_t *total_ns,
                     error_message *err)
{
    bal_costs_copy seen = {0};
    *total_ns = 0;
    if (!is_proven(setup, balancing)) return STATUS_OK;
    const status bounded =
        bound_run(setup, ana_setup_sources(setup, balancing), &seen, total_ns, err);
    bal_costs_copy_free(&seen);
    return bounded;
}
