/// The claims about balancing, put to layers of the user's own: what every balancer makes of them,
/// and whether what is promised holds for them.
#pragma once

#include "balance/problem.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// What one balancer of the table ends with, in time whatever it weighs by.
typedef struct ana_load_row {
    const char *balancer;
    const char *refusal; // why it gives no answer, or NULL; the rest is then 0
    bool is_executable;  // contiguous and in model order
    int64_t load_max_ns;
    double contiguous_ratio; // load_max / contiguous optimum; below 1 only out of order
    double assignment_ratio; // load_max / lower bound of any assignment
    int transfer_count;      // layers sent until nothing moved; -1: it does not go step by step
    int iteration_count;     // sweeps over the ranks, the last moved nothing; -1 likewise
    double phi;
    const int *owner; // [layer_count], of one that owns freely
} ana_load_row;

typedef enum ana_load_answer {
    ANA_LOAD_HOLDS,
    ANA_LOAD_FAILS,
    ANA_LOAD_NOT_PROMISED, ///< a condition of the claim is not met, and it does not hold
    ANA_LOAD_UNDECIDED,    ///< the question is too large for an exact answer
} ana_load_answer;

typedef struct ana_load_claim {
    const char *name; // as the claims of verdict.h
    ana_load_answer answer;
    const char *text; // with numbers
} ana_load_claim;

enum { ANA_LOAD_CLAIMS = 4 };

/// Arrays are from the arena of the call.
typedef struct ana_load_verdict {
    int layer_count;
    int stage_count;
    int64_t total_ns;
    bool starts_even;     // no plan in force: the balancers that move start from `even`
    int zero_layer_count; // layers that take no time
    bool has_caps;
    bool has_equal_ranks;          // no time factors, no fixed times
    int64_t contiguous_optimum_ns; // exact, under the same rules
    int64_t assignment_low_ns;     // no assignment in any order is below
    int64_t assignment_high_ns;    // the best assignment found; -1: none was looked for
    double gamma_ns;
    double round_bound; // of Lemma 2 until phi <= gamma
    int row_count;
    ana_load_row *rows;
    ana_load_claim claims[ANA_LOAD_CLAIMS];
} ana_load_verdict;

/// @param problem  layers, stages, caps, plan in force; its weight and objective are not read
/// @param gamma_ns 0: the mean load
/// @return as bal_chain_of and bal_partition_bottleneck. A balancer that refuses
///         is a row.
status ana_load_verdict_of(const bal_problem *problem, double gamma_ns, arena *memory,
                           ana_load_verdict *verdict, error_message *err);

void ana_load_verdict_append(const ana_load_verdict *verdict, text_buffer *out);
void ana_load_verdict_write(const ana_load_verdict *verdict, json_writer *writer);
