// Products with matrices of few entries. Rows are taken in strips and turned, so that each entry is
// multiplied with the values of a whole strip at once, which lie one after another: vectors,
// though the entries stand anywhere.
#include "exec/kernels/kernels_cpu_row.h"

#include <string.h>

enum {
    WIDTH = 8, // of a vector, and of a wide one
    WIDE = 16,
    PRODUCT_ROWS = 64,   // of a strip in a product: 8 sums that stay in registers
    GRADIENT_ROWS = 128, // of a strip in a gradient: its dot products are that long
    TURNED = 8           // rows and columns that are turned at once
};

typedef float lanes __attribute__((vector_size(32), aligned(4), may_alias));
typedef float wide_lanes __attribute__((vector_size(64), aligned(4), may_alias));

/// Rows become columns: element k of part[l] and element l of part[k] change places, by thirds:
/// first of neighbours, then of pairs, then of halves.
EXEC_CPU_INLINE void turn_lanes(lanes part[TURNED])
{
    lanes pair[TURNED];
    lanes quad[TURNED];
#pragma GCC unroll 4
    for (int at = 0; at < TURNED; at += 2) {
        pair[at] = __builtin_shufflevector(part[at], part[at + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        pair[at + 1] = __builtin_shufflevector(part[at], part[at + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
#pragma GCC unroll 4
    for (int at = 0; at < TURNED; at++) {
        if ((at & 2) != 0) continue;
        quad[at] = __builtin_shufflevector(pair[at], pair[at + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        quad[at + 2] = __builtin_shufflevector(pair[at], pair[at + 2], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int at = 0; at < TURNED / 2; at++) {
        part[at] = __builtin_shufflevector(quad[at], quad[at + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        part[at + 4] = __builtin_shufflevector(quad[at], quad[at + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/// A square of TURNED x TURNED elements, whose rows are from_row and to_row apart.
EXEC_CPU_INLINE void turn_square(const float *from, size_t from_row, float *to, size_t to_row,
                                 bool accumulates)
{
    lanes part[TURNED];
#pragma GCC unroll 8
    for (int row = 0; row < TURNED; row++) {
        part[row] = *(const lanes *)(from + (size_t)row * from_row);
    }
    turn_lanes(part);
#pragma GCC unroll 8
    for (int row = 0; row < TURNED; row++) {
        lanes *at = (lanes *)(to + (size_t)row * to_row);
        if (accumulates) part[row] += *at;
        *at = part[row];
    }
}

/// to[column][row] = from[row][column], or +=, element by element, of rows [first_row, rows) and
/// columns [first_column, columns).
EXEC_CPU_INLINE void turn_rest(const float *from, size_t from_row, int first_row, int rows,
                               int first_column, int columns, float *to, size_t to_row,
                               bool accumulates)
{
    for (int row = first_row; row < rows; row++) {
        for (int column = first_column; column < columns; column++) {
            float *at = to + (size_t)column * to_row + (size_t)row;
            const float value = from[(size_t)row * from_row + (size_t)column];
            *at = accumulates ? *at + value : value;
        }
    }
}

/// to[column][strip] = from[row][column] for the rows of a strip; zeros where there are none.
EXEC_CPU_INLINE void turn_in(const float *from, int rows, int columns, int strip, float *to)
{
    const size_t width = (size_t)columns;
    const int whole_rows = rows - rows % TURNED;
    const int whole_columns = columns - columns % TURNED;
    if (rows < strip) memset(to, 0, width * (size_t)strip * sizeof *to);
    for (int row = 0; row < whole_rows; row += TURNED) {
        for (int column = 0; column < whole_columns; column += TURNED) {
            turn_square(from + (size_t)row * width + (size_t)column, width,
                        to + (size_t)column * (size_t)strip + (size_t)row, (size_t)strip, false);
        }
    }
    turn_rest(from, width, 0, whole_rows, whole_columns, columns, to, (size_t)strip, false);
    turn_rest(from, width, whole_rows, rows, 0, columns, to, (size_t)strip, false);
}

/// to[row][column] = from[column][strip], or +=. Row by row too, as memory likes it.
EXEC_CPU_INLINE void turn_out(const float *from, int rows, int columns, int strip, bool accumulates,
                              float *to)
{
    const size_t width = (size_t)columns;
    const int whole_rows = rows - rows % TURNED;
    const int whole_columns = columns - columns % TURNED;
    for (int row = 0; row < whole_rows; row += TURNED) {
        for (int column = 0; column < whole_columns; column += TURNED) {
            turn_square(from + (size_t)column * (size_t)strip + (size_t)row, (size_t)strip,
                        to + (size_t)row * width + (size_t)column, width, accumulates);
        }
    }
    turn_rest(from, (size_t)strip, whole_columns, columns, 0, whole_rows, to, width, accumulates);
    turn_rest(from, (size_t)strip, 0, columns, whole_rows, rows, to, width, accumulates);
}

/// sums[i][PRODUCT_ROWS] = the entries of row i times the turned input.
EXEC_CPU_INLINE void multiply_strip(const exec_sparse *matrix, const float *turned, float *sums)
{
    const float *value = matrix->value;
    for (int row = 0; row < matrix->rows; row++) {
        lanes sum[PRODUCT_ROWS / WIDTH] = {{0}};
        for (int entry = matrix->first_entry[row]; entry < matrix->first_entry[row + 1]; entry++) {
            const float factor = value[entry];
            const float *input = turned + (size_t)matrix->column[entry] * PRODUCT_ROWS;
#pragma GCC unroll 8
            for (int part = 0; part < PRODUCT_ROWS / WIDTH; part++) {
                sum[part] += factor * *(const lanes *)(input + part * WIDTH);
            }
        }
#pragma GCC unroll 8
        for (int part = 0; part < PRODUCT_ROWS / WIDTH; part++) {
            *(lanes *)(sums + (size_t)row * PRODUCT_ROWS + part * WIDTH) = sum[part];
        }
    }
}

/// Adds the dot products of turned columns to the entries of a gradient.
EXEC_CPU_INLINE void add_gradient_strip(const exec_sparse *matrix, const float *input,
                                        const float *output_gradient, float *gradient)
{
    for (int row = 0; row < matrix->rows; row++) {
        const float *left = input + (size_t)row * GRADIENT_ROWS;
        float *to = gradient + (size_t)row * (size_t)matrix->columns;
        for (int entry = matrix->first_entry[row]; entry < matrix->first_entry[row + 1]; entry++) {
            const int column = matrix->column[entry];
            const float *right = output_gradient + (size_t)column * GRADIENT_ROWS;
            lanes sum[4] = {{0}};
#pragma GCC unroll 16
            for (int part = 0; part < GRADIENT_ROWS / WIDTH; part++) {
                sum[part % 4] +=
                    *(const lanes *)(left + part * WIDTH) * *(const lanes *)(right + part * WIDTH);
            }
            float total[WIDTH];
            *(lanes *)total = (sum[0] + sum[2]) + (sum[1] + sum[3]);
            to[column] += exec_cpu_lanes_sum(total);
        }
    }
}

/// multiply_strip in wide vectors.
EXEC_CPU_WIDEST static void multiply_strip_widest(const exec_sparse *matrix, const float *turned,
                                                  float *sums)
{
    const float *value = matrix->value;
    for (int row = 0; row < matrix->rows; row++) {
        wide_lanes sum[PRODUCT_ROWS / WIDE] = {{0}};
        for (int entry = matrix->first_entry[row]; entry < matrix->first_entry[row + 1]; entry++) {
            const float factor = value[entry];
            const float *input = turned + (size_t)matrix->column[entry] * PRODUCT_ROWS;
#pragma GCC unroll 4
            for (int part = 0; part < PRODUCT_ROWS / WIDE; part++) {
                sum[part] += factor * *(const wide_lanes *)(input + part * WIDE);
            }
        }
#pragma GCC unroll 4
        for (int part = 0; part < PRODUCT_ROWS / WIDE; part++) {
            *(wide_lanes *)(sums + (size_t)row * PRODUCT_ROWS + part * WIDE) = sum[part];
        }
    }
}

/// add_gradient_strip in wide vectors, each of which is two of its partial sums: the same bits.
EXEC_CPU_WIDEST static void add_gradient_strip_widest(const exec_sparse *matrix, const float *input,
                                                      const float *output_gradient, float *gradient)
{
    for (int row = 0; row < matrix->rows; row++) {
        const float *left = input + (size_t)row * GRADIENT_ROWS;
        float *to = gradient + (size_t)row * (size_t)matrix->columns;
        for (int entry = matrix->first_entry[row]; entry < matrix->first_entry[row + 1]; entry++) {
            const int column = matrix->column[entry];
            const float *right = output_gradient + (size_t)column * GRADIENT_ROWS;
            wide_lanes sum[2] = {{0}};
#pragma GCC unroll 8
            for (int part = 0; part < GRADIENT_ROWS / WIDE; part++) {
                sum[part % 2] += *(const wide_lanes *)(left + part * WIDE) *
                                 *(const wide_lanes *)(right + part * WIDE);
            }
            float pair[WIDE];
            float total[WIDTH];
            *(wide_lanes *)pair = sum[0] + sum[1];
            *(lanes *)total = *(const lanes *)pair + *(const lanes *)(pair + WIDTH);
            to[column] += exec_cpu_lanes_sum(total);
        }
    }
}

typedef struct strip {
    const exec_sparse *matrix;
    const float *input;
    const float *output_gradient; // of a gradient
    float *output;                // of a product; of a gradient: the gradient
    int rows;                     // of the strip
    bool accumulates;
    float *scratch;
} strip;

typedef void multiply_function(const exec_sparse *matrix, const float *turned, float *sums);

EXEC_CPU_INLINE void multiply(const strip *of, multiply_function *strip_function)
{
    const exec_sparse *matrix = of->matrix;
    float *sums = of->scratch + (size_t)matrix->columns * PRODUCT_ROWS;
    turn_in(of->input, of->rows, matrix->columns, PRODUCT_ROWS, of->scratch);
    strip_function(matrix, of->scratch, sums);
    turn_out(sums, of->rows, matrix->rows, PRODUCT_ROWS, of->accumulates, of->output);
}

typedef void gradient_function(const exec_sparse *matrix, const float *input,
                               const float *output_gradient, float *gradient);

EXEC_CPU_INLINE void add_gradient(const strip *of, gradient_function *strip_function)
{
    const exec_sparse *matrix = of->matrix;
    float *turned = of->scratch + (size_t)matrix->rows * GRADIENT_ROWS;
    turn_in(of->input, of->rows, matrix->rows, GRADIENT_ROWS, of->scratch);
    turn_in(of->output_gradient, of->rows, matrix->columns, GRADIENT_ROWS, turned);
    strip_function(matrix, of->scratch, turned, of->output);
}

EXEC_CPU_WIDE static void multiply_strip_wide(const exec_sparse *matrix, const float *turned,
                                              float *sums)
{
    multiply_strip(matrix, turned, sums);
}

EXEC_CPU_WIDE static void add_gradient_strip_wide(const exec_sparse *matrix, const float *input,
                                                  const float *output_gradient, float *gradient)
{
    add_gradient_strip(matrix, input, output_gradient, gradient);
}

EXEC_CPU_WIDE static void multiply_wide(const exec_cpu *cpu, const strip *of)
{
    multiply(of, cpu->is_widest ? multiply_strip_widest : multiply_strip_wide);
}

EXEC_CPU_WIDE static void add_gradient_wide(const exec_cpu *cpu, const strip *of)
{
    add_gradient(of, cpu->is_widest ? add_gradient_strip_widest : add_gradient_strip_wide);
}

static void multiply_narrow(const strip *of)
{
    multiply(of, multiply_strip);
}

static void add_gradient_narrow(const strip *of)
{
    add_gradient(of, add_gradient_strip);
}

void exec_cpu_sparse_fill(exec_kernels *kernels, const exec_sparse *matrix, bool is_transposed,
                          const void *dense)
{
    (void)kernels;
    const float *from = dense;
    float *value = matrix->value;
    const size_t row_step = is_transposed ? 1 : (size_t)matrix->columns;
    const size_t column_step = is_transposed ? (size_t)matrix->rows : 1;
    for (int row = 0; row < matrix->rows; row++) {
        for (int entry = matrix->first_entry[row]; entry < matrix->first_entry[row + 1]; entry++) {
            const size_t column = (size_t)matrix->column[entry];
            value[entry] = from[(size_t)row * row_step + column * column_step];
        }
    }
}

void exec_cpu_sparse_matmul(exec_kernels *kernels, const exec_sparse *matrix, const void *input,
                            int rows, bool accumulates, void *output)
{
    exec_cpu *cpu = (exec_cpu *)kernels;
    const size_t sides = (size_t)matrix->rows + (size_t)matrix->columns;
    strip of = {.matrix = matrix,
                .accumulates = accumulates,
                .scratch = exec_cpu_scratch(cpu, sides * PRODUCT_ROWS)};
    if (of.scratch == NULL) return;
    for (int row = 0; row < rows; row += PRODUCT_ROWS) {
        of.rows = rows - row < PRODUCT_ROWS ? rows - row : PRODUCT_ROWS;
        of.input = (const float *)input + (size_t)row * (size_t)matrix->columns;
        of.output = (float *)output + (size_t)row * (size_t)matrix->rows;
        if (cpu->is_wide) {
            multiply_wide(cpu, &of);
        } else {
            multiply_narrow(&of);
        }
    }
}

void exec_cpu_sparse_gradient(exec_kernels *kernels, const exec_sparse *matrix, const void *input,
                              const void *output_gradient, int rows, float *gradient)
{
    exec_cpu *cpu = (exec_cpu *)kernels;
    const size_t sides = (size_t)matrix->rows + (size_t)matrix->columns;
    strip of = {.matrix = matrix,
                .output = gradient,
                .scratch = exec_cpu_scratch(cpu, sides * GRADIENT_ROWS)};
    if (of.scratch == NULL) return;
    for (int row = 0; row < rows; row += GRADIENT_ROWS) {
        of.rows = rows - row < GRADIENT_ROWS ? rows - row : GRADIENT_ROWS;
        of.input = (const float *)input + (size_t)row * (size_t)matrix->rows;
        of.output_gradient = (const float *)output_gradient + (size_t)row * (size_t)matrix->columns;
        if (cpu->is_wide) {
            add_gradient_wide(cpu, &of);
        } else {
            add_gradient_narrow(&of);
        }
    }
}

void exec_cpu_mask(exec_kernels *kernels, float *values, const uint8_t *keep, size_t count)
{
    (void)kernels;
    for (size_t at = 0; at < count; at++) {
        values[at] = keep[at] != 0 ? values[at] : 0.0F;
    }
}
