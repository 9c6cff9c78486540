"""Bayesian optimisation: minimise an expensive function with a neural process or a Gaussian process as its surrogate."""

from mpnp.bayesopt.auto import AutoSearch
from mpnp.bayesopt.gaussian_process import GaussianProcess, Kernel, learn_kernel
from mpnp.bayesopt.optimizer import Evaluation, Optimizer, StalledSearchWarning
from mpnp.bayesopt.process_search import ProcessSearch
from mpnp.bayesopt.resampling_surrogate import ResamplingSurrogate
from mpnp.bayesopt.searching import FailedEvaluationWarning, Result, maximize, minimize
from mpnp.bayesopt.surrogates import NeuralProcessSurrogate

__all__ = [
    "AutoSearch",
    "Evaluation",
    "FailedEvaluationWarning",
    "GaussianProcess",
    "Kernel",
    "NeuralProcessSurrogate",
    "Optimizer",
    "ProcessSearch",
    "ResamplingSurrogate",
    "Result",
    "StalledSearchWarning",
    "learn_kernel",
    "maximize",
    "minimize",
]
