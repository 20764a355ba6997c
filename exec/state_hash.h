/// One number for the state of a model in training: two runs that have the same have learnt the
/// same, bit for bit.
#pragma once

#include "base/status.h"
#include "exec/device.h"
#include "exec/group.h"

#include <stdint.h>

/// FNV-1a (64 bit) over the packed states of all layers (exec_device_table.pack), each hashed by
/// the rank that holds it, and then over these hashes in model order. It does not depend on who
/// holds what. It tells states apart; it is no protection against forgery.
///
/// Collective over the pipeline.
///
/// @param layer_count of the model; every layer is held by one rank of the pipeline
/// @param hash        out: the same on every rank
/// @return what pack and the group return; STATUS_NO_MEMORY
status exec_state_hash(exec_device *device, int layer_count, const exec_group *pipeline,
                       uint64_t *hash, error_message *err);
