/// The steps of ana_setup_open, a file each. Only for setup*.c.
#pragma once

#include "analysis/study/setup.h"

/// How many replicas the cluster's GPUs make, where the study leaves it to them.
///
/// @return STATUS_INFEASIBLE if there are too few GPUs for what the study asks
status ana_setup_replicas(ana_setup *setup, arena *memory, error_message *err);

/// How many microbatches the global batch makes of each replica.
///
/// @return STATUS_INFEASIBLE if it is not divisible
status ana_setup_batch(ana_setup *setup, arena *memory, error_message *err);

/// Opens the study's hardware, or what stands in for it, with the study's own links and counts in
/// place of the hardware's. Lists nothing.
status ana_setup_open_hardware(ana_setup *setup, arena *memory, error_message *err);

/// The machine of one pipeline, and the inputs that it is made from.
///
/// @return STATUS_INFEASIBLE if what is held for a while alone exceeds the memory of a GPU
status ana_setup_open_machine(ana_setup *setup, arena *memory, error_message *err);

/// Whether the cluster has the GPUs that the run needs, and how many are rented for it.
///
/// @return STATUS_INFEASIBLE if they are too few
status ana_setup_check_cluster(ana_setup *setup, error_message *err);

/// Settles how the rows re-pack, now that the machine is known.
///
/// @return STATUS_INFEASIBLE if a row releases whole nodes and the pipeline does not fill them
status ana_setup_settle_rows(ana_setup *setup, error_message *err);

/// Opens the trace, or the model, as setup->base.
status ana_setup_open_trace(ana_setup *setup, arena *memory, error_message *err);
status ana_setup_open_model(ana_setup *setup, arena *memory, error_message *err);

/// Puts the study's case over the base; without one the sources are the base.
status ana_setup_open_dynamism(ana_setup *setup, arena *memory, error_message *err);
