/// Collectives between ranks that are threads: what every rank gets, that sums are those of a plain
/// loop over the ranks bit by bit, and what happens when ranks disagree.
#include "base/arena.h"
#include "base/rng.h"
#include "exec/transport/group.h"
#include "tests/exec/thread_ranks.h"
#include "tests/exec/world_group.h"

#include <stdlib.h>
#include <string.h>

static const int rank_counts[] = {1, 2, 3, 4, 7, 8, 16, 24};
enum { RANK_COUNTS = sizeof rank_counts / sizeof rank_counts[0], RANKS_MAX = 24 };

static status differs(const char *what, error_message *err)
{
    return error_set(err, STATUS_BACKEND, "%s differs", what);
}

/// How many ranks have come to each of some barriers.
typedef struct meeting {
    atomic_int came[10];
} meeting;

static status meet(exec_endpoint *endpoint, void *context, error_message *err)
{
    meeting *shared = context;
    int ranks[RANKS_MAX];
    int sequence;
    const exec_group group = world_group(endpoint, ranks, &sequence);
    for (int round = 0; round < 10; round++) {
        atomic_fetch_add(&shared->came[round], 1);
        TRY(exec_group_barrier(&group, err));
        if (atomic_load(&shared->came[round]) != endpoint->rank_count) {
            return error_set(err, STATUS_BACKEND, "passed a barrier before all had come");
        }
    }
    return STATUS_OK;
}

static void nobody_passes_a_barrier_before_all_have_come(void **state)
{
    for (int index = 0; index < RANK_COUNTS; index++) {
        meeting shared = {0};
        run_ranks(rank_counts[index], meet, &shared);
    }
}

enum { LONG = 5003, SHORT = 11 };

static double number_of(int rank, int index)
{
    rng random = rng_init((uint64_t)rank, (uint64_t)index);
    return (rng_unit(&random) - 0.5) * (double)(INT64_C(1) << rng_below(&random, 40));
}

/// Sums count numbers in three types and compares with the loop over the ranks.
static status sum_and_compare(const exec_group *group, int count, double *doubles, float *floats,
                              int64_t *integers, error_message *err)
{
    for (int index = 0; index < count; index++) {
        doubles[index] = number_of(group->self, index);
        floats[index] = (float)doubles[index];
        integers[index] = (int64_t)doubles[index];
    }
    TRY(exec_group_sum_double(group, doubles, count, err));
    TRY(exec_group_sum_float(group, floats, count, 1, err));
    TRY(exec_group_sum_int64(group, integers, count, err));
    for (int index = 0; index < count; index++) {
        double sum = number_of(0, index);
        float float_sum = (float)sum;
        int64_t integer_sum = (int64_t)sum;
        for (int rank = 1; rank < group->rank_count; rank++) {
            const double number = number_of(rank, index);
            sum += number;
            float_sum += (float)number;
            integer_sum += (int64_t)number;
        }
        if (memcmp(&sum, &doubles[index], sizeof sum) != 0) return differs("a double", err);
        if (memcmp(&float_sum, &floats[index], sizeof float_sum) != 0) {
            return differs("a float", err);
        }
        if (integer_sum != integers[index]) return differs("an integer", err);
    }
    return STATUS_OK;
}

static status sum(exec_endpoint *endpoint, void *context, error_message *err)
{
    int ranks[RANKS_MAX];
    int sequence;
    const exec_group group = world_group(endpoint, ranks, &sequence);
    double *numbers = memory_array(3 * LONG, sizeof *numbers);
    static const int counts[] = {0, 1, SHORT, LONG};
    status code = STATUS_OK;
    for (int index = 0; index < 4 && code == STATUS_OK; index++) {
        code = sum_and_compare(&group, counts[index], numbers, (float *)(numbers + LONG),
                               (int64_t *)(numbers + 2 * LONG), err);
    }
    free(numbers);
    return code;
}

static void sums_are_added_in_the_order_of_ranks(void **state)
{
    run_ranks(1, sum, NULL);
    run_ranks(2, sum, NULL);
    run_ranks(3, sum, NULL);
    run_ranks(8, sum, NULL);
}

/// Ranks 1, 3 and 4 of five form a group beside the one of all.
static status sum_in_part(exec_endpoint *endpoint, void *context, error_message *err)
{
    int members[] = {1, 3, 4};
    static const int index_of[] = {-1, 0, -1, 1, 2};
    int sequence = 5;
    int64_t value = endpoint->rank;
    const exec_group group = {.endpoint = endpoint,
                              .rank = members,
                              .rank_count = 3,
                              .self = index_of[endpoint->rank],
                              .sequence = &sequence};
    if (group.self < 0) return STATUS_OK;
    TRY(exec_group_sum_int64(&group, &value, 1, err));
    TRY(exec_group_barrier(&group, err));
    return value == 8 ? STATUS_OK : differs("the sum of the group", err);
}

static void a_group_may_be_some_of_the_ranks(void **state)
{
    run_ranks(5, sum_in_part, NULL);
}

static status come_with_other_counts(exec_endpoint *endpoint, void *context, error_message *err)
{
    int ranks[RANKS_MAX];
    int sequence;
    const exec_group group = world_group(endpoint, ranks, &sequence);
    char bytes[8] = {0};
    return exec_group_broadcast(&group, bytes, endpoint->rank == 0 ? 4 : 8, err);
}

static void other_counts_are_a_failure_that_names_both(void **state)
{
    exec_transport_options options = exec_transport_options_default();
    options.rank_count = 2;

    assert_fails(exec_transport_run("local", &options, come_with_other_counts, NULL, &why),
                 STATUS_BACKEND, "rank 0 takes part in a collective with 4 bytes, others with 8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_passes_a_barrier_before_all_have_come),
        cmocka_unit_test(sums_are_added_in_the_order_of_ranks),
        cmocka_unit_test(a_group_may_be_some_of_the_ranks),
        cmocka_unit_test(other_counts_are_a_failure_that_names_both),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
