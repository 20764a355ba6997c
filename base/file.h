/// Whole files in, whole files out.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

/// Reads all of path; "-" is standard input.
///
/// @param bytes owned by the caller, release with free; one zero byte stands behind the last
/// @return STATUS_IO naming path and the system's reason; STATUS_INVALID above max_bytes.
status file_read(const char *path, size_t max_bytes, char **bytes, size_t *length,
                 error_message *err);

/// Writes bytes[length] to path; "-" is standard output. A regular file is written beside its
/// place and renamed, so that a failure (a full disk, a killed process) leaves the old one.
///
/// @return STATUS_IO naming path and the system's reason; nothing is left behind.
status file_write(const char *path, const char *bytes, size_t length, error_message *err);

/// Whether file_write to path could begin: its folder is there and may be written to. For what is
/// written at the end of a long run.
///
/// @return STATUS_IO naming path and the system's reason
status file_check_writable(const char *path, error_message *err);

/// FNV-1a over bytes[length], continuing from hash; start with FILE_HASH_START. It tells inputs
/// apart in the record of a run; it is no protection against forgery.
uint64_t file_hash(uint64_t hash, const void *bytes, size_t length);
#define FILE_HASH_START UINT64_C(0xcbf29ce484222325)

/// Size and FNV-1a of the content of path.
status file_hash_path(const char *path, int64_t *bytes, uint64_t *hash, error_message *err);

/// A path that a file names: one that is not absolute is meant from that file's folder.
///
/// @param file the file that names it; "-" or NULL: from the working directory
/// @return path itself, or carved from memory; NULL if out of memory
const char *file_path_beside(const char *file, const char *path, arena *memory);
