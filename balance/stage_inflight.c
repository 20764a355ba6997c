#include "balance/stage_inflight.h"

void bal_stage_inflight_of(const bal_rank_peaks *peaks, bal_placement placement, int64_t *inflight)
{
    for (int rank = 0; rank < peaks->rank_count; rank++) {
        for (int chunk = 0; chunk < peaks->chunk_count; chunk++) {
            int64_t most = 0;
            for (int peak = peaks->first_peak[rank]; peak < peaks->first_peak[rank + 1]; peak++) {
                const int64_t held = bal_rank_peak(peaks, peak)[chunk];
                if (held > most) most = held;
            }
            inflight[bal_stage_of(placement, peaks->rank_count, peaks->chunk_count, rank, chunk)] =
                most;
        }
    }
}
