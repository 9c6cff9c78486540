"""An Optuna sampler, and a way for neural processes to learn from finished studies."""

from mpnp.integrations.extras import needs_extra

with needs_extra("optuna"):
    from mpnp.integrations.optuna.sampler import NeuralProcessSampler
    from mpnp.integrations.optuna.studies import tasks_from_studies

__all__ = ["NeuralProcessSampler", "tasks_from_studies"]
