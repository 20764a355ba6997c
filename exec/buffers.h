/// Memory of one rank that layers take for as long as they need it and give back: what F keeps for
/// B, what B keeps for W, scratch.
///
/// Regions that were given back are taken again by whoever needs about as much, so after the first
/// iterations nothing is asked of the device. Operations of a rank run in order: a region may be
/// given back as soon as the last operation on it is enqueued.
#pragma once

#include "exec/kernels/kernels.h"

#include <stddef.h>
#include <stdint.h>

typedef struct exec_buffers exec_buffers;

/// @param kernels borrowed until exec_buffers_destroy
/// @return owned by the caller: release with exec_buffers_destroy
exec_buffers *exec_buffers_create(exec_kernels *kernels);

/// Releases every region, also those that are still taken, as after an op that failed. NULL is
/// allowed.
void exec_buffers_destroy(exec_buffers *buffers);

exec_kernels *exec_buffers_kernels(const exec_buffers *buffers);

/// Takes a region. Its content is whatever was left in it.
///
/// @return NULL where the device has no memory: the kernels tell
void *exec_buffers_take(exec_buffers *buffers, size_t bytes);

/// NULL is allowed.
void exec_buffers_give(exec_buffers *buffers, void *region);

/// Returns regions that nobody holds to the device.
void exec_buffers_trim(exec_buffers *buffers);

/// Bytes asked for of the regions that are taken now.
int64_t exec_buffers_taken_bytes(const exec_buffers *buffers);

/// Regions with one lifetime, given back together. All zero: none.
typedef struct exec_holding {
    void *region[12];
    int region_count;
    int64_t bytes; // asked for
} exec_holding;

/// Takes a region for the holding.
void *exec_holding_take(exec_holding *holding, exec_buffers *buffers, size_t bytes);

/// Gives all regions back; the holding is empty then.
void exec_holding_give(exec_holding *holding, exec_buffers *buffers);
