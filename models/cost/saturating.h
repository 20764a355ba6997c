/// Sums and products of counts that stop at INT64_MAX instead of overflowing: a chain of them needs
/// one check, at its end.
#pragma once

#include <assert.h>
#include <stdint.h>

/// a + b, or INT64_MAX if that is larger. a, b >= 0 (asserted).
static inline int64_t saturating_add(int64_t a, int64_t b)
{
    assert(a >= 0 && b >= 0);
    return a > INT64_MAX - b ? INT64_MAX : a + b;
}

/// a * b, or INT64_MAX if that is larger. a, b >= 0 (asserted).
static inline int64_t saturating_multiply(int64_t a, int64_t b)
{
    assert(a >= 0 && b >= 0);
    return b > 0 && a > INT64_MAX / b ? INT64_MAX : a * b;
}
