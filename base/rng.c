#include "base/rng.h"

#include <assert.h>

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
