#include "models/random_draw.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>

/// Twelve numbers of 16 bits out of three words: each has variance (2^32 - 1) / 12, their sum a
/// standard deviation of 2^16 but for one part in 2^33.
double model_draw_normal(rng *generator)
{
    enum { WORDS = 3, PIECES = 4, BITS = 16 };
    int64_t sum = 0;
    for (int word = 0; word < WORDS; word++) {
        const uint64_t bits = rng_next(generator);
        for (int piece = 0; piece < PIECES; piece++) {
            sum += (int64_t)(bits >> (piece * BITS) & 0xffff);
        }
    }
    const int64_t doubled_mean = WORDS * PIECES * INT64_C(0xffff);
    return (double)(2 * sum - doubled_mean) * 0x1.0p-17;
}

/// x = n ln 2 + rest with |rest| <= ln 2 / 2; the series of the rest to its 13th power. ln 2 is
/// taken off in two pieces, the first of which n multiplies exactly.
double model_portable_exp(double x)
{
    enum { POWERS = 13 };
    assert(x >= -700 && x <= 700);
    const double ln2_high = 0x1.62e42fefap-1;
    const double ln2_low = 0x1.cf79abc9e3b3ap-40;
    const int exponent = (int)(x * 0x1.71547652b82fep+0 + (x < 0 ? -0.5 : 0.5));
    const double rest = (x - exponent * ln2_high) - exponent * ln2_low;
    double sum = 1;
    for (int power = POWERS; power >= 1; power--) {
        sum = 1 + sum * rest / power;
    }
    return ldexp(sum, exponent);
}
