// Attention of one query block after the other: its scores against all key blocks of its list stand
// side by side in scratch, so time and memory follow the list. Backward computes the same scores
// again; gradients of keys and values add up over query blocks in ascending order.
#include "exec/kernels/kernels_cpu_row.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/// One head of one query block.
typedef struct block {
    exec_cpu *cpu;
    int row_count;        // of queries
    ptrdiff_t first_row;  // of queries
    int key_count;        // columns of scores: rows of the key blocks of the list
    int first_diagonal;   // column of the query block's own first key
    const int *first_key; // of exec_attention
    int entry_count;
    const int *key_block; // [entry_count]; NULL: 0, 1, ... relative to sequence_block
    int sequence_block;   // number of the sequence's first block
    ptrdiff_t sequence_row;
    int sequence_rows;
    int block_rows;
    int head, head_width;
    ptrdiff_t width; // of all heads
    float score_scale;
    float *scores;    // [row_count][key_count] scratch
    float *gradients; // [row_count][key_count] scratch, backward only
} block;

/// The keys of an entry: rows [*row, *row + return value).
static int entry_rows(const block *at, int entry, ptrdiff_t *row)
{
    const int index = at->key_block == NULL ? entry : at->key_block[entry] - at->sequence_block;
    const int begin = index * at->block_rows;
    const int rest = at->sequence_rows - begin;
    assert(index >= 0 && rest > 0);
    *row = at->sequence_row + begin;
    return rest < at->block_rows ? rest : at->block_rows;
}

/// Scores of one kind: out[row][key] = the sum over the head of a[row] * b[key].
static void multiply_keys(const block *at, const float *a, ptrdiff_t a_row, const float *b,
                          ptrdiff_t b_row, float *out)
{
    int column = 0;
    for (int entry = 0; entry < at->entry_count; entry++) {
        ptrdiff_t row;
        const int rows = entry_rows(at, entry, &row);
        exec_cpu_multiply(at->cpu, &(exec_cpu_product){.rows = at->row_count,
                                                       .columns = rows,
                                                       .inner = at->head_width,
                                                       .a = a,
                                                       .a_row = a_row,
                                                       .a_inner = 1,
                                                       .b = b + row * b_row,
                                                       .b_inner = 1,
                                                       .b_column = b_row,
                                                       .c = out + column,
                                                       .c_row = at->key_count});
        column += rows;
    }
}

/// out[row] = the sum over keys of factor[row][key] * b[key], over all entries.
static void multiply_factors(const block *at, const float *factor, const float *b, ptrdiff_t b_row,
                             float *out, ptrdiff_t out_row)
{
    int column = 0;
    for (int entry = 0; entry < at->entry_count; entry++) {
        ptrdiff_t row;
        const int rows = entry_rows(at, entry, &row);
        exec_cpu_multiply(at->cpu, &(exec_cpu_product){.rows = at->row_count,
                                                       .columns = at->head_width,
                                                       .inner = rows,
                                                       .a = factor + column,
                                                       .a_row = at->key_count,
                                                       .a_inner = 1,
                                                       .b = b + row * b_row,
                                                       .b_inner = b_row,
                                                       .b_column = 1,
                                                       .c = out,
                                                       .c_row = out_row,
                                                       .accumulates = entry > 0});
        column += rows;
    }
}

/// out[key] += the sum over query rows of factor[row][key] * b[row].
static void add_transposed(const block *at, const float *factor, const float *b, ptrdiff_t b_row,
                           float *out, ptrdiff_t out_row)
{
    int column = 0;
    for (int entry = 0; entry < at->entry_count; entry++) {
        ptrdiff_t row;
        const int rows = entry_rows(at, entry, &row);
        exec_cpu_multiply(at->cpu, &(exec_cpu_product){.rows = rows,
                                                       .columns = at->head_width,
                                                       .inner = at->row_count,
                                                       .a = factor + column,
                                                       .a_row = 1,
                                                       .a_inner = at->key_count,
                                                       .b = b,
                                                       .b_inner = b_row,
                                                       .b_column = 1,
                                                       .c = out + row * out_row,
                                                       .c_row = out_row,
                                                       .accumulates = true});
        column += rows;
    }
}

/// Columns of the keys in front of row `key`.
static int columns_before(const block *at, ptrdiff_t key)
{
    int column = 0;
    for (int entry = 0; entry < at->entry_count; entry++) {
        ptrdiff_t row;
        const int rows = entry_rows(at, entry, &row);
        if (key < row + rows) return key > row ? column + (int)(key - row) : column;
        column += rows;
    }
    return column;
}

/// Columns that row `row` of the block attends to: count from *first on.
static int visible(const block *at, int row, int *first)
{
    *first = at->first_key == NULL ? 0 : columns_before(at, at->first_key[at->first_row + row]);
    return at->first_diagonal + row + 1 - *first;
}

/// Of `all` numbers those outside of [first, first + count) become 0.
EXEC_CPU_INLINE void mask(float *restrict number, int first, int count, int all)
{
    for (int key = 0; key < first; key++) {
        number[key] = 0.0F;
    }
    for (int key = first + count; key < all; key++) {
        number[key] = 0.0F;
    }
}

EXEC_CPU_INLINE float softmax_row(float *restrict scores, int first, int count, int all,
                                  float scale)
{
    float *restrict score = scores + first;
    const float largest = exec_cpu_largest(score, count);
    for (int key = 0; key < count; key++) {
        score[key] = exec_cpu_exp((score[key] - largest) * scale);
    }
    const float sum = exec_cpu_sum(score, count);
    const float inverse = 1.0F / sum;
    for (int key = 0; key < count; key++) {
        score[key] *= inverse;
    }
    mask(scores, first, count, all);
    return largest * scale + logf(sum);
}

EXEC_CPU_WIDE static float softmax_row_wide(float *scores, int first, int count, int all,
                                            float scale)
{
    return softmax_row(scores, first, count, all, scale);
}

static void forward_block(const block *at, const float *qkv, int head_count, float *output,
                          float *log_sum)
{
    const ptrdiff_t qkv_row = 3 * at->width;
    const ptrdiff_t offset = (ptrdiff_t)at->head * at->head_width;
    multiply_keys(at, qkv + at->first_row * qkv_row + offset, qkv_row, qkv + at->width + offset,
                  qkv_row, at->scores);
    for (int row = 0; row < at->row_count; row++) {
        float *scores = at->scores + (ptrdiff_t)row * at->key_count;
        int first;
        const int count = visible(at, row, &first);
        log_sum[(at->first_row + row) * head_count + at->head] =
            (at->cpu->is_wide ? softmax_row_wide : softmax_row)(scores, first, count, at->key_count,
                                                                at->score_scale);
    }
    multiply_factors(at, at->scores, qkv + 2 * at->width + offset, qkv_row,
                     output + at->first_row * at->width + offset, at->width);
}

/// Scores become probabilities; gradients of probabilities become gradients of scores.
EXEC_CPU_INLINE void backward_row(float *restrict score, float *restrict gradient, int first,
                                  int count, int all, float scale, float log_sum, float product)
{
    for (int key = first; key < first + count; key++) {
        const float probability = exec_cpu_exp(score[key] * scale - log_sum);
        score[key] = probability;
        gradient[key] = probability * (gradient[key] - product) * scale;
    }
    mask(score, first, count, all);
    mask(gradient, first, count, all);
}

EXEC_CPU_WIDE static void backward_row_wide(float *score, float *gradient, int first, int count,
                                            int all, float scale, float log_sum, float product)
{
    backward_row(score, gradient, first, count, all, scale, log_sum, product);
}

/// What backward reads and writes, of all rows.
typedef struct backward {
    const float *qkv, *output, *log_sum, *output_gradient;
    float *qkv_gradient;
    int head_count;
} backward;

static void backward_block(const block *at, const backward *of)
{
    const ptrdiff_t qkv_row = 3 * at->width;
    const ptrdiff_t offset = (ptrdiff_t)at->head * at->head_width;
    const float *query = of->qkv + at->first_row * qkv_row + offset;
    const float *key = of->qkv + at->width + offset;
    const float *value = key + at->width;
    const float *output = of->output + at->first_row * at->width + offset;
    const float *given = of->output_gradient + at->first_row * at->width + offset;
    multiply_keys(at, query, qkv_row, key, qkv_row, at->scores);
    multiply_keys(at, given, at->width, value, qkv_row, at->gradients);
    for (int row = 0; row < at->row_count; row++) {
        const float product =
            exec_cpu_dot(given + row * at->width, output + row * at->width, at->head_width);
        const float log_sum = of->log_sum[(at->first_row + row) * of->head_count + at->head];
        float *scores = at->scores + (ptrdiff_t)row * at->key_count;
        float *gradients = at->gradients + (ptrdiff_t)row * at->key_count;
        int first;
        const int count = visible(at, row, &first);
        (at->cpu->is_wide ? backward_row_wide : backward_row)(
            scores, gradients, first, count, at->key_count, at->score_scale, log_sum, product);
    }
    float *query_gradient = of->qkv_gradient + at->first_row * qkv_row + offset;
    multiply_factors(at, at->gradients, key, qkv_row, query_gradient, qkv_row);
    add_transposed(at, at->gradients, query, qkv_row, of->qkv_gradient + at->width + offset,
                   qkv_row);
    add_transposed(at, at->scores, given, at->width, of->qkv_gradient + 2 * at->width + offset,
                   qkv_row);
}

/// Fills the list of query block `index` of its sequence, of number sequence_block + index.
static void enter_block(block *at, const exec_attention *shape, int index)
{
    const int number = at->sequence_block + index;
    const int begin = index * at->block_rows;
    const int rest = at->sequence_rows - begin;
    at->first_row = at->sequence_row + begin;
    at->row_count = rest < at->block_rows ? rest : at->block_rows;
    if (shape->first_entry == NULL) {
        at->key_block = NULL;
        at->entry_count = index + 1;
    } else {
        at->key_block = shape->key_block + shape->first_entry[number];
        at->entry_count = shape->first_entry[number + 1] - shape->first_entry[number];
    }
    at->first_diagonal = columns_before(at, at->first_row);
    at->key_count = columns_before(at, at->sequence_row + at->sequence_rows);
    assert(columns_before(at, at->first_row + at->row_count) == at->first_diagonal + at->row_count);
}

static int longest_sequence(const exec_attention *shape)
{
    int longest = 0;
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int rows = shape->first_row[sequence + 1] - shape->first_row[sequence];
        longest = rows > longest ? rows : longest;
    }
    return longest;
}

/// What all blocks have in common; scores and gradients in scratch.
static void begin_blocks(block *at, exec_cpu *cpu, const exec_attention *shape)
{
    const size_t score_count = (size_t)shape->block_rows * (size_t)longest_sequence(shape);
    float *scratch = exec_cpu_scratch(cpu, 2 * score_count);
    *at = (block){.cpu = cpu,
                  .block_rows = shape->block_rows,
                  .head_width = shape->head_width,
                  .first_key = shape->first_key,
                  .width = (ptrdiff_t)shape->head_count * shape->head_width,
                  .score_scale = 1.0F / sqrtf((float)shape->head_width),
                  .scores = scratch,
                  .gradients = scratch + score_count};
}

/// @return blocks of the sequence
static int enter_sequence(block *at, const exec_attention *shape, int sequence)
{
    at->sequence_row = shape->first_row[sequence];
    at->sequence_rows = shape->first_row[sequence + 1] - shape->first_row[sequence];
    return exec_blocks_of(shape, sequence);
}

void exec_cpu_attention(exec_kernels *kernels, const exec_attention *shape, const void *qkv,
                        void *output, float *log_sum)
{
    block at;
    begin_blocks(&at, (exec_cpu *)kernels, shape);
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int block_count = enter_sequence(&at, shape, sequence);
        for (at.head = 0; at.head < shape->head_count; at.head++) {
            for (int index = 0; index < block_count; index++) {
                enter_block(&at, shape, index);
                forward_block(&at, qkv, shape->head_count, output, log_sum);
            }
        }
        at.sequence_block += block_count;
    }
    assert(at.sequence_block == shape->block_count);
}

void exec_cpu_attention_input(exec_kernels *kernels, const exec_attention *shape, const void *qkv,
                              const void *output, const float *log_sum, const void *output_gradient,
                              void *qkv_gradient)
{
    block at;
    begin_blocks(&at, (exec_cpu *)kernels, shape);
    const backward of = {qkv, output, log_sum, output_gradient, qkv_gradient, shape->head_count};
    const ptrdiff_t row_count = shape->first_row[shape->sequence_count];
    memset(qkv_gradient, 0, (size_t)(row_count * 3 * at.width) * sizeof(float));
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int block_count = enter_sequence(&at, shape, sequence);
        for (at.head = 0; at.head < shape->head_count; at.head++) {
            for (int index = 0; index < block_count; index++) {
                enter_block(&at, shape, index);
                backward_block(&at, &of);
            }
        }
        at.sequence_block += block_count;
    }
    assert(at.sequence_block == shape->block_count);
}
