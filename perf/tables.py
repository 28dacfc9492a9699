"""Measures all tables for 9 models x 35 benchmarks x 1,000 instances with 1,000 bootstrap draws.

    python perf/tables.py [MODELS BENCHMARKS INSTANCES]
    python perf/tables.py 1000 35 20

Prints the seconds and the peak memory of one process that reads the folders, makes every table
and writes each as JSON. The targets are 10 s and 1 GiB on 2 cores, and for 1,000 models 2 GiB:
memory grows with the models, but for the rows of pairs and ranks, of which there are half as many
as models squared and as many.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

WORK = """
import resource, sys, time
start = time.perf_counter()
from medhelm.tables.format.formats import to_json
from medhelm.tables.loading import load_results
results = load_results(sys.argv[1])
loaded = time.perf_counter()
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(f"  import and read  {loaded - start:6.2f} s, peak {peak():5.0f} MiB", flush=True)
for name, table in results.tables.items():
    to_json(table)
    seconds, rows = time.perf_counter() - loaded, len(table.rows)
    print(f"  {name:15}  {seconds:6.2f} s, peak {peak():5.0f} MiB ({rows:,} rows)", flush=True)
    del table
    loaded = time.perf_counter()
to_json(results.typed("slices", by="difficulty"))
print(f"  {'slices':15}  {time.perf_counter() - loaded:6.2f} s")
seconds = time.perf_counter() - start
print(f"  all tables       {seconds:6.2f} s, peak {peak():5.0f} MiB (target {sys.argv[2]})")
"""


def main() -> None:
    """Write the folders, then measure a process of its own."""
    from tests.build_runs import write_suite

    models, benchmarks, instances = (int(a) for a in sys.argv[1:4] or ("9", "35", "1000"))
    with tempfile.TemporaryDirectory() as folder:
        write_suite(Path(folder), models, benchmarks, instances)
        print(f"{models} models x {benchmarks} benchmarks x {instances} instances, 1,000 draws")
        target = "2048 MiB" if models >= 1000 else "10 s, 1024 MiB"
        subprocess.run([sys.executable, "-c", WORK, folder, target], check=True, cwd=ROOT)


if __name__ == "__main__":
    main()
