/// Attention inside hash buckets: queries and keys are sorted by hash, and a tile of queries meets
/// only the tiles of keys that share its buckets. How much of dense causal attention that leaves.
#pragma once

#include "base/rng.h"

enum { MODEL_HASH_BUCKETS_MAX = 256, MODEL_HASH_POPULARITIES = 1024 };

/// Popularities for buckets to take theirs from. Their logarithms are normal with deviation skew: 0
/// makes all alike.
///
/// @param skew       in [0, 10]
/// @param popularity [MODEL_HASH_POPULARITIES] out
void model_hash_popularities(rng *random, double skew, double *popularity);

/// Tokens of a sequence in every bucket, in proportion to popularities that each bucket draws.
///
/// @param popularity [MODEL_HASH_POPULARITIES] > 0
/// @param tokens     [bucket_count] out: they sum to sequence_length
void model_hash_draw(rng *random, const double *popularity, int bucket_count, int sequence_length,
                     int *tokens);

/// Share of dense causal attention's tiles that the kernel computes, in (0, 1]; a kernel that would
/// read more than dense attention does counts as that.
///
/// Tokens lie bucket after bucket, each in its order. A tile of queries reads key tiles from the
/// one where its first bucket begins to the one where its last bucket ends, less those at the end
/// that hold only later tokens; the tokens of a bucket are taken to be spread evenly over the
/// sequence.
///
/// @param tokens [bucket_count] of each bucket; they sum to sequence_length
/// @param tile   tokens of a tile, >= 1; the last one may be shorter
///
/// Source: Pagliardini et al., arXiv 2306.01160, and _fwd_kernel of hsparse_attn.py in its code,
/// which skips tiles so; queries and keys are the same vectors there (hashformer.py).
double model_hash_kept_share(const int *tokens, int bucket_count, int sequence_length, int tile);
