#include "models/dynamism/hash_attention.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

void model_hash_popularities(rng *random, double skew, double *popularity)
{
    for (int level = 0; level < MODEL_HASH_POPULARITIES; level++) {
        popularity[level] = rng_portable_exp(skew * rng_normal(random));
    }
}

void model_hash_draw(rng *random, const double *popularity, int bucket_count, int sequence_length,
                     int *tokens)
{
    enum { PICK_BITS = 10, PICKS_PER_WORD = 64 / PICK_BITS };
    _Static_assert(MODEL_HASH_POPULARITIES == 1 << PICK_BITS, "a pick is a number of so many bits");
    assert(bucket_count >= 1 && bucket_count <= MODEL_HASH_BUCKETS_MAX);
    double upto[MODEL_HASH_BUCKETS_MAX];
    double sum = 0;
    uint64_t bits = 0;
    for (int bucket = 0; bucket < bucket_count; bucket++) {
        bits = bucket % PICKS_PER_WORD == 0 ? rng_next(random) : bits >> PICK_BITS;
        sum += popularity[bits & (MODEL_HASH_POPULARITIES - 1)];
        upto[bucket] = sum;
    }
    int given = 0;
    for (int bucket = 0; bucket < bucket_count; bucket++) {
        const int end = (int)(sequence_length * (upto[bucket] / sum) + 0.5);
        tokens[bucket] = end - given;
        given = end;
    }
}

/// Buckets laid one after the other.
typedef struct bucket_layout {
    int begin[MODEL_HASH_BUCKETS_MAX + 1]; // [bucket_count + 1] tokens before each; the last: all
    int bucket_count;
    int tile;
} bucket_layout;

/// Where a token stands in the sequence, as a share of it: tokens of a bucket are spread evenly.
static double position_of(const bucket_layout *layout, int bucket, int token)
{
    const int count = layout->begin[bucket + 1] - layout->begin[bucket];
    return (token - layout->begin[bucket] + 0.5) / count;
}

/// The latest token of the queries [first, last], which lie in buckets first_bucket to last_bucket.
static double latest_query(const bucket_layout *layout, int last, int first_bucket, int last_bucket)
{
    double latest = position_of(layout, last_bucket, last);
    for (int bucket = first_bucket; bucket < last_bucket; bucket++) {
        const int end = layout->begin[bucket + 1];
        if (end == layout->begin[bucket]) continue;
        const double position = position_of(layout, bucket, end - 1);
        if (position > latest) latest = position;
    }
    return latest;
}

/// Whether the tile in which a bucket ends holds a key that is not after `latest`, its own or one
/// of the buckets that begin there.
static bool end_tile_is_read(const bucket_layout *layout, int bucket, int tile, double latest)
{
    const int first = tile * layout->tile;
    if (first <= layout->begin[bucket]) return true;
    if (position_of(layout, bucket, first) <= latest) return true;
    for (int next = bucket + 1; next < layout->bucket_count; next++) {
        const int begin = layout->begin[next];
        if (begin - first >= layout->tile) return false;
        if (begin < layout->begin[next + 1] && position_of(layout, next, begin) <= latest) {
            return true;
        }
    }
    return false;
}

/// The last key tile that queries of a bucket up to `latest` read. Positions rise inside a bucket,
/// so the tiles between its ends can be searched.
static int last_key_tile(const bucket_layout *layout, int bucket, double latest)
{
    const int end_tile = (layout->begin[bucket + 1] - 1) / layout->tile;
    if (end_tile_is_read(layout, bucket, end_tile, latest)) return end_tile;
    int read = layout->begin[bucket] / layout->tile;
    int not_read = end_tile;
    while (not_read - read > 1) {
        const int middle = read + (not_read - read) / 2;
        if (position_of(layout, bucket, middle * layout->tile) <= latest) {
            read = middle;
        } else {
            not_read = middle;
        }
    }
    return read;
}

static bucket_layout lay_out(const int *tokens, int bucket_count, int tile)
{
    bucket_layout layout = {.bucket_count = bucket_count, .tile = tile};
    for (int bucket = 0; bucket < bucket_count; bucket++) {
        layout.begin[bucket + 1] = layout.begin[bucket] + tokens[bucket];
    }
    return layout;
}

double model_hash_kept_share(const int *tokens, int bucket_count, int sequence_length, int tile)
{
    assert(bucket_count >= 1 && bucket_count <= MODEL_HASH_BUCKETS_MAX);
    assert(sequence_length >= 1 && tile >= 1);
    const bucket_layout layout = lay_out(tokens, bucket_count, tile);
    assert(layout.begin[bucket_count] == sequence_length);
    const int tiles = (sequence_length - 1) / tile + 1;
    int64_t kept = 0;
    int first_bucket = 0;
    for (int query = 0; query < tiles; query++) {
        const int first = query * tile;
        const int last = sequence_length - first > tile ? first + tile - 1 : sequence_length - 1;
        while (layout.begin[first_bucket + 1] <= first) {
            first_bucket++;
        }
        int last_bucket = first_bucket;
        while (layout.begin[last_bucket + 1] <= last) {
            last_bucket++;
        }
        const double latest = latest_query(&layout, last, first_bucket, last_bucket);
        const int first_tile = layout.begin[first_bucket] / tile;
        kept += last_key_tile(&layout, last_bucket, latest) - first_tile + 1;
    }
    const double dense = (double)tiles * ((double)tiles + 1) / 2;
    return (double)kept < dense ? (double)kept / dense : 1;
}
