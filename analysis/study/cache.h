/// What setups that are opened one after the other need not find again: results by what they depend
/// on, and the trace that was opened last.
#pragma once

#include "balance/ports.h"
#include "base/arena.h"
#include "base/status.h"
#include "traces/store/catalog.h"

#include <stddef.h>

// Results kept by what they depend on: the one that was used longest ago goes where there is no
// room.

enum { ANA_MEMO_ENTRIES = 64, ANA_MEMO_KEY_BYTES_MAX = 1 << 16 };

/// One result. Its value and what that points to are carved from memory.
typedef struct ana_memo_entry {
    void *value; // NULL: just made, the caller finds the result
    arena *memory;
} ana_memo_entry;

/// Not for several threads at once.
typedef struct ana_memo ana_memo;

/// Owned by the caller; release with ana_memo_destroy.
ana_memo *ana_memo_create(void);
void ana_memo_destroy(ana_memo *memo);

/// The entry of these bytes, made if there is none. A result that cannot be found is left without a
/// value: the next who asks tries again.
///
/// @param length at most ANA_MEMO_KEY_BYTES_MAX
/// @return borrowed until ANA_MEMO_ENTRIES - 1 others have been asked for
ana_memo_entry *ana_memo_find(ana_memo *memo, const char *key, size_t length);

/// The same of results that others point into: none of them goes.
///
/// @return borrowed as long as memo is there; NULL where there is no room for another
ana_memo_entry *ana_memo_find_lasting(ana_memo *memo, const char *key, size_t length);

// The trace that was opened last, which stays open from one setup to the next, its costs kept in
// memory as they are read.

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
