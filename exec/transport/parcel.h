/// Numbers and arrays in one run of bytes, as one rank hands them to another of the same build.
#pragma once

#include "base/status.h"
#include "exec/transport/group.h"
#include "exec/transport/transport.h"

#include <stdint.h>

/// What is put in comes out in the same order. Zero-initialise; release with exec_parcel_free.
typedef struct exec_parcel {
    unsigned char *bytes; // [byte_count], every item padded to a multiple of 8
    int64_t byte_count;
    int64_t capacity_bytes;
    int64_t taken_bytes; // how far it has been read
} exec_parcel;

void exec_parcel_free(exec_parcel *parcel);

/// Empties a parcel; keeps its memory.
void exec_parcel_reset(exec_parcel *parcel);

/// Puts bytes after those that are in.
void exec_parcel_put(exec_parcel *parcel, const void *bytes, int64_t byte_count);

/// Makes room for so many bytes, which the caller fills before anything else is put in.
///
/// @return aligned for any number
void *exec_parcel_room(exec_parcel *parcel, int64_t byte_count);

/// Takes the next bytes out, as many as were put in at once.
///
/// @return borrowed until the parcel is filled anew; aligned for any number
const void *exec_parcel_take(exec_parcel *parcel, int64_t byte_count);

/// A parcel over bytes that are in memory already; it is only read, and not freed.
exec_parcel exec_parcel_of(void *bytes, int64_t byte_count);

/// Gives every rank of the group the parcel of its root. Collective.
status exec_parcel_share(const exec_group *group, exec_parcel *parcel, error_message *err);

/// Sends a parcel to one rank, and receives it there.
///
/// @param kind     of the messages; their stage is 0
/// @param sequence number of the parcel
status exec_parcel_send(exec_endpoint *endpoint, int to, exec_message_kind kind, int sequence,
                        const exec_parcel *parcel, error_message *err);
status exec_parcel_receive(exec_endpoint *endpoint, int from, exec_message_kind kind, int sequence,
                           exec_parcel *parcel, error_message *err);
