/// A run whose results of items are kept in a store: found again by what its results depend on, it
/// goes on where it was, and a finished one is not done again.
#pragma once

#include "analysis/shards/spread.h"
#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct ana_kept_run ana_kept_run;

/// All that the results depend on, and what is said of the run beside it. Borrowed for the call.
typedef struct ana_kept_options {
    const char *store;        // path; made where there is none
    const char *name;         // of the run, for people
    const char *command_line; // not part of what the results depend on
    const char *tool_version;
    const char *settings;    // of the command, such as "draws=64"; NULL: none
    const char *config_json; // the study
    const char *config_path; // its file, from whose folder it names others; NULL: from the working
                             // one
    uint64_t seed;
    ana_shard shard; // a part of the items is a run of its own
} ana_kept_options;

enum { ANA_IDENTITY_BYTES = 48 };

typedef enum ana_kept_state {
    ANA_KEPT_NEW,     ///< nothing was there
    ANA_KEPT_RESUMED, ///< some of it was
    ANA_KEPT_COMPLETE ///< all of it was: nothing needs to be done
} ana_kept_state;

/// An open run; only kept_run.c writes it.
struct ana_kept_run {
    struct trace_store *store;
    struct trace_run *items; // NULL: the run is complete
    int64_t number;          // in the store
    ana_kept_state state;
    const char *begun; // when, UTC; "" if it is new
    arena *memory;
};

/// Finds or begins the run. What the results depend on is the version of the program, the settings,
/// the configuration with every file that a text in it names, and the seed.
///
/// @param kept owned by the caller, ends with ana_kept_run_finish
/// @return STATUS_FORMAT if the configuration is no JSON; STATUS_INVALID if it names the store
///         itself, which changes with every run, or if a living process does this very run; as
///         trace_store_open
status ana_kept_run_open(const ana_kept_options *options, ana_kept_run **kept, error_message *err);

/// What tells the run from others: 16 digits, and for a shard ":index/count" after them.
///
/// @return as ana_kept_run_open
status ana_kept_run_identify(const ana_kept_options *options, char identity[ANA_IDENTITY_BYTES],
                             error_message *err);

/// Whether a store has the run of this identity, and complete. One that is not there has none.
status ana_kept_run_look(const char *store, const char *identity, bool *is_complete,
                         error_message *err);

/// Keeps the result of an item. Each ana_spread_run is a pass, numbered from 0.
///
/// @return STATUS_FORMAT if the run is complete; as trace_run_put_item
status ana_kept_run_put(const ana_kept_run *kept, int pass, int64_t item, const text_buffer *result,
                        error_message *err);

/// Keeps a result of the whole run, as JSON. Nothing is done to a run that is complete.
status ana_kept_run_put_result(ana_kept_run *kept, const char *label, const char *json,
                               error_message *err);

/// Commits what is kept and ends the run, complete or with its failure. NULL is allowed.
///
/// @param outcome NULL or code STATUS_OK: complete
/// @return as trace_run_finish
status ana_kept_run_finish(ana_kept_run *kept, const error_message *outcome, error_message *err);

// Joining the stores of shards into one, which a whole run then finds as if it had done all itself
// (merge.c).

typedef struct ana_merged {
    const char *name; // of the run, carved from the arena
    int shard_count;
    int64_t item_count; // that were copied; 0 if the output was complete before
} ana_merged;

/// Copies all results of a run's shards into a run of the output, which is left for the command of
/// the shards to go on with and to complete.
///
/// The newest shard in the first store says which run it is. A store may hold several of its
/// shards, and other runs. What the output has of the run already is replaced.
///
/// @param output a store; made where there is none, but not unless all shards are complete
/// @param paths  [path_count] stores, >= 1
/// @return STATUS_INVALID naming a store that holds no shard of the run; STATUS_IO naming shards
///         that are missing or not complete; as trace_store_open
status ana_shards_merge(const char *output, const char *const *paths, int path_count, arena *memory,
                        ana_merged *merged, error_message *err);
