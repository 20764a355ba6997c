/// The numbers that the DynMo paper publishes, each with the place where it stands: what
/// `dynmo reproduce` prints beside its own.
///
/// Source: Wahib, Soyturk, Unat, "Balanced and Elastic End-to-end Training of Dynamic LLMs", SC'25,
/// doi 10.1145/3712285.3759775, arXiv 2505.14864. Heights of bars in its figures are not numbers in
/// its text and are not here.
#pragma once

typedef struct ana_published {
    const char *experiment; // as `dynmo reproduce` names it
    const char *quantity;   // unique within the experiment
    double value;           // speed-ups as factors, shares as fractions
    const char *place;      // section, table or figure
} ana_published;

/// All of them but Table 1, by experiment.
const ana_published *ana_published_numbers(int *count);

/// The number of an experiment and a quantity; NULL: the paper gives none.
const ana_published *ana_published_find(const char *experiment, const char *quantity);

enum { ANA_TABLE1_ROWS = 15, ANA_TABLE1_METHODS = 3 };

/// The columns of Table 1.
typedef enum ana_table1_method {
    ANA_TABLE1_MEGATRON,
    ANA_TABLE1_DIFFUSION, ///< by time
    ANA_TABLE1_PARTITION, ///< by time
} ana_table1_method;

/// A row of Table 1: samples per second of one pipeline, sparse attention, balancing only.
typedef struct ana_table1_row {
    int layer_count;
    int gpu_count;
    double samples_per_s[ANA_TABLE1_METHODS]; // 0: out of memory
    double speed_up;                          // as printed; 0: out of memory
} ana_table1_row;

/// [ANA_TABLE1_ROWS], by layers, then GPUs. Static storage.
const ana_table1_row *ana_table1(void);
