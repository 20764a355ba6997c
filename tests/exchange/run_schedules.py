"""Has torch.distributed.pipelining load and run schedules that `dynmo export pytorch` wrote.

Usage: run_schedules.py SCHEDULE.csv...

Each schedule is loaded by torch's own reader and played by as many processes as it has rows, over
gloo on this machine, on a chain of small layers: one per stage, none like another. Every
microbatch's loss and every stage's gradients must be those of the same chain in one process.
Exits 77 where torch is missing or too old.
"""

import os
import subprocess
import sys
import tempfile

WIDTH = 4
ROWS = 3  # of a microbatch


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


def chain(torch, stages):
    """The same layers in every process."""
    torch.manual_seed(7)
    return [
        torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()).double()
        for _ in range(stages)
    ]


def batch(torch, microbatches):
    torch.manual_seed(11)
    size = (microbatches * ROWS, WIDTH)
    return torch.randn(size, dtype=torch.float64), torch.randn(size, dtype=torch.float64)


def loss_of(torch, output, target):
    return torch.nn.functional.mse_loss(output, target)


def alone(torch, stages, microbatches):
    """Losses per microbatch and mean gradients of the chain in this process."""
    layers = chain(torch, stages)
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


def play(torch, path, rank):
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime

    rows, stage_count, microbatches = read_table(path)
    group = torch.distributed.new_group(list(range(len(rows))))
    if rank >= len(rows):
        return
    own = sorted({int(op[: len(op) - len(op.lstrip("0123456789"))]) for cell in rows[rank]
                  for op in cell.replace(")OVERLAP_F_B", "").lstrip("(").split(";")})
    layers = chain(torch, stage_count)
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
    schedule.step(
        *([inputs] if 0 in own else []),
        **({"target": targets, "losses": losses} if stage_count - 1 in own else {}),
    )
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


def work(rank, size, meeting, paths):
    import torch

    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{meeting}", rank=rank, world_size=size
    )
    for path in paths:
        play(torch, path, rank)
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
    size = max(len(read_table(path)[0]) for path in sys.argv[1:])
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
