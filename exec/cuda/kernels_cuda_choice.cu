// Which rows a block computes, chosen where their scores are.

#include "exec/cuda/kernels_cuda.cuh"

/// Block s chooses of sequence s. The largest key that enough scores reach is found bit by bit;
/// then a lane has a piece of rows, so that they stay in order and ties go to the first.
__global__ void choose_rows(exec_chosen chosen, const float *score)
{
    __shared__ int above[BLOCK_LANES], tied[BLOCK_LANES];
    const int length = chosen.sequence_length, first = (int)blockIdx.x * length;
    const int piece = (length + BLOCK_LANES - 1) / BLOCK_LANES;
    const int begin = min(length, (int)threadIdx.x * piece), end = min(length, begin + piece);
    unsigned key = 0;
    for (unsigned bit = 0x80000000u; bit != 0; bit >>= 1) {
        int reached = 0;
        for (int row = threadIdx.x; row < length; row += BLOCK_LANES) {
            reached += key_of(score[first + row]) >= (key | bit);
        }
        if (block_sum(reached) >= chosen.count) key |= bit;
    }
    int own_above = 0, own_tied = 0;
    for (int row = first + begin; row < first + end; row++) {
        own_above += key_of(score[row]) > key;
        own_tied += key_of(score[row]) == key;
    }
    above[threadIdx.x] = own_above;
    tied[threadIdx.x] = own_tied;
    __syncthreads();
    int all_above = 0, place = (int)blockIdx.x * chosen.count, ties_before = 0;
    for (int lane = 0; lane < BLOCK_LANES; lane++) {
        all_above += above[lane];
        if (lane >= (int)threadIdx.x) continue;
        place += above[lane];
        ties_before += tied[lane];
    }
    const int wanted = chosen.count - all_above;
    place += min(ties_before, wanted);
    for (int row = first + begin; row < first + end; row++) {
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

static void enqueue_choose_rows(exec_kernels *kernels, const exec_chosen *chosen,
                                const float *score)
{
    launch(choose_rows, chosen->sequence_count, BLOCK_LANES, 0, kernels, *chosen, score);
}

__global__ void gate_input(const float *gate, float *gradient, size_t count)
{
    const size_t at = (size_t)blockIdx.x * BLOCK_LANES + threadIdx.x;
    if (at < count) gradient[at] = gradient[at] * gate[at] * (1.0f - gate[at]);
}

static void enqueue_gate_input(exec_kernels *kernels, const float *gate, float *gradient,
                               size_t count)
{
    launch(gate_input, (unsigned)((count + BLOCK_LANES - 1) / BLOCK_LANES), BLOCK_LANES, 0, kernels,
           gate, gradient, count);
}

void exec_cuda_fill_choice(exec_kernel_table *table)
{
    table->choose_rows = enqueue_choose_rows;
    table->gate_input = enqueue_gate_input;
}
