/// Times of layers over the iterations of a recorded trace.
#pragma once

#include "analysis/converge/drift.h"
#include "base/arena.h"
#include "base/status.h"
#include "traces/store/store.h"

enum { ANA_COURSE_TIMES_MAX = 1 << 26 };

/// Reads F + B + W of one microbatch, the mean over them, of every sample in a range.
///
/// @param trace       as trace_find
/// @param first, last iterations, both included
/// @param course      arrays are carved from memory
/// @return STATUS_INVALID if fewer than two iterations of the range were sampled, a sample takes no
///         time at all, or there are more than ANA_COURSE_TIMES_MAX times; as trace_reader_costs_at
status ana_layer_course_read(trace_store *store, const char *trace, int first, int last,
                             arena *memory, ana_layer_course *course, error_message *err);
