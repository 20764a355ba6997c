/// What a probe measures, what follows from it, and how that is told: as a hardware file, for
/// people, as JSON.
#pragma once

#include "base/arena.h"
#include "base/status.h"
#include "base/text.h"
#include "exec/probe/probe.h"
#include "models/cost/config.h"
#include "models/cost/hardware.h"

#include <stdbool.h>
#include <stdint.h>

/// What is to be measured of a device: square products for the peak, the model's products,
/// attention, streams through memory.
typedef struct cli_probe_list {
    exec_measurement *rows; // [count] carved from memory
    int count;
} cli_probe_list;

/// Products are those of F, B and W of one transformer layer and the head over `tokens` rows, each
/// as often as the model has it. With experts, one expert's, with as many rows as balanced routing
/// gives it. FLOP of attention are the cost model's, which divides by what is measured here.
///
/// @param stream_bytes of the array that is copied
/// @param sides        [side_count] of the squares
/// @return STATUS_INVALID for sides that do not fit 31 bits
status cli_probe_list_of(const model_config *config, int tokens, model_dtype dtype,
                         int64_t stream_bytes, int value_bytes, const int *sides, int side_count,
                         arena *memory, cli_probe_list *list, error_message *err);

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

    cli_probe_list device_list;
    exec_probe_links links; // count 0: not measured
    int64_t memory_bytes;
    const char *memory_text; // how that was found
    int rank_capacity;       // ranks of one node
} cli_probe_report;

/// Where the values of the file come from.
typedef enum cli_probe_source {
    CLI_PROBE_FLOP_PER_S,
    CLI_PROBE_EFFICIENCY,
    CLI_PROBE_MEMORY,
    CLI_PROBE_LINKS,
    CLI_PROBE_LATENCY,
    CLI_PROBE_SOURCES
} cli_probe_source;

enum { CLI_PROBE_TEXT = 512 };

/// What goes into the file beside what the report says.
typedef struct cli_probe_result {
    double peak;                     // FLOP/s
    double gemm, attention, streams; // shares of it, and of bytes_per_s: at most 1
    double bytes_per_s;
    bal_link intra, inter;
    bool is_measured[CLI_PROBE_SOURCES];
    char source[CLI_PROBE_SOURCES][CLI_PROBE_TEXT];
} cli_probe_result;

/// Derives it.
///
/// @return what exec_probe_line_fit returns; STATUS_INVALID where neither kind of link was measured
///         nor is there a preset, or the preset says nothing of the dtype
status cli_probe_result_of(const cli_probe_report *report, arena *memory, cli_probe_result *result,
                           error_message *err);

/// Appends the hardware file ("dynmo-hardware/1"), one line; the page for people; or one JSON
/// object ("dynmo-probe/1") with every measurement and the file.
void cli_probe_write_hardware(const cli_probe_report *report, const cli_probe_result *result,
                              text_buffer *out);
void cli_probe_print(const cli_probe_report *report, const cli_probe_result *result,
                     text_buffer *out);
void cli_probe_write(const cli_probe_report *report, const cli_probe_result *result,
                     text_buffer *out);
