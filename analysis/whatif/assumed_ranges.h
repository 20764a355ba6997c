/// How far off a number may be that nobody has measured: the ranges that a study's assumed inputs
/// have unless it declares others, and what measures an input.
#pragma once

#include "analysis/study/setup.h"
#include "analysis/whatif/range.h"

#include <stdbool.h>

/// What numbers of a kind are, and how their ranges are spread.
typedef struct ana_assumed_kind {
    ana_distribution distribution;
    bool is_of_hardware; // a property of the kind of GPU, not of the study; its range is a factor
    bool is_integer;
    double min, max; // what the study takes
    const char *unit;
} ana_assumed_kind;

/// A row of the table.
typedef struct ana_assumed_range {
    const char *path;  // in the study
    const char *input; // in the list of inputs, which says where the value comes from
    const ana_assumed_kind *kind;
    double low, high;
    const char *reason;
} ana_assumed_range;

/// The table; ends at a path of NULL.
extern const ana_assumed_range ana_assumed_ranges[];

/// Whether a range holds for what this study says: for what is assumed; of a link's rate also where
/// it is a preset, as a vendor prints what no message reaches.
bool ana_assumed_range_holds(const ana_assumed_range *row, const ana_setup *setup);

/// The value that a study has at the row's path.
double ana_assumed_range_value(const ana_assumed_range *row, const ana_setup *setup);

/// The command, or what else there is to do, that measures what is at path. Never NULL.
const char *ana_measurement_of(const char *path);
