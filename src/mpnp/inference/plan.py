"""The plan of an unfinished fit: its training run and options. Its curves are stored in the same directory."""

import dataclasses
from pathlib import Path
from typing import Any

from mpnp.errors import RunError
from mpnp.inference.card import TrainingDomain
from mpnp.io.files import read_json, write_json
from mpnp.training.config import RunConfig

__all__ = ["PLAN", "FitPlan"]

PLAN = "plan.json"


@dataclasses.dataclass(frozen=True)
class FitPlan:
    """The training run, the options that the fit was started with, and the licence of the model."""

    run: RunConfig
    options: dict[str, Any]
    licence: str | None = None
    earlier: TrainingDomain | None = None
    """What the model has seen already, if this is an update."""

    def choices(self) -> dict[str, Any]:
        """Everything that the user may have chosen, by name."""
        return {**self.options, **dataclasses.asdict(self.run.settings)}

    def write(self, directory: Path) -> None:
        """Write the plan into the directory of the run."""
        earlier = {} if self.earlier is None else {"earlier": self.earlier.to_json()}
        content = {"run": self.run.to_json(), "options": self.options, "licence": self.licence, **earlier}
        write_json(directory / PLAN, content)

    @staticmethod
    def read(directory: Path) -> "FitPlan":
        """Read what `write` wrote."""
        content = read_json(directory / PLAN)
        try:
            earlier = TrainingDomain.from_json(content["earlier"]) if "earlier" in content else None
            return FitPlan(RunConfig.from_json(content["run"]), {**content["options"]}, content["licence"], earlier)
        except (KeyError, TypeError):
            raise RunError(
                f"{directory} is damaged, or was begun by an older mpnp with another procedure; remove it and start again"
            ) from None
