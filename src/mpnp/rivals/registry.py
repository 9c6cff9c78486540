"""The registry of rivals, by their names on the command line and in files."""

from mpnp.rivals.base import AbstractRival
from mpnp.rivals.boosting import QuantileBoosting
from mpnp.rivals.gaussian_process import LearntGaussianProcess
from mpnp.rivals.mean_curve import MeanCurve
from mpnp.rivals.persistence import Persistence
from mpnp.rivals.training_covariance import TrainingCovariance

__all__ = ["RIVALS"]

RIVALS: dict[str, type[AbstractRival]] = {
    rival.kind: rival for rival in (MeanCurve, Persistence, TrainingCovariance, LearntGaussianProcess, QuantileBoosting)
}
