/// Puts a comparison into the store while it is played: every iteration, plan and decision, how
/// much the ranks worked, what the ops of each stage took, the timelines of the first and the last
/// iteration, and what came out.
#pragma once

#include "analysis/compare/compare.h"
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
/// @param recording owned by the caller; ends with ana_recording_finish, before the store is closed
/// @return STATUS_IO
status ana_recording_begin(trace_store *store, trace_run_kind kind, const ana_setup *setup,
                           const char *command_line, const char *tool_version,
                           ana_recording **recording, error_message *err);

/// What ana_compare tells it. Borrowed until finish.
ana_listener ana_recording_listener(ana_recording *recording);

/// Ends the run; the recording is gone afterwards, also on failure.
///
/// @param comparison not read where outcome is a failure; NULL: there is none
/// @param outcome    of the run, with its message in err
/// @return outcome; where that is STATUS_OK, what the store says
status ana_recording_finish(ana_recording *recording, const ana_comparison *comparison,
                            status outcome, error_message *err);
