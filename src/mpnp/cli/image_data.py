"""The commands for data sets and images: prepare a set, complete a picture."""

import argparse
import warnings

from mpnp.errors import InputError
from mpnp.tasks.image_sets import OWN, SHAPES, image_shape, store_of

__all__ = ["complete", "data"]


def data(options: argparse.Namespace) -> None:
    """Prepare a data set on this machine."""
    from mpnp.images.sets import IMAGE_SETS, download, prepare, prepare_own

    name = options.name
    shape = {field: value for field in ("size", "channels") if (value := getattr(options, field)) is not None}
    if name == "lotka-volterra":
        from mpnp.tasks.predator_prey import prepare_trajectories

        if options.folder or options.download or shape:
            raise InputError("lotka-volterra is simulated, from no file: the command is mpnp data lotka-volterra")
        prepare_trajectories(quiet=False)
        print("done: train on them with: mpnp train --task lotka-volterra")
        return
    if name not in IMAGE_SETS and not name.startswith(OWN):
        known = ", ".join((*IMAGE_SETS, "lotka-volterra"))
        raise InputError(f"unknown data set '{name}': choose one of {known}, or {OWN}NAME for your own images")
    if options.download == (options.folder is not None):
        raise InputError("where are the files? Pass --from FOLDER, or --download for a set that may be fetched")
    if shape and (not name.startswith(OWN) or str(options.folder).endswith(".npy")):
        raise InputError("--size and --channels are for folders of your own pictures; sets and arrays have sizes of their own")
    if name.startswith(OWN):
        if options.download:
            raise InputError(f"your own images are read from a folder or a .npy file: mpnp data {OWN}NAME --from PATH")
        about = prepare_own(name, options.folder, **shape)
    else:
        about = prepare(name, download(name) if options.download else options.folder)
    counts = ", ".join(f"{count:,} {part}" for part, count in about["images"].items())
    part_of = " (not the official files: scores on them are scores on a subset)" if about["subset"] else ""
    print(f"{name}: {counts} images of {' x '.join(map(str, about['shape']))}{part_of}")
    print(f"kept in {store_of(name)}; train on them with: mpnp train --task {name}")


def complete(options: argparse.Namespace) -> None:
    """Complete a picture from some of its pixels."""
    from mpnp.completion import choose_pixels, completion_figure, read_keep
    from mpnp.completion import complete as complete_image
    from mpnp.images.shape import read_picture
    from mpnp.pictures import picture_format, save_figure
    from mpnp.runs import load_model

    picture_format(options.out)  # a name that cannot be written is refused before the work, not after
    model, config, _ = load_model(options.directory)
    if config.task not in SHAPES and not config.task.startswith(OWN):
        raise InputError(f"{options.directory} was trained on {config.task}, not on images; train one on mnist, say")
    height, width, _ = shape = image_shape(config.task)
    image = read_picture(options.picture, shape)
    shown = choose_pixels(height, width, read_keep(options.keep, height * width), options.seed)
    completion = complete_image(model, image, shown, num_samples=options.num_samples)
    if completion.log_likelihood < 0:
        warnings.warn(
            "do not trust this completion: to the model, random colours are likelier than the pixels shown. Either the picture "
            f"is not like {config.task}'s (are light and dark the wrong way round, as of ink on paper?), or the model has "
            "learnt too little",
            stacklevel=2,
        )
    save_figure(completion_figure({f"{config.model}, {options.keep}": completion}), options.out)
    print(f"wrote {options.out}: {int(shown.sum())} of {shown.size} pixels shown")
