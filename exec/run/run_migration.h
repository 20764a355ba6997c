/// Layers on their way: the state of a layer goes from rank to rank in real messages, in the order
/// that keeps every rank within its memory.
///
/// Sender and receiver of a layer meet: the receiver says that it has room and when it is free, the
/// sender begins when both are, and both are free again when the transfer has ended. So the clocks
/// of the ranks go through the very sums of bal_migration_finish_ns, without anybody having them
/// all.
#pragma once

#include "balance/migration/migration.h"
#include "base/arena.h"
#include "base/status.h"
#include "exec/device.h"
#include "exec/run/run_ranks.h"
#include "exec/transport/parcel.h"

#include <stdbool.h>
#include <stdint.h>

/// One sending of a layer, as all ranks know it. Ranks are those of the machine.
typedef struct exec_migration_leg {
    int layer;
    int from;
    int to;
    int64_t transfer_ns; // by the link; 0 where it takes what it takes
} exec_migration_leg;

typedef struct exec_run_migration {
    const exec_migration_leg *legs; // [leg_count] in their order
    int leg_count;
    const int64_t *release_ns; // [ranks of the machine] when each takes part at the earliest
    bool paces;                // transfers really last their time; else only the clocks go on
    int64_t time_scale_ppb;    // by which they are then stretched
} exec_run_migration;

/// In front of the packed state of a layer in its parcel.
typedef struct exec_layer_head {
    int64_t end_ns; // of the transfer
    int64_t byte_count;
} exec_layer_head;

/// What a rank has got. Zero-initialise; release with exec_migrated_free.
typedef struct exec_migrated {
    exec_parcel *layers; // [layer_count] packed state of the layers that have come
    int layer_count;     // of the model
    int64_t free_ns;     // this rank's clock behind its last leg; 0 if it had none
    int64_t bytes;       // that it has received
} exec_migrated;

/// Sends and receives what this rank has a part in. Collective over the world's ranks that the legs
/// name; every replica for itself.
///
/// @param device   holds the layers that are sent, and goes on holding them
/// @param migrated out: arrays are carved from memory
/// @return what device and transport return; STATUS_NO_MEMORY
status exec_run_migrate(const exec_run_ranks *ranks, const exec_run_migration *migration,
                        exec_device *device, int layer_count, arena *memory,
                        exec_migrated *migrated, error_message *err);

/// Gives the device what has come, when it holds the new plan.
status exec_migrated_unpack(exec_migrated *migrated, exec_device *device, error_message *err);

void exec_migrated_free(exec_migrated *migrated);

/// Packs a layer of the device into a parcel, behind what is in it.
status exec_parcel_pack(exec_parcel *parcel, exec_device *device, int layer, error_message *err);
