#include "exec/mechanism/magnitude.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

/// Magnitudes are compared as the 31 bits that IEEE numbers have without their sign, which order as
/// they do. Classes are by 11, then 10, then the last 10 of them.
enum { MAGNITUDE_BITS = 31, DIGIT_COUNT = 3, CLASS_MAX = 1 << 11 };

static const int digit_bits[DIGIT_COUNT] = {11, 10, 10};

static uint32_t magnitude_of(float weight)
{
    uint32_t bits;
    memcpy(&bits, &weight, sizeof bits);
    return bits & 0x7fffffffu;
}

/// Weights that may stay, by the next bits of their magnitudes, of those whose bits in front are
/// known.
///
/// @param known bits in front; shift: bits after the class
static void count_classes(const exec_weights *held, int held_count, uint32_t known, int bits,
                          int shift, int64_t *count)
{
    memset(count, 0, ((size_t)1 << bits) * sizeof *count);
    for (int row = 0; row < held_count; row++) {
        for (int64_t index = 0; index < held[row].count; index++) {
            if (held[row].keep[index] == 0) continue;
            const uint32_t prefix = magnitude_of(held[row].weight[index]) >> shift;
            if (prefix >> bits == known) count[prefix & ((1u << bits) - 1)]++;
        }
    }
}

/// The class in which the wanted-th largest lies; wanted becomes its rank within the class.
static uint32_t class_of(const int64_t *count, int bits, int64_t *wanted)
{
    uint32_t class = (1u << bits) - 1;
    while (class > 0 && count[class] < *wanted) {
        *wanted -= count[class --];
    }
    return class;
}

/// The magnitude of the kept_count-th largest, and how many of just that magnitude stay.
static status find_threshold(const exec_weights *held, int held_count, int64_t kept_count,
                             const exec_group *group, uint32_t *threshold, int64_t *tied_count,
                             error_message *err)
{
    int64_t count[CLASS_MAX];
    int shift = MAGNITUDE_BITS;
    *threshold = 0;
    *tied_count = kept_count;
    for (int digit = 0; digit < DIGIT_COUNT; digit++) {
        const int bits = digit_bits[digit];
        shift -= bits;
        count_classes(held, held_count, *threshold, bits, shift, count);
        TRY(exec_group_sum_int64(group, count, (int64_t)1 << bits, err));
        *threshold = *threshold << bits | class_of(count, bits, tied_count);
    }
    return STATUS_OK;
}

static int64_t count_tied(const exec_weights *of, uint32_t threshold)
{
    int64_t count = 0;
    for (int64_t index = 0; index < of->count; index++) {
        if (of->keep[index] != 0 && magnitude_of(of->weight[index]) == threshold) count++;
    }
    return count;
}

/// @param tied_count of the threshold's magnitude that may stay: the first ones do
static void keep_above(const exec_weights *of, uint32_t threshold, int64_t tied_count)
{
    for (int64_t index = 0; index < of->count; index++) {
        if (of->keep[index] == 0) continue;
        const uint32_t magnitude = magnitude_of(of->weight[index]);
        const bool stays = magnitude > threshold || (magnitude == threshold && tied_count > 0);
        if (magnitude == threshold) tied_count--;
        of->keep[index] = stays;
    }
}

status exec_keep_by_threshold(const exec_weights *held, int held_count, int layer_count,
                              int64_t kept_count, const exec_group *group, error_message *err)
{
    uint32_t threshold;
    int64_t tied_count;
    TRY(find_threshold(held, held_count, kept_count, group, &threshold, &tied_count, err));
    int64_t *tied = memory_array((size_t)layer_count + 1, sizeof *tied); // [layer_count]
    for (int row = 0; row < held_count; row++) {
        tied[held[row].layer] = count_tied(&held[row], threshold);
    }
    const status summed = exec_group_sum_int64(group, tied, layer_count, err);
    int row = 0;
    for (int layer = 0; layer < layer_count && summed == STATUS_OK; layer++) {
        if (row < held_count && held[row].layer == layer) {
            keep_above(&held[row++], threshold, tied_count);
        }
        tied_count -= tied[layer];
    }
    free(tied);
    return summed;
}
