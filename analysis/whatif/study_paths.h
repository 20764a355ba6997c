/// The paths of a study's values: what an axis may name.
#pragma once

#include "base/status.h"

/// Every path that ana_study_open reads, those of a balancing row as of a study with one row, and
/// those of a hardware file. Ends at NULL. What stands below `dynamism` and `model` is another
/// reader's.
extern const char *const ana_study_paths[];

/// Whether path names a value of a study, an object around some of them, or something below
/// `dynamism` or `model`.
///
/// @return STATUS_FORMAT naming the nearest path
status ana_study_path_check(const char *path, error_message *err);
