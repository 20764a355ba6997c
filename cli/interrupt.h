/// Ctrl-C during a run: every rank ends by itself, and what was recorded stays.
#pragma once

#include <stdatomic.h>

/// From now on SIGINT and SIGTERM set the flag instead of ending the process. A second one ends it.
///
/// @return the flag; static storage
atomic_bool *cli_interrupt_catch(void);

/// The signal that came, or 0.
int cli_interrupt_signal(void);
