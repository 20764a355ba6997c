#include "exec/mechanism/pruning_schedule.h"

exec_pruning_options exec_pruning_options_default(void)
{
    return (exec_pruning_options){
        .start_iteration = 30, .end_iteration = 70, .interval = 10, .final_sparsity = 0.9};
}

static status check_schedule(const exec_pruning_options *options, error_message *err)
{
    const int start = options->start_iteration;
    const int end = options->end_iteration;
    if (start < 0) return error_set(err, STATUS_INVALID, "start_iteration %d is negative", start);
    if (end <= start) {
        return error_set(err, STATUS_INVALID, "end_iteration %d is not after start_iteration %d",
                         end, start);
    }
    if (options->interval < 1) {
        return error_set(err, STATUS_INVALID, "interval %d is below 1", options->interval);
    }
    if ((end - start) % options->interval != 0) {
        return error_set(err, STATUS_INVALID,
                         "interval %d does not divide the %d iterations from start_iteration to "
                         "end_iteration",
                         options->interval, end - start);
    }
    return STATUS_OK;
}

status exec_pruning_options_check(const exec_pruning_options *options, error_message *err)
{
    TRY(check_schedule(options, err));
    const double initial = options->initial_sparsity;
    const double final = options->final_sparsity;
    if (!(final >= 0 && final <= 1)) {
        return error_set(err, STATUS_INVALID, "final_sparsity %g is outside [0, 1]", final);
    }
    if (!(initial >= 0 && initial <= final)) {
        return error_set(err, STATUS_INVALID,
                         "initial_sparsity %g is outside [0, final_sparsity %g]", initial, final);
    }
    if (!(options->csr_from >= 0 && options->csr_from <= 1)) {
        return error_set(err, STATUS_INVALID, "csr_from %g is outside [0, 1]", options->csr_from);
    }
    return STATUS_OK;
}

bool exec_pruning_is_step(const exec_pruning_options *options, int iteration)
{
    if (iteration < options->start_iteration || iteration > options->end_iteration) return false;
    if (exec_pruning_sparsity(options, iteration) <= 0) return false;
    return (iteration - options->start_iteration) % options->interval == 0;
}

double exec_pruning_sparsity(const exec_pruning_options *options, int iteration)
{
    if (iteration < options->start_iteration) return 0;
    if (iteration >= options->end_iteration) return options->final_sparsity;
    const double length = (double)options->end_iteration - options->start_iteration;
    const double left = 1 - (double)(iteration - options->start_iteration) / length;
    const double final = options->final_sparsity;
    return final + (options->initial_sparsity - final) * left * left * left;
}

int64_t exec_pruning_kept_count(double sparsity, int64_t weight_count)
{
    return weight_count - (int64_t)(sparsity * (double)weight_count + 0.5);
}
