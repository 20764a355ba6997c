/// Work in items, done by the threads of this process; under `--shard` a part of the items.
///
/// Results are put one by one in ascending order of the items, however many threads work and
/// whichever is faster, so that what is made of them is the same bytes.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"

#include <stdatomic.h>
#include <stdint.h>

/// The items i with i % count == index. A count of 0 means all items.
typedef struct ana_shard {
    int index;
    int count;
} ana_shard;

enum { ANA_SHARDS_MAX = 1 << 20 };

/// What is to be done. The functions come with the context, which all threads share.
typedef struct ana_items {
    int64_t count;
    int64_t together; // so many neighbours share what a worker keeps: it does them one after the
                      // other where there are enough; 0 or 1: none do
    void *context;
    /// Makes a worker's own state (caches), on its thread. @param memory that ends with the worker
    void *(*begin_worker)(arena *memory);
    /// Does one item; on several threads at once, each with its own worker. Appends the result, any
    /// bytes, or none. A failure ends the whole; what is only infeasible is a result. An item that
    /// takes longer than a second should look at ana_spread.interrupt itself.
    status (*run)(void *context, void *worker, int64_t item, text_buffer *result,
                  error_message *err);
    /// Takes a result, on any of the threads, never on two at once.
    status (*put)(void *context, int64_t item, const text_buffer *result, error_message *err);
} ana_items;

struct ana_kept_run;

/// How work is done. Zero-initialise; what is then set holds for the runs that follow.
typedef struct ana_spread {
    int thread_count;             // >= 1
    const atomic_bool *interrupt; // set: end soon, with what is done; NULL: never
    /// Told after every item that was put, never by two threads at once; NULL: nobody is.
    void (*step)(void *context, int64_t put_count, int64_t item_count);
    void *step_context;
    ana_shard shard;           // the items that are done here
    struct ana_kept_run *kept; // results are kept there before they are put, and what is kept is
                               // put without being done again; NULL: nothing is kept
    int pass;                  // of the next run among those of kept
    int64_t put_count;         // items that the last run has put
} ana_spread;

/// The cores that this process may use: those that it is bound to, at most as many as its control
/// group may use at a time, at least 1.
int ana_spread_core_count(void);

/// Does the items, or those of the shard. If an item fails, those before it are still put, and the
/// failure of the first is the status, whichever was found first. Where the system gives fewer
/// threads than wanted, those that could be started do the work.
///
/// @return STATUS_BACKEND "interrupted", after the results have been put that are there without a
///         gap; what run, put or the store return
///
/// At most 65,536 results wait for one before them; a thread that is that far ahead waits.
status ana_spread_run(ana_spread *spread, const ana_items *items, error_message *err);
