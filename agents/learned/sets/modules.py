"""Actor and critic over sets (:mod:`sysgym.agents.learned.sets.network`) for PPO. Requires torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from sysgym.agents.learned.policy import Mlp, mlp_of
from sysgym.agents.learned.sets.network import Network, SetNet, SetShape

if TYPE_CHECKING:  # the policies of stable-baselines3 and sb3-contrib have no common base with these methods
    from stable_baselines3.common.policies import ActorCriticPolicy as Policy
else:
    Policy = object

HIDDEN = 64


class SetModules(nn.Module):
    """Network that returns the scores of all actions for the actor and the pooled code for the critic.

    This module replaces the ``mlp_extractor`` of stable-baselines3.

    Args:
        shape: Layout of observations.
        hidden: Width of all layers.
    """

    def __init__(self, shape: SetShape, hidden: int = HIDDEN) -> None:
        super().__init__()
        self.shape = shape
        self.latent_dim_pi, self.latent_dim_vf = shape.n_actions, 2 * hidden
        self.encoder = nn.Sequential(
            nn.Linear(shape.row_size + shape.context_size, hidden),
            nn.Tanh(),
            nn.Linear(hidden, hidden),
            nn.Tanh(),
        )
        self.head = nn.Sequential(nn.Linear(3 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, shape.heads))

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the scores of the actions and the pooled code."""
        codes, pooled = self._encode(features)
        return self._scores(codes, pooled), pooled

    def forward_actor(self, features: torch.Tensor) -> torch.Tensor:
        """Return the scores of the actions."""
        return self._scores(*self._encode(features))

    def forward_critic(self, features: torch.Tensor) -> torch.Tensor:
        """Return the pooled code."""
        return self._encode(features)[1]

    def _encode(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shape = self.shape
        cut = shape.n_rows * shape.row_size
        rows = features[:, :cut].view(-1, shape.n_rows, shape.row_size)
        context = features[:, None, cut:].expand(-1, shape.n_rows, -1)
        exists = rows[:, :, :1]
        codes = self.encoder(torch.cat([rows, context], dim=2)) * exists
        mean = codes.sum(dim=1) / exists.sum(dim=1).clamp(min=1.0)
        return codes, torch.cat([mean, codes.amax(dim=1)], dim=1)

    def _scores(self, codes: torch.Tensor, pooled: torch.Tensor) -> torch.Tensor:
        beside = pooled[:, None, :].expand(-1, self.shape.n_rows, -1)
        scores: torch.Tensor = self.head(torch.cat([codes, beside], dim=2))
        return scores.transpose(1, 2).reshape(-1, self.shape.n_actions)


class SetActorCritic(Policy):
    """Mixin for an actor and critic over a set; precedes a policy class of SB3 or sb3-contrib as a base.

    Args:
        set_shape: Fields of :class:`SetShape`, as a dict because checkpoints store it.
        *args: Arguments from stable-baselines3.
        **kwargs: Keyword arguments from stable-baselines3.
    """

    first_output: float | None = None
    """Output of the untrained actor for every member; None: about 0."""

    def __init__(self, *args: Any, set_shape: dict[str, int], **kwargs: Any) -> None:
        self.set_shape = SetShape(**set_shape)
        super().__init__(*args, **kwargs)

    def _build_mlp_extractor(self) -> None:
        self.mlp_extractor = SetModules(self.set_shape)  # type: ignore[assignment]

    def _build(self, lr_schedule: Any) -> None:
        super()._build(lr_schedule)
        # The modules score each member separately; the package's additional layer would mix members.
        self.action_net = nn.Identity()
        modules: Any = self.mlp_extractor
        with torch.no_grad():
            modules.head[-1].weight.mul_(0.01)
            if self.first_output is not None:
                modules.head[-1].bias.fill_(self.first_output)
        make_optimizer: Any = self.optimizer_class
        self.optimizer = make_optimizer(self.parameters(), lr=lr_schedule(1), **self.optimizer_kwargs)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        return {**super()._get_constructor_parameters(), "set_shape": vars(self.set_shape)}


def network_of(model: Any) -> Network | None:
    """Return the network of a model's deterministic action, or None if it is not supported in NumPy.

    Args:
        model: A stable-baselines3 model.
    """
    over_sets = hasattr(model.policy, "set_shape")
    return set_net_of(model.policy) if over_sets else mlp_of(model)


def set_net_of(policy: Any) -> SetNet:
    """Return the actor of a policy over sets as a network in NumPy."""
    modules: Any = policy.mlp_extractor
    return SetNet(modules.shape, _mlp(modules.encoder), _mlp(modules.head))


def _mlp(layers: nn.Sequential) -> Mlp:
    linear = [layer for layer in layers if isinstance(layer, nn.Linear)]
    tanh = sum(isinstance(layer, nn.Tanh) for layer in layers)
    return Mlp(
        tuple(layer.weight.detach().cpu().numpy().copy() for layer in linear),
        tuple(layer.bias.detach().cpu().numpy().copy() for layer in linear),
        ("tanh",) * tanh + ("identity",) * (len(linear) - tanh),
    )
