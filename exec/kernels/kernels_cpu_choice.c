/// The choice of rows by their score, and of those that leave, in plain C.
#include "exec/kernels/kernels_cpu.h"

#include <math.h>
#include <string.h>

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

/// Logistic function of a score.
static float gate_of(float score)
{
    return 1.0F / (1.0F + expf(-score));
}

/// Chooses of one sequence, whose first row is begin.
static void choose_of_sequence(const exec_chosen *chosen, const float *score, int begin, int place)
{
    const int end = begin + chosen->sequence_length;
    const uint32_t key = key_reached_by(score + begin, chosen->sequence_length, chosen->count);
    int above = 0;
    for (int row = begin; row < end; row++) {
        if (key_of(score[row]) > key) above++;
    }
    int ties = chosen->count - above;
    for (int row = begin; row < end; row++) {
        const uint32_t own = key_of(score[row]);
        chosen->before[row] = place;
        if (own > key || (own == key && ties-- > 0)) {
            chosen->row[place] = row;
            chosen->gate[place++] = gate_of(score[row]);
        }
    }
    chosen->before[end] = place;
}

void exec_cpu_choose_rows(exec_kernels *kernels, const exec_chosen *chosen, const float *score)
{
    (void)kernels;
    for (int sequence = 0; sequence < chosen->sequence_count; sequence++) {
        choose_of_sequence(chosen, score, sequence * chosen->sequence_length,
                           sequence * chosen->count);
    }
}

void exec_cpu_gate_input(exec_kernels *kernels, const float *gate, float *gradient, size_t count)
{
    (void)kernels;
    for (size_t at = 0; at < count; at++) {
        gradient[at] = gradient[at] * gate[at] * (1.0F - gate[at]);
    }
}

void exec_cpu_find_live(exec_kernels *kernels, const exec_live *live)
{
    (void)kernels;
    const int length = live->sequence_length;
    int found = 0;
    live->first_row[0] = 0;
    for (int sequence = 0; sequence < live->sequence_count; sequence++) {
        for (int row = sequence * length; row < (sequence + 1) * length; row++) {
            if (live->has_left[row] == 0) live->row[found++] = row;
        }
        live->first_row[sequence + 1] = found;
    }
    live->extent[0] = 0;
    live->extent[1] = found;
}

/// Whether the states of a row point the same way. A state of length 0 does not.
static bool is_saturated(const exec_compared *states, int row, double cosine)
{
    const double length = sqrt((double)states->before[row]) * sqrt((double)states->after[row]);
    return length > 0 && (double)states->product[row] > cosine * length;
}

void exec_cpu_leave_rows(exec_kernels *kernels, const exec_leaving *leaving, int rows)
{
    (void)kernels;
    for (int row = 0; row < rows; row++) {
        const bool leaves = leaving->states.product != NULL
                                ? is_saturated(&leaving->states, row, leaving->threshold)
                                : (double)leaving->confidence[(ptrdiff_t)row * leaving->stride] >
                                      leaving->threshold;
        if (leaves) leaving->has_left[leaving->row[row]] = 1;
    }
}

void exec_cpu_judge_rows(exec_kernels *kernels, const exec_compared *states, double cosine,
                         const float *bias, float scale, int rows, float *confidence,
                         float *gradient, float *bias_gradient)
{
    (void)kernels;
    float sum = 0;
    for (int row = 0; row < rows; row++) {
        const float target = is_saturated(states, row, cosine) ? 1.0F : 0.0F;
        confidence[row] = gate_of(confidence[row] + *bias);
        gradient[row] = scale * (confidence[row] - target);
        sum += gradient[row];
    }
    *bias_gradient = sum;
}
