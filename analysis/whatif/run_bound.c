/// The time that no split and no order of ops beats, for the run of a point.
#include "analysis/whatif/point.h"

#include "analysis/compare/compare.h"
#include "balance/schedule/schedule.h"

/// Whether the bounds below hold for the run.
static bool is_proven(const ana_setup *setup, const ana_balancing *balancing)
{
    const bal_repack_options *repack = &balancing->repack.options;
    if (balancing->balancer->owns_freely) return false;
    if (repack->kind != BAL_REPACK_NONE && repack->use == BAL_RELEASED_REPLICATE) return false;
    const bal_disturbance *disturbance = &setup->study->run.disturbance;
    if (disturbance->op_sigma > 0 || disturbance->iteration_sigma > 0 ||
        disturbance->rank_sigma > 0) {
        return false; // what is drawn may be faster than its costs
    }
    for (int slow = 0; slow < setup->study->run.slow_rank_count; slow++) {
        if (setup->study->slow_ranks[slow].time_factor < 1) return false;
    }
    return true;
}

/// Looks the bound of these costs up, or finds it in place of the one before.
static status find_bound(ana_bound_book *book, const bal_layer_costs *costs, int rank_count,
                         int microbatch_count, arena *scratch, error_message *err)
{
    if (book->rank_count == rank_count && book->microbatch_count == microbatch_count &&
        bal_costs_copy_equals(&book->costs, costs)) {
        return STATUS_OK;
    }
    book->costs.is_taken = false;
    arena_reset(scratch);
    TRY(ana_bound_contiguous(costs, rank_count, microbatch_count, scratch, &book->bound, err));
    bal_costs_copy_take(&book->costs, costs);
    book->rank_count = rank_count;
    book->microbatch_count = microbatch_count;
    return STATUS_OK;
}

/// Bounds an iteration of these costs.
static status bound_iteration(const ana_setup *setup, const bal_layer_costs *costs,
                              ana_bound_book *book, arena *scratch, int64_t *bound_ns,
                              error_message *err)
{
    const int ranks = setup->machine.rank_count;
    const bool hides_reduction = setup->study->run.reduction_overlap != BAL_REDUCTION_EXPOSED;
    // Passes one after the other are one order of the microbatches of all.
    const int microbatches = setup->microbatch_count * setup->study->run.round_count;
    const bool is_contiguous = setup->stage_count == ranks && !setup->study->run.post_validation;
    TRY(find_bound(book, costs, is_contiguous ? ranks : 0, microbatches, scratch, err));
    const ana_contiguous_bound bound = book->bound;
    const int64_t share_ns = (bound.work_ns + ranks - 1) / ranks;
    const int64_t any_ns = share_ns > bound.longest_ns ? share_ns : bound.longest_ns;
    *bound_ns = (is_contiguous ? bound.makespan_ns : any_ns) + setup->study->run.optimizer_step_ns +
                (hides_reduction ? 0 : ana_reduction_share_ns(costs, ranks));
    return STATUS_OK;
}

static status bound_run(const ana_setup *setup, const bal_cost_source *source, bal_costs_copy *seen,
                        ana_bound_book *book, arena *scratch, int64_t *total_ns, error_message *err)
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
            TRY(bound_iteration(setup, &costs, book, scratch, &bound_ns, err));
            if (source->announces_changes) bal_costs_copy_take(seen, &costs);
        }
        if (bound_ns > INT64_MAX - sum) return STATUS_OK;
        sum += bound_ns;
    }
    *total_ns = sum;
    return STATUS_OK;
}

status ana_run_bound(const ana_setup *setup, const ana_balancing *balancing, ana_bound_book *book,
                     arena *memory, int64_t *total_ns, error_message *err)
{
    *total_ns = 0;
    if (!is_proven(setup, balancing)) return STATUS_OK;
    bal_costs_copy seen = {.memory = arena_within(memory, 1 << 16)};
    const status bounded = bound_run(setup, ana_setup_sources(setup, balancing), &seen, book,
                                     arena_within(memory, 1 << 14), total_ns, err);
    return bounded;
}
