#include "base/rng.h"

#include <assert.h>
#include <math.h>

static uint64_t splitmix(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t rotate_left(uint64_t value, int count)
{
    return (value << count) | (value >> (64 - count));
}

rng rng_init(uint64_t seed, uint64_t purpose)
{
    uint64_t key = seed;
    uint64_t mixed = splitmix(&key) ^ (purpose * UINT64_C(0xd1342543de82ef95));
    rng generator;
    for (int word = 0; word < 4; word++) {
        generator.state[word] = splitmix(&mixed);
    }
    return generator;
}

uint64_t rng_next(rng *generator)
{
    uint64_t *state = generator->state;
    const uint64_t result = rotate_left(state[1] * 5, 7) * 9;
    const uint64_t shifted = state[1] << 17;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotate_left(state[3], 45);
    return result;
}

uint64_t rng_below(rng *generator, uint64_t bound)
{
    assert(bound >= 1);
    const uint64_t reject_below = -bound % bound; // 2^64 mod bound
    uint64_t value = rng_next(generator);
    while (value < reject_below) {
        value = rng_next(generator);
    }
    return value % bound;
}

int64_t rng_between(rng *generator, int64_t low, int64_t high)
{
    assert(low <= high);
    const uint64_t width = (uint64_t)high - (uint64_t)low + 1;
    const uint64_t offset = width == 0 ? rng_next(generator) : rng_below(generator, width);
    return (int64_t)((uint64_t)low + offset);
}

double rng_unit(rng *generator)
{
    return (double)(rng_next(generator) >> 11) * 0x1.0p-53;
}

/// Twelve numbers of 16 bits out of three words: each has variance (2^32 - 1) / 12, their sum a
/// standard deviation of 2^16 but for one part in 2^33.
double rng_normal(rng *generator)
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
double rng_portable_exp(double x)
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
