"""Has torch.distributed.pipelining load and run schedules that `dynmo export pytorch` wrote.

Usage: run_schedules.py SCHEDULE.csv... [COSTS.json MAKESPAN:SCHEDULE.csv...]

Each schedule is loaded by torch's own reader and played by as many processes as it has rows, over
gloo on this machine, on a chain of small layers: one per stage, none like another. Every
microbatch's loss and every stage's gradients must be those of the same chain in one process.
Schedules after COSTS.json are played with ops that sleep as long as it says, in units of UNIT_S.
Beside the last of them the others must take longer as their predicted makespans say.
Exits 77 where torch is missing or too old.
"""

import json
import os
import subprocess
import sys
import tempfile
import time

WIDTH = 4
ROWS = 3  # of a microbatch
UNIT_S = 0.002


def read_table(path):
    """The cells of every rank, and from them the counts."""
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split(",") for line in file]
    stages = 0
    microbatches = 0
    for row in rows:
        for cell in row:
            for op in cell.replace(")OVERLAP_F_B", "").lstrip("(").split(";"):
                letter = next(place for place, char in enumerate(op) if not char.isdigit())
                stages = max(stages, int(op[:letter]) + 1)
                microbatches = max(microbatches, int(op[letter + 1 :]) + 1)
    return rows, stages, microbatches


def sleeping(torch, forward, backward_input, backward_weight):
    """A layer whose ops sleep so many units: W on the way to the weight, B on that to the input."""

    class Sleep(torch.autograd.Function):
        @staticmethod
        def forward(context, values, before, after):
            context.after = after
            time.sleep(before * UNIT_S)
            return values.clone()

        @staticmethod
        def backward(context, gradient):
            time.sleep(context.after * UNIT_S)
            return gradient, None, None

    class Layer(torch.nn.Linear):
        def forward(self, values):
            weight = Sleep.apply(self.weight, 0, backward_weight)
            values = torch.nn.functional.linear(values, weight, self.bias).tanh()
            return Sleep.apply(values, forward, backward_input)

    return Layer(WIDTH, WIDTH).double()


def chain(torch, stages, costs):
    """The same layers in every process."""
    torch.manual_seed(7)
    kinds = ("forward_ns", "backward_input_ns", "backward_weight_ns")
    return [
        sleeping(torch, *(costs[kind][stage] if costs else 0 for kind in kinds))
        for stage in range(stages)
    ]


def batch(torch, microbatches):
    torch.manual_seed(11)
    size = (microbatches * ROWS, WIDTH)
    return torch.randn(size, dtype=torch.float64), torch.randn(size, dtype=torch.float64)


def loss_of(torch, output, target):
    return torch.nn.functional.mse_loss(output, target)


def alone(torch, stages, microbatches):
    """Losses per microbatch and mean gradients of the chain in this process."""
    layers = chain(torch, stages, None)
    inputs, targets = batch(torch, microbatches)
    losses = []
    for number in range(microbatches):
        part = slice(number * ROWS, (number + 1) * ROWS)
        values = inputs[part]
        for layer in layers:
            values = layer(values)
        loss = loss_of(torch, values, targets[part])
        (loss / microbatches).backward()
        losses.append(loss.item())
    return losses, [[p.grad for p in layer.parameters()] for layer in layers]


def play(torch, path, rank, costs):
    """Seconds of the longest rank, the least of six plays, where there are costs."""
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    rows, stage_count, microbatches = read_table(path)
    group = torch.distributed.new_group(list(range(len(rows))))
    if rank >= len(rows):
        return None
    own = sorted({int(op[: len(op) - len(op.lstrip("0123456789"))]) for cell in rows[rank]
                  for op in cell.replace(")OVERLAP_F_B", "").lstrip("(").split(";")})
    layers = chain(torch, stage_count, costs)
    stages = [
        PipelineStage(layers[stage], stage, stage_count, torch.device("cpu"), group=group)
        for stage in own
    ]
    schedule = _PipelineScheduleRuntime(
        stages, microbatches, loss_fn=lambda output, target: loss_of(torch, output, target)
    )
    schedule._load_csv(path)
    for number, row in enumerate(rows):
        loaded = [str(action) for action in schedule.pipeline_order[number]]
        assert loaded == row, f"{path}: row {number + 1} was loaded as {loaded}"
    inputs, targets = batch(torch, microbatches)
    losses = []
    arguments = [inputs] if 0 in own else []
    named = {"target": targets, "losses": losses} if stage_count - 1 in own else {}
    schedule.step(*arguments, **named)
    wanted_losses, wanted = alone(torch, stage_count, microbatches)
    if stage_count - 1 in own:
        found = [loss.item() for loss in losses]
        torch.testing.assert_close(torch.tensor(found), torch.tensor(wanted_losses))
    for stage in own:
        for parameter, gradient in zip(layers[stage].parameters(), wanted[stage]):
            torch.testing.assert_close(parameter.grad, gradient)
    torch.distributed.barrier(group)
    if rank == 0:
        print(f"{os.path.basename(path)}: {len(rows)} ranks, {stage_count} stages, "
              f"{microbatches} microbatches: losses and gradients as in one process")
    plays = []
    for _ in range(6 if costs else 0):
        torch.distributed.barrier(group)
        begin = time.monotonic()
        schedule.step(*arguments, **named)
        seconds = torch.tensor(time.monotonic() - begin)
        torch.distributed.all_reduce(seconds, torch.distributed.ReduceOp.MAX, group)
        plays.append(seconds.item())
    return min(plays, default=None)


def play_timed(torch, costs_path, schedules, rank):
    """Beside the last schedule, the others must take longer as predicted, to half of the gain."""
    with open(costs_path, encoding="utf-8") as file:
        costs = json.load(file)
    predicted = [int(schedule.partition(":")[0]) for schedule in schedules]
    measured = [play(torch, schedule.partition(":")[2], rank, costs) for schedule in schedules]
    if measured[-1] is None or rank != 0:
        return
    for wanted, found in zip(predicted, measured):
        ratio, wanted_ratio = found / measured[-1], wanted / predicted[-1]
        print(f"predicted {wanted} units, {wanted_ratio:.3f} of the last; "
              f"measured {found / UNIT_S:.0f}, {ratio:.3f}")
        assert abs(ratio - wanted_ratio) <= abs(wanted_ratio - 1) / 2, "not the predicted gain"


def work(rank, size, meeting, paths):
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=size
    )
    timed = len([path for path in paths if ":" not in path]) - 1
    timed = timed if paths[timed].endswith(".json") else len(paths)
    for path in paths[:timed]:
        play(torch, path, rank, None)
    if timed < len(paths):
        play_timed(torch, paths[timed], paths[timed + 1 :], rank)
    if rank == 0:
        print(f"torch {torch.__version__}")
    torch.distributed.destroy_process_group()


def main():
    if os.environ.get("DYNMO_RANK"):
        rank, size, meeting = os.environ["DYNMO_RANK"].split(":", 2)
        work(int(rank), int(size), meeting, sys.argv[1:])
        return 0
    probe = "from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime"
    if subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL).returncode != 0:
        print("skipped: no torch with pipelining schedules that load a CSV")
        return 77
    tables = [path.rpartition(":")[2] for path in sys.argv[1:] if path.endswith(".csv")]
    size = max(len(read_table(path)[0]) for path in tables)
    with tempfile.TemporaryDirectory() as folder:
        meeting = os.path.join(folder, "meeting")
        ranks = [
            subprocess.Popen(
                [sys.executable, *sys.argv],
                env={**os.environ, "DYNMO_RANK": f"{rank}:{size}:{meeting}"},
            )
            for rank in range(size)
        ]
        codes = [rank.wait() for rank in ranks]
    return 1 if any(codes) else 0


if __name__ == "__main__":
    sys.exit(main())
