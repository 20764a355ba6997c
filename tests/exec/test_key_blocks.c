/// Block-sparse attention by hashing: buckets and lists by numbers worked out by hand and against
/// the definition; a block with such lists against finite differences and against the dense block.
#define BLOCK_FIXTURE_LENGTH 72 // 4 blocks of 16 rows and one of 8
#include "exec/model/hashed_attention.h"
#include "tests/exec/block_fixture.h"

static void buckets_are_the_signs_of_projections(void **state)
{
    (void)state;
    const float projection[] = {1, -1, 0, 0.5F, -2, 3, 4, -1e-9F}; // two rows of two bits
    uint8_t query[2];
    uint8_t key[2];

    exec_hash_rows(projection, 2, 2, query, key);

    assert_int_equal(query[0], 1); // + -
    assert_int_equal(key[0], 2);   // 0 +
    assert_int_equal(query[1], 2); // - +
    assert_int_equal(key[1], 1);   // + -
}

/// The lists of one sequence of three blocks of 16 rows, each row of a block in its block's bucket.
static int lists_of(const uint8_t *query, const uint8_t *key, double affinity, int *first_entry,
                    int *key_block)
{
    uint8_t query_bucket[48];
    uint8_t key_bucket[48];
    int scratch[2 * 3 * 4];
    const int first_row[] = {0, 48};
    const exec_attention shape = {
        .sequence_count = 1, .first_row = first_row, .block_rows = 16, .block_count = 3};
    const exec_sparse_attention_options options = {.bit_count = 2, .affinity = affinity};
    for (int row = 0; row < 48; row++) {
        query_bucket[row] = query[row / 16];
        key_bucket[row] = key[row / 16];
    }
    exec_choose_key_blocks(&options, &shape, query_bucket, key_bucket, scratch, first_entry,
                           key_block);
    return first_entry[3];
}

static void blocks_meet_where_buckets_are_shared(void **state)
{
    (void)state;
    const uint8_t query[] = {0, 1, 2};
    const uint8_t key[] = {2, 3, 0};
    int first_entry[4];
    int key_block[6];

    // All pairs of blocks 2 and 0 share a bucket: 4 times as many as by chance.
    assert_int_equal(lists_of(query, key, 1, first_entry, key_block), 4);
    assert_memory_equal(first_entry, ((const int[]){0, 1, 2, 4}), sizeof first_entry);
    assert_memory_equal(key_block, ((const int[]){0, 1, 0, 2}), 4 * sizeof(int));
    assert_int_equal(lists_of(query, key, 4, first_entry, key_block), 4);
    assert_int_equal(lists_of(query, key, 4.001, first_entry, key_block), 3);
    assert_int_equal(lists_of(query, key, 0, first_entry, key_block), 6);
}

/// Whether key block `key` is in the list of query block `query`, from the definition.
static bool is_met(const exec_sparse_attention_options *options, const uint8_t *query_bucket,
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
    return (double)(pairs << options->bit_count) >= options->affinity * (double)all;
}

static void lists_are_those_of_the_definition(void **state)
{
    (void)state;
    enum { ALL_ROWS = 200, BLOCKS_MAX = 20 };
    static int scratch[2 * BLOCKS_MAX * 8];
    for (uint64_t seed = 1; seed <= 40; seed++) {
        rng random = rng_init(seed, 0);
        const int cut = (int)rng_below(&random, ALL_ROWS + 1);
        const int first_row[] = {0, cut, cut, ALL_ROWS}; // one sequence has no rows
        const exec_sparse_attention_options options = {.bit_count = 3,
                                                       .affinity = 0.5 + rng_unit(&random)};
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
        int first_entry[BLOCKS_MAX + 1];
        int key_block[BLOCKS_MAX * (BLOCKS_MAX + 1) / 2];

        exec_choose_key_blocks(&options, &shape, bucket[0], bucket[1], scratch, first_entry,
                               key_block);

        int entry = 0;
        for (int query = 0; query < shape.block_count; query++) {
            assert_int_equal(first_entry[query], entry);
            for (int key = 0; key <= query; key++) {
                if (!is_met(&options, bucket[0], bucket[1], sequence, begin, end, query, key)) {
                    continue;
                }
                assert_int_equal(key_block[entry++], key);
            }
        }
        assert_int_equal(first_entry[shape.block_count], entry);
        assert_true(entry <= exec_dense_block_count(&shape));
    }
}

static void refused(exec_sparse_attention_options options, const char *message)
{
    error_message err = {0};
    assert_int_equal(exec_sparse_attention_options_check(&options, &err), STATUS_INVALID);
    assert_string_equal(err.message, message);
}

static void options_outside_their_limits_are_refused(void **state)
{
    (void)state;
    const exec_sparse_attention_options options = exec_sparse_attention_options_default();
    assert_int_equal(exec_sparse_attention_options_check(&options, NULL), STATUS_OK);

    exec_sparse_attention_options wrong = options;
    wrong.bit_count = 9;
    refused(wrong, "bit_count 9 is outside [1, 8]");
    wrong = options;
    wrong.affinity = -1;
    refused(wrong, "affinity -1 is negative or not finite");
    wrong = options;
    wrong.block_rows = 17;
    refused(wrong, "block_rows 17 is none of 0, 16, 32, 64");
}

static exec_model sparse_model(double affinity)
{
    exec_model model = model_of(EXEC_SPARSE_ATTENTION);
    model.sparse_attention.affinity = affinity;
    model.sparse_attention.bit_count = 3;
    return model;
}

static void chosen_blocks_have_the_gradients_of_finite_differences(void **state)
{
    (void)state;
    block_fixture fixture;
    // No pair of blocks is so near this that a difference's step changes the lists.
    const exec_model model = sparse_model(1.85);
    open_block(&fixture, &model, 0);

    check_gradients(&fixture);

    run_forward(&fixture);
    assert_in_range(load_of(&fixture, 0), 12,
                    24); // between own blocks alone and all: 2 x 5, 2 x 15
    close_block(&fixture);
}

static void all_blocks_chosen_are_the_dense_block(void **state)
{
    (void)state;
    block_fixture dense;
    block_fixture sparse;
    const exec_model plain = model_of(EXEC_DENSE);
    exec_model model = sparse_model(0);
    model.sparse_attention.block_rows = 0;
    open_block(&dense, &plain, 0);
    open_block(&sparse, &model, 0);

    run_forward(&dense);
    run_forward(&sparse);

    assert_memory_equal(dense.output, sparse.output, sizeof dense.output);
    assert_int_equal(load_of(&sparse, 0), 2 * 6); // 3 blocks of 32 rows in each of two sequences
    close_block(&sparse);
    close_block(&dense);
}

static void no_affinity_leaves_the_own_block(void **state)
{
    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_the_signs_of_projections),
        cmocka_unit_test(blocks_meet_where_buckets_are_shared),
        cmocka_unit_test(lists_are_those_of_the_definition),
        cmocka_unit_test(options_outside_their_limits_are_refused),
        cmocka_unit_test(chosen_blocks_have_the_gradients_of_finite_differences),
        cmocka_unit_test(all_blocks_chosen_are_the_dense_block),
        cmocka_unit_test(no_affinity_leaves_the_own_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
