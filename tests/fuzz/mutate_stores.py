"""Changes stores at random and has commands read them: none may crash, hang or take 1 GiB.

usage: mutate_stores.py DYNMO COUNT [SEED [KEPT]]

A change is bytes anywhere in the file, or values that no writer puts (texts for numbers, numbers at
the edges of 64 bits, control characters, nothing) under the schema as it should be. What fails is
printed with its seed, and kept in the folder KEPT; the exit status is 1 then.
"""
import os
import random
import resource
import shutil
import sqlite3
import subprocess
import sys
import tempfile

SECONDS_MAX = 20
VALUES = [-(2**63), -5, -1, 0, 1, 7, 2**31 - 1, 2**31, 2**32, 2**53, 2**53 + 1, 2**62, 2**63 - 1,
          1e308, -1e308, 0.5, None, "", "text", "a\nb", "\x1b[2J", "]]>", "=1+1", "[1,2]",
          "{}", "[", '{"schema":1}', "9" * 400, b"\x00\xff", "x" * 70000]
STUDY = '''{"schema":"dynmo-study/1","name":"grid","model":"gpt2","hardware":"h100-sxm",
 "cluster":{"gpus":4},"training":{"iterations":3,"microbatches":4},"pipeline":{"stages":2},
 "dynamism":{"case":"freezing","start_iteration":1,"last_iteration":3,"interval":1},
 "balancing":[{"balancer":"even"},%s]%s}'''
SHRINK = '''{"balancer":"partition","policy":"on-change",
 "repack":{"kind":"throughput","tolerance":1}}'''
READERS = {
    "trace.db ops.db record.db": [
        "show S --loads --json",
        "diagnose S", "diagnose S --json", "simulate trace.json --json",
        "run trace.json --row even --json", "study trace.json --json", "import csv t.csv -o S"],
    "runs.db": [
        "report S -o out.html",
        "report S --figure timeline -o a.svg",
        "export perfetto S -o out.json", "export pytorch S -o out.csv",
        "export slurm-shrink S --row partition", "export slurm-shrink S",
        "check --plan grid.json --row even --measured S --json"],
    "workers.db": ["stragglers S --json", "stragglers S", "show S --json"],
    "study.db shard.db": [
        "study grid-vary.json --store S --json", "merge S -o out.db",
        "study grid-vary.json --shard 0/1 --store S"],
    "trace.db runs.db study.db workers.db": [
        "show S", "show S --json", "simulate grid.json --store S",
        "run grid.json --row even --store S"],
}


def prepare(dynmo, folder):
    """Stores of every kind, in the folder."""
    def do(words):
        done = subprocess.run([dynmo] + words.split(), cwd=folder, capture_output=True, check=False)
        if done.returncode:
            sys.exit(f"dynmo {words}: {done.stderr.decode()}")

    for name, more in (("grid", ""), ("grid-vary", ',"vary":{"pipeline.stages":[2,3]}')):
        with open(os.path.join(folder, name + ".json"), "w", encoding="ascii") as file:
            file.write(STUDY % (SHRINK, more))
    with open(os.path.join(folder, "trace.json"), "w", encoding="ascii") as file:
        file.write('{"schema":"dynmo-study/1","trace":"S","pipeline":{"stages":2},'
                   '"training":{"iterations":3},"balancing":[{"balancer":"even"}]}')
    with open(os.path.join(folder, "t.csv"), "w", encoding="ascii") as file:
        file.write("# dynmo-trace/1\n# source=model\n# layers=4\n# microbatches=2\n"
                   "iteration,layer,microbatch,phase,rank,busy_ns,activation_bytes\n")
        for cell in range(3 * 4 * 2 * 2):
            file.write(f"{cell // 16},{cell // 4 % 4},{cell // 2 % 2},{'FB'[cell % 2]}W,0,9,\n"
                       .replace("FW", "F").replace("BW", "BW"))
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    do(f"import csv {root}/traces/recorded/gpt-freezing-cpu.csv.gz -o trace.db")
    do(f"import kineto {root}/tests/traces/kineto/gpu.json -o ops.db --backward-split 0.3")
    do("simulate grid.json --store runs.db")
    do("run grid.json --row even --store runs.db --record record.db")
    do("study grid-vary.json --store study.db")
    do("study grid-vary.json --shard 0/1 --store shard.db")
    with open(os.path.join(folder, "ops.csv"), "w", encoding="ascii") as file:
        file.write("step,dp_rank,stage,mc,mb_id,kind,start_s,duration_s\n")
        for op in range(2 * 2 * 4):
            step, stage, part = op // 8, op // 4 % 2, op % 4
            ahead = stage if part < 2 else -stage
            begin = step + (part if part < 2 else 4 - part) * 0.01 + ahead * 0.001
            file.write(f"{step},0,{stage},0,{part % 2},{'forward' if part < 2 else 'backward'},"
                       f"{begin + (0.1 if part >= 2 else 0):.4f},0.001\n")
    do("import ops ops.csv -o workers.db --columns kind=kind,start_s=start_s,duration_s=duration_s")


def change_bytes(path, draw):
    """Overwrites some bytes."""
    with open(path, "r+b") as file:
        size = file.seek(0, 2)
        for _ in range(draw.choice([1, 1, 2, 8, 64])):
            file.seek(draw.randrange(size))
            file.write(draw.randbytes(draw.choice([1, 1, 2, 4, 16])))
        if draw.random() < 0.05:
            file.truncate(draw.randrange(size))


def change_block(store, table, draw):
    """Puts other bytes into a block, most of them where a column says its width and smallest."""
    rowid, block = draw.choice(store.execute(f"SELECT rowid, {table} FROM {table}").fetchall())
    if not isinstance(block, bytes):
        return  # an earlier change has put something else there
    block = bytearray(block)
    for _ in range(draw.choice([1, 1, 2, 8])):
        block[draw.randrange(min(len(block), draw.choice([2, 20, 200, 10**6])))] = draw.choice(
            [0, 1, 2, 8, 9, 127, 128, 255])
    if draw.random() < 0.1:
        block = block[:draw.randrange(len(block))]
    store.execute(f"UPDATE {table} SET {table}=? WHERE rowid=?", (bytes(block), rowid))


def change_values(path, draw):
    """Puts values into columns, whatever their types and constraints; the schema is put back."""
    store = sqlite3.connect(path, isolation_level=None)
    store.execute("PRAGMA synchronous=OFF")
    store.execute("PRAGMA writable_schema=ON")
    store.execute("PRAGMA ignore_check_constraints=ON")
    texts = store.execute("SELECT rowid, name, sql FROM sqlite_schema WHERE type='table'"
                          " AND name NOT LIKE 'sqlite_%'").fetchall()
    filled = [row for row in texts if store.execute(f"SELECT 1 FROM {row[1]}").fetchone()]
    for place, _, text in texts:
        plain = text.replace("STRICT, ", "").replace(" STRICT", "").replace("NOT NULL", "")
        for kind in ("INTEGER", "REAL", "TEXT"):
            plain = plain.replace(f" {kind}", " BLOB" if "PRIMARY" not in plain else f" {kind}")
        store.execute("UPDATE sqlite_schema SET sql=? WHERE rowid=?", (plain, place))
    store.close()
    store = sqlite3.connect(path, isolation_level=None)
    store.execute("PRAGMA synchronous=OFF")
    for _ in range(draw.choice([1, 1, 1, 2, 5])):
        table = draw.choice(filled)[1]
        column = draw.choice(store.execute(f"PRAGMA table_info({table})").fetchall())[1]
        where = draw.choice(["", f" WHERE rowid%{draw.randrange(1, 9)}=0"])
        if table in ("loads", "ops") and draw.random() < 0.7:
            change_block(store, table, draw)
            continue
        try:
            store.execute(f"UPDATE OR REPLACE {table} SET {column}=?{where}",
                          (draw.choice(VALUES),))
        except sqlite3.Error:
            pass  # a key, or a table without rowid
    store.execute("PRAGMA writable_schema=ON")
    for place, _, text in texts:
        store.execute("UPDATE sqlite_schema SET sql=? WHERE rowid=?", (text, place))
    store.close()


def limit():
    """1 GiB of addresses beyond what a process maps before it begins."""
    resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def main():
    """Draws changes and commands."""
    dynmo, count = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.randrange(1 << 30)
    kept = sys.argv[4] if len(sys.argv) > 4 else None
    failures = 0
    codes = {}
    with tempfile.TemporaryDirectory() as folder:
        prepare(dynmo, folder)
        for number in range(seed, seed + count):
            draw = random.Random(number)
            stores = draw.choice(list(READERS))
            name = draw.choice(stores.split())
            path = os.path.join(folder, "S")
            for ending in ("", "-wal", "-shm", "-journal"):
                if os.path.exists(path + ending):
                    os.unlink(path + ending)
            shutil.copy(os.path.join(folder, name), path)
            try:
                draw.choice([change_bytes, change_values, change_values])(path, draw)
            except sqlite3.Error:
                change_bytes(path, draw)
            if kept:
                shutil.copy(path, os.path.join(folder, "before"))
            words = draw.choice(READERS[stores]).split()
            try:
                done = subprocess.run([dynmo] + words, cwd=folder, capture_output=True, check=False,
                                      timeout=SECONDS_MAX, preexec_fn=limit)
                why = done.stderr.decode(errors="replace")[-300:] if done.returncode else ""
                failed = done.returncode not in (0, 1, 2, 3, 4, 5) or "out of memory" in why
                codes[done.returncode] = codes.get(done.returncode, 0) + 1
                if b"\x1b" in done.stdout + done.stderr:
                    failed, why = True, "a control character is printed"
            except subprocess.TimeoutExpired:
                failed, why = True, f"longer than {SECONDS_MAX} s"
            if failed:
                failures += 1
                print(f"seed {number} of {name}: dynmo {' '.join(words)}: {why}", flush=True)
                if kept:
                    shutil.copy(os.path.join(folder, "before"), os.path.join(kept, f"{number}.db"))
    print(f"{count} stores from seed {seed}: {failures} crashes and hangs; exits {codes}")
    return 1 if failures else 0


sys.exit(main())
