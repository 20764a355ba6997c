/// The paper's figures, drawn with the simulated numbers.
#pragma once

#include "analysis/paper/reproduction.h"
#include "base/status.h"

/// Sees that figures can be drawn before anything is played: gnuplot is there, and folder is a
/// folder or can be made (it then is).
///
/// @return STATUS_UNSUPPORTED without gnuplot; STATUS_IO
status ana_figures_check(const char *folder, error_message *err);

/// Draws every figure that the rows have something of and writes it to folder/<name>.svg:
/// figure-1 (idle share), figure-3 (speed-up), figure-4 (overhead), figure-5 (re-packing),
/// figure-7 (weak scaling), figure-8 (network delay), table-1. A bar whose height the paper's text
/// does not give is drawn without its published neighbour and marked so.
///
/// @return as ana_plot; STATUS_IO. Nothing is written unless all can be drawn.
status ana_figures_write(const ana_reproduction *reproduction, const char *folder,
                         error_message *err);
