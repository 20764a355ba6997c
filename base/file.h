/// Whole files in, whole files out.
#pragma once

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

// Inputs. A process notes which regular files it has opened to read, under whatever name; none of
// them can be written by what follows below. Stores that are appended to are no outputs in this
// sense. Safe from several threads.

/// Opens path to read it, and notes it.
///
/// @param stream release with fclose
/// @return STATUS_IO naming path and the system's reason
status file_open(const char *path, FILE **stream, error_message *err);

/// Notes a file that is opened by others; "-" is standard input. A path to nothing is no input.
void file_note_input(const char *path);

/// Reads all of path; "-" is standard input.
///
/// @param bytes owned by the caller, release with free; one zero byte stands after the last
/// @return STATUS_IO naming path and the system's reason; STATUS_INVALID above max_bytes, which for
///         a regular file is told before it is read.
status file_read(const char *path, size_t max_bytes, char **bytes, size_t *length,
                 error_message *err);

/// A file that is being written, beside its place (PATH.partial) until it is whole. A failure, a
/// full disk or a killed process leave the old one; the next write to the same path takes up what a
/// killed process left. The new one has the old one's mode, and stands where a link points. Where
/// path is no regular file (a pipe, /dev/null) it is written in place.
typedef struct file_output file_output;

/// @param output release with file_output_close
/// @return STATUS_INVALID where path is an input; STATUS_IO naming path and the system's reason
status file_output_open(const char *path, file_output **output, error_message *err);

/// Borrowed until close, which also tells whether writing to it failed.
FILE *file_output_stream(file_output *output);

/// Puts the file into its place, or gives it up.
///
/// @return STATUS_IO naming path and the system's reason; nothing is left behind.
status file_output_close(file_output *output, bool is_kept, error_message *err);

/// Writes bytes[length] to path by a file_output; "-" is standard output. bytes may be NULL where
/// length is 0.
///
/// @return as file_output_open and file_output_close
status file_write(const char *path, const char *bytes, size_t length, error_message *err);

/// @return STATUS_INVALID where path, or what stands beside it until it is whole, is an input
status file_check_output(const char *path, error_message *err);

/// Whether two files that are written, which need not be there yet, are one, or one stands where
/// the other is until it is whole.
bool file_outputs_collide(const char *path, const char *other);

/// Whether file_write to path could begin: it is no input, its folder is there and may be written
/// to. For what is written at the end of a long run.
///
/// @return as file_output_open
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
/// @return path itself, or carved from memory
const char *file_path_beside(const char *file, const char *path, arena *memory);
