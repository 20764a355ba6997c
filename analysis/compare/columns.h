/// The columns of a comparison, each declared once: its key in JSON, its title in the table, where
/// the row keeps it and what it counts.
#pragma once

#include "analysis/compare/compare.h"
#include "base/json.h"

/// Columns that stand together, in both outputs in the order of their declaration.
typedef enum ana_column_group {
    ANA_COLUMNS_RATE,   ///< of rows that have times; its key and title say of what
    ANA_COLUMNS_TIMES,  ///< of rows that have times
    ANA_COLUMNS_BUBBLE, ///< of those, too
    ANA_COLUMNS_EQ1,   ///< of those, too: what Equation 1 of the DynMo paper says of the same loads
    ANA_COLUMNS_LOADS, ///< of every row whose plan fits
    ANA_COLUMNS_GPUS,  ///< of rows that re-pack
    ANA_COLUMN_GROUP_COUNT
} ana_column_group;

/// Writes the group's members of the row's object.
void ana_columns_write(ana_column_group group, const ana_row *row, json_writer *writer);

/// Appends the titles of the group's columns, or the row's cells below them; dashes where the row
/// has no such values (NULL).
void ana_columns_title(ana_column_group group, text_buffer *out);
void ana_columns_print(ana_column_group group, const ana_row *row, text_buffer *out);
