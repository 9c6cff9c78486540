"""Neural processes as BoTorch models: coherent function samples, with gradients, for batch acquisition functions."""

from mpnp.integrations.extras import needs_extra

with needs_extra("botorch"):
    from mpnp.integrations.botorch.model import NeuralProcessModel
    from mpnp.integrations.botorch.posterior import FunctionPosterior, FunctionSampler

__all__ = ["FunctionPosterior", "FunctionSampler", "NeuralProcessModel"]
