#include "exec/mechanism/mechanisms.h"

#include <math.h>

bool exec_mod_routes(const exec_mod_options *options, int block)
{
    return (block + 1) % options->every == 0;
}

int exec_mod_row_count(const exec_mod_options *options, int sequence_length)
{
    const int count = (int)(options->capacity_ratio * sequence_length + 0.5);
    return count < 1 ? 1 : count;
}

exec_early_exit_options exec_early_exit_options_default(exec_exit_measure measure)
{
    return (exec_early_exit_options){.measure = (int)measure,
                                     .threshold = measure == EXEC_EXIT_SATURATION ? 0.99 : 0.5,
                                     .target_cosine = 0.99,
                                     .settle_iterations = 100};
}

/// The part of its way from 1 that the threshold still has to go.
static double way_left(const exec_early_exit_options *options, int iteration)
{
    if (options->settle_iterations == 0) return 0;
    return exp(-(double)iteration / options->settle_iterations);
}

double exec_exit_threshold(const exec_early_exit_options *options, int iteration)
{
    return options->threshold + (1 - options->threshold) * way_left(options, iteration);
}

bool exec_exit_threshold_settles(const exec_early_exit_options *options, int iteration)
{
    return ceil(10 * way_left(options, iteration + 1)) < ceil(10 * way_left(options, iteration));
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

bool exec_freezing_decides(const exec_freezing_options *options, int iteration)
{
    return (iteration + 1) % options->interval == 0;
}

double exec_parameter_movement(const float *now, const float *before, int64_t count)
{
    double moved = 0;
    double size = 0;
    for (int64_t at = 0; at < count; at++) {
        const double value = (double)now[at];
        const double change = value - (double)before[at];
        moved += change * change;
        size += value * value;
    }
    return size > 0 ? sqrt(moved / size) : 0;
}

void exec_plasticity_observe(exec_plasticity *plasticity, double movement, bool is_first,
                             const exec_freezing_options *options)
{
    plasticity->movement =
        plasticity->decision_count == 0 ? movement : (plasticity->movement + movement) / 2;
    plasticity->decision_count++;
    if (plasticity->movement > plasticity->largest) plasticity->largest = plasticity->movement;
    const bool is_calm = plasticity->movement < options->tolerance * plasticity->largest;
    plasticity->calm_count = is_calm && is_first ? plasticity->calm_count + 1 : 0;
}

int exec_frozen_layer_count(const int64_t *is_frozen, const int64_t *is_calm, int layer_count,
                            const exec_freezing_options *options)
{
    const int most = (int)(options->largest_share * layer_count);
    int count = 0;
    while (count < layer_count && is_frozen[count] != 0) {
        count++;
    }
    while (count < most && is_calm[count] != 0) {
        count++;
    }
    return count;
}
