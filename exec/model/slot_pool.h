/// The slots of one layer: as many as it has microbatches in flight at once, made when they are
/// first needed and used again.
#pragma once

#include "base/status.h"
#include "exec/model/layer.h"

/// Filled by exec_slot_pool_init.
typedef struct exec_slot_pool {
    exec_layer *layer; // borrowed
    int microbatch_count;
    int slot_count;    // that have been made
    exec_slot **slots; // [slot_count], room for microbatch_count
    int idle_count;
    int *idle;    // [idle_count] slots that no microbatch has, room for microbatch_count
    int *slot_of; // [microbatch_count] slot of a microbatch, -1: none
} exec_slot_pool;

void exec_slot_pool_init(exec_slot_pool *pool, exec_layer *layer, int microbatch_count);

/// Destroys the slots. Before the layer is destroyed. A pool that is all zero is allowed.
void exec_slot_pool_reset(exec_slot_pool *pool);

/// Gives a microbatch that has none a slot: the one that was given back last, or a new one.
///
/// @param slot out: the microbatch's until exec_slot_pool_give_back
/// @return what exec_slot_create refuses
status exec_slot_pool_take(exec_slot_pool *pool, int microbatch, exec_slot **slot,
                           error_message *err);

/// The slot of a microbatch that has one.
exec_slot *exec_slot_pool_find(const exec_slot_pool *pool, int microbatch);

/// The microbatch's slot is no longer needed.
void exec_slot_pool_give_back(exec_slot_pool *pool, int microbatch);
