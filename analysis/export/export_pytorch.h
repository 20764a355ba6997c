/// The order of a schedule as torch.distributed.pipelining reads it: the CSV that
/// _PipelineScheduleRuntime loads with format "compute_only".
///
/// A row per rank, a cell per op: the stage in model order, then F, I (the gradient of the input,
/// B here), W or B (both gradients, BW here), then the microbatch; an overlapped pair is one cell,
/// "(0F7;7B3)OVERLAP_F_B". These are the letters of torch since 2.6; before, B was I and BW was B.
/// Messages, sharding and the reduction of gradients are not in the file: torch adds them.
/// Source: torch/distributed/pipelining/schedules.py, _Action and _load_csv.
#pragma once

#include "balance/schedule/schedule.h"
#include "base/status.h"
#include "base/text.h"

/// Appends the table.
///
/// @param schedule one that bal_schedule_check accepts
/// @return STATUS_UNSUPPORTED for a placement with two copies of a stage: torch has one
status ana_export_pytorch(const bal_schedule *schedule, text_buffer *out, error_message *err);
