#include "analysis/whatif/run_bound.h"

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

static status bound_makespan(ana_run_bound *bound, const bal_layer_costs *costs, int microbatches,
                             int64_t *makespan_ns, error_message *err)
{
    ana_contiguous_bound contiguous = {0, 0};
    arena_reset(bound->memory);
    TRY(ana_bound_contiguous(costs, bound->setup->machine.rank_count, microbatches, bound->memory,
                             &contiguous, err));
    *makespan_ns = contiguous.makespan_ns;
    return STATUS_OK;
}

/// The same where another point has asked for it, which it costs more to find than to look up.
static status find_makespan(ana_run_bound *bound, const bal_layer_costs *costs, int microbatches,
                            int64_t *makespan_ns, error_message *err)
{
    const ana_setup_cache *cache = bound->setup->cache;
    const int counts[] = {bound->setup->machine.rank_count, microbatches, costs->microbatch_count};
    const size_t bytes = (size_t)costs->layer_count * (size_t)costs->microbatch_count * 8;
    if (cache == NULL || 3 * bytes + sizeof counts > ANA_MEMO_KEY_BYTES_MAX) {
        return bound_makespan(bound, costs, microbatches, makespan_ns, err);
    }
    text_buffer key = {0};
    text_append_bytes(&key, (const char *)counts, sizeof counts);
    text_append_bytes(&key, (const char *)costs->forward_ns, bytes);
    text_append_bytes(&key, (const char *)costs->backward_input_ns, bytes);
    text_append_bytes(&key, (const char *)costs->backward_weight_ns, bytes);
    ana_memo_entry *entry = ana_memo_find(cache->bounds, key.bytes, key.length);
    text_free(&key);
    if (entry->value == NULL) {
        TRY(bound_makespan(bound, costs, microbatches, makespan_ns, err));
        entry->value = memcpy(arena_array(entry->memory, 1, sizeof *makespan_ns), makespan_ns,
                              sizeof *makespan_ns);
    }
    *makespan_ns = *(const int64_t *)entry->value;
    return STATUS_OK;
}

/// Bounds an iteration of these costs.
static status bound_iteration(ana_run_bound *bound, const bal_layer_costs *costs,
                              error_message *err)
{
    const ana_setup *setup = bound->setup;
    const int ranks = setup->machine.rank_count;
    // Passes one after the other are one order of the microbatches of all.
    const int microbatches = setup->microbatch_count * setup->study->round_count;
    if (setup->stage_count == ranks && !setup->study->post_validation) {
        TRY(find_makespan(bound, costs, microbatches, &bound->iteration_ns, err));
    } else {
        bound->iteration_ns = share_bound_ns(costs, ranks, microbatches);
    }
    bound->iteration_ns += bare_reduction_ns(setup, costs) + setup->study->optimizer_step_ns;
    return STATUS_OK;
}

static status note(ana_run_bound *bound, const bal_layer_costs *costs, bool may_differ,
                   error_message *err)
{
    bound->next_iteration++;
    if (bound->total_ns < 0) return STATUS_OK;
    if (may_differ && !bal_costs_copy_equals(&bound->seen, costs)) {
        TRY(bound_iteration(bound, costs, err));
        if (bound->inner.announces_changes) bal_costs_copy_take(&bound->seen, costs);
    }
    const bool fits = bound->iteration_ns <= INT64_MAX - bound->total_ns;
    bound->total_ns = fits ? bound->total_ns + bound->iteration_ns : -1;
    return STATUS_OK;
}

/// The first source of the player: what it gives for an iteration is noted once.
static status noted_costs_at(void *context, int iteration, bal_layer_costs *costs, bool *changed,
                             error_message *err)
{
    ana_run_bound *bound = context;
    TRY(bound->inner.costs_at(bound->inner.context, iteration, costs, changed, err));
    if (iteration != bound->next_iteration) return STATUS_OK;
    // A source that announces changes does not say whether numbers differ.
    return note(bound, costs, *changed || bound->inner.announces_changes || iteration == 0, err);
}

status ana_run_bound_begin(const ana_setup *setup, const ana_balancing *balancing, arena *memory,
                           ana_run_bound *bound)
{
    const bal_cost_source *sources = ana_setup_sources(setup, balancing);
    *bound = (ana_run_bound){
        .setup = setup,
        .balancing = balancing,
        .inner = sources[0],
        .sources = arena_array(memory, (size_t)setup->source_count, sizeof *bound->sources),
        .memory = arena_create(1 << 14),
        .total_ns = is_proven(setup, balancing) ? 0 : -1,
    };
    for (int source = 0; source < setup->source_count; source++) {
        bound->sources[source] = sources[source];
    }
    bound->sources[0].context = bound;
    bound->sources[0].costs_at = noted_costs_at;
    return STATUS_OK;
}

status ana_run_bound_finish(ana_run_bound *bound, int64_t *total_ns, error_message *err)
{
    while (bound->next_iteration < bound->setup->iteration_count) {
        bal_layer_costs costs;
        bool changed = false;
        TRY(noted_costs_at(bound, bound->next_iteration, &costs, &changed, err));
    }
    *total_ns = bound->total_ns > 0 ? bound->total_ns : 0;
    return STATUS_OK;
}

void ana_run_bound_free(ana_run_bound *bound)
{
    bal_costs_copy_free(&bound->seen);
    arena_destroy(bound->memory);
    bound->memory = NULL;
}
