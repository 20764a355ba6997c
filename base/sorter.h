/// Sorts more records than memory is to hold: what does not fit lies, in sorted runs, in a file
/// without a name in the folder TMPDIR (without it /tmp), and is merged as it is read.
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct sorter sorter;

/// @param record_bytes at most 4096
/// @param compare      as of qsort; equal records come in any order
/// @return release with sorter_destroy
///
/// Memory: 512 KiB, twice that while a run is sorted; while they are read, 4 KiB per run where that
/// is more: a 128th of the records, if they come in no order. Records that come in order are one
/// run.
sorter *sorter_create(size_t record_bytes, int (*compare)(const void *, const void *));

/// Takes a copy of a record, before sorter_sort.
///
/// @return STATUS_IO naming the folder and the system's reason, as of a disk that is full
status sorter_put(sorter *records, const void *record, error_message *err);

/// How many were put. NULL: none.
int64_t sorter_count(const sorter *records);

/// Ends putting, so that sorter_next begins. NULL holds no records, here and there.
///
/// @return as of sorter_put
status sorter_sort(sorter *records, error_message *err);

/// The next record in order.
///
/// @param record out: borrowed until the next call; NULL after the last
/// @return STATUS_IO naming the folder and the system's reason
status sorter_next(sorter *records, const void **record, error_message *err);

void sorter_destroy(sorter *records); ///< NULL is allowed

/// How many of items[count] in memory, which are sorted by compare, stand before key: the place of
/// the first that does not. O(log count).
size_t sorted_place(const void *items, size_t count, size_t item_bytes, const void *key,
                    int (*compare)(const void *item, const void *key));
