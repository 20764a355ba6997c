#include "exec/mechanism/row_choice.h"

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
