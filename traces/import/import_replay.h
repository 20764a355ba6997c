/// Charges what was idle in front of ops, and plays what was recorded again.
#pragma once

#include "traces/import/import_kineto.h"

/// An op is charged for the time in front of it in which its rank stood still and that no other
/// rank explains: the result that it needs was there already. Then fills import->replay.
///
/// @param windows [op_count] of import->ops, in the recordings
/// Time O(op_count log op_count).
void trace_import_replay(trace_import *import, trace_window **windows);
