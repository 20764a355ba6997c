/// What an iteration's time is made of: quantities that a run's shape fixes, each times a
/// coefficient that is fitted (README.md has their derivation and sources).
#pragma once

#include "analysis/calibration/run_shape.h"

#include <stdbool.h>

/// Terms whose coefficients are fitted and never negative.
typedef enum ana_term {
    ANA_TERM_LAYER,           ///< layers passed, one microbatch each: launches and what is fixed
    ANA_TERM_PRODUCTS,        ///< TFLOP of the layers' matrix products on one GPU
    ANA_TERM_ATTENTION,       ///< TFLOP of queries times keys, and of scores times values
    ANA_TERM_SCORES,          ///< GB of attention scores read and written
    ANA_TERM_ACTIVATIONS,     ///< GB of activations that tensor parallelism does not divide
    ANA_TERM_DIVIDED,         ///< GB of activations that it divides
    ANA_TERM_TENSOR_MESSAGES, ///< all-reduces between tensor-parallel ranks
    ANA_TERM_TENSOR_STEPS,    ///< steps of their rings
    ANA_TERM_TENSOR_BYTES,    ///< GB over their links
    ANA_TERM_MICROBATCH,      ///< microbatches: launches of embedding, head and loss
    ANA_TERM_HEAD,            ///< TFLOP of the head
    ANA_TERM_LOGITS,          ///< GB of logits
    ANA_TERM_ITERATION,       ///< 1
    ANA_TERM_UPDATE_LAYER,    ///< layers updated: launches of the optimizer
    ANA_TERM_UPDATE,          ///< 1e9 parameters updated by one GPU
    ANA_TERM_REDUCTION,       ///< data parallelism at all: its start
    ANA_TERM_REDUCTION_STEPS, ///< steps of its ring
    ANA_TERM_REDUCTION_BYTES, ///< GB over links inside a node
    ANA_TERM_REDUCTION_NODES, ///< GB over links between nodes
    ANA_TERM_COUNT
} ana_term;

/// Terms that runs without a pipeline say nothing about: a range is assumed, and measured
/// pipelines, where the fit has some, correct it.
typedef enum ana_assumed_term {
    ANA_ASSUMED_FRONT,    ///< the embedding's share of what a microbatch costs besides layers
    ANA_ASSUMED_TRANSFER, ///< ms per GB sent to a stage in the same node
    ANA_ASSUMED_BETWEEN,  ///< ms per GB sent to a stage in another node
    ANA_ASSUMED_COUNT
} ana_assumed_term;

/// Parts of an iteration. What a part costs at one shape may deviate from its terms by a factor
/// that all runs of that shape share.
typedef enum ana_part {
    ANA_PART_LAYERS,    ///< shape: microbatch, hidden size, heads, sequence, tensor degree
    ANA_PART_HEAD,      ///< shape: microbatch, hidden size, vocabulary, sequence, tensor degree
    ANA_PART_UPDATE,    ///< shape: hidden size, tensor degree
    ANA_PART_REDUCTION, ///< shape: hidden size, tensor degree
    ANA_PART_COUNT
} ana_part;

enum { ANA_PART_KEY_FIELDS = 5 };

/// What is known of an assumed term before any pipeline is measured.
typedef struct ana_assumption_range {
    double low;
    double high;
    double mean;
    double deviation; // standard
} ana_assumption_range;

const char *ana_term_name(ana_term term);
const char *ana_term_unit(ana_term term);
ana_part ana_term_part(ana_term term);
/// What the coefficient of a term is on hardware from a V100 over PCIe to a B200 over NVLink.
ana_assumption_range ana_term_range(ana_term term);
const char *ana_assumed_term_name(ana_assumed_term term);
const char *ana_assumed_term_unit(ana_assumed_term term);
ana_assumption_range ana_assumed_term_range(ana_assumed_term term);
const char *ana_part_name(ana_part part);

/// Quantities of all terms for one run.
///
/// @param gpus_per_node ranks are placed tensor first, then data, then pipeline
/// @param fixed   [ANA_TERM_COUNT] out
/// @param assumed [ANA_ASSUMED_COUNT] out; that of ANA_ASSUMED_FRONT counts microbatches, each of
///                which costs the coefficient of ANA_TERM_MICROBATCH
void ana_term_quantities(const ana_run_shape *shape, int gpus_per_node, double *fixed,
                         double *assumed);

/// What runs share when they share a part's deviation.
///
/// @param key [ANA_PART_KEY_FIELDS] out, 0 behind the last
void ana_part_key(ana_part part, const ana_run_shape *shape, int64_t *key);
