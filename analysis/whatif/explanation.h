/// Why a configuration takes as long as it does, how far it is from what cannot be beaten, and what
/// making a part of it faster would be worth.
#pragma once

#include "analysis/study/setup.h"
#include "analysis/whatif/bubble_causes.h"
#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"
#include "base/text.h"
#include "sim/critical_path.h"

#include <stdbool.h>
#include <stdint.h>

// What shorter ops and links would be worth.

/// What an iteration would be shorter by if something took 1 % less: its order is played again. A
/// cost of 1 % is a whole number of ns, so very short ops and messages count as 0.
typedef struct ana_sensitivity {
    int stage_count;
    int64_t *stage_ns; // [stage_count] all ops of the stage
    int64_t *link_ns;  // [stage_count] messages between stage s and s + 1, both ways; last: 0
    int64_t kind_ns[OP_KIND_COUNT]; // all ops of a kind; BW is B and W together
    int64_t all_ops_ns;
    int64_t all_links_ns;
} ana_sensitivity;

/// @param schedule    the order that is played
/// @param sensitivity out: arrays are carved from memory
/// @return what sim_order_compile and sim_costs_check refuse.
///         Time O(stage_count * ops).
status ana_sensitivity_of(const bal_schedule *schedule, const bal_stage_costs *costs,
                          bool post_validation, arena *memory, ana_sensitivity *sensitivity,
                          error_message *err);

/// What a shorter iteration is worth. Zero-initialise; what is 0 is not printed.
typedef struct ana_worth {
    double iteration_count;    // of the whole training
    double gpu_count;          // that are paid for
    double price_per_gpu_hour; // 0: not given
    const char *currency;      // with a price
} ana_worth;

/// Times are of one iteration, the one of the run whose length is the median (the first of
/// several): of the slowest replica, in ns. Arrays are carved from memory.
typedef struct ana_explanation {
    const ana_setup *setup;
    const char *label; // of the row
    ana_worth worth;
    int iteration_count;      // of the run that was played
    int iteration;            // the one that is explained
    int64_t iteration_ns;     // of it
    int64_t iteration_min_ns; // over the run
    int64_t iteration_max_ns;
    int64_t pipeline_ns; // of iteration_ns
    int rank_count;
    int stage_count;
    const int *first_layer;   // [stage_count + 1]
    const int64_t *stage_ns;  // [stage_count] F, B and W of all microbatches
    int64_t plan_bound_ns;    // no order of ops makes this plan's pipeline shorter
    int64_t any_bound_ns;     // nor does any contiguous plan on these ranks; 0: chunks, not known
    ana_bubble_causes causes; // over ANA_EXPLAINED_ITERATIONS iterations of the run, evenly spaced
    sim_critical_path path;
    ana_sensitivity sensitivity;
} ana_explanation;

enum { ANA_EXPLAINED_ITERATIONS = 16 };

/// Plays a row of a study twice: for the length of its iterations, and for the one that it
/// explains.
///
/// @param balancing a row of setup->study whose balancer makes stages
/// @return what the replay and the source return; STATUS_INVALID for a balancer without stages
status ana_explain(const ana_setup *setup, const ana_balancing *balancing, const ana_worth *worth,
                   arena *memory, ana_explanation *explanation, error_message *err);

/// Appends it for people; ends with the inputs, those that are assumed first.
void ana_explanation_print(const ana_explanation *explanation, text_buffer *out);

/// Appends it as one JSON object ("dynmo-explanation/1").
void ana_explanation_write(const ana_explanation *explanation, text_buffer *out);
