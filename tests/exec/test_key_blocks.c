/// Block-sparse attention by hashing: buckets and lists by numbers worked out by hand, against the
/// definition, and against what the simulator counts; a block with such lists against finite
/// differences, a plain reference and the dense block.
#define BLOCK_FIXTURE_LENGTH 72 // 4 blocks of 16 rows and one of 8
#include "exec/model/block_layer.h"
#include "models/dynamism/hash_attention.h"
#include "tests/exec/block_fixture.h"
#include "tests/exec/projections.h"

enum { ROWS_MAX = 200, BITS_MAX = 8 };

static exec_kernels *cpu;

/// Of rows in blocks of their own: how many are met.
static int count_met(const float *projection, int rows, bool sorts_rows)
{
    const int first_row[] = {0, rows};
    int row[4], first_key[4], first_entry[5], key_block[10], met_count[2];
    const exec_attention shape = {
        .sequence_count = 1, .first_row = first_row, .block_rows = 1, .block_count = rows};
    const exec_block_choice choice = {.sorts_rows = sorts_rows,
                                      .bit_count = 2,
                                      .affinity = 1,
                                      .row = row,
                                      .first_key = first_key,
                                      .first_entry = first_entry,
                                      .key_block = key_block,
                                      .met_count = met_count};
    cpu->table->choose_blocks(cpu, &shape, &choice, projection);
    return met_count[0];
}

TEST(buckets_are_the_signs_of_projections)
{
    // Two rows of two bits: query 0 is + -, key 0 is 0 +, query 1 is - +, key 1 is + -.
    float projection[] = {1, -1, 0, 0.5F, -2, 3, 4, -1e-9F};

    assert_int_equal(count_met(projection, 2, false), 3); // query 1 meets key 0
    projection[2] = 1e-9F;
    assert_int_equal(count_met(projection, 2, false), 2);
}

TEST(a_token_has_the_bucket_of_its_query_and_key_in_sum)
{
    float projection[] = {1, -1, 0, 0.5F, -2, 3, 4, -3}; // two rows of two bits: 1, -0.5; 2, 0

    assert_int_equal(count_met(projection, 2, true), 3); // of one bucket
    projection[7] = -2;
    assert_int_equal(count_met(projection, 2, true), 2);
}

/// Whether key block `key` is in the list of query block `query`, from the definition.
static bool is_met(const exec_block_choice *choice, const uint8_t *query_bucket,
                   const uint8_t *key_bucket, const int *sequence, const int *begin, const int *end,
                   int query, int key)
{
    if (sequence[query] != sequence[key] || key > query) return false;
    if (key == query) return true;
    int64_t pairs = 0;
    for (int row = begin[query]; row < end[query]; row++) {
        for (int other = begin[key]; other < end[key]; other++) {
            pairs += query_bucket[row] == key_bucket[other];
        }
    }
    const int64_t all = (int64_t)(end[query] - begin[query]) * (end[key] - begin[key]);
    return (double)(pairs << choice->bit_count) >= choice->affinity * (double)all;
}

TEST(lists_are_those_of_the_definition)
{
    enum { ALL_ROWS = ROWS_MAX, BLOCKS_MAX = 20 };
    static float projection[ALL_ROWS * 2 * BITS_MAX];
    for (uint64_t seed = 1; seed <= 40; seed++) {
        rng random = rng_init(seed, 0);
        const int cut = (int)rng_below(&random, ALL_ROWS + 1);
        const int first_row[] = {0, cut, cut, ALL_ROWS}; // one sequence has no rows
        int first_entry[BLOCKS_MAX + 1];
        int key_block[BLOCKS_MAX * (BLOCKS_MAX + 1) / 2];
        int met_count[2];
        const exec_block_choice choice = {.bit_count = 3,
                                          .affinity = 0.5 + rng_unit(&random),
                                          .first_entry = first_entry,
                                          .key_block = key_block,
                                          .met_count = met_count};
        exec_attention shape = {.sequence_count = 3, .first_row = first_row, .block_rows = 16};
        uint8_t bucket[2][ALL_ROWS];
        int sequence[BLOCKS_MAX];
        int begin[BLOCKS_MAX];
        int end[BLOCKS_MAX];
        for (int row = 0; row < 2 * ALL_ROWS; row++) {
            bucket[row / ALL_ROWS][row % ALL_ROWS] =
                (uint8_t)rng_below(&random, 1 + rng_below(&random, 8));
        }
        for (int at = 0; at < 3; at++) {
            for (int row = first_row[at]; row < first_row[at + 1]; row += 16) {
                const int last = row + 16 < first_row[at + 1] ? row + 16 : first_row[at + 1];
                sequence[shape.block_count] = at;
                begin[shape.block_count] = row;
                end[shape.block_count++] = last;
            }
        }

        project_buckets(bucket[0], bucket[1], ALL_ROWS, choice.bit_count, projection);
        cpu->table->choose_blocks(cpu, &shape, &choice, projection);

        int entry = 0;
        for (int query = 0; query < shape.block_count; query++) {
            assert_int_equal(first_entry[query], entry);
            for (int key = 0; key <= query; key++) {
                if (!is_met(&choice, bucket[0], bucket[1], sequence, begin, end, query, key)) {
                    continue;
                }
                assert_int_equal(key_block[entry++], key);
            }
        }
        assert_int_equal(first_entry[shape.block_count], entry);
        assert_true(entry <= exec_dense_block_count(&shape));
    }
}

/// The lists of rows that are sorted by bucket, in blocks of `block_rows`.
typedef struct sorted_lists {
    int row[ROWS_MAX], first_key[ROWS_MAX];
    int first_entry[ROWS_MAX + 1], key_block[ROWS_MAX * (ROWS_MAX + 1) / 2];
    int met_count[2];
} sorted_lists;

static const sorted_lists *sort_and_choose(exec_attention *shape, const uint8_t *bucket)
{
    static sorted_lists lists;
    static float projection[ROWS_MAX * 2 * BITS_MAX];
    const exec_block_choice choice = {.sorts_rows = true,
                                      .bit_count = BITS_MAX,
                                      .row = lists.row,
                                      .first_key = lists.first_key,
                                      .first_entry = lists.first_entry,
                                      .key_block = lists.key_block,
                                      .met_count = lists.met_count};
    shape->block_count = 0;
    for (int at = 0; at < shape->sequence_count; at++) {
        const int rows = shape->first_row[at + 1] - shape->first_row[at];
        shape->block_count += (rows + shape->block_rows - 1) / shape->block_rows;
    }
    project_buckets(bucket, bucket, shape->first_row[shape->sequence_count], BITS_MAX, projection);
    cpu->table->choose_blocks(cpu, shape, &choice, projection);
    return &lists;
}

TEST(sorted_rows_stay_in_order_within_their_bucket)
{
    const uint8_t bucket[] = {2, 0, 1, 2, 0, 0, 1, 0};
    const int first_row[] = {0, 5, 5, 8};
    exec_attention shape = {.sequence_count = 3, .first_row = first_row, .block_rows = 2};

    const sorted_lists *lists = sort_and_choose(&shape, bucket);

    assert_memory_equal(lists->row, ((const int[]){1, 4, 2, 0, 3, 5, 7, 6}), 8 * sizeof(int));
    assert_memory_equal(lists->first_key, ((const int[]){0, 0, 2, 3, 3, 5, 5, 7}), 8 * sizeof(int));
    // Blocks {1, 4} {2, 0} {3} of the first sequence, {5, 7} {6} of the last. The bucket of 0 ends
    // in a block that holds only 3, later than 2 and 0.
    assert_memory_equal(lists->first_entry, ((const int[]){0, 1, 2, 4, 5, 6}), 6 * sizeof(int));
    assert_memory_equal(lists->key_block, ((const int[]){0, 1, 1, 2, 3, 4}), 6 * sizeof(int));
}

/// First and last key block of the queries in block `query` of rows [begin, end), which are sorted:
/// from the first that holds one of their buckets or one between to the last that does and holds a
/// token which is not later than all of them.
static void find_met(const sorted_lists *lists, const uint8_t *bucket, int begin, int end,
                     int block_rows, int query, int *first, int *last)
{
    const int from = begin + query * block_rows;
    const int to = from + block_rows < end ? from + block_rows : end;
    const uint8_t lowest = bucket[lists->row[from]];
    const uint8_t highest = bucket[lists->row[to - 1]];
    int latest = 0;
    for (int at = from; at < to; at++) {
        latest = lists->row[at] > latest ? lists->row[at] : latest;
    }
    *first = ROWS_MAX;
    for (int key = 0; begin + key * block_rows < end; key++) {
        bool is_shared = false;
        bool is_reached = false;
        for (int at = begin + key * block_rows; at < begin + (key + 1) * block_rows && at < end;
             at++) {
            const uint8_t of_key = bucket[lists->row[at]];
            is_shared |= of_key >= lowest && of_key <= highest;
            is_reached |= lists->row[at] <= latest;
        }
        if (is_shared && key < *first) *first = key;
        if (is_shared && is_reached) *last = key;
    }
}

TEST(sorted_lists_are_those_of_the_definition)
{
    int dense_count = 0;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        rng random = rng_init(seed, 0);
        const int cut = (int)rng_below(&random, ROWS_MAX + 1);
        const int first_row[] = {0, cut, cut, ROWS_MAX}; // one sequence has no rows
        exec_attention shape = {.sequence_count = 3,
                                .first_row = first_row,
                                .block_rows = (int)rng_between(&random, 1, 40)};
        const uint64_t buckets = 1 + rng_below(&random, 16);
        uint8_t bucket[ROWS_MAX];
        for (int row = 0; row < ROWS_MAX; row++) {
            bucket[row] = (uint8_t)rng_below(&random, 1 + rng_below(&random, buckets));
        }

        const sorted_lists *lists = sort_and_choose(&shape, bucket);

        int entry = 0;
        int block = 0;
        for (int at = 0; at < 3; at++) {
            const int begin = first_row[at];
            const int end = first_row[at + 1];
            const int blocks = (end - begin + shape.block_rows - 1) / shape.block_rows;
            int first[ROWS_MAX];
            int last[ROWS_MAX];
            int all = 0;
            for (int query = 0; query < blocks; query++) {
                find_met(lists, bucket, begin, end, shape.block_rows, query, &first[query],
                         &last[query]);
                all += last[query] - first[query] + 1;
            }
            const bool is_dense = all > blocks * (blocks + 1) / 2;
            dense_count += is_dense;
            for (int query = 0; query < blocks; query++) {
                assert_int_equal(lists->first_entry[block + query], entry);
                const int to = is_dense ? query : last[query];
                for (int key = is_dense ? 0 : first[query]; key <= to; key++) {
                    assert_int_equal(lists->key_block[entry++], block + key);
                }
            }
            block += blocks;
        }
        assert_int_equal(block, shape.block_count);
        assert_int_equal(lists->first_entry[block], entry);
    }
    assert_in_range(dense_count, 20, 380); // both kinds were seen
}

/// Buckets of a sequence whose tokens are spread evenly, as the simulator takes them to be.
static void spread_evenly(const int *tokens, int bucket_count, int length, uint8_t *bucket)
{
    int placed[MODEL_HASH_BUCKETS_MAX] = {0};
    for (int position = 0; position < length; position++) {
        int next = -1;
        double earliest = 2;
        for (int at = bucket_count - 1; at >= 0; at--) { // the last of several at one place
            const double place = (placed[at] + 0.5) / tokens[at];
            if (placed[at] == tokens[at] || place >= earliest) continue;
            earliest = place;
            next = at;
        }
        placed[next]++;
        bucket[position] = (uint8_t)next;
    }
}

TEST(as_many_blocks_are_met_as_the_simulator_counts)
{
    rng random = rng_init(23, 0);
    double popularity[MODEL_HASH_POPULARITIES];
    int dense_count = 0;
    for (int round = 0; round < 500; round++) {
        const int buckets = (int)rng_between(&random, 1, 16);
        const int length = (int)rng_between(&random, 1, ROWS_MAX);
        const int first_row[] = {0, length};
        exec_attention shape = {.sequence_count = 1,
                                .first_row = first_row,
                                .block_rows = (int)rng_between(&random, 1, 40)};
        int tokens[16];
        uint8_t bucket[ROWS_MAX];
        model_hash_popularities(&random, rng_unit(&random) * 2, popularity);
        model_hash_draw(&random, popularity, buckets, length, tokens);
        spread_evenly(tokens, buckets, length, bucket);

        const sorted_lists *lists = sort_and_choose(&shape, bucket);

        const double share =
            (double)lists->first_entry[shape.block_count] / (double)exec_dense_block_count(&shape);
        const double simulated = model_hash_kept_share(tokens, buckets, length, shape.block_rows);
        if (share != simulated) fail_msg("round %d: %.17g, not %.17g", round, share, simulated);
        dense_count += share == 1;
    }
    assert_in_range(dense_count, 50, 450);
}

static exec_model sparse_model(double affinity)
{
    exec_model model = model_of(EXEC_SPARSE_ATTENTION);
    model.sparse_attention.order = EXEC_ROWS_AS_TEXT;
    model.sparse_attention.affinity = affinity;
    model.sparse_attention.bit_count = 3;
    return model;
}

static exec_model sorted_model(void)
{
    exec_model model = model_of(EXEC_SPARSE_ATTENTION);
    model.sparse_attention.bit_count = 3;
    return model;
}

TEST(chosen_blocks_have_the_gradients_of_finite_differences)
{
    // No pair of blocks is so near the affinity, and no projection so near 0, that a difference's
    // step changes lists or buckets.
    const exec_model models[] = {sparse_model(1.85), sorted_model()};
    for (int model = 0; model < 2; model++) {
        block_fixture fixture;
        open_block(&fixture, &models[model], 0);

        check_gradients(&fixture);

        run_forward(&fixture);
        assert_in_range(load_of(&fixture, 0), 12, 29); // between own blocks alone and all: 10, 30
        assert_int_equal(load_of(&fixture, 1), 30);
        close_block(&fixture);
    }
}

TEST(no_affinity_leaves_the_own_block)
{
    block_fixture fixture;
    const exec_model model = sparse_model(1e6);
    open_block(&fixture, &model, 0);
    float before[VALUES];

    run_forward(&fixture);
    memcpy(before, fixture.output, sizeof before);
    fixture.input[0] += 1; // of the first block of the first sequence
    run_forward(&fixture);

    assert_int_equal(load_of(&fixture, 0), 2 * 5);
    assert_true(memcmp(before, fixture.output, 16 * WIDTH * sizeof(float)) != 0);
    assert_memory_equal(before + 16 * WIDTH, fixture.output + 16 * WIDTH,
                        sizeof before - 16 * WIDTH * sizeof(float));
    close_block(&fixture);
}

/// One head's output of a row in double: over the rows of its bucket up to itself, in the order of
/// the text.
static void attend_plainly(const float *qkv, const int *bucket, int row, int head, int head_width,
                           double *output)
{
    double sum = 0;
    memset(output, 0, (size_t)head_width * sizeof *output);
    for (int key = row / LENGTH * LENGTH; key <= row; key++) {
        if (bucket[key] != bucket[row]) continue;
        double score = 0;
        for (int k = head * head_width; k < (head + 1) * head_width; k++) {
            score += (double)qkv[row * 3 * WIDTH + k] * (double)qkv[key * 3 * WIDTH + WIDTH + k];
        }
        const double factor = exp(score / sqrt(head_width));
        sum += factor;
        for (int k = 0; k < head_width; k++) {
            output[k] += factor * (double)qkv[key * 3 * WIDTH + 2 * WIDTH + head * head_width + k];
        }
    }
    for (int k = 0; k < head_width; k++) {
        output[k] /= sum;
    }
}

TEST(sorted_rows_attend_to_their_bucket_up_to_themselves)
{
    enum { HEADS = 2, HEAD_WIDTH = WIDTH / HEADS };
    block_fixture fixture;
    const exec_model model = sorted_model();
    open_block(&fixture, &model, 0);

    run_forward(&fixture);

    const exec_block_slot *slot = (const exec_block_slot *)fixture.slot;
    const float *sorted = slot->attention_half.inner;
    const float *output = slot->attention_half.outer;
    float qkv[ROWS * 3 * WIDTH];
    int bucket[ROWS];
    for (int at = 0; at < ROWS; at++) {
        const int row = slot->lists->row[at];
        memcpy(qkv + row * 3 * WIDTH, sorted + at * 3 * WIDTH, 3 * WIDTH * sizeof *qkv);
        bucket[row] = slot->lists->first_key[at];
    }
    for (int row = 0; row < ROWS; row++) {
        for (int head = 0; head < HEADS; head++) {
            double exact[HEAD_WIDTH];
            attend_plainly(qkv, bucket, row, head, HEAD_WIDTH, exact);
            for (int k = 0; k < HEAD_WIDTH; k++) {
                assert_close((double)output[row * WIDTH + head * HEAD_WIDTH + k], exact[k], 1e-5);
            }
        }
    }
    close_block(&fixture);
}

/// Compares with a dense block of the same parameters.
///
/// @param share of the queries and keys; 0: no projection is above 0, and one bucket has all tokens
static void assert_dense(exec_model model, float share)
{
    block_fixture block[2];
    const exec_model models[] = {model_of(EXEC_DENSE), model};
    for (int index = 0; index < 2; index++) {
        open_block(&block[index], &models[index], 0);
        float *weight = tensor_of(block[index].layer, "query-key-value");
        float *bias = tensor_of(block[index].layer, "query-key-value bias");
        for (int column = 0; column < 2 * WIDTH; column++) {
            for (int row = 0; row < WIDTH; row++) {
                weight[row * 3 * WIDTH + column] *= share;
            }
            bias[column] *= share;
        }
        run_forward(&block[index]);
    }

    assert_memory_equal(block[0].output, block[1].output, sizeof block[0].output);
    assert_int_equal(load_of(&block[1], 0), 2 * 6); // 3 blocks of 32 rows in each of two sequences
    close_block(&block[0]);
    close_block(&block[1]);
}

TEST(all_blocks_chosen_and_one_bucket_are_the_dense_block)
{
    exec_model all = sparse_model(0);
    exec_model sorted = sorted_model();
    all.sparse_attention.block_rows = sorted.sparse_attention.block_rows = 0;

    assert_dense(all, 1);
    assert_dense(sorted, 0);
}

int main(void)
{
    if (exec_kernels_cpu_open(&cpu) != STATUS_OK) return 1;
    const int failures = run_all_tests(NULL, NULL);
    cpu->table->close(cpu);
    return failures;
}
