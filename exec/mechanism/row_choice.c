#include "exec/mechanism/row_choice.h"

#include <math.h>
#include <string.h>

exec_mod_options exec_mod_options_default(void)
{
    return (exec_mod_options){.capacity_ratio = 0.125, .every = 2};
}

status exec_mod_options_check(const exec_mod_options *options, error_message *err)
{
    if (!(options->capacity_ratio > 0 && options->capacity_ratio <= 1)) {
        return error_set(err, STATUS_INVALID, "capacity_ratio %g is outside (0, 1]",
                         options->capacity_ratio);
    }
    if (options->every < 1) {
        return error_set(err, STATUS_INVALID, "every %d is below 1", options->every);
    }
    return STATUS_OK;
}

bool exec_mod_routes(const exec_mod_options *options, int block)
{
    return (block + 1) % options->every == 0;
}

int exec_mod_row_count(const exec_mod_options *options, int sequence_length)
{
    const int count = (int)(options->capacity_ratio * sequence_length + 0.5);
    return count < 1 ? 1 : count;
}

float exec_gate(float score)
{
    return 1.0f / (1.0f + expf(-score));
}

const char *const exec_exit_measure_names[EXEC_EXIT_MEASURE_COUNT] = {"saturation", "softmax",
                                                                      "probability", "classifier"};

exec_early_exit_options exec_early_exit_options_default(exec_exit_measure measure)
{
    return (exec_early_exit_options){.measure = (int)measure,
                                     .threshold = measure == EXEC_EXIT_SATURATION ? 0.99 : 0.5,
                                     .target_cosine = 0.99,
                                     .settle_iterations = 100};
}

status exec_early_exit_options_check(const exec_early_exit_options *options, error_message *err)
{
    const bool is_cosine = options->measure == EXEC_EXIT_SATURATION;
    if (options->measure < 0 || options->measure >= EXEC_EXIT_MEASURE_COUNT) {
        return error_set(err, STATUS_INVALID, "measure %d is outside [0, %d]", options->measure,
                         EXEC_EXIT_MEASURE_COUNT - 1);
    }
    if (!(options->threshold > (is_cosine ? -1 : 0) && options->threshold <= 1)) {
        return error_set(err, STATUS_INVALID, "threshold %g is outside (%d, 1]", options->threshold,
                         is_cosine ? -1 : 0);
    }
    if (options->measure == EXEC_EXIT_CLASSIFIER &&
        !(options->target_cosine > -1 && options->target_cosine <= 1)) {
        return error_set(err, STATUS_INVALID, "target_cosine %g is outside (-1, 1]",
                         options->target_cosine);
    }
    if (options->settle_iterations < 0) {
        return error_set(err, STATUS_INVALID, "settle_iterations %d is negative",
                         options->settle_iterations);
    }
    if (options->first_exit < 0) {
        return error_set(err, STATUS_INVALID, "first_exit %d is negative", options->first_exit);
    }
    return STATUS_OK;
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

bool exec_is_saturated(float product, float before, float after, double threshold)
{
    const double length = sqrt((double)before) * sqrt((double)after);
    return length > 0 && (double)product > threshold * length;
}

void exec_choose_live_rows(exec_row_choice *choice, const uint8_t *is_live)
{
    const int length = choice->sequence_length;
    int chosen = 0;
    choice->first_row[0] = 0;
    for (int sequence = 0; sequence < choice->sequence_count; sequence++) {
        for (int row = sequence * length; row < (sequence + 1) * length; row++) {
            if (is_live[row] != 0) choice->row[chosen++] = row;
        }
        choice->first_row[sequence + 1] = chosen;
    }
}
