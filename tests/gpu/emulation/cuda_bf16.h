/// bf16 on the host.
#pragma once

#include <stdint.h>
#include <string.h>

struct __nv_bfloat16 {
    uint16_t bits;
};

struct __nv_bfloat162 {
    __nv_bfloat16 x, y;
};

static inline float __bfloat162float(__nv_bfloat16 value)
{
    const uint32_t bits = (uint32_t)value.bits << 16;
    float result;
    memcpy(&result, &bits, sizeof result);
    return result;
}

/// Rounds to nearest, ties to even.
static inline __nv_bfloat16 __float2bfloat16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    __nv_bfloat16 result;
    if (value != value) {
        result.bits = 0x7fff;
    } else {
        result.bits = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    }
    return result;
}

static inline __nv_bfloat162 __floats2bfloat162_rn(float first, float second)
{
    __nv_bfloat162 both = {__float2bfloat16(first), __float2bfloat16(second)};
    return both;
}
