/// Products with matrices of few entries against the dense product with zeros in their places, for
/// shapes that are no multiples of anything, and what they must not touch.
#include "base/rng.h"
#include "exec/kernels/kernels.h"
#include "tests/assert_close.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE_MAX = 70, ROWS_MAX = 200 };

/// A matrix with zeros, the same in compressed rows, and its transpose in such.
typedef struct pruned {
    int rows, columns;
    float dense[SIDE_MAX * SIDE_MAX];
    int first_entry[SIDE_MAX + 1], column[SIDE_MAX * SIDE_MAX];
    int first_transposed[SIDE_MAX + 1], column_transposed[SIDE_MAX * SIDE_MAX];
    float value[SIDE_MAX * SIDE_MAX], value_transposed[SIDE_MAX * SIDE_MAX];
    exec_sparse matrix, transposed;
} pruned;

static void fill(rng *random, float *values, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        values[at] = (float)(rng_unit(random) - 0.5);
    }
}

/// Lists the entries that are not 0, of the matrix or of its transpose.
static int list(const pruned *from, bool is_transposed, int *first_entry, int *column)
{
    const int rows = is_transposed ? from->columns : from->rows;
    const int columns = is_transposed ? from->rows : from->columns;
    int count = 0;
    for (int row = 0; row < rows; row++) {
        first_entry[row] = count;
        for (int at = 0; at < columns; at++) {
            const int index = is_transposed ? at * from->columns + row : row * from->columns + at;
            if (from->dense[index] != 0) column[count++] = at;
        }
    }
    first_entry[rows] = count;
    return count;
}

static void draw(pruned *to, rng *random, int rows, int columns, double density)
{
    *to = (pruned){.rows = rows, .columns = columns};
    fill(random, to->dense, (size_t)rows * (size_t)columns);
    for (int at = 0; at < rows * columns; at++) {
        if (rng_unit(random) >= density) to->dense[at] = 0;
    }
    to->matrix = (exec_sparse){
        rows,       columns,  list(to, false, to->first_entry, to->column), to->first_entry,
        to->column, to->value};
    to->transposed = (exec_sparse){columns,
                                   rows,
                                   list(to, true, to->first_transposed, to->column_transposed),
                                   to->first_transposed,
                                   to->column_transposed,
                                   to->value_transposed};
}

static void assert_alike(const float *actual, const float *expected, size_t count)
{
    for (size_t at = 0; at < count; at++) {
        const double difference = fabs((double)actual[at] - (double)expected[at]);
        if (!(difference < 1e-5)) {
            fail_msg("%zu: %g instead of %g", at, (double)actual[at], (double)expected[at]);
        }
    }
}

static float input[ROWS_MAX * SIDE_MAX], output_gradient[ROWS_MAX * SIDE_MAX];
static float dense[ROWS_MAX * SIDE_MAX], sparse[ROWS_MAX * SIDE_MAX];

/// All three products of one shape, both those that accumulate and those that do not.
static void compare(exec_kernels *kernels, pruned *of, rng *random, int rows)
{
    const exec_kernel_table *table = kernels->table;
    const size_t inputs = (size_t)rows * (size_t)of->rows;
    const size_t outputs = (size_t)rows * (size_t)of->columns;
    const size_t weights = (size_t)of->rows * (size_t)of->columns;
    fill(random, input, inputs);
    fill(random, output_gradient, outputs);
    table->sparse_fill(kernels, &of->matrix, false, of->dense);
    table->sparse_fill(kernels, &of->transposed, true, of->dense);
    for (int accumulates = 0; accumulates < 2; accumulates++) {
        exec_matmul shape = {.rows = rows,
                             .columns = of->columns,
                             .inner = of->rows,
                             .accumulates = accumulates == 1};
        fill(random, dense, outputs);
        memcpy(sparse, dense, sizeof dense);
        table->matmul(kernels, &shape, input, of->dense, dense);
        table->sparse_matmul(kernels, &of->transposed, input, rows, accumulates == 1, sparse);
        assert_alike(sparse, dense, outputs);
        shape.columns = of->rows;
        shape.inner = of->columns;
        shape.transposes_b = true;
        memcpy(sparse, dense, sizeof dense);
        table->matmul(kernels, &shape, output_gradient, of->dense, dense);
        table->sparse_matmul(kernels, &of->matrix, output_gradient, rows, accumulates == 1, sparse);
        assert_alike(sparse, dense, inputs);
    }
    const exec_matmul gradient = {.rows = of->rows,
                                  .columns = of->columns,
                                  .inner = rows,
                                  .transposes_a = true,
                                  .accumulates = true,
                                  .is_float = true};
    fill(random, dense, weights);
    memcpy(sparse, dense, sizeof dense);
    table->sparse_gradient(kernels, &of->matrix, input, output_gradient, rows, sparse);
    for (size_t at = 0; at < weights; at++) {
        if (of->dense[at] == 0) assert_true(sparse[at] == dense[at]);
    }
    table->matmul(kernels, &gradient, input, output_gradient, dense);
    for (size_t at = 0; at < weights; at++) {
        if (of->dense[at] == 0) sparse[at] = dense[at];
    }
    assert_alike(sparse, dense, weights);
}

static void products_are_those_of_the_dense_matrix(void **state)
{
    (void)state;
    static const int shapes[][3] = {{1, 1, 1},   {7, 5, 3},     {64, 16, 48}, {65, 9, 70},
                                    {128, 8, 8}, {200, 33, 17}, {0, 4, 4},    {3, 1, 64}};
    static const double densities[] = {0, 0.1, 0.5, 1};
    static pruned of;
    exec_kernels *kernels;
    assert_int_equal(exec_kernels_cpu_open(&kernels), STATUS_OK);
    rng random = rng_init(5, 0);
    for (size_t shape = 0; shape < sizeof shapes / sizeof shapes[0]; shape++) {
        for (size_t density = 0; density < sizeof densities / sizeof densities[0]; density++) {
            draw(&of, &random, shapes[shape][1], shapes[shape][2], densities[density]);
            compare(kernels, &of, &random, shapes[shape][0]);
        }
    }
    kernels->table->close(kernels);
}

static void masked_values_are_zero(void **state)
{
    (void)state;
    exec_kernels *kernels;
    assert_int_equal(exec_kernels_cpu_open(&kernels), STATUS_OK);
    float values[] = {1, NAN, 3, 4};
    const uint8_t keep[] = {1, 0, 0, 1};

    kernels->table->mask(kernels, values, keep, 4);

    assert_true(values[0] == 1 && values[1] == 0 && values[2] == 0 && values[3] == 4);
    kernels->table->close(kernels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products_are_those_of_the_dense_matrix),
        cmocka_unit_test(masked_values_are_zero),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
