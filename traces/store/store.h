/// The file that everything recorded goes into: one SQLite file for traces, plans and runs.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdint.h>

/// An open store. Not for several threads at once; over MPI only one rank opens it.
typedef struct trace_store trace_store;

typedef enum trace_mode {
    TRACE_READ,  ///< the file must exist; nothing in it is changed, but see trace_store_open
    TRACE_WRITE, ///< the file is made where it does not exist
} trace_mode;

/// Where a trace or a run stands. Only a complete trace is ever taken for data by its name.
typedef enum trace_status {
    TRACE_RUNNING,     ///< somebody is writing it
    TRACE_COMPLETE,    ///< its writer said that it is
    TRACE_FAILED,      ///< runs only: it ended with an error, which stands beside it
    TRACE_INTERRUPTED, ///< its writer is gone without saying anything
    TRACE_STATUS_COUNT
} trace_status;

/// The words for it, as the store holds them: "running", "complete", ...
extern const char *const trace_status_names[TRACE_STATUS_COUNT];

/// Opens a store; to be read, also one compressed by gzip, of at most 1 GiB, which is then held in
/// memory.
///
/// Under TRACE_WRITE, traces and runs that are marked
/// running although their writer is dead become interrupted; under TRACE_READ they are reported so.
/// A writer is known by host name, boot, PID namespace, process id and process start: it counts as
/// dead if it was on this host and its process is gone or the host has been booted since. One on
/// another host, or in another container, cannot be seen from here and stays running. Two hosts of
/// the same name that share a store would each take the other's writers for dead.
///
/// Many readers and one writer at a time work together. Writers commit by themselves: after 4096
/// rows (32,768 loads and ops), at the first row a second after the batch began, and at a row that
/// comes 0.1 s or more after the one before; until then other writers wait. The journal is a
/// write-ahead log; where that cannot work (NFS, Lustre, GPFS and others, or where SQLite says so)
/// a rollback journal.
///
/// @param store owned by the caller, release with trace_store_close
/// @return STATUS_IO naming path and reason: missing, not permitted, locked for 60 s, disk full;
///         STATUS_FORMAT: not SQLite, not a store of dynmo, corrupt; STATUS_UNSUPPORTED naming
///         both versions: made by a newer or an older dynmo; STATUS_NO_MEMORY.
///
/// A store is somebody else's file: one whose schema is not, text by text, that of its version is
/// STATUS_FORMAT (so are views and triggers), and whatever reads rows returns STATUS_FORMAT where a
/// column holds what it cannot (columns.c). Names are paths, never URIs.
status trace_store_open(const char *path, trace_mode mode, trace_store **store, error_message *err);

/// The same of a store that closes with memory.
status trace_store_open_within(const char *path, trace_mode mode, arena *memory,
                               trace_store **store, error_message *err);

/// Opens a store without a file, which lives until it is closed.
status trace_store_open_memory(trace_store **store, error_message *err);

/// Closes a store; NULL is allowed. Readers, writers and runs of it have ended before (asserted). A
/// trace that could not be deleted when it was aborted is interrupted. A file that this open made
/// and that holds neither trace nor run is removed again, so that a failed import leaves none.
void trace_store_close(trace_store *store);

/// The path as given to open. Borrowed until close.
const char *trace_store_path(const trace_store *store);

/// An input of a trace or a run, by which it can be recognised.
typedef struct trace_input_file {
    const char *path;
    int64_t bytes;
    uint64_t hash; // of its bytes as they are on disk, by which readings of it are told apart
} trace_input_file;
