"""Bayesian optimisation: minimise an expensive function with a neural process as its surrogate."""

from mpnp.bayesopt.gaussian_process import GaussianProcess, Kernel, learn_kernel
from mpnp.bayesopt.optimizer import Evaluation, FailedEvaluationWarning, Optimizer, Result, minimize
from mpnp.bayesopt.surrogates import NeuralProcessSurrogate

__all__ = [
    "Evaluation",
    "FailedEvaluationWarning",
    "GaussianProcess",
    "Kernel",
    "NeuralProcessSurrogate",
    "Optimizer",
    "Result",
    "learn_kernel",
    "minimize",
]
