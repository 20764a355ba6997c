// Which blocks of keys attention meets, chosen and listed where queries and keys are: the decisions
// of ../mechanism/README.md. Integers only, but for the signs of the projections and the affinity.

#include "exec/cuda/kernels_cuda.cuh"

static_assert(1 << EXEC_HASH_BITS_MAX <= BLOCK_LANES, "a lane for each bucket");

/// The blocks and rows of a sequence: [first, end) of each.
struct sequence_blocks {
    int first, end, first_row, end_row;
};

/// Of the sequence that a block is of, as dense lists tell: a block meets those up to itself.
__device__ inline sequence_blocks sequence_of(const exec_cuda_lists &dense, int block)
{
    const int first = block + 1 - dense.block[block].key_block_count;
    const int end = block + dense.block[block].query_block_count;
    const exec_cuda_block last = dense.block[end - 1];
    return {first, end, dense.block[first].first_row, last.first_row + last.row_count};
}

/// Bucket of a vector, or with `other` of the sum of two.
__device__ inline int bucket_of(const float *projection, const float *other, int bit_count)
{
    int bucket = 0;
    for (int bit = 0; bit < bit_count; bit++) {
        const float value = other != nullptr ? projection[bit] + other[bit] : projection[bit];
        bucket |= (value > 0.0f ? 1 : 0) << bit;
    }
    return bucket;
}

/// The first block of each sequence sorts it: a lane has a bucket, counts its rows, then places
/// them.
__global__ void sort_rows(exec_cuda_lists dense, exec_block_choice choice, const float *projection)
{
    __shared__ int bucket[BLOCK_LANES];
    if (dense.block[blockIdx.x].key_block_count != 1) return;
    const sequence_blocks own = sequence_of(dense, (int)blockIdx.x);
    const int bits = choice.bit_count;
    int next = 0, first = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int begin = own.first_row; begin < own.end_row; begin += BLOCK_LANES) {
            const int row = begin + (int)threadIdx.x,
                      rows = min((int)BLOCK_LANES, own.end_row - begin);
            if (row < own.end_row) {
                const float *of_row = projection + (size_t)row * 2 * bits;
                bucket[threadIdx.x] = bucket_of(of_row, of_row + bits, bits);
            }
            __syncthreads();
            for (int at = 0; at < rows; at++) {
                if (bucket[at] != (int)threadIdx.x) continue;
                if (pass == 1) {
                    choice.row[next] = begin + at;
                    choice.first_key[next] = first;
                }
                next++;
            }
            __syncthreads();
        }
        if (pass == 1) return;
        first = own.first_row + found_before(next).before;
        next = first;
    }
}

/// The range of blocks that each block of sorted queries meets.
__global__ void find_ranges(exec_cuda_lists dense, exec_block_choice choice, int *begin, int *count)
{
    const int query = (int)(blockIdx.x * BLOCK_LANES + threadIdx.x);
    if (query >= dense.block_count) return;
    const sequence_blocks own = sequence_of(dense, query);
    const int first = dense.block[query].first_row, last = first + dense.block[query].row_count - 1;
    int latest = 0;
    for (int at = first; at <= last; at++) {
        if (choice.row[at] > latest) latest = choice.row[at];
    }
    int met = last, high = own.end_row - 1; // the end of the last bucket
    while (met < high) {
        const int middle = (met + high + 1) / 2;
        if (choice.first_key[middle] == choice.first_key[last]) {
            met = middle;
        } else {
            high = middle - 1;
        }
    }
    const int blocks = (met - own.first_row) / dense.block_rows + 1;
    met = min(own.end_row, own.first_row + blocks * dense.block_rows) - 1;
    while (choice.row[met] > latest) {
        met--;
    }
    begin[query] = own.first + (choice.first_key[first] - own.first_row) / dense.block_rows;
    count[query] = own.first + (met - own.first_row) / dense.block_rows + 1 - begin[query];
}

/// The first block of each sequence sees to it that its blocks meet no more than dense attention's.
__global__ void limit_ranges(exec_cuda_lists dense, int *begin, int *count)
{
    if (dense.block[blockIdx.x].key_block_count != 1) return;
    const sequence_blocks own = sequence_of(dense, (int)blockIdx.x);
    const int blocks = own.end - own.first;
    int sum = 0;
    for (int query = own.first + (int)threadIdx.x; query < own.end; query += BLOCK_LANES) {
        sum += count[query];
    }
    if (block_sum(sum) <= blocks * (blocks + 1) / 2) return;
    for (int query = own.first + (int)threadIdx.x; query < own.end; query += BLOCK_LANES) {
        begin[query] = own.first;
        count[query] = query + 1 - own.first;
    }
}

/// One block: where each list begins.
__global__ void number_entries(int block_count, const int *count, int dense_count,
                               exec_block_choice choice)
{
    const lane_piece piece(0, block_count);
    int own = 0;
    for (int query = piece.begin; query < piece.end; query++) {
        own += count[query];
    }
    const found_before found(own);
    int entry = found.before;
    for (int query = piece.begin; query < piece.end; query++) {
        choice.first_entry[query] = entry;
        entry += count[query];
    }
    if (threadIdx.x != 0) return;
    choice.first_entry[block_count] = choice.met_count[0] = found.all;
    choice.met_count[1] = dense_count;
}

__global__ void fill_ranges(exec_block_choice choice, const int *begin)
{
    const int first = choice.first_entry[blockIdx.x], end = choice.first_entry[blockIdx.x + 1];
    for (int entry = first + (int)threadIdx.x; entry < end; entry += BLOCK_LANES) {
        choice.key_block[entry] = begin[blockIdx.x] + entry - first;
    }
}

/// How many rows of a block are in each bucket, by their queries and by their keys.
///
/// @param rows [2][block_count][buckets] out
__global__ void count_buckets(exec_cuda_lists dense, int bit_count, const float *projection,
                              int *rows)
{
    __shared__ int bucket[2][EXEC_CUDA_BLOCK_ROWS];
    const exec_cuda_block own = dense.block[blockIdx.x];
    const int buckets = 1 << bit_count, lane = threadIdx.x;
    if (lane < own.row_count) {
        const float *of_row = projection + (size_t)(own.first_row + lane) * 2 * bit_count;
        bucket[0][lane] = bucket_of(of_row, nullptr, bit_count);
        bucket[1][lane] = bucket_of(of_row + bit_count, nullptr, bit_count);
    }
    __syncthreads();
    if (lane >= buckets) return;
    for (int side = 0; side < 2; side++) {
        int count = 0;
        for (int row = 0; row < own.row_count; row++) {
            count += bucket[side][row] == lane;
        }
        rows[((size_t)side * dense.block_count + blockIdx.x) * buckets + lane] = count;
    }
}

/// Whether blocks meet: pairs in one bucket, against affinity / buckets of all pairs.
__device__ inline bool do_meet(const exec_cuda_lists &dense, const exec_block_choice &choice,
                               const int *rows, int query, int key)
{
    const int buckets = 1 << choice.bit_count;
    const int *of_query = rows + (size_t)query * buckets;
    const int *of_key = rows + ((size_t)dense.block_count + key) * buckets;
    int pairs = 0; // of at most 64 x 64
    for (int bucket = 0; bucket < buckets; bucket++) {
        pairs += of_query[bucket] * of_key[bucket];
    }
    const int all = dense.block[query].row_count * dense.block[key].row_count;
    return (double)(pairs * buckets) >= choice.affinity * (double)all;
}

/// Blocks before its own that each block of queries meets, counted, or with IS_LIST listed.
template <bool IS_LIST>
__global__ void meet_blocks(exec_cuda_lists dense, exec_block_choice choice, const int *rows,
                            int *count)
{
    const int query = blockIdx.x;
    const lane_piece piece(sequence_of(dense, query).first, query);
    int own = 0;
    for (int key = piece.begin; key < piece.end; key++) {
        own += do_meet(dense, choice, rows, query, key);
    }
    const found_before found(own);
    if (!IS_LIST) {
        if (threadIdx.x == 0) count[query] = found.all + 1;
        return;
    }
    int entry = choice.first_entry[query] + found.before;
    for (int key = piece.begin; key < piece.end; key++) {
        if (do_meet(dense, choice, rows, query, key)) choice.key_block[entry++] = key;
    }
    if (threadIdx.x == 0) choice.key_block[choice.first_entry[query + 1] - 1] = query;
}

/// Rows sorted: of each block of queries a range.
static void choose_ranges(exec_kernels *kernels, const exec_cuda_lists &dense,
                          const exec_block_choice &choice, const float *projection, int dense_count)
{
    const int blocks = dense.block_count;
    int *begin = (int *)exec_cuda_scratch(kernels, 2 * (size_t)blocks * sizeof(int));
    if (begin == nullptr) return;
    int *count = begin + blocks;
    launch(sort_rows, blocks, BLOCK_LANES, 0, kernels, dense, choice, projection);
    launch(find_ranges, grid_for((size_t)blocks), BLOCK_LANES, 0, kernels, dense, choice, begin,
           count);
    launch(limit_ranges, blocks, BLOCK_LANES, 0, kernels, dense, begin, count);
    launch(number_entries, 1, BLOCK_LANES, 0, kernels, blocks, count, dense_count, choice);
    launch(fill_ranges, blocks, BLOCK_LANES, 0, kernels, choice, begin);
}

/// Rows as in the text: of each block of queries those that it meets, and its own.
static void choose_met(exec_kernels *kernels, const exec_cuda_lists &dense,
                       const exec_block_choice &choice, const float *projection, int dense_count)
{
    const size_t blocks = (size_t)dense.block_count;
    const size_t words = blocks + (2 * blocks << choice.bit_count);
    int *count = (int *)exec_cuda_scratch(kernels, words * sizeof(int));
    if (count == nullptr) return;
    int *rows = count + blocks;
    launch(count_buckets, dense.block_count, BLOCK_LANES, 0, kernels, dense, choice.bit_count,
           projection, rows);
    launch(meet_blocks<false>, dense.block_count, BLOCK_LANES, 0, kernels, dense, choice, rows,
           count);
    launch(number_entries, 1, BLOCK_LANES, 0, kernels, dense.block_count, count, dense_count,
           choice);
    launch(meet_blocks<true>, dense.block_count, BLOCK_LANES, 0, kernels, dense, choice, rows,
           count);
}

void exec_cuda_choose_blocks(exec_kernels *kernels, const exec_attention *shape,
                             const exec_block_choice *choice, const float *projection)
{
    exec_attention plain = *shape;
    exec_cuda_lists dense;
    const int dense_count = exec_dense_block_count(shape);
    plain.first_entry = plain.key_block = plain.first_key = nullptr;
    if (!exec_cuda_find_lists(kernels, &plain, &dense)) return;
    if (choice->sorts_rows) {
        choose_ranges(kernels, dense, *choice, projection, dense_count);
    } else {
        choose_met(kernels, dense, *choice, projection, dense_count);
    }
}

/// Whether a list, which ascends, has a block.
__device__ inline bool is_listed(const int *first_entry, const int *key_block, int query, int key)
{
    int low = first_entry[query], high = first_entry[query + 1] - 1;
    while (low < high) {
        const int middle = (low + high) / 2;
        if (key_block[middle] < key) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return key_block[low] == key;
}

__global__ void list_chosen(exec_cuda_lists dense, const int *first_entry, const int *key_block,
                            int stride, exec_cuda_block *block, int *query_block)
{
    const int own = blockIdx.x;
    const sequence_blocks sequence = sequence_of(dense, own);
    const lane_piece piece(sequence.first, sequence.end);
    int count = 0;
    for (int query = piece.begin; query < piece.end; query++) {
        count += is_listed(first_entry, key_block, query, own);
    }
    const found_before found(count);
    int place = own * stride + found.before;
    for (int query = piece.begin; query < piece.end; query++) {
        if (is_listed(first_entry, key_block, query, own)) query_block[place++] = query;
    }
    if (threadIdx.x != 0) return;
    block[own] = {dense.block[own].first_row,
                  dense.block[own].row_count,
                  first_entry[own],
                  first_entry[own + 1] - first_entry[own],
                  own * stride,
                  found.all};
}

void exec_cuda_list_chosen(exec_kernels *kernels, const exec_cuda_lists *dense,
                           const exec_attention *shape, int stride, exec_cuda_block *block,
                           int *query_block)
{
    launch(list_chosen, dense->block_count, BLOCK_LANES, 0, kernels, *dense, shape->first_entry,
           shape->key_block, stride, block, query_block);
}

/// Of as many blocks for each sequence as its most rows have.
__global__ void list_live(exec_cuda_lists dense, const int *first_row, int blocks_each,
                          exec_cuda_block *block)
{
    const int own = (int)(blockIdx.x * BLOCK_LANES + threadIdx.x);
    if (own >= dense.block_count) return;
    const int sequence = own / blocks_each, place = own % blocks_each;
    const int rows = first_row[sequence + 1] - first_row[sequence];
    const int there = (rows + dense.block_rows - 1) / dense.block_rows;
    exec_cuda_block made = dense.block[own];
    made.first_row = first_row[sequence] + place * dense.block_rows;
    made.row_count = place < there ? min(dense.block_rows, rows - place * dense.block_rows) : 0;
    made.query_block_count = place < there ? there - place : 0;
    block[own] = made;
}

void exec_cuda_list_live(exec_kernels *kernels, const exec_cuda_lists *dense,
                         const exec_attention *shape, exec_cuda_block *block)
{
    const unsigned blocks = (unsigned)dense->block_count;
    launch(list_live, (blocks + BLOCK_LANES - 1) / BLOCK_LANES, BLOCK_LANES, 0, kernels, *dense,
           shape->live_first_row, dense->block_count / shape->sequence_count, block);
}
