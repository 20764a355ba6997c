/// The assignment problem: equal to an exhaustive search on thousands of small matrices, with ties,
/// forbidden pairs and more columns than rows.
#include "balance/migration/assignment.h"
#include "base/rng.h"
#include "tests/assert_close.h"
#include "tests/test_memory.h"

#include <stdbool.h>
#include <stdio.h>

enum { ROWS = 6, COLUMNS = 7 };

/// The least sum over every way to choose, by trying rows from `row` on in all free columns.
static int64_t exhaustive(const int64_t *cost, int rows, int columns)
{
    int chosen[ROWS + 1] = {0};
    bool used[COLUMNS] = {false};
    int64_t best = -1;
    int row = 0;
    int64_t sum[ROWS + 1] = {0};
    chosen[0] = -1;
    while (row >= 0) {
        if (row == rows) {
            if (best < 0 || sum[row] < best) best = sum[row];
            row--;
            continue;
        }
        if (chosen[row] >= 0) used[chosen[row]] = false;
        int column = chosen[row] + 1;
        while (column < columns &&
               (used[column] || cost[row * columns + column] == BAL_ASSIGNMENT_FORBIDDEN)) {
            column++;
        }
        chosen[row] = column;
        if (column == columns) {
            chosen[row] = -1;
            row--;
            continue;
        }
        used[column] = true;
        sum[row + 1] = sum[row] + cost[row * columns + column];
        row++;
        chosen[row] = -1;
    }
    return best;
}

static void it_equals_an_exhaustive_search(void **state)
{
    arena *memory = *state;
    for (uint64_t seed = 1; seed <= 20000; seed++) {
        rng random = rng_init(seed, 1);
        const int columns = (int)rng_between(&random, 1, COLUMNS);
        const int rows = (int)rng_between(&random, 0, columns < ROWS ? columns : ROWS);
        const int64_t largest = rng_below(&random, 2) == 0 ? 3 : 1000000;
        int64_t cost[ROWS * COLUMNS];
        for (int cell = 0; cell < rows * columns; cell++) {
            cost[cell] = rng_below(&random, 6) == 0 ? BAL_ASSIGNMENT_FORBIDDEN
                                                    : rng_between(&random, 0, largest);
        }
        int chosen[ROWS] = {0};
        int64_t total = -1;
        arena_reset(memory);
        const status found = bal_assignment(cost, rows, columns, memory, chosen, &total, NULL);
        const int64_t expected = exhaustive(cost, rows, columns);
        if (found != (expected < 0 ? STATUS_INFEASIBLE : STATUS_OK) ||
            (expected >= 0 && total != expected)) {
            fail_msg("seed %d: total %lld, exhaustive %lld", (int)seed, (long long)total,
                     (long long)expected);
        }
        if (found != STATUS_OK) continue;
        bool used[COLUMNS] = {false};
        int64_t sum = 0;
        for (int row = 0; row < rows; row++) {
            assert_false(used[chosen[row]]);
            used[chosen[row]] = true;
            sum += cost[row * columns + chosen[row]];
        }
        assert_int_equal(sum, total);
    }
}

static void wrong_shapes_and_costs_are_invalid_and_touch_nothing(void **state)
{
    arena *memory = *state;
    const int64_t forbidden[] = {1, BAL_ASSIGNMENT_FORBIDDEN, 2, BAL_ASSIGNMENT_FORBIDDEN};
    const int64_t negative[] = {1, -2};
    const int64_t huge[] = {INT64_MAX / 8 + 1};
    int column[2] = {-7, -7};
    error_message err = {0};

    assert_int_equal(bal_assignment(forbidden, 2, 2, memory, column, NULL, &err),
                     STATUS_INFEASIBLE);
    assert_string_equal(err.message,
                        "rows 0 to 1 cannot all be assigned: too many pairs are forbidden");
    assert_int_equal(bal_assignment(forbidden, 3, 1, memory, column, NULL, &err), STATUS_INVALID);
    assert_string_equal(err.message, "row_count 3 is outside [0, column_count 1]");
    assert_int_equal(bal_assignment(negative, 1, 2, memory, column, NULL, &err), STATUS_INVALID);
    assert_string_equal(err.message,
                        "the cost -2 of row 0 in column 1 is outside [0, 1152921504606846975]");
    assert_int_equal(bal_assignment(huge, 1, 1, memory, column, NULL, &err), STATUS_INVALID);
    assert_int_equal(column[0], -7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_equals_an_exhaustive_search),
        cmocka_unit_test(wrong_shapes_and_costs_are_invalid_and_touch_nothing),
    };
    return cmocka_run_group_tests(tests, open_memory, close_memory);
}
