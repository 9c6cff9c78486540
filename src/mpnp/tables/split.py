"""Split curves, never single points, into training, validation and test."""

import numpy as np

from mpnp.errors import InputError
from mpnp.options import require_seed
from mpnp.tables.curves import Curves

__all__ = ["PARTS", "split_curves"]

PARTS = ("train", "validation", "test")


def split_curves(curves: Curves, *, validation: float = 0.15, test: float = 0.0, seed: int = 0) -> dict[str, Curves]:
    """Split curves into training, validation and test, whatever their order. Curves of one group stay together.

    Groups named train, validation and test define the split; the shares are then ignored.

    >>> pairs = [([0.0, 1.0], [0.0, float(number)]) for number in range(20)]
    >>> {part: len(some) for part, some in split_curves(Curves.from_pairs(pairs), test=0.25).items()}
    {'train': 12, 'validation': 3, 'test': 5}
    """
    require_seed(seed)
    for name, share in (("validation", validation), ("test", test)):
        if not 0 <= share < 1:
            raise InputError(f"{name} must be a share of the tasks, at least 0 and below 1, got {share}")
    curves = curves.in_order()
    groups = list(dict.fromkeys(curves.groups))
    words = {str(group).strip().lower() for group in groups}
    if set(groups) <= set(PARTS):
        part_of = {group: group for group in groups}
        for name in ("train", "validation"):
            if name not in part_of:
                raise InputError(
                    f"the groups name the parts of the split, but none of them is '{name}'; mark some tasks as {name}"
                )
    elif words <= set(PARTS) | {"training", "val", "valid", "dev", "testing"}:
        raise InputError(
            f"the groups look like the parts of a split: call them exactly {', '.join(PARTS)}, got {sorted(words)}"
        )
    else:
        order = np.random.default_rng(seed).permutation(len(groups))
        num_test = _share(test, len(groups))
        num_validation = _share(validation, len(groups))
        part = np.repeat(
            np.asarray(PARTS)[[2, 1, 0]], [num_test, num_validation, max(len(groups) - num_test - num_validation, 0)]
        )
        part_of = {groups[number]: str(part[rank]) for rank, number in enumerate(order) if rank < len(part)}
    numbers = {name: [n for n, group in enumerate(curves.groups) if part_of.get(group) == name] for name in PARTS}
    for name in ("train", "validation"):
        if not numbers[name]:
            raise InputError(
                f"no task is left for {name}: {len(curves)} tasks in {len(groups)} groups cannot be split into "
                f"training, validation ({validation:.0%}) and test ({test:.0%}); add more tasks"
            )
    return {name: curves.select(chosen) for name, chosen in numbers.items()}


def _share(share: float, count: int) -> int:
    """The number of groups in a part: at least one, unless the share is zero."""
    return max(round(share * count), 1) if share else 0
