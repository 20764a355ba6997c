/// The trace that was opened last, which stays open from one setup to the next, its costs kept in
/// memory as they are read: for who opens many studies of one trace.
#pragma once

#include "balance/ports.h"
#include "base/arena.h"
#include "base/status.h"
#include "traces/store/catalog.h"

/// Costs beyond this are read again whenever they are asked for.
#define ANA_CACHED_BYTES_MAX (INT64_C(256) << 20)

/// Not for several threads at once.
typedef struct ana_trace_cache ana_trace_cache;

/// Release with ana_trace_cache_destroy.
ana_trace_cache *ana_trace_cache_create(void);
void ana_trace_cache_destroy(ana_trace_cache *cache);

/// Finds the trace, or opens it in place of another: what was found of that is then no more. What
/// has been opened is taken to stay as it is in its store.
///
/// @param name   as trace_find takes it
/// @param info   out: borrowed until the trace goes
/// @param memory of the source's own state
/// @param source out: as trace_reader_source; borrowed until the trace goes
/// @return what trace_store_open, trace_find and trace_reader_open return
status ana_trace_cache_find(ana_trace_cache *cache, const char *path, const char *name,
                            arena *memory, const trace_info **info, bal_cost_source *source,
                            error_message *err);
