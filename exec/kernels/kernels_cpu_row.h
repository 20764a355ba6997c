/// Sums over a row and the exponential, as the plain C backend computes them. Internal to
/// kernels_cpu_*.c.
#pragma once

#include "exec/kernels/kernels_cpu.h"

#include <stdint.h>
#include <string.h>

/// The partial sums of a row, added in pairs.
EXEC_CPU_INLINE float exec_cpu_lanes_sum(const float *sum)
{
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

/// The sum of a[k] * b[k]: element k goes to partial sum k % EXEC_CPU_LANES.
EXEC_CPU_INLINE float exec_cpu_dot(const float *a, const float *b, int count)
{
    float sum[EXEC_CPU_LANES] = {0};
    int index = 0;
    for (; index + EXEC_CPU_LANES <= count; index += EXEC_CPU_LANES) {
        for (int lane = 0; lane < EXEC_CPU_LANES; lane++) {
            sum[lane] += a[index + lane] * b[index + lane];
        }
    }
    for (int lane = 0; index + lane < count; lane++) {
        sum[lane] += a[index + lane] * b[index + lane];
    }
    return exec_cpu_lanes_sum(sum);
}

/// The sum of a[k], in the order of exec_cpu_dot.
EXEC_CPU_INLINE float exec_cpu_sum(const float *a, int count)
{
    float sum[EXEC_CPU_LANES] = {0};
    int index = 0;
    for (; index + EXEC_CPU_LANES <= count; index += EXEC_CPU_LANES) {
        for (int lane = 0; lane < EXEC_CPU_LANES; lane++) {
            sum[lane] += a[index + lane];
        }
    }
    for (int lane = 0; index + lane < count; lane++) {
        sum[lane] += a[index + lane];
    }
    return exec_cpu_lanes_sum(sum);
}

/// The largest a[k], count >= 1.
EXEC_CPU_INLINE float exec_cpu_largest(const float *a, int count)
{
    float largest[EXEC_CPU_LANES];
    for (int lane = 0; lane < EXEC_CPU_LANES; lane++) {
        largest[lane] = a[0];
    }
    int index = 0;
    for (; index + EXEC_CPU_LANES <= count; index += EXEC_CPU_LANES) {
        for (int lane = 0; lane < EXEC_CPU_LANES; lane++) {
            const float value = a[index + lane];
            largest[lane] = value > largest[lane] ? value : largest[lane];
        }
    }
    for (; index < count; index++) {
        largest[0] = a[index] > largest[0] ? a[index] : largest[0];
    }
    for (int lane = 1; lane < EXEC_CPU_LANES; lane++) {
        largest[0] = largest[lane] > largest[0] ? largest[lane] : largest[0];
    }
    return largest[0];
}

/// e to the power of x within 2e-7 of its value, between e^-87 and e^88; beyond, that of the nearer
/// end. Unlike expf it is compiled into vectors.
///
/// x = n ln 2 + r with n whole and |r| <= ln 2 / 2: Taylor's series of e^r up to r^7 is off by
/// r^8 / 8! < 6e-9; 2^n is put together from its bits.
EXEC_CPU_INLINE float exec_cpu_exp(float x)
{
    const float low = x < -87.0F ? -87.0F : x;
    const float bounded = low > 88.0F ? 88.0F : low;
    const float to_whole = 12582912.0F; // 1.5 * 2^23: adding it rounds to whole numbers
    const float shifted = bounded * 1.44269504F + to_whole;
    const float n = shifted - to_whole;
    // ln 2 in two parts, the first of few enough bits that n times it is exact.
    const float r = (bounded - n * 0.693359375F) + n * 2.12194440e-4F;
    float power = 1.0F / 5040.0F;
    power = power * r + 1.0F / 720.0F;
    power = power * r + 1.0F / 120.0F;
    power = power * r + 1.0F / 24.0F;
    power = power * r + 1.0F / 6.0F;
    power = power * r + 0.5F;
    power = power * r + 1.0F;
    power = power * r + 1.0F;
    uint32_t bits; // the low bits of `shifted` are n, also where x is not a number
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127U) << 23;
    float scale;
    memcpy(&scale, &bits, sizeof scale);
    return power * scale;
}
