"""Opens sessions of ONNX Runtime: chooses the device, and loads a model.

The module handles files and devices. It must not depend on inputs or outputs. Only workers load
ONNX Runtime. The CUDA code follows the documentation and has not been tested on a GPU.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

from pydantic import Field

from strandline.plan.stages.stage import Stage
from strandline_packs.models.model_files import ModelError


class Device(StrEnum):
    """The device of a model."""

    AUTO = "auto"
    CPU = "cpu"
    CUDA = "cuda"


class SessionParams(Stage.Params):
    """Configures the device of a model, and its threads."""

    device: Device = Field(
        default=Device.AUTO,
        description="`cpu`, `cuda`, or `auto`: CUDA if the worker has a GPU "
        "(`resources.gpu`, which may be a fraction) and onnxruntime-gpu, otherwise the CPU.",
    )
    threads: int = Field(default=1, ge=1, description="Threads of a worker on the CPU.")


def open_session(path: Path, name: str, params: SessionParams) -> Any:  # noqa: ANN401 - ONNX Runtime's
    """Return a session for a model, on the device chosen by the parameters and the environment.

    Raises:
        ModelError: the model can't be loaded, or the device is unavailable.
    """
    available = import_module("onnxruntime").get_available_providers()
    provider = choose_provider(params.device, available, os.environ)
    return start_session(path, name, provider, threads=params.threads)


def start_session(path: Path, name: str, provider: str, *, threads: int) -> Any:  # noqa: ANN401 - ONNX Runtime's
    """Return a deterministic session of ONNX Runtime for a model.

    Raises:
        ModelError: the model can't be loaded. The message contains `name`.
    """
    runtime = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.use_deterministic_compute = True
    options.log_severity_level = 3  # errors only
    try:
        return runtime.InferenceSession(str(path), options, providers=[provider])
    except Exception as error:  # ONNX Runtime has a separate class for each kind of error
        msg = f"{name}: the model can't be loaded ({error})"
        raise ModelError(msg) from error


def choose_provider(
    device: Device, available: Sequence[str], environment: Mapping[str, str]
) -> str:
    """Return ONNX Runtime's provider for a device.

    Raises:
        ModelError: CUDA is requested but unavailable.
    """
    has_cuda = "CUDAExecutionProvider" in available
    if device is Device.CUDA and not has_cuda:
        msg = "CUDA is requested, but ONNX Runtime has no CUDA support; install onnxruntime-gpu"
        raise ModelError(msg)
    # Ray sets the variable for workers with a GPU. An empty value or -1 hides all GPUs.
    is_given = environment.get("CUDA_VISIBLE_DEVICES", "") not in {"", "-1"}
    if device is Device.CUDA or (device is Device.AUTO and has_cuda and is_given):
        return "CUDAExecutionProvider"
    return "CPUExecutionProvider"


def describe_tensors(tensors: Iterable[Any]) -> str:
    """Describe the inputs or outputs of a session, such as `x tensor(float) ['pictures', 3]`."""
    return ", ".join(f"{each.name} {each.type} {each.shape}" for each in tensors)
