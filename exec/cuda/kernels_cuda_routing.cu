// Which rows meet which experts: chosen, counted and sorted where the logits are. Numbers that are
// counted are integers; floats are summed by one warp or block, in an order of its own.

#include "exec/cuda/kernels_cuda.cuh"

/// What a lane of a warp has of a row of logits: experts lane, lane + 32, ...
struct row_logits {
    const float *logit, *offset; // offset NULL: 0
    int expert_count;

    __device__ float shifted(int expert) const
    {
        return offset != nullptr ? logit[expert] + offset[expert] : logit[expert];
    }

    __device__ float largest() const
    {
        float found = -INFINITY;
        for (int expert = warp_lane(); expert < expert_count; expert += WARP_LANES) {
            found = fmaxf(found, shifted(expert));
        }
        return warp_max(found);
    }

    __device__ float sum_of_exponentials(float largest) const
    {
        float sum = 0.0f;
        for (int expert = warp_lane(); expert < expert_count; expert += WARP_LANES) {
            sum += expf(shifted(expert) - largest);
        }
        return warp_sum(sum);
    }
};

/// Larger for a larger logit, then for the lower expert; never 0.
__device__ inline unsigned long long order_of(float logit, int expert)
{
    return (unsigned long long)key_of(logit) << 32 | (unsigned)~expert;
}

/// The top_k experts of a row: bit j of the result is this lane's expert lane + 32 * j.
__device__ inline unsigned choose_experts(const row_logits &row, int top_k)
{
    unsigned chosen = 0;
    for (int choice = 0; choice < top_k; choice++) {
        unsigned long long best = 0;
        for (int at = 0, expert = warp_lane(); expert < row.expert_count;
             at++, expert += WARP_LANES) {
            const unsigned long long order = order_of(row.shifted(expert), expert);
            if ((chosen >> at & 1) == 0 && order > best) best = order;
        }
        for (int distance = WARP_LANES / 2; distance > 0; distance /= 2) {
            const unsigned long long other = __shfl_xor_sync(WHOLE_WARP, best, distance);
            if (other > best) best = other;
        }
        const int expert = (int)~(unsigned)best;
        if (expert % WARP_LANES == warp_lane()) chosen |= 1u << expert / WARP_LANES;
    }
    return chosen;
}

/// One warp per row.
__global__ void route_rows(exec_routing routing, const float *logits, const float *offset)
{
    const int row = warp_row(), experts = routing.expert_count;
    if (row >= routing.row_count) return;
    const row_logits plain = {logits + (size_t)row * experts, nullptr, experts};
    const row_logits shifted = {plain.logit, offset, experts};
    const float largest = plain.largest(), sum = plain.sum_of_exponentials(largest);
    const unsigned chosen = choose_experts(shifted, routing.top_k);
    float chosen_largest = -INFINITY, chosen_sum = 0.0f;
    for (int at = 0, expert = warp_lane(); expert < experts; at++, expert += WARP_LANES) {
        const float logit = plain.logit[expert];
        routing.probability[(size_t)row * experts + expert] = expf(logit - largest) / sum;
        if ((chosen >> at & 1) != 0) chosen_largest = fmaxf(chosen_largest, logit);
    }
    chosen_largest = warp_max(chosen_largest);
    for (int at = 0, expert = warp_lane(); expert < experts; at++, expert += WARP_LANES) {
        if ((chosen >> at & 1) != 0) chosen_sum += expf(plain.logit[expert] - chosen_largest);
    }
    chosen_sum = warp_sum(chosen_sum);
    int next = row * routing.top_k;
    for (int at = 0; at * WARP_LANES < experts; at++) {
        const int expert = at * WARP_LANES + warp_lane();
        const bool is_chosen = (chosen >> at & 1) != 0;
        const unsigned all = __ballot_sync(WHOLE_WARP, is_chosen);
        if (is_chosen) {
            const int entry = next + __popc(all & ((1u << warp_lane()) - 1));
            routing.expert[entry] = expert;
            routing.weight[entry] = expf(plain.logit[expert] - chosen_largest) / chosen_sum;
        }
        next += __popc(all);
    }
    if (warp_lane() != 0) return;
    routing.first_entry[row] = row * routing.top_k;
    if (row == routing.row_count - 1) routing.first_entry[row + 1] = next;
}

/// One block: in every round the shares of each warp's rows, then warps in ascending order.
__global__ void even_out(const float *logits, int row_count, int expert_count, int rounds,
                         float *offset)
{
    __shared__ float of_warp[BLOCK_WARPS][EXEC_EXPERT_COUNT_MAX];
    __shared__ float current[EXEC_EXPERT_COUNT_MAX];
    const int warp = threadIdx.x / WARP_LANES, own = threadIdx.x;
    current[own] = 0.0f;
    for (int round = 0; round < rounds; round++) {
        for (int other = 0; other < BLOCK_WARPS; other++) {
            of_warp[other][own] = 0.0f;
        }
        __syncthreads();
        for (int row = warp; row < row_count; row += BLOCK_WARPS) {
            const row_logits shifted = {logits + (size_t)row * expert_count, current, expert_count};
            const float largest = shifted.largest(), sum = shifted.sum_of_exponentials(largest);
            for (int expert = warp_lane(); expert < expert_count; expert += WARP_LANES) {
                of_warp[warp][expert] += expf(shifted.shifted(expert) - largest) / sum;
            }
        }
        __syncthreads();
        float total = 0.0f;
        for (int other = 0; other < BLOCK_WARPS; other++) {
            total += of_warp[other][own];
        }
        const float share = total * (float)expert_count / (float)row_count;
        if (share > 0.0f) current[own] -= logf(share);
        __syncthreads();
    }
    if (own < expert_count) offset[own] = current[own];
}

/// Block e counts the entries of expert e.
__global__ void count_entries(exec_routing routing)
{
    const int entries = routing.row_count * routing.top_k;
    int count = 0;
    for (int entry = threadIdx.x; entry < entries; entry += BLOCK_LANES) {
        count += routing.expert[entry] == (int)blockIdx.x;
    }
    count = block_sum(count);
    if (threadIdx.x == 0) routing.count[blockIdx.x] = count;
}

/// Block e gives the entries of expert e their places: a lane those of a piece of all entries, so
/// that they stay in order.
__global__ void place_entries(exec_routing routing)
{
    const int expert = blockIdx.x, entries = routing.row_count * routing.top_k;
    const lane_piece piece(0, entries);
    int before = 0, own = 0;
    for (int other = threadIdx.x; other < expert; other += BLOCK_LANES) {
        before += routing.count[other];
    }
    before = block_sum(before);
    for (int entry = piece.begin; entry < piece.end; entry++) {
        own += routing.expert[entry] == expert;
    }
    int place = before + found_before(own).before;
    for (int entry = piece.begin; entry < piece.end; entry++) {
        if (routing.expert[entry] != expert) continue;
        routing.place[entry] = place;
        routing.row[place] = entry / routing.top_k;
        routing.place_expert[place] = expert;
        routing.place_weight[place++] = routing.weight[entry];
    }
    if (threadIdx.x != 0) return;
    routing.first_place[expert] = before;
    if (expert == routing.expert_count - 1) routing.first_place[expert + 1] = entries;
}

void exec_cuda_route(exec_kernels *kernels, const exec_routing *routing, const float *logits)
{
    float *offset = nullptr;
    if (routing->row_count == 0) return;
    if (routing->sinkhorn_rounds > 0) {
        offset = (float *)exec_cuda_scratch(kernels, EXEC_EXPERT_COUNT_MAX * sizeof(float));
        if (offset == nullptr) return;
        launch(even_out, 1, BLOCK_LANES, 0, kernels, logits, routing->row_count,
               routing->expert_count, routing->sinkhorn_rounds, offset);
    }
    launch(route_rows, warp_grid(routing->row_count), BLOCK_LANES, 0, kernels, *routing, logits,
           offset);
    launch(count_entries, routing->expert_count, BLOCK_LANES, 0, kernels, *routing);
    launch(place_entries, routing->expert_count, BLOCK_LANES, 0, kernels, *routing);
}

/// One warp per row. The balance loss: with p the softmax of the row, d loss / d logit_e = scale *
/// p_e * (share_e - sum of share * p).
template <typename Value>
__global__ void route_input(exec_routing routing, const float *weight_gradient, float balance,
                            Value *logits_gradient)
{
    const int row = warp_row(), experts = routing.expert_count;
    if (row >= routing.row_count) return;
    const int begin = row * routing.top_k, end = begin + routing.top_k;
    const float *probability = routing.probability + (size_t)row * experts;
    const float entries = (float)routing.row_count * (float)routing.top_k;
    const float scale = balance * (float)experts / (float)routing.row_count;
    float weight_mean = 0.0f, share_mean = 0.0f;
    for (int entry = begin + warp_lane(); entry < end; entry += WARP_LANES) {
        weight_mean += routing.weight[entry] * weight_gradient[routing.place[entry]];
    }
    for (int expert = warp_lane(); expert < experts; expert += WARP_LANES) {
        share_mean += (float)routing.count[expert] / entries * probability[expert];
    }
    weight_mean = warp_sum(weight_mean);
    share_mean = warp_sum(share_mean);
    for (int expert = warp_lane(); expert < experts; expert += WARP_LANES) {
        const float share = (float)routing.count[expert] / entries;
        float gradient = scale * probability[expert] * (share - share_mean);
        for (int entry = begin; entry < end; entry++) {
            if (routing.expert[entry] != expert) continue;
            const float pull = weight_gradient[routing.place[entry]] - weight_mean;
            gradient += routing.weight[entry] * pull;
        }
        logits_gradient[(size_t)row * experts + expert] = from_float<Value>(gradient);
    }
}

void exec_cuda_route_input(exec_kernels *kernels, const exec_routing *routing,
                           const float *weight_gradient, double balance, void *logits_gradient)
{
    const unsigned grid = warp_grid(routing->row_count);
    launch_either(route_input<bf16>, route_input<float>, grid, 0, kernels, *routing,
                  weight_gradient, (float)balance, logits_gradient);
}
