/// Projections that hash rows into given buckets (choose_blocks, kernels.h).
#pragma once

#include <stdint.h>

/// @param query, key [row_count] buckets; tokens have a bucket where both are alike
/// @param projection [row_count][2 * bit_count] out
static inline void project_buckets(const uint8_t *query, const uint8_t *key, int row_count,
                                   int bit_count, float *projection)
{
    for (int row = 0; row < row_count; row++) {
        for (int bit = 0; bit < bit_count; bit++) {
            projection[(2 * row) * bit_count + bit] = (query[row] >> bit & 1) != 0 ? 1.0F : -1.0F;
            projection[(2 * row + 1) * bit_count + bit] = (key[row] >> bit & 1) != 0 ? 1.0F : -1.0F;
        }
    }
}
