"""`mpnp train`: train a model on a task family, or resume a run."""

import argparse
import dataclasses
from pathlib import Path

from mpnp.cli.fields import add_fields, file_path, given, require_agreement
from mpnp.cli.runs import import_named_task
from mpnp.errors import InputError
from mpnp.models.config import ModelSettings
from mpnp.tasks.registry import STORED_TASKS, TASKS
from mpnp.training.config import RECIPES, Recipe, RunConfig, find_recipe

__all__ = ["add_arguments", "run"]

DEFAULT_RECIPE = "short"

EPILOG = f"""\
examples:
  mpnp train --model mpanp --task rbf --recipe paper --steps 1000 --seed 0 --out runs/a
  mpnp train --resume runs/a             continue after Ctrl-C, a kill or a crash, bit for bit
  mpnp train --model cnp --num-tasks 51200 --out runs/finite      a fixed training set, reshuffled every epoch

A run directory holds config.json, metrics.jsonl (losses and validation scores), timing.jsonl, and the last and best
checkpoints. The recipes are {", ".join(RECIPES)}; any of the settings above overrides the recipe's or the paper's."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to train on what, and every setting of the recipe and the model."""
    defaults = {field.name: field.default for field in dataclasses.fields(RunConfig)}
    tasks = ", ".join(TASKS | STORED_TASKS)
    parser.epilog = EPILOG
    parser.add_argument("--model", metavar="NAME", help="which model ('mpnp models' lists them)")
    parser.add_argument(
        "--task", metavar="NAME", help=f"task family: {tasks}, or package.module:family (default {defaults['task']})"
    )
    parser.add_argument("--recipe", metavar="NAME", help=f"one of {', '.join(RECIPES)} (default {DEFAULT_RECIPE})")
    parser.add_argument(
        "--seed", type=int, metavar="N", help=f"fixes initial weights, tasks and all draws (default {defaults['seed']})"
    )
    parser.add_argument(
        "--num-tasks", type=int, metavar="N", help="train on this many fixed tasks (default: new tasks in every step)"
    )
    parser.add_argument(
        "--start-from", metavar="RUN", help="start with the trained weights of another run, such as those of a cnp for an mpnp"
    )
    parser.add_argument("--out", type=file_path, metavar="RUN", help="directory of the run (default runs/MODEL-TASK-SEED)")
    parser.add_argument("--resume", type=file_path, metavar="RUN", help="continue the run in this directory")
    parser.add_argument("--quiet", action="store_true", help="print no progress")
    several = parser.add_argument_group("several processes or hosts that train one run together in one shared directory")
    several.add_argument(
        "--distributed", action="store_true", help="find the processes of this SLURM, Open MPI or Kubernetes job, and join them"
    )
    several.add_argument("--coordinator", metavar="HOST:PORT", help="address of process 0")
    several.add_argument("--num-processes", type=int, metavar="N", help="number of processes")
    several.add_argument("--process-id", type=int, metavar="N", help="number of this process, from 0")
    add_fields(parser.add_argument_group("recipe (defaults: those of the chosen recipe)"), Recipe)
    add_fields(parser.add_argument_group("model (defaults: the paper's)"), ModelSettings, defaults=ModelSettings())


def run(args: argparse.Namespace) -> None:
    """Train a new run, or continue one."""
    from mpnp.io.compile_cache import keep_compiled_programs
    from mpnp.training import checkpoint, loop, sharding
    from mpnp.training.rundir import RunDirectory

    keep_compiled_programs()
    several = _join_processes(args)
    import_named_task(args)
    config, out = _new_run(args) if args.resume is None else (_resumed_config(args), args.resume)
    if not several:  # with several processes, the user decides which devices share a batch
        sharding.split_cpu(config.recipe.batch_size)
    try:
        if args.resume is None:
            loop.train(config, out, quiet=args.quiet)
        else:
            loop.resume(out, quiet=args.quiet)
    except KeyboardInterrupt:
        state = "progress is saved" if RunDirectory(out).last.exists() else "there is no checkpoint yet"
        print(f"{state}; continue with: mpnp train --resume {out}")
        raise
    progress = checkpoint.read_card(RunDirectory(out).best)["progress"]
    print(
        f"done: best validation log-likelihood per point {progress['best_score']:.4f} at step {progress['best_step']}, "
        f"in {out}; score it with: mpnp evaluate {out}"
    )


def _join_processes(args: argparse.Namespace) -> bool:
    """Join the other processes of the run, if the arguments say that there are any."""
    from mpnp.training import sharding

    address = (args.coordinator, args.num_processes, args.process_id)
    unset = [value is None for value in address]
    if args.distributed and all(unset):
        sharding.join_job()
    elif args.distributed:
        raise InputError(
            "--distributed finds the processes by itself; leave out --coordinator, --num-processes and --process-id"
        )
    elif not any(unset):
        sharding.join(*address)
    elif not all(unset):
        raise InputError("to train with several processes, pass --coordinator, --num-processes and --process-id together")
    return args.distributed or not any(unset)


def _new_run(args: argparse.Namespace) -> tuple[RunConfig, Path]:
    """The configuration that the arguments describe, and its directory."""
    if args.model is None:
        raise InputError("choose a model with --model NAME ('mpnp models' lists them), or resume a run with --resume RUN")
    recipe = dataclasses.replace(find_recipe(args.recipe or DEFAULT_RECIPE), **given(args, Recipe))
    settings = ModelSettings(**given(args, ModelSettings))
    config = RunConfig(**{**given(args, RunConfig), "recipe": recipe, "settings": settings})
    return config, args.out or Path("runs") / f"{config.model}-{config.task.replace(':', '.')}-{config.seed}"


def _resumed_config(args: argparse.Namespace) -> RunConfig:
    """The configuration of the run to resume. Arguments that repeat it must agree: a run cannot change midway."""
    from mpnp.training.rundir import RunDirectory

    stored = RunDirectory(args.resume).config()
    if args.out is not None and args.out.resolve() != args.resume.resolve():
        raise InputError(f"--resume continues in {args.resume} itself; leave out --out {args.out}")
    recipe = {} if args.recipe is None else dataclasses.asdict(find_recipe(args.recipe))
    wanted = {name: value for name, value in given(args, RunConfig).items() if name != "recipe"}
    chosen = {**wanted, **recipe, **given(args, Recipe), **given(args, ModelSettings)}
    require_agreement(chosen, {**vars(stored), **vars(stored.recipe), **vars(stored.settings)}, args.resume)
    return stored
