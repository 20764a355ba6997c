#include "analysis/converge/converge_loads.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

enum { LANES = 8, DIGIT_BITS = 11, DIGITS = 1 << DIGIT_BITS, PASSES = 6 };

const char *const ana_initial_names[ANA_INITIAL_COUNT] = {"step", "point", "ramp", "random"};

void ana_loads_fill(ana_initial initial, int node_count, rng *random, double *load)
{
    const int full = (node_count + 1) / 2;
    double sum = 0;
    for (int node = 0; node < node_count; node++) {
        switch (initial) {
        case ANA_INITIAL_STEP:
            load[node] = node < full ? 1 : 0;
            break;
        case ANA_INITIAL_POINT:
            load[node] = node == 0 ? 1 : 0;
            break;
        case ANA_INITIAL_RAMP:
            load[node] = node;
            break;
        default:
            load[node] = rng_unit(random);
            break;
        }
        sum += load[node];
    }
    for (int node = 0; node < node_count; node++) {
        load[node] = load[node] * node_count / sum;
    }
}

/// Lanes, so that the compiler can keep several at once: the order of minima does not matter.
double ana_loads_spread(const double *load, int node_count)
{
    double low[LANES];
    double high[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        low[lane] = high[lane] = load[0];
    }
    int node = 0;
    for (; node + LANES <= node_count; node += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            const double value = load[node + lane];
            low[lane] = value < low[lane] ? value : low[lane];
            high[lane] = value > high[lane] ? value : high[lane];
        }
    }
    for (; node < node_count; node++) {
        low[0] = load[node] < low[0] ? load[node] : low[0];
        high[0] = load[node] > high[0] ? load[node] : high[0];
    }
    for (int lane = 1; lane < LANES; lane++) {
        low[0] = low[lane] < low[0] ? low[lane] : low[0];
        high[0] = high[lane] > high[0] ? high[lane] : high[0];
    }
    return high[0] - low[0];
}

/// The pair sum of ascending values: the k-th smallest is subtracted node_count - 1 - k times and
/// added k times. Values are taken relative to the smallest, so that nothing cancels but what must.
/// Lanes are part of the definition: they fix the order of the additions.
static double pair_sum(const double *sorted, int node_count, int step)
{
    double lane_sum[LANES] = {0};
    const double low = sorted[step > 0 ? 0 : node_count - 1];
    const double *at = step > 0 ? sorted : sorted + node_count - 1;
    int k = 0;
    for (; k + LANES <= node_count; k += LANES) {
        for (int lane = 0; lane < LANES; lane++) {
            const double weight = 2 * (k + lane) + 1 - node_count;
            lane_sum[lane] += weight * (at[(k + lane) * step] - low);
        }
    }
    for (; k < node_count; k++) {
        lane_sum[k % LANES] += (double)(2 * k + 1 - node_count) * (at[k * step] - low);
    }
    double sum = 0;
    for (int lane = 0; lane < LANES; lane++) {
        sum += lane_sum[lane];
    }
    return sum;
}

static bool is_sorted(const double *load, int node_count, bool descending)
{
    bool sorted = true;
    for (int node = 0; node < node_count - 1 && sorted; node += LANES * LANES) {
        const int end =
            node + LANES * LANES < node_count - 1 ? node + LANES * LANES : node_count - 1;
        int breaks = 0;
        for (int at = node; at < end; at++) {
            breaks += descending ? load[at] < load[at + 1] : load[at] > load[at + 1];
        }
        sorted = breaks == 0;
    }
    return sorted;
}

/// Bits of a double in an order that integers have, too: negative ones reversed, behind them the
/// others. Both zeros are the same.
static uint64_t to_key(double value)
{
    value += 0.0;
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof bits);
    return bits >> 63 != 0 ? ~bits : bits | UINT64_C(1) << 63;
}

static double from_key(uint64_t key)
{
    const uint64_t bits = key >> 63 != 0 ? key & ~(UINT64_C(1) << 63) : ~key;
    double value = 0;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/// One pass of the radix sort; all keys with the same digit: nothing to do.
static bool scatter(const uint64_t *from, uint64_t *to, int node_count, int *count, int shift)
{
    int at = 0;
    for (int digit = 0; digit < DIGITS; digit++) {
        if (count[digit] == node_count) return false;
        const int here = count[digit];
        count[digit] = at;
        at += here;
    }
    for (int node = 0; node < node_count; node++) {
        to[count[from[node] >> shift & (DIGITS - 1)]++] = from[node];
    }
    return true;
}

void ana_loads_sort(const double *load, int node_count, double *sorted, uint64_t *scratch)
{
    int count[PASSES][DIGITS];
    uint64_t *from = scratch;
    uint64_t *to = scratch + node_count;
    memset(count, 0, sizeof count);
    for (int node = 0; node < node_count; node++) {
        from[node] = to_key(load[node]);
        for (int pass = 0; pass < PASSES; pass++) {
            count[pass][from[node] >> (pass * DIGIT_BITS) & (DIGITS - 1)]++;
        }
    }
    for (int pass = 0; pass < PASSES; pass++) {
        if (!scatter(from, to, node_count, count[pass], pass * DIGIT_BITS)) continue;
        uint64_t *full = to;
        to = from;
        from = full;
    }
    for (int node = 0; node < node_count; node++) {
        sorted[node] = from_key(from[node]);
    }
}

double ana_loads_potential(const double *load, int node_count, uint64_t *scratch)
{
    _Static_assert(sizeof(double) == sizeof(uint64_t), "sorted values lie where keys lay");
    if (is_sorted(load, node_count, false)) return pair_sum(load, node_count, 1);
    if (is_sorted(load, node_count, true)) return pair_sum(load, node_count, -1);
    double *sorted = (double *)(void *)(scratch + 2 * (size_t)node_count);
    ana_loads_sort(load, node_count, sorted, scratch);
    return pair_sum(sorted, node_count, 1);
}
