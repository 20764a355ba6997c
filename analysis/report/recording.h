/// Puts a comparison into the store while it is played: every iteration, plan and decision, how
/// much the ranks worked, what the ops of each stage took, the timelines of the first and the last
/// iteration, and what came out. Iterations have the numbers of the trace whose costs are played.
#pragma once

#include "analysis/compare/compare.h"
#include "balance/schedule/schedule.h"
#include "base/arena.h"
#include "base/status.h"
#include "traces/store/runs.h"
#include "traces/store/store.h"

/// Timelines of larger iterations are left out: as JSON an op takes about 30 bytes.
enum { ANA_RECORDED_OPS_MAX = 200000 };

/// Of longer runs the work of the ranks and what ops took is recorded in every n-th iteration only.
enum { ANA_RECORDED_COLUMNS_MAX = 1000 };

/// A run that is being recorded.
typedef struct ana_recording ana_recording;

/// Begins a run in the store.
///
/// @param kind      who plays it: TRACE_RUN_SIM or TRACE_RUN_EXEC
/// @param recording in memory; ends with ana_recording_finish, before the store is closed
/// @return STATUS_IO
status ana_recording_begin(trace_store *store, trace_run_kind kind, const ana_setup *setup,
                           const char *command_line, const char *tool_version, arena *memory,
                           ana_recording **recording, error_message *err);

/// What ana_compare tells it. Borrowed until finish.
ana_listener ana_recording_listener(ana_recording *recording);

/// Ends the run.
///
/// @param comparison not read where outcome is a failure; NULL: there is none
/// @param outcome    of the run, with its message in err
/// @return outcome; where that is STATUS_OK, what the store says
status ana_recording_finish(ana_recording *recording, const ana_comparison *comparison,
                            status outcome, error_message *err);

// What the ops of each stage took in one iteration, and how long the messages travelled that ranks
// waited for: a timeline in a few numbers, for the store and for checks.

/// Sums a timeline up.
///
/// A message counts as awaited where the rank had been idle for at least half of its way when it
/// came. Elsewhere the time from the sender's end to the receiver's begin is not how long the
/// message travelled: it lay there while the rank was busy, or overhead is all that was waited for.
///
/// @param iteration stands in the rows
/// @param rows      [*count] out, from memory: a row for each stage and kind that the timeline has,
///                  by stage and kind
/// Time O(ops log ops).
void ana_op_times_of(const bal_timeline *timeline, int iteration, arena *memory,
                     trace_run_op_time **rows, int *count);

/// The lower of the two in the middle where there are two, so that it is a time that was measured.
/// -1: there are none. Sorts values, [count].
int64_t ana_op_median(int64_t *values, int count);
