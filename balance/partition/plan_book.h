/// Plans that were found, for who asks for the same ones again and again: points of a study that
/// differ in links or policies cut the same layers.
#pragma once

#include "balance/partition/partition_pairs.h"

/// Zero-initialise all but memory. Not for several threads at once.
typedef struct bal_plan_book {
    arena *memory;                       // that the plans live and end with
    struct bal_plan_book_entry *entries; // a ring; NULL: none yet
    int next;                            // the entry that is written next
} bal_plan_book;

/// bal_partition_chunks, looked up among the last 64 plans that the book gave. Only plans are kept:
/// what is infeasible is asked again.
///
/// @param book NULL: nothing is kept
/// @param plan out: carved from memory, not from the book
status bal_plan_book_find(bal_plan_book *book, const bal_chain *chain, arena *memory,
                          bal_pairs_plan *plan, error_message *err);
