/// The study that a diagnosis is made of, written from what the command line says.
#pragma once

#include "analysis/diagnosis/counts_folder.h"
#include "base/status.h"
#include "base/text.h"

#include <stdint.h>

/// Where the run is and what it is split into. Zero-initialise, then fill by name; strings are
/// borrowed for the call.
typedef struct ana_diagnosis_request {
    const char *name;       // of the run
    const char *store_path; // of a trace, or NULL: counts over a model
    const char *trace_name; // in the store; NULL: the only or the newest
    int first_iteration;    // -1: the trace's first

    const ana_counted_run *counts; // NULL: a trace
    const char *model;             // with counts
    int64_t sequence_length;       // with counts; 0: the model's

    const char *hardware; // NULL: none is named
    const char *schedule;
    int stage_count;
    int microbatch_count; // 0: the trace's own
    int64_t decision_ns;
} ana_diagnosis_request;

/// Appends the study, on one line.
///
/// @return STATUS_NO_MEMORY
status ana_diagnosis_study(const ana_diagnosis_request *request, text_buffer *out);
