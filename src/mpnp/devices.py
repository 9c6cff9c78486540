"""Devices: how the tasks of a batch are spread over those of this process, and of others that train the same run."""

import collections
import contextlib
import os

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree, Shaped

from mpnp.errors import InputError

__all__ = [
    "TASKS",
    "batch_mesh",
    "describe",
    "is_lead",
    "join",
    "local_copy",
    "replicate",
    "split_cpu",
    "spread",
    "wait_for_all",
]

TASKS = "tasks"
"""Name of the axis along which a batch is spread."""


LEAST_TASKS = 64
"""Tasks of a batch that make it worth while to give a core a share of its own: each repeats what is not shared, such as the
optimiser's part of a step, and gathers its tasks by size among fewer."""


def split_cpu(batch_size: int) -> None:
    """Make cores of the CPU devices of their own, which share a batch by its tasks and not every small operation in it.

    Call it before anything is computed: later, or where the user has decided on devices, it changes nothing.
    """
    wanted = min(_num_cores(), batch_size // LEAST_TASKS)
    chosen = "JAX_NUM_CPU_DEVICES" in os.environ or "host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if chosen or wanted < 2:
        return
    with contextlib.suppress(RuntimeError):  # JAX has started
        jax.config.update("jax_num_cpu_devices", wanted)
        # Devices wait for each other in threads of one pool, which must therefore hold more than all of them.
        os.environ.setdefault("NPROC", str(_num_cores() + 1))


def _num_cores() -> int:
    """Cores that this process may use, where the system says so."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def join(coordinator: str, num_processes: int, process_id: int) -> None:
    """Become one of several processes that train one run; call it before anything is computed."""
    if not 0 <= process_id < num_processes:
        raise InputError(f"process_id must lie between 0 and num_processes - 1 = {num_processes - 1}, got {process_id}")
    jax.distributed.initialize(coordinator, num_processes, process_id)


def batch_mesh(batch_size: int) -> Mesh:
    """The devices that share a batch: as many as divide it evenly."""
    devices = jax.devices()
    count = max(number for number in range(1, len(devices) + 1) if batch_size % number == 0)
    if jax.process_count() > 1 and count < len(devices):
        raise InputError(
            f"a batch of {batch_size} tasks cannot be spread evenly over {len(devices)} devices in {jax.process_count()} "
            "processes; choose a --batch-size that they divide"
        )
    return Mesh(np.asarray(devices[:count]), (TASKS,))


def describe(mesh: Mesh) -> str:
    """Number and kind of the devices, for people."""
    kinds = collections.Counter(device.device_kind for device in mesh.devices.flat)
    devices = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    return f"{devices} in {jax.process_count()} processes" if jax.process_count() > 1 else devices


def spread(mesh: Mesh, batch: Shaped[np.ndarray, "batch *rest"]) -> jax.Array:
    """A batch that every process knows, each device holding its share."""
    return _place(batch, NamedSharding(mesh, PartitionSpec(TASKS)))


def replicate(mesh: Mesh, tree: PyTree) -> PyTree:
    """The same arrays on every device; every process must bring the same ones."""
    sharding = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda leaf: _place(np.asarray(leaf), sharding), tree)


def _place(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def local_copy(tree: PyTree) -> PyTree:
    """This process's own copy of replicated arrays, to compute with alone."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)


def is_lead() -> bool:
    """Whether this process is the one that writes."""
    return jax.process_index() == 0


def wait_for_all(what: str) -> None:
    """Wait until all processes have come here."""
    multihost_utils.sync_global_devices(what)
