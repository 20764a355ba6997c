/// The experiments, one file each (or two that are alike together); reproduction.c has the table.
#pragma once

#include "analysis/paper/reproduction_rows.h"

/// Notes of rows that several experiments have.
#define ANA_NOTE_REPLICAS                                                                          \
    "Stages that the head makes idle are released, and become further replicas with the same "     \
    "batch: the model fits fewer GPUs, down to one. The bound: all GPUs compute all the time."
#define ANA_NOTE_BODY "A vocabulary of one word: what is left when the head is no load."

status ana_play_moe(ana_rows *rows, error_message *err);
status ana_play_mod(ana_rows *rows, error_message *err);
status ana_play_pruning(ana_rows *rows, error_message *err);
status ana_play_freezing(ana_rows *rows, error_message *err);
status ana_play_sparse_attention(ana_rows *rows, error_message *err);
status ana_play_early_exit(ana_rows *rows, error_message *err);
status ana_play_repack(ana_rows *rows, error_message *err);
status ana_play_weak_scaling(ana_rows *rows, error_message *err);
status ana_play_network_delay(ana_rows *rows, error_message *err);
status ana_play_overhead(ana_rows *rows, error_message *err);
status ana_play_table1(ana_rows *rows, error_message *err);
