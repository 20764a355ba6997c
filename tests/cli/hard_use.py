"""Commands that are killed, that write to one store at once or to a full disk, or that get no
memory: nothing half written is taken for whole, and the same command goes on.

usage: hard_use.py DYNMO SHIM [TIMES [SEED]], in tests/; SHIM is failing_allocation.c as a library,
TIMES more of everything than a test has time for
"""
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

DYNMO, SHIM = (os.path.abspath(path) for path in sys.argv[1:3])
TIMES = int(sys.argv[3]) if len(sys.argv) > 3 else 1
DRAW = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 1)
STUDY = {"schema": "dynmo-study/1", "model": "gpt2", "hardware": "h100-sxm",
         "training": {"iterations": 12, "microbatches": 6}, "pipeline": {"stages": 3},
         "dynamism": {"case": "freezing", "start_iteration": 1, "last_iteration": 9, "interval": 1},
         "balancing": [{"balancer": "even"}, {"balancer": "partition", "policy": "on-change"}]}
# What writes files, and how what it has written is read.
WRITERS = [
    ("import csv t.csv -o O", "show O --loads --json"),
    ("simulate s.json --store O", "check --plan s.json --row even --measured O --json"),
    ("run s.json --row even --record O", "show O --loads --json"),
    ("study v.json --draws 20 --store O --json", None),
    ("study v.json --draws 20 --shard 0/2 --store O", None),
    ("plan --loads l.json --stages 3 --balancer partition --schedule 1f1b "
     "--microbatches 6 -o O", None),
    ("study v.json --draws 0 --csv O", None), ("report runs.db -o O", None),
    ("schedule --schedule zb-h1 --stages 4 --microbatches 40 --timeline O", None),
    ("export perfetto runs.db -o O", None)]
failures = []


def failed(*words):
    """Notes it."""
    failures.append(" ".join(str(word) for word in words))
    print("FAILED:", failures[-1][:600], flush=True)


def start(words, **more):
    """A command as a process."""
    return subprocess.Popen([DYNMO, *words.split()], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **more)


def ask(words, **more):
    """Its status, standard output and error."""
    with start(words, **more) as child:
        out, err = child.communicate()
    return child.returncode, out, err


def clear(path="O"):
    """Takes a file away, with what may lie beside it."""
    for name in os.listdir(os.path.dirname(path) or "."):
        if name.startswith(os.path.basename(path)):
            os.unlink(os.path.join(os.path.dirname(path), name))


def content(words, reader, path="O"):
    """What was written, where it is the same each time; what else the command printed."""
    if reader is None and "--store" in words:
        return ask(words.replace("O", path))[1]
    if reader is None:
        with open(path, "rb") as file:
            return file.read()
    code, out, _ = ask(reader.replace("O", path))
    if reader.startswith("check"):  # whose answer names the number of the run
        return code
    return "\n".join(line for line in out.split("\n")
                     if "20" not in line.split(" ")[-1] and " at " not in line)


def whole(words, reader, path="O"):
    """Content after the command has run undisturbed, and how long that took."""
    clear(path)
    began = time.monotonic()
    code, _, err = ask(words.replace("O", path))
    took = time.monotonic() - began
    if code != 0:
        failed(words, code, err)
    return content(words, reader, path), took


def kill():
    """A killed command leaves what the same command takes up, and nothing else."""
    for words, reader in WRITERS:
        wanted, took = whole(words, reader)
        for _ in range(2 * TIMES):
            clear()
            with start(words) as child:
                time.sleep(DRAW.random() * took)
                child.send_signal(DRAW.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
                child.communicate()
            code, _, err = ask(words)
            is_there = code == 2 and "already (complete)" in err
            if not (code == 0 or is_there) or content(words, reader) != wanted:
                failed("after a kill:", words, code, err)
            left = [name for name in os.listdir(".") if name.startswith("O") and name != "O"]
            if left:
                failed("after a kill:", words, "leaves", left)


def write_at_once():
    """Ten runs into one store are ten runs."""
    for _ in range(TIMES):
        clear()
        children = [start("simulate s.json --store O") for _ in range(10)]
        for child in children:
            _, err = child.communicate()
            if child.returncode != 0:
                failed("ten writers:", child.returncode, err)
        told = json.loads(ask("show O --json")[1])
        complete = sum(run.get("status") == "complete" for run in told["runs"])
        if complete != 10:
            failed("ten writers:", complete, "complete runs")


def fill_disk():
    """On a disk of 1 MB that is full at some time: one message, and with room the same command."""
    if os.environ.get("HARD_USE_DISK") is None:
        if subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False).returncode:
            print("no file system of its own can be mounted here: no full disk")
            return
        inside = dict(os.environ, HARD_USE_DISK="1")
        failures.extend(["on a full disk"] * subprocess.run(
            ["unshare", "-m", sys.executable, *sys.argv], cwd=HERE, env=inside,
            check=False).returncode)
        return
    os.mkdir("disk")
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "disk", "disk"], check=True)
    for words, reader in WRITERS:
        wanted, _ = whole(words, reader)
        for _ in range(TIMES):
            clear("disk/O")
            with open("disk/other", "wb") as file:
                file.write(bytes(DRAW.randrange(900000, 1048576)))
            code, out, err = ask(words.replace("O", "disk/O"))
            if code not in (0, 1) or (code == 1 and (err.count("\n") > 2 or "disk/O" not in err)):
                failed("on a full disk:", words, code, out, err)
            os.unlink("disk/other")
            code, _, err = ask(words.replace("O", "disk/O"))
            if code != 0 or content(words, reader, "disk/O") != wanted:
                failed("after a full disk:", words, code, err)
    subprocess.run(["umount", "disk"], check=True)


def fail_allocations():
    """Where one allocation fails, a command says so and fails, or does without."""
    count = 0
    for words, _ in WRITERS + [("simulate s.json --json", None), ("diagnose runs.db --json", None),
                               ("check --plan s.json --row even --measured runs.db", None)]:
        clear()
        shim = dict(os.environ, LD_PRELOAD=SHIM, ALLOCATIONS="many")
        wanted = ask(words, env=shim)
        with open("many", encoding="ascii") as file:
            many = int(file.read())
        for _ in range(5 * TIMES):
            clear()
            number = DRAW.randint(1, many)
            code, out, err = ask(words, env=dict(shim, FAIL_AT=str(number)))
            count += 1
            if (code, out) == wanted[:2]:
                continue
            if code not in (1, 2) or err.count("\n") != 1 or out or "JSON" in err:
                failed("allocation", number, "of", words, ":", code, out[:80], err)
    return count


def main():
    """In a folder of its own."""
    csv = os.path.abspath("../traces/recorded/gpt-freezing-cpu.csv.gz")
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    subprocess.run(f"gzip -dc {csv} | head -20000 >t.csv", shell=True, check=True)
    for name, more in (("s", {}), ("v", {"vary": {"pipeline.stages": [2, 3, 4, 5]}})):
        with open(name + ".json", "w", encoding="ascii") as file:
            json.dump({**STUDY, **more}, file)
    with open("l.json", "w", encoding="ascii") as file:
        json.dump({"forward_ns": list(range(1, 20))}, file)
    ask("simulate s.json --store runs.db")
    if os.environ.get("HARD_USE_DISK") is None:
        kill()
        write_at_once()
        print(fail_allocations(), "allocations failed")
    fill_disk()
    os.chdir(HERE)
    shutil.rmtree(folder)
    return 1 if failures else 0


HERE = os.getcwd()
sys.exit(main())
