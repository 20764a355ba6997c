/// The state of a model in training, in a file: what a run goes on from, on any number of ranks.
///
/// Layout, in the byte order and with the alignment of the machine that wrote it: a head (magic,
/// byte order, version, layers, iteration), one entry per layer (bytes, FNV-1a of them), the packed
/// states one after the other, each padded to a multiple of 8, and the FNV-1a of everything
/// before.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

typedef struct exec_checkpoint {
    int iteration;             // that comes next
    int layer_count;           // of the model
    const void *const *layers; // [layer_count] packed states, as a device packs them
    const int64_t *byte_count; // [layer_count] >= 0
} exec_checkpoint;

/// Writes a checkpoint beside its place and renames it, so that a failure leaves the one before.
///
/// @return STATUS_IO naming path and the system's reason
status exec_checkpoint_write(const char *path, const exec_checkpoint *checkpoint,
                             error_message *err);

/// Reads a checkpoint.
///
/// @param memory     of everything in checkpoint
/// @param checkpoint out: untouched on failure
/// @return STATUS_IO; STATUS_FORMAT for a file that is no checkpoint, is cut off, or has other
///         bytes than were written, saying which; STATUS_UNSUPPORTED for another version or byte
///         order
status exec_checkpoint_read(const char *path, arena *memory, exec_checkpoint *checkpoint,
                            error_message *err);

/// The same of bytes in memory.
///
/// @param bytes  [length] aligned for any number; borrowed for as long as checkpoint is used
/// @param name   of the file, for messages
/// @param memory of the arrays of checkpoint
status exec_checkpoint_parse(const void *bytes, size_t length, const char *name, arena *memory,
                             exec_checkpoint *checkpoint, error_message *err);
