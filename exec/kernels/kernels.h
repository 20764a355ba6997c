/// The operations that training is made of, as one table per backend: plain C, CUDA. What computes
/// a layer is written once, over this table.
///
/// Memory is the backend's ("device memory"; host memory on the cpu). Operations are enqueued in
/// order and never fail visibly, and neither does the taking of memory: finish waits and returns
/// the first failure, and until then operations do nothing. Every operation gives the same bits for
/// the same input on the same machine and build, whoever calls it: sums run in a fixed order, there
/// are no float atomics. Matrices are row-major and dense.
///
/// Values (activations, and weights as computed with) are fp32, or bf16 on `cuda`: a `void *` below
/// is an array of values unless it says otherwise. Parameters have a master copy, gradients and
/// moments in fp32; on fp32 backends the weights are the master copy itself. Arrays of one call do
/// not overlap unless it says so. Counts may be 0.
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct exec_kernels exec_kernels;

/// c[rows][columns] = op(a) op(b), or += ; op(a) is [rows][inner], op(b) is [inner][columns].
typedef struct exec_matmul {
    int rows, columns, inner;
    bool transposes_a; // a is stored [inner][rows]
    bool transposes_b; // b is stored [columns][inner]
    bool accumulates;
    bool is_float; // c is fp32 whatever the values are (gradients of weights, logits of routers)
} exec_matmul;

/// Rows in groups, each of which meets a matrix of its own.
typedef struct exec_groups {
    int count;
    int begin, row_count; // of all groups: rows [begin, begin + row_count), known to the host
    const int *first;     // [count + 1] device memory: group g has rows [first[g], first[g + 1])
    const int *of_row;    // [row_count] device memory: the group of a row from begin on
} exec_groups;

enum { EXEC_EXPERT_COUNT_MAX = 256 };

/// Which rows meet which experts, and with what weight; its arrays are device memory. Each row has
/// top_k entries, in ascending experts. An entry's place is where it stands once entries are sorted
/// by expert, those of an expert by row: a row's number and its weight are there too.
typedef struct exec_routing {
    int row_count, expert_count, top_k;
    int sinkhorn_rounds; // before experts are chosen each gets an offset that brings its share of
                         // the softmax to the mean, so often; 0: none
    float *probability;  // [row_count][expert_count] softmax of the logits
    int *first_entry;    // [row_count + 1] the entries of row r: [first_entry[r], first_entry[r+1])
    int *expert, *place; // [row_count * top_k] of an entry
    float *weight;       // [row_count * top_k] of an entry
    int *row;            // [row_count * top_k] of the entry at a place
    int *place_expert;   // [row_count * top_k] of the entry at a place
    float *place_weight; // [row_count * top_k] of the entry at a place
    int *count;          // [expert_count] entries of an expert
    int *first_place; // [expert_count + 1] expert e has places [first_place[e], first_place[e + 1])
} exec_routing;

/// Rows chosen of sequences of one length, of each as many; its arrays are device memory.
typedef struct exec_chosen {
    int sequence_count, sequence_length;
    int count;   // of each sequence
    int *row;    // [sequence_count * count] which, ascending
    int *before; // [sequence_count * sequence_length + 1] chosen rows in front of a row
    float *gate; // [sequence_count * count] logistic function of a chosen row's score
} exec_chosen;

/// Rows of a microbatch that have not left (early exit); its arrays are device memory.
typedef struct exec_live {
    int sequence_count, sequence_length;
    const uint8_t *has_left; // [sequence_count * sequence_length] 0: has not
    int *row;       // [sequence_count * sequence_length] the first extent[1]: which, ascending
    int *first_row; // [sequence_count + 1] sequence s has row[first_row[s]] to
                    // row[first_row[s + 1] - 1], maybe none
    int *extent;    // [2] 0, and how many they are
} exec_live;

/// [rows] device memory: of the states of rows before a block and after it their product, and of
/// each with itself.
typedef struct exec_compared {
    const float *product, *before, *after;
} exec_compared;

/// By what rows are found to leave; its arrays are device memory.
typedef struct exec_leaving {
    const int *row;          // [rows] where they are in the microbatch
    exec_compared states;    // whose cosine exceeds the threshold; product NULL: by confidence
    const float *confidence; // of row r confidence[r * stride], which exceeds the threshold
    int stride;
    double threshold;
    uint8_t *has_left; // of the microbatch, becomes 1
} exec_leaving;

/// A matrix [rows][columns] held without numbers that are 0, in compressed rows. What is held of
/// row r are entries [first[r], first[r + 1]), in ascending columns; their values lie apart,
/// [entries].
typedef struct exec_csr {
    int rows, columns;
    const int64_t *first; // [rows + 1] device memory
    const int *column;    // [entries] device memory
} exec_csr;

/// One of the matrices and vectors that an array of numbers is made of.
typedef struct exec_held {
    size_t place;        // of its first number, were all of the array's numbers held
    size_t count;        // of numbers that are held
    const exec_csr *csr; // which; NULL: all
} exec_held;

/// Rows of several sequences after each other. A row attends to the rows up to itself of its own
/// sequence, from first_key on, within the key blocks that its query block lists. Rows may have
/// been gathered, or sorted: causal order is the order of rows.
///
/// Blocks of block_rows rows begin at each sequence's first row; a sequence's last block may be
/// shorter, and a sequence of no rows has no block. Queries and keys have the same blocks, numbered
/// through all sequences.
typedef struct exec_attention {
    int head_count;
    int head_width;
    int sequence_count;
    const int *first_row; // [sequence_count + 1] host memory, read before the call returns
    int block_rows;       // 16, 32 or 64
    int block_count;      // of all sequences
    /// [block_count + 1] device memory; NULL: every block of its sequence up to itself (dense
    /// causal).
    const int *first_entry;
    /// Key blocks of query block q: entries [first_entry[q], first_entry[q + 1]), ascending, of the
    /// same sequence, q itself among them. Those after q are computed and masked. Device memory.
    const int *key_block;
    /// [rows] device memory: the first row of its sequence that a row attends to, at most itself;
    /// NULL: the sequence's first.
    const int *first_key;
    /// [sequence_count + 1] device memory: the first rows as the device alone knows them, of
    /// sequences that have at most as many rows as first_row says, all the same number; blocks are
    /// counted by first_row. Not with lists. NULL: first_row.
    const int *live_first_row;
} exec_attention;

/// Blocks of a sequence.
static inline int exec_blocks_of(const exec_attention *shape, int sequence)
{
    const int rows = shape->first_row[sequence + 1] - shape->first_row[sequence];
    return (rows + shape->block_rows - 1) / shape->block_rows;
}

/// Blocks of keys that all blocks of queries meet in dense causal attention.
static inline int exec_dense_block_count(const exec_attention *shape)
{
    int count = 0;
    for (int sequence = 0; sequence < shape->sequence_count; sequence++) {
        const int blocks = exec_blocks_of(shape, sequence);
        count += blocks * (blocks + 1) / 2;
    }
    return count;
}

enum { EXEC_HASH_BITS_MAX = 8 };

/// The blocks of keys that hashing finds for each block of queries (../mechanism/README.md); its
/// arrays are device memory.
typedef struct exec_block_choice {
    bool sorts_rows;
    int bit_count;
    double affinity;  // of rows as in the text
    int *row;         // [rows] sorted rows: which row comes where; NULL: rows stay
    int *first_key;   // [rows] likewise: of exec_attention
    int *first_entry; // [block_count + 1] of exec_attention
    int *key_block;   // room for as many as dense attention meets
    int *met_count;   // [2] blocks that are met, and that dense attention meets
} exec_block_choice;

/// How the heads of rows lie: [rows][head_count + 2 * kv_head_count][head_width], queries, keys,
/// values. Row r is of position row[r] % sequence_length; row NULL: r % sequence_length.
typedef struct exec_heads {
    int head_count;
    int kv_head_count; // divides head_count: each serves as many queries (grouped-query attention)
    int head_width;
    int sequence_length;
    const int *row; // [rows] device memory
    /// Cosine and sine by which elements i and i + head_width / 2 of queries and keys are rotated,
    /// [sequence_length][head_width / 2][2] device memory (rotary positions, RoFormer, arXiv
    /// 2104.09864, halves as in Llama); NULL: they are not.
    const float *rotation;
} exec_heads;

typedef struct exec_adamw {
    float learning_rate, beta1, beta2, epsilon, weight_decay;
    int step;             // from 1
    float gradient_scale; // the gradient counts times this: clipping, 1 / microbatches
} exec_adamw;

/// Device memory on its way to another stage: what travels in its place. Its pointers mean
/// something in this process only.
typedef struct exec_handover {
    uint64_t magic;
    int64_t byte_count;
    void *memory;
    void *ready; // event after which memory is filled
    void *taken; // event that the taker records
    void *state; // of the giver's buffer
} exec_handover;

typedef struct exec_kernel_table {
    const char *name; // "cpu", "cuda fp32", "cuda bf16"
    int value_bytes;
    bool has_host_memory; // device memory can be read and written by the host, after finish

    /// Memory of zeroed bytes, aligned to 64; release accepts NULL.
    /// @return NULL where there is none: a failure, STATUS_NO_MEMORY naming the bytes
    void *(*allocate)(exec_kernels *kernels, size_t bytes);
    void (*release)(exec_kernels *kernels, void *memory);
    void (*to_device)(exec_kernels *kernels, void *device, const void *host, size_t bytes);
    /// Waits for it.
    void (*to_host)(exec_kernels *kernels, void *host, const void *device, size_t bytes);
    void (*copy)(exec_kernels *kernels, void *to, const void *from, size_t bytes);
    void (*clear)(exec_kernels *kernels, void *memory, size_t bytes);
    /// Rounds to values; nothing where from and values are the same memory.
    void (*to_values)(exec_kernels *kernels, const float *from, void *values, size_t count);
    /// Waits for everything enqueued and returns the first failure since it was last called.
    status (*finish)(exec_kernels *kernels, error_message *err);
    /// The same without waiting: what is known by now.
    status (*check)(exec_kernels *kernels, error_message *err);
    void (*close)(exec_kernels *kernels);

    /// Where it accumulates, a -0.0 of c counts as 0.0.
    void (*matmul)(exec_kernels *kernels, const exec_matmul *shape, const void *a, const void *b,
                   void *c);
    /// Of groups of rows, which may be empty: c[rows of g] = a[rows of g] op(b[g]), or +=, with b
    /// [groups][inner][columns] or transposed [groups][columns][inner]. With transposes_a c[g]
    /// [rows][columns] = a[rows of g]^T b[rows of g], or +=. The bits are those of a product of
    /// each group alone.
    ///
    /// @param shape what is a number of rows of groups is not read: rows, or with transposes_a
    /// inner
    void (*group_matmul)(exec_kernels *kernels, const exec_matmul *shape, const exec_groups *groups,
                         const void *a, const void *b, void *c);
    /// Routes rows: each to the top_k experts of largest logit (with the offset of the rounds),
    /// ties to the lower number; its weights are the softmax over their logits. Where logits are
    /// not numbers it meets some top_k experts. Source: ../mechanism/README.md.
    ///
    /// @param routing counts and rounds are read; arrays out
    /// @param logits  [row_count][expert_count]
    void (*route)(exec_kernels *kernels, const exec_routing *routing, const float *logits);
    /// Gradient of the logits, the choice held fixed: also the shares of entries in the balance
    /// loss, balance * expert_count * the sum over experts of share * mean probability.
    ///
    /// @param weight_gradient [row_count * top_k] by place
    /// @param logits_gradient [row_count][expert_count] values, out
    void (*route_input)(exec_kernels *kernels, const exec_routing *routing,
                        const float *weight_gradient, double balance, void *logits_gradient);

    /// to += from
    void (*add)(exec_kernels *kernels, void *to, const void *from, size_t count);
    /// to += from, both fp32
    void (*add_floats)(exec_kernels *kernels, float *to, const float *from, size_t count);
    /// Adds bias [columns] to every row of values [rows][columns].
    void (*add_bias)(exec_kernels *kernels, void *values, const void *bias, int rows, int columns);
    /// sum [columns] += the sum of the rows of values [rows][columns]
    void (*column_sums)(exec_kernels *kernels, const void *values, int rows, int columns,
                        float *sum);

    /// output = (input - mean) * rstd * weight + bias, per row of [rows][width]. With bias and mean
    /// NULL, here and below, RMSNorm (arXiv 1910.07467): mean and bias are 0.
    /// @param mean, rstd [rows] out: of the row; the variance is over width, + 1e-5
    void (*layer_norm)(exec_kernels *kernels, const void *input, const void *weight,
                       const void *bias, int rows, int width, void *output, float *mean,
                       float *rstd);
    /// input_gradient += the gradient of the input: the residual path's is already in there.
    void (*layer_norm_input)(exec_kernels *kernels, const void *output_gradient, const void *input,
                             const void *weight, const float *mean, const float *rstd, int rows,
                             int width, void *input_gradient);
    /// dweight, dbias [width] +=
    void (*layer_norm_weight)(exec_kernels *kernels, const void *output_gradient, const void *input,
                              const float *mean, const float *rstd, int rows, int width,
                              float *dweight, float *dbias);

    /// The tanh form, Hendrycks & Gimpel, arXiv 1606.08415. output may be input.
    void (*gelu)(exec_kernels *kernels, const void *input, void *output, size_t count);
    /// gradient *= gelu'(input)
    void (*gelu_input)(exec_kernels *kernels, const void *input, void *gradient, size_t count);

    /// output = silu(gate) * up (SwiGLU, arXiv 2002.05202)
    /// @param input  [rows][2 * width]: of each row the gate, then up
    /// @param output [rows][width] out
    void (*swiglu)(exec_kernels *kernels, const void *input, int rows, int width, void *output);
    /// @param input_gradient [rows][2 * width] out
    void (*swiglu_input)(exec_kernels *kernels, const void *input, const void *output_gradient,
                         int rows, int width, void *input_gradient);

    /// Rotates queries and keys, and copies keys and values for each head that they serve.
    /// @param from heads [rows], compact
    /// @param qkv  [rows][3 * head_count * head_width] out, as attention takes it
    void (*spread_heads)(exec_kernels *kernels, const exec_heads *heads, const void *from, int rows,
                         void *qkv);
    /// Its gradient: rotated back, and summed over the heads that a key or value served, ascending.
    /// @param gradient heads [rows], compact, out
    void (*spread_heads_input)(exec_kernels *kernels, const exec_heads *heads,
                               const void *qkv_gradient, int rows, void *gradient);

    /// Buckets of rows, their order where they are sorted, and lists of key blocks.
    ///
    /// @param shape      sequences and blocks; lists are not read
    /// @param projection [rows][2 * bit_count] of queries, then of keys
    void (*choose_blocks)(exec_kernels *kernels, const exec_attention *shape,
                          const exec_block_choice *choice, const float *projection);
    /// With w = head_count * head_width: qkv [rows][3 * w], of each row the queries of all heads,
    /// then the keys, then the values; scores are scaled by 1 / sqrt(head_width).
    /// @param output  [rows][w] out
    /// @param log_sum [rows][head_count] out: logarithm of the sum of exponentials of the scores
    void (*attention)(exec_kernels *kernels, const exec_attention *shape, const void *qkv,
                      void *output, float *log_sum);
    /// @param qkv_gradient [rows][3 * w] out
    void (*attention_input)(exec_kernels *kernels, const exec_attention *shape, const void *qkv,
                            const void *output, const float *log_sum, const void *output_gradient,
                            void *qkv_gradient);

    /// output[row] = token_table[token[row]] + position_table[position[row]]
    /// @param token, position [rows] device memory
    /// @param position_table  NULL, with its gradient below: there is none
    void (*embed)(exec_kernels *kernels, const int *token, const int *position,
                  const void *token_table, const void *position_table, int rows, int width,
                  void *output);
    /// Both gradients +=, of each table row over its rows in ascending order.
    void (*embed_weight)(exec_kernels *kernels, const void *output_gradient, const int *token,
                         const int *position, int rows, int width, int token_count,
                         int position_count, float *token_gradient, float *position_gradient);

    /// loss[row] = -log softmax(logits[row])[target[row]]; logits [rows][classes].
    /// @param target          [rows] device memory
    /// @param confidence      [rows][2] out: of softmax(logits) the largest less the second
    /// largest,
    ///                        and the largest; classes >= 2 then; NULL: not wanted
    /// @param logits_gradient out: (softmax - one at target) * scale; may be logits itself
    void (*cross_entropy)(exec_kernels *kernels, const void *logits, const int *target, int rows,
                          int classes, float scale, float *loss, float *confidence,
                          void *logits_gradient);

    // Rows chosen by a mechanism: row, source [rows] and first [rows + 1] are device memory.

    /// to[r] = from[row[r]]
    void (*gather_rows)(exec_kernels *kernels, const void *from, const int *row, int rows,
                        int width, void *to);
    /// to[row[r]] = from[r]; no row twice
    void (*scatter_rows)(exec_kernels *kernels, const void *from, const int *row, int rows,
                         int width, void *to);
    /// to[r] += the sum over e in [first[r], first[r + 1]), ascending, of
    /// scale * weight[e] * from[source[e]]; weight NULL: 1, source NULL: e, first NULL: e is r
    void (*combine_rows)(exec_kernels *kernels, const void *from, const int *first,
                         const int *source, const float *weight, float scale, int rows, int width,
                         void *to);
    /// Chooses of each sequence the rows of largest score; ties to the earlier row, and what is not
    /// a number has some place.
    ///
    /// @param chosen counts are read; arrays out
    /// @param score  [sequence_count * sequence_length]
    void (*choose_rows)(exec_kernels *kernels, const exec_chosen *chosen, const float *score);
    /// gradient *= gate * (1 - gate): of the score from that of its gate
    void (*gate_input)(exec_kernels *kernels, const float *gate, float *gradient, size_t count);
    /// to[r] = weight[r] * from[r]; to may be from
    void (*scale_rows)(exec_kernels *kernels, const void *from, const float *weight, int rows,
                       int width, void *to);
    /// dot[r] = the sum of a[row_a[r]] * b[row_b[r]], in fp32; row_a, row_b NULL: r
    void (*row_dots)(exec_kernels *kernels, const void *a, const int *row_a, const void *b,
                     const int *row_b, int rows, int width, float *dot);

    // Rows that leave a microbatch. The host does not know how many are left, unless it sees device
    // memory.

    /// Lists the rows that have not left.
    void (*find_live)(exec_kernels *kernels, const exec_live *live);
    /// Has operations that follow work on the first extent[1] rows of `most`, which are the rows
    /// they are given: the others are neither read nor written. It holds for operations over rows,
    /// and for copy, add, gelu and gelu_input, whose counts are then those of whole rows; not for
    /// clear, combine_rows, add_floats and those without rows. extent NULL: all rows again. The
    /// whole is NULL where has_host_memory.
    void (*limit_rows)(exec_kernels *kernels, const int *extent, int most);
    void (*leave_rows)(exec_kernels *kernels, const exec_leaving *leaving, int rows);
    /// A classifier of rows, which learns whether they are saturated: confidence [rows], in: its
    /// score, out: the logistic function of score + *bias; gradient[r] = scale * (confidence[r] -
    /// (1 if the states' exceeds `cosine`)), and *bias_gradient their sum in
    /// ascending order.
    void (*judge_rows)(exec_kernels *kernels, const exec_compared *states, double cosine,
                       const float *bias, float scale, int rows, float *confidence, float *gradient,
                       float *bias_gradient);

    /// In double, in an order that depends on count alone; waits.
    double (*sum_of_squares)(exec_kernels *kernels, const float *values, size_t count);

    // Products with matrices in compressed rows, all NULL where the backend has none. Numbers that
    // are not held add nothing to a sum, so the bits are those of the operation with them in place
    // as 0.0, as long as the other operand is finite.

    /// matmul with b [entries] of csr: c [rows][csr->columns] = a [rows][csr->rows] b, or +=; or
    /// with b^T: c [rows][csr->rows] = a [rows][csr->columns] b^T.
    void (*csr_matmul)(exec_kernels *kernels, const exec_csr *csr, int rows, bool transposes_b,
                       bool accumulates, const void *a, const void *b, void *c);
    /// The product of the gradient, sampled where csr has entries: c [entries] += a^T b.
    /// @param a [rows][csr->rows]
    /// @param b [rows][csr->columns]
    void (*csr_sample)(exec_kernels *kernels, const exec_csr *csr, int rows, const void *a,
                       const void *b, float *c);
    /// sum_of_squares of the numbers of `held`, one after the other, of an array of count numbers.
    double (*held_squares)(exec_kernels *kernels, const exec_held *held, int held_count,
                           const float *values, size_t count);

    /// Updates master and moments [count] and writes weights (master itself on fp32 backends).
    /// Decay is decoupled: Loshchilov & Hutter, ICLR 2019, with the moments' bias corrected.
    /// @param keep [count] device memory, or NULL: 0 where the parameter is pruned and stays 0
    void (*adamw)(exec_kernels *kernels, const exec_adamw *options, float *master, float *moment1,
                  float *moment2, const float *gradient, const uint8_t *keep, void *weights,
                  size_t count);

    /// values[k] = 0 where keep[k] is 0; keep [count] is device memory
    void (*mask)(exec_kernels *kernels, float *values, const uint8_t *keep, size_t count);

    // Time on the backend's own clock; both NULL where operations are done when they return.

    /// Notes a place in the order of operations under a number from 0, in place of an older one.
    void (*mark)(exec_kernels *kernels, int number);
    /// From mark 0 to this one, ns; after finish.
    int64_t (*mark_ns)(exec_kernels *kernels, int number);

    /// Where operations are enqueued (cudaStream_t), for transports that carry device memory; NULL:
    /// nowhere.
    void *(*stream)(exec_kernels *kernels);

    // A second order of operations, for what goes on while others are computed; both NULL where
    // operations are done when they return, or there is none.

    /// What is enqueued from here on runs beside what is enqueued after the end: after all that has
    /// been enqueued before, and in its order. Of operations only copy and add_floats.
    void (*beside)(exec_kernels *kernels, bool begins);
    /// What is enqueued from here on runs after all that has been enqueued beside.
    void (*await_beside)(exec_kernels *kernels);

    // Memory from stage to stage of one process; both NULL where the host can copy it itself.

    /// Describes memory as it will be when all that is enqueued has run. It is copied into a buffer
    /// of the backend's and may be used again at once.
    status (*offer)(exec_kernels *kernels, const void *memory, size_t bytes,
                    exec_handover *described, error_message *err);
    /// Copies what another backend of this process has offered, once; described->byte_count bytes.
    status (*take)(exec_kernels *kernels, const exec_handover *described, void *to,
                   error_message *err);
} exec_kernel_table;

/// Operations that every backend has a function for, exec_<backend>_<name>.
// clang-format off
#define EXEC_KERNEL_OPERATIONS(_) \
    _(add) _(add_floats) _(add_bias) _(column_sums) _(layer_norm) _(layer_norm_input) \
    _(layer_norm_weight) _(gelu) _(gelu_input) _(swiglu) _(swiglu_input) _(spread_heads) \
    _(spread_heads_input) _(choose_blocks) _(attention) _(attention_input) _(embed) \
    _(embed_weight) _(cross_entropy) _(gather_rows) _(scatter_rows) _(combine_rows) \
    _(choose_rows) _(gate_input) _(scale_rows) _(row_dots) _(find_live) _(leave_rows) \
    _(judge_rows) _(group_matmul) _(route) _(route_input) _(adamw) _(mask)
// clang-format on

/// Declares the function of an operation.
#define EXEC_KERNEL_DECLARE(backend, name)                                                         \
    __typeof__(*((exec_kernel_table *)NULL)->name) exec_##backend##_##name;

/// An opened backend: one per rank. Backends extend it; table->close ends it.
struct exec_kernels {
    const exec_kernel_table *table;
};

/// Plain C, one thread. Bits do not depend on the vector width of the machine.
status exec_kernels_cpu_open(exec_kernels **kernels);

/// What the values of a CUDA backend are.
typedef enum exec_cuda_kind { EXEC_CUDA_FP32, EXEC_CUDA_BF16 } exec_cuda_kind;

/// @param place, place_count stages that share the GPU: each has its own part of the
///                           multiprocessors
/// @return STATUS_UNSUPPORTED where the build or the machine lacks CUDA, saying what is missing
status exec_kernels_cuda_open(exec_cuda_kind kind, int place, int place_count,
                              exec_kernels **kernels, error_message *err);
