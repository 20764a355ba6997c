/// The operations of the plain C backend against their definitions (kernel_cases.h); widths of
/// vectors; the memory that ranks keep for their layers.
#include "base/arena.h"
#include "exec/buffers.h"
#include "exec/kernels/kernels_cpu.h"
#include "tests/exec/kernel_cases.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

static void check_all(exec_kernels *kernels, double tolerance)
{
    for (int index = 0; index < kernel_case_count; index++) {
        const double error = kernel_cases[index].error(kernels);
        if (!(error <= tolerance)) {
            fail_msg("%s of %s is off by %g", kernel_cases[index].name, kernels->table->name,
                     error);
        }
    }
}

TEST(plain_c_computes_what_operations_are_defined_as)
{
    exec_kernels *kernels = NULL;
    assert_ok(exec_kernels_cpu_open(&kernels));

    assert_string_equal(kernels->table->name, "cpu");
    check_all(kernels, 1e-5);

    kernels->table->close(kernels);
}

/// Bits of everything that has several widths, over the same input.
///
/// @param width 0 to 2: the widest that is allowed, where the machine has it
static uint32_t bits_of_width(int width, float *values)
{
    enum { ROWS = 40, WIDTH = 24, HIDDEN = 51 };
    static const int first_row[] = {0, 23, 40};
    const exec_attention attention = {.head_count = 3,
                                      .head_width = 8,
                                      .sequence_count = 2,
                                      .first_row = first_row,
                                      .block_rows = 16,
                                      .block_count = 4};
    const int target[ROWS] = {3, 1, 2};
    const exec_adamw adamw = {0.1F, 0.9F, 0.9F, 1e-8F, 0.1F, 1, 1.0F};
    exec_kernels *kernels = NULL;
    assert_ok(exec_kernels_cpu_open(&kernels));
    const exec_kernel_table *table = kernels->table;
    exec_cpu *cpu = (exec_cpu *)kernels;
    cpu->is_wide = cpu->is_wide && width >= 1;
    cpu->is_widest = cpu->is_widest && width >= 2;
    float *qkv = values, *output = qkv + ROWS * 3 * WIDTH, *sums = output + ROWS * WIDTH;
    float *back = sums + ROWS * 3, *hidden = back + ROWS * 3 * WIDTH, *end;
    for (int index = 0; index < ROWS * 3 * WIDTH; index++) {
        qkv[index] = (float)((index * 7919) % 1013) / 500.0F - 1.0F;
    }
    table->attention(kernels, &attention, qkv, output, sums);
    table->attention_input(kernels, &attention, qkv, output, sums, qkv, back);
    const exec_matmul shape = {.rows = ROWS, .columns = HIDDEN, .inner = WIDTH};
    table->matmul(kernels, &shape, output, qkv, hidden);
    table->gelu(kernels, hidden, hidden, ROWS * HIDDEN);
    table->gelu_input(kernels, qkv, hidden, ROWS * HIDDEN - 3);
    end = hidden + ROWS * HIDDEN;
    table->cross_entropy(kernels, hidden, target, ROWS, HIDDEN, 1.0F, end, NULL, hidden);
    end += ROWS;
    table->adamw(kernels, &adamw, back, hidden, qkv, output, NULL, back, ROWS * WIDTH - 1);
    uint32_t hash = 0;
    for (const float *at = values; at < end; at++) {
        uint32_t bits;
        memcpy(&bits, at, sizeof bits);
        hash = (hash ^ bits) * 16777619U;
    }
    table->close(kernels);
    return hash;
}

TEST(wide_and_narrow_vectors_give_the_same_bits)
{
    float *values = memory_array(20000, sizeof *values);

    uint32_t bits[3];
    for (int width = 0; width < 3; width++) {
        memset(values, 0, 20000 * sizeof *values);
        bits[width] = bits_of_width(width, values);
    }

    assert_true(bits[1] == bits[0]);
    assert_true(bits[2] == bits[0]);
    free(values);
}

TEST(regions_are_taken_again_and_counted)
{
    exec_kernels *kernels = NULL;
    exec_buffers *buffers = NULL;
    exec_holding holding = {0};
    assert_ok(exec_kernels_cpu_open(&kernels));
    buffers = exec_buffers_create(kernels);

    void *first = exec_buffers_take(buffers, 1000);
    void *second = exec_buffers_take(buffers, 1000);
    assert_ptr_not_equal(first, second);
    exec_buffers_give(buffers, first);
    void *third = exec_buffers_take(buffers, 900);
    assert_ptr_equal(third, first);
    exec_buffers_give(buffers, third);
    const void *small = exec_holding_take(&holding, buffers, 300);
    assert_ptr_not_equal(small, first); // less than half of it: that would waste too much
    assert_int_equal(holding.bytes, 300);
    assert_int_equal(exec_buffers_taken_bytes(buffers), 1300);
    exec_holding_give(&holding, buffers);
    exec_buffers_give(buffers, second);
    exec_buffers_give(buffers, NULL);
    exec_buffers_trim(buffers);

    assert_int_equal(holding.region_count, 0);
    assert_int_equal(exec_buffers_taken_bytes(buffers), 0);
    exec_buffers_destroy(buffers);
    exec_buffers_destroy(NULL);
    kernels->table->close(kernels);
}

TEST(regions_that_a_failed_op_left_are_released_at_the_end)
{
    exec_kernels *kernels = NULL;
    exec_buffers *buffers = NULL;
    assert_ok(exec_kernels_cpu_open(&kernels));
    buffers = exec_buffers_create(kernels);
    exec_buffers_take(buffers, 1000);

    assert_int_equal(exec_buffers_taken_bytes(buffers), 1000);
    exec_buffers_destroy(buffers); // memory checkers would tell of a leak
    kernels->table->close(kernels);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
