"""Distillation of a trained policy into a smaller network, on the states that the student visits.

States come from roll-outs of the student (DAgger: Ross et al., AISTATS 2011); the first roll-out is the
teacher's. The student matches logits at a temperature for discrete actions (Hinton et al., arXiv 1503.02531),
and the mean action otherwise. A survey found this classical form to be reliable with augmentation (Ruffy and
Chahal, arXiv 1912.10850); here the augmentation is noise on observations, at which the teacher is evaluated
too. The student belongs to :func:`student_algorithm` and is an ordinary checkpoint. Requires the extra
``train``.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.arrays import write_tree
from sysgym.agents.learned.checkpoint import Checkpoint, CheckpointMeta, write_checkpoint
from sysgym.agents.learned.learning import learning_of, network_on_observations, problem_of
from sysgym.agents.learned.policy import Mlp, actor_modules, mlp_of
from sysgym.agents.learned.problems import Problem
from sysgym.agents.learned.sets.network import Network
from sysgym.agents.learned.training.algorithms import (
    ALGORITHMS,
    EXTRA,
    Algorithm,
    get_algorithm,
    is_over_hosts,
)
from sysgym.agents.learned.training.run import trained_with
from sysgym.agents.learned.training.train import FINAL
from sysgym.scenarios import scenario_from_resolved
from sysgym.scenarios.errors import MissingExtra, SysgymError

if TYPE_CHECKING:
    import torch

Array = NDArray[np.float32]
Masks = NDArray[np.bool_]


@dataclass(frozen=True)
class Recipe:
    """Hyper-parameters of a distillation.

    Attributes:
        hidden: Widths of the student's hidden layers.
        total_steps: Environment steps from which states are collected.
        rounds: Number of roll-outs, each followed by learning; the first is the teacher's, the others the
            student's.
        updates: Gradient steps per round.
        batch_size: States per gradient step.
        learning_rate: Initial learning rate of Adam, which decays to a tenth.
        noise: Standard deviation of the noise on observations, as a share of each input's standard deviation.
        temperature: Temperature of the logits of discrete actions.
        n_envs: Number of parallel environments.
    """

    hidden: tuple[int, ...]
    total_steps: int
    rounds: int = 5
    updates: int = 500
    batch_size: int = 256
    learning_rate: float = 3e-3
    noise: float = 0.1
    temperature: float = 2.0
    n_envs: int = 4

    def __post_init__(self) -> None:
        """Check the values; raises SysgymError if one is invalid."""
        if not self.hidden or min(self.hidden) < 1:
            raise SysgymError(f"hidden layers need a width of at least 1, got {self.hidden}")
        for name in ("rounds", "updates", "batch_size", "n_envs", "learning_rate", "temperature"):
            if getattr(self, name) <= 0:
                raise SysgymError(f"{name} has to be positive, got {getattr(self, name)}")
        if self.noise < 0.0:
            raise SysgymError(f"noise cannot be negative, got {self.noise}")
        if self.total_steps < self.rounds * self.n_envs:
            raise SysgymError(f"{self.total_steps} steps are too few for {self.rounds} rounds")


@dataclass(frozen=True)
class Distilled:
    """Distilled student.

    Attributes:
        checkpoint: Path of the student's checkpoint.
        difference: Difference from the teacher on the last round's states: mean absolute difference of the
            mean action in [-1, 1], or the share of states with a different discrete action.
    """

    checkpoint: Path
    difference: float


def student_algorithm(meta: CheckpointMeta) -> Algorithm:
    """Return the algorithm of a student, which has a plain network: the teacher's, MaskablePPO or PPO.

    Raises:
        UnknownName: If the teacher was neither trained by a known algorithm, nor applies one function to
            every host.
    """
    if is_over_hosts(meta.agent, meta.family):
        return ALGORITHMS["ppo"]
    algorithm = get_algorithm(meta.agent)
    return ALGORITHMS["maskable_ppo"] if algorithm.over_sets else algorithm


def student_hyper_parameters(meta: CheckpointMeta, hidden: tuple[int, ...]) -> dict[str, Any]:
    """Return the teacher's hyper-parameters that also apply to the student, with the student's layers."""
    known = student_algorithm(meta).names() - {"policy_kwargs"}
    kept = {name: value for name, value in meta.hyper_parameters.items() if name in known}
    return {**kept, "net_arch": list(hidden)}


def action_scale_name(meta: CheckpointMeta) -> str:
    """Return the name of the teacher's action scale, as an argument of training."""
    return learning_of(meta.family).action_scale(meta)


def distill(
    teacher: Checkpoint,
    recipe: Recipe,
    out: Path,
    *,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Distilled:
    """Distill a teacher into a student.

    The same arguments on the same machine give the same student.

    Args:
        teacher: Checkpoint of the teacher.
        recipe: Hyper-parameters.
        out: Output folder, to which the student is written as ``final.zip``.
        seed: Seed of all random numbers.
        progress: Callback with the number of environment steps done.

    Raises:
        MissingExtra: If the extra ``train`` is not installed.
        SysgymError: If the teacher's policy is not a network supported in NumPy.
    """
    try:
        import stable_baselines3  # noqa: F401
        import torch
    except ImportError as error:
        raise MissingExtra(EXTRA, "distilling") from error
    from sysgym.agents.learned.training.learner import parameters_of

    network = network_on_observations(teacher)
    torch.set_num_threads(1)
    began_s = time.perf_counter()
    meta = teacher.meta
    scenario = scenario_from_resolved(meta.scenario)
    problem = problem_of(scenario, meta.env_kwargs, action_scale_name(meta))
    algorithm = student_algorithm(meta)
    hyper_parameters = student_hyper_parameters(meta, recipe.hidden)
    envs = problem.envs(recipe.n_envs, seed)
    try:
        model = algorithm.load_class()(
            algorithm.load_policy(), envs, seed=seed, device="cpu", **algorithm.arguments(hyper_parameters)
        )
        school = _School(network, model, problem, recipe, seed)
        done = 0
        for states in school.rounds(envs):
            done += states
            if progress is not None:
                progress(done)
    finally:
        envs.close()
    if hasattr(model.policy, "actor_target"):  # otherwise further training would start from the old target
        model.policy.actor_target.load_state_dict(model.policy.actor.state_dict())
    model.num_timesteps = done
    student = mlp_of(model)
    assert student is not None, "a policy of the package's own layers is taken over"
    difference = school.difference(student)
    about = {
        "agent": meta.agent,
        "checkpoint_sha256": hashlib.sha256(teacher.path.read_bytes()).hexdigest(),
        "total_steps": meta.total_steps,
        "difference": difference,
        **{name: value for name, value in asdict(recipe).items() if name not in ("hidden", "total_steps")},
    }
    new_meta = CheckpointMeta(
        agent=algorithm.name,
        env_id=meta.env_id,
        scenario=meta.scenario,
        env_kwargs=meta.env_kwargs,
        observation_index=meta.observation_index,
        action_scale=meta.action_scale,
        total_steps=done,
        wall_s=time.perf_counter() - began_s,
        seed=seed,
        n_envs=recipe.n_envs,
        hyper_parameters=hyper_parameters,
        versions=trained_with(),
        distilled_from=about,
    )
    write_checkpoint(out / FINAL, new_meta, student, write_tree(parameters_of(model)))
    return Distilled(out / FINAL, difference)


class _School:
    """Student, teacher and collected states of a distillation.

    Args:
        teacher: The teacher.
        model: Model of the student in stable-baselines3.
        problem: Learning problem of both.
        recipe: Hyper-parameters.
        seed: Seed of noise and batches.
    """

    def __init__(self, teacher: Network, model: Any, problem: Problem, recipe: Recipe, seed: int) -> None:
        import torch

        self._teacher, self._model, self._recipe = teacher, model, recipe
        self._masked, self._discrete = problem.set_shape is not None, problem.discrete_actions
        modules = actor_modules(model.policy)
        assert modules is not None
        self._student = torch.nn.Sequential(*modules)
        self._optimizer = torch.optim.Adam(self._student.parameters(), lr=recipe.learning_rate)
        total = recipe.rounds * recipe.updates
        self._schedule = torch.optim.lr_scheduler.LinearLR(self._optimizer, 1.0, 0.1, total_iters=total)
        self._rng = np.random.default_rng(seed)
        self._observations: list[Array] = []
        self._masks: list[Masks] = []

    def rounds(self, envs: Any) -> Iterator[int]:
        """Alternate between collecting states and learning; yield the states of each collection step."""
        envs.seed(self._model.seed)
        observations = envs.reset()
        actor: Network = self._teacher
        each = -(-self._recipe.total_steps // self._recipe.rounds // self._recipe.n_envs)
        for _ in range(self._recipe.rounds):
            self._round_begins = len(self._observations)
            for _ in range(each):
                observations = self._step(envs, observations, actor)
                yield len(observations)
            self._learn()
            learned = mlp_of(self._model)
            assert learned is not None
            actor = learned

    def _step(self, envs: Any, observations: Array, actor: Network) -> Array:
        self._observations.append(observations.astype(np.float32))
        if self._masked:
            self._masks.append(np.stack(envs.env_method("action_masks")).astype(np.bool_))
        output = actor(self._observations[-1])
        if self._discrete:
            scores = np.where(self._masks[-1], output, -np.inf) if self._masked else output
            action: NDArray[Any] = scores.argmax(axis=1)
        else:
            action = np.clip(output, -1.0, 1.0)
        following: Array = envs.step(action)[0]
        return following

    def _learn(self) -> None:
        import torch

        observations = np.concatenate(self._observations)
        masks = np.concatenate(self._masks) if self._masked else None
        spread = self._recipe.noise * observations.std(axis=0)
        low, high = observations.min(axis=0), observations.max(axis=0)
        for _ in range(self._recipe.updates):
            rows = self._rng.integers(len(observations), size=self._recipe.batch_size)
            noise = self._rng.normal(size=(len(rows), observations.shape[1])) * spread
            batch = np.clip(observations[rows] + noise, low, high).astype(np.float32)
            loss = self._loss(batch, None if masks is None else masks[rows])
            self._optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self._student.parameters(), 1.0)
            self._optimizer.step()
            self._schedule.step()

    def _loss(self, batch: Array, masks: Masks | None) -> torch.Tensor:
        import torch
        from torch.nn import functional

        wanted = torch.from_numpy(self._teacher(batch))
        output = self._student(torch.from_numpy(batch))
        if not self._discrete:
            return functional.mse_loss(output, wanted.clamp(-1.0, 1.0))
        if masks is not None:
            forbidden = torch.from_numpy(~masks)
            wanted, output = (logits.masked_fill(forbidden, -1e8) for logits in (wanted, output))
        temperature = self._recipe.temperature
        wanted, output = (functional.log_softmax(x / temperature, dim=1) for x in (wanted, output))
        # The gradient decreases with the square of the temperature, for which the factor compensates.
        return temperature**2 * functional.kl_div(output, wanted, reduction="batchmean", log_target=True)

    def difference(self, student: Mlp) -> float:
        """Return the difference of the student from the teacher on the last round's states."""
        observations = np.concatenate(self._observations[self._round_begins :])
        ours, theirs = student(observations), self._teacher(observations)
        if not self._discrete:
            return float(np.abs(np.clip(ours, -1.0, 1.0) - np.clip(theirs, -1.0, 1.0)).mean())
        if self._masked:
            masks = np.concatenate(self._masks[self._round_begins :])
            ours, theirs = np.where(masks, ours, -np.inf), np.where(masks, theirs, -np.inf)
        return float((ours.argmax(axis=1) != theirs.argmax(axis=1)).mean())
