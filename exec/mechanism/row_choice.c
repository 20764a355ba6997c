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

/// A number that orders as the score does: larger scores, larger keys. -0 counts as 0, and what is
/// not a number has some place too.
static uint32_t key_of(float score)
{
    uint32_t bits;
    const float value = score + 0.0f;
    memcpy(&bits, &value, sizeof bits);
    return (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
}

static int count_from(const float *score, int count, uint32_t key)
{
    int found = 0;
    for (int at = 0; at < count; at++) {
        if (key_of(score[at]) >= key) found++;
    }
    return found;
}

/// The largest key that at least wanted scores reach: bit by bit from the highest, without sorting.
static uint32_t key_reached_by(const float *score, int count, int wanted)
{
    uint32_t key = 0;
    for (uint32_t bit = 0x80000000u; bit != 0; bit >>= 1) {
        if (count_from(score, count, key | bit) >= wanted) key |= bit;
    }
    return key;
}

void exec_choose_top_rows(exec_row_choice *choice, const float *score, int chosen_count)
{
    const int length = choice->sequence_length;
    int chosen = 0;
    choice->first_row[0] = 0;
    for (int sequence = 0; sequence < choice->sequence_count; sequence++) {
        const int begin = sequence * length;
        const uint32_t key = key_reached_by(score + begin, length, chosen_count);
        int above = 0;
        for (int row = begin; row < begin + length; row++) {
            if (key_of(score[row]) > key) above++;
        }
        int ties = chosen_count - above;
        for (int row = begin; row < begin + length; row++) {
            const uint32_t own = key_of(score[row]);
            if (own > key || (own == key && ties-- > 0)) choice->row[chosen++] = row;
        }
        choice->first_row[sequence + 1] = chosen;
    }
}

float exec_gate(float score)
{
    return 1.0f / (1.0f + expf(-score));
}

float exec_gate_gradient(float gate, float gate_gradient)
{
    return gate_gradient * gate * (1.0f - gate);
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
