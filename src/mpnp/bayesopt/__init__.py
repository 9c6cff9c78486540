"""Bayesian optimisation: minimise what is costly to evaluate, with a neural process that says where it may be low."""

from mpnp.bayesopt.gaussian_process import GaussianProcess, Kernel, learn_kernel
from mpnp.bayesopt.minimize import FailedEvaluationWarning, Result, minimize
from mpnp.bayesopt.optimizer import Evaluation, Optimizer
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
