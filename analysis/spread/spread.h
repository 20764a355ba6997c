/// Work in items, spread over the threads of this process and, under a launcher, over its
/// processes.
///
/// The leader gets the results one by one in ascending order of the items, however many work and
/// whoever is faster, so that what it makes of them is the same bytes.
#pragma once

#include "base/status.h"
#include "base/text.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/// What is to be done. The functions come with the context, which all threads share.
typedef struct ana_items {
    int64_t count;
    const bool *is_done; // [count] items to leave out, as of a resumed study; NULL: none. The
                         // leader's
    void *context;
    /// Makes and releases a worker's own state (arena, caches), on its thread. Either may be NULL.
    status (*begin_worker)(void *context, void **worker, error_message *err);
    void (*end_worker)(void *context, void *worker);
    /// Does one item; on several threads at once, each with its own worker. Appends the result, any
    /// bytes, or none. A failure ends the whole; what is only infeasible is a result. An item that
    /// takes longer than a second should look at ana_spread_options.interrupt itself.
    status (*run)(void *context, void *worker, int64_t item, text_buffer *result,
                  error_message *err);
    /// Takes a result, on the leader, on the thread that called ana_spread_run. NULL elsewhere is
    /// fine.
    status (*put)(void *context, int64_t item, const text_buffer *result, error_message *err);
} ana_items;

/// What joins the processes (spread_carrier.h); NULL: there is only this one.
typedef struct ana_carrier ana_carrier;

/// Is told how far a run over items is: on the leader, on the thread that called ana_spread_run.
typedef struct ana_watcher {
    void *context;
    void (*begin)(void *context, int64_t item_count);
    void (*step)(void *context); // an item has been put
    void (*end)(void *context);
} ana_watcher;

typedef struct ana_spread_options {
    int thread_count;             // of this process, >= 1
    const atomic_bool *interrupt; // set: end soon, with what is done; NULL: never
    int64_t watchdog_ns;          // a process that is silent for so long is given up; 0: 60 s
    ana_carrier *carrier;         // owned by the spread from then on; NULL: this process alone
    ana_watcher watcher;          // all NULL: nobody
} ana_spread_options;

/// Keeps results, so that work which was interrupted goes on where it was. Each run over items is a
/// pass, numbered from 0.
typedef struct ana_keeper {
    void *context;
    /// Gives what is kept of a pass to take, in ascending order of the items. What take returns
    /// ends it.
    status (*recall)(void *context, int pass, void *target,
                     status (*take)(void *target, int64_t item, const char *bytes, size_t length,
                                    error_message *err),
                     error_message *err);
    status (*keep)(void *context, int pass, int64_t item, const text_buffer *result,
                   error_message *err);
} ana_keeper;

/// Where work is spread: threads of one process, or processes with threads each.
typedef struct ana_spread ana_spread;

/// How it went; for a line on standard error.
typedef struct ana_spread_report {
    int rank_count;
    int thread_count;            // of all ranks
    int lost_rank_count;         // so far
    int64_t item_count;          // put
    int64_t recalled_item_count; // of them: had been kept
    int64_t repeated_item_count; // done by another rank than the one that had them first
    int64_t elapsed_ns;
} ana_spread_report;

/// The cores that this process may use: those that it is bound to, at most as many as its control
/// group may use at a time, at least 1.
int ana_spread_core_count(void);

/// @param spread owned by the caller, released with ana_spread_close
/// @return STATUS_NO_MEMORY; the carrier is then released
status ana_spread_open(const ana_spread_options *options, ana_spread **spread, error_message *err);

/// NULL is allowed. Collective, if nothing failed.
void ana_spread_close(ana_spread *spread);

bool ana_spread_is_leader(const ana_spread *spread);

/// Whether it is this process that says what failed: the leader or, where that is gone, rank 1.
bool ana_spread_is_speaker(const ana_spread *spread);

/// From now on results are kept before they are put, and what is kept already is put without being
/// done again. Only the leader's counts; elsewhere it may be called or not.
///
/// @param keeper must stay to the last run; NULL: no more
void ana_spread_keep(ana_spread *spread, const ana_keeper *keeper);

/// From now on another is told how far runs are.
///
/// @param watcher NULL: nobody
void ana_spread_watch(ana_spread *spread, const ana_watcher *watcher);

/// Does the items. Collective: every rank calls it with the same count. On all ranks the status is
/// the leader's. If an item fails, those before it are still put, and the failure of the first is
/// the status, whoever found out first.
///
/// @param report may be NULL; complete on the leader
/// @return STATUS_BACKEND "interrupted", after the results have been put that are there without a
///         gap; what begin_worker, run or put return; STATUS_INVALID if a rank has another count;
///         STATUS_NO_MEMORY
///
/// At most 65,536 results or 256 MiB of them wait for one before them; who is that far ahead waits.
status ana_spread_run(ana_spread *spread, const ana_items *items, ana_spread_report *report,
                      error_message *err);

/// The leader's bytes replace those of the others. Collective.
///
/// @return STATUS_BACKEND to a follower whose leader is gone; STATUS_NO_MEMORY
status ana_spread_share(ana_spread *spread, text_buffer *bytes, error_message *err);

/// Agrees on one status, so that nobody works while another has given up: that of the lowest rank
/// that failed. Collective.
///
/// @param own the status of this rank, whose message is in err
status ana_spread_agree(ana_spread *spread, status own, error_message *err);
