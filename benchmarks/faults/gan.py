"""A small generator and discriminator that train against each other, with two optimizers."""

from __future__ import annotations

import keras
import numpy as np
from keras import layers, ops

CODE = 4


class Gan(keras.Model):
    """Its `train_step` is the one of the backend that Keras runs on."""

    def __init__(self, width: int, rate: float) -> None:
        super().__init__(name="gan")
        relu = {"activation": "leaky_relu"}
        self.generator = keras.Sequential(
            [keras.Input((CODE,)), layers.Dense(width, **relu), layers.Dense(width, **relu),
             layers.Dense(2)], name="generator")  # fmt: skip
        self.discriminator = keras.Sequential(
            [keras.Input((2,)), layers.Dense(width, **relu), layers.Dense(width, **relu),
             layers.Dense(1)], name="discriminator")  # fmt: skip
        self.judge = keras.losses.BinaryCrossentropy(from_logits=True)
        self.seeds = keras.random.SeedGenerator(7)
        self.rates = rate

    def compile(self) -> None:
        super().compile(loss=None, jit_compile=False)
        self.generator_optimizer = keras.optimizers.Adam(self.rates, beta_1=0.5)
        self.discriminator_optimizer = keras.optimizers.Adam(self.rates, beta_1=0.5)

    def call(self, points):
        return self.discriminator(points)

    def _both_losses(self, real):
        codes = keras.random.normal((len(real), CODE), seed=self.seeds)
        fake = self.generator(codes)
        yes, no = ops.ones((len(real), 1)), ops.zeros((len(real), 1))
        return (
            self.judge(yes, self.discriminator(fake)),
            lambda: (
                self.judge(yes, self.discriminator(real))
                + self.judge(no, self.discriminator(ops.stop_gradient(fake)))
            ),
        )

    def train_step(self, data):
        import torch

        real = data[0]
        for_generator, for_discriminator = self._both_losses(real)
        self.zero_grad()
        for_generator.backward()
        weights = self.generator.trainable_weights
        gradients = [w.value.grad for w in weights]
        with torch.no_grad():
            self.generator_optimizer.apply(gradients, weights)
        self.zero_grad()
        loss = for_discriminator()
        loss.backward()
        weights = self.discriminator.trainable_weights
        gradients = [w.value.grad for w in weights]
        with torch.no_grad():
            self.discriminator_optimizer.apply(gradients, weights)
        return {"loss": for_generator + loss}

    def test_step(self, data):
        return {"loss": self._both_losses(data[0])[0]}

    def quality(self) -> float:
        """How near its points come to the cloud's mean and deviation: 1 for there, 0 for far."""
        points = ops.convert_to_numpy(self.generator(keras.random.normal((400, CODE), seed=3)))
        off = np.abs(points.mean(0) - [1.0, -1.0]).mean() + np.abs(points.std(0) - 0.5).mean()
        return float(1 - off)
