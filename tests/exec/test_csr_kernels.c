/// Products with matrices in compressed rows of the plain C backend: bit for bit those of the dense
/// products with zeros in place, over random shapes, densities and widths of vectors; and the sum
/// of squares.
#include "base/arena.h"
#include "base/rng.h"
#include "exec/kernels/kernels_cpu.h"
#include "tests/test_memory.h"

#include <stdlib.h>
#include <string.h>

/// A matrix with zeros, and the same in compressed rows.
typedef struct drawn_matrix {
    exec_csr csr;
    int64_t *first;
    int *column;
    float *dense; // [rows][columns]
    float *value; // [entries]
} drawn_matrix;

/// Some numbers are 0 of either sign, or so small that products are.
static float draw_number(rng *random)
{
    const float number = (float)(2 * rng_unit(random) - 1);
    switch (rng_below(random, 16)) {
    case 0:
        return number < 0 ? -0.0F : 0.0F;
    case 1:
        return number * 1e-30F;
    default:
        return number;
    }
}

static float *draw_numbers(size_t count, rng *random)
{
    float *numbers = arena_array(memory, count + 1, sizeof *numbers);
    for (size_t at = 0; at < count; at++) {
        numbers[at] = draw_number(random);
    }
    return numbers;
}

/// @param density of the rows that are not empty; every fourth is
static drawn_matrix draw_matrix(int rows, int columns, double density, rng *random)
{
    const size_t count = (size_t)rows * (size_t)columns;
    drawn_matrix drawn = {.first = arena_array(memory, (size_t)rows + 1, sizeof(int64_t)),
                          .column = arena_array(memory, count, sizeof(int)),
                          .dense = arena_array(memory, count, sizeof(float)),
                          .value = arena_array(memory, count, sizeof(float))};
    int64_t entry = 0;
    for (int row = 0; row < rows; row++) {
        const bool is_empty = density < 1 && rng_below(random, 4) == 0;
        for (int column = 0; column < columns; column++) {
            if (is_empty || rng_unit(random) >= density) continue;
            drawn.column[entry] = column;
            drawn.value[entry] = draw_number(random);
            drawn.dense[(size_t)row * (size_t)columns + (size_t)column] = drawn.value[entry++];
        }
        drawn.first[row + 1] = entry;
    }
    drawn.csr = (exec_csr){rows, columns, drawn.first, drawn.column};
    return drawn;
}

/// c = or += of both kinds of products, from the same c.
static void check_product(exec_kernels *kernels, const drawn_matrix *b, int rows, bool transposes,
                          bool accumulates, rng *random)
{
    const int inner = transposes ? b->csr.columns : b->csr.rows;
    const int outer = transposes ? b->csr.rows : b->csr.columns;
    const size_t count = (size_t)rows * (size_t)outer;
    const exec_matmul shape = {.rows = rows,
                               .columns = outer,
                               .inner = inner,
                               .transposes_b = transposes,
                               .accumulates = accumulates};
    const float *a = draw_numbers((size_t)rows * (size_t)inner, random);
    float *expected = draw_numbers(count, random);
    float *c = arena_array(memory, count + 1, sizeof *c);
    memcpy(c, expected, count * sizeof *c);

    kernels->table->matmul(kernels, &shape, a, b->dense, expected);
    kernels->table->csr_matmul(kernels, &b->csr, rows, transposes, accumulates, a, b->value, c);

    if (memcmp(c, expected, count * sizeof *c) == 0) return;
    fail_msg("%d rows, matrix %d x %d, transposed %d, accumulates %d: other bits", rows,
             b->csr.rows, b->csr.columns, transposes, accumulates);
}

static void check_sample(exec_kernels *kernels, const drawn_matrix *of, int rows, rng *random)
{
    const exec_csr *csr = &of->csr;
    const exec_matmul shape = {.rows = csr->rows,
                               .columns = csr->columns,
                               .inner = rows,
                               .transposes_a = true,
                               .accumulates = true,
                               .is_float = true};
    const float *a = draw_numbers((size_t)rows * (size_t)csr->rows, random);
    const float *b = draw_numbers((size_t)rows * (size_t)csr->columns, random);
    float *expected = draw_numbers((size_t)csr->rows * (size_t)csr->columns, random);
    float *c = arena_array(memory, (size_t)csr->first[csr->rows] + 1, sizeof *c);
    for (int row = 0; row < csr->rows; row++) {
        for (int64_t entry = csr->first[row]; entry < csr->first[row + 1]; entry++) {
            c[entry] = expected[row * csr->columns + csr->column[entry]];
        }
    }

    kernels->table->matmul(kernels, &shape, a, b, expected);
    kernels->table->csr_sample(kernels, csr, rows, a, b, c);

    for (int row = 0; row < csr->rows; row++) {
        for (int64_t entry = csr->first[row]; entry < csr->first[row + 1]; entry++) {
            const float *dense = &expected[row * csr->columns + csr->column[entry]];
            if (memcmp(&c[entry], dense, sizeof *dense) == 0) continue;
            fail_msg("%d rows, sampled %d x %d: %g, not %g", rows, csr->rows, csr->columns,
                     (double)c[entry], (double)*dense);
        }
    }
}

static void check_matrix(exec_kernels *kernels, int rows, int matrix_rows, int columns,
                         double density, rng *random)
{
    const drawn_matrix drawn = draw_matrix(matrix_rows, columns, density, random);
    for (int way = 0; way < 4; way++) {
        check_product(kernels, &drawn, rows, way % 2 == 1, way >= 2, random);
    }
    check_sample(kernels, &drawn, rows, random);
}

static exec_kernels *open_width(int width)
{
    exec_kernels *kernels = NULL;
    assert_ok(exec_kernels_cpu_open(&kernels));
    exec_cpu *cpu = (exec_cpu *)kernels;
    cpu->is_wide = cpu->is_wide && width >= 1;
    cpu->is_widest = cpu->is_widest && width >= 2;
    return kernels;
}

TEST(sparse_products_have_the_bits_of_dense_ones)
{
    static const double densities[] = {0, 0.02, 0.1, 0.5, 1};
    for (int width = 0; width < 3; width++) {
        rng random = rng_init(41, (uint64_t)width);
        exec_kernels *kernels = open_width(width);
        for (int draw = 0; draw < 60; draw++) {
            const int rows = (int)rng_below(&random, 150);
            const int matrix_rows = 1 + (int)rng_below(&random, draw % 10 == 0 ? 600 : 90);
            const int columns = 1 + (int)rng_below(&random, draw % 10 == 5 ? 600 : 90);
            check_matrix(kernels, rows, matrix_rows, columns, densities[draw % 5], &random);
        }
        kernels->table->close(kernels);
    }
}

/// Of a -0.0 that is added to, and of products that are -0.0 where they are computed.
TEST(a_sum_is_never_minus_zero)
{
    exec_kernels *kernels = open_width(2);
    static const int64_t first[] = {0, 1, 1};
    static const int column[] = {1};
    const exec_csr csr = {2, 2, first, column};
    const float value[] = {-0.0F};
    const float dense[] = {0, -0.0F, 0, 0};
    const float a[] = {1, -1};
    const exec_matmul shape = {.rows = 1, .columns = 2, .inner = 2, .accumulates = true};
    float expected[] = {-0.0F, -0.0F};
    float c[] = {-0.0F, -0.0F};

    kernels->table->matmul(kernels, &shape, a, dense, expected);
    kernels->table->csr_matmul(kernels, &csr, 1, false, true, a, value, c);

    const float zeros[] = {0, 0};
    assert_memory_equal(c, zeros, sizeof c);
    assert_memory_equal(expected, zeros, sizeof expected);
    kernels->table->close(kernels);
}

/// A vector, a matrix in compressed rows, and a vector: at places whose partial sums differ.
TEST(squares_have_the_bits_of_the_dense_sum)
{
    rng random = rng_init(43, 0);
    exec_kernels *kernels = open_width(2);
    for (int draw = 0; draw < 100; draw++) {
        arena_reset(memory);
        const size_t front = rng_below(&random, 20), back = rng_below(&random, 20);
        const drawn_matrix matrix = draw_matrix(1 + (int)rng_below(&random, 20),
                                                1 + (int)rng_below(&random, 20), 0.3, &random);
        const size_t inside = (size_t)matrix.csr.rows * (size_t)matrix.csr.columns;
        const size_t entries = (size_t)matrix.csr.first[matrix.csr.rows];
        const size_t count = front + inside + back;
        float *dense = draw_numbers(count, &random);
        float *held = arena_array(memory, count, sizeof *held);
        memcpy(dense + front, matrix.dense, inside * sizeof *dense);
        memcpy(held, dense, front * sizeof *held);
        memcpy(held + front, matrix.value, entries * sizeof *held);
        memcpy(held + front + entries, dense + front + inside, back * sizeof *held);
        const exec_held parts[] = {
            {0, front, NULL}, {front, entries, &matrix.csr}, {front + inside, back, NULL}};

        const double expected = kernels->table->sum_of_squares(kernels, dense, count);
        const double sum = kernels->table->held_squares(kernels, parts, 3, held, count);

        assert_memory_equal(&sum, &expected, sizeof sum);
    }
    kernels->table->close(kernels);
}

int main(void)
{
    return run_all_tests(open_memory, close_memory);
}
