"""The best scores that any model can reach on average: exact inference with the prior known.

    python benchmarks/ceilings.py [--tasks NAME ...] [--num-tasks N]

Computed on the test tasks of `mpnp evaluate`. Existing records are skipped, so rerunning resumes. Writes one record per task
family, and a table, to `results/ceilings`.
"""

import argparse
from pathlib import Path
from typing import Any

from mpnp.evaluation.ceilings.records import ceiling_record
from mpnp.io.files import read_json, write_atomically, write_json
from mpnp.reproduce.tables import markdown

RESULTS = Path(__file__).parents[1] / "results" / "ceilings"
TASKS = ("rbf", "matern", "periodic", "rbf-4d", "t-noise")
COLUMNS = ("context", "target", "task", "joint")


def main() -> None:
    """Make the records that are missing, then tabulate all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=TASKS)
    parser.add_argument("--num-tasks", type=int, default=500)
    options = parser.parse_args()
    for task in options.tasks:
        if not (path := RESULTS / f"{task}.json").exists():
            write_json(path, ceiling_record(task, num_tasks=options.num_tasks))
        elif (found := read_json(path)["evaluation"]["num_tasks"]) != options.num_tasks:
            print(f"{path.name} is of {found} tasks and stays; delete it to make one of {options.num_tasks}")
    table = tabulate([read_json(path) for task in TASKS if (path := RESULTS / f"{task}.json").exists()])
    write_atomically(RESULTS / "table.md", lambda file: file.write(table.encode()))
    print(table)


def tabulate(records: list[dict[str, Any]]) -> str:
    """One row per family, known or inferred kernel parameters, and with or without the floor."""
    rows = []
    for record in records:
        for parameters in ("known", "inferred"):
            for floor in ("exact", "floored"):
                scores = record[parameters][floor]
                size = f"≥ {record['sigma_min']}" if floor == "floored" else "any"
                cells = [cell(scores[name]) if name in scores else "" for name in COLUMNS]
                cells.append(f"{record['evaluation']['num_tasks']:,}")
                if wide := record.get("carried_over"):
                    cells += [cell(wide[parameters][floor]["target"]), f"{wide['num_tasks']:,}"]
                else:
                    cells += ["", ""]
                rows.append([record["task"], parameters, size, *cells])
    return markdown(["task", "parameters", "sigma", *COLUMNS, "tasks", "target, carried over to", "tasks"], rows)


def cell(summary: dict[str, float]) -> str:
    """A mean with its standard error."""
    return f"{summary['mean']:.3f} ± {summary['standard_error']:.3f}"


if __name__ == "__main__":
    main()
