#include "exec/mechanism/pruning_schedule.h"

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
