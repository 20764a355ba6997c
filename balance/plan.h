/// A plan as it travels in a file: dynmo-plan/1. Written by `dynmo plan`, played by both players.
#pragma once

#include "balance/costs/stage_costs.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/json.h"
#include "base/status.h"

#include <stdbool.h>

typedef struct bal_plan {
    const int *first_layer; // [rank_count * chunk_count + 1] model order
    int rank_count;
    int chunk_count;
    bal_placement placement;
    const char *schedule; // row of bal_schedule_families
    int microbatch_count;
    const int *stage_ranks;    // [rank_count] the rank of the cluster that plays each pipeline rank
    int data_parallel;         // replicas of the pipeline
    bool embedding;            // layer 0 is the embedding
    bool head;                 // the last layer is the LM head
    bool first_stage_whole;    // it was made for bal_stage_costs_join_first
    const bal_schedule *order; // of every rank, or NULL: what bal_schedule_build makes of schedule
} bal_plan;

/// Reads the object of a plan file. Strict: unknown keys, cuts that fall, a schedule that does not
/// have this number of chunks or this placement, a rank named twice, and an order that cannot be
/// played are refused.
///
/// @param plan carved from memory; schedule is static storage
/// @return STATUS_FORMAT naming file and key; STATUS_UNSUPPORTED for another schema version. plan
/// is then untouched.
status bal_plan_read(json_value object, arena *memory, bal_plan *plan, error_message *err);

/// Writes a plan so that bal_plan_read reads it back the same. Without stage_ranks (NULL) they are
/// in order.
void bal_plan_write(const bal_plan *plan, json_writer *writer);

/// Writes the order of every rank as plans and `dynmo schedule` show it: [["F0","F1&BW0",...],...].
void bal_order_write(const bal_schedule *order, json_writer *writer);
