/// Model configs and hardware presets that are part of the program, found by name from anywhere.
#pragma once

#include "base/embedded.h"
#include "base/json.h"
#include "base/status.h"

typedef enum model_shipped_kind {
    MODEL_SHIPPED_CONFIG,  ///< models/configs
    MODEL_SHIPPED_HARDWARE ///< models/hardware
} model_shipped_kind;

extern const embedded_file model_shipped_configs[];  // by name
extern const embedded_file model_shipped_hardware[]; // by name

/// Opens a shipped file by its exact name, or a file on disk: any other word is a path. A file that
/// has the name of a shipped one is reached as ./NAME.
///
/// @param changes  other values at some of its places, as json_change takes them; NULL: none
/// @param document release with json_close
/// @return STATUS_IO, naming the shipped ones of this kind, if it is neither; else as json_open and
///         json_change.
status model_shipped_open(model_shipped_kind kind, const char *name_or_path, const char *changes,
                          json_document **document, error_message *err);
