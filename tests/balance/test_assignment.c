/// The assignment problem: equal to an exhaustive search on thousands of small matrices, with ties
/// and more columns than rows.
#include "balance/migration/assignment.h"
#include "base/rng.h"
#include "tests/test.h"
#include "tests/test_memory.h"

enum { ROWS = 6, COLUMNS = 7 };

/// The least sum over every way to choose for rows from `row` on among the columns that are free.
static int64_t exhaustive(const int64_t *cost, int row, int rows, int columns, unsigned used)
{
    int64_t best = row == rows ? 0 : INT64_MAX;
    for (int column = 0; row < rows && column < columns; column++) {
        if (used >> column & 1) continue;
        const int64_t rest = exhaustive(cost, row + 1, rows, columns, used | 1U << column);
        const int64_t sum = cost[row * columns + column] + rest;
        if (sum < best) best = sum;
    }
    return best;
}

TEST(it_equals_an_exhaustive_search)
{
    for (uint64_t seed = 1; seed <= 5000; seed++) {
        rng random = rng_init(seed, 1);
        const int columns = (int)rng_between(&random, 1, COLUMNS);
        const int rows = (int)rng_between(&random, 0, columns < ROWS ? columns : ROWS);
        const int64_t largest = rng_below(&random, 2) == 0 ? 3 : 1000000;
        int64_t cost[ROWS * COLUMNS];
        for (int cell = 0; cell < rows * columns; cell++) {
            cost[cell] = rng_between(&random, 0, largest);
        }
        int chosen[ROWS] = {0};
        arena_reset(memory);

        assert_ok(bal_assignment(cost, rows, columns, memory, chosen, NULL));

        unsigned used = 0;
        int64_t sum = 0;
        for (int row = 0; row < rows; row++) {
            assert_false(used >> chosen[row] & 1);
            used |= 1U << chosen[row];
            sum += cost[row * columns + chosen[row]];
        }
        assert_int_equal(sum, exhaustive(cost, 0, rows, columns, 0));
    }
}

TEST(wrong_shapes_and_costs_are_invalid_and_touch_nothing)
{
    const int64_t negative[] = {1, -2, 0};
    const int64_t huge[] = {INT64_MAX / 8 + 1};
    int column[3] = {-7, -7, -7};

    assert_fails(bal_assignment(negative, 3, 1, memory, column, &why), STATUS_INVALID,
                 "row_count 3 is outside [0, column_count 1]");
    assert_fails(bal_assignment(negative, 1, 2, memory, column, &why), STATUS_INVALID,
                 "the cost -2 of row 0 in column 1 is outside [0, 1152921504606846975]");
    assert_int_equal(bal_assignment(huge, 1, 1, memory, column, &why), STATUS_INVALID);
    assert_int_equal(column[0], -7);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
