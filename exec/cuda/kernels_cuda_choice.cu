// Which rows a block computes, chosen where their scores are.

#include "exec/cuda/kernels_cuda.cuh"

/// Block s chooses of sequence s. The largest key that enough scores reach is found bit by bit;
/// then a lane has a piece of rows, so that they stay in order and ties go to the first.
__global__ void choose_rows(exec_chosen chosen, const float *score)
{
    const int length = chosen.sequence_length, first = (int)blockIdx.x * length;
    const lane_piece piece(first, first + length);
    unsigned key = 0;
    for (unsigned bit = 0x80000000u; bit != 0; bit >>= 1) {
        int reached = 0;
        for (int row = threadIdx.x; row < length; row += BLOCK_LANES) {
            reached += key_of(score[first + row]) >= (key | bit);
        }
        if (block_sum(reached) >= chosen.count) key |= bit;
    }
    int own_above = 0, own_tied = 0;
    for (int row = piece.begin; row < piece.end; row++) {
        own_above += key_of(score[row]) > key;
        own_tied += key_of(score[row]) == key;
    }
    const found_before above(own_above), tied(own_tied);
    const int wanted = chosen.count - above.all;
    int place = (int)blockIdx.x * chosen.count + above.before + min(tied.before, wanted);
    int ties_before = tied.before;
    for (int row = piece.begin; row < piece.end; row++) {
        const unsigned own = key_of(score[row]);
        chosen.before[row] = place;
        if (own < key || (own == key && ties_before++ >= wanted)) continue;
        chosen.row[place] = row;
        chosen.gate[place++] = 1.0f / (1.0f + expf(-score[row]));
    }
    if (blockIdx.x == gridDim.x - 1 && threadIdx.x == 0) {
        chosen.before[first + length] = (int)gridDim.x * chosen.count;
    }
}

void exec_cuda_choose_rows(exec_kernels *kernels, const exec_chosen *chosen, const float *score)
{
    launch(choose_rows, chosen->sequence_count, BLOCK_LANES, 0, kernels, *chosen, score);
}

__global__ void gate_input(const float *gate, float *gradient, size_t count)
{
    const size_t at = (size_t)blockIdx.x * BLOCK_LANES + threadIdx.x;
    if (at < count) gradient[at] = gradient[at] * gate[at] * (1.0f - gate[at]);
}

void exec_cuda_gate_input(exec_kernels *kernels, const float *gate, float *gradient, size_t count)
{
    launch(gate_input, (unsigned)((count + BLOCK_LANES - 1) / BLOCK_LANES), BLOCK_LANES, 0, kernels,
           gate, gradient, count);
}

/// One block: a lane has a piece of rows, so that they stay in order.
__global__ void find_live(exec_live live)
{
    const lane_piece piece(0, live.sequence_count * live.sequence_length);
    int own = 0;
    for (int row = piece.begin; row < piece.end; row++) {
        own += live.has_left[row] == 0;
    }
    const found_before found(own);
    int place = found.before;
    for (int row = piece.begin; row < piece.end; row++) {
        if (row % live.sequence_length == 0) live.first_row[row / live.sequence_length] = place;
        if (live.has_left[row] == 0) live.row[place++] = row;
    }
    if (threadIdx.x != 0) return;
    live.first_row[live.sequence_count] = live.extent[1] = found.all;
    live.extent[0] = 0;
}

void exec_cuda_find_live(exec_kernels *kernels, const exec_live *live)
{
    launch(find_live, 1, BLOCK_LANES, 0, kernels, *live);
}

/// As in plain C.
__device__ inline bool is_saturated(const exec_compared &states, int row, double cosine)
{
    const double length = sqrt((double)states.before[row]) * sqrt((double)states.after[row]);
    return length > 0 && (double)states.product[row] > cosine * length;
}

__global__ void leave_rows(row_limit limit, exec_leaving leaving, int rows)
{
    const int row = (int)(blockIdx.x * BLOCK_LANES + threadIdx.x);
    if (row >= limit.of(rows)) return;
    const bool leaves =
        leaving.states.product != nullptr
            ? is_saturated(leaving.states, row, leaving.threshold)
            : (double)leaving.confidence[(size_t)row * leaving.stride] > leaving.threshold;
    if (leaves) leaving.has_left[leaving.row[row]] = 1;
}

void exec_cuda_leave_rows(exec_kernels *kernels, const exec_leaving *leaving, int rows)
{
    launch(leave_rows, (unsigned)((rows + BLOCK_LANES - 1) / BLOCK_LANES), BLOCK_LANES, 0, kernels,
           limit_of(kernels), *leaving, rows);
}

/// One block; its first lane adds the gradients, in the order of rows.
__global__ void judge_rows(row_limit limit, exec_compared states, double cosine, const float *bias,
                           float scale, int rows, float *confidence, float *gradient,
                           float *bias_gradient)
{
    __shared__ float of_lane[BLOCK_LANES];
    const int count = limit.of(rows);
    float sum = 0.0f;
    for (int begin = 0; begin < count; begin += BLOCK_LANES) {
        const int row = begin + (int)threadIdx.x;
        if (row < count) {
            const float target = is_saturated(states, row, cosine) ? 1.0f : 0.0f;
            confidence[row] = 1.0f / (1.0f + expf(-(confidence[row] + *bias)));
            of_lane[threadIdx.x] = gradient[row] = scale * (confidence[row] - target);
        }
        __syncthreads();
        const int there = min((int)BLOCK_LANES, count - begin);
        for (int lane = 0; threadIdx.x == 0 && lane < there; lane++) {
            sum += of_lane[lane];
        }
        __syncthreads();
    }
    if (threadIdx.x == 0) *bias_gradient = sum;
}

void exec_cuda_judge_rows(exec_kernels *kernels, const exec_compared *states, double cosine,
                          const float *bias, float scale, int rows, float *confidence,
                          float *gradient, float *bias_gradient)
{
    launch(judge_rows, 1, BLOCK_LANES, 0, kernels, limit_of(kernels), *states, cosine, bias, scale,
           rows, confidence, gradient, bias_gradient);
}
