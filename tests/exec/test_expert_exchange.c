/// Ranks that share experts: rows come to whom they are for, and the wait for the last of the ranks
/// is in the op's time by whichever clock.
#include "exec/model/expert_exchange.h"
#include "tests/exec/thread_ranks.h"
#include "tests/exec/world_group.h"

#include <string.h>
#include <time.h>

enum { MEMBERS = 2, GROUPS = 2, EXPERTS = 4, HELD = EXPERTS / MEMBERS, LATE_NS = 50000000 };

/// Rows that a replica has for an expert; its rows are numbered through from 100 x replica.
static int count_of(int replica, int expert)
{
    return (replica + expert) % 3;
}

static void fill_first(const int *count, int *first)
{
    first[0] = 0;
    for (int at = 0; at < EXPERTS; at++) {
        first[at + 1] = first[at] + count[at];
    }
}

/// Every row goes to its expert and comes back doubled.
static status exchange_rows(exec_expert_exchange *exchange, int replica, error_message *err)
{
    const int base = replica - exchange->member; // first replica of the group
    int count[MEMBERS][EXPERTS] = {0};
    int held[EXPERTS];
    int first_place[EXPERTS + 1];
    int first_row[EXPERTS + 1];
    int rows[3 * EXPERTS], there[3 * EXPERTS], back[3 * EXPERTS];
    for (int expert = 0; expert < EXPERTS; expert++) {
        count[exchange->member][expert] = count_of(replica, expert);
    }
    TRY(exec_expert_exchange_counts(exchange, &count[0][0], EXPERTS, err));
    for (int segment = 0; segment < EXPERTS; segment++) {
        const int expert = exchange->member * HELD + segment % HELD;
        held[segment] = count[segment / HELD][expert];
        if (held[segment] == count_of(base + segment / HELD, expert)) continue;
        return error_set(err, STATUS_BACKEND, "another count");
    }
    fill_first(count[exchange->member], first_place);
    fill_first(held, first_row);
    for (int row = 0; row < first_place[EXPERTS]; row++) {
        rows[row] = 100 * replica + row;
    }
    TRY(exec_expert_exchange_rows(exchange, HELD, sizeof rows[0], first_place, rows, first_row,
                                  there, err));
    for (int row = 0; row < first_row[EXPERTS]; row++) {
        const int from = base + (row >= first_row[HELD]);
        if (there[row] / 100 != from) return error_set(err, STATUS_BACKEND, "another's row");
        there[row] *= 2;
    }
    TRY(exec_expert_exchange_rows(exchange, HELD, sizeof rows[0], first_row, there, first_place,
                                  back, err));
    for (int row = 0; row < first_place[EXPERTS]; row++) {
        if (back[row] != 2 * rows[row]) return error_set(err, STATUS_BACKEND, "another row back");
    }
    return STATUS_OK;
}

/// What the op of each replica took, and how much of it was waiting.
typedef struct outcome {
    clockid_t clock;
    int64_t op_ns[MEMBERS * GROUPS];
    int64_t waited_ns[MEMBERS * GROUPS];
} outcome;

/// The last replica comes late: by the nominal clock, or really.
static status play(exec_endpoint *endpoint, void *context, error_message *err)
{
    outcome *shared = context;
    const bool composes = shared->clock == CLOCK_THREAD_CPUTIME_ID;
    const bool is_late = endpoint->rank == MEMBERS * GROUPS - 1;
    int ranks[MEMBERS * GROUPS];
    int sequence;
    const exec_group replicas = world_group(endpoint, ranks, &sequence);
    exec_device device = {.op_begin_ns = is_late && composes ? LATE_NS : 0};
    arena *memory = arena_create(1 << 10);
    exec_kernels *kernels = NULL;
    TRY(exec_kernels_cpu_open(&kernels));
    exec_stopwatch watch = exec_stopwatch_of(kernels, shared->clock, 8, 2, memory);
    exec_expert_exchange exchange =
        exec_expert_exchange_of(MEMBERS, endpoint->rank, &watch, &device, composes, false);
    status result = exec_expert_exchange_begin(&exchange, &replicas, err);
    if (result == STATUS_OK) result = exec_stopwatch_begin(&watch, err);
    if (is_late && !composes) nanosleep(&(struct timespec){.tv_nsec = LATE_NS}, NULL);
    exec_stopwatch_begin_op(&watch);
    if (result == STATUS_OK) result = exchange_rows(&exchange, endpoint->rank, err);
    shared->op_ns[endpoint->rank] = exec_stopwatch_op_ns(&watch);
    shared->waited_ns[endpoint->rank] = watch.waited_ns;
    exec_expert_exchange_free(&exchange);
    arena_destroy(memory);
    kernels->table->close(kernels);
    return result;
}

TEST(who_is_waited_for_is_in_the_op_of_its_group)
{
    static const clockid_t clocks[] = {CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC};
    for (int clock = 0; clock < 2; clock++) {
        outcome shared = {.clock = clocks[clock]};

        run_ranks(MEMBERS * GROUPS, play, &shared);

        assert_true(shared.op_ns[2] >= LATE_NS * 9 / 10);
        assert_true(shared.waited_ns[2] >= LATE_NS * 9 / 10);
        if (clocks[clock] == CLOCK_MONOTONIC) continue; // others may keep the cores busy
        for (int replica = 0; replica < MEMBERS * GROUPS; replica++) {
            if (replica != 2) assert_true(shared.op_ns[replica] < LATE_NS);
        }
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
