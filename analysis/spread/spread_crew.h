/// The threads of one process that do items, in the order in which they are given.
#pragma once

#include "analysis/spread/spread.h"
#include "analysis/spread/spread_window.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ana_crew ana_crew;

/// Starts the threads. Every other call comes from the thread that called this.
///
/// @param items  must stay until ana_crew_stop
/// @param crew   owned by the caller, released with ana_crew_stop
/// @return STATUS_NO_MEMORY, also if the system gives no thread
status ana_crew_start(const ana_items *items, int thread_count, ana_crew **crew,
                      error_message *err);

/// Has the items in [first, end) done, behind those that were given before.
status ana_crew_give(ana_crew *crew, int64_t first, int64_t end, error_message *err);

/// Forgets the items that no thread has begun.
void ana_crew_drop(ana_crew *crew);

/// Whether a thread has an item at hand.
bool ana_crew_is_busy(ana_crew *crew);

/// Sleeps until results are worth a look (many, or all that there will be), a worker could not
/// begin, or until_ns of the monotonic clock.
void ana_crew_await(ana_crew *crew, int64_t until_ns);

/// The results since the last call.
///
/// @param results [return value] out, valid until the next call. Texts that the caller does not
///                move out are freed then
int64_t ana_crew_take(ana_crew *crew, ana_result **results);

/// STATUS_OK, or what begin_worker of a thread returned.
status ana_crew_check(ana_crew *crew, error_message *err);

/// Waits for the items at hand, ends the threads and frees what is left. NULL is allowed.
void ana_crew_stop(ana_crew *crew);
