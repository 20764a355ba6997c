/// Ranks whose clocks count from other moments find the leader's: to within what they say, also
/// where they drift, and one clock is told as one.
#include "exec/clock.h"
#include "exec/run/run.h"
#include "tests/exec/thread_ranks.h"
#include "tests/exec/world_group.h"

#include <stdlib.h>
#include <time.h>

enum { RANKS = 4, ITERATIONS = 10 };

static const int64_t ahead_ns[RANKS] = {17, INT64_C(3000000000017), INT64_C(-29999999983), 17};

/// Rank 2's clock gains 45 ns in a millisecond.
static int64_t ahead_at(int rank, int64_t moment_ns)
{
    return ahead_ns[rank] + (rank == 2 ? moment_ns / 1000000 * 45 : 0);
}

static int64_t shifted_now_ns(const exec_endpoint *endpoint)
{
    const int64_t now_ns = exec_monotonic_ns();
    return now_ns + ahead_at(endpoint->rank, now_ns);
}

static status compare_again_and_again(exec_run *run, error_message *err)
{
    const int rank = run->endpoint->rank;
    const exec_clock_offset *clock = &run->clock;
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        TRY(exec_run_compare_clocks(run, iteration, err));
        const int64_t now_ns = exec_monotonic_ns();
        const int64_t heard_ns = clock->heard_ns - ahead_at(rank, now_ns);
        const int64_t more_ns = ahead_at(rank, heard_ns) - ahead_at(EXEC_LEADER, heard_ns);
        if (llabs(clock->offset_ns - more_ns) > clock->residual_ns ||
            (clock->offset_ns == 0) != (more_ns == 0) || clock->is_known != (rank != EXEC_LEADER)) {
            return error_set(err, STATUS_INVALID, "offset %lld, said to be %lld to within %lld",
                             (long long)more_ns, (long long)clock->offset_ns,
                             (long long)clock->residual_ns);
        }
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    }
    return STATUS_OK;
}

static status compare(exec_endpoint *endpoint, void *context, error_message *err)
{
    int ranks[RANKS], sequence;
    const exec_transport *plain = endpoint->transport;
    exec_transport shifted = *plain;
    (void)context;
    shifted.name = "shifted";
    shifted.now_ns = shifted_now_ns;
    endpoint->transport = &shifted;
    exec_run run = {.endpoint = endpoint};
    run.ranks.awake = world_group(endpoint, ranks, &sequence);
    const status compared = compare_again_and_again(&run, err);
    endpoint->transport = plain;
    return compared;
}

TEST(offsets_are_found_to_within_what_is_said)
{
    run_ranks(RANKS, compare, NULL);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
