// Sums over rows, one result per column: gradients of biases, gains, shifts and tables.
//
// A chunk of rows is summed by one block, eight interleaved rows at a time that are then added in
// ascending order; chunks are added in ascending order by a second kernel. Shapes alone decide.

#include "exec/cuda/kernels_cuda.cuh"

enum { CHUNK_ROWS = 256, ROW_LANES = BLOCK_LANES / WARP_LANES };

__host__ __device__ inline int chunks_of(int rows)
{
    return (rows + CHUNK_ROWS - 1) / CHUNK_ROWS;
}

/// The numbers to be summed: values as they are.
template <typename Value> struct plain_values {
    static constexpr int SUMS = 1;
    const Value *values;
    int columns;

    __device__ void add(int row, int column, float *sum) const
    {
        sum[0] += to_float(values[(size_t)row * columns + column]);
    }
};

/// Gradients of weight and bias.
template <typename Value> struct norm_gradients {
    static constexpr int SUMS = 2;
    const Value *output_gradient, *input;
    const float *mean, *rstd;
    int columns;

    __device__ void add(int row, int column, float *sum) const
    {
        const size_t at = (size_t)row * columns + column;
        const float gradient = to_float(output_gradient[at]);
        const float center = mean == nullptr ? 0.0f : mean[row];
        sum[0] += gradient * ((to_float(input[at]) - center) * rstd[row]);
        sum[1] += gradient;
    }
};

/// @param partial [SUMS][chunks][columns] out
template <typename Source>
__global__ void sum_chunks(row_limit limit, Source source, int rows, int columns, float *partial)
{
    constexpr int SUMS = Source::SUMS;
    __shared__ float of_lane[SUMS][ROW_LANES][WARP_LANES];
    const int lane = threadIdx.x % WARP_LANES, row_lane = threadIdx.x / WARP_LANES;
    const int column = blockIdx.x * WARP_LANES + lane, chunk = blockIdx.y;
    const int end = min(limit.of(rows), (chunk + 1) * CHUNK_ROWS);
    if (end <= chunk * CHUNK_ROWS) return;
    float sum[SUMS] = {};
    if (column < columns) {
        for (int row = chunk * CHUNK_ROWS + row_lane; row < end; row += ROW_LANES) {
            source.add(row, column, sum);
        }
    }
    for (int which = 0; which < SUMS; which++) {
        of_lane[which][row_lane][lane] = sum[which];
    }
    __syncthreads();
    if (row_lane != 0 || column >= columns) return;
    for (int which = 0; which < SUMS; which++) {
        float total = 0.0f;
        for (int other = 0; other < ROW_LANES; other++) {
            total += of_lane[which][other][lane];
        }
        partial[((size_t)which * gridDim.y + chunk) * columns + column] = total;
    }
}

/// sum[column] += chunks in ascending order
__global__ void add_chunks(row_limit limit, const float *partial, int rows, int columns, float *sum)
{
    const int chunks = chunks_of(limit.of(rows));
    const int column = blockIdx.x * BLOCK_LANES + threadIdx.x;
    if (column >= columns) return;
    float total = 0.0f;
    for (int chunk = 0; chunk < chunks; chunk++) {
        total += partial[(size_t)chunk * columns + column];
    }
    sum[column] += total;
}

static void add_chunks_to(exec_kernels *kernels, const float *partial, int rows, int columns,
                          float *sum)
{
    launch(add_chunks, (columns + BLOCK_LANES - 1) / BLOCK_LANES, BLOCK_LANES, 0, kernels,
           limit_of(kernels), partial, rows, columns, sum);
}

template <typename Source>
static void sum_columns(exec_kernels *kernels, const Source &source, int rows, float *sum,
                        float *second_sum)
{
    const int columns = source.columns;
    const size_t sums = (size_t)chunks_of(rows) * columns;
    float *partial = (float *)exec_cuda_scratch(kernels, Source::SUMS * sums * sizeof(float));
    if (partial == nullptr || rows == 0) return;
    const dim3 grid((columns + WARP_LANES - 1) / WARP_LANES, chunks_of(rows));
    launch(sum_chunks<Source>, grid, BLOCK_LANES, 0, kernels, limit_of(kernels), source, rows,
           columns, partial);
    add_chunks_to(kernels, partial, rows, columns, sum);
    if (second_sum != nullptr) add_chunks_to(kernels, partial + sums, rows, columns, second_sum);
}

void exec_cuda_column_sums(exec_kernels *kernels, const void *values, int rows, int columns,
                           float *sum)
{
    if (is_bf16(kernels)) {
        const plain_values<bf16> source = {(const bf16 *)values, columns};
        return sum_columns(kernels, source, rows, sum, nullptr);
    }
    const plain_values<float> source = {(const float *)values, columns};
    return sum_columns(kernels, source, rows, sum, nullptr);
}

void exec_cuda_layer_norm_weight(exec_kernels *kernels, const void *output_gradient,
                                 const void *input, const float *mean, const float *rstd, int rows,
                                 int width, float *dweight, float *dbias)
{
    if (is_bf16(kernels)) {
        const norm_gradients<bf16> source = {(const bf16 *)output_gradient, (const bf16 *)input,
                                             mean, rstd, width};
        return sum_columns(kernels, source, rows, dweight, dbias);
    }
    const norm_gradients<float> source = {(const float *)output_gradient, (const float *)input,
                                          mean, rstd, width};
    return sum_columns(kernels, source, rows, dweight, dbias);
}

/// Block (k, part of the columns) looks for k among all indices, a tile at a time.
template <typename Value>
__global__ void add_rows_by_index(const Value *from, const int *index, int rows, int width,
                                  float *to)
{
    __shared__ int tile[BLOCK_LANES];
    const int wanted = blockIdx.x;
    const int column = blockIdx.y * BLOCK_LANES + threadIdx.x;
    float sum = 0.0f;
    bool has_any = false;
    for (int begin = 0; begin < rows; begin += BLOCK_LANES) {
        const int own = begin + (int)threadIdx.x;
        tile[threadIdx.x] = own < rows ? index[own] : -1;
        const bool is_here = __syncthreads_or(tile[threadIdx.x] == wanted);
        has_any |= is_here;
        for (int row = 0; is_here && row < BLOCK_LANES; row++) {
            if (tile[row] == wanted && column < width) {
                sum += to_float(from[(size_t)(begin + row) * width + column]);
            }
        }
        __syncthreads();
    }
    if (has_any && column < width) to[(size_t)wanted * width + column] += sum;
}

static void add_by_index(exec_kernels *kernels, const void *from, const int *index, int rows,
                         int width, int count, float *to)
{
    const dim3 grid(count, (width + BLOCK_LANES - 1) / BLOCK_LANES);
    launch_either(add_rows_by_index<bf16>, add_rows_by_index<float>, grid, 0, kernels, from, index,
                  rows, width, to);
}

void exec_cuda_embed_weight(exec_kernels *kernels, const void *output_gradient, const int *token,
                            const int *position, int rows, int width, int token_count,
                            int position_count, float *token_gradient, float *position_gradient)
{
    add_by_index(kernels, output_gradient, token, rows, width, token_count, token_gradient);
    if (position_gradient == nullptr) return;
    add_by_index(kernels, output_gradient, position, rows, width, position_count,
                 position_gradient);
}
