"""The recorder of traces/recorder: the loss counts with the head, forward and backward, and layers
inside pipeline stages have as many microbatches as were trained.
Usage: recorder.py FOLDER_OF_RECORDER"""
import collections
import os
import sys
import tempfile
import time
from unittest import mock

import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, sys.argv[1])
from dynmo_recorder import Recorder, merge  # noqa: E402

WIDTH, ROWS, MICROBATCHES, STEPS = 64, 256, 4, 2


def costly_loss(output, target):
    for _ in range(40):
        output = torch.tanh(output)
    return ((output - target) ** 2).mean()


def layers():
    return [nn.Linear(WIDTH, WIDTH) for _ in range(3)]


def busy_ns(recorder, layer, phase):
    return sum(row[7] for row in recorder.rows if row[2] == layer and row[3] == phase)


def check_loss_of_a_plain_loop():
    recorder, modules = Recorder(), layers()
    model = nn.Sequential(*modules)
    recorder.attach(modules)
    loss_function = recorder.loss(costly_loss)
    for _ in range(STEPS):
        batch = torch.randn(ROWS, WIDTH)
        loss_function(model(batch), batch).backward()
        recorder.step()
    count = collections.Counter(row[2:4] for row in recorder.rows)
    assert count == {
        (0, "F"): 2, (1, "F"): 2, (2, "F"): 2, (2, "BW"): 2, (1, "BW"): 2, (0, "W"): 2,
    }, count
    assert busy_ns(recorder, 2, "F") > 3 * busy_ns(recorder, 1, "F"), recorder.rows
    assert busy_ns(recorder, 2, "BW") > 3 * busy_ns(recorder, 1, "BW"), recorder.rows


def check_layers_in_a_stage():
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="0")
    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    recorder, modules = Recorder(), layers()
    recorder.attach(modules)
    stage = PipelineStage(nn.Sequential(*modules), 0, 1, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, MICROBATCHES, loss_fn=recorder.loss(costly_loss))
    for _ in range(STEPS):
        batch = torch.randn(ROWS, WIDTH)
        schedule.step(batch, target=batch)
        recorder.step()
    for step in range(STEPS):
        for layer, phase in ((0, "F"), (1, "F"), (2, "F"), (2, "BW"), (1, "BW"), (0, "W")):
            rows = [row for row in recorder.rows if row[0] == step]
            seen = [row[1] for row in rows if row[2:4] == (layer, phase)]
            assert sorted(seen) == list(range(MICROBATCHES)), (step, layer, phase, seen)
    dist.destroy_process_group()


class Event:
    def __init__(self, enable_timing):
        self.at = None

    def record(self):
        self.at = time.perf_counter()

    def elapsed_time(self, end):
        return (end.at - self.at) * 1e3


def check_peaks_of_memory(folder):
    """Without a GPU: the statistics are stood in for; peaks are of each recorded step alone."""
    held, paths = [0], []

    def peak():
        return held[0]

    def reset():
        held[0] = 0

    with mock.patch.multiple(torch.cuda, Event=Event, synchronize=lambda: None,
                             max_memory_allocated=peak, max_memory_reserved=lambda: 2 * held[0],
                             reset_peak_memory_stats=reset):
        for rank in range(2):
            recorder, modules = Recorder(rank=rank, device="cuda", every=2), layers()
            recorder.attach(modules, first_layer=3 * rank, layer_count=6)
            for allocated in (5, 900, 7 + rank):  # the second step is not recorded
                batch = torch.randn(ROWS, WIDTH)
                nn.Sequential(*modules)(batch).sum().backward()
                held[0] = max(held[0], allocated)
                recorder.step()
            paths.append(os.path.join(folder, f"rank{rank}.csv"))
            recorder.write(paths[-1])
    merge(paths, os.path.join(folder, "all.csv"))
    with open(os.path.join(folder, "all.csv"), encoding="utf-8") as file:
        peaks = sorted(line.rstrip() for line in file if line.startswith("# peak_"))
    assert peaks == ["# peak_allocated_bytes_rank0=7", "# peak_allocated_bytes_rank1=8",
                     "# peak_reserved_bytes_rank0=14", "# peak_reserved_bytes_rank1=16"], peaks


torch.set_num_threads(1)
torch.manual_seed(0)
check_loss_of_a_plain_loop()
check_layers_in_a_stage()
with tempfile.TemporaryDirectory() as temporary:
    check_peaks_of_memory(temporary)
