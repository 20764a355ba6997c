#include "balance/run/training_ledger.h"

#include <stdbool.h>

static status too_large(int iteration, const char *what, error_message *err)
{
    return error_set(err, STATUS_INVALID, "iteration %d: the %s do not fit 64 bits", iteration,
                     what);
}

/// Adds to a sum of numbers >= 0. False, and nothing added, if it would not fit int64.
static bool add_to(int64_t *sum, int64_t value)
{
    if (value > INT64_MAX - *sum) return false;
    *sum += value;
    return true;
}

status bal_training_ledger_close(bal_training_iteration *iteration, int64_t optimizer_step_ns,
                                 error_message *err)
{
    const int64_t parts[] = {iteration->pipeline_ns, iteration->reduction_ns,
                             optimizer_step_ns,      iteration->profile_ns,
                             iteration->decision_ns, iteration->migration_ns};
    iteration->iteration_ns = 0;
    for (size_t part = 0; part < sizeof parts / sizeof parts[0]; part++) {
        if (!add_to(&iteration->iteration_ns, parts[part])) {
            return too_large(iteration->iteration, "ns of the iteration", err);
        }
    }
    return STATUS_OK;
}

/// Adds count x ns. False if that does not fit int64.
static bool add_product(int64_t *sum, int64_t count, int64_t ns)
{
    return (count == 0 || ns <= INT64_MAX / count) && add_to(sum, count * ns);
}

static status add_gpus(bal_training_ledger *ledger, const bal_training_iteration *iteration,
                       error_message *err)
{
    bal_training_result *result = &ledger->result;
    const bal_gpu_account *gpus = &iteration->gpus;
    const int64_t ns = iteration->iteration_ns;
    result->gpu_count = gpus->gpu_count;
    if (!add_product(&result->gpu_ns, gpus->gpu_count, ns) ||
        !add_product(&result->idle_gpu_ns, gpus->idle_gpu_count, ns) ||
        !add_product(&result->released_rank_ns, gpus->released_rank_count, ns) ||
        !add_product(&result->released_node_ns, gpus->released_node_count, ns) ||
        !add_product(&ledger->place_time_ns, iteration->rank_count, ns)) {
        return too_large(iteration->iteration, "ns of all GPUs over the run", err);
    }
    return STATUS_OK;
}

status bal_training_ledger_add(bal_training_ledger *ledger, const bal_training_iteration *iteration,
                               const bal_iteration_times *times, int played_count,
                               error_message *err)
{
    bal_training_result *result = &ledger->result;
    const int64_t replicas = iteration->replica_count;
    const int64_t ranks = iteration->rank_count * replicas;
    // Replicas beyond those that were played are as busy as these on average.
    if (times->busy_ns / played_count > INT64_MAX / 2 / replicas) {
        return too_large(iteration->iteration, "ns of all replicas", err);
    }
    const int64_t busy_ns = times->busy_ns / played_count * replicas +
                            times->busy_ns % played_count * replicas / played_count;
    // The sums that total_ns bounds need no look of their own.
    if (!add_to(&result->total_ns, iteration->iteration_ns) ||
        times->makespan_ns > INT64_MAX / ranks ||
        !add_to(&ledger->rank_time_ns, times->makespan_ns * ranks) ||
        !add_to(&ledger->busy_ns, busy_ns) ||
        !add_to(&result->moved_bytes, iteration->moved_bytes)) {
        return too_large(iteration->iteration, "sums over the run", err);
    }
    TRY(add_gpus(ledger, iteration, err));
    result->pipeline_ns += iteration->pipeline_ns;
    result->reduction_ns += iteration->reduction_ns;
    result->profile_ns += iteration->profile_ns;
    result->decision_ns += iteration->decision_ns;
    result->migration_ns += iteration->migration_ns;
    result->moved_layer_count += iteration->moved_layer_count;
    result->change_count += iteration->changed;
    result->decision_count += iteration->was_asked;
    result->rebalance_count += iteration->rebalanced;
    result->repack_count += iteration->action == BAL_ACTION_REPACK;
    ledger->imbalance_sum += iteration->metrics.imbalance_ratio;
    if (ledger->iteration_count == 0) result->first = iteration->metrics;
    result->last = iteration->metrics;
    ledger->iteration_count++;
    return STATUS_OK;
}

void bal_training_ledger_finish(bal_training_ledger *ledger, const bal_decision *decision,
                                const bal_machine *machine, const bal_layer_costs *layers,
                                const int64_t *peak_memory_bytes)
{
    bal_training_result *result = &ledger->result;
    if (ledger->busy_ns > 0) { // as of one iteration: 0 where nothing was computed
        result->bubble_ratio =
            bal_bubble_ratio((double)ledger->busy_ns, (double)ledger->rank_time_ns);
    }
    if (result->total_ns > 0) {
        result->rank_count_mean = (double)ledger->place_time_ns / (double)result->total_ns;
    }
    result->imbalance_ratio = ledger->imbalance_sum / ledger->iteration_count;
    result->bottleneck_ns = decision->bottleneck_ns;
    result->bottleneck_lower_bound_ns = decision->bottleneck_lower_bound_ns;
    result->peak_memory_bytes = peak_memory_bytes;
    result->is_memory_known = layers->state_bytes != NULL && layers->activation_bytes != NULL;
    result->fits = true;
    for (int rank = 0; rank < machine->rank_count && machine->rank_memory_bytes > 0; rank++) {
        if (peak_memory_bytes[rank] > machine->rank_memory_bytes) result->fits = false;
    }
}
