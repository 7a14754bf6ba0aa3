"""Layers of published architectures: parameters, operations of a sample's forward pass, sizes of outputs.

All follow from the architectures' sizes. ResNet-50: He et al., arXiv 1512.03385; VGG-16: Simonyan and
Zisserman, arXiv 1409.1556; BERT-large: Devlin et al., arXiv 1810.04805; the decoder has GPT-2's blocks with a
width of 2,048 and 24 layers, without the projection to the vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

BERT_TOKENS, DECODER_TOKENS = 128, 1024
_VOCABULARY = {"bert_large": 30_522, "decoder": 50_257}


class Layer(NamedTuple):
    """A layer that computes without interruption.

    Attributes:
        parameters: Parameters, which have gradients.
        forward_flops: Operations of one sample's forward pass.
        outputs: Values of one sample that the next layer is given.
        last_of_block: Whether the next layer needs nothing but these outputs, so that a pipeline can be cut.
        divisible: Whether tensor parallelism divides it, with one all-reduce of the outputs in the forward
            and one of the inputs' gradients in the backward pass (Shoeybi et al., arXiv 1909.08053).
    """

    parameters: float
    forward_flops: float
    outputs: float
    last_of_block: bool = True
    divisible: bool = False


def convolution(
    kernel: int, channels_in: int, channels_out: int, size: int, *, last_of_block: bool = True
) -> Layer:
    """Return a convolution with the normalisation behind it.

    Args:
        kernel: Side of the kernel.
        channels_in: Input channels.
        channels_out: Output channels.
        size: Side of the output.
        last_of_block: Whether the next layer needs its output alone.
    """
    weights = kernel**2 * channels_in * channels_out
    outputs = float(channels_out * size**2)
    return Layer(weights + 2.0 * channels_out, 2.0 * weights * size**2, outputs, last_of_block)


def dense(width_in: int, width_out: int, tokens: int = 1) -> Layer:
    """Return a dense layer with biases."""
    weights = width_in * width_out
    return Layer(weights + width_out, 2.0 * weights * tokens, float(width_out * tokens))


def vgg16() -> Iterator[Layer]:
    """Yield the layers of VGG-16: 138 million parameters."""
    channels = 3
    for size, width, count in ((224, 64, 2), (112, 128, 2), (56, 256, 3), (28, 512, 3), (14, 512, 3)):
        for place in range(count):
            weights = 9 * channels * width
            pooled = 4.0 if place == count - 1 else 1.0
            yield Layer(weights + width, 2.0 * weights * size**2, width * size**2 / pooled)
            channels = width
    yield dense(512 * 49, 4096)
    yield dense(4096, 4096)
    yield dense(4096, 1000)


def resnet50() -> Iterator[Layer]:
    """Yield the layers of ResNet-50: 25.6 million parameters."""
    yield convolution(7, 3, 64, 112)._replace(outputs=64.0 * 56**2)
    channels = 64
    for size, width, count in ((56, 64, 3), (28, 128, 4), (14, 256, 6), (7, 512, 3)):
        for block in range(count):
            yield convolution(1, channels, width, size, last_of_block=False)
            yield convolution(3, width, width, size, last_of_block=False)
            yield convolution(1, width, 4 * width, size, last_of_block=block > 0)
            if block == 0:
                yield convolution(1, channels, 4 * width, size)
            channels = 4 * width
    yield dense(2048, 1000)


def transformer(name: str, width: int, blocks: int, tokens: int, positions: int) -> Iterator[Layer]:
    """Yield an embedding, and an attention and a feed-forward layer of each block."""
    outputs = float(tokens * width)
    parameters = float((_VOCABULARY[name] + positions) * width)
    yield Layer(parameters, 2.0 * tokens * width, outputs, divisible=True)
    for _ in range(blocks):
        attention = 4.0 * width * width
        flops = 2.0 * tokens * attention + 4.0 * tokens**2 * width
        yield Layer(attention + 6.0 * width, flops, outputs, divisible=True)
        feed_forward = 8.0 * width * width
        yield Layer(feed_forward + 7.0 * width, 2.0 * tokens * feed_forward, outputs, divisible=True)


MODELS: dict[str, tuple[Layer, ...]] = {
    "resnet50": tuple(resnet50()),
    "vgg16": tuple(vgg16()),
    "bert_large": tuple(transformer("bert_large", 1024, 24, BERT_TOKENS, 514)),
    "decoder": tuple(transformer("decoder", 2048, 24, DECODER_TOKENS, 1024)),
}
"""Layers by model, in the order of the forward pass."""
