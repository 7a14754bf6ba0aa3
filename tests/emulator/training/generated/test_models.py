"""Layers of architectures."""

from __future__ import annotations

import pytest

from sysgym.emulator.training.generated.models import BERT_TOKENS, MODELS


@pytest.mark.parametrize(
    ("model", "millions", "gigaflops"),
    [("resnet50", 25.6, 7.7), ("vgg16", 138.4, 30.9), ("bert_large", 334.0, 79.0)],
)
def test_architectures_have_the_published_sizes(model: str, millions: float, gigaflops: float) -> None:
    """Parameters as published; operations of a sample, twice the multiplications."""
    layers = MODELS[model]
    assert sum(layer.parameters for layer in layers) / 1e6 == pytest.approx(millions, rel=0.005)
    assert sum(layer.forward_flops for layer in layers) / 1e9 == pytest.approx(gigaflops, rel=0.03)


def test_outputs_are_those_of_the_architectures() -> None:
    """ResNet-50: 256 channels of 56 x 56 to 2,048 of 7 x 7; VGG-16: 512 of 7 x 7 before the dense layers."""
    blocks = [layer.outputs for layer in MODELS["resnet50"] if layer.last_of_block]
    assert len(blocks) == 1 + 3 + 4 + 6 + 3 + 1
    assert blocks[:2] == [64 * 56**2, 256 * 56**2]
    assert blocks[-2:] == [2048 * 7**2, 1000.0]
    assert MODELS["vgg16"][12].outputs == 512 * 7**2
    assert {layer.outputs for layer in MODELS["bert_large"]} == {float(BERT_TOKENS * 1024)}
    assert all(layer.divisible for layer in MODELS["decoder"])
    assert not any(layer.divisible for layer in MODELS["vgg16"])
