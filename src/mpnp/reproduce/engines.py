"""Engines: where jobs are performed. Every engine hands over the same outcomes, as they are done."""

import abc
from collections.abc import Callable, Iterator, Sequence

import jax

from mpnp.errors import unknown_name
from mpnp.reproduce.jobs import Job, Outcome, perform

__all__ = ["ENGINES", "AbstractEngine", "OneAfterAnother", "find_engine"]


class AbstractEngine(abc.ABC):
    """Performs jobs that do not depend on each other."""

    @abc.abstractmethod
    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        """Perform all jobs, in any order."""


class OneAfterAnother(AbstractEngine):
    """Here, in this process."""

    def outcomes(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, Outcome]]:
        for job in jobs:
            yield job, perform(job)
            jax.clear_caches()  # a process may map only so much compiled code, and the next model needs none of it


def _ray() -> AbstractEngine:
    from mpnp.reproduce.ray_engine import RayEngine  # here, because Ray is an extra

    return RayEngine()


ENGINES: dict[str, Callable[[], AbstractEngine]] = {"sequential": OneAfterAnother, "ray": _ray}


def find_engine(name: str) -> AbstractEngine:
    """The engine of that name."""
    if name not in ENGINES:
        raise unknown_name("engine", name, ENGINES, f"Choose one of: {', '.join(ENGINES)}.")
    return ENGINES[name]()
