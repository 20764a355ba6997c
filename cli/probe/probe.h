/// What a probe measures, what it has found, and how that is told: as a hardware file, for people,
/// as JSON.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "exec/probe/probe_compute.h"
#include "exec/probe/probe_link.h"
#include "models/cost/config.h"
#include "models/cost/hardware.h"

#include <stdbool.h>
#include <stdint.h>

/// The products of matrices that training a model is made of.
typedef struct cli_probe_shapes {
    exec_probe_product *products; // [count] carved from memory
    int *repeats;                 // [count] how often the model has each, in one microbatch
    int count;
    exec_probe_attention attention;
    int64_t value_count; // activations inside the MLP of a layer
} cli_probe_shapes;

/// Products of one transformer layer and of the head over `tokens` rows, each as F, B and W have
/// it. With experts, one expert's, with as many rows as balanced routing gives it.
///
/// @return STATUS_INVALID for sides that do not fit 31 bits
status cli_probe_shapes_of(const model_config *config, int tokens, arena *memory,
                           cli_probe_shapes *shapes, error_message *err);

/// Measurements, and what is not measured but taken from elsewhere. Everything is borrowed.
typedef struct cli_probe_report {
    const char *name; // of the hardware
    const char *device;
    const char *backend;   // "cpu", "cuda bf16"
    const char *transport; // NULL: links were not measured
    const char *command;   // the whole command line
    const char *model;
    int tokens;
    model_dtype dtype;
    const model_hardware *preset; // of --hardware, or NULL
    bool uses_preset_peak;        // the peak is the preset's; else the fastest product's

    cli_probe_shapes shapes;
    const exec_probe_product *large; // [large_count] square products, for the peak
    int large_count;
    int64_t attention_flop[2]; // of F and B, as the cost model counts them
    exec_probe_memory memory;
    int64_t memory_bytes;
    const char *memory_text; // how that was found
    int rank_capacity;       // ranks of one node
    exec_probe_links links;  // trip_count 0: not measured
} cli_probe_report;

/// What goes into the file.
typedef struct cli_probe_result {
    double peak_flop_per_s;
    double gemm_efficiency; // shares are at most 1
    double attention_efficiency;
    double memory_efficiency;
    int64_t memory_bytes_per_s;
    bool has_intra, has_inter; // lines that were measured; else they are the preset's, or alike
    exec_probe_line intra;
    exec_probe_line inter;
} cli_probe_result;

/// Derives it.
///
/// @return what exec_probe_line_fit returns; STATUS_INVALID where neither kind of link was measured
///         nor is there a preset, or the preset says nothing of the dtype
status cli_probe_result_of(const cli_probe_report *report, arena *memory, cli_probe_result *result,
                           error_message *err);

/// Appends the hardware file ("dynmo-hardware/1"), one line.
void cli_probe_write_hardware(const cli_probe_report *report, const cli_probe_result *result,
                              text_buffer *out);

/// Appends the page for people, or one JSON object ("dynmo-probe/1") with every measurement.
void cli_probe_print(const cli_probe_report *report, const cli_probe_result *result,
                     text_buffer *out);
void cli_probe_write(const cli_probe_report *report, const cli_probe_result *result,
                     text_buffer *out);
