"""Keras: the rendezvous of its back end (TensorFlow's `TF_CONFIG`, torch's `env://` or JAX's coordinator).

`model.fit` of Keras 3 fails under TensorFlow's MultiWorkerMirroredStrategy (seen with 3.15), so with TensorFlow
the legacy Keras is selected, which is the package `tf_keras`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from dlrun.frameworks import jax
from dlrun.frameworks.common import defaults, presets
from dlrun.frameworks.protocol import Role, Setting, Shape
from dlrun.frameworks.tensorflow import tensorflow
from dlrun.frameworks.torch import env_ranks
from dlrun.model.keys import key
from dlrun.model.observed import Installed
from dlrun.model.problem import Problem
from dlrun.model.text import Text

NAME = "keras"
TITLE = "Keras"
LIBRARIES = ("tensorflow", *presets.TORCH_LIBRARIES)  # whichever its back end is
PRESETS = presets.TENSORFLOW


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Options of Keras jobs."""

    backend: Literal["tensorflow", "torch", "jax"] = key("Keras' back end", default="tensorflow")


def roles(shape: Shape, command: Sequence[Text], options: Options) -> Sequence[Role]:
    """One process per rank."""
    return (Role(name="rank", place="rank", argv=tuple(command), variables=_variables(shape, options)),)


def ports(shape: Shape, options: Options) -> int:
    """One per rank of a node with TensorFlow, else one."""
    return shape.ranks_per_node if options.backend == "tensorflow" else 1


def problems(
    shape: Shape,
    command: Sequence[Text],
    options: Options,
    variables: Mapping[str, str],
    installed: Installed,
) -> Sequence[Problem]:
    """Problems of the back end; with TensorFlow, a missing `tf_keras`."""
    if options.backend == "torch":
        return env_ranks.gloo_problems(shape, variables)
    if options.backend == "jax":
        return jax.problems(shape, command, defaults.NoOptions(), variables, installed)
    # None: the packages of the environment are unknown here.
    if installed.has("tf-keras") is not False:
        return ()
    problem = Problem(
        code="DLR036",
        message="`tf_keras` is not installed, and Keras 3 fails under MultiWorkerMirroredStrategy",
        help="install `tf_keras`, or use `keras.backend: torch` or `jax`",
    )
    return (problem,)


def _variables(shape: Shape, options: Options) -> tuple[Setting, ...]:
    if options.backend == "torch":
        return (*_backend("torch"), *env_ranks.environment(shape))
    if options.backend == "jax":
        return (*_backend("jax"), *jax.coordinator(shape))
    why = "Keras 3 fails under MultiWorkerMirroredStrategy; tf_keras does not"
    legacy = defaults.settings("tf_keras README", [("TF_USE_LEGACY_KERAS", "1", why)])
    return (*legacy, *tensorflow.worker_config(shape))


def _backend(name: str) -> tuple[Setting, ...]:
    return defaults.settings(
        "Keras documentation, Configuring your backend", [("KERAS_BACKEND", name, "from the spec")]
    )
