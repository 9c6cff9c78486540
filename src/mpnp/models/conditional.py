"""No functional uncertainty: CNP, CANP and TNP."""

from jaxtyping import Array, Float, PRNGKeyArray

from mpnp.models.backbones.base import AbstractBackbone, Query, Tokens
from mpnp.models.base import AbstractTokenReader, LossTerms
from mpnp.models.parts import Parts
from mpnp.nn.likelihoods.decoder import Decoder
from mpnp.nn.likelihoods.predictive import Predictive
from mpnp.tasks.task import PointSet, Task

__all__ = ["ConditionalNP"]


class ConditionalNP(AbstractTokenReader):
    """$p(\\theta | Z_c) = \\delta_{r_c}(\\theta)$: one function per context (Garnelo et al., 2018; Kim et al., 2019)."""

    backbone: AbstractBackbone
    decoder: Decoder

    @classmethod
    def assemble(cls, backbone_type: type[AbstractBackbone], parts: Parts) -> "ConditionalNP":
        backbone = backbone_type.assemble(parts)
        return cls(backbone, parts.decoder(backbone.direct_dim, backbone.width))

    def num_components(self, num_samples: int) -> int:
        return 1

    def draw_noise(self, context: PointSet, num_samples: int, *, key: PRNGKeyArray) -> None:
        return None

    def loss_terms(self, task: Task, noise: None) -> LossTerms:
        context, query = self.backbone.embed_and_query(task)
        predictive = self.decode_query(task.x, query, context).with_noise(task.known_noise)
        return {"negative_log_likelihood": -task.loss_mean(predictive.log_prob(task.y))}

    def predict_tokens(self, tokens: Tokens, x_target: Float[Array, "target x_dim"], query: Query, noise: None) -> Predictive:
        return self.decode_query(x_target, query, tokens)
