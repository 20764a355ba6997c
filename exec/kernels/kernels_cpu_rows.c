/// Rows in plain C: added, looked up, gathered, scattered, summed.
#include "exec/kernels/kernels_cpu_row.h"

void exec_cpu_add_floats(exec_kernels *kernels, float *to, const float *from, size_t count)
{
    (void)kernels;
    float *restrict sum = to;
    const float *restrict term = from;
    for (size_t index = 0; index < count; index++) {
        sum[index] += term[index];
    }
}

void exec_cpu_add(exec_kernels *kernels, void *to, const void *from, size_t count)
{
    exec_cpu_add_floats(kernels, to, from, count);
}

void exec_cpu_add_bias(exec_kernels *kernels, void *values, const void *bias, int rows, int columns)
{
    for (int row = 0; row < rows; row++) {
        exec_cpu_add_floats(kernels, (float *)values + (ptrdiff_t)row * columns, bias,
                            (size_t)columns);
    }
}

void exec_cpu_column_sums(exec_kernels *kernels, const void *values, int rows, int columns,
                          float *sum)
{
    for (int row = 0; row < rows; row++) {
        exec_cpu_add_floats(kernels, sum, (const float *)values + (ptrdiff_t)row * columns,
                            (size_t)columns);
    }
}

void exec_cpu_embed(exec_kernels *kernels, const int *token, const int *position,
                    const void *token_table, const void *position_table, int rows, int width,
                    void *output)
{
    for (int row = 0; row < rows; row++) {
        const float *of_token = (const float *)token_table + (ptrdiff_t)token[row] * width;
        float *to = (float *)output + (ptrdiff_t)row * width;
        memcpy(to, of_token, (size_t)width * sizeof *to);
        if (position_table == NULL) continue;
        const float *place = (const float *)position_table + (ptrdiff_t)position[row] * width;
        exec_cpu_add_floats(kernels, to, place, (size_t)width);
    }
}

void exec_cpu_embed_weight(exec_kernels *kernels, const void *output_gradient, const int *token,
                           const int *position, int rows, int width, int token_count,
                           int position_count, float *token_gradient, float *position_gradient)
{
    (void)token_count;
    (void)position_count;
    for (int row = 0; row < rows; row++) {
        const float *given = (const float *)output_gradient + (ptrdiff_t)row * width;
        exec_cpu_add_floats(kernels, token_gradient + (ptrdiff_t)token[row] * width, given,
                            (size_t)width);
        if (position_gradient == NULL) continue;
        exec_cpu_add_floats(kernels, position_gradient + (ptrdiff_t)position[row] * width, given,
                            (size_t)width);
    }
}

void exec_cpu_gather_rows(exec_kernels *kernels, const void *from, const int *row, int rows,
                          int width, void *to)
{
    (void)kernels;
    for (int r = 0; r < rows; r++) {
        memcpy((float *)to + (ptrdiff_t)r * width, (const float *)from + (ptrdiff_t)row[r] * width,
               (size_t)width * sizeof(float));
    }
}

void exec_cpu_scatter_rows(exec_kernels *kernels, const void *from, const int *row, int rows,
                           int width, void *to)
{
    (void)kernels;
    for (int r = 0; r < rows; r++) {
        memcpy((float *)to + (ptrdiff_t)row[r] * width, (const float *)from + (ptrdiff_t)r * width,
               (size_t)width * sizeof(float));
    }
}

void exec_cpu_combine_rows(exec_kernels *kernels, const void *from, const int *first,
                           const int *source, const float *weight, float scale, int rows, int width,
                           void *to)
{
    (void)kernels;
    for (int r = 0; r < rows; r++) {
        float *restrict sum = (float *)to + (ptrdiff_t)r * width;
        const int end = first == NULL ? r + 1 : first[r + 1];
        for (int entry = first == NULL ? r : first[r]; entry < end; entry++) {
            const ptrdiff_t row = source == NULL ? entry : source[entry];
            const float *restrict term = (const float *)from + row * width;
            const float factor = weight == NULL ? scale : scale * weight[entry];
            for (int column = 0; column < width; column++) {
                sum[column] += factor * term[column];
            }
        }
    }
}

void exec_cpu_scale_rows(exec_kernels *kernels, const void *from, const float *weight, int rows,
                         int width, void *to)
{
    (void)kernels;
    for (int r = 0; r < rows; r++) {
        const float *source = (const float *)from + (ptrdiff_t)r * width;
        float *scaled = (float *)to + (ptrdiff_t)r * width;
        const float factor = weight[r];
        for (int column = 0; column < width; column++) {
            scaled[column] = factor * source[column];
        }
    }
}

void exec_cpu_row_dots(exec_kernels *kernels, const void *a, const int *row_a, const void *b,
                       const int *row_b, int rows, int width, float *dot)
{
    (void)kernels;
    for (int r = 0; r < rows; r++) {
        const ptrdiff_t left = row_a == NULL ? r : row_a[r];
        const ptrdiff_t right = row_b == NULL ? r : row_b[r];
        dot[r] =
            exec_cpu_dot((const float *)a + left * width, (const float *)b + right * width, width);
    }
}
