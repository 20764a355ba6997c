/// Who writes: enough about a process to tell later whether it still runs.
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct trace_process {
    char host[256];
    char boot[64];          // identity of the host's boot; "" where the system tells none
    char pid_namespace[64]; // "" where the system tells none
    int64_t pid;
    int64_t start_ticks; // since boot; 0 where the system tells none
} trace_process;

/// The calling process.
void trace_process_self(trace_process *self);

/// True only if the process is known to be gone. See trace_store_open for what cannot be known.
bool trace_process_is_dead(const trace_process *process);
