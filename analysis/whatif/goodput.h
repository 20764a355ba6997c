/// When a training is done on GPUs that fail: checkpoints, restarts, and the time that is lost.
///
/// The model (J. T. Daly, Future Generation Computer Systems 22 (2006)): failures come at a
/// constant rate, gpu_count / mtbf of one GPU. After every interval of work a checkpoint is
/// written, for checkpoint_s. A failure loses all that was done since the last checkpoint; then a
/// restart takes restart_s, and begins anew if another failure comes meanwhile. Any failed GPU
/// stops all: there are no spares to go on with, and none to wait for (waiting belongs to
/// restart_s).
#pragma once

typedef struct ana_failures {
    double mtbf_hours;   // of one GPU, > 0; 0: nothing is said of failures
    double checkpoint_s; // >= 0: all stand still while it is written
    double restart_s;    // >= 0: from a failure to the next useful iteration
    double interval_s;   // of work between checkpoints, > 0; 0: ana_checkpoint_interval_s
} ana_failures;

/// Mean time between failures of all GPUs together, s.
double ana_failures_mtbf_s(const ana_failures *failures, double gpu_count);

/// The interval of work between checkpoints that makes the expected time least.
///
/// With d the checkpoint and M the mean time between failures:
/// sqrt(2 d M) (1 + sqrt(d / 2M) / 3 + d / 18M) - d for d < 2 M, else M.
/// Source: Daly 2006, equation 37; the first factor alone is Young, CACM 17 (1974).
double ana_checkpoint_interval_s(const ana_failures *failures, double gpu_count);

/// The expected time to finish work of so many seconds without failures and checkpoints, exact for
/// the model above (Daly 2006, equation 20, the last part shorter). INFINITY if an interval and its
/// checkpoint take more than 50 times the mean time between failures: none would ever be finished.
///
/// @param work_s    > 0
/// @param gpu_count > 0; a mean, where ranks are released
double ana_delivery_s(const ana_failures *failures, double work_s, double gpu_count);
