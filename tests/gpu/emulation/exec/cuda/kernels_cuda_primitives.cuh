/// The host's version of the file of this name: a lane's part of each instruction is worked out
/// from what the other lanes of its warp hold, by the layouts that the PTX manual gives.
#pragma once

#include "cuda_bf16.h"
#include "lanes.h"

#include <deque>

template <typename Element> inline Element *launch_shared()
{
    return (Element *)lanes_shared();
}

/// A lane's copies that it has not waited for.
struct lane_copies {
    struct copy {
        void *shared;
        const void *global;
        int group;
    };
    std::deque<copy> begun;
    int closed_count; // groups of this block
    unsigned block_number;
};

inline lane_copies &own_copies()
{
    static lane_copies of_lane[1024];
    lane_copies &own = of_lane[threadIdx.x];
    if (own.block_number != lanes_block_number) own = {{}, 0, lanes_block_number};
    return own;
}

/// Leaves NaN until the copy is waited for, and reads its source only then.
inline void copy_16_behind(void *shared, const void *global)
{
    if ((uintptr_t)shared % 16 != 0 || (uintptr_t)global % 16 != 0) abort();
    memset(shared, 0xff, 16);
    own_copies().begun.push_back({shared, global, own_copies().closed_count});
}

inline void close_copies()
{
    own_copies().closed_count++;
}

template <int OPEN> inline void wait_for_copies()
{
    lane_copies &own = own_copies();
    while (!own.begun.empty() && own.begun.front().group < own.closed_count - OPEN) {
        memcpy(own.begun.front().shared, own.begun.front().global, 16);
        own.begun.pop_front();
    }
}

inline uint16_t matrix_value(const void *const row[32], int matrix, int at_row, int at_column)
{
    const void *const *of = (const void *const *)row[matrix * 8 + at_row];
    return ((const uint16_t *)*of)[at_column];
}

inline void give_matrices(const void *const in[32], void *const out[32], bool transposes)
{
    for (int lane = 0; lane < 32; lane++) {
        for (int matrix = 0; matrix < 4; matrix++) {
            uint32_t both = 0;
            for (int side = 0; side < 2; side++) {
                const int row = lane / 4, column = lane % 4 * 2 + side;
                const uint16_t value = transposes ? matrix_value(in, matrix, column, row)
                                                  : matrix_value(in, matrix, row, column);
                both |= (uint32_t)value << 16 * side;
            }
            ((uint32_t *)out[lane])[matrix] = both;
        }
    }
}

inline void give_matrices_straight(const void *const in[32], void *const out[32])
{
    give_matrices(in, out, false);
}

inline void give_matrices_transposed(const void *const in[32], void *const out[32])
{
    give_matrices(in, out, true);
}

inline void load_matrices(uint32_t (&part)[4], const void *row)
{
    if ((uintptr_t)row % 16 != 0) abort();
    lanes_together(give_matrices_straight, &row, part);
}

inline void load_matrices_transposed(uint32_t (&part)[4], const void *row)
{
    if ((uintptr_t)row % 16 != 0) abort();
    lanes_together(give_matrices_transposed, &row, part);
}

/// A lane's operands of a product.
struct product_share {
    uint32_t a[4], b[2];
    float sum[4];
};

inline float half_of(uint32_t both, int side)
{
    __nv_bfloat16 value;
    value.bits = (uint16_t)(both >> 16 * side);
    return __bfloat162float(value);
}

inline void multiply_shares(const void *const in[32], void *const out[32])
{
    float a[16][16], b[16][8];
    for (int lane = 0; lane < 32; lane++) {
        const product_share *share = (const product_share *)in[lane];
        const int group = lane / 4, pair = lane % 4 * 2;
        for (int side = 0; side < 2; side++) {
            for (int part = 0; part < 4; part++) {
                a[group + part % 2 * 8][pair + part / 2 * 8 + side] = half_of(share->a[part], side);
            }
            for (int part = 0; part < 2; part++) {
                b[pair + part * 8 + side][group] = half_of(share->b[part], side);
            }
        }
    }
    for (int lane = 0; lane < 32; lane++) {
        for (int part = 0; part < 4; part++) {
            const int row = lane / 4 + part / 2 * 8, column = lane % 4 * 2 + part % 2;
            float sum = ((const product_share *)in[lane])->sum[part];
            for (int inner = 0; inner < 16; inner++) {
                sum += a[row][inner] * b[inner][column];
            }
            ((float *)out[lane])[part] = sum;
        }
    }
}

inline void multiply_add(float (&sum)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    const product_share share = {
        {a[0], a[1], a[2], a[3]}, {b0, b1}, {sum[0], sum[1], sum[2], sum[3]}};
    lanes_together(multiply_shares, &share, sum);
}
