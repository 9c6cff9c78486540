"""Data parallelism: spread the tasks of a batch over the devices of one or several processes."""

import collections
import contextlib
import os

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import PyTree, Shaped

from mpnp.errors import InputError, first_line

__all__ = [
    "TASKS",
    "batch_mesh",
    "describe",
    "is_lead",
    "join",
    "join_job",
    "local_copy",
    "replicate",
    "split_cpu",
    "spread",
    "wait_for_all",
]

TASKS = "tasks"
"""Name of the mesh axis along which a batch is split."""


LEAST_TASKS = 64
"""Minimum number of tasks per core. With fewer, work repeated on every core, such as the update, outweighs the gain."""


def split_cpu(batch_size: int) -> None:
    """Make every CPU core a JAX device, so that cores split a batch by tasks instead of splitting each operation.

    Call it before any JAX computation. It has no effect later, or if the user configured devices.
    """
    wanted = min(_num_cores(), batch_size // LEAST_TASKS)
    chosen = "JAX_NUM_CPU_DEVICES" in os.environ or "host_platform_device_count" in os.environ.get("XLA_FLAGS", "")
    if chosen or wanted < 2:
        return
    with contextlib.suppress(RuntimeError):  # JAX is already initialised
        jax.config.update("jax_num_cpu_devices", wanted)
        # Devices block each other in threads of one pool, so the pool must have more threads than there are devices.
        os.environ.setdefault("NPROC", str(_num_cores() + 1))


def _num_cores() -> int:
    """Number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def join(coordinator: str, num_processes: int, process_id: int) -> None:
    """Join several processes that train one run. Call it before any JAX computation."""
    if not 0 <= process_id < num_processes:
        raise InputError(f"process_id must lie between 0 and num_processes - 1 = {num_processes - 1}, got {process_id}")
    jax.distributed.initialize(coordinator, num_processes, process_id)


def join_job() -> None:
    """Join all processes of this job, which JAX finds from SLURM, Open MPI or Kubernetes. Call it as early as `join`."""
    try:
        jax.distributed.initialize()
    except (ImportError, RuntimeError, ValueError) as error:
        raise InputError(
            f"the other processes of this job were not found ({first_line(error)}); start the command by srun, mpirun or in a "
            "Kubernetes job, or pass --coordinator, --num-processes and --process-id"
        ) from None


def batch_mesh(batch_size: int) -> Mesh:
    """A mesh of as many devices as divide the batch evenly."""
    devices = jax.devices()
    count = max(number for number in range(1, len(devices) + 1) if batch_size % number == 0)
    if jax.process_count() > 1 and count < len(devices):
        raise InputError(
            f"a batch of {batch_size} tasks cannot be split evenly over {len(devices)} devices in {jax.process_count()} "
            "processes; choose a --batch-size that is a multiple of the number of devices"
        )
    return Mesh(np.asarray(devices[:count]), (TASKS,))


def describe(mesh: Mesh) -> str:
    """Human-readable number and kind of the devices."""
    kinds = collections.Counter(device.device_kind for device in mesh.devices.flat)
    devices = ", ".join(f"{count} x {kind}" for kind, count in kinds.items())
    return f"{devices} in {jax.process_count()} processes" if jax.process_count() > 1 else devices


def spread(mesh: Mesh, batch: Shaped[np.ndarray, "batch *rest"]) -> jax.Array:
    """Split a batch, known to every process, over the devices."""
    return _place(batch, NamedSharding(mesh, PartitionSpec(TASKS)))


def replicate(mesh: Mesh, tree: PyTree) -> PyTree:
    """Copy arrays to every device. All processes must pass the same arrays."""
    sharding = NamedSharding(mesh, PartitionSpec())
    return jax.tree.map(lambda leaf: _place(np.asarray(leaf), sharding), tree)


def _place(array: np.ndarray, sharding: NamedSharding) -> jax.Array:
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def local_copy(tree: PyTree) -> PyTree:
    """A process-local copy of replicated arrays."""
    return jax.tree.map(lambda leaf: leaf.addressable_data(0), tree)


def is_lead() -> bool:
    """Whether this is the process that writes files."""
    return jax.process_index() == 0


def wait_for_all(what: str) -> None:
    """Wait until all processes reach this point."""
    multihost_utils.sync_global_devices(what)
