/// One table for a paper: the bound of averaging as printed, as repaired and as measured, and what
/// an exhaustive search makes of each claim, with the smallest counterexample.
#pragma once

#include "analysis/converge/converge_sweep.h"
#include "base/text.h"

/// Plays max-neighbor (from all load on half of the nodes to phi <= S/N) on path, ring, star,
/// complete and dynamic graphs, tries every claim, and appends the table.
///
/// @param question nodes, instances, delta, seed and interrupt; the rest is the table's own
/// @param is_csv   RFC 4180, with a header; else a longtable of LaTeX
/// @return as ana_graph_make, ana_sweep_play and ana_claim_try
status ana_paper_append(const ana_sweep *question, ana_spread *spread, bool is_csv, arena *memory,
                        text_buffer *out, error_message *err);
