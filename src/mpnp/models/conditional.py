"""No functional uncertainty: CNP and CANP."""

from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.models.contract import AbstractNeuralProcess, LossTerms
from mpnp.networks.backbones.contract import AbstractBackbone
from mpnp.networks.decoder import GaussianDecoder
from mpnp.networks.predictive import Predictive
from mpnp.tasks.task import PointSet, Task, masked_mean

__all__ = ["ConditionalNP"]


class ConditionalNP(AbstractNeuralProcess):
    """$p(\\theta | Z_c) = \\delta_{r_c}(\\theta)$: one function a context (Garnelo et al., 2018; Kim et al., 2019)."""

    backbone: AbstractBackbone
    decoder: GaussianDecoder

    def num_components(self, num_samples: int) -> int:
        return 1

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> None:
        return None

    def loss_terms(self, task: Task, noise: None) -> LossTerms:
        context, question = self.backbone.meet(task)
        predictive = self.decode_asked(task.x, question, context)
        return {"negative_log_likelihood": -masked_mean(predictive.log_prob(task.y), task.asked)}

    def predict_given(self, context: PointSet, x_target: Float[Array, "target x_dim"], noise: None) -> Predictive:
        return self.decode(x_target, self.backbone.embed(context))
