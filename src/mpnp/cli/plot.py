"""`mpnp plot`: plot the posterior of a run."""

import argparse

from mpnp.cli.fields import file_path
from mpnp.cli.runs import add_model, add_run_options, import_named_task, output_folder

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A run, and which of its posteriors to show."""
    add_model(parser, "RUN", "the run")
    add_run_options(parser)
    parser.add_argument("--out", type=file_path, metavar="FILE", help="a .png, .pdf or .svg file (default RUN/posterior.png)")
    parser.add_argument(
        "--seed", type=int, default=0, metavar="N", help="selects the test functions that are shown (default %(default)s)"
    )


def run(args: argparse.Namespace) -> None:
    """Plot the posterior and save the figure."""
    from mpnp.io.compile_cache import keep_compiled_programs
    from mpnp.plotting.style import picture_format, save_figure
    from mpnp.plotting.tasks import plot_posterior
    from mpnp.training.evaluate import problem_for, with_num_pseudo
    from mpnp.training.rundir import load_model

    keep_compiled_programs()
    import_named_task(args)
    out = args.out or output_folder(args.directory) / "posterior.png"
    picture_format(out)  # reject a bad file name before any work is done
    model, config, card = load_model(args.directory)
    model = with_num_pseudo(model, args.num_pseudo)
    task = args.task or config.task
    family = problem_for(model, task).test
    num_samples = config.recipe.num_samples if args.num_samples is None else args.num_samples
    figure = plot_posterior(model, family, num_samples=num_samples, seed=args.seed)
    shown_on = "" if task == config.task else f", shown on {task}"
    step = f"step {card['progress']['best_step']:,} of {config.recipe.steps:,}"
    figure.suptitle(f"{config.model} trained on {config.task}{shown_on}: {step}")
    save_figure(figure, out)
    print(f"wrote {out}")
