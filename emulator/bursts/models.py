"""Generators of layer tables: stages of layers that differ in how well they divide among GPUs.

A layer that takes T at a batch of 32 takes T max(floor, fixed + (1 - fixed) b / 32) at a batch of b. The
stages are fitted: the totals over the layers are those of A100 profiles in DeepPool's repository to 5 %,
and so are the plans of Wide-ResNet-101-2 (`scripts/training/burst_tables.py`). The layers of the models and
their sizes are those of the published architectures; how the time divides among them is not measured.

Reference: Park et al., Efficient Strong Scaling Through Burst Parallel Training, MLSys 2022, arXiv
2112.10065.
"""

from __future__ import annotations

from typing import NamedTuple

REFERENCE_BATCH = 32


class Stage(NamedTuple):
    """A number of equal layers.

    Attributes:
        layers: Number of layers, or of blocks that are not divided.
        time_s: Forward and backward time of all of them on one GPU, at a batch of 32.
        fixed: Share of it that does not shrink with the batch.
        floor: Least share of it, whatever the batch.
        activation_bytes: Output of a layer for one sample, at 16 bits a value.
        parameters: Parameters of a layer.
    """

    layers: int
    time_s: float
    fixed: float
    floor: float
    activation_bytes: float
    parameters: float


VGG16 = (
    Stage(2, 6.6e-3, 0.005, 0.02, 6.42e6, 19.4e3),
    Stage(2, 9.4e-3, 0.014, 0.03, 3.21e6, 110.8e3),
    Stage(3, 15.6e-3, 0.028, 0.045, 1.61e6, 492e3),
    Stage(3, 15.6e-3, 0.046, 0.07, 0.80e6, 1.97e6),
    Stage(3, 4.6e-3, 0.10, 0.14, 0.20e6, 2.36e6),
)
"""The 13 convolutions of VGG-16; Simonyan and Zisserman, arXiv 1409.1556."""

WIDE_RESNET101_2 = (
    Stage(1, 6.58e-3, 0.0051, 0.0304, 0.40e6, 9.4e3),
    Stage(3, 19.38e-3, 0.0083, 0.0343, 1.61e6, 230e3),
    Stage(4, 19.61e-3, 0.0095, 0.1354, 0.80e6, 950e3),
    Stage(9, 46.66e-3, 0.2038, 0.1423, 0.40e6, 3.42e6),
    Stage(7, 6.05e-3, 0.1921, 0.1890, 0.40e6, 3.42e6),
    Stage(7, 2.40e-3, 0.2417, 0.4865, 0.40e6, 3.42e6),
    Stage(3, 5.38e-3, 0.1103, 0.5465, 0.20e6, 13.6e6),
)
"""The stem and the 33 bottleneck blocks of Wide-ResNet-101-2; Zagoruyko and Komodakis, arXiv 1605.07146."""

INCEPTION_V3 = (
    Stage(5, 13.8e-3, 0.065, 0.08, 1.4e6, 60e3),
    Stage(3, 7.2e-3, 0.15, 0.17, 0.7e6, 280e3),
    Stage(1, 2.8e-3, 0.13, 0.15, 0.4e6, 1.15e6),
    Stage(4, 11.4e-3, 0.19, 0.21, 0.44e6, 1.7e6),
    Stage(1, 1.9e-3, 0.20, 0.22, 0.16e6, 1.7e6),
    Stage(2, 3.7e-3, 0.28, 0.30, 0.26e6, 5.5e6),
)
"""The stem and the eleven modules of Inception-v3; Szegedy et al., arXiv 1512.00567."""

MODELS: dict[str, tuple[Stage, ...]] = {
    "vgg16": VGG16,
    "wide_resnet101_2": WIDE_RESNET101_2,
    "inception_v3": INCEPTION_V3,
}
"""Stages by model."""
