/// Which ops are not as planned: all, one kind, one rank, some stages, or some layers wherever they
/// are.
#pragma once

#include "analysis/check/check.h"

/// Names the cause among those of ops, with its evidence. At least one op (or, where op times are
/// not recorded, one rank's work) departs.
///
/// The rules, of ops that are long enough to count (planned at least a twentieth of a microbatch's
/// share of the iteration); "one factor": the largest is at most 1 + tolerance times the smallest:
/// - all beyond the tolerance, by one factor: machine or kernels
/// - all of one kind on all stages by one factor, and no others: that kind
/// - all of one rank by one factor, and no others: a straggler; where layers moved, only if the
///   rank is slow under every plan
/// - where layers moved and another rank is slow under each plan, with some layers in common: those
///   layers
/// - else the stages that are beyond it
///
/// @return STATUS_NO_MEMORY
status ana_check_explain_ops(const ana_check *check, ana_check_cause *cause, error_message *err);

/// Adds a line of evidence.
void ana_check_evidence(ana_check_cause *cause, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
