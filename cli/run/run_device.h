/// The devices of `dynmo run`: made on each rank as the command line asks.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "cli/run/run_request.h"
#include "cli/run/run_study.h"
#include "exec/model/training_device.h"
#include "exec/run/execution.h"

/// What they share in a process. Zero-initialise.
typedef struct cli_run_device {
    int layer_count;
    bool learns;
    exec_model model;
    exec_training_text text;
    exec_training_device options; // of devices that learn; points to the two above
} cli_run_device;

/// Reads what the devices need: the model and the text of those that learn.
///
/// @param device must stay where it is; release with cli_run_device_free, also on failure
/// @return what cli_run_model_read and exec_training_text_read refuse
status cli_run_device_init(cli_run_device *device, const cli_run_request *request,
                           const cli_run_study *opened, arena *memory, error_message *err);
void cli_run_device_free(cli_run_device *device);

/// Makes the device of a rank. Borrows device.
exec_device_maker cli_run_device_maker(cli_run_device *device);
