"""What the tests of measured gains share: a run of the even split is recorded, dynmo plans from
what was recorded and exports the split, and steps of both are timed one after the other. The gain
must be the predicted one, to half of it; steps are repeated while noise leaves that undecided, and
the test is skipped where it stays so.

Ops sleep in place of computing, so that ranks that share a core do not slow each other down.
"""

import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    print("skipped: no torch")
    sys.exit(77)

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "traces", "recorder"))
from dynmo_recorder import Recorder, merge  # noqa: E402

WIDTH = 4
UNITS = [1, 1, 1, 1, 1, 1, 3, 3]  # of a layer's forward; its backward takes twice as long
UNIT_S = 0.005
RANKS = 2
MICROBATCHES = 8
RECORDED = 4  # steps
PAIRS = 5  # steps of either split, one after the other
ROUNDS = 6  # of pairs, while noise leaves it undecided


class Sleep(torch.autograd.Function):
    @staticmethod
    def forward(context, values, units):
        context.units = units
        time.sleep(units * UNIT_S)
        return values.clone()

    @staticmethod
    def backward(context, gradient):
        time.sleep(2 * context.units * UNIT_S)
        return gradient, None


class Layer(torch.nn.Linear):
    def __init__(self, number):
        super().__init__(WIDTH, WIDTH)
        self.units = UNITS[number]

    def forward(self, values):
        return Sleep.apply(super().forward(values), self.units)


def dynmo(*words):
    done = subprocess.run([os.environ["DYNMO"], *words], capture_output=True, text=True)
    assert done.returncode == 0, f"{words}: {done.stderr}"
    return done.stdout


def write_even(layer_count, has_ends):
    plan = {"schema": "dynmo-plan/1", "first_layer": [0, layer_count // 2, layer_count],
            "chunks": 1, "placement": "interleaved", "schedule": "1f1b",
            "microbatches": MICROBATCHES, "stage_ranks": [0, 1], "data_parallel": 1,
            "embedding": has_ends, "head": has_ends}
    with open("even.json", "w", encoding="utf-8") as file:
        json.dump(plan, file)
    dynmo("export", "pytorch", "even.json", "-o", "schedule.csv")  # torchtitan's, for both


def exported(framework, name):
    """What the Python that dynmo writes of a plan defines."""
    names = {}
    exec(dynmo("export", framework, f"{name}.json"), names)
    return names


def record(rank, layers, first_layer, layer_count, step, has_ends):
    ends = {"embedding": 1, "head": 1} if has_ends else {}
    recorder = Recorder(rank=rank, **ends)
    recorder.attach(layers, first_layer=first_layer, layer_count=layer_count)
    for _ in range(RECORDED):
        step()
        recorder.step()
    recorder.write(f"rank{rank}.csv")


def plan():
    """Merges what ranks recorded, plans from it, and predicts even over planned time."""
    merge([f"rank{rank}.csv" for rank in range(RANKS)], "run.csv")
    dynmo("import", "csv", "run.csv", "--gaps", "charge", "-o", "run.db")
    dynmo("plan", "--trace", "run.db", "--stages", str(RANKS), "--balancer", "partition",
          "--schedule", "1f1b", "--microbatches", str(MICROBATCHES), "-o", "planned.json")
    with open("planned.json", encoding="utf-8") as file:
        cuts = json.load(file)["first_layer"]
    split = [end - begin for begin, end in zip(cuts, cuts[1:])]
    study = {"schema": "dynmo-study/1", "trace": "run.db",
             "pipeline": {"stages": RANKS, "schedule": "1f1b", "layers_per_stage": split},
             "balancing": [{"balancer": "even"}, {"balancer": "given"}]}
    with open("study.json", "w", encoding="utf-8") as file:
        json.dump(study, file)
    even, planned = json.loads(dynmo("simulate", "study.json", "--json"))["rows"]
    assert even["start_first_layer"][1] == cuts[-1] // 2, even
    assert planned["start_first_layer"] == cuts != even["start_first_layer"], planned
    with open("predicted.json", "w", encoding="utf-8") as file:
        json.dump(even["iteration_mean_ns"] / planned["iteration_mean_ns"], file)


def step_s(step):
    """Seconds of the longest rank."""
    torch.distributed.barrier()
    begin = time.monotonic()
    step()
    seconds = torch.tensor(time.monotonic() - begin)
    torch.distributed.all_reduce(seconds, torch.distributed.ReduceOp.MAX)
    return seconds.item()


def compare(rank, even, planned):
    """Exit code: 0 as predicted, 1 not, 77 undecided. All ranks see the same times."""
    with open("predicted.json", encoding="utf-8") as file:
        predicted = json.load(file)
    gains = []
    for _ in range(ROUNDS):
        gains += [step_s(even) / step_s(planned) for _ in range(PAIRS)]
        count = len(gains)
        gains.sort()
        place = max(0, int(count / 2 - 0.98 * math.sqrt(count)))  # 95 % of medians
        low, high = gains[place], gains[count - 1 - place]
        least, most = (1 + (predicted - 1) * share for share in (0.5, 1.5))
        if least <= low and high <= most or high < least or low > most:
            break
    is_so = least <= low and high <= most
    words = "as predicted" if is_so else "not so" if high < least or low > most else "undecided"
    if rank == 0:
        print(f"predicted gain {predicted:.3f}; measured {statistics.median(gains):.3f} in "
              f"[{low:.3f}, {high:.3f}], {count} pairs of steps: {words}")
    return {"as predicted": 0, "not so": 1, "undecided": 77}[words]


def gain(framework, build, has_ends):
    """Runs in every rank.

    build  makes of what was exported (layers of this rank, the first one's number, a step)
    """
    rank = torch.distributed.get_rank()
    layer_count = len(UNITS) + (2 if has_ends else 0)
    if rank == 0:
        write_even(layer_count, has_ends)
    torch.distributed.barrier()
    layers, first_layer, step = build(exported(framework, "even"))
    step()
    record(rank, layers, first_layer, layer_count, step, has_ends)
    torch.distributed.barrier()
    if rank == 0:
        plan()
    torch.distributed.barrier()
    steps = []
    for name in ("even", "planned"):
        steps.append(build(exported(framework, name))[2])
        steps[-1]()
    code = compare(rank, *steps)
    torch.distributed.destroy_process_group()
    return code


def launch(script):
    """As many processes as ranks."""
    port = str(20000 + os.getpid() % 20000)
    ranks = [
        subprocess.Popen(
            [sys.executable, script],
            env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank),
                 "WORLD_SIZE": str(RANKS), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                 "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"},
        )
        for rank in range(RANKS)
    ]
    codes = [rank.wait() for rank in ranks]
    return codes[0] if len(set(codes)) == 1 else 1


def main(framework, script, start, build, has_ends):
    """Exit code of a test, in its first process and in those of its ranks.

    start  makes the process group of a rank
    """
    if importlib.util.find_spec(framework) is None:
        print(f"skipped: no {framework}")
        return 77
    if not os.environ.get("RANK"):
        return launch(script)
    start()
    code = gain(framework, build, has_ends)
    sys.stdout.flush()
    os._exit(code)  # threads of libraries that are unloaded may end a process before its verdict
