/// The steps of ana_setup_open, a file each. Only for setup*.c.
#pragma once

#include "analysis/setup.h"

/// Opens the study's hardware, or what stands in for it, with the study's own links and counts in
/// place of the hardware's. Lists nothing.
status ana_setup_open_hardware(ana_setup *setup, arena *memory, error_message *err);

/// The machine of one pipeline, and the inputs that it is made from.
///
/// @return STATUS_INFEASIBLE if the cluster has too few GPUs, or a row releases whole nodes and the
///         pipeline does not fill them
status ana_setup_open_machine(ana_setup *setup, arena *memory, error_message *err);

/// Opens the trace, or the model, as setup->base.
status ana_setup_open_trace(ana_setup *setup, arena *memory, error_message *err);
status ana_setup_open_model(ana_setup *setup, arena *memory, error_message *err);

/// Puts the study's case over the base; without one the sources are the base.
status ana_setup_open_dynamism(ana_setup *setup, arena *memory, error_message *err);
