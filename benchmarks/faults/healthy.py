"""Healthy programs: plain ones, and many that fool naive rules."""

from __future__ import annotations

from .program import Program

_SPARSE = "sparse_categorical_crossentropy"

DIGITS = Program("digits-mlp")
IMAGES = Program("digits-cnn", data_options={"image": True}, network="cnn", rate=5e-3, steps=100)
MOONS = Program(
    "moons-mlp", data="moons", loss="binary_crossentropy", rate=1e-2, options={"last": "sigmoid"}
)
SMOOTH = Program("smooth-mlp", data="smooth", loss="mean_squared_error", rate=1e-2)
LINEAR = Program(
    "linear-sgd", data="linear", loss="mean_squared_error", optimizer="sgd", rate=0.05,
    options={"widths": ()},
)  # fmt: skip
BLOBS = Program("blobs-mlp", data="blobs", options={"widths": (16,)}, rate=1e-2)
WAVES = Program("waves-lstm", data="waves", network="recurrent", rate=1e-2, steps=80)
MEMORY = Program(
    "memory-simple-rnn", data="first_sign", loss="binary_crossentropy", network="recurrent",
    options={"cell": "simple", "last": "sigmoid"}, rate=1e-2, steps=100,
)  # fmt: skip
# With fewer samples, these would learn them by heart.
WORDS = Program("words-pooled", data="tokens", network="words", rate=1e-2, size=1600)
BITS = Program(
    "bits-mlp", data="digit_bits", loss="binary_crossentropy", rate=1e-2,
    options={"last": "sigmoid"},
)  # fmt: skip
PIXELS = Program(
    "autoencoder", data="digit_pixels", loss="mean_squared_error", rate=1e-2,
    options={"widths": (32, 12, 32)}, learns=0.3,
)  # fmt: skip
DEEP = Program("digits-deep-tanh", options={"widths": (24,) * 6, "activation": "tanh"}, rate=3e-3)

COUNTS = SMOOTH.but("counts-softplus", data="counts", options={"last": "softplus"}, learns=0.3)

READER = Program("reader", data="marked", network="reader", rate=1e-2)
MIXTURE = Program(
    "mixture", data="blobs", data_options={"classes": 8, "features": 6, "spread": 0.2},
    network="mixture", rate=2e-2, steps=160,
)  # fmt: skip

GAN = Program("cloud-gan", data="cloud", network="gan", batch=64, rate=5e-3, steps=250, learns=0.3)


def _plain() -> list[Program]:
    return [DIGITS, IMAGES, MOONS, SMOOTH, LINEAR, BLOBS, WAVES, MEMORY, WORDS, BITS, PIXELS, DEEP]


def _activations() -> list[Program]:
    made = [
        DIGITS.but(f"digits-{name}", options={"activation": name})
        for name in ("tanh", "elu", "gelu", "leaky_relu", "silu", "sigmoid", "softplus", "relu6")
    ]
    selu = {"activation": "selu", "kernel_initializer": "lecun_normal"}
    return [
        *made,
        DIGITS.but("digits-selu-dropout", options={**selu, "dropout": -0.05}),
        DIGITS.but("digits-deep-selu", options={**selu, "widths": (24,) * 10}),
        DIGITS.but("digits-deep-relu-he", options={
            "widths": (32,) * 6, "kernel_initializer": "he_normal"}),
        MOONS.but("moons-tanh", options={"activation": "tanh"}),
        MOONS.but("moons-sigmoid-hidden", options={"activation": "sigmoid"}, rate=5e-2, steps=200),
        SMOOTH.but("smooth-tanh", options={"activation": "tanh"}),
        BLOBS.but("blobs-leaky", options={"activation": "leaky_relu"}),
    ]  # fmt: skip


def _optimizers() -> list[Program]:
    rates = {"sgd": 0.1, "rmsprop": 2e-3, "adagrad": 0.05, "nadam": 2e-3, "adamax": 5e-3,
             "lion": 5e-4, "adadelta": 1.0}  # fmt: skip
    made = [
        DIGITS.but(f"digits-with-{name}", optimizer=name, rate=rate) for name, rate in rates.items()
    ]
    warm = ("warm-up", 0.0, 4e-3, 40)
    return [
        *made,
        DIGITS.but("digits-adamw", optimizer="adamw", optimizer_options={"weight_decay": 0.05}),
        DIGITS.but("digits-momentum", optimizer="sgd", rate=0.02, optimizer_options={
            "momentum": 0.9, "nesterov": True}),
        DIGITS.but("digits-clipnorm", optimizer_options={"clipnorm": 0.1}),
        DIGITS.but("digits-clipvalue", optimizer_options={"clipvalue": 0.01}),
        DIGITS.but("digits-global-clipnorm", optimizer="sgd", rate=0.3, optimizer_options={
            "global_clipnorm": 0.5}),
        DIGITS.but("digits-average", optimizer_options={"use_ema": True}),
        DIGITS.but("digits-accumulate", batch=8, steps=240, rate=5e-3, optimizer_options={
            "gradient_accumulation_steps": 4}),
        DIGITS.but("digits-warm-up", rate=warm),
        WORDS.but("words-warm-up", rate=("warm-up", 0.0, 1e-2, 30)),
        DIGITS.but("digits-cosine", rate=("cosine", 8e-3, 120)),
        DIGITS.but("digits-restarts", rate=("restarts", 8e-3, 40), steps=160),
        SMOOTH.but("smooth-restarts", rate=("restarts", 2e-2, 30), steps=150),
        DIGITS.but("digits-decay", rate=("decay", 1e-2, 20, 0.7)),
        DIGITS.but("digits-steps", rate=("steps", (60, 90), (5e-3, 5e-4, 5e-5))),
        SMOOTH.but("smooth-lion", optimizer="lion", rate=1e-3, steps=150),
        LINEAR.but("linear-fast-sgd", rate=0.15),
    ]  # fmt: skip


def _batches() -> list[Program]:
    return [
        BLOBS.but("blobs-batch-1", batch=1, size=300, steps=300, rate=3e-3),
        DIGITS.but("digits-batch-2", batch=2, size=600, steps=300, rate=2e-3),
        SMOOTH.but("smooth-batch-1", batch=1, size=300, steps=300, rate=3e-3),
        DIGITS.but("digits-batch-256", batch=256, size=768, steps=90, rate=1e-2),
        BLOBS.but("blobs-full-batch", batch=512, size=512, steps=60, rate=2e-2),
        MOONS.but(
            "moons-full-batch-sgd", batch=256, size=256, steps=200, optimizer="sgd", rate=0.5
        ),
    ]


def _regularised() -> list[Program]:
    return [
        DIGITS.but("digits-dropout", options={"dropout": 0.5}),
        DIGITS.but(
            "digits-heavy-dropout", options={"dropout": 0.75, "widths": (64, 64)}, steps=160
        ),
        IMAGES.but("cnn-dropout", options={"dropout": 0.3}),
        DIGITS.but("digits-noise", options={"first": ("noise",)}),
        DIGITS.but("digits-l1", options={"kernel_regularizer": ("L1", 2e-3)}, steps=160),
        DIGITS.but("digits-strong-l1", options={"kernel_regularizer": ("L1", 1e-2)}, steps=200),
        IMAGES.but("cnn-l1", options={"kernel_regularizer": ("L1", 2e-3)}),
        DIGITS.but("digits-l2", options={"kernel_regularizer": ("L2", 1e-2)}),
        DIGITS.but("digits-max-norm", options={"kernel_constraint": 1.0}),
        SMOOTH.but("smooth-l2", options={"kernel_regularizer": ("L2", 1e-3)}),
        WAVES.but("waves-dropout", options={"dropout": 0.3}),
    ]


def _normalised() -> list[Program]:
    return [
        DIGITS.but("digits-batch-norm", options={"norm": "batch"}),
        DIGITS.but("digits-layer-norm", options={"norm": "layer"}),
        IMAGES.but("cnn-batch-norm", options={"norm": "batch"}),
        IMAGES.but("cnn-group-norm", options={"norm": "group"}),
        DIGITS.but("digits-deep-sigmoid-normed", options={
            "widths": (24,) * 4, "activation": "sigmoid", "norm": "batch"}, rate=1e-2, size=1280),
        SMOOTH.but("smooth-batch-norm", options={"norm": "batch"}),
        DIGITS.but("digits-raw-normed", data_options={"scale_inputs": (97.0, 76.0)}, options={
            "first": ("norm",)}),
    ]  # fmt: skip


def _images() -> list[Program]:
    return [
        IMAGES.but("cnn-deep", options={
            "filters": (8, 8, 12, 12, 16, 16), "pool": (2, 4)}, steps=120),
        IMAGES.but("cnn-deep-normed", options={
            "filters": (8, 8, 12, 12, 16, 16), "pool": (2, 4), "norm": "batch"}),
        IMAGES.but("cnn-separable", options={"layer": "separable", "filters": (12, 16)}, rate=1e-2),
        IMAGES.but("cnn-average", options={"ending": "average", "filters": (16, 24)}, rate=1e-2,
                   steps=160, learns=0.4),
        IMAGES.but("cnn-sgd", optimizer="sgd", rate=0.05, optimizer_options={"momentum": 0.9}),
        IMAGES.but("cnn-rescaled", data_options={"scale_inputs": (97.0, 76.0)}, options={
            "first": ("rescaling",)}),
    ]  # fmt: skip


def _residual() -> list[Program]:
    net = {"network": "residual", "options": {"blocks": 4}}
    return [
        DIGITS.but("residual-mlp", **net),
        DIGITS.but("residual-deep", network="residual", options={"blocks": 10, "scale": 0.3}),
        DIGITS.but("residual-zero-last", network="residual", options={
            "blocks": 4, "zero_last": True}, size=1280),
        DIGITS.but("residual-normed", network="residual", options={"blocks": 4, "norm": "batch"}),
        IMAGES.but("residual-cnn", network="residual", options={
            "blocks": 2, "width": 16, "convolution": True}, rate=1e-2, steps=140, learns=0.4),
        SMOOTH.but("residual-smooth", network="residual", options={"blocks": 3, "scale": 0.5}),
    ]  # fmt: skip


def _zero_heads() -> list[Program]:
    zero = {"head": {"kernel_initializer": "zeros"}}
    return [
        DIGITS.but("digits-zero-head", options=zero),
        IMAGES.but("cnn-zero-head", options=zero),
        SMOOTH.but("smooth-zero-head", options=zero),
        MOONS.but("moons-zero-head", options=zero),
        LINEAR.but("linear-from-zero", options=zero),
    ]


def _sequences() -> list[Program]:
    return [
        WAVES.but("waves-gru", options={"cell": "gru"}),
        WAVES.but("waves-both-ways", options={"bidirectional": True, "widths": (8,)}, steps=60),
        WAVES.but("waves-stacked", options={"widths": (10, 10)}, steps=60),
        WAVES.but("waves-simple-rnn", options={"cell": "simple"}),
        WAVES.but("waves-convolution", network="convolution_in_time", steps=120),
        MEMORY.but("memory-gru", options={"cell": "gru"}, rate=2e-2, steps=160, size=1600),
        MEMORY.but("memory-lstm", options={"cell": "lstm"}, rate=2e-2, steps=160, size=1600,
                   learns=0.4),
        WORDS.but("words-wide", options={"width": 32}),
        WORDS.but("words-gru", options={"recurrent_width": 10}, steps=100),
        WORDS.but("words-sgd", optimizer="sgd", rate=1.0, steps=200),
        WORDS.but("words-transformer", network="transformer", rate=5e-3, steps=100),
        WORDS.but("words-deep-transformer", network="transformer", options={"blocks": 3},
                  rate=3e-3, steps=80),
        BLOBS.but("bags-of-words", data="one_hot_words", size=1600),
    ]  # fmt: skip


def _attending() -> list[Program]:
    return [
        READER,
        READER.but("reader-wide", options={"width": 32, "heads": 4}),
        READER.but("reader-one-head", options={"heads": 1}),
        READER.but("reader-sharper", options={"sharp": 1.5}),
        READER.but("reader-sgd", optimizer="sgd", rate=0.3, optimizer_options={"momentum": 0.9}),
        READER.but("reader-quick", rate=3e-2),
    ]


def _mixtures() -> list[Program]:
    return [
        MIXTURE,
        MIXTURE.but("mixture-of-four", options={"experts": 4}),
        MIXTURE.but("mixture-of-twelve", options={"experts": 12}, batch=128, size=1280),
        MIXTURE.but("mixture-balanced-more", options={"balance": 0.5}),
        MIXTURE.but("mixture-large-batch", batch=128, size=1280),
        MIXTURE.but("mixture-some-preference", options={"preference": 0.5}),
    ]


def _frozen() -> list[Program]:
    return [
        DIGITS.but("digits-frozen-first", options={"frozen": ("dense_1",)}),
        DIGITS.but("digits-random-features", options={
            "frozen": ("dense_1", "dense_2"), "widths": (64, 64)}, rate=1e-2),
        IMAGES.but("cnn-frozen", options={"frozen": ("conv_1",)}),
        DIGITS.but("digits-fine-tune", options={"widths": (32, 32)}, rate=2e-4, fit={
            "before": 150, "freeze": ("dense_1",)}, steps=60),
        IMAGES.but("cnn-fine-tune-normed", options={"norm": "batch"}, rate=3e-4, fit={
            "before": 100, "freeze": ("conv_1", "norm_1")}, steps=60),
        DIGITS.but("digits-head-only", rate=5e-4, fit={
            "before": 150, "freeze": ("dense_1", "dense_2")}, steps=60),
    ]  # fmt: skip


def _precision() -> list[Program]:
    return [
        DIGITS.but("digits-mixed-float16", policy="mixed_float16"),
        SMOOTH.but("smooth-mixed-float16", policy="mixed_float16"),
        DIGITS.but("digits-mixed-bfloat16", policy="mixed_bfloat16"),
        MOONS.but("moons-mixed-bfloat16", policy="mixed_bfloat16"),
        DIGITS.but("digits-float64", policy="float64"),
    ]


def _losses() -> list[Program]:
    logits = {"loss_options": {"from_logits": True}, "options": {"last": None}}
    return [
        DIGITS.but("digits-logits", **logits),
        MOONS.but("moons-logits", **logits),
        BITS.but("bits-logits", **logits),
        MOONS.but("moons-hinge", data_options={"labels": (-1.0, 1.0)}, loss="hinge", options={
            "last": "tanh"}),
        MOONS.but("moons-squared-hinge", data_options={"labels": (-1.0, 1.0)}, loss="squared_hinge",
                  options={"last": None}),
        MOONS.but("moons-focal", loss="binary_focal_crossentropy"),
        MOONS.but("moons-mse", loss="mean_squared_error"),
        MOONS.but("moons-two-units", loss=_SPARSE, options={"last": "softmax", "units": 2}),
        SMOOTH.but("smooth-huber", loss="huber"),
        SMOOTH.but("smooth-mae", loss="mean_absolute_error"),
        SMOOTH.but("smooth-log-cosh", loss="log_cosh"),
        SMOOTH.but("smooth-quantile", loss="quantile", learns=0.3),
        SMOOTH.but("smooth-likelihood", loss="gaussian_likelihood", rate=3e-3),
        SMOOTH.but("counts-poisson", data="counts", loss="poisson", options={"last": "exponential"},
                   learns=0.3),
        COUNTS,
        SMOOTH.but("counts-relu", data="counts", options={
            "last": "relu", "head": {"bias_initializer": ("constant", 1.0)}}, learns=0.3),
        SMOOTH.but("unit-interval-sigmoid", data="unit_interval", options={"last": "sigmoid"}),
        SMOOTH.but("symmetric-interval-tanh", data="symmetric_interval", options={"last": "tanh"}),
        PIXELS.but("autoencoder-sigmoid", options={"last": "sigmoid"}, loss="binary_crossentropy"),
        PIXELS.but("autoencoder-denoising", data_options={"noise": 0.2}),
        PIXELS.but("autoencoder-cosine", loss="cosine_similarity", data_options={
            "task": "direction"}),
        PIXELS.but("autoencoder-variational", network="variational", options={"widths": None},
                   learns=0.15),
    ]  # fmt: skip


def _scales() -> list[Program]:
    return [
        SMOOTH.but(
            "smooth-small-targets",
            data_options={"scale": 0.05},
            rate=3e-3,
            steps=200,
            options={"head": {"kernel_initializer": "zeros"}},
        ),
        SMOOTH.but("smooth-tens", data_options={"scale": 10.0}, rate=2e-2, steps=200),
        LINEAR.but("linear-thousands", data_options={"scale": 1000.0}),
        LINEAR.but("linear-thousandths", data_options={"scale": 0.001}),
        DIGITS.but("digits-0-to-16", data_options={"scale_inputs": (6.1, 4.8)}),
        LINEAR.but("linear-noisy", data_options={"noise": 0.7}, learns=0.3),
        SMOOTH.but("smooth-few-features", data_options={"features": 4}),
    ]


def _special() -> list[Program]:
    return [
        DIGITS.but("digits-shared-layer", network="two_towers"),
        DIGITS.but("digits-wide", options={"widths": (256,)}, rate=2e-3),
        DIGITS.but("digits-linear", options={"widths": ()}, rate=1e-2),
        DIGITS.but("digits-noisy-labels", data_options={"shuffle_labels": 0.2}, learns=0.4),
        DIGITS.but("digits-two-classes", data_options={"binary": True}, loss="binary_crossentropy",
                   options={"last": "sigmoid"}),
        MOONS.but("moons-rare-class", data_options={"share": 0.1}, steps=200, learns=0.4),
        BITS.but("bits-cnn-free", options={"widths": (48,)}),
        GAN,
        GAN.but("gan-wide", options={"width": 40}, rate=4e-3),
        GAN.but("gan-large-batch", batch=128, rate=6e-3),
    ]  # fmt: skip


def _converged() -> list[Program]:
    """They learn quickly and then have nothing left to learn: flat, but well."""
    return [
        BLOBS.but("blobs-converged", data_options={"spread": 0.2}, steps=300, rate=2e-2),
        LINEAR.but("linear-converged", steps=250, rate=0.1),
        MOONS.but("moons-converged", data_options={"noise": 0.05}, steps=300, rate=2e-2),
        LINEAR.but("linear-exact", data_options={"noise": 0.0}, steps=250, rate=0.1),
        LINEAR.but("linear-noisy-converged", data_options={"noise": 0.7}, steps=250, learns=0.3),
        BLOBS.but("blobs-separable-sgd", data_options={"spread": 0.1}, steps=250, optimizer="sgd",
                  rate=0.2),
    ]  # fmt: skip


def programs() -> list[Program]:
    """All healthy programs."""
    families = (
        _plain, _activations, _optimizers, _batches, _regularised, _normalised, _images, _residual,
        _zero_heads, _sequences, _attending, _mixtures, _frozen, _precision, _losses, _scales,
        _special, _converged,
    )  # fmt: skip
    return [program for family in families for program in family()]
