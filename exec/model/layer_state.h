/// A layer's state as bytes: how it travels when it migrates and stands in checkpoints. Parameters
/// and moments in fp32, flags, and what the mechanism keeps. Gradients, which are nothing between
/// two iterations, stay behind.
#pragma once

#include "base/status.h"
#include "exec/model/layer.h"

#include <stdint.h>

/// Bytes of the packed state.
int64_t exec_layer_state_bytes(const exec_layer *layer);

/// @param bytes [exec_layer_state_bytes] out
void exec_layer_state_pack(const exec_layer *layer, void *bytes);

/// Fills a layer of the same model. The bits are those of the layer that was packed.
///
/// @return STATUS_FORMAT if the bytes are cut off, or of another layer or model, naming both;
///         nothing has been changed then, unless it was the mechanism that refused its part
status exec_layer_state_unpack(exec_layer *layer, const void *bytes, int64_t byte_count,
                               error_message *err);
