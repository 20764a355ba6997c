/// hash_attention: tiles counted by hand, the kernel's loops run over tokens as an oracle, and what
/// is drawn.
#include "models/dynamism/hash_attention.h"
#include "tests/test.h"

#include <stdlib.h>
#include <string.h>

/// The kernel's own loops over sorted tokens: hash and place of each.
static int64_t count_as_the_kernel(const int *hash, const double *place, int length, int tile)
{
    const int tiles = (length + tile - 1) / tile;
    int64_t kept = 0;
    for (int query = 0; query < tiles; query++) {
        const int end = (query + 1) * tile < length ? (query + 1) * tile : length;
        int lowest = hash[query * tile];
        int highest = hash[query * tile];
        double latest = 0;
        for (int token = query * tile; token < end; token++) {
            if (hash[token] < lowest) lowest = hash[token];
            if (hash[token] > highest) highest = hash[token];
            if (place[token] > latest) latest = place[token];
        }
        int start_key = 0;
        int end_key = 0;
        for (int key = 0; key < tiles; key++) {
            const int key_end = (key + 1) * tile < length ? (key + 1) * tile : length;
            end_key += hash[key * tile] <= highest;
            start_key += hash[key_end - 1] < lowest;
        }
        int causal_end = end_key;
        for (int key = start_key; key < end_key; key++) {
            const int key_end = (key + 1) * tile < length ? (key + 1) * tile : length;
            double earliest = 2;
            for (int token = key * tile; token < key_end; token++) {
                if (place[token] < earliest) earliest = place[token];
            }
            if (earliest <= latest) causal_end = key + 1;
        }
        kept += causal_end - start_key;
    }
    return kept;
}

TEST(counts_agree_with_the_kernels_loops)
{
    enum { LENGTH_MAX = 300 };
    const uint64_t seed = 17;
    rng random = rng_init(seed, 0);
    double popularity[MODEL_HASH_POPULARITIES];
    for (int round = 0; round < 500; round++) {
        const int buckets = (int)rng_between(&random, 1, 12);
        const int length = (int)rng_between(&random, 1, LENGTH_MAX);
        const int tile = (int)rng_between(&random, 1, 40);
        int tokens[12];
        int hash[LENGTH_MAX];
        double place[LENGTH_MAX];
        model_hash_popularities(&random, rng_unit(&random) * 2, popularity);
        model_hash_draw(&random, popularity, buckets, length, tokens);
        int token = 0;
        for (int bucket = 0; bucket < buckets; bucket++) {
            for (int rank = 0; rank < tokens[bucket]; rank++) {
                hash[token] = bucket;
                place[token++] = (rank + 0.5) / tokens[bucket];
            }
        }
        assert_int_equal(token, length);
        const int64_t tiles = (length + tile - 1) / tile;
        const double dense = (double)(tiles * (tiles + 1)) / 2;
        const double expected = (double)count_as_the_kernel(hash, place, length, tile) / dense;
        assert_close(model_hash_kept_share(tokens, buckets, length, tile),
                     expected < 1 ? expected : 1, 1e-12);
    }
}

TEST(draws_share_out_all_tokens_and_skew_makes_them_uneven)
{
    int even[16];
    double popularity[MODEL_HASH_POPULARITIES];
    rng random = rng_init(2, 0);
    model_hash_popularities(&random, 0, popularity);
    model_hash_draw(&random, popularity, 16, 2048, even);
    for (int bucket = 0; bucket < 16; bucket++) {
        assert_int_equal(even[bucket], 128);
    }
    double before = 0;
    for (int skew = 0; skew <= 4; skew++) {
        double largest = 0;
        model_hash_popularities(&random, skew / 2.0, popularity);
        for (int draw = 0; draw < 200; draw++) {
            int tokens[16];
            int sum = 0;
            int most = 0;
            model_hash_draw(&random, popularity, 16, 2048, tokens);
            for (int bucket = 0; bucket < 16; bucket++) {
                assert_true(tokens[bucket] >= 0);
                sum += tokens[bucket];
                if (tokens[bucket] > most) most = tokens[bucket];
            }
            assert_int_equal(sum, 2048);
            largest += most / 200.0;
        }
        assert_true(largest > before);
        before = largest;
    }
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
