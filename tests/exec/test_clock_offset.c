/// Ranks whose clocks count from other moments find the leader's: to within what they say, and one
/// clock is told as one.
#include "exec/monotonic_clock.h"
#include "exec/run/run.h"
#include "tests/exec/thread_ranks.h"
#include "tests/exec/world_group.h"

#include <stdlib.h>

enum { RANKS = 4, ITERATIONS = 5 };

static const int64_t ahead_ns[RANKS] = {17, INT64_C(3000000000017), INT64_C(-29999999983), 17};

static int64_t shifted_now_ns(const exec_endpoint *endpoint)
{
    return exec_monotonic_ns() + ahead_ns[endpoint->rank];
}

static status compare(exec_endpoint *endpoint, void *context, error_message *err)
{
    int ranks[RANKS], sequence;
    exec_transport shifted = *endpoint->transport;
    shifted.name = "shifted";
    shifted.now_ns = shifted_now_ns;
    endpoint->transport = &shifted;
    exec_run run = {.endpoint = endpoint};
    run.ranks.awake = world_group(endpoint, ranks, &sequence);
    const int64_t more_ns = ahead_ns[endpoint->rank] - ahead_ns[EXEC_LEADER];
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        TRY(exec_run_compare_clocks(&run, iteration, err));
        const exec_clock_offset *clock = &run.clock;
        if (llabs(clock->offset_ns - more_ns) <= clock->residual_ns &&
            (clock->offset_ns == 0) == (more_ns == 0) &&
            clock->is_known == (endpoint->rank != EXEC_LEADER)) {
            continue;
        }
        return error_set(err, STATUS_INVALID, "offset %lld, said to be %lld to within %lld",
                         (long long)more_ns, (long long)clock->offset_ns,
                         (long long)clock->residual_ns);
    }
    return STATUS_OK;
}

TEST(offsets_are_found_to_within_what_is_said)
{
    run_ranks(RANKS, compare, NULL);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
