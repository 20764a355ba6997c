/// Messages between the processes over which work is spread. analysis/spread/spread.c has them over
/// MPI, in a loadable module; tests have them between threads.
#pragma once

#include "analysis/spread/spread.h"
#include "base/status.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

/// Calls come from one thread. Messages from one rank to another come in the order in which they
/// were posted, unless they are lost with one of the two.
struct ana_carrier {
    int rank;
    int rank_count;
    int core_count; // that fall to this rank where several share a machine

    /// Sends without waiting; the bytes are copied. Other ranks than its own.
    status (*post)(struct ana_carrier *carrier, int to, const void *bytes, int64_t byte_count,
                   error_message *err);
    /// Takes a message that has come; *is_there false and bytes unchanged if none has.
    status (*take)(struct ana_carrier *carrier, int *from, text_buffer *bytes, bool *is_there,
                   error_message *err);
    /// Whether the process of this rank is known to be gone. False where it cannot be seen.
    bool (*is_gone)(struct ana_carrier *carrier, int rank);
    /// Ends the process of a rank that hangs, where it can be reached: a launcher waits for it.
    void (*end)(struct ana_carrier *carrier, int rank);
    /// Releases the carrier. @param is_whole all ranks are there and close too
    void (*close)(struct ana_carrier *carrier, bool is_whole);
};

/// What dynmo_spread.so hands over as its table (base/module.h).
typedef struct ana_carrier_module {
    /// Opens what the launcher has prepared. Collective, once in a process.
    status (*open)(ana_carrier **carrier, error_message *err);
} ana_carrier_module;
